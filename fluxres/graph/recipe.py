"""A machine as nested repetition: the compact form of a machine file, which expands to a million rows without a loop over them.

A recipe tree is as small as its file.  `expand` writes the first instance of each level into the final columns and copies it in
place for its siblings; parent and end are relative while it does so, because relative rows can be copied unchanged.  Peak memory
is the columns themselves.

Everything that can be refused is refused before the columns are allocated (`Check`): a recipe of ten lines may ask for 10**18
pools, and two entries may give siblings the same name.  Both can be seen from the entries without looking at pools: sizes are
products of Python integers, and two names made by templates can only be equal where the templates can be (`SiblingNames`).  For
the few forms that cannot be decided this way (numbers before more text, ids of ancestors, explicit names beside others) the names
are compared after expansion.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn, Protocol

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from fluxres import limits
from fluxres.arrays import Int32, Int64
from fluxres.documents.mistakes import Mistakes
from fluxres.documents.suggestion import choose_from, did_you_mean, near
from fluxres.errors import FluxresError, InputError, LimitExceeded
from fluxres.graph.kinds import (
    EXCLUSIVE,
    STATES,
    WAY,
    Kind,
    KindTable,
    PropertyValue,
    fault_of,
    instead_of,
    properties_tuple,
    require_draws,
)
from fluxres.graph.structure import COLUMNS, Structure
from fluxres.syntax import template
from fluxres.syntax.name import is_name

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
        word_for_word: keep `names` as they are.  Otherwise, regular ones (``frontier[00001-09408]``) become a template and ids.
        capacity: full size of a pool that a copy took only partly.
        way: a pass-through pool, present only as the path from the root to others.

    Lists of ids, names and ranks either have one member for each instance in a parent and repeat in every parent, or they are
    longer and run over all instances within one ancestor, or over all instances in the machine; the length decides.

    >>> Recipe("node", 4, ids=np.arange(8)).count
    4
    """

    type: str
    count: int = 1
    basename: str | None = None
    name: str | None = None
    names: Sequence[str] | None = None
    ids: int | Int64 | None = 0
    size: int = 1
    unit: str | None = None
    properties: Mapping[str, PropertyValue] = field(default_factory=dict)
    tags: Mapping[str, str | None] = field(default_factory=dict)
    state: str = "up"
    exclusive: bool = False
    uuid: str | None = None
    rank: int | Int64 | None = None
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

    Errors: InputError and LimitExceeded for what :mod:`fluxres.graph.recipe` refuses.
    Cost: O(pools) array writes, O(entries) Python; peak memory is 44 bytes per pool.

    >>> from fluxres.graph.uuids import new_origin
    >>> s = expand(Recipe("cluster", children=(Recipe("node", 2, children=(Recipe("core", 3),)),)), origin=new_origin())
    >>> s.n, s.path(8), s.rank[8].item()
    (9, '/cluster/node1/core2', 1)
    """
    roots = [root, *more]
    check = Check(roots, where)
    filling = _Filling(sum(check.measures[tree].total for tree in roots), check.measures)
    at = 0
    for tree in roots:
        filling.fill(tree, at, [], is_root=tree is root)
        at += check.measures[tree].total
    structure = filling.structure(check.measures[root].total, origin)
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

    def __init__(self, n: int, measures: dict[Recipe, Expansion]) -> None:
        self.n = n
        self.measures = measures
        self.columns: dict[str, NDArray[Any]] = {name: np.zeros(n, dtype) for name, dtype in COLUMNS.items()}
        self.columns["size"] += 1
        self.columns["rank"] += _INHERITED
        # Columns in which the rows of an instance can be copied; serial and origin do not repeat.
        self.copied = [self.columns[name] for name in ("parent", "end", "kind", "size", "id", "rank", "state", "flags")]
        self.kinds = KindTable()
        self.roots: list[int] = []
        #: By recipe: position of its first complete instances
        self.filled: dict[Recipe, int] = {}
        self.names: dict[int, str] = {}
        self.tags: dict[int, dict[str, str | None]] = {}
        self.capacity: dict[int, int] = {}
        self.uuid_texts: dict[int, str] = {}
        #: By recipe: vertex numbers of its instances, for recipes whose children's names must be compared
        self.starts: dict[Recipe, list[Int64]] = {}

    def fill(self, recipe: Recipe, at: int, chain: list[_Frame], *, is_root: bool = False) -> None:
        """Write all instances of a recipe into the first instance of its parent."""
        measure = self.measures[recipe]
        up = at - chain[-1].at if chain else 0
        first = self.filled.setdefault(recipe, at) if measure.is_copyable and not is_root else at
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
            below += self.measures[child].total
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
        wanted = measure.names is not None or recipe.tags or recipe.capacity is not None or recipe.uuid or measure.compares_names
        if not wanted:
            return
        at = np.array([chain[-1].at], np.int64)
        for frame in reversed(chain):
            at = (np.arange(frame.recipe.count)[:, None] * frame.length + at[None, :]).ravel()
        if measure.compares_names:
            self.starts.setdefault(recipe, []).append(at)
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


def hand_down(rank: Int32, setters: Int64, end: Int32) -> None:
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


_DIGITS = "0123456789"
_OWN = ("basename", "type", "unit", "size", "uuid", "state", "parent")


@dataclass(slots=True)
class Expansion:
    """What a recipe expands to: pools per instance and per parent, and properties of the result."""

    length: int
    total: int
    entries: int
    depth: int
    kind: Kind
    ids: int | Int64 | None
    names: Sequence[str] | None
    form: NamePattern
    #: over how many instances outside it its lists still run on; 0 if the lengths cannot match
    runs_over: frozenset[int]
    #: whether something in it depends on ancestors: fields of a name template, or a uuid that only one pool may have
    bound: bool
    #: whether some of its data is stored by vertex and not in columns
    sparse: bool
    #: whether the names of its children must be compared after expansion
    compares_names: bool = False

    @property
    def is_chained(self) -> bool:
        """Whether it must be checked again in each place where it is used."""
        return bool(self.runs_over) or self.bound

    @property
    def is_copyable(self) -> bool:
        """Whether its rows can be copied for another place."""
        return not (self.runs_over or self.sparse)


class Check:
    """Checks recipes and computes what they expand to.

    Args:
        roots: the containment tree first.
        where: the place of a recipe for messages.

    Errors: InputError for values, lists of wrong lengths and equal sibling names; LimitExceeded for what is too large.
    """

    def __init__(self, roots: Sequence[Recipe], where: Callable[[Recipe, str], str] | None = None) -> None:
        self._where = where
        self._mistakes = Mistakes()
        self._wrong: set[Recipe] = set()
        self._above: dict[Recipe, Recipe] = {}
        self._uuids: set[str] = set()
        self.measures: dict[Recipe, Expansion] = {}
        self._siblings = SiblingNames(self.measures, self._fail, self._mistakes)
        with self._mistakes.all():
            self._check(roots)

    def _check(self, roots: Sequence[Recipe]) -> None:
        for root in roots:
            self._measure(root, 1)
        if roots[0].count != 1:
            self._fail(roots[0], f"expected one root, got count {roots[0].count}")
        total = sum(self.measures[root].total for root in roots)
        if total > limits.POOLS_MAX:
            message, hint = f"{total} pools in all, at most {limits.POOLS_MAX} fit", "use one pool with a size instead of many"
            self._fail(self._largest(roots), message, hint, limit=True)
        entries = sum(self.measures[root].entries for root in roots)
        if entries > limits.RECIPES_MAX:
            self._fail(roots[0], f"{entries} entries with parts expanded, at most {limits.RECIPES_MAX} are allowed", limit=True)
        for root in roots:
            if self.measures[root].depth > limits.DEPTH_MAX:
                self._fail(root, f"{self.measures[root].depth} levels, at most {limits.DEPTH_MAX} are allowed", limit=True)
            self._walk_chain(root, [], {}, is_root=root is roots[0])

    def where(self, recipe: Recipe, key: str = "") -> str:
        """The place of a recipe, or of one of its values: from the caller, or the types on the path to it."""
        if self._where is not None:
            return self._where(recipe, key)
        types = [recipe.type]
        while (above := self._above.get(recipe)) is not None:
            recipe = above
            types.insert(0, recipe.type)
        path = "/".join(map(str, types))
        return f"{path}.{key}" if key else path

    def _fail(self, recipe: Recipe, message: str, hint: str = "", *, limit: bool = False, key: str = "") -> NoReturn:
        raise (LimitExceeded if limit else InputError)(message, where=self.where(recipe, key), hint=hint)

    def _largest(self, recipes: Iterable[Recipe]) -> Recipe:
        """The deepest entry that is too large on its own, else the largest one."""
        largest = max(recipes, key=lambda recipe: self.measures[recipe].total)
        below = [child for child in largest.children if self.measures[child].total > limits.POOLS_MAX]
        return self._largest(below) if below else largest

    def _measure(self, recipe: Recipe, level: int) -> Expansion:
        known = self.measures.get(recipe)
        if known is not None:
            return known
        if level > limits.DEPTH_MAX:
            self._fail(recipe, f"more than {limits.DEPTH_MAX} levels", "leave out levels that no request needs", limit=True)
        below = []
        for child in recipe.children:
            self._above.setdefault(child, recipe)
            below.append(self._measure(child, level + 1))
        measure = None
        with self._mistakes:
            measure = self._measured(recipe, below)
        if measure is None:
            self._wrong.add(recipe)
            measure = self._measured(Recipe("wrong", ids=None), below)
        self.measures[recipe] = measure
        measure.compares_names = self._siblings.must_compare([child for child in recipe.children if child not in self._wrong])
        measure.sparse |= measure.compares_names
        return measure

    def _measured(self, recipe: Recipe, below: Sequence[Expansion]) -> Expansion:
        """What a recipe expands to, without looking at the names of its children."""
        self._values(recipe)
        length = 1 + sum(measure.total for measure in below)
        kind = self._kind(recipe)
        ids, names = recipe.ids, recipe.names
        if names is not None:
            self._names(recipe, names)
            regular = None if recipe.word_for_word else regular_names(names)
            if regular is not None and (isinstance(ids, int) or (ids is not None and np.array_equal(ids, regular[1]))):
                kind = Kind(kind.type, kind.basename, kind.unit, regular[0], kind.properties)
                ids, names = regular[1], None
        self._ids(recipe, ids)
        form = self._form(recipe, kind, ids)
        own = names is not None or bool(recipe.tags) or recipe.capacity is not None or recipe.uuid is not None
        return Expansion(
            length,
            length * recipe.count,
            1 + sum(m.entries for m in below),
            1 + max((m.depth for m in below), default=0),
            kind,
            ids,
            names,
            form,
            runs_over=_runs_over(recipe, [values for values in (ids, names, recipe.rank) if values is not None], below),
            bound=bool(form.above) or recipe.uuid is not None or any(m.bound for m in below),
            sparse=own or any(m.sparse for m in below),
        )

    def names_in(self, structure: Structure, starts: Mapping[Recipe, list[Int64]]) -> None:
        """Compare the names that the recipes could not decide; `starts` has the vertices of each recipe."""
        compared = [(recipe, blocks) for recipe, blocks in starts.items() if self.measures[recipe].compares_names]
        self._siblings.compare(structure, compared)

    def _kind(self, recipe: Recipe) -> Kind:
        """The kind, with the initial state fixed in its name: a pool that goes down keeps its name."""
        kind = recipe.kind()
        if kind.name is None or "${state" not in kind.name:
            return kind
        try:
            name = template.settled(kind.name, {"state": recipe.state})
        except FluxresError as error:
            raise self._no_template(recipe, kind, error) from None
        return Kind(kind.type, kind.basename, kind.unit, name, kind.properties)

    def _no_template(self, recipe: Recipe, kind: Kind, error: FluxresError) -> InputError:
        return InputError(f"name {kind.name!r}: {error.message}", where=self.where(recipe, "name"), hint=error.hint)

    # -- one entry ---------------------------------------------------------------------------------------------------

    def _values(self, recipe: Recipe) -> None:
        for what, text in (("type", recipe.type), ("basename", recipe.basename), ("unit", recipe.unit)):
            if text is not None or what == "type":
                self._word(recipe, what, text, slash=what == "unit")
        if isinstance(recipe.count, bool) or not isinstance(recipe.count, int) or recipe.count < 1:
            self._fail(recipe, f"expected a whole number of at least 1, got {recipe.count!r}", key="count")
        lowest = 0 if recipe.way else 1
        for what, size in (("size", recipe.size), ("capacity", recipe.capacity)):
            if size is None and what == "capacity":
                continue
            if isinstance(size, bool) or not isinstance(size, int) or size < lowest:
                self._fail(recipe, f"expected a whole number of at least {lowest}, got {size!r}", key=what)
            if size > limits.SIZE_MAX:
                self._fail(recipe, f"{size} units, at most {limits.SIZE_MAX}", "use a larger unit", limit=True, key=what)
        if recipe.state not in STATES:
            self._fail(recipe, f"no state {recipe.state!r}", hint=instead_of(str(recipe.state)), key="state")
        for what, place, pairs in (("property", "properties", recipe.properties), ("tag", "tags", recipe.tags)):
            for key, value in pairs.items():
                self._word(recipe, what, key, slash=True)
                if (fault := fault_of(value)) is not None:
                    self._fail(recipe, f"{what} {key!r}: {fault.message}", fault.hint, limit=fault.is_limit, key=place)
        require_draws(recipe.properties.items(), lambda: self.where(recipe, "property"))

    def _word(self, recipe: Recipe, what: str, text: Any, *, slash: bool = False) -> None:
        if not isinstance(text, str) or not text:
            self._fail(recipe, f"expected text, got {text!r}", key=what)
        if len(text) > limits.NAME_LENGTH_MAX:
            self._fail(recipe, f"{len(text)} characters, at most {limits.NAME_LENGTH_MAX}", limit=True, key=what)
        if not text.isprintable() or (not slash and "/" in text):
            self._fail(recipe, f"{text!r} has a character not allowed in a path", _in_no_path(text), key=what)

    def _names(self, recipe: Recipe, names: Sequence[str]) -> None:
        if recipe.name is not None:
            self._fail(recipe, "both a name template and explicit names", hint="give only one of them")
        for name in names:
            self._word(recipe, "name", name)

    def _ids(self, recipe: Recipe, ids: int | Int64 | None) -> None:
        if ids is None:
            return
        if isinstance(ids, int):
            lowest, highest = ids, ids + recipe.count - 1
        else:
            if not len(ids):
                self._fail(recipe, "an empty list of ids", hint="omit it, or give one id for each pool", key="id")
            lowest, highest = int(ids.min()), int(ids.max())
        if lowest < 0:
            self._fail(
                recipe,
                f"expected a whole number of at least 0, got {lowest}",
                hint="omit the id for a pool without one",
                key="id",
            )
        if highest > limits.ID_MAX:
            self._fail(recipe, f"{highest} is above {limits.ID_MAX}", limit=True, key="id")

    def _form(self, recipe: Recipe, kind: Kind, ids: int | Int64 | None) -> NamePattern:
        if kind.name is None:
            return NamePattern(kind.basename, "", 0, ids is not None, (), by_rank=False)
        try:
            parts = template.parse(kind.name)
        except FluxresError as error:
            raise self._no_template(recipe, kind, error) from None
        values: dict[str, object] = {key: value if value is not None else key for key, value in kind.properties}
        values.update(basename=kind.basename, type=kind.type, unit=kind.unit or "", size=recipe.size)
        before, after, width, above = "", "", 0, []
        has_id = by_rank = False
        for part in parts:
            if isinstance(part, str):
                text = part
                if "/" in part or not part.isprintable():
                    self._fail(recipe, f"name {kind.name!r} has a character not allowed in a path", _in_no_path(part), key="name")
            elif part.key == "id":
                if ids is None:
                    self._fail(recipe, f"name {kind.name!r} uses the id of pools that have none", "give them ids", key="name")
                if not has_id:
                    has_id, width = True, part.width
                    continue
                text = f"\0id:{part.width}\0"
            elif part.key in values:
                text = part.text(values[part.key])
                if "/" in text or not text.isprintable():
                    message = f"name {kind.name!r}: the value of {part.key!r} has a character not allowed in a path"
                    self._fail(recipe, message, _in_no_path(text), key="name")
            else:
                text = f"\0{part.key}:{part.width}\0"
                by_rank |= part.key in ("rank", "uuid")
                if part.key not in ("rank", "uuid"):
                    above.append(part.key)
            if has_id:
                after += text
            else:
                before += text
        return NamePattern(before, after, width, has_id, tuple(above), by_rank)

    # -- what depends on the ancestors -------------------------------------------------------------------------------

    def _walk_chain(self, recipe: Recipe, counts: list[int], above: dict[str, bool], *, is_root: bool = False) -> None:
        measure = self.measures[recipe]
        counts = [*counts, recipe.count]
        with self._mistakes:
            self._in_chain(recipe, measure, counts, above, is_root=is_root)
        if not measure.is_chained:
            return
        has_id = recipe in self._wrong or (measure.ids is not None and not (is_root and isinstance(measure.ids, int)))
        above = {**above, recipe.type: has_id}
        for child in recipe.children:
            self._walk_chain(child, counts, above)

    def _in_chain(self, recipe: Recipe, measure: Expansion, counts: list[int], above: dict[str, bool], *, is_root: bool) -> None:
        """Check what depends on the ancestors of one recipe."""
        if recipe in self._wrong:
            return
        if is_root and isinstance(measure.ids, int) and measure.kind.name is not None and measure.form.has_id:
            self._fail(recipe, f"name {measure.kind.name!r} uses the id of a root that has none", "give it an id", key="name")
        for what, values in (("id", measure.ids), ("names", measure.names), ("rank", recipe.rank)):
            if values is not None and not isinstance(values, int):
                self._length(recipe, what, len(values), counts)
        for key in measure.form.above:
            if key == "parent" and above:
                continue
            if key not in above:
                known = [*_OWN, "id", "rank", *recipe.properties, *above]
                hint = did_you_mean([repr(one) for one in near(key, known)]) or choose_from(known)
                message = f"name {measure.kind.name!r} uses {key!r}, which neither the pool nor one above it has"
                self._fail(recipe, message, hint, key="name")
            if not above[key]:
                message = f"name {measure.kind.name!r} uses the id of a {key} that has none"
                self._fail(recipe, message, f"give the {key} an id", key="name")
        if recipe.uuid is not None:
            if not is_name(recipe.uuid):
                self._fail(recipe, f"expected a UUID, got {recipe.uuid!r}", key="uuid")
            if math.prod(counts) != 1:
                self._fail(recipe, "one uuid for several pools", "give it to an entry that makes one pool", key="uuid")
            if recipe.uuid in self._uuids:
                self._fail(recipe, f"uuid {recipe.uuid} occurs twice", "remove one", key="uuid")
            self._uuids.add(recipe.uuid)

    def _length(self, recipe: Recipe, what: str, length: int, counts: list[int]) -> None:
        product, fitting = 1, []
        for count in reversed(counts):
            product *= count
            if length == product:
                return
            if product not in fitting:
                fitting.append(product)
        expected = " or ".join(map(str, fitting))
        hint = "one for each pool in a parent, or for those of several parents" if len(fitting) > 1 else "one for each pool"
        self._fail(recipe, f"expected {expected} entries, got {length}", hint, key=what)


def _runs_over(recipe: Recipe, lists: Iterable[object], below: Iterable[Expansion]) -> frozenset[int]:
    """What remains of the lengths of running lists after dividing by the instances of this recipe."""
    lengths = {len(values) for values in lists if isinstance(values, Sized)}
    for measure in below:
        lengths |= measure.runs_over
    return frozenset(0 if length % recipe.count else length // recipe.count for length in lengths if length != recipe.count)


@dataclass(slots=True)
class NamePattern:
    """The form of the names of one recipe: `prefix`, the id, `suffix`; a \\0 marks text that depends on ancestors."""

    prefix: str
    suffix: str
    width: int
    has_id: bool
    above: tuple[str, ...]
    by_rank: bool

    @property
    def lead(self) -> str:
        """The literal text every name begins with."""
        return self.prefix.partition("\0")[0]

    @property
    def is_plain(self) -> bool:
        """Whether it is text followed by a number, so that it equals another such name only with equal text."""
        return not (self.suffix or self.width or self.above or self.by_rank) and self.prefix[-1:] not in _DIGITS


class Refuse(Protocol):
    """Raises an error at the place of a recipe."""

    def __call__(self, recipe: Recipe, message: str, hint: str = "", *, key: str = "") -> NoReturn: ...


class SiblingNames:
    """Compares the names of pools under one parent.

    Args:
        measures: facts about each recipe.
        fail: raises an error at a recipe.
        mistakes: collects the errors of `must_compare`.
    """

    def __init__(self, measures: Mapping[Recipe, Expansion], fail: Refuse, mistakes: Mistakes) -> None:
        self._measures = measures
        self._fail = fail
        self._mistakes = mistakes

    def must_compare(self, recipes: Sequence[Recipe]) -> bool:
        """Refuse siblings with the same name; returns whether their names must be compared after expansion."""
        groups: dict[tuple[str, int, str], list[Recipe]] = {}
        constants: dict[str, Recipe] = {}
        compares = False
        for recipe in recipes:
            measure = self._measures[recipe]
            form = measure.form
            if measure.names is not None:
                with self._mistakes:
                    self._distinct_names(recipe, measure.names)
                compares |= len(recipes) > 1
            elif form.has_id:
                groups.setdefault((form.prefix, form.width, form.suffix), []).append(recipe)
            elif form.by_rank or form.above:
                compares |= recipe.count > 1 or len(recipes) > 1
            else:
                with self._mistakes:
                    self._constant(recipe, form.prefix + form.suffix, constants)
        for members in groups.values():
            with self._mistakes:
                self._distinct_ids(members)
        return compares or self._may_meet(groups, constants)

    def _constant(self, recipe: Recipe, name: str, constants: dict[str, Recipe]) -> None:
        if recipe.count > 1:
            self._fail(recipe, f"{recipe.count} pools with the same name '{name}'", "put ${id} into the name")
        if constants.setdefault(name, recipe) is not recipe:
            self._fail(recipe, f"a second pool named '{name}' in one parent", "give it an id or another name")

    def _may_meet(self, groups: Mapping[tuple[str, int, str], list[Recipe]], constants: Mapping[str, Recipe]) -> bool:
        if len(groups) + len(constants) < 2:
            return False
        forms = [self._measures[members[0]].form for members in groups.values()]
        if all(form.is_plain for form in forms):
            prefixes = {form.prefix for form in forms}
            return any(name[-1] in _DIGITS and name.rstrip(_DIGITS) in prefixes for name in constants)
        leads = sorted([*(form.lead for form in forms), *constants])
        return any(second.startswith(first) for first, second in itertools.pairwise(leads))

    def _distinct_names(self, recipe: Recipe, names: Sequence[str]) -> None:
        for low in range(0, len(names), recipe.count):
            row = names[low : low + recipe.count]
            if len(set(row)) < len(row):
                twice = next(name for i, name in enumerate(row) if name in row[:i])
                self._fail(recipe, f"two pools named '{twice}'", "sibling pools must have distinct names")

    def _distinct_ids(self, members: list[Recipe]) -> None:
        """Refuse equal ids in one parent among entries whose names differ only in the id."""
        spans: list[tuple[int, int, Recipe]] = []
        lists: list[tuple[Int64, Recipe]] = []
        for recipe in members:
            ids = self._measures[recipe].ids
            if isinstance(ids, int):
                spans.append((ids, ids + recipe.count, recipe))
            elif ids is not None and len(ids) % recipe.count == 0:
                lists.append((ids.reshape(-1, recipe.count), recipe))
        spans.sort(key=lambda span: span[:2])
        for (_, stop, _), (start, _, recipe) in itertools.pairwise(spans):
            if start < stop:
                with self._mistakes:
                    self._twice(recipe, start)
        for table, recipe in lists:
            for start, stop, _ in spans:
                inside = table[(table >= start) & (table < stop)]
                if len(inside):
                    self._twice(recipe, int(inside[0]))
        if lists:
            tall = max(len(table) for table, _ in lists)
            tiled = [np.tile(table, (max(1, tall // len(table)), 1))[:tall] for table, _ in lists]
            together = np.sort(np.concatenate(tiled, axis=1), axis=1)
            twice = together[:, 1:][together[:, 1:] == together[:, :-1]]
            if len(twice):
                self._twice(lists[-1][1], int(twice[0]))

    def _twice(self, recipe: Recipe, number: int) -> NoReturn:
        form = self._measures[recipe].form
        name = f"{form.prefix}{number:0{max(form.width, 1)}d}{form.suffix}"
        named = f", both named '{name}'" if "\0" not in name else ""
        hint = "sibling pools of the same name must have distinct ids"
        self._fail(recipe, f"two {recipe.type} pools with id {number} in one parent{named}", hint, key="id")

    def compare(self, structure: Structure, starts: Iterable[tuple[Recipe, list[Int64]]]) -> None:
        """Compare the sibling names that the recipes could not decide.

        Args:
            starts: recipes with the vertices they became.

        Cost: O(pools compared).
        """
        for recipe, blocks in starts:
            steady = all(self._is_steady(child) for child in recipe.children)
            made = [child for child in recipe.children for _ in range(child.count)]
            for v in np.concatenate(blocks).tolist()[: 1 if steady else None]:
                seen: set[str] = set()
                for child, pool in zip(made, structure.children(v).tolist(), strict=True):
                    name = structure.name(pool)
                    if name in seen:
                        message = f"two pools named '{name}' in {structure.path(v)}"
                        key = "name" if child.names is None else "names"
                        self._fail(child, message, "sibling pools must have distinct names", key=key)
                    seen.add(name)

    def _is_steady(self, recipe: Recipe) -> bool:
        """Whether the names are the same in every parent."""
        measure = self._measures[recipe]
        lists = (measure.ids, measure.names)
        return not (measure.form.above or measure.form.by_rank) and all(
            values is None or isinstance(values, int) or len(values) == recipe.count for values in lists
        )


def regular_names(names: Sequence[str]) -> tuple[str, Int64] | None:
    """Template and ids of names that differ only in a padded number at the end, or None.

    >>> regular_names(["n08", "n09", "n10"])
    ('n${id:02}', array([ 8,  9, 10]))
    """
    if not names:
        return None
    stem = names[0].rstrip(_DIGITS)
    width = len(names[0]) - len(stem)
    padded = any(name[len(stem) : len(stem) + 1] == "0" and len(name) > len(stem) + 1 for name in names)
    text = f"{stem.replace('$', '$$')}${{id:0{width}}}" if padded else f"{stem.replace('$', '$$')}${{id}}"
    if not width or len(text) > limits.NAME_LENGTH_MAX:
        return None
    ids = [template.invert(text, name) for name in names]
    if any(number is None for number in ids):
        return None
    return text, np.array(ids, np.int64)


def _in_no_path(text: str) -> str:
    """Which character of a text a path cannot have, as a hint."""
    if "/" in text:
        return "leave out '/'"
    return "leave out " + ", ".join(f"U+{ord(each):04X}" for each in dict.fromkeys(text) if not each.isprintable())
