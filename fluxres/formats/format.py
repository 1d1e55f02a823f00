"""A format: how it is detected, what it can express, its reader and writer, and what these take and return."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, NoReturn, Protocol, get_args

if TYPE_CHECKING:
    from fluxres.documents.document import Key
    from fluxres.graph.structure import Structure


Fact = Literal[
    "pools",
    "names",
    "basenames",
    "ids",
    "sizes",
    "units",
    "properties",
    "tags",
    "states",
    "exclusive",
    "ranks",
    "uuids",
    "capacities",
    "graphs",
    "allocations",
    "reservations",
]
"""A kind of information in a file. ``pools``: any type of pool at any depth; ``capacities``: the sizes that a copy reduced;
``allocations``: what each job holds and when; ``reservations``: maintenance windows; the others are data of a pool, or of the
machine.
"""
FACTS: Final[tuple[Fact, ...]] = get_args(Fact)
ALL: Final[frozenset[Fact]] = frozenset(FACTS)


@dataclass(frozen=True, slots=True)
class Format:
    """One file format.

    Args:
        name: for ``--format`` and messages.
        title: a few words for lists of formats.
        extensions: of its files; new files get the first.
        matches: whether the beginning of a file (64 KiB) looks like it; it may guess wrong but must be fast.
        reader: ``module:function`` from a :class:`~fluxres.documents.source.Source` to what was loaded; None if not readable.
        writer: ``module:function`` from structure, allocations and name to an :class:`~fluxres.formats.format.Output`; None if it
            cannot be written. One that carries reservations takes these as well.
        many: ``module:function`` from a sequence of sources to one machine, if each file describes a part of it.
        live: ``module:function`` from the text after ``NAME:`` to what was loaded, for sources other than files. A format without
            a reader needs no colon.
        carries: the facts it can express.
        loses: a description of what is lost when it is written; empty if nothing is.
        options: keyword arguments of its readers and writer.
    """

    name: str
    title: str
    extensions: tuple[str, ...]
    matches: Callable[[bytes], bool]
    reader: str | None = None
    writer: str | None = None
    many: str | None = None
    live: str | None = None
    carries: frozenset[Fact] = frozenset()
    loses: str = ""
    options: frozenset[str] = frozenset()


def never(_head: bytes) -> bool:
    """For formats that are only written."""
    return False


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


class Reserved(NamedTuple):
    """A maintenance reservation: these pools take no work in these windows.

    Args:
        name: no job has it as its id.
        pools: vertices, ascending.
        windows: (start, end) in seconds, ascending, disjoint; several if it repeats.
        ignores_jobs: whether jobs may run into the windows.
        user: who reserved.
        submitted_s: when.
        held: start, end and units by vertex of what it holds; None for all of its pools in all of its windows that no job holds.
        affected: as of a `Reservation`; None for its pools and what only they supply now.
    """

    name: str
    pools: tuple[int, ...]
    windows: tuple[tuple[float, float], ...]
    ignores_jobs: bool = False
    user: str | None = None
    submitted_s: float | None = None
    held: tuple[tuple[float, float, dict[int, int]], ...] | None = None
    affected: tuple[int, ...] | None = None


class Loaded(NamedTuple):
    """A machine as described by a file.

    `notes` lists what the reader left out or read differently than written, one line per kind (:mod:`.losses`). `seen` says what
    was found in a source that is not a file, and where.
    """

    structure: Structure
    allocations: list[Hold]
    name: str
    notes: tuple[str, ...] = ()
    seen: tuple[str, ...] = ()
    reservations: Sequence[Reserved] = ()


class Output(NamedTuple):
    """A file written by a format.

    `left_out` lists what the format cannot express, one line per kind; empty if nothing was lost. `note` says what another
    program that reads the format does not see.
    """

    data: bytes
    left_out: list[str]
    note: str = ""


class Fail(Protocol):
    """Raises for a document at a place in it, such as ``["nodes", 3, "size"]``."""

    def __call__(self, path: Sequence[Key], message: str, hint: str = "") -> NoReturn: ...
