"""Which lock a method of a graph, or of an instance on one, holds while it runs.

Threads may share a graph, and a store may keep it.  So a public method that reads what jobs hold, or changes anything, has a
decorator, or the same in its body:

- `locked`: it holds `lock`, so that no thread changes the object meanwhile.  Questions do.
- `writing`: it holds `write_lock`.  For a graph that is attached to a store, that is more than `lock`: what other processes have
  changed there is taken over before the method begins, and the change is stored when it returns.

Locks may be nested in any way.  The most frequent methods, such as `allocate`, have ``with self.write_lock:`` in their body
instead of a decorator, which saves a call.  `locks_of` is for methods that concern two graphs.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import wraps
from threading import RLock
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from fluxres.model.attachment import Attachment


class Lockable(Protocol):
    """What `locked` needs of an object."""

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


Held = TypeVar("Held", bound=Lockable)
Changed = TypeVar("Changed", bound=Writable)
Given = ParamSpec("Given")
Answer = TypeVar("Answer")


def locked(method: Callable[Concatenate[Held, Given], Answer]) -> Callable[Concatenate[Held, Given], Answer]:
    """Let a method hold the lock of its object."""

    @wraps(method)
    def call(self: Held, /, *args: Given.args, **kwargs: Given.kwargs) -> Answer:
        with self.lock:
            return method(self, *args, **kwargs)

    return call


def writing(method: Callable[Concatenate[Changed, Given], Answer]) -> Callable[Concatenate[Changed, Given], Answer]:
    """Let a method that changes its object hold the lock for changes."""

    @wraps(method)
    def call(self: Changed, /, *args: Given.args, **kwargs: Given.kwargs) -> Answer:
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
