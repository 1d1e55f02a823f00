"""Partitions: named parts of a machine with a state and limits for jobs, as in Slurm; Flux calls them queues.

A partition is a pool of type ``partition`` outside the containment tree. An edge of the graph ``partitions`` leads to each of its
members: a node, or a pool with everything in it. Its state is that of the pool, and its limits are properties of the pool
(`SETTINGS`), so that every format, the journal, copies and merges carry them like those of any other pool.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from fluxres.arrays import Int32, Mask
from fluxres.errors import InputError, UsageError
from fluxres.graph.forest import are_in
from fluxres.graph.kinds import STATES, UNAVAILABLE_STATES, PropertyValue
from fluxres.syntax import duration

if TYPE_CHECKING:
    from fluxres.graph.accounts import Pools

PARTITIONS: Final = "partitions"
"""The auxiliary graph of partitions."""
PARTITION: Final = "partition"
"""The type of their pools."""
SCHEDULES: Final = "schedules"
"""The relation of its edges."""
SETTINGS: Final = ("default", "default_time", "max_time", "min_nodes", "max_nodes")
"""The properties of a partition that bind requests."""
PARTITION_STATES: Final = ("up", "down", "drain", "inactive")
"""up: jobs are accepted and start; down: they are accepted, none starts; drain: no new ones are accepted, waiting ones start;
inactive: none is accepted, and none starts."""


@dataclass(frozen=True, eq=False)
class Partition:
    """One partition of a machine.

    Args:
        name: by which requests refer to it.
        vertex: its pool.
        is_default: requests that name no partition go to it.
        default_time_s: duration of a request that states none; None for `max_time_s`.
        max_time_s: the longest duration of a job; infinity for no limit.
        min_nodes, max_nodes: how many nodes a job has at least and at most; None for no limit.
    """

    name: str
    vertex: int
    is_default: bool
    default_time_s: float | None
    max_time_s: float
    min_nodes: int
    max_nodes: int | None
    _structure: Pools
    _tops: Int32

    def __repr__(self) -> str:
        return f"<Partition {self.name}: {self.state}, {len(self.members)} members>"

    @property
    def state(self) -> str:
        """up, down, drain or inactive: its present state; a pool state such as `failing` is down, `degraded` is up."""
        state = STATES[self._structure.state.item(self.vertex)]
        if state in PARTITION_STATES:
            return state
        return "down" if state in UNAVAILABLE_STATES else "up"

    @property
    def accepts_jobs(self) -> bool:
        return self.state in ("up", "down")

    @property
    def starts_jobs(self) -> bool:
        return self.state in ("up", "drain")

    @property
    def time_if_unstated_s(self) -> float:
        """The duration of a request that states none; infinity for no end."""
        return self.max_time_s if self.default_time_s is None else self.default_time_s

    @cached_property
    def members(self) -> Int32:
        """Its nodes, ascending; on a machine without nodes, its pools."""
        nodes = self._structure.of_type("node")
        nodes = nodes[nodes < self._structure.tree_end]
        return nodes[self.covers(nodes)] if len(nodes) else self._tops

    def covers(self, vertices: Int32) -> Mask:
        """Which pools are members, or in one.  Cost: one search per pool, vectorised."""
        return are_in(self._structure.end, self._tops, vertices)


def partitions_of(structure: Pools) -> dict[str, Partition]:
    """The partitions of a machine by name, in the order of their pools.

    Errors: InputError for a limit that is none, and for two partitions of one name.
    Cost: in the number of edges, once.
    """
    graph = structure.subsystems.get(PARTITIONS)
    if graph is None or graph.hierarchy:
        return {}
    found: dict[str, Partition] = {}
    pools = structure.of_type(PARTITION)
    for v in pools[pools >= structure.tree_end].tolist():
        name = structure.name(v)
        if name in found:
            raise InputError(f"two partitions are named '{name}'", where=PARTITIONS, hint="rename one of them")
        settings = settings_of(dict(structure.kind_of(v).properties), f"{PARTITIONS}:/{name}")
        is_default = settings.pop("is_default") and not any(one.is_default for one in found.values())
        found[name] = Partition(name, v, is_default, **settings, _structure=structure, _tops=np.unique(graph.successors(v)))
    return found


def require_state(structure: Pools, partitions: Collection[Partition], vertices: Iterable[int], state: str) -> None:
    """Refuse a state that a partition cannot have. Errors: UsageError."""
    if state in PARTITION_STATES or not partitions:
        return
    pools = {partition.vertex for partition in partitions}
    wrong = next((int(v) for v in vertices if int(v) in pools), None)
    if wrong is not None:
        hint = f"states of a partition are {', '.join(PARTITION_STATES)}"
        raise UsageError(f"a partition cannot be {state}", where=structure.where(wrong), hint=hint)


def settings_of(properties: Mapping[str, PropertyValue], where: str) -> dict[str, Any]:
    """The fields of a `Partition` that its properties give; formats that only have text give them as text.

    Errors: InputError with the property.

    >>> settings_of({"max_time": "1d", "max_nodes": "4"}, "")["max_time_s"]
    86400.0
    """
    return {
        "is_default": _flag(properties, "default", where),
        "default_time_s": _seconds(properties, "default_time", where),
        "max_time_s": _seconds(properties, "max_time", where) or math.inf,
        "min_nodes": _number(properties, "min_nodes", where) or 0,
        "max_nodes": _number(properties, "max_nodes", where),
    }


def _flag(properties: Mapping[str, PropertyValue], key: str, where: str) -> bool:
    value = properties.get(key, False)
    word = "true" if value is None else str(value).lower()
    if word not in ("true", "false", "yes", "no", "1", "0"):
        raise _refused(key, "true or false", value, where)
    return word in ("true", "yes", "1")


def _seconds(properties: Mapping[str, PropertyValue], key: str, where: str) -> float | None:
    value = properties.get(key)
    if key not in properties or value is None:
        return None
    try:
        found = duration.read(value if isinstance(value, str) else str(float(value)))
    except InputError:
        raise _refused(key, "a duration such as 30m, 24h or 7d", value, where) from None
    if found <= 0:
        raise _refused(key, "a duration above 0", value, where)
    return found


def _number(properties: Mapping[str, PropertyValue], key: str, where: str) -> int | None:
    value = properties.get(key)
    if key not in properties or value is None:
        return None
    text = str(value)
    if isinstance(value, bool) or not (text.isascii() and text.isdecimal()) or len(text) > 18:
        raise _refused(key, "a number of nodes", value, where)
    return int(text)


def _refused(key: str, expected: str, value: PropertyValue, where: str) -> InputError:
    return InputError(f"{key}: expected {expected}, got {value!r:.80}", where=where)
