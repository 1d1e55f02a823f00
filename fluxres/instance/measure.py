"""How large a job is, in units of one type, and which of them it has.

A job may hold nodes whole and another one cores of a node; to add them up, or to draw them, one type is chosen and everything
is said in it.
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

_USUAL: Final = ("core", "node")


def asked(request: Request, type_name: str) -> int:
    """How large a request is at least, in units of a type; in those it asks most of, where it does not name the type.

    >>> from fluxres.syntax.jobspec import as_request
    >>> wanted = as_request("slot=3/node/[core=2;gpu=1]")
    >>> asked(wanted, "core"), asked(wanted, "node"), asked(wanted, "rack")
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
    """One type of a machine, as a measure.

    Args:
        structure: the machine.
        type_name: by default core, node, or the last type there is.

    Cost: O(pools), once.
    """

    __slots__ = ("_ends", "_prefix", "_vertices", "is_named", "size", "type")

    def __init__(self, structure: Structure, type_name: str | None = None) -> None:
        types = structure.types
        self.type = type_name or next((name for name in _USUAL if name in types), types[-1])
        found = structure.of_type(self.type)
        self._vertices: NDArray[np.int32] = found[(structure.flags[found] & WAY) == 0]
        sizes = structure.size[self._vertices]
        self._prefix = np.concatenate([[0], np.cumsum(sizes)])
        self._ends = structure.end
        self.size = int(self._prefix[-1])
        self.is_named = bool((sizes == 1).all())

    def units(self, vertices: NDArray[np.int32], amounts: NDArray[np.int64], sizes: NDArray[np.int64]) -> int:
        """Units of the type in what is held: its own, and those implied by whole pools.

        Args:
            sizes: of the pools.
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
        """Where the pools of the type in each of these begin and end."""
        return np.searchsorted(self._vertices, vertices), np.searchsorted(self._vertices, self._ends[vertices])

    def ids(self, vertices: NDArray[np.int32]) -> str:
        """Numbers of the pools of the type that are held, counted through the machine; empty where they are not told apart."""
        if not self.is_named or not len(vertices):
            return ""
        first, stop = self._inside(vertices)
        return idset.format(at for low, high in zip(first.tolist(), stop.tolist(), strict=True) for at in range(low, high))
