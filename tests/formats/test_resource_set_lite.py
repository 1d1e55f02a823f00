"""The execution section of R as Flux reads it: without hosts, in its older form, with ranks in several entries, empty."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fluxres.errors import InputError
from fluxres.formats import registry
from fluxres.formats.format import Loaded
from fluxres.graph.recipe import Recipe, expand
from tests.formats.round_trip import ORIGIN, errors

ALL = {"core": "0-1"}


def read(*entries: dict[str, Any], scheduling: Any = None, **execution: Any) -> Loaded:
    values = {"version": 1, "execution": {"R_lite": list(entries), **execution}}
    if scheduling is not None:
        values["scheduling"] = scheduling
    found = registry.read(json.dumps(values).encode(), file="R.json", format="R", origin=ORIGIN)
    assert errors(found.structure) == []
    return found


def nodes(found: Loaded) -> dict[str, tuple[int, int]]:
    """Rank and number of pools by name of node."""
    s = found.structure
    return {s.name(v): (s.rank.item(v), s.end.item(v) - v - 1) for v in s.of_type("node").tolist()}


def test_nodes_without_hosts_are_named_by_rank() -> None:
    found = read({"rank": "2-3,7", "children": ALL})
    assert nodes(found) == {"node2": (2, 2), "node3": (3, 2), "node7": (7, 2)}
    assert found.notes == ("R.json: there is no nodelist, so nodes are named after their ranks",)
    assert json.loads(registry.write(found.structure, format="R").data)["execution"]["nodelist"] == ["node[2-3,7]"]


def test_hosts_of_the_older_form_are_in_the_entries() -> None:
    older = [{"rank": "3", "node": "sierra3", "children": ALL}, {"rank": "1", "node": "sierra1", "children": {"core": "0"}}]
    found = read(*older)
    assert (nodes(found), found.notes) == ({"sierra1": (1, 1), "sierra3": (3, 2)}, ())
    several = read({"rank": "0,4", "node": "s[8-9]", "children": ALL})
    assert nodes(several) == {"s8": (0, 2), "s9": (4, 2)}
    assert read(*older, nodelist=["sierra[1,3]"]).notes == ()


@pytest.mark.parametrize("node", ["sierra[1-2]", "other", 7, None])
def test_hosts_that_are_not_in_the_nodelist_are_ignored(node: Any) -> None:
    found = read({"rank": "3", "node": node, "children": ALL}, nodelist=["sierra3"])
    assert nodes(found) == {"sierra3": (3, 2)}
    assert found.notes == ("R.json: ignored, since a machine has no place for it: execution.R_lite.node",)


def test_rank_in_two_entries_has_the_union() -> None:
    found = read(
        {"rank": "0-2", "children": {"core": "0-1"}},
        {"rank": "1", "children": {"core": "1-2", "gpu": "0"}},
        {"rank": "1-2", "children": {"nic": "5"}},
        nodelist=["n[0-2]"],
    )
    s = found.structure
    assert [s.path(v)[len("/cluster0/") :] for v in range(1, s.n)] == [
        "n0", "n0/core0", "n0/core1", "n1", "n1/core0", "n1/core1", "n1/core2", "n1/gpu0", "n1/nic5",
        "n2", "n2/core0", "n2/core1", "n2/nic5",
    ]  # fmt: skip
    with pytest.raises(InputError, match=r"R_lite\[0\]: two siblings are named 'a12'"):
        read({"rank": "0", "children": {"a1": "2"}}, {"rank": "0", "children": {"a": "12"}}, nodelist=["n0"])


@pytest.mark.parametrize("execution", [{}, {"nodelist": []}, {"nodelist": [""], "starttime": 0, "expiration": 0}])
def test_set_without_ranks_has_no_node(execution: dict[str, Any]) -> None:
    found = read(**execution)
    assert ([found.structure.path(v) for v in range(found.structure.n)], found.notes) == (["/cluster0"], ())


def test_numbers_are_accepted_as_ids() -> None:
    assert nodes(read({"rank": 4, "children": {"core": 0}}, nodelist=["n4"])) == {"n4": (4, 1)}


def test_unknown_keys_are_ignored_and_reported() -> None:
    execution = {"R_lite": [{"rank": "0", "children": ALL, "x": [{"y": 1}]}], "nodelist": ["n"], "slots": 3}
    values = {"version": 1, "execution": execution}
    found = registry.read(json.dumps({**values, "extra": {"a": 1}}).encode(), file="R.json", format="R")
    assert found.notes == ("R.json: ignored, since a machine has no place for it: execution.R_lite.x, execution.slots, extra",)


def graph(machine: Recipe, **options: Any) -> dict[str, Any]:
    written = registry.write(expand(machine, origin=ORIGIN), format="R", scheduling="jgf", **options)
    found: dict[str, Any] = json.loads(written.data)["scheduling"]
    return found


def test_nodes_of_a_graph_are_found_by_rank_without_hosts() -> None:
    machine = Recipe("cluster", children=(Recipe("node", 3, children=(Recipe("core", 2),)),))
    found = read({"rank": "0-2", "children": ALL}, scheduling=graph(machine))
    assert (nodes(found), found.notes) == ({"node0": (0, 2), "node1": (1, 2), "node2": (2, 2)}, ())
    with pytest.raises(InputError, match="its ranks are not those of R, and nodes cannot be matched by host"):
        read({"rank": "4-6", "children": ALL}, scheduling=graph(machine))
    with pytest.raises(InputError, match="its ranks are not those of R"):
        read({"rank": "0-3", "children": ALL}, scheduling=graph(machine))


def test_node_of_a_host_with_several_is_found_by_tag() -> None:
    loaded = read({"rank": "0-1", "children": ALL}, nodelist=["vm,vm"])
    scheduling = json.loads(registry.write(loaded.structure, format="R", scheduling="jgf").data)["scheduling"]
    scheduling["graph"]["nodes"] = [n for n in scheduling["graph"]["nodes"] if "vm@1" in str(n) or n["id"] == "0"]
    kept = {n["id"] for n in scheduling["graph"]["nodes"]}
    scheduling["graph"]["edges"] = [e for e in scheduling["graph"]["edges"] if {e["source"], e["target"]} <= kept]
    del scheduling["graph"]["metadata"]
    assert nodes(read({"rank": "7", "children": ALL}, nodelist=["vm"], scheduling=scheduling)) == {"vm@1": (7, 2)}


def test_targets_that_are_not_nodes_are_found_in_a_graph() -> None:
    servers = Recipe("server", 2, rank=0, children=(Recipe("core", 2),))
    machine = Recipe("cluster", children=(servers,))
    s = expand(machine, origin=ORIGIN)
    s.rank[4:] = 1
    text = registry.write(s, format="R", scheduling="jgf").data
    assert registry.read(text).structure.rank.tolist() == s.rank.tolist()


def test_properties_that_a_graph_does_not_have_are_added_to_its_nodes() -> None:
    node = Recipe("node", 2, properties={"ssd": None, "gen": 4}, children=(Recipe("core", 2),))
    scheduling = graph(Recipe("cluster", children=(node,)))
    properties = {"ssd": "0", "gen=4": "0-1", "gen=5": "0", "+batch": "1"}
    s = read({"rank": "0-1", "children": ALL}, nodelist=["node[0-1]"], properties=properties, scheduling=scheduling).structure
    assert [dict(s.kind_of(v).properties) for v in s.of_type("node").tolist()] == [
        {"gen": "4", "gen=5": None, "ssd": None}, {"+batch": None, "gen": "4", "ssd": None},
    ]  # fmt: skip
    with pytest.raises(InputError, match=r"properties\.ssd: rank 2 is in no entry of R_lite"):
        read({"rank": "0-1", "children": ALL}, nodelist=["node[0-1]"], properties={"ssd": "2"}, scheduling=scheduling)


def test_only_nodes_of_r_have_ranks() -> None:
    machine = Recipe("cluster", children=(Recipe("rack", 2, children=(Recipe("node", 2, children=(Recipe("core", 2),)),)),))
    scheduling = graph(
        machine,
    )
    for n in scheduling["graph"]["nodes"]:
        if n["metadata"]["type"] == "node":
            n["metadata"]["name"] = f"n{n['id']}"
            n["metadata"]["paths"]["containment"] = n["metadata"]["paths"]["containment"].rpartition("/")[0] + f"/n{n['id']}"
        if n["metadata"]["type"] == "core":
            head, _, core = n["metadata"]["paths"]["containment"].rpartition("/")
            above = next(e["source"] for e in scheduling["graph"]["edges"] if e["target"] == n["id"])
            n["metadata"]["paths"]["containment"] = f"{head.rpartition('/')[0]}/n{above}/{core}"
    # The instance was started on two of the nodes, whose ranks are 0 and 1 there.
    found = read({"rank": "0-1", "children": ALL}, nodelist=["n[5,12]"], scheduling=scheduling)
    assert {name: rank for name, (rank, _) in nodes(found).items()} == {"n2": -1, "n5": 0, "n9": -1, "n12": 1}
    assert found.notes == (
        "R.json: /cluster/rack0/n2 has a rank and is in no node of R; the rank is left out (and 5 more like it)",
    )
    scheduling["graph"]["nodes"][0]["metadata"]["rank"] = 9
    with pytest.raises(InputError, match="/cluster/rack0/n5 is in /cluster, but both are nodes in R"):
        read({"rank": "0-1", "children": ALL}, nodelist=["n5,cluster"], scheduling=scheduling)
