"""Commands that change what a job holds: allocate, free, grow, shrink, extend."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from fluxres.cli import completing
from fluxres.cli.arguments import Asked, Moment, RequestCommand, check_window, each_on, endless, targets
from fluxres.cli.new_end import EndCommand, NewEnd, new_end
from fluxres.cli.output import answer, answer_granted, answer_granted_together, answer_held, answer_left, answer_shrunk, note
from fluxres.cli.program import Command
from fluxres.cli.settings import RECORD_OUTPUTS, TABLE_OUTPUTS, Duration, Settings
from fluxres.cli.stores import changing, os_user, source, trying
from fluxres.errors import UnknownJob, UnknownPool, UsageError
from fluxres.render.text import printable

if TYPE_CHECKING:
    from fluxres.cli.kept import Keeper
    from fluxres.model import ResourceGraph


@click.command("allocate", cls=RequestCommand, outputs=RECORD_OUTPUTS)
@click.argument("words", nargs=-1, metavar="[PATH[=N]...|REQUEST]", shell_complete=completing.pool)
@click.option(
    "--find",
    "criteria",
    metavar="CRITERIA",
    shell_complete=completing.criteria,
    help="Allocate all pools that meet the criteria, exclusively.",
)
@click.option(
    "--job",
    "jobs",
    required=True,
    multiple=True,
    metavar="J",
    shell_complete=completing.job,
    help="Id of the job. Several jobs: one for each word, all or none.",
)
@click.option("--start", type=Moment(is_start=True), is_eager=True, metavar="T", help="Start time. Default: now.")
@click.option(
    "--end", type=Moment(after="start"), metavar="T", help="End time. Default: from the duration of the request, else none."
)
@click.option("--duration", type=Duration(is_positive=True), metavar="D", help="Duration, instead of --end.")
@click.option("--or-reserve", is_flag=True, help="If the request cannot start then, reserve the earliest start.")
@click.option("--grow", is_flag=True, help="Allocate to a job that holds resources already; see also fluxres grow.")
@click.option("--user", metavar="U", help="User of a new job. Default: the user who runs the command.")
@click.option("--name", metavar="NAME", help="Name of a new job, for lists.")
@click.option("--dry-run", is_flag=True, help="Show what would be allocated, without allocating it.")
@click.pass_obj
def allocate_command(
    settings: Settings,
    /,
    asked: Asked | list[Asked],
    criteria: str | None,
    jobs: tuple[str, ...],
    start: float | None,
    end: float | None,
    duration: float | None,
    or_reserve: bool,
    grow: bool,
    dry_run: bool,
    **whose: str | None,
) -> None:
    """Allocate pools to a job, now or later, all or nothing.

    PATH is a path or URI, a host (node3), a pool in one (core0@node3) or the name of a pool; brackets fold several:
    node[0-3], /demo/rack0/node[0-3]. N units of each, all without =N. Anything else, and the name of a type, is a REQUEST, for
    which fluxres finds matching pools: a shape such as slot=4/[core=2;gpu=1], options such as -N4 -c8, a jobspec in a file
    (.json, .yaml, .yml) or on standard input (-).

    With several --job options, each word is for one of them, in the same order; all start at the same time, or nothing is
    allocated.
    """
    check_window(start, end)
    end, duration = endless(end, duration)
    if or_reserve and end is not None:
        raise UsageError("both --or-reserve and --end were given", hint="use --duration instead of --end")
    window, owner = Window(start, end, duration, grow), Owner(whose["user"] or os_user(), whose["name"])
    if isinstance(asked, list):
        if owner.name is not None:
            raise UsageError("both several jobs and --name were given", hint="leave out --name")
        if criteria is not None:
            raise UsageError("both several jobs and --find were given", hint="name the pools of each job")
        _allocate_together(settings, asked, jobs, window, owner.user, or_reserve=or_reserve, dry_run=dry_run)
    else:
        _allocate(settings, asked, criteria, jobs[0], window, owner, or_reserve=or_reserve, dry_run=dry_run)


class Window(NamedTuple):
    """Start, end and duration in seconds, None if not given, and whether the job may hold something already."""

    start: float | None
    end: float | None
    duration: float | None
    grow: bool = False


class Owner(NamedTuple):
    """The user of a new job, and its name."""

    user: str
    name: str | None


def _allocate(
    settings: Settings,
    asked: Asked,
    criteria: str | None,
    job: str,
    window: Window,
    owner: Owner,
    *,
    or_reserve: bool,
    dry_run: bool,
) -> None:
    (start, end, duration, grow), (user, name) = window, owner
    with (trying if dry_run else changing)(settings) as graph:
        if not grow:
            _require_unused(graph, [job])
        wanted, policy = asked.on(graph).request, asked.policy
        if criteria is not None and wanted is not None:
            raise UsageError("both a request and --find were given", hint="give one of them")
        if or_reserve and wanted is None:
            raise UsageError("--or-reserve needs a request", hint="named pools are allocated at --start")
        if wanted is None:
            named = targets(graph, asked.pools, criteria)
            granted = graph.allocate(named, job=job, start=start, end=end, duration_s=duration, user=user, name=name)
        elif or_reserve:
            granted = graph.allocate_orelse_reserve(
                wanted, job=job, after=start, duration_s=duration, policy=policy, user=user, name=name
            )
        else:
            granted = graph.allocate(
                wanted, job=job, start=start, end=end, duration_s=duration, policy=policy, user=user, name=name
            )
    answer_granted(settings, graph, granted)


def _allocate_together(
    settings: Settings,
    asked: list[Asked],
    jobs: tuple[str, ...],
    window: Window,
    user: str | None,
    *,
    or_reserve: bool,
    dry_run: bool,
) -> None:
    start, end, duration, grow = window
    with (trying if dry_run else changing)(settings) as graph:
        if not grow:
            _require_unused(graph, jobs)
        each_on(graph, asked)
        policy = next((one.policy for one in asked if one.request is not None), "first")
        if or_reserve and any(one.request is None for one in asked):
            raise UsageError("--or-reserve needs requests", hint="named pools are allocated at --start")
        pairs: list[tuple[Any, str]] = [
            (one.request if one.request is not None else targets(graph, one.pools), job)
            for one, job in zip(asked, jobs, strict=True)
        ]
        if or_reserve:
            granted = graph.allocate_all_orelse_reserve(pairs, after=start, duration_s=duration, policy=policy, user=user)
        else:
            granted = graph.allocate_all(pairs, start=start, end=end, duration_s=duration, policy=policy, user=user)
    answer_granted_together(settings, graph, granted)


def _require_unused(graph: ResourceGraph, jobs: Iterable[str]) -> None:
    """Refuse ids of jobs that hold something, now or later: a mistyped id would merge two jobs. Errors: UsageError."""
    for job in jobs:
        if graph.records.is_holder(job) and job in graph.jobs():
            raise UsageError(
                "holds resources already",
                where=f"job '{job}'",
                hint=f"choose another id, add --grow, or allocate until the job ends: fluxres grow {job} …",
            )


@click.command("free", cls=Command, outputs=TABLE_OUTPUTS)
@click.argument("job", required=False, shell_complete=completing.job)
@click.argument("pools", nargs=-1, metavar="[PATH[=N]]...", shell_complete=completing.pool)
@click.option("--start", type=Moment(), is_eager=True, metavar="T", help="Only from this time on.")
@click.option("--end", type=Moment(after="start"), metavar="T", help="Only until this time.")
@click.option("--ended", is_flag=True, help="Purge the records of ended allocations, of all jobs.")
@click.pass_obj
def free_command(
    settings: Settings, job: str | None, pools: tuple[str, ...], start: float | None, end: float | None, ended: bool
) -> None:
    """Release what a job holds: everything, some pools, or N units of them."""
    if ended == (job is not None):
        wrong = "both a job and --ended were given" if ended else "neither a job nor --ended was given"
        raise UsageError(wrong, hint="give one of them")
    if ended and (start is not None or end is not None):
        raise UsageError("--ended cannot have a window", hint="leave out --start and --end")
    if start is not None:
        check_window(start, end)
    with changing(settings) as graph:
        if job is None:
            dropped = graph.expire()
        else:
            has_program = _has_program(graph, job)
            graph.free(job, _of_one_job(graph, job, pools) if pools else None, start=start, end=end)
    if job is not None:
        if has_program:
            named = printable(job)
            note(f"the program of job {named} is still running, without what was freed (`fluxres cancel {named}` ends it)")
        _note_copies(settings, graph, job)
        answer_left(settings, graph, job)
        return
    line = f"purged ended allocations of {', '.join(dropped)}" if dropped else "no allocations have ended"
    answer(settings, document=lambda: {"ended": dropped}, lines=lambda _style: [line])


def _note_copies(settings: Settings, graph: ResourceGraph, job: str) -> None:
    """Tell of the jobs in graphs that were copied for a job, and allocate nothing any more."""
    store = source(settings)
    for name, standing in store.standings().items():
        is_over = (standing.graph, standing.job) == (graph.name, job) and standing.lapsed is not None
        jobs = store.load(name).jobs() if is_over else []
        if jobs:
            said = f"graph {printable(name)} was copied for job {printable(job)}; jobs there still hold some of it"
            note(f"{said}: {', '.join(map(printable, jobs[:8]))}{' …' * (len(jobs) > 8)}")


def _has_program(graph: ResourceGraph, job: str) -> bool:
    facts = graph.records.facts.get(job)
    return facts is not None and facts.launch is not None


def _of_one_job(graph: ResourceGraph, job: str, pools: Sequence[str]) -> list[tuple[int, int | None]]:
    try:
        return targets(graph, pools)
    except UnknownPool as error:
        other = next((word for word in pools if graph.records.is_holder(word)), None)
        if other is not None:
            raise UsageError(f"'{other}' is a job, not a pool", hint="free one job after the other") from None
        if "/" not in error.where and not error.hint.startswith("did you mean"):
            error.hint = f"after job '{printable(job)}' come pools of it; each call frees one job"
        raise


@click.command("grow", cls=RequestCommand, has_time=False, outputs=RECORD_OUTPUTS)
@click.argument("job", shell_complete=completing.job)
@click.argument("words", nargs=-1, metavar="[PATH[=N]...|REQUEST]", shell_complete=completing.pool)
@click.option(
    "--start",
    type=Moment(is_start=True),
    is_eager=True,
    metavar="T",
    help="Start time. Default: now, or the start of the job if that is later.",
)
@click.option("--end", type=Moment(after="start"), metavar="T", help="End time. Default: the end of the job.")
@click.pass_obj
def grow_command(settings: Settings, job: str, asked: Asked, start: float | None, end: float | None) -> None:
    """Allocate more pools, or what a REQUEST asks for, to a job that already holds resources, until the job ends."""
    if start is not None or end is not None:
        check_window(start, end)
    with changing(settings) as graph:
        wanted = asked.on(graph).request or targets(graph, asked.pools)
        granted = graph.grow(job, wanted, start=start, end=end, policy=asked.policy)
    answer_granted(settings, graph, granted)


@click.command("shrink", cls=RequestCommand, has_time=False, outputs=TABLE_OUTPUTS, policy="high")
@click.argument("job", shell_complete=completing.job)
@click.argument("words", nargs=-1, metavar="[PATH[=N]...|REQUEST]", shell_complete=completing.pool)
@click.option("--start", type=Moment(), is_eager=True, metavar="T", help="Only from this time on.")
@click.option("--end", type=Moment(after="start"), metavar="T", help="Only until this time.")
@click.pass_obj
def shrink_command(settings: Settings, job: str, asked: Asked, start: float | None, end: float | None) -> None:
    """Release a part of what a job holds: pools, N units of them, or pools that match a REQUEST."""
    if start is not None:
        check_window(start, end)
    with changing(settings) as graph:
        wanted = asked.on(graph).request
        if wanted is None:
            taken = graph.shrink(job, targets(graph, asked.pools), start=start, end=end)
        else:
            taken = graph.shrink(job, wanted, start=start, end=end, policy=asked.policy)
    answer_shrunk(settings, graph, taken)


@click.command("extend", cls=EndCommand, outputs=TABLE_OUTPUTS)
@click.argument("job", shell_complete=completing.job)
@new_end
@click.pass_obj
def extend_command(settings: Settings, job: str, change: str | None, end: float | None, duration: str | None) -> None:
    """Move the end of a job's allocation, later or earlier: of all its pools, or of none.

    +2h moves the current end two hours later, -30m half an hour earlier. A time such as 2026-12-01T08:00 is the new end, - is
    none, and max the latest possible one.
    """
    wanted = NewEnd(change, end, duration)
    if (left := _extended_by_instance(settings, job, wanted)) is not None:
        answer_held(settings, left, job)
        return
    with changing(settings) as graph:
        end, duration_s = wanted.of(graph, job)
        before = graph.allocation(job).end
        graph.set_end(job, end, duration_s=duration_s)
        is_earlier, has_program = graph.allocation(job).end < before, _has_program(graph, job)
    if is_earlier and has_program:
        note(f"the program of job {printable(job)} ends by then (`fluxres cancel {printable(job)}` ends it now)")
    answer_held(settings, graph, job)


def _extended_by_instance(settings: Settings, job: str, wanted: NewEnd) -> ResourceGraph | None:
    """Move the limit of a job of an instance, which ends the job then; returns the graph, None for any other job.

    Errors: UnknownJob, with the way to change the limit of a job that an instance has and that holds nothing of the graph.
    """
    from fluxres.cli.kept import keeper
    from fluxres.syntax import fluid

    if not fluid.is_name(job):
        return None
    with keeper(settings) as kept:
        try:
            end, duration_s = wanted.of(kept.graph(), job)
            if kept.set_end(job, end, duration_s):
                return kept.graph()
            kept.graph().records.require_job(job)
        except UnknownJob as error:
            error.hint = _limit_in_instance(kept, job) or error.hint
            raise
    return None


def _limit_in_instance(kept: Keeper, job: str) -> str:
    """How to change the limit of a job that waits in an instance, or runs in a child; empty if none has it."""
    for address in (one["address"] for one in kept.instances()):
        with suppress(UnknownJob):
            found = kept.job(address, job)
            name, state = printable(found["id"]), found["result"] or found["state"]
            if state in ("DEPEND", "SCHED", "RUN"):
                return f"`fluxres instance update -i {address} {name} --duration D` changes its limit; it is {state} there"
            return f"it was a job of {address}, and has ended: {state}"
    return ""
