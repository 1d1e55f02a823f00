"""Files and directories that are complete after a power failure."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from fluxres.errors import StoreError


def write_whole(path: Path, content: bytes) -> None:
    """Replace the content of a file atomically: a reader sees either the old or the new content.

    Args:
        path: a link is followed; an existing file keeps its mode. A pipe is written to.

    Errors: StoreError; a file is then unchanged.
    """
    try:
        if path.is_fifo():
            path.write_bytes(content)
            return
    except OSError as error:
        raise _cannot(path, error, "check its permissions, and what reads it") from None
    with replacing(path) as file:
        file.write(content)


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A new content of a file, which replaces the old one, atomically, when the block ends without an error.

    Args:
        path: a link is followed; an existing file keeps its mode.

    Errors: StoreError, also for an OSError in the block; the file is then unchanged.
    """
    target = Path(os.path.realpath(path))
    part = target.with_name(f".{target.name[:100]}.{os.urandom(6).hex()}")
    try:
        mode = _mode(target)
        with temporary(part):
            with open(part, "xb", opener=_private) as file:
                yield file
                file.flush()
                os.fchmod(file.fileno(), mode)
                os.fsync(file.fileno())
            part.replace(target)
            sync_folder(target.parent)
    except OSError as error:
        raise _cannot(path, error, "check that the directory exists, its permissions, and the free space") from None


def _cannot(path: Path, error: OSError, hint: str) -> StoreError:
    return StoreError(f"cannot be written: {error.strerror or error}; nothing was written", where=str(path), hint=hint)


def _private(name: str, flags: int) -> int:
    return os.open(name, flags, 0o600)


@contextmanager
def temporary(*paths: Path) -> Iterator[None]:
    """Files that are gone when the block ends, however it ends: one interrupt may come while they are removed."""
    try:
        try:
            yield
        finally:
            _remove(paths)
    finally:
        _remove(paths)


def _remove(paths: tuple[Path, ...]) -> None:
    for path in paths:
        path.unlink(missing_ok=True)


def _mode(target: Path) -> int:
    try:
        found = target.stat()
    except FileNotFoundError:
        umask = os.umask(0o077)
        os.umask(umask)
        return 0o666 & ~umask
    if not stat.S_ISREG(found.st_mode):
        raise StoreError("is not a regular file", where=str(target), hint="name a file")
    return stat.S_IMODE(found.st_mode)


def make_folder(folder: Path, *, private: bool) -> None:
    """Create the directory of the default store; that of a given store must exist.

    Errors: StoreError.
    """
    if folder.is_dir():
        return
    if not private:
        raise StoreError("no such directory", where=str(folder), hint=f"create it first: mkdir -p {folder}")
    try:
        above = next(parent for parent in folder.parents if parent.is_dir())
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for made in (folder, *folder.parents):
            if made == above:
                break
            sync_folder(made.parent)
    except OSError as error:
        raise StoreError(
            f"cannot be created: {error.strerror}", where=str(folder), hint="create it yourself, or name another store"
        ) from None


def sync_folder(folder: Path) -> None:
    """Flush the entries of a directory to disk: a new file is not durable before its name is."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
