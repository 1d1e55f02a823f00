"""The size of jobs in units of one type, and the numbers of these units.

One job may hold nodes exclusively, and another some cores of a node.  To add up or to plot their sizes, both are measured in
units of one type.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from fluxres.graph.kinds import WAY
from fluxres.syntax import idset

if TYPE_CHECKING:
    from fluxres.graph.structure import Structure
    from fluxres.syntax.jobspec import Request

_DEFAULT_TYPES: Final = ("core", "node")


def requested_units(request: Request, type_name: str) -> int:
    """The least size of a request in units of a type; of the type with the most units, if it does not contain that type.

    >>> from fluxres.syntax.jobspec import as_request
    >>> wanted = as_request("slot=3/node/[core=2;gpu=1]")
    >>> requested_units(wanted, "core"), requested_units(wanted, "node"), requested_units(wanted, "rack")
    (6, 3, 6)
    """
    found: Counter[str] = Counter()
    todo = [(vertex, 1) for vertex in request.resources]
    while todo:
        vertex, times = todo.pop()
        number = times * vertex.count.min
        if not vertex.is_slot:
            found[vertex.type] += number
        todo += [(child, number) for child in vertex.children]
    return found[type_name] or max(found.values(), default=0)


class Measure:
    """Measures allocations in units of one type.

    Args:
        type_name: default: core, else node, else the last type of the machine.

    Cost: O(pools), once.
    """

    __slots__ = ("_ends", "_prefix", "_vertices", "has_numbers", "size", "type")

    def __init__(self, structure: Structure, type_name: str | None = None) -> None:
        types = structure.types
        self.type = type_name or next((name for name in _DEFAULT_TYPES if name in types), types[-1])
        found = structure.of_type(self.type)
        self._vertices: NDArray[np.int32] = found[(structure.flags[found] & WAY) == 0]
        sizes = structure.size[self._vertices]
        self._prefix = np.concatenate([[0], np.cumsum(sizes)])
        self._ends = structure.end
        self.size = int(self._prefix[-1])
        self.has_numbers = bool((sizes == 1).all())

    def units(self, vertices: NDArray[np.int32], amounts: NDArray[np.int64], sizes: NDArray[np.int64]) -> int:
        """The units of the type in an allocation, including those held implicitly below exclusive pools.

        Args:
            sizes: the sizes of these pools.
        """
        first, stop = self._inside(vertices)
        own = (
            (stop > first) & (self._vertices[np.minimum(first, len(self._vertices) - 1)] == vertices)
            if len(self._vertices)
            else first < 0
        )
        whole = ~own & (amounts == sizes)
        return int(amounts[own].sum()) + int((self._prefix[stop[whole]] - self._prefix[first[whole]]).sum())

    def _inside(self, vertices: NDArray[np.int32]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The range of pools of the type in each of these pools."""
        return np.searchsorted(self._vertices, vertices), np.searchsorted(self._vertices, self._ends[vertices])

    def ids(self, vertices: NDArray[np.int32]) -> str:
        """The idset of the pools of the type in these pools, numbered through the machine; empty unless all have size 1."""
        if not self.has_numbers or not len(vertices):
            return ""
        first, stop = self._inside(vertices)
        return idset.format(at for low, high in zip(first.tolist(), stop.tolist(), strict=True) for at in range(low, high))
