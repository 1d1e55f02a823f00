"""Which of several equal pools each policy takes."""

from __future__ import annotations

import pytest

from fluxres.errors import UsageError
from fluxres.fluxion import policies
from tests.fluxion.conftest import Start, ask, grug

CORE = ask("slot", 1, ask("core", 2))


@pytest.mark.parametrize(
    ("policy", "cores", "node"),
    [
        # Without node_centric only the id of the core counts; equal ids of several nodes come in the order of the walk.
        ("high", ["core6", "core7"], "node0"),
        ("low", ["core0", "core1"], "node0"),
        ("hinode", ["core6", "core7"], "node3"),
        ("lonode", ["core0", "core1"], "node0"),
        ("first", ["core6", "core7"], "node3"),
        ("locality", ["core6", "core7"], "node0"),
    ],
)
def test_one_slot_of_two_cores(start: Start, policy: str, cores: list[str], node: str) -> None:
    session = start("-P", policy)
    text = session.match(CORE)
    assert [line.strip(" -").partition("[")[0] for line in text.splitlines() if line.endswith(":x]")] == cores
    assert f"---------{node}[1:s]" in text


@pytest.mark.parametrize(
    ("policy", "order"), [("hinodex", [3, 2, 1, 0]), ("lonodex", [0, 1, 2, 3]), ("firstnodex", [3, 1, 2, 0])]
)
def test_node_exclusive_policies_allocate_exclusive_nodes(start: Start, policy: str, order: list[int]) -> None:
    session = start("-P", policy)
    for number in order:
        taken = session.taken(CORE)
        assert len(taken) == 1 + 2 + 8 + 4
        assert taken[-1] == f"node{number}"
    assert session.taken(CORE) == ["busy"]


def test_first_tries_the_side_with_most_left(start: Start) -> None:
    session = start("-P", "first")
    nodes = []
    for _ in range(6):
        text = session.match(CORE)
        nodes += [line.strip(" -")[:5] for line in text.splitlines() if "node" in line]
    # A rack is weighed by its nodes, which are shared here and never fewer; a node by its cores.
    assert nodes == ["node3", "node1", "node2", "node3", "node2", "node3"]


def test_first_updates_weights_after_a_match_that_allocates_nothing(start: Start) -> None:
    session = start("-P", "first")
    taken = ["core6", "core7"]
    assert session.taken(CORE, op="without_allocating") == taken
    # The side that was visited has a weight now, and unvisited ones come first.
    text = session.match(CORE)
    assert [line.strip(" -")[:5] for line in text.splitlines() if "node" in line] == ["node1"]


def test_first_stops_searching_for_a_type_with_enough_candidates(start: Start) -> None:
    graph = grug((("cluster", "node", 1, 0), ("node", "core", 4, 0), ("node", "gpu", 1, 0)))
    # Vertices created last are tried first: the gpu, then core3 and core2.
    session = start("-P", "first", "-e", graph=graph)
    assert session.taken(ask("node", 1, ask("slot", 1, ask("core", 2), ask("gpu", 1)))) == ["core2", "core3", "gpu0"]
    assert "PREORDER VISIT COUNT=5\n" in session.console.getvalue()
    reverse = grug((("cluster", "node", 1, 0), ("node", "gpu", 1, 0), ("node", "core", 4, 0)))
    session = start("-P", "policy=low stop_on_1_matches=true", "-e", graph=reverse)
    # Two of four cores are visited before the gpu, and not the lower ones.
    assert session.taken(ask("node", 1, ask("slot", 1, ask("core", 2), ask("gpu", 1)))) == ["gpu0", "core2", "core3"]
    assert "PREORDER VISIT COUNT=5\n" in session.console.getvalue()


def test_variation_prefers_the_best_class(start: Start) -> None:
    session = start("-P", "variation")
    for rack, node, value in ((0, 0, "3"), (0, 1, "x"), (1, 2, "1"), (1, 3, "2")):
        session(f"set-property /m0/rack{rack}/node{node} perf_class={value}")
    assert [session.taken(ask("node", 1, ask("slot", 1, ask("socket", 2)))) for _ in range(2)] == [["socket0", "socket1"]] * 2
    held = session("find sched-now=allocated")
    assert "node2" in held
    assert "node3" in held
    # Slots of rack0 have one node each, and the one of the better class is taken at the top.
    assert session.taken(ask("slot", 1, ask("node", 1))) == ["node0"]
    # Within a slot the larger score, which is the worse class, is tried first.
    assert session.taken(ask("slot", 1, ask("node", 1))) == ["node1"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [("7", 7), (" 12abc", 12), ("0", 9999), ("-3", 9999), ("10000", 9999), ("9999", 9999), ("", 9999), ("9" * 50, 9999)],
)
def test_performance_class(text: str, expected: int) -> None:
    from fluxres.fluxion.graph import Vertex

    vertex = Vertex(0, "node", "node", "node0", 0)
    vertex.properties["perf_class"] = text
    assert policies.performance_class(vertex) == expected


def test_locality_takes_the_highest_block_first(start: Start) -> None:
    session = start("-P", "locality")
    # Of cores 0-7 of one node, another job gets 4 and 5 first: 6-7 is a block, 0-3 another.
    one = start("-P", "locality", graph=_flat())
    assert one.taken(ask("slot", 1, ask("core", 2))) == ["core6", "core7"]
    assert session.taken(CORE) == ["core6", "core7"]


def _flat() -> str:
    from tests.fluxion.conftest import grug

    return grug((("cluster", "node", 1, 0), ("node", "core", 8, 1)))


def test_option_strings() -> None:
    assert policies.parse("policy=low node_centric=true node_exclusive=true") == policies.POLICIES["lonodex"]
    assert policies.parse("policy=high node_centric=true stop_on_1_matches=true") == policies.POLICIES["first"]


@pytest.mark.parametrize("text", ["", " ", "fast", "policy=mid", "policy=high set_stop_on_1_matches=true", "node_centric=1"])
def test_unknown_policies_are_refused(text: str) -> None:
    with pytest.raises(UsageError):
        policies.parse(text)
