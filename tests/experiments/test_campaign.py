"""A campaign gives the same results however it is run, resumes after it was stopped, and completes when parts of it fail."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fluxres import limits
from fluxres.errors import StoreBusy, StoreError, UsageError
from fluxres.experiments import campaign
from fluxres.experiments.execution import METRICS
from fluxres.experiments.folder import ERROR, ResultsFolder
from fluxres.experiments.study import Run, load
from tests.experiments.conftest import SMALL, Write, start

SLOW = """\
fluxres-experiment: 1
name: slow
machine: node=4/core=8
unit: core
workload: {ensemble: {jobs: 2000, run_s: 1}}
cost: {fixed_s: 0.001}
repeats: 4
"""


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted((folder / "runs").rglob("*")) if path.is_file()}


def test_several_processes_produce_the_same_files_as_one(page: Write, tmp_path: Path) -> None:
    fractions: list[float] = []
    alone = campaign.run(page(SMALL), tmp_path / "a", on_progress=lambda done, _text: fractions.append(done))
    several = campaign.run(page(SMALL), tmp_path / "b", processes=3)
    assert alone == several == campaign.Campaign(4, 0, {})
    assert files(tmp_path / "a") == files(tmp_path / "b")
    assert len(files(tmp_path / "a")) == 4 * 6  # runs, and the files of each
    assert fractions == sorted(fractions)


def test_only_missing_runs_are_made(page: Write, tmp_path: Path) -> None:
    found = page(SMALL)
    campaign.run(found, tmp_path / "a")
    before = files(tmp_path / "a")
    shutil.rmtree(tmp_path / "a" / "runs" / found.runs[1].key)
    (tmp_path / "a" / "runs" / f".{found.runs[1].key}.part").mkdir()
    assert campaign.run(found, tmp_path / "a") == campaign.Campaign(1, 3, {})
    assert campaign.run(found, tmp_path / "a", processes=2) == campaign.Campaign(0, 4, {})
    assert files(tmp_path / "a") == before
    assert sorted(path.name for path in (tmp_path / "a" / "runs").iterdir()) == [run.key for run in found.runs]


def test_a_run_whose_metrics_are_missing_is_made_again(page: Write, tmp_path: Path) -> None:
    found = page(SMALL)
    campaign.run(found, tmp_path / "a")
    before = files(tmp_path / "a")
    lost = tmp_path / "a" / "runs" / found.runs[1].key / METRICS
    lost.unlink()
    assert list(lost.parent.iterdir()), "the directory is not empty"
    assert campaign.run(found, tmp_path / "a") == campaign.Campaign(1, 3, {})
    assert files(tmp_path / "a") == before


def test_the_study_in_the_results_can_be_run_from_anywhere(page: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "machine.yaml").write_text("{fluxres: 1, name: m, resources: [{type: core, count: 4}]}")
    (tmp_path / "trace.swf").write_text("1 0 0 5 1 1 1 1 9 1 1 1 1 1 1 1 1 1\n")
    found = page(
        "fluxres-experiment: 1\nname: x\nmachine: machine.yaml\nworkload: [{file: trace.swf}, {ensemble: {jobs: 2}}]\n"
        "baseline: {workload: trace}\n"
    )
    campaign.run(found, tmp_path / "a")
    kept = ResultsFolder(tmp_path / "a").study()
    assert [run.key for run in kept.runs] == [run.key for run in found.runs]
    monkeypatch.chdir("/")
    assert campaign.run(kept, tmp_path / "b").made == 2


def test_a_directory_belongs_to_one_study(page: Write, tmp_path: Path) -> None:
    (tmp_path / "trace.swf").write_text("1 0 0 5 1 1 1 1 9 1 1 1 1 1 1 1 1 1\n")
    text = "fluxres-experiment: 1\nname: x\nmachine: 4\nworkload: {file: trace.swf}\n"
    campaign.run(page(text), tmp_path / "a")
    with pytest.raises(UsageError, match="another study: seed differs"):
        campaign.run(page(text + "seed: 1\n"), tmp_path / "a")
    (tmp_path / "trace.swf").write_text("1 0 0 6 1 1 1 1 9 1 1 1 1 1 1 1 1 1\n")
    with pytest.raises(UsageError, match=r"other files: trace\.swf changed since"):
        campaign.run(page(text), tmp_path / "a")
    with pytest.raises(UsageError, match="contains files other than results"):
        campaign.run(page(text), tmp_path)
    assert not (tmp_path / "runs").exists()


def test_two_campaigns_do_not_write_to_one_directory(page: Write, tmp_path: Path) -> None:
    found = page(SMALL)
    with (
        ResultsFolder(tmp_path / "a").writing(found),
        pytest.raises(StoreBusy, match=r"process .*fluxres experiment run.*is writing results here"),
    ):
        campaign.run(found, tmp_path / "a")
    assert campaign.run(found, tmp_path / "a").made == 4


def test_a_directory_that_cannot_be_written_is_reported(page: Write, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="not a directory"):
        campaign.run(page(SMALL), tmp_path / "file" / "a")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is full")
@pytest.mark.parametrize("processes", [1, 2])
def test_a_full_disk_aborts_the_campaign_and_keeps_finished_runs(
    page: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, processes: int
) -> None:
    found = page(SMALL)
    campaign.run(found, tmp_path / "a")
    shutil.rmtree(tmp_path / "a" / "runs" / found.runs[2].key)
    begin = ResultsFolder.begin

    def full(self: ResultsFolder, run: Run) -> Path:
        place = begin(self, run)
        (place / "jobs.swf").symlink_to("/dev/full")
        return place

    monkeypatch.setattr(ResultsFolder, "begin", full)
    with pytest.raises(StoreError, match=r"no space left on device.*finished runs are kept"):
        campaign.run(found, tmp_path / "a", processes=processes)
    monkeypatch.undo()
    assert campaign.run(found, tmp_path / "a") == campaign.Campaign(1, 3, {})


# -- third-party policies --------------------------------------------------------------------------------------------

POLICIES = """\
from fluxres.instance.policy import QueuePolicy

class Raises(QueuePolicy):
    name = "raises"
    def schedule(self, queue):
        if queue.now_s > 50:
            raise ZeroDivisionError("a mistake of mine")
        for job in queue:
            if not queue.start(job):
                break

class Loops(QueuePolicy):
    name = "loops"
    def schedule(self, queue):
        while True:
            for job in queue:
                queue.start(job)

class Dies(QueuePolicy):
    name = "dies"
    def schedule(self, queue):
        import os
        os.kill(os.getpid(), 9)
"""


@pytest.fixture
def policies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """An environment with an installed package that provides three policies."""
    place = tmp_path / "site"
    (place / "wrong_policies-1.dist-info").mkdir(parents=True)
    (place / "wrong_policies.py").write_text(POLICIES)
    (place / "wrong_policies-1.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: wrong-policies\nVersion: 1\n")
    points = "".join(f"{name.lower()} = wrong_policies:{name}\n" for name in ("Raises", "Loops", "Dies"))
    (place / "wrong_policies-1.dist-info" / "entry_points.txt").write_text(f"[fluxres.queue_policies]\n{points}")
    monkeypatch.syspath_prepend(place)
    return {"PYTHONPATH": str(place)}


def test_a_policy_that_raises_fails_its_runs_and_no_others(page: Write, tmp_path: Path, policies: dict[str, str]) -> None:
    found = page(SMALL.replace("[fcfs, easy]", "[fcfs, raises]"))
    ended = campaign.run(found, tmp_path / "a")
    assert (ended.made, ended.kept, len(ended.failed)) == (2, 0, 2)
    assert all("raises" in error and "a mistake of mine" in error for error in ended.failed.values())
    assert all("queue_policy=raises" in key for key in ended.failed)
    for key in ended.failed:
        place = tmp_path / "a" / "runs" / f"{key}.failed"
        assert "a mistake of mine" in (place / ERROR).read_text()
        assert (place / METRICS).exists()  # its results so far
    # Failed runs are repeated, the others are not.
    again = campaign.run(found, tmp_path / "a")
    assert (again.made, again.kept, sorted(again.failed)) == (0, 2, sorted(ended.failed))
    assert len(ResultsFolder(tmp_path / "a").history()) == 1  # of the command that made runs


def test_a_policy_that_loops_is_stopped(
    page: Write, tmp_path: Path, policies: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "PASS_SECONDS_MAX", 1.0)
    ended = campaign.run(
        page(SMALL.replace("[fcfs, easy]", "[fcfs, [easy, loops]]") + "hierarchy: {topology: 2}\n"), tmp_path / "a"
    )
    assert ended.made == 2
    assert all("loops" in error for error in ended.failed.values())


def test_a_process_that_is_killed_fails_its_run_and_no_other(tmp_path: Path, policies: dict[str, str]) -> None:
    (tmp_path / "s.yaml").write_text(SMALL.replace("[fcfs, easy]", "[fcfs, dies]"))
    process = start(
        "experiment", "run", str(tmp_path / "s.yaml"), "--out", str(tmp_path / "a"), "--processes", "2", environment=policies
    )
    out, err = process.communicate(timeout=120)
    assert process.returncode == 5, err
    assert err.endswith("fluxres: ERROR small: 2 of 4 runs failed\n")
    assert len(re.findall(r"run 00[34]-\S+ failed: its process was killed, which happens when memory runs out", err)) == 2
    assert re.search(r"^fcfs +2/2 ", out, re.MULTILINE)
    assert "Traceback" not in err


# -- stopped at any moment -------------------------------------------------------------------------------------------


def begun(tmp_path: Path) -> tuple[subprocess.Popen[str], list[str]]:
    """A campaign whose first run is done while others are in progress."""
    (tmp_path / "s.yaml").write_text(SLOW)
    command = ["experiment", "run", str(tmp_path / "s.yaml"), "--out", str(tmp_path / "a"), "--processes", "2"]
    process = start(*command)
    runs = tmp_path / "a" / "runs"
    for _ in range(1200):
        # The directory of a run exists before its process does.
        if list(runs.glob("00*")) and list(runs.glob(".00*/jobs.csv")):
            return process, command
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    process.kill()
    raise AssertionError("nothing was done within a minute")


def living(process: subprocess.Popen[str]) -> list[int]:
    """Processes of its group that have not ended."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[2]) == process.pid and fields[0] != "Z":
            found.append(int(entry.parent.name))
    return found


def wait_until_gone(process: subprocess.Popen[str]) -> None:
    for _ in range(400):
        if not living(process):
            return
        time.sleep(0.05)
    raise AssertionError(f"still there: {living(process)}")


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_stopped_campaign_can_be_resumed(tmp_path: Path, how: signal.Signals) -> None:
    process, command = begun(tmp_path)
    done = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "a" / "runs").glob("00*")}
    if how is signal.SIGINT:
        os.killpg(process.pid, how)  # as a terminal does: all foreground processes get it
    else:
        process.kill()
    out, err = process.communicate(timeout=60)
    assert process.returncode == (130 if how is signal.SIGINT else -signal.SIGKILL)
    assert out == ""
    resumed = f"fluxres: completed runs are in {tmp_path / 'a'}; the same command makes those that are missing\n"
    assert err == (f"{resumed}fluxres: interrupted\n" if how is signal.SIGINT else "")
    wait_until_gone(process)
    again = start(*command, "--json")
    out, err = again.communicate(timeout=120)
    assert again.returncode == 0, err
    assert json.loads(out)["kept"] == len(done)
    after = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "a" / "runs").iterdir()}
    assert sorted(after) == [f"00{n}-seed={n - 1}" for n in (1, 2, 3, 4)]
    assert {name: after[name] for name in done} == done


def test_errors_about_directories_have_a_remedy() -> None:
    from fluxres.experiments.folder import cannot

    assert "another --out" in cannot(Path("/x"), OSError(errno.EACCES, "Permission denied", "/x/y")).hint
    assert cannot(Path("/x"), OSError(errno.EACCES, "Permission denied", "/x/y")).where == "/x/y"


def test_a_process_that_receives_no_run_exits_without_a_traceback() -> None:
    call = "import fluxres.experiments.forked as forked; forked._exit_silently({0}, {0}('nothing'), None)"
    for error, said in (("EOFError", ""), ("BrokenPipeError", ""), ("KeyError", "KeyError: 'nothing'")):
        found = subprocess.run([sys.executable, "-c", call.format(error)], capture_output=True, text=True, check=True)
        assert found.stderr.strip() == said


INTERRUPTED = """
import os, signal, time
from multiprocessing import forkserver
from fluxres.experiments import campaign

def main():
    context = campaign._Processes([], None, 1, None).context
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of this process only: the server has been started
    server = forkserver._forkserver._forkserver_pid
    for _ in range(20):
        os.killpg(0, signal.SIGINT)
        time.sleep(0.05)
    process = context.Process(target=print, args=("forked",))
    process.start()
    process.join()
    print(forkserver._forkserver._forkserver_pid == server)

if __name__ == "__main__":
    main()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there are no signals")
def test_an_interruption_does_not_reach_the_server_that_forks_while_it_imports(tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text(INTERRUPTED, encoding="utf-8")
    root = Path(__file__).parents[2]
    found = subprocess.run(
        [sys.executable, str(tmp_path / "main.py")],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(root)},
        start_new_session=True,
        timeout=60,
        check=False,
    )
    assert (found.returncode, found.stdout, found.stderr) == (0, "forked\nTrue\n", "")


PLACED = """
fluxres-experiment: 1
name: placed
machine: node=4
workload: {file: jobs.yaml}
disturbances: {events: events.yaml}
energy: {idle_w: 100, full_w: 200, cap: [{at_s: 0, watts: 900}, {at_s: 50, watts: null}]}
cases:
  nothing: {}
  other jobs: {workload.file: more.yaml, energy.cap: null}
  other machine: {machine: four.yaml, disturbances: {events: none.yaml}}
baseline: {case: nothing}
expect: [{metric: jobs, of: {case: nothing}, range: [1, 1]}]
"""


def test_the_page_of_the_results_says_the_same_in_any_folder(page: Write, tmp_path: Path) -> None:
    study = page(PLACED)
    for name, text in {
        "jobs.yaml": "[{request: -N4, run: 5, duration: 9}]",
        "more.yaml": "[{request: -N1, run: 5, duration: 9}, {request: -N2, run: 5, duration: 9}]",
        "events.yaml": "[{at: 90, down: node0}]",
        "none.yaml": "[{at: 95, down: node1}]",
        "four.yaml": "{fluxres: 1, name: four, resources: [{type: node, count: 4}]}",
    }.items():
        (study.folder / name).write_text(text, encoding="utf-8")
    campaign.run(study, tmp_path / "a")
    again = ResultsFolder(tmp_path / "a").study()
    assert [(run.key, run.settings) for run in again.runs] == [(run.key, run.settings) for run in study.runs]
    (tmp_path / "away").mkdir()
    moved = (tmp_path / "a" / "study.yaml").replace(tmp_path / "away" / "study.yaml")
    campaign.run(load(moved), tmp_path / "b")
    for run in study.runs:
        first, second = (json.loads((tmp_path / name / "runs" / run.key / "metrics.json").read_bytes()) for name in "ab")
        assert first["metrics"] == second["metrics"]
