"""Find and load libhwloc, and call its functions by name.

The library is loaded when its first function is called, so that importing this package works without it.  Calls hold the
interpreter lock, except for functions that may take long.  Each call is therefore atomic for other threads, and two threads
never write to one bitmap at once.
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
_HINT: Final = (
    "pip install tcmlib (Linux on x86-64), or install the package libhwloc15 or hwloc of your system, "
    f"or set {VARIABLE} to the path of the library; XML files of lstopo can be loaded without it"
)


class HwLocError(RuntimeError):
    """A failure of libhwloc for which Python has no exception of its own.

    Args:
        status: return value of the function.
        err: errno after the call.
        msg: description of the error.
    """

    def __init__(self, status: int, err: int, msg: bytes | str | None) -> None:
        self.status = status
        self.errno = err
        self.msg: str | None = msg.decode("utf-8", "replace") if isinstance(msg, bytes) else msg
        super().__init__(f"status: {status}, errno: {err}, error: {self.msg}")


class Library(NamedTuple):
    """A loaded libhwloc, with a handle for calls that hold the interpreter lock and one for calls that release it."""

    path: str
    version: tuple[int, int, int]
    holding_gil: ctypes.PyDLL
    releasing_gil: ctypes.CDLL


def candidates() -> list[str]:
    """The paths and names to try, in order: only the variable if it is set, otherwise the Python environment, then the system."""
    chosen = os.environ.get(VARIABLE)
    if chosen:
        return [str(Path(chosen) / _SONAME) if Path(chosen).is_dir() else chosen]
    prefixes = dict.fromkeys([sys.prefix, sys.exec_prefix, site.getuserbase()])
    files = [Path(prefix) / "lib" / _SONAME for prefix in prefixes]
    return [*(str(file) for file in files if file.is_file()), _SONAME, *filter(None, [ctypes.util.find_library("hwloc")])]


_lock = threading.Lock()
_loaded: Library | None = None


def library() -> Library:
    """The libhwloc of this process, loaded on the first call.

    Errors: InputError if there is none of a supported version.
    """
    global _loaded  # noqa: PLW0603
    with _lock:
        if _loaded is None:
            _loaded = _load()
        return _loaded


def _load() -> Library:
    problems: list[str] = []
    for path in candidates():
        try:
            holding_gil = ctypes.PyDLL(path, use_errno=True)
            holding_gil.hwloc_get_api_version.restype = ctypes.c_uint
            number = int(holding_gil.hwloc_get_api_version())
        except (OSError, AttributeError) as error:
            if os.sep in path:  # the loader may well not find a bare name
                problems.append(f"{path}: {error}")
            continue
        version = (number >> 16, number >> 8 & 0xFF, number & 0xFF)
        if _OLDEST <= version < (3, 0, 0):
            return Library(path, version, holding_gil, ctypes.CDLL(path, use_errno=True))
        problems.append(f"{path} has API version {'.'.join(map(str, version))}")
    raise InputError(
        f"requires libhwloc 2.1 or newer, but not 3; {problems[0] if problems else 'none was found'}",
        where=VARIABLE if os.environ.get(VARIABLE) else "hwloc",
        hint=_HINT,
    )


class _Functions:
    """The functions of libhwloc as attributes, without the prefix ``hwloc_``; each is looked up once."""

    def __getattr__(self, name: str) -> Any:
        if name not in _prototypes.FUNCTIONS:
            raise AttributeError(name)
        loaded = library()
        result, arguments = _prototypes.FUNCTIONS[name]
        try:
            found = getattr(loaded.releasing_gil if name in _prototypes.LONG else loaded.holding_gil, f"hwloc_{name}")
        except AttributeError:
            version = ".".join(map(str, loaded.version))
            raise NotImplementedError(f"libhwloc {version} has no function hwloc_{name}; it requires a newer release") from None
        found.restype, found.argtypes = result, arguments
        setattr(self, name, found)
        return found


C: Final = _Functions()


def check(status: int) -> None:
    """Raise the exception for errno if a function did not return 0."""
    if status != 0:
        raise failure(status)


def failure(status: int) -> Exception:
    """The exception for errno: the one that Python has for it, otherwise HwLocError."""
    number = ctypes.get_errno()
    message = os.strerror(number) if number else None
    exceptions: dict[int, type[Exception]] = {
        errno.EPERM: PermissionError,
        errno.ENOSYS: NotImplementedError,
        errno.EINVAL: ValueError,
        errno.ENOMEM: MemoryError,
        errno.ENOENT: FileNotFoundError,
    }
    return exceptions[number](message) if number in exceptions else HwLocError(status, number, message)


def get_api_version() -> tuple[int, int, int]:
    """API version of libhwloc: major, minor, release.

    Errors: InputError if there is no libhwloc.
    """
    return library().version
