"""`fluxres formats`: what can be read and written."""

from __future__ import annotations

import click

from fluxres.cli.output import answer
from fluxres.cli.program import Command
from fluxres.cli.settings import Settings


@click.command("formats", cls=Command)
@click.pass_obj
def command(settings: Settings) -> None:
    """List the formats of files. When reading, the content decides; when writing, the ending or --format."""
    from fluxres.formats import registry
    from fluxres.render.table import Column, table

    known = registry.formats()
    columns = [Column("FORMAT"), Column("ENDINGS"), Column("WHAT")]
    answer(
        settings,
        document=lambda: {"formats": [{"format": f.name, "endings": list(f.extensions), "title": f.title} for f in known]},
        lines=lambda style: table(
            columns, [[f.name, " ".join(f.extensions), f.title] for f in known], header=settings.header, style=style
        ),
    )
