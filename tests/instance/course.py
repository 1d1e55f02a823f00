"""Random calls of instances with a manual clock: jobs that outlive their limits, runners that stop jobs immediately, late or
never, allocations by others in the same graph, children.  The rules are checked from the calls of the runners and their reports
alone.

``python -m tests.instance.course --minutes 10 --seed 1`` runs such courses for some time.  Errors are printed with their seed,
and the exit status is then 1.
"""

from __future__ import annotations

import argparse
import contextlib
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from random import Random
from typing import Any

from fluxres import ResourceGraph
from fluxres.errors import FluxresError, InsufficientResources
from fluxres.instance import Instance, Job, State
from fluxres.instance.runner import STOPPED
from fluxres.simulation.machine import of_number, of_shape
from tests.queue_policies import POLICIES

STYLES = ("at once", "late", "never", "mixed", "keeps limits", "breaks limits")
MACHINES = {"graph": ("node=4", "rack=2/node=2/core=2", "8"), "auto": ("node=5", "rack=2/node=2/core=2", "8")}
SETTLE_STEPS_MAX = 480
"""Steps in which all jobs must end after a course."""


class Clock:
    """A clock that the course sets, in seconds."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


class ObservingRunner:
    """A runner that records its calls, and what each job uses from its start until its end was reported.

    Args:
        style: how jobs end when they are asked to stop.
    """

    def __init__(self, course: Course, style: str, *, keeps_limits: bool) -> None:
        self.course = course
        self.style = style
        self.keeps_limits = keeps_limits
        self.using: dict[Job, frozenset[Any]] = {}
        self.asked: dict[Job, float] = {}
        """When the end of jobs that were asked to stop will be reported."""
        self.limit: dict[Job, float] = {}
        self.closing: Job | None = None
        """The job of a child that is being closed."""
        self.log: list[tuple[float, str, str]] = []

    def start(self, job: Job) -> None:
        try:
            self._begin(job)
        except Exception as error:  # noqa: BLE001  # the instance would turn it into an exception of its job
            self.course.wrong(f"{job!r} starts, and the oracle: {error!r}")

    def _begin(self, job: Job) -> None:
        now_s = self.course.clock.now_s
        self.log.append((now_s, "start", job.name or ""))
        self.course.require_nothing_overdue(f"when {job!r} starts", [job.instance])
        if job in self.using:
            self.course.wrong(f"{job!r} is started twice")
        mine = self.course.units(job)
        above = set(_above(job))
        for other, theirs in self.using.items():
            ends_now = self.keeps_limits and now_s in {self.limit.get(each) for each in (other, *_above(other))}
            both = {what for what in mine & theirs if isinstance(what, str)}
            if other not in above and both and not ends_now:
                self.course.wrong(f"{job!r} starts on {sorted(both)}, and {other!r} has not stopped")
        self._count(job, mine)
        self.course.require_not_held_by_others(job, mine)
        self.using[job] = mine
        self.limit[job] = round(now_s + job.duration_s, 6)

    def _count(self, started: Job, mine: frozenset[Any]) -> None:
        """For units without names: the jobs of an instance do not use more than it has."""
        now_s, above = self.course.clock.now_s, started.instance.job_in_parent
        used = Counter({what[0]: what[1] for what in mine if isinstance(what, tuple)})
        for job, theirs in self.using.items():
            ends_now = self.keeps_limits and self.limit[job] == now_s
            if job.instance is started.instance and not ends_now:
                used.update({what[0]: what[1] for what in theirs if isinstance(what, tuple)})
        for path, number in used.items():
            has = self.course.graph.pool(path).size
            if above is not None:
                has = dict(what for what in self.using.get(above, ()) if isinstance(what, tuple)).get(path, 0)
            if number > has:
                self.course.wrong(f"{number} units of {path} are in use, of {has}, when {started!r} starts")

    def stop(self, job: Job, why: str) -> None:
        try:
            self._end(job, why)
        except Exception as error:  # noqa: BLE001  # the same
            self.course.wrong(f"{job!r} is asked to stop, and the oracle: {error!r}")

    def _end(self, job: Job, why: str) -> None:
        now_s = self.course.clock.now_s
        self.log.append((now_s, f"stop {why}", job.name or ""))
        if job is self.closing:
            return
        if job not in self.using:
            self.course.wrong(f"{job!r} is asked to stop and is not running")
        if job in self.asked:
            self.course.wrong(f"{job!r} is asked to stop twice")
        style = self.style
        if style == "mixed":
            style = ("at once", "late", "never")[job.number % 3]
        if style == "at once" or (style == "keeps limits" and why != "timelimit"):
            self.asked[job] = now_s
            self.report_end(job, STOPPED)
        else:
            self.asked[job] = now_s + 1 + job.number % 23 if style != "never" else float("inf")

    def report_end(self, job: Job, status: int) -> None:
        """Report the end of a job."""
        self.forget(job)
        self.course.called.add(job.instance)
        job.instance.finish(job, status)

    def forget(self, job: Job) -> None:
        """Forget a job whose end is about to be reported."""
        self.log.append((self.course.clock.now_s, "end", job.name or ""))
        self.using.pop(job, None)
        self.asked.pop(job, None)


def _above(job: Job) -> Iterator[Job]:
    at: Job | None = job.instance.job_in_parent
    while at is not None:
        yield at
        at = at.instance.job_in_parent


LOST = re.compile(r"rule T1: (\S+) has not ended, and (no longer holds it|holds \d+ of \d+ units)")


class Course:
    """A sequence of random calls, determined by its seed."""

    def __init__(self, seed: int) -> None:
        random = self.random = Random(seed)
        self.broken: list[str] = []
        self.clock = Clock()
        inventory = random.choice(("graph", "auto", "named", "counted"))
        self.policy = random.choice(POLICIES)
        machine = "8" if inventory == "counted" else "node=5" if inventory == "named" else random.choice(MACHINES[inventory])
        self.style = random.choice(STYLES)
        self.is_manual = random.random() < 0.25
        self.runner = ObservingRunner(self, self.style, keeps_limits=self.style in ("keeps limits", "breaks limits"))
        self.graph = of_number(int(machine)) if machine.isdecimal() else of_shape(machine)
        self.others: dict[str, tuple[frozenset[Any], float, float]] = {}
        self.locks: dict[str, str] = {}
        self.machine = f"{inventory} {machine} {self.policy} {self.style}{' manual' * self.is_manual}"
        self.has_others = self.random.random() < 0.6
        if self.has_others and random.random() < 0.5:
            self.reserve(self.graph)
        self.top = Instance(
            self.graph,
            queue_policy=self.policy,
            clock=self.clock,
            inventory=inventory,
            runner=self.runner,
            passes="manual" if self.is_manual else "event",
            name="top",
        )
        self.made = self.steps = 0
        self.called: set[Instance] = set()
        """The instances that were called in this step."""

    def wrong(self, what: str) -> None:
        self.broken.append(f"at {self.clock.now_s}: {what}")

    # -- what is in use ------------------------------------------------------------------------------------------------

    def units(self, job: Job) -> frozenset[Any]:
        """The leaves of the machine that a job holds; units of a pool as a number."""
        return self.leaves(job.pools)

    def leaves(self, pools: list[tuple[str, int]]) -> frozenset[Any]:
        found: set[Any] = set()
        structure = self.graph.structure
        for path, amount in pools:
            v = structure.vertex(path)
            if structure.size.item(v) > 1:
                found.add((path, amount))
                continue
            below = range(v, structure.end.item(v))
            found |= {structure.path(u) for u in below if structure.end.item(u) == u + 1}
        return frozenset(found)

    def require_nothing_overdue(self, when: str, where: Collection[Instance]) -> None:
        now_s, runner = self.clock.now_s, self.runner
        for job in runner.using:
            if runner.keeps_limits and job.instance not in where:
                continue  # its own instance detects it when it is called
            if runner.limit[job] < now_s and job not in runner.asked and job.state is not State.CLEANUP:
                self.wrong(f"{job!r} is overdue since {runner.limit[job]} {when}, and was not asked to stop")

    def require_not_held_by_others(self, job: Job, mine: frozenset[Any]) -> None:
        now_s = self.clock.now_s
        is_child = job.instance is not self.top
        for name, (theirs, start, end) in self.others.items():
            until = now_s + (1e-6 if is_child else job.duration_s)
            if mine & theirs and start < until and now_s < end:
                self.wrong(f"{job!r} starts on what {name} holds over {start} to {end}")

    # -- steps ---------------------------------------------------------------------------------------------------------

    def run(self) -> list[str]:
        """Run the course; returns what was wrong."""
        for _ in range(self.random.choice((10, 20, 40))):
            self.step()
            if self.broken:
                break
        else:
            self.settle()
        return [f"{self.machine}: {text}" for text in self.broken]

    def step(self) -> None:
        self.steps += 1
        self.wait(self.random.choice((0, 0, 0.25, 1, 1, 3, 8, 25)))
        weights = {
            self.submit: 8,
            self.finish: 3,
            self.cancel: 2,
            self.duration: 2,
            self.urgency: 1,
            self.state: 1,
            self.look: 2,
            self.schedule: 3 if self.is_manual else 1,
            self.advance: 3,
            self.spawn: 2,
            self.child: 3,
            self.except_: 1,
            self.other: 3 if self.has_others else 0,
        }
        (what,) = self.random.choices(list(weights), list(weights.values()))
        self.called.clear()
        what()
        if not self.called:
            return
        self.require_nothing_overdue(f"after {what.__name__}", self.called)
        self.audit(what.__name__)

    def attempt(self, call: Callable[..., Any], *given: Any, refuses: bool = False, **more: Any) -> Any:
        """Make a call; it may only raise a FluxresError, and only if `refuses`."""
        if isinstance(instance := getattr(call, "__self__", None), Instance):
            self.called.add(instance)
        try:
            return call(*given, **more)
        except FluxresError as error:
            if not refuses:
                self.wrong(f"{call.__name__}{given}: {type(error).__name__}: {error}")
        return None

    def wait(self, length_s: float) -> None:
        """Advance the clock; jobs end when their time has come, without a call of the instance before."""
        end_s = self.clock.now_s + length_s
        runner = self.runner
        while True:
            coming = [(moment, job) for job, moment in runner.asked.items()]
            if self.style == "keeps limits":
                coming += [(runner.limit[job], job) for job in runner.using if job not in runner.asked]
            coming = [each for each in coming if each[0] <= end_s]
            if not coming:
                break
            moment, job = min(coming, key=lambda each: (each[0], each[1].instance.depth, each[1].number))
            self.clock.now_s = max(self.clock.now_s, moment)
            if self.style == "keeps limits" and self.random.random() < 0.3:
                self.submit()  # before the ends of this moment are reported
            if job in runner.using:
                self.attempt(runner.report_end, job, 0)
        self.clock.now_s = end_s

    def audit(self, after: str) -> None:
        problems = self.attempt(self.top.check) or []
        late = {str(job.id) for job in self.runner.using if job.state is State.CLEANUP}
        for problem in problems:
            found = LOST.match(problem.message)  # others may have reserved what a job has that does not stop
            if found is None or found[1] not in late or not self.others:
                self.wrong(f"after {after}: {problem}")

    def job(self, *states: State, where: Instance | None = None) -> Job | None:
        found = [job for one in ([where] if where else self.top.walk()) for job in one.jobs(*states)]
        return self.random.choice(found) if found else None

    def submit(self, where: Instance | None = None) -> None:
        random, instance = self.random, where or self.top
        if self.graph.structure.types == ["cluster", "node"]:
            wanted = f"slot={random.randint(1, 4)}/node"
        elif "node" in self.graph.structure.types:
            wanted = random.choice((f"slot={random.randint(1, 4)}/node", f"slot={random.randint(1, 3)}/core", "slot=1/rack"))
        else:
            wanted = f"slot=1/core={random.randint(1, 6)}"
        waits = []
        if random.random() < 0.15:
            waits = [f"begin-time:{self.clock.now_s + random.randint(0, 5)}"]
        before = self.job(where=instance)
        if random.random() < 0.15 and before is not None:
            waits = [f"{random.choice(('after', 'afterany', 'afterok'))}:{before.id}"]
        self.made += 1
        self.attempt(
            instance.submit,
            wanted,
            duration_s=self.length(),
            dependencies=waits,
            urgency=16 if random.random() < 0.9 else random.choice((0, 1, 20, 31)),
            name=f"j{self.made}",
            refuses=True,
        )

    def length(self) -> float | None:
        found: float | None = self.random.choice((None, 1, 2, 5, 9, 20))
        if found is not None and self.style == "breaks limits":
            found += 0.1  # never at a moment at which anything happens: then it may still be about to end
        return found

    def finish(self) -> None:
        job = self.job(State.RUN, State.CLEANUP)
        if job is not None and not job.instance.is_closed and job in self.runner.using:
            self.attempt(self.runner.report_end, job, self.random.choice((0, 0, 1)))

    def cancel(self) -> None:
        job = self.job(State.DEPEND, State.SCHED, State.SCHED, State.RUN)
        if job is not None:
            self.attempt(job.instance.cancel, job, refuses=True)

    def except_(self) -> None:
        job = self.job(State.SCHED, State.RUN)
        if job is not None:
            self.attempt(job.instance.exception, job, "x", severity=self.random.choice((0, 3)), refuses=True)

    def duration(self) -> None:
        job, length = self.job(State.SCHED, State.RUN), self.length()
        if job is None:
            return
        before = job.duration_s
        self.called.add(job.instance)
        try:
            job.instance.set_duration(job, length)
        except InsufficientResources:
            if not self.others:
                self.wrong(f"{job!r} cannot have {length} s, and nobody holds anything")
        except FluxresError:
            pass
        if job in self.runner.limit and job.duration_s != before:
            self.runner.limit[job] = round((job.started_at or 0.0) + job.duration_s, 6)

    def urgency(self) -> None:
        job = self.job(State.SCHED)
        if job is not None:
            self.attempt(job.instance.set_urgency, job, self.random.choice((0, 5, 16, 31)), refuses=True)

    def state(self) -> None:
        nodes = [pool.path for pool in self.graph.find("type=node")]
        if nodes:
            self.attempt(self.top.set_state, self.random.choice(nodes), self.random.choice(("down", "drain", "up", "up")))

    def look(self) -> None:
        self.called.add(self.top)
        self.attempt(lambda: self.top.graph)
        self.attempt(self.top.next_due)

    def advance(self) -> None:
        self.attempt(self.top.advance)

    def schedule(self) -> None:
        self.attempt(self.top.schedule, self.random.choice((None, 1)))

    # -- children ------------------------------------------------------------------------------------------------------

    def spawn(self) -> None:
        job = self.job(State.RUN)
        if job is not None and job.child is None and job.instance.depth < 2:
            self.attempt(job.instance.spawn, job, inventory="auto", refuses=True)

    def child(self) -> None:
        found = list(self.top.walk())[1:]
        if not found:
            return
        one, how = self.random.choice(found), self.random.randrange(8)
        job = one.job_in_parent
        assert job is not None
        if how < 4:
            self.submit(one)
        elif how == 4:
            self.close(one)
        elif how == 5:
            self.attempt(one.fail, "broken", refuses=True)
        elif how == 6:
            self.attempt(one.set_expiration, self.clock.now_s + self.random.randint(0, 9), refuses=True)
        elif self.top.inventory.kind == "graph" or self.top.choice.is_adaptive:
            nodes = [pool.path for pool in one._graph.find("type=node")]
            if self.random.random() < 0.5:
                self.attempt(one.grow, "slot=1/node", refuses=True)
            elif nodes:
                node = self.random.choice(nodes)
                if job in self.runner.using:
                    self.runner.using[job] -= self.leaves([(node, 1)])
                self.attempt(one.shrink, node, refuses=True)
            if job in self.runner.using:
                self.runner.using[job] = self.units(job)

    def close(self, child: Instance) -> None:
        """Whoever closes a child says that its job has ended."""
        job = child.job_in_parent
        assert job is not None
        self.attempt(child.check)  # what is due comes before that, and may start jobs in it
        self.runner.forget(job)
        self.runner.closing = job
        self.attempt(child.close)
        self.runner.closing = None

    # -- others --------------------------------------------------------------------------------------------------------

    def other(self) -> None:
        """Others allocate in the graph, and free what they hold, without a word to the instance."""
        random = self.random
        if self.others and random.random() < 0.4:
            self.give_back(random.choice(list(self.others)))
        else:
            # A graph that does not know yet what runs would give it out.
            self.reserve(self.top.graph)

    def give_back(self, name: str) -> None:
        del self.others[name]
        with contextlib.suppress(FluxresError):  # a lock may have fallen by itself
            if name in self.locks:
                self.graph.release(self.locks[name])
            else:
                self.graph.free(name)

    def reserve(self, graph: ResourceGraph) -> None:
        random = self.random
        path = random.choice([pool.path for pool in graph.find("type=node or type=core or type=rack")])
        v = graph.structure.vertex(path)
        amount = random.randint(1, graph.structure.size.item(v))
        start = self.clock.now_s + random.choice((0, 0, 1, 5, 10))
        end = start + random.choice((0.5, 3, 7, 30))
        name = f"other{len(self.others)}-{random.randrange(1 << 30)}"
        try:
            if random.random() < 0.2:
                length_s = end - self.clock.now_s
                self.locks[name] = graph.stage([(path, amount)], job=name, start=start, end=end + 1000, ttl_s=length_s).stage
            else:
                graph.allocate([(path, amount)], job=name, start=start, end=end)
        except FluxresError:
            return
        units = frozenset[Any]() if graph.structure.size.item(v) > 1 else self.leaves([(path, amount)])
        self.others[name] = units, start, end

    # -- the end -------------------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Let all jobs end, calling only what the instance requests, to check that none starves."""
        self.style = self.runner.style = "at once"
        for name in list(self.others):
            self.give_back(name)
        for pool in self.graph.find("type=node"):
            self.attempt(self.top.up, pool.path)
        for one in list(self.top.walk())[1:]:
            if not one.is_closed and not one.is_ending:
                self.close(one)
        for job in self.top.jobs(State.SCHED, State.DEPEND):
            if job.urgency == 0:
                self.attempt(self.top.cancel, job, refuses=True)
        self.attempt(self.top.advance)
        for _ in range(SETTLE_STEPS_MAX):
            if self.broken or not self.top.is_active:
                break
            for job in list(self.runner.using):
                if job in self.runner.using and (job in self.runner.asked or job.duration_s == float("inf")):
                    self.attempt(self.runner.report_end, job, 0)
            if self.is_manual:
                self.attempt(self.top.schedule)
            due = self.attempt(self.top.next_due)
            running = [job for job in self.runner.using if job not in self.runner.asked]
            if running and self.runner.keeps_limits:
                end = min(self.runner.limit[job] for job in running)
                if end < float("inf") and (due is None or end <= due):
                    self.clock.now_s = max(self.clock.now_s, end)
                    for job in running:
                        if job in self.runner.using and self.runner.limit[job] <= self.clock.now_s:
                            self.attempt(self.runner.report_end, job, 0)
                    continue
            if due is None and self.top.is_active:
                if not any(job.state is State.RUN for job in self.top.jobs()):
                    self.wrong(f"nothing is due, and these are left: {self.top.jobs(State.SCHED, State.DEPEND, State.CLEANUP)}")
                continue
            if due is not None:
                self.clock.now_s = max(self.clock.now_s, due)
                self.attempt(self.top.advance)
        else:
            self.wrong(f"it does not end: {self.top.jobs()}")
        self.audit("the end")
        if not self.broken and (self.graph.jobs() or self.runner.using):
            self.wrong(f"left behind: {self.graph.jobs()} {list(self.runner.using)}")


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    end = time.monotonic() + 60.0 * given.minutes
    seed = wrong = steps = 0
    for seed in range(given.seed, sys.maxsize):
        if time.monotonic() > end:
            break
        made = Course(seed)
        try:
            found = made.run()
        except Exception:
            print(f"seed {seed}: {made.machine}")
            raise
        steps += made.steps
        if found:
            wrong += 1
            print(f"seed {seed}:", *found[:5], sep="\n  ", flush=True)
    print(f"{seed - given.seed} courses from seed {given.seed} on, {steps} steps, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
