"""Random small machines, holdings, requests and windows, from a seed."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import numpy as np

from fluxres.allocation import plans
from fluxres.allocation.records import Records
from fluxres.errors import FluxresError
from fluxres.graph import uuids
from fluxres.graph.kinds import EXCLUSIVE, WAY
from fluxres.graph.recipe import Recipe, expand
from fluxres.graph.structure import Structure
from fluxres.planner.planner import Planner
from fluxres.syntax import constraint, count
from fluxres.syntax.jobspec import Request
from fluxres.syntax.vertex import Vertex, settled
from tests.match import auxiliary
from tests.match.site import Hold

HORIZON = 8
ORIGIN = uuids.new_origin(bytes(range(16)))
CONSTRAINTS: list[dict[str, Any]] = [
    {"properties": ["ssd"]},
    {"properties": ["^ssd"]},
    {"ranks": ["0-1"]},
    {"hostlist": ["node[1-2]"]},
    {"not": [{"hostlist": ["node0"]}]},
    {"or": [{"states": ["up"]}, {"properties": ["node1"]}]},
]
SIMPLE = ("low", "high", "first", "lonode", "hinode", "variation", "pack", "spread")
NODEX = ("firstnodex", "lownodex", "highnodex", "lonodex", "hinodex")


@dataclass
class Scene:
    """A machine with holdings."""

    structure: Structure
    planner: Planner
    records: Records
    holds: list[Hold]


def _inside(source: random.Random) -> tuple[Recipe, ...]:
    leaves = [Recipe("core", source.randint(1, 3))]
    if source.random() < 0.5:
        leaves.append(Recipe("gpu", source.randint(1, 2)))
    if source.random() < 0.5:
        size, unit = source.choice([2, 3, 4]), source.choice(["GiB", "GiB", "MiB"])
        leaves.append(Recipe("memory", source.randint(1, 2), size=size, unit=unit))
    if source.random() < 0.3:
        return (Recipe("socket", source.randint(1, 2), children=tuple(leaves)),)
    return tuple(leaves)


def machine(source: random.Random, graphs: random.Random | None = None) -> Structure:
    """cluster, perhaps racks, nodes of one or two sorts, and sometimes pools outside nodes; with `graphs`, auxiliary graphs."""
    sorts = [
        Recipe(
            "node",
            source.randint(1, 2),
            ids=at * 2,
            children=_inside(source),
            properties=source.choice([{}, {}, {"ssd": None}, {"perf_class": source.randint(1, 2)}]),
        )
        for at in range(source.randint(1, 2))
    ]
    outside = [Recipe("licence", 1, size=source.choice([1, 3]))] if source.random() < 0.3 else []
    if source.random() < 0.2:
        outside.append(Recipe("memory", 1, ids=9, size=4, unit="GiB"))
    if source.random() < 0.4:
        top = Recipe("cluster", children=(Recipe("rack", source.randint(1, 2), children=tuple(sorts)), *outside))
    else:
        top = Recipe("cluster", children=(*sorts, *outside))
    structure = expand(top, origin=ORIGIN) if graphs is None else auxiliary.with_graphs(graphs, top)
    if source.random() < 0.3:
        for _ in range(source.randint(1, 2)):
            structure.set_state([source.randrange(1, structure.n)], source.choice(["down", "drain", "degraded"]))
    if source.random() < 0.15:
        structure.flags[source.randrange(1, structure.n)] |= source.choice([EXCLUSIVE, WAY])
    return structure


def planner_of(structure: Structure) -> Planner:
    accounts = structure.accounts
    return Planner(accounts.parent, accounts.end, accounts.type, accounts.units)


def scene(source: random.Random, graphs: random.Random | None = None) -> Scene:
    structure = machine(source, graphs)
    planner = planner_of(structure)
    records = Records(structure, planner)
    held = source.choice([0, 0, 2, 5, 10])
    for job in range(held):
        start = source.randrange(HORIZON)
        end = source.randint(start + 1, HORIZON + 1)
        v = source.randrange(1, structure.n)
        if structure.accounts.n > structure.n and source.random() < 0.2:
            v = source.randrange(structure.n, structure.accounts.n)
        amount = source.randint(1, max(structure.accounts.size.item(v), 1))
        if source.random() < 0.1:
            # Levels are created at any moment, and have to include what was held before.
            planner.levels.of(structure.types.index("node"))
        try:
            records.allocate(plans.allocate(records, [(v, amount)], f"j{job}", start, end), f"j{job}", start, end)
        except FluxresError:
            continue
        if source.random() < 0.2:
            records.free(plans.free(records, f"j{job}", None, None, None), f"j{job}")
    # A pool that goes out of service keeps what it holds.
    if source.random() < 0.1:
        structure.set_state([source.randrange(1, structure.n)], "down")
    holds = [Hold(v, amount, s, e) for v, owners in records.held.items() for steps in owners.values() for s, e, amount in steps]
    return Scene(structure, planner, records, holds)


def _count(source: random.Random) -> count.Count:
    if source.random() < 0.85:
        return count.exactly(source.choice([1, 1, 1, 2, 2, 3]))
    return count.parse(source.choice(["1-2", "1-4", "2+", "1,3", "1-4:2:*", "2-4"]))


def _leaf(source: random.Random, types: list[str]) -> Vertex:
    type_name = source.choice(types)
    unit = source.choice([None, "GiB", "MiB"]) if type_name == "memory" and source.random() < 0.2 else None
    # The oracle tries counts one by one, and there may be thousands of another unit.
    amount = _count(source) if unit is None else count.exactly(source.randint(1, 3))
    if type_name == "memory" and source.random() < 0.5:
        amount = count.exactly(source.randint(1, 6))
    return Vertex(
        type_name,
        amount,
        unit,
        exclusive=source.choice([None, None, None, None, True, False]),
        ids=source.choice(["0", "0-1", "1"]) if source.random() < 0.05 else None,
    )


def _leaves(source: random.Random, types: list[str]) -> tuple[Vertex, ...]:
    return tuple(_leaf(source, types) for _ in range(source.choice([1, 1, 2])))


def _tree(source: random.Random, types: list[str], depth: int, labels: list[str]) -> Vertex:
    """A demand that may have children: racks, nodes, sockets and slots around leaves."""
    form = source.random()
    small = [name for name in types if name in ("core", "gpu", "memory")]
    if form < 0.35 and depth < 3:
        label = f"s{len(labels)}"
        labels.append(label)
        inside = (
            tuple(_tree(source, types, depth + 1, labels) for _ in range(source.choice([1, 1, 2])))
            if source.random() < 0.4
            else _leaves(source, small)
        )
        return Vertex("slot", _count(source), label=label, children=inside)
    upper = [name for name in ("rack", "node", "node", "node", "socket") if name in types]
    if form < 0.75 and upper and depth < 3:
        name = source.choice(upper)
        below = {"rack": ["node", "core", "memory"], "node": ["core", "gpu", "memory", "socket"], "socket": ["core", "gpu"]}[name]
        children = (
            (_tree(source, [t for t in types if t in below] or small, depth + 1, labels),)
            if source.random() < 0.6
            else _leaves(source, small)
        )
        return Vertex(name, _count(source), exclusive=source.choice([None, None, True, False]), children=children)
    return _leaf(source, types)


def request(source: random.Random, structure: Structure, graphs: random.Random | None = None) -> Request:
    tree = {structure.types[kind] for kind in structure.type[: structure.tree_end].tolist()}
    types = [name for name in structure.types if name != "cluster" and name in tree]
    labels: list[str] = []
    resources = tuple(_tree(source, types, 0, labels) for _ in range(source.choice([1, 1, 1, 2])))
    if graphs is not None:
        wanted = auxiliary.distributed(structure)
        resources = auxiliary.with_wants(graphs, resources, wanted)
        if structure.feeds:
            resources = auxiliary.with_routes(graphs, resources, structure, wanted)
    stated = constraint.parse(source.choice(CONSTRAINTS)) if source.random() < 0.2 else None
    return Request(settled(resources), constraint=stated)


def window(source: random.Random) -> tuple[int, int]:
    start = source.randrange(HORIZON)
    return start, source.randint(start + 1, HORIZON + 2)


def graphs_source(seed: int) -> random.Random | None:
    """Every third case has auxiliary graphs; they are drawn separately, so that the other cases do not change."""
    return random.Random(f"graphs {seed}") if seed % 3 == 0 else None


def random_source(seed: int) -> random.Random:
    return random.Random(int(np.uint64(seed)))
