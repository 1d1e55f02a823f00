"""Targets of R pool by pool and in columns, and host lists built from numbers compared with those from text."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fluxres.allocation.resource_set import Hosts, resource_set
from fluxres.errors import InputError
from fluxres.graph import uuids
from fluxres.graph.auxiliary import Subsystem
from fluxres.graph.recipe import Recipe, expand
from fluxres.graph.structure import Structure
from fluxres.graph.surgery import unlink
from fluxres.syntax import hostlist, idset


def machine(nodes: int, names: list[str] | None = None) -> Structure:
    """Racks of two nodes; every other rack has nodes with a gpu, a property of its own and a socket between node and cores."""
    thin = Recipe("node", count=2, children=(Recipe("core", count=3), Recipe("memory", size=4)))
    thick = Recipe(
        "node",
        count=2,
        properties={"fat": None, "+hidden": None, "a|b": 1, "class": "x"},
        children=(Recipe("socket", count=2, children=(Recipe("core", count=2), Recipe("gpu"))),),
    )
    racks = tuple(Recipe("rack", ids=k, children=(thick if k % 2 else thin,)) for k in range(nodes // 2))
    structure = expand(Recipe("cluster", children=(*racks, Recipe("license", size=2))), origin=uuids.new_origin())
    if names:
        structure.names.update(zip(structure.of_type("node").tolist(), names, strict=True))
    return structure


FLAT = machine(12)


def disjoint(structure: Structure, wanted: list[int]) -> list[int]:
    found: list[int] = []
    for v in sorted(wanted):
        if not found or v >= structure.end.item(found[-1]):
            found.append(v)
    return found


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(1, FLAT.n - 1), min_size=1, max_size=20))
def test_few_and_many_pools_yield_the_same_r(wanted: list[int]) -> None:
    vertices = np.array(disjoint(FLAT, wanted), np.int32)
    amounts = FLAT.size[vertices]
    few = resource_set(FLAT, vertices, amounts, 0, 10)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fluxres.allocation.resource_set.FEW_POOLS_MAX", -1)
        many = resource_set(FLAT, vertices, amounts, 0, 10)
    assert few == many


@pytest.mark.parametrize("number", [1, 5, 12])
def test_complete_nodes_however_they_are_held(number: int) -> None:
    nodes = FLAT.of_type("node")[:number]
    below = np.array(sorted(v for node in nodes.tolist() for v in range(node + 1, FLAT.end.item(node)) if FLAT.parent[v] == node))
    whole, parts = (resource_set(FLAT, v.astype(np.int32), FLAT.size[v], 0, 10) for v in (nodes, below))
    assert whole == parts
    said = [entry["children"] for entry in whole["execution"]["R_lite"]]
    assert said == [{"core": "0-2"}, {"core": "0-3", "gpu": "0-1"}][: 1 + (number > 2)]
    assert set(whole["execution"].get("properties", {})) == (set() if number < 3 else {"fat", "class=x"})


def test_ranks_that_differ_from_positions() -> None:
    structure = machine(4)
    structure.rank[structure.rank >= 0] = 7 - 2 * structure.rank[structure.rank >= 0]
    node, core = structure.of_type("node")[:1], structure.of_type("core")[4:5]
    r = resource_set(structure, np.concatenate([node, core]), np.ones(2, np.int64), 0, 10)
    assert r["execution"]["R_lite"] == [{"rank": "5", "children": {"core": "1"}}, {"rank": "7", "children": {"core": "0-2"}}]
    assert r["execution"]["nodelist"] == ["node[1,0]"]


def test_rank_of_scattered_pools() -> None:
    """The first topmost pool is the target; other pools of the rank are not among its children."""
    structure = machine(4)
    structure.rank[structure.rank == 2] = 0
    node = structure.of_type("node")[2:3]
    r = resource_set(structure, node, np.ones(1, np.int64), 0, 10)
    assert r["execution"]["R_lite"] == [{"rank": "0", "children": {"core": ""}}]


def test_node_without_cores_is_listed_if_a_pool_above_is_held() -> None:
    racks = (Recipe("rack", ids=0, children=(Recipe("node", 2), Recipe("node", basename="fat", children=(Recipe("core", 2),)))),)
    structure = expand(Recipe("cluster", children=racks), origin=uuids.new_origin())
    r = resource_set(structure, structure.of_type("rack"), np.ones(1, np.int64), 0, 10)["execution"]
    assert r["R_lite"] == [{"rank": "0-1", "children": {"core": ""}}, {"rank": "2", "children": {"core": "0-1"}}]
    assert r["nodelist"] == ["node[0-1],fat0"]


@pytest.mark.parametrize("taken_out", [0, 3, 11])
def test_pools_outside_the_tree_are_not_targets(taken_out: int) -> None:
    structure = machine(12)
    node = structure.of_type("node").item(taken_out)
    power = np.array([0], np.int32), np.array([node], np.int32)
    structure.subsystems["power"] = Subsystem("power", True, *power)
    made, number = unlink(structure, node)
    outside = number[node : node + 1]
    assert (outside.tolist(), made.rank[outside].tolist()) == ([made.tree_end], [taken_out])
    left = [rank for rank in range(12) if rank != taken_out]
    for vertices in (np.zeros(1, np.int32), np.append(made.of_type("rack"), outside), np.append(np.int32(0), outside)):
        r = resource_set(made, vertices, np.ones(len(vertices), np.int64), 0, 10)["execution"]
        assert sorted(rank for entry in r["R_lite"] for rank in idset.parse(entry["rank"])) == left
        assert hostlist.count(r["nodelist"][0]) == 11
    alone = resource_set(made, outside, np.ones(1, np.int64), 0, 10)["execution"]
    assert (alone["R_lite"], alone["nodelist"]) == ([], [])


ODD = ["login", "n", "n" + "9" * 19, "n9-ib", "8", "09", "10", "n99", "n100"]
texts = st.from_regex(r"\A(n|node|n-)(0{0,2}[0-9]{1,3})\Z") | st.sampled_from(ODD)


@settings(max_examples=100, deadline=None)
@given(st.lists(texts, min_size=2, max_size=12).filter(lambda names: len(names) % 2 == 0), st.data())
def test_hosts_fold_like_text(names: list[str], data: st.DataObject) -> None:
    structure = machine(len(names), names)
    hosts = Hosts(structure.of_type("node"))
    for _ in range(3):
        some = data.draw(st.lists(st.integers(0, len(names) - 1), min_size=1, max_size=12))
        assert hosts.folded(structure, np.array(some)) == hostlist.format([names[at] for at in some])


def test_name_that_no_host_list_can_contain_is_refused() -> None:
    structure = machine(2, ["a b", "c"])
    with pytest.raises(InputError, match="'a b'"):
        resource_set(structure, structure.of_type("node"), np.ones(2, np.int64), 0, 1)
