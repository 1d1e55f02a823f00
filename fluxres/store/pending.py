"""What happened to a graph since it was last loaded or saved, so that the next save may write only that.

The graph tells its sink of every change; this is the sink that `load` and `save` leave behind.  Events are kept as
the bytes they are written as, which is a fifth of their size as objects.  Each place the graph was loaded
from or saved to is a mark in the list; what lies before all marks is dropped.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass

from fluxres import limits
from fluxres.model.resource_graph import ResourceGraph
from fluxres.store import changes, journal
from fluxres.store.journal import Event
from fluxres.store.sqlite import Position


@dataclass(slots=True)
class Mark:
    """A place that has the state of some moment.

    Args:
        at: number of events before it.
        position: the state in a store; None for a file.
        digest: of the state; made when it is needed, at the latest before it is left.
    """

    at: int
    position: Position | None = None
    digest: str | None = None


class Pending:
    """The sink of a graph that was loaded or saved."""

    def __init__(self, graph: ResourceGraph) -> None:
        self._graph = weakref.ref(graph)
        self._events: list[bytes] = []
        self._dropped = 0
        self._bytes = 0
        self._revision = graph.revision
        self.marks: dict[str, Mark] = {}

    @classmethod
    def resumed(cls, graph: ResourceGraph, events: list[bytes], marks: dict[str, Mark]) -> Pending:
        """The list of a graph that somebody else kept: a journal."""
        pending = cls(graph)
        pending._events, pending._bytes = events, sum(map(len, events))
        pending._revision -= len(events)
        pending.marks = marks
        graph.sink = pending
        return pending

    @classmethod
    def of(cls, graph: ResourceGraph) -> Pending | None:
        """The list of this graph; None when nobody kept one, or changes went past it.

        Every change counts one in the revision: with another sink in between, or a replay, the numbers differ.
        """
        kept = graph.sink
        return kept if isinstance(kept, cls) and graph.revision - kept._revision == kept.count else None

    @property
    def count(self) -> int:
        """Events so far, dropped ones included."""
        return self._dropped + len(self._events)

    def __call__(self, event: Event) -> None:
        """Take note of a change that is about to be applied."""
        if not self.marks:
            self._dropped += 1
            return
        graph = self._graph()
        left = [mark for mark in self.marks.values() if mark.at == self.count and mark.digest is None]
        if left and graph is not None:
            digest = changes.digest(graph)
            for mark in left:
                mark.digest = digest
        body = journal.body(event)
        self._events.append(body)
        self._bytes += len(body)
        while len(self._events) > limits.PENDING_EVENTS_MAX or self._bytes > limits.LOG_BYTES_MAX:
            self._give_up_oldest()

    def mark(self, place: str, position: Position | None = None) -> None:
        """Note that this place has the present state."""
        self.marks[place] = Mark(self.count, position)
        self._trim()

    def last(self) -> Mark | None:
        """The latest mark."""
        return max(self.marks.values(), key=lambda mark: mark.at, default=None)

    def since(self, mark: Mark) -> list[bytes]:
        """The events after a mark."""
        return self._events[mark.at - self._dropped :]

    def _give_up_oldest(self) -> None:
        oldest = min((mark.at for mark in self.marks.values()), default=self.count)
        self.marks = {place: mark for place, mark in self.marks.items() if mark.at > oldest}
        self._trim()

    def _trim(self) -> None:
        surplus = min((mark.at for mark in self.marks.values()), default=self.count) - self._dropped
        if surplus > 0:
            self._bytes -= sum(map(len, self._events[:surplus]))
            del self._events[:surplus]
            self._dropped += surplus
