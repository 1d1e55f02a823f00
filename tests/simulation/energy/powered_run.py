"""Random simulations with energy, compared with an oracle.

``python -m tests.simulation.energy.powered_run --cases 1000 --seed 1``.

Two kinds.  A scheduler of its own, second by second (`powered.py`), gives the start, end, nodes and energy of each job, and the
energy and time of nodes in each state.  For other policies, requests of cores, and hierarchies, the nodes of the recorded
allocations are switched and integrated second by second.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from random import Random
from typing import Any

from fluxres.clock import FOREVER, TICKS_PER_S
from fluxres.instance import Job
from fluxres.instance.accounting import Accounting, PartitionLimits, User
from fluxres.simulation.costs.cost import Fitted
from fluxres.simulation.costs.overheads import LevelCost, Overheads
from fluxres.simulation.disturbances.attempts import NOTHING_SAVED, Checkpoint
from fluxres.simulation.disturbances.external import Disturbances, ExternalEvent
from fluxres.simulation.energy.energy import CATEGORIES, Energy
from fluxres.simulation.energy.node_power import NodePower
from fluxres.simulation.energy.power_cap import PowerCap
from fluxres.simulation.energy.power_saving import PowerSaving
from fluxres.simulation.machine import Machine, of_number, of_shape
from fluxres.simulation.nesting.hierarchy import Hierarchy
from fluxres.simulation.simulator import Simulator
from fluxres.simulation.workload.workload import Submission
from fluxres.syntax import idset
from tests.simulation.campaigns import campaign
from tests.simulation.disturbances import disturbed_run
from tests.simulation.disturbances.disturbed import NEVER, Saving
from tests.simulation.disturbances.disturbed import Job as OracleJob
from tests.simulation.disturbances.disturbed_run import Kept
from tests.simulation.energy.powered import Plant, Powered, Rules, Watts


def draw(random: Random) -> tuple[Watts, Rules, Energy]:
    """Random powers and rules, for the oracle and for the simulator."""
    idle = random.randrange(50, 150)
    epsilon = random.choice((idle, idle + random.randrange(30)))
    full = epsilon + random.randrange(200)
    watts = Watts(idle, epsilon, full, random.randrange(20), random.choice((full, 77)), random.choice((idle, 33)))
    node = NodePower(*map(float, (watts.idle, watts.full, watts.epsilon, watts.off, watts.resume, watts.suspend)))
    rules = Rules(None, 0, 0, 0, 0, 0)
    saving = PowerSaving()
    if random.random() < 0.9:
        rules = Rules(
            random.choice((0, 1, 3, 8, 20)),
            random.choice((0, 0, 2, 5)),
            random.choice((0, 1, 4, 9)),
            random.choice((0, 0, 1, 3)),
            random.choice((0, 0, 0, 1, 3)),
            random.choice((0, 0, 0, 2, 5)),
        )
        given = (rules.suspend_time, rules.suspend, rules.resume)
        saving = PowerSaving(
            *(None if value is None else float(value) for value in given), rules.keep, rules.suspend_rate, rules.resume_rate
        )
    return watts, rules, Energy(node, saving)


def differences(seed: int) -> list[str]:
    """What differs between a simulation and its oracle."""
    return scheduled(seed) if seed % 2 else replayed(seed)


# -- a scheduler of its own --------------------------------------------------------------------------------------------


def scheduled(seed: int) -> list[str]:
    random = Random(seed)
    kind, policy = random.choice(("named", "graph", "auto")), random.choice(("fcfs", "easy"))
    size, count, last = random.randrange(2, 9), random.randrange(3, 16), random.randrange(5, 120)
    watts, rules, energy = draw(random)
    requeues = random.random() < 0.6
    saving, checkpoint = Saving(), NOTHING_SAVED
    if requeues and random.random() < 0.5:
        saving = Saving(random.randrange(1, 8), random.randrange(3), random.randrange(3))
        checkpoint = Checkpoint(float(saving.interval), float(saving.save), float(saving.restart))
    jobs = []
    for number, submit in enumerate(sorted(random.randrange(last) for _ in range(count))):
        run = random.randrange(1, 20)
        limit = max(1, run + random.choice((0, 0, 0, 5, 10, -3)))
        jobs.append(OracleJob(number, submit, run, limit, random.randrange(1, size + 1)))
    first = jobs[0].submit
    events = disturbed_run.random_events(random, size, count, last, has_names=True) if random.random() < 0.5 else []
    events = [event for event in events if event[0] >= first]
    caps: list[tuple[int, int | None]] = []
    if kind != "named" and random.random() < 0.6:
        events = [event for event in events if event[1] != "reserve"]  # reserved nodes reserve their power
        base, at = size * watts.at_rest, random.choice((0, 0, 5))
        for _ in range(random.randrange(1, 4)):
            caps.append((at, random.choice((None, base + random.randrange(size * watts.in_use + 2)))))
            at += random.randrange(1, 40)
        caps.append((at, None))
        energy = replace(energy, cap=PowerCap(tuple((float(at), limit if limit is None else float(limit)) for at, limit in caps)))
    given = [
        Submission(job.id, job.submit * TICKS_PER_S, job.run * TICKS_PER_S, job.limit * TICKS_PER_S, job.count) for job in jobs
    ]
    for job in jobs:
        if saving.interval < NEVER:
            job.limit = len(saving.life(job.limit, True))
        job.limit += rules.longest(size)
    oracle = Powered(size, jobs, events, policy, True, requeues, saving)
    oracle.plant = Plant(size, 1, watts, rules, first)
    oracle.caps = caps
    oracle.run()
    kept = Kept()
    simulator = Simulator(
        Machine(of_shape(f"node={size}")),
        queue_policy=policy,
        inventory=kind,
        event_order="batched",
        disturbances=Disturbances(
            [disturbed_run.external(event) for event in events], "requeue" if requeues else "fail", checkpoint
        ),
        energy=energy,
        sinks=[kept],
    )
    result = simulator.run(given)
    found = [f"{kind} {policy}: {problem}" for problem in simulator.instance.check()]
    for job in jobs:
        record = kept.jobs.get(job.id)
        consumed = oracle.plant.energy.get(job.id, 0)
        begin = oracle.begins[job.id] if job.start >= 0 and oracle.begins[job.id] <= job.end else -1
        expected: tuple[Any, ...] = (job.status, begin, job.end, sorted(job.units) if job.start >= 0 else [], job.lost, consumed)
        if record is None:
            got: tuple[Any, ...] = ("wait", -1, -1, [], job.lost, consumed)
        else:
            units = sorted(idset.parse(record.allocated())) if record.allocated() else []
            lost = sum(each.area for each in record.earlier) // TICKS_PER_S
            start = record.start // TICKS_PER_S if record.start >= 0 else -1
            total = (record.energy or 0) + sum(each.energy or 0 for each in record.earlier)
            got = (record.result, start, record.end // TICKS_PER_S, units, lost, total // TICKS_PER_S)
        if got != expected:
            found.append(f"{kind} {policy} requeue={requeues} {rules}: job {job.id} expected {expected}, got {got}")
    if any(job.start >= 0 for job in jobs):
        *sums, over = oracle.sums
        found += totals(result.energy, *sums)
        if caps and result.energy.over_cap != over * TICKS_PER_S:
            found.append(f"{caps}: expected {over} s above the cap, got {result.energy.over_cap}")
    return found


def costs(random: Random) -> LevelCost:
    """Random costs of instances, in whole seconds."""
    ingest, decision, start, event, launch = (random.choice((0, 0, 0, 1, 3)) for _ in range(5))
    return LevelCost(Fitted(start_s=float(decision)), Overheads(ingest, start, event, launch_s=launch))


def totals(use: Any, joules: dict[str, int], times: dict[str, int], boots: int) -> list[str]:
    found = []
    for at, name in enumerate(CATEGORIES):
        expected = joules.get(name, 0), times.get(name, 0)
        got = use.energies[at] / TICKS_PER_S, use.times[at] / TICKS_PER_S
        if got != expected:
            found.append(f"{name}: expected {expected}, got {got}")
    if use.boots != boots:
        found.append(f"expected {boots} boots, got {use.boots}")
    return found


# -- recorded allocations ----------------------------------------------------------------------------------------------


class Recorded(Simulator):
    """A simulator that records who got which nodes when."""

    log: list[tuple[int, str, int, Any]]

    def _switch_on(self, job: Job, moment: int) -> int:
        found = super()._switch_on(job, moment)
        if self.processors is None:
            self._taken(job, found, moment)
        else:
            self.log.append((self.clock.now, "run", id(job), None))
        return found

    def hold_nodes(self, job: Job) -> int:
        found = super().hold_nodes(job)
        if isinstance(job.payload, Submission) and not job.payload.jobs:
            self._taken(job, found, self.clock.now)
        return found

    def _taken(self, job: Job, ready: int, earliest: int) -> None:
        assert self.fleet is not None
        held = self.fleet._held[id(job)]
        cores = self.fleet._cores[held.nodes] if held.cores is None else held.cores
        nodes = dict(zip(held.nodes.tolist(), cores.tolist(), strict=True))
        self.log.append((self.clock.now, "take", id(job), (nodes, earliest // TICKS_PER_S)))
        self.log.append((self.clock.now, "ready", id(job), ready))

    def _on_end(self, event: Any) -> None:
        job = event.job
        if self.processors is not None and isinstance(job.payload, Submission) and not job.payload.jobs:
            self.log.append((self.clock.now, "stop", id(job), None))
        super()._on_end(event)

    def _record(self, job: Job, end: int, result: str, **more: Any) -> Any:
        found = super()._record(job, end, result, **more)
        self.log.append((self.clock.now, "end", id(job), (found.energy, found.start, found.end)))
        return found

    def _on_disturbance(self, event: Any) -> None:
        super()._on_disturbance(event)
        structure = self.machine.graph.structure
        for at, v in enumerate(structure.of_type("node").tolist()):
            state = {"down": "down", "inactive": "removed"}.get(structure.state_name(v), "")
            self.log.append((self.clock.now, "state", at, state))


def replayed(seed: int) -> list[str]:
    random = Random(seed)
    size, cores = random.randrange(2, 8), random.choice((1, 2, 4))
    shape = random.choice(("nodes", "cores", "counted", "requests"))
    watts, rules, energy = draw(random)
    policy = random.choice(("fcfs", "easy", "conservative", "hybrid", "easy-sjbf"))
    hierarchy = None
    if shape == "counted":
        machine, units, cores = Machine(of_number(size)), size, 1
    else:
        machine = Machine(of_shape(f"node={size}/core={cores}"), "node" if shape == "nodes" else "core")
        units = machine.count
        if random.random() < 0.3 and shape != "requests":
            hierarchy = Hierarchy((2,), (policy,), ("first",))
            units = units // 2
    jobs, at = [], 0
    for number in range(random.randrange(3, 20)):
        at += random.choice((0, 0, 1, 5, 30))
        run = random.randrange(1, 20)
        ask: Any = random.randrange(1, max(units, 1) + 1)
        if shape == "requests":
            from fluxres.syntax.jobspec import as_request

            nodes = random.randrange(1, size + 1)
            ask = as_request(
                random.choice(
                    (f"slot={nodes}/node{{x}}", f"slot={ask}/core=1", f"slot={nodes}/node/core={random.randrange(1, cores + 1)}")
                )
            )
        limit = FOREVER if random.random() < 0.1 else (run + random.choice((0, 0, 4, -2))) * TICKS_PER_S
        jobs.append(Submission(number, at * TICKS_PER_S, run * TICKS_PER_S, max(limit, TICKS_PER_S), ask))
    events: list[ExternalEvent] = []
    if shape != "counted" and hierarchy is None and random.random() < 0.4:
        made = disturbed_run.random_events(random, size, len(jobs), at + 20, has_names=True)
        events = [disturbed_run.external(event) for event in made if shape == "nodes" or event[1] != "reserve"]
    inventory, order = random.choice(("auto", "graph")), random.choice(("sequential", "batched"))
    disturbances = Disturbances(events, random.choice(("fail", "requeue")))
    accounting, lengths = None, {}
    if hierarchy is None and random.random() < 0.4:
        accounting, lengths = limited(random, jobs)
    cost, slots = None, 0
    if not events and random.random() < 0.4:
        cost = [costs(random) for _ in range(1 if hierarchy is None else random.randint(1, 2))]
        slots = random.choice((0, 0, 1, 2)) if shape != "counted" else 0
        hierarchy = replace(hierarchy if hierarchy is not None else Hierarchy((), (policy,)), starts_per_node=slots)
    simulator = Recorded(
        machine,
        queue_policy=policy,
        hierarchy=hierarchy,
        inventory=inventory,
        event_order=order,
        disturbances=disturbances,
        energy=energy,
        accounting=accounting,
        cost=cost,
    )
    simulator.log = []
    result = simulator.run(jobs)
    found = [f"{policy}: {problem}" for problem in simulator.instance.check()]
    assert result.energy is not None
    assert result.schedule is not None
    if lengths and not events:
        schedule = result.schedule
        ran = {job: end - start for job, start, end in zip(schedule.ids, schedule.start, schedule.end, strict=True)}
        if ran != lengths:
            found.append(f"{policy} {shape} {rules}: jobs run for {ran}, expected {lengths}")
    first = jobs[0].submit // TICKS_PER_S
    plant = Plant(size, cores, watts, rules, first, waits=simulator.processors is not None)
    log = simulator.log
    for moment, what, key, value in log:
        if what == "state" and moment < jobs[0].submit:
            plant.set_state(key, value)
    sums: tuple[dict[str, int], dict[str, int], int] = {}, {}, 0
    ran = False
    for now in range(first, max((moment for moment, *_ in log), default=0) // TICKS_PER_S + 1):
        plant.changes()
        for moment, what, key, value in log:
            if moment != now * TICKS_PER_S:
                continue
            if what == "take":
                ready = plant.take(key, *value)
            elif what == "ready" and ready * TICKS_PER_S != value:
                found.append(f"{policy} {shape} {rules}: expected a start at {ready}, got {value / TICKS_PER_S}")
            elif what == "state":
                plant.set_state(key, value)
            elif what == "run":
                if any(plant.nodes[at].state != "on" for at in plant.waiting[key]):
                    found.append(f"{policy} {shape} {rules}: a job runs at {now} on nodes that are not on")
                plant.ready[key] = now
            elif what == "stop":
                if plant.ready.pop(key, None) is not None:
                    ran, sums = True, (dict(plant.joules), dict(plant.times), plant.boots)
            elif what == "end":
                was_ready = key in plant.ready
                consumed = plant.energy.pop(key, 0)
                plant.give_back(key)
                plant.changes()
                if (value[0] or 0) != consumed * TICKS_PER_S:
                    found.append(f"{policy} {shape} {cores} cores {watts} {rules}: job consumed {consumed}, got {value[0]}")
                if was_ready if plant.waits else value[1] >= 0:
                    ran, sums = True, (dict(plant.joules), dict(plant.times), plant.boots)
        plant.changes()
        plant.switch_off()
        plant.second()
    return found + (totals(result.energy, *sums) if ran else [])


def limited(random: Random, jobs: list[Submission]) -> tuple[Accounting, dict[int | str, int]]:
    """Rules of a site that limit times, and how long each job runs that they do not refuse."""
    most, unstated = random.randrange(4, 25), random.randrange(2, 25)
    kind = random.choice(("partition", "partition", "user"))
    if kind == "user":
        rules, unstated = Accounting(users={"ann": User(max_wall=most)}), most
        jobs[:] = [job._replace(user="ann") for job in jobs]
    else:
        unstated = min(unstated, most)
        rules = Accounting(partitions={"p": PartitionLimits(default=True, max_time=most, default_time=unstated)})
    limits = {job.id: unstated * TICKS_PER_S if job.limit >= FOREVER else job.limit for job in jobs}
    return rules, {job.id: min(job.run, limits[job.id]) for job in jobs if limits[job.id] <= most * TICKS_PER_S}


if __name__ == "__main__":
    sys.exit(campaign(__doc__, differences))
