"""What a resource set says about its ranks.

The content of a node becomes rows that are written once and copied for every rank with the same content; a list of hosts becomes
the names of nodes, and ranks by property become properties by node.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fluxres import limits
from fluxres.documents import json_typed
from fluxres.documents.document import excerpt
from fluxres.documents.source import Source
from fluxres.errors import InputError, LimitExceeded
from fluxres.graph.auxiliary import Int32
from fluxres.graph.identity import repeated
from fluxres.graph.kinds import Kind, KindTable, require_draws
from fluxres.graph.structure import COLUMNS, Structure
from fluxres.syntax import idset
from fluxres.syntax.constraint import RESERVED
from fluxres.syntax.hostlist import Expression


@dataclass(frozen=True)
class Block:
    """A node and its content, in pre-order; row 0 is the node.

    Args:
        parent: row in the block, int32; undefined for row 0.
        end: one past the last descendant, as row in the block, int32.
        kind, id, size: of each row.
    """

    parent: Int32
    end: Int32
    kind: Int32
    id: NDArray[np.int64]
    size: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.parent)


class BlockRows:
    """Collects the rows of a block; those of a level follow their parent."""

    def __init__(self, kinds: KindTable, node: int) -> None:
        self._kinds = kinds
        self._rows: list[tuple[int, NDArray[np.int32], NDArray[np.int64], NDArray[np.int64]]] = []
        self._ends: list[tuple[int, int]] = []
        self._n = 0
        self.add(0, node, np.array([-1]))

    def add(self, parent: int, kind: int, ids: NDArray[np.int64], size: int = 1) -> int:
        """Add equal pools below a row and return the first row. Pools with children must be added one by one."""
        first = self._n
        count = len(ids)
        self._rows.append((parent, np.full(count, kind, np.int32), ids, np.full(count, size, np.int64)))
        self._n += count
        return first

    def close(self, row: int) -> None:
        """Declare that everything below this row has been added."""
        self._ends.append((row, self._n))

    def block(self) -> Block:
        """The finished block.

        Errors: InputError for two siblings with the same name.
        """
        self.close(0)
        parent = np.concatenate([np.full(len(ids), above, np.int32) for above, _, ids, _ in self._rows])
        end = np.arange(1, self._n + 1, dtype=np.int32)
        for row, stop in self._ends:
            end[row] = stop
        kind, ids, size = (np.concatenate([row[i] for row in self._rows]) for i in (1, 2, 3))
        self._require_distinct(parent, kind, ids)
        return Block(parent, end, kind, ids, size)

    def _require_distinct(self, parent: Int32, kind: Int32, ids: NDArray[np.int64]) -> None:
        basenames = [self._kinds[number].basename for number in range(len(self._kinds))]
        numbers = {basename: i for i, basename in enumerate(dict.fromkeys(basenames))}
        base = np.array([numbers[basename] for basename in basenames])[kind]
        again = repeated(parent, base, ids)[:1].tolist()
        if not again and any(basename[-1].isdigit() for basename in basenames):
            seen: set[tuple[int, str]] = set()
            for row, place in enumerate(zip(parent.tolist(), self._names(basenames, kind, ids), strict=True)):
                if place in seen:
                    again = [row]
                seen.add(place)
        if again:
            name = self._names(basenames, kind[again], ids[again])[0]
            raise InputError(f"two siblings are named {name!r}")

    @staticmethod
    def _names(basenames: list[str], kind: Int32, ids: NDArray[np.int64]) -> list[str]:
        return [basenames[k] if i < 0 else f"{basenames[k]}{i}" for k, i in zip(kind.tolist(), ids.tolist(), strict=True)]


def fill(blocks: Sequence[tuple[Block, int]], ranks: NDArray[np.int64], kinds: KindTable, origin: int) -> tuple[Structure, Int32]:
    """A cluster of nodes.

    Args:
        blocks: the content of each of a number of consecutive ranks.
        ranks: of all nodes, in order.
        origin: base of the uuids.

    Returns the structure and the vertex of each node.
    Errors: LimitExceeded past POOLS_MAX.
    Cost: O(pools) array writes and O(len(blocks)) Python.
    """
    n = 1 + sum(len(block) * count for block, count in blocks)
    if n > limits.POOLS_MAX:
        raise LimitExceeded(f"{n} pools in all, at most {limits.POOLS_MAX} are allowed")
    columns = {name: np.zeros(n, dtype) for name, dtype in COLUMNS.items()}
    columns["parent"][0], columns["end"][0], columns["rank"][0], columns["size"][0] = -1, n, -1, 1
    columns["kind"][0] = kinds.intern(Kind("cluster", "cluster"))
    nodes = np.empty(len(ranks), np.int32)
    at, first = 1, 0
    for block, count in blocks:
        length = len(block)
        rows = slice(at, at + length * count)
        starts = at + length * np.arange(count, dtype=np.int32)
        nodes[first : first + count] = starts
        for name, values in (("kind", block.kind), ("id", block.id), ("size", block.size)):
            columns[name][rows].reshape(count, length)[:] = values
        for name, relative in (("parent", block.parent), ("end", block.end)):
            np.add(starts[:, None], relative, out=columns[name][rows].reshape(count, length))
        columns["parent"][starts] = 0
        columns["rank"][rows].reshape(count, length)[:] = ranks[first : first + count, None]
        at, first = at + length * count, first + count
    columns["serial"][:] = np.arange(n)
    return Structure(columns, kinds, origins=[origin]), nodes


_DIGITS: Final = "0123456789"
_DIGITS_MAX: Final = 18
HOST: Final = "host"
"""Tag of a node that is not named after its host because the host has other nodes too."""


@dataclass(frozen=True)
class Hosts:
    """Nodes in the order of their hosts.

    Args:
        ids: the number at the end of each name, -1 without one.
        template: of all names; None if the names are in `names`, or are ``node`` and the id.
        names: by position, if no template gives them.
        shared: host by position, of nodes that could not be named after it.
    """

    ids: NDArray[np.int64]
    template: str | None = None
    names: dict[int, str] = field(default_factory=dict)
    shared: dict[int, str] = field(default_factory=dict)


def require_path_steps(expressions: Sequence[Expression]) -> None:
    """Refuse hosts that could not be a step of a path.

    Errors: InputError with the name.
    """
    for expression in expressions:
        if "/" in expression.prefix or "/" in expression.suffix:
            host = excerpt(expression.prefix + expression.suffix)
            raise InputError(f"the host {host} has a '/'", hint="a name is one step of a path")


def hosts_of(expressions: Sequence[Expression], ranks: NDArray[np.int64]) -> Hosts:
    """The nodes of these hosts, of which there are as many as ranks.

    Two brokers may run on one host, but two siblings need two names: the second is ``HOST@RANK``, and its host a tag.

    Cost: O(expressions) for hosts that one template names, O(hosts) otherwise.

    >>> from fluxres.syntax import hostlist
    >>> hosts_of(hostlist.expressions("n[08-10]"), np.arange(3)).template
    'n${id:02}'
    """
    regular = _regular(expressions)
    if regular is not None and len(np.unique(regular[1])) == len(regular[1]):
        return Hosts(regular[1], None if regular[0] == "node${id}" else regular[0])
    names: dict[int, str] = {}
    shared: dict[int, str] = {}
    ids = np.full(len(ranks), -1, np.int64)
    taken: set[str] = set()
    for i, host in enumerate(host for expression in expressions for host in expression):
        digits = host[len(host.rstrip(_DIGITS)) :]
        if 0 < len(digits) <= _DIGITS_MAX:
            ids[i] = int(digits)
        name = host
        while name in taken:
            name = f"{name}@{ranks[i]}"
            shared[i] = host
        taken.add(name)
        names[i] = name
    return Hosts(ids, None, names, shared)


def _regular(expressions: Sequence[Expression]) -> tuple[str, NDArray[np.int64]] | None:
    """Template and numbers of hosts that differ in one number at the end."""
    stems: set[str] = set()
    runs: list[tuple[int, int, int]] = []
    for expression in expressions:
        stem = expression.prefix
        if not expression.runs:
            stem = stem.rstrip(_DIGITS)
            digits = expression.prefix[len(stem) :]
            if not 0 < len(digits) <= _DIGITS_MAX:
                return None
            runs.append((int(digits), int(digits), len(digits)))
        elif expression.suffix or stem[-1:] in _DIGITS:
            return None
        runs.extend(expression.runs)
        stems.add(stem)
    widths = {width for _, _, width in runs}
    padded = any(width > len(str(first)) for first, _, width in runs)
    if len(stems) != 1 or (padded and len(widths) > 1) or any(last >= 10**_DIGITS_MAX for _, last, _ in runs):
        return None
    stem = stems.pop().replace("$", "$$")
    template = f"{stem}${{id:0{widths.pop()}}}" if padded else f"{stem}${{id}}"
    return template, np.concatenate([np.arange(first, last + 1, dtype=np.int64) for first, last, _ in runs])


BARRED: Final = RESERVED
Pairs = tuple[tuple[str, str | None], ...]


def properties_by_node(
    source: Source, given: Mapping[str, str], ranks: NDArray[np.int64]
) -> tuple[list[Pairs], NDArray[np.int64]]:
    """The distinct sets of properties, and the number of the set of each node.

    Args:
        given: idset of ranks by property; a value follows an equals sign.
        ranks: of the nodes, ascending.

    Errors: InputError for names that RFC 20 forbids and for ranks that do not exist; LimitExceeded past IDSET_COUNT_MAX
    memberships. Cost: O(memberships) array operations.
    """
    sort = np.zeros(len(ranks), np.int64)
    made: list[tuple[int, str]] = [(-1, "")]  # a set is another set and one more property
    total = 0
    for name, text in given.items():
        path = ["execution", "properties", name]
        if BARRED & set(name):
            barred = min(BARRED & set(name))
            raise InputError(f"{barred!r} in the name of a property", where=json_typed.where(source, path, key=True))
        require_draws(pairs_of([name]), partial(json_typed.where, source, path, key=True))
        try:
            spans = idset.ranges(text)
        except InputError as error:
            raise type(error)(error.message, where=json_typed.where(source, path), hint=error.hint) from None
        members = _positions(spans, ranks)
        if sum(last - first + 1 for first, last in spans) != len(members):
            lost = next(rank for first, last in spans for rank in range(first, last + 1) if not _has(ranks, rank))
            raise InputError(f"rank {lost} is in no entry of R_lite", where=json_typed.where(source, path))
        total += len(members)
        if total > limits.IDSET_COUNT_MAX:
            raise LimitExceeded(f"more than {limits.IDSET_COUNT_MAX} properties of nodes", where=json_typed.where(source, path))
        before, which = np.unique(sort[members], return_inverse=True)
        sort[members] = len(made) + which
        made += [(number, name) for number in before.tolist()]
    used, which = np.unique(sort, return_inverse=True)
    return [_pairs(made, number) for number in used.tolist()], which


def _positions(spans: list[tuple[int, int]], ranks: NDArray[np.int64]) -> NDArray[np.int64]:
    found = [np.arange(*np.searchsorted(ranks, [first, last + 1])) for first, last in spans]
    return np.concatenate(found) if found else np.zeros(0, np.int64)


def _has(ranks: NDArray[np.int64], rank: int) -> bool:
    at = int(np.searchsorted(ranks, rank))
    return at < len(ranks) and int(ranks[at]) == rank


def _pairs(made: list[tuple[int, str]], number: int) -> Pairs:
    names = []
    while number > 0:
        number, name = made[number]
        names.append(name)
    return pairs_of(names)


def pairs_of(names: Iterable[str]) -> Pairs:
    """Properties of a node from their names in R; a value follows an equals sign.

    >>> pairs_of(["gen=5", "ssd", "gen=4"])
    (('gen', '4'), ('gen=5', None), ('ssd', None))
    """
    pairs: dict[str, str | None] = {}
    for name in sorted(set(names)):
        key, equals, value = name.partition("=")
        if equals and key and value and key not in pairs:
            pairs[key] = value
        else:
            pairs[name] = None  # for a second value of one key, or no value at all, the whole word is the property
    return tuple(sorted(pairs.items()))
