"""What a job was given, read from its allocation, in the order in which its request asked for it.

An allocation that was just made, and a match, know what each item of the request got.  One that is read from the records only has
units by pool: then the items are dealt to the pools again, and several ways may be right.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import PurePath
from typing import NamedTuple

from fluxres.errors import UsageError
from fluxres.formats.peers import instances
from fluxres.formats.peers.ctest.allocator import pack
from fluxres.formats.peers.inventory import COUNTED
from fluxres.graph.structure import Structure
from fluxres.match.result import Picked
from fluxres.model import ResourceGraph
from fluxres.model.match import Match
from fluxres.model.values import Allocation

Granted = Allocation | Match


class Item(NamedTuple):
    """One item of a request.

    Args:
        slot: number of the slot that it belongs to.
        type: in the graph.
        units: None for all that there is of the type.
    """

    slot: int
    type: str
    units: int | None


def structure_of(granted: Granted) -> Structure:
    return granted.structure if isinstance(granted, Allocation) else granted.graph.structure


def machine_of(held: Allocation | ResourceGraph, job: str | None = None) -> Structure:
    """What a job holds, as a machine.

    Args:
        held: an allocation, or a graph and the id of a job in it.

    Errors: UnknownJob; UsageError for a graph without a job.
    """
    if isinstance(held, Allocation):
        return held.graph.copy(job=held.job).structure
    if job is None:
        raise UsageError("expected the id of a job", hint="give the job whose resources are written")
    return held.copy(job=job).structure


def picked(granted: Granted, wanted: Sequence[Item]) -> list[Picked]:
    """What each item gets.

    Args:
        wanted: the items, for an allocation that does not know its own.

    Errors: UsageError for an allocation with less than the items.
    """
    if granted.picked:
        return list(granted.picked)
    held = _held(granted)
    structure = structure_of(granted)
    found: list[Picked | None] = [None] * len(wanted)
    order = sorted(range(len(wanted)), key=lambda at: wanted[at].type)
    for type_name, some in groupby(order, key=lambda at: wanted[at].type):
        places = list(some)
        free = {str(v): units for v, units in held.items() if structure.types[structure.type.item(v)] == type_name}
        dealt = pack([wanted[at].units or 0 for at in places], free)
        if dealt is None:
            message = f"it holds {sum(free.values())} units of {type_name}, which are not what the request asks for"
            raise UsageError(message, where=f"job {getattr(granted, 'job', '')}", hint="give the request that it answers")
        for at, name in zip(places, dealt, strict=True):
            found[at] = Picked(wanted[at].slot, int(name), wanted[at].units or 0)
    return [each for each in found if each is not None]


def everything(granted: Granted) -> list[Picked]:
    """All instances that are held, those in exclusive pools included, as those of slot 0."""
    return [Picked(0, v, units) for v, units in sorted(_held(granted).items())]


def _held(granted: Granted) -> dict[int, int]:
    """Units by instance; a pool that is held as a whole is all that is in service in it."""
    structure = structure_of(granted)
    vertices, amounts = granted.held if isinstance(granted, Allocation) else (granted.vertices, granted.amounts)
    found: dict[int, int] = {}
    for v, units in zip(vertices.tolist(), amounts.tolist(), strict=True):
        if v >= structure.n:
            continue
        within = instances.everything(structure, v) if structure.end.item(v) > v + 1 and not _is_counted(structure, v) else []
        if units < structure.size.item(v) or not within:
            found[v] = units
        else:
            found.update({u: structure.size.item(u) for u in within if structure.unavailable_above(u) < 0})
    return found


def _is_counted(structure: Structure, v: int) -> bool:
    return structure.types[structure.type.item(v)] in COUNTED


def with_option(command: Sequence[str], program: str, option: str, value: str) -> list[str]:
    """A command with one more option; a command that runs another program, or has the option, is kept."""
    words = list(command)
    if not words or PurePath(words[0]).name != program or any(word.startswith(option) for word in words):
        return words
    return [words[0], option, value, *words[1:]]
