"""Auxiliary graphs that Fluxion accepts, and those that it would refuse, which are written where it does not look."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from fluxres.formats import registry
from fluxres.graph import jgf
from fluxres.graph.compare import equal
from fluxres.graph.structure import Structure
from tests.formats.fluxion_reader import Fluxion, Refused
from tests.graph.builders import Node, build

Graph = Sequence[tuple[Any, ...]]


def machine(*outside: Node, hierarchies: Sequence[str] = (), **graphs: Graph) -> Structure:
    """A rack of two nodes with a core each, and some pools outside containment."""

    def node(number: int) -> Node:
        return Node("node", number, [Node("core", 0, rank=number)], rank=number)

    rack = Node("rack", 0, [node(0), node(1)])
    return build(Node("cluster", -1, [rack], name="c"), *outside, graphs=graphs, hierarchies=hierarchies)


PDU0, PDU1, SWITCH = Node("pdu", 0), Node("pdu", 1), Node("switch", -1)
N0, N1, RACK = "/c/rack0/node0", "/c/rack0/node1", "/c/rack0"
FEEDS: Graph = [("pdu0", N0, "supplies"), ("pdu0", N1, "supplies")]


def test_hierarchy_with_one_root_and_graph_with_one_outside_pool_are_accepted() -> None:
    s = machine(PDU0, SWITCH, power=FEEDS, net=[("switch", N0), (N0, "switch")], hierarchies=["power"])
    assert jgf.subsystems_of(s) == ({"power": s.subsystems["power"], "net": s.subsystems["net"]}, {})
    document = json.loads(registry.write(s, format="jgf").data)
    graph = document["graph"]
    assert "auxiliary" not in graph["metadata"]
    assert [n["metadata"]["paths"] for n in graph["nodes"] if int(n["id"]) in (s.vertex(N0), s.tree_end)] == [
        {"containment": N0, "power": "/pdu0/node0"}, {"power": "/pdu0"},
    ]  # fmt: skip
    assert {edge["metadata"]["subsystem"] for edge in graph["edges"] if "metadata" in edge} == {"power", "net"}
    assert set(Fluxion.load(document).roots) == {"containment", "power", "net"}


REFUSED: dict[str, tuple[Structure, str]] = {
    "two roots": (machine(PDU0, PDU1, g=[("pdu0", N0), ("pdu1", N1)], hierarchies=["g"]), "2 roots"),
    "two pools of its own": (machine(PDU0, PDU1, g=[("pdu0", N0), (N0, "pdu1")]), "2 pools outside containment"),
    "as in containment": (machine(PDU0, g=[("pdu0", RACK), (RACK, N0)], hierarchies=["g"]),
                          "an edge from rack0 to node0, as in containment"),
    "twice": (machine(g=[(N0, N1), (N0, N1, "backup")]), "two edges from node0 to node1"),
    "as in another": (machine(a=[(N0, N1)], g=[(N1, N0), (N0, N1)]), "an edge from node0 to node1, as in a"),
    "a path of containment": (machine(Node("cluster", -1, name="c"), g=[("c", N0)], hierarchies=["g"]),
                              "/c is the path of two pools"),
    "a path of another": (machine(Node("pdu", 0, uuid="u1"), Node("pdu", 7, name="pdu0", uuid="u2"),
                                  a=[("u1", N0)], g=[("u2", N1)], hierarchies=["a", "g"]), "/pdu0 is the path of two pools"),
    "a node outside": (machine(Node("node", 9, rank=9), g=[("node9", N0)], hierarchies=["g"]),
                       "node9 outside containment has a rank"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_graphs_that_fluxion_would_refuse_are_written_to_metadata(case: str) -> None:
    s, reason = REFUSED[case]
    assert dict(jgf.subsystems_of(s).refused) == {"g": reason}
    written = registry.write(s, format="jgf")
    assert (written.left_out, written.note) == ([], f"Fluxion does not see g: {reason}")
    document = json.loads(written.data)
    beside = document["graph"]["metadata"]["auxiliary"]
    assert {edge["metadata"]["subsystem"] for edge in beside["edges"]} == {"g"}
    assert "g" not in Fluxion.load(document).roots
    assert equal(s, registry.read(written.data).structure) == []
    # Where Fluxion does look, it would be refused.
    graph = document["graph"]
    for node in graph["nodes"] + beside["nodes"]:
        v = int(node["id"])
        if s.subsystems["g"].hierarchy and jgf.subsystems_of(s).refused and v in s.subsystems["g"].members:
            node["metadata"]["paths"]["g"] = jgf.paths_in(s, s.subsystems["g"])(v)
        elif v >= s.tree_end and not node["metadata"]["paths"]:
            node["metadata"]["paths"]["g"] = f"/{s.name(v)}"
    graph["nodes"] += beside["nodes"]
    graph["edges"] += beside["edges"]
    if case != "a node outside":  # which Fluxion would count among the nodes
        with pytest.raises(Refused):
            Fluxion.load(document)


def test_result_depends_on_the_complete_machine() -> None:
    s = machine(PDU0, PDU1, power=[("pdu0", N0), ("pdu1", N1)], io=[(RACK, N0 + "/core0")], hierarchies=["power", "io"])
    core = np.array([s.vertex(f"{N0}/core0")], np.int32)
    document = jgf.document(s, jgf.held(s, core, np.ones(1, np.int64)))
    # One root of power is in the part, and Fluxion knows none of its paths; that of io is there, though its edge is not.
    assert [n["metadata"]["paths"] for n in document["graph"]["nodes"]][2:] == [
        {"containment": N0}, {"containment": f"{N0}/core0", "io": "/rack0/core0"},
    ]  # fmt: skip
    machine_of_fluxion = Fluxion.load(json.loads(registry.write(s, format="jgf").data))
    assert [v.name for v in machine_of_fluxion.update(document)] == ["core0"]


def test_pools_hidden_from_fluxion_are_read_back_in_order() -> None:
    graphs: dict[str, Graph] = {"a": [("pdu0", N0), ("pdu1", N1)], "b": [("switch", N0)]}
    s = machine(PDU0, SWITCH, PDU1, hierarchies=["a"], **graphs)
    written = registry.write(s, format="jgf").data
    assert [node["id"] for node in json.loads(written)["graph"]["metadata"]["auxiliary"]["nodes"]] == ["6", "8"]
    again = registry.read(written).structure
    assert equal(s, again) == []
    assert registry.write(again, format="jgf").data == written
