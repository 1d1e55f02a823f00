"""Compressed files, detected from their first bytes and decompressed within bounds.

A thousand zeros compress to one byte, so the size of a file says nothing about the size of its content. What is decompressed is
bounded in total and, beyond the size of any small file, in proportion to the input.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import Any, Final, NamedTuple

from fluxres import limits
from fluxres.errors import InputError, LimitExceeded, UsageError

#: the start of the first block of bzip2, or of its end if it has no blocks
_BZ2_BLOCKS: Final = (b"1AY", b"\x17rE")
_MAGIC: Final = (
    (b"\x1f\x8b", "gz"),
    (b"\x28\xb5\x2f\xfd", "zst"),
    (b"\xfd7zXZ\x00", "xz"),
    *((b"BZh%d%s" % (size, block), "bz2") for size in range(1, 10) for block in _BZ2_BLOCKS),
)
_MAGICS: Final = tuple(magic for magic, _ in _MAGIC)
#: file extensions of compressed files
ENDINGS: Final = (".gz", ".zst", ".xz", ".bz2")
_CHUNK: Final = 1 << 20
#: bytes of zst decompressed at once: every four may become 128 KiB
_STEP: Final = 1 << 10
_WINDOW: Final = 1 << 27
_XZ_MEMORY: Final = 256 << 20
"""Four times the memory that the largest preset of xz needs: a header may ask for gigabytes."""


def found(data: bytes) -> str | None:
    """The compression of these bytes, ``gz``, ``zst``, ``xz`` or ``bz2``; None if they are not compressed.

    >>> found(b"\\x1f\\x8b\\x08"), found(b"fluxres: 1")
    ('gz', None)
    """
    if not data.startswith(_MAGICS):
        return None
    return next(name for magic, name in _MAGIC if data.startswith(magic))


def opened(data: bytes, file: str) -> bytes:
    """The decompressed content; uncompressed bytes are returned unchanged.

    Errors: InputError for a file that is truncated or damaged, LimitExceeded if the content is too large; UsageError for zst if
    no module can read it.
    """
    how = found(data)
    if how is None:
        return data
    import lzma

    bound = min(limits.DOCUMENT_BYTES_MAX, max(limits.UNCOMPRESSED_BYTES_FREE, limits.UNCOMPRESSED_RATIO_MAX * len(data)))
    stream_error = _zstd().error if how == "zst" else zlib.error
    stream = _Stream(data, _new_reader(how))
    chunks: list[bytes] = []
    size = 0
    try:
        while chunk := stream.read():
            chunks.append(chunk)
            size += len(chunk)
            if size > bound:
                hint = "decompress it yourself and give the result"
                raise LimitExceeded(f"{len(data)} bytes of {how} decompress to more than {bound}", where=file, hint=hint)
    except EOFError:
        raise InputError(
            f"is a truncated {how} file: it ends after {size} bytes", where=file, hint="fetch the file again"
        ) from None
    except (zlib.error, lzma.LZMAError, OSError, ValueError, MemoryError, stream_error) as error:
        raise InputError(f"is a damaged {how} file: {error}", where=file, hint="fetch the file again") from None
    return b"".join(chunks)


class _Stream:
    """One decompressor after the other, as long as data is left: compressed files may be concatenated."""

    def __init__(self, data: bytes, new: Callable[[], Any]) -> None:
        self._new = new
        self._reader = new()
        self._input = data

    def read(self) -> bytes:
        """The next bytes, at most one chunk; empty at the end.

        Errors: EOFError if the data is truncated.
        """
        while True:
            if self._reader.eof:
                self._input = self._reader.unused_data
                # The end, or padding with zeros up to a full block, as on tapes and in xz.
                if not self._input.strip(b"\0"):
                    return b""
                self._reader = self._new()
            chunk: bytes = self._reader.decompress(self._input, _CHUNK)
            self._input = getattr(self._reader, "unconsumed_tail", b"")
            if chunk:
                return chunk
            if not self._reader.eof and not self._input:
                raise EOFError


def _new_reader(how: str) -> Callable[[], Any]:
    if how == "gz":
        return lambda: zlib.decompressobj(wbits=31)
    if how == "xz":
        import lzma

        return lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY)
    if how == "bz2":
        import bz2

        return bz2.BZ2Decompressor
    return _zstd().reader


def pack(data: bytes, ending: str) -> bytes:
    """These bytes compressed as the extension says: ``.gz``, ``.zst``, ``.xz`` or ``.bz2``; unchanged for any other.

    The output is reproducible: it contains no date and no name.

    Errors: UsageError for zst if no module can write it.
    """
    match ending.lower():
        case ".gz":
            packer = zlib.compressobj(6, wbits=31)
            return packer.compress(data) + packer.flush()
        case ".xz":
            import lzma

            return lzma.compress(data)
        case ".bz2":
            import bz2

            return bz2.compress(data)
        case ".zst":
            return _zstd().compress(data)
        case _:
            return data


class _Zstd(NamedTuple):
    """A module that reads and writes zst: its decompressor, its one-shot compressor, and its exceptions."""

    reader: Callable[[], Any]
    compress: Callable[[bytes], bytes]
    error: type[Exception]


class _Steps:
    """The decompressor of `zstandard`, which cannot bound its output, so it is fed in small pieces."""

    def __init__(self, reader: Any) -> None:
        self._reader = reader
        self.unconsumed_tail = b""

    @property
    def eof(self) -> bool:
        """Whether a frame has ended."""
        return bool(self._reader.eof)

    @property
    def unused_data(self) -> bytes:
        """The bytes after that frame."""
        rest: bytes = self._reader.unused_data
        return rest + self.unconsumed_tail

    def decompress(self, data: bytes, _most: int) -> bytes:
        """The output for the next piece of `data`."""
        view = memoryview(data)
        at = 0
        while at < len(view):
            chunk: bytes = self._reader.decompress(view[at : at + _STEP])
            at += _STEP
            if chunk or self.eof:
                self.unconsumed_tail = bytes(view[at:])
                return chunk
        self.unconsumed_tail = b""
        return b""


def _zstd() -> _Zstd:
    """Python's own module from 3.14 on, or the package that provides it for earlier versions."""
    with suppress(ImportError):
        own: Any = import_module("compression.zstd")
        return _Zstd(own.ZstdDecompressor, own.compress, own.ZstdError)
    try:
        package: Any = import_module("zstandard")
    except ImportError:
        hint = "pip install zstandard, or use Python 3.14; gz, xz and bz2 need nothing"
        raise UsageError("zst needs a package that is not installed", where="zst", hint=hint) from None
    return _Zstd(
        lambda: _Steps(package.ZstdDecompressor(max_window_size=_WINDOW).decompressobj()),
        package.ZstdCompressor().compress,
        package.ZstdError,
    )
