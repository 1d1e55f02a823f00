"""The power cap as a supply: a feed in the graph of the machine, from which jobs draw what their nodes do.

What nodes may not draw is reserved on it, so every policy keeps the cap as it keeps advance reservations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

import numpy as np
from msgspec import structs

from fluxres.clock import FOREVER, seconds
from fluxres.errors import UsageError
from fluxres.graph.auxiliary import Subsystem
from fluxres.graph.kinds import DRAW, Kind, KindTable, properties_tuple
from fluxres.graph.recipe import NO_RANK
from fluxres.graph.structure import COLUMNS, Structure
from fluxres.simulation.energy.energy import NOT_COUNTED, Energy, is_known
from fluxres.simulation.energy.fleet import Fleet
from fluxres.simulation.energy.node_power import MICROWATTS
from fluxres.simulation.machine import Machine
from fluxres.syntax.jobspec import Request, parse_shape

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fluxres.instance import Instance
    from fluxres.simulation.energy.power_cap import PowerCap

GRAPH: Final = "power_cap"
"""The name of the auxiliary graph, and the type of its feed."""
_MICRO: Final = MICROWATTS // 1000
"""Microwatts per unit of the feed."""


def with_fleet(machine: Machine, settings: Energy | Literal["none"] | None) -> tuple[Machine, Fleet | None]:
    """The machine of a simulation, with a feed if there is a power cap; and its nodes, if it is known what they draw.

    Args:
        settings: None: what nodes have as properties, if they have; "none": nothing.

    Errors: those of `Fleet`; UsageError for a cap that cannot be kept.
    """
    if settings == NOT_COUNTED or (settings is None and not is_known(machine.graph.structure)):
        return machine, None
    fleet = Fleet(machine, settings if settings is not None else Energy())
    if fleet.cap is not None:
        require(fleet.cap, fleet)
        machine = with_feed(machine, fleet, fleet.cap)
        fleet.move_to(machine)
    return machine, fleet


def require(cap: PowerCap, fleet: Fleet) -> None:
    """Errors: UsageError for units without names, and for a cap below what all nodes may draw without jobs."""
    if not fleet.has_names:
        raise UsageError("units of one pool have no power cap", where="power cap", hint="give a machine with names: node=100")
    base = int(fleet.at_rest.sum()) / MICROWATTS
    least = min((watts for _, _, watts in cap.intervals()), default=base)
    if least < base:
        raise UsageError(f"{least:g} W is below the {base:g} W that all nodes may draw without jobs", where="power cap")


def with_feed(machine: Machine, fleet: Fleet, cap: PowerCap) -> Machine:
    """The machine with a feed for what jobs draw.

    Errors: UsageError for a machine that has such a feed.
    """
    structure = machine.graph.structure
    if GRAPH in structure.subsystems or GRAPH in structure.types:
        raise UsageError(f"the machine has a {GRAPH} already", where="power cap")
    kinds = KindTable(structure.kinds)
    kind = structure.kind.copy()
    nodes = structure.of_type(fleet.each)
    each = np.maximum(-(-fleet.in_use // _MICRO), 0)
    total = 0
    known: dict[tuple[int, int], int] = {}
    for at, v in enumerate(nodes.tolist()):
        pools = [v]
        if "core" in structure.types:
            cores = structure.of_type("core")
            first, stop = np.searchsorted(cores, (v, structure.end.item(v)))
            pools = cores[first:stop].tolist() or pools
        amount = -(-int(each[at]) // max(int(structure.size[pools].sum()), 1))
        total += amount * int(structure.size[pools].sum())
        for pool in pools:
            key = structure.kind.item(pool), amount * structure.size.item(pool)
            if key not in known:
                known[key] = kinds.intern(_drawing(structure.kinds[key[0]], key[1]))
            kind[pool] = known[key]
    feed = structure.n
    own = {
        "parent": -1,
        "end": feed + 1,
        "kind": kinds.intern(Kind(GRAPH, "feed", "mW")),
        "size": max(_largest(cap, fleet, total), 1),
        "id": -1,
        "rank": NO_RANK,
        "state": 0,
        "flags": 0,
        "origin": 0,
        "serial": int(structure.serial.max()) + 1,
    }
    given: dict[str, NDArray[np.generic]] = {name: getattr(structure, name) for name in COLUMNS} | {"kind": kind}
    columns = {name: np.append(column, np.array(own[name], column.dtype)) for name, column in given.items()}
    graph = Subsystem(GRAPH, True, np.full(len(nodes), feed, np.int32), nodes.astype(np.int32), relations=["supplies"])
    made = Structure(
        columns,
        kinds,
        origins=list(structure.origins),
        names=dict(structure.names),
        uuid_texts=dict(structure.uuid_texts),
        tags=dict(structure.tags),
        capacity=dict(structure.capacity),
        subsystems={**structure.subsystems, GRAPH: graph},
        tree_end=structure.tree_end,
    )
    from fluxres.model import ResourceGraph

    return Machine(ResourceGraph(made), machine.unit)


def _room(watts: float, fleet: Fleet) -> int:
    """Milliwatts that jobs may draw below a cap."""
    return (round(watts * MICROWATTS) - int(fleet.at_rest.sum())) // _MICRO


def _largest(cap: PowerCap, fleet: Fleet, total: int) -> int:
    """What jobs may draw at some time at most, and not more than all nodes draw."""
    found = cap.intervals()
    is_always = len(found) == len(cap.steps) and not found[0][0]
    return min(total, max(_room(watts, fleet) for _, _, watts in found)) if is_always else total


def _drawing(kind: Kind, amount: int) -> Kind:
    return structs.replace(kind, properties=properties_tuple([*kind.properties, (DRAW + GRAPH, amount)]))


def reserve(cap: PowerCap, instance: Instance, fleet: Fleet, payload: object) -> None:
    """Reserve what nodes may not draw.

    Args:
        payload: of the jobs of these reservations.
    """
    structure = instance.inventory.graph.structure
    (feed,) = structure.of_type(GRAPH).tolist()
    size = structure.size.item(feed)
    for begin, end, watts in cap.intervals():
        room = _room(watts, fleet)
        start = max(begin, instance.now + 1)
        if room < size and end > start:
            wanted = Request(parse_shape(f"slot=1/{GRAPH}={size - room}"))
            length_s = "infinity" if end >= FOREVER else seconds(end - start)
            instance.reserve(wanted, start_s=seconds(start), duration_s=length_s, payload=payload)
