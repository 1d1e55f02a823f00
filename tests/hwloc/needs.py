"""Requirements of tests on the machine that runs them."""

from __future__ import annotations

import pytest

from fluxres.errors import FluxresError
from fluxres.hwloc._library import library


def the_library() -> None:
    """Skip the test if there is no libhwloc, with the reason."""
    try:
        library()
    except FluxresError as error:
        pytest.skip(str(error))
