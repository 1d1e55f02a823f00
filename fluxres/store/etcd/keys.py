"""The keys of a store.  Numbers have leading zeros, so that the order of keys is that of numbers."""

from __future__ import annotations

from typing import Final

_NEXT: Final = b"0"
"""Follows a slash: keys that begin with `a/` are from `a/` to below `a0`."""


def end(folder: bytes) -> bytes:
    """The first key behind all that begin with `folder`, which ends with a slash."""
    return folder[:-1] + _NEXT


class Keys:
    """The keys under a prefix.

    Args:
        prefix: ends with a slash.
    """

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix.encode()
        self.state = self.prefix + b"state/"
        self.head = self.state + b"head"
        self.graphs = self.state + b"graphs/"
        self.notes = self.state + b"notes/"
        self.answers = self.prefix + b"answers/"
        self.pending = self.prefix + b"pending/"
        self.lock = self.prefix + b"lock/"

    def graph(self, number: int) -> bytes:
        return b"%s%08d" % (self.graphs, number)

    def note(self, key: str) -> bytes:
        return self.notes + key.encode()

    def answer(self, key: str) -> bytes:
        """Of a note of what a server answered, or of an instance."""
        return self.answers + key.encode()

    def events(self, graph: int) -> bytes:
        return b"%sevents/%08d/" % (self.prefix, graph)

    def event(self, graph: int, seq: int, part: int = 0) -> bytes:
        """Of the first part of an event, or of a further one."""
        first = b"%s%016d" % (self.events(graph), seq)
        return b"%s/%06d" % (first, part) if part else first

    def blobs(self, graph: int) -> bytes:
        return b"%sblobs/%08d/" % (self.prefix, graph)

    def blob(self, graph: int, generation: str) -> bytes:
        return b"%s%s/" % (self.blobs(graph), generation.encode())

    def part(self, graph: int, generation: str, number: int) -> bytes:
        return b"%s%06d" % (self.blob(graph, generation), number)

    def tickets(self, graph: int) -> bytes:
        return b"%stickets/%08d/" % (self.prefix, graph)

    def ticket(self, graph: int, number: int) -> bytes:
        return b"%s%016d" % (self.tickets(graph), number)

    def number(self, key: bytes) -> int:
        """The graph whose blob, event or ticket this is; -1 for other keys, -2 for keys that are not of a store."""
        first, _, rest = key.removeprefix(self.prefix).partition(b"/")
        if first in (b"events", b"blobs", b"tickets"):
            found = rest.partition(b"/")[0]
            return int(found) if found.isdigit() else -2
        return -1 if first in (b"state", b"answers", b"pending", b"lock") else -2
