"""Detect sibling pools with the same name from recipes, without looking at pools.

Two names made by templates can only be equal where the templates can: text followed by a number equals the same text and the same
number.  Ids are compared as intervals and arrays.  For the few forms that cannot be decided this way (numbers before more text,
ids of ancestors, explicit names beside others) the expanded pools are compared.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn, Protocol

import numpy as np
from numpy.typing import NDArray

from fluxres import limits
from fluxres.syntax import template

if TYPE_CHECKING:
    from fluxres.graph.recipe import Recipe
    from fluxres.graph.structure import Structure

_DIGITS = "0123456789"


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


class NamingFacts(Protocol):
    """The facts about a recipe that are needed here."""

    ids: int | NDArray[np.int64] | None
    names: Sequence[str] | None
    form: NamePattern


class Refuse(Protocol):
    """Raises an error at the place of a recipe."""

    def __call__(self, recipe: Recipe, message: str, hint: str = "") -> NoReturn: ...


class SiblingNames:
    """Compares the names of pools under one parent.

    Args:
        measures: facts about each recipe, by its id().
        fail: raises an error at a recipe.
    """

    def __init__(self, measures: Mapping[int, NamingFacts], fail: Refuse) -> None:
        self._measures = measures
        self._fail = fail

    def look(self, recipes: Sequence[Recipe]) -> bool:
        """Refuse siblings with the same name; returns whether their names must be compared after expansion."""
        groups: dict[tuple[str, int, str], list[Recipe]] = {}
        constants: dict[str, Recipe] = {}
        look = False
        for recipe in recipes:
            measure = self._measures[id(recipe)]
            form = measure.form
            if measure.names is not None:
                self._distinct_names(recipe, measure.names)
                look |= len(recipes) > 1
            elif form.has_id:
                groups.setdefault((form.prefix, form.width, form.suffix), []).append(recipe)
            elif form.by_rank or form.above:
                look |= recipe.count > 1 or len(recipes) > 1
            else:
                name = form.prefix + form.suffix
                if recipe.count > 1:
                    self._fail(recipe, f"{recipe.count} pools with the same name '{name}'", "put ${id} into the name")
                if name in constants:
                    self._fail(recipe, f"a second pool named '{name}' in one parent", "give it an id or another name")
                constants[name] = recipe
        for members in groups.values():
            self._distinct_ids(members)
        return look or self._may_meet(groups, constants)

    def _may_meet(self, groups: Mapping[tuple[str, int, str], list[Recipe]], constants: Mapping[str, Recipe]) -> bool:
        if len(groups) + len(constants) < 2:
            return False
        forms = [self._measures[id(members[0])].form for members in groups.values()]
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
        lists: list[tuple[NDArray[np.int64], Recipe]] = []
        for recipe in members:
            ids = self._measures[id(recipe)].ids
            if isinstance(ids, int):
                spans.append((ids, ids + recipe.count, recipe))
            elif ids is not None and len(ids) % recipe.count == 0:
                lists.append((ids.reshape(-1, recipe.count), recipe))
        spans.sort(key=lambda span: span[:2])
        for (_, stop, _), (start, _, recipe) in itertools.pairwise(spans):
            if start < stop:
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
        message = f"two {recipe.type} pools with id {number} in one parent"
        self._fail(recipe, message, "sibling pools of the same name must have distinct ids")

    def compare(self, structure: Structure, starts: Iterable[tuple[Recipe, list[NDArray[np.int64]]]]) -> None:
        """Compare the sibling names that the recipes could not decide.

        Args:
            starts: recipes with the vertices they became.

        Cost: O(pools compared).
        """
        for recipe, blocks in starts:
            steady = all(self._is_steady(child) for child in recipe.children)
            for v in np.concatenate(blocks).tolist()[: 1 if steady else None]:
                seen: set[str] = set()
                for child in structure.children(v).tolist():
                    name = structure.name(child)
                    if name in seen:
                        message = f"two pools named '{name}' in {structure.path(v)}"
                        self._fail(recipe, message, "sibling pools must have distinct names")
                    seen.add(name)

    def _is_steady(self, recipe: Recipe) -> bool:
        """Whether the names are the same in every parent."""
        measure = self._measures[id(recipe)]
        lists = (measure.ids, measure.names)
        return not (measure.form.above or measure.form.by_rank) and all(
            values is None or isinstance(values, int) or len(values) == recipe.count for values in lists
        )


def regular_names(names: Sequence[str]) -> tuple[str, NDArray[np.int64]] | None:
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
