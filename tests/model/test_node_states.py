"""States of nodes, against what the pools of each node say."""

from __future__ import annotations

from random import Random

import pytest

import fluxres
from fluxres import Resource, ResourceGraph


def slow(graph: ResourceGraph, where: str) -> str:
    node = graph.pool(where)
    above = [graph.pool(v) for v in graph.structure.ancestors(node.vertex)]
    states = [pool.state for pool in (*reversed(above), node)]
    jobs = {job for pool in (*above, node, *graph.walk(where)) for job, *_ in graph.records.spans(pool.vertex, 0, 1)}
    names = {pool.where for pool in (*above, node, *graph.walk(where))}
    reserved = any({graph.structure.where(v) for v in one.pools} & names for one in graph.reservations().values())
    stated = next((state for state in states if state in {"down", "failing", "unknown", "drain"}), "up")
    if stated not in {"up", "drain"}:
        return "down"
    if stated == "drain":
        return "draining" if jobs - graph.reservations().keys() else "drained"
    if reserved:
        return "reserved"
    cores = [pool for pool in graph.walk(where) if pool.type == "core"]
    if not node.available() or not any(core.available() for core in cores):
        return "allocated"
    return "mixed" if jobs else "idle"


@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(60))
def test_each_node_has_the_state_that_its_pools_say(seed: int) -> None:
    random = Random(seed)
    node = Resource("node", 3, children=[Resource("core", 2), Resource("memory", size=4)])
    graph = fluxres.build(Resource("rack", 3, children=[node]), name="lab")
    wheres = [pool.where for pool in graph.walk("/")]
    for number in range(6):
        try:
            graph.allocate(random.choice(wheres[1:]), job=f"j{number}")
        except fluxres.FluxresError:
            continue
    if random.random() < 0.5:
        graph.reserve(random.choice(wheres[1:]), name="m", duration_s=5, ignore_jobs=True)
    for _ in range(random.randrange(3)):
        graph.set_state(random.choice([w for w in wheres if w.count("/") < 4]), random.choice(["drain", "down", "up"]))
    found = graph.node_states()
    nodes = [graph.structure.where(v) for v in found.vertices.tolist()]
    assert dict(zip(nodes, found.states, strict=True)) == {w: slow(graph, w) for w in nodes}
    assert sum(found.counts().values()) == len(nodes) == 9


def test_a_machine_without_nodes_has_one_line() -> None:
    graph = fluxres.build(Resource("core", 2), name="pc")
    assert graph.node_states().states == ["idle"]
    graph.allocate("/pc/core0", job="j")
    assert graph.node_states().states == ["mixed"]


def test_a_node_without_supply_is_down() -> None:
    graph = fluxres.load("data/clusters/demo.yaml")
    graph.set_state("power:/pdu1", "down")
    assert graph.node_states().counts() == {"idle": 4, "down": 4}
