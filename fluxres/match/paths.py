"""The way from a pool up a distribution graph, and the pools along it that a demand is charged on (RFC 4, channeled pools).

Power reaches a node through an outlet, a PDU and a feed, and a job that draws 500 W of it draws them from each.  So a resource
that stands only outside the has-a tree is not picked anywhere: from the pool that a job is given the way leads up, along edges of
auxiliary graphs and the small trees they stand in, and every pool of the type on it must have the units.

An edge that points both ways (a network link) says nothing about which end distributes, and is not followed, except in a
hierarchy, which says it.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from fluxres.graph.auxiliary import Subsystem
from fluxres.graph.structure import Structure


class Paths:
    """Ways up the auxiliary graphs of one structure.  Cost: each pool's way is found once."""

    def __init__(self, structure: Structure) -> None:
        self._structure = structure
        self._graphs = list(structure.subsystems.values())
        self._above: dict[int, tuple[int, ...]] = {}
        self._charged: dict[tuple[int, int], tuple[int, ...]] = {}

    @cached_property
    def is_forest(self) -> bool:
        """Whether no pool is supplied from two sides: then whoever takes the first way that fits leaves the most to others."""
        outside = self._structure.tree_end
        supplied = []
        for graph in self._graphs:
            codes = graph.src.astype(np.int64) * self._structure.n + graph.dst
            back = graph.dst.astype(np.int64) * self._structure.n + graph.src
            followed = (graph.src >= outside) & (graph.hierarchy | ~np.isin(codes, back))
            supplied.append(graph.dst[followed])
        every = np.concatenate(supplied) if supplied else np.zeros(0, np.int32)
        return len(np.unique(every)) == len(every)

    def charged(self, v: int, kind: int) -> tuple[int, ...]:
        """Pools of a type that supply `v`, ascending; empty where nothing of it does.

        A pool supplies through its place: on the way up from `v`, from the pool that `v` stands in where `v` itself has no
        edge, it is met itself, or is a child of what is met.
        """
        found = self._charged.get((v, kind))
        if found is None:
            structure = self._structure
            met: set[int] = set()
            for u in self.above(v):
                met.update(w for w in (u, *structure.children(u).tolist()) if structure.type.item(w) == kind)
            found = self._charged[(v, kind)] = tuple(sorted(met))
        return found

    def above(self, v: int) -> tuple[int, ...]:
        """Pools outside the has-a tree that stand on the way up from `v`."""
        found = self._above.get(v)
        if found is None:
            structure = self._structure
            met: set[int] = set()
            todo = self._suppliers(v)
            if not todo and structure.parent.item(v) >= 0:
                met.update(self.above(structure.parent.item(v)))
            while todo:
                u = todo.pop()
                if u not in met:
                    met.add(u)
                    todo += [*self._suppliers(u), *((structure.parent.item(u),) if structure.parent.item(u) >= 0 else ())]
            found = self._above[v] = tuple(sorted(met))
        return found

    def _suppliers(self, v: int) -> list[int]:
        """Where edges into `v` come from, outside the has-a tree."""
        return [
            u
            for graph in self._graphs
            for u in graph.predecessors(v).tolist()
            if u >= self._structure.tree_end and (graph.hierarchy or not self._is_mutual(graph, u, v))
        ]

    @staticmethod
    def _is_mutual(graph: Subsystem, u: int, v: int) -> bool:
        return bool((graph.successors(v) == u).any())
