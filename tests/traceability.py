"""Link the requirements in `specs/` to the tests that verify them.

There are two checks.  `test_traceability.py` reads the sources and checks in every run that each requirement names a
test, and each test an existing requirement.  Whether such a test passed is only known after a complete run, so this
file is also a pytest plugin.  It adds the ids to the report of each test, which xdist passes on from its workers, and
at the end of a complete run (no paths, no `-k`, no other `-m`) fails for requirements without a passing test.

`python -m tests.traceability` updates the column "held by" of the specs.
"""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SPECS = ("rfc4.md", "rfc16.md")
NOT_KEYWORDS = ("data", "method")
"""The keyword column if the RFC requires something without one of the RFC 2119 words."""


@dataclass(frozen=True)
class Requirement:
    """One row of a table in a spec."""

    id: str
    keyword: str
    section: str
    text: str
    built_in: tuple[str, ...]
    held_by: tuple[str, ...]


@dataclass(frozen=True)
class Spec:
    """A spec: its requirements in order, and how often each keyword occurs in each section of the RFC."""

    requirements: tuple[Requirement, ...]
    counts: dict[str, Counter[str]]


def read(path: Path) -> Spec:
    """The tables of a spec: those under `## Sections` are counts, all others are requirements under their heading."""
    section = ""
    requirements: list[Requirement] = []
    counts: dict[str, Counter[str]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            section = line[3:].strip()
        if not line.startswith("| ") or line.startswith(("| id |", "| section |")):
            continue
        cells = [cell.strip() for cell in line.strip().strip("|").split(" | ")]
        if section == "Sections":
            words = re.findall(r"([A-Z][A-Z ]*[A-Z]) (\d+)", cells[1])
            counts[cells[0]] = Counter({word: int(count) for word, count in words})
        else:
            name, keyword, text, built_in, held_by = cells
            requirements.append(Requirement(name, keyword, section, text, _quoted(built_in), _quoted(held_by)))
    return Spec(tuple(requirements), counts)


def required(specs: Path) -> list[Requirement]:
    """All requirements of all specs in a folder."""
    return [requirement for name in SPECS if (specs / name).exists() for requirement in read(specs / name).requirements]


def functions(tests: Path, text: str) -> Iterator[ast.FunctionDef]:
    """Every function of the files below a folder of tests that contain a text."""
    for path in sorted(tests.rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(source, str(path))) if text in source else ():
            if isinstance(node, ast.FunctionDef):
                yield node


def marked(tests: Path) -> dict[str, list[str]]:
    """Requirement id -> names of the test functions that carry it as `@pytest.mark.rfc(id, …)`."""
    holders: dict[str, list[str]] = defaultdict(list)
    for function in functions(tests, "mark.rfc"):
        for decorator in function.decorator_list:
            if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "pytest.mark.rfc":
                for argument in decorator.args:
                    holders[ast.literal_eval(argument)].append(function.name)
    return holders


def _quoted(cell: str) -> tuple[str, ...]:
    return tuple(re.findall(r"`([^`]+)`", cell))


class Outcomes:
    """Remembers which requirements had a passing test in this run."""

    def __init__(self, ids: list[str]) -> None:
        self.ids = ids
        self.passed: set[str] = set()

    def left_over(self) -> list[str]:
        return [name for name in self.ids if name not in self.passed]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed:
            self.passed.update(str(value) for key, value in report.user_properties if key == "rfc")

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        if self.left_over() and exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if left_over := self.left_over():
            terminalreporter.section("requirements without a passing test", red=True)
            terminalreporter.line(" ".join(left_over))


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "rfc(*ids): the requirements of specs/ that this test holds")
    if _is_whole_run(config):
        config.pluginmanager.register(Outcomes([requirement.id for requirement in required(config.rootpath / "specs")]))


def pytest_itemcollected(item: pytest.Item) -> None:
    for mark in item.iter_markers("rfc"):
        item.user_properties.extend(("rfc", name) for name in mark.args)


def _is_whole_run(config: pytest.Config) -> bool:
    addopts = config.getini("addopts")
    markexpr = addopts[addopts.index("-m") + 1] if "-m" in addopts else ""
    option = config.option
    partial = option.keyword or option.collectonly or option.deselect or option.maxfail or getattr(option, "lf", False)
    is_worker = hasattr(config, "workerinput")
    return (
        config.args_source is pytest.Config.ArgsSource.TESTPATHS and option.markexpr == markexpr and not partial and not is_worker
    )


def write_held_by(specs: Path, tests: Path) -> None:
    """Write the last column of each requirement as the markers have it."""
    holders = marked(tests)
    for name in SPECS:
        path = specs / name
        lines = path.read_text(encoding="utf-8").splitlines()
        for number, line in enumerate(lines):
            if match := re.match(r"\| (RFC\d+-\w+) \|", line):
                cells = line.strip().strip("|").split(" | ")
                cells[-1] = ", ".join(f"`{test}`" for test in holders[match[1]])
                lines[number] = "| " + " | ".join(cell.strip() for cell in cells) + " |"
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write_held_by(ROOT / "specs", ROOT / "tests")
