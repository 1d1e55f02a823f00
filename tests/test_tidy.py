"""House rules that no linter checks, read from the code."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from fluxres import limits
from fluxres.errors import STATUS
from tests.traceability import ROOT

PACKAGE = ROOT / "fluxres"
TEXTS = {path: path.read_text(encoding="utf-8") for path in sorted([*PACKAGE.rglob("*.py"), *(ROOT / "tests").rglob("*.py")])}
MODULES = [path for path in TEXTS if path.is_relative_to(PACKAGE)]
TESTS = [path for path in TEXTS if not path.is_relative_to(PACKAGE)]

UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX)\b")
BARE_IGNORE = re.compile(r"# type: ignore(?!\[[\w, -]+\]  # \w)")
READS_A_CLOCK = re.compile(r"\b(datetime|date)\.(now|utcnow|today)$")

NEVER_RAISED = {"FluxresError"}  # the base class: raised errors are more specific


@cache
def nodes() -> list[tuple[Path, ast.AST]]:
    """Every node of every module."""
    return [(path, node) for path in MODULES for node in ast.walk(ast.parse(TEXTS[path], str(path)))]


@cache
def calls() -> list[tuple[Path, ast.Call]]:
    return [(path, node) for path, node in nodes() if isinstance(node, ast.Call)]


@cache
def words(path: Path) -> set[str]:
    return set(re.findall(r"\w+", TEXTS[path]))


def place(path: Path, node: ast.AST | None = None) -> str:
    line = f":{node.lineno}" if isinstance(node, ast.expr | ast.stmt) else ""
    return f"{path.relative_to(ROOT)}{line}"


def in_cli(path: Path) -> bool:
    return "cli" in path.relative_to(PACKAGE).parts


def called(call: ast.Call) -> str:
    """The last name of the called function: `fluxres.errors.UsageError(…)` -> UsageError."""
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def test_every_module_has_a_docstring() -> None:
    trees = [(path, node) for path, node in nodes() if isinstance(node, ast.Module)]
    assert len(trees) == len(MODULES)
    assert [place(path) for path, tree in trees if not ast.get_docstring(tree)] == []


def test_only_commands_print() -> None:
    assert [place(path, call) for path, call in calls() if called(call) == "print" and not in_cli(path)] == []


def imports_time(node: ast.AST) -> bool:
    if isinstance(node, ast.Import):
        return any(alias.name == "time" for alias in node.names)
    return isinstance(node, ast.ImportFrom) and node.module == "time"


def test_only_the_clock_reads_time() -> None:
    others = [path for path in MODULES if path != PACKAGE / "clock.py"]
    imported = [place(path, node) for path, node in nodes() if imports_time(node) and path in others]
    read = [
        place(path, call)
        for path, call in calls()
        if called(call) in ("now", "utcnow", "today") and READS_A_CLOCK.search(ast.unparse(call.func)) and path in others
    ]
    assert (imported, read) == ([], [])


def test_nothing_is_left_unfinished() -> None:
    texts = {path: text for path, text in TEXTS.items() if path != Path(__file__)}
    assert [f"{place(path)}: {match.group()}" for path, text in texts.items() for match in UNFINISHED.finditer(text)] == []


def test_every_ignored_type_error_has_a_code_and_a_reason() -> None:
    assert [place(path) for path in TEXTS if path != Path(__file__) and BARE_IGNORE.search(TEXTS[path])] == []


@pytest.mark.parametrize("bound", [name for name in dir(limits) if name.isupper()])
def test_every_bound_is_checked_and_hit_by_a_test(bound: str) -> None:
    general = {Path(__file__), ROOT / "tests" / "test_limits.py"}
    holders = [path for path in MODULES if path.name != "limits.py" and bound in words(path)]
    tests = [path for path in TESTS if path not in general and bound in words(path)]
    assert holders, f"no module holds {bound}"
    assert tests, f"no test names {bound}"


@pytest.mark.parametrize("error", [error.__name__ for error in STATUS])
def test_every_error_is_raised_somewhere(error: str) -> None:
    raised = any(called(call) == error for path, call in calls() if path.name != "errors.py")
    assert raised != (error in NEVER_RAISED)
