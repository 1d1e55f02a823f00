"""The page about the peer systems: the tests that it names exist, and each row names one."""

from __future__ import annotations

import ast
import re

import pytest

from tests.traceability import ROOT

PAGE = (ROOT / "specs" / "seed-systems.md").read_text(encoding="utf-8")
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE)))


@pytest.mark.parametrize(("file", "name"), NAMED)
def test_a_named_test_exists(file: str, name: str) -> None:
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    names = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    names |= {
        target.id for node in tree.body if isinstance(node, ast.Assign) for target in node.targets if isinstance(target, ast.Name)
    }
    assert name in names


def test_each_row_of_a_table_of_concepts_names_its_test() -> None:
    rows = 0
    for block in re.findall(r"^\| (?:concept|variable) .*\n\|[-| ]+\n((?:\|.*\n)+)", PAGE, re.MULTILINE):
        for row in block.splitlines():
            assert re.search(r"`tests/[\w/]+\.py::\w+` \|$", row), row
            rows += 1
    assert rows > 25
