"""Resource vertices of a request (Flux RFC 14), each with the vertices below it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from fluxres import limits
from fluxres.errors import InputError, LimitExceeded
from fluxres.syntax import idset
from fluxres.syntax.count import Count

SLOT: Final = "slot"


class Vertex(msgspec.Struct, frozen=True):
    """One resource of a request, with the resources that must be below it.

    `exclusive` is as written; `is_exclusive` is the effective value: as written, else false outside slots, and true for a slot
    and everything below it (RFC 14). Construct vertices without `is_exclusive` and pass them through :func:`settled`.
    """

    type: str
    count: Count
    unit: str | None = None
    exclusive: bool | None = None
    label: str | None = None
    ids: str | None = None
    """The RFC's `id`: text that lists the acceptable ids."""
    children: tuple[Vertex, ...] = ()
    is_exclusive: bool = False
    to: str | None = None
    """The pool (path, URI or uuid, or a name in the graph) to which units of a graph are requested. Not in RFC 14."""
    between: str | None = None
    """`node`: units of a graph are requested between the nodes of the request. Not in RFC 14."""
    properties: tuple[str, ...] = ()
    """Properties that the pools must have, or with `^` in front must not have. Not in RFC 14."""

    @property
    def is_directed(self) -> bool:
        """Whether it specifies where units of a graph lead."""
        return self.to is not None or self.between is not None

    @property
    def is_slot(self) -> bool:
        """Whether it only groups the resources below it."""
        return self.type == SLOT

    @property
    def id_ranges(self) -> list[tuple[int, int]] | None:
        """The acceptable ids as ranges; None if there are none, or if `ids` is not an idset."""
        try:
            return None if self.ids is None else idset.ranges(self.ids)
        except InputError:
            return None


def preorder(vertices: Sequence[Vertex]) -> Iterator[Vertex]:
    """Resource vertices and all vertices below them, in pre-order."""
    todo = list(reversed(vertices))
    while todo:
        vertex = todo.pop()
        yield vertex
        todo += reversed(vertex.children)


def settled(resources: Iterable[Vertex], *, in_slot: bool = False, depth: int = 1) -> tuple[Vertex, ...]:
    """The same vertices with `is_exclusive` set according to RFC 14, for vertices constructed by code.

    Errors: LimitExceeded beyond `limits.REQUEST_DEPTH_MAX` levels.
    """
    if depth > limits.REQUEST_DEPTH_MAX:
        raise LimitExceeded(f"expected at most {limits.REQUEST_DEPTH_MAX} levels of resources", where="resources")
    return tuple(
        msgspec.structs.replace(
            vertex,
            is_exclusive=(in_slot or vertex.is_slot) if vertex.exclusive is None else vertex.exclusive,
            children=settled(vertex.children, in_slot=in_slot or vertex.is_slot, depth=depth + 1) if vertex.children else (),
        )
        for vertex in resources
    )
