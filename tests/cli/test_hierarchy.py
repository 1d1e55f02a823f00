"""`fluxres hierarchy` at a terminal, in a pipe, and interrupted."""

from __future__ import annotations

import csv
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Invoke, process
from tests.launch.machines import eventually, is_alive, marked

SMALL = ("-N", "4", "-c", "2")
SLEEPER = f"{sys.executable} -c 'import time; time.sleep(600)'"
WAIT_S = 90


def finish(running: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = running.communicate(timeout=WAIT_S)
    return running.returncode, out, err


def test_flat_and_nested_in_one_run() -> None:
    status, out, err = finish(process("hierarchy", *SMALL, "-T", "2", "-T", "2x2", "-J", "30", "--job", "sleep:0.01", "--json"))
    assert (status, err) == (0, "")
    told = json.loads(out)["topologies"]
    assert [(one["topology"], one["instances"], one["completed"]) for one in told] == [("1", 1, 30), ("2", 3, 30), ("2x2", 7, 30)]
    assert [len(one["rows"]) for one in told] == [1, 3, 7]
    assert told[0]["ratio"] == 1.0
    for one in told:
        assert one["jobs_per_s"] == pytest.approx(30 / one["run_s"])
        assert one["ratio"] == pytest.approx(one["jobs_per_s"] / told[0]["jobs_per_s"])
        assert one["jobs_per_s_with_boot"] <= one["jobs_per_s"]


def test_the_csv_has_the_columns_of_flux_tree_and_the_table_times_from_its_start_on(place: Path) -> None:
    status, out, _ = finish(process("hierarchy", *SMALL, "-g", "1", "-T", "2", "--no-flat", "-J", "4", "--csv", "rows.csv"))
    assert status == 0
    heading = ["TreeID", "Elapsed", "Begin", "End", "Match(us)", "NJobs", "NNodes", "CPN", "GPN"]
    lines = out.splitlines()
    assert lines[0] == "Topology 2:"
    titles = "INSTANCE JOBS NODES CORES/NODE GPUS/NODE BEGIN (s) END (s) TIME (s) PER START (µs)"
    assert " ".join(lines[1].split()) == titles
    first = lines[2].split()
    assert first[:6] == ["tree", "4", "4", "2", "1", "0.000"]
    assert first[6] == first[7]
    rows = list(csv.DictReader((place / "rows.csv").read_text(encoding="utf-8").splitlines()))
    assert [row["TreeID"] for row in rows] == ["tree", "tree.1", "tree.2"]
    assert [(row["NJobs"], row["NNodes"], row["CPN"], row["GPN"]) for row in rows] == [("4", "4", "2", "1")] + [
        ("2", "2", "2", "1")
    ] * 2
    assert set(heading) < set(rows[0])


def test_a_csv_that_finds_a_full_disk_leaves_the_old_one(place: Path) -> None:
    (place / "rows.csv").write_text("old", encoding="utf-8")
    code = (
        "import resource, sys; from pathlib import Path; from fluxres.cli import hierarchies; from fluxres.cli.main import main\n"
        "made = hierarchies.csv_lines\n"
        "def full(outcomes):\n"
        "    resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10))\n"
        "    return made(outcomes)\n"
        "hierarchies.csv_lines = full\n"
        f"sys.argv[1:] = {['hierarchy', *SMALL, '-T', '2', '--no-flat', '-J', '4', '--csv', 'rows.csv']!r}\n"
        "sys.exit(main())"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=place, capture_output=True, text=True, timeout=WAIT_S, check=False)
    assert (done.returncode, "rows.csv: cannot be written: File too large; nothing was written" in done.stderr) == (4, True)
    assert (os.listdir(place), (place / "rows.csv").read_text(encoding="utf-8")) == (["rows.csv"], "old")


def test_the_graph_in_use_is_the_machine_and_is_only_read(tiny: Invoke) -> None:
    before = tiny("log", "--json").stdout
    planned = json.loads(tiny("hierarchy", "-T", "2", "-J", "4", "--no-flat", "-d", "--json").stdout)
    assert len(planned["topologies"][0]["rows"]) == 3
    assert finish(process("hierarchy", "-T", "2", "-J", "4", "--no-flat"))[0] == 0
    assert tiny("log", "--json").stdout == before


def test_policies_are_given_by_level(fluxres: Invoke) -> None:
    fluxres("hierarchy", *SMALL, "-T", "2", "-Q", "hybrid:depth=8:fcfs", "-M", "low:high", "-d")
    wrong = fluxres("hierarchy", *SMALL, "-T", "2", "-Q", "easy:nonesuch", "-d", status=2)
    assert "nonesuch" in wrong.stderr


@pytest.mark.parametrize(
    ("words", "status", "told"),
    [
        (["-T", "2x5"], 3, "tree.1: 5 children requested, but there are at most 4"),
        (["-T", "0"], 2, "such as 2x4"),
        (["-T", "2x"], 2, "such as 2x4"),
        (["-T", "2", "-r", "slot=9/core"], 3, "a job asks for more"),
        (["--job", ""], 2, "expected instant"),
        (["--job", "sleep:x"], 2, "such as sleep:0.1"),
        (["-M", "nonesuch"], 2, "nonesuch"),
        (["--silence", "0.1"], 2, "--silence"),
        (["--grace", "inf"], 2, "--grace"),
        (["--machine", "node=2"], 2, "both --machine and -N"),
        (["-T", "9999"], 2, "at most 1024"),
    ],
)
def test_invalid_hierarchies_are_refused(fluxres: Invoke, words: list[str], status: int, told: str) -> None:
    assert told in fluxres("hierarchy", *SMALL, *words, status=status).stderr


def test_no_jobs_measure_the_boot_alone() -> None:
    status, out, err = finish(process("--json", "hierarchy", *SMALL, "-T", "2", "--no-flat", "-J", "0"))
    assert status == 0, err
    (found,) = json.loads(out)["topologies"]
    assert (found["jobs"], found["lost"], found["jobs_per_s"], found["is_complete"]) == (0, 0, None, True)
    assert found["boot_s"] > 0


def test_failed_jobs_exit_with_status_5_after_the_output() -> None:
    status, out, err = finish(process("hierarchy", *SMALL, "-T", "2", "-J", "4", "--job", "sh -c 'echo oops >&2; exit 9'"))
    assert status == 5
    assert "4 failed" in out
    assert err.count("oops") == 8
    assert "fluxres: ERROR hierarchy: 8 jobs failed, 0 were lost or never ran; the highest exit status was 9" in err


def test_a_program_that_does_not_exist_is_named_for_each_instance() -> None:
    status, _, err = finish(process("hierarchy", *SMALL, "-T", "2", "--no-flat", "-J", "4", "--job", "nosuch --flag"))
    assert status == 5
    for instance in ("tree.1", "tree.2"):
        assert re.search(rf"^fluxres: topology 2, {instance}: job ƒ\w+: 'nosuch': No such file or directory$", err, re.MULTILINE)


def test_a_policy_that_starts_nothing_is_named_for_each_instance(place: Path) -> None:
    (place / "lazy.py").write_text(LAZY)
    words = ("hierarchy", *SMALL, "-T", "2", "--no-flat", "-J", "4")
    status, _, err = finish(process(*words, "-Q", "fcfs:lazy.py:Lazy"))
    assert status == 5
    assert err.count("queue policy Lazy: it starts no job: 2 jobs wait, job ") == 2
    status, _, err = finish(process(*words, "-Q", "lazy.py:Lazy"))
    assert (status, err.count("queue policy Lazy: it starts no job: job ")) == (2, 1)


LAZY = "from fluxres import QueuePolicy\n\nclass Lazy(QueuePolicy):\n    def schedule(self, queue): ...\n"


def started(tmp_path: Path, *words: str) -> tuple[subprocess.Popen[str], str, Path]:
    """A run whose jobs do not end, in its own process group, with the mark of its processes; all its jobs have begun."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    running = process(
        "hierarchy", *SMALL, "-T", "2x2", "--no-flat", "-J", "8", "--job", SLEEPER, "--grace", "1", *words,
        env={**os.environ, "TMPDIR": str(folder)}, process_group=0,
    )  # fmt: skip

    def children() -> list[str]:
        own = Path(f"/proc/{running.pid}/task/{running.pid}/children")
        pids = own.read_text().split() if own.exists() else []
        return [value for pid in pids for value in [marked_of(int(pid))] if value]

    assert eventually(lambda: bool(children()) or running.poll() is not None)
    mark = children()[0].partition("/")[0] + "/tree"
    assert eventually(lambda: len(marked(mark)) >= 6 + 8)
    return running, mark, folder


def marked_of(pid: int) -> str:
    try:
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return ""
    return next((one.decode().partition("=")[2] for one in variables if one.startswith(b"FLUXRES_INSTANCE=")), "")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_every_process_and_leaves_nothing(number: signal.Signals, tmp_path: Path) -> None:
    running, mark, folder = started(tmp_path)
    everyone = marked(mark)
    os.killpg(running.pid, number)  # as a terminal does it
    status, out, err = finish(running)
    assert (status, out) == (130, "")
    assert err.splitlines()[-1] == "fluxres: interrupted"
    assert "Traceback" not in err
    assert marked(mark) == {}
    assert [pid for pid in everyone if is_alive(pid)] == []
    assert list(folder.iterdir()) == []


def test_ctrl_c_while_instances_start(tmp_path: Path) -> None:
    running = process("hierarchy", *SMALL, "-T", "2x2", "--no-flat", "-J", "8", "--job", SLEEPER, "--grace", "1")
    own = Path(f"/proc/{running.pid}/task/{running.pid}/children")
    assert eventually(lambda: bool(own.read_text()))
    running.send_signal(signal.SIGINT)
    status, _, err = finish(running)
    assert status == 130
    assert "Traceback" not in err


def test_no_process_outlives_a_killed_command(tmp_path: Path) -> None:
    running, mark, folder = started(tmp_path)
    everyone = marked(mark)
    running.kill()
    running.communicate()
    assert eventually(lambda: marked(mark) == {})
    assert list(folder.iterdir()) == []
    assert eventually(lambda: not any(map(is_alive, everyone)))


def test_second_ctrl_c_does_not_wait_for_jobs_that_ignore_signals(tmp_path: Path) -> None:
    deaf = f"{sys.executable} -c 'import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)'"
    running, mark, _ = started(tmp_path, "--job", deaf, "--grace", "300")
    for attempt in range(10):
        # Two signals that arrive before the first is handled become one, which may happen on a busy machine. One that
        # arrives when the interpreter has restored its handlers kills it.
        running.send_signal(signal.SIGINT)
        if eventually(lambda: running.poll() is not None, 30 if attempt else 1):
            break
    status, _, _ = finish(running)
    assert status == 130
    assert marked(mark) == {}


FED = """
fluxres: 1
name: m
resources: [{type: node, count: 4, draw: {power: 400}, with: [{type: core, count: 2}]}]
graphs:
  power:
    hierarchy: true
    pools: [{type: pdu, size: 1000, unit: W}]
    edges: [{from: "power:/pdu", to: "/m/node*"}]
"""


def test_part_that_cannot_be_supplied_is_refused_for_its_power(fluxres: Invoke, place: Path) -> None:
    (place / "fed.yaml").write_text(FED, encoding="utf-8")
    told = fluxres("hierarchy", "--machine", "fed.yaml", "-T", "2", "-J", "2", "-d", status=3).stderr
    first, *more = told.splitlines()
    assert first.startswith("fluxres: ERROR tree: there is nothing left for tree.2: resources[0].with[0]: ")
    assert "lack 400 W of power (pdu: 200 W of 1 kW free)" in first
    assert "(the children share the complete machine, and its suppliers cannot supply all of it" in first
    assert "smaller fan-out" not in told
    assert [line.partition(":")[0] for line in more] == ["  resources[0].with[0].draw.power"]


def test_each_reason_of_a_job_that_is_too_large_is_printed_once(fluxres: Invoke, place: Path) -> None:
    (place / "fed.yaml").write_text(FED, encoding="utf-8")
    wanted = ("-r", "slot=2/node/[core=9;core=1]")
    told = fluxres("hierarchy", "--machine", "fed.yaml", "-T", "1", "-J", "2", "-d", *wanted, status=3).stderr
    assert told.count("resources[0].with[0]: ") == 1
    assert told.count("resources[0].with[0].with[0]: ") == 1
