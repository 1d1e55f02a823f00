"""`fluxres instance`: schedulers that a store keeps, and one that runs a workload in real time."""

from __future__ import annotations

from collections import Counter
from math import inf
from typing import TYPE_CHECKING, Any, Final

import click

from fluxres import limits
from fluxres.cli import completing
from fluxres.cli.arguments import Asked, Moment, RequestCommand, named, targets
from fluxres.cli.kept import ids_of, keeper, one_of, with_ids
from fluxres.cli.new_end import NewLength
from fluxres.cli.output import answer, note
from fluxres.cli.policy_options import inventory_option, match_policy_option, queue_policy_option
from fluxres.cli.program import Group
from fluxres.cli.settings import PLAIN_OUTPUTS, TABLE_OUTPUTS, Duration, Settings
from fluxres.cli.stores import reading
from fluxres.documents.document import excerpt, listed, plural
from fluxres.errors import RunFailed, UsageError
from fluxres.render.events import folded_paths, held
from fluxres.render.text import Column, Style, table, when
from fluxres.syntax import duration

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fluxres.cli.kept import Keeper
    from fluxres.launch.session import Ran
    from fluxres.model import ResourceGraph

_instance: Final = click.option(
    "-i", "--instance", "name", metavar="NAME", help="The instance, or main/JOB for one below. Default: the only one."
)
_queue_policy: Final = queue_policy_option("Queue policy: the order in which jobs start.", default="easy", show_default=True)
_match_policy: Final = match_policy_option("Match policy: the pools to prefer.", default="first", show_default=True)


_HELD: Final = "held (urgency 0)"


class _Dependency(click.ParamType[str]):
    """A dependency whose begin time may be in any form of a time."""

    name = "dependency"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """`begin-time:+1h` as seconds since 1970; others as they are. Errors: InputError for several in one."""
        from fluxres.instance.dependencies import require_one

        require_one(str(value))
        scheme, _, moment = str(value).partition(":")
        if scheme != "begin-time":
            return str(value)
        begin = Moment(is_start=True).convert(moment, param, ctx)
        if begin == inf:
            raise UsageError(f"expected a time, got {excerpt(value)}, which never comes", where="--dependency")
        return f"{scheme}:{begin!r}"


@click.group("instance", cls=Group, outputs=TABLE_OUTPUTS)
def instance_command() -> None:
    """Keep schedulers on a graph of the store: submit jobs to their queues. Or run a workload in one.

    An instance outlives the commands: its jobs start as resources get free, by its queue policy, and end at their limits.
    Whoever runs the jobs reports their end with `finish`. With a server (--store http://…, or one on the same store) jobs
    start and end on time, otherwise when the next command asks the instance.
    """


@instance_command.command("create", outputs=PLAIN_OUTPUTS)
@click.argument("name")
@_queue_policy
@_match_policy
@click.option(
    "--accounting", metavar="FILE", shell_complete=completing.file, help="Partitions, QOS, accounts and users with limits."
)
@click.option(
    "--unit", metavar="TYPE", help="Pool type in which sizes of jobs and their limits are measured. Default: core, else node."
)
@click.pass_obj
def create(settings: Settings, /, name: str, accounting: str | None, **given: Any) -> None:
    """Begin an instance on the graph."""
    from fluxres.instance import accounting as rules

    found = None if accounting is None else rules.load(accounting)
    with keeper(settings) as kept:
        made = kept.create(name, {**given, "accounting": found})
    answer(settings, document=lambda: made, lines=lambda _style: [f"{name} schedules by {made['queue_policy']}"])


@instance_command.command("list", outputs=TABLE_OUTPUTS)
@click.pass_obj
def list_instances(settings: Settings) -> None:
    """List the instances of the graph and those nested in them."""
    with keeper(settings) as kept:
        found = kept.instances()
    if not found and settings.has_table:
        note("no instances")
    columns = [
        Column("INSTANCE"),
        Column("NAME"),
        Column("POLICY"),
        Column("MATCH"),
        Column("RUNNING", right=True),
        Column("PENDING", right=True),
        Column("ENDS"),
    ]
    _answer_rows(settings, columns, [_instance_cells(one) for one in found], {"instances": found})


def _instance_cells(one: dict[str, Any]) -> list[str]:
    ends = "" if one["expires"] is None else when(one["expires"])
    name = "" if one["name"] == one["address"].rpartition("/")[2] else one["name"]
    return [one["address"], name, one["queue_policy"], one["match_policy"], str(one["running"]), str(one["pending"]), ends]


def _answer_rows(settings: Settings, columns: list[Column], rows: list[list[str]], document: dict[str, Any]) -> None:
    answer(settings, document=lambda: document, lines=lambda style: table(columns, rows, style=style) if rows else [])


@instance_command.command("submit", cls=RequestCommand, policy=None, outputs=PLAIN_OUTPUTS)
@click.argument("words", nargs=-1, metavar="REQUEST", shell_complete=completing.pool)
@_instance
@click.option(
    "--duration", type=Duration(is_positive=True), metavar="D", help="Limit of the job. Default: that of the request, else none."
)
@click.option("--name", "job_name", metavar="NAME", help="Name of the job, for lists and singleton.")
@click.option("--user", metavar="U", help="User of the job. Default: the user who runs the command.")
@click.option("--urgency", type=click.IntRange(0, 31), metavar="N", default=16, show_default=True, help="0 holds the job.")
@click.option(
    "--dependency",
    "dependencies",
    type=_Dependency(),
    multiple=True,
    metavar="D",
    help="What it waits for: afterok:JOB, begin-time:T, ….",
)
@click.option("--account", metavar="A", help="Account to charge, with accounting.")
@click.option("--qos", metavar="Q", help="QOS of the job, with accounting.")
@click.pass_obj
def submit(
    settings: Settings, /, asked: Asked, name: str | None, job_name: str | None, duration: float | None, **given: Any
) -> None:
    """Submit a job, and print its id. It starts at once or waits in the queue."""
    with keeper(settings) as kept:
        address = one_of(kept, name)
        graph = kept.graph()
        _require_no_instance(kept, asked)
        if asked.on(graph).request is None:
            raise _no_request(graph, asked.pools)
        about = {**given, "dependencies": with_ids(kept, address, given["dependencies"]), "name": job_name}
        made = kept.submit(address, asked.document(graph), {**about, "duration_s": duration})
        unused = [f"--{word}" for word in ("account", "qos") if given[word] is not None]
        if unused and not kept.instance(address).get("has_accounting", True):
            how = "`fluxres instance create --accounting FILE` creates an instance with accounting"
            are = "is" if len(unused) == 1 else "are"
            note(f"{address} has no accounting: {' and '.join(unused)} of {made['id']} {are} only recorded ({how})")
    _note_prospects(made)
    answer(settings, document=lambda: made, lines=lambda _style: [made["id"]])


def _note_prospects(made: dict[str, Any]) -> None:
    """Note what a new job cannot have: a start, or all of its time."""
    from fluxres.instance.job import NEVER

    if made["limit_reached"].startswith(NEVER):
        note(f"{made['id']} {made['limit_reached']}")
    elif made["expires"] is not None and made["duration"] is not None:
        start = made["submitted"] if made["started"] is None else made["started"]
        if start + made["duration"] > made["expires"]:
            note(f"{made['id']} ends with its instance at {when(made['expires'])}, before its own limit")


def _require_no_instance(kept: Keeper, asked: Asked) -> None:
    """Refuse the name of an instance in front of a request."""
    first = asked.words[0] if asked.words else ""
    if asked.has_several and any(first == one["address"] for one in kept.instances()):
        raise UsageError(f"{first} is an instance, and no part of a request", hint=f"name it with -i {first}")


def _no_request(graph: ResourceGraph, words: list[str]) -> UsageError:
    """What to type in place of the names of pools, or of nothing."""
    if not words:
        return UsageError("an instance needs a request", hint="such as slot=4/node, or -N4")
    pools = [graph.pool(v) for v, _ in targets(graph, words)]
    are_nodes = all(pool.type == "node" for pool in pools)
    names = [pool.name for pool in pools] if any("@" in word for word in words) else [word.rpartition("/")[2] for word in words]
    how = f"`-w {','.join(names)}` asks for just {'these' if len(words) > 1 else 'this'}" if are_nodes else "such as slot=4/core"
    named = f"{listed(words)} {'are pools' if len(words) > 1 else 'is a pool'}, and an instance finds pools for a request"
    return UsageError(named, hint=f"{how}; `fluxres instance reserve` takes pools")


@instance_command.command("reserve", cls=RequestCommand, policy=None, outputs=PLAIN_OUTPUTS)
@click.argument("words", nargs=-1, metavar="[PATH...|REQUEST]", shell_complete=completing.pool)
@_instance
@click.option("--start", type=Moment(), metavar="T", required=True, help="When it starts: +2h, tomorrow 08:00, ….")
@click.option("--duration", type=Duration(is_positive=True), metavar="D", required=True, help="How long it lasts.")
@click.option("--name", "job_name", metavar="NAME", help="Name of the job.")
@click.option("--user", metavar="U", help="User of the job. Default: the user who runs the command.")
@click.pass_obj
def reserve(
    settings: Settings, /, asked: Asked, name: str | None, job_name: str | None, start: float, duration: float, user: str | None
) -> None:
    """Reserve ahead for a job that starts at a given time, and print its id.

    No other job gets these resources until its end; jobs that end before its start may use them. `cancel` gives them up.
    """
    with keeper(settings) as kept:
        address, graph = one_of(kept, name), kept.graph()
        document = asked.document(graph)
        wanted, pools = (None, _complete(document)) if asked.request is None else (document, None)
        about = {"start_s": start, "duration_s": duration, "name": job_name, "user": user, "pools": pools}
        made = kept.reserve(address, wanted, about)
    answer(settings, document=lambda: made, lines=lambda _style: [made["id"]])


def _complete(pools: dict[str, int | None]) -> list[str]:
    """Pools that are reserved with everything below them. Errors: UsageError for an amount."""
    for path, amount in pools.items():
        if amount is not None:
            raise UsageError("named pools are reserved with everything below them", where=path, hint="leave out the amount")
    return list(pools)


@instance_command.command("queue", outputs=TABLE_OUTPUTS)
@click.argument("address", required=False, metavar="[NAME]")
@_instance
@click.option("-a", "--all", "has_all", is_flag=True, help="Also the latest jobs that have ended.")
@click.pass_obj
def queue(settings: Settings, address: str | None, name: str | None, has_all: bool) -> None:
    """List the jobs of an instance that run or wait, and what for."""
    with keeper(settings) as kept:
        if address is not None and name is not None and address != name:
            raise UsageError(f"two instances were given: {address} and {name}", hint="name one of them")
        found = kept.jobs(one_of(kept, name if address is None else address), None if has_all else "active")
    if not found and settings.has_table:
        note("no jobs")
    if settings.has_table and (waiting := [one["id"] for one in found if _is_held(one)]):
        note(f"to release a held job: fluxres instance update {waiting[0]} --urgency 16")
    columns = [
        Column("JOB", role=lambda _text: "job"),
        Column("USER"),
        Column("NAME", drop=1),
        Column("STATE"),
        Column("START", drop=2),
        Column("ENDS", drop=3),
        Column("SIZE", right=True),
        Column("HOLDS / WAITS FOR"),
    ]
    _answer_rows(settings, columns, [_job_cells(one) for one in found], {"jobs": found})


def _job_cells(one: dict[str, Any]) -> list[str]:
    start = one["started"] if one["started"] is not None else one["reserved"]
    ends = one["finished"] if one["finished"] is not None else one["ends"]
    cells = [one["id"], one["user"] or "", one["name"] or "", one["result"] or one["state"]]
    return [*cells, *("" if moment is None else when(moment) for moment in (start, ends)), _size(one), _why(one)]


def _size(one: dict[str, Any]) -> str:
    return plural(one["size"], one["unit"])


def _why(one: dict[str, Any]) -> str:
    """What a job holds or has reserved ahead, or why it does not run."""
    return folded_paths([pool["path"] for pool in one["pools"]]) if one["pools"] else _waits_for(one)


def _waits_for(one: dict[str, Any]) -> str:
    if one["state"] == "DEPEND":
        return ", ".join(map(_dependency, one["dependencies"]))
    if one["state"] != "SCHED":
        return str(one["exceptions"][0]["note"]) if one["exceptions"] else ""
    return _HELD if _is_held(one) else one["limit_reached"] or "resources"


def _is_held(one: dict[str, Any]) -> bool:
    return bool(one["state"] == "SCHED" and one["urgency"] == 0)


def _dependency(text: str) -> str:
    """A dependency with a begin time that people can read."""
    scheme, _, value = text.partition(":")
    return f"{scheme}:{when(float(value))}" if scheme == "begin-time" else text


@instance_command.command("show", outputs=PLAIN_OUTPUTS)
@click.argument("job")
@_instance
@click.pass_obj
def show(settings: Settings, job: str, name: str | None) -> None:
    """Show everything about a job of an instance."""
    with keeper(settings) as kept:
        address = one_of(kept, name)
        (job,) = ids_of(kept, address, [job])
        found = kept.job(address, job)

    def lines(style: Style) -> list[str]:
        waits_for = _waits_for(found) if found["state"] in ("DEPEND", "SCHED") else None
        if _is_held(found):
            waits_for = f"{_HELD}, until `fluxres instance update {found['id']} --urgency 16`"
        pools = held([(pool["path"], pool["amount"]) for pool in found["pools"]]) if found["pools"] else None
        shown = {"id": found["id"], "state": found["state"], "waits for": waits_for, **found, "pools": pools}
        shown["size"] = _size(found)
        del shown["unit"]
        shown["duration"] = None if found["duration"] is None else duration.readable(found["duration"])
        shown["dependencies"] = list(map(_dependency, found["dependencies"]))
        shown["exceptions"] = [
            f"{one['type']} ({one['severity']})" + (f": {one['note']}" if one["note"] else "") for one in found["exceptions"]
        ]
        for key in ("submitted", "reserved", "started", "ends", "expires", "finished"):
            shown[key] = None if found[key] is None else when(found[key])
        facts = {key: ", ".join(value) if isinstance(value, list) else value for key, value in shown.items()}
        rows = [[key, str(value)] for key, value in facts.items() if value not in (None, "", False)]
        return table([Column("KEY"), Column("VALUE")], rows, header=False, style=style)

    answer(settings, document=lambda: found, lines=lines)


@instance_command.command("update", outputs=PLAIN_OUTPUTS)
@click.argument("job")
@_instance
@click.option("--duration", metavar="[+|-]D", help="New limit, from the start of the job; inf for none. +D more, -D less.")
@click.option("--urgency", type=click.IntRange(0, 31), metavar="N", help="Of a job that waits: 16 is usual, 0 holds it.")
@click.pass_obj
def update(settings: Settings, job: str, name: str | None, duration: str | None, urgency: int | None) -> None:
    """Change the limit of a job that waits or runs, or the urgency of one that waits.

    A longer limit of a running job is refused if others hold or have reserved its pools by then. Jobs that only wait in the
    queue are planned anew. An urgency other than 0 releases a held job.
    """
    if duration is None and urgency is None:
        raise UsageError("nothing to change was given", hint="give --duration or --urgency")
    length = None if duration is None else NewLength(duration)
    with keeper(settings) as kept:
        address = one_of(kept, name)
        (job,) = ids_of(kept, address, [job])
        found = kept.job(address, job)
        if length is not None and urgency is not None and found["state"] not in ("DEPEND", "SCHED"):
            raise UsageError(f"job {found['id']} does not wait, it is {found['state']}", hint="leave out --urgency")
        if length is not None:
            found = kept.set_duration(address, job, _new_limit(found, length, address, settings.now()), urgency)
        elif urgency is not None:
            found = kept.set_urgency(address, job, urgency)
    answer(settings, document=lambda: {"jobs": [found]}, lines=lambda _style: [_updated(found)])


def _new_limit(job: dict[str, Any], length: NewLength, address: str, now_s: float) -> float:
    """A new limit in seconds. Errors: UsageError if it is relative to none, or leaves no time."""
    if job["result"] is not None:
        return length.given_s  # refused, whatever it is
    if length.is_relative and job["duration"] is None:
        raise UsageError(f"{length.text} changes the present limit, but job {job['id']} has none", hint="set one: --duration D")
    if length.is_relative:
        whole_s = job["duration"]
        left_s = whole_s if job["state"] != "RUN" else job["ends"] - now_s
        length.require_some_left(job["id"], whole_s, left_s, f"fluxres instance cancel -i {address} {job['id']}")
    return length.after(job["duration"] or 0.0)


def _updated(job: dict[str, Any]) -> str:
    """A job after a change, in a line."""
    limit = "no limit" if job["duration"] is None else f"limit {duration.readable(job['duration'])}"
    if job["started"] is not None:
        ends = "" if job["ends"] is None else f", ends {when(job['ends'])}"
        return f"{job['id']}: {job['result'] or job['state']}, {limit}{ends}"
    return f"{job['id']}: {job['result'] or job['state']}, {limit}, urgency {job['urgency']}"


@instance_command.command("cancel", outputs=PLAIN_OUTPUTS)
@click.argument("jobs", nargs=-1, required=True, metavar="JOB...")
@_instance
@click.option("--note", "why", metavar="TEXT", default="", help="Why, for its exception.")
@click.pass_obj
def cancel(settings: Settings, jobs: tuple[str, ...], name: str | None, why: str) -> None:
    """End jobs that wait or run."""
    with keeper(settings) as kept:
        address = one_of(kept, name)
        found = [kept.cancel(address, job, why) for job in _active_ids(kept, address, jobs)]
    _answer_jobs(settings, found)


def _active_ids(kept: Keeper, address: str, jobs: Iterable[str]) -> list[str]:
    """The ids of jobs, each once. Errors: UnknownJob; UsageError for one that has ended: before the first one is changed."""
    found = [kept.job(address, job) for job in ids_of(kept, address, jobs)]
    for one in found:
        if one["result"]:
            raise UsageError(f"job {one['id']} has ended: {one['result']}", where=address)
    return list(dict.fromkeys(one["id"] for one in found))


@instance_command.command("finish", outputs=PLAIN_OUTPUTS)
@click.argument("job")
@_instance
@click.option(
    "--status",
    type=click.IntRange(0, limits.WAIT_STATUS_MAX),
    metavar="N",
    default=0,
    show_default=True,
    help="Wait status of the job: 0 is success, 256 is exit status 1, 9 is SIGKILL.",
)
@click.pass_obj
def finish(settings: Settings, job: str, name: str | None, status: int) -> None:
    """Report the end of a running job, which frees what it holds."""
    with keeper(settings) as kept:
        address = one_of(kept, name)
        found = [kept.finish(address, each, status) for each in ids_of(kept, address, [job])]
    _answer_jobs(settings, found)


@instance_command.command("wait", outputs=PLAIN_OUTPUTS)
@click.argument("jobs", nargs=-1, required=True, metavar="JOB...")
@_instance
@click.pass_obj
def wait(settings: Settings, jobs: tuple[str, ...], name: str | None) -> None:
    """Wait until jobs have ended. Ends with status 5 if one did not complete."""
    with keeper(settings) as kept:
        address = one_of(kept, name)
        found = [kept.wait(address, job) for job in ids_of(kept, address, jobs)]
    _answer_jobs(settings, found)
    bad = [one["id"] for one in found if one["result"] != "completed"]
    if bad:
        raise RunFailed(f"{len(bad)} of {len(found)} jobs did not complete", where=listed(bad))


@instance_command.command("spawn", outputs=PLAIN_OUTPUTS)
@click.argument("job")
@_instance
@click.option("--name", "child_name", metavar="NAME", help="Name of the child. Default: the id of the job.")
@queue_policy_option("Queue policy of the child. Default: that of the instance.")
@match_policy_option("Match policy of the child. Default: that of the instance.")
@click.pass_obj
def spawn(
    settings: Settings, job: str, name: str | None, child_name: str | None, queue_policy: str | None, match_policy: str | None
) -> None:
    """Begin a child on what a running job holds, and print its address, in which its name stands for its job.

    The child schedules jobs of its own there. It ends with the job, and the job with it (`drop`).
    """
    with keeper(settings) as kept:
        given = {"name": child_name, "queue_policy": queue_policy, "match_policy": match_policy}
        address = one_of(kept, name)
        (job,) = ids_of(kept, address, [job])
        made = kept.spawn(address, job, given)
    address = f"{made['address'].rpartition('/')[0]}/{made['name']}"
    answer(settings, document=lambda: made, lines=lambda _style: [address])


@instance_command.command("grow", cls=RequestCommand, policy=None, has_time=False)
@click.argument("child", metavar="CHILD")
@click.argument("words", nargs=-1, metavar="[PATH[=N]...|REQUEST]", shell_complete=completing.pool)
@click.pass_obj
def grow(settings: Settings, /, child: str, asked: Asked) -> None:
    """Get more for a child from its parent: pools by name, or what a REQUEST asks for there. CHILD is an address: main/JOB."""
    with keeper(settings) as kept:
        paths = kept.grow(child, asked.document(kept.graph()))
    _answer_paths(settings, child, paths)


@instance_command.command("shrink", outputs=PLAIN_OUTPUTS)
@click.argument("child", metavar="CHILD")
@click.argument("pools", nargs=-1, required=True, metavar="PATH[=N]...", shell_complete=completing.pool)
@click.pass_obj
def shrink(settings: Settings, child: str, pools: tuple[str, ...]) -> None:
    """Return pools of a child, in which no job holds anything, to its parent. CHILD is an address: main/JOB."""
    with keeper(settings) as kept:
        graph = kept.graph()
        paths = kept.shrink(child, named(graph, targets(graph, pools)))
    _answer_paths(settings, child, paths)


def _answer_paths(settings: Settings, address: str, paths: list[str]) -> None:
    answer(settings, document=lambda: {"instance": address, "paths": paths}, lines=lambda _style: paths)


@instance_command.command("drop", outputs=PLAIN_OUTPUTS)
@click.argument("name")
@click.option("--force", is_flag=True, help="Also if jobs run or wait there or below: they are canceled.")
@click.pass_obj
def drop(settings: Settings, name: str, force: bool) -> None:
    """End an instance. One with jobs that run or wait is refused; nothing brings it back.

    NAME may be main/JOB for one below; its JOB in the parent ends with it, as completed.
    """
    with keeper(settings) as kept:
        kept.close(name, if_idle=not force)
    answer(settings, document=lambda: {"closed": name}, lines=lambda _style: [f"{name} has ended"])


def _answer_jobs(settings: Settings, found: list[dict[str, Any]]) -> None:
    said = [f"{one['id']}: {one['result'] or one['state']}" for one in found]
    answer(settings, document=lambda: {"jobs": found}, lines=lambda _style: said)


@instance_command.command("run", outputs=TABLE_OUTPUTS)
@click.argument("workload", shell_complete=completing.file)
@click.option(
    "--machine",
    metavar="SOURCE",
    shell_complete=completing.machine,
    help="A machine from a file, URL, shape or number. Default: the graph in use.",
)
@_queue_policy
@_match_policy
@inventory_option
@click.option(
    "--grace", type=Duration(), metavar="D", help=f"Time from SIGTERM to SIGKILL. Default: {limits.GRACE_SECONDS_DEFAULT:g}."
)
@click.option("--seed", type=int, metavar="N", default=0, show_default=True, help="Seed of a generated workload.")
@click.pass_obj
def run(settings: Settings, /, workload: str, machine: str | None, grace: float | None, seed: int, **options: Any) -> None:
    """Run the jobs of WORKLOAD in real time.

    WORKLOAD is a trace or a model, as for fluxres simulate. In a list of jobs, YAML or JSON, [{"request": JOBSPEC}] or
    {"jobs": [{"request": JOBSPEC}]}, a job with a jobspec runs the command of its first task. Any other job only waits for its
    run time.

    Ends with status 5 if a job failed or was refused.
    """
    from fluxres.launch.session import Session
    from fluxres.simulation import machine as machines
    from fluxres.simulation.workload import reading as workloads

    grace_s = limits.GRACE_SECONDS_DEFAULT if grace is None else grace
    if grace_s == float("inf"):
        raise UsageError("expected a finite duration", where="--grace")
    found = workloads.read(workload, seed=seed)
    graph = reading(settings) if machine is None and found.processors is None else machines.read(machine, found.processors)
    jobs: list[Ran] = []
    Session(graph, found, grace_s=grace_s, ran=jobs.append, **options).run()
    results = Counter(one.result for one in jobs)

    def document() -> dict[str, Any]:
        return {"machine": graph.name, "results": dict(sorted(results.items())), "jobs": [one._asdict() for one in jobs]}

    answer(settings, document=document, lines=lambda style: _lines(jobs, style))
    bad = sum(number for result, number in results.items() if result != "completed")
    if bad:
        raise RunFailed(f"{bad} of {len(jobs)} jobs did not complete", where=workload)


def _lines(jobs: list[Ran], style: Style) -> list[str]:
    columns = [
        Column("NAME"),
        Column("ID", role=lambda _text: "job"),
        Column("RESULT", role=lambda text: None if text == "completed" else "bad"),
        Column("STATUS", right=True),
        Column("WAIT", right=True),
        Column("RUN", right=True),
        Column("POOLS"),
        Column("NOTE"),
    ]
    return table(columns, [_cells(one) for one in jobs], style=style)


def _cells(one: Ran) -> list[str]:
    start = one.finished_s if one.started_s is None else one.started_s
    ran = "" if one.started_s is None else f"{one.finished_s - one.started_s:.3f}"
    return [
        one.name,
        one.id,
        one.result,
        str(one.status or ""),
        f"{start - one.submitted_s:.3f}",
        ran,
        listed(one.pools, 1),
        one.note,
    ]
