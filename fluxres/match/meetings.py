"""Where the traffic between nodes meets: at the lowest supplier above all of them.

Traffic of a job within one leaf switch does not cross the core.  So units between nodes are charged from each node to the pool
where they meet.  There are few such pools, the suppliers of the graph; the nearest come first.
"""

from __future__ import annotations

from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fluxres.graph.structure import Structure
from fluxres.match.routes import Routes

if TYPE_CHECKING:
    from fluxres.match.paths import Paths


class Meeting(NamedTuple):
    """One place to meet.

    Args:
        v: the supplier.
        height: the maximum number of hops from a node to it.
        nodes: indexes of the nodes below it, ascending.
        channel: the number under which a node is charged for units to it.
    """

    v: int
    height: int
    nodes: NDArray[np.int64]
    channel: int


class Meetings:
    """The places to meet in one graph.  Cost: the supply path of each node, and the routes to each supplier, once."""

    def __init__(self, structure: Structure, paths: Paths, kind: int) -> None:
        self._structure = structure
        self._paths = paths
        self._kind = kind

    @cached_property
    def levels(self) -> list[list[Meeting]]:
        """Places to meet by height, each level ascending."""
        found = sorted(self._all(), key=lambda meeting: (meeting.height, meeting.v))
        return [list(level) for _, level in groupby(found, key=lambda meeting: meeting.height)]

    @property
    def widest(self) -> Meeting | None:
        """The place where most nodes meet; None if there is none."""
        every = [meeting for level in self.levels for meeting in level]
        return max(every, key=lambda meeting: len(meeting.nodes), default=None)

    def _all(self) -> list[Meeting]:
        structure, paths = self._structure, self._paths
        ways, links = paths.ways(self._kind), paths.links(self._kind)
        nodes = structure.of_type("node").tolist()
        ends = [links.ends(node) for node in nodes]
        below: dict[int, list[int]] = {}
        for at, node in enumerate(nodes):
            met = [ways.of(entry).pools for entry in ways.entries(node)]
            for v in set(met[0]).intersection(*met[1:]) if met else ():
                below.setdefault(v, []).append(at)
        found = []
        for v, inside in sorted(below.items()):
            routes = Routes(links, v, [end for at in inside for end in ends[at]])
            hops = [max(map(routes.hops, ends[at]), default=-1) for at in inside]
            reached = [at for at, far in zip(inside, hops, strict=True) if far >= 0]
            if reached:
                channel = paths.meeting(self._kind, routes, frozenset(nodes[at] for at in reached))
                found.append(Meeting(v, max(hops), np.array(reached, np.int64), channel))
        return found
