"""The work of one instance of a hierarchy in its process: start children and wait for them, or run jobs.

The outermost instance does the same in the process of the command. All instances boot before any of them starts jobs, so that the
start-up of interpreters does not count as run time of jobs.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from fluxres.clock import seconds, stopwatch
from fluxres.errors import InsufficientResources
from fluxres.instance import Instance
from fluxres.instance.holding import OVERTIME_S
from fluxres.instance.watchdog import watching
from fluxres.launch import lifeline, work
from fluxres.launch.children import Child, Spawn
from fluxres.launch.fork import Forker, Here
from fluxres.launch.nursery import Nursery
from fluxres.launch.plan import child_begins, facts
from fluxres.launch.protocol import TREE, Begin, Row
from fluxres.launch.work import STARTS, ProcessRunner, turn, wind_down
from fluxres.syntax.jobspec import as_request

if TYPE_CHECKING:
    from fluxres.instance import Job
    from fluxres.launch.loop import Loop
    from fluxres.model import ResourceGraph

STARTS_SUFFIX: Final = ".starts"
"""Of the file with the starts of the jobs of an instance, as doubles."""


class Branch:
    """An instance of a hierarchy with its work.

    Args:
        graph: its machine, with the real clock.
        begin: its parameters.
        loop: the loop with which it waits.
        rows: receives a row for every instance below it, and then its own.
    """

    def __init__(self, graph: ResourceGraph, begin: Begin, loop: Loop, rows: Callable[[Row], None]) -> None:
        self.begin, self.loop = begin, loop
        self.runner = ProcessRunner(loop, begin.mark, begin.grace_s)
        self.facts = facts(graph)
        self.instance = Instance(
            graph,
            queue_policy=begin.queue_policies[0],
            match_policy=begin.match_policies[0],
            inventory=begin.inventory,
            name=begin.tree_id,
            runner=self.runner,
            sink=self._is_over,
            events=False,
            passes="manual",
        )
        self.is_ended = False
        """Whether it must end before its work is done."""
        self.note = ""
        self.completed = self.failed = self.status = self.started = 0
        self.match_s = 0.0
        self.starts_s = array("d")
        """When its jobs started, in seconds since 1970, if these are kept."""
        self.began_s, self.boot_s = self.instance.clock(), 0.0
        self._rows = rows
        self._below: list[Row] = []
        self._spawns: list[Spawn] = []
        self._forker = _forker(begin)

    def watching(self) -> AbstractContextManager[None]:
        """While the block runs, end calls of its queue policy that do not end by themselves."""
        return watching(lambda: [self.instance], [self.instance.policy], is_ending=lambda: self.is_stopped)

    @property
    def is_leaf(self) -> bool:
        """Whether it runs jobs itself."""
        return not self.begin.fan_outs

    @property
    def is_stopped(self) -> bool:
        """Whether it must not continue."""
        return self.is_ended or self.loop.stops > 0

    @property
    def children(self) -> list[Child]:
        """Its children, including those that have ended."""
        return [spawn.child for spawn in self._spawns if spawn.child is not None]

    @property
    def job_counts(self) -> tuple[int, int]:
        """Known numbers of completed and failed jobs, here and below."""
        working = [child.working for child in self.children]
        return self.completed + sum(one.completed for one in working), self.failed + sum(one.failed for one in working)

    # -- boot ---------------------------------------------------------------------------------------------------

    def boot(self) -> None:
        """Start the children, and wait until each is ready, with all below it, or lost.

        Errors: InsufficientResources if there is not enough for all of them.
        """
        began = stopwatch()
        for request, begin in () if self.is_leaf else child_begins(self.instance.graph, self.begin):
            spawn = Spawn(begin, self._heard, self._forker)
            self._spawns.append(spawn)
            self.instance.submit(request, payload=spawn)
        self._schedule()
        if self.instance.pending:
            if (error := self.instance.queue.starts_nothing()) is not None:
                raise error
            raise InsufficientResources(f"{self.instance.pending} children have no resources", where=self.begin.tree_id)
        while not self.is_stopped and not all(child.is_ready or child.is_over for child in self.children):
            self.loop.turn()
        self.boot_s = stopwatch() - began

    def _heard(self, row: Row) -> None:
        self._below.append(row)
        self._rows(row)

    # -- run -----------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Run the jobs, or let the children run theirs, until all are done or it is stopped.

        Errors: PolicyError for a policy that raises, or starts no job although all could start, while nothing runs.
        """
        if self.is_leaf:
            self._submit()
        for child in self.children:
            child.go()
        while self.instance.is_active and not self.is_stopped and turn(self.instance, self.runner, self.loop, self._schedule):
            pass

    def _submit(self) -> None:
        begin = self.begin
        request, payload = as_request(begin.request), work.parse(begin.job)
        for number in range(begin.jobs):
            self.instance.submit(request, duration_s=begin.duration_s, payload=payload)
            if number % STARTS == 0:
                self.loop.turn(0.0)
                if self.is_stopped:
                    return
        self.runner.changed = True

    def _schedule(self, limit: int | None = None) -> int:
        began, away_s = stopwatch(), self.runner.away_s
        started = self.instance.schedule(limit)
        self.match_s += stopwatch() - began - (self.runner.away_s - away_s)
        self.started += started
        return started

    def _is_over(self, job: Job) -> None:
        if not self.is_leaf or job.result == "canceled":
            return
        if self.begin.keeps_starts and job.started >= 0:
            self.starts_s.append(seconds(job.started))
        if job.result == "completed":
            self.completed += 1
            return
        self.failed += 1
        self.status = max(self.status, lifeline.exit_code(job.status) or 1)
        if not self.note:
            why = job.exceptions[0].note if job.exceptions else lifeline.status_text(job.status)
            self.note = f"job {job.id}: {why}"

    # -- end ------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """End everything that still runs, wait for it, then end the instance."""
        patience_s = self.begin.grace_s * (len(self.begin.fan_outs) + 1) + OVERTIME_S
        wind_down(self.instance, self.runner, self.loop, patience_s)
        if self._forker is not None:
            self._forker.close()
        if self.starts_s and self.begin.folder:
            (Path(self.begin.folder) / f"{self.begin.tree_id}{STARTS_SUFFIX}").write_bytes(self.starts_s.tobytes())

    def row(self) -> Row:
        """The row of this instance."""
        below = [row for row in self._below if row.is_leaf]
        has, status = self.facts, max([self.status, *(row.status for row in self._below)])
        return Row(
            tree_id=self.begin.tree_id,
            begin_s=self.began_s,
            end_s=self.instance.clock(),
            boot_s=self.boot_s,
            match_s=self.match_s + self.runner.finish_s,
            started=self.started,
            jobs=self.begin.jobs,
            completed=self.completed + sum(row.completed for row in below),
            failed=self.failed + sum(row.failed for row in below),
            nodes=has.nodes,
            cores=has.cores,
            gpus=has.gpus,
            status=status,
            note=self.note,
            is_leaf=self.is_leaf,
        )


def _forker(begin: Begin) -> Forker | None:
    """What forks the children of an instance; a single child of the outermost one is executed, which is no slower."""
    if begin.tree_id != TREE:
        return Here()
    return Nursery(begin.mark, begin.silence_s + begin.instances) if begin.fan_outs and begin.fan_outs[0] > 1 else None
