"""Bytes of a file, a pipe or a caller → text, or a message that says what else it is."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

from fluxres import limits
from fluxres.errors import InputError, LimitExceeded

_CHUNK: Final = 1 << 20
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


def read_file(path: Path) -> bytes:
    """The bytes of a file.

    Errors: InputError for what is missing, unreadable, a folder or a device.
    """
    try:
        if path.is_char_device() or path.is_block_device():
            raise InputError("is a device, not a document", where=str(path), hint="'-' reads standard input")
        with path.open("rb") as stream:
            return read_all(stream.read, str(path))
    except IsADirectoryError:
        raise InputError("is a folder, expected a file", where=str(path), hint="name a file in it") from None
    except FileNotFoundError:
        raise InputError("no such file", where=str(path)) from None
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", where=str(path)) from None
    except ValueError as error:
        raise InputError(f"is no file name: {error}", where=repr(str(path))) from None


def read_all(read: Callable[[int], bytes], name: str) -> bytes:
    """All that `read` gives, up to the bound."""
    # In chunks, so that an endless source ends at the bound or at its first NUL, not when memory does.
    chunks, size = [], 0
    while chunk := read(_CHUNK):
        chunks.append(chunk)
        size += len(chunk)
        if size > limits.DOCUMENT_BYTES_MAX:
            raise LimitExceeded(f"more than {limits.DOCUMENT_BYTES_MAX} bytes", where=name)
        if b"\0" in chunk:
            break
    return b"".join(chunks)


def decode(data: bytes, file: str) -> str:
    """The text of UTF-8 bytes.

    Errors: InputError with line and column for bytes that are none, and for control characters.
    """
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise InputError("is UTF-16, expected UTF-8", where=f"{file}:1:1", hint="iconv -f UTF-16 -t UTF-8 converts it")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8", "replace")
        raise InputError(
            f"byte 0x{data[error.start]:02x} is not UTF-8", where=place(file, before, len(before)), hint="save the file as UTF-8"
        ) from None
    forbidden = _FORBIDDEN.search(text)
    if forbidden:
        what = "a NUL character" if forbidden[0] == "\0" else f"the control character U+{ord(forbidden[0]):04X}"
        raise InputError(f"contains {what}", where=place(file, text, forbidden.start()), hint="a document is plain text")
    return text


def place(file: str, text: str, offset: int) -> str:
    """``file:line:column`` of a character.

    >>> place("a.yaml", "x\\ny", 2)
    'a.yaml:2:1'
    """
    return f"{file}:{text.count(chr(10), 0, offset) + 1}:{offset - text.rfind(chr(10), 0, offset)}"
