"""All audits of one graph: its structure, its records, its planner."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil
from typing import TYPE_CHECKING

import numpy as np

from fluxres import limits
from fluxres.allocation.audit import check_records
from fluxres.graph.audit import check_structure
from fluxres.graph.draws import ONLY_A_WAY, WITH_UNITS, Draws
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
        if fault is None:
            yield from _check_supply(structure, draws, name)
        else:
            first = int(np.flatnonzero(draws.own(name))[0]) if draws.own(name).any() else 0
            yield Problem("warning", structure.where(first), f"{fault.message} ({fault.hint})")


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
    """Why a pool can never be given what it draws; empty where it can.

    What the enclosing instance gives on request may be enough. Of what a copy took a part of, whoever holds it was given so much.
    """
    charges = typology.paths.charged(v, kind)
    if charges is None:
        return f"draws {units} of {name}, and nothing supplies it"
    accounts = typology.accounts
    for givers, part in charges:
        if accounts.linked is not None and accounts.linked[list(givers)].any():
            continue
        drawn, unit = ceil(part * units), f" {accounts.unit(givers[0])}" if accounts.unit(givers[0]) else ""
        of = f"draws {drawn}{unit} of {accounts.said(givers[0])}"
        if accounts.ways[list(givers)].all():
            return f"{of}, {ONLY_A_WAY}: it can never be given ({WITH_UNITS})"
        most = sum(accounts.units.item(u) for u in givers)
        if drawn > most and not accounts.reduced.intersection(givers):
            return f"{of}, which has {most}{unit}: it can never be given"
    return ""
