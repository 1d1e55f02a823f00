"""Graphs that were copied for a job of another graph in the store, and what they may still give (rule N1).

Such a graph claims what the job holds. When the job is freed, reaches its end, or is dropped with its graph, nothing in the copy
changes. So a change of the copy that would give something is checked in its own transaction, under the lock that every writer
of the store takes. As long as the parent has not changed, that is one comparison of numbers; as long as no event of the parent
concerns the job, a look at its journal. Only otherwise is the parent read.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import msgspec
import numpy as np
from msgspec.structs import replace

from fluxres.clock import FOREVER, seconds
from fluxres.documents.document import listed, plural
from fluxres.errors import HoldLapsed, MergeConflict, StoreError, UsageError
from fluxres.graph.structure import Problem, Structure
from fluxres.model import joining
from fluxres.model.resource_graph import ResourceGraph
from fluxres.store import journal
from fluxres.store.contents import CLAIM, GraphRow
from fluxres.store.database import Connection
from fluxres.store.rows import Rows
from fluxres.syntax.moment import in_message


class ChildLease(msgspec.Struct, frozen=True):
    """The lease of a process that works on a graph.

    Args:
        mark: of the process, which no other has.
        host: that it runs on.
        process: its id there.
        life_s: how long the lease lasts after it was taken or renewed.
        until: when it is over, in ticks.
    """

    mark: str
    host: str
    process: int
    life_s: float
    until: int


class Claim(msgspec.Struct, frozen=True):
    """What a graph was copied for.

    Args:
        parent: uid of the other graph.
        name: of the other graph, when it was copied.
        job: that holds the pools there.
        since: the moment from which on the job holds them, in ticks.
        seq: event of the parent after which the job was last seen to hold all of it.
        until: moment, in ticks, until which that holds if the parent does not change.
        lease: of the process that works on the graph; None for a graph that lasts as long as the job.
        states: by uuid, those other than up that the pools of the graph had in the parent when it was last read.
    """

    parent: str
    name: str
    job: str
    since: int
    seq: int = -1
    until: int = FOREVER
    lease: ChildLease | None = None
    states: dict[str, str] = {}


class Standing(msgspec.Struct, frozen=True):
    """How the claim of a graph stands.

    Args:
        graph: name of the parent; None if it was dropped.
        job: that the graph was copied for.
        lapsed: why the graph allocates nothing any more; None if it does.
        host: where the process runs that works on it under a lease; None if there is none.
        until: when that lease is over if it is not renewed, in seconds.
    """

    graph: str | None
    job: str
    lapsed: str | None
    host: str | None = None
    until: float | None = None

    def require(self, name: str) -> None:
        """Refuse what a lapsed graph of this name would not allocate.  Errors: HoldLapsed."""
        if self.lapsed is not None:
            raise HoldLapsed(self.lapsed, where=f"graph '{name}'", hint=_drop(name))

    def problem(self, graph: ResourceGraph, now: int) -> Problem | None:
        """What is wrong with a graph by rule N1: what is allocated in it is held by the job that it was copied for.

        Args:
            now: in ticks.
        """
        if self.lapsed is None:
            return None
        records = graph.records
        jobs = [job for job in records.jobs() if any(end > now for end in records.ends(job))]
        some = f"{plural(len(jobs), 'job')} in it still hold{'s' * (len(jobs) == 1)} something: {listed(jobs)}"
        said = f"{self.lapsed}, but {some}" if jobs else self.lapsed
        return Problem("error" if jobs else "warning", f"graph {graph.name}", said)


def states_of(structure: Structure) -> dict[str, str]:
    """By uuid, the states of the pools that have another one than up.  Cost: one step for each of them."""
    return {structure.uuid(v): structure.state_name(v) for v in np.flatnonzero(structure.state).tolist()}


class Claims:
    """The claims of the graphs of a store, as seen by one transaction."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    def of(self, row: GraphRow) -> Claim | None:
        """Errors: StoreError for damage."""
        return read(self._rows.db, row.uid, f"graph '{row.name}'")

    def remove(self, row: GraphRow) -> None:
        self._rows.db.remove_note(CLAIM + row.uid)

    def stake(self, row: GraphRow, part: Structure, parent: str, job: str, since: int, now: int) -> None:
        """Let a graph be what a job of another one holds.

        Errors: UnknownGraph; UsageError if it is the graph itself, or if another graph has this claim; HoldLapsed.
        """
        above = self._rows.graph(parent)
        self._require_free(row, above, job)
        claim = Claim(above.uid, above.name, job, since, states=states_of(part))
        self.note(row, self._examined(row, claim, max(now, since), lambda: part))

    def require(self, row: GraphRow, now: int, begins: int, part: Callable[[], Structure], *, is_new: bool) -> Claim | None:
        """Refuse to give something of a graph whose job does not hold it any more, or not yet; returns what `note` keeps.

        Args:
            now: in ticks.
            begins: the first moment of what is given.
            part: returns the pools of the graph after the change.
            is_new: whether the change is one of the pools.

        Errors: HoldLapsed; StoreError.
        """
        claim = self.of(row)
        if claim is None:
            return None
        known = replace(claim, seq=-1) if is_new else claim
        examined = self._examined(row, known, max(now, claim.since), part)
        if max(now, begins) < claim.since:
            self._require_before(row, claim, max(now, begins), part)
        return None if examined == claim else examined

    def _require_before(self, row: GraphRow, claim: Claim, moment: int, part: Callable[[], Structure]) -> None:
        """Refuse to give something before the moment that the graph was copied for, unless the job holds it throughout.

        That is so if the copy was made by a clock that is ahead.  Errors: HoldLapsed.
        """
        with suppress(HoldLapsed):
            if self._examined(row, replace(claim, seq=-1), moment, part).until >= claim.since:
                return
        since = in_message(seconds(claim.since))
        said = f"allocates nothing that begins before {since}: job '{claim.job}' of graph '{claim.name}' holds it from then on"
        raise HoldLapsed(said, where=f"graph '{row.name}'", hint=f"begin at {since} or later")

    def note(self, row: GraphRow, claim: Claim) -> None:
        """Keep a claim."""
        self._rows.db.put_note(CLAIM + row.uid, msgspec.json.encode(claim).decode())

    def standing(self, row: GraphRow, now: int) -> Standing | None:
        """How the claim of a graph stands; None if it has none.  Errors: StoreError."""
        claim = self.of(row)
        if claim is None:
            return None
        above = self.above(claim)
        lapsed = None
        try:
            self._examined(row, claim, max(now, claim.since), lambda: self._rows.structure(row))
        except HoldLapsed as error:
            lapsed = error.message
        name, lease = None if above is None else above.name, claim.lease
        if lease is None:
            return Standing(name, claim.job, lapsed)
        if lapsed is None and lease.until <= now:
            lapsed = over(row.name, lease.until).message
        return Standing(name, claim.job, lapsed, lease.host, seconds(lease.until))

    def require_unleased(self, row: GraphRow) -> None:
        """Refuse to drop or replace the graph of a child: only its end frees the job in the parent. Errors: UsageError."""
        claim = self.of(row)
        above = None if claim is None or claim.lease is None else self.above(claim)
        if claim is not None and above is not None and self._rows.read(above).records.is_job(claim.job):
            message = f"a child works on it, for job '{claim.job}' of graph '{above.name}'"
            raise UsageError(message, where=f"graph '{row.name}'", hint=f"`fluxres child end {row.name}` ends it")

    def above(self, claim: Claim) -> GraphRow | None:
        """The graph that a claim is on; None if it was dropped."""
        return next((row for row in self._rows.graphs() if row.uid == claim.parent), None)

    # -- children ----------------------------------------------------------------------------------------------------

    def parent(self, row: GraphRow) -> tuple[GraphRow, Claim]:
        """The graph that a graph is a part of.

        Errors: UsageError for one that was not copied for a job; HoldLapsed if the other one was dropped.
        """
        claim = self.of(row)
        if claim is None:
            hint = "`copy --job` makes a graph of what a job holds"
            raise UsageError("is no part of another graph", where=f"graph '{row.name}'", hint=hint)
        above = self.above(claim)
        if above is None:
            raise self._lapsed(row, f"graph '{claim.name}' was dropped")
        return above, claim

    def children(self, above: GraphRow) -> list[tuple[GraphRow, Claim]]:
        """The graphs that were copied for jobs of a graph."""
        found = [(row, self.of(row)) for row in self._rows.graphs()]
        return [(row, claim) for row, claim in found if claim is not None and claim.parent == above.uid]

    def over(self, now: int) -> list[tuple[GraphRow, Claim]]:
        """The children of all graphs whose lease is over.

        Args:
            now: in ticks.
        """
        found = [(row, self.of(row)) for row in self._rows.graphs()]
        return [
            (row, claim) for row, claim in found if claim is not None and claim.lease is not None and claim.lease.until <= now
        ]

    def _require_free(self, row: GraphRow, above: GraphRow, job: str) -> None:
        if above.uid == row.uid:
            raise UsageError("a graph cannot be a part of itself", where=f"graph '{row.name}'", hint="choose another name")
        for other in self._rows.graphs():
            claim = self.of(other) if other.uid != row.uid else None
            if claim is not None and (claim.parent, claim.job) == (above.uid, job):
                hint = f"`fluxres graphs drop {other.name}` removes it; a copy of '{other.name}', or one in a file, has no claim"
                raise UsageError(f"graph '{other.name}' is what this job holds already", where=f"job '{job}'", hint=hint)

    def _examined(self, row: GraphRow, claim: Claim, moment: int, part: Callable[[], Structure]) -> Claim:
        """The claim as it was last seen to hold.

        Errors: HoldLapsed.
        """
        above = self.above(claim)
        if above is None:
            raise self._lapsed(row, f"graph '{claim.name}' was dropped")
        upper = self.of(above)
        if upper is not None:  # what the parent cannot give any more, its jobs do not hold
            try:
                self._examined(above, upper, max(moment, upper.since), lambda: self._rows.structure(above))
            except HoldLapsed as error:
                raise self._lapsed(row, f"{error.where} {error.message}") from None
        is_undisturbed = self._is_undisturbed(above, claim)
        if is_undisturbed and moment < claim.until:
            return replace(claim, seq=above.seq)
        graph = self._rows.read(above)
        try:
            lacking, until = joining.not_held(graph, claim.job, moment, part())
        except MergeConflict:
            raise self._lapsed(row, f"graph '{above.name}' describes another machine now") from None
        job = f"job '{claim.job}' of graph '{above.name}'"
        if until <= moment:
            end = f"ended at {in_message(seconds(claim.until))}" if is_undisturbed else "holds nothing any more"
            raise self._lapsed(row, f"{job} {end}")
        if lacking:
            hint = "unlink these pools, or allocate them to the job again"
            raise self._lapsed(row, f"{job} does not hold all of it any more: {listed(lacking)}", hint)
        return replace(claim, seq=above.seq, until=until)

    def _is_undisturbed(self, above: GraphRow, claim: Claim) -> bool:
        """Whether no event of the parent since the last look can have taken anything from the job."""
        if above.seq == claim.seq:
            return True
        if claim.seq < 0 or self._rows.oldest(above) > claim.seq + 1:
            return False
        events = [entry.event for entry in self._rows.entries(above, after=claim.seq)]
        if journal.is_structural(events):
            return False
        # what ends later may be dropped before its time, by an `expire` that says so
        return not any(journal.concerns(event, claim.job, None) or (event.get("before") or 0) >= claim.until for event in events)

    @staticmethod
    def _lapsed(row: GraphRow, why: str, hint: str = "") -> HoldLapsed:
        hint = hint or _drop(row.name)
        return HoldLapsed(f"allocates nothing any more: {why}", where=f"graph '{row.name}'", hint=hint)


def over(name: str, until: int) -> HoldLapsed:
    """What a child gets whose lease is over."""
    when = in_message(seconds(until))
    return lapsed(name, f"its lease was over at {when}")


def lapsed(name: str, said: str) -> HoldLapsed:
    """The error for what a child does that has nothing any more."""
    return HoldLapsed(said, where=f"graph '{name}'", hint="its parent has its resources back; start again")


def _drop(name: str) -> str:
    return f"`fluxres graphs drop {name}` removes the graph"


def read(db: Connection, uid: str, where: str) -> Claim | None:
    """The claim of the graph with this uid, within a transaction.  Errors: StoreError for damage."""
    found = db.note(CLAIM + uid)
    return None if found is None else decoded(found, where)


def decoded(text: str, where: str) -> Claim:
    """Errors: StoreError for damage."""
    try:
        return msgspec.json.decode(text, type=Claim)
    except msgspec.MsgspecError as error:
        raise StoreError(f"its claim cannot be read: {error}", where=where) from None
