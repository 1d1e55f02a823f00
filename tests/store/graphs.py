"""A small machine, a comparison of graphs, and random changes to a graph."""

from __future__ import annotations

import hashlib
from random import Random
from typing import Any

import msgspec
import numpy as np

from fluxres.errors import FluxresError
from fluxres.graph import uuids
from fluxres.graph.recipe import Recipe, expand
from fluxres.graph.structure import Structure
from fluxres.model import ResourceGraph
from fluxres.store.records import capture

JOBS = ("j1", "j2", "j3", "j4")
SHAPES = ("slot/core", "slot=2/[core;memory=3]", "slot/node", "slot=2/core=4")
STATES = ("up", "down", "drain", "degraded")


def structure(racks: int = 2, nodes: int = 3, origin: int = 1) -> Structure:
    leaves = (Recipe("core", 4), Recipe("memory", size=8, unit="GiB"))
    node = Recipe("node", nodes, ids=np.arange(racks * nodes), properties={"ssd": None}, children=leaves)
    root = Recipe("cluster", name="demo", children=(Recipe("rack", racks, children=(node,)),))
    return expand(root, origin=uuids.new_origin(origin.to_bytes(16, "little")))


def machine(racks: int = 2, nodes: int = 3, origin: int = 1) -> ResourceGraph:
    return ResourceGraph(structure(racks, nodes, origin))


def facts(graph: ResourceGraph) -> dict[str, Any]:
    """Everything persistent about a graph, in a fixed order."""
    s, held = graph.structure, capture(graph.records)
    rows = zip(
        held.owner.tolist(), held.vertex.tolist(), held.start.tolist(), held.end.tolist(), held.amount.tolist(), strict=True
    )
    plain = {name: column.tolist() for name, column in s.columns().items() if name not in ("kind", "origin")}
    kinds = [[k.type, k.basename, k.unit, k.name, [[key, type(v).__name__, str(v)] for key, v in k.properties]] for k in s.kinds]
    return {
        "columns": plain,
        "kinds": [kinds[k] for k in s.kind.tolist()],
        "origins": [f"{s.origins[o]:x}" for o in s.origin.tolist()],
        "tree_end": s.tree_end,
        "names": sorted(s.names.items()),
        "uuids": sorted(s.uuid_texts.items()),
        "tags": sorted((v, sorted(tags.items())) for v, tags in s.tags.items()),
        "capacity": sorted(s.capacity.items()),
        "subsystems": [
            [sub.name, sub.hierarchy, [[a, b, repr(data)] for a, b, data in sub.rows()]] for sub in s.subsystems.values()
        ],
        "held": sorted([held.owners[owner], *rest] for owner, *rest in rows),
        "stages": sorted((g.stage, g.job, sorted(g.targets), g.start, g.end, g.expires, g.slots) for g in held.stages),
        "slots": sorted(held.slots_of.items()),
    }


def fingerprint(graph: ResourceGraph) -> str:
    """A short text that differs if the facts do."""
    return hashlib.blake2b(msgspec.json.encode(facts(graph)), digest_size=16).hexdigest()


def change(graph: ResourceGraph, random: Random) -> None:
    """One random change; one that is refused changes nothing."""
    v, job = random.randrange(1, len(graph)), random.choice(JOBS)
    start = random.randrange(20)
    try:
        match random.randrange(11):
            case 0 | 1 | 2:
                amount = random.randint(1, int(graph.structure.size[v]))
                graph.allocate([(v, amount)], job=job, start=start, end=start + random.randint(1, 20))
            case 3:
                graph.free(job)
            case 4:
                graph.free(job, [v])
            case 5:
                graph.tag(v, random.choice(("owner", "Größe")), random.choice((None, "x y")))
            case 6:
                graph.set_state(v, random.choice(STATES))
            case 7:
                graph.stage([(v, 1)], job=job, start=start, duration_s=5)
            case 8:
                stages = list(graph.records.stages)
                if stages:
                    (graph.commit if random.random() < 0.5 else graph.release)(random.choice(stages))
            case 9:
                pairs = [(random.choice(SHAPES), random.choice(JOBS)) for _ in range(random.randint(1, 3))]
                graph.allocate_all([*pairs, (v, job)] if random.random() < 0.5 else pairs, start=start, duration_s=5)
            case 10:
                graph.shrink(job, random.choice(SHAPES))
    except FluxresError:
        return
