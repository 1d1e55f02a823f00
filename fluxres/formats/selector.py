"""Pools by path in a file: ``/demo/rack[0-1]/node*`` → vertices in order, and vertices → the shortest such texts.

A path with brackets and stars is worked out level by level over the has-a tree.  What is listed must exist
somewhere in the selection, so a misspelt name is an error and never an edge less.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from fluxres import limits
from fluxres.errors import FluxresError, InputError, LimitExceeded
from fluxres.graph.structure import Structure
from fluxres.syntax import hostlist, template

_SPECIAL = re.compile(r"[\[\]*,\s]")
#: the hierarchy under which pools outside the has-a tree, of no particular graph, are found
OUTSIDE = "pools"


class Names:
    """Names of many pools of one structure, each text made once per kind and id."""

    def __init__(self, structure: Structure) -> None:
        self.structure = structure
        self._known: dict[tuple[int, int], str] = {}
        self._simple = [self._is_simple(kind.name) for kind in structure.kinds]

    @staticmethod
    def _is_simple(name: str | None) -> bool:
        if name is None:
            return True
        return all(isinstance(part, str) or part.key in ("id", "type", "basename", "unit") for part in template.parse(name))

    def __call__(self, v: int) -> str:
        structure = self.structure
        kind = structure.kind.item(v)
        if not self._simple[kind] or (structure.names and v in structure.names):
            return structure.name(v)
        key = (kind, structure.id.item(v))
        name = self._known.get(key)
        if name is None:
            name = self._known[key] = structure.name(v)
        return name


class Selectors:
    """Reads and writes selections of pools of one structure.

    Args:
        structure: where they stand.
        roots: by graph name, the roots of the pools outside the has-a tree that it declares.
    """

    def __init__(self, structure: Structure, roots: Mapping[str, Sequence[int]] | None = None) -> None:
        self.structure = structure
        self._roots = dict(roots or {})
        self._home = {root: graph for graph, found in self._roots.items() for root in found}
        self.name = Names(structure)

    # -- reading -----------------------------------------------------------------------------------------------------

    def vertices(self, text: str) -> NDArray[np.int64]:
        """The pools that a selector means, in its order.

        Errors: InputError for what selects nothing, LimitExceeded for a list of too many names.
        """
        head, colon, path = text.partition(":/")
        structure = self.structure
        if text.startswith("/"):
            steps = [step for step in text.split("/") if step]
            return self._walk(text, np.zeros(0, np.int64), [0], steps) if steps else np.zeros(1, np.int64)
        steps = [step for step in path.split("/") if step]
        if colon and head == structure.hierarchy:
            return self._walk(text, np.zeros(1, np.int64), None, steps)
        if colon and head in self._roots and steps and self._roots[head]:
            return self._walk(text, np.zeros(0, np.int64), list(self._roots[head]), steps)
        try:
            return np.array([structure.vertex(text)], np.int64)
        except FluxresError as error:
            hint = error.hint or "a path begins with '/' or with the name of a hierarchy, as in 'power:/pdu0'"
            raise InputError(error.message, hint=hint) from None

    def _walk(self, text: str, level: NDArray[np.int64], roots: list[int] | None, steps: Sequence[str]) -> NDArray[np.int64]:
        for i, step in enumerate(steps):
            first = [roots] if i == 0 and roots is not None else None
            families = first or [self.structure.children(v).tolist() for v in level.tolist()]
            level = self._step(text, step, families)
        return level

    def _step(self, text: str, step: str, families: list[list[int]]) -> NDArray[np.int64]:
        if step == "*":
            every = [v for family in families for v in family]
            if not every:
                raise InputError(f"'*' in {text!r} selects nothing: there is nothing below")
            return np.array(every, np.int64)
        tables = [self._by_name(family) for family in families]
        # A pool may be called 'a[1]': a name that stands there as it is wins over what brackets mean.
        named = [self._single(by_name, step, text) for by_name in tables if step in by_name]
        if named:
            return np.array(named, np.int64)
        found: list[int] = []
        patterns = _patterns(step) if _SPECIAL.search(step) else [step]
        missing = set(patterns)
        for by_name in tables:
            for pattern in patterns:
                if pattern in by_name:
                    found.append(self._single(by_name, pattern, text))
                    missing.discard(pattern)
                elif "*" in pattern:
                    matching = _glob(pattern)
                    hits = [v for name, pools in by_name.items() if matching(name) for v in pools]
                    found.extend(hits)
                    if hits:
                        missing.discard(pattern)
        if missing:
            name = next(pattern for pattern in patterns if pattern in missing)
            known = [self.name(v) for family in families[:4] for v in family[:200]]
            hint = f"there is {hostlist.fold(known[:50])}" if known else "there is nothing below"
            raise InputError(f"no pool {name!r} for {text!r}", hint=hint)
        return np.array(found, np.int64)

    def _by_name(self, family: list[int]) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for v in family:
            found.setdefault(self.name(v), []).append(v)
        return found

    @staticmethod
    def _single(by_name: Mapping[str, list[int]], name: str, text: str) -> int:
        pools = by_name[name]
        if len(pools) > 1:
            raise InputError(f"{len(pools)} pools beside each other are named {name!r} in {text!r}", hint="name them by uuid")
        return pools[0]

    # -- writing -----------------------------------------------------------------------------------------------------

    def texts(self, vertices: Iterable[int]) -> list[str]:
        """Selectors that give these pools in this order, as few as folding makes them.

        Cost: O(vertices × depth).
        """
        texts: list[str] = []
        run: list[int] = []
        for v in vertices:
            if run and self._top(run[-1]) != self._top(v):
                texts.extend(self._fold(run))
                run = []
            run.append(v)
        return texts + self._fold(run)

    def _top(self, v: int) -> str | None:
        return "" if v < self.structure.tree_end else self._home.get(self._root(v))

    def _root(self, v: int) -> int:
        while (parent := self.structure.parent.item(v)) >= 0:
            v = parent
        return v

    def _fold(self, run: list[int]) -> list[str]:
        """Texts of pools of one tree, or of one graph's trees."""
        if not run:
            return []
        top = self._top(run[0])
        if top is None or any(self._is_ambiguous(v) for v in run):
            return [self.structure.uuid(v) for v in run]
        prefix = top + ":" if top else ""
        return [f"{prefix}{text}" for text in self._paths(run)]

    def _is_ambiguous(self, v: int) -> bool:
        """Whether a name on the way to `v` cannot stand in a path as it is, or a root shares its name with another."""
        structure = self.structure
        root = self._root(v)
        home = self._home.get(root)
        if home is not None and [self.name(r) for r in self._roots[home]].count(self.name(root)) > 1:
            return True
        return any("/" in self.name(u) for u in [v, *structure.ancestors(v)])

    def _paths(self, run: list[int]) -> list[str]:
        """Folded paths: first the names under each parent, then the parents that have the same ones."""
        parents: list[int] = []
        families: list[list[str]] = []
        for v in run:
            parent = self.structure.parent.item(v)
            if not parents or parents[-1] != parent:
                parents.append(parent)
                families.append([])
            families[-1].append(self.name(v))
        folded = [_folded(names) for names in families]
        out: list[str] = []
        at = 0
        while at < len(parents):
            stop = at + 1
            while (
                stop < len(parents)
                and len(folded[at]) == 1
                and folded[stop] == folded[at]
                and min(parents[at], parents[stop]) >= 0
            ):
                stop += 1
            above = self._paths(parents[at:stop]) if parents[at] >= 0 else [""]
            out.extend(f"{path}/{text}" for path in above for text in folded[at])
            at = stop
        return out


def _patterns(step: str) -> list[str]:
    try:
        names = hostlist.parse(step)
    except LimitExceeded:
        raise
    except InputError as error:
        raise InputError(f"{step!r}: {error.message}", hint=error.hint) from None
    if len(names) > limits.IDSET_COUNT_MAX or not names:
        raise InputError(f"{step!r} names no pool")
    return names


def _glob(pattern: str) -> Callable[[str], object]:
    return re.compile(".*".join(re.escape(part) for part in pattern.split("*"))).fullmatch


def _folded(names: list[str]) -> list[str]:
    """Names under one parent as path steps; one text when they are one range."""
    if any(_SPECIAL.search(name) or not name.isascii() or not name.isprintable() for name in names):
        return names
    return hostlist.split(hostlist.format(names))
