"""Fluxion's match policies, by name or option string: which of several candidates a match takes.

A policy is a score of a vertex and an order of scores. `first` and similar policies also end the search as soon as there are
enough candidates. A policy has three orders: below a matched vertex, within a slot, and at the root of the graph.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from fluxres.errors import UsageError
from fluxres.fluxion.graph import Vertex
from fluxres.fluxion.scores import Scores

_MET = 1
_NO_CLASS: Final = 9999
"""Performance class of a vertex without one."""


def _descending(score: int) -> int:
    return -score


def _ascending(score: int) -> int:
    return score


@dataclass(frozen=True)
class Policy:
    """A match policy.

    Args:
        low: prefer low ids.
        node_centric: score everything below a node by its node first.
        node_exclusive: allocate nodes exclusively, with all below them.
        stop_on_1_matches: end the search as soon as there are enough candidates.
        locality: prefer candidates with neighbouring scores.
        variation: score by performance class.
    """

    low: bool = False
    node_centric: bool = False
    node_exclusive: bool = False
    stop_on_1_matches: bool = False
    locality: bool = False
    variation: bool = False

    def score(self, vertex: Vertex, enclosing: int) -> int:
        """The score of a vertex, including the scores of its enclosing levels."""
        if self.variation:
            return _MET + performance_class(vertex)
        return _MET + enclosing + vertex.id + 1

    def level(self, vertex: Vertex) -> int:
        """The amount that a vertex adds to the scores of all below it."""
        if not self.node_centric or vertex.type != "node":
            return 0
        return (vertex.id + 2) * 10_000 + abs(vertex.uniq_id % 10_000 - 1)

    def order(self) -> Callable[[int], int]:
        """Sort key for scores below a matched vertex."""
        return _ascending if self.low or self.variation else _descending

    def sort_slot(self, scores: Scores) -> None:
        key = _ascending if self.low else _descending
        for type_ in scores.found:
            scores.sort(type_, key)

    def sort_top(self, scores: Scores, type_: str) -> None:
        """Sort candidates at the root of the graph."""
        if not self.locality:
            scores.sort(type_, self.order())
            return
        blocks: dict[int, int] = {}
        for score in sorted({candidate.score for candidate in scores.found.get(type_, ())}):
            blocks[score] = blocks.get(score - 1, score)
        scores.sort(type_, lambda score: -blocks[score])


def performance_class(vertex: Vertex) -> int:
    """The class of a vertex from its property `perf_class`; the worst if it is not 1 to 9999."""
    text = vertex.properties.get("perf_class", "").strip()
    digits = text[: len(text) - len(text.lstrip("0123456789"))]
    number = int(digits) if digits and len(digits) <= len(str(_NO_CLASS)) else 0
    return number if 0 < number <= _NO_CLASS else _NO_CLASS


_FIRST = Policy(node_centric=True, stop_on_1_matches=True)
POLICIES: Final[dict[str, Policy]] = {
    "first": _FIRST,
    "firstnodex": replace(_FIRST, node_exclusive=True),
    "high": Policy(),
    "low": Policy(low=True),
    "lonode": Policy(low=True, node_centric=True),
    "hinode": Policy(node_centric=True),
    "lonodex": Policy(low=True, node_centric=True, node_exclusive=True),
    "hinodex": Policy(node_centric=True, node_exclusive=True),
    "locality": Policy(locality=True),
    "variation": Policy(variation=True),
}
"""The policies by name."""
_FLAGS = ("node_centric", "node_exclusive", "stop_on_1_matches")


def parse(text: str) -> Policy:
    """The policy with this name or option string.

    Errors: UsageError for anything else.

    >>> parse("hinodex") == parse("policy=high node_centric=true node_exclusive=true")
    True
    """
    if text in POLICIES:
        return POLICIES[text]
    policy = Policy()
    chosen = False
    for word in text.split():
        key, _, value = word.partition("=")
        if key == "policy" and value in ("high", "low"):
            policy, chosen = replace(policy, low=value == "low"), True
        elif key in _FLAGS and value in ("true", "false"):
            policy, chosen = replace(policy, **{key: value == "true"}), True
        else:
            known = ", ".join(POLICIES)
            raise UsageError(
                f"unknown match policy {text!r}: {word!r} is neither a policy nor an option",
                hint=f"one of {known}, or policy=high|low {' '.join(f'{flag}=true|false' for flag in _FLAGS)}",
            )
    if not chosen:
        raise UsageError("the match policy is empty")
    return policy
