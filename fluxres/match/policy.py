"""Policies: in which order candidates are tried. The first match in that order is the match, so a policy is nothing else.

A policy gives each candidate a score, low first, and ties go to the lower vertex number. `low` and `high` need no score: they are
the vertex number, up or down. Vertices are numbered in pre-order, so the pools of a node follow each other, and the
node-centric `lonode` and `hinode` are these two orders.

A policy of one's own is one function of a situation and some vertices:

>>> def by_rank(situation, vertices):
...     return -situation.structure.rank[vertices]
>>> Policy("highest-rank", score=by_rank).descending
False
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from fluxres.errors import UsageError

if TYPE_CHECKING:
    from fluxres.match.situation import Situation

Score = Callable[["Situation", NDArray[np.int32]], NDArray[Any]]
"""Scores of ascending vertices of one type: low first. A score must depend on its vertex alone, not on the others."""

PERFORMANCE_CLASS: Final = "perf_class"
"""The property that `variation` sorts by."""


@dataclass(frozen=True, slots=True)
class Policy:
    """An order of candidates.

    Args:
        name: for messages and the stamp of a match.
        descending: highest vertex number first; without a score only.
        node_exclusive: any node of which something is taken is taken whole.
        score: low first; ties by ascending vertex number.
        near: nodes are chosen close together (`nearest.py`); everything else ascending.
        by_node: the score is the same for all pools of a node.
        evened: each instance of a slot goes to the node with the most room left, and not to the first with any.
    """

    name: str
    descending: bool = False
    node_exclusive: bool = False
    score: Score | None = None
    near: bool = False
    by_node: bool = False
    evened: bool = False

    def order(self, situation: Situation, vertices: NDArray[np.int32]) -> NDArray[np.int32]:
        """Candidates (ascending vertices of one type) in the order in which they are to be tried.

        Errors: UsageError for a score that is not one number for each candidate.
        """
        if self.score is None:
            return vertices[::-1] if self.descending else vertices
        return vertices[np.argsort(self.scores(situation, vertices), kind="stable")]

    def scores(self, situation: Situation, vertices: NDArray[np.int32]) -> NDArray[Any]:
        """What the score function gives, checked."""
        assert self.score is not None  # callers ask only where there is one
        found = np.asarray(self.score(situation, vertices))
        if found.shape != vertices.shape or found.dtype.kind not in "biuf":
            raise UsageError(
                f"expected one number for each of {len(vertices)} candidates, got {found.dtype} of shape {found.shape}",
                where=f"policy {self.name}",
            )
        return found


def _variation(situation: Situation, vertices: NDArray[np.int32]) -> NDArray[Any]:
    return situation.performance_class(vertices)


def _pack(situation: Situation, vertices: NDArray[np.int32]) -> NDArray[Any]:
    return situation.room(vertices)


def _spread(situation: Situation, vertices: NDArray[np.int32]) -> NDArray[Any]:
    return -situation.room(vertices)


_ORDERS: Final = {
    "first": Policy("first"),
    "low": Policy("low"),
    "high": Policy("high", descending=True),
    "lonode": Policy("lonode"),
    "hinode": Policy("hinode", descending=True),
    "locality": Policy("locality", near=True),
    "variation": Policy("variation", score=_variation),
    "pack": Policy("pack", score=_pack, by_node=True),
    "spread": Policy("spread", score=_spread, by_node=True, evened=True),
}
_NODE_EXCLUSIVE: Final = {
    "firstnodex": "first",
    "lownodex": "low",
    "highnodex": "high",
    "lonodex": "lonode",
    "hinodex": "hinode",
}
POLICIES: Final[dict[str, Policy]] = _ORDERS | {
    name: Policy(name, descending=_ORDERS[base].descending, node_exclusive=True) for name, base in _NODE_EXCLUSIVE.items()
}


def policy(given: str | Policy) -> Policy:
    """The policy of this name, or the given one.

    Errors: UsageError with the names there are.

    >>> policy("hinodex").descending, policy("hinodex").node_exclusive
    (True, True)
    """
    if isinstance(given, Policy):
        return given
    found = POLICIES.get(given) if isinstance(given, str) else None
    if found is None:
        raise UsageError(f"no match policy {given!r}", hint=f"there is {', '.join(POLICIES)}, or a Policy of your own")
    return found
