"""Moldable jobs: their sizes, the size policies, and how workloads say them (`adaptive`, `adapted`, `instance/sizes`)."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import orjson
import pytest

from fluxres import InputError, UsageError, limits
from fluxres.documents.source import Source
from fluxres.errors import FluxresError, InfeasibleRequest
from fluxres.experiments import execution, study
from fluxres.instance import Instance, sizes
from fluxres.instance.accounting import Accounting
from fluxres.simulation import Submission, simulate
from fluxres.simulation.adaptive.adaptive import Adaptive
from fluxres.simulation.adaptive.speedup import Amdahl, Linear, Table, Times
from fluxres.simulation.disturbances.attempts import Checkpoint
from fluxres.simulation.disturbances.external import Disturbances, ExternalEvent
from fluxres.simulation.machine import of_number, of_shape
from fluxres.simulation.schedule import Finished
from fluxres.simulation.workload import batsim, jobspecs, writing
from fluxres.simulation.workload.adapted import Adapted, Adapting
from fluxres.simulation.workload.adapted import parse as adapting
from fluxres.simulation.workload.workload import Workload
from fluxres.syntax import count
from tests.instance.machines import ManualClock
from tests.simulation.adaptive.molded import difference

S = 1_000_000
ON_EACH = pytest.mark.parametrize(
    ("machine", "inventory"), [(10, "counted"), ("node=10", "named"), ("node=10", "graph"), (10, "graph")]
)


@pytest.mark.parametrize("part", range(2))
def test_random_moldable_workloads_run_as_an_oracle_says(part: int, deeper: float) -> None:
    """`python -m tests.simulation.adaptive.molded` makes thousands of them."""
    assert {difference(seed) for seed in range(part, round(320 * deeper), 2)} == {""}


def moldable(number: int, submit: int, run: int, allowed: str, preferred: int, **more: Any) -> Submission:
    model = more.pop("speedup", Linear())
    limit = more.pop("limit", run + 20)
    adaptive = Adaptive(count.parse(allowed), preferred, model)
    return Submission(number, submit * S, run * S, limit * S, preferred, adaptive=adaptive, **more)


class Kept(list[Finished]):
    def add(self, record: Finished) -> None:
        self.append(record)

    def close(self) -> None:
        pass


def ran(jobs: list[Submission], machine: Any = 10, **settings: Any) -> dict[object, tuple[float, float, int]]:
    """By job, its start and end in seconds, and its size."""
    kept = Kept()
    simulate(jobs, machine, sinks=[kept], **settings)
    return {job.id: (job.start / S, job.end / S, job.size) for job in kept}


@ON_EACH
def test_each_size_policy_chooses_as_it_says(machine: Any, inventory: str) -> None:
    jobs = [moldable(1, 0, 60, "8", 8), moldable(2, 1, 40, "1-8:2:*", 4, speedup=Table(((1, 1), (2, 1.9), (4, 2.5), (8, 3))))]
    found = {
        policy: ran(jobs, machine, inventory=inventory, size_policy=policy)[2]
        for policy in ("requested", "greedy", "earliest-finish", "efficiency:0.9", "efficiency:0.7", "efficiency:0.6")
    }
    assert found["requested"] == (60, 100, 4)
    assert found["greedy"] == (1, 53.631579, 2)  # what fits now
    assert found["earliest-finish"] == (1, 53.631579, 2)  # 60 + 40 at 4, 60 + 33.3 at 8, by limits later too
    assert found["efficiency:0.9"] == (1, 53.631579, 2)
    assert found["efficiency:0.7"] == (1, 53.631579, 2)
    assert found["efficiency:0.6"] == (60, 100, 4)


def test_earliest_finish_waits_if_it_then_ends_earlier() -> None:
    jobs = [moldable(1, 0, 10, "9", 9, limit=10), moldable(2, 1, 800, "1-8", 1, limit=800)]
    assert ran(jobs, size_policy="earliest-finish")[2] == (10, 110, 8)
    assert ran(jobs, size_policy="greedy")[2] == (1, 801, 1)


def test_without_limits_the_fastest_of_the_sizes_that_start_first_is_chosen() -> None:
    job = moldable(1, 0, 10, "1-8", 2)._replace(limit=2**62)
    assert ran([job], size_policy="earliest-finish")[1] == (0, 2.5, 8)


def test_a_limit_is_longer_at_a_smaller_size() -> None:
    job = moldable(1, 0, 100, "1-10", 5, limit=40, speedup=Amdahl(0.25))
    assert ran([job], 2, size_policy="greedy")[1] == (0, 62.5, 2)  # 40 s * (2 / 0.8) / 1.6


@ON_EACH
def test_sizes_larger_than_the_machine_are_left_out(machine: Any, inventory: str) -> None:
    jobs = [moldable(1, 0, 10, "4-64:2:*", 32), moldable(2, 0, 10, "16-64", 32)]
    result = simulate(jobs, machine, inventory=inventory)
    assert result.schedule is not None
    assert [(job, size) for job, *_, size in result.schedule] == [(1, 8)]
    assert result.refusals.ids == [2]


def test_too_many_sizes_are_refused_with_words() -> None:
    jobs = [moldable(1, 0, 10, "1+", 4)]
    assert len(simulate(jobs, limits.JOB_SIZES_MAX).refusals) == 0
    refused = simulate(jobs, limits.JOB_SIZES_MAX + 1).refusals
    assert list(refused.reasons) == [f"more than {limits.JOB_SIZES_MAX} sizes"]


def test_an_interrupted_job_goes_on_at_another_size() -> None:
    """100 s of work at 4; saved every 10 s of an attempt; 12 s at 8 save 10, which are 20 at 4."""
    job = moldable(1, 0, 100, "2-8:2:*", 4)
    events = [ExternalEvent(12 * S, "down", "node[0-3]")]
    kept = Kept()
    simulate(
        [job],
        of_shape("node=8"),
        size_policy="greedy",
        sinks=[kept],
        disturbances=Disturbances(events, "requeue", Checkpoint(interval_s=10.0)),
    )
    (record,) = kept
    assert [(each.start / S, each.end / S, each.size) for each in (*record.earlier, record)] == [(0, 12, 8), (12, 92, 4)]


def test_limits_of_the_accounting_leave_smaller_sizes() -> None:
    import msgspec

    site = msgspec.convert({"users": {"ann": {"max_size_per_job": 4}}}, Accounting)
    jobs = [moldable(1, 0, 10, "1-8", 8, user="ann"), moldable(2, 1, 10, "1-8", 6, user="bob")]
    assert ran(jobs, 20, size_policy="greedy", accounting=site) == {1: (0, 20, 4), 2: (1, 8.5, 8)}


def test_moldable_jobs_in_a_hierarchy_choose_in_their_instance() -> None:
    from fluxres.simulation import Hierarchy

    jobs = [moldable(n, 0, 10, "1-8", 2) for n in (1, 2)]
    assert ran(jobs, 8, size_policy="greedy", hierarchy=Hierarchy((2,))) == {1: (0, 5, 4), 2: (0, 5, 4)}


def test_a_real_instance_chooses_too() -> None:
    clock = ManualClock()
    top = Instance(of_shape("node=4"), clock=clock, size_policy="greedy", queue_policy="easy")
    first = top.submit("slot=2/node", sizes={2: 60, 4: 40})
    second = top.submit("slot=1/node", sizes={1: "2m", 3: "50s"})
    assert (first.size, first.duration_s, second.reserved_at) == (4, 40.0, 40.0)
    assert second.sizes is not None
    assert (second.size, second.duration_s, second.sizes.chosen.size) == (1, 120.0, 1)
    with pytest.raises(UsageError, match="a limit for each of its sizes"):
        top.set_duration(second, 10)
    with pytest.raises(UsageError, match="expected at least one size"):
        top.submit("slot=2/node", sizes={})
    with pytest.raises(InfeasibleRequest):
        top.submit("slot=2/node", sizes={5: 60, 6: 40})
    clock.now_s = 39
    top.finish(first)
    assert (second.size, second.ends_at, top.check()) == (3, 89.0, [])


def test_names_of_size_policies() -> None:
    assert [sizes.parse(name).name for name in ("requested", "greedy", "earliest-finish", "efficiency:1")]
    for text in ("best", "efficiency", "efficiency:0", "efficiency:2", "greedy:1"):
        with pytest.raises(UsageError):
            sizes.parse(text)


# -- what says that jobs are moldable ----------------------------------------------------------------------------------


def listed(text: str) -> Workload:
    return jobspecs.read(Source(text.encode(), "jobs.yaml"))


def test_a_list_of_jobs_has_sizes_in_the_counts_of_requests() -> None:
    given = listed(
        "- {id: a, request: 'slot=2-16:2:*/node', speedup: 'amdahl:serial=0.1', preferred: 8, run: 100}\n"
        "- {id: b, request: 'slot=2-6/core=2', speedup: {times: {'2': 60, '4': 40}}, malleable: true, reconfiguration: 5s}\n"
    )
    first, second = (job.adaptive for job in given)
    assert first == Adaptive(count.parse("2-16:2:*"), 8, Amdahl(0.1))
    assert second == Adaptive(count.parse("2-6"), 6, Times(((2, 60), (4, 40))), True, 5 * S)
    assert [job.run for job in given] == [100 * S, 40 * S]
    text = io.StringIO()
    assert not writing.write(given, text, "jobs")
    assert list(listed(text.getvalue())) == list(given)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("request: node, run: 1, preferred: 2", "preferred: a job has sizes only if it says how much faster it is on more"),
        ("request: node=2-4, speedup: x, run: 1", "no speed-up model 'x'"),
        ("request: node=2-4, speedup: linear, run: 1, preferred: 5", "preferred: expected one of the sizes 2-4, got 5"),
        ("request: node=2/core=2-4, speedup: linear, run: 1", "counts of its one outermost resource"),
        ("request: node=2-4, speedup: linear, run: 1, reconfiguration: 3", "only a malleable job changes its size"),
        ("request: node=2-4, speedup: 'times:2=9', run: 1", "the run times are those of 'speedup'"),
        ("request: node=2-4, speedup: linear, jobs: [{request: core, run: 1}]", "'speedup' cannot be combined with 'jobs'"),
    ],
)
def test_errors_of_a_list_name_the_place(entry: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        listed(f"- {{{entry}}}")
    assert message in str(caught.value)
    assert str(caught.value).startswith("jobs.yaml:1:")


def test_batsim_jobs_and_profiles_have_further_keys() -> None:
    values: dict[str, Any] = {
        "nb_res": 8,
        "profiles": {
            "d": {"type": "delay", "delay": 10, "speedup": "amdahl:serial=0.5"},
            "p": {"type": "parallel_homogeneous_total", "cpu": 8e9, "com": 0},
        },
        "jobs": [
            {"id": 1, "subtime": 0, "res": 4, "profile": "d", "sizes": "1-8:2:*"},
            {
                "id": 2,
                "subtime": 0,
                "res": 2,
                "profile": "p",
                "sizes": {"min": 1, "max": 8},
                "malleable": True,
                "reconfiguration": 2,
            },
        ],
    }
    first, second = batsim.read(Source(orjson.dumps(values), "w.json"))
    assert (first.adaptive, first.run) == (Adaptive(count.parse("1-8:2:*"), 4, Amdahl(0.5)), 10 * S)
    assert (second.adaptive, second.run) == (Adaptive(count.parse("1-8"), 2, Linear(), True, 2 * S), 4 * S)
    text = io.StringIO()
    assert not writing.write(Workload("w", [first, second], 8), text, "batsim")
    again = list(batsim.read(Source(text.getvalue().encode(), "w.json")))
    assert [job.adaptive for job in again] == [first.adaptive, second.adaptive]
    assert writing.write(Workload("w", [first, second], 8), io.StringIO(), "swf")["adaptive of a job"] == 2
    for key, value, message in (
        ("res", 3, "expected one of the sizes"),
        ("sizes", "0-2", "sizes"),
        ("speedup", "amdahl:serial=2", "serial: expected 0 to 1"),
    ):
        with pytest.raises(InputError, match=message):
            batsim.read(Source(orjson.dumps(values | {"jobs": [values["jobs"][0] | {key: value}]}), "w.json"))
    with pytest.raises(InputError, match="a job with sizes needs 'speedup'"):
        batsim.read(
            Source(orjson.dumps(values | {"profiles": {"d": {"type": "delay", "delay": 1}}, "jobs": values["jobs"][:1]}), "")
        )


def test_jobs_of_a_trace_become_moldable() -> None:
    how = adapting("moldable:min=0.25,max=4,operator=*,operand=2,fraction=0.5", "downey:A={size},sigma=1")
    jobs = [Submission(n, n, S, S, 1 + n % 24) for n in range(400)]
    found = list(Adapted(jobs, how, 64, seed=1))
    changed = [job for job in found if job.adaptive is not None]
    assert 150 < len(changed) < 250
    assert found == list(Adapted(jobs, how, 64, seed=1)) != list(Adapted(jobs, how, 64, seed=2))
    assert [job._replace(adaptive=None) for job in found] == jobs
    for job in changed:
        assert job.adaptive is not None
        assert isinstance(job.ask, int)
        assert job.ask in job.adaptive.sizes
        assert job.ask / 4 <= job.adaptive.sizes.min
        assert job.adaptive.sizes.max is not None
        assert job.adaptive.sizes.max <= min(4 * job.ask, 64)
        assert job.adaptive.speedup.of(10**6) == job.ask
    whole = Adapted(jobs, how, 64, seed=1)
    dealt = [job for place in range(3) for job in whole.share(place, 3)]
    assert sorted(dealt, key=lambda job: job.id) == found


@pytest.mark.parametrize(
    "text", ["fluid", "moldable:min=2", "moldable:max=0.5", "moldable:operator=^", "moldable:operator=*", "x:min"]
)
def test_errors_of_adapting(text: str) -> None:
    with pytest.raises(UsageError):
        adapting(text, "linear")
    with pytest.raises(UsageError, match="model of speed-up"):
        adapting("moldable", "")
    with pytest.raises(UsageError, match="run times already"):
        Adapting("moldable", "times:1=10")


def test_a_study_has_moldable_jobs_and_size_policies(tmp_path: Path) -> None:
    page = tmp_path / "page.yaml"
    page.write_text(
        "fluxres-experiment: 1\nname: sizes\nmachine: 64\nworkload:\n  lublin: {jobs: 60, size: 64}\n"
        "  adaptive: {kind: moldable, speedup: 'amdahl:serial=0.02', min: 0.25, max: 4, operator: '*', operand: 2}\n"
        "vary: {size_policy: [requested, greedy]}\n"
    )
    found = study.load(page)
    figures = []
    for run in found.runs:
        folder = tmp_path / run.key
        folder.mkdir()
        outcome = execution.execute(run, folder)
        assert not outcome.error
        figures.append(outcome.figures)
    assert figures[0] != figures[1]
    page.write_text(page.read_text().replace("[requested, greedy]", "[requested, best]"))
    from fluxres.experiments import checks

    with pytest.raises(FluxresError, match="no size policy 'best'"):
        checks.check(study.load(page))
    page.write_text(page.read_text().replace("  adaptive", "  request: 'slot={size}/core'\n  adaptive"))
    with pytest.raises(FluxresError, match="only jobs that request a number change"):
        checks.check(study.load(page))


def test_a_job_alone_is_as_fast_as_its_size_says() -> None:
    for size in range(1, 11):
        job = moldable(1, 0, 60, f"{size}", size)._replace(adaptive=Adaptive(count.parse("1-10"), size, Amdahl(0.3)))
        chosen = ran([job], of_number(10), size_policy="greedy")[1]
        assert chosen[1] == pytest.approx(60 * float(Amdahl(0.3).of(size) / Amdahl(0.3).of(10)), abs=1e-6)
