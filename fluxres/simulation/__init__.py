"""Workloads run on instances in simulated time (specs/simulation.md).

>>> from fluxres.simulation import simulate
>>> round(simulate("ensemble:jobs=100,run=2s", 10).metrics.makespan_s, 6)
20.0
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fluxres.simulation.costs.cost import Cost
    from fluxres.simulation.machine import Machine
    from fluxres.simulation.metrics import Metrics
    from fluxres.simulation.nesting.hierarchy import Hierarchy
    from fluxres.simulation.result import Result
    from fluxres.simulation.schedule import Schedule
    from fluxres.simulation.simulator import Simulator, simulate
    from fluxres.simulation.workload.models import Bursts, Ensemble, Lublin
    from fluxres.simulation.workload.workload import Submission, Workload

__all__ = [
    "Bursts",
    "Cost",
    "Ensemble",
    "Hierarchy",
    "Lublin",
    "Machine",
    "Metrics",
    "Result",
    "Schedule",
    "Simulator",
    "Submission",
    "Workload",
    "simulate",
]

_MODULE = {
    "Cost": "costs.cost",
    "Hierarchy": "nesting.hierarchy",
    "Machine": "machine",
    "Metrics": "metrics",
    **dict.fromkeys(("Bursts", "Ensemble", "Lublin"), "workload.models"),
    "Schedule": "schedule",
    "Result": "result",
    **dict.fromkeys(("Simulator", "simulate"), "simulator"),
    **dict.fromkeys(("Submission", "Workload"), "workload.workload"),
}


def __getattr__(name: str) -> object:
    if name not in _MODULE:
        raise AttributeError(f"module 'fluxres.simulation' has no attribute {name!r}")
    return getattr(import_module(f"fluxres.simulation.{_MODULE[name]}"), name)


def __dir__() -> list[str]:
    return __all__
