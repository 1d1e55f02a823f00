"""These tests need libhwloc, which the extra `hwloc` installs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fluxres.hwloc import Topology
from tests.hwloc.needs import the_library

MACHINE = "package:2 l3:2 core:2 pu:2"


@pytest.fixture(autouse=True, scope="session")
def _needs_the_library() -> None:
    the_library()


@pytest.fixture
def machine() -> Iterator[Topology]:
    with Topology.from_synthetic(MACHINE) as topology:
        yield topology
