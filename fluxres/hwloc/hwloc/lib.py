"""The library and its errors, where pyhwloc has them."""

from __future__ import annotations

from typing import Any

from fluxres.hwloc._library import HwLocError, get_api_version, library

__all__ = ["HwLocError", "get_api_version", "libinfo"]

_IS_V3 = False


def libinfo() -> dict[str, Any]:
    """Which file the library is.

    Errors: InputError without one.
    """
    return {"hwloc": library().path}
