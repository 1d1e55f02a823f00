"""What `import fluxres` provides, and what it does not load."""

from __future__ import annotations

import importlib
import subprocess
import sys
import tomllib

import pytest

import fluxres
from tests.traceability import ROOT


def imported_by(code: str) -> set[str]:
    """The top-level modules loaded after `code` ran in a fresh interpreter."""
    script = f"import sys\n{code}\nprint(*sorted({{name.split('.')[0] for name in sys.modules}}))"
    return set(
        subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True, cwd=ROOT).stdout.split()
    )


def test_import_loads_nothing_heavy() -> None:
    assert imported_by("import fluxres").isdisjoint(
        {"numpy", "networkx", "rich", "yaml", "msgspec", "orjson", "click", "sqlite3"}
    )


def test_pool_lookup_loads_no_matcher() -> None:
    code = (
        "import fluxres\n"
        "graph = fluxres.load({'fluxres': 1, 'name': 's', 'resources': [{'type': 'node', 'count': 2}]})\n"
        "graph.allocate('/s/node0', job='a').R()\n"
        "assert graph.check() == []\n"
        "graph.free('a')\n"
        "print(*(name for name in sys.modules if name.startswith('fluxres.match')))\n"
    )
    shown = subprocess.run([sys.executable, "-c", "import sys\n" + code], check=True, capture_output=True, text=True, cwd=ROOT)
    assert shown.stdout.strip() == ""


def test_graph_loads_no_networkx_until_a_view_is_requested() -> None:
    loaded = imported_by("import fluxres; fluxres.ResourceGraph; fluxres.load")
    assert "numpy" in loaded
    assert loaded.isdisjoint({"networkx", "rich", "click"})


@pytest.mark.parametrize("name", fluxres.__all__)
def test_public_names_resolve(name: str) -> None:
    value = getattr(fluxres, name)
    assert name == "__version__" or value.__name__ == name


def test_dir_lists_the_public_names() -> None:
    assert dir(fluxres) == sorted(fluxres.__all__)


def test_unknown_names_are_attribute_errors() -> None:
    with pytest.raises(AttributeError, match="module 'fluxres' has no attribute 'Resources'"):
        fluxres.Resources  # noqa: B018


def test_version_is_that_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["version"] == fluxres.__version__


@pytest.mark.parametrize("package", ["fluxres.simulation", "fluxres.render"])
def test_parts_export_names(package: str) -> None:
    module = importlib.import_module(package)
    assert [name for name in module.__all__ if getattr(module, name).__name__ != name] == []
    assert dir(module) == sorted(module.__all__)
    with pytest.raises(AttributeError, match=f"module '{package}' has no attribute 'simulates'"):
        module.simulates  # noqa: B018
