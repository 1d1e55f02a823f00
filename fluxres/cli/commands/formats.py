"""Commands for file formats: convert, formats."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from fluxres.cli import completing
from fluxres.cli.output import answer_table
from fluxres.cli.program import Command
from fluxres.cli.progress import progress
from fluxres.cli.settings import TABLE_OUTPUTS, Settings
from fluxres.cli.sources import load_one
from fluxres.cli.stores import answer_report, save_file
from fluxres.render.text import Column

if TYPE_CHECKING:
    from fluxres.formats.format import Format


@click.command("convert", cls=Command)
@click.argument("source", metavar="IN", shell_complete=completing.machine)
@click.argument("dest", metavar="OUT", shell_complete=completing.file)
@click.option(
    "--from",
    "source_format",
    metavar="FORMAT",
    shell_complete=completing.format_read,
    help="Format of IN. Default: detected from the content.",
)
@click.option(
    "--to",
    "dest_format",
    metavar="FORMAT",
    shell_complete=completing.format_written,
    help="Format of OUT. Default: by its extension; cluster for -.",
)
@click.option("--name", metavar="NAME", help="Name of the machine. Default: the name in IN.")
@click.option("--strict", is_flag=True, help="Write nothing if the format of OUT cannot express everything.")
@click.pass_obj
def convert_command(
    settings: Settings, source: str, dest: str, source_format: str | None, dest_format: str | None, name: str | None, strict: bool
) -> None:
    """Convert a file from one format to another; the store is not used.

    IN and OUT may be - for standard input and output, and compressed (.gz, .zst, .xz, .bz2). Whatever the format of OUT cannot
    express is reported on standard error.
    """
    with progress(2) as shown:
        shown.step(f"reading {source}")
        graph = load_one(source, format=source_format, name=name)
        shown.step(f"writing {dest}")
        report = save_file(graph, dest, dest_format, strict=strict)
    answer_report(settings, report)


@click.command("formats", cls=Command, outputs=TABLE_OUTPUTS)
@click.argument("names", nargs=-1, metavar="[FORMAT]...", shell_complete=completing.format_any)
@click.pass_obj
def formats_command(settings: Settings, names: tuple[str, ...]) -> None:
    """List all file formats, or the named ones, and what each can express.

    Formats are detected from the content when reading; when writing, the extension or --format decides.
    """
    from fluxres.formats import registry

    known = [registry.named(name) for name in names] if names else registry.formats()
    columns = [
        *(Column(title) for title in ("FORMAT", "READ", "WRITE", "ENDINGS")),
        Column("CARRIES", drop=1),
        Column("WHAT"),
    ]
    answer_table(settings, columns, [_row(each) for each in known], lambda: {"formats": [_document(each) for each in known]})


def _document(known: Format) -> dict[str, Any]:
    from fluxres.formats.format import FACTS

    return {
        "format": known.name,
        "title": known.title,
        "endings": list(known.extensions),
        "read": known.reader is not None,
        "write": known.writer is not None,
        "several": known.many is not None,
        "live": known.live is not None,
        "carries": [fact for fact in FACTS if fact in known.carries],
        "loses": known.loses,
        "options": sorted(known.options),
    }


def _row(known: Format) -> list[str]:
    reads = "several" if known.many else "yes" if known.reader else "live" if known.live else ""
    return [
        known.name,
        reads,
        "yes" if known.writer is not None else "",
        " ".join(known.extensions),
        carried(known.carries),
        known.title,
    ]


def carried(facts: frozenset[str]) -> str:
    """Facts in the shorter of two ways: the ones carried, or all but the missing ones.

    >>> carried(frozenset({"pools", "ids"})), carried(frozenset())
    ('pools ids', 'nothing')
    """
    from fluxres.formats.format import FACTS

    has, lacks = [fact for fact in FACTS if fact in facts], [fact for fact in FACTS if fact not in facts]
    if not lacks or not has:
        return "nothing" if lacks else "everything"
    return " ".join(has) if len(has) <= len(lacks) + 1 else f"all but {' '.join(lacks)}"
