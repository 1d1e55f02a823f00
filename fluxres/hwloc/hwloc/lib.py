"""The loaded library and its errors, under their names in pyhwloc."""

from __future__ import annotations

from typing import Any

from fluxres.hwloc._library import HwLocError, get_api_version, library

__all__ = ["HwLocError", "get_api_version", "libinfo"]

#: pyhwloc's flag for libhwloc 3
_IS_V3 = False


def libinfo() -> dict[str, Any]:
    """The path of the loaded library.

    Errors: InputError if there is no libhwloc.
    """
    return {"hwloc": library().path}
