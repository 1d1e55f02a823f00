"""Launch slots: how many starts a node can perform at the same time.

A start needs a slot on each node of its job.  Each node gives its slots in the order in which they were asked for.  A start keeps
those that it has got while it waits for the others; since all starts ask for all their slots at one moment, none waits for ever.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Sequence


class SlotStart:
    """A start that has or waits for slots.

    Args:
        nodes: on each of which it needs a slot.
    """

    __slots__ = ("lacking", "nodes")

    def __init__(self, nodes: Sequence[Hashable]) -> None:
        self.nodes = nodes
        self.lacking = 0
        """Nodes on which it waits for a slot."""


class Slots:
    """The slots of all nodes.

    Args:
        each: slots of each node.

    >>> slots, first, second = Slots(1), SlotStart("ab"), SlotStart("bc")
    >>> slots.take(first), slots.take(second), slots.give_back(first) == [second]
    (True, False, True)
    """

    def __init__(self, each: int) -> None:
        self.each = each
        self._used: dict[Hashable, int] = {}
        self._waiting: dict[Hashable, deque[SlotStart]] = {}

    def take(self, start: SlotStart) -> bool:
        """Whether a start has all its slots now; otherwise it waits for them."""
        for node in start.nodes:
            if self._used.get(node, 0) < self.each:
                self._used[node] = self._used.get(node, 0) + 1
            else:
                self._waiting.setdefault(node, deque()).append(start)
                start.lacking += 1
        return not start.lacking

    def give_back(self, start: SlotStart) -> list[SlotStart]:
        """Free the slots that a start has, or stop waiting for them; returns the starts that have all their slots now."""
        found = []
        for node in start.nodes:
            waiting = self._waiting.get(node, deque())
            if start.lacking and start in waiting:
                waiting.remove(start)
            elif waiting:
                following = waiting.popleft()
                following.lacking -= 1
                if not following.lacking:
                    found.append(following)
            else:
                self._used[node] -= 1
            if not waiting:
                self._waiting.pop(node, None)
        start.lacking = 0
        return found
