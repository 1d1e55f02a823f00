"""The public objects of fluxres: resource graph, pools, selections, allocations, stages.

The layers below work on arrays; the layers above are files, stores and commands.  This layer presents the arrays to a scheduler
developer as objects, and is the only one that converts between seconds and ticks, and between paths and vertex numbers.
"""

from fluxres.graph.structure import Problem
from fluxres.model.pool import Pool
from fluxres.model.resource_graph import ResourceGraph
from fluxres.model.selection import Selection
from fluxres.model.values import Allocation, Span, Stage

__all__ = ["Allocation", "Pool", "Problem", "ResourceGraph", "Selection", "Span", "Stage"]
