"""A machine as nested repetition: the compact form of a machine file, which expands to a million rows without a loop over them.

A recipe tree is as small as its file.  `expand` writes the first instance of each level into the final columns and copies it in
place for its siblings; parent and end are relative while it does so, because relative rows can be copied unchanged.  Peak memory
is the columns themselves.  Everything that can be refused is refused before they are allocated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from fluxres.graph.kinds import EXCLUSIVE, STATES, WAY, Kind, KindTable, PropertyValue, properties_tuple
from fluxres.graph.recipe_check import Check, Expansion
from fluxres.graph.structure import COLUMNS, Structure

NO_RANK: Final = -1
_INHERITED: Final = -2
_CHUNK: Final = 1 << 16


@dataclass(frozen=True, slots=True, eq=False)
class Recipe:
    """One entry: a pool, how many of it each parent has, and what is below it.

    Args:
        type: resource type.
        count: instances per parent.
        basename: first part of the default name; the type by default.
        name: name template.
        names: explicit names, one per instance.
        ids: first id, or the ids, or None for no id.  The root has no id unless it is given as an array.
        size, unit: units of each pool.
        properties, tags, state, exclusive: of each pool.
        uuid: explicit, for an entry that makes one pool.
        rank: execution target: the first rank, the ranks, or NO_RANK.  None numbers nodes in order; other pools inherit from
            their parent.
        children: entries below each instance.
        word_for_word: keep `names` as they are.  Otherwise regular ones (``frontier[00001-09408]``) become a template and ids.
        capacity: full size of a pool that a copy took only partly.
        way: a pass-through pool, present only as the path from the root to others.

    Lists of ids, names and ranks either have one member for each instance in a parent and repeat in every parent, or they are
    longer and run over all instances within one ancestor, or over all instances there are; the length decides.

    >>> Recipe("node", 4, ids=np.arange(8)).count
    4
    """

    type: str
    count: int = 1
    basename: str | None = None
    name: str | None = None
    names: Sequence[str] | None = None
    ids: int | NDArray[np.int64] | None = 0
    size: int = 1
    unit: str | None = None
    properties: Mapping[str, PropertyValue] = field(default_factory=dict)
    tags: Mapping[str, str | None] = field(default_factory=dict)
    state: str = "up"
    exclusive: bool = False
    uuid: str | None = None
    rank: int | NDArray[np.int64] | None = None
    children: tuple[Recipe, ...] = ()
    word_for_word: bool = False
    capacity: int | None = None
    way: bool = False

    def kind(self) -> Kind:
        """The kind shared by all instances."""
        return Kind(self.type, self.basename or self.type, self.unit, self.name, properties_tuple(self.properties.items()))


Where = Callable[[Recipe, str], str]


def expand(root: Recipe, *, more: Sequence[Recipe] = (), origin: int, where: Where | None = None) -> Structure:
    """The columns that a recipe describes.

    Args:
        root: the containment tree; its count is 1.
        more: trees of pools outside it.
        origin: base of the uuids (:func:`fluxres.graph.uuids.new_origin`); the serial is the vertex number.
        where: the place of a recipe, or of the value of a key in it, for messages; its path of types by default.

    Errors: InputError and LimitExceeded for what :mod:`fluxres.graph.recipe_check` refuses.
    Cost: O(pools) array writes, O(entries) Python; peak memory is 44 bytes per pool.

    >>> from fluxres.graph.uuids import new_origin
    >>> s = expand(Recipe("cluster", children=(Recipe("node", 2, children=(Recipe("core", 3),)),)), origin=new_origin())
    >>> s.n, s.path(8), s.rank[8].item()
    (9, '/cluster/node1/core2', 1)
    """
    roots = [root, *more]
    check = Check(roots, where)
    filling = _Filling(sum(check.measures[id(tree)].total for tree in roots), check.measures)
    at = 0
    for tree in roots:
        filling.fill(tree, at, [], is_root=tree is root)
        at += check.measures[id(tree)].total
    structure = filling.structure(check.measures[id(root)].total, origin)
    check.names_in(structure, filling.starts)
    return structure


@dataclass(slots=True)
class _Frame:
    """A recipe that is being expanded: the position of its first instance, and its lists that run over all its instances."""

    recipe: Recipe
    at: int
    length: int
    running: list[tuple[str, NDArray[Any], int, list[tuple[int, int]]]] = field(default_factory=list)


class _Filling:
    """The columns while they are being written."""

    def __init__(self, n: int, measures: dict[int, Expansion]) -> None:
        self.n = n
        self.measures = measures
        self.columns: dict[str, NDArray[Any]] = {name: np.zeros(n, dtype) for name, dtype in COLUMNS.items()}
        self.columns["size"] += 1
        self.columns["rank"] += _INHERITED
        # Columns in which the rows of an instance can be copied; serial and origin do not repeat.
        self.copied = [self.columns[name] for name in ("parent", "end", "kind", "size", "id", "rank", "state", "flags")]
        self.kinds = KindTable()
        self.roots: list[int] = []
        #: id() of a recipe -> position of its first complete instances
        self.filled: dict[int, int] = {}
        self.names: dict[int, str] = {}
        self.tags: dict[int, dict[str, str | None]] = {}
        self.capacity: dict[int, int] = {}
        self.uuid_texts: dict[int, str] = {}
        #: id() of a recipe -> vertex numbers of its instances, for recipes whose children's names must be compared
        self.starts: dict[int, list[NDArray[np.int64]]] = {}

    def fill(self, recipe: Recipe, at: int, chain: list[_Frame], *, is_root: bool = False) -> None:
        """Write all instances of a recipe into the first instance of its parent."""
        measure = self.measures[id(recipe)]
        up = at - chain[-1].at if chain else 0
        first = self.filled.setdefault(id(recipe), at) if measure.is_copyable and not is_root else at
        if first != at:
            self._copy(measure, first, at, up)
            self.roots.extend(() if chain else range(at, at + measure.total, measure.length))
            return
        frame = _Frame(recipe, at, measure.length)
        chain.append(frame)
        self._row(recipe, measure, at, up)
        below = at + 1
        for child in recipe.children:
            self.fill(child, below, chain)
            below += self.measures[id(child)].total
        if recipe.count > 1:
            for column in self.copied:
                block = column[at : at + measure.total].reshape(recipe.count, measure.length)
                block[1:] = block[0]
            # Siblings are copies of the first, except that each is farther from the parent.
            apart = np.arange(recipe.count, dtype=np.int32) * np.int32(measure.length)
            tops = self.columns["parent"][at : at + measure.total : measure.length]
            tops += apart if len(chain) > 1 else np.int32(0)
        self._lists(recipe, measure, chain, is_root=is_root)
        for column_name, values, start, steps in frame.running:
            shape = tuple(count for count, _ in steps)
            column = self.columns[column_name]
            strides = tuple(step * column.itemsize for _, step in steps)
            as_strided(column[start:], shape, strides)[...] = values.reshape(shape)
        self._sparse(recipe, measure, chain)
        chain.pop()
        if not chain:
            self.roots.extend(range(at, at + measure.total, measure.length))

    def _copy(self, measure: Expansion, first: int, at: int, up: int) -> None:
        """Copy the rows of a recipe that was expanded elsewhere already."""
        for column in self.copied:
            column[at : at + measure.total] = column[first : first + measure.total]
        tops = self.columns["parent"][at : at + measure.total : measure.length]
        tops += np.int32(up) - tops[0]

    def _row(self, recipe: Recipe, measure: Expansion, at: int, up: int) -> None:
        columns = self.columns
        columns["parent"][at] = up
        columns["end"][at] = measure.length
        columns["kind"][at] = self.kinds.intern(measure.kind)
        columns["id"][at] = -1
        if recipe.size != 1:
            columns["size"][at] = recipe.size
        if recipe.state != "up":
            columns["state"][at] = STATES.index(recipe.state)
        if recipe.exclusive or recipe.way:
            columns["flags"][at] = (EXCLUSIVE if recipe.exclusive else 0) | (WAY if recipe.way else 0)

    def _lists(self, recipe: Recipe, measure: Expansion, chain: list[_Frame], *, is_root: bool) -> None:
        ids = None if is_root and isinstance(measure.ids, int) else measure.ids
        for column_name, values in (("id", ids), ("rank", recipe.rank)):
            if isinstance(values, int):
                span = slice(chain[-1].at, chain[-1].at + measure.total, measure.length)
                run_on = not (column_name == "rank" and values == NO_RANK)
                self.columns[column_name][span] = values + np.arange(recipe.count) if run_on else values
            elif values is not None:
                steps, frame = self._running(len(values), chain)
                frame.running.append((column_name, values, chain[-1].at, steps))

    @staticmethod
    def _running(length: int, chain: list[_Frame]) -> tuple[list[tuple[int, int]], _Frame]:
        """The (count, distance) of each ancestor that a list of this length runs over, outermost first; and the outermost."""
        steps: list[tuple[int, int]] = []
        product = 1
        for frame in reversed(chain):
            steps.insert(0, (frame.recipe.count, frame.length))
            product *= frame.recipe.count
            if product == length:
                return steps, frame
        raise AssertionError("lengths were checked")

    def _sparse(self, recipe: Recipe, measure: Expansion, chain: list[_Frame]) -> None:
        wanted = measure.names is not None or recipe.tags or recipe.capacity is not None or recipe.uuid or measure.look
        if not wanted:
            return
        at = np.array([chain[-1].at], np.int64)
        for frame in reversed(chain):
            at = (np.arange(frame.recipe.count)[:, None] * frame.length + at[None, :]).ravel()
        if measure.look:
            self.starts.setdefault(id(recipe), []).append(at)
        vertices: list[int] = at.tolist()
        if measure.names is not None:
            names = measure.names
            self.names.update((v, names[i % len(names)]) for i, v in enumerate(vertices))
        if recipe.tags:
            self.tags.update((v, dict(recipe.tags)) for v in vertices)
        if recipe.capacity is not None:
            self.capacity.update(dict.fromkeys(vertices, recipe.capacity))
        if recipe.uuid is not None:
            self.uuid_texts[vertices[0]] = recipe.uuid

    def structure(self, tree_end: int, origin: int) -> Structure:
        parent, end = self.columns["parent"], self.columns["end"]
        for low in range(0, self.n, _CHUNK):
            number = np.arange(low, min(low + _CHUNK, self.n), dtype=np.int32)
            part = parent[low : low + _CHUNK]
            np.subtract(number, part, out=part)
            end[low : low + _CHUNK] += number
            self.columns["serial"][low : low + _CHUNK] = number
        parent[self.roots] = -1
        self._hand_down_ranks(tree_end)
        return Structure(
            self.columns,
            self.kinds,
            origins=[origin],
            names=self.names,
            uuid_texts=self.uuid_texts,
            tags=self.tags,
            capacity=self.capacity,
            tree_end=tree_end,
        )

    def _hand_down_ranks(self, tree_end: int) -> None:
        rank = self.columns["rank"]
        is_node = np.array([kind.type == "node" for kind in self.kinds])
        nodes = np.flatnonzero(is_node[self.columns["kind"][:tree_end]])
        own = rank[nodes]
        rank[nodes] = np.where(own == _INHERITED, np.arange(len(nodes), dtype=np.int32), own)
        hand_down(rank, np.flatnonzero(rank != _INHERITED), self.columns["end"])


def hand_down(rank: NDArray[np.int32], setters: NDArray[np.int64], end: NDArray[np.int32]) -> None:
    """Give each vertex the rank of the nearest of `setters` among itself and its ancestors, in place; NO_RANK if there is none.

    Args:
        rank: int32; read at `setters`, written everywhere.
        setters: ascending vertex numbers.
        end: int32, one past the last descendant.

    Cost: O(n) for each level of nested setters.
    """
    values = rank[setters]
    rank[:] = NO_RANK
    while len(setters):
        reach = np.concatenate([[0], np.maximum.accumulate(end[setters])[:-1]])
        outer = setters >= reach
        starts, stops = setters[outer], end[setters[outer]]
        edges = np.empty(2 * len(starts) + 2, np.int64)
        edges[0], edges[-1], edges[1:-1:2], edges[2:-1:2] = 0, len(rank), starts, stops
        between = np.full(2 * len(starts) + 1, _INHERITED, np.int32)
        between[1::2] = values[outer]
        spread = np.repeat(between, np.diff(edges))
        np.copyto(rank, spread, where=spread != _INHERITED)
        setters, values = setters[~outer], values[~outer]
