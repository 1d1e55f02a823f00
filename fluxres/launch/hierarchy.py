"""Run hierarchies of real instances on one machine, one after the other, and measure their jobs per second."""

from __future__ import annotations

import os
import tempfile
from array import array
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from fluxres import clock as clocks
from fluxres import limits
from fluxres.clock import stopwatch
from fluxres.errors import FluxresError, exit_status
from fluxres.launch import lifeline
from fluxres.launch.branch import STARTS_SUFFIX, Branch
from fluxres.launch.loop import Loop
from fluxres.launch.plan import Planned, instances, plan
from fluxres.launch.protocol import TREE, Begin, Row

if TYPE_CHECKING:
    from fluxres.model import ResourceGraph
    from fluxres.simulation.nesting.hierarchy import Hierarchy


@dataclass(frozen=True)
class EqualJobs:
    """A set of equal jobs.

    Args:
        jobs: number of jobs.
        job: ``instant``, ``sleep:DURATION`` or a command line.
        request: the request of each.
        duration_s: time limit of each; a job that exceeds it gets SIGTERM, and SIGKILL after the grace period.
    """

    jobs: int
    job: str = "instant"
    request: str = "slot=1/core"
    duration_s: float | None = None


@dataclass(frozen=True)
class Patience:
    """Timeouts.

    Args:
        grace_s: between SIGTERM and SIGKILL.
        silence_s: for a message from a child.
        timeout_s: for a complete hierarchy; None for no limit.
    """

    grace_s: float = limits.GRACE_SECONDS_DEFAULT
    silence_s: float = limits.SILENCE_SECONDS_DEFAULT
    timeout_s: float | None = None


@dataclass
class Outcome:
    """The result of a hierarchy.

    Args:
        topology: its fan-outs.
        instances: number of instances.
        jobs, completed, failed: numbers of jobs; the others were lost, or never started.
        boot_s: time until all instances were ready.
        run_s: time from then until the last job ended.
        rows: rows of the instances, in order.
        notes: problems, by instance.
        is_complete: whether it was not stopped early.
        heard_s: stopwatch time at which the last leaf instance ended.
        starts_s: when jobs started, in order, in seconds since the start of the hierarchy; empty if these are not kept.
    """

    topology: tuple[int, ...]
    instances: int
    jobs: int
    completed: int = 0
    failed: int = 0
    boot_s: float = 0.0
    run_s: float = 0.0
    rows: list[Row] = field(default_factory=list)
    notes: dict[str, str] = field(default_factory=dict)
    is_complete: bool = True
    heard_s: float = 0.0
    starts_s: list[float] = field(default_factory=list)

    def hear(self, row: Row) -> None:
        """Record that an instance has ended. Its process may take a moment to go, which does not count as run time of jobs."""
        self.rows.append(row)
        if row.is_leaf:
            self.heard_s = stopwatch()

    @property
    def name(self) -> str:
        """`1` for a flat instance, else such as `2x4`."""
        return "x".join(map(str, self.topology)) or "1"

    @property
    def lost(self) -> int:
        """Jobs without a known end."""
        return self.jobs - self.completed - self.failed

    @property
    def jobs_per_s(self) -> float | None:
        """Completed jobs per second while they ran; None if there were none."""
        return self.completed / self.run_s if self.completed and self.run_s > 0 else None

    @property
    def jobs_per_s_with_boot(self) -> float | None:
        """The same, including the boot time."""
        total_s = self.boot_s + self.run_s
        return self.completed / total_s if self.completed and total_s > 0 else None

    @property
    def status(self) -> int:
        """The highest exit code of its instances and jobs."""
        return max((row.status for row in self.rows), default=0)


def begin(
    hierarchy: Hierarchy,
    ensemble: EqualJobs,
    patience: Patience | None = None,
    *,
    inventory: str = "graph",
    folder: str = "",
    is_temporary: bool = False,
    keeps_starts: bool = False,
) -> Begin:
    """The parameters of the outermost instance of a hierarchy."""
    patience = patience or Patience()
    return Begin(
        tree_id=TREE,
        run=uuid4().hex,
        store="",
        graph=TREE,
        folder=folder,
        is_temporary=is_temporary,
        parent=os.getppid(),
        fan_outs=hierarchy.fan_outs,
        queue_policies=hierarchy.queue_policies,
        match_policies=hierarchy.match_policies,
        inventory=inventory,
        jobs=ensemble.jobs,
        job=ensemble.job,
        request=ensemble.request,
        duration_s=ensemble.duration_s,
        grace_s=patience.grace_s,
        silence_s=patience.silence_s,
        instances=instances(hierarchy.fan_outs),
        keeps_starts=keeps_starts,
    )


def check(
    machine: ResourceGraph,
    hierarchy: Hierarchy,
    ensemble: EqualJobs,
    patience: Patience | None = None,
    *,
    inventory: str = "graph",
) -> list[Planned]:
    """The instances that `run` would start, parents first; raises if it would refuse.

    Errors: InfeasibleRequest, UsageError, LimitExceeded.
    """
    return plan(machine.copy("/"), begin(hierarchy, ensemble, patience, inventory=inventory))


def run(
    machine: ResourceGraph,
    hierarchy: Hierarchy,
    ensemble: EqualJobs,
    patience: Patience | None = None,
    *,
    inventory: str = "graph",
    folder: str | Path | None = None,
    watched: Callable[[Branch], None] | None = None,
    keeps_starts: bool = False,
) -> Outcome:
    """Run jobs on the free part of a machine, with a process for every instance but the outermost.

    Args:
        machine: not modified.
        folder: directory in which the stores of the instances are kept; by default a temporary one that is deleted.
        watched: called with the outermost instance when all are ready, and at every message of one of them.
        keeps_starts: whether the result has the start of each job.

    Errors: those of `check`, before anything is started; KeyboardInterrupt on a signal to end, after everything has ended.
    """
    lifeline.require_support()
    check(machine, hierarchy, ensemble, patience, inventory=inventory)
    lifeline.raise_open_files()
    with _folder(folder, hierarchy) as place, Loop() as loop, loop.signals():
        first = begin(
            hierarchy,
            ensemble,
            patience,
            inventory=inventory,
            folder=place,
            is_temporary=folder is None,
            keeps_starts=keeps_starts,
        )
        graph = machine.copy("/")
        graph.clock = clocks.system
        outcome = Outcome(hierarchy.fan_outs, first.instances, ensemble.jobs)
        branch = Branch(graph, first, loop, outcome.hear)
        timeout_s = None if patience is None else patience.timeout_s
        if timeout_s is not None:
            loop.after(timeout_s, lambda: _time_is_over(branch, timeout_s))
        with branch.watching():
            _conduct(branch, outcome, watched)
        if keeps_starts:
            outcome.starts_s = sorted(start - branch.began_s for start in _starts(branch, place))
        if loop.stops:
            raise KeyboardInterrupt
    return outcome


def _conduct(branch: Branch, outcome: Outcome, watched: Callable[[Branch], None] | None) -> None:
    try:
        branch.boot()
        if watched is not None:
            watched(branch)
            _every(branch, watched)
        began = stopwatch()
        branch.run()
        outcome.run_s = (outcome.heard_s if outcome.rows else stopwatch()) - began
    except FluxresError as error:
        if branch.is_leaf:
            branch.note, branch.status = str(error), exit_status(error)
        else:
            raise
    finally:
        outcome.is_complete = not branch.is_stopped
        branch.close()
        lifeline.kill_marked(branch.begin.mark)
    outcome.boot_s = branch.boot_s
    rows = [branch.row(), *outcome.rows]
    outcome.rows = sorted(rows, key=lambda row: [int(part) for part in row.tree_id.split(".")[1:]])
    leaves = [row for row in rows if row.is_leaf]
    outcome.completed = sum(row.completed for row in leaves)
    outcome.failed = sum(row.failed for row in leaves)
    outcome.notes = {row.tree_id: row.note for row in outcome.rows if row.note}


def _starts(branch: Branch, folder: str) -> array[float]:
    """When the jobs of all instances started, in seconds since 1970."""
    if branch.is_leaf:
        return branch.starts_s
    found = array("d")
    for path in Path(folder).glob(f"*{STARTS_SUFFIX}"):
        found.frombytes(path.read_bytes())
    return found


def _every(branch: Branch, watched: Callable[[Branch], None]) -> None:
    watched(branch)
    branch.loop.after(limits.SIGN_OF_LIFE_S, lambda: _every(branch, watched))


def _time_is_over(branch: Branch, timeout_s: float) -> None:
    branch.is_ended = True
    branch.note = branch.note or f"stopped after {timeout_s:g} s"


@contextmanager
def _folder(given: str | Path | None, hierarchy: Hierarchy) -> Iterator[str]:
    if given is not None:
        made = Path(given).absolute()
        made.mkdir(parents=True, exist_ok=True)
        yield str(made)
    elif not hierarchy.fan_outs:
        yield ""  # there are no children to write a store for
    else:
        with tempfile.TemporaryDirectory(prefix="fluxres-", ignore_cleanup_errors=True) as name:
            yield name
