"""From a path, URI, uuid or name to the pool: no table of a million names, but arithmetic and small caches.

A path is resolved level by level, and the pools above the last name are remembered, so that a second question
below the same parent costs one step.  That step guesses: equal siblings stand at equal distances, so the place of
one follows from the number in its name.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fluxres import limits
from fluxres.errors import UnknownPool
from fluxres.graph import uuids
from fluxres.graph.auxiliary import Int32
from fluxres.graph.kinds import Kind
from fluxres.syntax import template

if TYPE_CHECKING:
    from fluxres.graph.structure import Structure


class Lookup:
    """Finds pools of one structure.

    Args:
        structure: whose pools; its shape and names do not change.
    """

    def __init__(self, structure: Structure) -> None:
        self._s = structure
        self._paths: dict[str, int] = {}

    def is_uuid(self, text: str) -> bool:
        """Whether this text is a uuid: one in the standard form, or one that a pool was given."""
        return uuids.split(text) is not None or text in self._explicit_uuids

    def vertex(self, where: str) -> int:
        """The pool with this path, URI or uuid.

        Errors: UnknownPool naming the part of the path that does not exist, and what stands there instead.
        Cost: O(1) for a path whose parent was asked for before.
        """
        if where.startswith("/"):
            return self._by_path(where)
        hierarchy, colon, path = where.partition(":/")
        if colon:
            if hierarchy == self._s.hierarchy:
                return self._by_path(f"/{hierarchy}/{path}" if path else f"/{hierarchy}")
            return self._by_auxiliary_path(hierarchy, path)
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
            raise UnknownPool(f"no pool '{path}': the root is '/{self._s.hierarchy}'", where=path)
        parent = self._by_path(above)
        v = self._child_named(parent, name)
        if v < 0:
            raise UnknownPool(f"no pool '{name}' in '{above}'", where=path, hint=self._what_is_in(parent))
        if self._s.end.item(v) > v + 1:
            if len(self._paths) >= limits.PATH_CACHE_MAX:
                self._paths.clear()
            self._paths[clean] = v
        return v

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
            for v in self._explicit_names.get(name, ()):
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
        # Equal siblings stand at equal distances: the place of one follows from its number.
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
        """The id (-1: none) a pool of this kind must have to be called `name`; None where no id, or more than the id, decides."""
        if kind.name is not None:
            return template.invert(kind.name, name)
        return -1 if name == kind.basename else template.default_id(kind.basename, name)

    def _name_candidates(self, vertices: Int32, kind: Kind, name: str) -> NDArray[np.bool_]:
        """Which of these pools of one kind may be called `name` by their template."""
        number = self._id_in_name(kind, name)
        if number is not None:
            return np.asarray(self._s.id[vertices] == number)
        if kind.name is None or template.is_invertible(kind.name):
            return np.zeros(len(vertices), np.bool_)
        return np.ones(len(vertices), np.bool_)

    def named(self, names: Iterable[str]) -> list[int]:
        """Every pool that has one of these names, ascending.  Cost: one vector scan per kind that may be called so."""
        wanted = set(names)
        found = [v for name in wanted for v in self._explicit_names.get(name, ())]
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

    def _by_auxiliary_path(self, hierarchy: str, path: str) -> int:
        subsystem = self._s.subsystems.get(hierarchy)
        if subsystem is None or not subsystem.hierarchy:
            known = [self._s.hierarchy, *(s.name for s in self._s.subsystems.values() if s.hierarchy)]
            raise UnknownPool(f"no hierarchy '{hierarchy}'", where=f"{hierarchy}:/{path}", hint=f"there is {', '.join(known)}")
        level = subsystem.roots()
        names = [part for part in path.split("/") if part]
        if len(level) == 1 and self._s.name(int(level[0])) == hierarchy and (not names or names[0] != hierarchy):
            names.insert(0, hierarchy)
        if not names:
            raise UnknownPool(f"hierarchy '{hierarchy}' has {len(level)} roots", where=f"{hierarchy}:/", hint="name one of them")
        v = -1
        for name in names:
            named = [u for u in level.tolist() if self._s.name(u) == name]
            if len(named) != 1:
                raise self._not_one(named, name, f"{hierarchy}:/{path}")
            v = named[0]
            level = subsystem.successors(v)
        return v

    def _not_one(self, named: list[int], name: str, where: str) -> UnknownPool:
        if not named:
            return UnknownPool(f"no pool '{name}' on this way in hierarchy '{where.partition(':')[0]}'", where=where)
        # In a hierarchy made of edges two brothers may have one name; guessing would name the wrong one.
        places = " and ".join(self._s.path(u) if u < self._s.tree_end else self._s.uuid(u) for u in named[:2])
        return UnknownPool(f"{len(named)} pools are called '{name}' there", where=where, hint=f"say {places}")

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
            # A pool with a uuid of its own keeps a serial, which says nothing.
            for v in hits:
                if v not in self._s.uuid_texts:
                    return v
        hint = "a path starts with '/', a URI reads 'name:/path'" if parts is None else ""
        raise UnknownPool(f"no pool '{where}'", where=where, hint=hint)

    @cached_property
    def _explicit_uuids(self) -> dict[str, int]:
        return {text: v for v, text in self._s.uuid_texts.items()}
