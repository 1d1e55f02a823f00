"""Bytes of a file, a pipe or a caller → text, or a message that says what they are instead.

Compressed data is decompressed here, so that no reader has to deal with it.
"""

from __future__ import annotations

import io
import os
import re
import select
import stat
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Protocol

from fluxres import limits
from fluxres.documents import compression
from fluxres.errors import InputError, LimitExceeded, TextPlace


class Readable(Protocol):
    """An open file."""

    def read(self, size: int = -1, /) -> str | bytes:
        """At most that number of bytes or characters; empty at the end."""
        ...


#: a hint about files that are not there
RELATIVE: Final = "relative paths start in the current directory"
_CHUNK: Final = 1 << 20
_TEXTS: Final = "'fluxres formats' lists the formats"
_ARCHIVE: Final = "unpack it and give the file inside"
_PACKED: Final = "decompress it; only gzip, zstd, xz and bzip2 are decompressed automatically"
#: by their first bytes: files that are not text, and what to do about them
_NO_TEXTS: Final = (
    (b"\x89PNG\r\n", "a PNG image", _TEXTS),
    (b"\xff\xd8\xff", "a JPEG image", _TEXTS),
    (b"GIF8", "a GIF image", _TEXTS),
    (b"%PDF-", "a PDF document", _TEXTS),
    (b"\x7fELF", "a program", _TEXTS),
    (b"\x89HDF\r\n", "an HDF5 file", _TEXTS),
    (b"PAR1", "a Parquet file", "Parquet can be written but not read"),
    (b"SQLite format 3\0", "a SQLite database", "give a store by its URL: sqlite:///PATH"),
    (b"PK\x03\x04", "a zip archive", _ARCHIVE),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive", _ARCHIVE),
    (b"Rar!\x1a\x07", "a RAR archive", _ARCHIVE),
    (b"\x04\x22\x4d\x18", "compressed with lz4", _PACKED),
    (b"\x1f\x9d", "compressed with compress", _PACKED),
)
_TAR: Final = (257, b"ustar")
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f]")


def file_named(text: str) -> Path:
    """The path in a text.

    Errors: InputError for an empty text.
    """
    if not text:
        raise InputError("the name of the file is empty", where="''", hint="name a file; '-' reads standard input")
    return Path(text)


def read_file(path: Path) -> bytes:
    """The bytes of a file or named pipe, decompressed.

    Errors: InputError for a file that is missing, unreadable, a directory or a device, and a pipe that nobody writes to.
    """
    name = str(path)
    try:
        mode = path.stat().st_mode
        if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
            raise InputError("is a device, not a document", where=name, hint="use '-' to read standard input")
        if stat.S_ISDIR(mode):
            raise InputError("is a directory, expected a file", where=name, hint="name a file in it")
        with _opened(path, is_pipe=stat.S_ISFIFO(mode)) as stream:
            return read_all(stream.read, name)
    except FileNotFoundError:
        raise InputError("no such file", where=name, hint=RELATIVE) from None
    except OSError as error:
        hint = "check the permissions of the file and its directories" if isinstance(error, PermissionError) else "name a file"
        raise InputError(f"cannot be read: {error.strerror or error}", where=name, hint=hint) from None
    except ValueError:
        raise InputError(
            "is not a valid file name: it has a NUL or an incomplete character", where=repr(name), hint="name a file"
        ) from None


def _opened(path: Path, *, is_pipe: bool) -> io.FileIO:
    # Without O_NONBLOCK, opening a pipe would block until somebody opens it for writing.
    stream = io.FileIO(os.open(path, os.O_RDONLY | os.O_CLOEXEC | (os.O_NONBLOCK if is_pipe else 0)))
    try:
        if is_pipe and not select.select([stream], [], [], limits.PIPE_WAIT_S)[0]:
            raise InputError("no process writes to this pipe", where=str(path), hint="name a file, or start the writer first")
        os.set_blocking(stream.fileno(), True)
    except BaseException:
        stream.close()
        raise
    return stream


def read_all(read: Callable[[int], bytes], name: str) -> bytes:
    """Everything that `read` returns, up to the bound, decompressed."""
    # Read in chunks, so that an endless source is stopped at the bound or, if it is text, at its first NUL, before memory runs
    # out.
    chunks: list[bytes] = []
    size = 0
    while chunk := read(_CHUNK):
        chunks.append(chunk)
        size += len(chunk)
        if size > limits.DOCUMENT_BYTES_MAX:
            raise LimitExceeded(
                f"more than {limits.DOCUMENT_BYTES_MAX} bytes", where=name, hint="write repeated entries once, with 'count'"
            )
        if b"\0" in chunk and not compression.found(chunks[0]):
            break
    return compression.opened(b"".join(chunks), name)


def read_stream(stream: Readable) -> tuple[bytes, str, Path | None]:
    """The remaining bytes of an open text or binary file; its name for messages, and its path if it has one.

    Errors: InputError if it cannot be read; LimitExceeded if it is too large.
    """
    known = getattr(stream, "name", None)
    name = known if isinstance(known, str) and known else "<stream>"

    def read(size: int) -> bytes:
        chunk = stream.read(size)
        return chunk.encode("utf-8", "surrogatepass") if isinstance(chunk, str) else chunk or b""

    try:
        return read_all(read, name), name, Path(name) if os.path.isfile(name) else None
    except (OSError, ValueError, TypeError) as error:
        raise InputError(f"cannot be read: {error}", where=name, hint="open the file for reading") from None


def opened(source: str | Path | bytes, file: str | None = None) -> tuple[bytes, str, Path | None]:
    """The bytes that a caller refers to, their name for messages, and their path.

    Args:
        source: bytes are the text itself; a Path is a file; a str is a path, ``-`` for standard input, or the text if it contains
            a line break.
        file: name for messages instead of the path.

    Errors: as :func:`read_file`.
    """
    if isinstance(source, str) and "\n" not in source and source != "-":
        source = file_named(source)
    if isinstance(source, Path):
        return read_file(source), file or str(source), source
    if source == "-":
        return read_all(sys.stdin.buffer.read, "<stdin>"), file or "<stdin>", None
    data = source.encode("utf-8", "surrogatepass") if isinstance(source, str) else source
    return compression.opened(data, file or "<text>"), file or "<text>", None


def is_plain(text: str) -> bool:
    r"""Whether a text is ASCII without control characters, so that :func:`decode` of its bytes gives it back.

    >>> is_plain('{"a":\n1}'), is_plain("\x00"), is_plain("ä")
    (True, False, False)
    """
    return text.isascii() and (text.isprintable() or _FORBIDDEN.search(text) is None)


def decode(data: bytes, file: str) -> str:
    """The text of UTF-8 bytes.

    Errors: InputError with line and column for invalid bytes and for control characters.
    """
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise InputError("is UTF-16, expected UTF-8", where=f"{file}:1:1", hint="iconv -f UTF-16 -t UTF-8 converts it")
    try:
        text = data.decode().removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        _require_text(data, file)
        before = data[: error.start].decode("utf-8", "replace")
        raise InputError(
            f"byte 0x{data[error.start]:02x} is not UTF-8", where=place(file, before, len(before)), hint="save the file as UTF-8"
        ) from None
    forbidden = _FORBIDDEN.search(text)
    if forbidden:
        _require_text(data, file)
        what = f"contains the control character U+{ord(forbidden[0]):04X}"
        raise InputError(what, where=place(file, text, forbidden.start()), hint="remove it")
    return text


def _require_text(data: bytes, file: str) -> None:
    """Refuse known kinds of files that are not text, by name."""
    at, mark = _TAR
    if data[at : at + len(mark)] == mark:
        raise InputError("is a tar archive, expected text", where=file, hint=_ARCHIVE)
    for start, what, hint in _NO_TEXTS:
        if data.startswith(start):
            raise InputError(f"is {what}, expected text", where=file, hint=hint)
    nul = data.find(b"\0")
    if nul >= 0:
        before = data[:nul].decode("utf-8", "replace")
        message = "is not a text file: it contains a NUL byte"
        raise InputError(message, where=place(file, before, len(before)), hint="name a text file, or remove the byte")


def place(file: str, text: str, offset: int) -> TextPlace:
    """``file:line:column`` of a character.

    >>> place("a.yaml", "x\\ny", 2)
    'a.yaml:2:1'
    """
    line, column = text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)
    return text_place(f"{file}:{line}:{column}", text, line, column, [offset - column + 1])


#: what ends a line to LibYAML; in JSON the last three may be in a string
_BREAK = re.compile("\r\n|[\r\n\x85\u2028\u2029]")
_JSON_BREAK = re.compile("\n")
_LINE_END = re.compile("[\r\n]")
#: characters kept of a long line before and after a place
_AROUND: Final = 200


def line_starts(text: str, *, is_json: bool = False) -> list[int]:
    """The offset of each line, as the parser counts them. Cost O(text)."""
    return [0, *(found.end() for found in (_JSON_BREAK if is_json else _BREAK).finditer(text))]


def text_place(name: str, text: str, line: int, column: int, starts: Sequence[int]) -> TextPlace:
    """A place with the line that it is on.

    Args:
        name: ``file:line:column``, and what follows.
        line, column: from 1.
        starts: the offset of each line; one for the line itself is enough.
    """
    start = starts[min(line, len(starts)) - 1]
    at = min(start + column - 1, len(text))
    first = max(start, at - _AROUND)
    ended = _LINE_END.search(text, at, at + _AROUND)
    last = ended.start() if ended else min(len(text), at + _AROUND)
    found = TextPlace(name)
    found.line, found.column, found.text, found.offset = line, column, text[first:last], at - first
    found.cut = (first > start, ended is None and last < len(text))
    return found
