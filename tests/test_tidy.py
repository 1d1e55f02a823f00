"""House rules that no linter checks, read from the code."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from fluxres import limits
from fluxres.errors import STATUS
from tests.traceability import ROOT

PACKAGE = ROOT / "fluxres"
TEXTS = {path: path.read_text(encoding="utf-8") for path in sorted([*PACKAGE.rglob("*.py"), *(ROOT / "tests").rglob("*.py")])}
TREES = {path: ast.parse(text, str(path)) for path, text in TEXTS.items() if path.is_relative_to(PACKAGE)}
TESTS = [path for path in TEXTS if path not in TREES]

UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX)\b")
BARE_IGNORE = re.compile(r"# type: ignore(?!\[[\w, -]+\]  # \w)")
READS_A_CLOCK = re.compile(r"\b(datetime|date)\.(now|utcnow|today)$")

NEVER_RAISED = {"FluxresError"}  # the base class: raised errors are more specific


def place(path: Path, node: ast.AST | None = None) -> str:
    line = f":{node.lineno}" if isinstance(node, ast.expr | ast.stmt) else ""
    return f"{path.relative_to(ROOT)}{line}"


def nodes() -> Iterator[tuple[Path, ast.AST]]:
    return ((path, node) for path, tree in TREES.items() for node in ast.walk(tree))


def in_cli(path: Path) -> bool:
    return "cli" in path.relative_to(PACKAGE).parts


def called(node: ast.AST) -> str:
    """The last name of the called function: `fluxres.errors.UsageError(…)` -> UsageError."""
    if not isinstance(node, ast.Call):
        return ""
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def test_every_module_has_a_docstring() -> None:
    assert [place(path) for path, tree in TREES.items() if not ast.get_docstring(tree)] == []


def test_only_commands_print() -> None:
    assert [place(path, node) for path, node in nodes() if called(node) == "print" and not in_cli(path)] == []


def test_only_the_clock_reads_time() -> None:
    offenders = []
    for path, node in nodes():
        imports_time = (isinstance(node, ast.Import) and any(alias.name == "time" for alias in node.names)) or (
            isinstance(node, ast.ImportFrom) and node.module == "time"
        )
        reads = isinstance(node, ast.Call) and READS_A_CLOCK.search(ast.unparse(node.func))
        if path != PACKAGE / "clock.py" and (imports_time or reads):
            offenders.append(place(path, node))
    assert offenders == []


def test_nothing_is_left_unfinished() -> None:
    texts = {path: text for path, text in TEXTS.items() if path != Path(__file__)}
    assert [f"{place(path)}: {match.group()}" for path, text in texts.items() for match in UNFINISHED.finditer(text)] == []


def test_every_ignored_type_error_has_a_code_and_a_reason() -> None:
    assert [place(path) for path in TREES if BARE_IGNORE.search(TEXTS[path])] == []


@pytest.mark.parametrize("bound", [name for name in dir(limits) if name.isupper()])
def test_every_bound_is_checked_and_hit_by_a_test(bound: str) -> None:
    word = re.compile(rf"\b{bound}\b")
    general = {Path(__file__), ROOT / "tests" / "test_limits.py"}
    holders = [path for path in TREES if path.name != "limits.py" and word.search(TEXTS[path])]
    tests = [path for path in TESTS if path not in general and word.search(TEXTS[path])]
    assert holders, f"no module holds {bound}"
    assert tests, f"no test names {bound}"


@pytest.mark.parametrize("error", [error.__name__ for error in STATUS])
def test_every_error_is_raised_somewhere(error: str) -> None:
    raised = any(called(node) == error for path, node in nodes() if path.name != "errors.py")
    assert raised != (error in NEVER_RAISED)
