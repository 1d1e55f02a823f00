"""All audits of one graph: its structure, its records, its planner."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fluxres.allocation.audit import check_records
from fluxres.graph.audit import check_structure
from fluxres.graph.structure import Problem

if TYPE_CHECKING:
    from fluxres.model.resource_graph import ResourceGraph


def check(graph: ResourceGraph) -> list[Problem]:
    """Problems of the graph; empty when the numbered rules hold (specs/rules.md)."""
    return check_structure(graph.structure) + check_records(graph.records)
