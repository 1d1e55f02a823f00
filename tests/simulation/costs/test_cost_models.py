"""Cost models by name: what a match costs by them, where they are used, and that their constants are those of the fit."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from fluxres.errors import UsageError
from fluxres.experiments import parts
from fluxres.experiments.study import CostEntry
from fluxres.simulation.costs import models
from fluxres.simulation.costs.cost import parse
from fluxres.simulation.costs.decision import Decision
from fluxres.simulation.costs.models import MODELS, Matching, StartRate
from fluxres.simulation.machine import Machine, of_number, of_shape
from fluxres.simulation.simulator import simulate
from tests.bench import fluxion_costs
from tests.simulation.test_simulator import job

PARTS = Matching(start_s=1.0, size_s=10.0, free_s=100.0, unit_s=1000.0, plan_s=0.5, plan_unit_s=0.25, held_s=0.125)


def test_a_start_pays_for_the_machine_what_is_free_and_what_it_gets() -> None:
    made = Decision(1, 1, 5, 4, 0.0, 2, asked=2, free=3, held=7)
    assert PARTS.decide(made) == 1.0 + 10.0 * 4 + 100.0 * 3 + 1000.0 * 2
    # In nodes of eight cores, the same numbers are eight times as many cores.
    assert PARTS.decide(made._replace(cores=8.0)) == 1.0 + 8 * (10.0 * 4 + 100.0 * 3 + 1000.0 * 2)


def test_jobs_that_are_tried_and_do_not_start_pay_for_reservations() -> None:
    made = Decision(3, 1, 5, 4, 0.0, 2, asked=9, free=0, held=7)
    assert PARTS.decide(made) == pytest.approx(1.0 + 40.0 + 2000.0 + 2 * (0.5 + 0.125 * 7 * 4) + 0.25 * 7)
    assert PARTS.decide(Decision(0, 0, 0, 4, 0.0)) == 0.0


def test_what_a_decision_sees_of_the_load() -> None:
    seen = []

    class Spy:
        measures = sees_pools = False
        sees_load = True

        def decide(self, made: Decision) -> float:
            if made.considered:
                seen.append((made.considered, made.started, made.asked, made.free, made.held, made.cores))
            return 0.0

    work = [job(0, 0, 10, 2), job(1, 0, 10, 4), job(2, 1, 10, 1)]
    for inventory in ("named", "graph"):
        seen.clear()
        simulate(work, of_shape("node=4/core=8"), inventory=inventory, cost=Spy(), queue_policy="fcfs")
        assert seen[0] == (1, 1, 2, 4, 0, 8.0), "the first job, on an idle machine"
        assert (1, 1, 4, 4, 0, 8.0) in seen, "the second one, after the first has ended"
    assert (Machine(of_number(100)).cores, Machine(of_shape("node=4")).cores) == (1.0, 1.0)


def test_a_rate_is_the_throughput_of_an_instance_with_nothing_else_to_do() -> None:
    result = simulate([job(n, 0, 0, 1) for n in range(50)], of_shape("node=4"), cost=parse("flux-core-2021"), queue_policy="fcfs")
    assert result.metrics.throughput_per_s == pytest.approx(109.0, rel=0.01)
    assert models.find("flux-core-2025:high").cost == StartRate(147.0)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("fluxion-frist", "did you mean fluxion-first?"),
        ("flux-core-2025:middle", "low and high are the ends of its range"),
        ("fluxion-first:low", "it has no range: give the name alone"),
    ],
)
def test_names_and_ends_that_do_not_exist_are_refused(text: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(text)
    assert caught.value.hint == said
    with pytest.raises(UsageError, match=r"cost\.model"):
        parts.costs(CostEntry(model=text))


def test_every_model_has_a_source_and_stands_in_the_specification() -> None:
    text = Path("specs/simulation.md").read_text(encoding="utf-8")
    for model in MODELS:
        assert model.source
        assert model.valid
        row = next(line for line in text.splitlines() if line.startswith(f"| `{model.name}` |"))
        own = vars(model.cost).values() if isinstance(model.cost, Matching) else [model.cost.per_s]
        for value in own:
            assert isinstance(value, bool) or not value or f"{value:g}" in row, (model.name, value)


def test_the_fit_recovers_the_constants_of_a_model(tmp_path: Path) -> None:
    """A queue whose match times follow a model gives its constants, and no residual."""
    given = {"start": PARTS.start_s, "size": 1e-3, "free": 2e-3, "unit": 3e-3, "plan": 0.5, "plan_unit": 4e-3, "held": 5e-6}
    for nodes in (16, 128):
        free = size = nodes * fluxion_costs.NODE_CORES
        rows = []
        for held in range(60):
            asked = (held * 7) % (nodes // 4)
            units = asked * fluxion_costs.NODE_CORES or 1 + held % 9
            starts = units <= free and held % 3 > 0
            took = given["start"] + given["size"] * size + given["free"] * free + given["unit"] * units
            if not starts:
                took = given["plan"] + given["plan_unit"] * units + given["held"] * held * size
            rows.append((held, asked, units if not asked else 0, 0 if starts else 600, took * 1e6))
            free -= units * starts
        with (tmp_path / f"queue-{nodes}.csv").open("w", newline="") as file:
            out = csv.writer(file)
            out.writerow(["job", "nodes_exclusive", "slot_cores", "start_rack_first", "us_rack_first"])
            out.writerows(rows)
    found = fluxion_costs.fitted(list(fluxion_costs.read(tmp_path, "rack", "first")))
    assert list(found["start"].terms.values()) == pytest.approx([given[n] for n in ("start", "size", "free", "unit")], rel=1e-3)
    assert list(found["plan"].terms.values()) == pytest.approx([given[n] for n in ("plan", "plan_unit", "held")], rel=1e-3)
    for each in found.values():
        assert each.factor == pytest.approx(1.0, abs=1e-4)
        assert list(each.totals.values()) == pytest.approx([1.0, 1.0], abs=1e-4)


@pytest.mark.parametrize("text", ["fitted:start=1,start=2", "fitted:seen=size/units:8/1,start=1,seen=size/units:8/1"])
def test_a_term_that_is_given_twice_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"(start|seen) is given twice$"):
        parse(text)
