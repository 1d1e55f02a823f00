"""Measured decisions cost the least that alike ones took in several passes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fluxres.simulation.costs import least
from fluxres.simulation.costs.cost import Fitted, Measured
from fluxres.simulation.costs.decision import Decision
from fluxres.simulation.costs.fit import Fit
from fluxres.simulation.costs.least import Least
from fluxres.simulation.costs.overheads import LevelCost, Overheads
from fluxres.simulation.machine import of_shape
from fluxres.simulation.simulator import simulate
from tests.simulation.test_simulator import job


def test_other_kinds_of_decisions_have_their_own_least() -> None:
    model = Least(Measured(2.0))
    made = Decision(1, 1, 4, 16, 0.5, 2, False)
    assert model.decide(made) == 1.0
    others = ({"considered": 2}, {"started": 0}, {"queued": 8}, {"size": 8}, {"units": 1}, {"is_first": True}, {"pools": 2})
    assert [model.decide(made._replace(took_s=3.0, **each)) for each in others] == [6.0] * 7  # type: ignore[arg-type]  # its fields
    assert model.decide(made._replace(took_s=3.0, queued=7)) == 1.0


def test_kinds_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Least(Measured())
    monkeypatch.setattr(least, "KINDS_MAX", 2)
    found = [model.decide(Decision(at, 1, 1, 1, took)) for took in (2.0, 1.0, 3.0) for at in range(3)]
    assert found == [2.0, 2.0, 2.0, 1.0, 1.0, 1.0, 1.0, 1.0, 3.0]


def test_passes_share_what_they_measured_and_other_costs_stay() -> None:
    own = [LevelCost(Measured(passes=3), Overheads(1.0)), LevelCost(Measured(passes=3)), LevelCost(Fitted(1.0)), LevelCost()]
    seen = []
    found = least.measured(own, lambda costs: seen.append(costs[0].decision))
    assert len(seen) == 2
    assert {id(each) for each in seen} == {id(found[0].decision)} == {id(found[1].decision)}
    assert (found[0].overheads, found[2:]) == (Overheads(1.0), own[2:])
    assert least.measured(own[2:], lambda _: seen.append(None)) == own[2:]
    assert len(seen) == 2


def test_every_pass_can_only_make_decisions_cheaper() -> None:
    """Each pass has the same decisions: none depends on when a job ends."""
    work = [job(n, 0, 1, 1) for n in range(8)]

    def run(costs: list[LevelCost]) -> float:
        return simulate(work, of_shape("node=8"), inventory="graph", cost=costs).instances[0].busy_s

    busy: list[float] = []
    costs = least.measured([LevelCost(Measured(passes=3))], lambda costs: busy.append(run(costs)))
    busy.append(run(costs))
    assert busy == sorted(busy, reverse=True)
    assert busy[-1] > 0.0


def test_a_fit_carries_to_requests_of_other_sizes() -> None:
    # 500 decisions of children and 5 of their parent: without weights, the few hardly count beside the noise of the many.
    model = Fitted(base_s=1e-5, start_s=1e-4, doubling_s=8e-5)
    noise = (0.7, 1.0, 1.3)
    fit = Fit(Measured())
    for at in range(505):
        pools = 8 if at % 101 == 0 else 1
        made = Decision(1, int(at % 4 > 0 or pools > 1), 1, 32, 0.0, pools, pools=pools)
        fit.decide(made._replace(took_s=model.decide(made) * (1.0 if pools > 1 else noise[at % 3])))
    asked = Decision(1, 1, 1, 256, 0.0, 4, pools=4)
    sum_of = replace(fit.fitted(), seen=None)  # which refuses: the machine is larger than any seen
    assert sum_of.decide(asked) == pytest.approx(model.decide(asked), rel=0.2)
    assert Measured().sees_pools
    assert not Fitted(start_s=1.0).sees_pools


def test_the_pools_of_started_jobs_are_seen_if_the_model_needs_them() -> None:
    work = [job(0, 0, 1, 4), job(1, 0, 1, 1)]
    for inventory in ("named", "graph"):
        result = simulate(work, of_shape("node=4"), inventory=inventory, cost=Fitted(doubling_s=3.0))
        assert result.instances[0].busy_s == 6.0
