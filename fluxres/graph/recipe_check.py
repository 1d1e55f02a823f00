"""Check a recipe before columns are allocated for it.

A recipe of ten lines may ask for 10**18 pools, and two entries may give siblings the same name.  Both can be seen from the
entries without looking at pools: sizes are products of Python integers, and sibling names can only be equal where their templates
allow it.  For the few cases that templates alone cannot decide, the names are compared after expansion.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from fluxres import limits
from fluxres.errors import FluxresError, InputError, LimitExceeded
from fluxres.graph.kinds import STATES, Kind, require_draws
from fluxres.graph.recipe_names import NamePattern, SiblingNames, regular_names
from fluxres.syntax import template

if TYPE_CHECKING:
    from fluxres.graph.recipe import Recipe
    from fluxres.graph.structure import Structure

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
    ids: int | NDArray[np.int64] | None
    names: Sequence[str] | None
    form: NamePattern
    #: over how many instances outside it its lists still run on; 0 if the lengths cannot match
    open: frozenset[int]
    #: whether something in it depends on ancestors: fields of a name template, or a uuid that only one pool may have
    bound: bool
    #: whether some of its data is stored by vertex and not in columns
    sparse: bool
    #: whether the names of its children must be compared after expansion
    look: bool = False

    @property
    def is_chained(self) -> bool:
        """Whether it must be checked again in each place where it is used."""
        return bool(self.open) or self.bound

    @property
    def is_copyable(self) -> bool:
        """Whether its rows can be copied for another place."""
        return not (self.open or self.sparse)


class Check:
    """Checks recipes and computes what they expand to.

    Args:
        roots: the containment tree first.
        where: the place of a recipe for messages.

    Errors: InputError for values, lists of wrong lengths and equal sibling names; LimitExceeded for what is too large.
    """

    def __init__(self, roots: Sequence[Recipe], where: Callable[[Recipe, str], str] | None = None) -> None:
        self._where = where
        self._above: dict[int, Recipe] = {}
        self._known: dict[int, Recipe] = {}
        self._uuids: set[str] = set()
        self.measures: dict[int, Expansion] = {}
        self._brothers = SiblingNames(self.measures, self._fail)
        for root in roots:
            self._measure(root, 1)
        if roots[0].count != 1:
            self._fail(roots[0], f"expected one root, got count {roots[0].count}")
        total = sum(self.measures[id(root)].total for root in roots)
        if total > limits.POOLS_MAX:
            message, hint = f"{total} pools in all, at most {limits.POOLS_MAX} fit", "use one pool with a size instead of many"
            self._fail(self._largest(roots), message, hint, limit=True)
        entries = sum(self.measures[id(root)].entries for root in roots)
        if entries > limits.RECIPES_MAX:
            self._fail(roots[0], f"{entries} entries with parts expanded, at most {limits.RECIPES_MAX} are allowed", limit=True)
        for root in roots:
            if self.measures[id(root)].depth > limits.DEPTH_MAX:
                self._fail(root, f"{self.measures[id(root)].depth} levels, at most {limits.DEPTH_MAX} are allowed", limit=True)
            self._walk_chain(root, [], {}, is_root=root is roots[0])

    def where(self, recipe: Recipe, key: str = "") -> str:
        """The place of a recipe, or of one of its values: from the caller, or the types on the path to it."""
        if self._where is not None:
            return self._where(recipe, key)
        types = [recipe.type]
        while (above := self._above.get(id(recipe))) is not None:
            recipe = above
            types.insert(0, recipe.type)
        path = "/".join(map(str, types))
        return f"{path}.{key}" if key else path

    def _fail(self, recipe: Recipe, message: str, hint: str = "", *, limit: bool = False, key: str = "") -> NoReturn:
        raise (LimitExceeded if limit else InputError)(message, where=self.where(recipe, key), hint=hint)

    def _largest(self, recipes: Iterable[Recipe]) -> Recipe:
        """The deepest entry that is too large on its own, else the largest one."""
        largest = max(recipes, key=lambda recipe: self.measures[id(recipe)].total)
        below = [child for child in largest.children if self.measures[id(child)].total > limits.POOLS_MAX]
        return self._largest(below) if below else largest

    def _measure(self, recipe: Recipe, level: int) -> Expansion:
        known = self.measures.get(id(recipe))
        if known is not None:
            return known
        if level > limits.DEPTH_MAX:
            self._fail(recipe, f"more than {limits.DEPTH_MAX} levels", "leave out levels that no request needs", limit=True)
        self._values(recipe)
        below = []
        for child in recipe.children:
            self._above.setdefault(id(child), recipe)
            below.append(self._measure(child, level + 1))
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
        measure = Expansion(
            length,
            length * recipe.count,
            1 + sum(m.entries for m in below),
            1 + max((m.depth for m in below), default=0),
            kind,
            ids,
            names,
            form,
            open=_open(recipe, [values for values in (ids, names, recipe.rank) if values is not None], below),
            bound=bool(form.above) or recipe.uuid is not None or any(m.bound for m in below),
            sparse=own or any(m.sparse for m in below),
        )
        self.measures[id(recipe)] = measure
        self._known[id(recipe)] = recipe
        measure.look = self._brothers.look(recipe.children)
        measure.sparse |= measure.look
        return measure

    def names_in(self, structure: Structure, starts: Mapping[int, list[NDArray[np.int64]]]) -> None:
        """Compare the names that the recipes could not decide; `starts` has vertices by id() of a recipe."""
        self._brothers.compare(
            structure, [(self._known[key], blocks) for key, blocks in starts.items() if self.measures[key].look]
        )

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
            self._fail(recipe, f"expected int >= 1, got {recipe.count!r}", key="count")
        lowest = 0 if recipe.way else 1
        for what, size in (("size", recipe.size), ("capacity", recipe.capacity)):
            if size is None and what == "capacity":
                continue
            if isinstance(size, bool) or not isinstance(size, int) or size < lowest:
                self._fail(recipe, f"expected int >= {lowest}, got {size!r}", key=what)
            if size > limits.SIZE_MAX:
                self._fail(recipe, f"{size} units, at most {limits.SIZE_MAX}", "use a larger unit", limit=True, key=what)
        if recipe.state not in STATES:
            self._fail(recipe, f"no state {recipe.state!r}", hint=f"states are {', '.join(STATES)}", key="state")
        for what, place, pairs in (("property", "properties", recipe.properties), ("tag", "tags", recipe.tags)):
            for key, value in pairs.items():
                self._word(recipe, what, key, slash=True)
                if isinstance(value, str) and len(value) > limits.VALUE_LENGTH_MAX:
                    message = f"{what} {key!r} has {len(value)} characters, at most {limits.VALUE_LENGTH_MAX} are allowed"
                    self._fail(recipe, message, limit=True, key=place)
                if isinstance(value, float) and math.isnan(value):
                    self._fail(recipe, f"{what} {key!r} is not a number (NaN)", hint="leave the value out", key=place)
                if isinstance(value, int) and abs(value) >= limits.NUMBER_MAX:
                    self._fail(recipe, f"{what} {key!r} has more than 300 digits", "write it as text", limit=True, key=place)
        require_draws(recipe.properties.items(), lambda: self.where(recipe, "property"))

    def _word(self, recipe: Recipe, what: str, text: Any, *, slash: bool = False) -> None:
        if not isinstance(text, str) or not text:
            self._fail(recipe, f"expected text, got {text!r}", key=what)
        if len(text) > limits.NAME_LENGTH_MAX:
            self._fail(recipe, f"{len(text)} characters, at most {limits.NAME_LENGTH_MAX}", limit=True, key=what)
        if not text.isprintable() or (not slash and "/" in text):
            self._fail(recipe, f"{text!r} has a character not allowed in a path", "no '/', no control characters", key=what)

    def _names(self, recipe: Recipe, names: Sequence[str]) -> None:
        if recipe.name is not None:
            self._fail(recipe, "both a name template and explicit names", hint="give only one of them")
        for name in names:
            self._word(recipe, "name", name)

    def _ids(self, recipe: Recipe, ids: int | NDArray[np.int64] | None) -> None:
        if ids is None:
            return
        if isinstance(ids, int):
            lowest, highest = ids, ids + recipe.count - 1
        else:
            if not len(ids):
                self._fail(recipe, "an empty list of ids", hint="omit it, or give one id for each pool", key="id")
            lowest, highest = int(ids.min()), int(ids.max())
        if lowest < 0:
            self._fail(recipe, f"expected int >= 0, got {lowest}", hint="omit the id for a pool without one", key="id")
        if highest > limits.ID_MAX:
            self._fail(recipe, f"{highest} is above {limits.ID_MAX}", limit=True, key="id")

    def _form(self, recipe: Recipe, kind: Kind, ids: int | NDArray[np.int64] | None) -> NamePattern:
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
                    self._fail(recipe, f"name {kind.name!r} has a character not allowed in a path", "no '/'", key="name")
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
                    self._fail(recipe, message, key="name")
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
        measure = self.measures[id(recipe)]
        if is_root and isinstance(measure.ids, int) and measure.kind.name is not None and measure.form.has_id:
            self._fail(recipe, f"name {measure.kind.name!r} uses the id of a root that has none", "give it an id", key="name")
        if not measure.is_chained:
            return
        counts = [*counts, recipe.count]
        for what, values in (("id", measure.ids), ("names", measure.names), ("rank", recipe.rank)):
            if values is not None and not isinstance(values, int):
                self._length(recipe, what, len(values), counts)
        for key in measure.form.above:
            if key == "parent" and above:
                continue
            if key not in above:
                known = [*_OWN, "id", "rank", *recipe.properties, *above]
                near = difflib.get_close_matches(key, known, 1)
                hint = f"did you mean {near[0]!r}?" if near else f"there is {', '.join(known)}"
                message = f"name {measure.kind.name!r} uses {key!r}, which neither the pool nor one above it has"
                self._fail(recipe, message, hint, key="name")
            if not above[key]:
                message = f"name {measure.kind.name!r} uses the id of a {key} that has none"
                self._fail(recipe, message, f"give the {key} an id", key="name")
        if recipe.uuid is not None:
            if not recipe.uuid.isprintable() or not 0 < len(recipe.uuid) <= limits.NAME_LENGTH_MAX:
                self._fail(recipe, f"expected a UUID, got {recipe.uuid!r}", key="uuid")
            if int(np.prod([float(count) for count in counts])) != 1:
                self._fail(recipe, "one uuid for several pools", "give it to an entry that makes one pool", key="uuid")
            if recipe.uuid in self._uuids:
                self._fail(recipe, f"uuid {recipe.uuid} occurs twice", "remove one", key="uuid")
            self._uuids.add(recipe.uuid)
        has_id = measure.ids is not None and not (is_root and isinstance(measure.ids, int))
        above = {**above, recipe.type: has_id}
        for child in recipe.children:
            self._walk_chain(child, counts, above)

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
        self._fail(recipe, f"expected {expected} of them, got {length}", hint, key=what)


def _open(recipe: Recipe, lists: Iterable[object], below: Iterable[Expansion]) -> frozenset[int]:
    """What remains of the lengths of running lists after dividing by the instances of this recipe."""
    lengths = {len(values) for values in lists if isinstance(values, Sized)}
    for measure in below:
        lengths |= measure.open
    return frozenset(0 if length % recipe.count else length // recipe.count for length in lengths if length != recipe.count)
