"""The queue policy `hyperqueue`: tasks go to workers as HyperQueue's server assigns them.

A worker is a node of the graph.  Its time to live is the property `expiration` (seconds of the clock), its group the property
`worker_group`, and `min_utilization` the part of its cpus that must be in use for anything to start.  Jobs with requests in the
language of HyperQueue are assigned together (:mod:`fluxres.instance.assignment`); then the matcher chooses the pools of each in
its node.  Any other job starts after them, in the order of the queue, if there is room.

Cost of a pass: the nodes times the kinds of requests, and the search, which is bounded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Any, Final

from fluxres.clock import seconds
from fluxres.instance.assignment import Assignment, TaskClass, WorkerState, assign
from fluxres.instance.job import PRIORITY_MAX, PRIORITY_MIN, URGENCY_DEFAULT, Job
from fluxres.instance.queue import Queue, QueuePolicy
from fluxres.match.chooser import Offer, placed
from fluxres.match.situation import Eligible
from fluxres.match.workers import EXPIRATION, GROUP, Amounts, Workers
from fluxres.syntax import fluid
from fluxres.syntax.variants import CPUS, Variant

MIN_UTILIZATION: Final = "min_utilization"
"""The property of a node that says which part of its cpus must be in use for anything to start."""
_ZERO: Final = 1 << 31
"""The priority of a job whose HyperQueue priority is 0: these are 32 bit numbers with a sign."""


@dataclass
class _Waiting:
    """Waiting jobs with equal requests, in the order of the queue."""

    jobs: list[Job]
    eligible: Eligible
    rule: Amounts


class HyperQueue(QueuePolicy):
    """Assigns tasks to workers as HyperQueue does: by priority, with gaps filled and workers kept for those that wait.

    The priority of a job is that of its request (``--priority``), any 32 bit number, else its urgency less 16.
    """

    name = "hyperqueue"

    def priority(self, job: Job, now_s: float) -> int:
        stated = _stated(job.request.attributes)
        wanted = job.urgency - URGENCY_DEFAULT if stated is None else stated
        return max(PRIORITY_MIN + 1, min(_ZERO + wanted, PRIORITY_MAX - 1))

    def schedule(self, queue: Queue) -> None:
        graph = queue.graph
        matcher = graph.matcher
        matcher.follow_suppliers()
        classes: dict[object, _Waiting] = {}
        others = []
        for job in queue:
            request = job.request
            if not isinstance(request.chooser, Amounts):
                others.append(job)
                continue
            key = request.chooser, request.constraint, request.queue
            found = classes.get(key)
            if found is None:
                eligible = matcher.eligible_for(request)
                found = classes[key] = _Waiting([], eligible, request.chooser)
            found.jobs.append(job)
        if classes:
            _Round(queue, list(classes.values())).run()
        for job in others:
            queue.start(job)


def _stated(attributes: Mapping[str, Any]) -> int | None:
    """The priority that a request states."""
    user = attributes.get("user")
    asked = user.get("asked") if isinstance(user, Mapping) else None
    stated = asked.get("priority") if isinstance(asked, Mapping) else None
    return stated if isinstance(stated, int) and not isinstance(stated, bool) else None


class _Round:
    """One assignment of everything that waits."""

    def __init__(self, queue: Queue, waiting: list[_Waiting]) -> None:
        self.queue, self.waiting = queue, waiting
        self.matcher = queue.graph.matcher
        self.now = queue.now
        self.offer: Offer = self.matcher.offer(None, self.now, self.now + 1)
        self.workers = Workers.of(self.offer)
        self.nodes = self.workers.hosts.tolist()
        names = (ask.name for each in waiting for variant in each.rule.variants for ask in variant.asks)
        #: the resources in question; cpus because they measure how full a worker is
        self.names = list(dict.fromkeys([CPUS, *names]))

    def run(self) -> None:
        states = self._states()
        found = assign(states, [self._class_of(each) for each in self.waiting])
        for job, number, nodes in self._in_order(found):
            self.queue.start(job, partial(self._place, job, number, nodes))

    def _class_of(self, waiting: _Waiting) -> TaskClass:
        sizes: list[tuple[int, int]] = []
        for job in waiting.jobs:
            if sizes and sizes[-1][0] == job.priority:
                sizes[-1] = job.priority, sizes[-1][1] + 1
            else:
                sizes.append((job.priority, 1))
        eligible = waiting.eligible
        allowed = None if eligible.everywhere else frozenset(at for at, v in enumerate(self.nodes) if eligible.of(v))
        return TaskClass(waiting.rule.variants, sizes, allowed)

    def _place(self, job: Job, number: int, nodes: list[int], start: int, end: int) -> Any:
        rule = job.request.chooser
        assert isinstance(rule, Amounts)
        offer = self.matcher.offer(job.request, start, end)
        found = placed(rule.on(offer, number, nodes), offer, ())
        if found is None and self.matcher.typology.drawn_by_itself:  # the assignment does not know what suppliers have left
            return self.matcher.match(job.request, start, end)
        return found

    # -- the workers -------------------------------------------------------------------------------------------------

    def _states(self) -> list[WorkerState]:
        used = self._used()
        return [self._state(v, used.get(v, {})) for v in self.nodes]

    def _state(self, v: int, used: Mapping[tuple[Variant, ...], Mapping[str, int]]) -> WorkerState:
        situation = self.offer.situation
        total: dict[str, int] = {}
        free: dict[str, int] = {}
        if situation.is_up(v):
            for name in self.names:
                layout = self.workers.layout(v, name)
                if layout is not None:
                    supply = self.workers.supply(layout, self.offer)
                    total[name], free[name] = supply.size, supply.most
        held = {name: total[name] - free[name] - sum(of.get(name, 0) for of in used.values()) for name in total}
        used = {**used, (): {name: amount for name, amount in held.items() if amount > 0}}  # by jobs without such a request
        end = self.workers.number_of(v, EXPIRATION)
        lives_s = inf if end is None else end - seconds(self.now)
        group = self.workers.property_of(v, GROUP)
        least = self.workers.number_of(v, MIN_UTILIZATION) or 0.0
        is_idle = not situation.planner.busy_below(v, self.now, self.now + 1) and situation.free(v) > 0
        return WorkerState(total, free, lives_s, "" if group is None else str(group), least, used, is_idle)

    def _used(self) -> dict[int, dict[tuple[Variant, ...], dict[str, int]]]:
        """What running jobs hold, by node and by the variants of their requests."""
        found: dict[int, dict[tuple[Variant, ...], dict[str, int]]] = {}
        records, node_at = self.queue.graph.records, self.matcher.typology.node_at
        for job in self.queue.running():
            rule = job.request.chooser
            chosen = records.chosen.get(fluid.encode(job.number))
            if not isinstance(rule, Amounts) or chosen is None or not chosen.pools or chosen.variant >= len(rule.variants):
                continue
            variants = rule.variants
            node = max(node_at[chosen.pools[0]], 0)
            amounts = found.setdefault(node, {}).setdefault(variants, {})
            for ask in variants[chosen.variant].asks:
                amounts[ask.name] = amounts.get(ask.name, 0) + max(ask.amount, 0)
        return found

    # -- the tasks ---------------------------------------------------------------------------------------------------

    def _in_order(self, found: Assignment) -> list[tuple[Job, int, list[int]]]:
        """Which job starts with which variant on which nodes, by priority."""
        mapped = list(self._mapped(found))
        return sorted(mapped, key=lambda each: (-each[0].priority, each[0].number))

    def _mapped(self, found: Assignment) -> Iterator[tuple[Job, int, list[int]]]:
        """Tasks of equal requests go to their workers in turn."""
        queues = [iter(each.jobs) for each in self.waiting]
        for of, number in sorted({(of, number) for of, number, _ in found.counts}):
            counts = {worker: count for (o, n, worker), count in found.counts.items() if (o, n) == (of, number)}
            while counts:
                for worker in sorted(counts):
                    yield next(queues[of]), number, [self.nodes[worker]]
                    counts[worker] -= 1
                counts = {worker: count for worker, count in counts.items() if count}
        for of, sets in found.sets.items():
            for members in sets:
                yield next(queues[of]), 0, [self.nodes[worker] for worker in members]
