"""Instances within instances (rule N1): what a child has is what one job of its parent holds, and no other.

A child begins with a copy of what the job holds (RFC 4 Copy) and is a scheduler like any other.  It may ask its parent for
more (merge) and give back what is free in it (unlink); when it ends, at whatever moment and for whatever reason, its jobs end
with it and the job's resources go back where they came from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from fluxres import limits
from fluxres.clock import FOREVER, seconds, ticks
from fluxres.errors import LimitExceeded, StaleHandle, UnknownJob, UsageError
from fluxres.instance import down, due, foreign, parts, recording, states
from fluxres.instance.graph_inventory import GraphInventory, Held
from fluxres.instance.job import Event, Job, JobId
from fluxres.instance.lifecycle import Lifecycle
from fluxres.instance.policy import QueuePolicy
from fluxres.instance.runner import Runner
from fluxres.instance.states import State
from fluxres.instance.tree import Branch, branches, lines
from fluxres.instance.upstream import ParentSupply
from fluxres.model import joining
from fluxres.model.resource_graph import locked
from fluxres.model.targets import Targets
from fluxres.syntax import fluid
from fluxres.syntax.jobspec import Wanted

if TYPE_CHECKING:
    from fluxres.graph.structure import Structure
    from fluxres.instance.instance import Instance
    from fluxres.instance.inventory import Counting
    from fluxres.instance.timekeeper import Timekeeper


def _slot(job: Job, start: int, hold: Any) -> tuple[int, int, bytes]:
    """When a job has what, as far as this matters to others."""
    return start, job.duration, hold.vertices.tobytes() if isinstance(hold, Held) else b""


class _Over(QueuePolicy):
    """The policy of an instance that ends: it is not asked any more."""

    name = "over"


class Nesting(Lifecycle):
    """Parents, children, and what goes between them."""

    name: str
    inventory_kind: str
    parent: Instance | None = None
    job_in_parent: Job | None = None
    _is_left = False
    """Whether the job in the parent has finished, and only waits for this instance to be over."""
    shares_supplies = False
    """Of an outermost instance: whether instances below draw on common suppliers."""
    supplies_returned = supplies_seen = 0
    """Of an outermost instance: how often something of them may have come back, and up to which time it was offered."""
    states_given: tuple[Structure, NDArray[np.uint8]] | None = None
    """The states of the pools, as the children know them."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.expires_given = FOREVER
        self.inventory_kind = settings["inventory"]
        self._children: dict[int, Instance] = {}
        self._promised: dict[int, tuple[Job, tuple[int, int, bytes]]] = {}
        """By job, what was reserved at the end of the last pass; where instances draw on common suppliers."""

    # -- the tree ----------------------------------------------------------------------------------------------------

    @property
    @locked
    def children(self) -> list[Instance]:
        """Instances that have a part of this one."""
        return list(self._children.values())

    @property
    def depth(self) -> int:
        """Instances above this one."""
        return 0 if self.parent is None else self.parent.depth + 1

    def _instances_above(self) -> Iterator[Instance]:
        """The instances above this one, the next first."""
        found = self.parent
        while found is not None:
            yield found
            found = found.parent

    @property
    def address(self) -> str:
        """The name of the outermost instance, and the jobs that lead here: ``tioga/ƒA/ƒB``."""
        if self.parent is None or self.job_in_parent is None:
            return self.name
        return f"{self.parent.address}/{self.job_in_parent.id}"

    def walk(self) -> Iterator[Instance]:
        """This instance and all below it, depth first."""
        todo = [self._face]
        while todo:
            found = todo.pop()
            yield found
            todo += reversed(found.children)

    @locked
    def tree(self) -> list[Branch]:
        """This instance and all below it as values, depth first; `show` draws them."""
        return branches(self._face)

    @locked
    def show(self) -> str:
        """The tree of instances as text."""
        return "\n".join(lines(self._face))

    @locked
    def find(self, address: str) -> Instance:
        """The instance of an address: a whole one, or one that begins below this instance.

        Errors: UnknownJob with the part that is not there.
        """
        found = self._face
        words = [word for word in address.split("/") if word]
        own = self.address.split("/")
        if words[: len(own)] == own:
            words = words[len(own) :]
        for word in words:
            child = found.job(word).child
            if child is None:
                raise UnknownJob(f"job {word} has no instance", where=found.address)
            found = child
        return found

    # -- making children ---------------------------------------------------------------------------------------------

    @locked
    def spawn(
        self,
        job: Job | JobId | int | str,
        *,
        queue_policy: str | QueuePolicy | None = None,
        match_policy: str | None = None,
        name: str | None = None,
        inventory: str | None = None,
        runner: Runner | None = None,
        sink: Callable[[Job], None] | None = None,
        events: Callable[[Job, Event], None] | bool | None = None,
        passes: str | None = None,
    ) -> Instance:
        """An instance on what a running job holds (RFC 4 Copy); it ends with the job, and the job with it.

        Args: as for Instance; by default as here. The child lives by the same clock.

        Cost: a copy of the part. Errors: UnknownJob; UsageError for a job that does not run or has a child already.
        """
        now = self._enter()
        found = self._active(job)
        if found.state is not State.RUN:
            raise UsageError(f"job {found.id} does not run, it is {found.state.name}", where=self.address)
        if found.child is not None:
            raise UsageError(f"job {found.id} has a child already", where=self.address, hint=f"find('{found.id}') gives it")
        if self.depth + 1 >= limits.INSTANCE_DEPTH_MAX:
            raise LimitExceeded(f"expected at most {limits.INSTANCE_DEPTH_MAX} levels of instances", where=self.address)
        self._record(found)
        graph = joining.copy_job(self._graph, fluid.encode(found.number), now, linked=True)
        graph.lock = self.lock  # a change in one instance may be one in all above it
        upstream = graph.records.upstream = ParentSupply(self._face, found, graph)
        upstream.refresh()
        child = type(self._face)(
            graph,
            queue_policy=queue_policy if queue_policy is not None else self._own_policy(),
            match_policy=match_policy if match_policy is not None else self.match_policy,
            clock=self.clock,
            name=name if name is not None else str(found.id),
            inventory=inventory if inventory is not None else self.inventory_kind,
            runner=runner if runner is not None else self.runner,
            sink=sink if sink is not None else self._sink,
            events=events if events is not None else self._events,
            passes=passes if passes is not None else self.passes,
        )
        child.measure_in(self._measure)
        if (linked := graph.structure.accounts.linked) is not None and linked.any():
            self.outermost.shares_supplies = True
        upstream.on_change = child._elsewhere_changed
        child.parent, child.job_in_parent = self._face, found
        child._live_by(self._time)
        child._expire_at(found.limit)
        is_first = not self._children
        found.child = self._children[found.number] = child
        if is_first:
            down.note(self._face)
        return child

    def _own_policy(self) -> str | QueuePolicy:
        given = self._policy_given
        if isinstance(given, str):
            return given
        made = type(given)
        try:
            return made()
        except TypeError:
            raise UsageError(
                f"a child needs a policy of its own, and {given.name} cannot be made without arguments", hint="give queue_policy"
            ) from None

    @property
    def upstream(self) -> ParentSupply | None:
        """What this instance draws from suppliers of its parent; None for an outermost one."""
        found = self._graph.records.upstream
        return found if isinstance(found, ParentSupply) else None

    # -- more and less -----------------------------------------------------------------------------------------------

    @locked
    def grow(self, wanted: Targets | Wanted) -> list[str]:
        """Ask the parent for more; it becomes part of this instance (RFC 4 Merge).

        Args:
            wanted: a request, or pools of the parent by path.

        Returns: paths of what was added. Errors: UsageError without a parent; InsufficientResources; nothing changes then.
        """
        parent, job = self._kin()
        self._enter()
        self._require_going_on()
        parent._go_on(self.now)
        parts.graph_of(parent)
        self._make_passes()  # what is promised in the parent is reserved before anything is taken
        self._require_open()
        self._require_going_on()
        try:
            return parts.grow(parent, job, self._face, wanted)
        finally:
            self._after()

    @locked
    def shrink(self, wanted: Targets) -> list[str]:
        """Give pools back to the parent (RFC 4 Unlink), which may hand them out at once.

        Args:
            wanted: whole pools that nothing runs on, by path or handle.

        Errors: UsageError without a parent or for units of a pool; NotHeld for what it has only as a way; StillHeld; nothing
        changes then.
        """
        parent, job = self._kin()
        self._enter()
        parent._go_on(self.now)
        try:
            given = parts.shrink(parent, job, self._face, wanted)
            parent.supplies_back()
            for one in (parent, self._face):
                if one.passes == "event":
                    self._time.owe(one)
            return given
        finally:
            self._after()  # reservations that have gone are made again

    def _kin(self) -> tuple[Instance, Job]:
        if self.parent is None or self.job_in_parent is None:
            raise UsageError("there is no parent to ask", where=self.address)
        return self.parent, self.job_in_parent

    # -- ending ------------------------------------------------------------------------------------------------------

    @locked
    def close(self, status: int = 0) -> None:
        """End this instance, and with `status` its job: its jobs are canceled, its children closed.

        When the last of its jobs has ended (at once, unless their runner needs time to stop them) it is closed, and all it had
        is back with its parent (rule T1).  Closing a closed instance does nothing.
        """
        if not self.is_closed:
            self._pass_time()
        self.shut("the instance is closed")
        parent, job = self.parent, self.job_in_parent
        if parent is not None and job is not None and job.state in states.RUNNING and not self._is_left:
            parent._settle(job, status)

    @locked
    def fail(self, note: str = "") -> None:
        """End this instance as a failure: of its parent's job, too."""
        parent, job = self._kin()
        self._enter()
        self.shut(note or "the instance failed")
        parent._raise(job, states.EXEC, note)

    @locked
    def shut(self, why: str, kind: str = "cancel") -> None:
        """End all jobs here and below, and not the job in the parent.  The instance is closed when the last of them has ended.

        Args:
            kind: of the exception that ends them.
        """
        if self.is_closed or self.is_ending:
            return
        self.now = self._time.now
        self.is_ending, self.policy, self.expires = True, _Over(), FOREVER
        for job in list(self._jobs.values()):
            if job.number in self._jobs and job.state is not State.CLEANUP:
                self._except(job, kind, states.FATAL, why)
        if not self._jobs:
            self._over()

    def _over(self) -> None:
        """Nothing runs here any more."""
        if self.is_closed:
            return
        self.is_closed = True
        if (upstream := self.upstream) is not None:
            upstream.close()
        if self.parent is not None and self.job_in_parent is not None:
            self.parent._child_over(self.job_in_parent, has_finished=self._is_left)

    def _child_over(self, job: Job, *, has_finished: bool) -> None:
        """The child of a job is closed."""
        del self._children[job.number]
        if has_finished:
            self.now = self._time.now
            self._clean(job)
            if self._time.still:
                self._after()
            elif self.passes == "event":
                self._time.owe(self._face)  # what is due here may not have been done yet

    def _end_child(self, job: Job) -> bool:
        """End the child of a job that has finished; whether it was over already, and the job is still to be cleaned up."""
        child = job.child
        if child is None or child.is_closed:
            return True
        child._is_left = True  # a runner that is asked to stop jobs there may close it, or finish this job once more
        child.shut("the job that held its resources has ended")
        return False  # the child says when it is over, and may have

    def _settle(self, job: Job, status: int) -> None:
        """A job of this instance has finished; time has been looked after."""
        self._go_on(self._time.now)
        self._finish(job, status)
        self._after()

    def _raise(self, job: Job, kind: str, note: str) -> None:
        """End a job of this instance by an exception, if nothing else has; time has been looked after."""
        if job.state is State.RUN:
            self._go_on(self._time.now)
            self._except(job, kind, states.FATAL, note)
            self._after()

    def _require_going_on(self) -> None:
        if self.is_ending:
            raise StaleHandle("this instance is ending", where=self.address)

    @locked
    def set_expiration(self, at_s: float | None) -> None:
        """When this instance ends by itself, with exception timelimit on its jobs; None for when its job does.

        Errors: UsageError for a moment after the limit of its job.
        """
        moment = FOREVER if at_s is None else ticks(at_s, "expiration")
        self._enter()
        self._require_going_on()
        most = FOREVER if self.job_in_parent is None else self.job_in_parent.limit
        if at_s is not None and moment > most:
            raise UsageError(f"its job in the parent ends at {seconds(most)}", where=self.address, hint="give that longer first")
        self.expires_given = moment
        self._expire_at(min(moment, most))
        self._pass_time()

    @property
    @locked
    def expires_at(self) -> float | None:
        """When this instance ends by itself, in seconds; None for never."""
        return None if self.expires >= FOREVER else seconds(self.expires)

    def _expire_at(self, moment: int) -> None:
        if self.expires <= self.now < moment and self.passes == "event":
            self._time.owe(self._face)  # no job was started at the moment at which it was to expire
        self.expires = moment
        self._announce(moment)

    def _expire(self) -> None:
        """The time of this instance is over: its jobs shall end, and that of its parent with it."""
        self.shut("the instance expires", "timelimit")
        if self.parent is not None and self.job_in_parent is not None:
            self.parent._raise(self.job_in_parent, "timelimit", "the instance expires")

    # -- suppliers that instances share ------------------------------------------------------------------------------

    @property
    def outermost(self) -> Instance:
        """The instance that has no parent."""
        found = self._face
        while found.parent is not None:
            found = found.parent
        return found

    def supply_changed(self) -> None:
        """What was not there before may be there now: the next pass looks again."""
        if isinstance(self.inventory, GraphInventory):
            self.inventory.forget_failures()
        self.queue.changed = True

    @property
    def _shares_supplies(self) -> bool:
        return self.outermost.shares_supplies

    def _elsewhere_changed(self) -> None:
        """What others draw shows in the graph: that is no change which others have made there."""
        if self.inventory.revision == self._graph.revision - 1:
            self.inventory.revision = self._graph.revision
        self.supply_changed()

    def supplies_back(self) -> None:
        """Something of what instances share may have come back: all of them get a pass."""
        self.queue.changed = True
        outermost = self.outermost
        if outermost.shares_supplies:
            outermost.supplies_returned += 1

    def _offer(self) -> bool:
        """Let all instances of the tree look at what came back since this was last done; whether there was anything."""
        outermost = self.outermost
        if outermost.supplies_seen == outermost.supplies_returned:
            return False
        outermost.supplies_seen = outermost.supplies_returned
        for other in outermost.walk():
            if len(other.queue) and not other.is_closed:
                other.supply_changed()
                if other._in_pass:
                    other._again = True
                elif other.passes == "event":
                    self._time.owe(other)
        return True

    def _passed(self) -> None:
        """What was promised at the end of the last pass, and is not now, others can have."""
        before, inventory = self._promised, self.inventory
        self._promised = {}
        if isinstance(inventory, GraphInventory):
            for job in self.queue.promises():
                self._promised[job.number] = job, _slot(job, job.reserved, inventory.reserved(job.number))
        for number, (job, slot) in before.items():
            now = self._promised.get(number)
            kept = now[1] if now is not None else _slot(job, job.started, job.claim)
            if kept != slot:
                self.outermost.supplies_returned += 1
                break

    def _clean(self, job: Job) -> None:
        outermost = self.outermost
        super()._clean(job)
        if outermost.shares_supplies:
            outermost.supplies_returned += 1

    def _go_on(self, now: int) -> None:
        time, outermost = self._time, self.outermost
        if self.parent is not None and not time.still:
            self.parent._see_changes(now)
        if outermost.shares_supplies and time.settled < now and not time.is_moving:
            due.announce_late(outermost.walk())
        super()._go_on(now)
        if time.is_moving:
            return
        if outermost.shares_supplies:
            self._settle_moment()
        if not time.passes_open:
            self._reclaim()

    def _settle_moment(self) -> None:
        """Let all jobs of the tree whose limit is now keep what they draw of common suppliers."""
        time, outermost = self._time, self.outermost
        if outermost.shares_supplies and time.settled < time.now:
            time.settled = time.now
            due.hold_all_through(reversed(list(outermost.walk())))

    def _see_changes(self, now: int) -> None:
        """See what others have changed in this graph and those above it, before a call of an instance below goes on."""
        if self.parent is not None:
            self.parent._see_changes(now)
        if self._graph.revision != self.inventory.revision and not self.is_closed:
            self._go_on(now)

    def _make_up(self) -> None:
        self._reclaim()
        super()._make_up()

    def _reclaim(self) -> None:
        """Let late jobs anywhere in the tree have what was given back, before it is given to others (rule T1)."""
        time = self._time
        if not time.disputing:
            return
        outermost = self.outermost
        if outermost._graph.revision != outermost.inventory.revision and not outermost.is_closed:
            foreign.look(outermost)
            if outermost.passes == "event":
                time.owe(outermost)
        if time.has_returned:
            time.has_returned = False
            for one in list(time.disputing):
                foreign.hold_again(one)

    def _after(self) -> None:
        time = self._time
        if not time.still:
            self._reclaim()
        is_shared = self.shares_supplies or self.parent is not None
        if is_shared:
            self._offer()
        if time.is_behind and not time.still and self.passes == "event":
            time.owe(self._face)
        else:
            super()._after()
        if is_shared or time.is_behind:
            self._make_passes()

    def _make_passes(self) -> None:
        """Make the passes that are owed, where this is not done already."""
        time = self._time
        if not time.still and (self._offer() or time.is_behind):
            time.catch_up(time.now)

    def _hold_on(self, job: Job, end: int) -> list[str]:
        with self._in_service():
            taken = self._keep(job, end)
            if taken and self._drop_reservations():
                self._mark_disputed(job.number)  # it has a part now, and is to have all
                taken = self._keep(job, end)
                if not taken:
                    self._disputed.discard(job.number)
        return taken

    def _keep(self, job: Job, end: int) -> list[str]:
        if (own := self.upstream) is not None:
            own.refresh()  # what others hold above, the job has not
        upstream = None if job.child is None else job.child.upstream
        if upstream is None:
            return super()._hold_on(job, end)
        upstream.give_all()
        taken = super()._hold_on(job, end)
        return [*taken, *upstream.take_left(end, self.now)]

    def _drop_reservations(self) -> bool:
        """Drop what is reserved in the whole tree, where instances draw on common suppliers: a job that has not ended has what
        was promised to others (rule T1).  Whether there was anything."""
        found = [one for one in self.outermost.walk() if one.queue.reserved] if self.outermost.shares_supplies else []
        for one in found:
            one.queue.unreserve()
            one.supply_changed()
        return bool(found)

    @contextmanager
    def _in_service(self) -> Iterator[None]:
        """As if everything were in service, here and above: a job that goes on is no new work (rule A7)."""
        with ExitStack() as stack:
            for one in (self._face, *self._instances_above()):
                stack.enter_context(one._graph.structure.lifted())
            yield

    # -- time --------------------------------------------------------------------------------------------------------

    def _live_by(self, time: Timekeeper) -> None:
        """Be one of the instances that share a time."""
        self._time, self.now, self.epoch = time, time.now, time.now

    def _next_tick(self) -> int:
        """When something is due, here or below."""
        return min(self._own_tick(), *(child._next_tick() for child in self._children.values()), FOREVER)

    def _own_tick(self) -> int:
        return due.wakes(self)

    # -- the parent's records ----------------------------------------------------------------------------------------

    def _record(self, job: Job) -> None:
        """Let the graph show what a job holds, where the inventory does not write there itself."""
        if self.inventory.kind != "graph" and job.number not in self._recorded:
            self._recorded.add(job.number)
            taken = self._record_more(job, job.started, job.limit + (job.number in self._at_limit))
            if taken:  # else it may lack what others of this instance hold
                self._dispute(job, taken)

    def _record_more(self, job: Job, start: int, end: int) -> list[str]:
        """The same for another window of a job that the graph shows; paths of what others hold in the graph."""
        pools = cast("Counting", self.inventory).held(job.claim)
        name, anew = fluid.encode(job.number), job.number in self._disputed
        with recording.ours(self.inventory):
            return recording.hold(self._graph, name, pools, start, self.now, end, anew=anew, is_routed=False)

    def _unrecord(self, job: Job, start: int | None = None) -> None:
        """Let the graph not show any more what a job holds, or not from a moment on."""
        if job.number not in self._recorded:
            return
        name = fluid.encode(job.number)
        with recording.ours(self.inventory):
            if self._graph.records.is_holder(name):
                self._graph.free(name, start=None if start is None else seconds(start))
        if start is None:
            self._recorded.discard(job.number)
