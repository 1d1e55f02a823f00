"""The arguments of commands that read a description of a machine, and the graph that they name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from fluxres.cli import completing
from fluxres.cli.output import note
from fluxres.cli.progress import Progress, progress

if TYPE_CHECKING:
    from fluxres.clock import Clock
    from fluxres.model import ResourceGraph

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS = (
    click.argument("sources", nargs=-1, required=True, metavar="SOURCE...", shell_complete=completing.machine),
    click.option(
        "--format",
        "format_name",
        metavar="FORMAT",
        shell_complete=completing.format_read,
        help="Format of the file. Default: detected from the content.",
    ),
    click.option("--cluster", metavar="NAME", help="Combine files of one node each into a cluster of this name."),
    click.option("--keep", metavar="TYPES", help="Types of pools to keep (core,gpu), for formats with more types."),
    click.option("--fractions", is_flag=True, help="Make the units of HyperQueue's workers divisible, as in gpus=0.5."),
)


def source_options(function: F) -> F:
    """Add SOURCE... and the options that say how to read it."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def read_description(
    sources: Sequence[str],
    format_name: str | None,
    cluster: str | None,
    keep: str | None,
    fractions: bool = False,
    *,
    name: str | None = None,
    changes: Sequence[str] = (),
    shown: Progress | None = None,
) -> ResourceGraph:
    """The graph in these files, which are the parts of one machine if there are several.

    Args:
        shown: where to report the files; a bar of its own by default.
    """
    if shown is None:
        with progress(steps_to_read(sources)) as own:
            return read_description(sources, format_name, cluster, keep, fractions, name=name, changes=changes, shown=own)
    from fluxres import clock
    from fluxres.documents.source import Sources
    from fluxres.formats import registry
    from fluxres.store.files import load

    words = None if keep is None else tuple(word.strip() for word in keep.split(","))
    given = ("cluster", cluster), ("keep", words), ("fractions", fractions or None)
    options: dict[str, Any] = {key: value for key, value in given if value is not None}
    is_one = len(sources) == 1 and (cluster is None or registry.live_format(sources[0]) is not None)
    if not is_one:
        several = Sources(sources, lambda file: shown.step(f"reading {file}"))
        return load(several, name=name, format=format_name, clock=clock.system, changes=changes, **options)
    shown.step(f"reading {sources[0]}")
    return load_one(sources[0], name=name, format=format_name, clock=clock.system, changes=changes, shown=shown, **options)


def steps_to_read(sources: Sequence[str]) -> int:
    """How many steps `read_description` reports."""
    return len(sources) + (len(sources) == 1)


def load_one(
    source: str,
    *,
    name: str | None = None,
    changes: Sequence[str] = (),
    clock: Clock | None = None,
    shown: Progress | None = None,
    **given: Any,
) -> ResourceGraph:
    """The graph that one source names; for a source that is not a file, standard error says what was seen and where.

    Args:
        shown: where to report the parts of the work.
        given: the format of a file, and options of the format.
    """
    from fluxres.documents.source import Source
    from fluxres.formats import registry
    from fluxres.render.text import printable
    from fluxres.store.files import load
    from fluxres.store.url import is_store_url

    if registry.live_format(source) is None:
        if shown is None or is_store_url(source):
            return load(source, name=name, clock=clock, changes=changes, **given)
        read = Source.named(source)
        shown.step(f"making the pools of {source}")
        return load(read, name=name, clock=clock, changes=changes, **given)
    given.pop("format", None)
    live = registry.read_live(source, **given)
    for line in live.seen if live is not None else ():
        note(printable(line))
    return load(live or source, name=name, clock=clock, changes=changes)
