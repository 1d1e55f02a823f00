"""The description of a format: how it is detected, its reader and writer, and what it can express."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal, get_args

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
]
"""A kind of information in a file. ``pools``: any type of pool at any depth; ``capacities``: the sizes that a copy reduced;
``allocations``: what each job holds and when; the others are data of a pool, or of the machine.
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
        writer: ``module:function`` from structure, allocations and name to an :class:`~fluxres.formats.loaded.Output`; None if it
            cannot be written.
        many: ``module:function`` from a sequence of sources to one machine, if each file describes a part of it.
        live: ``module:function`` from the text after ``NAME:`` to what was loaded, for sources other than files.
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
