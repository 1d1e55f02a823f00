"""The instances of a graph that is served: each lives in memory, and every change of it is in the store with its allocations.

All of it happens in the thread that changes the graph. After an operation, what changed of the instance and its jobs is written
in the transaction of the operation: notes for the next server, and one event for the streams. If an operation fails half-way, or
its commit does, memory is ahead of the store; then the records of the graph have been read again, and so is the instance.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, TypeVar

import msgspec

from fluxres import limits
from fluxres.allocation.records import Records
from fluxres.errors import LimitExceeded, UnknownJob, UsageError
from fluxres.instance import Instance, recording, saved
from fluxres.instance.job import Job, JobEvent
from fluxres.instance.saved import SavedInstance, SavedJob
from fluxres.model import ResourceGraph, changes, events
from fluxres.store import Store
from fluxres.store.lease import INSTANCE

T = TypeVar("T")
Way = tuple[int, ...]
"""The numbers of the jobs that lead from an outermost instance to one below it."""

_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_TIME: Final = "advance"


class _Running:
    """An instance in memory.

    Attributes:
        kept: as the store has it.
        records: of the graph, with which it agrees.
        epoch: of the lead under which it was read.
        known: the numbers of the jobs that the store has, by way.
        touched: the jobs that changed since then, and their events.
        due: when time has to pass next, in seconds; None for never.
    """

    def __init__(self, epoch: int) -> None:
        self.top: Instance
        self.kept: SavedInstance | None = None
        self.records: Records | None = None
        self.epoch = epoch
        self.known: dict[Way, set[int]] = {}
        self.touched: dict[Way, dict[int, Job]] = {}
        self.told: list[events.Event] = []
        self.due: float | None = 0.0

    def note(self, job: Job, event: JobEvent) -> None:
        """What the instances tell of their jobs."""
        assert isinstance(job.instance, Instance)
        self.touched.setdefault(_way(job.instance), {})[job.number] = job
        about = {"instance": job.instance.address} if job.instance.depth else {}
        self.told.append(
            {"job": str(job.id), **about, "name": event.name, "timestamp": event.timestamp, "context": event.context}
        )


class Instances:
    """The instances of one graph.

    Args:
        store: of the graph.
        epoch: returns that of the lead of this server.
    """

    def __init__(self, store: Store, graph: str, epoch: Callable[[], int]) -> None:
        self._store, self._graph, self._epoch = store, graph, epoch
        self._running: dict[str, _Running] = {}
        self._read_in = -1
        """The epoch in which the names in the store were last read."""
        self._prefix = ""

    def names(self) -> list[str]:
        """Those of all instances of the graph."""
        if self._read_in != self._epoch():
            for name in list(self._running):
                self._forget(name)
            self._running = {}
            for name in self._stored(""):
                self._running.setdefault(name.partition(":")[0].partition("/")[0], _Running(self._epoch()))
            self._read_in = self._epoch()
        return list(self._running)

    def due(self, now_s: float) -> list[str]:
        """Those for which time has to pass, or that have not seen a change of others."""
        return [
            name
            for name, one in list(self._running.items())
            if one.kept is None or (one.due is not None and one.due <= now_s) or one.top.has_unseen_changes
        ]

    def next_due(self) -> float | None:
        """When time has to pass next for one of them."""
        return min((one.due for one in list(self._running.values()) if one.due is not None), default=None)

    # -- operations, within a change of the graph ----------------------------------------------------------------------

    def create(self, graph: ResourceGraph, name: str, queue_policy: str, match_policy: str) -> Instance:
        """Begin an instance. Errors: UsageError for a name that is taken; LimitExceeded; those of an Instance."""
        if _NAME.fullmatch(name) is None:
            raise UsageError(f"no name of an instance: {name!r:.80}", hint="letters, digits, and any of . _ -")
        if name in self.names():
            raise UsageError(f"there is an instance '{name}' already", hint="choose another name, or close it")
        if len(self._running) >= limits.SERVICE_INSTANCES_MAX:
            raise LimitExceeded(f"a graph has at most {limits.SERVICE_INSTANCES_MAX} instances", hint="close one of them")
        for other in self._running:
            self._current(graph, other)  # so that both make different job ids
        one = _Running(self._epoch())
        policy = saved.require_policy(queue_policy)
        one.top = Instance(graph, queue_policy=policy, match_policy=match_policy, name=name, events=one.note)
        self._save(graph, one, name, "create")
        self._running[name] = one
        return one.top

    def operate(self, graph: ResourceGraph, address: str, what: str, operation: Callable[[Instance], T]) -> T:
        """What an operation on an instance returns, by its address: its name, and the jobs that lead to one below it.

        Args:
            what: for the journal; empty if it only lets time pass, or asks.

        Errors: UnknownJob; those of the operation.
        """
        name = address.partition("/")[0]
        one, before = self._current(graph, name), graph.revision
        instances = sum(1 for _ in one.top.walk())
        try:
            if not what:
                one.top.advance()
            found = operation(one.top.find(address))
            if len(one.top.running_jobs) > limits.SERVICE_INSTANCE_JOBS_MAX:
                raise LimitExceeded(f"an instance has at most {limits.SERVICE_INSTANCE_JOBS_MAX} jobs that have not ended")
            self._save(graph, one, name, what)
        except BaseException:
            if one.told or graph.revision != before or sum(1 for _ in one.top.walk()) != instances:
                self._forget(name)  # what it did is undone: it is read again
            raise
        if one.top.is_closed:
            del self._running[name]
        return found

    def _current(self, graph: ResourceGraph, name: str) -> _Running:
        """An instance that agrees with the store, read from it if need be. Errors: UnknownJob."""
        if name not in self.names():
            hint = f"there is {', '.join(self._running) or 'none'}"
            raise UnknownJob(f"no instance '{name:.80}'", where=f"graph '{self._graph}'", hint=hint)
        one = self._running[name]
        if one.kept is None or one.records is not graph.records:
            self._forget(name)
            one = self._running[name] = self._read(graph, name)
        return one

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
            self._prefix = prefix = f"{INSTANCE}{rows.graph(self._graph).uid}:"
            notes = rows.db.notes()
        found = {key.removeprefix(prefix): text for key, text in notes.items() if key.startswith(prefix)}
        return {key: text for key, text in found.items() if not name or re.split("[:/]", key, maxsplit=1)[0] == name}

    def _read(self, graph: ResourceGraph, name: str) -> _Running:
        assert graph.attachment is not None
        graph.attachment.flush()  # what is made together with this is not in the store yet
        one, jobs = _Running(self._epoch()), dict[Way, list[SavedJob]]()
        notes = self._stored(name)
        for key, text in notes.items():
            place, _, number = key.partition(":")
            if number:
                way = tuple(map(int, place.split("/")[1:]))
                jobs.setdefault(way, []).append(msgspec.json.decode(text, type=SavedJob))
        one.kept = msgspec.json.decode(notes[f"{name}:"], type=SavedInstance)
        one.known = {way: {job.number for job in known} for way, known in jobs.items()}
        one.top = saved.restored(graph, one.kept, jobs, one.note)
        one.records = graph.records
        return one

    def _save(self, graph: ResourceGraph, one: _Running, name: str, what: str) -> None:
        """Write what changed, with an event."""
        one.due = one.top.next_due()
        kept = saved.instance(one.top)
        notes = dict(self._changes(one))
        is_same = one.kept is not None and msgspec.structs.replace(kept, now=one.kept.now) == one.kept
        if notes or one.told or not is_same or one.top.is_closed:
            notes[f"{name}:"] = None if one.top.is_closed else msgspec.json.encode(kept).decode()
            self._write(graph, one, notes, events.instance(name, what or _TIME, one.told))
            one.kept = kept
        one.touched, one.told = {}, []
        one.records = graph.records

    def _changes(self, one: _Running) -> dict[str, str | None]:
        """The notes of jobs that changed; None for those that are forgotten."""
        notes = dict[str, str | None]()
        there = {_way(each): each for each in one.top.walk() if not each.is_closed}
        for way, touched in one.touched.items():
            if way in there:
                notes |= {_key(one, way, number): _text(job) for number, job in touched.items()}
                one.known.setdefault(way, set()).update(touched)
        for way, known in list(one.known.items()):
            if way not in there or len(known) > there[way].jobs_kept:
                kept = {job.number for job in there[way].jobs()} if way in there else set[int]()
                notes |= dict.fromkeys(_key(one, way, number) for number in known - kept)
                one.known[way] = known & kept
        one.known = {way: known for way, known in one.known.items() if way in there}
        return notes

    def _write(self, graph: ResourceGraph, one: _Running, notes: dict[str, str | None], event: events.Event) -> None:
        assert graph.attachment is not None
        for key, text in notes.items():
            graph.attachment.note(self._prefix + key, text)
        with recording.own_changes(one.top.inventory):
            changes.tell_now(graph, event)
            graph.revision += 1


def _way(instance: Instance) -> Way:
    parent, job = instance.parent, instance.job_in_parent
    return () if parent is None or job is None else (*_way(parent), job.number)


def _key(one: _Running, way: Way, number: int) -> str:
    return f"{'/'.join([one.top.name, *map(str, way)])}:{number}"


def _text(job: Job) -> str:
    return msgspec.json.encode(saved.job(job)).decode()
