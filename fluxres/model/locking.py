"""One thread at a time: what is asked of a graph, and what is changed in it.

A question writes, too: caches of a matcher, records that were kept as they came.  So whoever calls holds the lock of the graph
for that call, and `with graph.lock:` holds it for several.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import wraps
from typing import TYPE_CHECKING, Concatenate, ParamSpec, Protocol, TypeVar

if TYPE_CHECKING:
    from threading import RLock

    from fluxres.model.resource_graph import ResourceGraph


class Locked(Protocol):
    """What has a lock."""

    lock: RLock


Self = TypeVar("Self", bound=Locked)
Given = ParamSpec("Given")
Answer = TypeVar("Answer")


def locked(method: Callable[Concatenate[Self, Given], Answer]) -> Callable[Concatenate[Self, Given], Answer]:
    """A method that holds the lock of its object."""

    @wraps(method)
    def call(self: Self, /, *args: Given.args, **kwargs: Given.kwargs) -> Answer:
        with self.lock:
            return method(self, *args, **kwargs)

    return call


def all_of(*graphs: ResourceGraph) -> ExitStack:
    """The locks of several graphs, taken in one order, so that two threads never wait for each other."""
    held = ExitStack()
    for graph in sorted(graphs, key=lambda graph: graph.number):
        held.enter_context(graph.lock)
    return held
