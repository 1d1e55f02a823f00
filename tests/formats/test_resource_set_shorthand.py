"""R with a graph in Fluxion's shorthand: pools below exclusive ones come from R_lite."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from fluxres import limits
from fluxres.errors import InputError, LimitExceeded
from fluxres.formats import registry
from fluxres.formats.format import Loaded
from fluxres.graph.recipe import Recipe, expand
from tests.formats.fluxion_reader import Fluxion
from tests.formats.round_trip import ORIGIN, errors

LITE = [{"rank": "4-7", "children": {"core": "0-1", "gpu": "0"}}]
HOSTS = ["n[4-7]"]


def node(key: int, type_: str, path: str, rank: int = -1, **more: Any) -> dict[str, Any]:
    name = path.rpartition("/")[2]
    number = {"id": int(path[-1]), "basename": name[:-1]} if path[-1].isdigit() else {"name": name, "id": -1}
    return {"id": str(key), "metadata": {"type": type_, **number, "rank": rank, **more, "paths": {"containment": path}}}


def read(nodes: list[dict[str, Any]], edges: list[tuple[int, int]], lite: Any = LITE, hosts: Any = HOSTS, **more: Any) -> Loaded:
    graph = {"nodes": nodes, "edges": [{"source": str(u), "target": str(v)} for u, v in edges]}
    scheduling = {"graph": graph, "writer": "fluxion:jgf_shorthand", **more}
    properties = {"ssd": "4"} if lite == LITE else {}
    execution = {"R_lite": lite, "nodelist": hosts, "starttime": 0, "expiration": 60, "properties": properties}
    values = {"version": 1, "execution": execution, "scheduling": scheduling}
    Fluxion.load(scheduling)
    found = registry.read(json.dumps(values).encode(), file="R.json", origin=ORIGIN)
    assert errors(found.structure) == []
    return found


def below(found: Loaded, path: str) -> list[str]:
    s, v = found.structure, found.structure.vertex(path)
    return [s.path(u)[len(path) + 1 :] for u in range(v + 1, s.end.item(v))]


CLUSTER = node(0, "cluster", "/c")
RACK0, RACK1 = (node(1 + i, "rack", f"/c/rack{i}", exclusive=True) for i in range(2))


def test_nodes_below_the_only_exclusive_pool() -> None:
    found = read([RACK0, CLUSTER], [(0, 1)])
    each = ["core0", "core1", "gpu0"]
    assert below(found, "/c/rack0") == [text for n in range(4, 8) for text in (f"n{n}", *(f"n{n}/{pool}" for pool in each))]
    s = found.structure
    assert (s.rank[s.of_type("node")].tolist(), found.notes) == ([4, 5, 6, 7], ())
    assert [s.kind_of(v).properties for v in s.of_type("node")[:2].tolist()] == [(("ssd", None),), ()]


def test_nodes_below_one_of_several_pools_go_to_their_common_ancestor_with_a_note() -> None:
    row = node(9, "row", "/c/row0")
    racks = [node(1 + i, "rack", f"/c/row0/rack{i}", exclusive=True) for i in range(2)]
    found = read([CLUSTER, row, *racks], [(0, 9), (9, 1), (9, 2)])
    assert [path for path in below(found, "/c/row0") if "/" not in path] == ["rack0", "rack1", "n4", "n5", "n6", "n7"]
    assert found.notes == (
        "R.json: n[4-7] in one of /c/row0/rack0, /c/row0/rack1: R does not say in which, so it goes into /c/row0",
    )


def test_hosts_place_the_nodes_whatever_their_ranks() -> None:
    racks = [{**rack, "metadata": {**rack["metadata"], "hosts": hosts}} for rack, hosts in ((RACK0, "n[5,7]"), (RACK1, "n[4,6]"))]
    lite = [{"rank": "0-3", "children": {"core": "0"}}]
    found = read([CLUSTER, *racks], [(0, 1), (0, 2)], lite=lite)
    assert (below(found, "/c/rack0"), found.notes) == (["n5", "n5/core0", "n7", "n7/core0"], ())
    assert found.structure.rank[found.structure.vertex("/c/rack1/n6")] == 2


def test_too_many_hosts_are_refused() -> None:
    racks = [{**rack, "metadata": {**rack["metadata"], "hosts": f"n[0-{limits.RANKS_MAX // 2}]"}} for rack in (RACK0, RACK1)]
    with pytest.raises(LimitExceeded, match=f"/c/rack1: more than {limits.RANKS_MAX} hosts in all"):
        read([CLUSTER, *racks], [(0, 1), (0, 2)])


def test_cores_below_a_node_and_in_a_node() -> None:
    nodes = [
        CLUSTER, node(1, "node", "/c/n4", 4, exclusive=True), node(2, "node", "/c/n5", 5),
        node(3, "socket", "/c/n5/socket1", 5, exclusive=True), node(4, "node", "/c/n6", 6), node(5, "core", "/c/n6/core9", 6),
    ]  # fmt: skip
    edges = [(0, 1), (0, 2), (2, 3), (0, 4), (4, 5)]
    lite = [*LITE[:0], {"rank": "4", "children": {"core": "0-1", "gpu": "0"}}, {"rank": "5", "children": {"core": "2-3"}},
            {"rank": "6", "children": {"core": "9"}}]  # fmt: skip
    found = read(nodes, edges, lite, ["n[4-6]"])
    assert (below(found, "/c/n4"), below(found, "/c/n5"), below(found, "/c/n6"), found.notes) == (
        ["core0", "core1", "gpu0"], ["socket1", "socket1/core2", "socket1/core3"], ["core9"], (),
    )  # fmt: skip


def test_cores_below_one_of_two_sockets() -> None:
    sockets = [node(2 + i, "socket", f"/c/n4/socket{i}", 4, exclusive=True) for i in range(2)]
    memory = node(7, "memory", "/c/n4/memory", 4, size=3)
    nodes = [CLUSTER, node(1, "node", "/c/n4", 4), *sockets, memory, node(8, "core", "/c/n4/core5", 4, exclusive=True)]
    edges = [(0, 1), (1, 2), (1, 3), (1, 7), (1, 8)]
    lite = [{"rank": "4", "children": {"core": "0-1,5"}}]
    found = read(nodes, edges, lite, ["n4"])
    assert below(found, "/c/n4") == ["socket0", "socket1", "memory", "core5", "core0", "core1"]
    note = "core 0-1 of /c/n4 in one of /c/n4/socket0, /c/n4/socket1: R does not say in which, so it goes into /c/n4"
    assert found.notes == (f"R.json: {note}",)
    for socket, ids in zip(sockets, ("1", "0"), strict=True):
        socket["metadata"]["children"] = {"core": ids}
    told = read(nodes, edges, lite, ["n4"])
    assert (below(told, "/c/n4/socket0"), below(told, "/c/n4/socket1"), told.notes) == (["core1"], ["core0"], ())
    # An instance that started with other ids of cores keeps the graph as it was.
    for socket, ids in zip(sockets, ("16-17", "11"), strict=True):
        socket["metadata"]["children"] = {"core": ids}
    told = read(nodes, edges, [{"rank": "4", "children": {"core": "0-3"}}], ["n4"])
    assert (below(told, "/c/n4/socket0"), below(told, "/c/n4/socket1"), told.notes) == (["core1", "core2"], ["core0"], ())


@pytest.mark.parametrize(
    ("nodes", "words"),
    [
        ([CLUSTER], "0 nodes are named 'n4', which is one host in R"),
        ([CLUSTER, {**RACK0, "metadata": {**RACK0["metadata"], "exclusive": False}}], "0 nodes are named 'n4'"),
        ([CLUSTER, {**RACK0, "metadata": {**RACK0["metadata"], "hosts": "n[4-6"}}], "/c/rack0: expected matching brackets"),
        ([CLUSTER, {**RACK0, "metadata": {**RACK0["metadata"], "hosts": "n[4-6]"}}], "0 nodes are named 'n7'"),
    ],
)
def test_nodes_outside_any_exclusive_pool(nodes: list[dict[str, Any]], words: str) -> None:
    with pytest.raises(InputError, match=rf"R.json:1:\d+: scheduling.graph: {words.replace('[', '.')}"):
        read(nodes, [(0, 1)] if len(nodes) > 1 else [])


def test_graph_that_is_not_a_shorthand_is_complete() -> None:
    nodes = [CLUSTER, node(1, "node", "/c/n4", 4, exclusive=True)]
    lite = [{"rank": "4", "children": {"core": "0-1"}}]
    assert below(read(nodes, [(0, 1)], lite, ["n4"], writer="fluxion:jgf"), "/c/n4") == []


def test_added_pools_get_new_uuids() -> None:
    base = "01234567-89ab-8def-8000-00000000000"
    own = [{**n, "metadata": {**n["metadata"], "uuid": f"{base}{i}"}} for i, n in enumerate([CLUSTER, RACK0])]
    s = read(own, [(0, 1)]).structure
    assert (s.uuid(0)[-1], s.uuid(1)[-1], len({s.uuid(v) for v in range(s.n)})) == ("0", "1", s.n)


def test_machine_with_exclusive_racks() -> None:
    socket = Recipe("socket", 2, exclusive=True, children=(Recipe("core", 2), Recipe("memory", size=8)))
    racks = Recipe("rack", 2, exclusive=True, children=(Recipe("node", 2, ids=np.arange(4), children=(socket,)),))
    login = Recipe("node", basename="login", children=(socket,))
    machine = expand(Recipe("cluster", ids=None, children=(racks, login)), origin=ORIGIN)
    written = registry.write(machine, format="R", scheduling="jgf_shorthand")
    lost = "pools: what is below exclusive ones, of which R says nodes, cores and gpus; 42 pools, such as /cluster/rack0/node0"
    assert written.left_out == [lost]
    found = registry.read(written.data)
    s = found.structure
    assert ([s.path(v) for v in s.of_type("node").tolist()], found.notes) == (
        ["/cluster/rack0/node0", "/cluster/rack0/node1", "/cluster/rack1/node2", "/cluster/rack1/node3", "/cluster/login0"], (),
    )  # fmt: skip
    assert below(found, "/cluster/rack1/node2") == ["core0", "core1", "core2", "core3"]
    assert below(found, "/cluster/login0") == [
        "socket0", "socket0/core0", "socket0/core1", "socket1", "socket1/core2", "socket1/core3",
    ]  # fmt: skip
    exclusive = [s.path(v) for v in range(s.n) if s.flags[v]]
    assert exclusive == ["/cluster/rack0", "/cluster/rack1", "/cluster/login0/socket0", "/cluster/login0/socket1"]
