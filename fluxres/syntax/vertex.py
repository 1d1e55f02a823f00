"""Resource vertices of a request (Flux RFC 14), each with those below it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from fluxres import limits
from fluxres.errors import InputError, LimitExceeded
from fluxres.syntax import idset
from fluxres.syntax.count import Count

SLOT: Final = "slot"


@dataclass(frozen=True, slots=True)
class Vertex:
    """One resource of a request, with what must be below it.

    `exclusive` is as written; `is_exclusive` is what holds: as written, else false outside slots, true for a slot
    and everything below (RFC 14). Build vertices by hand without it and pass them through :func:`settled`.
    """

    type: str
    count: Count
    unit: str | None = None
    exclusive: bool | None = None
    label: str | None = None
    ids: str | None = None
    """The RFC's `id`: text that names the acceptable ids."""
    children: tuple[Vertex, ...] = ()
    is_exclusive: bool = False
    to: str | None = None
    """The pool (path, URI or uuid, or a name in the graph) to which units of a graph are asked for. Not in RFC 14."""
    between: str | None = None
    """`node`: units of a graph are asked for between the nodes of the request. Not in RFC 14."""

    @property
    def is_directed(self) -> bool:
        """Whether it says where units of a graph lead."""
        return self.to is not None or self.between is not None

    @property
    def is_slot(self) -> bool:
        """Whether it only groups what is below it."""
        return self.type == SLOT

    @property
    def id_ranges(self) -> list[tuple[int, int]] | None:
        """The acceptable ids as ranges, when `ids` is an idset; None when there is none, or it names pools otherwise."""
        try:
            return None if self.ids is None else idset.ranges(self.ids)
        except InputError:
            return None


def preorder(vertices: Sequence[Vertex]) -> Iterator[Vertex]:
    """Resource vertices with all below them."""
    todo = list(reversed(vertices))
    while todo:
        vertex = todo.pop()
        yield vertex
        todo += reversed(vertex.children)


def settled(resources: Iterable[Vertex], *, in_slot: bool = False, depth: int = 1) -> tuple[Vertex, ...]:
    """The same vertices with `is_exclusive` as RFC 14 has it; for those that were built by hand.

    Errors: LimitExceeded beyond `limits.REQUEST_DEPTH_MAX` levels.
    """
    if depth > limits.REQUEST_DEPTH_MAX:
        raise LimitExceeded(f"expected at most {limits.REQUEST_DEPTH_MAX} levels of resources", where="resources")
    return tuple(
        replace(
            vertex,
            is_exclusive=(in_slot or vertex.is_slot) if vertex.exclusive is None else vertex.exclusive,
            children=settled(vertex.children, in_slot=in_slot or vertex.is_slot, depth=depth + 1) if vertex.children else (),
        )
        for vertex in resources
    )
