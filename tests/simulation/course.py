"""Random workloads on random machines, hierarchies and policies, while nodes fail; and the invariants of each run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

from fluxres.clock import FOREVER, TICKS_PER_S
from fluxres.instance.counted import CountedInventory
from fluxres.instance.named import NamedInventory
from fluxres.instance.policy import policy
from fluxres.instance.states import ACTIVE, PENDING
from fluxres.simulation.costs.cost import Fitted
from fluxres.simulation.events import TimerEvent
from fluxres.simulation.machine import Machine, of_number, of_shape
from fluxres.simulation.nesting.hierarchy import Hierarchy
from fluxres.simulation.result import Result
from fluxres.simulation.results.numbering import Translated
from fluxres.simulation.schedule import RESULTS, Schedule
from fluxres.simulation.simulator import Simulator
from fluxres.simulation.workload.workload import Submission, Workload
from fluxres.syntax import idset
from fluxres.syntax.jobspec import as_request
from tests.queue_policies import POLICIES
from tests.simulation.invariants import Watched, violations

S = TICKS_PER_S
MACHINES = (("4", ""), ("16", ""), ("node=6", ""), ("node=4/core=2", "node"), ("rack=2/node=3/[core=4;gpu=1]", "core"))
REQUESTS = ("slot=1/node/[core=2;gpu=1]", "slot=2/core=2", "slot=1/rack", "node/slot=3/core", "slot=1/gpu")


@dataclass
class Incident:
    """An event from outside the simulation."""

    what: str
    node: str = ""
    seed: int = 0


class Disturbed(Simulator):
    """A simulation in which nodes fail and jobs are cancelled, audited from time to time."""

    def __init__(self, *args: Any, incidents: list[tuple[int, Incident]], **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.problems: list[str] = []
        for moment, incident in incidents:
            self.events.push(moment, TimerEvent(incident))

    def _on_timer(self, event: Any) -> None:
        incident = event.site
        if not isinstance(incident, Incident):
            super()._on_timer(event)
            return
        if incident.node:
            self.instance.set_state([incident.node], incident.what)
        elif incident.what == "audit":
            self.problems += map(str, self.instance.check())
        else:
            self._meddle(incident)
        for each in list(self._sites.values()):
            self._settle(each)

    def _meddle(self, incident: Incident) -> None:
        jobs = [
            job
            for instance in self.instance.walk()
            for job in instance.jobs()
            if isinstance(job.payload, Submission) and job.state in (ACTIVE if incident.what == "cancel" else PENDING)
        ]
        if jobs:
            random = Random(incident.seed)
            job = random.choice(jobs)
            if incident.what == "cancel":
                job.instance.cancel(job)
            else:
                job.instance.set_urgency(job, random.randint(1, 31))


@dataclass
class Course:
    """One run, determined by random numbers alone."""

    machine: str
    unit: str
    inventory: str
    policies: tuple[str, ...]
    fan_outs: tuple[int, ...]
    boot_s: float
    cost: Fitted | None
    jobs: list[Submission]
    incidents: list[tuple[int, Incident]]

    @property
    def is_plain(self) -> bool:
        """Whether only submissions and ends affect the schedule."""
        has_more = any(job.dependencies or job.urgency != 16 for job in self.jobs)
        return not has_more and self.cost is None and all(one.what == "audit" for _, one in self.incidents)

    def run(self, inventory: str) -> tuple[Disturbed, Result, Schedule, list[Watched]]:
        machine = Machine(of_number(int(self.machine)) if self.machine.isdecimal() else of_shape(self.machine), self.unit)
        made = Watched(policy(self.policies[-1]), head_only=not self.policies[-1].startswith("conservative"))
        levels: Any = self.policies if self.fan_outs else (made,)  # instances of a level share no policy object
        named = Schedule()
        simulator = Disturbed(
            machine,
            inventory=inventory,
            hierarchy=Hierarchy(self.fan_outs, levels, boot_s=self.boot_s),
            cost=self.cost,
            sinks=[Translated(named, machine.graph.structure, machine.unit)],
            incidents=self.incidents,
        )
        # The policies of fluxres need no watchdog; Watched is not one of them.
        result = simulator.run(Workload("random", self.jobs, has_dependencies=True, has_requests=True))
        return simulator, result, named, [made]

    def problems(self) -> list[str]:
        """The problems found."""
        simulator, result, named, watched = self.run(self.inventory)
        found = [*simulator.problems, *result.errors, *map(str, simulator.instance.check())]
        found += violations(named, simulator.machine.count, self.jobs)
        found += self._accounts(simulator, result, named)
        found += self._states(simulator.machine, named)
        if self.is_plain and self._keeps_promises:
            found += [problem for each in watched for problem in each.broken]
        if self.is_plain and self.policies[-1] == "fcfs":
            found += _in_order(named)
        if self.cost is None and self.inventory == "auto" and self.policies[-1] != "easy-count" and not self.machine.isdecimal():
            *_, again, _ = self.run("graph")
            found += [] if _rows(again) == _rows(named) else ["another schedule on the resource graph"]
        return found

    @property
    def _keeps_promises(self) -> bool:
        return not self.policies[-1].startswith(("priority", "fairshare", "fcfs"))

    def _accounts(self, simulator: Disturbed, result: Result, named: Schedule) -> Iterator[str]:
        instance = simulator.instance
        # If a node fails while an instance starts on it, all jobs of that instance are lost.
        may_leave = self.boot_s and self.fan_outs and any(one.what == "down" for _, one in self.incidents)
        if result.left and not may_leave:
            yield f"{result.left} jobs are left"
        if len(named) + len(result.refusals) + result.left != len(self.jobs):
            yield f"{len(named)} jobs, {len(result.refusals)} refused and {result.left} left of {len(self.jobs)}"
        if len(set(map(str, named.ids))) != len(named):
            yield "a job ended twice"
        if instance.jobs() or instance.children or instance.graph.jobs():
            yield f"left behind: {instance.jobs()} {instance.children} {instance.graph.jobs()}"
        if (
            self.cost is None
            and isinstance(instance.inventory, CountedInventory | NamedInventory)
            and not instance.inventory.free
        ):
            yield "nothing is free at the end"

    def _states(self, machine: Machine, named: Schedule) -> Iterator[str]:
        """No job starts on a node that is not up, and no job outlives its node."""
        structure = machine.graph.structure
        if machine.unit not in ("node", "core") or self.machine.isdecimal():
            return
        units = structure.of_type(machine.unit).tolist()
        since: dict[str, tuple[int, str]] = {}
        windows: list[tuple[set[int], int, int, str]] = []
        for moment, incident in self.incidents:
            if not incident.node:
                continue
            before = since.pop(incident.node, None)
            if before is not None:
                v = structure.vertex(incident.node)
                below = {at for at, u in enumerate(units) if v <= u < structure.end.item(v)}
                windows.append((below, before[0], moment, before[1]))
            if incident.what != "up":
                since[incident.node] = moment, incident.what
        whole = {
            job.id for job in self.jobs if job.ask == as_request("slot=1/rack")
        }  # racks are up whatever the states of their nodes
        for job, start, end, allocated in zip(named.ids, named.start, named.end, named.allocated, strict=True):
            if job in whole:
                continue
            held = set(idset.parse(allocated)) if allocated else set()
            for below, begin, stop, what in windows:
                if start >= 0 and held & below and (begin <= start < stop or (what == "down" and start < begin < end)):
                    yield f"job {job} runs over {start / S} to {end / S} where it is {what} over {begin / S} to {stop / S}"


def _in_order(named: Schedule) -> Iterator[str]:
    last: dict[int, tuple[int, int]] = {}
    for at in sorted(range(len(named)), key=lambda at: (named.submit[at], int(str(named.ids[at])))):
        before = last.get(named.instance[at], (-1, -1))
        if named.start[at] < before[0]:
            yield f"job {named.ids[at]} starts before {before[1]}"
        last[named.instance[at]] = named.start[at], int(str(named.ids[at]))


def _rows(named: Schedule) -> list[tuple[Any, ...]]:
    results = [RESULTS[result] for result in named.result]
    return list(zip(named.ids, named.start, named.end, named.size, results, named.allocated, strict=True))


def course(random: Random) -> Course:
    """A random one."""
    machine, unit = random.choice(MACHINES)
    fan_outs: tuple[int, ...] = random.choice(((), (), (2,), (3,), (2, 2)))
    if machine == "4" and len(fan_outs) > 1:
        fan_outs = (2,)
    inner = random.choice(POLICIES)
    inventory = random.choice(("auto", "auto", "graph"))
    has_more = random.random() < 0.4
    requests = REQUESTS if has_more and "gpu" in machine and inner != "easy-count" else ()
    if inner == "easy-count":
        inventory, unit = "auto", "node" if "node" in machine else unit
    outer = tuple(random.choice(("fcfs", "easy", "conservative")) for _ in fan_outs)
    jobs = list(_jobs(random, Machine(of_shape(machine) if "=" in machine else of_number(int(machine)), unit).count, requests))
    incidents = list(_incidents(random, machine, max((job.submit for job in jobs), default=0) // S))
    cost = Fitted(start_s=random.choice((0.25, 2.0)), considered_s=0.125) if random.random() < 0.2 else None
    if cost is not None:
        incidents = [each for each in incidents if each[1].what == "audit"]
    return Course(machine, unit, inventory, (*outer, inner), fan_outs, random.choice((0.0, 0.0, 1.5)), cost, jobs, incidents)


def _jobs(random: Random, size: int, requests: tuple[str, ...]) -> Iterator[Submission]:
    between, longest = random.choice((0, 2, 10)), random.choice((3, 20))
    dependent, urgent = random.random() < 0.4, random.random() < 0.2
    submit = 0
    for job in range(random.choice((3, 8, 20, 40))):
        submit += random.choice((0, random.randint(0, between)))
        limit = random.choice((random.randint(1, longest) * S, FOREVER))
        ask: Any = random.randint(1, random.choice((size, max(1, size // 4))))
        if requests and random.random() < 0.6:
            ask = as_request(random.choice(requests))
        waits: list[str] = []
        if dependent and job and random.random() < 0.5:
            scheme = random.choice(("after", "afterany", "afterok", "afternotok", "singleton", "begin-time"))
            value = submit + random.randint(0, 9) if scheme == "begin-time" else random.randrange(job)
            waits = [scheme if scheme == "singleton" else f"{scheme}:{value}"]
        yield Submission(
            job,
            submit * S,
            random.randint(1, longest) * S,
            limit,
            ask,
            random.choice(("ann", "bob", None)),
            random.choice("xyz") if waits == ["singleton"] or random.random() < 0.3 else None,
            random.choice((0, 1, 16, 31)) or 16 if urgent else 16,
            tuple(waits),
            random.choice((0, 0, 0, 1)),
        )


def _incidents(random: Random, machine: str, last_s: int) -> Iterator[tuple[int, Incident]]:
    """Changes at moments at which nothing else happens; all nodes are up again at the end."""
    found = [("audit", "") for _ in range(random.randint(0, 4))]
    kind = random.random()
    if kind < 0.3 and not machine.isdecimal():
        nodes = 6 if "rack" in machine or machine == "node=6" else 4
        for _ in range(random.randint(1, 5)):
            at = random.randrange(nodes)
            node = f"/cluster/rack{at // 3}/node{at % 3}" if "rack" in machine else f"/cluster/node{at}"
            found.append((random.choice(("down", "drain", "up")), node))
    elif kind < 0.45:
        found += [(random.choice(("cancel", "urgency")), "") for _ in range(random.randint(1, 6))]
    random.shuffle(found)
    moments = sorted(random.randint(0, last_s + 20) * S + 137_000 + at for at in range(len(found)))
    for moment, (what, node) in zip(moments, found, strict=True):
        yield moment, Incident(what, node, moment)
    for number, node in enumerate(sorted({node for _, node in found if node})):
        yield (last_s + 40) * S + 138_000 + number, Incident("up", node)
