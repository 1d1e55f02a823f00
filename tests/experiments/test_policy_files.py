"""Queue policies in files, what a policy can ask, and the examples compared with simple implementations of their papers."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from fluxres import InputError, QueuePolicy, UsageError
from fluxres.experiments import campaign
from fluxres.experiments.comparison import check, compare
from fluxres.experiments.folder import ResultsFolder
from fluxres.instance import Job, Queue
from fluxres.instance.policy import EasyByScore, policy
from fluxres.simulation.machine import of_number
from fluxres.simulation.nesting.hierarchy import Hierarchy
from fluxres.simulation.prediction.prediction import Prediction
from fluxres.simulation.simulator import simulate
from fluxres.simulation.workload.workload import Submission
from tests.experiments.conftest import SMALL, Write
from tests.instance.machines import on_nodes
from tests.simulation import batched
from tests.simulation.oracle import Asked
from tests.simulation.test_simulator import job as submitted
from tests.traceability import ROOT

EXAMPLES = ROOT / "data" / "examples" / "policy"
S = 1_000_000

Score = Callable[[Asked, int], float]
SCORES: dict[str, Score] = {
    "wfp3.py:Wfp3": lambda job, now: ((now - job.submit) / job.limit) ** 3 * job.count,
    "wfp3.py:Wfp3:power=1": lambda job, now: (now - job.submit) / job.limit * job.count,
    "f1.py:F1": lambda job, now: -(math.log10(job.limit) * job.count + 870 * math.log10(max(job.submit, 1))),
    "saf.py:Saf": lambda job, now: -job.limit * job.count,
}


def easy_by_score(score: Score) -> batched.Pass:
    """At each moment: sort all that wait; start from the head; keep the number that the first one left needs; try the others."""

    def make_pass(machine: batched.Machine, arrived: list[Asked], has_ended: bool) -> None:
        order = sorted(machine.queue, key=lambda job: -score(job, machine.now))
        shadow = extra = None
        for job in order:
            busy = [each for each in machine.running if each.start is not None]
            free = machine.size - sum(each.count for each in busy)
            if shadow is None:
                if job.count <= free:
                    begin(machine, job)
                    continue
                ends = {each.start + each.limit: 0 for each in busy if each.start is not None}
                for at in sorted(ends):
                    left = [each for each in busy if each.start is not None and each.start + each.limit > at]
                    then = machine.size - sum(each.count for each in left)
                    if then >= job.count:
                        shadow, extra = at, then - job.count
                        break
            elif extra is not None and job.count <= free and (machine.now + job.limit <= shadow or job.count <= extra):
                extra -= job.count * (machine.now + job.limit > shadow)
                begin(machine, job)

    return make_pass


def begin(machine: batched.Machine, job: Asked) -> None:
    machine.queue.remove(job)
    job.start = machine.now
    machine.running.append(job)


@pytest.mark.parametrize("name", SCORES)
def test_examples_start_every_job_like_a_simple_implementation(name: str) -> None:
    for seed in range(40):
        random = Random(seed)
        moment, jobs = 0, []
        for number in range(30):
            moment += random.choice((0, 1, random.randint(0, 20)))
            limit = random.randint(1, 60)
            jobs.append(Asked(number, moment, random.randint(1, limit), limit, random.randint(1, 8)))
        work = [Submission(job.id, job.submit * S, job.run * S, job.limit * S, job.count) for job in jobs]
        result = simulate(work, of_number(8), queue_policy=str(EXAMPLES / name), event_order="batched")
        batched.run(jobs, 8, easy_by_score(SCORES[name]))
        assert result.schedule is not None
        found = {number: start // S for number, start in result.schedule.starts().items()}
        assert found == {job.id: job.start for job in jobs}, seed


@pytest.mark.parametrize("name", [*SCORES, "shortest_first.py:ShortestFirst"])
def test_examples_score_by_what_is_predicted(name: str) -> None:
    """Perfect predictions give the schedule of jobs whose limits are their run times."""
    for seed in range(10):
        random = Random(seed)
        work = []
        for number in range(30):
            run = random.randint(1, 40)
            work.append(Submission(number, number * 3 * S, run * S, run * random.randint(1, 9) * S, random.randint(1, 8)))
        exact = [each._replace(limit=each.run) for each in work]
        policy_name = str(EXAMPLES / name)
        predicted = simulate(
            work, of_number(8), queue_policy=policy_name, event_order="batched", prediction=Prediction("perfect")
        )
        known = simulate(exact, of_number(8), queue_policy=policy_name, event_order="batched")
        assert predicted.schedule is not None
        assert known.schedule is not None
        assert predicted.schedule.starts() == known.schedule.starts(), seed


def test_the_multifactor_example_limits_the_jobs_of_a_user() -> None:
    given = f'{EXAMPLES / "multifactor.py"}:Multifactor:{{"weights": {{"age": 1000}}, "most_running": 2}}'
    work = [Submission(number, 0, 10 * S, 10 * S, 1, user="ann" if number < 6 else "bob") for number in range(8)]
    result = simulate(work, of_number(8), queue_policy=given)
    assert result.schedule is not None
    assert sorted(start // S for start in result.schedule.start) == [0, 0, 0, 0, 10, 10, 20, 20]


def test_a_policy_of_a_file_that_raises_is_told_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(OWN.format("mine").replace("        pass", "        queue.nothing"))
    result = simulate([submitted(1, 0, 1, 1)], of_number(4), queue_policy=policy(str(tmp_path / "mine.py:Mine")))
    (told,) = result.errors
    assert told.startswith("processors: queue policy mine: AttributeError: ")
    assert told.endswith(" (mine.py, line 7)")


def test_what_a_policy_of_a_file_cannot_do_is_told_with_its_line(tmp_path: Path) -> None:
    twice = "        for job in [*queue, *queue]:\n            queue.start(job)"
    (tmp_path / "mine.py").write_text(OWN.format("mine").replace("        pass", twice))
    result = simulate([submitted(1, 0, 1, 1)], of_number(4), queue_policy=policy(str(tmp_path / "mine.py:Mine")))
    (told,) = result.errors
    assert told.endswith(" is RUN and cannot be started (mine.py, line 8)")


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_examples_are_short(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) < 30


OWN = """\
from fluxres import QueuePolicy

class Mine(QueuePolicy):
    name = "{}"

    def schedule(self, queue):
        pass
"""


def test_a_study_with_a_policy_that_starts_nothing_has_a_failed_run_and_others(page: Write, tmp_path: Path) -> None:
    (tmp_path / "lazy.py").write_text(OWN.format("lazy"))
    study = page(SMALL.replace("[fcfs, easy]", "[fcfs, 'lazy.py:Mine']").replace("repeats: 2", "repeats: 1"))
    made = campaign.run(study, tmp_path / "results")
    ((run, why),) = made.failed.items()
    assert "lazy.py" in run
    assert "queue policy lazy: it starts no job: 30 jobs wait, job 1 first, there is room for each of them" in why
    assert len(study.runs) == 2


def test_policies_of_files_that_are_wrong_are_usage_errors(tmp_path: Path) -> None:
    (tmp_path / "raises.py").write_text("1 / 0\n")
    (tmp_path / "other.py").write_text(OWN.format("mine") + "\ndef make(queue): ...\nclass Not: ...\n")
    (tmp_path / "less.py").write_text("from fluxres import QueuePolicy\nclass Mine(QueuePolicy):\n    name = 'mine'\n")
    for name, message in (
        ("absent.py:Mine", "cannot be read: no such file"),
        ("raises.py:Mine", "cannot be imported: ZeroDivisionError"),
        ("other.py:Yours", "no class 'Yours'"),
        ("other.py:make", r"other.py:make: expected a class derived from QueuePolicy, got the function make \(it has Mine\)"),
        ("less.py:Mine", r"the class Mine does not define schedule\(\), which every queue policy has \(add it to the class\)$"),
        ("other.py:Not", r"other.py:Not: expected a class derived from QueuePolicy, got the class Not \(it has Mine\)$"),
        ("other.py:Mine:depth=4", "no parameter 'depth'"),
        ('other.py:Mine:{"depth": ', "not a JSON object"),
    ):
        with pytest.raises(UsageError, match=message):
            policy(str(tmp_path / name))
    assert policy(str(tmp_path / "other.py:Mine")).name == "mine"
    (tmp_path / "other.py").write_text(OWN.format("changed"))
    assert policy(str(tmp_path / "other.py:Mine")).name in ("mine", "changed")


def test_a_study_finds_policies_beside_its_page(page: Write, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text((EXAMPLES / "saf.py").read_text(encoding="utf-8"))
    study = page(SMALL.replace("[fcfs, easy]", "[fcfs, 'mine.py:Saf', 'mine.py:Saf:{}']").replace("repeats: 2", "repeats: 1"))
    campaign.run(study, tmp_path / "a")
    folder = ResultsFolder(tmp_path / "a")
    one, two, three = (row.figures["mean_wait_s"] for row in compare(study, folder).rows)
    assert one
    assert two
    assert three
    assert two.mean == three.mean
    assert campaign.run(folder.study(), tmp_path / "again").failed == {}
    (tmp_path / "mine.py").write_text((EXAMPLES / "f1.py").read_text(encoding="utf-8").replace("F1", "Saf"))
    with pytest.raises(UsageError, match=r"made from other files: .*mine\.py changed since"):
        campaign.run(study, tmp_path / "a")


def test_a_report_finds_the_runs_of_policies_in_files(page: Write, tmp_path: Path) -> None:
    """The page in the results has absolute paths; its runs and settings have the same names."""
    (tmp_path / "mine.py").write_text((EXAMPLES / "shortest_first.py").read_text(encoding="utf-8"), encoding="utf-8")
    named = "mine.py:ShortestFirst:patience_s=60"
    text = SMALL.replace("[fcfs, easy]", f"[fcfs, '{named}']").replace("repeats: 2", "repeats: 1")
    text = text.replace("baseline: {hierarchy.queue_policy: fcfs}", f"baseline: {{hierarchy.queue_policy: '{named}'}}")
    study = page(text + f"expect:\n  - {{metric: jobs, of: {{hierarchy.queue_policy: '{named}'}}, range: [30, 30]}}\n")
    campaign.run(study, tmp_path / "a")
    folder = ResultsFolder(tmp_path / "a")
    again = folder.study()
    assert [run.key for run in again.runs] == [run.key for run in study.runs]
    assert study.runs[1].key == "002-queue_policy=mine.py-ShortestFirst-patience_s=60"
    found = compare(again, folder)
    assert found.missing == []
    assert [row.label for row in found.rows] == ["queue_policy fcfs", f"queue_policy {named}"]
    assert all(row.ratios["mean_wait_s"] is not None for row in found.rows)
    assert [each.holds for each in check(found)] == [True]


def test_a_policy_object_is_not_shared_by_instances() -> None:
    class Mine(EasyByScore):
        name = "mine"

        def score(self, job: Job, now_s: float) -> float:
            return 0.0

    shared: tuple[object, ...] = (Mine(),)
    with pytest.raises(UsageError, match="a policy object \\(mine\\) would be shared by all instances of a level"):
        Hierarchy((2,), shared)
    Hierarchy((), shared)


@pytest.mark.parametrize("inventory", ["graph", "named"])
def test_a_policy_can_ask_for_what_is_free_and_when(inventory: str) -> None:
    asked: list[tuple[object, ...]] = []

    class Asking(QueuePolicy):
        name = "asking"

        def schedule(self, queue: Queue) -> None:
            for job in queue:
                if not queue.start(job):
                    earliest = queue.earliest(job)
                    running = [(each.size, each.ends_at) for each in queue.running()]
                    asked.append((queue.free, earliest, queue.free_at(50.0), queue.free_at(100.0), sorted(running)))
                    assert queue.reserved == 0

    instance, _ = on_nodes(8, Asking(), inventory=inventory)
    for size, length in ((3, 100), (3, 50), (6, 10)):
        instance.submit(f"slot={size}/node", duration_s=length)
    assert asked[-1] == (2, 100.0, 5, 8, [(3, 50.0), (3, 100.0)])
    instance.drain("/cluster/node7")
    instance.submit("slot=8/node", duration_s=10)
    assert asked[-2][0] == 1


def test_fractions_of_a_tick_are_refused_in_words() -> None:
    with pytest.raises(InputError, match=r"job 7: submit: expected whole microseconds, got 0\.5"):
        simulate([Submission(7, 0.5, 1, 1, 1)], of_number(8))
    with pytest.raises(InputError, match=r"job 8: run: expected whole microseconds, got 1\.5"):
        simulate([Submission(7, 0, 1, 1, 1), Submission(8, 0, 1.5, 1, 1)], of_number(8))


@pytest.mark.parametrize("at", [1, 2, 3])
def test_times_below_zero_are_refused_in_words(at: int) -> None:
    given = [7, 0, 1, 1, 1]
    given[at] = -5
    with pytest.raises(InputError, match=r"^job 7: (submit|run|limit): expected at least 0, got -5$"):
        simulate([Submission(*given)], of_number(8))
