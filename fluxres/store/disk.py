"""Files and folders that are there, whole, when the power comes back."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

from fluxres.errors import StoreError


def write_whole(path: Path, content: bytes) -> None:
    """Put `content` in place of what the file holds: a reader, at whatever moment, sees the old or the new.

    Args:
        path: a link is followed; a file that is there keeps its mode.

    Errors: StoreError with the file as it was.
    """
    import tempfile  # with all it brings along it takes longer to import than SQLite

    target = Path(os.path.realpath(path))
    temporary = None
    try:
        mode = _mode(target)
        fd, temporary = tempfile.mkstemp(prefix=f".{target.name[:100]}.", dir=target.parent)
        with os.fdopen(fd, "wb") as file:
            file.write(content)
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        os.replace(temporary, target)
        sync_folder(target.parent)
    except OSError as error:
        raise StoreError(
            f"cannot be written: {error.strerror or error}; nothing was written",
            where=str(path),
            hint="check that the folder exists, its rights, and the space left",
        ) from None
    finally:
        if temporary is not None:
            with suppress(FileNotFoundError):
                os.unlink(temporary)


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
    """Make the folder of the default store; that of a named one has to be there.

    Errors: StoreError.
    """
    if folder.is_dir():
        return
    if not private:
        raise StoreError("no such folder", where=str(folder), hint=f"make it first: mkdir -p {folder}")
    try:
        above = next(parent for parent in folder.parents if parent.is_dir())
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for made in (folder, *folder.parents):
            if made == above:
                break
            sync_folder(made.parent)
    except OSError as error:
        raise StoreError(
            f"cannot be made: {error.strerror}", where=str(folder), hint="make it yourself, or name another store"
        ) from None


def sync_folder(folder: Path) -> None:
    """Bring the names in a folder to the disk: a file is not safe before its name is."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
