"""The size of the part of an instance."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from fluxres.graph.auxiliary import Int32
from fluxres.graph.kinds import WAY

if TYPE_CHECKING:
    from fluxres.model import ResourceGraph


class Facts(NamedTuple):
    """Nodes (parts of nodes count as nodes), cores and GPUs."""

    nodes: int
    cores: int
    gpus: int

    @property
    def cores_per_node(self) -> int:
        """Rounded up if nodes differ."""
        return _per(self.cores, self.nodes)

    @property
    def gpus_per_node(self) -> int:
        """Rounded up if nodes differ."""
        return _per(self.gpus, self.nodes)


def _per(units: int, nodes: int) -> int:
    return -(-units // nodes) if nodes else units


def facts(graph: ResourceGraph) -> Facts:
    """The size of a graph.

    >>> from fluxres.simulation.machine import of_shape
    >>> facts(of_shape("node=4/[core=8;gpu=2]"))
    Facts(nodes=4, cores=32, gpus=8)
    """
    structure = graph.structure

    def pools(name: str) -> Int32:
        found = structure.of_type(name)
        return found[found < structure.tree_end]  # the roots of other trees are in auxiliary graphs

    def units(name: str) -> int:
        found = pools(name)
        own = found[(structure.flags[found] & WAY) == 0]
        return int(structure.size[own].sum())

    return Facts(len(pools("node")), units("core"), units("gpu"))
