"""Select pools by path in a file: ``/demo/rack[0-1]/node*`` → vertices in order, and vertices → the shortest such texts.

A path with brackets and stars is resolved level by level over the containment tree. Every listed name must exist somewhere in the
selection, so a misspelt name is an error and does not silently drop an edge.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property

import numpy as np

from fluxres import limits
from fluxres.arrays import Int64
from fluxres.errors import FluxresError, InputError, LimitExceeded
from fluxres.graph.structure import Structure
from fluxres.syntax import hostlist, template

_SPECIAL = re.compile(r"[\[\]*,\s]")
#: names kept for the next selector
_TABLES_MAX = 200_000
#: maximal number of patterns with stars in one step: each is matched against every name
_GLOBS_MAX = 64
#: maximal number of attempts, going up, to fold names that continue across parents: each failed one folds the levels above again
_ATTEMPTS = 3
#: maximal number of pools in one text: a step has no more names than a hostlist
_RUN_MAX = limits.HOSTLIST_RANGE_MAX


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
        roots: by graph name, the roots of the pools outside the containment tree that it declares.
    """

    def __init__(self, structure: Structure, roots: Mapping[str, Sequence[int]] | None = None) -> None:
        self.structure = structure
        self._roots = dict(roots or {})
        self._home = {root: graph for graph, found in self._roots.items() for root in found}
        self.name = Names(structure)
        self._levels: dict[tuple[str, ...], Int64] = {}
        self._tables: dict[int, dict[str, int]] = {}
        self._kept = 0

    # -- reading -----------------------------------------------------------------------------------------------------

    def vertices(self, text: str) -> Int64:
        """The pools of a selector, in its order.

        Errors: InputError if it selects nothing, LimitExceeded for a list of too many names.
        """
        head, colon, path = text.partition(":/")
        structure = self.structure
        if not colon and (named := text.partition(":"))[0] in (*self._roots, structure.hierarchy):  # network:leaf0
            head, colon, path = named
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

    def _walk(self, text: str, level: Int64, roots: list[int] | None, steps: Sequence[str]) -> Int64:
        """Resolve level by level, caching the first steps, since the next selector often begins with the same ones."""
        start = 0
        for i in range(len(steps) - 1, 0, -1):
            known = self._levels.get((text.partition("/")[0], *steps[:i]))
            if known is not None:
                start, level = i, known
                break
        for i, step in enumerate(steps[start:], start):
            level = self._step(text, step, [-1] if i == 0 and roots is not None else level.tolist(), roots)
            if len(level) > limits.SELECTED_MAX:
                raise LimitExceeded(f"{text!r} selects more than {limits.SELECTED_MAX} pools")
            if i + 1 < len(steps) and len(level) <= 1024:
                if len(self._levels) >= 1024:
                    self._levels.clear()
                self._levels[text.partition("/")[0], *steps[: i + 1]] = level
        return level

    def _family(self, parent: int, roots: list[int] | None) -> list[int]:
        return (roots or []) if parent < 0 else self.structure.children(parent).tolist()

    def _step(self, text: str, step: str, parents: list[int], roots: list[int] | None) -> Int64:
        # A pool may be named 'a[1]' or '*': a literal match takes precedence over the meaning of brackets and stars.
        literal = not _SPECIAL.search(step)
        if self._has_odd_names and not literal:
            plain = _Wanted(step, literal=True)
            if found := [v for parent in parents for v in plain.among(self._table(parent, roots), text)]:
                return np.array(found, np.int64)
        if step == "*":
            every = [v for parent in parents for v in self._family(parent, roots)]
            if not every:
                raise InputError(f"'*' in {text!r} selects nothing: there are no pools below")
            return np.array(every, np.int64)
        wanted = _Wanted(step, literal=literal)
        found = [v for parent in parents for v in wanted.among(self._table(parent, roots), text)]
        if wanted.missing:
            known = [self.name(v) for parent in parents[:4] for v in self._family(parent, roots)[:200]]
            hint = f"choose from {hostlist.fold(known[:50])}" if known else "there are no pools below"
            raise InputError(f"no pool {next(iter(wanted.missing))!r} for {text!r}", hint=hint)
        return np.array(found, np.int64)

    def _table(self, parent: int, roots: list[int] | None) -> dict[str, int]:
        """Children by name; -1 if several have it."""
        known = self._tables.get(parent) if parent >= 0 else None
        if known is not None:
            return known
        family = self._family(parent, roots)
        table: dict[str, int] = {}
        for v in family:
            name = self.name(v)
            table[name] = -1 if name in table else v
        if len(family) > 8 and parent >= 0:
            self._kept += len(family)
            if self._kept > _TABLES_MAX:
                self._tables.clear()
                self._kept = len(family)
            self._tables[parent] = table
        return table

    # -- writing -----------------------------------------------------------------------------------------------------

    def texts(self, vertices: Iterable[int]) -> list[str]:
        """Selectors for these pools in this order, folded into as few as possible. Cost: O(vertices × depth)."""
        texts: list[str] = []
        run: list[int] = []
        for v in vertices:
            # A text with more pools than a reader accepts would be useless.
            if run and (len(run) >= _RUN_MAX or self._top(run[-1]) != self._top(v)):
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
        """Texts for pools of one tree, or of one graph's trees."""
        if not run:
            return []
        top = self._top(run[0])
        if top is None or any(self._is_ambiguous(v) for v in run):
            return [self.structure.uuid(v) for v in run]
        prefix = top + ":" if top else ""
        return [f"{prefix}{text}" for text in self._paths(run)]

    def _is_ambiguous(self, v: int) -> bool:
        """Whether a name on the path to `v` is not allowed in a path, or its root shares its name with another."""
        structure = self.structure
        if self._root(v) in self._twins:
            return True
        return self._has_slashes and any("/" in self.name(u) for u in [v, *structure.ancestors(v)])

    @cached_property
    def _twins(self) -> frozenset[int]:
        """Roots outside the containment tree with the same name as another root of their graph."""
        found: set[int] = set()
        for roots in self._roots.values():
            names = Counter(map(self.name, roots))
            found.update(root for root in roots if names[self.name(root)] > 1)
        return frozenset(found)

    @cached_property
    def _has_slashes(self) -> bool:
        return any("/" in text for text in self._name_parts())

    @cached_property
    def _has_odd_names(self) -> bool:
        return any(_SPECIAL.search(text) for text in self._name_parts())

    def _name_parts(self) -> Iterator[str]:
        """Every text that may occur in a name."""
        for kind in self.structure.kinds:
            yield from (kind.basename, kind.type, kind.unit or "", *(f"{key}{value}" for key, value in kind.properties))
            yield from (part for part in template.parse(kind.name) if isinstance(part, str)) if kind.name is not None else ()
        yield from self.structure.names.values()

    def _paths(self, run: list[int], attempts: int = _ATTEMPTS) -> list[str]:
        """Folded paths: fold the names under each parent, then the parents with the same names."""
        parents: list[int] = []
        families: list[list[str]] = []
        for v in run:
            parent = self.structure.parent.item(v)
            if not parents or parents[-1] != parent:
                parents.append(parent)
                families.append([])
            families[-1].append(self.name(v))
        repeats = all(names == families[0] for names in families)
        step = self._common_step(parents, families) if repeats or attempts else None
        if step is not None:
            above = self._paths(parents, attempts)
            # Names that continue across parents are looked up in all of these parents together, so one text must name the
            # parents.
            if repeats or len(above) == 1:
                return [f"{path}/{step}" for path in above]
            attempts -= 1
        folded = [self._steps(parent, names) for parent, names in zip(parents, families, strict=True)]
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
            above = self._paths(parents[at:stop], attempts) if parents[at] >= 0 else [""]
            out.extend(f"{path}/{text}" for path in above for text in folded[at])
            at = stop
        return out

    def _steps(self, parent: int, names: list[str]) -> list[str]:
        """Names of one family as steps, folded unless the folded text is itself the name of a sibling."""
        folded = _folded(names)
        if (
            self._has_odd_names
            and parent >= 0
            and any(_SPECIAL.search(text) and text in self._table(parent, None) for text in folded)
        ):
            return names
        return folded

    def _common_step(self, parents: list[int], families: list[list[str]]) -> str | None:
        """A single step that gives each of these parents its family, if the names continue across parents or are the same in
        each.
        """
        if len(parents) < 2 or min(parents) < 0:
            return None
        union = list(dict.fromkeys(name for names in families for name in names))
        folded = _folded(union)
        if len(folded) > 1 or (len(union) == 1 and any(names != union for names in families)):
            return None
        if any(self._steps(parent, union) != folded for parent in parents if self._has_odd_names):
            return None
        if any(names != families[0] for names in families):
            wanted = _Wanted(folded[0], literal=False)
            for parent, names in zip(parents, families, strict=True):
                if [self.name(v) for v in wanted.among(self._table(parent, None), "")] != names:
                    return None
        elif len(families[0]) != len(union):
            return None
        return folded[0]


class _Wanted:
    """The names requested by one step of a selector, in order; `missing` are those that no parent has had so far."""

    def __init__(self, step: str, *, literal: bool) -> None:
        patterns = [step] if literal else _patterns(step)
        self.missing = dict.fromkeys(patterns)
        self._ranks: dict[str, list[int]] = {}
        self._globs: list[tuple[int, str, Callable[[str], object]]] = []
        for rank, pattern in enumerate(patterns):
            if "*" in pattern and not literal:
                regex = ".*".join(map(re.escape, pattern.split("*")))
                self._globs.append((rank, pattern, re.compile(regex).fullmatch))
            else:
                self._ranks.setdefault(pattern, []).append(rank)
        if len(self._globs) > _GLOBS_MAX:
            raise LimitExceeded(f"{step!r} expands to {len(self._globs)} names with stars, at most {_GLOBS_MAX} are allowed")

    def among(self, table: Mapping[str, int], text: str) -> list[int]:
        """The requested pools of one family.  Cost O(the smaller of both), and O(family) for each star."""
        hits: list[tuple[int, int]] = []
        few, many = (table, self._ranks) if len(table) < len(self._ranks) else (self._ranks, table)
        for name in few:
            if name in many:
                self.missing.pop(name, None)
                hits.extend((rank, table[name]) for rank in self._ranks[name])
        for rank, pattern, matches in self._globs:
            found = [(rank, v) for name, v in table.items() if matches(name)]
            if found:
                self.missing.pop(pattern, None)
                hits.extend(found)
        hits.sort(key=lambda hit: hit[0])
        if any(v < 0 for _, v in hits):
            raise InputError(f"siblings share a name in {text!r}", hint="refer to them by uuid")
        return [v for _, v in hits]


def _patterns(step: str) -> list[str]:
    try:
        if hostlist.count(step) > limits.HOSTLIST_RANGE_MAX:
            raise LimitExceeded(f"more than {limits.HOSTLIST_RANGE_MAX} names in one step", hint="a star matches any name")
        names = hostlist.parse(step)
    except InputError as error:
        raise type(error)(f"{step[:80]!r}: {error.message}", hint=error.hint) from None
    if not names:
        raise InputError(f"{step!r} names no pool")
    return names


def _folded(names: list[str]) -> list[str]:
    """Names under one parent as path steps; one text if they are one range."""
    if any(_SPECIAL.search(name) or not name.isascii() or not name.isprintable() for name in names):
        return names
    return hostlist.split(hostlist.format(names))
