"""Energy of a simulation: its settings, and what the nodes consumed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from fluxres.clock import seconds
from fluxres.errors import UsageError
from fluxres.simulation.energy import node_power, power_cap, power_saving
from fluxres.simulation.energy.node_power import MICROWATTS, PER_STATE, NodePower
from fluxres.simulation.energy.power_cap import PowerCap
from fluxres.simulation.energy.power_saving import ALWAYS_ON, PowerSaving
from fluxres.simulation.schedule import PICOJOULES

if TYPE_CHECKING:
    from fluxres.graph.structure import Structure

NOT_COUNTED: Final = "none"
"""In the place of an `Energy`: what nodes draw is not counted, also if their properties say it."""

CATEGORIES: Final = ("computing", "idle", "sleeping", "switching_on", "switching_off", "unavailable")
"""What a node may be doing, in Batsim's words."""


@dataclass(frozen=True)
class Energy:
    """What nodes draw, and when they are switched off.

    Args:
        node: what a node draws that has no properties for it; None: such a node is an error.
        cap: of the power of all nodes.
    """

    node: NodePower | None = None
    saving: PowerSaving = ALWAYS_ON
    cap: PowerCap | None = None


def of_options(node: str | None, saving: str | None, cap: str | None) -> Energy | Literal["none"] | None:
    """The settings of a command line; None if it says nothing.

    Errors: UsageError.

    >>> of_options("none", None, None), of_options(None, None, None)
    ('none', None)
    """
    if node is saving is cap is None:
        return None
    if node == "none":
        if saving is not None or cap is not None:
            raise UsageError("--energy none counts nothing", hint="leave out --power-saving and --power-cap, or --energy none")
        return "none"
    return Energy(
        None if node is None else node_power.parse(node),
        ALWAYS_ON if saving is None else power_saving.parse(saving),
        None if cap is None else power_cap.parse(cap),
    )


def is_known(structure: Structure) -> bool:
    """Whether nodes of a machine have properties that say what they draw."""
    return any(name in PER_STATE for kind in structure.kinds for name, _ in kind.properties)


@dataclass(frozen=True)
class EnergyUse:
    """What the nodes consumed from the first submission to the last end of a job.

    Args:
        begin, end: of that time, in ticks.
        nodes: their number.
        energies: picojoules, by category.
        times: node-ticks, by category.
        peak: microwatts.
        boots, shutdowns: nodes that were switched on and off.
        grouped: how often one or more of them were, at one moment.
        over_cap: ticks in which they drew more than the cap; None without one.
    """

    begin: int
    end: int
    nodes: int
    energies: tuple[int, ...]
    times: tuple[int, ...]
    peak: int
    boots: int
    shutdowns: int
    grouped: int
    over_cap: int | None = None

    def joules(self, *categories: str) -> float:
        """What nodes consumed in these categories; in all, if none is given."""
        return sum(self.energies[CATEGORIES.index(name)] for name in categories or CATEGORIES) / PICOJOULES

    def time_s(self, category: str) -> float:
        """The time of all nodes in a category."""
        return seconds(self.times[CATEGORIES.index(category)])

    def figures(self, jobs: int, mean_turnaround_s: float | None) -> dict[str, Any]:
        """Metrics.

        Args:
            jobs: that ran.
        """
        total, length_s = self.joules(), seconds(self.end - self.begin)
        each = total / jobs if jobs else None
        return {
            "energy_j": total,
            "idle_energy_j": self.joules("idle"),
            "switching_energy_j": self.joules("switching_on", "switching_off"),
            "off_energy_j": self.joules("sleeping", "unavailable"),
            "energy_per_job_j": each,
            "energy_delay_js": None if each is None or mean_turnaround_s is None else each * mean_turnaround_s,
            "mean_power_w": total / length_s if length_s else None,
            "peak_power_w": self.peak / MICROWATTS,
            "boots": self.boots,
            "over_cap_s": None if self.over_cap is None else seconds(self.over_cap),
        }
