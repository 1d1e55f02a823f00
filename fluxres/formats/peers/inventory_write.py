"""A machine as hosts and their content by type: the input of the writers for HyperQueue, canary, CTest and JQM.

Their files have hosts and labels, and nothing above or between. So nodes become hosts; cores, GPUs and all pools without children
become labelled units; their parents, if there are several, become groups. Everything else is reported as left out. This is
derived from the columns; Python runs once for each host and type.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fluxres.errors import InputError
from fluxres.formats import losses
from fluxres.formats.format import Fact, Hold
from fluxres.formats.peers.inventory import LABEL, RESERVED, SLOTS, TYPES, types_of
from fluxres.graph.kinds import PropertyValue
from fluxres.graph.recipe import regular_names
from fluxres.graph.structure import Structure

Mask = NDArray[np.bool_]
Vertices = NDArray[np.int64]

#: types that are counted although they have children
COUNTED: Final = ("core", "gpu")
#: properties that concern these formats and not the pool
MARKS: Final = frozenset({LABEL, SLOTS})
_WORDS: Final = {type_name: word for word, type_name in TYPES.items()}


@dataclass(frozen=True, slots=True, eq=False)
class Share:
    """The pools of one type in a host: vertices ascending, and their parents."""

    type: str
    vertices: Vertices
    above: Vertices

    def groups(self) -> list[Vertices]:
        """The vertices by parent, in the order of the first vertex of each."""
        if self.above[0] == self.above[-1] and not np.count_nonzero(self.above != self.above[0]):
            return [self.vertices]
        _, first, which = np.unique(self.above, return_index=True, return_inverse=True)
        order = np.argsort(first[which.reshape(-1)], kind="stable")
        cuts = np.flatnonzero(np.diff(self.above[order])) + 1
        return np.split(self.vertices[order], cuts)


class Lost:
    """The facts that a writer cannot express, by pool."""

    def __init__(self, structure: Structure) -> None:
        self._n = structure.n
        self.facts: dict[Fact, Mask] = {}
        #: pools that are not written but are read back all the same
        self.between: Mask = np.zeros(structure.n, np.bool_)
        #: pools that are read back in another place
        self.moved: Mask = np.zeros(structure.n, np.bool_)

    def mark(self, fact: Fact, vertices: Vertices) -> None:
        """Record that these pools lose this fact."""
        if len(vertices):
            self.facts.setdefault(fact, np.zeros(self._n, np.bool_))[vertices] = True


class Inventory:
    """The hosts of a machine.

    Args:
        structure: any machine.
        marks: properties that the format expresses in another way.

    Cost: O(pools) array operations; O(hosts × types) Python for `shares`.
    """

    def __init__(self, structure: Structure, *, marks: frozenset[str] = frozenset()) -> None:
        self.structure = s = structure
        #: properties that need not be written
        self.marks = MARKS | marks
        nodes = s.of_type("node").astype(np.int64)
        nodes = nodes[nodes < s.tree_end]
        #: the nodes that are not in another node; the root of a machine without nodes
        self.hosts: Vertices = nodes[_topmost(s, nodes)] if len(nodes) else np.zeros(1, np.int64)
        number = np.arange(s.n)
        at = np.searchsorted(self.hosts, number, side="right") - 1
        inside = (at >= 0) & (number < s.end[self.hosts[at]]) & (number < s.tree_end)
        inside[self.hosts] = False
        #: number of the host of each pool, -1 for none
        self.host: Vertices = np.where(inside, at, -1)
        counted = np.isin(s.type, [s.types.index(name) for name in COUNTED if name in s.types])
        tops = np.flatnonzero(inside & (counted | (s.end == number + 1)))
        #: pools that are written: a counted type or a leaf, on a host, and not within another written pool
        self.written: Mask = np.zeros(s.n, np.bool_)
        self.written[tops[_topmost(s, tops)]] = True

    @cached_property
    def shares(self) -> list[list[Share]]:
        """The shares of each host, types in the order of their first pool."""
        s = self.structure
        vertices = np.flatnonzero(self.written)
        found: list[list[Share]] = [[] for _ in self.hosts]
        if not len(vertices):
            return found
        vertices = vertices[np.lexsort((vertices, s.type[vertices], self.host[vertices]))]
        turns = np.diff(self.host[vertices]) | np.diff(s.type[vertices].astype(np.int64))
        for part in np.split(vertices, np.flatnonzero(turns) + 1):
            first = int(part[0])
            share = Share(s.types[s.type.item(first)], part, s.parent[part].astype(np.int64))
            found[self.host.item(first)].append(share)
        for shares in found:
            shares.sort(key=lambda share: int(share.vertices[0]))
        return found

    def host_name(self, number: int) -> str:
        """The name of a host, or the label kept for it."""
        v = int(self.hosts[number])
        kept = self.properties(v).get(LABEL)
        return kept if isinstance(kept, str) else self.structure.name(v)

    def distinct_names(self, lost: Lost) -> list[str]:
        """The names of all hosts, numbered where one occurs twice."""
        found: dict[str, None] = {}
        for number, v in enumerate(self.hosts.tolist()):
            name = base = self.host_name(number)
            at = number
            while name in found:
                name, at = f"{base}~{at}", at + 1
            if name != base:
                lost.mark("names", np.array([v]))
            found[name] = None
        return list(found)

    def properties(self, v: int) -> dict[str, PropertyValue]:
        return dict(self.structure.kind_of(v).properties)

    @cached_property
    def _plain(self) -> Mask:
        """By vertex, whether its label is its id: it has one, and its name is basename and id."""
        s = self.structure
        of_kind = [kind.name is None and LABEL not in dict(kind.properties) for kind in s.kinds]
        plain: Mask = np.array(of_kind)[s.kind] & (s.id >= 0)
        plain[np.fromiter(s.names, np.int64, len(s.names))] = False
        return plain

    def labels(self, vertices: Vertices) -> list[str] | range:
        """The labels of pools: the label kept for it, its id, or else its name; a range if they are consecutive numbers."""
        ids, plain = self.structure.id[vertices], self._plain[vertices]
        if plain.all():
            first = int(ids[0])
            return range(first, first + len(ids)) if (np.diff(ids) == 1).all() else list(map(str, ids.tolist()))
        return [
            str(number) if is_plain else self._label(v)
            for v, number, is_plain in zip(vertices.tolist(), ids.tolist(), plain.tolist(), strict=True)
        ]

    def is_sum(self, share: Share) -> bool:
        """Whether this is an amount and not labelled: one pool without a label or with a size, or several with a unit."""
        s, first = self.structure, int(share.vertices[0])
        if share.type in COUNTED:
            return False
        if len(share.vertices) == 1:
            is_bare = s.id.item(first) < 0 and LABEL not in self.properties(first) and s.name(first) == share.type
            return is_bare or s.size.item(first) != 1
        return any(s.kinds[number].unit is not None for number in np.unique(s.kind[share.vertices]).tolist())

    def distinct(self, vertices: Vertices, lost: Lost) -> list[str] | range:
        """The labels of pools on one host, renumbered where one occurs twice."""
        labels = self.labels(vertices)
        if isinstance(labels, range) or len(set(labels)) == len(labels):
            return labels
        self.relabelled("ids", vertices, lost)
        return range(len(vertices))

    def relabelled(self, fact: Fact, vertices: Vertices, lost: Lost) -> None:
        """Record that pools are read back with other labels; for a label kept besides a name, both change."""
        lost.mark(fact, vertices)
        keeps = np.array([any(key == LABEL for key, _ in kind.properties) for kind in self.structure.kinds])
        kept = vertices[keeps[self.structure.kind[vertices]]]
        lost.mark("names", kept)
        lost.mark("properties", kept)

    def _label(self, v: int) -> str:
        kept = self.properties(v).get(LABEL)
        return kept if isinstance(kept, str) else self.structure.name(v)

    def words(self, clean: Callable[[str], str]) -> tuple[dict[str, str], list[str]]:
        """The format's word for each written type, and messages about types that are read back as another.

        Args:
            clean: turns any word into one that the format allows, and leaves an allowed one unchanged.
        """
        types = list(dict.fromkeys(share.type for shares in self.shares for share in shares))
        found: dict[str, str] = {}
        taken: set[str] = set()
        for type_name in types:
            word = type_name[:-1] if type_name.endswith("_") and type_name[:-1] in RESERVED else type_name
            meant = _WORDS.get(word, word)
            word = base = clean(word if meant in types else meant)
            number = 1
            while word in taken:
                number += 1
                word = clean(f"{base}{number}")
            found[type_name] = word
            taken.add(word)
        try:
            back = types_of(found.values(), "")
        except InputError:
            back = {}
        renamed = [f"pools: type {name} is written as {word}" for name, word in found.items() if back.get(word) != name]
        return found, renamed

    def left_out(self, allocations: Sequence[Hold], carries: frozenset[Fact], lost: Lost, more: Sequence[str] = ()) -> list[str]:
        """What a format cannot express of the machine.

        Args:
            carries: facts that it can express of hosts and written pools, except for `lost`.
            more: further messages of the format.
        """
        s = self.structure
        kept = self.written | lost.between
        kept[self.hosts] = True
        kept[0] = True
        missing = ~kept
        missing[s.tree_end :] = False
        found = losses.concern(s, "pools", missing)
        found += losses.concern(s, "pools", lost.moved & kept, "the places")
        if self.hosts[0] == 0:
            found.append(f"pools: {s.where(0)} will be in a cluster when it is read")
        found += more
        lost.mark("ids", np.flatnonzero(self._ids_lost()))
        if "properties" not in carries:
            lost.mark("properties", np.flatnonzero(self._described()))
        lost.mark("basenames", np.flatnonzero(self._based() & ~lost.between))
        for fact, mask in lost.facts.items():
            found += losses.concern(s, fact, mask & kept)
        # A unit with no slots is down, because no pool has size 0; this state need not be reported.
        ghosts = np.array([any(key == SLOTS for key, _ in kind.properties) for kind in s.kinds])[s.kind]
        found += losses.lines(s, allocations, carries | {*lost.facts, "ids", "basenames", "properties"}, within=kept & ~ghosts)
        return list(dict.fromkeys(found))

    def _based(self) -> Mask:
        """Pools whose basename is not their type."""
        found: Mask = np.array([kind.basename != kind.type for kind in self.structure.kinds])[self.structure.kind]
        return found

    def _described(self) -> Mask:
        kinds = self.structure.kinds
        found: Mask = np.array([any(key not in self.marks for key, _ in kind.properties) for kind in kinds])[self.structure.kind]
        return found

    def _ids_lost(self) -> Mask:
        """Pools with both an explicit name and an id, and hosts whose id does not follow from their name."""
        s = self.structure
        lost: Mask = self.written & (s.id >= 0) & ~self._plain
        for number, v in enumerate(self.hosts.tolist()):
            regular = regular_names([s.name(v)])
            lost[v] = s.id.item(v) != (number if regular is None else int(regular[1][0]))
        lost[0] = s.id.item(0) >= 0 and self.hosts[0] != 0
        return lost


def _topmost(s: Structure, vertices: Vertices) -> Mask:
    """Which of these vertices, ascending, are not below another of them."""
    if not len(vertices):
        return np.zeros(0, np.bool_)
    reach = np.maximum.accumulate(s.end[vertices])
    return np.concatenate([[True], vertices[1:] >= reach[:-1]])
