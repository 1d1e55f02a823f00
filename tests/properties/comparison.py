"""A graph and its oracle side by side: every operation done to both, every answer compared.

Operations are lists of plain values, so that a history can be printed, cut down and played again:
``["allocate", "j1", [["/c/rack0", 2]], 3, null]``.  Times in them are ticks of the oracle; `unit_s` says how many seconds
one is, so that the same histories run on whole seconds, on fractions that no float holds, and on single clock ticks.
"""

from __future__ import annotations

import copy
import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np

import fluxres
from fluxres import FluxresError, ResourceGraph, clock
from fluxres.graph import uuids
from fluxres.graph.kinds import WAY
from tests import oracle_shape
from tests.oracle import Oracle, PoolData, Refused
from tests.oracle_shape import Graph, Graphs
from tests.strategies import JOBS, Integer, Machine, chance, machine, pick

Operation = list[Any]
POOLS_MAX = 40
"""Above so many pools no more are merged in."""
UNITS_S = (1.0, 0.1, 1e-6, 3600.0)


class Difference(AssertionError):
    """The graph and the oracle do not agree."""


def pools_of(machine: Machine) -> dict[str, PoolData]:
    """The machine as an oracle keeps it."""
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


def edges_of(graph: ResourceGraph) -> dict[str, list[tuple[object, ...]]]:
    """The edges of all auxiliary graphs that have any, between uuids, sorted."""
    uuid = graph.structure.uuid
    found = {
        name: sorted((uuid(a), uuid(b), str(data["type"]), str(data.get("capacity"))) for a, b, data in subsystem.rows())
        for name, subsystem in graph.structure.subsystems.items()
    }
    return {name: edges for name, edges in found.items() if edges}  # type: ignore[return-value]  # a list is invariant


class Pair:
    """A graph and its oracle.

    Args:
        machine: what both are made of.
        horizon: ticks of the oracle; the last stands for all later ones.
        unit_s: seconds a tick.
        origin: what the uuids are made of; random by default.
    """

    def __init__(self, machine: Machine, horizon: int = 10, unit_s: float = 1.0, origin: int | None = None) -> None:
        self.unit_s = unit_s
        self.stages: dict[int, fluxres.Stage] = {}
        self.stages_made = 0
        self.oracle = Oracle(pools_of(machine), horizon)
        graph = ResourceGraph(machine.structure(origin), clock=self.clock)
        for key, pool in self.oracle.pools.items():
            pool["uuid"] = graph.pool(key).uuid
        uuid = {key: str(pool["uuid"]) for key, pool in self.oracle.pools.items()}
        self.graphs: Graphs = {
            name: Graph(hierarchy, [(uuid[edge.src], uuid[edge.dst], edge.relation, edge.capacity) for edge in edges])
            for name, hierarchy, edges in (("power", True, machine.feeds), ("network", False, machine.links))
            if edges
        }
        #: what the operation under way should lead to, where it leads to another machine
        self.next: tuple[Oracle, Graphs] | None = (self.oracle, self.graphs)
        self.adopt(graph)

    def clock(self) -> float:
        return self.seconds(self.oracle.now)

    def seconds(self, tick: int) -> float:
        return tick * self.unit_s

    def end(self, tick: int | None) -> float | None:
        return None if tick is None else self.seconds(tick)

    def told(self, start: int, end: int | None) -> tuple[float, float]:
        """A span in the seconds that the graph speaks: whole clock ticks."""
        last = math.inf if end is None else clock.seconds(clock.ticks(self.seconds(end)))
        return clock.seconds(clock.ticks(self.seconds(start))), last

    def adopt(self, graph: ResourceGraph, *, ordered: bool = True) -> None:
        """Go on with this graph and the oracle in `next`, whose structures are compared first."""
        if self.next is None:
            return  # it should have been refused, which `do` reports
        self.compare_structure(graph, self.next, ordered=ordered)
        self.graph = graph
        self.graph.clock = self.clock
        self.oracle, self.graphs = self.next
        if not ordered:
            where = [pool.where for pool in graph.select(np.arange(len(graph), dtype=np.int32))]
            self.oracle.pools = {key: self.oracle.pools[key] for key in where}
        self.stages = {
            number: fluxres.Stage(graph, self.stages[number].stage, self.stages[number].job) for number in self.oracle.stages
        }
        self.vertex = {key: graph.vertex(key) for key in self.oracle.pools}

    # -- doing ------------------------------------------------------------------------------------------------------

    def do(self, operation: Operation) -> bool:
        """One operation on both; whether it was done and not refused.

        Raises: Difference where one does it and the other does not, where a refusal has another reason, or leaves a trace.
        """
        name, *values = operation
        before = self.trace()
        known_stages = set(self.oracle.stages)
        refused: Refused | None = None
        self.next = None
        try:
            getattr(self, f"_expect_{name}")(*values)
        except Refused as expected:
            refused = expected
        try:
            getattr(self, f"_do_{name}")(*values)
        except FluxresError as error:
            if refused is None:
                raise Difference(f"{operation}: refused with {type(error).__name__} ({error}), should be done") from error
            if type(error).__name__ not in refused.classes:
                raise Difference(f"{operation}: refused with {type(error).__name__} ({error}), expected {refused}") from error
            if self.trace() != before and set(self.oracle.stages) == known_stages:
                raise Difference(f"{operation}: refused, and yet something changed") from error
            return False
        except Difference as difference:
            raise Difference(f"{operation}: {difference}") from difference
        except Exception as error:
            raise Difference(f"{operation}: {type(error).__name__}: {error}") from error
        if refused is not None:
            raise Difference(f"{operation}: done, should be refused with {refused}")
        return True

    def trace(self) -> tuple[object, ...]:
        """All that a refused operation must leave as it was."""
        graph, records = self.graph, self.graph.records
        return (
            graph.generation,
            {v: dict(holders) for v, holders in records.held.items()},
            {job: set(pools) for job, pools in records.pools_of.items()},
            {v: dict(jobs) for v, jobs in records.shared.items()},
            set(records.stages),
            graph.structure.state.tobytes(),
            {v: dict(tags) for v, tags in graph.structure.tags.items()},
            graph.planner.free_slice(0, graph.structure.n, 0, clock.FOREVER).tobytes(),
        )

    def _expect_allocate(self, job: str, targets: list[Any], start: int | None, end: int | None) -> None:
        self.oracle.allocate(job, targets, start, end)

    def _do_allocate(self, job: str, targets: list[Any], start: int | None, end: int | None) -> None:
        begin = None if start is None else self.seconds(start)
        if start is not None and end is not None and end > start and (start + end) % 2:
            self.graph.allocate(self.named(targets), job=job, start=begin, duration_s=self.seconds(end - start))
        else:
            self.graph.allocate(self.named(targets), job=job, start=begin, end=self.end(end))

    def named(self, targets: list[Any]) -> Any:
        """The same pools in one of the forms a caller may use, ever the same for the same targets."""
        if len(targets) == 1:
            key, amount = targets[0]
            if amount is None:
                return key
            return [(self.vertex.get(key, key), amount)] if len(key) % 2 else {key: amount}
        if len(targets) == len({key for key, _ in targets}) and len(targets) % 2:
            return dict(targets)
        return [key if amount is None else (key, amount) for key, amount in targets]

    def _expect_free(self, job: str, targets: list[Any] | None, start: int | None, end: int | None) -> None:
        self.oracle.free(job, targets, start, end)

    def _do_free(self, job: str, targets: list[Any] | None, start: int | None, end: int | None) -> None:
        begin = None if start is None else self.seconds(start)
        give = self.graph.shrink if targets is not None and end is None else self.graph.free
        give(job, None if targets is None else self.named(targets), start=begin, end=self.end(end))  # type: ignore[arg-type]

    def _expect_grow(self, job: str, targets: list[Any]) -> None:
        self.oracle.grow(job, targets)

    def _do_grow(self, job: str, targets: list[Any]) -> None:
        self.graph.grow(job, self.named(targets))

    def _expect_expire(self) -> None:
        self.oracle.expire()

    def _do_expire(self) -> None:
        self.graph.expire()

    def _expect_stage(self, job: str, targets: list[Any], start: int | None, end: int | None, life: int) -> None:
        self.oracle.stage(job, self.stages_made, targets, start, end, life)

    def _do_stage(self, job: str, targets: list[Any], start: int | None, end: int | None, life: int) -> None:
        begin = None if start is None else self.seconds(start)
        ttl_s = self.seconds(life)
        made = self.graph.stage(self.named(targets), job=job, start=begin, end=self.end(end), ttl_s=ttl_s)
        self.stages[self.stages_made] = made
        self.stages_made += 1

    def _expect_commit(self, number: int) -> None:
        self.oracle.commit(number)

    def _do_commit(self, number: int) -> None:
        self.stage(number).commit()

    def _expect_release(self, number: int) -> None:
        self.oracle.release(number)

    def _do_release(self, number: int) -> None:
        self.stage(number).release()

    def stage(self, number: int) -> fluxres.Stage:
        return self.stages.get(number) or fluxres.Stage(self.graph, f"none{number}", "j1")

    def _expect_pass_time(self, ticks: int) -> None:
        self.oracle.pass_time(min(self.oracle.now + ticks, self.oracle.horizon))

    def _do_pass_time(self, ticks: int) -> None:
        """Nobody tells the graph: it reads its clock."""

    def _expect_state(self, keys: list[str], state: str) -> None:
        self.oracle.set_state(keys, state)

    def _do_state(self, keys: list[str], state: str) -> None:
        if len(keys) == 1 and keys[0] in self.vertex:
            self.graph.pool(keys[0]).state = state
        else:
            self.graph.set_state(keys, state)

    def _expect_tag(self, key: str, tag: str, value: str | None) -> None:
        self.oracle.pool(key)["tags"][tag] = value

    def _do_tag(self, key: str, tag: str, value: str | None) -> None:
        self.graph.tag(key, tag, value)

    def _expect_untag(self, key: str, tag: str) -> None:
        self.oracle.pool(key)["tags"].pop(tag, None)

    def _do_untag(self, key: str, tag: str) -> None:
        self.graph.untag(key, tag)

    # -- other machines ---------------------------------------------------------------------------------------------

    def _expect_copy(self, key: str, tick: int, adopt: bool) -> None:
        self.next = oracle_shape.copied(self.oracle, self.graphs, key, tick)

    def _do_copy(self, key: str, tick: int, adopt: bool) -> None:
        self.look_at(self.graph.copy(key, at=self.seconds(tick)), adopt)

    def _expect_copy_job(self, job: str, tick: int, adopt: bool) -> None:
        self.next = oracle_shape.copied_job(self.oracle, self.graphs, job, tick)

    def _do_copy_job(self, job: str, tick: int, adopt: bool) -> None:
        self.look_at(self.graph.copy(job=job, at=self.seconds(tick)), adopt)

    def _expect_duplicate(self, adopt: bool) -> None:
        self.next = copy.deepcopy((self.oracle, self.graphs))

    def _do_duplicate(self, adopt: bool) -> None:
        self.look_at(self.graph.duplicate(), adopt)

    def look_at(self, made: ResourceGraph, adopt: bool) -> None:
        """Compare a graph that was made of this one, and see that neither shows a change of the other (C1)."""
        if self.next is None:
            return
        self.same("clock", made.clock(), self.graph.clock())
        self.compare_structure(made, self.next)
        self.same("check() of what was made", made.check(), [])
        left, before = (self.graph, self.trace()) if adopt else (made, self.trace())
        if adopt:
            self.adopt(made)
            before = self.trace()
        left.set_state("/", "drain")
        left.tag(range(len(left)), "seen")
        for job in left.jobs():
            left.free(job)
        self.same("the other graph", self.trace(), before)

    def _expect_unlink(self, key: str) -> None:
        self.next = oracle_shape.unlinked(self.oracle, self.graphs, key)

    def _do_unlink(self, key: str) -> None:
        self.graph.unlink(key)
        self.adopt(self.graph)

    def _expect_relink(self, key: str, tick: int) -> None:
        part, edges = oracle_shape.copied(self.oracle, self.graphs, key, tick)
        self.next = oracle_shape.unlinked(self.oracle, self.graphs, key)
        self.next = oracle_shape.merged(*self.next, part, edges)

    def _do_relink(self, key: str, tick: int) -> None:
        """Copy a part, unlink it, and merge the copy."""
        part = self.graph.copy(key, at=self.seconds(tick))
        trial = self.graph.duplicate()
        trial.unlink(key)
        trial.merge(part)
        self.adopt(trial, ordered=False)

    def _expect_merge_jobs(self, one: str, two: str, tick: int) -> None:
        first = oracle_shape.copied_job(self.oracle, self.graphs, one, tick)
        self.next = oracle_shape.merged(*first, *oracle_shape.copied_job(self.oracle, self.graphs, two, tick))

    def _do_merge_jobs(self, one: str, two: str, tick: int) -> None:
        """What two jobs hold, as one machine: sizes of what both hold a part of add up."""
        at = self.seconds(tick)
        grown = self.graph.copy(job=one, at=at)
        grown.merge(self.graph.copy(job=two, at=at))
        self.adopt(grown, ordered=False)

    def _expect_merge(self, seed: int, at: str | None) -> None:
        other = self.stranger(seed, at)
        self.next = oracle_shape.merged(self.oracle, self.graphs, other.oracle, other.graphs, at)

    def _do_merge(self, seed: int, at: str | None) -> None:
        other = self.stranger(seed, at)
        before = other.trace()
        self.graph.merge(other.graph, at)
        self.same("the merged graph", other.trace(), before)
        self.adopt(self.graph, ordered=False)

    def stranger(self, seed: int, at: str | None) -> Pair:
        """A small machine of its own with records of its own, the same for the same seed.

        Merged from the root on, it is what is left of this machine without some of its pools, so that names meet.
        """
        rng = random.Random(seed)
        made = machine(rng.randint, 8)
        if at is not None:
            made.root.type = made.root.name = rng.choice(("rack", "node"))
            made.feeds, made.power, made.links = [], [], []
        other = Pair(made, self.oracle.horizon, self.unit_s, uuids.new_origin(rng.randbytes(16)))
        other.oracle.now = self.oracle.now
        for _ in range(rng.randint(0, 2)):
            other.do(_allocate(rng.randint, other.oracle, rng.choice(("j1", "j2"))))
        return other

    @staticmethod
    def keys_in(operation: Operation) -> list[str]:
        """The pools that an operation names."""
        found: list[str] = []
        for value in operation[1:]:
            for item in value if isinstance(value, list) else [value]:
                name = item[0] if isinstance(item, list) else item
                if isinstance(name, str) and "/" in name:
                    found.append(name)
        return found

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
        edges = {
            name: sorted((a, b, kind, str(capacity)) for a, b, kind, capacity in made.edges) for name, made in graphs.items()
        }
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
        """One pool: what is held and free at a moment and over a window, by whom, and its arrays over time."""
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
        expected = self.oracle.aggregate(key, self.oracle.ticks(start, end))
        self.same(f"aggregate of {key} over {start}..{end}", self.graph.aggregate(key, at=at, duration_s=length), expected)

    def compare_all(self) -> None:
        """Everything, at every moment."""
        oracle, graph = self.oracle, self.graph
        self.compare_structure(graph, (oracle, self.graphs))
        for tick in range(oracle.horizon + 1):
            self.compare_free(tick, tick + 1)
            for key in oracle.pools:
                self.compare_pool(key, tick, None if tick % 2 or tick + 3 > oracle.horizon else tick + 3)
                self.compare_aggregate(key, tick, tick + 1)
        self.compare_jobs()
        self.compare_audit()

    def compare_jobs(self) -> None:
        oracle, graph = self.oracle, self.graph
        jobs = oracle.jobs()
        self.same("jobs", set(graph.jobs()), jobs)
        for job in jobs:
            have = graph.allocation(job)
            got = [(span.pool, span.start, span.end, span.amount) for span in have.spans]
            expected = [(key, *self.told(s, e), n) for key, steps in oracle.allocated(job).items() for s, e, n in steps]
            self.same(f"allocation of {job}", got, expected)
            lasting = {
                key: max(math.inf if e is None else e for _, e, _ in steps) for key, steps in oracle.allocated(job).items()
            }
            current = [key for key, end in lasting.items() if end > oracle.now]
            self.same(f"allocated of {job}", graph.allocated(job).paths(), current)

    def compare_audit(self) -> None:
        self.same("check()", self.graph.check(), [])


# -- choosing what to do ------------------------------------------------------------------------------------------------

WEIGHTS = {
    "allocate": 36,
    "free": 18,
    "grow": 4,
    "stage": 6,
    "commit": 4,
    "release": 3,
    "pass_time": 4,
    "expire": 1,
    "state": 6,
    "tag": 2,
    "untag": 1,
    "copy": 2,
    "copy_job": 1,
    "duplicate": 1,
    "unlink": 1,
    "relink": 1,
    "merge_jobs": 1,
    "merge": 1,
}
"""How often each operation is chosen; those that make another machine cost as much as a hundred others."""


def some_key(integer: Integer, oracle: Oracle) -> str:
    keys = list(oracle.pools)
    return "/nowhere" if chance(integer, 100) else pick(integer, keys)


def some_window(integer: Integer, oracle: Oracle) -> tuple[int | None, int | None]:
    start = None if chance(integer, 4) else integer(0, oracle.horizon)
    low = oracle.now if start is None else start
    if chance(integer, 3) or low >= oracle.horizon:
        return start, None
    return start, integer(low + 1, oracle.horizon) if not chance(integer, 60) else integer(0, low)


def some_targets(integer: Integer, oracle: Oracle) -> list[Any]:
    found: list[Any] = []
    for _ in range(1 if chance(integer, 2) else integer(1, 4)):
        key = some_key(integer, oracle)
        size = oracle.pools[key]["size"] if key in oracle.pools else 1
        amount = None if chance(integer, 3) else integer(1, size) if not chance(integer, 40) else integer(0, size + 1)
        found.append([key, amount])
    if chance(integer, 8):
        found.append([pick(integer, found)[0], 1])  # a pool named twice
    return found


def held_targets(integer: Integer, oracle: Oracle, job: str) -> list[Any]:
    """Mostly pools that the job has."""
    keys = list(oracle.allocated(job))
    if not keys or chance(integer, 12):
        return some_targets(integer, oracle)
    found: list[Any] = []
    for _ in range(1 if chance(integer, 2) else integer(1, 3)):
        key = pick(integer, keys)
        amount = None if chance(integer, 2) else integer(1, oracle.pools[key]["size"])
        found.append([key, amount])
    return found


def operation(integer: Integer, oracle: Oracle, jobs: tuple[str, ...], weights: dict[str, int] = WEIGHTS) -> Operation:
    """A random operation that fits the state of the oracle more often than not."""
    name = pick(integer, [name for name, weight in weights.items() for _ in range(weight)])
    return _CHOICES[name](integer, oracle, pick(integer, jobs))


def _allocate(integer: Integer, oracle: Oracle, job: str) -> Operation:
    return ["allocate", job, some_targets(integer, oracle), *some_window(integer, oracle)]


def _free(integer: Integer, oracle: Oracle, job: str) -> Operation:
    targets = None if chance(integer, 5) else held_targets(integer, oracle, job)
    window = some_window(integer, oracle) if chance(integer, 3) else (None, None)
    return ["free", job, targets, *window]


def _stage(integer: Integer, oracle: Oracle, job: str) -> Operation:
    return ["stage", job, some_targets(integer, oracle), *some_window(integer, oracle), integer(1, 6)]


def _on_stage(name: str) -> Callable[[Integer, Oracle, str], Operation]:
    def choose(integer: Integer, oracle: Oracle, job: str) -> Operation:
        return [name, pick(integer, list(oracle.stages)) if oracle.stages and not chance(integer, 8) else integer(0, 3)]

    return choose


def _state(integer: Integer, oracle: Oracle, job: str) -> Operation:
    keys = [some_key(integer, oracle) for _ in range(integer(1, 2))]
    # Mostly back to up, or soon nothing could be allocated at all.
    states = ("up", "up", "up", "up", "down", "drain", "degraded", "failing", "unknown", "null", "sideways")
    return ["state", keys, pick(integer, states)]


def _merge(integer: Integer, oracle: Oracle, job: str) -> Operation:
    if len(oracle.pools) > POOLS_MAX:
        return ["unlink", some_key(integer, oracle)]
    at = None if chance(integer, 2) else pick(integer, [key for key in oracle.pools if key.startswith("/")])
    if at is not None and chance(integer, 2):
        at += f"/{pick(integer, ('rack7', 'rack8', 'extra', 'node0'))}"
    return ["merge", integer(0, 999), at]


def _unlink(integer: Integer, oracle: Oracle, job: str) -> Operation:
    key = some_key(integer, oracle)
    pdus = [k for k in oracle.pools if k.startswith("power:/")]
    if pdus and key.startswith("/") and chance(integer, 3):
        # Some pools of the tree stand in this hierarchy too.
        key = f"{pick(integer, pdus)}/{key.rpartition('/')[2]}"
    return ["unlink", key]


_CHOICES: dict[str, Callable[[Integer, Oracle, str], Operation]] = {
    "allocate": _allocate,
    "free": _free,
    "grow": lambda integer, oracle, job: ["grow", job, some_targets(integer, oracle)],
    "stage": _stage,
    "commit": _on_stage("commit"),
    "release": _on_stage("release"),
    "pass_time": lambda integer, oracle, job: ["pass_time", integer(0, 3)],
    "expire": lambda integer, oracle, job: ["expire"],
    "state": _state,
    "tag": lambda integer, oracle, job: ["tag", some_key(integer, oracle), pick(integer, "ab"), pick(integer, (None, "x", "ü"))],
    "copy": lambda integer, oracle, job: ["copy", some_key(integer, oracle), integer(0, oracle.horizon), chance(integer, 5)],
    "copy_job": lambda integer, oracle, job: ["copy_job", job, integer(0, oracle.horizon), chance(integer, 8)],
    "duplicate": lambda integer, oracle, job: ["duplicate", chance(integer, 2)],
    "unlink": _unlink,
    "relink": lambda integer, oracle, job: ["relink", some_key(integer, oracle), integer(0, oracle.horizon)],
    "merge_jobs": lambda integer, oracle, job: ["merge_jobs", job, pick(integer, JOBS), integer(0, oracle.horizon)],
    "merge": _merge,
    "untag": lambda integer, oracle, job: ["untag", some_key(integer, oracle), pick(integer, ("a", "b"))],
}
