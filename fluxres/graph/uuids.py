"""UUIDs as two numbers: a random base shared by all pools created together, plus a serial.

A million random UUIDs would take 16 MB that does not compress.  Here a pool stores a small index of its base and an int64; the
text is an RFC 9562 version 8 UUID (custom data) whose last 48 bits are the serial, so it is as unique as a random one, and a run
of pools is one line of a file.
"""

from __future__ import annotations

import os
import uuid
from typing import Final

SERIAL_BITS: Final = 48
SERIAL_MAX: Final = (1 << SERIAL_BITS) - 1


def new_origin(random_bytes: bytes | None = None) -> int:
    """A fresh 128-bit base, its serial bits zero.

    Args:
        random_bytes: 16 bytes to derive it from; by default from the system's random source.

    >>> text(new_origin(bytes(16)), 5)
    '00000000-0000-8000-8000-000000000005'
    """
    raw = int.from_bytes(random_bytes if random_bytes is not None else os.urandom(16), "big")
    raw &= ~(0xF << 76) & ~(0x3 << 62)
    return ((raw | (0x8 << 76) | (0x2 << 62)) >> SERIAL_BITS) << SERIAL_BITS


def text(origin: int, serial: int) -> str:
    """The UUID of base and serial as RFC 9562 writes it."""
    return str(uuid.UUID(int=origin + serial))


def split(uuid_text: str) -> tuple[int, int] | None:
    """Base and serial of a UUID text, or None if it is not one.

    >>> split("00000000-0000-8000-8000-000000000005")[1]
    5
    >>> split("core0") is None
    True
    """
    try:
        value = uuid.UUID(uuid_text).int
    except ValueError:
        return None
    serial = value & SERIAL_MAX
    return value - serial, serial
