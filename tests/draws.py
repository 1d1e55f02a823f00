"""Small machines whose pools draw from suppliers by themselves, and the state of their jobs."""

from __future__ import annotations

import random
from typing import Any

from fluxres.model import ResourceGraph


def state(graph: ResourceGraph, job: str = "j") -> tuple[Any, ...]:
    """A job's units by account, the implied ones, and the pools for which units were drawn."""
    assert [problem for problem in graph.check() if problem.severity != "warning"] == []
    records = graph.records
    held = {v: records.steps_of(v, job) for v in sorted(records.pools_of[job])}
    return held, records.implied.get(job, {}), sorted(records.drawn.rows())


def random_machine(source: random.Random, of_watts: tuple[int, ...] = (0, 0, 7, 40, 101)) -> str:
    """Racks of nodes of cores and gpus with random draws, supplied in one of several ways."""

    def draw() -> str:
        watts = source.choice(of_watts)
        return f", draw: {{power: {watts}}}" if watts else ""

    def node(number: int) -> str:
        parts = [f"{{type: core, count: {source.randint(1, 2)}{cores}}}", f"{{type: gpu, id: 0{draw() or gpus}}}"]
        if shares:
            parts.append("{type: gpu, id: 1, size: 2}")
        cards = (
            ["{type: psu, count: 2}"]
            if way == "cards"
            else ["{type: psu, count: 2, size: 900, unit: W}"]
            if way == "psus"
            else []
        )
        return f"{{type: node, id: {number}{draw() or nodes}, with: [{', '.join(parts + cards)}]}}"

    way = source.choice(("one", "two", "cards", "psus", "rack"))
    cores, gpus, nodes, alike, shares = draw(), draw(), draw(), source.random() < 0.5, source.random() < 0.2
    racks = []
    for number in range(2):
        of_nodes = [node(2 * number + at) for at in range(2)]
        if alike:
            of_nodes = [of_nodes[0], of_nodes[0].replace(f"node, id: {2 * number}", f"node, id: {2 * number + 1}")]
        racks.append(f"  - {{type: rack, id: {number}{draw()}, with: [{', '.join(of_nodes)}]}}")
    each = [(n, f"/m/rack{n // 2}/node{n}") for n in range(4)]
    edges = {
        "one": [f'{{from: "power:/pdu{n % 2}", to: {path}}}' for n, path in each],
        "two": [f'{{from: "power:/pdu[0-1]", to: {path}, supply: {source.choice(("any", "all"))}}}' for _, path in each],
        "cards": [f'{{from: "power:/pdu{at}", to: {path}/psu{at}}}' for _, path in each for at in (0, 1)],
        "psus": [
            edge
            for _, path in each
            for edge in (
                f'{{from: "power:/pdu0", to: {path}/psu0}}',
                f'{{from: "power:/pdu1", to: {path}/psu1}}',
                f'{{from: "{path}/psu*", to: {path}}}',
            )
        ],
        "rack": [f'{{from: "power:/pdu{n}", to: /m/rack{n}, capacity: 900}}' for n in (0, 1)],
    }[way]
    pdus = f"{{type: pdu, count: 2, size: {source.choice((150, 400, 2000))}, unit: W}}"
    lines = "\n".join(f"      - {edge}" for edge in edges)
    every = "\n".join(racks)
    return f"fluxres: 1\nname: m\nresources:\n{every}\ngraphs:\n  power:\n    pools: [{pdus}]\n    edges:\n{lines}\n"
