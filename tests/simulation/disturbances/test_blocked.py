"""Units that jobs could not have: out of service or reserved, as charts show them."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from fluxres import limits
from fluxres.clock import TICKS_PER_S
from fluxres.experiments.gantt import Span, Units, blocked, gantt, rectangles
from fluxres.simulation.disturbances.blocked import OUT_OF_SERVICE, RESERVED, Blocked
from fluxres.simulation.disturbances.external import AdvanceReservation, Disturbances, ExternalEvent
from fluxres.simulation.machine import Machine, of_shape
from fluxres.simulation.result import Result
from fluxres.simulation.simulator import Simulator
from fluxres.simulation.workload.workload import Submission
from fluxres.syntax import idset

S = TICKS_PER_S


def run(events: list[ExternalEvent], run_s: int = 60) -> Result:
    machine = Machine(of_shape("node=3/core=2"), "core")
    simulator = Simulator(machine, queue_policy="fcfs", disturbances=Disturbances(events, "requeue"))
    return simulator.run([Submission(1, 0, run_s * S, run_s * S, 1)])


@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(20))
def test_units_out_of_service_are_those_of_each_second(seed: int) -> None:
    random_ = random.Random(seed)
    events, down = [], [[False] * 6 for _ in range(61)]
    state: dict[str, bool] = {}
    for at in sorted(random_.sample(range(1, 60), 20)):
        name = random_.choice(["node1", "node2", "/c/node1/core0", "/c/node2/core1"])
        state[name] = random_.random() < 0.6
        events.append(ExternalEvent(at * S, "down" if state[name] else "up", name.replace("/c/", "/cluster/")))
        for unit in range(6):
            node, core = f"node{unit // 2}", f"/c/node{unit // 2}/core{unit % 2}"
            for second in range(at, 61):
                down[second][unit] = state.get(node, False) or state.get(core, False)
    found = [[False] * 6 for _ in range(61)]
    for each in run(events).blocked:
        assert (each.kind, each.start % S, each.end % S) == (OUT_OF_SERVICE, 0, 0)
        for second in range(each.start // S, each.end // S):
            for unit in idset.parse(each.units):
                assert not found[second][unit]
                found[second][unit] = True
    assert found[:60] == down[:60]


def test_reservations_are_there_with_their_names() -> None:
    events = [
        ExternalEvent(0, "reserve", AdvanceReservation(4, 10 * S, 5 * S, "class")),
        ExternalEvent(1 * S, "reserve", AdvanceReservation(1, 90 * S, S)),
    ]
    first, second = run(events).blocked
    assert first == Blocked(RESERVED, 10 * S, 15 * S, first.units, "class")
    assert len(idset.parse(first.units)) == 4
    assert (second.start, second.end, second.name) == (90 * S, 91 * S, "")


def test_their_number_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    events = [ExternalEvent(at * S, "up" if at % 2 else "down", "node2") for at in range(20)]
    assert len(run(events).blocked) == 10
    monkeypatch.setattr(limits, "BLOCKED_MAX", 3)
    assert len(run(events).blocked) == 3


def test_charts_show_them_hatched_with_a_legend(tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text("job_id,starting_time,finish_time,allocated_resources\n1,0,5,0-1\n")
    given = [
        {"kind": kind, "start": 1.0, "end": 4.0, "units": units, "name": ""}
        for kind, units in ((OUT_OF_SERVICE, "3 5"), (RESERVED, "4"))
    ]
    closed = blocked([each | {"units": str(each["units"]).replace(" ", ",")} for each in given])
    assert {kind: list(zip(own.first, own.after, strict=True)) for kind, own in closed.items()} == {
        OUT_OF_SERVICE: [(3, 4), (5, 6)],
        RESERVED: [(4, 5)],
    }
    span, units = Span(0.0, 5.0), Units(6, "core")
    made = gantt(rectangles(tmp_path / "jobs.csv"), "x", "x", span=span, units=units, closed=closed)
    text = made.svg.decode()
    assert text.count('id="closed"') == 2
    assert OUT_OF_SERVICE in text
    assert 'id="closed"' not in gantt(rectangles(tmp_path / "jobs.csv"), "x", "x", span=span, units=units).svg.decode()
