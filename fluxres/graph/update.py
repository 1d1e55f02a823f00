"""Make the next structure of a machine from a new description of it.

The result has the pools of the description, in its order, and those pools of the present machine that are to be kept although
they are not described any more.  A pool that both have keeps what belongs to the machine and not to its description: uuid, rank,
a state other than `up`, and tags that the description does not have.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fluxres.arrays import Int32, Int64, Mask, UInt8
from fluxres.errors import MergeConflict
from fluxres.graph import uuids
from fluxres.graph.auxiliary import Subsystem
from fluxres.graph.correspondence import Correspondence
from fluxres.graph.identity import joint_origins, repeated, template_fields, uuid_keys
from fluxres.graph.kinds import STATES
from fluxres.graph.merge import attribute_column, joint_kinds
from fluxres.graph.structure import COLUMNS, Structure

UP = STATES.index("up")


def updated(same: Correspondence, kept: Int32) -> tuple[Structure, Int32]:
    """The machine after an update.

    Args:
        same: the machine and its new description.
        kept: those of `same.gone_tops` that stay, with all that is below them.

    Returns: the structure, and the new numbers as int32 by old number, -1 for removed pools.
    Errors: MergeConflict for a name that a kept pool and a new one would share; LimitExceeded.
    Cost: O(n of both), vectorised; Python for sparse data.
    """
    return _Update(same, kept).make()


class _Update:
    """The position of each pool in the result, and what follows from it."""

    def __init__(self, same: Correspondence, kept: Int32) -> None:
        self.same, self.s, self.other = same, same.s, same.other
        self.tops = self._in_order(kept)
        _require_own_names(same, self.tops)
        block = np.full(self.s.n + 1, -1, np.int64)  # one more, for pools that stay
        block[self.tops] = np.arange(len(self.tops))
        block = block[same.gone_top]
        chosen = np.flatnonzero(block >= 0)
        self.kept = chosen[np.argsort(block[chosen], kind="stable")].astype(np.int32)
        self._block = block[self.kept]
        self._number()
        self.n = self.other.n + len(self.kept)

    def _under(self, tops: Int32) -> Int32:
        """The parents of kept pools, as vertices of the description; -1 for none."""
        above = self.s.parent[tops]
        return np.where(above >= 0, self.same.to_other[above], -1).astype(np.int32)

    def _in_order(self, tops: Int32) -> Int32:
        # A kept subtree goes after the last descendant of its parent; of parents that end together, the deepest comes first.
        under = self._under(tops)
        place = np.where(under >= 0, self.other.end[under], self.other.n)
        return tops[np.lexsort((tops, -np.where(under >= 0, self.other.depth[under], -1), place))]

    def _number(self) -> None:
        other, tops = self.other, self.tops
        under = self._under(tops)
        place = np.where(under >= 0, other.end[under], other.n)
        lengths = np.bincount(self._block, minlength=len(tops))
        inserted = np.cumsum(np.bincount(place, weights=lengths, minlength=other.n + 1).astype(np.int64))
        self.from_other = (np.arange(other.n) + inserted[: other.n]).astype(np.int32)
        self.from_kept = (place[self._block] + np.arange(len(self.kept))).astype(np.int32)
        below = np.concatenate([[0], np.cumsum(np.bincount(under[under >= 0], weights=lengths[under >= 0], minlength=other.n))])
        length = other.end - np.arange(other.n) + (below[other.end] - below[: other.n])
        self.end_other = self.from_other + length.astype(np.int32)
        self.tree_end = other.tree_end + int(lengths[(under >= 0) & (under < other.tree_end)].sum())

    def make(self) -> tuple[Structure, Int32]:
        s, other = self.s, self.other
        old_to_new = np.full(s.n, -1, np.int32)
        old_to_new[self.same.to_s[self.same.pairs]] = self.from_other[self.same.pairs]
        old_to_new[self.kept] = self.from_kept
        self.kinds, of_s = joint_kinds(other, s)
        self.origins, (origin_s, origin_other) = joint_origins([s, other])
        columns = {name: self._column(getattr(other, name), getattr(s, name)) for name in COLUMNS}
        columns["kind"] = self._column(other.kind, of_s[s.kind])
        columns["end"] = self._column(self.end_other, self._ends_kept())
        columns["parent"] = self._parents(old_to_new)
        columns["state"] = self._column(self._states(), s.state)
        columns["rank"] = self._column(self._ranks(), s.rank)
        texts = self._identify(columns, origin_s, origin_other)
        names, tags, capacity = (self._sparse(getattr(other, name), getattr(s, name)) for name in ("names", "tags", "capacity"))
        made = Structure(
            columns,
            self.kinds,
            origins=self.origins,
            names=names,
            uuid_texts=texts,
            tags=self._with_own_tags(tags),
            capacity=capacity,
            subsystems=self._subsystems(old_to_new),
            tree_end=self.tree_end,
        )
        self._settle_names(made)
        return made, old_to_new

    # -- columns -----------------------------------------------------------------------------------------------------

    def _column(self, described: NDArray[Any], present: NDArray[Any]) -> NDArray[Any]:
        """A column of the result, from one of the description and one of the machine, for what is kept."""
        column = np.empty(self.n, described.dtype)
        column[self.from_other] = described
        column[self.from_kept] = present[self.kept]
        return column

    def _ends_kept(self) -> Int32:
        keys = self._block * (self.s.n + 1)
        after = np.searchsorted(keys + self.kept, keys + self.s.end[self.kept])
        ends = np.zeros(self.s.n, np.int32)
        ends[self.kept] = self.from_kept + (after - np.arange(len(self.kept)))
        return ends

    def _parents(self, old_to_new: Int32) -> Int32:
        described = np.where(self.other.parent >= 0, self.from_other[self.other.parent], -1)
        present = np.where(self.s.parent >= 0, old_to_new[self.s.parent], -1)
        return self._column(described.astype(np.int32), present)

    def _states(self) -> UInt8:
        """A state that a user set stays; a description without one has `up`."""
        states, same = self.other.state.copy(), self.same
        present = self.s.state[same.to_s[same.pairs]]
        states[same.pairs] = np.where(present != UP, present, states[same.pairs])
        return states

    def _ranks(self) -> Int32:
        """Execution targets that stay keep their ranks; a new one gets its own, or the next free one if that is in use."""
        s, other, to_s = self.s, self.other, self.same.to_s
        ranks, tops = other.execution_targets
        if not len(ranks):
            return other.rank
        present = np.where(to_s[tops] >= 0, s.rank[to_s[tops]], -1).astype(np.int64)
        present[repeated(present)] = -1
        used = np.concatenate([present[present >= 0], np.unique(s.rank[self.kept])])
        new = np.where(present >= 0, present, np.where(np.isin(ranks, used), -1, ranks))
        lacking = np.flatnonzero(new < 0)
        if len(lacking):
            last = max(int(new.max()), int(used.max(initial=-1)), int(ranks.max()))
            new[lacking] = last + 1 + np.arange(len(lacking))
        if int(new.max()) > np.iinfo(np.int32).max:
            spare = np.setdiff1d(np.arange(2 * len(new) + len(used)), np.concatenate([new[present >= 0], used]))
            new[lacking] = spare[: len(lacking)]
        by_rank = new[np.minimum(np.searchsorted(ranks, other.rank), len(ranks) - 1)]
        return np.where(other.rank >= 0, by_rank, -1).astype(np.int32)

    def _identify(self, columns: dict[str, NDArray[Any]], origin_s: Int64, origin_other: Int64) -> dict[int, str]:
        """Write the uuids, and return the explicit ones: those of the machine for the pools that it has."""
        s, other, pairs = self.s, self.other, self.same.pairs
        origin, serial = origin_other[other.origin] if len(origin_other) else other.origin.astype(np.int64), other.serial.copy()
        of_s = origin_s[s.origin] if len(origin_s) else s.origin.astype(np.int64)
        origin[pairs], serial[pairs] = of_s[self.same.to_s[pairs]], s.serial[self.same.to_s[pairs]]
        new, old = np.flatnonzero(self.same.to_s < 0), np.concatenate([self.same.to_s[pairs], self.kept])
        keys_s, keys_other = uuid_keys([s, other])
        clash = new[np.isin(keys_other[new], keys_s[old], kind="sort")]  # by range, NumPy 2.0 overflows for uint64
        if len(clash):  # the description gives the uuid of another pool of the machine to a new one
            self.origins.append(uuids.new_origin())
            origin[clash], serial[clash] = len(self.origins) - 1, clash
        columns["origin"] = self._column(origin.astype(np.uint16), of_s.astype(np.uint16))
        columns["serial"] = self._column(serial, s.serial)
        fresh = set(new.tolist()) - set(clash.tolist()) if other.uuid_texts else set[int]()
        texts = {int(self.from_other[w]): text for w, text in other.uuid_texts.items() if w in fresh}
        return texts | self._of_present(s.uuid_texts)

    # -- sparse data -------------------------------------------------------------------------------------------------

    def _of_present(self, sparse: dict[int, Any]) -> dict[int, Any]:
        """Data of the machine, of the pools that it keeps, by new number."""
        if not sparse:
            return {}
        new = np.full(self.s.n, -1, np.int32)
        new[self.same.to_s[self.same.pairs]] = self.from_other[self.same.pairs]
        new[self.kept] = self.from_kept
        return {int(new[v]): value for v, value in sparse.items() if new[v] >= 0}

    def _sparse(self, described: dict[int, Any], present: dict[int, Any]) -> dict[int, Any]:
        """Data of the description, and of the machine for what is kept."""
        made = {int(self.from_other[w]): value for w, value in described.items()}
        if present and len(self.kept):
            new = dict(zip(self.kept.tolist(), self.from_kept.tolist(), strict=True))
            made |= {new[v]: value for v, value in present.items() if v in new}
        return made

    def _with_own_tags(self, tags: dict[int, dict[str, str | None]]) -> dict[int, dict[str, str | None]]:
        made = {v: dict(values) for v, values in tags.items()}
        for v, values in self._of_present(self.s.tags).items():
            made[v] = {**values, **made.get(v, {})}
        return made

    def _settle_names(self, made: Structure) -> None:
        """Make names explicit that a template gives otherwise now."""
        used = [template_fields(kind) for kind in self.other.kinds]
        by_own = np.array([bool(fields & {"rank", "uuid"}) for fields in used] or [False], np.bool_)
        for w in np.flatnonzero(by_own[self.other.kind]).tolist():
            v, name = int(self.from_other[w]), self.other.name(w)
            if made.name(v) != name:
                made.names[v] = name
        by_place = np.array([bool(template_fields(kind) - {"id"}) for kind in self.s.kinds] or [False], np.bool_)
        above = by_place[self.s.kind[self.kept]]
        for v, new in zip(self.kept[above].tolist(), self.from_kept[above].tolist(), strict=True):
            made.names.setdefault(new, self.s.name(v))

    # -- auxiliary graphs --------------------------------------------------------------------------------------------

    def _subsystems(self, old_to_new: Int32) -> dict[str, Subsystem]:
        made = {name: graph.renumber(self.from_other) for name, graph in self.other.subsystems.items()}
        if not len(self.kept):
            return made
        kept = np.zeros(self.s.n, np.bool_)
        kept[self.kept] = True
        for name, graph in self.s.subsystems.items():
            rows = self._edges_kept(graph, kept)
            own = graph.renumber(old_to_new, keep_rows=rows)
            if not len(own):
                continue
            if name in made and made[name].hierarchy != own.hierarchy:
                message = f"'{name}' would be a {'graph' if own.hierarchy else 'hierarchy'}, and pools that stay are in it"
                raise MergeConflict(message, where=name, hint="free what jobs hold of them first")
            made[name] = joined(made[name], own) if name in made else own
        return made

    @staticmethod
    def _edges_kept(graph: Subsystem, kept: Mask) -> Mask:
        """The edges of kept pools; in a hierarchy, the description says what is above the others."""
        return kept[graph.dst] if graph.hierarchy else kept[graph.dst] | kept[graph.src]


def joined(a: Subsystem, b: Subsystem) -> Subsystem:
    """The edges of both; they have none in common."""
    relations = {relation: i for i, relation in enumerate(a.relations)}
    numbers = np.array([relations.setdefault(relation, len(relations)) for relation in b.relations], np.uint16)
    attributes = {
        key: np.concatenate([attribute_column(a, key, b), attribute_column(b, key, a)])
        for key in dict.fromkeys([*a.attributes, *b.attributes])
    }
    return Subsystem(
        a.name,
        a.hierarchy,
        np.concatenate([a.src, b.src]),
        np.concatenate([a.dst, b.dst]),
        np.concatenate([a.relation, numbers[b.relation]]),
        list(relations),
        attributes,
    )


def _require_own_names(same: Correspondence, tops: Int32) -> None:
    """Refuse to keep a pool whose name the description gives to another one there."""
    s, other = same.s, same.other
    for v in tops.tolist():
        above = s.parent.item(v)
        if above < 0:
            continue
        name = s.name(v)
        if any(other.name(w) == name for w in other.children(int(same.to_other[above])).tolist()):
            message = "cannot stay: the description has another pool with this path"
            raise MergeConflict(
                message, where=s.where(v), hint="free what jobs hold of it first, or give the new pool another name"
            )
