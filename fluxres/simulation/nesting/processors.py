"""The processors of all instances of a simulation, each with one task after the other, and the starts that they have ordered.

A task begins when those before it are complete.  A decision is such a task: the state at its beginning decides, and its jobs are
started when it is complete.  A job goes this way: ingest, decision, start, its nodes are on, a slot on each of them, launch; it
runs; when it has ended: event, after which its resources are free.  Its nodes are switched on from the decision on.  The job of
an instance, once launched: spawn, messages, each of which waits in the queue of the parent, boot; then the instance begins, and
its slots are free.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from fluxres.clock import FOREVER, ticks
from fluxres.errors import InsufficientResources, UsageError
from fluxres.instance.states import State
from fluxres.simulation.events import KeepEvent, LaunchedEvent, ReadyEvent, ServedEvent
from fluxres.simulation.nesting.launches import JobLaunch
from fluxres.simulation.nesting.processor import DECISION, EVENT, INGEST, MESSAGE, SPAWN, START
from fluxres.simulation.nesting.slots import Slots

if TYPE_CHECKING:
    from collections.abc import Callable

    from fluxres.instance import Job
    from fluxres.simulation.nesting.sites import Site
    from fluxres.simulation.simulation import Simulation


class Processors:
    """The processors of all instances of a simulation, and what jobs wait for between them.

    Args:
        each: slots of each node for launches; 0 for any number.
    """

    def __init__(self, simulation: Simulation, each: int) -> None:
        self.simulation = simulation
        self.push = simulation.events.push
        self.slots = Slots(each) if each else None
        if each and "node" not in simulation.machine.graph.structure.types:
            raise UsageError(
                "starts per node: the machine has no nodes", where="hierarchy", hint="give a machine such as node=100"
            )
        self.launches: dict[Job, JobLaunch] = {}
        """Of jobs that have resources and do not run yet, or whose instance has not begun."""
        self.ended: dict[Job, int] = {}
        """When jobs ended whose end their instance has not processed yet."""
        self._nodes: dict[tuple[int, int], list[str]] = {}
        self._tasks: dict[int, Callable[[Site, Any], None]] = {
            INGEST: self._ingest,
            DECISION: self._decided,
            START: self._launch,
            EVENT: self._heard,
            SPAWN: self._spawned,
            MESSAGE: self._answered,
        }

    # -- tasks ---------------------------------------------------------------------------------------------------------

    def put(self, site: Site, kind: int, what: Any) -> None:
        """Give the processor of an instance a task, which begins at once if it is idle, after the current event."""
        processor = site.processor
        assert processor is not None  # asked by those who have one
        processor.ingesting += kind == INGEST
        processor.tasks.append((kind, what))
        if not processor.is_busy and len(processor.tasks) == 1:
            self.simulation.wake(site)

    def serve(self, site: Site) -> None:
        """Begin the next task."""
        processor = site.processor
        if processor is None or processor.is_busy or not processor.tasks or site.instance.is_closed:
            return
        kind, what = processor.tasks.popleft()
        processor.is_busy = True
        length = processor.lengths[kind]
        if kind == DECISION:
            length, what = self.simulation.decide(site)
        processor.spent[kind] += length
        site.busy_ticks += length
        self.push(self.simulation.clock.now + length, ServedEvent(site, kind, what))

    def complete(self, served: ServedEvent) -> None:
        """End a task, and begin the next one."""
        site, kind, what = served.site, served.kind, served.what
        if not site.instance.is_closed:
            self._tasks[kind](site, what)
        elif kind == INGEST:
            self.simulation.never(what)
        assert site.processor is not None  # it has served
        site.processor.is_busy = False
        self.serve(site)

    def _ingest(self, site: Site, job: Any) -> None:
        assert site.processor is not None
        site.processor.ingesting -= 1
        self.simulation.receive(site, job)

    def _decided(self, site: Site, started: list[Job]) -> None:
        for job in started:
            if job in self.launches:
                self.launches[job].ready = self.simulation.hold_nodes(job)
                self.put(site, START, job)
        self.simulation.settle(site, passed=not started)

    # -- starts --------------------------------------------------------------------------------------------------------

    def begin(self, site: Site, job: Job, spent: int) -> None:
        """Follow a job from the decision that starts it, which takes some time.  Its resources stay its own until it runs."""
        self.launches[job] = JobLaunch(job, site, [], -1)
        assert site.processor is not None
        self._hold(site, job, self.simulation.clock.now + spent + site.processor.lengths[START] + job.planned)

    def _hold(self, site: Site, job: Job, limit: int) -> None:
        """Let a job hold its resources until another limit."""
        if job.limit >= FOREVER:
            return
        with suppress(InsufficientResources):  # reserved by others in advance
            site.instance.holdings.move_limit(job, limit)
        self.push(job.limit, KeepEvent(job))

    def keep(self, job: Job) -> None:
        """At the limit of a job: it keeps its resources while it waits to run, or until the processor has heard of its end."""
        if job.state is not State.RUN or job.limit > self.simulation.clock.now:
            return
        launch = self.launches.get(job)
        if getattr(job.payload, "jobs", ()) and (launch is None or launch.is_booting):
            return  # its instance ends at the limit
        self._hold(self.simulation.site_of(job), job, self.simulation.clock.now + _KEPT)

    def _launch(self, site: Site, job: Job) -> None:
        launch = self.launches.get(job)
        if launch is None:
            return  # it was ended before
        if launch.ready > self.simulation.clock.now:
            self.push(launch.ready, ReadyEvent(launch))
        else:
            self.ready(launch)

    def ready(self, launch: JobLaunch) -> None:
        """A job has been started and its nodes are on: it asks for its slots."""
        if launch.is_over:
            return
        launch.since = self.simulation.clock.now
        if self.slots is None:
            self._granted(launch)
            return
        launch.nodes = self._nodes_of(launch.site, launch.job)
        if self.slots.take(launch):
            self._granted(launch)

    def _granted(self, launch: JobLaunch) -> None:
        site = launch.site
        site.slot_wait_ticks += self.simulation.clock.now - launch.since
        assert site.processor is not None
        self.push(self.simulation.clock.now + site.processor.launch, LaunchedEvent(launch))

    def launched(self, launch: JobLaunch) -> None:
        """A job is on its nodes: it runs, or its instance boots."""
        if launch.is_over:
            return
        job = launch.job
        self._hold(launch.site, job, self.simulation.clock.now + job.planned)
        job.started = self.simulation.clock.now
        launch.is_booting = not self.simulation.begin(job)
        if not launch.is_booting:
            self.over(job)

    def over(self, job: Job) -> None:
        """A job runs, its instance has begun, or it was ended before that: its slots are free."""
        launch = self.launches.pop(job, None)
        if launch is None:
            return
        launch.is_over = True
        if self.slots is not None and launch.nodes:
            for each in self.slots.give_back(launch):
                if isinstance(each, JobLaunch):
                    self._granted(each)

    def _nodes_of(self, site: Site, job: Job) -> list[str]:
        """The paths of the nodes that a job is on."""
        inventory = site.instance.inventory
        found: dict[str, None] = {}
        for v in inventory.vertices(job.claim):
            key = (site.number, v)
            if key not in self._nodes:
                self._nodes[key] = self._nodes_at(site, v)
            found.update(dict.fromkeys(self._nodes[key]))
        return list(found)

    def _nodes_at(self, site: Site, v: int) -> list[str]:
        """The node that a pool is in, else the nodes in it."""
        structure = site.instance.graph.structure
        for above in (v, *structure.ancestors(v)):
            if structure.types[structure.type.item(above)] == "node":
                return [structure.path(above)]
        nodes = structure.of_type("node")
        return [structure.path(each) for each in nodes[(nodes > v) & (nodes < structure.end.item(v))].tolist()]

    # -- children ------------------------------------------------------------------------------------------------------

    def _spawned(self, site: Site, job: Job) -> None:
        assert site.processor is not None
        self._answered(site, (job, site.processor.message_count + 1))

    def _answered(self, site: Site, what: tuple[Job, int]) -> None:
        """A message was answered; then the child sends the next one, or boots."""
        job, left = what[0], what[1] - 1
        if left:
            self.put(site, MESSAGE, (job, left))
        else:
            self.simulation.boot_later(job)

    # -- ends ----------------------------------------------------------------------------------------------------------

    def hear(self, site: Site, job: Job) -> None:
        """A job has ended; its instance will know when it has processed that."""
        if job in self.ended:
            return
        self.ended[job] = self.simulation.clock.now
        self.put(site, EVENT, job)

    def leave(self, job: Job) -> tuple[int, bool]:
        """Forget a job that its instance has ended; returns when it ended, and whether it, or its instance, never began."""
        has_begun = job not in self.launches
        self.over(job)
        return self.ended.pop(job, job.ended), not has_begun

    def _heard(self, site: Site, job: Job) -> None:
        self.simulation.ended(job, self.ended.get(job, self.simulation.clock.now))


_KEPT: Final = ticks(10.0)
"""By how long a job keeps its resources beyond its limit, repeatedly."""
