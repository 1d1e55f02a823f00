"""Which lock a method holds while it runs: that of its object for questions, or also that of the store for changes.

A graph, and an instance on one, may be shared by threads and kept in a store.  So each method either asks or changes, and says
so by a decorator:

- `reading`: it holds `lock`, so that no thread changes the object meanwhile.
- `writing`: it holds `write_lock`.  That is `lock` as well, and for a graph attached to a store it also takes over what other
  processes have changed there before the method begins, and stores the change when it returns.

Both may be nested in any way.  The methods that are called most often, such as `allocate`, have ``with self.write_lock:`` in
their body instead, which saves a call.  `locks_of` is for methods that concern two graphs.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import wraps
from threading import RLock
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from fluxres.model.attachment import Attachment


class Readable(Protocol):
    """What `reading` needs of an object."""

    lock: RLock


class Writable(Protocol):
    """What `writing` needs of an object."""

    @property
    def write_lock(self) -> RLock | Attachment: ...


class LockedGraph(Protocol):
    """What `locks_of` needs of a graph; the numbers differ in a process."""

    number: int
    lock: RLock
    attachment: Attachment | None

    @property
    def write_lock(self) -> RLock | Attachment: ...


R = TypeVar("R", bound=Readable)
W = TypeVar("W", bound=Writable)
Given = ParamSpec("Given")
Answer = TypeVar("Answer")


def reading(method: Callable[Concatenate[R, Given], Answer]) -> Callable[Concatenate[R, Given], Answer]:
    """Let a method that asks hold the lock of its object."""

    @wraps(method)
    def call(self: R, /, *args: Given.args, **kwargs: Given.kwargs) -> Answer:
        with self.lock:
            return method(self, *args, **kwargs)

    return call


def writing(method: Callable[Concatenate[W, Given], Answer]) -> Callable[Concatenate[W, Given], Answer]:
    """Let a method that changes its object hold the lock for changes."""

    @wraps(method)
    def call(self: W, /, *args: Given.args, **kwargs: Given.kwargs) -> Answer:
        with self.write_lock:
            return method(self, *args, **kwargs)

    return call


def locks_of(*graphs: LockedGraph, changes: LockedGraph | None = None) -> ExitStack:
    """The locks of several graphs, held, in an order that is the same for all threads, so that two of them cannot deadlock.

    Args:
        changes: the one that is about to change.
    """
    held = ExitStack()
    for graph in sorted(graphs, key=lambda graph: (graph.attachment is None, graph.number)):
        held.enter_context(graph.write_lock if graph is changes else graph.lock)
    return held
