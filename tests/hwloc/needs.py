"""What tests need of this machine."""

from __future__ import annotations

import pytest

from fluxres.errors import FluxresError
from fluxres.hwloc._library import library


def the_library() -> None:
    """Skip, saying why, where there is no libhwloc."""
    try:
        library()
    except FluxresError as error:
        pytest.skip(str(error))
