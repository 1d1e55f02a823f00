"""Binary data of a store: an envelope with magic, version and checksum, and columns of integers in it.

A flipped bit must lead to an error, not to a machine with one more node. So the checksum of a blob is verified before any of it
is used. What follows was written by fluxres, but data that cannot be decoded is reported as damage all the same.

A column is its first number and the changes from one number to the next. Machines are regular: most columns are constant,
increase evenly, or repeat with every node, so that their changes are few small numbers, which deflate packs well. zlib runs at
level 1: on columns, level 6 would save half of very little, and on texts that do not repeat it takes four times as long for a few
per cent. All arithmetic is modulo the width of the column, so no integer is too large.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Callable
from typing import Any, Final, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from fluxres import limits
from fluxres.errors import StoreError

Ints = NDArray[Any]

_FRAME: Final = struct.Struct("<4sHI")
CHECKSUM_BYTES: Final = 16
_WIDTHS: Final = (0, 1, 2, 4, 8)
_ZIP_FROM_BYTES: Final = 64

T = TypeVar("T")


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

    Errors: StoreError for damage, and for another version.
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
                f"written in version {found_version} of its encoding, but this fluxres knows only version {version}",
                hint=way_out(found_version, version),
            )
        self._body = body
        self._at = _FRAME.size
        self._head = self.take(head_length)

    def header(self, header: type[T]) -> T:
        """The header, decoded as its type."""
        return unpacked(self._head, header)

    def take(self, length: int) -> memoryview:
        """The next `length` bytes."""
        stop = self._at + length
        if length < 0 or stop > len(self._body):
            raise StoreError("it is truncated")
        taken = self._body[self._at : stop]
        self._at = stop
        return taken


def unpacked(data: bytes | memoryview, kind: type[T]) -> T:
    """A MessagePack value, decoded as this type.

    Errors: StoreError.
    """
    try:
        return msgspec.msgpack.decode(data, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise StoreError(f"unreadable: {error}") from None


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
        changes -= _modulo(least, unsigned)
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
        return np.full(count, _modulo(column.first, unsigned), unsigned).view(dtype)
    wide = np.promote_types(unsigned, np.uint32)  # NumPy sums up narrower numbers at half the speed
    stored: Ints = np.zeros(1, np.uint8)
    if width:
        stored = np.frombuffer(expand(take(column.length), column.zipped, (count - 1) * width), f"<u{width}")
    values = np.empty(count, wide)
    values[:1] = _modulo(column.first, wide)
    np.add(stored, _modulo(column.least, wide), out=values[1:], dtype=wide, casting="unsafe")
    return np.cumsum(values, out=values).astype(unsigned, copy=False).view(dtype)


def _modulo(number: int, unsigned: np.dtype[Any]) -> Any:
    return unsigned.type(number & ((1 << (8 * unsigned.itemsize)) - 1))


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
