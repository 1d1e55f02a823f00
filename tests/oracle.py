"""The model implemented again, as simply as possible, for comparison.

Pools are dicts in pre-order, time is whole ticks ``0 … horizon`` where the last tick represents all later time, and the
records are one number for every pool, tick and job.  Nothing is stored that can be computed, and nothing is optimised.
An operation that must be refused raises `Refused` with *every* class of error that would be correct, because the order
in which several faults are reported is not part of the contract.

A holder is a job, or a stage of a job: ``"j1"`` or ``("j1", 3)``.  Until its stage is committed, released or expired, a
staged amount is not free, but is not held either.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any

STATES = ("up", "down", "drain", "degraded", "failing", "unknown", "null")
UNAVAILABLE = ("down", "drain", "failing", "unknown")
Targets = list[tuple[str, int | None]]
PoolData = dict[str, Any]
Holder = str | tuple[str, int]


class Refused(Exception):
    """The operation changes nothing. `classes` are the names of the correct errors."""

    def __init__(self, classes: Iterable[str]) -> None:
        self.classes = frozenset(classes)
        super().__init__(", ".join(sorted(self.classes)))


def limited_edge(graph: str, src: str, dst: str, units: int) -> PoolData:
    """An edge between two uuids with a limited number of units and no other restriction."""
    return {"size": units, "parent": None, "state": "up", "exclusive": False, "way": False, "ends": (graph, src, dst)}


def job_of(holder: Holder) -> str:
    return holder if isinstance(holder, str) else holder[0]


class Oracle:
    """A machine and its records.

    Args:
        pools: by key, in pre-order: ``type size parent state tags properties exclusive``; parent is a key or None.
        horizon: the last tick, which represents all later ones.
        edges: those that carry a limited number of units, by key; see `limited_edge`.
    """

    def __init__(self, pools: dict[str, PoolData], horizon: int, edges: dict[str, PoolData] | None = None) -> None:
        self.pools = pools
        self.edges = edges or {}
        #: everything of which a job may hold units
        self.accounts = {**pools, **self.edges}
        self.horizon = horizon
        #: Everything allocated and not freed; the recorded part is in `held`, the rest is `dormant`.
        self.given: dict[str, list[dict[Holder, int]]] = {key: [{} for _ in range(horizon + 1)] for key in self.accounts}
        self.held: dict[str, list[dict[Holder, int]]] = {key: [{} for _ in range(horizon + 1)] for key in self.accounts}
        self.stages: dict[int, tuple[str, Targets, range, int]] = {}  # job, what, when, tick at which it expires
        self.now = 0
        #: Pools whose suppliers are all out of service (F3), set by the code that knows the auxiliary graphs.
        self.cut_off: set[str] = set()
        self._above: dict[str, list[str]] = {}
        for key, pool in self.accounts.items():
            self._above[key] = [] if pool["parent"] is None else [pool["parent"], *self._above[pool["parent"]]]
        self._below = {key: [other for other in pools if key in self._above[other]] for key in self.accounts}

    def put_in_order(self, keys: list[str]) -> None:
        """Sort the pools in this order."""
        self.pools = {key: self.pools[key] for key in keys}
        self.accounts = {**self.pools, **self.edges}

    # -- the tree and time ------------------------------------------------------------------------------------------

    def ancestors(self, key: str) -> list[str]:
        """The ancestors, parent first."""
        return self._above[key]

    def below(self, key: str) -> list[str]:
        return self._below[key]

    def ticks(self, start: int | None, end: int | None) -> range:
        """The ticks of ``[start, end)``, from now on by default; an `end` of None covers the last tick too."""
        return range(self.now if start is None else start, self.horizon + 1 if end is None else end)

    def is_up(self, key: str) -> bool:
        """Whether it may be allocated to new work (A7, F3)."""
        around = (key, *self.ancestors(key))
        return key not in self.cut_off and all(self.accounts[k]["state"] not in UNAVAILABLE for k in around)

    def settle(self) -> None:
        """Units below a pool that their holder has exclusively are implied, and not recorded (A5)."""
        self.held = {
            key: [{h: n for h, n in row.items() if not self._is_dormant(key, t, h)} for t, row in enumerate(rows)]
            for key, rows in self.given.items()
        }

    def _is_dormant(self, key: str, tick: int, holder: Holder) -> bool:
        return any(self.given[a][tick].get(holder) == self.accounts[a]["size"] for a in self.ancestors(key))

    # -- questions --------------------------------------------------------------------------------------------------

    def owner(self, key: str, tick: int) -> Holder | None:
        """Who has all units of this pool."""
        return next((h for h, n in self.held[key][tick].items() if n == self.accounts[key]["size"]), None)

    def intruders(self, holder: Holder, key: str, tick: int) -> bool:
        """Whether another job is in an exclusive pool above this one (A8)."""
        around = [k for k in (key, *self.ancestors(key)) if self.accounts[k]["exclusive"]]
        return any(job_of(h) != job_of(holder) for k in around for b in self.below(k) for h in self.held[b][tick])

    def implied(self, key: str, tick: int) -> bool:
        """Whether a pool above is held exclusively, which implies this one (A5)."""
        return any(self.owner(a, tick) is not None for a in self.ancestors(key))

    def used(self, key: str, tick: int) -> int:
        if self.is_way(key):
            return 0
        return self.accounts[key]["size"] if self.implied(key, tick) else sum(self.held[key][tick].values())

    def available(self, key: str, ticks: Iterable[int]) -> int:
        if not self.is_up(key) or self.is_way(key):
            return 0
        return self.accounts[key]["size"] - self.most_used(key, ticks)

    def is_way(self, key: str) -> bool:
        """Whether the pool is a pass-through pool without units (N1)."""
        return bool(self.accounts[key].get("way"))

    def most_used(self, key: str, ticks: Iterable[int]) -> int:
        return max(self.used(key, t) for t in ticks)

    def holder(self, key: str, tick: int) -> str | None:
        """The job that holds all of this pool, by a record or through one above."""
        owners = [owner for k in (key, *self.ancestors(key)) if (owner := self.owner(k, tick)) is not None]
        return job_of(owners[0]) if owners else None

    def exclusive(self, key: str, ticks: Iterable[int]) -> bool:
        """Whether any holder has all of this pool, or of one above, at each of these ticks."""
        ticks = list(ticks)
        owners = [{self.owner(k, t) for t in ticks} for k in (key, *self.ancestors(key))]
        return any(len(found) == 1 and found != {None} for found in owners)

    def shared(self, key: str, ticks: Iterable[int]) -> set[str]:
        """Jobs that hold something below at any of these ticks."""
        below = self.below(key)
        return {h for t in ticks for k in below for h in self.held[k][t] if isinstance(h, str)}

    def staged(self, key: str) -> bool:
        return any(not isinstance(h, str) for row in self.held[key] for h in row)

    def aggregate(self, key: str, ticks: Iterable[int], passed_on: Collection[str] = ()) -> dict[str, int]:
        """Units by type; those that a pool only passes on are counted at its supplier."""
        total: dict[str, int] = {}
        ticks = list(ticks)
        for k in (key, *self.below(key)):
            if k in passed_on:
                continue
            kind = self.pools[k]["type"]
            total[kind] = total.get(kind, 0) + self.available(k, ticks)
        return {kind: n for kind, n in total.items() if n}

    def steps(self, key: str, holder: Holder) -> list[tuple[int, int | None, int]]:
        """A holder's units over time, as spans (start, end or None, amount), equal neighbours merged."""
        return self._spans(self.held[key], holder)

    def _spans(self, rows: list[dict[Holder, int]], holder: Holder) -> list[tuple[int, int | None, int]]:
        found: list[tuple[int, int | None, int]] = []
        for t in range(self.horizon + 1):
            n = rows[t].get(holder, 0)
            end = t + 1 if t < self.horizon else None
            if n and found and found[-1][1] == t and found[-1][2] == n:
                found[-1] = (found[-1][0], end, n)
            elif n:
                found.append((t, end, n))
        return found

    def spans(self, key: str, ticks: range) -> list[tuple[int, str, int | None, int]]:
        """The array over time of this pool: (start, job, end, amount) of the spans that touch these ticks."""
        found = [(s, job, e, n) for job in self.jobs() for s, e, n in self.steps(key, job)]
        return sorted((s, job, e, n) for s, job, e, n in found if s < ticks.stop and (e is None or e > ticks.start))

    def allocated(self, job: str) -> dict[str, list[tuple[int, int | None, int]]]:
        found = {key: self.steps(key, job) for key in self.accounts}
        return {key: steps for key, steps in found.items() if steps}

    def jobs(self) -> set[str]:
        return {h for rows in self.held.values() for row in rows for h in row if isinstance(h, str)}

    def pool(self, key: str) -> PoolData:
        if key not in self.pools:
            raise Refused(["UnknownPool"])
        return self.pools[key]

    def misnamed(self, keys: Iterable[str], ticks: Iterable[int] = (0,)) -> set[str]:
        """Errors in the arguments of an operation: a pool that does not exist, a window that ends before it begins."""
        return ({"UsageError"} if not list(ticks) else set()) | {"UnknownPool" for key in keys if key not in self.accounts}

    # -- changes ----------------------------------------------------------------------------------------------------

    def allocate(self, job: str, targets: Targets, start: int | None = None, end: int | None = None) -> None:
        """Allocate units over a window, all or nothing; a pool that becomes exclusive absorbs the job's records below (A5)."""
        self._require_end(targets, start, end)
        self._take(job, targets, self.ticks(start, end))

    def _require_end(self, targets: Targets, start: int | None, end: int | None) -> None:
        """An allocation that begins later needs an end (RFC 16), and one in the past is refused."""
        if (end is None and start is not None and start > self.now) or (end is not None and end <= self.now):
            raise Refused({"UsageError"} | self.misnamed([key for key, _ in targets]))

    def _take(self, holder: Holder, targets: Targets, ticks: range) -> None:
        if faults := self.misnamed([key for key, _ in targets], ticks):
            raise Refused(faults)
        if not targets or any(n is not None and n < 1 for _, n in targets):
            raise Refused(["UsageError"])
        wanted = self._wanted(targets)
        faults = {fault for key, n in wanted.items() for fault in self._no_room(holder, key, n, ticks)}
        if faults := faults | self._not_whole(holder, wanted, ticks):
            raise Refused(faults)
        for key, n in wanted.items():
            for t in ticks:
                self.given[key][t][holder] = self.given[key][t].get(holder, 0) + n
        self.settle()

    def earliest(self, job: str, targets: Targets, ticks: range) -> int | None:
        """The first tick at which a window of this length could be allocated, None if it is beyond the horizon."""
        for t in range(ticks.start, self.horizon + 1):
            later = range(t, self.horizon + 1 if ticks.stop > self.horizon else t + len(ticks))
            if later.stop > self.horizon + 1:
                break
            wanted = self._wanted(targets)
            faults = [fault for key, n in wanted.items() for fault in self._no_room(job, key, n, later)]
            if not faults and not self._not_whole(job, wanted, later):
                return t
        return None

    def _wanted(self, targets: Targets) -> dict[str, int]:
        """Units by pool; amounts of a repeated pool are added, no amount means all units."""
        wanted: dict[str, int] = {}
        for key, n in targets:
            wanted[key] = wanted.get(key, 0) + (self.accounts[key]["size"] if n is None else n)
        return wanted

    def _no_room(self, holder: Holder, key: str, n: int, ticks: range) -> Iterator[str]:
        size = self.accounts[key]["size"]
        if n > size or self.is_way(key):
            yield "InfeasibleRequest"
            return
        if not self.is_up(key):
            yield "InsufficientResources"
        for t in ticks:
            if self.accounts[key]["exclusive"] and self.held[key][t].get(holder, 0) + n != size:
                yield "UsageError"
            if self.used(key, t) + n > size or self.intruders(holder, key, t):
                yield "InsufficientResources"

    def _not_whole(self, holder: Holder, wanted: dict[str, int], ticks: range) -> set[str]:
        """What prevents exclusive use of a pool: other holders (also stages) below it, or a pool below it that is also named."""
        faults = set()
        for key, n in wanted.items():
            below = self.below(key)
            for t in ticks:
                if self.held[key][t].get(holder, 0) + n == self.accounts[key]["size"]:
                    if any(h != job_of(holder) for k in below for h in self.held[k][t]):
                        faults.add("InsufficientResources")
                    if any(k in wanted for k in below):
                        faults.add("UsageError")
        return faults

    def free(self, job: str, targets: Targets | None = None, start: int | None = None, end: int | None = None) -> None:
        """Free units, all or nothing.

        No amount means all units that the job has. An amount must be held at every tick of a window given with both ends, and
        otherwise at every tick at which the job has anything.
        """
        ticks = self.ticks(start or 0, end)
        faults = self.misnamed([key for key, _ in targets or []], ticks)
        if faults := faults if job in self.jobs() else faults | {"UnknownJob"}:
            raise Refused(faults)
        changes: list[tuple[dict[Holder, int], int]] = []
        wanted = self._given_back(job, targets)
        for key, n in wanted.items():
            rows = [self.given[key][t] for t in ticks]
            has = [row for row in rows if job in row]
            # Implied units are freed with a pool above, and not alone.
            alone = targets is not None and not any(a in wanted for a in self.ancestors(key))
            if alone and any(job in self.given[key][t] and job not in self.held[key][t] for t in ticks):
                faults.add("NotHeld")
            if not has and targets is not None:
                faults.add("NotHeld")
            if n is not None and any(row.get(job, 0) < n for row in (has if start is None or end is None else rows)):
                faults.add("NotHeld")
            if n is not None and n < self.accounts[key]["size"] and self.accounts[key]["exclusive"]:
                faults.add("UsageError")
            changes += [(row, row[job] if n is None else n) for row in has]
        if faults or not changes:
            raise Refused(faults or ["NotHeld"])
        for row, n in changes:
            row[job] -= n
            if not row[job]:
                del row[job]
        self.settle()

    def _given_back(self, job: str, targets: Targets | None) -> dict[str, int | None]:
        if targets is None:
            return dict.fromkeys(key for key in self.accounts if any(job in row for row in self.given[key]))
        if any(n is not None and n < 1 for _, n in targets):
            raise Refused(["UsageError"])
        wanted: dict[str, int | None] = {}
        for key, n in targets:
            before = wanted.get(key, 0)
            wanted[key] = None if n is None or before is None else before + n
        return wanted

    def grow(self, job: str, targets: Targets) -> None:
        """Allocate from now, or from the job's start, until it ends."""
        if job not in self.jobs():
            raise Refused(["UnknownJob"])
        spans = [span for steps in self.allocated(job).values() for span in steps]
        ends = [end for _, end, _ in spans]
        self.allocate(job, targets, max(self.now, min(start for start, _, _ in spans)), None if None in ends else max(ends))

    def set_end(self, job: str, end: int | None) -> None:
        """Everything the job has ends at another tick: the last units of each pool are extended, later ones are freed."""
        if job not in self.jobs():
            raise Refused(["UnknownJob"])
        given = {key: found for key in self.accounts if (found := self._spans(self.given[key], job))}
        last = {key: found for key, found in given.items() if found[-1][1] is None or found[-1][1] > self.now}
        if not last:
            raise Refused(["NotHeld"])
        starts = [s for found in last.values() for s, e, _ in found if e is None or e > self.now]
        if (end is None and max(starts) > self.now) or (end is not None and (end < self.now or end <= min(starts))):
            raise Refused(["UsageError"])
        stop = self.horizon + 1 if end is None else end
        before, held_on = self.given, []
        self.given = {key: [dict(row) for row in rows] for key, rows in before.items()}
        for key, found in last.items():
            first = self.horizon + 1 if found[-1][1] is None else found[-1][1]
            held_on += [(key, t) for t in range(first, stop)]
            for t in range(first, stop):
                self.given[key][t][job] = found[-1][2]
            for t in range(stop, self.horizon + 1):
                self.given[key][t].pop(job, None)
        self.settle()
        if any(self._is_in_the_way(job, key, t) for key, t in held_on if job in self.held[key][t]):
            self.given = before
            self.settle()
            raise Refused(["InsufficientResources"])

    def _is_in_the_way(self, job: str, key: str, tick: int) -> bool:
        """Whether another holder prevents the job from keeping this pool."""
        row = self.held[key][tick]
        whole = row[job] == self.accounts[key]["size"]
        return (
            sum(row.values()) > self.accounts[key]["size"]
            or any(self.owner(a, tick) is not None for a in self.ancestors(key))
            or (whole and any(h != job for k in self.below(key) for h in self.held[k][tick]))
            or self.intruders(job, key, tick)
        )

    def expire(self) -> None:
        """Drop the spans that have ended."""
        jobs = self.jobs()
        dormant = {
            key: [{h: n for h, n in row.items() if h not in self.held[key][t]} for t, row in enumerate(rows)]
            for key, rows in self.given.items()
        }
        for rows, key, job in [(rows, key, job) for rows in (self.held, dormant) for key in self.accounts for job in jobs]:
            for start, end, _ in self._spans(rows[key], job):
                for t in range(start, end or start) if end is not None and end <= self.now else ():
                    del self.given[key][t][job]
        self.settle()

    def set_state(self, keys: list[str], state: str) -> None:
        if faults := self.misnamed(keys) if state in STATES else self.misnamed(keys) | {"UsageError"}:
            raise Refused(faults)
        for key in keys:
            self.pools[key]["state"] = state

    def stage(self, job: str, number: int, targets: Targets, start: int | None, end: int | None, life: int) -> None:
        """A lock whose units are not free and not held, until commit, release or expiry."""
        self._require_end(targets, start, end)
        ticks = self.ticks(start, end)
        self._take((job, number), targets, ticks)
        # In units, because a merge may make a pool larger before the commit.
        self.stages[number] = (job, list(self._wanted(targets).items()), ticks, self.now + life)

    def release(self, number: int) -> None:
        if number not in self.stages:
            raise Refused(["StaleHandle"])
        job = self.stages.pop(number)[0]
        for rows in self.given.values():
            for row in rows:
                row.pop((job, number), None)
        self.settle()

    def commit(self, number: int) -> None:
        """The stage becomes an allocation. Its units are taken already, so only records below an exclusive pool prevent it."""
        if number not in self.stages:
            raise Refused(["StaleHandle"])
        job, targets, ticks, _ = self.stages[number]
        wanted = self._wanted(targets)
        if faults := self._not_whole(job, wanted, ticks):
            raise Refused(faults)
        self.release(number)
        states, cut_off = [(pool, pool["state"]) for pool in self.pools.values()], self.cut_off
        self.cut_off = set()
        for pool, _ in states:
            pool["state"] = "up"  # pools that went down since the staging are kept nevertheless (A7)
        self._take(job, targets, ticks)
        self.cut_off = cut_off
        for pool, state in states:
            pool["state"] = state

    def pass_time(self, now: int) -> None:
        self.now = now
        for number in [n for n, stage in self.stages.items() if stage[3] <= now]:
            self.release(number)
