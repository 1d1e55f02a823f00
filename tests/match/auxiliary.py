"""Random auxiliary graphs over small machines, and requests for what they distribute."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
from msgspec import structs

from fluxres.graph import uuids
from fluxres.graph.auxiliary import Subsystem
from fluxres.graph.recipe import Recipe, expand
from fluxres.graph.structure import Structure
from fluxres.syntax import count
from fluxres.syntax.vertex import Vertex

ORIGIN = uuids.new_origin(bytes(range(16)))
Edges = list[tuple[int, int]]
DIRECTED = 0.35
"""The fraction of distributed resources requested towards a pool, and of the rest between nodes."""
GRAPHS = ["power", "power", "network", "both", "mount", "caps", "deep"]
"""Possible pools outside the tree; `deep` is a feed with PDUs in it, and outlets in these."""


def _subsystem(name: str, edges: Edges, *, hierarchy: bool = False) -> Subsystem:
    pairs = np.array(edges, np.int32).reshape(-1, 2)
    return Subsystem(name, hierarchy, pairs[:, 0].copy(), pairs[:, 1].copy())


def _supplied(source: random.Random, made: Structure) -> list[int]:
    """The pools that a graph reaches: nodes or racks, sometimes without the last one."""
    racks = made.of_type("rack").tolist() if "rack" in made.types else []
    pools: list[int] = racks if racks and source.random() < 0.25 else made.of_type("node").tolist()
    return pools[:-1] if len(pools) > 1 and source.random() < 0.15 else pools


def _deal(source: random.Random, suppliers: list[int], pools: list[int]) -> Edges:
    """In blocks, at random, or from two sides."""
    how = source.choice(["blocks", "blocks", "random", "two", "all"])
    if how == "blocks":
        return [(suppliers[at * len(suppliers) // len(pools)], v) for at, v in enumerate(pools)]
    if how == "all":
        return [(u, v) for v in pools for u in suppliers]
    number = 1 if how == "random" else min(2, len(suppliers))
    return [(u, v) for v in pools for u in source.sample(suppliers, number)]


def _power(source: random.Random) -> tuple[list[Recipe], bool]:
    """Perhaps a feed, and PDUs that contain a pool of watts or are counted in watts themselves."""
    sized = source.random() < 0.3
    unit = source.choice(["W", "W", "kW"])

    def supplier(type_name: str, number: int, most: int) -> Recipe:
        size = source.randint(2, most)
        if sized:
            return Recipe(type_name, number, ids=0, size=size, unit="W", exclusive=source.random() < 0.1)
        watts = Recipe("power", source.choice([1, 1, 1, 2]), size=size, unit=unit)
        return Recipe(type_name, number, ids=0, children=(watts,))

    made = [supplier("pdu", source.randint(1, 3), 6)]
    if source.random() < 0.5:
        made.append(supplier(source.choice(["feed", "feed", "pdu"]) if sized else "feed", 1, 9))
        if made[1].type == "pdu":
            made[1] = replace(made[1], ids=7)
    return made, sized


def _levels(source: random.Random) -> Recipe:
    """A feed with PDUs in it, and mostly outlets in these, all counted in watts: a job that uses up the feed holds all of it."""
    pdus, size = source.randint(1, 2), source.randint(2, 3)

    def level(basename: str, number: int, units: int, *children: Recipe) -> Recipe:
        return Recipe("power", number, basename=basename, ids=0, size=units, unit="W", children=children)

    of_pdu = size * source.choice([1, 1, 2])
    outlets = (level("outlet", of_pdu // size, size),) if source.random() < 0.8 else ()
    return level("feed", 1, max(2, pdus * of_pdu - source.choice([0, 0, 1])), level("pdu", pdus, of_pdu, *outlets))


def with_graphs(source: random.Random, top: Recipe) -> Structure:
    """A machine with one or two auxiliary graphs."""
    power, _ = _power(source)
    network = [Recipe("switch", source.randint(1, 2), ids=0, children=(Recipe("bandwidth", size=source.randint(1, 6)),))]
    network += [Recipe("spine", children=(Recipe("bandwidth", size=source.randint(2, 8)),))] if source.random() < 0.5 else []
    chosen = source.choice(GRAPHS)
    more = {"power": power, "network": network, "both": power + network}.get(chosen, [])
    if chosen == "mount":
        more = [Recipe("fs", source.randint(1, 2), children=(Recipe("bandwidth", size=source.randint(1, 6)),))]
    if chosen == "caps":
        # Each node has its own limit, and racks or the machine pass on what they get.
        more = [Recipe("power", 6, size=3, unit="W"), Recipe("power", 2, ids=6, size=5, unit="W")]
    if chosen == "deep":
        more = [_levels(source)]
    made = expand(top, more=more, origin=ORIGIN)
    of = {name: made.of_type(name).tolist() for name in made.types}
    if chosen in ("power", "both"):
        pdus = [v for v in of["pdu"] if made.id.item(v) < 7]
        upper = of.get("feed", []) + [v for v in of["pdu"] if made.id.item(v) == 7]
        edges = _deal(source, pdus, _supplied(source, made)) + [(u, v) for u in upper for v in pdus]
        once = len({v for _, v in edges}) == len(edges)
        made.subsystems["power"] = _subsystem("power", edges, hierarchy=once and source.random() < 0.5)
    if chosen in ("network", "both"):
        ends = _supplied(source, made)
        if "gpu" in of and source.random() < 0.3:
            ends = of["gpu"]
        edges = _deal(source, of["switch"], ends) + [(u, v) for u in of.get("spine", []) for v in of["switch"]]
        if source.random() < 0.7:
            edges = [edge for a, b in edges for edge in ((a, b), (b, a))]
        made.subsystems["network"] = _subsystem("network", edges)
    if chosen == "mount":
        made.subsystems["storage"] = _subsystem("storage", [(v, u) for u, v in _deal(source, of["fs"], _supplied(source, made))])
    if chosen == "caps":
        own, shared = of["power"][:6], of["power"][6:]
        nodes, racks = of["node"], of.get("rack", [0])
        edges = [*zip(nodes, own, strict=False), *((racks[0], v) for v in nodes[: len(nodes) // 2 + 1])]
        edges += [(racks[at % len(racks)], v) for at, v in enumerate(shared)]
        made.subsystems["power"] = _subsystem("power", edges)
    if chosen == "deep":
        ends = [v for v in of["power"] if made.end.item(v) == v + 1]
        inside = [(made.parent.item(v), v) for v in of["power"] if made.parent.item(v) >= 0]
        pools = _supplied(source, made)
        edges = inside + [(ends[at * len(ends) // len(pools)], v) for at, v in enumerate(pools)]
        made.subsystems["power"] = _subsystem("power", edges, hierarchy=True)
    if source.random() < 0.5:
        _limit(source, made)
    if source.random() < 0.15 and made.n > made.tree_end:
        made.set_state([source.randrange(made.tree_end, made.n)], "down")
    if source.random() < 0.3:
        _leave_a_choice(source, made)
    return made


def _leave_a_choice(source: random.Random, made: Structure) -> None:
    """Mark edges of which one of several suppliers is enough."""
    for graph in made.subsystems.values():
        if not graph.hierarchy:
            found = [source.choice(["any", "any", "any", "all", None]) for _ in range(len(graph))]
            column = np.empty(len(found), object)
            column[:] = found
            graph.attributes["supply"] = column


def _limit(source: random.Random, made: Structure) -> None:
    """Give edges a capacity, sometimes a fraction, or in a unit of its own."""
    for graph in made.subsystems.values():
        rows = len(graph)
        choices = [source.randint(1, 6), source.randint(1, 6) + 0.5, float("nan"), 0]
        capacity = [source.choices(choices, [6, 1, 2, 0.2])[0] for _ in range(rows)]
        graph.attributes["capacity"] = np.array(capacity, np.float64)
        if graph.name == "power" and source.random() < 0.2:
            graph.attributes["unit"] = np.array([source.choice(["W", "W", "kW", None]) for _ in range(rows)], object)


def _want(source: random.Random, types: list[str]) -> Vertex:
    number = count.exactly(source.choice([1, 1, 1, 2, 2, 3, 4])) if source.random() < 0.9 else count.parse("1-3")
    return Vertex(source.choice(types), number, exclusive=source.choice([None, None, None, None, None, True, False]))


def with_wants(source: random.Random, vertices: tuple[Vertex, ...], types: list[str], depth: int = 0) -> tuple[Vertex, ...]:
    """The same resources, with distributed ones added at random."""
    made = [structs.replace(v, children=with_wants(source, v.children, types, depth + 1)) if v.children else v for v in vertices]
    if source.random() < (0.25 if depth == 0 else 0.45):
        made.insert(source.randint(0, len(made)), _want(source, types))
    return tuple(made)


def with_routes(source: random.Random, vertices: tuple[Vertex, ...], made: Structure, types: list[str]) -> tuple[Vertex, ...]:
    """The same resources, some requested towards a named pool, mostly of the graph."""
    found = []
    for v in vertices:
        if v.children:
            v = structs.replace(v, children=with_routes(source, v.children, made, types))
        elif v.type in types and source.random() < DIRECTED:
            graph = source.choice([feeds.graph for feeds in made.feeds])
            near = sorted({*graph.src.tolist(), *graph.dst.tolist()})
            to = source.choice(near) if source.random() < 0.8 else source.randrange(made.n)
            v = structs.replace(v, type=graph.name, to=made.uuid(to), unit=None)
        elif v.type in types and source.random() < DIRECTED:
            v = structs.replace(v, type=made.feeds[0].graph.name, between="node", unit=None)
        found.append(v)
    return tuple(found)


def distributed(made: Structure) -> list[str]:
    """What a request may name: types with units outside the containment tree, graphs, and sometimes other types."""
    outside = {made.types[made.type.item(v)] for v in range(made.tree_end, made.n)}
    sized = {made.types[made.type.item(v)] for v in range(made.tree_end, made.n) if made.size.item(v) > 1}
    graphs = [name for name in made.subsystems if name not in made.types]
    return sorted(sized) * 3 + sorted(outside) + graphs * 2
