"""Read TreePool (RFC 49): the positions of cores and gpus in a node, given once for ranks with equal topology.

What a job has is only in R_lite; the topologies are those of complete nodes. So a core that is not in R_lite is left out here,
and so is a domain that becomes empty.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NoReturn

import msgspec
import numpy as np
from numpy.typing import NDArray

from fluxres import limits
from fluxres.documents import json_typed
from fluxres.documents.document import Key, shown
from fluxres.documents.source import Source
from fluxres.errors import ErrorPlace, InputError, LimitExceeded
from fluxres.formats.flux.ranks import NO_IDS, BlockRows, Ids, Spans, count_of, members, positions
from fluxres.formats.flux.resource_set_schema import Storage, TreePool
from fluxres.formats.format import Fail
from fluxres.graph.kinds import Kind, KindTable
from fluxres.syntax import idset

RESOURCES: Final = {"cores": "core", "gpus": "gpu"}
"""Keys of a domain that list ids, and the pool types of these."""
MEMORY_UNIT: Final = "GiB"
DOMAINS_MAX: Final = 65_536
"""Maximal number of domains of one node: sockets, NUMA nodes and other levels; real nodes have a few dozen."""


class Topologies:
    """The entries of a TreePool.

    Attributes:
        entry: number of the entry of each rank.
    """

    def __init__(self, source: Source, pool: TreePool, ranks: NDArray[np.int64]) -> None:
        self._source, self._pool = source, pool
        found, numbers = [], []
        total = 0
        for i, entry in enumerate(pool.children):
            with ErrorPlace(partial(self.where, [i, "ranks"])):
                spans = idset.ranges(str(entry.ranks))
            total += count_of(spans)
            if total > len(ranks):
                self.fail([i, "ranks"], f"topologies of more ranks than R_lite has ({len(ranks)})")
            found.append(members(spans))
            numbers.append(np.full(count_of(spans), i))
        every = np.concatenate([NO_IDS, *found])
        order = np.argsort(every, kind="stable")
        if len(np.unique(every)) != len(ranks):
            self.fail([], f"topologies of {len(np.unique(every))} ranks, but R_lite has {len(ranks)}", "each rank needs one")
        # The ranks may be those of the parent instance, in the same order; nothing else identifies the nodes.
        self.entry = np.concatenate([NO_IDS, *numbers])[order]

    def where(self, path: Sequence[Key]) -> str:
        return json_typed.where(self._source, ["scheduling", "children", *path])

    def fail(self, path: Sequence[Key], message: str, hint: str = "") -> NoReturn:
        raise InputError(message, where=self.where(path), hint=hint)

    def add_to(self, rows: BlockRows, kinds: KindTable, entry: int, children: Mapping[str, Ids]) -> None:
        """Add the content of a node with the topology of an entry and these children in R_lite."""
        node = _Node(rows, kinds, children, self.where, self.fail)
        node.add(0, self._pool.children[entry].topo, [entry, "topo"], 0)
        for type_, ids in children.items():
            if node.left[type_].any():
                rows.add(0, kinds.intern(Kind(type_, type_)), ids[node.left[type_]])


class _Node:
    """Collects the rows of one node."""

    def __init__(
        self,
        rows: BlockRows,
        kinds: KindTable,
        children: Mapping[str, Ids],
        where: Callable[[Sequence[Key]], str],
        fail: Fail,
    ) -> None:
        self._rows, self._kinds, self._children, self._where, self._fail = rows, kinds, children, where, fail
        #: by type, which of its ids are in no domain so far
        self.left = {type_: np.ones(len(ids), np.bool_) for type_, ids in children.items()}
        self._numbers: dict[str, int] = {}
        self._domains = 0

    def add(self, parent: int, domain: Mapping[str, Any], path: list[Key], level: int) -> None:
        self._domains += 1
        if level > limits.DEPTH_MAX - 4 or self._domains > DOMAINS_MAX:
            raise LimitExceeded(f"more than {DOMAINS_MAX} domains, or {limits.DEPTH_MAX} levels of them", where=self._where(path))
        for key, value in domain.items():
            place = [*path, key]
            if key in RESOURCES:
                type_ = RESOURCES[key]
                self._rows.add(parent, self._kinds.intern(Kind(type_, type_)), self._taken(value, place, type_))
            elif key == "memory":
                if type(value) is not int or not 1 <= value <= limits.SIZE_MAX:
                    self._fail(place, f"expected GiB, an int >= 1, got {shown(value)}")
                self._rows.add(parent, self._kinds.intern(Kind("memory", "memory", MEMORY_UNIT)), np.array([-1]), value)
            elif key == "storage":
                if level:
                    self._fail(place, "storage belongs to a node, not to a domain in it")
                self._add_storage(value, place)
            else:
                self._add_domains(parent, key, value, place, level)

    def _add_domains(self, parent: int, key: str, value: Any, path: list[Key], level: int) -> None:
        if not key or len(key) > limits.NAME_LENGTH_MAX or "/" in key or not key.isprintable():
            self._fail(path, f"{shown(key)} is not a valid pool type")
        if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
            hint = f"the resources are {', '.join(RESOURCES)}, memory and storage"
            self._fail(path, f"expected a list of domains named {key!r}, got {shown(value)}", hint)
        kind = self._kinds.intern(Kind(key, key))
        for i, domain in enumerate(value):
            number = self._numbers[key] = self._numbers.get(key, -1) + 1
            if self._has_something(domain):
                row = self._rows.add(parent, kind, np.array([number]))
                self.add(row, domain, [*path, i], level + 1)
                self._rows.close(row)

    def _has_something(self, domain: Mapping[str, Any]) -> bool:
        """Whether R_lite has one of the ids in a domain, or the domain lists none."""
        is_named = False
        todo: list[Mapping[str, Any]] = [domain]
        while todo:
            for key, value in todo.pop().items():
                if key in RESOURCES:
                    is_named = True
                    ids = self._children.get(RESOURCES[key], NO_IDS)
                    if len(positions(_spans(value), ids)):
                        return True
                elif isinstance(value, list) and key != "storage":
                    todo += [each for each in value if isinstance(each, dict)]
        return not is_named

    def _taken(self, value: Any, path: list[Key], type_: str) -> Ids:
        """The ids of an idset that R_lite has, which must not be in another domain."""
        if not isinstance(value, str) and type(value) is not int:
            self._fail(path, f"expected an idset, got {shown(value)}")
        with ErrorPlace(partial(self._where, path)):
            spans = idset.ranges(str(value))
        ids = self._children.get(type_, NO_IDS)
        at = positions(spans, ids)
        if len(at):
            if not self.left[type_][at].all():
                self._fail(path, f"{type_} {ids[at][~self.left[type_][at]][0]} is in two domains")
            self.left[type_][at] = False
        taken: Ids = ids[at]
        return taken

    def _add_storage(self, value: Any, path: list[Key]) -> None:
        if not isinstance(value, list):
            self._fail(path, f"expected a list, got {shown(value)}")
        for i, each in enumerate(value):
            try:
                storage = msgspec.convert(each, Storage)
            except msgspec.ValidationError as error:
                self._fail([*path, i], str(error), "storage has a path, a capacity and optionally a unit")
            kind = Kind("storage", "storage", storage.unit, None, (("path", storage.path),))
            self._rows.add(0, self._kinds.intern(kind), np.array([i]), storage.capacity)


def _spans(value: Any) -> Spans:
    try:
        return idset.ranges(str(value))
    except InputError:
        return []  # an error is reported with its place when the domain is read
