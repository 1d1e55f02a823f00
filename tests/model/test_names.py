"""Hosts and short names, and names that lookups give back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fluxres
from fluxres import limits
from fluxres.errors import FluxresError, UnknownPool, UnknownType
from fluxres.model import ResourceGraph, targets
from fluxres.syntax.folded import folds


def site(**more: Any) -> ResourceGraph:
    """Two racks of nodes, two of which share a name with something else; names that invite mistakes."""
    node = {
        "with": [
            {"type": "socket", "count": 2, "with": [{"type": "core", "count": 2, "id": {"within": "node"}}, {"type": "gpu"}]}
        ]
    }
    resources = [
        {"type": "rack", "count": 2, "with": [{"type": "node", "count": 2, "id": {"within": "cluster"}, **node}]},
        {"type": "node", "names": ["cpu001.site.org", "cpu002.site.org", "3", "lab@0", "lab@1"]},
        {"type": "box", "name": "gpu"},
        {"type": "box", "name": "license", "size": 5},
        {
            "type": "box",
            "names": ["a[1],b", "x=3", "left over", "p -> q", "network:leaf9", "core0@node0", "ä'\"$", "a,b", "-N4", "a:"],
        },
    ]
    switches = [{"type": "switch", "basename": "leaf", "count": 2}, {"type": "switch", "name": "node0"}]
    graphs = {
        "power": {
            "hierarchy": True,
            "pools": [{"type": "pdu", "count": 2, "size": 9, "with": [{"type": "outlet"}]}, {"type": "pdu", "name": "twin"}],
            "edges": [{"from": "power:/pdu[0-1]", "to": "/m/rack[0-1]", "capacity": 5}],
        },
        "network": {
            "pools": [*switches, {"type": "switch", "name": "twin"}],
            "edges": [{"from": "network:leaf*", "to": "/m/rack*/node*", "pairing": "share"}],
        },
    }
    return fluxres.load({"fluxres": 1, "name": "m", "resources": resources, "graphs": graphs, **more})


def twins() -> ResourceGraph:
    """Pools outside the tree that share a name: in one graph, with parts, and as siblings in a hierarchy."""
    switches = [{"type": kind, "name": "leaf", "with": [{"type": "port", "count": 2}]} for kind in ("switch", "router")]
    outlets = [{"type": kind, "name": "outlet"} for kind in ("outlet", "socket")]
    pools = [{"type": "pdu"}, *outlets]
    graphs = {"network": {"pools": switches}, "power": {"hierarchy": True, "pools": pools}}
    graph = fluxres.load({"fluxres": 1, "name": "m", "resources": [{"type": "node", "count": 2}], "graphs": graphs})
    for port in graph.find("name=port0").paths():
        graph.add_edge(port, "node0", "network")
    for outlet in graph.find("name=outlet").paths():
        graph.add_edge("pdu", outlet, "power")
    return graph


MACHINES: dict[str, Callable[[], ResourceGraph]] = {
    "site": site,
    "twins": twins,
    "demo": lambda: fluxres.load("data/clusters/demo.yaml"),
    "workstation": lambda: fluxres.load("data/clusters/workstation.yaml"),
    "without pools outside": lambda: fluxres.load("data/clusters/demo.yaml").copy("/demo/rack0"),
}


@pytest.mark.parametrize("machine", MACHINES)
def test_every_name_that_is_shown_names_its_pool(machine: str) -> None:
    graph = MACHINES[machine]()
    structure = graph.structure
    for v in range(structure.accounts.n):
        where = structure.accounts.where(v)
        assert [number for number, _ in targets.resolve(graph, where)] == [v]
        assert targets.names_pools(structure, where)
        if v < structure.n:
            assert structure.uuid(v) not in where
            assert graph.pool(where).vertex == targets.place(graph, where).vertices[0] == v


def test_names_of_equal_pools_outside_the_tree_survive_another_load() -> None:
    first, second = twins(), twins()
    assert first.structure.uuid(first.structure.tree_end) != second.structure.uuid(second.structure.tree_end)
    names = [first.structure.where(v) for v in range(first.structure.n)]
    assert names == [second.structure.where(v) for v in range(second.structure.n)]
    leaves = [name for name in names if "leaf" in name and "port" not in name]
    assert len(set(leaves)) == 2
    with pytest.raises(UnknownPool, match="2 pools are named 'leaf' there") as refused:
        first.pool("network:leaf")
    assert all(name in refused.value.hint for name in leaves)
    uuid = first.pool("power:outlet#10").uuid
    first.unlink("power:outlet#11")
    assert first.pool("power:/pdu/outlet").uuid == uuid
    with pytest.raises(fluxres.UsageError, match="'network' is a graph but not a hierarchy"):
        first.unlink(leaves[0])


# -- short names -----------------------------------------------------------------------------------------------------------

NODE2 = "/m/rack1/node2"
SHORT = {
    "node2": [NODE2],
    "node[1-2]": ["/m/rack0/node1", NODE2],
    "node1,node2": ["/m/rack0/node1", NODE2],
    "node0": ["/m/rack0/node0"],  # the node, though a switch has this name, too
    "rack0": ["/m/rack0"],
    "pdu1": ["power:/pdu1"],
    "leaf[0-1]": ["network:leaf0", "network:leaf1"],
    "network:leaf[0-1]": ["network:leaf0", "network:leaf1"],
    "network:/leaf0": ["network:leaf0"],
    "power:pdu1": ["power:/pdu1"],
    "power:pdu0/rack0": ["/m/rack0"],
    "m:rack0": ["/m/rack0"],
    "core3@node2": [f"{NODE2}/socket1/core3"],
    "core[0,3]@node[1-2]": [f"{n}/socket{i}/core{c}" for n in ("/m/rack0/node1", NODE2) for i, c in ((0, 0), (1, 3))],
    "socket0@node1,core2@node2": ["/m/rack0/node1/socket0", f"{NODE2}/socket1/core2"],
    "node1@rack0": ["/m/rack0/node1"],
    "core2@socket1@node2": [f"{NODE2}/socket1/core2"],
    "gpu@socket[0-1]@node[1-2]": [f"{n}/socket{s}/gpu" for s in (0, 1) for n in ("/m/rack0/node1", NODE2)],
    "core0@socket0@/m/rack0/node1": ["/m/rack0/node1/socket0/core0"],
    "core0@node1,core0@/m/rack0/node0": ["/m/rack0/node1/socket0/core0", "/m/rack0/node0/socket0/core0"],
    "lab@0,node1@rack0": ["/m/lab@0", "/m/rack0/node1"],
    "outlet@pdu0,outlet@pdu1": ["power:/pdu0/outlet", "power:/pdu1/outlet"],
    "core0@/m/rack0/node[0-1]": [f"/m/rack0/node{i}/socket0/core0" for i in range(2)],
    "/m/rack0,rack1/node0": [],
    "/m/rack0,/m/rack1": ["/m/rack0", "/m/rack1"],
    "/m/rack0,rack1": ["/m/rack0", "/m/rack1"],
    "cpu001": ["/m/cpu001.site.org"],
    "cpu001.site": ["/m/cpu001.site.org"],
    "cpu00[1-2],3": ["/m/cpu001.site.org", "/m/cpu002.site.org", "/m/3"],
    "lab@1": ["/m/lab@1"],
    "a[1],b": ["/m/a[1],b"],
    "x=3": ["/m/x=3"],
    "left over": ["/m/left over"],
    "core0@node0": ["/m/core0@node0"],
    "license": ["/m/license"],
}


@pytest.mark.parametrize("name", [name for name, found in SHORT.items() if found])
def test_pools_are_named_shortly(name: str) -> None:
    graph = site()
    assert [graph.structure.where(v) for v, _ in targets.resolve(graph, name)] == SHORT[name]
    if len(SHORT[name]) == 1 and not folds(name):
        assert graph.pool(name).where == SHORT[name][0]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("core0", r"core0: 4 pools have this name \(name one of them: /m/rack0/node0/socket0/core0, .*, …\)"),
        ("lab", r"lab: 2 pools have this name \(name one of them: /m/lab@0, /m/lab@1\)"),
        ("twin", r"twin: 2 pools have this name \(name one of them: pools:twin#"),
        ("gpu@node2", rf"gpu@node2: 2 pools have this name \(name one of them: {NODE2}/socket0/gpu, {NODE2}/socket1/gpu\)"),
        ("gpu@node[1-2]", r"gpu@node1: 2 pools have this name"),
        ("node02", r"node02: no pool has this name \(did you mean node2\? there are 4, from node0 to node3\)"),
        ("NODE2", r"NODE2: no pool has this name \(did you mean node2\?"),
        ("node9", r"node9: no pool has this name \(there are 4, from node0 to node3\)"),
        ("node[2-9]", r"node4: no pool has this name"),
        ("rakc0", r"rakc0: no pool has this name \(did you mean rack"),
        ("core9@node2", rf"core9@node2: no pool 'core9' below {NODE2} \(there are 4, from core0 to core3\)"),
        ("core0@node9", r"node9: no pool has this name"),
        ("core0@socket0@node9", r"node9: no pool has this name"),
        ("core2@socket0@node2", rf"core2@socket0@node2: no pool 'core2' below {NODE2}/socket0"),
        ("core0@socket0@rack1", r"core0@socket0@rack1: 2 pools have this name"),
        ("core0@lab", r"lab: 2 pools have this name"),
        ("", r"no pool has this name"),
        ("@", r"@: no pool has this name"),
        ("core0@", r"core0@: no pool has this name"),
        (",", r",: no pool has this name \(write a name between commas\)"),
        ("node1,,node2", r"node1,,node2: no pool has this name"),
        ("network:,", r"network:,: no pool has this name"),
        ("rack0/node1", r"rack0/node1: no pool has this name \(a path starts with '/'"),
        ("network:leaf0#7", r"no pool 'leaf0#7' of graph 'network'"),
        ("network:", r"network:: no pool has this name"),
        ("/m" * 2000, r"no pool is 2000 levels deep"),
        ("a@" * 2000, r"no pool has this name"),
    ],
)
def test_ambiguous_and_unknown_names_are_refused(name: str, message: str) -> None:
    with pytest.raises(UnknownPool, match=message) as refused:
        targets.resolve(site(), name)
    assert len(refused.value.where) <= limits.NAME_LENGTH_MAX


def test_an_unknown_name_is_compared_with_a_bounded_number_of_names(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = site()
    assert graph.structure.short_names.nearest("LEAF1", "").startswith("did you mean leaf1?")
    monkeypatch.setattr(limits, "NEAREST_MAX", 4)
    assert graph.structure.short_names.nearest("LEAF1", "") == ""
    assert graph.structure.short_names.nearest("NODE3", "").startswith("did you mean node3?")


def test_every_method_takes_short_names() -> None:
    g = site()
    g.allocate("node1", job="j")
    g.grow("j", "core0@node2")
    g.allocate([("license", 2), "leaf0", "power: pdu0 -> rack0"], job="k")
    assert [(span.pool, span.amount) for span in g.allocation("k").spans] == [
        ("/m/license", 2),
        ("network:leaf0", 1),
        ("power: power:/pdu0 -> /m/rack0", 5),
    ]
    g.shrink("j", "core0@node2")
    g.free("k", {"license": 1})
    assert g.stage("node3", job="s").stage in g.records.stages
    g.release("s0")
    g.set_state("node[0-1]", "drain")
    g.tag("cpu001", "x")
    assert g.find("tag=x").paths() == ["/m/cpu001.site.org"]
    assert len(g.find("under=node2")) == len(g.find(f"under={NODE2}")) == 8
    assert g.find("path in (node2, leaf1)").paths() == [NODE2, "network:leaf1"]
    assert g.aggregate("node2")["core"] == 4
    assert next(pool.name for pool in g.walk("leaf1")) == "leaf1"
    assert g.copy("node2").find("type=node").paths() == [NODE2]
    assert g.duplicate("node2").root.name == "node2"
    g.add_edge("leaf0", "leaf1", "network", capacity=4)
    g.set_edge("network:leaf0", "leaf1", "network", capacity=5)
    g.remove_edge("leaf0", "network:/leaf1", "network")
    g.move("node3", "rack0")
    assert g.pool("node3").path == "/m/rack0/node3"
    g.move("rack1", "power:pdu0")
    assert g.pool("rack1").uris == ["m:/rack1", "power:/pdu0/rack1"]
    g.unlink("node3")
    with pytest.raises(UnknownPool):
        g.pool("node3")
    g.unlink("power:pdu0/rack1")
    assert g.pool("rack1").uris == ["m:/rack1"]
    assert g.check() == []


@pytest.mark.parametrize(
    ("name", "where"),
    [("'left over'", "/m/left over"), ("/m/'a[1],b'", "/m/a[1],b"), ("core0@'node1'", "/m/rack0/node1/socket0/core0")],
)
def test_a_quoted_name_is_accepted_where_one_pool_is_named(name: str, where: str) -> None:
    graph = site()
    assert graph.pool(name).where == where
    assert [graph.structure.where(v) for v in targets.place(graph, name).vertices] == [where]
    with pytest.raises(UnknownPool):
        graph.pool("'left over',node1")
    shown = fluxres.load(
        {"fluxres": 1, "name": "m", "resources": [], "graphs": {"net": {"pools": [{"type": "x", "name": "a b"}]}}}
    )
    assert targets.place(shown, "pools:'a b'").vertices == [1]


def test_a_host_with_a_common_name_is_accepted_in_lists_as_it_is_alone() -> None:
    """The root and a rack are both `site`, and the node is below both."""
    rack = {"type": "rack", "name": "site", "with": [{"type": "node", "count": 2}]}
    g = fluxres.load({"fluxres": 1, "name": "site", "resources": [rack]})
    assert g.pool("node0@site").where == "/site/site/node0"
    assert [v for v, _ in targets.resolve(g, "node[0-1]@site,node1")] == [2, 3, 3]


def test_a_pool_of_a_node_that_is_written_like_a_path_is_refused_with_its_name() -> None:
    g = site()
    with pytest.raises(UnknownType) as refused:
        g.allocate("socket1/core2@node2", job="j")
    assert refused.value.hint == "socket1 is a pool; one in it is core2@socket1@node2"
    assert g.pool("core2@socket1@node2").where == f"{NODE2}/socket1/core2"
    with pytest.raises(UnknownType) as refused:
        g.allocate("gpu@node2/socket1", job="j")
    assert refused.value.hint == "did you mean gpu@socket1@node2?"


@pytest.mark.parametrize(
    ("word", "is_pool"),
    {
        **dict.fromkeys(
            ["node1", "node1,node9", "node[7-9]", "core9@node9", "3", "license", "leaf0", "network:leaf7", "a,b"], True
        ),
        **dict.fromkeys(["power: pdu0 -> rack0", "/m", "m:/rack0", "network:/x", "core0@/m/rack0", "lab@7"], True),
        **dict.fromkeys(
            ["node", "core", "gpu", "node9", "slot=4/core=2", "node=2", "node{x}", "[core=2;gpu=1]", "-N4 -c8"], False
        ),
        **dict.fromkeys(["slot/[node;network=10{to:network:leaf0}]", "core", "outlet", "rack0/node1", "", "socket/core"], False),
    }.items(),
)
def test_a_word_names_pools_or_is_a_request(word: str, is_pool: bool) -> None:
    assert targets.is_request(word, site()) is not is_pool


def test_named_pools_are_those_a_search_through_all_names_finds() -> None:
    """Also where a template takes the name from other pools, and after the shape has changed."""
    more = [
        {"type": "node", "count": 3, "id": 5, "name": "n${rack}-${id:03}"},
        {"type": "fan", "id": None, "name": "fan of ${parent}"},
    ]
    g = site()
    g.merge(fluxres.load({"fluxres": 1, "name": "m", "resources": [{"type": "rack", "count": 3, "with": more}]}))
    for change in (lambda: None, lambda: g.move("n2-006", "rack0"), lambda: g.unlink("node1")):
        change()
        s = g.structure
        names = Counter(s.name(v) for v in range(s.n))
        for name in names:
            assert s.named([name]) == [v for v in range(s.n) if s.name(v) == name]
        for top in s.of_type("rack").tolist():
            block = slice(top, s.end.item(top))
            assert s.named(names, block) == list(range(block.start, block.stop))
            assert s.named(names, block, "node") == [v for v in s.of_type("node").tolist() if top <= v < block.stop]
        for name, count in names.items():
            nodes = [v for v in s.named([name]) if s.kind_of(v).type == "node"]
            if len(nodes) == 1 or (count == 1 and not nodes):
                assert s.short_names.vertex(name) == (nodes or s.named([name]))[0]
        assert s.short_names.all(hosts := [s.name(v) for v in s.of_type("node").tolist()]) == s.of_type("node").tolist()
        assert [s.short_names.vertex(host) for host in hosts * 4] == s.of_type("node").tolist() * 4


WORDS = st.lists(
    st.sampled_from(["node", "core", "0", "1", "[", "]", ",", "@", "/", ":", "-", "m", "rack", "#", " -> ", "network", "=", "é"])
)


@given(WORDS.map("".join))
def test_any_text_is_found_or_refused(text: str) -> None:
    graph = SITE
    try:
        found = [v for v, _ in targets.resolve(graph, text)]
    except FluxresError:
        pass  # a traceback of anything else fails the test
    else:
        assert all(0 <= v < graph.structure.accounts.n for v in found)
    assert targets.is_request(text, graph) in (True, False)


SITE = site()
