"""The envelope of all binary data in a store: magic, version and checksum.

A flipped bit must lead to an error, not to a machine with one more node. So the checksum of a blob is verified before any of it
is used. What follows was written by fluxres, but data that cannot be decoded is reported as damage all the same.
"""

from __future__ import annotations

import hashlib
import struct
from typing import Final, TypeVar

import msgspec

from fluxres.errors import StoreError

_FRAME: Final = struct.Struct("<4sHI")
CHECKSUM_BYTES: Final = 16

T = TypeVar("T")


def checksum(data: bytes | memoryview) -> bytes:
    """BLAKE2b of `data`, 16 bytes; 1 GB/s."""
    return hashlib.blake2b(data, digest_size=CHECKSUM_BYTES).digest()


def pack(magic: bytes, version: int, header: msgspec.Struct, payloads: list[bytes]) -> bytes:
    """Magic, version, header, payloads and the checksum over all of them."""
    head = msgspec.msgpack.encode(header)
    body = b"".join([_FRAME.pack(magic, version, len(head)), head, *payloads])
    return body + checksum(body)


class Reader:
    """A blob with a verified checksum, read from front to back.

    Errors: StoreError for damage, and for a version that this fluxres does not know.
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
        if found_version > version:
            raise StoreError(
                f"written in version {found_version} of its encoding, but this fluxres knows only versions up to {version}",
                hint="use a newer fluxres",
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
