"""All audits of one graph: its structure, its records, its planner."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil
from typing import TYPE_CHECKING

import numpy as np

from fluxres import limits
from fluxres.allocation.audit import check_records
from fluxres.graph.accounts import FULL, LINKED
from fluxres.graph.audit import check_structure
from fluxres.graph.draws import Draws
from fluxres.graph.structure import Problem, Structure

if TYPE_CHECKING:
    from fluxres.match.typology import Typology
    from fluxres.model.resource_graph import ResourceGraph


def check(graph: ResourceGraph) -> list[Problem]:
    """Problems of the graph; empty when the numbered rules hold (specs/rules.md)."""
    return check_structure(graph.structure) + check_records(graph.records) + list(check_draws(graph.structure))


def check_draws(structure: Structure) -> Iterator[Problem]:
    """What pools draw by themselves, and nothing supplies, or not as much.  Cost: the way of each pool that draws anything."""
    draws = Draws(structure)
    for name in draws.types:
        fault = draws.fault(name)
        if fault is None and not _is_part(structure):
            yield from _check_supply(structure, draws, name)
        elif fault is not None:
            first = int(np.flatnonzero(draws.own(name))[0]) if draws.own(name).any() else 0
            yield Problem("warning", structure.where(first), f"{fault.message} ({fault.hint})")


def _is_part(structure: Structure) -> bool:
    """Whether suppliers may have less here than in the machine that this is a part of."""
    limited = any(key in graph.attributes for graph in structure.subsystems.values() for key in (FULL, LINKED))
    return bool(limited or structure.capacity or structure.ways.any() or structure.linked is not None)


def _check_supply(structure: Structure, draws: Draws, name: str) -> Iterator[Problem]:
    from fluxres.match.typology import Typology  # the matcher, which nothing else here needs

    typology = Typology(structure)
    kind, found = typology.numbers[name], 0
    for v in np.flatnonzero(draws.own(name)).tolist():
        message = _short_of(typology, v, kind, int(draws.own(name)[v]), name)
        found += message != ""
        if message and found <= limits.WHY_NAMES_MAX:
            yield Problem("warning", structure.where(v), message)
    if found > limits.WHY_NAMES_MAX:
        yield Problem("warning", "", f"{found} pools in all draw more {name} than they can be given")


def _short_of(typology: Typology, v: int, kind: int, units: int, name: str) -> str:
    """Why a pool can never be given what it draws; empty where it can."""
    charges = typology.paths.charged(v, kind)
    if charges is None:
        return f"draws {units} of {name}, and nothing supplies it"
    accounts = typology.accounts
    for givers, part in charges:
        most = sum(accounts.size.item(u) for u in givers)
        if ceil(part * units) > most:
            unit = f" {accounts.unit(givers[0])}" if accounts.unit(givers[0]) else ""
            return (
                f"draws {ceil(part * units)}{unit} of {accounts.said(givers[0])}, which has {most}{unit}: it can never be given"
            )
    return ""
