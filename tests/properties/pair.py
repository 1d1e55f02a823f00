"""Operations on a graph and its oracle: both must do them, or both must refuse them.

An operation is a list of plain values, so that a history can be printed, cut down and played again:
``["allocate", "j1", [["/c/rack0", 2]], 3, null]``.  Times in it are ticks of the oracle.
"""

from __future__ import annotations

import copy
import functools
import math
import random
import shutil
import tempfile
import weakref
from typing import Any

import numpy as np

import fluxres
from fluxres import FluxresError, ResourceGraph, clock
from fluxres.graph import uuids
from tests import oracle_shape
from tests.oracle import Refused, job_of
from tests.properties.comparison import Comparison, Difference
from tests.properties.operations import Operation, allocate
from tests.strategies import machine


class Pair(Comparison):
    """A graph and its oracle, and the operations on both."""

    #: the graph that was saved to a file last, the file, and the document that its changes go to
    base: tuple[ResourceGraph, str, str] | None = None
    saved = 0

    # -- doing ------------------------------------------------------------------------------------------------------

    def do(self, operation: Operation) -> bool:
        """One operation on both; whether it was done and not refused, nor left out since the oracle cannot name its result.

        Raises: Difference where one does it and the other does not, where a refusal has another reason, or leaves a trace.
        """
        name, *values = operation
        refused: Refused | None = None
        self.next = None
        try:
            getattr(self, f"_expect_{name}")(*values)
        except Refused as expected:
            refused = expected
        except oracle_shape.EqualNumbers:
            self.next = None
            return False
        before = self.trace() if refused is not None else ()
        try:
            getattr(self, f"_do_{name}")(*values)
        except FluxresError as error:
            if refused is None:
                raise Difference(f"{operation}: refused with {type(error).__name__} ({error}), should be done") from error
            if type(error).__name__ not in refused.classes:
                raise Difference(f"{operation}: refused with {type(error).__name__} ({error}), expected {refused}") from error
            if name == "allocate":
                self.compare_earliest(operation, error)
            if self.trace() != before:
                raise Difference(f"{operation}: refused, and yet something changed") from error
            return False
        except Difference as difference:
            raise Difference(f"{operation}: {difference}") from difference
        except Exception as error:
            raise Difference(f"{operation}: {type(error).__name__}: {error}") from error
        if refused is not None:
            raise Difference(f"{operation}: done, should be refused with {refused}")
        if name == "state":
            self.look_for_outages()
        return True

    def compare_earliest(self, operation: Operation, error: FluxresError) -> None:
        """The time at which a refusal says that the only requested pool will be free.

        It has none if the pool is down, or the job's own units are involved.
        """
        _, job, targets, start, end = operation
        if not isinstance(error, fluxres.InsufficientResources) or len(targets) > 1:
            return
        oracle, key = self.oracle, targets[0][0]
        own = any(job in map(job_of, row) for k in (key, *oracle.below(key)) for row in oracle.held[k])
        expected = oracle.earliest(job, targets, oracle.ticks(start, end))
        if expected is None or (error.earliest is None and (own or not oracle.is_up(key))):
            return
        self.same(f"{operation}: earliest", error.earliest, self.told(expected, None)[0])

    def trace(self) -> tuple[object, ...]:
        """Everything that a refused operation must not change."""
        graph, records = self.graph, self.graph.records
        graph.now()  # drops expired stages
        return (
            graph.generation,
            {v: dict(holders) for v, holders in records.held.items()},
            {job: set(pools) for job, pools in records.pools_of.items()},
            {v: dict(jobs) for v, jobs in records.shared.items()},
            set(records.stages),
            graph.structure.state.tobytes(),
            {v: dict(tags) for v, tags in graph.structure.tags.items()},
            graph.planner.free_slice(0, graph.structure.n, 0, clock.FOREVER).tobytes(),
        )

    def _expect_allocate(self, job: str, targets: list[Any], start: int | None, end: int | None) -> None:
        self.oracle.allocate(job, targets, start, end)

    def _do_allocate(self, job: str, targets: list[Any], start: int | None, end: int | None) -> None:
        begin = None if start is None else self.seconds(start)
        if start is not None and end is not None and end > start and (start + end) % 2:
            self.graph.allocate(self.named(targets), job=job, start=begin, duration_s=self.seconds(end - start))
        else:
            self.graph.allocate(self.named(targets), job=job, start=begin, end=self.end(end))

    def named(self, targets: list[Any]) -> Any:
        """The same pools in one of the forms that a caller may use, always the same form for the same targets."""
        if len(targets) == 1:
            key, amount = targets[0]
            if amount is None:
                return key
            return [(self.vertex.get(key, key), amount)] if len(key) % 2 else {key: amount}
        if len(targets) == len({key for key, _ in targets}) and len(targets) % 2:
            return dict(targets)
        return [key if amount is None else (key, amount) for key, amount in targets]

    def _expect_free(self, job: str, targets: list[Any] | None, start: int | None, end: int | None) -> None:
        self.oracle.free(job, targets, start, end)

    def _do_free(self, job: str, targets: list[Any] | None, start: int | None, end: int | None) -> None:
        begin = None if start is None else self.seconds(start)
        give = self.graph.shrink if targets is not None and end is None else self.graph.free
        give(job, None if targets is None else self.named(targets), start=begin, end=self.end(end))

    def _expect_grow(self, job: str, targets: list[Any]) -> None:
        self.oracle.grow(job, targets)

    def _do_grow(self, job: str, targets: list[Any]) -> None:
        self.graph.grow(job, self.named(targets))

    def _expect_set_end(self, job: str, end: int | None) -> None:
        self.oracle.set_end(job, end)

    def _do_set_end(self, job: str, end: int | None) -> None:
        self.graph.set_end(job, math.inf if end is None else self.end(end))

    def _expect_expire(self) -> None:
        self.oracle.expire()

    def _do_expire(self) -> None:
        self.graph.expire()

    def _expect_stage(self, job: str, targets: list[Any], start: int | None, end: int | None, life: int) -> None:
        self.oracle.stage(job, self.stages_made, targets, start, end, life)

    def _do_stage(self, job: str, targets: list[Any], start: int | None, end: int | None, life: int) -> None:
        begin = None if start is None else self.seconds(start)
        ttl_s = self.seconds(life)
        made = self.graph.stage(self.named(targets), job=job, start=begin, end=self.end(end), ttl_s=ttl_s)
        self.stages[self.stages_made] = made
        self.stages_made += 1

    def _expect_commit(self, number: int) -> None:
        self.oracle.commit(number)

    def _do_commit(self, number: int) -> None:
        self.stage(number).commit()
        self.stages.pop(number)  # a graph that was loaded may give the id to another stage

    def _expect_release(self, number: int) -> None:
        self.oracle.release(number)

    def _do_release(self, number: int) -> None:
        self.stage(number).release()
        self.stages.pop(number)

    def stage(self, number: int) -> fluxres.Stage:
        return self.stages.get(number) or fluxres.Stage(self.graph, f"none{number}", "j1")

    def _expect_pass_time(self, ticks: int) -> None:
        self.oracle.pass_time(min(self.oracle.now + ticks, self.oracle.horizon))

    def _do_pass_time(self, ticks: int) -> None:
        """The graph reads its clock itself; the oracle drops expired stages."""
        self.graph.expire(0)

    def _expect_state(self, keys: list[str], state: str) -> None:
        self.oracle.set_state(keys, state)

    def _do_state(self, keys: list[str], state: str) -> None:
        if len(keys) == 1 and keys[0] in self.vertex:
            self.graph.pool(keys[0]).state = state
        else:
            self.graph.set_state(keys, state)

    def _expect_tag(self, key: str, tag: str, value: str | None) -> None:
        self.oracle.pool(key)["tags"][tag] = value

    def _do_tag(self, key: str, tag: str, value: str | None) -> None:
        self.graph.tag(key, tag, value)

    def _expect_untag(self, key: str, tag: str) -> None:
        self.oracle.pool(key)["tags"].pop(tag, None)

    def _do_untag(self, key: str, tag: str) -> None:
        self.graph.untag(key, tag)

    # -- other machines ---------------------------------------------------------------------------------------------

    def _expect_copy(self, key: str, tick: int, adopt: bool) -> None:
        self.next = oracle_shape.copied(self.oracle, self.graphs, key, tick, self.along)

    def _do_copy(self, key: str, tick: int, adopt: bool) -> None:
        self.look_at(self.graph.copy(key, at=self.seconds(tick)), adopt)

    def along(self, uuids: set[str]) -> set[str]:
        structure = self.graph.structure
        if not structure.subsystems:
            return set()
        kept = np.zeros(structure.n, np.bool_)
        kept[[structure.vertex(uuid) for uuid in uuids]] = True
        found = self.graph.matcher.typology.paths.along(kept)
        return {structure.uuid(v) for v in np.flatnonzero(found).tolist()}

    def _expect_copy_job(self, job: str, tick: int, adopt: bool) -> None:
        self.next = oracle_shape.copied_job(self.oracle, self.graphs, job, tick, self.along)

    def _do_copy_job(self, job: str, tick: int, adopt: bool) -> None:
        self.look_at(self.graph.copy(job=job, at=self.seconds(tick)), adopt)

    def _expect_duplicate(self, adopt: bool) -> None:
        self.next = copy.deepcopy((self.oracle, self.graphs))

    def _do_duplicate(self, adopt: bool) -> None:
        self.look_at(self.graph.duplicate(), adopt)

    def look_at(self, made: ResourceGraph, adopt: bool) -> None:
        """Compare a graph derived from this one, and check that neither shows a change of the other (C1)."""
        if self.next is None:
            return
        self.same("clock", made.clock(), self.graph.clock())
        self.compare_structure(made, self.next)
        self.same("check() of what was made", [problem for problem in made.check() if problem.severity == "error"], [])
        left, before = (self.graph, self.trace()) if adopt else (made, self.trace())
        if adopt:
            self.adopt(made)
            before = self.trace()
        left.set_state("/", "drain")
        left.tag(range(len(left)), "seen")
        for job in left.jobs():
            left.free(job)
        self.same("the other graph", self.trace(), before)

    def _expect_unlink(self, key: str) -> None:
        self.next = oracle_shape.unlinked(self.oracle, self.graphs, key)

    def _do_unlink(self, key: str) -> None:
        self.graph.unlink(key)
        self.adopt(self.graph)

    def _expect_relink(self, key: str, tick: int) -> None:
        part, edges = oracle_shape.copied(self.oracle, self.graphs, key, tick, self.along)
        self.next = oracle_shape.unlinked(self.oracle, self.graphs, key)
        self.next = oracle_shape.merged(*self.next, part, edges)

    def _do_relink(self, key: str, tick: int) -> None:
        """Copy a part, unlink it, and merge the copy."""
        part = self.graph.copy(key, at=self.seconds(tick))
        trial = self.graph.duplicate()
        trial.unlink(key)
        trial.merge(part)
        self.adopt(trial, ordered=False)

    def _expect_merge_jobs(self, one: str, two: str, tick: int) -> None:
        first = oracle_shape.copied_job(self.oracle, self.graphs, one, tick, self.along)
        self.next = oracle_shape.merged(*first, *oracle_shape.copied_job(self.oracle, self.graphs, two, tick, self.along))

    def _do_merge_jobs(self, one: str, two: str, tick: int) -> None:
        """What two jobs hold, merged into one machine: sizes of pools that both hold in part add up."""
        at = self.seconds(tick)
        grown = self.graph.copy(job=one, at=at)
        grown.merge(self.graph.copy(job=two, at=at))
        self.adopt(grown, ordered=False)

    def _expect_merge(self, seed: int, at: str | None) -> None:
        other = self.stranger(seed, at)
        self.next = oracle_shape.merged(self.oracle, self.graphs, other.oracle, other.graphs, at)

    def _do_merge(self, seed: int, at: str | None) -> None:
        other = self.stranger(seed, at)
        before = other.trace()
        self.graph.merge(other.graph, at)
        self.same("the merged graph", other.trace(), before)
        self.adopt(self.graph, ordered=False)

    # -- saving -----------------------------------------------------------------------------------------------------

    @functools.cached_property
    def folder(self) -> str:
        """The directory for saves; removed with the pair."""
        made = tempfile.mkdtemp(prefix="fluxres-pair-")
        weakref.finalize(self, shutil.rmtree, made, ignore_errors=True)
        return made

    def place(self, name: str) -> str:
        return f"{self.folder}/{name}"

    def _expect_save(self, where: str, adopt: bool) -> None:
        self.next = copy.deepcopy((self.oracle, self.graphs))
        if where != "store":
            for number in list(self.oracle.stages):
                self.next[0].release(number)

    def _do_save(self, where: str, adopt: bool) -> None:
        """Save to a file or store, completely or only changes since the last save there, and load it (S1)."""
        graph = self.graph
        if where == "store":
            url = f"sqlite:///{self.place('site.db')}"
            self.same("left out", fluxres.save(graph, url, replace=True, changed_only=not adopt).left_out, [])
            self.look_at(fluxres.load(url, clock=self.clock), adopt)
            return
        if where == "changes" and self.base is not None and self.base[0] is graph and not self.oracle.stages:
            _, file, document = self.base
            fluxres.save(graph, document, changed_only=True)
            self.look_at(fluxres.load(file, changes=document, clock=self.clock), adopt)
            return
        self.saved += 1
        file = self.place(f"{self.saved}.yaml")
        report = fluxres.save(graph, file)
        self.same("left out", bool(report.left_out), bool(self.oracle.stages))
        self.base = None if report.left_out else (graph, file, self.place(f"{self.saved}.changes"))
        self.look_at(fluxres.load(file, clock=self.clock), adopt)

    def stranger(self, seed: int, at: str | None) -> Pair:
        """A small independent machine with records, the same for the same seed; many names equal those of this one."""
        rng = random.Random(seed)
        made = machine(rng.randint, 8)
        if at is not None:
            made.root.type = made.root.name = rng.choice(("rack", "node"))
            made.feeds, made.power, made.links = [], [], []
        other = Pair(made, self.oracle.horizon, self.unit_s, uuids.new_origin(rng.randbytes(16)))
        other.oracle.now = self.oracle.now
        for _ in range(rng.randint(0, 2)):
            other.do(allocate(rng.randint, other.oracle, rng.choice(("j1", "j2"))))
        return other

    @staticmethod
    def keys_in(operation: Operation) -> list[str]:
        """The pools that an operation names."""
        found: list[str] = []
        for value in operation[1:]:
            for item in value if isinstance(value, list) else [value]:
                name = item[0] if isinstance(item, list) else item
                if isinstance(name, str) and "/" in name:
                    found.append(name)
        return found
