"""`fluxres instance run`: the jobs of a workload in real time."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import Result

from fluxres import clock, limits
from tests.cli.conftest import MACHINE as SMALL
from tests.cli.conftest import Invoke, process
from tests.forks import Fork
from tests.launch.machines import eventually
from tests.service.conftest import Server, running

WAIT_S = 60
PASSING = clock.system
"""The clock of the machine, which other tests of commands replace by a fixed one."""
MACHINE = ("--machine", "node=2/core=2")


def job(name: str, command: list[str] | None = None, *, cores: int = 1, **keys: Any) -> dict[str, Any]:
    request: Any = f"slot={cores}/core"
    if command is not None:
        core = {"type": "core", "count": 1}
        slot = {"type": "slot", "count": cores, "label": "task", "with": [core]}
        task = {"command": command, "slot": "task", "count": {"per_slot": 1}}
        request = {"version": 1, "resources": [slot], "tasks": [task], "attributes": {"system": {"duration": 0}}}
    return {"id": name, "request": request, **keys}


def write(place: Path, *jobs: dict[str, Any]) -> str:
    (place / "jobs.yaml").write_text(yaml.safe_dump(list(jobs)), encoding="utf-8")
    return "jobs.yaml"


def finish(running: subprocess.Popen[str] | Fork) -> tuple[int, str, str]:
    out, err = running.communicate(timeout=WAIT_S)
    return running.wait(), out, err


def test_commands_dependencies_limits_and_refusals(place: Path) -> None:
    source = write(
        place,
        job("prepare", ["sh", "-c", "echo from $FLUXRES_JOB"], duration=30),
        job("solve", cores=2, run=0.05, dependencies=["afterok:prepare"]),
        job("slow", [sys.executable, "-c", "import time; time.sleep(600)"], duration=1),
        job("broken", ["sh", "-c", "exit 4"], duration=30),
        job("missing", ["/no/such/program"], duration=30),
        job("huge", cores=20, run=1),
        job("after", run=0.05, dependencies=["afternotok:slow"]),
        job("never", run=0.05, dependencies=["afterok:broken"]),
    )
    status, out, err = finish(process("instance", "run", source, *MACHINE, "--json"))
    assert status == 5
    told = json.loads(out)
    jobs = {one["name"]: one for one in told["jobs"]}
    assert {name: (one["result"], one["status"]) for name, one in jobs.items()} == {
        "prepare": ("completed", 0),
        "solve": ("completed", 0),
        "slow": ("timeout", 128 + signal.SIGTERM),
        "broken": ("failed", 4),
        "missing": ("failed", 127),
        "huge": ("refused", 0),
        "after": ("completed", 0),
        "never": ("failed", 0),
    }
    assert told["results"] == {"completed": 3, "failed": 3, "refused": 1, "timeout": 1}
    assert jobs["solve"]["started_s"] >= jobs["prepare"]["finished_s"]
    assert jobs["after"]["started_s"] >= jobs["slow"]["finished_s"] >= 1.0
    assert len(jobs["solve"]["pools"]) == 2
    assert jobs["never"]["started_s"] is None
    assert f"from {jobs['prepare']['id']}" in err
    assert "5 of 8 jobs did not complete" in json.loads(err.splitlines()[-1])["message"]


@pytest.mark.parametrize("inventory", ["graph", "auto"])
def test_model_workload_is_run(place: Path, inventory: str) -> None:
    words = ("instance", "run", "ensemble:jobs=40,run=0.02s", "--machine", "node=8", "--inventory", inventory)
    status, out, err = finish(process(*words))
    assert (status, err) == (0, "")
    assert sum("completed" in line for line in out.splitlines()) == 40


def test_jobs_are_submitted_when_due(place: Path) -> None:
    source = write(place, job("first", run=0.01), job("second", run=0.01, submit=0.5))
    told = json.loads(finish(process("instance", "run", source, *MACHINE, "--json"))[1])
    assert [one["name"] for one in told["jobs"]] == ["first", "second"]
    assert told["jobs"][1]["submitted_s"] >= 0.5


def test_ctrl_c_ends_running_jobs(place: Path) -> None:
    told = place / "pid"
    command = [sys.executable, "-c", f"import os, time; open({str(told)!r}, 'w').write(str(os.getpid())); time.sleep(600)"]
    running = process("instance", "run", write(place, job("long", command, duration=900)), *MACHINE)
    assert eventually(lambda: told.exists() and told.read_text() != "")
    running.send_signal(signal.SIGINT)
    status, out, err = finish(running)
    assert (status, out, err) == (130, "", "fluxres: interrupted\n")
    assert eventually(lambda: not Path("/proc", told.read_text()).exists())


POLICY = """
from fluxres import QueuePolicy

class Loops(QueuePolicy):
    name = "loops"

    def schedule(self, queue):
        {schedule}

    def finished(self, job, now_s):
        {finished}
"""
LOOP = "open('looping', 'w').close()\n        while True: pass"


@pytest.mark.parametrize(
    ("command", "number", "where"),
    [
        ("instance run", signal.SIGTERM, "schedule"),
        ("instance run", signal.SIGINT, "finished"),
        ("hierarchy", signal.SIGTERM, "finished"),
    ],
)
def test_a_signal_ends_a_run_whose_policy_loops(place: Path, command: str, number: signal.Signals, where: str) -> None:
    ends = {"schedule": "for job in queue: queue.start(job)", "finished": "pass"}
    (place / "loops.py").write_text(POLICY.format(**{**ends, where: LOOP}))
    words = (
        ["instance", "run", write(place, job("short", run=0.01))]
        if command == "instance run"
        else ["hierarchy", "--topology", "1", "--jobs", "2", "--job", "sleep:0.01"]
    )
    running = Fork(*words, *MACHINE, "-Q", "loops.py:Loops", bounds={"PASS_SECONDS_MAX": 20.0})
    assert eventually((place / "looping").exists)
    running.send_signal(number)
    status, _, err = finish(running)
    assert status != 0
    assert "Traceback" not in err
    assert err.startswith("fluxres: ")


def test_invalid_runs_are_refused(fluxres: Invoke, place: Path) -> None:
    assert "jobs.yaml" in fluxres("instance", "run", "jobs.yaml", *MACHINE, status=2).stderr
    source = write(place, job("one", run=1))
    assert "nonesuch" in fluxres("instance", "run", source, *MACHINE, "-Q", "nonesuch", status=2).stderr
    assert "--grace" in fluxres("instance", "run", source, *MACHINE, "--grace", "inf", status=2).stderr


def test_a_policy_that_starts_nothing_is_named_and_jobs_that_can_never_start_are_not_its_fault(place: Path) -> None:
    source = write(
        place, job("one", run=0.01), job("held", run=0.01, urgency=0), job("after", run=0.01, dependencies=["afterok:held"])
    )
    status, out, err = finish(process("instance", "run", source, *MACHINE, "--json"))
    assert (status, json.loads(out)["results"]) == (5, {"canceled": 1, "completed": 1, "failed": 1})
    assert "2 of 3 jobs did not complete" in json.loads(err.splitlines()[-1])["message"]
    (place / "lazy.py").write_text(
        "from fluxres import QueuePolicy\nclass Lazy(QueuePolicy):\n    def schedule(self, queue): ...\n"
    )
    for words in (("instance", "run", source, "-Q", "lazy.py:Lazy"), ("simulate", source, "-Q", "lazy.py:Lazy")):
        status, _, err = finish(process(*words, *MACHINE))
        assert status == 2
        assert (
            "queue policy Lazy: it starts no job: job one waits, there is room for it, and nothing else is to come (lazy.py)"
            in err
        )


@pytest.mark.parametrize("method", ["def priority(self, job, now_s): return 'high'", "def take_in(self, job): return None"])
def test_what_a_policy_does_wrong_with_a_new_job_ends_the_run(place: Path, method: str) -> None:
    (place / "odd.py").write_text(f"from fluxres.instance.policy import Fcfs\nclass Odd(Fcfs):\n    {method}\n")
    source = write(place, job("one", run=0.01))
    for words in (("instance", "run", source), ("simulate", source)):
        status, _, err = finish(process(*words, *MACHINE, "-Q", "odd.py:Odd"))
        assert status == 2
        assert "queue policy Odd: " in err
        assert "(odd.py)" in err


def test_stages_with_jobs_of_their_own_are_refused_before_anything_starts(fluxres: Invoke, place: Path) -> None:
    source = write(place, job("first", run=1), job("stage", jobs=[job("inner", run=1)]))
    told = fluxres("instance", "run", source, *MACHINE, status=2)
    assert told.stdout == ""
    assert "one instance: stage (" in told.stderr
    assert "`fluxres simulate`" in told.stderr


# -- instances that the store keeps ----------------------------------------------------------------------------------------


def test_the_pools_of_a_job_are_folded_and_what_it_waits_for_is_shown(tiny: Invoke) -> None:
    tiny("instance", "create", "main")
    first = tiny("instance", "submit", "slot=2/node", "--duration", "90m").stdout.strip()
    second = tiny("instance", "submit", "slot=2/node", "--dependency", f"afterany:{first}").stdout.strip()
    third = tiny("instance", "submit", "slot=7/node").stdout.strip()
    queue = tiny("instance", "queue", "-i", "main").stdout
    assert queue == tiny("instance", "queue", "main").stdout == tiny("instance", "queue").stdout
    running, depending, waiting = queue.splitlines()[1:4]
    assert running.endswith("node[0-1]")
    assert depending.endswith(f"afterany:{first}")
    assert waiting.endswith("resources")
    shown = tiny("instance", "show", first).stdout
    assert "node[0-1]=1\n" in shown
    assert "duration   1 h 30 min\n" in shown
    assert "waits for" not in shown
    assert re.search(rf"^waits for +afterany:{first}$", tiny("instance", "show", second).stdout, re.MULTILINE)
    assert re.search("^waits for +resources$", tiny("instance", "show", third).stdout, re.MULTILINE)


def test_hints_about_instances_name_commands(tiny: Invoke) -> None:
    tiny("instance", "create", "main")
    assert "`fluxres instance drop main`" in tiny("instance", "create", "main", status=2).stderr
    assert "`fluxres instance queue -a`" in tiny("instance", "show", "1234", status=2).stderr
    assert "`fluxres instance drop`" in tiny("load", str(SMALL), "--replace", status=2).stderr
    assert "`fluxres instance drop`" in tiny("undo", status=2).stderr


# -- children, and what is reserved ahead ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server on an empty store."""
    with running(f"sqlite:///{tmp_path_factory.mktemp('served')}/served.db") as found:
        yield found


@pytest.fixture(params=["store", "server"])
def keeper(request: pytest.FixtureRequest, fluxres: Invoke, monkeypatch: pytest.MonkeyPatch) -> Iterator[Invoke]:
    """Commands on the small machine with an instance, in a store or on a server, while time passes."""
    monkeypatch.setattr(clock, "system", PASSING)
    where = ("--store", request.getfixturevalue("served").url) if request.param == "server" else ()

    def invoke(*args: str, status: int = 0, stdin: str | None = None) -> Result:
        return fluxres(*where, *args, status=status, stdin=stdin)

    invoke("load", str(SMALL))
    invoke("instance", "create", "main")
    yield invoke
    if where:
        for name in [one["graph"] for one in json.loads(invoke("graphs", "--json").stdout)["graphs"]]:
            invoke("graphs", "drop", name, "--force")


def listed_instances(keeper: Invoke) -> dict[str, tuple[int, int]]:
    """Running and waiting jobs by address."""
    found = json.loads(keeper("instance", "list", "--json").stdout)["instances"]
    return {one["address"]: (one["running"], one["pending"]) for one in found}


def document(keeper: Invoke, job: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(keeper("instance", "show", job, "-i", "main", "--json").stdout)
    return found


def test_a_child_is_spawned_grows_shrinks_and_ends_with_its_job(keeper: Invoke) -> None:
    job = keeper("instance", "submit", "slot=2/node", "--duration", "2h").stdout.strip()
    child = keeper("instance", "spawn", job, "-Q", "fcfs").stdout.strip()
    assert child == f"main/{job}"
    keeper("instance", "submit", "slot=1/node", "-i", child)
    assert listed_instances(keeper) == {"main": (1, 0), child: (1, 0)}
    (added,) = keeper("instance", "grow", child, "slot=1/node").stdout.split()
    named = json.loads(keeper("instance", "grow", child, "node5", "--json").stdout)
    assert named["instance"] == child
    assert [path.rpartition("/")[2] for path in named["paths"]] == ["node5"]
    held = {pool["path"] for pool in document(keeper, job)["pools"]}
    assert {added, *named["paths"]} < held
    assert len(held) == 4
    assert document(keeper, job)["size"] == 4 * 4  # cores
    assert keeper("instance", "shrink", child, added).stdout.split() == [added]
    assert added not in {pool["path"] for pool in document(keeper, job)["pools"]}
    keeper("instance", "drop", child, "--force")
    assert listed_instances(keeper) == {"main": (0, 0)}


def test_what_a_child_cannot_do_is_explained(keeper: Invoke) -> None:
    job = keeper("instance", "submit", "slot=2/node", "--duration", "2h").stdout.strip()
    assert "such as main/JOB" in keeper("instance", "grow", "main", "slot=1/node", status=2).stderr
    waiting = keeper("instance", "submit", "slot=8/node").stdout.strip()
    assert "what a running job holds" in keeper("instance", "spawn", waiting, status=2).stderr
    keeper("instance", "cancel", waiting)
    child = keeper("instance", "spawn", job).stdout.strip()
    assert f"has a child already (it is {child})" in keeper("instance", "spawn", job, status=2).stderr
    assert "nonesuch" in keeper("instance", "spawn", job, "-Q", "nonesuch", status=2).stderr
    told = keeper("instance", "submit", "slot=3/node", "-i", child, status=3).stderr
    assert "there are only 2 (this part of the machine can never satisfy it)" in told
    keeper("instance", "submit", "slot=2/node", "-i", child)
    (path,) = [pool["path"] for pool in document(keeper, job)["pools"]][:1]
    assert "holds" in keeper("instance", "shrink", child, path, status=1).stderr
    assert keeper("instance", "grow", child, "slot=9/node", status=3).stderr.startswith("fluxres: ERROR")
    assert listed_instances(keeper) == {"main": (1, 0), child: (1, 0)}


def test_a_child_has_a_name_and_an_address(keeper: Invoke) -> None:
    job = keeper("instance", "submit", "slot=2/node", "--duration", "2h").stdout.strip()
    assert keeper("instance", "spawn", job, "--name", "kid").stdout == "main/kid\n"
    child = f"main/{job}"
    assert listed_instances(keeper) == {"main": (1, 0), child: (0, 0)}
    heads, _, row = keeper("instance", "list").stdout.splitlines()
    assert (heads.split()[1], row.split()[:2]) == ("NAME", [child, "kid"])
    inner = keeper("instance", "submit", "slot=1/node", "-i", "main/kid").stdout.strip()
    assert inner in keeper("instance", "queue", child).stdout
    told = keeper("instance", "queue", "main/kit", status=2).stderr
    assert told == f"fluxres: ERROR main: no job or instance 'kit' (choose from main/kid, {child})\n"
    told = keeper("instance", "queue", "kid", status=2).stderr
    assert "no instance 'kid' (did you mean main/kid?)" in told
    assert f"(did you mean {child}?)" in keeper("instance", "show", inner, "-i", job, status=2).stderr
    keeper("instance", "drop", child, "--force")
    told = keeper("instance", "submit", "slot=1/node", "-i", child, status=2).stderr
    assert told in {
        f"fluxres: ERROR main: job {job} has no instance (the job has ended: completed)\n",  # read from the store again
        f"fluxres: ERROR {child}: this instance is closed (its job has ended: completed)\n",
    }


@pytest.mark.parametrize("address", ["main/", "main//", "/main", "main/{job}/", ""])
def test_an_empty_part_of_an_address_is_no_instance(keeper: Invoke, address: str) -> None:
    job = keeper("instance", "submit", "slot=2/node").stdout.strip()
    child = keeper("instance", "spawn", job).stdout.strip()
    for words in (("drop",), ("queue",), ("submit", "slot=1/node", "-i"), ("grow", "slot=1/node"), ("shrink", "node0")):
        at = 1 if words[0] in {"grow", "shrink"} else len(words)
        keeper("instance", *words[:at], address.format(job=job), *words[at:], status=2)
    assert listed_instances(keeper) == {"main": (1, 0), child: (0, 0)}


def test_nothing_is_promised_after_the_end_of_a_child(keeper: Invoke) -> None:
    job = keeper("instance", "submit", "slot=2/node", "--duration", "1h").stdout.strip()
    child = keeper("instance", "spawn", job).stdout.strip()
    (end,) = (one["expires"] for one in json.loads(keeper("instance", "list", "--json").stdout)["instances"] if one["expires"])
    long = json.loads(keeper("instance", "submit", "slot=2/node", "-i", child, "--duration", "2h", "--json").stdout)
    assert (long["ends"], long["duration"]) == (end, 7200)
    waiting = json.loads(keeper("instance", "submit", "slot=1/node", "-i", child, "--duration", "1m", "--json").stdout)
    assert (waiting["state"], waiting["reserved"]) == ("SCHED", None)
    told = keeper("instance", "reserve", "slot=1/node", "-i", child, "--start", "+30m", "--duration", "1h", status=1).stderr
    assert re.fullmatch(
        rf"fluxres: ERROR {child}: this instance ends at \d{{4}}-\S+ \(end before, or extend job {job} of main first\)\n", told
    )


def test_a_begin_time_is_a_time(keeper: Invoke) -> None:
    job = keeper("instance", "submit", "slot=1/node", "--dependency", "begin-time:+1h").stdout.strip()
    row = next(line for line in keeper("instance", "queue").stdout.splitlines() if job in line)
    assert re.search(r" DEPEND .* begin-time:\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d$", row)
    keeper("instance", "submit", "slot=1/node", "--dependency", "begin-time:tomorrow 08:00", "--dependency", f"after:{job}")
    assert "'soon'" in keeper("instance", "submit", "slot=1/node", "--dependency", "begin-time:soon", status=2).stderr


def test_pools_that_a_child_lacks_are_not_unknown(keeper: Invoke) -> None:
    job = keeper("instance", "submit", "slot=2/node").stdout.strip()
    child = keeper("instance", "spawn", job).stdout.strip()
    inner = keeper("instance", "submit", "slot=1/node", "-i", child).stdout.strip()
    below = keeper("instance", "spawn", inner, "-i", child).stdout.strip()
    told = keeper("instance", "shrink", child, "node5", status=2).stderr
    assert re.fullmatch(rf"fluxres: ERROR {child} /\S+/node5: the instance does not hold it \(name pools that it holds\)\n", told)
    told = keeper("instance", "grow", below, "node5", status=2).stderr
    assert re.fullmatch(rf"fluxres: ERROR {child} /\S+/node5: the instance does not hold it \(grow {child} first\)\n", told)
    assert "no pool has this name" in keeper("instance", "shrink", child, "node77", status=2).stderr


def test_a_reservation_ahead_that_finds_no_room_names_the_jobs(keeper: Invoke) -> None:
    job = keeper("instance", "submit", "slot=8/node", "--duration", "1h").stdout.strip()
    for words in (("slot=1/node",), ("node0",)):
        told = keeper("instance", "reserve", *words, "--start", "+10m", "--duration", "1h", status=1).stderr
        assert job in told
        assert not re.search(r"\d{10}", told)


def test_two_names_of_an_instance_are_refused(keeper: Invoke) -> None:
    assert "main and other" in keeper("instance", "queue", "main", "-i", "other", status=2).stderr
    assert keeper("instance", "queue", "main", "-i", "main").stdout == ""


def test_an_advance_reservation_starts_at_its_time(keeper: Invoke) -> None:
    job = keeper("instance", "reserve", "slot=8/node", "--start", "+2s", "--duration", "1h").stdout.strip()
    assert document(keeper, job)["state"] == "DEPEND"
    long = keeper("instance", "submit", "slot=1/node", "--duration", "1d").stdout.strip()
    assert document(keeper, long)["state"] == "SCHED"
    assert eventually(lambda: document(keeper, job)["state"] == "RUN")
    maintenance = keeper("instance", "reserve", "node5", "--start", "+3h", "--duration", "1h", "--name", "service").stdout.strip()
    row = next(line for line in keeper("instance", "queue").stdout.splitlines() if maintenance in line)
    moment = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d"
    assert re.search(rf" service +DEPEND +{moment} +{moment} +4 cores +/[\w/]+/node5$", row)
    assert re.search(rf"^dependencies +begin-time:{moment}$", keeper("instance", "show", maintenance).stdout, re.MULTILINE)
    assert "waits for  its start time" in keeper("jobs", maintenance).stdout
    keeper("instance", "cancel", maintenance)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--start", "+1h", "--duration", "10m"), "neither pools nor a request"),
        (("node0=1", "--start", "+1h", "--duration", "10m"), "leave out the amount"),
        (("slot=1/node", "--start", "+1h"), "missing option: --duration"),
        (("slot=1/node", "--start", "10", "--duration", "1h"), "expected a start after now, got 10 s (now is 1000 s)"),
    ],
)
def test_wrong_advance_reservations_are_refused(tiny: Invoke, words: tuple[str, ...], text: str) -> None:
    tiny("instance", "create", "main")
    assert text in tiny("instance", "reserve", *words, status=2).stderr


@pytest.mark.parametrize("name", ["a/b", "a b", "", "kid", "x" * 65])
def test_a_child_has_a_name_of_its_own_that_is_an_address(keeper: Invoke, name: str) -> None:
    first, second = (keeper("instance", "submit", "slot=1/node").stdout.strip() for _ in range(2))
    keeper("instance", "spawn", first, "--name", "kid")
    told = keeper("instance", "spawn", second, "--name", name, status=2).stderr
    assert "name" in told
    assert listed_instances(keeper) == {"main": (2, 0), f"main/{first}": (0, 0)}
    keeper("instance", "spawn", second, "--name", "other")


def test_a_graph_with_an_instance_is_dropped_by_force_only(keeper: Invoke) -> None:
    refused = keeper("graphs", "drop", "tiny", status=1).stderr
    assert "graph 'tiny': it has an instance (main) (`fluxres graphs drop tiny --force` drops it with all of that" in refused
    runs = keeper("instance", "submit", "slot=1/node").stdout.strip()
    keeper("instance", "spawn", runs)
    for instance in ("main", f"main/{runs}"):
        keeper("instance", "submit", "-i", instance, "slot=1/core", "--urgency", "0")
    refused = keeper("graphs", "drop", "tiny", status=1).stderr
    assert f"it has 1 job that holds some of it ({runs}) and 2 jobs that wait and an instance (main) (" in refused
    assert json.loads(keeper("graphs", "drop", "tiny", "--json", status=1).stderr)["jobs"] == [runs]
    gone = keeper("graphs", "drop", "tiny", "--force").stdout.splitlines()
    assert gone == [
        "graph 'tiny' removed",
        f"  with 1 job that holds some of it ({runs})",
        "  with 2 jobs that wait",
        "  with an instance (main)",
    ]
    assert json.loads(keeper("graphs", "--json").stdout)["graphs"] == []


def test_an_instance_with_jobs_is_dropped_only_by_force(keeper: Invoke) -> None:
    runs, waits = (keeper("instance", "submit", "slot=8/node", "--duration", "1h").stdout.strip() for _ in range(2))
    refused = keeper("instance", "drop", "main", status=1).stderr
    said = f"main: it has 1 job that runs ({runs}) and 1 job that waits ({waits})"
    assert refused == f"fluxres: ERROR {said} (`fluxres instance drop main --force` ends them with it)\n"
    assert json.loads(keeper("instance", "drop", "main", "--json", status=1).stderr)["jobs"] == [runs, waits]
    assert listed_instances(keeper) == {"main": (1, 1)}
    assert keeper("instance", "drop", "main", "--force").stdout == "main has ended\n"
    assert listed_instances(keeper) == {}


def test_an_instance_with_jobs_below_it_is_dropped_only_by_force(keeper: Invoke) -> None:
    job = keeper("instance", "submit", "slot=2/node").stdout.strip()
    keeper("instance", "spawn", job, "--name", "kid")
    inner = keeper("instance", "submit", "slot=1/node", "-i", "main/kid").stdout.strip()
    assert f"main: it has 2 jobs that run ({job}, {inner}) (" in keeper("instance", "drop", "main", status=1).stderr
    assert f"main/{job}: it has 1 job that runs ({inner}) (" in keeper("instance", "drop", "main/kid", status=1).stderr
    keeper("instance", "finish", inner, "-i", "main/kid")
    keeper("instance", "drop", "main/kid")
    keeper("instance", "drop", "main")
    assert listed_instances(keeper) == {}


def test_a_graph_without_jobs_is_dropped(keeper: Invoke) -> None:
    keeper("instance", "drop", "main")
    keeper("allocate", "node0", "--job", "mine", "--duration", "1ms")
    clock.sleep(0.1)
    keeper("graphs", "drop", "tiny")


def test_what_is_no_wait_status_is_refused(keeper: Invoke) -> None:
    job = keeper("instance", "submit", "slot=1/node").stdout.strip()
    for status in ("-4", str(limits.WAIT_STATUS_MAX + 1)):
        said = f"--status: expected a whole number from 0 to {limits.WAIT_STATUS_MAX}, got {status}"
        assert said in keeper("instance", "finish", job, "--status", status, status=2).stderr
    assert document(keeper, job)["state"] == "RUN"
    assert keeper("instance", "finish", job, "--status", str(limits.WAIT_STATUS_MAX)).stdout == f"{job}: failed\n"


# -- changes of jobs -------------------------------------------------------------------------------------------------------


def test_a_job_with_another_limit_ends_then(keeper: Invoke) -> None:
    job = keeper("instance", "submit", "slot=2/node", "--duration", "1500ms").stdout.strip()
    said = keeper("instance", "update", job, "--duration", "+1h").stdout
    assert re.fullmatch(rf"{job}: RUN, limit 1 h, ends \d{{4}}-\S+\n", said)
    short = keeper("instance", "submit", "slot=1/node", "--duration", "1h").stdout.strip()
    keeper("instance", "update", short, "--duration", "-3598s")
    assert eventually(lambda: document(keeper, short)["result"] == "timeout")
    assert document(keeper, job)["state"] == "RUN"
    assert json.loads(keeper("jobs", job, "--json").stdout)["end"] == document(keeper, job)["ends"]
    keeper("instance", "update", job, "--duration", "inf")
    assert (document(keeper, job)["duration"], document(keeper, job)["ends"]) == (None, None)
    assert "has none" in keeper("instance", "update", job, "--duration", "+1h", status=2).stderr


@pytest.mark.parametrize("words", [("+1h",), ("--duration", "3602s")])
def test_extend_tells_the_instance(keeper: Invoke, words: tuple[str, ...]) -> None:
    job = keeper("instance", "submit", "slot=2/node", "--duration", "2s").stdout.strip()
    child = keeper("instance", "spawn", job).stdout.strip()
    inner = keeper("instance", "submit", "slot=1/node", "-i", child).stdout.strip()
    assert job in keeper("extend", job, *words).stdout
    found = document(keeper, job)
    assert found["ends"] == pytest.approx(found["started"] + 3602, abs=1)
    (below,) = (one for one in json.loads(keeper("instance", "list", "--json").stdout)["instances"] if one["address"] == child)
    assert below["expires"] == found["ends"]
    clock.sleep(2.5)
    assert document(keeper, job)["state"] == "RUN"
    assert json.loads(keeper("instance", "show", inner, "-i", child, "--json").stdout)["state"] == "RUN"
    keeper("extend", job, "max")
    assert document(keeper, job)["ends"] is None


@pytest.mark.parametrize("words", [("-3h",), ("--", "-3h"), ("--duration", "-3h")])
def test_a_change_that_leaves_a_job_no_time_says_what_it_has(keeper: Invoke, words: tuple[str, ...]) -> None:
    runs, waits = (keeper("instance", "submit", "slot=2/node", "--duration", "30m").stdout.strip() for _ in range(2))
    keeper("allocate", "node0", "--job", "later", "--start", "+10h", "--duration", "1h")
    left = r"(29 min \d+ s|30 min)"
    has = rf"'{{}}' has ({left} left of )?30 min, and -3h leaves nothing of it \(take less than {left}, or end the job: `{{}}`\)"
    refused = keeper("extend", runs, *words, status=2).stderr
    assert re.search(has.format(runs, f"fluxres instance cancel {runs}"), refused), refused
    assert "job 'later' has 1 h, and -3h leaves nothing of it" in keeper("extend", "later", *words, status=2).stderr
    refused = keeper("instance", "update", runs, "--duration", "-3h", status=2).stderr
    assert re.search(has.format(runs, f"fluxres instance cancel -i main {runs}"), refused), refused
    refused = keeper("instance", "update", waits, "--duration", "-30m", status=2).stderr
    assert f"job '{waits}' has 30 min, and -30m leaves nothing of it (take less than 30 min," in refused
    keeper("instance", "cancel", runs)
    assert "has ended: canceled" in keeper("instance", "update", runs, "--duration", "-3h", status=2).stderr
    assert "it was a job of main, and has ended: canceled" in keeper("extend", runs, *words, status=2).stderr


@pytest.mark.parametrize("words", [("+1h",), ("--end", "+1h")])
def test_extend_names_the_instance_of_a_job_that_holds_nothing_of_the_graph(keeper: Invoke, words: tuple[str, ...]) -> None:
    job = keeper("instance", "submit", "slot=2/node", "--duration", "30m").stdout.strip()
    child = keeper("instance", "spawn", job).stdout.strip()
    jobs = [keeper("instance", "submit", "slot=1/core", "-i", child).stdout.strip() for _ in range(2)]
    inner = next(one for one in jobs if one != job)  # ids are unique within an instance
    held = keeper("instance", "submit", "slot=1/node", "--urgency", "0").stdout.strip()
    for name, address, state in ((inner, child, "RUN"), (held, "main", "SCHED")):
        hint = f"(`fluxres instance update -i {address} {name} --duration D` changes its limit; it is {state} there)"
        assert f"no job '{name}' holds anything {hint}" in keeper("extend", name, *words, status=2).stderr


def test_the_end_that_a_graph_copied_for_a_job_moves_is_its_limit(keeper: Invoke) -> None:
    job = keeper("instance", "submit", "slot=2/node", "--duration", "1h").stdout.strip()
    keeper("copy", "--job", job, "--as", "part")
    keeper("child", "extend", "part", "+1h")
    assert document(keeper, job)["duration"] == 7200
    assert keeper("instance", "update", job, "--duration", "3h").stdout.startswith(f"{job}: RUN, limit 3 h, ends ")


def test_a_limit_that_others_are_in_the_way_of_is_refused(keeper: Invoke) -> None:
    job = keeper("instance", "submit", "slot=2/node", "--duration", "1h").stdout.strip()
    waits = keeper("instance", "submit", "slot=8/node", "--duration", "1h").stdout.strip()
    before = document(keeper, job)
    assert document(keeper, waits)["reserved"] == pytest.approx(before["ends"], abs=1)
    keeper("instance", "update", job, "--duration", "2h")  # what only waits is planned anew
    assert document(keeper, waits)["reserved"] == pytest.approx(before["started"] + 7200, abs=1)
    keeper("allocate", "node0", "--job", "mine", "--start", "+5h", "--duration", "1h")
    for words in (("instance", "update", job, "--duration", "7h"), ("extend", job, "+5h")):
        told = keeper(*words, status=1).stderr
        assert "held by mine" in told
    assert document(keeper, job)["duration"] == 7200
    ahead = keeper("instance", "reserve", "slot=1/node", "--start", "+8h", "--duration", "1h").stdout.strip()
    assert "reserved ahead" in keeper("instance", "update", ahead, "--duration", "2h", status=2).stderr


def test_an_account_and_a_qos_without_accounting_are_noted(keeper: Invoke) -> None:
    made = keeper("instance", "submit", "slot=1/core", "--qos", "x")
    job = made.stdout.strip()
    how = "(`fluxres instance create --accounting FILE` creates an instance with accounting)"
    assert made.stderr == f"fluxres: main has no accounting: --qos of {job} is only recorded {how}\n"
    keeper("instance", "spawn", job, "--name", "kid")
    made = keeper("instance", "submit", "-i", "main/kid", "slot=1/core", "--account", "a", "--qos", "x")
    job = made.stdout.strip()
    assert made.stderr == f"fluxres: main/kid has no accounting: --account and --qos of {job} are only recorded {how}\n"
    assert keeper("instance", "submit", "slot=1/core").stderr == ""


def test_a_limit_beyond_that_of_the_accounting_is_refused(keeper: Invoke, place: Path) -> None:
    (place / "site.yaml").write_text("qos: {normal: {max_wall: 2h}}\n", encoding="utf-8")
    keeper("instance", "drop", "main")
    keeper("instance", "create", "main", "--accounting", "site.yaml")
    runs, waits = (keeper("instance", "submit", "slot=8/node", "--duration", "1h").stdout.strip() for _ in range(2))
    for words in (
        ("instance", "update", runs, "--duration", "+90m"),
        ("instance", "update", waits, "--duration", "inf"),
        ("extend", runs, "+90m"),
    ):
        assert "qos normal: a longer time than max_wall allows: 2 h" in keeper(*words, status=3).stderr
    assert {document(keeper, job)["duration"] for job in (runs, waits)} == {3600}
    keeper("instance", "update", runs, "--duration", "2h")
    keeper("instance", "update", waits, "--duration", "+30m", "--urgency", "3")
    found = document(keeper, waits)
    assert (found["duration"], found["urgency"]) == (5400, 3)


def test_a_shorter_limit_with_which_a_job_starts_and_its_urgency_are_one_change(keeper: Invoke) -> None:
    keeper("instance", "submit", "slot=7/node", "--duration", "1h")
    keeper("instance", "submit", "slot=8/node", "--duration", "1h")
    long = keeper("instance", "submit", "slot=1/node", "--duration", "5h").stdout.strip()
    assert document(keeper, long)["state"] == "SCHED"  # it would delay the second job
    keeper("instance", "update", long, "--duration", "30m", "--urgency", "20")
    found = document(keeper, long)
    assert (found["state"], found["duration"], found["urgency"]) == ("RUN", 1800, 20)


def test_a_held_job_is_shown_and_released(keeper: Invoke) -> None:
    job = keeper("instance", "submit", "slot=1/node", "--urgency", "0").stdout.strip()
    queue = keeper("instance", "queue")
    assert queue.stdout.splitlines()[1].endswith("held (urgency 0)")
    assert queue.stderr == f"fluxres: to release a held job: fluxres instance update {job} --urgency 16\n"
    assert f"`fluxres instance update {job} --urgency 16`" in keeper("instance", "show", job).stdout
    assert keeper("instance", "queue", "--json").stderr == ""
    assert keeper("instance", "update", job, "--urgency", "16").stdout == f"{job}: RUN, no limit\n"
    refused = keeper("instance", "update", job, "--urgency", "3", status=2).stderr
    assert "not pending, it is RUN (this can be changed only while it waits; the limit can be, and `cancel`" in refused
    both = keeper("instance", "update", job, "--urgency", "3", "--duration", "1h", status=2).stderr
    assert "leave out --urgency" in both
    assert document(keeper, job)["duration"] is None
    assert "--duration or --urgency" in keeper("instance", "update", job, status=2).stderr


def test_the_size_of_a_job_is_that_of_what_it_holds(keeper: Invoke) -> None:
    job = keeper("instance", "submit", "slot=2/node").stdout.strip()
    assert document(keeper, job)["size"] == 8
    keeper("shrink", job, "node0")
    assert document(keeper, job)["size"] == 4
    assert re.search(r" RUN .* 4 cores  /\S+/node1$", keeper("instance", "queue").stdout.splitlines()[1])


def test_pools_are_no_request_of_an_instance(tiny: Invoke) -> None:
    tiny("instance", "create", "main")
    assert "node3 is a pool" in (told := tiny("instance", "submit", "node3", status=2).stderr)
    assert "`-w node3`" in told
    job = tiny("instance", "submit", "-w", "node3").stdout.strip()
    assert tiny("instance", "queue").stdout.splitlines()[1].split()[0] == job
    assert "`-w node[1-2],node3`" in tiny("instance", "submit", "/tiny/rack0/node[1-2]", "node3", status=2).stderr
    assert "`-w node1,node2`" in tiny("instance", "submit", "node1", "node2", status=2).stderr
    assert "such as slot=4/node" in tiny("instance", "submit", status=2).stderr


@pytest.mark.parametrize("words", [("submit", "node=2"), ("reserve", "node=2", "--start", "+1h", "--duration", "1h")])
def test_a_request_for_shared_pools_alone_is_refused(keeper: Invoke, words: tuple[str, ...]) -> None:
    assert "only asks for shared pools" in keeper("instance", *words, status=2).stderr
    assert json.loads(keeper("instance", "queue", "--json").stdout) == {"jobs": []}


def test_questions_change_nothing_and_undo_reaches_the_last_change_of_a_person(keeper: Invoke) -> None:
    keeper("instance", "drop", "main")
    keeper("instance", "create", "main", "-Q", "easy")
    for number in (6, 2):
        keeper("instance", "submit", f"slot={number}/node", "--duration", "1h")
    assert "one of an instance" in keeper("undo", status=2).stderr
    keeper("state", "node5", "drain", "--reason", "fan")
    before = keeper("log", "--json").stdout
    for words in (("queue",), ("list",), ("queue", "-a", "--json")):
        keeper("instance", *words)
    assert keeper("log", "--json").stdout == before
    assert "state" in keeper("undo").stdout
    assert "fan" not in keeper("find", "type=node").stdout


def test_cancel_of_run_names_the_command_for_jobs_of_instances(keeper: Invoke) -> None:
    runs, waits = (keeper("instance", "submit", "slot=8/node").stdout.strip() for _ in range(2))
    for job in (runs, waits):
        told = keeper("cancel", job, status=2).stderr
        assert f"job '{job}': is not a job of run or shell (`fluxres instance cancel {job}` ends a job of an instance)" in told


def test_cancel_ends_all_jobs_or_none(keeper: Invoke) -> None:
    first, second = (keeper("instance", "submit", "slot=1/node").stdout.strip() for _ in range(2))
    assert "no job ƒnone" in keeper("instance", "cancel", first, "ƒnone", status=2).stderr
    assert document(keeper, first)["state"] == "RUN"
    assert keeper("instance", "cancel", first, second, first).stdout == f"{first}: canceled\n{second}: canceled\n"
    assert "has ended: canceled" in keeper("instance", "cancel", first, status=2).stderr


@pytest.mark.parametrize("moment", ["-", "inf", "zz"])
def test_a_begin_time_that_never_comes_is_refused(tiny: Invoke, moment: str) -> None:
    tiny("instance", "create", "main")
    found = tiny("instance", "submit", "-N1", "--dependency", f"begin-time:{moment}", status=2)
    assert "--dependency: expected a time" in found.stderr


def test_a_begin_time_in_the_past_is_noted(keeper: Invoke) -> None:
    assert "is in the past" in keeper("instance", "submit", "-N1", "--dependency", "begin-time:2000-01-01").stderr
    wrong = keeper("instance", "submit", "-N1", "--duration", "0", status=2)
    assert "--duration: expected a positive duration, got 0" in wrong.stderr


def test_a_job_is_named_by_its_id_or_by_its_name_while_it_is_active(keeper: Invoke) -> None:
    first = keeper("instance", "submit", "slot=1/node", "--name", "first", "--duration", "1h").stdout.strip()  # also an id: F58
    then = keeper("instance", "submit", "slot=1/node", "--dependency", "afterok:first", "--name", "b").stdout.strip()
    assert json.loads(keeper("instance", "show", "b", "--json").stdout)["dependencies"] == [f"afterok:{first}"]
    assert keeper("instance", "show", "f" + first[1:]).stdout == keeper("instance", "show", "first").stdout
    assert keeper("instance", "update", "b", "--duration", "2h").stdout.startswith(f"{then}: ")
    child = keeper("instance", "spawn", "first").stdout.strip()
    assert child == f"main/{first}"
    assert keeper("instance", "finish", "first").stdout == f"{first}: completed\n"
    assert "no job first" in keeper("instance", "finish", "first", status=2).stderr
    assert keeper("instance", "cancel", "b").stdout == f"{then}: canceled\n"
    assert keeper("instance", "wait", then, status=5).stdout == f"{then}: canceled\n"


def test_the_instance_on_a_job_is_not_named_as_another_job(keeper: Invoke) -> None:
    first, then = (keeper("instance", "submit", "slot=1/node", "--name", name).stdout.strip() for name in ("one", "two"))
    told = keeper("instance", "spawn", "one", "--name", "two", status=2).stderr
    assert f"'two' names a job, {then} (choose another name, or give none: then the id of its job is the name)" in told
    assert keeper("instance", "spawn", first, "--name", "one").stdout == "main/one\n"


def test_a_name_of_several_jobs_is_ambiguous(keeper: Invoke) -> None:
    ids = [keeper("instance", "submit", "slot=1/node", "--name", "a").stdout.strip() for _ in range(2)]
    for words in (("cancel", "a"), ("submit", "slot=1/node", "--dependency", "afterok:a")):
        told = keeper("instance", *words, status=2).stderr
        assert f"main: 2 jobs are named 'a': {', '.join(ids)} (name one by its id)" in told


def test_words_that_are_no_job_or_pool_say_what_is_meant(keeper: Invoke) -> None:
    job = keeper("instance", "submit", "slot=1/core", "--name", "solve").stdout.strip()
    for words in (("show", "solv"), ("cancel", "solv"), ("submit", "slot=1/core", "--dependency", "afterok:solv")):
        told = keeper("instance", *words, status=2).stderr
        assert "main: no job named 'solv' runs or waits (did you mean 'solve'?)" in told
    told = keeper("instance", "finish", "x-1", status=2).stderr
    assert "lists the ids of jobs, in which f may stand for ƒ, also of those that have ended)" in told
    told = keeper("show", job, status=2).stderr
    assert f"{job}: no pool has this name (`fluxres jobs {job}` or `fluxres instance show {job}` shows a job)" in told
    keeper("allocate", "--job", "j1", "slot=1/core")
    keeper("allocate", "--job", "j2", "slot=1/core")
    assert "j1: no pool has this name (`fluxres jobs j1` shows a job)" in keeper("show", "j1", status=2).stderr
    assert "'j2' is a job, not a pool (free one job after the other)" in keeper("free", "j1", "j2", status=2).stderr
    told = keeper("free", "j1", "gone", status=2).stderr
    assert "gone: no pool has this name (after job 'j1' come pools of it; each call frees one job)" in told


def test_changes_of_a_limit_that_are_none_are_refused(keeper: Invoke) -> None:
    job = keeper("instance", "submit", "slot=1/core", "--duration", "1h").stdout.strip()
    for wrong in ("++1h", "- 5m", "+", "+0", "-0s", "+-1h"):
        told = keeper("instance", "update", job, f"--duration={wrong}", status=2).stderr
        assert f"--duration: expected a change such as +1h or -30m, got '{wrong}' (+D is later" in told
    assert document(keeper, job)["duration"] == 3600
    endless = keeper("instance", "submit", "slot=1/core").stdout.strip()
    keeper("instance", "cancel", endless)
    assert "has ended: canceled" in keeper("instance", "update", endless, "--duration", "+5m", status=2).stderr


@pytest.mark.parametrize("given", ["afterok", "afterok:", "after:ƒ1+5"])
def test_a_dependency_without_a_job_says_how_one_is_written(keeper: Invoke, given: str) -> None:
    told = keeper("instance", "submit", "slot=1/core", "--dependency", given, status=2).stderr
    assert f"dependency: expected {given.partition(':')[0]}:JOB, got '{given.removesuffix(':')}' (" in told


def test_the_name_of_an_instance_is_no_part_of_a_request(tiny: Invoke) -> None:
    tiny("instance", "create", "main")
    for words in (("-N2", "-x"), ("slot=1/core",)):
        said = tiny("instance", "submit", "main", *words, status=2).stderr
        assert "main is an instance, and no part of a request (name it with -i main)" in said
    assert "more than one request" in tiny("instance", "submit", "slot=1/core", "slot=2/core", status=2).stderr
