"""`fluxres edge`: edges of auxiliary graphs."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Literal

import click

from fluxres.cli import completing
from fluxres.cli.arguments import key_value
from fluxres.cli.output import answer
from fluxres.cli.program import Group
from fluxres.cli.settings import Settings
from fluxres.cli.stores import changing, note_supply
from fluxres.documents.document import excerpt
from fluxres.errors import ErrorPlace, InputError, UsageError
from fluxres.syntax import unit as units

if TYPE_CHECKING:
    from fluxres.graph.structure import Structure
    from fluxres.model import ResourceGraph


@click.group("edge", cls=Group)
def edge_command() -> None:
    """Add, change or remove an edge of an auxiliary graph."""


_source = click.argument("source", shell_complete=completing.pool)
_target = click.argument("target", shell_complete=completing.pool)
_graph = click.option(
    "--subsystem", metavar="NAME", required=True, shell_complete=completing.subsystem, help="The auxiliary graph."
)
_relation = click.option("--relation", metavar="R", help="Relation of the edge, if there are several between the two pools.")
_capacity = click.option("--capacity", metavar="N", help="Units that it carries at once, such as 4000 or 24kW; inf for no limit.")
_unit = click.option("--unit", metavar="U", help="Unit of the capacity.")
_supply = click.option(
    "--supply",
    type=click.Choice(("all", "any")),
    help="For a pool with several suppliers: each supplies the full draw (all), or one of them does (any).",
)
_attributes = click.option("--attribute", "attributes", metavar="K=V", multiple=True, help="Additional attribute, as text.")


@edge_command.command("add")
@_source
@_target
@_graph
@click.option("--relation", metavar="R", default="link", show_default=True, help="Relation of the edge, such as supplies.")
@_capacity
@_unit
@_supply
@_attributes
@click.option(
    "--new",
    type=click.Choice(("hierarchy", "graph")),
    help="Create the graph if it does not exist: a hierarchy, or a plain graph.",
)
@click.pass_obj
def add(
    settings: Settings,
    source: str,
    target: str,
    subsystem: str,
    relation: str,
    capacity: str | None,
    unit: str | None,
    supply: Literal["all", "any"] | None,
    attributes: tuple[str, ...],
    new: str | None,
) -> None:
    """Add an edge from SOURCE to TARGET."""
    values = dict(map(key_value, attributes))
    if None in values.values():
        raise UsageError("an attribute of a new edge needs a value", hint="K=V")
    with changing(settings) as graph:
        before = graph.structure
        given = {key: value for key, value in values.items() if value is not None}
        carried, unit = _carried(before, subsystem, capacity, unit)
        hierarchy = None if new is None else new == "hierarchy"
        graph.add_edge(
            source,
            target,
            subsystem,
            relation=relation,
            capacity=carried,
            unit=unit,
            supply=supply,
            attributes=given,
            hierarchy=hierarchy,
        )
    _answer(settings, graph, before, (subsystem, source, target, relation), "is added")


@edge_command.command("set")
@_source
@_target
@_graph
@_relation
@_capacity
@_unit
@_supply
@_attributes
@click.pass_obj
def change(
    settings: Settings,
    source: str,
    target: str,
    subsystem: str,
    relation: str | None,
    capacity: str | None,
    unit: str | None,
    supply: Literal["all", "any"] | None,
    attributes: tuple[str, ...],
) -> None:
    """Change the edge from SOURCE to TARGET. K without a value removes an attribute."""
    values = dict(map(key_value, attributes))
    with changing(settings) as graph:
        before = graph.structure
        carried, unit = _carried(before, subsystem, capacity, unit)
        graph.set_edge(
            source, target, subsystem, relation=relation, capacity=carried, unit=unit, supply=supply, attributes=values
        )
    said = [] if carried is None else ["no limit" if carried == inf else f"capacity {carried:g}"]
    said += [] if unit is None else [f"unit {unit}"]
    said += [] if supply is None else [f"supply {supply}"]
    said += [f"{key}={value}" if value is not None else f"no {key}" for key, value in values.items()]
    _answer(settings, graph, before, (subsystem, source, target, relation), f"has {', '.join(said)}")


@edge_command.command("remove")
@_source
@_target
@_graph
@_relation
@click.pass_obj
def remove(settings: Settings, source: str, target: str, subsystem: str, relation: str | None) -> None:
    """Remove the edge from SOURCE to TARGET; the pools remain."""
    with changing(settings) as graph:
        before = graph.structure
        graph.remove_edge(source, target, subsystem, relation=relation)
    _answer(settings, graph, before, (subsystem, source, target, relation), "is removed")


def _carried(structure: Structure, subsystem: str, capacity: str | None, given: str | None) -> tuple[float | None, str | None]:
    """The number and the unit of a capacity, as in a cluster file. Errors: InputError."""
    from fluxres.graph.edges import in_unit_of

    if capacity is None:
        return None, given
    if units.is_size(capacity):
        with ErrorPlace("--capacity"):
            number, own = units.parse(capacity) if given is None else (units.exactly(capacity, given), given)
        if given is None and subsystem in structure.subsystems:
            number, own = in_unit_of(structure, structure.subsystems[subsystem].members, number, own)
        return float(number), own
    try:
        return float(capacity), given
    except ValueError:
        message = f"expected a number, or one with a unit, got {excerpt(capacity)}"
        raise InputError(message, where="--capacity", hint="such as 4000, '24 kW' or inf") from None


def _answer(
    settings: Settings, graph: ResourceGraph, before: Structure, edge: tuple[str, str, str, str | None], done: str
) -> None:
    from fluxres.render import documents

    subsystem, source, target, relation = edge
    note_supply(graph, before)
    answer(
        settings,
        document=lambda: documents.edge(graph, source, target, subsystem, relation),
        lines=lambda _style: [f"{subsystem}: {source} -> {target} {done}"],
    )
