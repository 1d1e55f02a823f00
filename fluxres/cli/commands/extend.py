"""`fluxres extend`: change the end of an allocation."""

from __future__ import annotations

import math

import click

from fluxres.cli.arguments import Moment
from fluxres.cli.completing import complete_job
from fluxres.cli.holding import answer_held
from fluxres.cli.program import Command
from fluxres.cli.settings import Duration, Settings
from fluxres.errors import UsageError


@click.command("extend", cls=Command)
@click.argument("job", shell_complete=complete_job)
@click.option("--until", "--end", "end", type=Moment(), metavar="T", help="New end; - for none.")
@click.option(
    "--duration",
    metavar="[+|-]D",
    help="New total duration from the start of the job; +D moves the current end later, -D earlier.",
)
@click.pass_obj
def command(settings: Settings, job: str, end: float | None, duration: str | None) -> None:
    """Move the end of a job's allocation, later or earlier: of all its pools, or of none."""
    from fluxres.cli.stores import changing

    if (end is None) == (duration is None):
        given = "both --until and --duration were given" if end is not None else "neither --until nor --duration was given"
        raise UsageError(given, hint="give one of them, such as --until +2h or --duration +30m")
    sign = duration[:1] if duration is not None and duration[:1] in ("+", "-") else ""
    length = None if duration is None else Duration().convert(duration.removeprefix(sign), None, None)
    with changing(settings) as graph:
        if sign and length is not None:
            before = graph.allocation(job).end
            if before == math.inf:
                message = f"--duration {duration} moves the current end, but job '{job}' has none"
                raise UsageError(message, hint="set an end: --until T, or --duration D from its start")
            end, length = before + (length if sign == "+" else -length), None
        graph.set_end(job, end, duration_s=length)
    answer_held(settings, graph, job)
