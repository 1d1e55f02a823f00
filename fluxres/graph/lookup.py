"""Find a pool by path, URI, uuid or name, with arithmetic and small caches instead of a table of a million names.

A path is resolved level by level, and the pools above its last name are cached, so that a second lookup below the same parent
costs one step.  That step guesses: equal siblings are spaced evenly, so the position of one follows from the number in its name.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from fluxres import limits
from fluxres.errors import UnknownPool
from fluxres.graph import uuids
from fluxres.graph.auxiliary import Int32, Subsystem
from fluxres.graph.kinds import Kind
from fluxres.syntax import template

if TYPE_CHECKING:
    from fluxres.graph.structure import Structure

OUTSIDE: Final = "pools"
"""The graph name, also in cluster.yaml, for pools outside the containment tree that no auxiliary graph touches."""


class Lookup:
    """Finds pools of one structure.

    Args:
        structure: its shape and names must not change.
    """

    def __init__(self, structure: Structure) -> None:
        self._s = structure
        self._paths: dict[str, int] = {}
        self._levels: dict[tuple[str, int], dict[str, list[int]]] = {}
        self._levels_size = 0
        self._outside: dict[str, dict[str, list[int]]] = {}
        self._graphs: list[Subsystem] = []
        self._touched: dict[str, frozenset[int]] = {}

    def is_uuid(self, text: str) -> bool:
        """Whether this text is a uuid: in the standard form, or given to a pool explicitly."""
        return uuids.split(text) is not None or text in self._explicit_uuids

    def vertex(self, where: str) -> int:
        """The pool with this path, URI or uuid.

        Errors: UnknownPool naming the part of the path that does not exist and what exists instead.
        Cost: O(1) for a path whose parent was looked up before.
        """
        if where.startswith("/"):
            return self._by_path(where)
        hierarchy, colon, path = where.partition(":/")
        if colon:
            if hierarchy == self._s.hierarchy:
                return self._by_path(f"/{hierarchy}/{path}" if path else f"/{hierarchy}")
            return self._by_graph_path(hierarchy, path)
        return self._by_uuid(where)

    def _by_path(self, path: str) -> int:
        known = self._paths.get(path)
        if known is not None:
            return known
        clean = path.rstrip("/")
        above, _, name = clean.rpartition("/")
        if not above:
            if clean == "" or name == self._s.hierarchy:
                return 0
            raise UnknownPool(f"no pool '{path}': the root is '/{self._s.hierarchy}'", where=path, hint=self._outside_hint(clean))
        try:
            parent = self._by_path(above)
        except UnknownPool as error:
            if hint := self._outside_hint(clean):
                raise UnknownPool(error.message, where=path, hint=hint) from None
            raise
        v = self._child_named(parent, name)
        if v < 0:
            raise UnknownPool(f"no pool '{name}' in '{above}'", where=path, hint=self._what_is_in(parent))
        if self._s.end.item(v) > v + 1:
            if len(self._paths) >= limits.PATH_CACHE_MAX:
                self._paths.clear()
            self._paths[clean] = v
        return v

    def _outside_hint(self, path: str) -> str:
        """A hint naming the only pool outside containment that has this path in its own tree; empty if there is none."""
        names = path.strip("/").split("/")
        found = []
        for v in self._outside_roots.tolist() if names[0] != self._s.hierarchy else ():
            if self._s.name(v) == names[0]:
                for name in names[1:]:
                    v = self._child_named(v, name) if v >= 0 else v
                found += [v] * (v >= 0)
        return f"outside the containment tree: {self._s.where(found[0])}" if len(found) == 1 else ""

    def _what_is_in(self, v: int) -> str:
        children = self._s.children(v)
        if not len(children):
            return "it has no children"
        first, last = self._s.name(int(children[0])), self._s.name(int(children[-1]))
        return f"it has {len(children)} children, from '{first}' to '{last}'" if len(children) > 1 else f"it has only '{first}'"

    def _child_named(self, parent: int, name: str) -> int:
        guess = self._guess_child(parent, name)
        if guess >= 0:
            return guess
        if self._s.names:
            for v in self._explicit_names.get(name, []):
                if self._s.parent.item(v) == parent:
                    return v
        children = self._s.children(parent)
        kinds = self._s.kind[children]
        for number in np.unique(kinds).tolist():
            for v in children[kinds == number][
                self._name_candidates(children[kinds == number], self._s.kinds[number], name)
            ].tolist():
                if v not in self._s.names and self._s.name(v) == name:
                    return int(v)
        return -1

    def _guess_child(self, parent: int, name: str) -> int:
        # Equal siblings are spaced evenly, so the position of one follows from its number.
        first = parent + 1
        stop = self._s.end.item(parent)
        if first >= stop:
            return -1
        kind = self._s.kinds[self._s.kind.item(first)]
        number = self._id_in_name(kind, name)
        if number is None:
            return -1
        guess = first + (number - self._s.id.item(first)) * (self._s.end.item(first) - first)
        if first <= guess < stop and self._s.parent.item(guess) == parent and self._s.name(guess) == name:
            return guess
        return -1

    @staticmethod
    def _id_in_name(kind: Kind, name: str) -> int | None:
        """The id (-1: no id) that gives a pool of this kind the name `name`; None if no id does, or more than the id matters."""
        if kind.name is not None:
            return template.invert(kind.name, name)
        return -1 if name == kind.basename else template.default_id(kind.basename, name)

    def _name_candidates(self, vertices: Int32, kind: Kind, name: str) -> NDArray[np.bool_]:
        """Which of these pools of one kind may have the name `name` by their template."""
        number = self._id_in_name(kind, name)
        if number is not None:
            return np.asarray(self._s.id[vertices] == number)
        if kind.name is None or template.is_invertible(kind.name):
            return np.zeros(len(vertices), np.bool_)
        return np.ones(len(vertices), np.bool_)

    def named(self, names: Iterable[str]) -> list[int]:
        """Every pool with one of these names, ascending.  Cost: one vector scan per kind that may have such a name."""
        wanted = set(names)
        found = [v for name in wanted for v in self._explicit_names.get(name, [])]
        for number in range(len(self._s.kinds)):
            kind = self._s.kinds[number]
            if kind.name is None or template.is_invertible(kind.name):
                numbers = [n for n in (self._id_in_name(kind, name) for name in wanted) if n is not None]
                if not numbers:
                    continue
                candidates = np.flatnonzero((self._s.kind == number) & np.isin(self._s.id, numbers))
            else:
                candidates = np.flatnonzero(self._s.kind == number)
            found.extend(v for v in candidates.tolist() if v not in self._s.names and self._s.name(v) in wanted)
        return sorted(found)

    @cached_property
    def _explicit_names(self) -> dict[str, list[int]]:
        by_name: dict[str, list[int]] = {}
        for v, name in self._s.names.items():
            by_name.setdefault(name, []).append(v)
        return by_name

    # -- auxiliary graphs --------------------------------------------------------------------------------------------

    def _by_graph_path(self, graph: str, path: str) -> int:
        """A pool by its URI in an auxiliary hierarchy or, outside the containment tree, by graph and path in its own tree."""
        self._follow_graphs()
        subsystem = self._s.subsystems.get(graph)
        if subsystem is None and graph != OUTSIDE:
            known = [self._s.hierarchy, *self._s.subsystems]
            raise UnknownPool(f"no graph '{graph}'", where=f"{graph}:/{path}", hint=f"there is {', '.join(known)}")
        names = [part for part in path.split("/") if part]
        if subsystem is None or not subsystem.hierarchy:
            return self._by_outside_path(graph, names, f"{graph}:/{path}")
        try:
            return self._by_hierarchy_path(subsystem, names, f"{graph}:/{path}")
        except UnknownPool:
            # A pool that the hierarchy declares but no edge touches is not in the hierarchy, yet it has a name.
            with suppress(UnknownPool):
                return self._by_outside_path(graph, names, path)
            raise

    def _by_hierarchy_path(self, subsystem: Subsystem, names: list[str], where: str) -> int:
        roots = subsystem.roots()
        if len(roots) == 1 and self._s.name(int(roots[0])) == subsystem.name and (not names or names[0] != subsystem.name):
            names = [subsystem.name, *names]
        if not names:
            raise UnknownPool(f"hierarchy '{subsystem.name}' has {len(roots)} roots", where=where, hint="name one of them")
        v = -1
        for name in names:
            level = self._level(subsystem, v)
            named = level.get(name, [])
            if len(named) != 1:
                raise self._not_one(named, name, where, level)
            v = named[0]
        return v

    def _level(self, subsystem: Subsystem, v: int) -> dict[str, list[int]]:
        """The children of `v` in a hierarchy by name, or its roots for -1; cached, since another lookup usually follows."""
        key = subsystem.name, v
        found = self._levels.get(key)
        if found is None:
            found = self._by_name((subsystem.successors(v) if v >= 0 else subsystem.roots()).tolist())
            self._levels_size += len(found)
            if self._levels_size > limits.PATH_CACHE_MAX:
                self._levels.clear()
                self._levels_size = len(found)
            self._levels[key] = found
        return found

    def _by_name(self, vertices: Iterable[int]) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for v in vertices:
            found.setdefault(self._s.name(v), []).append(v)
        return found

    def _by_outside_path(self, graph: str, names: list[str], where: str) -> int:
        """A pool outside the containment tree by the path in its own tree, among the trees that the graph names."""
        if not names:
            raise UnknownPool(f"graph '{graph}' has no root", where=where, hint=f"name a pool of it, such as {graph}:/NAME")
        roots = self._outside_roots_by_name(graph)
        named = roots.get(names[0], [])
        if len(named) != 1:
            raise self._not_one(named, names[0], where, roots)
        v = named[0]
        for name in names[1:]:
            above, v = v, self._child_named(v, name)
            if v < 0:
                raise UnknownPool(f"no pool '{name}' in '{self._s.name(above)}'", where=where, hint=self._what_is_in(above))
        return v

    @cached_property
    def _outside_roots(self) -> Int32:
        """Roots of the trees outside containment, ascending."""
        return (np.flatnonzero(self._s.parent[self._s.tree_end :] < 0) + self._s.tree_end).astype(np.int32)

    def _follow_graphs(self) -> None:
        """Drop the caches if the auxiliary graphs have changed: a reader of a file adds them one after the other."""
        graphs = list(self._s.subsystems.values())
        if self._graphs != graphs:
            self._graphs = graphs
            self._levels.clear()
            self._levels_size = 0
            self._outside.clear()
            self._touched = {graph.name: self._touched_by(graph) for graph in graphs}

    def _touched_by(self, graph: Subsystem) -> frozenset[int]:
        """The roots outside containment whose trees contain a member of a graph."""
        members = graph.members[graph.members >= self._s.tree_end]
        at = np.unique(self._outside_roots.searchsorted(members, "right") - 1)
        return frozenset(self._outside_roots[at].tolist())

    def _outside_roots_by_name(self, graph: str) -> dict[str, list[int]]:
        found = self._outside.get(graph)
        if found is None:
            roots = self._outside_roots.tolist()
            if graph in self._touched:
                elsewhere = frozenset[int]().union(*self._touched.values()) - self._touched[graph]
                roots = [root for root in roots if root not in elsewhere]
            found = self._outside[graph] = self._by_name(roots)
        return found

    def outside(self, graph: str) -> list[int]:
        """The roots of the trees outside containment that are named by a graph, ascending."""
        self._follow_graphs()
        return sorted(root for roots in self._outside_roots_by_name(graph).values() for root in roots)

    def graphs_around(self, v: int) -> list[str]:
        """The auxiliary graphs with a member in the tree of a pool outside containment."""
        self._follow_graphs()
        root = int(self._outside_roots[self._outside_roots.searchsorted(v, "right") - 1])
        return [name for name, roots in self._touched.items() if root in roots]

    def _not_one(self, named: Sequence[int], name: str, where: str, there: Iterable[str]) -> UnknownPool:
        graph = where.partition(":")[0]
        if not named:
            subsystem = self._s.subsystems.get(graph)
            on = (
                f"at this place in hierarchy '{graph}'"
                if subsystem is not None and subsystem.hierarchy
                else f"of graph '{graph}'"
            )
            return UnknownPool(f"no pool '{name}' {on}", where=where, hint=self._some_of(there))
        # In a hierarchy made of edges, siblings may have the same name; guessing could pick the wrong one.
        places = " and ".join(self._s.path(u) if u < self._s.tree_end else self._s.uuid(u) for u in named[:2])
        return UnknownPool(f"{len(named)} pools are named '{name}' there", where=where, hint=f"use {places}")

    @staticmethod
    def _some_of(names: Iterable[str]) -> str:
        some = list(islice(names, limits.WHY_NAMES_MAX + 1))
        if not some:
            return "there are none"
        return f"there is {', '.join(some[: limits.WHY_NAMES_MAX])}{' …' * (len(some) > limits.WHY_NAMES_MAX)}"

    def _by_uuid(self, where: str) -> int:
        v = self._explicit_uuids.get(where)
        if v is not None:
            return v
        parts = uuids.split(where)
        if parts is not None and parts[0] in self._s.origins:
            origin, serial = self._s.origins.index(parts[0]), parts[1]
            if serial < self._s.n and self._s.serial.item(serial) == serial and self._s.origin.item(serial) == origin:
                hits = [serial]
            else:
                hits = np.flatnonzero((self._s.serial == serial) & (self._s.origin == origin)).tolist()
            if len(hits) == 1 and hits[0] in self._s.uuid_texts:
                hits = np.flatnonzero((self._s.serial == serial) & (self._s.origin == origin)).tolist()
            # The serial of a pool with an explicit uuid is meaningless.
            for v in hits:
                if v not in self._s.uuid_texts:
                    return v
        hint = "a path starts with '/', a URI reads 'name:/path'" if parts is None else ""
        raise UnknownPool(f"no pool '{where}'", where=where, hint=hint)

    @cached_property
    def _explicit_uuids(self) -> dict[str, int]:
        return {text: v for v, text in self._s.uuid_texts.items()}
