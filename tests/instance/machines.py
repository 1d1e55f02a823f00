"""Small machines, and a clock that tests set."""

from __future__ import annotations

from fluxres import ResourceGraph
from fluxres.instance import Instance
from fluxres.simulation.machine import of_number, of_shape


class ManualClock:
    """A clock that tests set."""

    def __init__(self, now_s: float = 0.0) -> None:
        self.now_s = now_s

    def __call__(self) -> float:
        return self.now_s


def racks() -> ResourceGraph:
    """Two racks, each with four nodes of four cores."""
    return of_shape("rack=2/node=4/core=4")


def nodes(number: int) -> ResourceGraph:
    return of_shape(f"node={number}")


def on_nodes(number: int, policy: str = "fcfs", **settings: object) -> tuple[Instance, ManualClock]:
    clock = ManualClock()
    return Instance(nodes(number), queue_policy=policy, clock=clock, **settings), clock  # type: ignore[arg-type]  # passed through


__all__ = ["ManualClock", "nodes", "of_number", "of_shape", "on_nodes", "racks"]
