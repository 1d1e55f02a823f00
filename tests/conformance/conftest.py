"""Recorded facts of other systems, from the folder given with `--cases`; the project itself has none of them."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.traceability import ROOT


@pytest.fixture(scope="session")
def cases(request: pytest.FixtureRequest) -> Path:
    """The folder of cases; without one, the tests that need it are skipped."""
    given = request.config.getoption("--cases")
    if given is None:
        pytest.skip("compares with recorded facts of other systems: give their folder with --cases DIR")
    folder = Path(given)
    if not folder.is_dir():
        pytest.fail(f"--cases {given}: no such folder")
    return folder


@pytest.fixture(scope="session")
def agreeing_min() -> dict[str, Any]:
    """How many cases of each suite must agree at least, from specs/conformance.toml."""
    return tomllib.loads((ROOT / "specs" / "conformance.toml").read_text(encoding="utf-8"))
