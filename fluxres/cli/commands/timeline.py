"""The command that draws which jobs hold which nodes over time."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import click

from fluxres import limits
from fluxres.cli import completing
from fluxres.cli.arguments import Moment, vertices
from fluxres.cli.output import answer
from fluxres.cli.program import Command
from fluxres.cli.settings import TABLE_OUTPUTS, Duration, Settings
from fluxres.cli.stores import at_once
from fluxres.cli.watching import watchable
from fluxres.clock import seconds
from fluxres.documents.document import plural
from fluxres.errors import UsageError

_HOURS_S = 86_400.0
_COLUMNS = 80
_PIXELS = 960


@click.command("timeline", cls=Command, outputs=TABLE_OUTPUTS)
@click.argument("pools", nargs=-1, metavar="[PATH]...", shell_complete=completing.pool)
@click.option("--start", type=Moment(), metavar="T", help="Start of the window. Default: now.")
@click.option("--end", type=Moment(), metavar="T", help="End of the window. Default: 24 hours after its start.")
@click.option("--duration", type=Duration(is_positive=True), metavar="D", help="Length of the window, instead of --end.")
@click.option("--by", type=click.Choice(("node", "job")), default="node", help="A row for nodes that are alike, or for each job.")
@click.option("--width", type=click.IntRange(40, limits.CHART_WIDTH_MAX), metavar="N", help="Columns (of SVG: pixels).")
@click.option(
    "--svg", type=click.Path(dir_okay=False), metavar="FILE", help="Write a picture to this file, - for standard output."
)
@click.pass_obj
@watchable
def timeline_command(
    settings: Settings,
    pools: tuple[str, ...],
    start: float | None,
    end: float | None,
    duration: float | None,
    by: str,
    width: int | None,
    svg: str | None,
) -> None:
    """Draw which jobs hold which nodes over the next day, with maintenance and nodes that take no work.

    Nodes with the same future share a row. Each bar begins with the name of its job.
    """
    from fluxres.render import timeline

    if end is not None and duration is not None:
        raise UsageError("both --end and --duration were given", hint="give one of them")
    graph = at_once(settings)
    first = seconds(graph.now()) if start is None else start
    last = first + (_HOURS_S if duration is None else duration) if end is None else end
    if last == float("inf"):
        raise UsageError("a picture needs an end", hint="give --end, or --duration 7d")
    window = graph.open_window(first, last)
    found = timeline.of(graph, window, pools=vertices(graph, pools), by_job=by == "job")
    if svg is not None:
        _write_svg(settings, graph.name, found, svg, width or _PIXELS)
        return
    heading = "JOB" if by == "job" else "HOSTS"
    columns = width or (shutil.get_terminal_size((_COLUMNS, 24)).columns if sys.stdout.isatty() else _COLUMNS)
    answer(
        settings,
        document=lambda: {"start": found.start, "end": found.end, "now": found.now, "segments": found.documents()},
        lines=lambda style: timeline.draw(found, columns, heading=heading, style=style),
    )


def _write_svg(settings: Settings, name: str, found: object, dest: str, pixels: int) -> None:
    from fluxres.render.text import printable, when
    from fluxres.render.timeline import Timeline
    from fluxres.render.timeline_svg import picture
    from fluxres.store.disk import write_whole

    assert isinstance(found, Timeline)
    text = picture(found, f"{name}: {when(found.start)} to {when(found.end)}", pixels)
    if dest == "-":
        sys.stdout.write(text)
        return
    write_whole(Path(dest), text.encode())
    answer(
        settings,
        document=lambda: {"svg": dest, "rows": len(found.rows)},
        lines=lambda _style: [f"{printable(dest)}: {plural(len(found.rows), 'row')}"],
    )
