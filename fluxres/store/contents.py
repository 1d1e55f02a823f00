"""What a store consists of: the rows of its graphs, of their journals, and of their earlier states."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

Part = Literal["shapes", "snapshots"]
"""A part of a snapshot: pools, kinds and auxiliary graphs; or the marks on them."""
PARTS: Final[tuple[Part, ...]] = ("shapes", "snapshots")


CLAIM: Final = "claim:"
"""Notes of claims begin with this, before the uid of the graph."""


class GraphRow(msgspec.Struct, frozen=True):
    """What the store knows about a graph without reading it.

    Args:
        number: key of its rows.
        name: of the graph.
        uid: created with it; a graph that was dropped and created again has another.
        created: seconds since 1970.
        generation: number of changes of its shape since it was loaded.
        pools: number of pools.
        seq: number of its last event.
        snapshot_seq: number of the event its snapshot follows.
        weight: number of pools named by the events after the snapshot.
    """

    number: int
    name: str
    uid: str
    created: float
    generation: int
    pools: int
    seq: int
    snapshot_seq: int
    weight: int


class EventRow(msgspec.Struct, frozen=True):
    """An event as stored.

    Args:
        seq: its number.
        time: seconds since 1970.
        command: that caused it.
        body: :func:`fluxres.store.journal.body` of it.
        checksum: :func:`fluxres.store.journal.checksum` of number and body.
    """

    seq: int
    time: float
    command: str
    body: bytes
    checksum: int


class Blob(msgspec.Struct, frozen=True):
    """A part of a snapshot.

    Args:
        seq: number of the event that it follows.
        content: as :mod:`fluxres.store.encoding` writes it.
    """

    seq: int
    content: bytes


class Previous(msgspec.Struct, frozen=True):
    """The state before the last change of a graph.

    Args:
        before, after: number of the last event before the change, and of its last one.
        snapshot_seq: number of the event that the snapshot of that state follows.
        shape, marks: of that snapshot; None where they are those of the present one.
    """

    before: int
    after: int
    snapshot_seq: int
    shape: bytes | None
    marks: bytes | None
