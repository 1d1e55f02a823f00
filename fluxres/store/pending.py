"""The changes of a graph since it was last loaded or saved, so that the next save can write only those.

The graph reports every change to its sink; this is the sink that `load` and `save` install. Most graphs are never saved again, so
a change costs no more than a note here, and the paths of its pools are looked up when it is written. Each place that the graph
was loaded from or saved to is a mark in the list; everything before all marks is dropped.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass

from fluxres import limits
from fluxres.model.events import PatientSink
from fluxres.model.resource_graph import ResourceGraph
from fluxres.store import changes, journal
from fluxres.store.journal import Event
from fluxres.store.sqlite import Position


@dataclass(slots=True)
class Mark:
    """A place that has the state at some event.

    Args:
        at: number of events before it.
        position: the state in a store; None for a file.
        digest: of the state; computed when needed, at the latest before the state changes.
    """

    at: int
    position: Position | None = None
    digest: str | None = None


_BYTES_A_POOL = 64


class Pending(PatientSink):
    def __init__(self, graph: ResourceGraph) -> None:
        self._graph = weakref.ref(graph)
        self._events: list[bytes | Callable[[], Event]] = []
        self._dropped = 0
        self._bytes = 0
        self._revision = graph.revision
        self.marks: dict[str, Mark] = {}

    @classmethod
    def resumed(cls, graph: ResourceGraph, events: list[bytes], marks: dict[str, Mark]) -> Pending:
        """A list continued from a journal."""
        pending = cls(graph)
        pending._events, pending._bytes = list(events), sum(map(len, events))
        pending._revision -= len(events)
        pending.marks = marks
        graph.sink = pending
        return pending

    @classmethod
    def of(cls, graph: ResourceGraph) -> Pending | None:
        """The list of this graph; None if there is none, or if it missed changes.

        Every change increments the revision, so the numbers differ after a replay or a change reported to another sink.
        """
        kept = graph.sink
        return kept if isinstance(kept, cls) and graph.revision - kept._revision == kept.count else None

    @property
    def count(self) -> int:
        """Number of events so far, including dropped ones."""
        return self._dropped + len(self._events)

    def __call__(self, event: Event) -> None:
        """Record a change that is about to be applied."""
        self._note(journal.body(event) if self.marks else b"")

    def later(self, event: Callable[[], Event], pools: int) -> None:
        """Record a change without encoding it yet."""
        self._note(event, pools * _BYTES_A_POOL)

    def _note(self, event: bytes | Callable[[], Event], size: int | None = None) -> None:
        if not self.marks:
            self._dropped += 1
            return
        events = self._events
        here = self._dropped + len(events)
        digest: str | None = None
        for mark in self.marks.values():
            if mark.at == here and mark.digest is None and (graph := self._graph()) is not None:
                mark.digest = digest = digest or changes.digest(graph)
        events.append(event)
        self._bytes += _size(event) if size is None else size
        while len(self._events) > limits.PENDING_EVENTS_MAX or self._bytes > limits.LOG_BYTES_MAX:
            self._give_up_oldest()

    def mark(self, place: str, position: Position | None = None) -> None:
        """Record that this place has the current state."""
        self.marks.pop(place, None)
        if len(self.marks) >= limits.SAVED_PLACES_MAX:
            del self.marks[next(iter(self.marks))]
        self.marks[place] = Mark(self.count, position)
        self._trim()

    def last(self) -> Mark | None:
        return max(self.marks.values(), key=lambda mark: mark.at, default=None)

    def since(self, mark: Mark) -> list[bytes]:
        """The events after a mark."""
        first = mark.at - self._dropped
        written = [event if isinstance(event, bytes) else journal.body(event()) for event in self._events[first:]]
        self._events[first:] = written
        self._bytes = sum(map(_size, self._events))
        return written

    def _give_up_oldest(self) -> None:
        oldest = min((mark.at for mark in self.marks.values()), default=self.count)
        self.marks = {place: mark for place, mark in self.marks.items() if mark.at > oldest}
        self._trim()

    def _trim(self) -> None:
        surplus = min((mark.at for mark in self.marks.values()), default=self.count) - self._dropped
        if surplus > 0:
            self._bytes -= min(self._bytes, sum(map(_size, self._events[:surplus])))
            del self._events[:surplus]
            self._dropped += surplus


def _size(event: bytes | Callable[[], Event]) -> int:
    return len(event) if isinstance(event, bytes) else _BYTES_A_POOL
