"""Fits know what they saw, and calibrated ones carry from one topology to another.

Decisions are measured in calls of functions instead of processor time, so that results are the same each time.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from types import FrameType

import pytest

from fluxres import limits
from fluxres.errors import UsageError
from fluxres.simulation import calibration, simulator
from fluxres.simulation.costs import seen
from fluxres.simulation.costs.cost import Cost, Fitted, Measured, parse
from fluxres.simulation.costs.decision import Decision
from fluxres.simulation.costs.fit import Fit
from fluxres.simulation.costs.seen import FitBounds, Sights
from fluxres.simulation.machine import Machine, of_shape
from fluxres.simulation.nesting.hierarchy import Hierarchy, topology
from fluxres.simulation.simulator import simulate
from fluxres.simulation.workload.models import Ensemble

SHAPE = "node=8/core=8"
TOPOLOGIES = ("1", "8", "4x4", "16")


class Calls:
    """A clock that counts calls while it runs; reading it starts or stops it."""

    def __init__(self) -> None:
        self.number = 0

    def _count(self, frame: FrameType, event: str, of: object) -> None:
        self.number += 1

    def __call__(self) -> float:
        sys.setprofile(None if sys.getprofile() is not None else self._count)
        return self.number * 1e-6


@contextmanager
def counted() -> Iterator[pytest.MonkeyPatch]:
    """Decisions are measured in calls."""
    if sys.getprofile() is not None:
        pytest.skip("something else profiles this process")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(simulator, "processor_time", Calls())
        yield patch


@pytest.fixture
def calls() -> Iterator[None]:
    with counted():
        yield


def makespan_s(topology_text: str, cost: Cost) -> float:
    fan_outs, sizes = topology(topology_text)
    hierarchy = Hierarchy(fan_outs, sizes=sizes)
    machine = Machine(of_shape(SHAPE), "core")
    found = simulate(Ensemble(150, 1e-6), machine, inventory="graph", hierarchy=hierarchy, cost=cost).metrics.makespan_s
    assert found is not None
    return found


@pytest.fixture(scope="module")
def measured() -> dict[str, float]:
    """The makespan in each topology."""
    with counted():
        return {each: makespan_s(each, Measured()) for each in TOPOLOGIES}


@pytest.fixture(scope="module")
def calibrated() -> Fit:
    with counted() as patch:
        for name, value in {"MIXED_JOBS": 80, "QUEUED_JOBS": 160, "CHILDREN_MAX": 8, "LEVELS_MAX": 3}.items():
            patch.setattr(calibration, name, value)
        fit = Fit(Measured(calibrates=True))
        calibration.calibrate(fit, lambda: Machine(of_shape(SHAPE), "core"), inventory="graph")
    return fit


@pytest.mark.usefixtures("calls")
@pytest.mark.parametrize("own", TOPOLOGIES)
def test_a_calibrated_fit_of_one_topology_predicts_the_others_within_a_fifth(
    own: str, measured: dict[str, float], calibrated: Fit
) -> None:
    fit = deepcopy(calibrated)
    makespan_s(own, fit)
    assert fit.quality().not_identified == ()
    for other in TOPOLOGIES:
        assert makespan_s(other, fit.fitted()) == pytest.approx(measured[other], rel=0.2), other


@pytest.mark.usefixtures("calls")
def test_a_fit_without_calibration_repeats_its_own_topology_and_refuses_others() -> None:
    fit = Fit(Measured())
    took = makespan_s("8", fit)
    assert fit.quality().not_identified == ("size", "units", "pools")
    again = parse(str(fit.fitted()))
    assert again is not None
    assert makespan_s("8", again) == pytest.approx(took, rel=0.05)
    with pytest.raises(UsageError, match="does not describe a start with") as caught:
        makespan_s("16", again)
    assert "calibrat" in (caught.value.hint or "")


def test_only_models_that_ask_for_it_are_calibrated() -> None:
    fit = Fit(Measured())
    calibration.calibrate(fit, lambda: pytest.fail("no machine is needed"))
    assert fit.quality().decisions == 0
    assert parse("measured:2,calibrate") == Measured(2.0, calibrates=True)
    for wrong in ("measured:calibrate,calibrate", "measured:1,2"):
        with pytest.raises(UsageError):
            parse(wrong)


def test_quantities_that_vary_only_together_are_not_identified() -> None:
    def unknown(*starts: tuple[int, int, int]) -> tuple[str, ...]:
        sights = Sights()
        for size, units, pools in starts:
            sights.add(Decision(1, 1, 1, size, 0.0, units, pools=pools))
        return sights.not_identified()

    assert unknown() == ()
    assert unknown((256, 1, 1)) == ("size", "units", "pools")
    # Requests vary, the machine does not: its term is part of the constant one, those of the request are known.
    assert unknown(*((256, n, n) for n in (1, 2, 3, 4, 8))) == ("size",)
    assert unknown(*((size, n, pools) for size in (64, 256) for n, pools in ((1, 1), (8, 1), (8, 4), (3, 3), (8, 8)))) == ()


def test_a_fit_is_not_extended_far_beyond_the_counts_it_saw() -> None:
    model = Fitted(base_s=1.0, queued_s=0.1, seen=FitBounds(queued=10))
    assert model.decide(Decision(1, 1, seen.FAR * 10, 8, 0.0)) == 5.0
    with pytest.raises(UsageError, match="41 waiting jobs; it saw at most 10"):
        model.decide(Decision(1, 1, seen.FAR * 10 + 1, 8, 0.0))


@pytest.mark.parametrize("text", ["", "queued", "queued:x", "size:1/2", "weight:1", "size/units:1/2+3"])
def test_bounds_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="expected what a fit saw"):
        seen.parse(text)


def test_bounds_as_text_are_read_again() -> None:
    for own in (FitBounds(considered=3, queued=4), FitBounds(quantities=("size", "pools"), starts=frozenset({(8, 1), (32, 4)}))):
        assert seen.parse(str(own)) == own
    assert parse(str(Fitted(base_s=1.0, seen=FitBounds(queued=4)))) == Fitted(base_s=1.0, seen=FitBounds(queued=4))


def test_the_starts_that_a_fit_remembers_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "FIT_STARTS_MAX", 3)
    sights = Sights()
    for size in range(1, 9):
        sights.add(Decision(1, 1, 1, size, 0.0, 1, pools=1))
    assert len(sights._starts) == 3


def test_the_starts_that_a_fit_lists_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "FIT_STARTS_LISTED_MAX", 2)
    sights = Sights()
    for size in range(1, 9):
        sights.add(Decision(1, 1, 1, size, 0.0, size, pools=size))
    found = sights.seen(is_considered=False, is_queued=False)
    assert found is not None
    assert found.quantities == ("size", "units")
    assert found.starts == {(1, 1), (2, 2)}
