"""A cap on the power of a machine, over time.

The planner keeps it, as it keeps any other supply.  The machine gets an auxiliary graph with one feed for all nodes, in
milliwatts: its size is the highest cap without what nodes draw at most when no job runs on them, and each node, or each of its
cores, draws what it draws in use beyond that.  Where the cap is lower, an advance reservation holds the difference.  So a job
starts only if the cap holds for as long as it is planned, under every policy, and one that draws more than any cap is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec import structs

from fluxres import limits
from fluxres.clock import FOREVER, seconds, ticks
from fluxres.errors import FluxresError, UsageError
from fluxres.graph.auxiliary import Subsystem
from fluxres.graph.kinds import DRAW, Kind, KindTable, properties_tuple
from fluxres.graph.recipe import NO_RANK
from fluxres.graph.structure import COLUMNS, Structure
from fluxres.simulation.energy.node_power import MICROWATTS
from fluxres.simulation.machine import Machine
from fluxres.syntax import duration as durations
from fluxres.syntax import parameters
from fluxres.syntax.jobspec import Request, parse_shape

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fluxres.instance import Instance
    from fluxres.simulation.energy.fleet import Fleet

GRAPH: Final = "power_cap"
"""The name of the auxiliary graph, and the type of its feed."""
_MICRO: Final = MICROWATTS // 1000
"""Microwatts per unit of the feed."""


@dataclass(frozen=True)
class PowerCap:
    """A step function.

    Args:
        steps: (seconds, watts), ascending; the cap holds from then on, None for none. Before the first, there is none.

    >>> PowerCap(((0.0, 6400.0), (3600.0, None))).at(0), PowerCap(((0.0, 6400.0), (3600.0, None))).at(3_600_000_000)
    (6400.0, None)
    """

    steps: tuple[tuple[float, float | None], ...]

    def __post_init__(self) -> None:
        if not self.steps:
            raise UsageError("expected at least one cap", where="power cap")
        for (before, _), (after, _) in pairwise(self.steps):
            if not before < after:
                raise UsageError(f"a cap from {after:g} s on stands after one from {before:g} s on", where="power cap")
        for at_s, watts in self.steps:
            if not 0 <= at_s <= 1e9:
                raise UsageError(f"expected a time up to 1e9 s, got {at_s!r:.40}", where="power cap")
            if watts is not None and not 0 <= watts <= limits.POWER_CAP_WATTS_MAX:
                raise UsageError(f"expected 0 to {limits.POWER_CAP_WATTS_MAX} W, got {watts!r:.40}", where="power cap")

    def at(self, moment: int) -> float | None:
        """Watts."""
        found = None
        for at_s, watts in self.steps:
            if ticks(at_s) <= moment:
                found = watts
        return found

    def intervals(self) -> Sequence[tuple[int, int, float]]:
        """Where there is a cap: begin and end in ticks, and watts."""
        moments = [*(ticks(at_s) for at_s, _ in self.steps), FOREVER]
        caps = [watts for _, watts in self.steps]
        return [(begin, end, watts) for (begin, end), watts in zip(pairwise(moments), caps, strict=True) if watts is not None]


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
    structure = instance.graph.structure
    (feed,) = structure.of_type(GRAPH).tolist()
    size = structure.size.item(feed)
    for begin, end, watts in cap.intervals():
        room = _room(watts, fleet)
        start = max(begin, instance.now + 1)
        if room < size and end > start:
            wanted = Request(parse_shape(f"slot=1/{GRAPH}={size - room}"))
            length_s = "infinity" if end >= FOREVER else seconds(end - start)
            instance.reserve(wanted, start_s=seconds(start), duration_s=length_s, payload=payload)


def parse(text: str) -> PowerCap:
    """A cap from a command line: ``6.4kW``, or over time ``0=12.8kW,8h=6400,18h=none``.

    Errors: UsageError.

    >>> parse("0=12.8kW,8h=6400,18h=none").steps
    ((0.0, 12800.0), (28800.0, 6400.0), (64800.0, None))
    """
    if "=" not in text:
        return PowerCap(((0.0, _watts(text)),))
    steps = []
    for at, value in parameters.pairs(text, "power cap").items():
        try:
            steps.append((durations.read(at), None if value == "none" else _watts(value)))
        except FluxresError as error:
            raise UsageError(error.message, where=f"power cap {at:.80}", hint=error.hint) from None
    return PowerCap(tuple(steps))


_PREFIXES: Final = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9}


def _watts(text: str) -> float:
    number = text.strip().removesuffix("W")
    prefix = number[-1:] if number[-1:] in _PREFIXES else ""
    try:
        return float(number.removesuffix(prefix)) * _PREFIXES[prefix]
    except ValueError:
        raise UsageError(f"expected watts such as 6.4kW, got {text!r:.80}", where="power cap") from None
