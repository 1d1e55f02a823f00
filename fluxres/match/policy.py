"""Policies: the order in which candidates are tried.  The first match in that order is the result, so an order is all a policy
is.

A policy gives each candidate a score, low first; ties go to the lower vertex number.  `low` and `high` need no score: they are
the vertex number, ascending or descending.  Vertices are numbered in pre-order, so the pools of a node are adjacent, and the
node-centric `lonode` and `hinode` are the same two orders.

A custom policy is a function of a situation and some vertices:

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
"""Scores of ascending vertices of one type, low first. A score must depend on its own vertex only."""

PERFORMANCE_CLASS: Final = "perf_class"
"""The property that `variation` sorts by."""


@dataclass(frozen=True, slots=True)
class Policy:
    """An order of candidates.

    Args:
        name: for messages and the stamp of a match.
        descending: highest vertex number first; only without a score.
        node_exclusive: any node of which something is taken is taken exclusively.
        score: low first; ties by ascending vertex number.
        near: nodes are chosen close together (`nearest.py`); everything else ascending.
        by_node: the score is the same for all pools of a node.
        evened: each instance of a slot goes to the node with the most room left, not to the first with any.
    """

    name: str
    descending: bool = False
    node_exclusive: bool = False
    score: Score | None = None
    near: bool = False
    by_node: bool = False
    evened: bool = False

    def order(self, situation: Situation, vertices: NDArray[np.int32]) -> NDArray[np.int32]:
        """Candidates (ascending vertices of one type) in the order in which to try them.

        Errors: UsageError for a score that is not one number per candidate.
        """
        if self.score is None:
            return vertices[::-1] if self.descending else vertices
        return vertices[np.argsort(self.scores(situation, vertices), kind="stable")]

    def scores(self, situation: Situation, vertices: NDArray[np.int32]) -> NDArray[Any]:
        """The checked result of the score function."""
        assert self.score is not None  # callers check this
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
    """The policy with this name, or the given policy itself.

    Errors: UsageError listing the known names.

    >>> policy("hinodex").descending, policy("hinodex").node_exclusive
    (True, True)
    """
    if isinstance(given, Policy):
        return given
    found = POLICIES.get(given) if isinstance(given, str) else None
    if found is None:
        raise UsageError(f"no match policy {given!r}", hint=f"there is {', '.join(POLICIES)}, or pass a Policy")
    return found
