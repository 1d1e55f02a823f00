"""The instances of a graph that is served: each lives in memory, and every change of it is in the store with its allocations.

All of it happens in the thread that changes the graph. After an operation, what changed of the instance and its jobs is written
in the transaction of the operation: notes for the next server, and one event for the streams. If an operation fails half-way, or
its commit does, memory is ahead of the store; then the records of the graph have been read again, and so is the instance.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from typing import Final, TypeVar

import msgspec

from fluxres import limits
from fluxres.allocation.records import Records
from fluxres.clock import FOREVER, Length, Time, seconds, ticks
from fluxres.documents.suggestion import choose_from, did_you_mean
from fluxres.errors import LimitExceeded, UnknownJob, UsageError
from fluxres.instance import Instance, recording, saved
from fluxres.instance.accounting import Accounting
from fluxres.instance.fair_share import Account, Used
from fluxres.instance.job import Job, JobEvent
from fluxres.instance.policy import Multifactor
from fluxres.instance.saved import SavedInstance, SavedJob
from fluxres.instance.tree import require_name
from fluxres.model import ResourceGraph, changes, events, extending
from fluxres.store import Store
from fluxres.store.lease import INSTANCE
from fluxres.syntax import fluid

T = TypeVar("T")
Way = tuple[int, ...]
"""The numbers of the jobs that lead from an outermost instance to one below it."""

_TIME: Final = "advance"
"""The operation in the journal when only time has passed."""
_ACCOUNTING: Final = "accounting"
"""The end of the name of a note with the accounting of an instance."""
_USED: Final = "used "
"""The beginning of the name of a note with what a user has used; the names of other notes are numbers of jobs."""


class _Running:
    """An instance in memory.

    Attributes:
        kept: what the store has of it; None if it has not been read yet.
        records: of the graph when it was read or written; other ones mean that the graph was read again.
        epoch: of the lead under which it was read.
        known: the numbers of the jobs that the store has, by way.
        notes: the further notes that the store has: what users have used, and jobs of children that are instances themselves.
        touched: the jobs that changed since the last write.
        events: of these jobs, for the streams.
        due: when something is due next, in seconds; None for never.
    """

    def __init__(self, epoch: int) -> None:
        self.top: Instance
        self.kept: SavedInstance | None = None
        self.records: Records | None = None
        self.epoch = epoch
        self.known: dict[Way, set[int]] = {}
        self.notes: dict[tuple[Way, str], str] = {}
        self.touched: dict[Way, dict[int, Job]] = {}
        self.events: list[events.Event] = []
        self.due: float | None = 0.0

    def note(self, job: Job, event: JobEvent) -> None:
        """Note an event of a job: called by its instance."""
        assert isinstance(job.instance, Instance)
        self.touched.setdefault(_way(job.instance), {})[job.number] = job
        about = {"instance": job.instance.address} if job.instance.depth else {}
        self.events.append(
            {"job": str(job.id), **about, "name": event.name, "timestamp": event.timestamp, "context": event.context}
        )


class Instances:
    """The instances of one graph.

    Args:
        store: of the graph.
        graph: attached to it.
        epoch: returns that of the lead of this server; a command leads nothing, and has always the same.
    """

    def __init__(self, store: Store, graph: ResourceGraph, epoch: Callable[[], int]) -> None:
        self._store, self._graph, self._whole, self._epoch = store, graph.name, graph, epoch
        graph.changed_instances.clear()
        self._running: dict[str, _Running] = {}
        self._read_in = -1
        """The epoch in which the names in the store were last read."""
        self._records: Records | None = None
        """Of the graph at that time; if it was read again, other processes may have begun or ended instances."""
        self._prefix = ""
        self._events_written = 0

    def names(self) -> list[str]:
        """The names of all instances of the graph."""
        if self._read_in != self._epoch():
            for name in list(self._running):
                self._forget(name)
            self._running = {}
            self._add_stored()
            self._read_in = self._epoch()
        elif self._records is not self._whole.records:
            self._add_stored()
        self._records = self._whole.records
        if self._whole.changed_instances:  # by another process
            changed, self._whole.changed_instances = self._whole.changed_instances, set()
            for name in changed & self._running.keys():
                self._forget(name)
                del self._running[name]
            self._add_stored()
        return list(self._running)

    def _add_stored(self) -> None:
        """Know the instances in the store; each is read when it is needed."""
        for name in self._stored(""):
            self._running.setdefault(name.partition(":")[0].partition("/")[0], _Running(self._epoch()))

    def due(self, now_s: float) -> list[str]:
        """The instances for which something is due, or that have not seen a change of others."""
        return [
            name
            for name, one in list(self._running.items())
            if one.kept is None or (one.due is not None and one.due <= now_s) or one.top.others.have_changed
        ] + [name for name in list(self._whole.changed_instances) if name not in self._running]

    def next_due(self) -> float | None:
        """When something is due next, in seconds; None for never."""
        return min((one.due for one in list(self._running.values()) if one.due is not None), default=None)

    # -- operations, within a change of the graph ----------------------------------------------------------------------

    def create(
        self,
        graph: ResourceGraph,
        name: str,
        queue_policy: str,
        match_policy: str,
        accounting: Accounting | None = None,
        unit: str | None = None,
    ) -> Instance:
        """Begin an instance.

        Args:
            unit: the type of pools in which sizes are measured, as for `Instance.measure_in`.

        Errors: UsageError for a name that is taken; UnknownType; LimitExceeded; those of an Instance.
        """
        require_name(name)
        if name in self.names():
            hint = f"choose another name, or end it: `fluxres instance drop {name}`"
            raise UsageError(f"there is already an instance '{name}'", hint=hint)
        if len(self._running) >= limits.SERVICE_INSTANCES_MAX:
            raise LimitExceeded(f"a graph has at most {limits.SERVICE_INSTANCES_MAX} instances", hint="close one of them")
        for other in self._running:
            self._current(graph, other)  # its job ids are known then, and the new instance makes others
        one = _Running(self._epoch())
        policy = saved.require_policy(queue_policy)
        one.top = Instance(
            graph, queue_policy=policy, match_policy=match_policy, name=name, events=one.note, accounting=accounting
        )
        one.top.measure_in(unit)
        if accounting is not None:
            assert graph.attachment is not None
            self._stored("")  # for the prefix
            graph.attachment.note(f"{self._prefix}{name}:{_ACCOUNTING}", msgspec.json.encode(accounting).decode())
        self._save(graph, one, name, "create")
        self._running[name] = one
        return one.top

    def operate(self, graph: ResourceGraph, address: str, what: str, operation: Callable[[Instance], T]) -> T:
        """What an operation on an instance returns, by its address: its name, and the jobs that lead to one below it.

        Args:
            what: the operation, for the journal; empty for a question, or if only time passes.

        Errors: UnknownJob; those of the operation.
        """
        name = address.partition("/")[0]
        one, before = self._current(graph, name), graph.revision
        instances = sum(1 for _ in one.top.walk())
        try:
            if not what:
                one.top.advance()
            found = operation(one.top.find(address))
            if len(one.top.lifecycle.jobs) > limits.SERVICE_INSTANCE_JOBS_MAX:
                raise LimitExceeded(f"an instance has at most {limits.SERVICE_INSTANCE_JOBS_MAX} jobs that have not ended")
            self._save(graph, one, name, what)
        except BaseException:
            if one.events or graph.revision != before or sum(1 for _ in one.top.walk()) != instances:
                self._forget(name)  # what it did is undone: it is read again
            raise
        if one.top.is_closed:
            del self._running[name]
        return found

    def ask(self, graph: ResourceGraph, address: str, question: Callable[[Instance], T]) -> T:
        """What an instance answers to a process that reads it for this question only.

        It plans again then what had been planned. If the plan is the same, and nothing else has happened, nothing is recorded.
        """
        try:
            with graph.batch():
                before, revision, events_before = _holdings(graph), graph.revision, self._events_written
                found = self.operate(graph, address, "", question)
                is_planned_only = graph.revision != revision and self._events_written == events_before
                if is_planned_only and _holdings(graph) == before:
                    raise _SamePlan
        except _SamePlan:
            self._forget(address.partition("/")[0])
        return found

    def set_end(self, graph: ResourceGraph, name: str, job: str, end: Time | None, duration_s: Length | None) -> None:
        """Move the end of a job of an instance, which is its limit there, as `ResourceGraph.set_end` does for other jobs.

        Args:
            name: the owner of the job.

        Errors: those of `Instance.set_duration`.
        """
        stop = extending.end_of(graph, job, end, duration_s)

        def operation(one: Instance) -> None:
            found = one.job(job)
            start = found.started if found.started >= 0 else ticks(graph.allocation(job).start)
            one.set_duration(found, None if stop >= FOREVER else seconds(stop - start))

        self.operate(graph, name, "set_duration", operation)

    def owner(self, graph: ResourceGraph, job: str) -> str | None:
        """The outermost instance to which a job in the records of the graph belongs; None if there is none."""
        for name in self.names() if fluid.is_name(job) else ():
            with suppress(UnknownJob):  # another process has just closed it
                if self._current(graph, name).top.others.own_job(job) is not None:
                    return name
        return None

    def _current(self, graph: ResourceGraph, name: str) -> _Running:
        """An instance that agrees with the store, read from it if need be. Errors: UnknownJob."""
        if name not in self.names():
            hint = did_you_mean(self._below(graph, name)) or choose_from(self._running)
            raise UnknownJob(f"no instance '{name:.80}'", where=f"graph '{self._graph}'", hint=hint)
        one = self._running[name]
        if one.kept is None or one.records is not graph.records:
            self._forget(name)
            try:
                one = self._running[name] = self._read(graph, name)
            except KeyError:  # another process has closed it
                del self._running[name]
                return self._current(graph, name)
        return one

    def _below(self, graph: ResourceGraph, word: str) -> list[str]:
        """The addresses of nested instances that have this name, or this job."""
        tops = [self._current(graph, name).top for name in list(self._running)]
        nested = [(child.parent, child.job_in_parent, child.name) for top in tops for child in top.walk()]
        return [f"{above.address}/{word}" for above, job, name in nested if above and job and word in (name, str(job.id))]

    def _forget(self, name: str) -> None:
        """Drop what is in memory of an instance."""
        one, self._running[name] = self._running[name], _Running(self._epoch())
        if one.kept is not None:
            for each in one.top.walk():
                each.ids.release()

    # -- in the store ------------------------------------------------------------------------------------------------

    def _stored(self, name: str) -> dict[str, str]:
        """The notes of an instance and those below it, or of all, by what follows the uid."""
        with self._store.reading(self._graph) as rows:
            row = rows.graph(self._graph)
            self._prefix, found = f"{INSTANCE}{row.uid}:", rows.notes_of_instances(row)
        return {key: text for key, text in found.items() if not name or re.split("[:/]", key, maxsplit=1)[0] == name}

    def _read(self, graph: ResourceGraph, name: str) -> _Running:
        assert graph.attachment is not None
        graph.attachment.flush()  # what is made together with this is not in the store yet
        one, jobs, usage = _Running(self._epoch()), dict[Way, list[SavedJob]](), dict[Way, dict[Account, Used]]()
        notes = self._stored(name)
        kept = msgspec.json.decode(notes.pop(f"{name}:"), type=SavedInstance)
        rules = notes.pop(f"{name}:{_ACCOUNTING}", None)
        for key, text in notes.items():
            place, _, what = key.partition(":")
            way = tuple(map(int, place.split("/")[1:]))
            if what.startswith(_USED):
                one.notes[way, what] = text
                account, user, amount, rate, since_s = msgspec.json.decode(text, type=tuple[str, str | None, float, int, float])
                usage.setdefault(way, {})[account, user] = amount, rate, since_s
            else:
                jobs.setdefault(way, []).append(msgspec.json.decode(text, type=SavedJob))
        one.known = {way: {job.number for job in known} for way, known in jobs.items()}
        accounting = None if rules is None else msgspec.json.decode(rules, type=Accounting)
        one.top = saved.restored(graph, kept, jobs, one.note, accounting, usage)
        one.kept = kept
        one.records = graph.records
        return one

    def _save(self, graph: ResourceGraph, one: _Running, name: str, what: str) -> None:
        """Write what changed, with an event."""
        one.due = one.top.next_due()
        kept = saved.instance(one.top)
        notes = dict(self._changes(one))
        is_same = one.kept is not None and msgspec.structs.replace(kept, now=one.kept.now) == one.kept
        if notes or one.events or not is_same or one.top.is_closed:
            notes[f"{name}:"] = None if one.top.is_closed else msgspec.json.encode(kept).decode()
            if one.top.is_closed and one.top.ledger is not None:
                notes[f"{name}:{_ACCOUNTING}"] = None
            self._write(graph, one, notes, events.instance(name, what or _TIME, one.events))
            one.kept = kept
        one.touched, one.events = {}, []
        one.records = graph.records

    def _changes(self, one: _Running) -> dict[str, str | None]:
        """The notes of jobs that changed; None for those that are forgotten."""
        notes = dict[str, str | None]()
        there = {_way(each): each for each in one.top.walk() if not each.is_closed}
        for way, touched in one.touched.items():
            if way in there:
                notes |= {_key(one, way, number): _text(job) for number, job in touched.items()}
                one.known.setdefault(way, set()).update(touched)
        notes |= self._further(one, there)
        for way, known in list(one.known.items()):
            if way not in there or len(known) > there[way].jobs_kept:
                kept = {job.number for job in there[way].jobs()} if way in there else set[int]()
                notes |= dict.fromkeys(_key(one, way, number) for number in known - kept)
                one.known[way] = known & kept
        one.known = {way: known for way, known in one.known.items() if way in there}
        return notes

    def _further(self, one: _Running, there: dict[Way, Instance]) -> dict[str, str | None]:
        """The further notes that changed: no event tells of a job that got more for its child, nor of what a user has used."""
        found = dict[tuple[Way, str], str]()
        for way, each in there.items():
            if way:
                found |= {(way, str(job.number)): _text(job) for child in each.children if (job := child.job_in_parent)}
            if isinstance(each.policy, Multifactor):
                for whose, amounts in filter(None, map(each.policy.used_by, one.touched.get(way, {}).values())):
                    name = _USED + msgspec.json.encode(whose).decode()
                    found[way, name] = msgspec.json.encode((*whose, *amounts)).decode()
        notes: dict[str, str | None] = {_key(one, *key): text for key, text in found.items() if one.notes.get(key) != text}
        used = {key: text for key, text in one.notes.items() if key[1].startswith(_USED)}
        notes |= {_key(one, *key): None for key in used if key[0] not in there}
        one.notes = {key: text for key, text in used.items() if key[0] in there} | found
        return notes

    def _write(self, graph: ResourceGraph, one: _Running, notes: dict[str, str | None], event: events.Event) -> None:
        assert graph.attachment is not None
        for key, text in notes.items():
            graph.attachment.note(self._prefix + key, text)
        with recording.own_changes(one.top.inventory):
            changes.tell_now(graph, event)
            graph.revision += 1
        self._events_written += 1


class _SamePlan(Exception):
    """Leaves a batch whose changes would change nothing."""


def _holdings(graph: ResourceGraph) -> dict[str, dict[int, list[tuple[int, int, int]]]]:
    """What each job holds, now and later."""
    records = graph.records
    return {job: {v: list(records.held[v][job]) for v in pools} for job, pools in records.pools_of.items()}


def _way(instance: Instance) -> Way:
    parent, job = instance.parent, instance.job_in_parent
    return () if parent is None or job is None else (*_way(parent), job.number)


def _key(one: _Running, way: Way, number: int | str) -> str:
    return f"{'/'.join([one.top.name, *map(str, way)])}:{number}"


def _text(job: Job) -> str:
    return msgspec.json.encode(saved.job(job)).decode()
