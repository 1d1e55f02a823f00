"""A plugin for the modules of the package, of which a `conftest.py` in `tests/` does not see the collection."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest
from _pytest.doctest import DoctestModule


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """No search for doctests, which goes through all that a module imports, in modules that have none."""
    found = yield
    if file_path.suffix == ".py" and b">>> " not in file_path.read_bytes():
        return [collector for collector in found if not isinstance(collector, DoctestModule)]
    return found
