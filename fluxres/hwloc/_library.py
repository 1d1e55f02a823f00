"""libhwloc itself: where it is found, its version, and its functions by name.

It is looked for when the first function is called, not on import: reading XML, the documentation and the type checker
need none.  Every function is called with the interpreter lock held unless it takes long; that makes each call one step
for other threads, so two of them never write to one bitmap at once.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import errno
import os
import site
import sys
import threading
from pathlib import Path
from typing import Any, Final, NamedTuple

from fluxres.errors import InputError
from fluxres.hwloc import _prototypes

VARIABLE: Final = "FLUXRES_LIBHWLOC"
_SONAME: Final = "libhwloc.so.15"
_OLDEST: Final = (2, 1, 0)
_WAY_OUT: Final = (
    "pip install 'fluxres[hwloc]' brings it, as does the package libhwloc15 or hwloc of your system; "
    f"{VARIABLE} names another one; XML files of lstopo are read without it"
)


class HwLocError(RuntimeError):
    """A failure of libhwloc that is none of Python's own kinds of error.

    Args:
        status: what the function returned.
        err: errno after it.
        msg: what that means, in words.
    """

    def __init__(self, status: int, err: int, msg: bytes | str | None) -> None:
        self.status = status
        self.errno = err
        self.msg: str | None = msg.decode("utf-8", "replace") if isinstance(msg, bytes) else msg
        super().__init__(f"status: {status}, errno: {err}, error: {self.msg}")


class Library(NamedTuple):
    """A libhwloc that was loaded: its file, its API version, and it once with and once without the interpreter lock."""

    path: str
    version: tuple[int, int, int]
    held: ctypes.PyDLL
    free: ctypes.CDLL


def candidates() -> list[str]:
    """Files and names that are tried, in order: the variable alone where it is set, else the environment, then the system."""
    named = os.environ.get(VARIABLE)
    if named:
        return [str(Path(named) / _SONAME) if Path(named).is_dir() else named]
    prefixes = dict.fromkeys([sys.prefix, sys.exec_prefix, site.getuserbase()])
    files = [Path(prefix) / "lib" / _SONAME for prefix in prefixes]
    return [*(str(file) for file in files if file.is_file()), _SONAME, *filter(None, [ctypes.util.find_library("hwloc")])]


_lock = threading.Lock()
_loaded: Library | None = None


def library() -> Library:
    """The libhwloc of this process.

    Errors: InputError when there is none, or none of a version that is understood.
    """
    global _loaded  # noqa: PLW0603
    with _lock:
        if _loaded is None:
            _loaded = _load()
        return _loaded


def _load() -> Library:
    wrong = ""
    for place in candidates():
        try:
            held = ctypes.PyDLL(place, use_errno=True)
            held.hwloc_get_api_version.restype = ctypes.c_uint
            number = int(held.hwloc_get_api_version())
        except (OSError, AttributeError) as error:
            wrong = wrong or f"{place}: {error}" if os.sep in place else wrong
            continue
        version = (number >> 16, number >> 8 & 0xFF, number & 0xFF)
        if _OLDEST <= version < (3, 0, 0):
            return Library(place, version, held, ctypes.CDLL(place, use_errno=True))
        wrong = wrong or f"{place} has API version {'.'.join(map(str, version))}"
    raise InputError(
        f"needs libhwloc 2.1 or newer, and before 3; {wrong or 'none was found'}",
        where=VARIABLE if os.environ.get(VARIABLE) else "hwloc",
        hint=_WAY_OUT,
    )


class _Functions:
    """The functions, by their names without the first ``hwloc_``; each is looked up once."""

    def __getattr__(self, name: str) -> Any:
        if name not in _prototypes.FUNCTIONS:
            raise AttributeError(name)
        loaded = library()
        result, arguments = _prototypes.FUNCTIONS[name]
        try:
            found = getattr(loaded.free if name in _prototypes.LONG else loaded.held, f"hwloc_{name}")
        except AttributeError:
            version = ".".join(map(str, loaded.version))
            raise NotImplementedError(f"libhwloc {version} has no hwloc_{name}; a newer one has") from None
        found.restype, found.argtypes = result, arguments
        setattr(self, name, found)
        return found


C: Final = _Functions()


def check(status: int) -> None:
    """Raise what errno says unless a function returned 0."""
    if status != 0:
        raise failure(status)


def failure(status: int) -> Exception:
    """The error that errno says, of the kind Python has for it."""
    number = ctypes.get_errno()
    words = os.strerror(number) if number else None
    kinds: dict[int, type[Exception]] = {
        errno.EPERM: PermissionError,
        errno.ENOSYS: NotImplementedError,
        errno.EINVAL: ValueError,
        errno.ENOMEM: MemoryError,
        errno.ENOENT: FileNotFoundError,
    }
    return kinds[number](words) if number in kinds else HwLocError(status, number, words)


def get_api_version() -> tuple[int, int, int]:
    """Version of the interface of libhwloc: major, minor, release.

    Errors: InputError without a libhwloc.
    """
    return library().version
