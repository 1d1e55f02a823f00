"""The face of fluxres: a machine with its records, pools on demand, selections.

The layers below are arrays and rules; the layers above are files, stores and commands.  This one turns the
first into objects that a scheduler developer talks to, and is the only place that speaks seconds and paths
as well as ticks and vertex numbers.
"""

from fluxres.graph.structure import Problem
from fluxres.model.pool import Pool
from fluxres.model.resource_graph import ResourceGraph
from fluxres.model.selection import Selection
from fluxres.model.stage import Stage
from fluxres.model.values import Allocation, Span

__all__ = ["Allocation", "Pool", "Problem", "ResourceGraph", "Selection", "Span", "Stage"]
