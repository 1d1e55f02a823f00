"""The public objects of fluxres: resource graph, pools, selections, allocations, stages.

The layers below are arrays and rules, the layers above files, stores and commands.  This one makes objects for a scheduler
developer of the arrays, and is the only one that uses seconds and paths as well as ticks and vertex numbers.
"""

from fluxres.graph.structure import Problem
from fluxres.model.pool import Pool
from fluxres.model.resource_graph import ResourceGraph
from fluxres.model.selection import Selection
from fluxres.model.values import Allocation, Span, Stage

__all__ = ["Allocation", "Pool", "Problem", "ResourceGraph", "Selection", "Span", "Stage"]
