"""`fluxres stage`: temporary locks on pools."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import click

from fluxres import limits
from fluxres.cli import completing
from fluxres.cli.arguments import Asked, Moment, RequestCommand, check_window, endless, targets
from fluxres.cli.output import answer, answer_granted, note
from fluxres.cli.settings import TABLE_OUTPUTS, Duration, Settings
from fluxres.cli.stores import changing, reading
from fluxres.errors import UsageError

if TYPE_CHECKING:
    from fluxres.allocation.planned import Staged
    from fluxres.model import ResourceGraph


@click.command("stage", cls=RequestCommand, outputs=TABLE_OUTPUTS)
@click.argument("words", nargs=-1, metavar="[PATH[=N]...|REQUEST]", shell_complete=completing.pool)
@click.option("--job", metavar="J", shell_complete=completing.job, help="Job that the lock is for.")
@click.option(
    "--ttl",
    type=Duration(),
    metavar="D",
    default=limits.STAGE_SECONDS_DEFAULT,
    help="Lifetime of the lock. Default: 1m.",
)
@click.option(
    "--start",
    type=Moment(is_start=True),
    is_eager=True,
    metavar="T",
    help="Start of the eventual allocation. Default: now.",
)
@click.option("--end", type=Moment(after="start"), metavar="T", help="End of the eventual allocation. Default: none.")
@click.option("--commit", metavar="ID", shell_complete=completing.stage, help="Turn this stage into an allocation of its job.")
@click.option("--release", metavar="ID", shell_complete=completing.stage, help="Release this stage.")
@click.pass_obj
def stage_command(
    settings: Settings,
    asked: Asked,
    job: str | None,
    ttl: float,
    start: float | None,
    end: float | None,
    commit: str | None,
    release: str | None,
) -> None:
    """Lock pools, or what a REQUEST asks for, while a job is being considered; commit or release the lock.

    Without arguments: list the active stages.
    """
    if sum((asked.is_given, commit is not None, release is not None)) > 1:
        raise UsageError("more than one of pools, a request, --commit and --release were given", hint="give one at a time")
    if asked.is_given:
        if job is None:
            raise UsageError("no job was named", hint="add --job J")
        check_window(start, end)
        with changing(settings) as graph:
            wanted, policy = asked.on(graph).request, asked.policy
            if wanted is None:
                made = graph.stage(targets(graph, asked.pools), job=job, start=start, end=end, ttl_s=ttl)
            else:
                until, length = endless(end, None)
                made = graph.stage(wanted, job=job, start=start, end=until, duration_s=length, ttl_s=ttl, policy=policy)
            staged = graph.records.require_stage(made.stage)
        _answer_stages(settings, graph, [staged])
    elif commit is not None:
        with changing(settings) as graph:
            granted = graph.commit(commit)
        answer_granted(settings, graph, granted)
    elif release is not None:
        with changing(settings) as graph:
            graph.release(release)
        answer(settings, document=lambda: {"released": release}, lines=lambda _style: [f"{release} is released"])
    else:
        graph = reading(settings)
        now = graph.now()
        _answer_stages(settings, graph, [staged for staged in graph.records.stages.values() if staged.expires > now])


def _answer_stages(settings: Settings, graph: ResourceGraph, found: Sequence[Staged]) -> None:
    from fluxres.render import documents, listings

    if not found and settings.has_table:
        note("no stages")
    answer(
        settings,
        document=lambda: {"stages": [documents.stage(graph, staged) for staged in found]},
        lines=lambda style: listings.stages(graph, found, style=style) if found else [],
        rows=lambda: (pool | facts for facts in map(partial(documents.stage, graph), found) for pool in facts.pop("pools")),
    )
