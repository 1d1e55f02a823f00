"""What others hold in the graph of an instance: jobs that are not its own, advance reservations and stages.

Others may allocate and free in the graph without calling the instance.  It detects this at its next call, because the revision of
the graph differs from the one after its own last change.
"""

from __future__ import annotations

from collections import Counter
from typing import Protocol

from fluxres.allocation.facts import JobFacts
from fluxres.clock import FOREVER
from fluxres.instance import pool_states, recording
from fluxres.instance.choice import ChoiceOwner, InventoryChoice
from fluxres.instance.job import Job, JobIds
from fluxres.instance.states import State
from fluxres.model import changes
from fluxres.syntax import fluid
from fluxres.syntax.name import is_name


class OthersOwner(ChoiceOwner, Protocol):
    """What `Others` uses of its instance."""

    choice: InventoryChoice
    ids: JobIds


class Others:
    """What others hold in the graph of one instance."""

    def __init__(self, instance: OthersOwner) -> None:
        self._instance = instance
        self.names: frozenset[str] = frozenset()
        """The names of jobs of others that hold something in the graph; the instance does not use them for its own jobs."""
        self.ends: list[int] = []
        """The moments at which others free something, latest first."""
        self.coming: Job | None = None
        """The job for which something is just being reserved ahead: it is not among the active ones yet."""

    @property
    def have_changed(self) -> bool:
        """Whether others have changed the graph since the last update of the instance."""
        return self._instance.holdings.graph.revision != self._instance.inventory.revision

    def refresh_if_changed(self) -> None:
        """Update after changes by others in the graph, if there are any."""
        if self.have_changed:
            self.refresh()
            self.adopt_ends()
            self._instance.due.owe_pass()

    def adopt_ends(self) -> None:
        """Let running jobs have the limits to which others have moved their ends in the graph."""
        for job, end in self._instance.holdings.take_moved_ends():
            if job.state is State.RUN:  # a listener may have ended it
                self._instance.lifecycle.adopt_end(job, end)

    def refresh(self) -> None:
        """Update what others hold (earlier jobs, advance reservations, stages), when they free it, and states of pools.

        Cost: O(what others hold).
        """
        instance, holdings = self._instance, self._instance.holdings
        graph, now = holdings.graph, instance.time.now
        changes.expire_stages(graph)
        if instance.inventory.is_stale:
            instance.inventory.refresh()
            instance.queue.reservations_dropped()
        pool_states.propagate(holdings)
        records = graph.records
        names = [name for name in records.jobs() if self.own_job(name) is None]
        differs = holdings.compare_records()
        if (names or records.stages or differs) and instance.inventory.kind != "graph":
            if instance.choice.is_adaptive:
                instance.choice.adapt(None)
            else:
                holdings.record_jobs()  # the graph must not allocate what is running to others
        self.names = frozenset(name for name in names if name in self.names or not instance.ids.is_issued(name))
        ends = {end for name in names for end in records.ends(name)}
        ends.update(min(stage.expires, stage.end) for stage in records.stages.values())
        self.ends = sorted((end for end in ends if now < end < FOREVER), reverse=True)
        inventory = instance.inventory
        if inventory.kind != "graph":
            held = Counter(recording.units_held(records, names, now)) + Counter(holdings.grown)
            if inventory.set_held_by_others(held):
                instance.queue.reservations_dropped()
        instance.due.reacquire()
        for other in list(instance.time.disputing):
            if other is not instance.due and other is not instance.time.outermost:
                other.reacquire()
        inventory.forget_failures()
        inventory.revision = graph.revision
        holdings.find_cut()
        holdings.recount()
        for child, lost in holdings.lost_of_children():
            pool_states.drain(child, lost)
        instance.queue.supplies_returned()
        if self.ends:
            instance.due.announce(self.ends[-1] - 1)

    def note_drawn_elsewhere(self) -> None:
        """Note that the graph now shows what other instances draw, which is not a change by others in it."""
        instance, graph = self._instance, self._instance.holdings.graph
        if instance.inventory.revision == graph.revision - 1:
            instance.inventory.revision = graph.revision
        instance.queue.supply_changed()

    # -- which jobs are own ones -------------------------------------------------------------------------------------

    def own_job(self, name: str) -> Job | None:
        """The active job of the instance that has this id in the graph."""
        return self._instance.holdings.jobs.get(fluid.decode(name)) if fluid.is_name(name) else None

    def facts_of(self, name: str) -> JobFacts | None:
        """The user and the name of an own job, for the graph in which it gets its first pools."""
        job = self.own_job(name) or self.coming
        if job is None or (job.user is None and job.name is None):
            return None
        return JobFacts(_label(job.user), _label(job.name), self._instance.time.now)


def _label(text: str | None) -> str | None:
    """A user or the name of a job as a graph records it; None for what it refuses, as stores of earlier versions may have."""
    return str(text) if is_name(text) else None
