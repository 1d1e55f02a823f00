"""A graph that was destroyed: whatever is done with it raises StaleHandle (RFC 16 Destroy)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fluxres.errors import StaleHandle

if TYPE_CHECKING:
    from fluxres.model.resource_graph import ResourceGraph


class Destroyed:
    """Replaces structure, records and planner of a destroyed graph."""

    def __getattr__(self, name: str) -> Any:
        raise _destroyed()


def require_alive(graph: ResourceGraph) -> None:
    """Refuse to go on with a graph that was destroyed.

    Errors: StaleHandle.
    """
    if isinstance(graph.structure, Destroyed):
        raise _destroyed()


def _destroyed() -> StaleHandle:
    return StaleHandle("this graph was destroyed", hint="load or copy it again")
