"""The registry of formats, and reading and writing through it.

A format is a reader, a writer or both, and an entry in the `FORMATS` of its family. The entry names functions without importing
them, so a command pays only for the format it uses. Formats of other packages are entry points of `GROUP` and come last.
``specs/formats.md`` describes how to add one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import orjson

from fluxres.clock import FOREVER, seconds
from fluxres.documents import arguments, compression
from fluxres.documents.document import plural
from fluxres.documents.json_typed import collector_paused
from fluxres.documents.source import Source
from fluxres.documents.suggestion import choose_from, nearest
from fluxres.errors import FluxresError, InputError, UsageError
from fluxres.formats import cluster, flux, graphs, hwloc, machine, peers, plain_values, slurm, tables
from fluxres.formats.detection import is_toml
from fluxres.formats.format import Format, Hold, Loaded, Output, Reserved
from fluxres.syntax.registry import Registry

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

GROUP: Final = "fluxres.formats"
"""The entry point group of the formats of other packages, each a `Format`."""
_OTHERS: Final = Registry[Format]("format", {}, GROUP)
_DEFECTS: Final = (ValueError, TypeError, LookupError, AttributeError, ImportError)
"""What readers and writers, also those of other packages, must not raise."""

#: the name in messages for values from a caller
_VALUES: Final = "<dict>"
#: bytes of a file examined to detect its format: the first keys, after any comment
HEAD_BYTES: Final = 65_536


def formats() -> list[Format]:
    """All formats, in the order in which they are tried. Those of other packages come last, without any that cannot be imported.

    >>> formats()[0].name
    'cluster'
    """
    return list(_all())


def named(name: str) -> Format:
    """The format of this name.

    Errors: UsageError with the known names, and for one of another package that cannot be imported.
    """
    arguments.text(name, "format", hint=choose_from(known.name for known in _FORMATS))
    for known in _FORMATS:
        if known.name == name:
            return known
    others = _OTHERS.names()
    if name in others:
        return _other(name)
    raise UsageError(f"no format {name!r}", hint=nearest(name, [*(known.name for known in _FORMATS), *others]))


def _all() -> Iterator[Format]:
    """All formats; other packages are imported only if it gets that far."""
    yield from _FORMATS
    own = {known.name for known in _FORMATS}
    for name in _OTHERS.names():
        if name not in own:
            with suppress(UsageError):  # reported where it is named
                yield _other(name)


def _other(name: str) -> Format:
    found = _OTHERS.find(name)
    if not isinstance(found, Format):
        raise UsageError(f"expected a Format, got {found!r:.80}", where=_OTHERS.where(name))
    return replace(found, name=name)


def detect(data: bytes) -> Format | None:
    """The format of a file, detected from its content; None if it looks like none.

    Args:
        data: content of the file, decompressed; the first HEAD_BYTES are examined.

    >>> detect(b"fluxres: 1\\nname: demo\\n").name
    'cluster'
    """
    head = data[:HEAD_BYTES].removeprefix(b"\xef\xbb\xbf")
    return next((known for known in _all() if known.matches(head)), None)


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
    reader, given = _reader(found, opened), _known(found, options)
    with collector_paused(), _reading(found, opened.file):
        loaded: Loaded = _function(reader)(opened, origin=origin, **given)
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
    cluster_format = named("cluster")
    _known(cluster_format, options)
    with _reading(cluster_format, _VALUES):
        build = _function("fluxres.formats.cluster.read:build")
        return cast("Loaded", build(plain_values.document(values, _VALUES), origin=origin))


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
        can = [known.name for known in _all() if known.many is not None]
        hint = f"only several files of {' or '.join(can)} make one machine; use merge for others"
        raise UsageError(f"each file of format '{found.name}' is a separate machine", where=first.file, hint=hint)
    given = _known(found, options)
    with _reading(found, f"{first.file} and {len(sources) - 1} more" if len(sources) > 1 else first.file):
        loaded: Loaded = _function(found.many)(sources, origin=origin, **given)
    return loaded


def read_live(address: str, *, origin: int | None = None, **options: Any) -> Loaded | None:
    """Read a source named ``FORMAT:…`` that is not a file, such as the local machine; None for any other text.

    Errors: as :func:`read`.
    """
    found = live_format(address)
    if found is None or found.live is None:
        return None
    rest, given = address.partition(":")[2], _known(found, options)
    with _reading(found, address):
        loaded: Loaded = _function(found.live)(rest, origin=origin, **given)
    return loaded


def live_format(address: str) -> Format | None:
    """The format of a source that is not a file; None for a file or a store.

    >>> live_format("this-machine").name, live_format("hwloc:").name, live_format("hwloc")
    ('this-machine', 'hwloc', None)
    """
    name, colon, _ = address.partition(":")
    found = next((known for known in _FORMATS if known.name == name), None)
    if found is None and colon and name in _OTHERS.names():
        found = _other(name)
    return found if found is not None and found.live is not None and (colon or found.reader is None) else None


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


@contextmanager
def _reading(found: Format, where: str) -> Iterator[None]:
    """Report what a reader must not raise with the name of what it reads (rule E1)."""
    try:
        yield
    except _DEFECTS as error:
        message = f"cannot be read in format '{found.name}': {type(error).__name__}: {error}"
        raise InputError(message, where=where, hint="this is a defect of the reader: report it") from error


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
    reservations: Sequence[Reserved] = (),
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
    known, left_out = _known(chosen, options), _lost(reservations)
    if "reservations" in chosen.carries:
        known, left_out = known | {"reservations": reservations}, []
    try:
        output: Output = _function(chosen.writer)(structure, allocations, name=name, **known)
    except FluxresError as error:
        message = f"cannot be written in format '{chosen.name}': {error.message}"
        raise UsageError(
            message, where=error.where, hint=error.hint or "save to a store, which keeps any graph as it is"
        ) from error
    except _DEFECTS as error:
        message = f"cannot be written in format '{chosen.name}': {type(error).__name__}: {error}"
        raise UsageError(message, hint="this is a defect of the writer: report it") from error
    return Written(chosen.name, output.data, [*output.left_out, *left_out], output.note)


def _lost(reservations: Sequence[Reserved]) -> list[str]:
    """The line for reservations in a format that does not carry them."""
    if not reservations:
        return []
    such = "such as " * (len(reservations) > 1)
    return [f"reservations: {plural(len(reservations), 'maintenance reservation')}, {such}{reservations[0].name}"]


def holds(graph: ResourceGraph) -> list[Hold]:
    """The allocations of a graph, by job and window, without windows that cannot be expressed in seconds.

    Maintenance reservations are not among them: :func:`reserved` has these. Cost O(spans).
    """
    windows = _windows(graph, set(graph.records.jobs()) - graph.records.reservations.keys())
    slots = dict(graph.records.slots_of)
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


def reserved(graph: ResourceGraph) -> list[Reserved]:
    """The maintenance reservations of a graph, without windows that cannot be expressed in seconds.

    Cost O(spans).
    """
    records, found = graph.records, list[Reserved]()
    if not records.reservations:
        return found
    from fluxres.model import reserving

    spans = _windows(graph, set(records.reservations))
    held: dict[str, list[tuple[int, int, dict[int, int]]]] = {}
    for name, start, end in sorted(spans):
        held.setdefault(name, []).append((start, end, dict(sorted(spans[name, start, end].items()))))
    size, units = graph.structure.size.item, records.accounts.units.item
    for name, one in records.reservations.items():
        windows = tuple((seconds(start), seconds(end)) for start, end in one.windows if seconds(start) < seconds(end))
        everything = {v: size(v) for v in one.out if units(v)}
        parts = held.get(name, [])
        is_whole = parts == [(start, end, everything) for start, end in one.windows if everything]
        listed = tuple((seconds(start), seconds(end), pools) for start, end, pools in parts if seconds(start) < seconds(end))
        facts = records.facts.get(name)
        user, submitted = (None, None) if facts is None else (facts.user, facts.submitted)
        made_s = None if submitted is None else seconds(submitted)
        if windows:
            left = None if is_whole else listed
            affected = None if one.affected == reserving.affected(graph.structure, one.pools) else one.affected
            found.append(Reserved(name, one.pools, windows, one.ignores_jobs, user, made_s, left, affected))
    return found


def _windows(graph: ResourceGraph, owners: Set[str]) -> dict[tuple[str, int, int], dict[int, int]]:
    """Units by pool that these hold, by owner and window in ticks."""
    found: dict[tuple[str, int, int], dict[int, int]] = {}
    for v, holders in graph.records.held.items():
        for owner, held in holders.items():
            if owner in owners:
                for start, end, amount in held:
                    found.setdefault((owner, start, end), {})[v] = amount
    for owner, implied in graph.records.implied.items():
        for v, held in implied.items() if owner in owners else ():
            for start, end, amount in held:
                found.setdefault((owner, start, end), {})[v] = amount
    return found


def by_ending(path: Path) -> Format:
    """The format for the extension of a file, ignoring a following ``.gz``, ``.zst``, ``.xz`` or ``.bz2``.

    Errors: UsageError with the known extensions.

    >>> by_ending(Path("site.yaml.gz")).name, by_ending(Path("site.R")).name
    ('cluster', 'R')
    """
    plain = path.with_suffix("") if path.suffix.lower() in compression.ENDINGS else path
    name = plain.name.lower()
    length, found = _longest_ending(name, _FORMATS)
    if found is None or "." in name[: len(name) - length]:  # another package may have it, or a longer one
        _, found = _longest_ending(name, _all())
    if found is None:
        hint = "give a format; 'fluxres formats' lists the formats and their extensions"
        raise UsageError(f"no format has the extension '{plain.suffix}'", where=str(path), hint=hint)
    return found


def _longest_ending(name: str, among: Iterable[Format]) -> tuple[int, Format | None]:
    """The longest extension of a file, in characters, and the first format that has it and can be written."""
    longest, found = 0, None
    for known in among:
        for ending in known.extensions if known.writer is not None else ():
            if len(ending) > longest and name.endswith(ending.lower()):
                longest, found = len(ending), known
    return longest, found


def _function(place: str) -> Callable[..., Any]:
    module, _, function = place.partition(":")
    found: Callable[..., Any] = getattr(import_module(module), function)
    return found
