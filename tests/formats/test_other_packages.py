"""Formats of other packages: found by the entry point group, and reported when they fail (rule E1)."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

import fluxres
from fluxres.errors import InputError, UsageError
from fluxres.formats import registry
from fluxres.graph.structure import Structure
from fluxres.syntax import registry as names

MODULE = """
from fluxres.formats.format import Format, Loaded, Output
from fluxres.graph import uuids
from fluxres.graph.recipe import Recipe, expand


def read(source, *, origin=None):
    lines = source.text.split()[1:]
    nodes = [(name, {"16": 16}[cores]) for name, cores in (line.split(",") for line in lines)]
    children = tuple(Recipe("node", name=name, ids=None, children=(Recipe("core", cores),)) for name, cores in nodes)
    structure = expand(Recipe("cluster", children=children), origin=uuids.new_origin() if origin is None else origin)
    return Loaded(structure, [], "site")


def read_many(sources, *, origin=None):
    raise TypeError("not yet")


def live(rest, *, origin=None):
    return read(type("Text", (), {"text": f"#site {rest}"}), origin=origin)


def write(structure, allocations=(), *, name=None):
    nodes = [structure.name(v) for v in structure.of_type("node").tolist()]
    if len(nodes) > 2:
        raise KeyError("too many")
    return Output(("#site\\n" + "".join(f"{node},16\\n" for node in nodes)).encode(), [])


FORMAT = Format(
    "site-csv",
    "nodes of the site",
    (".site", ".site.yaml"),
    lambda head: head.startswith(b"#site"),
    reader="site_csv:read",
    writer="site_csv:write",
    many="site_csv:read_many",
    live="site_csv:live",
)
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with an installed package that has three entry points, of which one is a format."""
    metadata = tmp_path / "site_csv-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Name: site_csv\nVersion: 1.0\n")
    points = (
        "site-csv = site_csv:FORMAT",
        "absent = no_such_module:FORMAT",
        "wrong = site_csv:read",
        "cluster = site_csv:FORMAT",
    )
    (metadata / "entry_points.txt").write_text("\n".join(["[fluxres.formats]", *points, ""]))
    (tmp_path / "site_csv.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def types(structure: Structure) -> dict[str, int]:
    return {name: len(structure.of_type(name)) for name in structure.types}


@pytest.mark.usefixtures("package")
def test_format_of_another_package_is_one_like_any_other(tmp_path: Path) -> None:
    names = [known.name for known in registry.formats()]
    assert names[0] == "cluster"
    assert names[-1] == "site-csv"
    assert names.count("cluster") == 1
    file = tmp_path / "a.site"
    file.write_text("#site\nn1,16\nn2,16\n")
    graph = fluxres.load(file)
    assert types(graph.structure) == {"cluster": 1, "node": 2, "core": 32}
    assert types(fluxres.load("site-csv:n1,16").structure) == {"cluster": 1, "node": 1, "core": 16}
    assert registry.by_ending(Path("b.site.gz")).name == "site-csv"
    assert registry.by_ending(Path("b.yaml")).name == "cluster"
    assert registry.by_ending(Path("b.site.yaml")).name == "site-csv"
    assert registry.by_ending(Path("b.other.yaml")).name == "cluster"
    assert registry.write(graph.structure, format="site-csv").text == "#site\nn1,16\nn2,16\n"


def test_packages_are_read_only_for_an_ending_that_no_format_of_fluxres_has_and_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def entry_points(group: str) -> tuple[EntryPoint, ...]:
        asked.append(group)
        return ()

    monkeypatch.setattr(names, "entry_points", entry_points)
    monkeypatch.syspath_prepend("/nowhere")  # what was found before does not count
    for file in ("a.yaml", "a.json.gz", "a.R", "a.canary.json"):
        registry.by_ending(Path(file))
    assert asked == []
    for _ in range(2):
        with pytest.raises(UsageError, match=r"no format has the extension '\.txt'"):
            registry.by_ending(Path("a.txt"))
    assert asked == [registry.GROUP]


@pytest.mark.usefixtures("package")
def test_rule_e1_what_a_format_raises_names_the_source(tmp_path: Path) -> None:
    files = [tmp_path / "a.site", tmp_path / "b.site"]
    for file, text in zip(files, ("#site n1,3", "#site n1"), strict=True):
        file.write_text(text)
    with pytest.raises(InputError, match="cannot be read in format 'site-csv': KeyError: '3'") as caught:
        fluxres.load(files[0])
    assert caught.value.where == str(files[0])
    assert caught.value.hint == "this is a defect of the reader: report it"
    with pytest.raises(InputError, match="'site-csv': ValueError: not enough values"):
        fluxres.load(files[1])
    with pytest.raises(InputError, match=rf"^{files[0]} and 1 more: cannot be read in format 'site-csv': TypeError: not yet"):
        fluxres.load(files)
    with pytest.raises(InputError, match=r"^site-csv:n1: cannot be read in format 'site-csv': ValueError"):
        fluxres.load("site-csv:n1")
    graph = fluxres.load("site-csv:n1,16 n2,16 n3,16")
    with pytest.raises(UsageError, match="cannot be written in format 'site-csv': KeyError: 'too many'"):
        registry.write(graph.structure, format="site-csv")


@pytest.mark.usefixtures("package")
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("absent", "^format absent: cannot be imported: ModuleNotFoundError"),
        ("wrong", "^format wrong: expected a Format, got <function read"),
        ("site-cvs", "^no format 'site-cvs' .did you mean 'site-csv'"),
    ],
)
def test_format_that_is_none_is_a_usage_error_where_it_is_named(name: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        registry.read(b"#site n1,16", format=name)
    assert registry.read(b"#site n1,16").structure.n == 18
