"""Audits of a graph: its structure, its records and its planner."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil
from operator import itemgetter
from typing import TYPE_CHECKING, Final

import numpy as np

from fluxres import limits
from fluxres.allocation.audit import check_records
from fluxres.documents.suggestion import did_you_mean
from fluxres.graph.accounts import capacities
from fluxres.graph.audit import check_hosts, check_structure
from fluxres.graph.draws import ONLY_A_WAY, WITH_UNITS, Draws
from fluxres.graph.structure import Problem, Structure
from fluxres.syntax.unit import dimension, readable, same_but_case
from fluxres.syntax.variants import FRACTION_UNIT

if TYPE_CHECKING:
    from fluxres.match.typology import Typology
    from fluxres.model.resource_graph import ResourceGraph


_SIZED: Final = {"memory": "GiB", "storage": "GiB", "power": "W", "bandwidth": "Gb/s"}
"""Types of which requests name sizes, each with a unit for it."""


def check(graph: ResourceGraph) -> list[Problem]:
    """Problems of the graph; empty when the numbered rules hold (specs/rules.md)."""
    structure = graph.structure
    found = [*check_structure(structure), *check_records(graph.records), *check_supply(structure)]
    if not any(problem.severity == "error" for problem in found):
        found += check_hosts(structure)
    return found


def check_supply(structure: Structure) -> Iterator[Problem]:
    """Warn of draws that the auxiliary graphs can never supply, and of descriptions that probably mean something else."""
    yield from _check_draws(structure)
    yield from _check_suppliers(structure)
    yield from _check_capacities(structure)
    yield from _check_units(structure)


def _check_draws(structure: Structure) -> Iterator[Problem]:
    """Pools whose own draw no supplier can meet.  Cost: the supply path of each pool that draws anything."""
    draws = Draws(structure)
    for name in draws.types:
        fault = draws.fault(name)
        if fault is None:
            yield from _check_draw(structure, draws, name)
        else:
            first = int(np.flatnonzero(draws.own(name))[0]) if draws.own(name).any() else 0
            yield Problem("warning", structure.where(first), f"{fault.message} ({fault.hint})")


def _check_draw(structure: Structure, draws: Draws, name: str) -> Iterator[Problem]:
    from fluxres.match.typology import Typology  # only these checks need the matcher

    typology = Typology(structure)
    kind, found = typology.number(name), 0
    for v in np.flatnonzero(draws.own(name)).tolist():
        message = _short_of(typology, v, kind, int(draws.own(name)[v]), name)
        found += message != ""
        if message and found <= limits.WHY_NAMES_MAX:
            yield Problem("warning", structure.where(v), message)
    if found > limits.WHY_NAMES_MAX:
        yield Problem("warning", "", f"{found} pools in all draw more {name} than their suppliers have")


def _short_of(typology: Typology, v: int, kind: int, units: int, name: str) -> str:
    """Why the suppliers of a pool can never meet its draw; empty if they can.

    An enclosing instance may give more units on request.  In a copy, a supplier has the units that its job was given.
    """
    charges = typology.paths.charged(v, kind)
    if charges is None:
        return f"draws {units} of {name}, and nothing supplies it"
    accounts = typology.accounts
    for givers, part in charges:
        if accounts.linked is not None and accounts.linked[list(givers)].any():
            continue
        drawn, unit = ceil(part * units), accounts.unit(givers[0])
        of = f"draws {readable(drawn, unit)} of {accounts.said(givers[0])}"
        if accounts.ways[list(givers)].all():
            return f"{of}, {ONLY_A_WAY}: it can never be allocated ({WITH_UNITS})"
        most = sum(accounts.units.item(u) for u in givers)
        if drawn > most and not accounts.reduced.intersection(givers):
            return f"{of}, which has {readable(most, unit)}: it can never be allocated"
    return ""


def _check_suppliers(structure: Structure) -> Iterator[Problem]:
    """Suppliers of several types on one supply path: a request for units of one type draws nothing from the others.

    Cost: the supply path of each supplier, where a graph distributes several types.
    """
    several = [feeds for feeds in structure.feeds if len(feeds.counted) > 1]
    if not several:
        return
    from fluxres.match.typology import Typology  # only these checks need the matcher

    typology = Typology(structure)
    for feeds in several:
        counted = feeds.given[np.isin(structure.type[feeds.given], list(feeds.counted))].tolist()
        found: dict[tuple[str, str], int] = {}
        for v in counted:
            kind = structure.kind_of(v)
            farther = (u for givers, _ in typology.paths.charged(v, feeds.kind) or () for u in givers if u < structure.n)
            for above in {structure.kind_of(u).type for u in farther if structure.kind_of(u).unit == kind.unit} - {kind.type}:
                found.setdefault((kind.type, above), v)
        name = feeds.graph.name
        for (below, above), v in found.items():
            message = f"a request for units of '{below}' is not charged to '{above}', which supplies it and has the same unit"
            hint = f"request '{name}', the name of the graph, as in [node;{name}=1], or give all suppliers the same type"
            yield Problem("warning", structure.where(v), f"{message} ({hint})")


def _check_capacities(structure: Structure) -> Iterator[Problem]:
    """Edges with a fractional capacity: jobs can only hold whole units.  Cost: O(edges)."""
    accounts = structure.accounts
    for graph in structure.subsystems.values():
        carried = capacities(graph)
        rows = np.flatnonzero(np.isfinite(carried) & (carried != np.floor(carried)))
        numbers = accounts.between(graph, graph.src[rows], graph.dst[rows])
        rows, numbers = rows[numbers >= 0], numbers[numbers >= 0]  # next to an edge without a capacity it limits nothing
        if not len(rows):
            continue
        edges = np.unique(numbers)
        edge = int(numbers[0])
        unit = f" {accounts.unit(edge)}" if accounts.unit(edge) else ""
        message = f"carries {carried[rows[0]]:g}{unit}, and {accounts.size.item(edge)} whole units of it count"
        yield Problem("warning", accounts.said(edge), f"{message} (write it in a smaller unit; edges like this: {len(edges)})")


def _check_units(structure: Structure) -> Iterator[Problem]:
    """Units that convert to no other: those that differ from a known one only in upper and lower case, and unknown ones of pools
    of which people request sizes.  Cost: O(pools + edges)."""
    numbers, first = np.unique(structure.kind, return_index=True)
    found: dict[tuple[str, str], int] = {}
    for number, v in sorted(zip(numbers.tolist(), first.tolist(), strict=True), key=itemgetter(1)):
        kind = structure.kinds[number]
        found.setdefault((kind.unit or "", kind.type if kind.type in _SIZED else ""), v)
    for edge in range(structure.n, len(structure.accounts.size)):
        found.setdefault((structure.accounts.unit(edge) or "", ""), edge)
    noted = set[str]()
    for (unit, sized), v in sorted(found.items(), key=itemgetter(1)):
        hint = did_you_mean(same_but_case(unit)) if unit and unit not in noted else ""
        if hint:
            noted.add(unit)
        elif unit and sized and unit not in {*noted, FRACTION_UNIT} and dimension(unit) is None:
            hint = f"write one such as {_SIZED[sized]}: sizes in requests never match"
        if hint:
            message = f"is counted in '{unit}', which converts to no other unit ({hint})"
            yield Problem("warning", structure.accounts.said(v), message)
