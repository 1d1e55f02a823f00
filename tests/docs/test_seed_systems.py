"""The page about the peer systems: each row of its tables names the tests that hold it, and these exist."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from tests.traceability import ROOT

PAGE = (ROOT / "specs" / "seed-systems.md").read_text(encoding="utf-8")
TESTS = ROOT / "tests"
HELD = [
    [re.split(r"(?<!\\)\|", row.strip("|"))[-1].strip() for row in block.splitlines()]
    for block in re.findall(r"^\|.*\| held by \|\n\|[-| ]+\n((?:\|.*\n)+)", PAGE, re.MULTILINE)
]
"""The last cells of the rows, by table."""


@cache
def names_of(file: Path) -> frozenset[str]:
    """The functions, classes and variables of a module."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    found = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    targets = [target for node in tree.body if isinstance(node, ast.Assign) for target in node.targets]
    return frozenset(found | {target.id for target in targets if isinstance(target, ast.Name)})


@cache
def files() -> tuple[Path, ...]:
    return tuple(TESTS.rglob("*.py"))


@cache
def kinds() -> str:
    """The modules that repeat the recorded cases."""
    return "".join(file.read_text(encoding="utf-8") for file in (TESTS / "conformance").glob("*.py"))


def is_held(cell: str, *, is_first: bool) -> bool:
    """Whether what a cell names exists: tests, files of tests, kinds of recorded cases, or the cell above it."""
    if "the same" in cell and not is_first:
        return True
    named = re.findall(r"`([^`]+)`", cell)
    return bool(named) and all(_is_there(word) for word in named)


def _is_there(word: str) -> bool:
    system, _, kind = word.partition(" ")
    if kind:
        return f'"{system}"' in kinds() and f'"{kind}"' in kinds()
    place, _, name = word.removeprefix("tests/").rpartition("::")
    if name.endswith(".py"):
        place, name = name, "…"
    among = [file for file in files() if place in ("", "…") or file.as_posix().endswith(f"/{place}")]
    start = name.removesuffix("…")
    mention = (file for file in among if start in file.read_text(encoding="utf-8"))
    return any(one.startswith(start) if start != name else one == name for file in mention for one in names_of(file))


@pytest.mark.parametrize("table", range(len(HELD)))
def test_each_row_names_what_holds_it(table: int) -> None:
    cells = HELD[table]
    assert [cell for at, cell in enumerate(cells) if not is_held(cell, is_first=not at)] == []


def test_all_tables_are_read() -> None:
    assert len(HELD) == PAGE.count("| held by |")
    assert sum(map(len, HELD)) > 90
