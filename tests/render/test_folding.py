"""Folded names, paths and trees represent exactly the pools that they were made from."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import fluxres
from fluxres.errors import FluxresError
from fluxres.graph import uuids
from fluxres.graph.recipe import Recipe
from fluxres.graph.recipe import expand as build
from fluxres.graph.structure import Structure
from fluxres.model import ResourceGraph, targets
from fluxres.render import tree
from fluxres.render.folding import Subtrees, fold, fold_all, folded, groups, looks, mixed, runs
from fluxres.syntax import hostlist
from fluxres.syntax.folded import expand
from tests.strategies import Machine, machines


@given(machines(), st.randoms())
@settings(max_examples=40, deadline=None)
def test_folded_paths_are_the_paths(machine: Machine, random: object) -> None:
    structure = machine.structure()
    chosen = [v for v in range(structure.n) if random.random() < 0.7]  # type: ignore[attr-defined]  # a Random, which hypothesis types as object
    vertices = np.array(chosen, np.int32)
    found = fold(structure, vertices, mixed(structure.kind[vertices]), typeable=True)
    assert sum(item.count for item in found) == len(chosen)
    assert sorted(path for item in found for path in expand(item.text)) == sorted(structure.where(v) for v in chosen)
    assert [item.vertex for item in found] == sorted(item.vertex for item in found)


@given(machines())
@settings(max_examples=40, deadline=None)
def test_pools_that_look_different_never_share_a_line(machine: Machine) -> None:
    structure = machine.structure()
    vertices = np.arange(structure.n, dtype=np.int32)
    for item in fold(structure, vertices, looks(structure, 0, structure.n, []), typeable=True):
        seen = {
            (structure.kind_of(v), structure.size.item(v), structure.state.item(v), structure.flags.item(v))
            for v in map(structure.vertex, expand(item.text))
        }
        assert len(seen) == 1


def shape(structure: Structure, v: int) -> object:
    """A subtree as nested values, for comparison."""
    own = (structure.kind.item(v), structure.size.item(v), structure.state.item(v), structure.flags.item(v))
    return own, tuple(shape(structure, int(child)) for child in structure.children(v))


@given(machines(pools_max=30))
@settings(max_examples=40, deadline=None)
def test_signatures_are_equal_exactly_for_equal_subtrees(machine: Machine) -> None:
    structure = machine.structure()
    stop = structure.tree_end
    signatures = Subtrees(structure, 0, stop, looks(structure, 0, stop, [])).of(np.arange(stop, dtype=np.int32)).tolist()
    shapes = [(shape(structure, v), structure.depth.item(v)) for v in range(stop)]
    for a in range(stop):
        for b in range(a):
            if structure.depth.item(a) == structure.depth.item(b):
                assert (signatures[a] == signatures[b]) == (shapes[a] == shapes[b])


@given(machines())
@settings(max_examples=40, deadline=None)
def test_counts_of_a_tree_multiply_to_all_pools(machine: Machine) -> None:
    graph = ResourceGraph(machine.structure())
    structure = graph.structure
    by_type: Counter[str] = Counter()
    above = [1]
    for line in tree.branches(graph):
        del above[line.level + 1 :]
        above.append(above[line.level] * line.count)
        by_type[structure.kind_of(line.vertex).type] += above[-1]
    kinds = [structure.kind_of(v).type for v in range(structure.tree_end)]
    assert by_type == Counter(kinds)


@given(machines())
@settings(max_examples=40, deadline=None)
def test_names_of_any_pools_fold_to_those_names(machine: Machine) -> None:
    structure = machine.structure()
    for type_name in structure.types:
        vertices = structure.of_type(type_name)
        assert set(hostlist.parse(folded(structure, vertices))) == {structure.name(v) for v in vertices.tolist()}


@given(st.lists(st.integers(0, 50), min_size=1, unique=True))
def test_runs_cover_ascending_numbers_once(numbers: list[int]) -> None:
    ids = np.array(sorted(numbers))
    covered = [ids[i] for first, last in runs(ids) for i in range(first, last + 1)]
    assert covered == ids.tolist()
    assert all(ids[last] - ids[first] == last - first for first, last in runs(ids))


@given(st.lists(st.integers(0, 5), max_size=30))
def test_groups_hold_equal_values_in_order_of_their_first(values: list[int]) -> None:
    found = [group.tolist() for group in groups(np.array(values, np.uint64))]
    assert found == [[i for i, x in enumerate(values) if x == value] for value in dict.fromkeys(values)]


def machine_of(*children: Recipe) -> Structure:
    return build(Recipe("cluster", basename="big", ids=None, children=children), origin=uuids.new_origin())


def test_million_pools_are_a_few_lines() -> None:
    node = Recipe("node", name="n${id:05}", count=10_000, children=(Recipe("core", count=96), Recipe("gpu", count=4)))
    structure = machine_of(node)
    graph = ResourceGraph(structure)
    graph.allocate("/big/n00007/core3", job="j1")
    lines = tree.draw(graph, tree.branches(graph))
    assert structure.n > 1_000_000
    assert [line.split()[1] for line in lines if " n" in line] == ["n[00000-00006,00008-09999]", "n00007"]
    assert len(lines) == 8
    every = np.arange(structure.n, dtype=np.int32)
    assert [item.text for item in fold(structure, every, mixed(structure.kind))] == [
        "/big",
        "/big/n[00000-09999]",
        "/big/n[00000-09999]/core[0-95]",
        "/big/n[00000-09999]/gpu[0-3]",
    ]


def test_order_and_nesting_of_children_matter() -> None:
    core, gpu = Recipe("core"), Recipe("gpu")
    graph = ResourceGraph(
        machine_of(
            Recipe("node", count=1, children=(core, gpu)),
            Recipe("node", count=1, ids=1, children=(gpu, core)),
            Recipe("node", count=1, ids=2, children=(Recipe("core", children=(gpu,)),)),
            Recipe("node", count=1, ids=3, children=(core, gpu)),
        )
    )
    tops = [line.names for line in tree.branches(graph) if line.level == 1]
    assert tops == ["node[0,3]", "node1", "node2"]


def test_fold_all_of_nothing_is_empty() -> None:
    assert fold_all(machine_of(Recipe("node")), []) == ""


def test_names_that_grow_by_a_digit_are_one_run() -> None:
    names = [f"n{number:02}" for number in range(8, 13)]
    nodes = tuple(Recipe("node", names=[name], ids=int(name[1:]), basename="n", word_for_word=name < "n10") for name in names)
    structure = build(Recipe("cluster", children=nodes), origin=uuids.new_origin())
    structure.names = {v: name for v, name in structure.names.items() if name < "n10"}
    assert folded(structure, structure.of_type("node")) == "n[08-12]"


ODD_NAMES = [
    "a b",
    "x,y",
    "n[0-3]",
    "it's",
    'q"r',
    "a",
    "b",
    "node@3",
    "k=3",
    "ü",
    "#17",
    "x{y}",
    "'a'",
    "-x",
    "c:d",
    "a\\b",
    "n1",
    "n2",
]
ODD_TYPES = ["node", "core", "a b", "c:d", "x@y", "n[0]", "'q'", "t,u"]


@settings(max_examples=200, deadline=None)
@given(st.randoms(use_true_random=False))
def test_a_folded_text_names_the_pools_again(random: Random) -> None:
    def some(type_name: str, *below: dict[str, Any]) -> dict[str, Any]:
        how = {"count": random.randint(1, 3)} if random.random() < 0.4 else {"names": random.sample(ODD_NAMES, 2)}
        return {"type": type_name, **how, "with": list(below)}

    resources = [some(random.choice(ODD_TYPES), some(random.choice(ODD_TYPES))) for _ in range(2)]
    pools = [some("switch", some("port"))]
    try:
        graph = fluxres.load({"fluxres": 1, "name": "m", "resources": resources, "graphs": {"net": {"pools": pools}}})
    except FluxresError:  # two names are equal
        return
    chosen = sorted(random.sample(range(len(graph)), random.randint(1, min(8, len(graph)))))
    assert sorted(targets.accounts_named(graph.structure, fold_all(graph.structure, chosen))) == chosen


def test_cores_and_devices_are_folded_whatever_identifies_them() -> None:
    devices = [{"visible": str(at), "uuid": f"GPU-{at}", "model": model} for at, model in enumerate(("A100", "A100", "T4", "T4"))]
    gpus = tuple(Recipe("gpu", ids=at, properties=each) for at, each in enumerate(devices))
    cores = tuple(Recipe("core", ids=at, properties={"cpus": f"{at},{at + 64}"}) for at in range(3))
    graph = ResourceGraph(build(Recipe("node", children=(*cores, *gpus)), origin=uuids.new_origin()))
    assert [" ".join(line.split()) for line in tree.draw(graph, tree.branches(graph))] == [
        "/node",
        "├─ core[0-2] ×3",
        "├─ gpu[0-1] ×2 model=A100",
        "└─ gpu[2-3] ×2 model=T4",
    ]


def test_values_of_other_properties_are_told_apart_by_their_type() -> None:
    recipes = tuple(Recipe("gpu", ids=at, properties={"uuid": "x", "fast": value}) for at, value in enumerate((1, True)))
    graph = ResourceGraph(build(Recipe("node", children=recipes), origin=uuids.new_origin()))
    assert [" ".join(line.split()) for line in tree.draw(graph, tree.branches(graph))][1:] == [
        "├─ gpu0 fast=1",
        "└─ gpu1 fast=True",
    ]
