"""What a node draws: the parameters of SimGrid's plugin for the energy of hosts, and the draw of a node that is being switched.

A node that is on draws `idle_w` while nothing runs on it.  Otherwise its draw is linear in the part of its cores that jobs hold,
from `epsilon_w` for none of them to `full_w` for all.  A node that is off draws `off_w`.  SimGrid reads these values from the
properties ``wattage_per_state`` (``Idle:AllCores``, or ``Idle:Epsilon:AllCores``) and ``wattage_off`` of a host; nodes may have
the same properties here.  Its older ``watt_per_state`` has the draw with one core in use in the middle, and ``watt_off``.
https://simgrid.org/doc/latest/Plugins.html
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

import numpy as np

from fluxres import limits
from fluxres.arrays import Int64
from fluxres.errors import InputError, UsageError
from fluxres.syntax import parameters

MICROWATTS: Final = 1_000_000
"""Per watt: powers are whole microwatts, so that energy is a whole number as well, without drift."""

PER_STATE: Final = ("wattage_per_state", "watt_per_state")
OFF: Final = ("wattage_off", "watt_off")
RESUME: Final = "wattage_resume"
SUSPEND: Final = "wattage_suspend"


@dataclass(frozen=True)
class NodePower:
    """The draw of a node, in watts.

    Args:
        idle_w: on, without jobs.
        full_w: all cores held.
        epsilon_w: on, with jobs that hold no core; default: `idle_w`.
        off_w: off, or down.
        resume_w: while it is switched on; default: `full_w`.
        suspend_w: while it is switched off; default: `idle_w`.

    >>> NodePower(100.0, 200.0, 120.0).microwatts(np.array([0, 1, 4]), np.array([4, 4, 4])) / MICROWATTS
    array([120., 140., 200.])
    """

    idle_w: float
    full_w: float
    epsilon_w: float | None = None
    off_w: float = 0.0
    resume_w: float | None = None
    suspend_w: float | None = None

    def __post_init__(self) -> None:
        for name in (field.name for field in fields(self)):
            value = getattr(self, name)
            if value is not None and not 0 <= value <= limits.NODE_WATTS_MAX:
                raise UsageError(f"{name}: expected 0 to {limits.NODE_WATTS_MAX}, got {value!r:.80}", where="energy")
        if self.full_w < self.at_epsilon_w:
            name = "idle_w" if self.epsilon_w is None else "epsilon_w"
            raise UsageError(f"full_w: expected at least {name}, {self.at_epsilon_w:g} W, got {self.full_w:g}", where="energy")

    @property
    def at_epsilon_w(self) -> float:
        return self.idle_w if self.epsilon_w is None else self.epsilon_w

    def fixed(self) -> tuple[int, int, int, int, int, int]:
        """Microwatts: idle, epsilon, full, off, being switched on, being switched off."""
        on = self.full_w if self.resume_w is None else self.resume_w
        off = self.idle_w if self.suspend_w is None else self.suspend_w
        idle, epsilon, full, is_off, resume, suspend = (
            round(watts * MICROWATTS) for watts in (self.idle_w, self.at_epsilon_w, self.full_w, self.off_w, on, off)
        )
        return idle, epsilon, full, is_off, resume, suspend

    def microwatts(self, held: Int64, cores: Int64) -> Int64:
        """Microwatts of nodes in use, by the number of their cores that are held; to the nearest whole number."""
        _, epsilon, full, *_ = self.fixed()
        return loaded(np.full(len(cores), epsilon), np.full(len(cores), full), held, cores)


def loaded(epsilon: Int64, full: Int64, held: Int64, cores: Int64) -> Int64:
    """Microwatts of nodes with `held` of their cores in use."""
    found: Int64 = epsilon + ((full - epsilon) * np.minimum(held, cores) + cores // 2) // cores
    return found


def of_properties(properties: Mapping[str, Any], cores: int, where: str) -> NodePower | None:
    """The draw of a node with these properties; None if they do not specify it.

    Args:
        cores: of the node.
        where: the node, for messages.

    Errors: InputError for values that are no powers.

    >>> of_properties({"wattage_per_state": "100.0:120.0:200.0", "wattage_off": 10}, 4, "node0")
    NodePower(idle_w=100.0, full_w=200.0, epsilon_w=120.0, off_w=10.0, resume_w=None, suspend_w=None)
    >>> of_properties({"watt_per_state": "100:120:210"}, 4, "node0").epsilon_w
    90.0
    """
    name = next((name for name in PER_STATE if name in properties), None)
    if name is None:
        return None
    # SimGrid separates the states of a host that runs at several speeds by commas; the first is the one it starts in.
    values = [_watts(part, f"{where}.{name}") for part in str(properties[name]).split(",")[0].split(":")]
    if len(values) not in (2, 3):
        raise InputError(
            f"expected Idle:AllCores or Idle:Epsilon:AllCores, got {properties[name]!r:.80}", where=f"{where}.{name}"
        )
    idle, *middle, full = values
    epsilon = middle[0] if middle else None
    if epsilon is not None and name == PER_STATE[1]:
        epsilon = epsilon - (full - epsilon) / (cores - 1) if cores > 1 else full
    off = next((_watts(properties[name], f"{where}.{name}") for name in OFF if name in properties), 0.0)
    others = (_watts(properties[name], f"{where}.{name}") if name in properties else None for name in (RESUME, SUSPEND))
    try:
        return NodePower(idle, full, epsilon, off, *others)
    except UsageError as error:
        raise InputError(error.message, where=where) from None


def _watts(given: Any, where: str) -> float:
    try:
        return float(given)
    except (TypeError, ValueError):
        raise InputError(f"expected watts, got {given!r:.80}", where=where) from None


def parse(text: str) -> NodePower:
    """The draw of a node from a command line: ``idle=100,full=200``, and epsilon, off, resume and suspend.

    Errors: UsageError.

    >>> parse("idle=100,full=200,off=10")
    NodePower(idle_w=100.0, full_w=200.0, epsilon_w=None, off_w=10.0, resume_w=None, suspend_w=None)
    """
    return NodePower(**parameters.read(text, parameters.of(NodePower), "energy"))
