"""The machines and the queue of the matching benchmark.

*rack*: cluster → N/16 racks → 16 nodes → 2 sockets → 22 cores, 2 GPUs and 4 memory pools of 32 GB each (59 pools a node).
*flat*: cluster → N nodes → 44 cores and 4 GPUs.  The queue: 70 % jobs of whole nodes, log-uniform 1 … N/4; 30 % one slot of 1 …
16 cores, half of them with a GPU; durations of 600 … 43,200 s.
"""

from __future__ import annotations

import csv
import math
import random
from dataclasses import dataclass
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
    nodes: int
    cores: int
    gpus: int
    duration_s: int

    def request(self) -> Request:
        if self.nodes:
            return exclusive_nodes(self.nodes)
        return bundle(self.cores, self.gpus)


def exclusive_nodes(number: int) -> Request:
    return Request(
        jobspec.parse_resources([{"type": "slot", "count": 1, "label": "task", "with": [{"type": "node", "count": number}]}])
    )


def bundle(cores: int, gpus: int = 0) -> Request:
    inside = [{"type": "core", "count": cores}] + ([{"type": "gpu", "count": gpus}] if gpus else [])
    return Request(jobspec.parse_resources([{"type": "slot", "count": 1, "label": "task", "with": inside}]))


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
            Job(int(row["nodes_exclusive"]), int(row["slot_cores"]), int(row["slot_gpus"]), int(float(row["duration"])))
            for row in csv.DictReader(file)
        ]
