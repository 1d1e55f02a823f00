"""Random malleable workloads with energy: what nodes and jobs consume, computed anew from who held which cores when.

``python -m tests.simulation.energy.resized_run --cases 1000 --seed 1``.

All nodes are always on, so the draw of a node follows from what its jobs hold.  The oracle cuts time at the recorded moments and
adds up whole picojoules between them.
"""

from __future__ import annotations

import sys
from fractions import Fraction
from random import Random
from typing import Any

from fluxres.clock import FOREVER
from fluxres.instance import Job
from fluxres.simulation.adaptive.adaptive import Adaptive
from fluxres.simulation.adaptive.malleable import POLICIES
from fluxres.simulation.adaptive.speedup import parse
from fluxres.simulation.disturbances.external import Disturbances, ExternalEvent
from fluxres.simulation.energy.energy import CATEGORIES, Energy
from fluxres.simulation.energy.node_power import NodePower
from fluxres.simulation.events import EVENT_ORDERS
from fluxres.simulation.machine import Machine, of_number, of_shape
from fluxres.simulation.nesting.hierarchy import Hierarchy
from fluxres.simulation.simulator import Simulator
from fluxres.simulation.workload.workload import Submission
from fluxres.syntax import count
from tests.simulation.campaigns import campaign

S = 1_000_000
MICRO = 1_000_000
Change = tuple[int, str, Any, Any]


class Recorded(Simulator):
    """A simulator that records which cores of which nodes each job has from when on."""

    log: list[Change]

    def _note(self, job: Job) -> None:
        structure, held = self.machine.graph.structure, {}
        own = job.instance.inventory.graph.structure
        nodes = [structure.path(v) for v in structure.of_type("node").tolist()]
        for path, units in job.pools:
            at = next((number for number, node in enumerate(nodes) if f"{path}/".startswith(f"{node}/")), None)
            if at is None:  # units without names
                held.update(dict.fromkeys(range(units), None))
            elif own.types[own.type.item(own.vertex(path))] == "node":
                held[at] = None
            else:
                held[at] = held.get(at, 0) + units
        self.log.append((self.clock.now, "has", job, held))

    def _switch_on(self, job: Job, moment: int) -> int:
        found = super()._switch_on(job, moment)
        self._note(job)
        return found

    def _move_end(self, job: Job, end: int) -> None:
        super()._move_end(job, end)
        self._note(job)

    def _record(self, job: Job, end: int, result: str, **more: Any) -> Any:
        found = super()._record(job, end, result, **more)
        self.log.append((end, "ends", job, (found.energy, found.start)))
        return found

    def _on_disturbance(self, event: Any) -> None:
        super()._on_disturbance(event)
        structure = self.machine.graph.structure
        for at, v in enumerate(structure.of_type("node").tolist()):
            self.log.append((self.clock.now, "state", at, {"down": "down", "inactive": "removed"}.get(structure.state_name(v))))


class Meter:
    """The oracle."""

    def __init__(self, size: int, cores: int, watts: tuple[int, int, int, int], now: int, *, has_names: bool) -> None:
        self.size, self.cores, self.now, self.has_names = size, cores, now, has_names
        self.idle, self.epsilon, self.full, self.off = (MICRO * each for each in watts)
        self.held: dict[Any, dict[int, int | None]] = {}
        self.states: dict[int, str | None] = {}
        self.energy: dict[Any, int] = {}
        self.sums = dict.fromkeys(CATEGORIES, 0)

    def power(self, at: int) -> tuple[str, int]:
        used = [own[at] for own in self.held.values() if at in own]
        if used:
            number = min(sum(self.cores if each is None else each for each in used), self.cores)
            exact = self.epsilon + Fraction((self.full - self.epsilon) * number, self.cores)
            return "computing", int(exact + Fraction(1, 2))
        if state := self.states.get(at):
            return "unavailable", self.off if state == "down" else 0
        return "idle", self.idle

    def until(self, moment: int) -> None:
        if not self.has_names:  # the units of a job are any, and all draw the same
            for job, own in self.held.items():
                self.energy[job] = self.energy.get(job, 0) + self.full * len(own) * (moment - self.now)
            used = sum(map(len, self.held.values()))
            self.sums["computing"] += self.full * used * (moment - self.now)
            self.sums["idle"] += self.idle * (self.size - used) * (moment - self.now)
            self.now = moment
            return
        powers = [self.power(at) for at in range(self.size)]
        for category, watts in powers:
            self.sums[category] += watts * (moment - self.now)
        for job, own in self.held.items():
            self.energy[job] = self.energy.get(job, 0) + sum(powers[at][1] for at in own) * (moment - self.now)
        self.now = moment


def differences(seed: int) -> list[str]:
    """What differs between a simulation and the oracle."""
    random = Random(seed)
    size, cores, shape = random.randrange(2, 8), random.choice((1, 2, 4)), random.choice(("nodes", "cores", "counted"))
    idle = random.randrange(50, 150)
    epsilon = random.choice((idle, idle + random.randrange(30)))
    watts = idle, epsilon, epsilon + random.randrange(200), random.randrange(20)
    hierarchy, policy = None, random.choice(("fcfs", "easy", "conservative"))
    if shape == "counted":
        machine, cores = Machine(of_number(size)), 1
    else:
        machine = Machine(of_shape(f"node={size}/core={cores}"), "node" if shape == "nodes" else "core")
        if random.random() < 0.3:
            hierarchy = Hierarchy((2,), (policy,), ("first",))
    most = max(machine.count // (1 if hierarchy is None else 2), 1)
    events: list[ExternalEvent] = []
    if shape != "counted" and hierarchy is None:
        for _ in range(random.randrange(4)):
            action = random.choice(("down", "up", "remove", "add", "drain"))
            events.append(ExternalEvent(random.randrange(1, 80) * S, action, f"node{random.randrange(size)}"))
    simulator = Recorded(
        machine,
        queue_policy=policy,
        hierarchy=hierarchy,
        size_policy=random.choice(("requested", "greedy", "earliest-finish")),
        resize_policy=random.choice([each for each in POLICIES if each != "none"]),
        inventory=random.choice(("auto", "graph")),
        event_order=random.choice(list(EVENT_ORDERS)),
        disturbances=Disturbances(events, random.choice(("fail", "requeue"))),
        energy=Energy(NodePower(float(watts[0]), float(watts[2]), float(watts[1]), float(watts[3]))),
    )
    simulator.log = []
    jobs = _jobs(random, most)
    result = simulator.run(jobs)
    found = [f"{policy}: {problem}" for problem in simulator.instance.check()]
    meter, has_run = Meter(size, cores, watts, jobs[0].submit, has_names=shape != "counted"), False
    sums: dict[str, int] = {}
    for moment, what, key, value in simulator.log:
        if moment > meter.now:
            meter.until(moment)
        if what == "state":
            meter.states[key] = value
        elif what == "has":
            meter.held[key] = value
        else:
            meter.held.pop(key, None)
            expected = meter.energy.pop(key, 0)
            if (value[0] or 0) != expected:
                found.append(f"{policy} {shape} {cores} cores {watts}: job {key.payload.id} consumed {expected}, got {value[0]}")
            if value[1] >= 0:
                has_run, sums = True, dict(meter.sums)
    if has_run:
        assert result.energy is not None
        got = dict(zip(CATEGORIES, result.energy.energies, strict=True))
        found += [f"{policy} {shape}: {name} {sums[name]}, got {got[name]}" for name in CATEGORIES if sums[name] != got[name]]
    return found


def _jobs(random: Random, most: int) -> list[Submission]:
    found, at = [], 0
    for number in range(random.randrange(3, 14)):
        at += random.choice((0, 0, 1, 5, 20)) * S
        low = random.randrange(1, most + 1)
        high, run = random.randrange(low, most + 1), random.randrange(1, 30) * S
        adaptive = None
        if low < high:
            pause = random.choice((0, 0, 2)) * S
            model = random.choice(("linear", "amdahl:serial=0.1"))
            adaptive = Adaptive(count.parse(f"{low}-{high}"), low, parse(model), random.random() < 0.8, pause)
        limit = FOREVER if random.random() < 0.1 else max(run + random.choice((0, 4, -2)) * S, S)
        found.append(Submission(number, at, run, limit, low, adaptive=adaptive))
    return found


if __name__ == "__main__":
    sys.exit(campaign(__doc__, differences))
