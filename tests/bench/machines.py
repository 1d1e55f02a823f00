"""The machines and the queue of the matching benchmark.

*rack*: cluster → N/16 racks → 16 nodes → 2 sockets → 22 cores, 2 GPUs and 4 memory pools of 32 GB each (59 pools a node).
*flat*: cluster → N nodes → 44 cores and 4 GPUs.  The queue: 70 % exclusive nodes, log-uniform 1 … N/4; 30 % one slot of 1 …
16 cores, half of them with a GPU; durations of 600 … 43,200 s.
"""

from __future__ import annotations

import csv
import json
import math
import random
from dataclasses import dataclass, field
from pathlib import Path

from fluxres.graph import uuids
from fluxres.graph.recipe import Recipe, expand
from fluxres.graph.structure import Structure
from fluxres.syntax import jobspec
from fluxres.syntax.jobspec import Request

DURATIONS_S = (600, 900, 1200, 1800, 3600, 7200, 14400, 28800, 43200)
SHAPES = ("rack", "flat")


def machine(shape: str, nodes: int) -> Structure:
    if shape == "flat":
        node = Recipe("node", nodes, children=(Recipe("core", 44), Recipe("gpu", 4)))
        return expand(Recipe("cluster", children=(node,)), origin=uuids.new_origin())
    socket = Recipe("socket", 2, children=(Recipe("core", 22), Recipe("gpu", 2), Recipe("memory", 4, size=32, unit="GB")))
    rack = Recipe("rack", nodes // 16, children=(Recipe("node", 16, children=(socket,)),))
    return expand(Recipe("cluster", children=(rack,)), origin=uuids.new_origin())


@dataclass(frozen=True)
class Job:
    """One job of the queue; `fluxion` is Fluxion's result, by column of the recorded queue."""

    nodes: int
    cores: int
    gpus: int
    duration_s: int
    fluxion: dict[str, str] = field(default_factory=dict, compare=False)

    def request(self) -> Request:
        return exclusive_nodes(self.nodes) if self.nodes else bundle(self.cores, self.gpus)

    def document(self) -> str:
        """Its jobspec as a file has it."""
        if self.nodes:
            return document([_node(self.nodes)], self.duration_s)
        return document(_bundle(self.cores, self.gpus), self.duration_s)


def document(inside: list[dict[str, object]], duration_s: int = 3600) -> str:
    """The text of a jobspec with one slot of this."""
    return json.dumps(
        {
            "version": 9999,
            "resources": [_slot(inside)],
            "tasks": [{"command": ["app"], "slot": "task", "count": {"per_slot": 1}}],
            "attributes": {"system": {"duration": duration_s}},
        }
    )


def _slot(inside: list[dict[str, object]]) -> dict[str, object]:
    return {"type": "slot", "count": 1, "label": "task", "with": inside}


def _node(number: int) -> dict[str, object]:
    return {"type": "node", "count": number}


def _bundle(cores: int, gpus: int) -> list[dict[str, object]]:
    return [{"type": "core", "count": cores}] + ([{"type": "gpu", "count": gpus}] if gpus else [])


def exclusive_nodes(number: int) -> Request:
    return Request(jobspec.parse_resources([_slot([_node(number)])]))


def bundle(cores: int, gpus: int = 0) -> Request:
    return Request(jobspec.parse_resources([_slot(_bundle(cores, gpus))]))


def documents(nodes: int) -> dict[str, str]:
    """The requests of the benchmark by name."""
    return {
        "1 core": document(_bundle(1, 0)),
        "8 cores + 1 GPU": document(_bundle(8, 1)),
        "1 node": document([_node(1)]),
        "64 nodes": document([_node(64)]),
        "N+1 nodes": document([_node(nodes + 1)]),
    }


def queue(nodes: int, jobs: int, seed: int = 1) -> list[Job]:
    source = random.Random(seed)
    made = []
    for _ in range(jobs):
        duration = source.choice(DURATIONS_S)
        if source.random() < 0.7:
            made.append(Job(max(1, round(math.exp(source.uniform(0, math.log(max(nodes // 4, 1)))))), 0, 0, duration))
        else:
            made.append(Job(0, source.randint(1, 16), int(source.random() < 0.5), duration))
    return made


def read_queue(path: Path) -> list[Job]:
    """A recorded queue: columns nodes_exclusive, slot_cores, slot_gpus and duration."""
    with path.open(newline="") as file:
        return [
            Job(int(row["nodes_exclusive"]), int(row["slot_cores"]), int(row["slot_gpus"]), int(float(row["duration"])), row)
            for row in csv.DictReader(file)
        ]
