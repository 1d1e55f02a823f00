"""A lossless, compact encoding of an integer column.

Machines are regular: a column is constant, or increases evenly, or repeats with every node. The first two take a handful of
numbers. The last is handled by deflate, once the numbers are as narrow as their range allows. The forms below are tried from the
cheapest on, each in one or two passes over the array. zlib runs at level 1: on columns, level 6 would save half of very little,
and on texts that do not repeat it takes four times as long for a few per cent.

All arithmetic is modulo 2**64, so no int64 value is too large for any form.
"""

from __future__ import annotations

import zlib
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from fluxres import limits
from fluxres.errors import StoreError

Ints = NDArray[Any]

_MASK: Final = (1 << 64) - 1
_WIDTHS: Final = (1, 2, 4, 8)
_RUNS_WORTH: Final = 16
"""Runs are stored instead of values only if there are this many times fewer of them."""
_ZIP_FROM_BYTES: Final = 64


class Column(msgspec.Struct, array_like=True, frozen=True):
    """The description of a stored column; its numbers follow as payload.

    Args:
        form: ``constant`` (base), ``ramp`` (base + step * index), ``offset`` (base + stored), ``change`` (each is the one
            before plus base + stored; the first is `step`), ``runs`` (two columns: where runs begin, what they hold).
        count: number of values.
        width: bytes of a stored number, 0 if none are stored.
        zipped: whether the payload is deflated.
        length: bytes of the payload.
        parts: the two columns of ``runs``.
    """

    form: str
    count: int
    base: int = 0
    step: int = 0
    width: int = 0
    zipped: bool = False
    length: int = 0
    parts: tuple[Column, ...] = ()


def encode(values: Ints, payloads: list[bytes]) -> Column:
    """Append the data of `values` to `payloads`, and return its description.

    >>> payloads = []
    >>> encode(np.arange(1000, dtype=np.int64), payloads).form, payloads
    ('ramp', [])
    """
    count = len(values)
    if not count:
        return Column("constant", 0)
    first, low, high = values[0].item(), values.min().item(), values.max().item()
    if low == high:
        return Column("constant", count, base=first)
    step = values[1].item() - first
    if first + step * (count - 1) == values[-1].item() and (_changes(values) == step).all():
        return Column("ramp", count, base=first, step=step)
    differs = values[1:] != values[:-1]
    if (np.count_nonzero(differs) + 1) * _RUNS_WORTH <= count:
        starts = np.concatenate([[0], np.flatnonzero(differs) + 1])
        return Column("runs", count, parts=(encode(starts, payloads), encode(values[starts], payloads)))
    if _width(high - low) > 1:
        changes = _changes(values)
        low_change, high_change = changes.min().item(), changes.max().item()
        if _width(high_change - low_change) < _width(high - low):
            return _narrow("change", changes, low_change, high_change, payloads, step=first)
    return _narrow("offset", values, low, high, payloads)


def _changes(values: Ints) -> NDArray[np.int64]:
    return np.diff(values.astype(np.int64, copy=False).view(np.uint64)).view(np.int64)


def _width(span: int) -> int:
    return next(width for width in _WIDTHS if span < 1 << (8 * width))


def _unsigned(dtype: Any) -> tuple[Any, int]:
    """The unsigned type of the same width, and its largest number."""
    width = np.dtype(dtype).itemsize
    return np.dtype(f"u{width}"), (1 << (8 * width)) - 1


def _narrow(form: str, values: Ints, low: int, high: int, payloads: list[bytes], *, step: int = 0) -> Column:
    width = _width(high - low)
    unsigned, mask = _unsigned(values.dtype)
    stored = (values.view(unsigned) - unsigned.type(low & mask)).astype(f"<u{width}")
    payload, zipped = squeeze(stored.tobytes())
    payloads.append(payload)
    count = len(values) + (form == "change")
    return Column(form, count, low, step, width, zipped, len(payload))


def squeeze(raw: bytes) -> tuple[bytes, bool]:
    """`raw` deflated if that is worthwhile, and whether it is.

    >>> squeeze(bytes(1000))[1], squeeze(b"short")
    (True, (b'short', False))
    """
    if len(raw) < _ZIP_FROM_BYTES:
        return raw, False
    zipped = zlib.compress(raw, 1)
    return (zipped, True) if len(zipped) < 0.9 * len(raw) else (raw, False)


def expand(payload: bytes | memoryview, zipped: bool, size: int) -> bytes:
    """The inverse of :func:`squeeze`; never makes more than `size` bytes.

    Errors: StoreError if the result is not exactly `size` bytes.
    """
    if not zipped:
        raw = bytes(payload)
    else:
        stream = zlib.decompressobj()
        try:
            raw = stream.decompress(payload, size + 1)
        except zlib.error as error:
            raise StoreError(f"deflated data: {error}") from None
    if len(raw) != size:
        raise StoreError(f"{len(raw)} bytes instead of {size}")
    return raw


def decode(column: Column, dtype: Any, take: Any) -> Ints:
    """The decoded values, as `dtype`.

    Args:
        take: returns the next payload of a length, in the order in which `encode` appended them.

    Errors: StoreError for data that `encode` cannot have written.
    """
    count = column.count
    if not 0 <= count <= limits.POOLS_MAX:
        raise StoreError(f"a column of {count} values")
    base = np.uint64(column.base & _MASK)
    if column.form == "constant":
        return np.full(count, _wrapped(column.base), np.int64).astype(dtype)
    if column.form == "ramp":
        values = np.arange(count, dtype=np.uint64) * np.uint64(column.step & _MASK) + base
        return values.view(np.int64).astype(dtype)
    if column.form == "runs":
        return _decode_runs(column, dtype, take)
    if column.width not in _WIDTHS or column.form not in ("offset", "change"):
        raise StoreError(f"column form {column.form!r} of width {column.width}")
    stored_count = count - 1 if column.form == "change" else count
    raw = expand(take(column.length), column.zipped, stored_count * column.width)
    stored = np.frombuffer(raw, f"<u{column.width}")
    if column.form == "offset":
        return _offset(stored, column.base, dtype)
    values = np.empty(count, np.uint64)
    values[0] = np.uint64(column.step & _MASK)
    np.add(stored, base, out=values[1:], dtype=np.uint64, casting="unsafe")
    return np.cumsum(values, dtype=np.uint64).view(np.int64).astype(dtype, copy=False)


def _offset(stored: NDArray[Any], base: int, dtype: Any) -> Ints:
    # Addition modulo the width of the result: no 64-bit copy of a column that ends in 8 or 32 bits.
    unsigned, mask = _unsigned(dtype)
    values = stored.astype(unsigned)
    values += unsigned.type(base & mask)
    return values.view(dtype)


def _decode_runs(column: Column, dtype: Any, take: Any) -> Ints:
    if len(column.parts) != 2 or column.parts[0].count != column.parts[1].count:
        raise StoreError("runs without both columns")
    starts = decode(column.parts[0], np.int64, take)
    values = decode(column.parts[1], dtype, take)
    lengths = np.diff(starts, append=column.count)
    if not len(starts) or starts[0] != 0 or lengths.min() <= 0 or int(lengths.sum()) != column.count:
        raise StoreError("runs that do not fill their column")
    return np.repeat(values, lengths)


def _wrapped(value: int) -> int:
    value &= _MASK
    return value - (1 << 64) if value >> 63 else value
