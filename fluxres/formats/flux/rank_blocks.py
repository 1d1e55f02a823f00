"""The content of a node of a resource set, as rows that are written once and copied for every rank with the same content."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fluxres import limits
from fluxres.errors import InputError, LimitExceeded
from fluxres.graph.auxiliary import Int32
from fluxres.graph.identity import repeated
from fluxres.graph.kinds import Kind, KindTable
from fluxres.graph.structure import COLUMNS, Structure


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
