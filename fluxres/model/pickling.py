"""A graph as a value that pickle carries: to another process, or into a file of one's own.

What travels is the structure, who holds what, and the clock; what follows from them is made again there.  A sink does not
travel, and neither does the instance above that the graph of a child asks: what that gives on request is the child's own there.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from fluxres.allocation.drawn import Drawn
from fluxres.allocation.records import Records
from fluxres.allocation.staged import Staged
from fluxres.allocation.steps import Steps
from fluxres.clock import Clock
from fluxres.errors import UsageError
from fluxres.graph import surgery
from fluxres.graph.structure import Structure

if TYPE_CHECKING:
    from fluxres.model.resource_graph import ResourceGraph

Held = dict[int, dict[str, Steps]]


def reduced(graph: ResourceGraph) -> tuple[Callable[..., ResourceGraph], tuple[Any, ...]]:
    """What pickle asks a graph for.

    Errors: UsageError for a clock that cannot be pickled; StaleHandle for a destroyed graph.
    """
    records, clock = graph.records, graph._clock_given
    try:
        pickle.dumps(clock)
    except (pickle.PicklingError, TypeError, AttributeError) as error:
        raise UsageError(
            f"the clock of graph '{graph.name}' cannot be pickled: {error}",
            hint="use fluxres.clock.system or a function of a module, or set clock to None",
        ) from None
    held = (records.held, records.implied, list(records.pools_of), records.stages, records.slots_of, records.drawn)
    counters = (graph.generation, graph.revision, records.stages_made)
    return _revived, (type(graph), surgery.by_itself(graph.structure), graph.name, clock, held, counters)


def _revived(
    kind: type[ResourceGraph],
    structure: Structure,
    name: str,
    clock: Clock | None,
    held: tuple[Held, dict[str, dict[int, Steps]], Iterable[str], dict[str, Staged], dict[str, int], Drawn],
    counters: tuple[int, int, int],
) -> ResourceGraph:
    graph = kind(structure, name=name, clock=clock)
    before = Records(structure, graph.planner)
    recorded, before.implied, owners, before.stages, slots_of, before.drawn = held
    before.held.update(recorded)
    before.pools_of = {owner: set() for owner in owners}
    before.slots_of = slots_of
    graph.records.take_all(before)
    graph.generation, graph.revision, graph.records.stages_made = counters
    return graph
