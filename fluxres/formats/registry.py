"""The formats there are, and reading and writing through them.

A format is one module and one entry here.  The entry names functions and does not import them, so a command
pays only for the format it reads.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from fluxres.clock import FOREVER, seconds
from fluxres.errors import InputError, UsageError
from fluxres.formats import yaml_document

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
        writer: ``module:function`` from structure, allocations and name to text.
    """

    name: str
    title: str
    extensions: tuple[str, ...]
    matches: Callable[[bytes], bool]
    reader: str
    writer: str


@dataclass(frozen=True, slots=True)
class Written:
    """What was written.

    Args:
        format: its name.
        left_out: what the format cannot say, in words.
    """

    format: str
    left_out: list[str] = field(default_factory=list)


_FLUXRES_KEY = re.compile(rb"""(?:\A|[\n{,])[ \t\r\n]*["']?fluxres["']?[ \t]*:""")

_FORMATS: Final = (
    Format(
        "cluster",
        "fluxres cluster file, YAML or JSON",
        (".yaml", ".yml"),
        lambda head: _FLUXRES_KEY.search(head) is not None,
        "fluxres.formats.cluster:build",
        "fluxres.formats.cluster_write:write_cluster",
    ),
)

#: how much of a file is looked at to tell its format: the first keys, past any comment
HEAD_BYTES: Final = 65_536


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
    wanted = named(format) if format is not None else None
    document = yaml_document.load(source, file=file)
    found = wanted or detect(document.text[:HEAD_BYTES].encode("utf-8", "replace"))
    if found is None:
        hint = f"a cluster file begins with 'fluxres: 1'; formats are {_names()}"
        raise InputError("is in no format that is known", where=document.file, hint=hint)
    loaded: Loaded = _function(found.reader)(document, origin=origin)
    return loaded


def text(structure: Structure, allocations: Iterable[Hold] = (), *, name: str | None = None, format: str = "cluster") -> str:
    """The text of a machine in a format.

    Errors: UsageError for a format that does not exist.
    """
    written: str = _function(named(format).writer)(structure, allocations, name=name)
    return written


def write(graph: ResourceGraph, path: Path, format: str | None = None) -> Written:
    """Write a graph to a file, whole or not at all.

    Args:
        format: its name; by the ending of the path by default.

    Errors: UsageError for a format or an ending that does not exist; InputError for a place that cannot be written.
    """
    chosen = named(format) if format is not None else _by_ending(path)
    content = text(graph.structure, holds(graph), name=graph.name, format=chosen.name)
    _replace(path, content.encode("utf-8"))
    stages = len(graph.records.stages)
    left_out = [f"{stages} stage{'s' if stages > 1 else ''}, which {'last' if stages > 1 else 'lasts'} seconds"] if stages else []
    return Written(chosen.name, left_out)


def holds(graph: ResourceGraph) -> list[Hold]:
    """Who holds what in a graph, by job and window.  Cost O(spans)."""
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
    ]


def _by_ending(path: Path) -> Format:
    for known in _FORMATS:
        if path.suffix.lower() in known.extensions:
            return known
    endings = ", ".join(ending for known in _FORMATS for ending in known.extensions)
    raise UsageError(f"no format has files ending in {path.suffix!r}", where=str(path), hint=f"name the format, or use {endings}")


def _replace(path: Path, content: bytes) -> None:
    """The file with this content, by a new one in its place: a reader sees the old one or the new one."""
    if path.is_dir():
        raise InputError("is a folder, expected a file", where=str(path), hint="name a file in it")
    made = ""
    try:
        handle, made = tempfile.mkstemp(prefix=f".{path.name[:64]}.", dir=path.parent)
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        mask = os.umask(0)
        os.umask(mask)
        Path(made).chmod(path.stat().st_mode & 0o7777 if path.exists() else 0o666 & ~mask)
        Path(made).replace(path)
    except (OSError, ValueError) as error:
        if made:
            with suppress(OSError):
                Path(made).unlink()
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"cannot be written: {reason}", where=str(path)) from None


def _names() -> str:
    return ", ".join(known.name for known in _FORMATS)


def _function(place: str) -> Callable[..., Any]:
    module, _, function = place.partition(":")
    found: Callable[..., Any] = getattr(import_module(module), function)
    return found
