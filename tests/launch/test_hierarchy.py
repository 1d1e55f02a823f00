"""Hierarchies of real processes: the resources of each instance, and rule N1 when an instance dies at any moment."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fluxres import InfeasibleRequest, PolicyError, QueuePolicy, UsageError, limits
from fluxres.errors import FluxresError, LimitExceeded
from fluxres.instance import Queue
from fluxres.instance.policy import POLICIES
from fluxres.launch import hierarchy, lifeline
from fluxres.launch.branch import Branch
from fluxres.launch.hierarchy import EqualJobs, Outcome, Patience, check, run
from fluxres.simulation.nesting.hierarchy import Hierarchy
from fluxres.store import open_store
from tests import sites
from tests.launch.machines import eventually, is_alive, marked, of_shape

SLEEPER = f"{sys.executable} -c 'import time; time.sleep(600)'"


def nested(*fan_outs: int, **settings: Any) -> Hierarchy:
    return Hierarchy(fan_outs, ("fcfs",), **settings)


def run_watched(
    ensemble: EqualJobs,
    *fan_outs: int,
    shape: str = "node=4/core=2",
    act: Callable[[Branch], None],
    patience: Patience | None = None,
) -> tuple[Outcome, Branch]:
    """Run a hierarchy, and call a function once, when all instances are ready."""
    seen: list[Branch] = []

    def watched(branch: Branch) -> None:
        if not seen:
            seen.append(branch)
            branch.loop.after(0.0, lambda: act(branch))

    outcome = run(of_shape(shape), nested(*fan_outs), ensemble, patience or Patience(grace_s=0.5), watched=watched)
    return outcome, seen[0]


def everything_is_back(branch: Branch) -> None:
    assert branch.instance.graph.jobs() == []
    assert branch.instance.check() == []
    assert marked(branch.begin.mark) == {}


@pytest.mark.parametrize(
    ("fan_outs", "job"),
    [
        ((), "instant"),
        ((), "sleep:0.01"),
        ((), "true"),
        ((2, 2), "true"),
        pytest.param((2,), "true", marks=pytest.mark.slow),
        pytest.param((3,), "instant", marks=pytest.mark.slow),
        pytest.param((2, 2), "sleep:0.01", marks=pytest.mark.slow),
    ],
)
def test_every_job_is_run_once(fan_outs: tuple[int, ...], job: str) -> None:
    outcome = run(of_shape("node=4/core=2"), nested(*fan_outs), EqualJobs(13, job))
    assert (outcome.completed, outcome.failed, outcome.lost, outcome.status, outcome.notes) == (13, 0, 0, 0, {})
    leaves = [row.jobs for row in outcome.rows if row.is_leaf]
    assert sum(leaves) == 13
    assert max(leaves) - min(leaves) <= 1
    assert len(outcome.rows) == outcome.instances == hierarchy.instances(fan_outs)
    planned = check(of_shape("node=4/core=2"), nested(*fan_outs), EqualJobs(13, job))
    assert [(row.tree_id, row.jobs, row.nodes, row.cores) for row in outcome.rows] == [
        (one.tree_id, one.jobs, one.has.nodes, one.has.cores) for one in planned
    ]


def test_children_read_their_copy_from_the_store_of_their_parent(tmp_path: Path) -> None:
    run(of_shape("node=4/core=2"), nested(2, 2), EqualJobs(4), folder=tmp_path)
    assert sorted(path.name for path in tmp_path.glob("*.db")) == ["tree.1.db", "tree.2.db", "tree.db"]
    assert open_store(f"{tmp_path}/tree.db").names() == ["tree.1", "tree.2"]
    inner = open_store(f"{tmp_path}/tree.1.db")
    cores = [{pool.path for pool in inner.load(name).find("type=core")} for name in ("tree.1.1", "tree.1.2")]
    assert list(map(len, cores)) == [2, 2]
    assert not cores[0] & cores[1]


def test_jobs_get_their_id_and_their_output_is_separate(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    outcome = run(of_shape("node=2/core=1"), nested(2), EqualJobs(2, f"sh -c 'echo ${lifeline.MARK} ${lifeline.JOB}'"))
    out, err = capfd.readouterr()
    assert out == ""
    assert sorted(line.split()[0].partition("/")[2] for line in err.splitlines()) == ["tree.1", "tree.2"]
    assert all(line.split()[1].startswith("ƒ") for line in err.splitlines())
    assert outcome.completed == 2


def test_failed_jobs_are_counted_and_their_status_is_passed_up() -> None:
    outcome = run(of_shape("node=4/core=2"), nested(2), EqualJobs(8, "sh -c 'exit 7'"))
    assert (outcome.completed, outcome.failed, outcome.lost, outcome.status) == (0, 8, 0, 7)
    assert outcome.rows[0].status == 7
    assert all("ended with status 7" in note for note in outcome.notes.values())


def test_missing_program_fails_its_jobs() -> None:
    outcome = run(of_shape("node=4/core=2"), nested(2), EqualJobs(3, "/no/such/program"))
    assert (outcome.failed, outcome.lost, outcome.status) == (3, 0, 127)
    assert "No such file" in outcome.notes["tree.1"]


def test_job_past_its_limit_is_killed_even_if_it_ignores_signals() -> None:
    deaf = f"{sys.executable} -c 'import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)'"
    outcome = run(of_shape("node=2/core=1"), nested(2), EqualJobs(2, deaf, duration_s=2.0), Patience(grace_s=0.5))
    assert (outcome.failed, outcome.status) == (2, 128 + signal.SIGKILL)


def test_processes_left_by_a_job_end_with_it(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    outcome = run(of_shape("node=1/core=1"), nested(), EqualJobs(1, f"sh -c 'sleep 600 & echo $! > {pid_file}'"))
    assert outcome.completed == 1
    assert eventually(lambda: not is_alive(int(pid_file.read_text())))


def test_processes_that_leave_their_group_end_with_the_run(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    escape = f"import os; p = os.fork(); p and os._exit(0); os.setsid(); open({str(pid_file)!r}, 'w').write(str(os.getpid()))"
    ensemble = EqualJobs(1, f'{sys.executable} -c "{escape}; import time; time.sleep(600)"')
    run(of_shape("node=1/core=1"), nested(), ensemble)
    assert not pid_file.exists() or eventually(lambda: not is_alive(int(pid_file.read_text())))


# -- rule N1 -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "job"),
    [
        (signal.SIGKILL, "sleep 0.2"),
        pytest.param(signal.SIGKILL, "sleep:0.2", marks=pytest.mark.slow),
        pytest.param(signal.SIGTERM, "sleep 0.2", marks=pytest.mark.slow),
        pytest.param(signal.SIGTERM, "sleep:0.2", marks=pytest.mark.slow),
    ],
)
def test_rule_n1_dying_leaf_returns_everything_and_the_others_finish(number: int, job: str) -> None:
    outcome, branch = run_watched(EqualJobs(60, job), 4, act=lambda branch: os.kill(branch.children[1].pid, number))
    everything_is_back(branch)
    rows = {row.tree_id: row for row in outcome.rows}
    assert [rows[f"tree.{n}"].completed for n in (1, 3, 4)] == [15, 15, 15]
    lost = rows["tree.2"]
    assert lost.completed < 15
    assert lost.status
    assert "signal" in lost.note
    assert outcome.lost == 15 - lost.completed
    assert outcome.completed == 45 + lost.completed


def test_rule_n1_dying_intermediate_instance_ends_all_below_it() -> None:
    seen: dict[int, str] = {}

    def act(branch: Branch) -> None:
        assert eventually(lambda: sum(value.count(".") == 2 for value in marked(branch.begin.mark).values()) >= 8)
        seen.update(marked(branch.children[0].mark))
        os.kill(branch.children[0].pid, signal.SIGKILL)

    outcome, branch = run_watched(EqualJobs(16, "sleep 2"), 2, 2, act=act)
    everything_is_back(branch)
    assert len(seen) >= 3
    assert [pid for pid in seen if is_alive(pid)] == []
    rows = {row.tree_id: row for row in outcome.rows}
    assert rows["tree.2"].completed == 8
    assert "SIGKILL" in rows["tree.1"].note


@pytest.mark.parametrize("delay_s", [0.3, *(pytest.param(s, marks=pytest.mark.slow) for s in (0.0, 0.6))])
def test_rule_n1_leaf_that_dies_during_startup(delay_s: float, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Branch] = []
    real = Branch.boot

    def boot(branch: Branch) -> None:
        started.append(branch)
        branch.loop.after(delay_s, lambda: os.kill(branch.children[0].pid, signal.SIGKILL))
        real(branch)

    monkeypatch.setattr(Branch, "boot", boot)
    outcome = run(of_shape("node=4/core=2"), nested(2), EqualJobs(8, "sleep:1"))
    everything_is_back(started[0])
    assert (outcome.completed, outcome.lost) == (4, 4)
    assert "SIGKILL" in outcome.notes["tree.1"]


def test_hanging_leaf_is_lost() -> None:
    outcome, branch = run_watched(
        EqualJobs(8, "sleep:0.2"),
        2,
        act=lambda branch: os.kill(branch.children[0].pid, signal.SIGSTOP),
        patience=Patience(grace_s=0.5, silence_s=5.0),
    )
    everything_is_back(branch)
    assert "no message for 5 s" in outcome.notes["tree.1"]
    assert outcome.rows[2].completed == 4


def test_run_past_its_timeout_is_stopped_and_reported() -> None:
    outcome = run(of_shape("node=4/core=2"), nested(2), EqualJobs(8, SLEEPER), Patience(grace_s=0.5, timeout_s=6.0))
    assert not outcome.is_complete
    assert (outcome.completed, outcome.lost) == (0, 8)
    assert outcome.notes["tree"] == "stopped after 6 s"


# -- refused before anything starts ------------------------------------------------------------------------------------


@pytest.fixture
def no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    def started(*_: Any, **__: Any) -> None:
        raise AssertionError("a process was started")

    monkeypatch.setattr(lifeline, "start", started)


@pytest.mark.usefixtures("no_process")
@pytest.mark.parametrize(
    ("fan_outs", "ensemble", "error", "words"),
    [
        ((9,), EqualJobs(1), InfeasibleRequest, "9 children requested, but there are at most 8"),
        ((2, 5), EqualJobs(1), InfeasibleRequest, "tree.1: 5 children requested, but there are at most 4"),
        ((4,), EqualJobs(1, request="slot=3/core"), InfeasibleRequest, "tree.1: a job asks for more than this instance has"),
        (
            (8,),
            EqualJobs(1, request="slot=1/node"),
            InfeasibleRequest,
            "8 children requested, but there are at most 4 of type node",
        ),
        ((), EqualJobs(1, "sleep:soon"), UsageError, "sleep:soon"),
        ((), EqualJobs(1, "sleep:inf"), UsageError, "never end"),
        ((), EqualJobs(1, ""), UsageError, "expected instant"),
        ((), EqualJobs(1, "sh -c 'x"), UsageError, "No closing quotation"),
        ((), EqualJobs(-1), UsageError, "number of jobs"),
        ((), EqualJobs(1, request="slot=1/gpu"), InfeasibleRequest, "gpu"),
    ],
)
def test_impossible_runs_are_refused_before_anything_starts(
    fan_outs: tuple[int, ...], ensemble: EqualJobs, error: type[FluxresError], words: str
) -> None:
    with pytest.raises(error) as caught:
        run(of_shape("node=4/core=2"), nested(*fan_outs), ensemble)
    assert words in str(caught.value)


@pytest.mark.usefixtures("no_process")
def test_jobs_that_would_draw_from_a_parent_are_refused_with_a_remedy() -> None:
    with pytest.raises(InfeasibleRequest) as caught:
        run(sites.graph(sites.TWO_PDUS), nested(2), EqualJobs(1, request="slot/[node;power=1]"))
    assert "cannot ask its parent for more: give the nodes a `draw`" in caught.value.hint


@pytest.mark.usefixtures("no_process")
def test_more_processes_than_a_machine_can_take_are_refused() -> None:
    with pytest.raises(LimitExceeded, match=str(limits.INSTANCE_PROCESSES_MAX)):
        run(of_shape("node=64/core=32"), nested(limits.INSTANCE_PROCESSES_MAX), EqualJobs(1))
    with pytest.raises(LimitExceeded, match=str(limits.INSTANCE_DEPTH_MAX)):
        run(of_shape("node=1"), nested(*[1] * limits.INSTANCE_DEPTH_MAX), EqualJobs(1, request="slot=1/node"))


@pytest.mark.usefixtures("no_process")
def test_command_too_long_for_a_pipe_is_refused() -> None:
    with pytest.raises(LimitExceeded, match=str(limits.MESSAGE_BYTES_MAX)):
        run(of_shape("node=2"), nested(2), EqualJobs(1, "true " + "x" * limits.MESSAGE_BYTES_MAX, request="slot=1/node"))


def test_only_the_free_part_of_a_machine_is_allocated() -> None:
    machine = of_shape("node=4/core=2")
    machine.allocate("slot=1/node{x}", job="other")
    assert [one.has.nodes for one in check(machine, nested(3), EqualJobs(3))] == [3, 1, 1, 1]
    assert machine.jobs() == ["other"]


class Loops(QueuePolicy):
    def schedule(self, queue: Queue) -> None:
        while True:
            pass


def test_a_policy_that_loops_while_the_tree_is_planned_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PASS_SECONDS_MAX", 0.5)
    monkeypatch.setattr(POLICIES, "built_in", {**POLICIES.built_in, "loops": Loops})
    with pytest.raises(PolicyError, match="queue policy Loops: it did not return"):
        check(of_shape("node=4/core=2"), Hierarchy((2,), ("loops",)), EqualJobs(4))
