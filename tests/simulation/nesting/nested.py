"""Nested FCFS schedulers that only count units, as simply as possible, and random cases for them.

Times are microseconds. Events of one moment: begins of tasks, ends of tasks, submissions, begins of instances, ends, ends of
launches, periods; those of one kind in the order in which they were caused. If instances have costs, each does one task after the
other; the tasks are named in `do`. If only decisions cost time, they are the only tasks: everything else happens at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from random import Random
from typing import Any

from fluxres.clock import FOREVER
from fluxres.simulation.workload.workload import Submission

PASS, SERVED, SUBMIT, BOOT, END, LAUNCHED, PERIOD = range(7)


@dataclass(frozen=True)
class Costs:
    """Of the instances of one level, in microseconds: a decision takes `decision`, and `started` more if it starts a job."""

    ingest: int = 0
    decision: int = 0
    started: int = 0
    start: int = 0
    event: int = 0
    spawn: int = 0
    messages: int = 0
    message: int = 0
    launch: int = 0

    @property
    def has_work(self) -> bool:
        """Whether anything beside decisions takes time."""
        return bool(self.ingest or self.start or self.event or self.spawn or self.messages * self.message or self.launch)


@dataclass(frozen=True)
class Case:
    """What is simulated; the jobs are given as fluxres has them."""

    units: int
    fan_outs: tuple[int, ...]
    sizes: tuple[tuple[int, ...], ...]
    larger: str
    balance: str
    elastic: str
    boot: int
    jobs: tuple[Submission, ...]
    costs: tuple[Costs, ...] = ()
    slots: int = 0

    @property
    def has_work(self) -> bool:
        """Whether instances have tasks beside their decisions."""
        return bool(self.costs) and (bool(self.slots) or any(each.has_work for each in self.costs))

    @property
    def has_levels(self) -> bool:
        return any(job.level is not None for job in self.jobs)


@dataclass(eq=False)
class Task:
    """A job, or the place of an instance, in the queue of a node."""

    size: int
    given: Submission | None
    level: int = 0
    place: int = -1
    start: int = -1
    end: int = -1
    below: Node | None = None
    slot: str = ""
    """Empty, waiting or held."""
    is_gone: bool = False
    is_heard: bool = True
    """False from its end until its instance has processed that."""


@dataclass(eq=False)
class Node:
    """An instance."""

    number: int
    size: int
    level: int
    place: int
    above: Node | None
    task: Task | None
    feed: list[Submission]
    queue: list[Task] = field(default_factory=list)
    running: list[Task] = field(default_factory=list)
    is_ending: bool = False
    is_over: bool = False
    todo: deque[tuple[str, Any]] = field(default_factory=deque)
    is_busy: bool = False
    is_asked: bool = False
    """Whether a decision is to do."""
    arriving: int = 0

    @property
    def free(self) -> int:
        return self.size - sum(task.size for task in self.running)


class Oracle:
    """Runs a case; `times` has start, end and number of the instance of each job that was submitted and not refused."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.heap: list[tuple[int, int, int, object]] = []
        self.nodes: list[Node] = []
        self.times: dict[int | str, tuple[int, int, int]] = {}
        self.refused: list[int | str] = []
        self.now = 0
        self.made = 0
        self.slots_used = 0
        self.at_slots: list[Task] = []

    def push(self, moment: int, kind: int, what: object) -> None:
        self.made += 1
        heappush(self.heap, (moment, kind, self.made, what))

    def run(self) -> None:
        self.begin(self.case.units, 0, 0, None, None, self.share(0, 0))
        while self.heap:
            self.now, kind, _, what = heappop(self.heap)
            kinds = (self.serve, self.complete, self.submit, self.boot, self.end, self.launched, self.period)
            kinds[kind](what)  # type: ignore[operator]  # by kind

    # -- instances -------------------------------------------------------------------------------------------------------

    def share(self, level: int, place: int) -> list[Submission]:
        innermost, number = len(self.case.fan_outs), 1
        for children in self.case.fan_outs[:level]:
            number *= children
        mine = [job for job in self.case.jobs if (innermost if job.level is None else min(job.level, innermost)) == level]
        return mine[place::number]

    def begin(self, size: int, level: int, place: int, above: Node | None, task: Task | None, feed: list[Submission]) -> None:
        node = Node(len(self.nodes), size, level, place, above, task, list(feed))
        self.nodes.append(node)
        if task is not None:
            task.below = node
        if place >= 0 and level < len(self.case.fan_outs):
            number = self.case.fan_outs[level]
            parts = self.case.sizes[level] if level < len(self.case.sizes) else ()
            for child in range(number):
                part = parts[child] if parts else size // number + (child < size % number)
                self.enter(node, Task(part, None, level + 1, place * number + child))
            for policy in (self.case.balance, self.case.elastic):
                if ":" in policy and level == len(self.case.fan_outs) - 1:
                    self.push(self.now + period_of(policy), PERIOD, (node, policy))
        self.announce(node)
        self.settle(node)

    def announce(self, node: Node) -> None:
        if node.feed:
            self.push(max(node.feed[0].submit, self.now), SUBMIT, node)

    def boot(self, task: Task) -> None:
        node = self.holder(task)
        self.leave_slot(task)
        if node is None or node.is_over:
            return
        if task.given is None:
            self.begin(task.size, task.level, task.place, node, task, self.share(task.level, task.place))
        else:
            feed = [job._replace(submit=job.submit + self.now) for job in task.given.jobs]
            self.begin(task.size, node.level + 1, -1, node, task, feed)

    def holder(self, task: Task) -> Node | None:
        return next((node for node in self.nodes if task in node.running), None)

    # -- jobs ------------------------------------------------------------------------------------------------------------

    def submit(self, node: Node) -> None:
        if node.is_over:
            return
        job = node.feed.pop(0)
        if self.case.has_work:
            self.put(node, "ingest", job)
            self.announce(node)
        else:
            self.ingested(node, job)

    def ingested(self, node: Node, job: Submission) -> None:
        target = self.target(node, job)
        if target is None:
            self.refused.append(job.id)
        elif self.case.has_work and target is not node:
            self.put(target, "ingest", job)
            target = None
        else:
            self.enter(target, Task(self.ask(job), job))
        if not self.case.has_work:
            self.announce(node)
        if target not in (None, node):
            self.settle(target)
        self.settle(node)

    def ask(self, job: Submission) -> int:
        assert isinstance(job.ask, int)
        return job.ask

    def target(self, node: Node, job: Submission) -> Node | None:
        size = self.ask(job)
        if size <= node.size:
            return node
        if self.case.larger != "up":
            return None
        is_elastic = self.case.elastic != "none" and node.place >= 0 and node.level == len(self.case.fan_outs)
        if is_elastic and node.above is not None and not node.above.queue and size - node.size <= node.above.free:
            self.give(node, node.above, size - node.size)
            return node
        while node.above is not None:
            near = [
                each
                for each in self.nodes
                if each.above is node.above and node.place >= 0 and each.place >= 0 and not (each.is_over or each.is_ending)
            ]
            after = sorted((each for each in near if each.place > node.place), key=lambda each: each.place)
            before = sorted((each for each in near if each.place < node.place), key=lambda each: each.place)
            for each in [*after, *before, node.above]:
                if size <= each.size:
                    return each
            node = node.above
        return None

    def enter(self, node: Node, task: Task) -> None:
        node.queue.append(task)
        self.schedule(node)

    def schedule(self, node: Node) -> None:
        if self.case.costs:
            return  # it decides when it is settled
        while node.queue and node.queue[0].size <= node.free and not node.is_over:
            task = node.queue.pop(0)
            node.running.append(task)
            self.start(task, self.now)

    def start(self, task: Task, moment: int) -> None:
        """Let a job run from a moment on, or boot its instance."""
        task.start = moment
        job = task.given
        if job is not None and not job.jobs:
            self.push(moment + min(job.run, job.limit), END, task)
            return
        if job is not None and job.limit < FOREVER:
            self.push(moment + job.limit, END, task)
        self.push(moment + self.case.boot, BOOT, task)

    def end(self, task: Task) -> None:
        node, given = self.holder(task), task.given
        if node is None:
            return
        is_at_limit = given is not None and bool(given.jobs) and task.start + given.limit <= self.now
        if not self.case.has_work or is_at_limit:
            self.release(node, task)
        elif task.is_heard:
            task.is_heard = False
            task.end = self.now
            self.put(node, "event", task)

    def release(self, node: Node, task: Task) -> None:
        below = task.below
        if below is not None and not below.is_ending:
            self.kill(below)
        node.running.remove(task)
        self.note(task, node)
        if below is not None:
            below.is_over = True
        self.schedule(node)
        self.settle(node)

    def kill(self, node: Node) -> None:
        for task in list(node.running):
            if task.below is not None:
                self.kill(task.below)
            node.running.remove(task)
            self.note(task, node)
        for task in node.queue:
            self.note(task, node)
        node.queue.clear()
        node.feed.clear()
        node.is_over = True

    def note(self, task: Task, node: Node) -> None:
        task.is_gone = True
        self.leave_slot(task)
        if task.given is not None and not task.given.jobs:
            end = self.now if task.is_heard else task.end
            self.times[task.given.id] = (task.start if task.start <= end else -1, end, node.number)

    # -- one task after the other ----------------------------------------------------------------------------------------

    def costs(self, node: Node) -> Costs:
        return self.case.costs[min(node.level, len(self.case.fan_outs), len(self.case.costs) - 1)]

    def put(self, node: Node, kind: str, what: Any) -> None:
        node.arriving += kind == "ingest"
        node.todo.append((kind, what))
        if not node.is_busy and len(node.todo) == 1:
            self.push(self.now, PASS, node)

    def serve(self, node: Node) -> None:
        if node.is_busy or not node.todo or node.is_over:
            return
        kind, what = node.todo.popleft()
        own, node.is_busy = self.costs(node), True
        if kind == "decision":
            node.is_asked = False
            what = self.decide(node)
            length = own.decision + own.started * bool(what)
            for task in what if not self.case.has_work else ():
                self.start(task, self.now + length)
        else:
            length = {"ingest": own.ingest, "start": own.start, "event": own.event, "spawn": own.spawn, "message": own.message}[
                kind
            ]
        self.push(self.now + length, SERVED, (node, kind, what))

    def complete(self, what: tuple[Node, str, Any]) -> None:
        node, kind, content = what
        if not node.is_over:
            self.do(node, kind, content)
        node.is_busy = False
        self.serve(node)

    def do(self, node: Node, kind: str, what: Any) -> None:
        if kind == "ingest":
            node.arriving -= 1
            self.ingested(node, what)
        elif kind == "decision":
            for task in what if self.case.has_work else ():
                if not task.is_gone:
                    self.put(node, "start", task)
            self.settle(node, is_decided=not (what and (self.costs(node).decision or self.costs(node).started)))
        elif kind == "start":
            if not what.is_gone:
                what.slot = "waiting"
                self.at_slots.append(what)
                self.give_slots()
        elif kind == "event":
            if what in node.running:
                self.release(node, what)
        elif kind == "spawn":
            self.converse(node, what, self.costs(node).messages)
        else:
            self.converse(node, *what)

    def converse(self, node: Node, task: Task, left: int) -> None:
        if left:
            self.put(node, "message", (task, left - 1))
        else:
            self.push(self.now + self.case.boot, BOOT, task)

    def decide(self, node: Node) -> list[Task]:
        own, found = self.costs(node), []
        while node.queue and node.queue[0].size <= node.free and not (found and (own.decision or own.started)):
            found.append(node.queue.pop(0))
            node.running.append(found[-1])
        return found

    def give_slots(self) -> None:
        while self.at_slots and (not self.case.slots or self.slots_used < self.case.slots):
            task = self.at_slots.pop(0)
            task.slot = "held"
            self.slots_used += 1
            node = self.holder(task)
            assert node is not None
            self.push(self.now + self.costs(node).launch, LAUNCHED, task)

    def leave_slot(self, task: Task) -> None:
        if task.slot == "held":
            self.slots_used -= 1
        elif task.slot == "waiting":
            self.at_slots.remove(task)
        task.slot = ""
        self.give_slots()

    def launched(self, task: Task) -> None:
        if task.is_gone:
            return
        node, job = self.holder(task), task.given
        assert node is not None
        task.start = self.now
        if job is not None and not job.jobs:
            self.push(self.now + min(job.run, job.limit), END, task)
            self.leave_slot(task)
            return
        if job is not None and job.limit < FOREVER:
            self.push(self.now + job.limit, END, task)
        self.put(node, "spawn", task)

    # -- siblings --------------------------------------------------------------------------------------------------------

    def family(self, node: Node) -> list[Node] | None:
        """The innermost instances of the same parent that live; None if jobs do not move."""
        if self.case.balance == "none" or node.place < 0 or node.level != len(self.case.fan_outs) or node.above is None:
            return None
        return self.below(node.above)

    def below(self, above: Node) -> list[Node]:
        return sorted(
            (each for each in self.nodes if each.above is above and each.place >= 0 and not each.is_over),
            key=lambda each: each.place,
        )

    def is_exhausted(self, above: Node) -> bool:
        awaited = any(task.given is None and task.below is None for task in (*above.queue, *above.running))
        return not awaited and not any(each.feed or each.queue for each in self.below(above))

    def settle(self, node: Node, *, is_decided: bool = False) -> None:
        if self.case.costs and not (is_decided or node.is_asked or node.is_over):
            node.is_asked = True
            self.put(node, "decision", None)
        siblings = self.family(node)
        if siblings is not None and self.case.balance != "none":
            assert node.above is not None
            if self.case.balance == "steal":
                while self.steal(siblings):
                    pass
            if self.is_exhausted(node.above):
                for each in siblings:
                    self.may_end(each)
        if self.case.elastic == "demand":
            self.resize(node.above)
            self.resize(node)
        self.may_end(node)

    def may_end(self, node: Node) -> None:
        if node.task is None or node.is_ending or node.is_over or node.feed or node.queue or node.running or node.arriving:
            return
        if self.family(node) is not None and node.above is not None and not self.is_exhausted(node.above):
            return
        node.is_ending = True
        self.push(self.now, END, node.task)

    def steal(self, siblings: list[Node]) -> bool:
        victims = sorted((each for each in siblings if each.queue), key=lambda each: -len(each.queue))
        for thief in siblings:
            if thief.queue or thief.is_ending or not thief.free:
                continue
            for victim in victims:
                for task in reversed(victim.queue):
                    if task.size <= thief.free:
                        self.move(task, victim, thief)
                        return True
        return False

    def move(self, task: Task, source: Node, target: Node) -> None:
        source.queue.remove(task)
        self.schedule(source)
        self.enter(target, task)

    def period(self, what: tuple[Node, str]) -> None:
        above, policy = what
        awaited = any(task.given is None and task.below is None for task in (*above.queue, *above.running))
        if above.is_over or not (awaited or self.below(above)):
            return
        if policy.startswith("redeal"):
            self.deal(above)
        else:
            self.resize(above)
        if any(kind != PERIOD for _, kind, _, _ in self.heap):
            self.push(self.now + period_of(policy), PERIOD, what)

    def deal(self, above: Node) -> None:
        siblings = [each for each in self.below(above) if not each.is_ending]
        waiting = [(task, each) for each in siblings for task in each.queue]
        waiting.sort(key=lambda each: (each[0].given.submit if each[0].given else 0, each[1].place))
        load = dict.fromkeys(siblings, 0)
        moves = []
        for task, source in waiting:
            fitting = [each for each in siblings if task.size <= each.size]
            target = min(fitting, key=lambda each: (load[each] / each.size, each.place))
            load[target] += task.size
            if target is not source:
                moves.append((task, source, target))
        for node in siblings:
            for task in [each for each in reversed(node.queue) if any(moved is each for moved, _, _ in moves)]:
                node.queue.remove(task)
                self.schedule(node)
        for task, _, target in moves:
            self.enter(target, task)

    # -- elastic instances -----------------------------------------------------------------------------------------------

    def resize(self, above: Node | None) -> None:
        if above is None or above.place < 0 or above.level != len(self.case.fan_outs) - 1 or above.is_over:
            return
        nodes = [each for each in self.below(above) if not each.is_ending]
        targets = {node: node.size for node in nodes}
        if self.case.elastic == "demand":
            targets = {node: node.size if node.queue else node.size - node.free for node in nodes}
        else:
            wanted = {node: sum(task.size for task in (*node.running, *node.queue)) for node in nodes}
            all_wanted, free = sum(wanted.values()), 0 if above.queue else above.free
            if all_wanted:
                units = free + sum(node.size for node in nodes)
                targets = {node: units * wanted[node] // all_wanted for node in nodes}
                left = units - sum(targets.values())
                for node in sorted(nodes, key=lambda each: -(units * wanted[each] % all_wanted))[:left]:
                    targets[node] += 1
        changed = []
        for node in nodes:
            least = max([1, targets[node], *(task.size for task in node.queue)])
            units = min(node.size - least, node.free)
            if units > 0:
                self.give(node, above, -units)
                changed.append(node)
        for node in nodes:
            units = self.more(node, above, max(targets[node], 1))
            if units > 0:
                self.give(node, above, units)
                changed.append(node)
        for node in changed:
            self.may_end(node)
        if changed:
            self.may_end(above)

    def more(self, node: Node, above: Node, target: int) -> int:
        if above.queue:
            return 0
        if self.case.elastic != "demand":
            return min(target - node.size, above.free)
        best = 0
        for count in range(1, len(node.queue) + 1):
            lacking = sum(task.size for task in node.queue[:count]) - node.free
            if lacking > above.free:
                break
            best = lacking
        return best

    def give(self, node: Node, above: Node, units: int) -> None:
        assert node.task is not None
        node.size += units
        node.task.size += units
        self.schedule(above)
        self.schedule(node)


def period_of(policy: str) -> int:
    return round(float(policy.partition(":")[2]) * 1_000_000)


# -- random cases --------------------------------------------------------------------------------------------------------


class Source:
    """Draws cases in which no two times are equal by chance."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.ids = iter(range(10**6))

    def time(self, most_s: int) -> int:
        return self.random.randint(1, most_s * 1_000_000)

    def case(self) -> Case:
        random = self.random
        fan_outs, sizes, units = (), (), random.randint(4, 24)
        if random.random() < 0.9:
            fan_outs, sizes = self.levels(units)
        made = self.jobs(random.randint(3, 25), units, len(fan_outs), 2)
        balance = (
            random.choice(["none", "none", "steal", "steal", f"redeal:{random.randint(5, 60)}.{random.randint(1, 999_999):06d}"])
            if fan_outs
            else "none"
        )
        boot = random.choice([0, self.time(5)])
        larger = random.choice(["refuse", "up", "up"])
        elastic = "none"
        if fan_outs and larger == "up" and random.random() < 0.5:
            elastic = random.choice(["demand", "demand", f"share:{random.randint(1, 30)}.{random.randint(1, 999_999):06d}"])
        costs, slots = (), 0
        if balance == elastic == "none" and random.random() < 0.8:
            costs = tuple(self.costs() for _ in range(random.randint(1, len(fan_outs) + 1)))
            slots = random.choice([0, 0, 1, 2, 5])
        found = Case(units, fan_outs, sizes, larger, balance, elastic, boot, tuple(made), costs, slots)
        if costs and random.random() < 0.1:
            only = (Costs(decision=each.decision, started=each.started, messages=each.messages) for each in costs)
            return replace(found, costs=tuple(only), slots=0)
        return found

    def costs(self) -> Costs:
        """About half of them nothing, the others of up to a second."""
        times = [random_time if self.random.random() < 0.5 else 0 for random_time in (self.time(1) for _ in range(8))]
        ingest, decision, started, start, event, spawn, message, launch = times
        return Costs(ingest, decision, started, start, event, spawn, self.random.randint(0, 4), message, launch)

    def levels(self, units: int) -> tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]:
        random = self.random
        number = random.randint(1, min(4, units))
        sizes: tuple[tuple[int, ...], ...] = ()
        least = units // number
        if random.random() < 0.5:
            left, parts = units - random.choice([0, 0, random.randint(0, units - number)]), []
            for child in range(number):
                parts.append(random.randint(1, left - (number - child - 1)))
                left -= parts[-1]
            sizes, least = (tuple(parts),), min(parts)
        if random.random() < 0.3 and least > 1:
            return (number, random.randint(1, min(3, least))), sizes
        return (number,), sizes

    def jobs(self, number: int, units: int, innermost: int, depth: int) -> Iterator[Submission]:
        random = self.random
        for submit in sorted(self.time(100) for _ in range(number)):
            size = random.randint(1, units) if random.random() < 0.3 else random.randint(1, max(units // 4, 1))
            limit = self.time(60) if random.random() < 0.2 else FOREVER
            level = random.randint(0, innermost) if innermost and random.random() < 0.15 else None
            inner: tuple[Submission, ...] = ()
            if depth and random.random() < 0.2:
                inner = tuple(self.jobs(random.randint(1, 6), size, 0, depth - 1))
            name = next(self.ids)
            yield Submission(name, submit, 1 if inner else self.time(40), limit, size, level=level, jobs=inner)
