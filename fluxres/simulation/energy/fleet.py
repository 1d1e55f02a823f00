"""The nodes of a simulated machine as electrical devices: which are on, which are off, and what they have drawn.

The simulator says which job gets its nodes when, and when it ends.  Everything else follows from that and from the rules of
power saving, so it is made up for whenever the simulator calls, without events of its own: at one moment nodes that have been
switched on come first, then what the simulator does, then nodes that have been idle for long enough.  Powers are whole
microwatts and times whole microseconds, hence energies are whole picojoules.

A job that has its nodes may wait for some of them.  Until it starts nothing runs on those that are on.
"""

from __future__ import annotations

from array import array
from dataclasses import replace
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from fluxres.arrays import Floats, Int32, Int64
from fluxres.clock import FOREVER, TICKS_PER_S, ticks
from fluxres.errors import UsageError
from fluxres.simulation.disturbances.external import STATES
from fluxres.simulation.energy import node_power
from fluxres.simulation.energy.energy import CATEGORIES, Energy, EnergyUse
from fluxres.simulation.energy.node_power import MICROWATTS
from fluxres.simulation.energy.power_saving import MinuteLimit
from fluxres.simulation.metrics import Averages

if TYPE_CHECKING:
    from fluxres.graph.structure import Structure
    from fluxres.instance import Job
    from fluxres.simulation.energy.power_cap import PowerCap
    from fluxres.simulation.machine import Machine


_COMPUTING, _IDLE, _SLEEPING, _SWITCHING_ON, _SWITCHING_OFF, _UNAVAILABLE = range(len(CATEGORIES))
_ON, _STOPPING, _OFF, _BOOTING = range(4)
_IN_SERVICE, _DOWN, _REMOVED = range(3)
_OFFLINE: Final = {STATES["down"]: _DOWN, STATES["remove"]: _REMOVED}
_RUN: Final = 4
"""The beginning of a job, among the changes to come; the others are states of nodes."""


class _Held:
    """What a job holds, and what it has consumed.

    Args:
        nodes: their numbers.
        cores: that it holds of each; None for all.
    """

    __slots__ = ("cores", "energy", "is_over", "is_running", "job", "nodes", "since", "watts")

    def __init__(self, job: Job, nodes: Int64, cores: Int64 | None) -> None:
        self.job = job
        self.nodes = nodes
        self.cores = cores
        self.is_running = self.is_over = False
        self.energy = self.watts = self.since = 0

    def settle(self, now: int) -> None:
        self.energy += self.watts * (now - self.since)
        self.since = now


class _Change(NamedTuple):
    """Something that comes: nodes change their state, or a job begins."""

    at: int
    order: int
    kind: int
    nodes: Int64
    versions: Int64
    job: _Held | None


class _Map:
    """The nodes of an instance's graph, and their numbers in the machine."""

    def __init__(self, own: Structure, whole: Structure, each: str) -> None:
        self.structure = own
        self.vertices = own.of_type(each)
        if own is whole:
            self.numbers = np.arange(len(self.vertices), dtype=np.int64)
        else:
            place = {v: at for at, v in enumerate(whole.of_type(each).tolist())}
            paths = (own.path(v) for v in self.vertices.tolist())
            self.numbers = np.array([place[whole.vertex(path)] for path in paths], np.int64)
        self.cores_before = np.zeros(own.n + 1, np.int64)
        if "core" in own.types:
            cores = own.of_type("core")
            self.cores_before[cores + 1] = own.size[cores]
            np.cumsum(self.cores_before, out=self.cores_before)
            self.core = own.types.index("core")
        else:
            self.core = -1

    def held(self, vertices: list[int], amounts: list[int] | None) -> tuple[Int64, Int64 | None]:
        """The nodes of pools, and how many of their cores these are; None for all.

        Args:
            amounts: units of each pool; None for all.
        """
        if not vertices:
            return self.numbers[:0], None
        own, pools = self.structure, np.array(vertices, np.int64)
        ends = own.end[pools]
        first, stop = (np.searchsorted(self.vertices, bound) for bound in (pools, ends))
        whole = first < stop
        if whole.all():
            ranges = [np.arange(low, high) for low, high in zip(first.tolist(), stop.tolist(), strict=True)]
            return self.numbers[np.unique(np.concatenate(ranges))], None
        cores: dict[int, int] = {}
        for at, v in enumerate(vertices):
            if whole[at]:
                for node in range(int(first[at]), int(stop[at])):
                    cores[node] = 1 << 40
                continue
            node = int(first[at]) - 1
            if node < 0 or v >= own.end.item(int(self.vertices[node])):
                continue  # in no node
            number = int(self.cores_before[ends[at]] - self.cores_before[v])
            if amounts is not None and own.type.item(v) == self.core:
                number = amounts[at]
            cores[node] = cores.get(node, 0) + number
        nodes = sorted(cores)
        return self.numbers[np.array(nodes, np.int64)], np.array([cores[node] for node in nodes], np.int64)


class Fleet:
    """The nodes of a machine.

    Args:
        machine: if it has no nodes, each unit of it is one.  Units of one pool, which have no names, are chosen here: those that
            are on, then those that are being switched on or off, then those that are off.

    Moments ascend from call to call.

    Errors: UsageError for a node whose draw is not known.
    """

    def __init__(self, machine: Machine, settings: Energy) -> None:
        structure = machine.graph.structure
        self.machine = machine
        self.saving, self.cap = settings.saving, settings.cap
        self.each = "node" if "node" in structure.types else machine.unit
        pools = structure.of_type(self.each)
        self.has_names = bool((structure.size[pools] == 1).all())
        self._maps: WeakKeyDictionary[Any, _Map] = WeakKeyDictionary()
        self._whole = _Map(structure, structure, self.each)
        numbers = structure.size[pools].astype(np.int64)
        cores = self._whole.cores_before[structure.end[pools]] - self._whole.cores_before[pools]
        self._cores = np.repeat(np.maximum(cores // numbers, 1), numbers)
        fixed = np.repeat(_draws(structure, pools, np.maximum(cores // numbers, 1), settings), numbers, axis=0).T
        self._idle, self._epsilon, self._full, self._off, self._resume, self._suspend = fixed
        self.at_rest: Int64 = np.max((self._idle, self._epsilon, self._off, self._suspend), axis=0)
        """Microwatts that nodes draw at most without jobs, or with jobs that hold no core."""
        self.in_use: Int64 = np.maximum(self._full, self._resume) - self.at_rest
        """Microwatts that they draw beyond that at most."""
        count = int(numbers.sum())
        if int(fixed.max()) * count >= 2**63:
            raise UsageError(f"{count} nodes draw more than can be added up", where="energy")
        self.longest_wait = self.saving.longest_wait(count)
        self._state = np.zeros(count, np.int8)
        self._offline = np.zeros(count, np.int8)
        self._version = np.zeros(count, np.int64)
        self._holders = np.zeros(count, np.int64)
        self._runs = np.zeros(count, np.int64)
        self._cores_used = np.zeros(count, np.int64)
        self._ready_at = np.full(count, -FOREVER, np.int64)
        self._off_at = np.full(count, -FOREVER, np.int64)
        self._idle_since = np.full(count, FOREVER, np.int64)
        self._watts = np.zeros(count, np.int64)
        self._category = np.full(count, _IDLE, np.int8)
        self._counts = [0] * len(CATEGORIES)
        self._counts[_IDLE] = count
        self._powers = [0] * len(CATEGORIES)
        self._coming: list[_Change] = []
        self._made = 0
        self._held: dict[int, _Held] = {}
        self._sharers: dict[int, set[_Held]] = {}
        self._suspends, self._resumes = MinuteLimit(self.saving.suspend_rate), MinuteLimit(self.saving.resume_rate)
        self._next = FOREVER
        """No node is switched off before this moment."""
        self._now = 0
        self._begin: int | None = None
        self._times = [0] * len(CATEGORIES)
        self._energies = [0] * len(CATEGORIES)
        self._boots = self._shutdowns = self._grouped = self._peak = 0
        self._use: EnergyUse | None = None
        self._moments, self._curve = array("q"), array("q")
        self._update(np.arange(count))

    def move_to(self, machine: Machine) -> None:
        """Continue with the same machine in another graph, in which pools of the tree have the same numbers."""
        self.machine = machine
        self._whole = _Map(machine.graph.structure, machine.graph.structure, self.each)

    # -- what the simulator says ---------------------------------------------------------------------------------------

    def begin(self, now: int) -> None:
        """The first submission: all nodes in service are on and idle from here on, and energy counts."""
        if self._begin is None:
            self._begin = self._now = now
            self._idled(np.arange(len(self._state)), now)
            self._note()
            self.look(now)

    def start(self, job: Job, now: int, earliest: int) -> int:
        """Give a job the nodes of its claim, and let it run as soon as all are on; returns that moment.

        Args:
            earliest: when it would start if all were on.
        """
        ready = self.hold(job, now, earliest)
        held = self._held[id(job)]
        if ready <= now:
            self._run(held, now)
        else:
            self._push(ready, _RUN, held.nodes[:0], held)
            self._advance(now)
        return ready

    def hold(self, job: Job, now: int, earliest: int) -> int:
        """Give a job the nodes of its claim, and switch on those that are off; returns the moment at which all are on."""
        self.begin(now)
        self._advance(now)
        nodes, cores = self._nodes_of(job, now)
        self._held[id(job)] = _Held(job, nodes, cores)
        self._holders[nodes] += 1
        self._idle_since[nodes] = FOREVER
        returned = nodes[self._offline[nodes] != _IN_SERVICE]
        if returned.size:  # repaired or added at this moment
            self._offline[returned] = _IN_SERVICE
            self._update(returned)
        asleep = nodes[((self._state[nodes] == _OFF) | (self._state[nodes] == _STOPPING)) & (self._ready_at[nodes] <= now)]
        if asleep.size:
            self._boot(asleep, earliest)
        return max(int(self._ready_at[nodes].max(initial=earliest)), earliest)

    def run(self, job: Job, now: int) -> None:
        """Let a job run whose nodes are on."""
        self._advance(now)
        self._run(self._held[id(job)], now)

    def stop(self, job: Job, now: int) -> None:
        """A job has ended; it keeps its nodes, on which nothing runs, until `end`."""
        held = self._held.get(id(job))
        if held is not None and held.is_running:
            self._advance(now)
            self._stop(held, now)
            self._update(held.nodes)
            self._use = self._so_far()

    def _stop(self, held: _Held, now: int) -> None:
        held.settle(now)
        self._load(held, -1)
        held.is_running = False

    def end(self, job: Job, now: int) -> int:
        """Take the nodes of a job back; returns what they consumed while it ran, in picojoules; 0 for a job without nodes."""
        held = self._held.pop(id(job), None)
        if held is None:
            return 0
        self._advance(now)
        held.is_over = True
        nodes = held.nodes
        was_running = held.is_running
        if was_running:
            self._stop(held, now)
        self._holders[nodes] -= 1
        free = nodes[(self._holders[nodes] == 0) & (self._state[nodes] == _ON)]
        self._idled(free[self._offline[free] == _IN_SERVICE], now)
        self._update(nodes)
        if was_running:
            self._use = self._so_far()
        return held.energy

    def resize(self, job: Job, now: int) -> None:
        """Move a running job to the nodes of its claim, which has another size; all nodes are on."""
        held = self._held[id(job)]
        self._advance(now)
        held.settle(now)
        before = held.nodes
        if self.has_names:
            nodes, cores = self._nodes_of(job, now)
        else:
            count = job.instance.inventory.count(job.claim)
            more = self._chosen(max(count - len(before), 0), now)
            nodes, cores = np.concatenate((before, more))[:count], None
        self._load(held, -1)
        self._holders[before] -= 1
        held.nodes, held.cores = nodes, cores
        self._holders[nodes] += 1
        self._load(held, 1)
        self._idle_since[nodes] = FOREVER
        free = before[(self._holders[before] == 0) & (self._offline[before] == _IN_SERVICE)]
        self._idled(free, now)
        self._update(np.union1d(before, nodes))
        held.watts = int(self._watts[nodes].sum())

    def look(self, now: int) -> None:
        """Notice which nodes are down or removed, and which are back: those are on."""
        if not self.has_names or self._begin is None:
            return
        self._advance(now)
        structure = self.machine.graph.structure
        offline = np.zeros(len(self._state), np.int8)
        for root in structure.unavailable_roots().tolist():
            found = _OFFLINE.get(structure.state_name(root))
            if found is not None:
                first, stop = np.searchsorted(self._whole.vertices, (root, structure.end.item(root)))
                offline[first:stop] = found
        changed = np.flatnonzero(offline != self._offline)
        self._offline[changed] = offline[changed]
        unused = changed[self._holders[changed] == 0]
        self._version[unused] += 1
        self._state[unused] = _ON
        self._ready_at[unused] = -FOREVER
        self._idle_since[unused] = FOREVER
        self._idled(unused[offline[unused] == _IN_SERVICE], now)
        self._update(changed)

    def use(self) -> EnergyUse:
        """What was consumed from the first submission to the last end of a job."""
        found = self._use or self._so_far()
        return found if self.cap is None else replace(found, over_cap=self._over(self.cap, found.end))

    def _over(self, cap: PowerCap, last: int) -> int:
        """How long the nodes drew more than the cap."""
        moments, power = self.curve()
        ends = np.append(moments[1:], last)
        total = 0
        for begin, end, watts in cap.intervals():
            lengths = np.minimum(np.minimum(ends, end), last) - np.maximum(moments, begin)
            total += int(np.maximum(lengths, 0)[power > round(watts * MICROWATTS)].sum())
        return total

    def curve(self) -> tuple[Int64, Int64]:
        """The moments at which the draw of the machine changed, and the microwatts from each of them on."""
        return np.frombuffer(self._moments, np.int64), np.frombuffer(self._curve, np.int64)

    def averages(self, begin_s: float, part_s: float, parts: int) -> Floats:
        """The draw of the machine in watts, averaged over equal intervals; see `Series.over_time`."""
        moments, power = self.curve()
        edges: Floats = ((begin_s + part_s * np.arange(parts + 1)) * TICKS_PER_S).astype(np.float64)
        drawn = Averages(edges)
        drawn.add(moments, np.diff(power, prepend=0))
        return drawn.averages() / MICROWATTS

    # -- time ----------------------------------------------------------------------------------------------------------

    def _advance(self, now: int) -> None:
        """Make everything happen that comes until now, and nodes switch off that are due before."""
        while True:
            coming = self._coming[0].at if self._coming else FOREVER
            if coming <= now and coming <= self._next:
                change = heappop(self._coming)
                self._integrate(change.at)
                self._apply(change)
            elif self._next < now:
                self._integrate(self._next)
                self._switch_off(self._next)
            else:
                break
        self._integrate(now)

    def _integrate(self, now: int) -> None:
        length = now - self._now
        if length <= 0 or self._begin is None:
            self._now = max(self._now, now)
            return
        for at, power in enumerate(self._powers):
            self._energies[at] += power * length
            self._times[at] += self._counts[at] * length
        self._peak = max(self._peak, sum(self._powers))
        self._now = now

    def _apply(self, change: _Change) -> None:
        if change.job is not None:
            if not change.job.is_over:
                self._run(change.job, change.at)
            return
        nodes = change.nodes[self._version[change.nodes] == change.versions]
        self._state[nodes] = change.kind
        if change.kind == _BOOTING:
            self._boots += int(nodes.size)
        if change.kind == _ON:
            free = nodes[(self._holders[nodes] == 0) & (self._offline[nodes] == _IN_SERVICE)]
            self._idled(free, change.at)
        self._update(nodes)

    def _push(self, at: int, kind: int, nodes: Int64, job: _Held | None = None) -> None:
        self._made += 1
        heappush(self._coming, _Change(at, self._made, kind, nodes, self._version[nodes], job))

    def _run(self, held: _Held, now: int) -> None:
        nodes = held.nodes
        held.is_running, held.since = True, now
        self._load(held, 1)
        self._update(nodes)
        held.watts = int(self._watts[nodes].sum())

    def _load(self, held: _Held, sign: int) -> None:
        """Count a job that runs on its nodes (1), or no longer does (-1)."""
        nodes, cores = held.nodes, held.cores
        self._runs[nodes] += sign
        self._cores_used[nodes] += sign * (self._cores[nodes] if cores is None else np.minimum(cores, self._cores[nodes]))
        if cores is None:
            return
        for node in nodes.tolist():
            sharers = self._sharers.setdefault(node, set())
            (sharers.add if sign > 0 else sharers.discard)(held)

    # -- switching -----------------------------------------------------------------------------------------------------

    def _idled(self, nodes: Int64, now: int) -> None:
        """Begin to wait until nodes without jobs are to be switched off."""
        self._idle_since[nodes] = now
        if self.saving.suspend_time_s is not None and nodes.size:
            # One more idle node may be what others were kept on for, which have been idle for longer.
            self._next = min(self._next, now if self.saving.keep_idle else now + ticks(self.saving.suspend_time_s))

    def _switch_off(self, now: int) -> None:
        """Switch off nodes that are due, those that have been idle for longest, and the highest of these."""
        assert self.saving.suspend_time_s is not None  # otherwise none is due
        idle = np.flatnonzero(self._idle_since < FOREVER)
        surplus = idle.size - self.saving.keep_idle
        due = self._idle_since[idle] + ticks(self.saving.suspend_time_s)
        chosen = idle[np.lexsort((-idle, due))][: max(min(surplus, int((due <= now).sum())), 0)]
        if self.saving.suspend_rate:
            allowed = 0
            while allowed < chosen.size and self._suspends.next(now) == now:
                self._suspends.take(now)
                allowed += 1
            chosen = chosen[:allowed]
        if chosen.size:
            self._idle_since[chosen] = FOREVER
            self._state[chosen] = _STOPPING
            self._shutdowns += int(chosen.size)
            self._grouped += 1
            self._ready_at[chosen] = -FOREVER
            self._off_at[chosen] = now + ticks(self.saving.suspend_s)
            self._push(now + ticks(self.saving.suspend_s), _OFF, chosen)
            self._update(chosen)
        left = np.sort(self._idle_since[self._idle_since < FOREVER])
        earliest = int(left[0]) + ticks(self.saving.suspend_time_s) if left.size > self.saving.keep_idle else FOREVER
        self._next = max(self._suspends.next(max(earliest, now)), earliest) if earliest < FOREVER else FOREVER

    def _boot(self, nodes: Int64, earliest: int) -> None:
        """Switch on nodes that are off, or are once they have been switched off."""
        self._grouped += 1
        wanted = np.maximum(self._off_at[nodes], earliest)
        order = np.lexsort((nodes, wanted))
        if self.saving.resume_rate:
            begins = np.array([self._resumes.take(int(wanted[at])) for at in order], np.int64)
        else:
            begins = wanted[order]
        nodes = nodes[order]
        self._ready_at[nodes] = begins + ticks(self.saving.resume_s)
        for begin in np.unique(begins).tolist():
            own = nodes[begins == begin]
            self._push(begin, _BOOTING, own)
            self._push(begin + ticks(self.saving.resume_s), _ON, own)
        self._advance(self._now)

    # -- nodes ---------------------------------------------------------------------------------------------------------

    def _update(self, nodes: Int64) -> None:
        """Compute again what nodes draw."""
        state, offline = self._state[nodes], self._offline[nodes]
        runs = self._runs[nodes] > 0
        is_out = (offline != _IN_SERVICE) & (self._holders[nodes] == 0)
        used = node_power.loaded(self._epsilon[nodes], self._full[nodes], self._cores_used[nodes], self._cores[nodes])
        by_state = (self._idle[nodes], self._suspend[nodes], self._off[nodes], self._resume[nodes])
        watts = np.where(
            runs, used, np.where(is_out, np.where(offline == _DOWN, self._off[nodes], 0), np.choose(state, by_state))
        )
        kinds = np.array([_IDLE, _SWITCHING_OFF, _SLEEPING, _SWITCHING_ON], np.int8)[state]
        category = np.where(runs, _COMPUTING, np.where(is_out, _UNAVAILABLE, kinds)).astype(np.int8)
        before, was = self._watts[nodes], self._category[nodes]
        more = np.zeros(len(CATEGORIES), np.int64)
        np.add.at(more, category, watts)
        np.subtract.at(more, was, before)
        counts = np.bincount(category, minlength=len(CATEGORIES)) - np.bincount(was, minlength=len(CATEGORIES))
        self._powers = [power + added for power, added in zip(self._powers, more.tolist(), strict=True)]
        self._counts = [count + added for count, added in zip(self._counts, counts.tolist(), strict=True)]
        if self._sharers:
            for node, change in zip(nodes.tolist(), (watts - before).tolist(), strict=True):
                for held in self._sharers.get(node, ()) if change else ():
                    held.settle(self._now)
                    held.watts += change
        self._watts[nodes], self._category[nodes] = watts, category
        self._note()

    def _note(self) -> None:
        """Append the present draw to the curve."""
        if self._begin is None:
            return
        power = sum(self._powers)
        if self._moments and self._moments[-1] == self._now:
            self._curve[-1] = power
        elif not self._curve or self._curve[-1] != power:
            self._moments.append(self._now)
            self._curve.append(power)

    def _so_far(self) -> EnergyUse:
        return EnergyUse(
            self._begin or 0,
            self._now,
            len(self._state),
            tuple(self._energies),
            tuple(self._times),
            self._peak,
            self._boots,
            self._shutdowns,
            self._grouped,
        )

    def _nodes_of(self, job: Job, now: int) -> tuple[Int64, Int64 | None]:
        inventory = job.instance.inventory
        if not self.has_names:
            return self._chosen(inventory.count(job.claim), now), None
        own = inventory.graph.structure
        found = self._whole if own is self._whole.structure else self._maps.get(inventory.graph)
        if found is None or found.structure is not own:
            found = self._maps[inventory.graph] = _Map(own, self._whole.structure, self.each)
        vertices = inventory.vertices(job.claim)
        parts = None if (own.size[vertices] == 1).all() else [amount for _, amount in inventory.pools(job.claim)]
        return found.held(vertices, parts)

    def _chosen(self, count: int, now: int) -> Int64:
        """Units without names for a job."""
        if (missing := count - int((self._holders == 0).sum())) > 0:  # their jobs end at this moment
            late = np.concatenate([held.nodes for held in self._held.values() if held.job.limit <= now])
            lent = late[self._holders[late] == 1][:missing]
        else:
            lent = np.zeros(0, np.int64)
        free = np.flatnonzero(self._holders == 0)
        rank = np.array([0, 2, 3, 1])[self._state[free]]
        return np.concatenate((free[np.lexsort((free, rank))][: count - lent.size], lent))


def _draws(structure: Structure, pools: Int32, cores: Int64, settings: Energy) -> Int64:
    """By pool, what `NodePower.fixed` returns."""
    known: dict[tuple[int, int], tuple[int, ...]] = {}
    rows = []
    for v, number in zip(pools.tolist(), cores.tolist(), strict=True):
        key = structure.kind.item(v), number
        if key not in known:
            own = node_power.of_properties(dict(structure.kind_of(v).properties), number, structure.path(v)) or settings.node
            if own is None:
                raise UsageError(
                    f"what {structure.path(v)} draws is not known",
                    where="energy",
                    hint="give energy for all nodes, or the property wattage_per_state",
                )
            known[key] = own.fixed()
        rows.append(known[key])
    return np.array(rows, np.int64).reshape(-1, 6)
