"""Encode a machine and its records as bytes, and decode them.

There are two blobs because two things change at very different rates. The *shape* (pools, kinds, auxiliary graphs) changes with a
merge or an unlink; the *marks* on it (states, tags, allocations, stages) change with every command. A store writes new marks
after a few hundred events, in milliseconds, and leaves the megabytes of the shape alone.

A blob is an envelope with magic, version and checksum. A flipped bit must lead to an error, not to a machine with one more node,
so the checksum is verified before any of the blob is used. Data that cannot be decoded is reported as damage all the same.

A column is its first number and the changes from one number to the next. Machines are regular: most columns are constant,
increase evenly, or repeat with every node, so that their changes are few small numbers, which deflate packs well. zlib runs at
level 1: on columns, level 6 would save half of very little, and on texts that do not repeat it takes four times as long for a few
per cent. All arithmetic is modulo the width of the column, so no integer is too large.

Derived data is not stored: parents and subtree ends follow from the depth column, types from kinds, the planner and the `shared`
counters from the records.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from fluxres import limits
from fluxres.allocation.chosen import Chosen
from fluxres.allocation.facts import JobFacts, Reservation
from fluxres.allocation.planned import Staged
from fluxres.arrays import Int32, Int64
from fluxres.errors import StoreError
from fluxres.graph import surgery
from fluxres.graph.auxiliary import Subsystem
from fluxres.graph.kinds import STATES, Kind, KindTable, PropertyValue
from fluxres.graph.structure import COLUMNS, Structure

Ints = NDArray[Any]
T = TypeVar("T")
KindRow = tuple[str, str, str | None, str | None, list[list[Any]]]
DrawnRow = tuple[int, tuple[int, ...], int, int, int, int]

VERSION: Final = 2
SHAPE_MAGIC: Final = b"fxSH"
MARKS_MAGIC: Final = b"fxMK"
CHECKSUM_BYTES: Final = 16
#: columns of a shape; parent and end are derived from the depth, states are marks
SHAPE_COLUMNS: Final = ("kind", "size", "id", "rank", "flags", "origin", "serial")
_FRAME: Final = struct.Struct("<4sHI")
_WIDTHS: Final = (0, 1, 2, 4, 8)
_ZIP_FROM_BYTES: Final = 64


# -- the envelope --------------------------------------------------------------------------------------------------------


class Packed(msgspec.Struct, array_like=True, frozen=True):
    """A list of plain values as MessagePack, deflated if worthwhile."""

    size: int
    zipped: bool
    length: int


def checksum(data: bytes | memoryview) -> bytes:
    """BLAKE2b of `data`, 16 bytes; 1 GB/s."""
    return hashlib.blake2b(data, digest_size=CHECKSUM_BYTES).digest()


def way_out(found: int, known: int) -> str:
    """A hint for data of another version."""
    if found > known:
        return "use a newer fluxres"
    return "read it with the fluxres that wrote it, or name another file by --store or FLUXRES_STORE and load the machine again"


def pack(magic: bytes, version: int, header: msgspec.Struct, payloads: list[bytes]) -> bytes:
    """Magic, version, header, payloads and the checksum over all of them."""
    head = msgspec.msgpack.encode(header)
    body = b"".join([_FRAME.pack(magic, version, len(head)), head, *payloads])
    return body + checksum(body)


class Reader:
    """A blob with a verified checksum, read from front to back.

    Errors: StoreError for damage, and for another version; msgspec.MsgspecError for values of other types.
    """

    def __init__(self, data: bytes, magic: bytes, version: int) -> None:
        if len(data) < _FRAME.size + CHECKSUM_BYTES:
            raise StoreError(f"{len(data)} bytes are too short")
        view = memoryview(data)
        body, self.checksum = view[:-CHECKSUM_BYTES], bytes(view[-CHECKSUM_BYTES:])
        if checksum(body) != self.checksum:
            raise StoreError("the checksum does not match")
        found_magic, found_version, head_length = _FRAME.unpack_from(body)
        if found_magic != magic:
            raise StoreError(f"expected {magic!r}, found {found_magic!r}")
        if found_version != version:
            raise StoreError(
                f"written in version {found_version} of its encoding, but this fluxres supports only version {version}",
                hint=way_out(found_version, version),
            )
        self._body = body
        self._at = _FRAME.size
        self._head = self.take(head_length)

    def header(self, header: type[T]) -> T:
        return msgspec.msgpack.decode(self._head, type=header)

    def values(self, packed: Packed, kind: Any) -> Any:
        """Packed values, decoded as their type; packed ones are read in the order in which they were written."""
        return msgspec.msgpack.decode(expand(self.take(packed.length), packed.zipped, packed.size), type=kind)

    def take(self, length: int) -> memoryview:
        """The next `length` bytes."""
        stop = self._at + length
        if length < 0 or stop > len(self._body):
            raise StoreError("it is truncated")
        taken = self._body[self._at : stop]
        self._at = stop
        return taken


# -- columns -------------------------------------------------------------------------------------------------------------


class Column(msgspec.Struct, array_like=True, frozen=True):
    """The description of a stored column; its payload holds every change less the least one.

    Args:
        count: number of values.
        first: the first value.
        least: the least change from one value to the next.
        width: bytes of a stored number; 0 if all changes are equal, as in a constant column, and nothing is stored.
        zipped: whether the payload is deflated.
        length: bytes of the payload.
    """

    count: int
    first: int = 0
    least: int = 0
    width: int = 0
    zipped: bool = False
    length: int = 0


def encode_column(values: Ints, payloads: list[bytes]) -> Column:
    """Append the data of `values` to `payloads`, and return its description.

    >>> payloads = []
    >>> encode_column(np.arange(1000, dtype=np.int64), payloads), payloads
    (Column(count=1000, first=0, least=1, width=0, zipped=False, length=0), [])
    """
    count = len(values)
    if count < 2:
        return Column(count, *values.tolist())
    unsigned = np.dtype(f"u{values.itemsize}")
    changes = np.diff(values.view(unsigned))
    signed = changes.view(f"i{values.itemsize}")
    least, most = signed.min().item(), signed.max().item()
    width = next(width for width in _WIDTHS if most - least < 1 << (8 * width))
    payload, zipped = b"", False
    if width:
        changes -= np.array(least).astype(unsigned)
        payload, zipped = squeeze(changes.astype(f"<u{width}", copy=False).tobytes())
        payloads.append(payload)
    return Column(count, values[0].item(), least, width, zipped, len(payload))


def decode_column(column: Column, dtype: Any, take: Callable[[int], bytes | memoryview]) -> Ints:
    """The decoded values, as `dtype`.

    Args:
        take: returns the next payload of a length, in the order in which `encode_column` appended them.

    Errors: StoreError for data that `encode_column` cannot have written.
    """
    count, width = column.count, column.width
    if not 0 <= count <= limits.POOLS_MAX:
        raise StoreError(f"a column of {count} values")
    if width not in _WIDTHS:
        raise StoreError(f"a column of width {width}")
    unsigned = np.dtype(f"u{np.dtype(dtype).itemsize}")
    if not (width or column.least):
        return np.full(count, np.array(column.first).astype(unsigned), unsigned).view(dtype)
    wide = np.promote_types(unsigned, np.uint32)  # NumPy sums up narrower numbers at half the speed
    stored: Ints = np.zeros(1, np.uint8)
    if width:
        stored = np.frombuffer(expand(take(column.length), column.zipped, (count - 1) * width), f"<u{width}")
    values = np.empty(count, wide)
    values[:1] = np.array(column.first).astype(wide)
    np.add(stored, np.array(column.least).astype(wide), out=values[1:], dtype=wide, casting="unsafe")
    return np.cumsum(values, out=values).astype(unsigned, copy=False).view(dtype)


def squeeze(raw: bytes) -> tuple[bytes, bool]:
    """`raw` deflated if that is worthwhile, and whether it is.

    >>> squeeze(bytes(1000))[1], squeeze(b"short")
    (True, (b'short', False))
    """
    if len(raw) < _ZIP_FROM_BYTES:
        return raw, False
    zipped = zlib.compress(raw, 1)
    return (zipped, True) if len(zipped) < 0.9 * len(raw) else (raw, False)


def expand(payload: bytes | memoryview, zipped: bool, size: int) -> bytes | memoryview:
    """The inverse of :func:`squeeze`; never makes more than `size` bytes.

    Errors: StoreError if the result is not exactly `size` bytes.
    """
    raw = payload
    if zipped:
        try:
            raw = zlib.decompressobj().decompress(payload, size + 1)
        except zlib.error as error:
            raise StoreError(f"deflated data: {error}") from None
    if len(raw) != size:
        raise StoreError(f"{len(raw)} bytes instead of {size}")
    return raw


# -- headers -------------------------------------------------------------------------------------------------------------


class Sparse(msgspec.Struct, array_like=True, frozen=True):
    """A dictionary by vertex number: the numbers as a column, with the values."""

    keys: Column
    values: Packed


class Attribute(msgspec.Struct, array_like=True, frozen=True):
    """One column of edge attributes: the bits of floats as integers, or packed objects."""

    name: str
    numbers: Column | None
    objects: Packed | None


class Edges(msgspec.Struct, array_like=True, frozen=True):
    """One auxiliary graph."""

    name: str
    hierarchy: bool
    relations: list[str]
    src: Column
    dst: Column
    relation: Column
    attributes: list[Attribute]


class ShapeHeader(msgspec.Struct, frozen=True):
    """The content of a shape blob, in the order of its payloads."""

    pools: int
    tree_end: int
    origins: list[str]
    kinds: Packed
    depth: Column
    columns: list[Column]
    names: Sparse
    uuid_texts: Sparse
    capacity: Sparse
    subsystems: list[Edges]


class MarksHeader(msgspec.Struct, frozen=True):
    """The content of a marks blob; `shape` is the checksum of the shape that it belongs to."""

    shape: bytes
    pools: int
    state: Column
    tags: Sparse
    owners: Packed
    records: list[Column]
    stages: Packed
    slots: Packed | None = None
    stages_made: int = 0
    drawn: Packed | None = None
    facts: Packed | None = None
    reservations: Packed | None = None
    chosen: Packed | None = None
    returned: Packed | None = None


class RecordColumns(msgspec.Struct, frozen=True):
    """Allocations as columns.

    Args:
        owners: jobs (and stages, with separate owners), in the order in which they first held something.
        owner, vertex: int32; index into `owners`, and vertex number.
        start, end, amount: int64; ticks and units.
        stages: temporary locks.
        slots_of: by job, the number of slots of its requests, if known.
        stages_made: number of the next stage.
        drawn: (owner index, pools, account, start, end, units): the units drawn for these pools.
        facts: by job, its user and name.
        reservations: maintenance windows by name.
        chosen: by job, the order of pools that it chose by amounts.
        returned: such pools that came back, in the order in which they did.
    """

    owners: list[str]
    owner: Int32
    vertex: Int32
    start: Int64
    end: Int64
    amount: Int64
    stages: list[Staged]
    slots_of: dict[str, int] = msgspec.field(default_factory=dict)
    stages_made: int = 0
    drawn: list[DrawnRow] = msgspec.field(default_factory=list)
    facts: dict[str, JobFacts] = msgspec.field(default_factory=dict)
    reservations: dict[str, Reservation] = msgspec.field(default_factory=dict)
    chosen: dict[str, Chosen] = msgspec.field(default_factory=dict)
    returned: list[int] = msgspec.field(default_factory=list)

    @classmethod
    def of(
        cls,
        owners: list[str],
        spans: Sequence[tuple[int, int, int, int, int]] | Int64,
        stages: list[Staged],
        slots_of: dict[str, int] | None = None,
        stages_made: int = 0,
        drawn: list[DrawnRow] | None = None,
        facts: dict[str, JobFacts] | None = None,
        reservations: dict[str, Reservation] | None = None,
        chosen: dict[str, Chosen] | None = None,
        returned: list[int] | None = None,
    ) -> RecordColumns:
        """From (owner index, vertex, start, end, amount) rows."""
        rows = np.asarray(spans, np.int64).reshape(-1, 5)
        owner, vertex = rows[:, 0].astype(np.int32), rows[:, 1].astype(np.int32)
        return cls(
            owners,
            owner,
            vertex,
            rows[:, 2].copy(),
            rows[:, 3].copy(),
            rows[:, 4].copy(),
            stages,
            slots_of or {},
            stages_made,
            drawn or [],
            facts or {},
            reservations or {},
            chosen or {},
            returned or [],
        )


_RECORD_DTYPES: Final = (np.int32, np.int32, np.int64, np.int64, np.int64)


# -- writing -------------------------------------------------------------------------------------------------------------


def encode_shape(structure: Structure) -> bytes:
    """The shape of a structure: everything but states and tags.  Cost O(pools), 0.1 s per million."""
    structure, payloads = surgery.by_itself(structure), list[bytes]()
    header = ShapeHeader(
        pools=structure.n,
        tree_end=structure.tree_end,
        origins=[f"{origin:x}" for origin in structure.origins],
        kinds=_pack([_kind_row(kind) for kind in structure.kinds], payloads),
        depth=encode_column(structure.depth, payloads),
        columns=[encode_column(getattr(structure, name), payloads) for name in SHAPE_COLUMNS],
        names=_sparse(structure.names, payloads),
        uuid_texts=_sparse(structure.uuid_texts, payloads),
        capacity=_sparse(structure.capacity, payloads),
        subsystems=[_edges(subsystem, payloads) for subsystem in structure.subsystems.values()],
    )
    return pack(SHAPE_MAGIC, VERSION, header, payloads)


def encode_marks(structure: Structure, records: RecordColumns, shape: bytes) -> bytes:
    """The marks on a shape: states, tags, records and stages.

    Args:
        shape: the blob of this structure, or just its last bytes: its checksum.
    """
    payloads: list[bytes] = []
    header = MarksHeader(
        shape=shape_checksum(shape),
        pools=structure.n,
        state=encode_column(structure.state, payloads),
        tags=_sparse(structure.tags, payloads),
        owners=_pack(records.owners, payloads),
        records=[
            encode_column(column, payloads)
            for column in (records.owner, records.vertex, records.start, records.end, records.amount)
        ],
        stages=_pack(records.stages, payloads),
        slots=_pack(records.slots_of, payloads),
        stages_made=records.stages_made,
        drawn=_pack(records.drawn, payloads) if records.drawn else None,
        facts=_pack(records.facts, payloads) if records.facts else None,
        reservations=_pack(records.reservations, payloads) if records.reservations else None,
        chosen=_pack(records.chosen, payloads) if records.chosen else None,
        returned=_pack(records.returned, payloads) if records.returned else None,
    )
    return pack(MARKS_MAGIC, VERSION, header, payloads)


def shape_checksum(shape: bytes) -> bytes:
    """The link from marks to their shape: the checksum at the end of a shape blob."""
    return shape[-CHECKSUM_BYTES:]


def _kind_row(kind: Kind) -> KindRow:
    return kind.type, kind.basename, kind.unit, kind.name, [_property_row(key, value) for key, value in kind.properties]


def _property_row(key: str, value: PropertyValue) -> list[Any]:
    # MessagePack has at most 64 bits; a larger number is written as digits.
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return [key, str(value), True]
    return [key, value]


def _pack(values: Any, payloads: list[bytes]) -> Packed:
    raw = msgspec.msgpack.encode(values)
    payload, zipped = squeeze(raw)
    payloads.append(payload)
    return Packed(len(raw), zipped, len(payload))


def _sparse(values: dict[int, Any], payloads: list[bytes]) -> Sparse:
    keys = np.fromiter(values.keys(), np.int64, len(values))
    return Sparse(encode_column(keys, payloads), _pack(list(values.values()), payloads))


def _edges(subsystem: Subsystem, payloads: list[bytes]) -> Edges:
    return Edges(
        name=subsystem.name,
        hierarchy=subsystem.hierarchy,
        relations=list(subsystem.relations),
        src=encode_column(subsystem.src, payloads),
        dst=encode_column(subsystem.dst, payloads),
        relation=encode_column(subsystem.relation, payloads),
        attributes=[_attribute(name, column, payloads) for name, column in subsystem.attributes.items()],
    )


def _attribute(name: str, column: NDArray[Any], payloads: list[bytes]) -> Attribute:
    if column.dtype == np.float64:
        return Attribute(name, encode_column(np.ascontiguousarray(column).view(np.int64), payloads), None)
    return Attribute(name, None, _pack(column.tolist(), payloads))


# -- reading -------------------------------------------------------------------------------------------------------------


def decode(shape: bytes, marks: bytes) -> tuple[Structure, RecordColumns]:
    """The structure and the records.  Cost O(pools), 0.1 s per million.

    Errors: StoreError for damage, for marks of a different shape, and for data of another version.
    """
    try:
        on_shape = Reader(marks, MARKS_MAGIC, VERSION)
        header = on_shape.header(MarksHeader)
        if header.shape != shape_checksum(shape):
            raise StoreError("the marks belong to a different shape")
        state = decode_column(header.state, np.uint8, on_shape.take)
        tags = _read_sparse(header.tags, dict[str, str | None], on_shape, header.pools)
        records = _read_records(header, on_shape)
        structure = _read_shape(Reader(shape, SHAPE_MAGIC, VERSION), state, tags)
        _check(structure, records)
    except (msgspec.MsgspecError, ValueError, IndexError, KeyError, TypeError, OverflowError) as error:
        raise StoreError(f"unreadable: {error}") from None
    return structure, records


def _read_shape(reader: Reader, state: NDArray[Any], tags: dict[int, dict[str, str | None]]) -> Structure:
    header = reader.header(ShapeHeader)
    count = header.pools
    if not 1 <= count <= limits.POOLS_MAX or len(state) != count:
        raise StoreError(f"{count} pools, {len(state)} states")
    kinds = KindTable([_read_kind(row) for row in reader.values(header.kinds, list[KindRow])])
    parent, end = tree(decode_column(header.depth, np.int16, reader.take))
    found: dict[str, NDArray[Any]] = {"parent": parent, "end": end, "state": state}
    for name, column in zip(SHAPE_COLUMNS, header.columns, strict=True):
        found[name] = decode_column(column, COLUMNS[name], reader.take)
        if len(found[name]) != count:
            raise StoreError(f"column {name} has {len(found[name])} values, expected {count}")
    return Structure(
        found,
        kinds,
        origins=[int(origin, 16) for origin in header.origins],
        names=_read_sparse(header.names, str, reader, count),
        uuid_texts=_read_sparse(header.uuid_texts, str, reader, count),
        tags=tags,
        capacity=_read_sparse(header.capacity, int, reader, count),
        subsystems={edges.name: _read_edges(edges, reader) for edges in header.subsystems},
        tree_end=header.tree_end,
    )


def tree(depth: NDArray[np.int16]) -> tuple[Int32, Int32]:
    """Parents and subtree ends from the depths of pools in pre-order.

    Neighbours of one depth are siblings, so only the changes of depth matter. There, level by level from the deepest one:
    the last pool of a run ends where the next run begins, and the parent of a run is the last pool of the shallower run
    before it.

    >>> parent, end = tree(np.array([0, 1, 2, 2, 1], np.int16))
    >>> parent.tolist(), end.tolist()
    ([-1, 0, 1, 1, 0], [5, 4, 3, 4, 5])
    """
    count = len(depth)
    changes = np.diff(depth)
    if not count or depth[0] != 0 or depth.min() < 0 or changes.max(initial=0) > 1:
        raise StoreError("depths that are not those of a tree")
    starts = np.concatenate([[0], np.flatnonzero(changes != 0) + 1, [count]]).astype(np.int32)
    last = starts[1:] - np.int32(1)
    run_parent, run_end = np.full(len(last), -1, np.int32), np.empty(len(last), np.int32)
    left, level_of = np.arange(len(last), dtype=np.int32), depth[starts[:-1]]
    for level in range(int(level_of.max()), -1, -1):
        here = level_of == level
        at = left[here]
        run_end[at] = starts[np.append(left[1:], np.int32(len(last)))[here]]
        if level:
            run_parent[at] = last[np.maximum.accumulate(np.where(here, np.int32(0), left))[here]]
        left, level_of = left[~here], level_of[~here]
    end = np.arange(1, count + 1, dtype=np.int32)
    end[last] = run_end
    return np.repeat(run_parent, np.diff(starts)), end


def _read_kind(row: KindRow) -> Kind:
    type_name, basename, unit, name, properties = row
    return Kind(type_name, basename, unit, name, tuple(map(_read_property, properties)))


def _read_property(row: list[Any]) -> tuple[str, PropertyValue]:
    return row[0], int(row[1]) if len(row) == 3 else row[1]


def _read_sparse(sparse: Sparse, value: Any, reader: Reader, pools: int) -> dict[int, Any]:
    keys = decode_column(sparse.keys, np.int64, reader.take)
    values = reader.values(sparse.values, list[value])
    if len(keys) and not (keys.min() >= 0 and keys.max() < pools):
        raise StoreError("data of a pool that does not exist")
    return dict(zip(keys.tolist(), values, strict=True))


def _read_edges(edges: Edges, reader: Reader) -> Subsystem:
    src = decode_column(edges.src, np.int32, reader.take)
    dst = decode_column(edges.dst, np.int32, reader.take)
    relation = decode_column(edges.relation, np.uint16, reader.take)
    attributes = {attribute.name: _read_attribute(attribute, reader) for attribute in edges.attributes}
    if {*map(len, (src, dst, relation, *attributes.values()))} != {len(src)}:
        raise StoreError(f"edges of '{edges.name}' whose columns differ in length")
    return Subsystem(edges.name, edges.hierarchy, src, dst, relation, list(edges.relations), attributes)


def _read_attribute(attribute: Attribute, reader: Reader) -> NDArray[Any]:
    if attribute.numbers is not None:
        return decode_column(attribute.numbers, np.int64, reader.take).view(np.float64)
    if attribute.objects is None:
        raise StoreError(f"edge attribute '{attribute.name}' without values")
    values = reader.values(attribute.objects, list[Any])
    column = np.empty(len(values), object)
    column[:] = values
    return column


def _read_records(header: MarksHeader, reader: Reader) -> RecordColumns:
    owners: list[str] = reader.values(header.owners, list[str])
    found = [decode_column(column, dtype, reader.take) for column, dtype in zip(header.records, _RECORD_DTYPES, strict=True)]
    stages: list[Staged] = reader.values(header.stages, list[Staged])
    slots_of: dict[str, int] = {} if header.slots is None else reader.values(header.slots, dict[str, int])
    drawn: list[DrawnRow] = [] if header.drawn is None else reader.values(header.drawn, list[DrawnRow])
    facts: dict[str, JobFacts] = {} if header.facts is None else reader.values(header.facts, dict[str, JobFacts])
    reservations: dict[str, Reservation] = (
        {} if header.reservations is None else reader.values(header.reservations, dict[str, Reservation])
    )
    if len({len(column) for column in found}) != 1:
        raise StoreError("records whose columns differ in length")
    owner, vertex, start, end, amount = found
    return RecordColumns(
        owners,
        owner,
        vertex,
        start,
        end,
        amount,
        stages,
        slots_of,
        header.stages_made,
        drawn,
        facts,
        reservations,
        {} if header.chosen is None else reader.values(header.chosen, dict[str, Chosen]),
        [] if header.returned is None else reader.values(header.returned, list[int]),
    )


def _check(structure: Structure, records: RecordColumns) -> None:
    """That no number points outside of what it indexes."""
    count = structure.n
    bounds: list[tuple[str, NDArray[Any], int]] = [
        ("kind", structure.kind, len(structure.kinds)),
        ("state", structure.state, len(STATES)),
        ("origin", structure.origin, len(structure.origins)),
        ("owner", records.owner, len(records.owners)),
        ("held pool", records.vertex, structure.accounts.n),
    ]
    for subsystem in structure.subsystems.values():
        bounds += [(subsystem.name, subsystem.src, count), (subsystem.name, subsystem.dst, count)]
        bounds += [(subsystem.name, subsystem.relation, len(subsystem.relations))]
    for name, column, bound in bounds:
        if len(column) and not (column.min() >= 0 and column.max() < bound):
            raise StoreError(f"{name}: a number outside of 0 to {bound - 1}")
    for of, pools, account, start, end, units in records.drawn:
        known = 0 <= of < len(records.owners) and all(0 <= v < count for v in pools) and 0 <= account < structure.accounts.n
        if not (known and pools and start < end and units > 0):
            raise StoreError("units drawn for pools that are not there")
    if not records.slots_of.keys() <= set(records.owners) or min(records.slots_of.values(), default=1) < 1:
        raise StoreError("slots of a job that holds nothing, or none")
    for name, one in records.reservations.items():
        if not (
            one.pools
            and all(0 <= v < count for v in (*one.pools, *one.affected))
            and all(start < end for start, end in one.windows)
        ):
            raise StoreError(f"reservation {name!r} is of nothing")
    orders = [*(one.pools for one in records.chosen.values()), tuple(records.returned)]
    if not all(0 <= v < count for pools in orders for v in pools) or len(set(records.returned)) < len(records.returned):
        raise StoreError("an order of pools that are not there")
    if records.stages_made < 0:
        raise StoreError("a number of stages below 0")
    if (records.amount < 1).any() or (records.start >= records.end).any():
        raise StoreError("a record of nothing")
    if not 1 <= structure.tree_end <= count:
        raise StoreError(f"a tree of {structure.tree_end} of {count} pools")
