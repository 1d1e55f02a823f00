"""The structure of the package, read from its imports and its classes."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import networkx as nx

from tests.traceability import ROOT

PACKAGE = ROOT / "fluxres"
ALLOWED_IN_CIRCLES = ("fluxres.model", "fluxres.hwloc")
"""Packages whose files import each other: a graph and its handles, and the object tree of libhwloc."""
LAYERS = ("graph", "planner", "match", "allocation", "model", "instance")
"""Packages in which a class name has one meaning."""


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


@cache
def trees() -> dict[str, ast.Module]:
    """Every module of the package, by its name."""
    return {module_of(path): ast.parse(path.read_text(encoding="utf-8"), str(path)) for path in sorted(PACKAGE.rglob("*.py"))}


def outside_functions(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a module that are not in a function, those for type checkers included."""
    for statement in body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        yield statement
        for branch in ("body", "orelse", "finalbody"):
            yield from outside_functions(getattr(statement, branch, []))
        for handler in getattr(statement, "handlers", []):
            yield from outside_functions(handler.body)


def imported(statement: ast.stmt) -> Iterator[str]:
    """The modules that a statement imports."""
    if isinstance(statement, ast.Import):
        yield from (alias.name for alias in statement.names)
    elif isinstance(statement, ast.ImportFrom):
        assert statement.module is not None, "no relative imports"
        for alias in statement.names:
            whole = f"{statement.module}.{alias.name}"
            yield whole if whole in trees() else statement.module


def imports() -> nx.DiGraph[str]:
    graph: nx.DiGraph[str] = nx.DiGraph()
    for module, tree in trees().items():
        graph.add_edges_from(
            (module, other)
            for statement in outside_functions(tree.body)
            for other in imported(statement)
            if other in trees() and other != module
        )
    return graph


def test_no_circle_of_files() -> None:
    circles = [sorted(files) for files in nx.strongly_connected_components(imports()) if len(files) > 1]
    assert [files for files in circles if not all(file.startswith(ALLOWED_IN_CIRCLES) for file in files)] == []


def test_a_class_name_has_one_meaning() -> None:
    places = defaultdict(list)
    for module, tree in trees().items():
        if module.split(".")[1:2] and module.split(".")[1] in LAYERS:
            for node in ast.walk(tree):
                if isinstance(node, ast.ClassDef):
                    places[node.name].append(module)
    assert {name: modules for name, modules in places.items() if len(modules) > 1} == {}
