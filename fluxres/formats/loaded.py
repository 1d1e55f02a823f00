"""The input and output of every format: a machine and its allocations; bytes and a list of what they do not express."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from fluxres.graph.structure import Structure


class Hold(NamedTuple):
    """What a job holds over ``[start_s, end_s)``: units by vertex; None for no end.

    Units are by number of an account: a pool, or an edge with a capacity. The `slots` of all holds of a job add up to those of
    its requests (RFC 20); 0 if unknown. `drawn` lists the pools for which these units are drawn: (pool, account, units), as in
    :data:`fluxres.allocation.drawn.Rows`.
    """

    job: str
    start_s: float
    end_s: float | None
    pools: dict[int, int]
    slots: int = 0
    drawn: tuple[tuple[int, int, int], ...] = ()


class Loaded(NamedTuple):
    """A machine as described by a file.

    `notes` lists what the reader left out or read differently than written, one line per kind (:mod:`.notes`).
    """

    structure: Structure
    allocations: list[Hold]
    name: str
    notes: tuple[str, ...] = ()


class Output(NamedTuple):
    """A file written by a format.

    `left_out` lists what the format cannot express, one line per kind; empty if nothing was lost. `note` says what another
    program that reads the format does not see.
    """

    data: bytes
    left_out: list[str]
    note: str = ""
