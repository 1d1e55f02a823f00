"""The public result of a match: a placement, with the state of the graph that it was found on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fluxres.match.result import Placement
from fluxres.model.pool import Pool
from fluxres.model.values import counted
from fluxres.shown import Shown

if TYPE_CHECKING:
    from fluxres.model.resource_graph import ResourceGraph


class Match(Placement, Shown, frozen=True, eq=False, kw_only=True):
    """Pools that satisfy a request over a window, found on a certain state of a graph.

    Args:
        graph: the graph.
        generation, revision: its state.
        pools_end: accounts from this number on are edges, through which a match draws.
    """

    graph: ResourceGraph
    generation: int
    revision: int
    pools_end: int

    @property
    def pools(self) -> tuple[Pool, ...]:
        """The pools to record, in vertex order, as handles of the graph."""
        return tuple(Pool(self.graph, v, self.generation) for v in self.vertices.tolist() if v < self.pools_end)

    def _counted(self) -> str:
        if self.generation != self.graph.generation:
            return Placement._counted(self)
        return counted(self.graph.structure, self.vertices[self.vertices < self.pools_end])


def stamped(graph: ResourceGraph, found: Placement) -> Match:
    """The placement, marked with this graph and its present state."""
    return Match(
        found.vertices,
        found.amounts,
        found.whole,
        found.shared,
        found.slots,
        found.counts,
        found.start,
        found.end,
        found.policy,
        found.fallback,
        found.implied,
        found.drawn,
        found.is_routed,
        found.picked,
        found.variant,
        graph=graph,
        generation=graph.generation,
        revision=graph.revision,
        pools_end=graph.structure.n,
    )
