"""What goes in and out of a format, whichever it is: a machine and who holds what of it, bytes and what they do not say."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from fluxres.graph.structure import Structure


class Hold(NamedTuple):
    """What a job holds over ``[start_s, end_s)``: units by vertex; no end is None.

    Units are by number of an account: a pool, or an edge with a capacity. `slots` of all holds of a job together are those of its
    requests (RFC 20); 0 where nobody knows. `drawn` is for which pools what of it is drawn: (pool, account, units), as in
    :data:`fluxres.allocation.drawn.Rows`.
    """

    job: str
    start_s: float
    end_s: float | None
    pools: dict[int, int]
    slots: int = 0
    drawn: tuple[tuple[int, int, int], ...] = ()


class Loaded(NamedTuple):
    """A machine as a file describes it.

    `notes` is what the reader left out, or read otherwise than it is written, one line for each sort of thing (:mod:`.notes`).
    """

    structure: Structure
    allocations: list[Hold]
    name: str
    notes: tuple[str, ...] = ()


class Output(NamedTuple):
    """A file as a format writes it.

    `left_out` is what the format cannot say, in words, one line for each sort of thing; empty when nothing was lost. `note` is
    what another program that reads the format does not see.
    """

    data: bytes
    left_out: list[str]
    note: str = ""
