"""What one instance of a hierarchy does, in its process: have children and wait for them, or run jobs.

The outermost one does the same in the process of the command.  First all begin, then all are told to go, so that the time in
which jobs run is not that in which interpreters start.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from fluxres.clock import stopwatch
from fluxres.errors import InsufficientResources
from fluxres.instance import Instance
from fluxres.instance.due import OVERTIME_S
from fluxres.launch import lifeline, work
from fluxres.launch.children import Child, Spawn
from fluxres.launch.facts import facts
from fluxres.launch.protocol import Begin, Row
from fluxres.launch.runner import ProcessRunner
from fluxres.launch.shares import child_begins
from fluxres.launch.turning import STARTS, turn, wind_down
from fluxres.syntax.jobspec import as_request

if TYPE_CHECKING:
    from fluxres.instance import Job
    from fluxres.launch.loop import Loop
    from fluxres.model import ResourceGraph


class Branch:
    """An instance of a hierarchy, and what it is for.

    Args:
        graph: its machine; the clock of that is the real one.
        begin: what it is to be.
        loop: what it waits with.
        rows: gets a row for every instance below it, and then its own.
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
        """Whether it shall end before all is done."""
        self.note = ""
        self.completed = self.failed = self.status = self.started = 0
        self.match_s = 0.0
        self.began_s, self.boot_s = self.instance.clock(), 0.0
        self._rows = rows
        self._below: list[Row] = []
        self._spawns: list[Spawn] = []

    @property
    def is_leaf(self) -> bool:
        """Whether it runs jobs itself."""
        return not self.begin.fan_outs

    @property
    def is_stopped(self) -> bool:
        """Whether it shall not go on."""
        return self.is_ended or self.loop.stops > 0

    @property
    def children(self) -> list[Child]:
        """Its children, those that are over too."""
        return [spawn.child for spawn in self._spawns if spawn.child is not None]

    @property
    def told(self) -> tuple[int, int]:
        """Jobs that completed and that failed, here and below, as far as is known."""
        working = [child.working for child in self.children]
        return self.completed + sum(one.completed for one in working), self.failed + sum(one.failed for one in working)

    # -- beginning ---------------------------------------------------------------------------------------------------

    def boot(self) -> None:
        """Start the children, and wait until each is there, with all below it, or lost.

        Errors: InsufficientResources where there is not enough for all of them.
        """
        began = stopwatch()
        for request, begin in () if self.is_leaf else child_begins(self.instance.graph, self.begin):
            spawn = Spawn(begin, self._heard)
            self._spawns.append(spawn)
            self.instance.submit(request, payload=spawn)
        self._schedule()
        if self.instance.pending:
            raise InsufficientResources(f"{self.instance.pending} children have nothing to begin with", where=self.begin.tree_id)
        while not self.is_stopped and not all(child.is_ready or child.is_over for child in self.children):
            self.loop.turn()
        self.boot_s = stopwatch() - began

    def _heard(self, row: Row) -> None:
        self._below.append(row)
        self._rows(row)

    # -- running -----------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Run the jobs, or let the children run theirs, until all are over or it is stopped.

        Errors: PolicyError for a policy that raises, or leaves jobs where nothing runs.
        """
        if self.is_leaf:
            self._submit()
        for child in self.children:
            child.go()
        while self.instance.is_active and not self.is_stopped:
            turn(self.instance, self.runner, self.loop, self._schedule)

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
        if job.result == "completed":
            self.completed += 1
            return
        self.failed += 1
        self.status = max(self.status, lifeline.exit_code(job.status) or 1)
        if not self.note:
            why = job.exceptions[0].note if job.exceptions else lifeline.told(job.status)
            self.note = f"job {job.id}: {why}"

    # -- ending ------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """End whatever still runs, wait for it to have ended, and then the instance."""
        patience_s = self.begin.grace_s * (len(self.begin.fan_outs) + 1) + OVERTIME_S
        wind_down(self.instance, self.runner, self.loop, patience_s)

    def row(self) -> Row:
        """What is to be told of this instance."""
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
