"""Recipes expand to the columns of a plain recursion; invalid recipes are refused before columns are allocated."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fluxres import limits
from fluxres.errors import FluxresError, InputError, LimitExceeded
from fluxres.graph.kinds import EXCLUSIVE, STATES, WAY
from fluxres.graph.recipe import NO_RANK, Recipe, expand, hand_down, regular_names
from fluxres.graph.structure import Structure
from fluxres.graph.uuids import new_origin
from tests.choices import among, integers

ORIGIN = new_origin(bytes(range(16)))


def cluster(*children: Recipe, **fields: Any) -> Recipe:
    return Recipe("cluster", children=children, **fields)


def has(type_name: str, count: int = 1, *children: Recipe, **fields: Any) -> Recipe:
    return Recipe(type_name, count, children=children, **fields)


def names(structure: Structure) -> list[str]:
    return [structure.name(v) for v in range(structure.n)]


# -- against a recursion ------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Row:
    recipe: Recipe
    parent: int
    end: int
    id: int


def plain(roots: list[Recipe]) -> list[Row]:
    """One row at a time, recursively: the definition of a recipe."""
    rows: list[Row] = []
    met: dict[tuple[int, ...], int] = {}

    def grow(recipe: Recipe, parent: int, place: tuple[int, ...], is_root: bool = False) -> None:
        for i in range(recipe.count):
            at = len(rows)
            number = met[place] = met.get(place, -1) + 1
            ids = recipe.ids
            value = (
                -1
                if ids is None or (is_root and isinstance(ids, int))
                else ids + i
                if isinstance(ids, int)
                else int(ids[number % len(ids)])
            )
            rows.append(Row(recipe, parent, 0, value))
            for j, child in enumerate(recipe.children):
                grow(child, at, (*place, j))
            rows[at].end = len(rows)

    for i, root in enumerate(roots):
        grow(root, -1, (i,), is_root=i == 0)
    return rows


@st.composite
def trees(draw: Any, depth: int = 3, counts: tuple[int, ...] = ()) -> Recipe:
    count = draw(integers(1, 3)) if counts else 1
    counts = (count, *counts)
    children = [draw(trees(depth - 1, counts)) for _ in range(draw(integers(0, 2)))] if depth else []
    levels = draw(integers(1, len(counts)))
    total = int(np.prod(counts[:levels]))
    ids = draw(among(0, 7, None, "run"))
    if ids == "run":
        ids = np.arange(total) * 3 + draw(integers(0, 2))
    # Names come from the place in the tree, so that siblings differ whatever their ids are.
    children = [dataclasses.replace(child, basename=f"{child.type}{'xy'[i]}") for i, child in enumerate(children)]
    return Recipe(
        draw(among("node", "core", "rack")),
        count,
        ids=0 if ids is None and count > 1 else ids,
        size=draw(among(1, 5)),
        state=draw(among(*STATES)),
        exclusive=draw(st.booleans()),
        way=draw(st.booleans()),
        children=tuple(children),
    )


@settings(deadline=None, max_examples=150)
@given(trees(), st.lists(trees(1), max_size=2), st.booleans())
def test_expansion_equals_the_plain_recursion(root: Recipe, more: list[Recipe], twice: bool) -> None:
    if twice:  # the same entries in a second place are copied from the first
        root = dataclasses.replace(root, children=(*root.children, Recipe("twin", 2, children=root.children)))
    roots = [root, *(dataclasses.replace(tree, ids=0) for tree in more)]
    rows = plain(roots)
    try:
        structure = expand(roots[0], more=roots[1:], origin=ORIGIN)
    except InputError as error:
        assume("of them" not in error.message)  # a list that fitted at its first place may not fit at the second one
        raise
    assert structure.n == len(rows)
    assert structure.parent.tolist() == [row.parent for row in rows]
    assert structure.end.tolist() == [row.end for row in rows]
    assert structure.id.tolist() == [row.id for row in rows]
    assert structure.size.tolist() == [row.recipe.size for row in rows]
    assert [STATES[code] for code in structure.state] == [row.recipe.state for row in rows]
    assert structure.flags.tolist() == [EXCLUSIVE * row.recipe.exclusive + WAY * row.recipe.way for row in rows]
    assert [structure.kind_of(v).type for v in range(structure.n)] == [row.recipe.type for row in rows]
    assert structure.tree_end == rows[0].end
    assert structure.rank.tolist() == ranks_by_recursion(rows)
    assert [structure.uuid(v) for v in (0, structure.n - 1)] == [
        structure.uuid(0)[:-12] + f"{v:012x}" for v in (0, structure.n - 1)
    ]


def ranks_by_recursion(rows: list[Row]) -> list[int]:
    ranks: list[int] = []
    nodes = 0
    for v, row in enumerate(rows):
        if row.recipe.type == "node" and v < rows[0].end:
            ranks.append(nodes)
            nodes += 1
        else:
            ranks.append(ranks[row.parent] if row.parent >= 0 else -1)
    return ranks


@given(st.lists(st.integers(-1, 5), min_size=1, max_size=30), st.data())
def test_ranks_come_from_the_nearest_setter_above(parents: list[int], data: st.DataObject) -> None:
    # A random pre-order forest: each parent is on the path to the vertex before.
    parent = [-1]
    for v, want in enumerate(parents, start=1):
        way = [v - 1]
        while way[-1] >= 0:
            way.append(parent[way[-1]])
        parent.append(way[min(want + 1, len(way) - 1)])
    n = len(parent)
    end = np.arange(1, n + 1, dtype=np.int32)
    for v in range(n - 1, 0, -1):
        if parent[v] >= 0:
            end[parent[v]] = max(end[parent[v]], end[v])
    setters = sorted(data.draw(st.sets(st.integers(0, n - 1))))
    rank = np.full(n, -9, np.int32)
    rank[setters] = setters
    hand_down(rank, np.array(setters, np.int64), end)
    expected = []
    for v in range(n):
        u = v
        while u >= 0 and u not in setters:
            u = parent[u]
        expected.append(u if u >= 0 else NO_RANK)
    assert rank.tolist() == expected


# -- ids, names, ranks --------------------------------------------------------------------------------------------------


def test_ids_run_over_the_number_of_parents_implied_by_their_count() -> None:
    core = has("core", 2, ids=np.arange(4))  # over the two sockets of a node
    tree = cluster(has("node", 3, has("socket", 2, core), ids=np.array([5, 6, 9])))
    structure = expand(tree, origin=ORIGIN)
    assert structure.id[structure.of_type("core")].tolist() == [0, 1, 2, 3] * 3
    assert structure.path(structure.n - 1) == "/cluster/node9/socket1/core3"


def test_root_has_no_id_unless_given() -> None:
    assert expand(cluster(), origin=ORIGIN).path(0) == "/cluster"
    assert expand(cluster(ids=np.array([0])), origin=ORIGIN).path(0) == "/cluster0"


def test_regular_list_of_names_becomes_a_template() -> None:
    hosts = [f"frontier{i:05}" for i in range(1, 9)]
    structure = expand(cluster(has("node", 8, has("core", 2), names=hosts)), origin=ORIGIN)
    assert [structure.name(v) for v in structure.of_type("node")] == hosts
    assert structure.names == {}
    assert structure.id[structure.of_type("node")].tolist() == list(range(1, 9))


@pytest.mark.parametrize("listed", [["a", "b"], ["n1", "n02"], ["n1", "m2"], ["x9", "x"]])
def test_irregular_names_are_stored(listed: list[str]) -> None:
    assert regular_names(listed) is None
    structure = expand(cluster(has("rack", 2, has("node", 2, names=listed))), origin=ORIGIN)
    assert [structure.name(v) for v in structure.of_type("node")] == listed * 2


def test_word_for_word_names_do_not_become_a_template() -> None:
    structure = expand(cluster(has("node", 2, names=["n0", "n1"], word_for_word=True)), origin=ORIGIN)
    assert structure.names == {1: "n0", 2: "n1"}


@given(st.lists(st.from_regex(r"[a-z$]{0,2}[0-9]{0,3}", fullmatch=True).filter(bool), min_size=1, max_size=5))
def test_template_reproduces_its_names(listed: list[str]) -> None:
    from fluxres.syntax import template

    regular = regular_names(listed)
    if regular is not None:
        text, ids = regular
        assert [template.render(template.parse(text), {"id": i}.get) for i in ids.tolist()] == listed


def test_templates_use_ids_of_ancestors_and_properties() -> None:
    node = has("node", 2, ids=np.arange(4), name="node-${frame}-${rack}-${id:02}", properties={"frame": "f7"})
    structure = expand(cluster(has("rack", 2, node)), origin=ORIGIN)
    assert structure.path(structure.n - 1) == "/cluster/rack1/node-f7-1-03"


def test_ranks_given_and_not_given() -> None:
    given_ranks = has("node", 2, has("core", 1), rank=np.array([7, 3]))
    structure = expand(cluster(given_ranks, has("node", 1, ids=9), has("node", 2, basename="login", rank=NO_RANK)), origin=ORIGIN)
    assert structure.rank.tolist() == [-1, 7, 7, 3, 3, 2, -1, -1]


def test_sparse_data_is_set_on_every_instance() -> None:
    core = has("core", 2, tags={"a": None}, capacity=4)
    structure = expand(cluster(has("node", 2, core, has("gpu", uuid=None))), origin=ORIGIN)
    cores = structure.of_type("core").tolist()
    assert structure.tags == {v: {"a": None} for v in cores}
    assert structure.capacity == dict.fromkeys(cores, 4)
    structure.set_tag([cores[0]], "b", "1")
    assert structure.tags[cores[1]] == {"a": None}


# -- refusals -----------------------------------------------------------------------------------------------------------

BAD: list[tuple[str, Recipe, str, str]] = [
    ("count", cluster(has("node", 0)), "cluster/node.count", "expected a whole number of at least 1, got 0"),
    ("size", cluster(has("node", size=0)), "cluster/node.size", "expected a whole number of at least 1, got 0"),
    ("state", cluster(has("node", state="off")), "cluster/node.state", "no state 'off'"),
    ("name with a slash", cluster(has("node", name="a/b", ids=None)), "cluster/node.name", "character not allowed in a path"),
    (
        "list too short",
        cluster(has("rack", 2, has("node", 3, ids=np.arange(4)))),
        "cluster/rack/node.id",
        "expected 3 or 6 entries, got 4",
    ),
    (
        "negative id",
        cluster(has("node", 1, ids=np.array([-1]))),
        "cluster/node.id",
        "expected a whole number of at least 0, got -1",
    ),
    ("id twice", cluster(has("node", 2, ids=np.array([4, 4]))), "cluster/node.id", "two node pools with id 4"),
    ("ids that overlap", cluster(has("node", 4), has("node", 2, ids=3)), "cluster/node.id", "two node pools with id 3"),
    ("list into a range", cluster(has("node", 4), has("node", 2, ids=np.array([9, 2]))), "cluster/node.id", "with id 2"),
    (
        "lists that overlap",
        cluster(has("node", 2, ids=np.array([1, 2])), has("node", 2, ids=np.array([3, 2]))),
        "cluster/node.id",
        "with id 2",
    ),
    ("one name for two", cluster(has("node", 2, name="login")), "cluster/node", "2 pools with the same name 'login'"),
    (
        "a name again",
        cluster(has("node", name="a", ids=None), has("gpu", name="a", ids=None)),
        "cluster/gpu",
        "a second pool named 'a'",
    ),
    ("names twice", cluster(has("node", 2, names=["a", "a"])), "cluster/node", "two pools named 'a'"),
    (
        "no id to name by",
        cluster(has("node", ids=None, name="n${id}")),
        "cluster/node.name",
        "uses the id of pools that have none",
    ),
    ("no such type above", cluster(has("node", name="n${rack}${id}")), "cluster/node.name", "uses 'rack'"),
    ("ancestor without id", cluster(has("node", name="n${cluster}${id}")), "cluster/node.name", "id of a cluster that has none"),
    ("uuid for several", cluster(has("rack", 2, has("node", uuid="u"))), "cluster/rack/node.uuid", "one uuid for several pools"),
    ("uuid twice", cluster(has("node", uuid="u"), has("gpu", uuid="u")), "cluster/gpu.uuid", "occurs twice"),
    ("two roots", Recipe("cluster", 2), "cluster", "expected one root"),
]


@pytest.mark.parametrize(("tree", "where", "message"), [bad[1:] for bad in BAD], ids=[bad[0] for bad in BAD])
def test_invalid_recipes_are_refused_with_their_place(tree: Recipe, where: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        expand(tree, origin=ORIGIN)
    assert caught.value.where == where
    assert message in caught.value.message


@pytest.mark.parametrize(
    "brothers",
    [
        (has("node", 2, name="a${id}b"), has("node", ids=None, name="a1b")),
        (has("core", basename="core1", ids=0), has("core", 11)),  # core1 + 0 and core + 10
        (has("node", 2, name="n${id}"), has("node", 2, name="n${id:01}")),
        (has("rack", 2, has("x", 1, name="n1${rack}"), has("y", 1, name="n${rack}1", ids=None))),
        (has("node", 2, names=["p", "q"]), has("gpu", ids=None, name="q")),
    ],
)
def test_siblings_with_equal_names_from_different_rules_are_found(brothers: tuple[Recipe, ...] | Recipe) -> None:
    children = brothers if isinstance(brothers, tuple) else (brothers,)
    with pytest.raises(InputError, match="two pools named"):
        expand(cluster(*children), origin=ORIGIN)


@pytest.mark.parametrize(
    "brothers",
    [
        (has("core", 4), has("core9", ids=None), has("gpu", 2), has("node", ids=None, name="login")),
        (has("core", 11), has("core", basename="core1", ids=5)),
        (has("node", 2, name="a${id}b"), has("node", 2, name="a${id}c")),
    ],
)
def test_siblings_with_similar_distinct_names_are_accepted(brothers: tuple[Recipe, ...]) -> None:
    structure = expand(cluster(*brothers), origin=ORIGIN)
    assert len(set(names(structure)[1:])) == structure.n - 1


def nested(depth: int) -> Recipe:
    tree = Recipe("core")
    for _ in range(depth - 1):
        tree = Recipe("box", children=(tree,))
    return tree


def doubling(levels: int) -> Recipe:
    tree = Recipe("core", 1)
    for _ in range(levels):
        tree = Recipe("box", 1, ids=None, children=(tree, dataclasses.replace(tree, basename="other")))
    return tree


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        (cluster(has("rack", 10**9, has("node", 10**9))), "pools in all"),
        (cluster(has("node", limits.POOLS_MAX)), "pools in all"),
        (cluster(has("node", 10**9), has("node", 10**9, ids=10**9)), "pools in all"),
        (nested(limits.DEPTH_MAX + 1), f"more than {limits.DEPTH_MAX} levels"),
        (cluster(has("memory", size=limits.SIZE_MAX + 1)), "units, at most"),
        (cluster(has("node", 2, ids=limits.ID_MAX)), "is above"),
        (cluster(has("n" * (limits.NAME_LENGTH_MAX + 1))), "characters, at most"),
        (cluster(has("node", properties={"a": "x" * (limits.VALUE_LENGTH_MAX + 1)})), "characters, at most"),
        (doubling(21), "entries with parts expanded"),
    ],
)
def test_limits_are_checked_before_memory_is_allocated(tree: Recipe, message: str) -> None:
    with pytest.raises(LimitExceeded, match=message):
        expand(tree, origin=ORIGIN)


def test_deepest_allowed_tree() -> None:
    structure = expand(nested(limits.DEPTH_MAX), origin=ORIGIN)
    assert structure.depth.max() == limits.DEPTH_MAX - 1


def test_caller_provides_the_place_of_a_recipe() -> None:
    with pytest.raises(FluxresError) as caught:
        expand(cluster(has("node", 0)), origin=ORIGIN, where=lambda recipe, key: f"line of {recipe.type} {key}")
    assert caught.value.where == "line of node count"


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads the peak from /proc")
def test_million_pools_use_little_more_memory_than_their_columns() -> None:
    # In a process of its own, because the peak of this one has long been higher.
    code = """
import re
from fluxres.graph.recipe import Recipe, expand
peak = lambda: int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1])
base = peak()
inner = (Recipe("core", 48), Recipe("gpu", 4), Recipe("memory", size=64))
node = Recipe("node", 120, children=(Recipe("socket", 2, children=inner),))
tree = Recipe("cluster", children=(Recipe("rack", 80, children=(node,)),))
s = expand(tree, origin=0)
print(s.n, sum(column.nbytes for column in s.columns().values()), (peak() - base) * 1024)
"""
    out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    pools, columns, grown = map(int, out.split())
    assert pools == 1 + 80 * (1 + 120 * (1 + 2 * 54))
    assert columns * 0.9 < grown < columns + 16 * pools


def test_templates_use_uuid_parent_name_and_state() -> None:
    core = has("core", 2, name="${parent}.c${id}")
    node = has("node", 2, core, name="n${id}-${state}", state="drain")
    s = expand(cluster(node, has("gpu", name="gpu-${uuid}"), name="demo"), origin=1 << 64)
    assert s.path(s.vertex("/demo/n1-drain/n1-drain.c1")) == "/demo/n1-drain/n1-drain.c1"
    gpu = int(s.of_type("gpu")[0])
    assert s.name(gpu) == f"gpu-{s.uuid(gpu)}"
    s.set_state([s.vertex("/demo/n1-drain")], "up")  # the name stays: records and journals use it
    assert s.vertex("/demo/n1-drain") == s.of_type("node")[1]


def test_names_with_uuids_and_parents_survive_copy_and_merge() -> None:
    import fluxres

    core = {"type": "core", "count": 2, "name": "${parent}-${id}"}
    node = {"type": "node", "count": 2, "with": [core, {"type": "gpu", "name": "g-${uuid}"}]}
    g = fluxres.load({"fluxres": 1, "name": "demo", "resources": [{"type": "rack", "count": 2, "with": [node]}]})
    before = {p.uuid: p.path for p in g.walk()}
    part = g.copy("/demo/rack1/node1")
    assert all(before[p.uuid] == p.path for p in part.walk())
    g.unlink("/demo/rack1/node1")
    g.merge(part)
    assert {p.uuid: p.path for p in g.walk()} == before
    for form in ("cluster", "jgf", "node-link"):
        again = fluxres.loads(fluxres.dumps(g, format=form, strict=False))
        assert {p.uuid: p.path for p in again.walk()} == before, form
