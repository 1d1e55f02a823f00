"""A machine from wherever a command is told to take it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fluxres.clock import Clock

if TYPE_CHECKING:
    from fluxres.model import ResourceGraph


def read(source: str, *, name: str | None = None, clock: Clock | None = None, changes: Sequence[str] = ()) -> ResourceGraph:
    """The graph in a file, in a store, or on standard input (``-``).

    Errors: InputError with file, line and column; StoreError.
    """
    from fluxres.store.files import load

    if source != "-":
        return load(source, name=name, clock=clock, changes=changes)
    from fluxres.formats import registry
    from fluxres.model import ResourceGraph

    loaded = registry.read("-")
    graph = ResourceGraph(loaded.structure, name=name if name is not None else loaded.name, clock=clock)
    for hold in loaded.allocations:
        graph.allocate(hold.pools, job=hold.job, start=hold.start_s, end=hold.end_s)
    return graph
