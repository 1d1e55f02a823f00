"""The registry of formats, and reading and writing through it.

A format is a reader, a writer or both, and an entry in the `FORMATS` of its family. The entry names functions without importing
them, so a command pays only for the format it uses. ``specs/formats.md`` describes how to add one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import orjson

from fluxres.clock import FOREVER, seconds
from fluxres.documents import arguments, compression
from fluxres.documents.json_typed import collector_paused
from fluxres.documents.source import Source
from fluxres.documents.suggestion import nearest
from fluxres.errors import FluxresError, InputError, UsageError
from fluxres.formats import cluster, flux, graphs, hwloc, machine, peers, plain_values, slurm, tables
from fluxres.formats.detection import is_toml
from fluxres.formats.format import Format, Hold, Loaded, Output

if TYPE_CHECKING:
    from fluxres.graph.structure import Structure
    from fluxres.model.resource_graph import ResourceGraph


@dataclass(frozen=True, slots=True)
class Written:
    """A machine as a file.

    Args:
        format: its name.
        data: content of the file.
        left_out: what the format cannot express, one line per kind.
        note: what another program that reads the format does not see.
    """

    format: str
    data: bytes
    left_out: list[str] = field(default_factory=list)
    note: str = ""

    @property
    def text(self) -> str:
        return self.data.decode()


_FORMATS: Final = (
    *cluster.FORMATS,
    *flux.FORMATS,
    *machine.FORMATS,
    *hwloc.FORMATS,
    *peers.FORMATS,
    *slurm.FORMATS,
    *graphs.FORMATS,
    *tables.FORMATS,
)

#: the name in messages for values from a caller
_VALUES: Final = "<dict>"
#: bytes of a file examined to detect its format: the first keys, after any comment
HEAD_BYTES: Final = 65_536


def formats() -> list[Format]:
    """All formats, in the order in which they are tried.

    >>> formats()[0].name
    'cluster'
    """
    return list(_FORMATS)


def named(name: str) -> Format:
    """The format of this name.

    Errors: UsageError with the known names.
    """
    arguments.text(name, "format", hint=f"choose from {', '.join(known.name for known in _FORMATS)}")
    for known in _FORMATS:
        if known.name == name:
            return known
    raise UsageError(f"no format {name!r}", hint=nearest(name, [known.name for known in _FORMATS]))


def detect(data: bytes) -> Format | None:
    """The format of a file, detected from its content; None if it looks like none.

    Args:
        data: content of the file, decompressed; the first HEAD_BYTES are examined.

    >>> detect(b"fluxres: 1\\nname: demo\\n").name
    'cluster'
    """
    head = data[:HEAD_BYTES].removeprefix(b"\xef\xbb\xbf")
    return next((known for known in _FORMATS if known.matches(head)), None)


# -- reading -------------------------------------------------------------------------------------------------------------


def read(
    source: Source | str | Path | bytes,
    *,
    format: str | None = None,
    file: str | None = None,
    origin: int | None = None,
    **options: Any,
) -> Loaded:
    """Read a machine from a file or text in any format.

    Args:
        source: a :class:`Source`; bytes are the text itself; a Path is a file; a str is a path, ``-`` for standard input, or the
            text if it contains a line break.
        format: its name; detected from the content by default.
        file: name for messages.
        origin: base of the uuids that the file does not give; random by default.
        options: of the format.

    Errors: InputError ``FILE:line:col: path: …``; UsageError for an unknown format or option.

    >>> read(b"{fluxres: 1, name: tiny, resources: [{type: node, count: 2}]}").structure.n
    3
    """
    opened = source if isinstance(source, Source) else Source.open(source, file=file)
    found = _format_of(opened, format)
    with collector_paused():
        loaded: Loaded = _function(_reader(found, opened))(opened, origin=origin, **_known(found, options))
    return loaded


def read_values(values: Mapping[str, Any], *, format: str | None = None, origin: int | None = None, **options: Any) -> Loaded:
    """Read a machine from a mapping: a cluster description, or the content of a JSON file of another format.

    Args:
        values: plain values; ids may be ranges and arrays.
        format, origin, options: as for :func:`read`.

    Errors: as :func:`read`, with the path in the values as the place.

    >>> read_values({"fluxres": 1, "resources": [{"type": "node", "count": 2}]}).structure.n
    3
    """
    chosen = named(format).name if format is not None else "cluster" if "fluxres" in values else ""
    if chosen != "cluster":
        made = plain_values.document(values, _VALUES, finite=True)
        try:
            source = Source(orjson.dumps(made.values), _VALUES)
        except TypeError as error:
            raise InputError(f"cannot be written as JSON: {error}", where=_VALUES) from None
        if chosen or detect(source.data) is not None:
            return read(source, format=format, origin=origin, **options)
    _known(named("cluster"), options)
    return cast("Loaded", _function("fluxres.formats.cluster.read:build")(plain_values.document(values, _VALUES), origin=origin))


def read_many(sources: Sequence[Source], *, format: str | None = None, origin: int | None = None, **options: Any) -> Loaded:
    """Read one machine from several files, each of which describes a part of it.

    Args:
        sources: read one at a time; the first determines the format if none is given.
        format, origin, options: as for :func:`read`.

    Errors: as :func:`read`; UsageError for a format that does not support several files.
    """
    if not sources:
        raise UsageError("no files to read", hint="name one or more")
    first = sources[0]
    found = _format_of(first, format)
    if found.many is None:
        can = [known.name for known in _FORMATS if known.many is not None]
        hint = f"only several files of {' or '.join(can)} make one machine; use merge for others"
        raise UsageError(f"each file of format '{found.name}' is a separate machine", where=first.file, hint=hint)
    loaded: Loaded = _function(found.many)(sources, origin=origin, **_known(found, options))
    return loaded


def read_live(address: str, *, origin: int | None = None, **options: Any) -> Loaded | None:
    """Read a source named ``FORMAT:…`` that is not a file, such as the local machine; None for any other text.

    Errors: as :func:`read`.
    """
    found = live_format(address)
    if found is None or found.live is None:
        return None
    rest = address.partition(":")[2]
    loaded: Loaded = _function(found.live)(rest, origin=origin, **_known(found, options))
    return loaded


def live_format(address: str) -> Format | None:
    """The format of a source that is not a file; None for a file or a store.

    >>> live_format("this-machine").name, live_format("hwloc:").name, live_format("hwloc")
    ('this-machine', 'hwloc', None)
    """
    name, colon, _ = address.partition(":")
    found = next((known for known in _FORMATS if known.name == name and known.live is not None), None)
    return found if found is not None and (colon or found.reader is None) else None


def _format_of(source: Source, format: str | None) -> Format:
    found = named(format) if format is not None else detect(source.data)
    if found is not None:
        return found
    # Reading it as a document reports what is wrong: another encoding, an empty or truncated file.
    if is_toml(source.text[:HEAD_BYTES]):
        hint = "a configuration of flux-core has [[resource.config]]; 'fluxres formats' lists the other formats"
        raise InputError("is TOML or INI without a table [resource]", where=source.file, hint=hint)
    if not source.text.strip() or source.text.lstrip()[0] in "{[":
        _ = source.document
    hint = "a cluster file begins with 'fluxres: 1'; 'fluxres formats' lists the other formats"
    raise InputError("unrecognized format", where=source.file, hint=hint)


def _reader(found: Format, source: Source) -> str:
    if found.reader is None:
        hint = "'fluxres formats' lists the formats"
        raise UsageError(f"format '{found.name}' can be written but not read", where=source.file, hint=hint)
    return found.reader


def _known(found: Format, options: dict[str, Any]) -> dict[str, Any]:
    """The options given to a format; unknown ones are refused."""
    given = {key: value for key, value in options.items() if value is not None and value != ()}
    for key in given.keys() - found.options:
        hint = f"it has {', '.join(sorted(found.options))}" if found.options else "leave it out"
        raise UsageError(f"format '{found.name}' has no option '{key}'", hint=hint)
    return given


# -- writing -------------------------------------------------------------------------------------------------------------


def write(
    structure: Structure,
    allocations: Sequence[Hold] = (),
    *,
    name: str | None = None,
    format: str = "cluster",
    **options: Any,
) -> Written:
    """A machine as a file of a format, and what that cannot express (rule S1).

    Errors: UsageError for a format that does not exist or cannot be written, and for a machine that it cannot express at all.
    Cost: that of the format; only formats with a line per pool loop over pools.
    """
    chosen = named(format)
    if chosen.writer is None:
        raise UsageError(f"format '{chosen.name}' can be read but not written", hint="'fluxres formats' lists the formats")
    try:
        output: Output = _function(chosen.writer)(structure, allocations, name=name, **_known(chosen, options))
    except FluxresError as error:
        message = f"cannot be written in format '{chosen.name}': {error.message}"
        raise UsageError(
            message, where=error.where, hint=error.hint or "save to a store, which keeps any graph as it is"
        ) from error
    return Written(chosen.name, output.data, output.left_out, output.note)


def holds(graph: ResourceGraph) -> list[Hold]:
    """The allocations of a graph, by job and window, without windows that cannot be expressed in seconds.

    Cost O(spans).
    """
    windows: dict[tuple[str, int, int], dict[int, int]] = {}
    slots = dict(graph.records.slots_of)
    jobs = set(graph.records.jobs())
    for v, holders in graph.records.held.items():
        for job, held in holders.items():
            if job in jobs:
                for start, end, amount in held:
                    windows.setdefault((job, start, end), {})[v] = amount
    for job, implied in graph.records.implied.items():
        for v, held in implied.items() if job in jobs else ():
            for start, end, amount in held:
                windows.setdefault((job, start, end), {})[v] = amount
    drawn: dict[tuple[str, int, int], list[tuple[int, int, int]]] = {}
    for job, consumers, account, held in graph.records.drawn.rows():
        for start, end, units in held:
            parts = [(v, account, units if v == consumers[0] else 0) for v in consumers]
            drawn.setdefault((job, start, end), []).extend(parts)
    found = []
    for window in sorted(windows.keys() | drawn.keys()):
        job, start, end = window
        if seconds(start) < seconds(end):
            pools, rows = dict(sorted(windows.get(window, {}).items())), tuple(sorted(drawn.get(window, ())))
            end_s = None if end >= FOREVER else seconds(end)
            found.append(Hold(job, seconds(start), end_s, pools, slots.pop(job, 0) if pools else 0, rows))
    return found


def by_ending(path: Path) -> Format:
    """The format for the extension of a file, ignoring a following ``.gz``, ``.zst``, ``.xz`` or ``.bz2``.

    Errors: UsageError with the known extensions.

    >>> by_ending(Path("site.yaml.gz")).name, by_ending(Path("site.R")).name
    ('cluster', 'R')
    """
    plain = path.with_suffix("") if path.suffix.lower() in compression.ENDINGS else path
    writable = [known for known in _FORMATS if known.writer is not None]
    name = plain.name.lower()
    fitting = [(len(ending), known) for known in writable for ending in known.extensions if name.endswith(ending.lower())]
    if not fitting:
        hint = "give a format; 'fluxres formats' lists the formats and their extensions"
        raise UsageError(f"no format has the extension '{plain.suffix}'", where=str(path), hint=hint)
    longest = max(length for length, _ in fitting)
    return next(known for length, known in fitting if length == longest)


def _function(place: str) -> Callable[..., Any]:
    module, _, function = place.partition(":")
    found: Callable[..., Any] = getattr(import_module(module), function)
    return found
