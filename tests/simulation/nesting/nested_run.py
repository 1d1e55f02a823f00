"""Random nested simulations that must equal those of the oracle in `nested`, with energy; some are audited after every event.

``python -m tests.simulation.nesting.nested_run --cases 10000 --seed 1`` prints differences with their seeds;
the exit status is then 1.
"""

from __future__ import annotations

import argparse
import sys
from random import Random
from typing import Any

from fluxres.clock import seconds
from fluxres.graph.recipe import Recipe
from fluxres.instance import Instance, Job
from fluxres.simulation.costs.cost import Fitted
from fluxres.simulation.costs.overheads import LevelCost, Overheads
from fluxres.simulation.energy.energy import Energy
from fluxres.simulation.energy.node_power import MICROWATTS, NodePower
from fluxres.simulation.machine import Machine, _graph, of_number, of_shape
from fluxres.simulation.nesting.hierarchy import Hierarchy
from fluxres.simulation.result import Result
from fluxres.simulation.simulator import Simulator
from fluxres.simulation.workload.workload import Submission, Workload
from tests.simulation.nesting.nested import Case, Costs, Oracle, Source

IDLE_W = 100
INVENTORIES = ("auto", "named", "counted", "graph")


class Audited(Simulator):
    """A simulation that checks after every event that nothing is held twice, at any level (rule N1)."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.problems: list[str] = []
        self.is_audited = True
        self.begun: set[int | str] = set()

    def start(self, job: Job) -> None:
        super().start(job)
        if isinstance(job.payload, Submission):
            if job.payload.id in self.begun:
                self.problems.append(f"job {job.payload.id} starts twice")
            self.begun.add(job.payload.id)

    def _settle(self, site: Any, *, passed: bool = False) -> None:
        super()._settle(site, passed=passed)
        if self.is_audited and len(self.problems) < 5:
            self.problems += map(str, self.instance.check())
            self.problems += overlaps(self.instance)


def overlaps(instance: Instance) -> list[str]:
    """What jobs of an instance, or of one below, hold together more than once, or without their parent's job."""
    found: list[str] = []
    held: dict[str, int] = {}
    for job in instance.jobs():
        for path, units in job.pools:
            held[path] = held.get(path, 0) + units
        if isinstance(job.child, Instance) and not job.child.is_closed:
            own = dict(job.pools)
            for path, units in _held_below(job.child).items():
                if units > own.get(path, 0):
                    found.append(f"{job.child.address}: jobs hold {units} of {path}, their parent {own.get(path, 0)}")
            found += overlaps(job.child)
    structure = instance.graph.structure
    for path, units in held.items():
        if units > structure.size.item(structure.vertex(path)):
            found.append(f"{instance.address}: {units} units of {path} are held")
    return found


def _held_below(instance: Instance) -> dict[str, int]:
    held: dict[str, int] = {}
    for job in instance.jobs():
        for path, units in job.pools:
            held[path] = held.get(path, 0) + units
    return held


def machine_of(inventory: str, units: int, *, has_slots: bool = False) -> Machine:
    """Units without a node, or all of one node, since the oracle has one node."""
    if has_slots and inventory == "counted":
        cores = Recipe("core", 1, size=units, ids=None)
        return Machine(_graph(Recipe("cluster", children=(Recipe("node", 1, children=(cores,)),))), "core")
    if has_slots:
        return Machine(of_shape(f"node=1/core={units}"), "core")
    return Machine(of_number(units) if inventory == "counted" else of_shape(f"node={units}"))


def level_cost(given: Costs) -> LevelCost:
    """The costs of a level of a case."""
    decision = Fitted(base_s=seconds(given.decision), start_s=seconds(given.started))
    times = (seconds(each) for each in (given.ingest, given.start, given.event, given.spawn))
    return LevelCost(decision, Overheads(*times, given.messages, seconds(given.message), seconds(given.launch)))


def simulated(
    case: Case, inventory: str, *, is_audited: bool = True
) -> tuple[Audited, dict[int | str, tuple[int, int, int]], list[str]]:
    """The simulation of a case, its times as those of the oracle, and problems."""
    hierarchy = Hierarchy(
        case.fan_outs,
        ("fcfs",),
        boot_s=seconds(case.boot),
        sizes=case.sizes,
        larger=case.larger,
        balance=case.balance,
        elastic=case.elastic,
        starts_per_node=case.slots,
        divide=("core",) if case.slots else (),
    )
    machine = machine_of(inventory, case.units, has_slots=bool(case.slots))
    if case.slots and inventory == "named":
        inventory = "auto"  # of a node with one core, the named pools could be either
    cost = [level_cost(each) for each in case.costs] or None
    draw = Energy(NodePower(IDLE_W, IDLE_W + (case.units if case.slots else 1)))  # a watt for each unit in use
    simulator = Audited(machine, hierarchy=hierarchy, inventory=inventory, cost=cost, energy=draw)
    simulator.is_audited = is_audited
    result = simulator.run(Workload("case", list(case.jobs), has_levels=case.has_levels))
    schedule = result.schedule
    assert schedule is not None
    columns = zip(schedule.ids, schedule.start, schedule.end, schedule.instance, strict=True)
    problems = simulator.problems + result.errors + energy_problems(result, 1 if case.slots else case.units)
    given = sum(job.number for job in case.jobs)
    known = len(schedule) + result.left + sum(job.number for job in case.jobs if job.id in result.refusals.ids)
    inner = [job for outer in case.jobs for job in _below(outer) if job.id in result.refusals.ids]
    known += sum(job.number for job in inner)
    if known != given:
        problems.append(f"{given} jobs, of which {known} are accounted for")
    return simulator, {job: (start, end, number) for job, start, end, number in columns}, problems


def energy_problems(result: Result, nodes: int) -> list[str]:
    """Where the energy is not that of all nodes from the first submission to the last end, and a watt of each unit in use."""
    schedule, use = result.schedule, result.energy
    assert schedule is not None
    assert use is not None
    ran = [(start, end, size) for _, _, start, end, size in schedule if start >= 0]
    if not ran:
        return []
    last = max(end for _, end, _ in ran)
    joules = IDLE_W * nodes * (last - use.begin) + sum((end - start) * size for start, end, size in ran)
    found = use.end, sum(use.energies)
    return [] if found == (last, joules * MICROWATTS) else [f"energy {found}, expected {last, joules * MICROWATTS}"]


def _below(job: Any) -> Any:
    for inner in job.jobs:
        yield inner
        yield from _below(inner)


def differences(seed: int, inventory: str = "auto", *, is_audited: bool = True) -> list[str]:
    """Where the simulation of a seed differs from that of the oracle, and problems in it.

    Args:
        is_audited: whether all instances are checked after every event, which takes most of the time.
    """
    case = Source(Random(seed)).case()
    oracle = Oracle(case)
    oracle.run()
    simulator, times, problems = simulated(case, inventory, is_audited=is_audited)
    for job in sorted({*times, *oracle.times}, key=str):
        if times.get(job) != oracle.times.get(job):
            problems.append(f"job {job}: {times.get(job)}, of the oracle {oracle.times.get(job)} (start, end, instance)")
    if sorted(oracle.refused) != sorted(simulator.refusals.ids):
        problems.append(f"refused are {simulator.refusals.ids}, of the oracle {oracle.refused}")
    if len(oracle.nodes) != len(simulator.rows):
        problems.append(f"{len(simulator.rows)} instances, of the oracle {len(oracle.nodes)}")
    return problems


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--audit", type=int, default=10, help="of so many cases, all inventories of one are audited after each event"
    )
    given = parser.parse_args()
    wrong = jobs = 0
    for seed in range(given.seed, given.seed + given.cases):
        inventory = INVENTORIES[seed % len(INVENTORIES)]
        jobs += sum(job.number for job in Source(Random(seed)).case().jobs)
        found = differences(seed, inventory, is_audited=not seed // len(INVENTORIES) % given.audit)
        if found:
            wrong += 1
            print(f"seed {seed}, {inventory}:", *found[:5], sep="\n  ", flush=True)
        if not seed % 1000:
            print(f"seed {seed}, {wrong} wrong", flush=True)
    print(f"{given.cases} nested cases of {jobs} jobs, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
