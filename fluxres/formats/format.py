"""What is known of a format without reading a file of it: how it is told, who reads and writes it, what it can say."""

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
"""What a file may say.  ``pools``: any type of pool at any depth; ``capacities``: what a copy cut down; ``allocations``: who
holds what when; the others are data of a pool, or what a whole machine has."""
FACTS: Final[tuple[Fact, ...]] = get_args(Fact)
ALL: Final[frozenset[Fact]] = frozenset(FACTS)


@dataclass(frozen=True, slots=True)
class Format:
    """One file format.

    Args:
        name: for ``--format`` and messages.
        title: what it is, in a few words.
        extensions: of its files, the first for new ones.
        matches: whether the beginning of a file (64 KiB) looks like it; a guess that may be wrong, never slow.
        reader: ``module:function`` from a :class:`~fluxres.documents.source.Source` to what was loaded; None where none reads it.
        writer: ``module:function`` from structure, allocations and name to an :class:`~fluxres.formats.loaded.Output`; None where
            none writes it.
        many: ``module:function`` from a sequence of sources to one machine, where each file is a part of it.
        live: ``module:function`` from the text behind ``NAME:`` to what was loaded, for what is no file.
        carries: what it can say.
        loses: what is lost when it is written, in words; empty when nothing is.
        options: of its readers and writer, by keyword.
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
