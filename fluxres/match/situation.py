"""What is available in one window: queries that combine the machine's states, a constraint (Flux RFC 31) and the planner.

The Evaluating Filter of RFC 4 queries single pools, policies query many.  Results are cached, so that a pool is looked up only
once however often the search returns to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import copy
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from fluxres import limits
from fluxres.arrays import Floats, Int32, Int64, Mask
from fluxres.documents.suggestion import suggest
from fluxres.graph.kinds import EXCLUSIVE, STATES, PropertyValue
from fluxres.graph.partitions import Partition
from fluxres.graph.structure import Structure
from fluxres.match.typology import Typology
from fluxres.planner.planner import Planner
from fluxres.syntax import hostlist
from fluxres.syntax.constraint import And, Constraint, Hostlist, Not, Or, Properties, Ranks, States, part_of


class Eligible:
    """The targets of one machine that satisfy one constraint, and are members of one partition if there is one.

    `syntax.constraint.matches` defines the meaning, one target at a time.  Here the same is done with masks, because a job's
    constraint applies to ten thousand nodes of three kinds.  A constraint applies to the execution target, which is a node:
    pools in a node are as eligible as the node, and pools above nodes are not tested.  On a machine without nodes, it applies to
    each pool.

    Cost: one vector operation over the nodes for each part of the constraint.
    Errors: LimitExceeded for a hostlist of more hosts than `limits.IDSET_COUNT_MAX`.
    """

    def __init__(self, typology: Typology, constraint: Constraint | None, partition: Partition | None = None) -> None:
        self._typology = typology
        structure = typology.structure
        self.partition = partition
        self.everywhere = constraint is None or constraint == And()
        self._by_pool = typology.node < 0
        self.targets = np.arange(structure.n, dtype=np.int32) if self._by_pool else typology.vertices(typology.node)
        #: Whether each target satisfies the constraint.
        self.mask: Mask = np.ones(len(self.targets), np.bool_)
        if not self.everywhere and constraint is not None:
            self.mask = self._evaluate(constraint)
        if partition is not None:
            self.mask &= partition.covers(self.targets)
        if not self.everywhere or partition is not None:
            self.everywhere = bool(self.mask.all())
        self._barred: Int32 = self.targets[~self.mask]
        part = part_of(constraint)
        #: The targets of the part of the machine that a request is about; None for all of it.
        self.part: Int32 | None = None if part is None else self.targets[self._evaluate(part)]

    def candidates(self, kind: int) -> Int32:
        """The pools of a type in the part of the machine that a request is about, with those that it shares with others."""
        pools = self._typology.vertices(kind)
        if self.part is None:
            return pools
        if self._by_pool:
            return pools[np.isin(pools, self.part)]
        own, ends = self._typology.node_of[pools], self._typology.accounts.end[pools]
        is_shared = self.targets.searchsorted(pools) == self.targets.searchsorted(ends)  # no target below it, nor above
        has_some = self.part.searchsorted(pools) < self.part.searchsorted(ends)
        return pools[np.where(own < 0, is_shared | has_some, np.isin(own, self.part))]

    def of(self, v: int) -> bool:
        """Whether a pool may be used: its execution target satisfies the constraint, or it has none."""
        if self.everywhere:
            return True
        target = v if self._by_pool else self._typology.node_at[v]
        return target < 0 or not self._is_barred(target)

    def elsewhere(self, vertices: Int32) -> Mask:
        """Those of the pools that have an execution target which is not in the partition."""
        if self.partition is None:
            return np.zeros(len(vertices), np.bool_)
        targets = vertices if self._by_pool else self._typology.node_of[vertices]
        return (targets >= 0) & ~self.partition.covers(targets)

    def only(self, targets: Int64) -> Eligible:
        """The same, restricted to these targets (by index)."""
        made = copy(self)
        made.mask = np.zeros(len(self.targets), np.bool_)
        made.mask[targets] = self.mask[targets]
        made.everywhere = bool(made.mask.all())
        made._barred = made.targets[~made.mask]
        return made

    def all_below(self, v: int) -> bool:
        """Whether every target strictly below a pool satisfies the constraint, which is required to take the pool exclusively."""
        return self.everywhere or self._by_pool or not len(self._barred_between(v + 1, v))

    def barred_in(self, v: int) -> Int32:
        """The targets that do not satisfy the constraint among a pool and those in it, as offsets from the pool."""
        return self._barred_between(v, v) - np.int32(v)

    def _barred_between(self, first: int, v: int) -> Int32:
        """The targets from `first` on within a pool that do not satisfy the constraint."""
        lo, hi = self._barred.searchsorted(np.array([first, self._typology.accounts.end.item(v)], np.int32)).tolist()
        return self._barred[lo:hi]

    def _is_barred(self, target: int) -> bool:
        at = int(self._barred.searchsorted(np.int32(target)))
        return at < len(self._barred) and int(self._barred[at]) == target

    def _evaluate(self, constraint: Constraint) -> Mask:
        structure = self._typology.structure
        match constraint:
            case Properties(required, excluded):
                return having(structure, self.targets, (*required, *(f"^{name}" for name in excluded)))
            case Hostlist(texts):
                hosts: set[str] = set()
                for text in texts:
                    hosts.update(hostlist.parse(text))
                return _named(structure, self.targets, sorted(hosts))
            case Ranks():
                ranks = structure.rank[self.targets]
                found = np.zeros(len(ranks), np.bool_)
                for first, last in constraint.ranges():
                    found |= (first <= ranks) & (ranks <= last)
                return found
            case States(states):
                return np.isin(structure.state[self.targets], [STATES.index(state) for state in states])
            case Not(item):
                return ~self._evaluate(item)
            case And(items):
                found = np.ones(len(self.targets), np.bool_)
                for item in items:
                    found &= self._evaluate(item)
                return found
            case Or(items):
                found = np.full(len(self.targets), not items)
                for item in items:
                    found |= self._evaluate(item)
                return found


def having(structure: Structure, vertices: Int32, properties: Iterable[str]) -> Mask:
    """Those of the vertices (ascending) that have all of these properties, and none of those with `^` in front.

    A property is bare, or reads `key=value`; the name of a pool, such as a host name, is one as well.
    """
    kinds = structure.kind[vertices]
    present = np.unique(kinds).tolist()
    found = np.ones(len(vertices), np.bool_)
    for text in properties:
        name = text.removeprefix("^")
        kept = [number for number in present if name in _names(structure.kinds[number].properties)]
        has = np.isin(kinds, kept) | _named(structure, vertices, [name])
        found &= has if name == text else ~has
    return found


def unknown_properties(structure: Structure, vertices: Int32, properties: Iterable[str]) -> Iterator[str]:
    """In words, each required property that no pool has, with the nearest of those that the vertices have."""
    known = sorted(
        {name for number in np.unique(structure.kind[vertices]).tolist() for name in _names(structure.kinds[number].properties)}
    )
    for name in dict.fromkeys(properties):
        if not (name.startswith("^") or name in known or structure.named([name])):
            hint = suggest(name, known[: limits.WHY_POOLS_MAX], most=3)
            yield f"none has '{name[: limits.NAME_LENGTH_MAX]}'" + (f", {hint}" if hint else "")


def unknown_hosts(structure: Structure, targets: Int32, texts: Iterable[str]) -> Iterator[str]:
    """In words, the first name of each of these hostlists that no target has, with the nearest of their names."""
    for text in texts:
        hosts = dict.fromkeys(hostlist.parse(text))
        named = np.array(structure.named(hosts), np.int32)
        there = {structure.name(v) for v in named[np.isin(named, targets)].tolist()}
        missing = next((host for host in hosts if host not in there), None)
        if missing is not None:
            near = structure.short_names.nearest(missing, "")
            yield f"none is named '{missing[: limits.NAME_LENGTH_MAX]}'" + (f", {near}" if near else "")


def _named(structure: Structure, vertices: Int32, names: list[str]) -> Mask:
    found = np.zeros(len(vertices), np.bool_)
    named = np.array(structure.named(names), np.int32)
    if named.size and found.size:
        at = np.minimum(vertices.searchsorted(named), len(vertices) - 1)
        found[at[vertices[at] == named]] = True
    return found


def _names(properties: tuple[tuple[str, PropertyValue], ...]) -> set[str]:
    """The names that a constraint may use for the properties of a pool.

    >>> sorted(_names((("class", 7), ("ssd", None))))
    ['class', 'class=7', 'ssd']
    """
    return {key for key, _ in properties} | {f"{key}={value}" for key, value in properties if value is not None}


PERFORMANCE_CLASS: Final = "perf_class"
"""The property that the policy `variation` sorts by."""
NO_CLASS: Final = float("inf")
"""The performance class of a pool that has none: sorts after all others."""


class Situation:
    """One machine, one window, one constraint.

    Args:
        typology: of the machine.
        planner: what is held, and when.
        eligible: what the constraint allows.
        start, end: window in ticks.
        measured: type that measures how full a node is, for `pack` and `spread`; -1 for none.
        ideal: everything is up and nothing is held, as for `satisfiable`.
    """

    def __init__(
        self,
        typology: Typology,
        planner: Planner,
        eligible: Eligible,
        start: int,
        end: int,
        *,
        measured: int = -1,
        ideal: bool = False,
    ) -> None:
        self.typology = typology
        self.structure: Structure = typology.structure
        self.planner = planner
        self.eligible = eligible
        self.start, self.end = start, end
        self.measured = measured
        self.ideal = ideal
        self.accounts = accounts = typology.accounts
        self.size = accounts.size.data
        self.stop = accounts.end.data
        self.parent = accounts.parent.data
        self.flags = accounts.flags.data
        self._all_up = ideal or not len(self.structure.unavailable_roots())
        self._free: dict[int, int] = {}
        self._clear: dict[int, bool] = {}
        self._signatures: dict[int, tuple[object, ...]] = {}
        self._room: Int64 | None = None

    @cached_property
    def to_read(self) -> Situation:
        """The same for code of others: the columns of its structure and accounts can only be read."""
        made = copy(self)
        made.structure, made.accounts = self.typology.to_read
        made.size, made.stop, made.parent, made.flags = (
            column.toreadonly() for column in (self.size, self.stop, self.parent, self.flags)
        )
        return made

    # -- one pool ----------------------------------------------------------------------------------------------------

    def is_up(self, v: int) -> bool:
        """Rule A7: neither the pool nor one of its ancestors is out of service."""
        return self._all_up or self.accounts.unavailable_above(v) < 0

    @property
    def hinders(self) -> bool:
        """Whether the state of a pool, or a pool that is only allocated exclusively, may keep something free from being taken."""
        return not self._all_up or self.typology.has_flags

    def free(self, v: int) -> int:
        """Units of an available, eligible pool that are free through the window; 0 for any other."""
        found = self._free.get(v)
        if found is None:
            found = 0
            if self.is_up(v) and self.eligible.of(v):
                found = self.accounts.units.item(v) if self.ideal else self.planner.free(v, self.start, self.end)
                if found and not self.ideal and any(map(self.is_busy_below, self.accounts.exclusive_around(v))):
                    found = 0  # rule A8: another job is in it
            self._free[v] = found
        return found

    def is_passable(self, v: int) -> bool:
        """Whether to search in a pool: it has a free unit, or is a pass-through pool with no exclusive holding above it."""
        if self.free(v) > 0:
            return True
        if not self.accounts.is_way(v) or not (self.is_up(v) and self.eligible.of(v)):
            return False
        if not self.ideal and any(map(self.is_busy_below, self.accounts.exclusive_around(v))):
            return False
        return self.ideal or self.planner.covered_by(v, self.start, self.end) < 0

    def is_busy_below(self, v: int) -> bool:
        """Whether anything below is held at some moment of the window."""
        return not self.ideal and self.stop[v] > v + 1 and self.planner.busy_below(v, self.start, self.end)

    def is_clear(self, v: int) -> bool:
        """Whether the pool may be allocated exclusively: all of it free, nothing below it held, no ineligible node below it."""
        found = self._clear.get(v)
        if found is None:
            size = self.size[v]
            found = self._clear[v] = (
                size > 0
                and not self.accounts.is_way(v)
                and self.free(v) == size
                and not self.is_busy_below(v)
                and self.eligible.all_below(v)
            )
        return found

    def signature(self, v: int) -> tuple[object, ...]:
        """Equal for two pools whose subtrees agree in all that matters to a match: kinds, service, free units, eligibility."""
        found = self._signatures.get(v)
        if found is None:
            stop = self.stop[v]
            out = None if self._all_up else self.structure.unavailable_roots()
            free = self.structure.units[v:stop] if self.ideal else self.planner.free_slice(v, stop, self.start, self.end)
            found = self._signatures[v] = (
                self.structure.kind[v:stop].tobytes(),
                (self.structure.end[v:stop] - np.arange(v, stop)).tobytes(),
                self.structure.flags[v:stop].tobytes(),
                self.is_up(v),
                b"" if out is None else (out[slice(*out.searchsorted(np.array([v, stop], np.int32)))] - np.int32(v)).tobytes(),
                free.tobytes(),
                self.eligible.of(v),
                self.eligible.barred_in(v).tobytes(),
            )
        return found

    def only_whole(self, v: int) -> bool:
        """Whether the pool can only be allocated exclusively."""
        return bool(self.flags[v] & EXCLUSIVE)

    def totals(self) -> Int64:
        """Units free through the window, or passed through, by type over the machine; ignores the constraint."""
        structure = self.structure
        if self.ideal:
            return np.array([int(self.typology.sizes(kind).sum()) for kind in range(len(structure.types))], np.int64)
        # Pass-through pools have no units, but requests for pools in them need them all the same.
        ways = np.flatnonzero(structure.ways)
        found = np.zeros(len(structure.types), np.int64)
        np.add.at(found, structure.type[ways], structure.size[ways])
        for root in self.typology.roots:
            found += self.planner.totals(root, self.start, self.end, structure.unavailable_roots())[: len(found)]
        return found

    @cached_property
    def free_everywhere(self) -> Int64:
        """Units free through the window, by vertex; 0 if a pool is out of service. Ignores the constraint."""
        n, structure = self.structure.n, self.structure
        free = structure.units.copy() if self.ideal else self.planner.free_slice(0, n, self.start, self.end)
        for root in [] if self.ideal else structure.unavailable_roots().tolist():
            free[root : structure.end.item(root)] = 0
        return free

    # -- scores ------------------------------------------------------------------------------------------------------

    def performance_class(self, vertices: Int32) -> Floats:
        """The class of each pool, or of its nearest ancestor that has one."""
        structure = self.structure
        of_kind = np.full(len(structure.kinds), np.nan)
        for number, kind in enumerate(structure.kinds):
            value = dict(kind.properties).get(PERFORMANCE_CLASS)
            try:
                of_kind[number] = np.nan if value is None else float(value)
            except ValueError:
                of_kind[number] = np.nan
        found = of_kind[structure.kind[vertices]]
        at = vertices
        while (open_ := np.isnan(found) & (at >= 0)).any():
            at = np.where(open_, structure.parent[at], -1).astype(np.int32)
            up = at >= 0
            found[up] = of_kind[structure.kind[at[up]]]
        return np.where(np.isnan(found), NO_CLASS, found)

    def room(self, vertices: Int32) -> NDArray[Any]:
        """The room for the measured type in the node of each pool: its units less those used at the busiest moment.

        For a pool above nodes, the sum over its nodes.  All 0 if nodes nest or have sizes, or if nothing is measured.
        """
        level = self.planner.levels.of(self.typology.node) if self.typology.node >= 0 else None
        if level is None or self.measured < 0:
            return np.zeros(len(vertices), np.int64)
        if self._room is None:
            first, stop = level.edges(self.measured)
            sums = np.concatenate([[0], np.cumsum(self.typology.sizes(self.measured))])
            self._room = sums[stop] - sums[first]
            if not self.ideal:
                peaks = level.peaks(self.measured, self.start, self.end)
                self._room = self._room if peaks is None else self._room - peaks
        nodes = level.ordinal_of[vertices]
        sums = np.concatenate([[0], np.cumsum(self._room)])
        lo, hi = level.vertices.searchsorted(vertices), level.vertices.searchsorted(self.structure.end[vertices])
        return np.where(nodes >= 0, self._room[nodes], sums[hi] - sums[lo]) if level.length else np.zeros(len(vertices), np.int64)
