"""Each pair of features either goes together in a simulation or is refused with words, as the table of exclusions says."""

from __future__ import annotations

import os
from dataclasses import replace
from itertools import combinations, combinations_with_replacement
from pathlib import Path
from random import Random
from typing import Any, Final

import msgspec
import pytest

from fluxres.clock import FOREVER
from fluxres.errors import UsageError
from fluxres.instance.accounting import Accounting
from fluxres.simulation import exclusions
from fluxres.simulation.adaptive.adaptive import Adaptive
from fluxres.simulation.adaptive.speedup import Linear
from fluxres.simulation.costs.cost import Fitted
from fluxres.simulation.costs.overheads import LevelCost, Overheads
from fluxres.simulation.disturbances.attempts import Checkpoint
from fluxres.simulation.disturbances.external import Disturbances, ExternalEvent
from fluxres.simulation.energy.energy import Energy
from fluxres.simulation.energy.node_power import NodePower
from fluxres.simulation.energy.power_cap import PowerCap
from fluxres.simulation.energy.power_saving import PowerSaving
from fluxres.simulation.exclusions import CONTAINS, with_parts
from fluxres.simulation.machine import Machine, of_shape
from fluxres.simulation.nesting.hierarchy import Hierarchy
from fluxres.simulation.prediction.prediction import Prediction
from fluxres.simulation.simulator import Simulator
from fluxres.simulation.workload.workload import Submission, Workload
from fluxres.syntax import count

S = 1_000_000
NODES: Final = 12
JOBS: Final = 12
SPEC: Final = Path(__file__).parents[2] / "specs/simulation.md"


def workload(features: set[str]) -> Workload:
    """Jobs that have what the features are about."""
    random, jobs, at = Random(len(features)), [], 0
    for number in range(JOBS):
        at += random.choice((0, 1, 4))
        run = random.randint(1, 20)
        made = Submission(number, at * S, run * S, (run + 5) * S, random.randint(1, 3), user="ann", qos="low")
        if number % 3 == 2:
            made = made._replace(qos="high", previous=number - 2, think=2 * S)
        if exclusions.MOLDABLE in features and number % 2:
            is_malleable = exclusions.RESIZING in features
            made = made._replace(adaptive=Adaptive(count.parse("1-4"), made.ask, Linear(), is_malleable=is_malleable))
        elif exclusions.INNER_JOBS in features and number % 4 == 0:
            inner = tuple(Submission(f"{number}.{n}", n * S, 3 * S, 9 * S, 1) for n in range(3))
            made = made._replace(jobs=inner, limit=FOREVER if number % 8 else 30 * S)
        jobs.append(made)
    return Workload("pair", jobs)


def settings(features: set[str]) -> dict[str, Any]:
    """The settings of a simulation with some features."""
    has = features.__contains__
    site: dict[str, Any] = {"qos": {"low": {}, "high": {"priority": 9}}}
    if has(exclusions.TIME_LIMITS):
        site["users"] = {"ann": {"max_wall": 3600}}
    if has(exclusions.PREEMPTION):
        site |= {"preempt_type": "qos", "preempt_mode": "requeue"}
        site["qos"]["high"]["preempt"] = ["low"]
    hierarchy = Hierarchy((2,) if has(exclusions.NESTING) else (), ("easy",), larger="up")
    if has(exclusions.BALANCE):
        hierarchy = replace(hierarchy, balance="steal")
    if has(exclusions.ELASTIC):
        hierarchy = replace(hierarchy, elastic="demand")
    work = Overheads(0.25, 0.5, 0.125, launch_s=1.0) if has(exclusions.OVERHEADS) else Overheads()
    events = [ExternalEvent(9 * S, "down", "node3"), ExternalEvent(30 * S, "up", "node3"), ExternalEvent(20 * S, "cancel", 9)]
    saving = PowerSaving(2.0, 1.0, 3.0) if has(exclusions.SAVING) else PowerSaving()
    cap = PowerCap(((0.0, 100.0 * NODES + 900.0),)) if has(exclusions.CAP) else None
    return {
        "hierarchy": hierarchy,
        "cost": LevelCost(Fitted(start_s=0.5) if has(exclusions.DECISIONS) else None, work),
        "disturbances": Disturbances(
            events if has(exclusions.EVENTS) else [],
            "requeue" if has(exclusions.REQUEUE) else "fail",
            **({"checkpoint": Checkpoint(5.0, 1.0, 1.0)} if has(exclusions.CHECKPOINTS) else {}),
        ),
        "accounting": msgspec.convert(site, Accounting) if has(exclusions.ACCOUNTING) else None,
        "prediction": Prediction("tsafrir", "doubling") if has(exclusions.PREDICTION) else None,
        "feedback": "think" if has(exclusions.FEEDBACK) else None,
        "energy": Energy(NodePower(100, 200), saving, cap) if has(exclusions.ENERGY) else None,
        "resize_policy": "shrink-to-start" if has(exclusions.RESIZING) else "none",
        "size_policy": "greedy" if has(exclusions.MOLDABLE) else "requested",
    }


FEATURES = {
    exclusions.NESTING: "a topology of several levels",
    exclusions.BALANCE: "jobs that move between siblings",
    exclusions.ELASTIC: "elastic instances",
    exclusions.DECISIONS: "decisions that take time",
    exclusions.OVERHEADS: "other costs, bounded launch slots",
    exclusions.EVENTS: "external events, failures",
    exclusions.REQUEUE: "jobs are requeued when a node fails",
    exclusions.CHECKPOINTS: "checkpoints",
    exclusions.ACCOUNTING: "limits, partitions and QOS of a site",
    exclusions.TIME_LIMITS: "limits on times among them",
    exclusions.PREEMPTION: "preemption",
    exclusions.PREDICTION: "predicted run times",
    exclusions.FEEDBACK: "closed loop",
    exclusions.ENERGY: "draw of nodes",
    exclusions.SAVING: "nodes that are switched off",
    exclusions.CAP: "a power cap",
    exclusions.INNER_JOBS: "instances made for jobs",
    exclusions.MOLDABLE: "jobs of several sizes",
    exclusions.RESIZING: "malleable jobs and a resize policy",
}
"""In the order of the table."""
PAIRS = [{first, second} for first, second in combinations_with_replacement(FEATURES, 2)]


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: "+".join(sorted(pair)).replace(" ", "_"))
def test_features_go_together_or_are_refused_with_words(pair: set[str]) -> None:
    features = with_parts(pair)
    excluded, of_jobs = exclusions.found(features), exclusions.found(features, of_jobs=True)
    jobs = workload(features)
    ids: set[tuple[str, ...]] = set()
    for order, inventory in (("sequential", "graph"), ("batched", "auto")):
        given = settings(features)
        make = {"machine": Machine(of_shape(f"node={NODES}")), "inventory": inventory, "event_order": order}
        if excluded is not None:
            with pytest.raises(UsageError) as refused:
                Simulator(**make, **given)
            assert (refused.value.message, bool(refused.value.hint)) == (excluded.message, True)
            continue
        simulator = Simulator(**make, **given)
        result = simulator.run(jobs)
        assert simulator.features >= features - {exclusions.INNER_JOBS, exclusions.MOLDABLE}
        assert (result.errors, simulator.instance.check(), result.left) == ([], [], 0)
        assert set(result.refusals.reasons) == ({of_jobs.message} if of_jobs is not None else set())
        assert result.schedule is not None
        assert len(result.schedule) + len(result.refusals) == sum(job.number for job in jobs.submissions)
        ids.add(tuple(sorted(map(str, result.schedule.ids))))
    assert len(ids) == (0 if excluded is not None else 1)


@pytest.mark.parametrize("given", [{"balance": "steal"}, {"balance": "redeal:5"}, {"elastic": "demand"}])
def test_what_changes_siblings_is_no_feature_of_one_instance(given: dict[str, str]) -> None:
    site = msgspec.convert({"users": {"ann": {"max_jobs": 3}}}, Accounting)
    simulator = Simulator(Machine(of_shape("node=4")), hierarchy=Hierarchy(larger="up", **given), accounting=site)
    assert simulator.features.isdisjoint({exclusions.NESTING, exclusions.BALANCE, exclusions.ELASTIC})
    with pytest.raises(UsageError, match="limits are those of one queue"):
        Simulator(Machine(of_shape("node=4")), hierarchy=Hierarchy((2,), larger="up", **given), accounting=site)


def table() -> str:
    """The table: in the row of a feature, what it does together with those before it."""
    names = list(FEATURES)
    lines = ["| | " + " | ".join(map(str, range(1, len(names)))) + " |", "|---|" + ":-:|" * (len(names) - 1)]
    for number, name in enumerate(names):
        cells = [_cell(name, other) for other in names[:number]] + [""] * (len(names) - 1 - number)
        lines.append(f"| {number + 1} {FEATURES[name]} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _cell(name: str, other: str) -> str:
    features = with_parts({name, other})
    if exclusions.found(features) is not None:
        return "×"
    return "jobs" if exclusions.found(features, of_jobs=True) is not None else ""


def test_the_specification_has_the_table() -> None:
    text = SPEC.read_text()
    begin = text.index("## Features that exclude each other")
    start = text.index("| | 1 |", begin)
    stop = text.index("\n\n", start)
    if "UPDATE_GOLDEN" in os.environ:
        SPEC.write_text(text[:start] + table() + text[stop:])
        return
    assert text[start:stop] == table()


def test_no_feature_excludes_itself_and_parts_exclude_no_more_than_the_whole() -> None:
    assert all(exclusions.found({name}) is None for name in FEATURES)
    for part, whole in ((part, name) for name, parts in CONTAINS.items() for part in parts):
        for other in FEATURES:
            if exclusions.found({part, other}) is not None:
                assert exclusions.found({whole, other}) is not None
    assert all(set(each.features) <= FEATURES.keys() for each in exclusions.EXCLUSIONS)
    assert len(list(combinations(FEATURES, 2))) == 171
