"""House rules that no linter checks, read from the code."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import networkx as nx

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


def imports_time(node: ast.AST) -> bool:
    if isinstance(node, ast.Import):
        return any(alias.name == "time" for alias in node.names)
    return isinstance(node, ast.ImportFrom) and node.module == "time"


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


NAMES = {module_of(path) for path in MODULES}


def outside_functions(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements that are not in a function, those for type checkers included."""
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
            yield whole if whole in NAMES else statement.module


@dataclass
class Found:
    """What one walk through the syntax trees of all modules finds; the trees are too large to keep.

    Attributes:
        called: the last names of the functions that modules other than errors.py call.
        imports: by module, those that it imports outside of functions, for types or not.
        packages: by the name of a class, the packages that have one, as often as they have one.
    """

    undocumented: list[str] = field(default_factory=list)
    prints: list[str] = field(default_factory=list)
    time_imports: list[str] = field(default_factory=list)
    clocks_read: list[str] = field(default_factory=list)
    called: set[str] = field(default_factory=set)
    imports: dict[str, set[str]] = field(default_factory=dict)
    packages: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))


@cache
def found() -> Found:
    made = Found()
    for path in MODULES:
        tree = ast.parse(TEXTS[path], str(path))
        if not ast.get_docstring(tree):
            made.undocumented.append(place(path))
        made.imports[module_of(path)] = {name for statement in outside_functions(tree.body) for name in imported(statement)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                note_call(made, path, node)
            elif isinstance(node, ast.ClassDef):
                made.packages[node.name].append(path.relative_to(PACKAGE).parts[0])
            elif imports_time(node) and path != PACKAGE / "clock.py":
                made.time_imports.append(place(path, node))
    return made


def note_call(made: Found, path: Path, call: ast.Call) -> None:
    name = called(call)
    if path.name != "errors.py":
        made.called.add(name)
    if name == "print" and not in_cli(path):
        made.prints.append(place(path, call))
    is_clock = name in ("now", "utcnow", "today") and READS_A_CLOCK.search(ast.unparse(call.func))
    if is_clock and path != PACKAGE / "clock.py":
        made.clocks_read.append(place(path, call))


def test_every_module_has_a_docstring() -> None:
    assert found().undocumented == []


def test_only_commands_print() -> None:
    assert found().prints == []


def test_only_the_clock_reads_time() -> None:
    assert (found().time_imports, found().clocks_read) == ([], [])


def test_every_error_is_raised_somewhere() -> None:
    assert {error.__name__ for error in STATUS} - found().called == NEVER_RAISED


def test_nothing_is_left_unfinished() -> None:
    texts = {path: text for path, text in TEXTS.items() if path != Path(__file__)}
    assert [f"{place(path)}: {match.group()}" for path, text in texts.items() for match in UNFINISHED.finditer(text)] == []


def test_every_ignored_type_error_has_a_code_and_a_reason() -> None:
    assert [place(path) for path in TEXTS if path != Path(__file__) and BARE_IGNORE.search(TEXTS[path])] == []


def test_every_bound_is_checked_and_hit_by_a_test() -> None:
    general = {Path(__file__), ROOT / "tests" / "test_limits.py"}
    bounds = {name for name in dir(limits) if name.isupper()}
    held = {word for path in MODULES if path.name != "limits.py" for word in bounds & words(path)}
    hit = {word for path in TESTS if path not in general for word in bounds & words(path)}
    assert bounds - held == set(), "no module holds them"
    assert bounds - hit == set(), "no test names them"


# -- structure ---------------------------------------------------------------------------------------------------------

IN_CIRCLES = ("fluxres.model", "fluxres.hwloc")
"""Packages whose files import each other: a graph and its handles, and the object tree of libhwloc."""
LAYERS = ("graph", "planner", "match", "allocation", "model", "instance")
"""Packages in which a class name has one meaning."""
SHARED = {"Site"}
"""Class names that the simulation shares with other packages. A site is an instance there, and the graphs of a store in the
service, which have no reader in common."""


def test_no_circle_of_files() -> None:
    graph = nx.DiGraph()
    for module, imports in found().imports.items():
        graph.add_edges_from((module, other) for other in imports & NAMES - {module})
    circles = [sorted(files) for files in nx.strongly_connected_components(graph) if len(files) > 1]
    assert [files for files in circles if not all(file.startswith(IN_CIRCLES) for file in files)] == []


def test_a_class_name_has_one_meaning() -> None:
    layers = {name: [one for one in packages if one in LAYERS] for name, packages in found().packages.items()}
    assert {name: packages for name, packages in layers.items() if len(packages) > 1} == {}


def test_the_simulation_shares_one_class_name() -> None:
    shared = {name for name, packages in found().packages.items() if "simulation" in packages and len(set(packages)) > 1}
    assert shared == SHARED
