"""Nodes that draw power, second by second, as simply as possible; and the scheduler of `disturbed.py` on them.

In each second: nodes that have been switched on or off are so, jobs whose nodes are all on begin, everything else happens, and
nodes that have been idle for long enough are switched off.  Then the second passes, and every node draws what its state says.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise

from tests.simulation.disturbances.disturbed import NEVER, Booked, Disturbed, Job

MICRO = 10**6


@dataclass
class Watts:
    """Of a node with a number of cores."""

    idle: int
    epsilon: int
    full: int
    off: int
    resume: int
    suspend: int

    def used(self, held: int, cores: int) -> int:
        """Microwatts."""
        exact = Fraction(MICRO * self.epsilon) + Fraction(MICRO * (self.full - self.epsilon) * min(held, cores), cores)
        return int(exact + Fraction(1, 2))

    @property
    def at_rest(self) -> int:
        """The most that a node draws without jobs."""
        return max(self.idle, self.epsilon, self.off, self.suspend)

    @property
    def in_use(self) -> int:
        """What it draws beyond that at most."""
        return max(self.full, self.resume) - self.at_rest


@dataclass
class Rules:
    suspend_time: int | None
    suspend: int
    resume: int
    keep: int
    suspend_rate: int
    resume_rate: int

    def longest(self, nodes: int) -> int:
        if self.suspend_time is None:
            return 0
        return self.suspend + self.resume + (60 * -(-nodes // self.resume_rate) if self.resume_rate else 0)


@dataclass
class Node:
    state: str = "on"
    idle_since: int | None = 0
    boot_begin: int | None = None
    boot_end: int = 0
    off_at: int = 0
    offline: str = ""
    holders: dict[object, int] = field(default_factory=dict)


@dataclass
class Plant:
    """Nodes with `cores` each, from `now` on.

    Args:
        waits: whether jobs whose nodes are on wait until they are let run.
    """

    count: int
    cores: int
    watts: Watts
    rules: Rules
    now: int = 0
    nodes: list[Node] = field(default_factory=list)
    waiting: dict[object, list[int]] = field(default_factory=dict)
    ready: dict[object, int] = field(default_factory=dict)
    earliest: dict[object, int] = field(default_factory=dict)
    energy: dict[object, int] = field(default_factory=dict)
    joules: dict[str, int] = field(default_factory=dict)
    times: dict[str, int] = field(default_factory=dict)
    course: list[int] = field(default_factory=list)
    boots: int = 0
    booted: list[int] = field(default_factory=list)
    stopped: list[int] = field(default_factory=list)
    waits: bool = False

    def __post_init__(self) -> None:
        self.nodes = [Node(idle_since=self.now) for _ in range(self.count)]

    def changes(self) -> None:
        """What was switched is on or off now, and jobs that waited for it begin."""
        for node in self.nodes:
            if node.state == "stopping" and node.off_at <= self.now:
                node.state = "off"
            if node.state == "off" and node.boot_begin is not None and node.boot_begin <= self.now:
                node.state = "booting"
                self.boots += 1
            if node.state == "booting" and node.boot_end <= self.now:
                node.state, node.boot_begin = "on", None
                if not node.holders and not node.offline:
                    node.idle_since = self.now
        for job in [] if self.waits else list(self.waiting):
            if self.earliest[job] <= self.now and all(self.nodes[at].state == "on" for at in self.waiting[job]):
                del self.waiting[job]
                self.ready[job] = self.now

    def ready_at(self, nodes: dict[int, int], earliest: int) -> int:
        """When all of them are on, once they were switched on."""
        found = earliest
        for at in nodes:
            if self.nodes[at].boot_begin is not None:
                found = max(found, self.nodes[at].boot_end)
        return found

    def take(self, job: object, nodes: dict[int, int], earliest: int = 0) -> int:
        """Give a job cores by node; returns when it begins, and nodes are switched on, not before `earliest`."""
        asleep = []
        self.earliest[job] = earliest = max(earliest, self.now)
        for at, cores in nodes.items():
            node = self.nodes[at]
            if node.offline and not node.holders:
                node.offline, node.state = "", "on"
            node.holders[job] = cores
            node.idle_since = None
            if node.state in ("off", "stopping") and node.boot_begin is None:
                asleep.append((max(earliest, node.off_at if node.state == "stopping" else 0), at))
        for begin, at in sorted(asleep):
            if rate := self.rules.resume_rate:
                begin = max([begin, *self.booted[-1:]])
                if len(self.booted) >= rate:
                    begin = max(begin, self.booted[-rate] + 60)
            self.booted.append(begin)
            self.nodes[at].boot_begin, self.nodes[at].boot_end = begin, begin + self.rules.resume
        self.waiting[job] = list(nodes)
        self.energy.setdefault(job, 0)
        found = self.ready_at(nodes, earliest)
        self.changes()
        return found

    def give_back(self, job: object) -> None:
        self.waiting.pop(job, None)
        self.ready.pop(job, None)
        for node in self.nodes:
            if node.holders.pop(job, None) is not None and not node.holders and node.state == "on" and not node.offline:
                node.idle_since = self.now

    def set_state(self, at: int, state: str) -> None:
        """down, removed, or empty."""
        node = self.nodes[at]
        if node.offline == state:
            return
        node.offline = state
        if not node.holders:
            node.state, node.boot_begin = "on", None
            node.idle_since = None if state else self.now

    def switch_off(self) -> None:
        if self.rules.suspend_time is None:
            return
        idle = sorted((node.idle_since, -at) for at, node in enumerate(self.nodes) if node.idle_since is not None)
        surplus = len(idle) - self.rules.keep
        for since, minus in idle[: max(surplus, 0)]:
            late = [moment for moment in self.stopped if moment > self.now - 60]
            if since + self.rules.suspend_time > self.now or (self.rules.suspend_rate and len(late) >= self.rules.suspend_rate):
                break
            node = self.nodes[-minus]
            node.idle_since, node.state, node.off_at = None, "stopping", self.now + self.rules.suspend
            self.stopped.append(self.now)
        self.changes()

    def power(self, node: Node) -> tuple[str, int]:
        running = {job: cores for job, cores in node.holders.items() if job in self.ready}
        if running:
            return "computing", self.watts.used(sum(running.values()), self.cores)
        if node.offline and not node.holders:
            return "unavailable", MICRO * self.watts.off if node.offline == "down" else 0
        return {
            "on": ("idle", MICRO * self.watts.idle),
            "stopping": ("switching_off", MICRO * self.watts.suspend),
            "off": ("sleeping", MICRO * self.watts.off),
            "booting": ("switching_on", MICRO * self.watts.resume),
        }[node.state]

    def second(self) -> None:
        total = 0
        for node in self.nodes:
            category, microwatts = self.power(node)
            total += microwatts
            self.joules[category] = self.joules.get(category, 0) + microwatts
            self.times[category] = self.times.get(category, 0) + 1
            for job in node.holders:
                if job in self.ready:
                    self.energy[job] += microwatts
        self.course.append(total)
        self.now += 1


class Powered(Disturbed):
    """The scheduler of nodes that are switched off and on, below a cap: (from second, watts), None for none."""

    plant: Plant
    caps: list[tuple[int, int | None]]
    begins: dict[int, int]
    sums: tuple[dict[str, int], dict[str, int], int, int]

    def run(self) -> None:
        """From the first submission on, so that nothing happens before."""
        self.begins = {}
        self.powered: dict[int, Job] = {}
        self.sums = {}, {}, 0, 0
        for (begin, watts), (end, _) in pairwise(self.caps):
            if watts is not None and self.room(begin) < self.size * self.plant.watts.in_use:
                self.booked.append(Booked(begin, end, frozenset()))
        self.now = self.plant.now
        super().run()

    def moment(self) -> None:
        self.plant.changes()
        boots = self.plant.boots  # those of jobs that start at this moment come after its ends
        super().moment()
        self.running()
        self.plant.changes()
        self.plant.switch_off()
        if any(job.end == self.now and self.begins.get(job.id, NEVER) <= self.now for job in self.jobs):
            over = sum(
                power > MICRO * watts
                for at, power in enumerate(self.plant.course, self.now - len(self.plant.course))
                if (watts := self.cap(at)) is not None
            )
            self.sums = dict(self.plant.joules), dict(self.plant.times), boots, over
        self.plant.second()

    def cap(self, second: int) -> int | None:
        return next((watts for begin, watts in reversed(self.caps) if begin <= second), None)

    def room(self, second: int) -> int:
        """Watts that jobs may draw beyond what nodes draw without them."""
        watts = self.cap(second)
        all_of_it = self.size * self.plant.watts.in_use
        return all_of_it if watts is None else min(watts - self.size * self.plant.watts.at_rest, all_of_it)

    def is_below_cap(self, job: Job, begin: int) -> bool:
        others = [(one.start, one.until, one.count) for one in Disturbed.running(self)]
        if self.head is not None and self.head[0] is not job:
            others.append((self.head[1], self.head[1] + self.head[0].limit, self.head[0].count))
        for second in range(begin, begin + job.limit):
            count = job.count + sum(number for start, until, number in others if start <= second < until)
            if count * self.plant.watts.in_use > self.room(second):
                return False
        return True

    def running(self) -> list[Job]:
        for job in list(self.powered.values()):
            if job.status != "run" or job.start < 0:
                self.plant.give_back(job.id)
                del self.powered[job.id]
        return super().running()

    def start(self, job: Job) -> bool:
        self.running()
        if not self.is_below_cap(job, self.now) or not super().start(job):
            return False
        self.begins[job.id] = self.plant.take(job.id, dict.fromkeys(job.units, self.plant.cores))
        self.powered[job.id] = job
        return True

    def easy_pass(self, among: list[Job]) -> None:
        for job in among:
            if not self.start(job) and self.head is None:
                ends = {one.until for one in self.running()} | {one.end for one in self.booked}
                for start in sorted({self.now, *(end for end in ends if end > self.now)}):
                    units = self.free(start, start + job.limit)
                    if len(units) >= job.count and self.is_below_cap(job, start):
                        self.head = job, start, frozenset(sorted(units)[: job.count])
                        break

    def end_of(self, job: Job) -> int:
        own = job.limit - self.plant.rules.longest(self.size)
        return min(job.start + len(self.life(job)), self.begins[job.id] + own, job.until)

    def life(self, job: Job) -> list[tuple[int, int]]:
        return [(0, 0)] * (self.begins[job.id] - job.start) + super().life(job)

    def interrupt(self, job: Job) -> None:
        begin, lost = min(self.begins[job.id], self.now), job.lost
        count = len(job.units)
        super().interrupt(job)
        job.lost = lost + (self.now - begin) * count

    def event(self, action: str, target: object) -> bool:
        found = super().event(action, target)
        if action in ("down", "drain", "remove", "up", "add"):
            assert isinstance(target, int)
            self.running()
            self.plant.set_state(target, {"down": "down", "remove": "removed"}.get(action, ""))
        return found
