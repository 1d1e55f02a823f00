"""Requests that found nothing, so that a pass does not search again for them, for more of the same, or for longer.

A queue of a thousand jobs that wait for nodes then costs a few searches, not a thousand.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

from msgspec import structs

from fluxres.syntax.count import exactly
from fluxres.syntax.jobspec import Request
from fluxres.syntax.vertex import Vertex


class Wanted(NamedTuple):
    """A request as a number of something.

    Args:
        kind: equal for requests that differ only in their number.
        number: how many; 1 for a request of which there is no more or less.
    """

    kind: int
    number: int


class Wants:
    """Numbers kinds of requests.

    Args:
        is_divided: whether more of the same is the same kind, so that what found no room for one finds none for two.

    >>> from fluxres.syntax.jobspec import as_request
    >>> wants = Wants()
    >>> wants.of(as_request("slot=4/node")), wants.of(as_request("slot=9/node")), wants.of(as_request("slot=9/core"))
    (Wanted(kind=0, number=4), Wanted(kind=0, number=9), Wanted(kind=1, number=9))
    """

    KEPT = 4096
    """Requests remembered by identity."""

    def __init__(self, *, is_divided: bool = True) -> None:
        self._is_divided = is_divided
        self._kinds: dict[object, int] = {}
        self._known: dict[int, tuple[Request, Wanted]] = {}

    def of(self, request: Request) -> Wanted:
        known = self._known.get(id(request))
        if known is None or known[0] is not request:
            if len(self._known) >= self.KEPT:
                self._known.clear()
            resources, number = _divided(request) if self._is_divided else (request.resources, 1)
            kind = self._kinds.setdefault((resources, *beside(request)), len(self._kinds))
            known = self._known[id(request)] = request, Wanted(kind, number)
        return known[1]


def beside(request: Request) -> tuple[object, ...]:
    """What a request asks for beside its resources, for comparison with other requests."""
    queue = request.system.get("queue", "") if request.attributes else ""
    return request.constraint, request.parts, queue, request.chooser


def _divided(request: Request) -> tuple[tuple[Vertex, ...], int]:
    """The resources of a request for one, and how many it asks for; as they are, where less may not fit although more does,
    since a rule of another system or a route depends on the number.
    """
    if len(request.resources) != 1 or request.parts or request.chooser is not None:
        return request.resources, 1
    top = request.resources[0]
    if not top.count.fixed or any(vertex.is_directed or vertex.ids is not None for vertex in request.vertices()):
        return request.resources, 1
    return (structs.replace(top, count=exactly(1)),), top.count.fixed


class Refused:
    """Requests that found nothing, each with the duration for which there was nothing.

    >>> refused = Refused()
    >>> refused.add(Wanted(0, 4), 100)
    >>> refused.includes(Wanted(0, 4), 100), refused.includes(Wanted(0, 5), 200), refused.includes(Wanted(0, 5), 99)
    (True, True, False)
    >>> refused.includes(Wanted(0, 3), 200), refused.includes(Wanted(1, 5), 200)
    (False, False)
    """

    __slots__ = ("_of_kind",)

    def __init__(self) -> None:
        self._of_kind: dict[int, tuple[list[int], list[int]]] = {}
        """By kind, ascending numbers and for each the shortest duration, descending."""

    def __bool__(self) -> bool:
        return bool(self._of_kind)

    def includes(self, wanted: Wanted, duration: int) -> bool:
        """Whether as much or less found nothing for as long or for a shorter time."""
        known = self._of_kind.get(wanted.kind)
        if known is None:
            return False
        at = bisect_right(known[0], wanted.number)
        return at > 0 and known[1][at - 1] <= duration

    def add(self, wanted: Wanted, duration: int) -> None:
        if self.includes(wanted, duration):
            return
        numbers, durations = self._of_kind.setdefault(wanted.kind, ([], []))
        at = stop = bisect_right(numbers, wanted.number)
        if at and numbers[at - 1] == wanted.number:
            at -= 1
        while stop < len(numbers) and durations[stop] >= duration:
            stop += 1
        numbers[at:stop], durations[at:stop] = [wanted.number], [duration]

    def clear(self) -> None:
        self._of_kind.clear()
