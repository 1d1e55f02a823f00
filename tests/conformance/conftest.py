"""Recorded facts of other systems, from the directory given with `--cases`; the project itself contains none of them."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.conformance import runner
from tests.conformance.runner import Case, Tally

PROPERTY = "conformance"
"""Under this name a test hands its tallies on, which xdist carries from its workers."""
Report = Callable[..., None]
Load = Callable[[str], list[Case]]


@pytest.fixture(scope="session")
def cases(request: pytest.FixtureRequest) -> Path:
    """The directory of cases; without one, the tests that need it are skipped."""
    given = request.config.getoption("--cases")
    if given is None:
        pytest.skip("compares with recorded facts of other systems: give their folder with --cases DIR")
    folder = Path(given)
    if not folder.is_dir():
        pytest.fail(f"--cases {given}: no such directory")
    return folder


@pytest.fixture(scope="session")
def minima(request: pytest.FixtureRequest) -> dict[str, Any]:
    """The minimum number of agreeing cases of each suite; empty without `--minima`."""
    given = request.config.getoption("--minima")
    if given is None:
        return {}
    file = Path(given)
    if not file.is_file():
        pytest.fail(f"--minima {given}: no such file")
    return tomllib.loads(file.read_text(encoding="utf-8"))


@pytest.fixture
def load(cases: Path, minima: dict[str, Any]) -> Load:
    """Read a file of cases; without the file there are none, which only matters if some must agree."""

    def read(name: str) -> list[Case]:
        if not minima and not (cases / name).is_file():
            pytest.skip(f"{cases} has no {name}")
        return runner.load(cases / name)

    return read


@pytest.fixture
def report(record_property: Callable[[str, object], None]) -> Report:
    """Pass tallies on for the summary, and fail if something differs or too few cases agree."""

    def settle(tallies: Sequence[Tally], least: dict[str, int] | None = None) -> None:
        for each in tallies:
            record_property(PROPERTY, each.plain())
        wrong = runner.wrong(tallies, least)
        assert not wrong, "\n".join(wrong)

    return settle


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What was covered and what agrees, suite by suite."""
    told = [
        value
        for reports in terminalreporter.stats.values()
        for each in reports
        for key, value in getattr(each, "user_properties", ())
        if key == PROPERTY and getattr(each, "when", "") == "call"
    ]
    if told:
        terminalreporter.section("conformance")
        for line in runner.lines(told):
            terminalreporter.write_line(line)
