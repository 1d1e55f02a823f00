"""The formats there are, and reading and writing through them.

A format is one module and one entry here.  The entry names functions and does not import them, so a command
pays only for the format it reads.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from fluxres import limits
from fluxres.clock import FOREVER, seconds
from fluxres.errors import FluxresError, InputError, LimitExceeded, UsageError
from fluxres.formats import json_places, yaml_document
from fluxres.formats.yaml_document import Document

if TYPE_CHECKING:
    from fluxres.formats.cluster import Hold, Loaded
    from fluxres.graph.structure import Structure
    from fluxres.model.resource_graph import ResourceGraph


@dataclass(frozen=True, slots=True)
class Format:
    """One file format.

    Args:
        name: for ``--format`` and messages.
        title: what it is, in a few words.
        extensions: of its files, the first for new ones.
        matches: whether the beginning of a file looks like it; a guess that may be wrong, never slow.
        reader: ``module:function`` from a :class:`~fluxres.formats.yaml_document.Document` to what was loaded.
        writer: ``module:function`` from structure, allocations and name to a Document, its values and its text.
    """

    name: str
    title: str
    extensions: tuple[str, ...]
    matches: Callable[[bytes], bool]
    reader: str
    writer: str


@dataclass(frozen=True, slots=True)
class Written:
    """A machine as text.

    Args:
        format: its name.
        text: of the file.
        left_out: what the format cannot say, in words.
    """

    format: str
    text: str
    left_out: list[str] = field(default_factory=list)


_FLUXRES_KEY = re.compile(rb"""(?:\A|[\n{,])[ \t\r\n]*["']?fluxres["']?[ \t]*:""")

_FORMATS: Final = (
    Format(
        "cluster",
        "fluxres cluster file, YAML or JSON",
        (".yaml", ".yml"),
        lambda head: _FLUXRES_KEY.search(head) is not None,
        "fluxres.formats.cluster:build",
        "fluxres.formats.cluster_write:document",
    ),
)

#: how much of a file is looked at to tell its format: the first keys, past any comment
HEAD_BYTES: Final = 65_536
#: characters of a text that is parsed again to see what it says; of a longer one the values are taken that went into it
_PARSED_AGAIN_MAX: Final = 65_536


def formats() -> list[Format]:
    """All formats, in the order in which they are tried.

    >>> [known.name for known in formats()]
    ['cluster']
    """
    return list(_FORMATS)


def named(name: str) -> Format:
    """The format of this name.

    Errors: UsageError with the names there are.
    """
    for known in _FORMATS:
        if known.name == name:
            return known
    raise UsageError(f"no format {name!r}", hint=f"there is {_names()}")


def detect(data: bytes) -> Format | None:
    """The format that a text looks like, None when it looks like none.

    Args:
        data: the text; its first HEAD_BYTES are looked at.

    >>> detect(b"fluxres: 1\\nname: demo\\n").name
    'cluster'
    """
    head = data[:HEAD_BYTES]
    return next((known for known in _FORMATS if known.matches(head)), None)


def read(source: str | Path | bytes, *, format: str | None = None, file: str | None = None, origin: int | None = None) -> Loaded:
    """Read a machine from a file or text in any format.

    Args:
        source: bytes are the text itself; a Path is a file; a str is a path, ``-`` for standard input, or the text if it
            contains a line break.
        format: its name; by content when left out.
        file: name for messages.
        origin: base of uuids that the file does not give; random by default.

    Errors: InputError ``FILE:line:col: path: …``; UsageError for a format that does not exist.

    >>> read(b"{fluxres: 1, name: tiny, resources: [{type: node, count: 2}]}").structure.n
    3
    """
    return build(yaml_document.load(source, file=file), format=format, origin=origin)


def build(document: Document, *, format: str | None = None, origin: int | None = None) -> Loaded:
    """The machine of a document that was read already; see :func:`read`."""
    found = named(format) if format is not None else detect(document.text[:HEAD_BYTES].encode("utf-8", "replace"))
    if found is None:
        hint = f"a cluster file begins with 'fluxres: 1'; formats are {_names()}"
        raise InputError("is in no format that is known", where=document.file, hint=hint)
    loaded: Loaded = _function(found.reader)(document, origin=origin)
    return loaded


def write(structure: Structure, allocations: Sequence[Hold] = (), *, name: str | None = None, format: str = "cluster") -> Written:
    """The text of a machine in a format, read again before it is believed (rule S1).

    Whatever the format does not give back is in `left_out`.

    Errors: UsageError for a format that does not exist, and for a machine of which nothing could be read again.
    Cost: writing and reading, some tenths of a second for the largest regular machines.
    """
    chosen = named(format)
    try:
        document: Document = _function(chosen.writer)(structure, allocations, name=name)
        _require_readable(document)
        again = (
            yaml_document.parse(document.text.encode(), file=document.file)
            if len(document.text) <= _PARSED_AGAIN_MAX
            else document
        )
        loaded: Loaded = _function(chosen.reader)(again)
    except FluxresError as error:
        message = f"cannot be written in format '{chosen.name}': {error.message}"
        raise UsageError(message, where=error.where, hint=error.hint or "a store keeps a graph as it is") from error
    return Written(chosen.name, document.text, _differences(loaded, structure, allocations, name))


def _require_readable(document: Document) -> None:
    size = len(document.text.encode())
    most = limits.DOCUMENT_BYTES_MAX if document.is_json else limits.YAML_BYTES_MAX
    if size > most:
        raise LimitExceeded(f"{size} bytes, and at most {most} are read")
    if size > limits.DOCUMENT_VALUES_MAX and json_places.measure(document.values, document.file)[0] > limits.DOCUMENT_VALUES_MAX:
        raise LimitExceeded(f"more values than the {limits.DOCUMENT_VALUES_MAX} that are read")


def _differences(loaded: Loaded, structure: Structure, allocations: Sequence[Hold], name: str | None) -> list[str]:
    from fluxres.graph.compare import equal

    found = equal(structure, loaded.structure)
    if name is not None and loaded.name != name:
        found.append(f"name {name!r}, not {loaded.name!r}")
    if list(allocations) != loaded.allocations:
        missing = [hold for hold in allocations if hold not in loaded.allocations]
        jobs = ", ".join(dict.fromkeys(hold.job for hold in missing[:5]))
        found.append(f"what is held in {len(missing)} windows, of {jobs or 'jobs in another order'}")
    return found


def holds(graph: ResourceGraph) -> list[Hold]:
    """Who holds what in a graph, by job and window; windows that seconds as numbers cannot say are not among them.

    Cost O(spans).
    """
    from fluxres.formats.cluster import Hold

    windows: dict[tuple[str, int, int], dict[int, int]] = {}
    jobs = set(graph.jobs())
    for v, holders in graph.records.held.items():
        for job, held in holders.items():
            if job in jobs:
                for start, end, amount in held:
                    windows.setdefault((job, start, end), {})[v] = amount
    return [
        Hold(job, seconds(start), None if end >= FOREVER else seconds(end), dict(sorted(windows[job, start, end].items())))
        for job, start, end in sorted(windows)
        if seconds(start) < seconds(end)
    ]


def by_ending(path: Path) -> Format:
    """The format of files that end like this.

    Errors: UsageError with the endings there are.
    """
    found = next((known for known in _FORMATS if path.suffix.lower() in known.extensions), None)
    if found is None:
        endings = ", ".join(f"{ending} ({known.name})" for known in _FORMATS for ending in known.extensions)
        hint = f"give a format, or one of {endings}"
        raise UsageError(f"no format is known by the ending '{path.suffix}'", where=str(path), hint=hint)
    return found


def _names() -> str:
    return ", ".join(known.name for known in _FORMATS)


def _function(place: str) -> Callable[..., Any]:
    module, _, function = place.partition(":")
    found: Callable[..., Any] = getattr(import_module(module), function)
    return found
