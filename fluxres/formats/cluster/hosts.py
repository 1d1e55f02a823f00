"""Host names of ``cluster.yaml``: no two pools of a machine have the same.

Other names differ among siblings only, as the path tells pools apart. But a host name is the address of a node, whatever rack it
is in, so ``hosts`` that would be repeated in each parent are a mistake.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

import numpy as np

from fluxres.documents.mistakes import Mistakes
from fluxres.errors import InputError
from fluxres.graph.recipe import Recipe
from fluxres.syntax import template

_DIGITS = "0123456789"
_OF_A_PART = "give each entry that uses this part hosts of its own, beside 'use'"
_UNIQUE = "a host name is unique in its machine; 'names' only differ within their parent"


def require_once(
    recipes: Sequence[Recipe], with_hosts: Sequence[Recipe], where: Callable[[Recipe], str], mistakes: Mistakes
) -> None:
    """Refuse hosts that are repeated in several parents or occur in several entries.

    Args:
        recipes: all, each after its children.
        with_hosts: those whose names are host names.
        where: the place of the hosts of a recipe.
    """
    pools, parents = _multiplied(recipes)
    for recipe in with_hosts:
        number, total = _number(recipe), pools[id(recipe)]
        if total > number and total % number == 0:  # another number of hosts is refused by its length
            mistakes.add(_repeated(recipe, number, total, parents[id(recipe)], where(recipe)))
    _require_apart(with_hosts, where, mistakes)


def _number(recipe: Recipe) -> int:
    named = recipe.names if recipe.names is not None else recipe.ids
    return 1 if named is None or isinstance(named, int) else len(named)


def _multiplied(recipes: Sequence[Recipe]) -> tuple[dict[int, int], dict[int, list[Recipe]]]:
    """How many pools each recipe makes in all, and what it is in, by the identity of the recipe."""
    parents: dict[int, list[Recipe]] = {id(recipe): [] for recipe in recipes}
    pools: dict[int, int] = {}
    for recipe in reversed(recipes):
        times = sum(pools[id(parent)] for parent in parents[id(recipe)]) if parents[id(recipe)] else 1
        pools[id(recipe)] = times * recipe.count
        for child in recipe.children:
            parents[id(child)].append(recipe)
    return pools, parents


def _repeated(recipe: Recipe, number: int, total: int, parents: Sequence[Recipe], where: str) -> InputError:
    around = total // recipe.count
    what = parents[0].type if parents else "parent"
    if len({id(parent) for parent in parents}) > 1:
        hint = _OF_A_PART
    elif number % around == 0:
        hint = f"with 'count: {number // around}' beside 'hosts' they run on over the {around} pools of type {what}"
    else:
        hint = f"name all {total} hosts beside 'count: {recipe.count}': they run on over the {around} pools of type {what}"
    names = "1 host name" if number == 1 else f"{number} host names"
    message = f"{names} for {total} pools: each name would occur {total // number} times"
    return InputError(message, where=where, hint=hint)


def _require_apart(recipes: Sequence[Recipe], where: Callable[[Recipe], str], mistakes: Mistakes) -> None:
    """Refuse a name that occurs twice in all these entries together."""
    ranges: dict[str, list[Recipe]] = {}
    compared = [recipe for recipe in recipes if not _is_range(recipe)]
    for recipe in recipes:
        if _is_range(recipe):
            ranges.setdefault(_stem(str(recipe.name)), []).append(recipe)
    stems = {_stem(name) for recipe in compared for name in _names(recipe)}
    for stem, members in ranges.items():
        if stem in stems or len({recipe.name for recipe in members}) > 1:
            compared += members
        else:
            _require_disjoint(members, where, mistakes)
    seen: dict[str, Recipe] = {}
    for recipe in compared:
        for name in _names(recipe):
            if name in seen and not mistakes.has(where(recipe)):
                mistakes.add(_twice(name, recipe, seen[name], where))
                break
            seen[name] = recipe


def _require_disjoint(members: Sequence[Recipe], where: Callable[[Recipe], str], mistakes: Mistakes) -> None:
    """The same for ranges of one template, which are compared by their ends."""
    spans = sorted((int(np.min(recipe.ids)), int(np.max(recipe.ids)), i) for i, recipe in enumerate(members))  # type: ignore[arg-type]  # a range has ids
    for (_, last, i), (first, _, k) in pairwise(spans):
        one, other = sorted((i, k))
        if first <= last and not mistakes.has(where(members[other])):
            mistakes.add(_twice(_named(members[k], first), members[other], members[one], where))


def _twice(name: str, recipe: Recipe, first: Recipe, where: Callable[[Recipe], str]) -> InputError:
    place, other = where(recipe), where(first)
    if place == other and first is not recipe:  # a part that several entries use
        return InputError(f"the host name {name!r:.80} would occur several times", where=place, hint=_OF_A_PART)
    also = "" if first is recipe else f", also in {other}"
    return InputError(f"the host name {name!r:.80} occurs twice{also}", where=place, hint=_UNIQUE)


def _is_range(recipe: Recipe) -> bool:
    return recipe.names is None and isinstance(recipe.ids, np.ndarray)


def _stem(name: str) -> str:
    """What is before the first digit or field: names with different stems differ."""
    for at, character in enumerate(name):
        if character in _DIGITS or name.startswith("${", at):
            return name[:at]
    return name


def _names(recipe: Recipe) -> Iterable[str]:
    if recipe.names is not None:
        return recipe.names
    if isinstance(recipe.ids, np.ndarray):
        return (_named(recipe, number) for number in recipe.ids.tolist())
    return [str(recipe.name).replace("$$", "$")]


def _named(recipe: Recipe, number: int) -> str:
    return "".join(part if isinstance(part, str) else part.text(number) for part in template.parse(str(recipe.name)))
