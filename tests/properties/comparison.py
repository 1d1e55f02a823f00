"""A graph and its oracle side by side: every result of one compared with that of the other.

Times are ticks of the oracle here; `unit_s` says how many seconds one is, so that the same histories run on whole seconds, on
fractions that no float holds, and on single clock ticks.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import fluxres
from fluxres import ResourceGraph, clock
from fluxres.graph.kinds import UNAVAILABLE_STATES, WAY
from fluxres.graph.structure import Structure
from tests.match.ways import Ways
from tests.oracle import Oracle, PoolData
from tests.oracle_shape import Graph, Graphs, oracle_of, shape_of
from tests.strategies import Machine

UNITS_S = (1.0, 0.1, 1e-6, 3600.0)


Question = Callable[[Oracle, str, range], object]
CRITERIA: dict[str, Question] = {
    "type=core": lambda oracle, key, ticks: oracle.pools[key]["type"] == "core",
    "type~*o* and not name=node0": lambda o, key, t: "o" in o.pools[key]["type"] and o.pools[key]["name"] != "node0",
    "id=1-2 or size>=3": lambda o, key, t: o.pools[key]["id"] in (1, 2) or o.pools[key]["size"] >= 3,
    "state!=up,null": lambda o, key, t: o.pools[key]["state"] not in ("up", "null"),
    "tag=a and tag:b=x": lambda o, key, t: "a" in o.pools[key]["tags"] and o.pools[key]["tags"].get("b") == "x",
    "property:class>=7 or property=ssd": lambda o, key, t: {"class", "ssd"} & o.pools[key]["properties"].keys(),
    "available>=2": lambda o, key, t: o.available(key, t) >= 2,
    "available=0 and allocated=0": lambda o, key, t: not o.available(key, t) and not o.most_used(key, t),
    "allocated>0": lambda o, key, t: o.most_used(key, t),
    "job=j1": lambda o, key, t: any("j1" in o.held[key][tick] for tick in t),
    "exclusive": lambda o, key, t: o.exclusive(key, t),
    "shared=j2 or not shared": lambda o, key, t: not o.shared(key, t) or "j2" in o.shared(key, t),
    "staged": lambda o, key, t: o.staged(key),
}
"""Criteria, and what they ask."""


def drawn(structure: Structure) -> dict[str, set[str]]:
    """By place, the suppliers of a pool that have its type and count in amounts; in a cycle of suppliers, the first."""
    ways = Ways(structure)
    types = {structure.kind_of(v).type for v in range(structure.n) if structure.size.item(v) > 1 or structure.kind_of(v).unit}
    found: dict[int, set[int]] = {}
    for v in range(structure.n):
        kind = structure.kind_of(v).type
        if kind in types and ways.distributed(kind):
            found[v] = {u for givers in ways.upstream(v, kind) for u in givers if u < structure.n}
    where = structure.where
    return {where(v): {where(u) for u in above if u < v or v not in found.get(u, set())} for v, above in found.items()}


class Difference(AssertionError):
    """The graph and the oracle do not agree."""


def pools_of(machine: Machine) -> dict[str, PoolData]:
    """The machine in the form of an oracle."""
    return {
        key: {
            "type": spec.type,
            "size": spec.size,
            "parent": parent,
            "state": spec.state,
            "tags": dict(spec.tags),
            "properties": dict(spec.properties),
            "exclusive": spec.exclusive,
            "name": spec.name,
            "id": spec.id,
            "unit": spec.unit,
            "full": spec.size,
            "way": False,
        }
        for key, (spec, parent) in machine.flat().items()
    }


def edges_of(graph: ResourceGraph) -> dict[str, list[tuple[str, ...]]]:
    """The edges of all auxiliary graphs that have any, between uuids, with what they carry, and carried in full, sorted."""
    uuid = graph.structure.uuid
    found: dict[str, list[tuple[str, ...]]] = {
        name: sorted(
            (uuid(a), uuid(b), str(data["type"]), str(data.get("capacity")), str(data.get("full")))
            for a, b, data in subsystem.rows()
        )
        for name, subsystem in graph.structure.subsystems.items()
    }
    return {name: edges for name, edges in found.items() if edges}


class Comparison:
    """A graph and its oracle.

    Args:
        machine: the machine of both.
        horizon: ticks of the oracle; the last one represents all later ones.
        unit_s: seconds a tick.
        origin: base of the uuids; random by default.
    """

    def __init__(self, machine: Machine, horizon: int = 10, unit_s: float = 1.0, origin: int | None = None) -> None:
        self.unit_s = unit_s
        self.stages: dict[int, fluxres.Stage] = {}
        self.stages_made = 0
        self._drawn: tuple[Structure, dict[str, set[str]]] | None = None
        graph, pools = ResourceGraph(machine.structure(origin), clock=self.clock), pools_of(machine)
        for key, pool in pools.items():
            pool["uuid"] = graph.pool(key).uuid
        uuid = {key: str(pool["uuid"]) for key, pool in pools.items()}
        self.graphs: Graphs = {
            name: Graph(hierarchy, [(uuid[edge.src], uuid[edge.dst], edge.relation, edge.capacity, None) for edge in edges])
            for name, hierarchy, edges in (("power", True, machine.feeds), ("network", False, machine.links))
            if edges
        }
        self.oracle = Oracle(pools, horizon)
        self.oracle = oracle_of(shape_of(self.oracle, self.graphs), self.oracle)
        #: the expected result of the present operation, if it yields another machine
        self.next: tuple[Oracle, Graphs] | None = (self.oracle, self.graphs)
        self.adopt(graph)

    def clock(self) -> float:
        return self.seconds(self.oracle.now)

    def seconds(self, tick: int) -> float:
        return tick * self.unit_s

    def end(self, tick: int | None) -> float | None:
        return None if tick is None else self.seconds(tick)

    def told(self, start: int, end: int | None) -> tuple[float, float]:
        """A span in the seconds of the graph, in whole clock ticks."""
        last = math.inf if end is None else clock.seconds(clock.ticks(self.seconds(end)))
        return clock.seconds(clock.ticks(self.seconds(start))), last

    def adopt(self, graph: ResourceGraph, *, ordered: bool = True) -> None:
        """Continue with this graph and the oracle in `next`, after comparing their structures."""
        if self.next is None:
            return  # it should have been refused; `do` reports that
        self.compare_structure(graph, self.next, ordered=ordered)
        self.graph = graph
        self.graph.clock = self.clock
        self.oracle, self.graphs = self.next
        if not ordered:
            where = [pool.where for pool in graph.select(np.arange(len(graph), dtype=np.int32))]
            self.oracle.put_in_order(where)
        self.stages = {
            number: fluxres.Stage(graph, self.stages[number].stage, self.stages[number].job) for number in self.oracle.stages
        }
        self.vertex = {key: graph.vertex(key) for key in self.oracle.pools}
        self.look_for_outages()

    def look_for_outages(self) -> None:
        """What has no supply by the present states (F3), edge by edge: a pool does where something in it does."""
        oracle, structure = self.oracle, self.graph.structure
        oracle.cut_off = set()
        if any(pool["state"] in UNAVAILABLE_STATES for pool in oracle.pools.values()):
            ways = Ways(structure)
            without = {key for key, v in self.vertex.items() if not oracle.is_up(key) or ways.is_cut_off(v)}
            oracle.cut_off = {key for key in without if without.issuperset(oracle.below(key))}

    # -- comparing --------------------------------------------------------------------------------------------------

    def same(self, what: str, got: object, expected: object) -> None:
        if got != expected:
            raise Difference(f"{what}: the graph says {got!r}, the oracle {expected!r}")

    def compare_structure(self, graph: ResourceGraph, expected: tuple[Oracle, Graphs], *, ordered: bool = True) -> None:
        """All pools with all their data, and the edges of the auxiliary graphs."""
        pools, graphs = expected[0].pools, expected[1]
        where, wanted = [pool.where for pool in graph.select(np.arange(len(graph), dtype=np.int32))], list(pools)
        self.same("pools", *((where, wanted) if ordered else (sorted(where), sorted(wanted))))
        for key, pool in pools.items():
            self.compare_data(graph, key, pool)
        edges = {name: sorted((*edge[:3], str(edge[3]), str(edge[4])) for edge in made.edges) for name, made in graphs.items()}
        self.same("edges", edges_of(graph), {name: rows for name, rows in edges.items() if rows})

    def compare_data(self, graph: ResourceGraph, key: str, expected: PoolData) -> None:
        pool = graph.pool(key)
        parent, flags = pool.parent, graph.structure.flags[pool.vertex]
        self.same(
            f"data of {key}",
            {
                "type": pool.type,
                "size": pool.size,
                "parent": None if parent is None else parent.where,
                "state": pool.state,
                "tags": dict(pool.tags),
                "properties": dict(pool.properties),
                "exclusive": pool.exclusive_required,
                "name": pool.name,
                "id": pool.id,
                "unit": pool.unit,
                "full": graph.structure.capacity.get(pool.vertex, pool.size),
                "way": bool(flags & WAY),
                "uuid": pool.uuid,
            },
            expected,
        )

    def compare_pool(self, key: str, start: int, end: int | None) -> None:
        """One pool: units held and free at a moment and over a window, the holders, and its arrays over time."""
        oracle, pool = self.oracle, self.graph.pool(self.vertex[key])
        at, now = self.seconds(start), oracle.now
        holder = pool.holder
        expected_owner = oracle.holder(key, now)
        self.same(f"holder of {key} at tick {now}", holder, expected_owner)
        self.same(f"exclusive of {key}", pool.exclusive, expected_owner is not None)
        self.same(f"allocated of {key} at tick {start}", pool.allocated(at=at), oracle.used(key, start))
        self.same(f"available of {key} at tick {start}", pool.available(at=at), oracle.available(key, [start]))
        ticks = oracle.ticks(start, end)
        length = math.inf if end is None else self.seconds(end - start)
        self.same(f"available of {key} over {start}..{end}", pool.available(at, length), oracle.available(key, ticks))
        self.same(f"shared of {key} at tick {start}", pool.shared_by(at), sorted(oracle.shared(key, [start])))
        self.same(f"shared of {key} over {start}..{end}", pool.shared_by(at, length), sorted(oracle.shared(key, ticks)))
        self.same(f"staged of {key}", pool.staged, oracle.staged(key))
        spans = oracle.spans(key, ticks)
        for what, method, begun in (("allocations", pool.allocations, True), ("reservations", pool.reservations, False)):
            got = [(span.job, span.start, span.end, span.amount) for span in method(at, self.end(end))]
            wanted = [(job, *self.told(s, e), n) for s, job, e, n in spans if (s <= now) == begun]
            self.same(f"{what} of {key} in {start}..{end}", got, wanted)

    def compare_edges(self, start: int, end: int | None) -> None:
        """Units of every edge that carries a limited number of them, free through a window."""
        graph, oracle = self.graph, self.oracle
        window = clock.ticks(self.seconds(start)), clock.FOREVER if end is None else clock.ticks(self.seconds(end))
        accounts, planner = graph.structure.accounts, graph.planner
        got = {accounts.where(v): planner.free(v, *window) for v in range(graph.structure.n, accounts.n)}
        expected = {key: oracle.available(key, oracle.ticks(start, end)) for key in oracle.edges}
        self.same(f"free of edges over {start}..{end}", got, expected)

    def compare_free(self, start: int, end: int | None) -> None:
        """Units of every pool free through a window, and the sums by type below one after the other."""
        oracle, graph = self.oracle, self.graph
        ticks = oracle.ticks(start, end)
        at, length = self.seconds(start), None if end == start + 1 else math.inf if end is None else self.seconds(end - start)
        expected = {key: oracle.available(key, ticks) for key in oracle.pools}
        got = graph.available(at=at, duration_s=length)
        self.same(f"available over {start}..{end}", got.paths(), [key for key, n in expected.items() if n])

    def compare_aggregate(self, key: str, start: int, end: int | None) -> None:
        at, length = self.seconds(start), None if end == start + 1 else math.inf if end is None else self.seconds(end - start)
        expected = self.oracle.aggregate(key, self.oracle.ticks(start, end), self.passed_on(key))
        # Query the pool, because a URI would query the hierarchy. Units are added up whatever they are, as in the oracle.
        found: dict[str, int] = {}
        for name, units in self.graph.aggregate(self.graph.pool(key), at=at, duration_s=length).items():
            kind = name.partition("[")[0]
            found[kind] = found.get(kind, 0) + units
        self.same(f"aggregate of {key} over {start}..{end}", found, expected)

    def passed_on(self, key: str) -> set[str]:
        """Pools at and below one whose units are those of another of these, of the same type, that supplies them."""
        structure = self.graph.structure
        if self._drawn is None or self._drawn[0] is not structure:
            self._drawn = structure, drawn(structure)
        gives = {k for k in (key, *self.oracle.below(key)) if not self.oracle.is_way(k)}
        return {k for k in gives if self._drawn[1].get(k, set()) & gives}

    def compare_find(self, criteria: str, start: int, end: int | None) -> None:
        """A search at a moment, or through a window."""
        at = self.seconds(start)
        when: dict[str, Any] = {"at": at}
        if end != start + 1:
            when = {"during": (at, math.inf if end is None else self.seconds(end))}
        ticks = self.oracle.ticks(start, end)
        root = next(iter(self.oracle.pools))
        seen = {root, *self.oracle.below(root), *(key for key in self.oracle.pools if not self.oracle.is_way(key))}
        expected = [key for key in self.oracle.pools if key in seen and CRITERIA[criteria](self.oracle, key, ticks)]
        self.same(f"find {criteria!r} over {start}..{end}", self.graph.find(criteria, **when).paths(), expected)

    def compare_all(self) -> None:
        """Everything, at every moment."""
        oracle, graph = self.oracle, self.graph
        self.compare_structure(graph, (oracle, self.graphs))
        for tick in range(oracle.horizon + 1):
            self.compare_free(tick, tick + 1)
            self.compare_edges(tick, tick + 1 if tick % 2 else None)
            for key in oracle.pools:
                self.compare_pool(key, tick, None if tick % 2 or tick + 3 > oracle.horizon else tick + 3)
                self.compare_aggregate(key, tick, tick + 1)
        for number, criteria in enumerate(CRITERIA):
            start = number % oracle.horizon
            self.compare_find(criteria, start, start + 1 if number % 2 else None if number % 3 else oracle.horizon)
        self.compare_jobs()
        self.same("check()", [problem for problem in graph.check() if problem.severity == "error"], [])

    def compare_jobs(self) -> None:
        oracle, graph = self.oracle, self.graph
        jobs = oracle.jobs()
        self.same("jobs", set(graph.records.jobs()), jobs)
        for job in jobs:
            have = graph.allocation(job)
            got = [(span.pool, span.start, span.end, span.amount) for span in have.spans]
            expected = [(key, *self.told(s, e), n) for key, steps in oracle.allocated(job).items() for s, e, n in steps]
            pools = len([span for span in got if span[0] in oracle.pools])
            self.same(f"allocation of {job}", got[:pools], [span for span in expected if span[0] in oracle.pools])
            self.same(f"{job} on edges", sorted(got[pools:]), sorted(span for span in expected if span[0] in oracle.edges))
            lasting = {
                key: max(math.inf if e is None else e for _, e, _ in steps) for key, steps in oracle.allocated(job).items()
            }
            current = [key for key, end in lasting.items() if end > oracle.now and key in oracle.pools]
            self.same(f"allocated of {job}", graph.allocated(job).paths(), current)
