"""Checks an answer using only the request and the machine.

A ledger records which job was granted what, and when, as sets of paths.  A grant must contain what was requested, at pools that
are up, satisfy the constraint, and are free for the complete window; what a command frees must be free again.  Nothing here
knows how a match is found, so it cannot tell which of several possible grants is the right one.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from tests.fluxion.random_machine import Machine, Pool
from tests.fluxion.random_requests import Values

END_S = 3_153_600_000
"""How far ahead a session plans."""


class Wrong(AssertionError):
    """An answer that cannot be correct."""


def require(holds: bool, message: str) -> None:
    """Fail unless something holds."""
    if not holds:
        raise Wrong(message)


@dataclass
class Held:
    """What a job has: its window, the paths it has exclusively, and the types that were counted when it got them."""

    start: int
    end: int
    paths: set[str]
    reserved: bool
    counted: set[str]

    def overlaps(self, start: int, end: int) -> bool:
        """Whether its window overlaps another one."""
        return self.start < end and start < self.end


@dataclass
class Ledger:
    """Which job has what on a machine.

    Args:
        filters: which types are counted below which, as the session has them; `ALL` is any type.
        node_exclusive: whether the policy grants nodes with everything below them.
    """

    machine: Machine
    filters: list[tuple[str, str]]
    node_exclusive: bool = False
    flexible: bool = False
    jobs: dict[int, Held] = field(default_factory=dict)
    counted: set[str] = field(default_factory=set)
    """Types that are counted from the beginning; what becomes a leaf later does not count what is held by then."""

    def __post_init__(self) -> None:
        self.counted = self.counted_now()

    def counted_now(self) -> set[str]:
        """Types that a session counts for a job that arrives now."""
        return self._leaves() | {low for _, low in self.filters}

    def _leaves(self) -> set[str]:
        return {pool.type for pool in self.machine.pools() if not pool.children}

    def taken(self, start: int, end: int, but: int | None = None) -> set[str]:
        """Paths that any job has in a window."""
        held = [job for number, job in self.jobs.items() if number != but and job.overlaps(start, end)]
        return set().union(*(job.paths for job in held))

    def is_free(self, pool: Pool, start: int, end: int) -> bool:
        """Whether a pool, everything above and everything below it are unheld in a window."""
        taken = self.taken(start, end)
        return not any(one.path in taken for one in (*pool.above, *pool.walk()))

    def grant(self, job: int, request: Values, answer: Sequence[tuple[str, bool, int]], at: int, *, record: bool) -> None:
        """Check a grant, and record it.

        Args:
            answer: path, whether exclusively, and units of each pool of the answer.
        """
        system = request["attributes"]["system"]
        duration = math.ceil(system["duration"]) or END_S
        whole = {one["type"] for one in _all(request["resources"]) if one.get("exclusive")}
        grant = Grant(self.machine, answer, whole | ({"node"} if self.node_exclusive else set()))
        grant.check_pools(system.get("constraints"))
        grant.check_any(request["resources"], flexible=self.flexible)
        end = min(at + duration, END_S)
        taken = self.taken(at, end)
        for path in grant.exclusive:
            pool = grant.pools[path]
            for other in (pool, *pool.above, *pool.walk()):
                require(other.path not in taken, f"{path} is granted to job {job} from {at}, and {other.path} is held then")
        require(job not in self.jobs, f"job {job} is granted twice")
        if record:
            self.jobs[job] = Held(at, end, set(grant.exclusive), at > 0, self.counted_now())

    def count(self, pool: Pool, type_: str, job: int | None) -> int:
        """Units of a type below a pool that are used now, or by one job."""
        jobs = self.jobs.values() if job is None else [self.jobs[job]] if job in self.jobs else []
        below = {one.path: one.size for one in pool.walk() if one is not pool and one.type == type_}
        now = [held for held in jobs if job is not None or held.overlaps(0, 1)]
        return sum(below.get(path, 0) for held in now for path in held.paths)

    def found(self, meets: Callable[[Pool], bool]) -> set[str]:
        """Paths of pools that satisfy a predicate, and of all above them."""
        chosen = [pool for pool in self.machine.pools() if meets(pool)]
        return {one.path for pool in chosen for one in (pool, *pool.above)}

    def earliest(self, request: Values) -> float | None:
        """The earliest start of a simple request, infinite if there is none; None if it is not obvious."""
        resources, system = request["resources"], request["attributes"]["system"]
        if len(resources) != 1 or resources[0]["type"] != "slot" or not isinstance(resources[0]["count"], int):
            return None
        inside = resources[0]["with"]
        if len(inside) != 1 or inside[0].get("with") or inside[0]["count"] != 1 or system.get("constraints") is not None:
            return None
        duration = math.ceil(system["duration"]) or END_S
        for at in [0, *sorted(self._changes())]:
            if at + duration <= END_S and self._free(inside[0]["type"], at, at + duration) >= resources[0]["count"]:
                return at
        return math.inf

    def _changes(self) -> set[int]:
        """Moments that a session tries: where counts at the root change, even by nothing.

        A job is counted there if it has something of a type that was counted when it was granted, or something below it.
        """
        root = self.machine.root.type
        at_root = {low for high, low in self.filters if high in ("ALL", root)}
        at_root |= self._leaves() if root == "cluster" else set()
        if not at_root - {root}:
            return set()
        known = self.machine.by_path()
        changes = set()
        for held in self.jobs.values():
            pools = [one for path in held.paths for one in (known[path], *known[path].above)]
            if any(one.type in held.counted and one.parent is not None for one in pools):
                changes |= {held.start, held.end}
        return changes - {0}

    def _free(self, type_: str, start: int, end: int) -> int:
        """How many pools of a type could be granted for a window, each by itself."""
        # An imported allocation counts as allocated, whenever it begins, and blocks exclusive requests that start now.
        allocated = {path for held in self.jobs.values() if not held.reserved for path in held.paths if start == 0}
        found = 0
        for pool in self.machine.pools():
            if pool.type == type_ and pool.parent is not None and pool.is_reached and self.is_free(pool, start, end):
                whole = [one for one in pool.above if one.type == "node" and self.node_exclusive]
                held = pool.path in allocated or any(one.path in allocated for one in whole)
                found += not held and all(self.is_free(one, start, end) for one in whole)
        return found


class Grant:
    """One answer: the pools in it, and those that the job has exclusively.

    Args:
        whole: types whose pools are granted with everything below them.
    """

    def __init__(self, machine: Machine, answer: Sequence[tuple[str, bool, int]], whole: set[str]) -> None:
        known = machine.by_path()
        self.whole = whole
        self.pools: dict[str, Pool] = {}
        self.exclusive: set[str] = set()
        for path, exclusive, units in answer:
            require(path in known, f"{path} is granted, and not there")
            require(path not in self.pools, f"{path} is granted twice")
            self.pools[path] = known[path]
            if exclusive:
                self.exclusive.add(path)
                require(units == known[path].size, f"{units} units of {path} are granted, of {known[path].size}")
        tops = [pool for path, pool in self.pools.items() if path in self.exclusive and pool.type in whole]
        self.implied = {below.path for pool in tops for below in pool.walk() if below is not pool}
        """What is granted only because something above it is."""

    def check_pools(self, constraint: Values | None) -> None:
        """The path to every pool is included and up, and every node satisfies the constraint."""
        require(bool(self.exclusive), "nothing is granted exclusively")
        for path, pool in self.pools.items():
            require(pool.parent is None or pool.parent.path in self.pools, f"{path} is granted without the way to it")
            if path in self.implied:
                continue
            require(pool.is_reached, f"{path} is granted and down")
            if pool.type in ("node", "storage_node") and constraint is not None:
                require(meets(constraint, pool), f"{path} is granted against {constraint}")
            if path not in self.exclusive:
                below = any(one.path in self.exclusive for one in pool.walk())
                require(below, f"{path} is granted shared, and nothing below it")

    def check_any(self, resources: list[Values], *, flexible: bool) -> None:
        """One of the alternatives that `xor_slot`s are, or the request itself, is in it."""
        choices = [[one | {"type": "slot"}] for one in resources if one["type"] == "xor_slot"] or [resources]
        wrong = []
        for choice in choices:
            try:
                self.check_request(choice, flexible=flexible)
            except Wrong as error:
                wrong.append(str(error))
        require(len(wrong) < len(choices), "; ".join(wrong))

    def check_request(self, resources: list[Values], *, flexible: bool) -> None:
        """The requested resources are included, and no more, as far as that can be counted."""
        require(flexible or not has_siblings(resources), "siblings of one type are granted")
        slots = [one for one in resources if one["type"] == "slot"]
        if flexible and len(slots) > 1:
            made = sum(self._mixed(pool, slots) for pool in self.pools.values())
            require(made >= slots[-1]["count"] if isinstance(slots[-1]["count"], int) else made > 0, f"{made} slots of {slots}")
            return
        for one in resources:
            found = sum(self._units(pool, one, False) for pool in self.pools.values())
            require(found >= _least(one["count"]), f"{found} of {one} are granted")
        for path in self.implied:
            require(path in self.exclusive, f"something is granted whole without {path}")
        self._check_no_more(resources)

    def _units(self, pool: Pool, asked: Values, inside: bool) -> int:
        """Units of a resource that a pool of the answer is."""
        if asked["type"] == "slot":
            return self._slots(pool, asked)
        if pool.type != asked["type"] or pool.path not in self.pools:
            return 0
        if (inside or asked.get("exclusive")) and pool.path not in self.exclusive:
            return 0
        for below in asked.get("with", ()):
            if below["type"] == "slot":
                found = max(self._slots(pool, below), sum(self._slots(child, below) for child in pool.children))
            else:
                found = sum(self._units(child, below, inside or bool(asked.get("exclusive"))) for child in pool.children)
            if found < _least(below["count"]):
                return 0
        return pool.size

    def _slots(self, pool: Pool, slot: Values) -> int:
        """The number of slots that the children of a pool make."""
        if pool.path not in self.pools:
            return 0
        bundles = []
        for below in slot["with"]:
            units = [found for child in pool.children if (found := self._units(child, below, True))]
            bundles.append(_bundles(units, _least(below["count"])))
        return min(bundles)

    def _mixed(self, pool: Pool, slots: list[Values]) -> int:
        """How many slots of several kinds, all of leaves, the children of a pool make at most."""
        if pool.path not in self.pools:
            return 0
        have = Counter(child.type for child in pool.children if child.path in self.exclusive)
        sizes = {child.type: child.size for child in pool.children}
        needs = [
            Counter({below["type"]: -(-_least(below["count"]) // sizes.get(below["type"], 1)) for below in slot["with"]})
            for slot in slots
        ]
        most = sum(have.values())
        best = 0
        for mix in product(range(most + 1), repeat=len(slots)):
            used: Counter[str] = Counter()
            for number, need in zip(mix, needs, strict=True):
                for type_, count in need.items():
                    used[type_] += number * count
            if all(used[type_] <= have[type_] for type_ in used):
                best = max(best, sum(mix))
        return best

    def _check_no_more(self, resources: list[Values]) -> None:
        if self.implied or any(not isinstance(one["count"], int) for one in _all(resources)):
            return
        asked: Counter[str] = Counter()
        _count_exclusive(resources, 1, False, asked)
        given = Counter(self.pools[path].type for path in self.exclusive)
        for type_, number in given.items():
            if all(pool.size == 1 for pool in self.pools.values() if pool.type == type_) and type_ not in self.whole:
                require(number == asked[type_], f"{number} of {type_} are granted, {asked[type_]} are asked for")


def _count_exclusive(resources: list[Values], times: int, inside: bool, into: Counter[str]) -> None:
    for one in resources:
        number = times * one["count"]
        within = inside or one["type"] == "slot" or bool(one.get("exclusive"))
        if within and one["type"] != "slot":
            into[one["type"]] += number
        _count_exclusive(one.get("with", []), number, within, into)


def _all(resources: list[Values]) -> Iterator[Values]:
    for one in resources:
        yield one
        yield from _all(one.get("with", []))


def has_siblings(resources: list[Values]) -> bool:
    """Whether two sibling resources request the same type, which cannot be granted."""
    types = [one["type"] for one in resources]
    return len(set(types)) < len(types) or any(has_siblings(one.get("with", [])) for one in resources)


def _least(count: Any) -> int:
    return count if isinstance(count, int) else count["min"]


def _bundles(units: list[int], each: int) -> int:
    made = have = 0
    for number in units:
        have += number
        if have >= each:
            made, have = made + 1, 0
    return made


def meets(constraint: Values, pool: Pool) -> bool:
    """Whether a pool satisfies a constraint."""
    for operator, values in constraint.items():
        if operator == "properties":
            held = all((key.lstrip("^") in pool.properties) != key.startswith("^") for key in values)
        elif operator == "hostlist":
            held = pool.name in values
        elif operator == "ranks":
            held = str(pool.rank) in values
        elif operator == "and":
            held = all(meets(value, pool) for value in values)
        elif operator == "or":
            held = any(meets(value, pool) for value in values)
        else:
            held = not all(meets(value, pool) for value in values)
        if not held:
            return False
    return True
