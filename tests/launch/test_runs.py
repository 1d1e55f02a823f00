"""Programs inside allocations: what they see, what is left of them, and who gets what is free."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

import fluxres
from fluxres import limits
from fluxres.clock import FOREVER
from fluxres.store import open_store
from tests.launch import runs
from tests.launch.runs import Workstation, is_running, wait_until

BACKGROUND = "sleep 1000 & echo $! > {0}/a; setsid sleep 1000 & echo $! > {0}/b; nohup sleep 1000 & echo $! > {0}/c; wait"
"""A script with children in its group, in a session of their own, and without a terminal."""


def descendants(folder: Path) -> list[int]:
    files = [folder / name for name in "abc"]
    wait_until(lambda: all(file.exists() and file.read_text().strip() for file in files))
    return [int(file.read_text()) for file in files]


def test_a_program_runs_in_its_allocation_and_gives_it_back(workstation: Workstation) -> None:
    out = workstation.command(
        "run", "-g1", "--no-bind", "--", "sh", "-c", "echo $FLUXRES_JOB $CUDA_VISIBLE_DEVICES; exit 7", status=7
    )
    assert out == "r1 0\n"
    assert workstation.graph().jobs() == []
    events = [line.split()[3] for line in workstation.command("log", "--no-header").splitlines()]
    assert events == ["load", "allocate", "free"]


def test_an_allocation_of_a_program_is_like_any_other(workstation: Workstation) -> None:
    workstation.program("-g1", "--name", "training", "--duration", "1h")
    shown = json.loads(workstation.command("jobs", "r1", "--json"))
    assert (shown["name"], shown["state"], shown["holds"]) == ("training", "running", {"core": 1, "gpu": 1})
    assert "held by r1" in workstation.command("why", "-g2", status=1)
    assert "/ws/ws/gpu0" in workstation.command("find", "job=r1", "-o", "paths")
    workstation.command("check")


def test_its_processes_are_in_the_record(workstation: Workstation) -> None:
    process, program = workstation.program("-g1")
    launcher, _, recorded = workstation.processes("r1")
    assert (launcher, recorded) == (process.pid, program)
    launch = workstation.graph().facts("r1").launch
    assert launch is not None
    assert launch.command[:2] == ("sh", "-c")


def test_without_a_graph_a_run_loads_this_machine(tmp_path: Path) -> None:
    place = Workstation(tmp_path, tmp_path / "new.db")
    assert "loaded this machine" in place.command("run", "--", "true")
    assert place.graph().aggregate()["core"] == len(os.sched_getaffinity(0))


def test_what_was_left_out_of_this_machine_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    from fluxres.cli.program import run
    from fluxres.formats import machine

    seen = machine.this_machine()
    monkeypatch.setattr("fluxres.formats.machine.detect.this_machine", lambda: seen._replace(notes=["left out: a card"]))
    assert run(["run", "--store", str(tmp_path / "new.db"), "--dry-run"]) == 0
    assert "fluxres: left out: a card\n" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("argv", "status", "said"),
    [
        (["no-such-program"], 127, "No such file"),
        (["/etc/passwd"], 126, "Permission denied"),
        (["/"], 126, "Permission denied"),
        ([""], 127, "'': No such file"),
        (["sh", "-c", "kill -KILL $$"], 137, ""),
        (["sh", "-c", "kill -TERM $$"], 143, ""),
    ],
)
def test_the_exit_status_is_that_of_a_shell(workstation: Workstation, argv: list[str], status: int, said: str) -> None:
    assert said in workstation.command("run", "--no-bind", "--", *argv, status=status)
    assert workstation.graph().jobs() == []


def test_words_and_variables_need_not_be_text(workstation: Workstation) -> None:
    script = "from os import environb as e; from sys import argv; print(ascii(argv[1]), e[b'STRANGE\\xff'], b'' in e)"
    variables = {b"STRANGE\xff": b"\xfe", **{key.encode(): value.encode() for key, value in workstation.environment.items()}}
    words = [b"run", b"--no-bind", b"--", sys.executable, b"-c", script, b"a\xff"]
    ran = subprocess.run(["env", "=nameless", *runs.FLUXRES, *words], env=variables, capture_output=True, check=False)
    assert (ran.stderr, ran.stdout) == (b"", b"'a\\udcff' b'\\xfe' False\n")


@pytest.mark.parametrize("given", [None, "7"])
def test_the_program_does_not_get_the_threads_of_the_launcher(
    workstation: Workstation, given: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The launcher keeps NumPy to one thread; a program has its own idea of it."""
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    if given is not None:
        monkeypatch.setenv("OPENBLAS_NUM_THREADS", given)
    script = "import os; print(os.environ.get('OPENBLAS_NUM_THREADS'))"
    assert workstation.command("run", "--no-bind", "--", sys.executable, "-c", script) == f"{given}\n"


@pytest.mark.parametrize("words", [["--job", "\udcff"], ["--name", "\udcff"], ["--queue", "\udcff"], ["\udcff"]])
def test_what_is_stored_is_text(workstation: Workstation, words: list[str]) -> None:
    assert r"'\udcff': is not in UTF-8" in workstation.command("run", *words, "--", "true", status=2)
    assert workstation.graph().jobs() == []


@pytest.mark.parametrize("wait", [[], ["--wait"]])
@pytest.mark.parametrize("pools", [["core0", "core0"], ["core0=2"]])
def test_more_units_than_a_pool_has_are_refused(workstation: Workstation, wait: list[str], pools: list[str]) -> None:
    assert "requested 2 units of a pool of 1" in workstation.command("run", *wait, *pools, "--", "true", status=3)


def test_a_priority_has_bounds(workstation: Workstation) -> None:
    found = workstation.command("run", "--priority", str(2**64), "--", "true", status=2)
    assert "--priority: expected a whole number from -2147483647 to 2147483647" in found


def test_an_option_may_follow_wait(workstation: Workstation) -> None:
    workstation.command("run", "--wait", "--wait", "5", "--no-bind", "--", "true")


def test_a_run_without_a_program_is_refused(workstation: Workstation) -> None:
    assert "no program was given" in workstation.command("run", "-n1", status=2)


def test_what_does_not_fit_now_is_refused_with_the_earliest_time(workstation: Workstation) -> None:
    workstation.program("-g2", "--duration", "1h")
    said = json.loads(workstation.command("run", "-g1", "--json", "--", "true", status=1))
    assert (said["error"], said["status"]) == ("insufficient", 1)
    assert said["earliest"] > time.time() + 3000


@pytest.mark.parametrize("priority", [limits.PRIORITY_MAX + 1, -limits.PRIORITY_MAX - 1])
def test_a_priority_has_32_bits(workstation: Workstation, priority: int) -> None:
    workstation.command("run", "-g1", f"--priority={priority}", "--", "true", status=2)
    workstation.command("run", "-g1", f"--priority={limits.PRIORITY_MAX}", "--", "true")


def test_what_never_fits_is_refused_even_by_one_who_would_wait(workstation: Workstation) -> None:
    assert "never" in workstation.command("run", "-g3", "--wait", "--", "true", status=3)


def test_words_of_hyperqueue_need_no_request_format(workstation: Workstation) -> None:
    words = ["run", "--resources", "gpus=1", "--dry-run", "--no-bind"]
    assert workstation.command(*words, "--request-format", "hyperqueue") == workstation.command(*words)
    said = workstation.command(*words, "--request-format", "canary", status=2)
    assert "--resources is in the words of HyperQueue, and --request-format says canary" in said


def test_a_dry_run_records_nothing(workstation: Workstation) -> None:
    shown = json.loads(workstation.command("run", "--resources", "gpus=1 cpus=2", "--dry-run", "--json"))
    *cores, gpu = (pool["path"] for pool in shown["pools"])
    assert ([path[:-1] for path in cores], gpu[:-1]) == (["/ws/ws/core"] * 2, "/ws/ws/gpu")
    assert shown["environment"]["CUDA_VISIBLE_DEVICES"] == gpu[-1]
    assert len(workstation.command("log", "--no-header").splitlines()) == 1


# -- whoever dies ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("killed", [["launcher"], ["guardian"], ["launcher", "guardian"], ["program"], ["guardian", "program"]])
def test_rule_h1_what_a_dead_process_held_is_free(workstation: Workstation, killed: list[str]) -> None:
    process, program = workstation.program("-g1", script=BACKGROUND.format(workstation.folder))
    left = [program, *descendants(workstation.folder)]
    ids = dict(zip(("launcher", "guardian", "program"), workstation.processes("r1"), strict=True))
    for name in killed:
        with suppress(ProcessLookupError):  # it may end as soon as the one before is killed
            os.kill(ids[name], signal.SIGKILL)
    process.wait()
    wait_until(lambda: not is_running(ids["guardian"]))
    assert workstation.command("jobs", "--no-header") == "fluxres: no jobs\n"
    assert [pid for pid in left if is_running(pid)] == []
    assert [line.split()[3] for line in workstation.command("log", "--no-header").splitlines()] == ["load", "allocate", "free"]


def test_rule_h1_a_reboot_frees_everything_of_a_host(workstation: Workstation) -> None:
    from msgspec.structs import replace

    from fluxres.allocation.facts import JobFacts
    from fluxres.launch import identity, orphans

    graph = workstation.graph()
    workstation.program("-g1")
    launch = workstation.graph().facts("r1").launch
    assert launch is not None
    others = {
        "same": launch,
        "rebooted": replace(launch, boot="another/1"),
        "elsewhere": replace(launch, host="another"),
        "expired": replace(launch, host="another", lease=graph.now() - 1),
        "leased": replace(launch, host="another", lease=graph.now() + 10**9),
        "container": replace(launch, boot=identity.boot().partition("/")[0] + "/1"),
    }
    for job, one in others.items():
        graph.allocate("slot/core", job=job, user="ada", launch=one)
    orphans.reap(graph)
    assert graph.jobs() == ["same", "elsewhere", "leased", "container"]
    assert graph.facts("same") == JobFacts("ada", None, graph.facts("same").submitted, launch)


def test_the_log_says_why_a_job_was_freed(workstation: Workstation) -> None:
    process, _ = workstation.program("-g1")
    launcher, guardian, _ = workstation.processes("r1")
    os.kill(guardian, signal.SIGSTOP)
    os.kill(launcher, signal.SIGKILL)
    os.kill(guardian, signal.SIGKILL)
    process.wait()
    workstation.command("jobs")
    assert "(its processes have ended)" in workstation.command("log")


def test_children_that_outlive_the_program_are_killed_when_it_ends(workstation: Workstation) -> None:
    script = BACKGROUND.format(workstation.folder).removesuffix("wait") + "exit 0"
    assert workstation.command("run", "--no-bind", "--", "sh", "-c", script) == ""
    assert [pid for pid in descendants(workstation.folder) if is_running(pid)] == []


def test_a_program_that_ignores_sigterm_is_killed_after_the_grace_period(workstation: Workstation) -> None:
    ready = workstation.folder / "ready"
    process, program = workstation.program("--grace", "0.2", script=f"trap '' TERM; touch {ready}; while :; do sleep 0.1; done")
    wait_until(ready.exists)
    process.terminate()
    assert process.wait() == 137
    assert not is_running(program)
    assert workstation.graph().jobs() == []


@pytest.mark.parametrize("words", [["-t", "30d"], ["-t", "9999999d"], ["--lease", "90d"], ["--lease", "inf"]])
def test_a_limit_may_be_far_away(workstation: Workstation, words: list[str]) -> None:
    assert workstation.command("run", *words, "--no-bind", "--", "sh", "-c", "sleep 0.3; echo done") == "done\n"


def test_a_grace_period_may_have_no_end(workstation: Workstation) -> None:
    script = "trap 'echo asked; sleep 0.3; exit 4' TERM; while :; do sleep 0.05; done"
    out = workstation.command("run", "--grace", "inf", "-t", "0.5s", "--no-bind", "--", "sh", "-c", script, status=4)
    assert out.startswith("asked\nfluxres: the time of job r1 is over\n")


def test_a_program_ends_when_its_time_is_over(workstation: Workstation) -> None:
    out = workstation.command(
        "run", "--no-bind", "--duration", "0.5", "--", "sh", "-c", "trap 'echo over; exit 3' TERM; sleep 1000 & wait", status=3
    )
    assert "over\n" in out
    assert "the time of job r1 is over" in out


def test_a_program_runs_until_the_end_that_extend_gives_it(workstation: Workstation) -> None:
    begun = time.monotonic()
    process, _ = workstation.program("-g1", "--duration", "8", "--grace", "0.2")
    workstation.command("extend", "r1", "+4s")
    process.wait()
    assert time.monotonic() - begun > 12
    process, _ = workstation.program("-g1", "--duration", "1h")
    assert "ends by then" in workstation.command("extend", "r2", "-30m")


@pytest.mark.parametrize("limit", [["--duration", "1h"], []])
@pytest.mark.parametrize("way", ["command", "attached", "writing"])
def test_a_program_ends_at_an_earlier_end_that_it_is_given(workstation: Workstation, limit: list[str], way: str) -> None:
    process, program = workstation.program(
        "-g1", "--no-bind", "--grace", "0.5", *limit, script="trap '' TERM; sleep 1000 & wait; wait"
    )
    end = time.time() + 1.5
    if way == "command":
        workstation.command("extend", "r1", "--end", f"{end:.1f}")
    elif way == "attached":
        with fluxres.open(str(workstation.store)) as graph:
            graph.set_end("r1", end)
    else:
        with open_store(str(workstation.store)).writing() as transaction:
            transaction.graph.set_end("r1", end)
    assert process.wait(runs.PATIENCE_S) == 137
    assert time.time() > end - 0.6
    assert not is_running(program)
    assert "the time of job r1 is over" in process.communicate()[1]


def test_an_earlier_end_that_is_taken_back_ends_nothing(workstation: Workstation) -> None:
    process, _ = workstation.program("-g1", "--no-bind", "--duration", "1h", "--grace", "0.2")
    workstation.command("extend", "r1", "--duration", "8")
    workstation.command("extend", "r1", "--duration", "1h")
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(9)


def test_free_says_that_the_program_runs_on(workstation: Workstation) -> None:
    process, _ = workstation.program("-g1")
    told = workstation.command("free", "r1")
    assert "is still running, without what was freed (`fluxres cancel r1` ends it)" in told
    assert "r1" in workstation.command("cancel", "r1")
    assert process.wait(runs.PATIENCE_S) == 143


def test_undo_says_which_programs_run_on(workstation: Workstation) -> None:
    workstation.program("-g2")
    assert "the program of job r1 is still running, without resources (`fluxres cancel r1` ends it)" in workstation.command(
        "undo"
    )
    workstation.command("cancel", "r1")
    assert "still running" not in workstation.command("undo", "--redo")


def test_what_runs_after_its_resources_were_freed_is_shown_and_can_be_canceled(workstation: Workstation) -> None:
    process, program = workstation.program("-g1", "--no-bind", "--job", "b", "--name", "training")
    workstation.command("free", "b")
    (shown,) = json.loads(workstation.command("ps", "--json"))["programs"]
    assert (shown["job"], shown["name"], shown["state"], shown["holds"]) == ("b", "training", "freed", "")
    assert shown["processes"][2] == program
    assert workstation.command("cancel", "b") == "b is canceled\n"
    assert process.wait(runs.PATIENCE_S) == 143
    assert not is_running(program)
    assert json.loads(workstation.command("ps", "--json")) == {"programs": []}
    assert workstation.command("cancel", "b") == "b has ended already\n"


def test_wait_waits_for_a_program_whose_resources_were_freed(workstation: Workstation) -> None:
    process, program = workstation.program("-g1", "--no-bind")
    workstation.command("free", "r1")
    waits = workstation.popen("wait", "r1")
    time.sleep(1.0)
    assert waits.poll() is None
    os.kill(program, signal.SIGTERM)
    assert (process.wait(), waits.wait(runs.PATIENCE_S)) == (143, 1)  # others freed what it held, so nothing notes its end


@pytest.mark.parametrize("lease", ["0", "1ms", "999ms"])
def test_a_lease_has_a_lower_bound(workstation: Workstation, lease: str) -> None:
    said = workstation.command("run", "--lease", lease, "--", "true", status=2)
    assert f"--lease: expected {limits.RUN_LEASE_SECONDS_MIN:g} s or more, got {lease}" in said
    workstation.command("run", "--lease", f"{limits.RUN_LEASE_SECONDS_MIN:g}", "--no-bind", "--", "true")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM])
def test_signals_are_passed_on(workstation: Workstation, number: signal.Signals) -> None:
    ready = workstation.folder / "ready"
    script = f"trap 'exit {number}' {number.name.removeprefix('SIG')}; echo ready > {ready}; while :; do sleep 0.02; done"
    process, _ = workstation.program(script=script)
    wait_until(ready.exists)
    process.send_signal(number)
    assert process.wait() == number


def test_a_program_started_with_nohup_goes_on(workstation: Workstation) -> None:
    process, program = workstation.program(preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    process.send_signal(signal.SIGHUP)
    time.sleep(0.2)
    assert is_running(program)


def test_closed_streams_stay_closed(workstation: Workstation) -> None:
    script = f"for n in 0 1; do test -e /proc/self/fd/$n && echo $n; done > {workstation.folder}/open; sleep 0"
    process = workstation.popen(
        "run", "--no-bind", "--", "sh", "-c", script, stdin=None, stdout=None, preexec_fn=lambda: (os.close(0), os.close(1))
    )
    assert process.wait() == 0
    assert workstation.graph().jobs() == []


def test_the_reader_of_a_program_sees_its_end(workstation: Workstation) -> None:
    process, _ = workstation.program(script="echo said; exec >&- 2>&-; exec sleep 1000")
    assert process.stdout is not None
    assert process.stdout.read() == "said\n"


def test_a_program_goes_on_when_the_store_is_removed(workstation: Workstation) -> None:
    process, program = workstation.program(script=f"while ! test -e {workstation.folder}/go; do sleep 0.02; done; exit 5")
    for file in workstation.folder.glob("ws.db*"):
        if file.is_file():
            file.unlink()
    assert is_running(program)
    (workstation.folder / "go").touch()
    assert process.wait() == 5
    assert process.stderr is not None
    assert "is freed by the next command" in process.stderr.read()


def test_a_program_goes_on_when_the_disk_is_full(workstation: Workstation) -> None:
    process, _ = workstation.program("-g1", script=f"while ! test -e {workstation.folder}/go; do sleep 0.02; done; exit 5")
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (0, 0))  # no write of the launcher succeeds any more
    (workstation.folder / "go").touch()
    assert process.wait(30) == 5
    assert process.stderr is not None
    assert "what job r1 holds is freed by the next command" in process.stderr.read()
    assert workstation.graph().jobs() == ["r1"]
    assert workstation.command("jobs", "--no-header") == "fluxres: no jobs\n"


def test_nothing_starts_on_a_full_disk(workstation: Workstation) -> None:
    def fill() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

    started = workstation.folder / "started"
    said = workstation.command("run", "-g1", "--wait", "--", "mkdir", str(started), status=4, preexec_fn=fill)
    assert "nothing was changed" in said
    assert (started.exists(), workstation.graph().jobs(), workstation.tickets()) == (False, [], [])


@pytest.fixture
def on_small_disk(tmp_path: Path) -> Iterator[Workstation]:
    """A store on a file system with one MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder], capture_output=True, text=True, check=False)
    if made.returncode:
        pytest.skip(f"a file system cannot be mounted: {made.stderr.strip()}")
    place = runs.workstation(folder)
    try:
        yield place
    finally:
        place.end()
        subprocess.run(["umount", "-l", folder], check=True)


def test_what_a_job_holds_is_freed_once_the_disk_has_room(on_small_disk: Workstation) -> None:
    folder = on_small_disk.folder
    process, _ = on_small_disk.program("-g1", script=f"while ! test -e {folder}/go; do sleep 0.02; done; exit 5")
    with open(folder / "filler", "wb", buffering=0) as filler, suppress(OSError):
        while filler.write(bytes(512)):
            pass
    (folder / "go").touch()
    assert process.wait(30) == 5
    assert process.stderr is not None
    assert "what job r1 holds is freed by the next command" in process.stderr.read()
    (folder / "filler").unlink()
    assert on_small_disk.command("jobs", "--no-header") == "fluxres: no jobs\n"


def test_a_program_whose_store_comes_back_is_freed(workstation: Workstation) -> None:
    process, _ = workstation.program("-g1", script=f"while ! test -e {workstation.folder}/go; do sleep 0.02; done; exit 5")
    workstation.folder.joinpath("away").mkdir()
    files = [file for file in workstation.folder.glob("ws.db*") if file.is_file()]
    for file in files:
        file.rename(workstation.folder / "away" / file.name)
    (workstation.folder / "go").touch()
    assert process.wait(30) == 5
    for file in workstation.folder.glob("ws.db*"):
        if file.is_file():
            file.unlink()
    for file in files:
        (workstation.folder / "away" / file.name).rename(file)
    assert workstation.graph().jobs() == ["r1"]
    assert workstation.command("jobs", "--no-header") == "fluxres: no jobs\n"


def test_a_clock_that_jumps_back_hides_no_program(workstation: Workstation) -> None:
    from fluxres.clock import fixed
    from fluxres.launch import orphans

    workstation.program("-g1", "--duration", "1h")
    graph = workstation.graph()
    graph.clock = fixed(time.time() - 7200)
    assert graph.aggregate(duration_s=60)["gpu"] == 2
    assert orphans.reap(graph) == []
    assert graph.aggregate(duration_s=60)["gpu"] == 1
    assert graph.check() == []


def test_a_program_that_overruns_keeps_what_it_holds(workstation: Workstation) -> None:
    from fluxres.clock import fixed
    from fluxres.launch import orphans

    workstation.program("-g1", "--duration", "1h")
    graph = workstation.graph()
    graph.clock = fixed(time.time() + 7200)  # the clock has jumped
    assert graph.aggregate()["gpu"] == 2
    assert orphans.reap(graph) == []
    assert graph.aggregate()["gpu"] == 1
    assert graph.allocation("r1").window[1] == graph.now() + limits.OVERRUN_TICKS


# -- the queue ---------------------------------------------------------------------------------------------------------------


def waiting(place: Workstation, number: int = 1) -> None:
    wait_until(lambda: len(place.tickets()) == number)


def test_rule_h2_a_waiting_run_starts_as_soon_as_there_is_room(workstation: Workstation) -> None:
    process, _ = workstation.program("-g2")
    second = workstation.popen("run", "-g1", "--wait", "--", "sh", "-c", "echo $FLUXRES_JOB $CUDA_VISIBLE_DEVICES")
    waiting(workstation)
    process.terminate()
    out, err = second.communicate()
    assert out == "r2 0\n"
    assert err.startswith("fluxres: job r2 waits for resources: place 1 of 1, its start is not known\n")
    assert [file for file in (workstation.folder / "ws.db.run").iterdir() if file.is_socket()] == []


@pytest.mark.parametrize("way", ["attached", "writing", "save"])
def test_rule_h2_a_waiting_run_starts_when_a_program_frees_without_a_pass(workstation: Workstation, way: str) -> None:
    url = str(workstation.store)
    with fluxres.open(url) as attached:
        attached.allocate("slot/gpu=2", job="all")
        second = workstation.popen("run", "-g1", "--wait", "--", "true")
        waiting(workstation)
        if way == "attached":
            attached.free("all")
        elif way == "writing":
            with open_store(url).writing() as transaction:
                transaction.graph.free("all")
        else:
            graph = fluxres.load(url)
            graph.free("all")
            fluxres.save(graph, url, changed_only=True)
        assert second.wait(limits.QUEUE_LOOK_SECONDS / 2) == 0


@pytest.mark.parametrize("words", [["undo"], ["load", "--replace", "machine.yaml"]])
def test_rule_h2_a_waiting_run_starts_when_the_graph_is_put_back_or_replaced(workstation: Workstation, words: list[str]) -> None:
    (workstation.folder / "machine.yaml").write_text(runs.MACHINE, encoding="utf-8")
    workstation.command("allocate", "gpu0@ws", "--job", "j1")
    process = workstation.popen("run", "-g2", "--no-bind", "--wait", "--", "true")
    waiting(workstation)
    workstation.command(*words)
    assert process.wait(limits.QUEUE_LOOK_SECONDS / 2) == 0


def test_a_waiting_run_ends_when_its_graph_is_removed(workstation: Workstation) -> None:
    workstation.command("allocate", "gpu0@ws", "--job", "j1")
    process = workstation.popen("run", "-g2", "--wait", "--", "true")
    waiting(workstation)
    workstation.command("graphs", "drop", "ws", "--force")
    assert process.wait(limits.QUEUE_LOOK_SECONDS / 2) == 2


def test_a_waiting_run_starts_when_launcher_and_guardian_are_killed(workstation: Workstation) -> None:
    process, _ = workstation.program("-g2")
    launcher, guardian, _ = workstation.processes("r1")
    second = workstation.popen("run", "-g1", "--wait", "--", "true")
    waiting(workstation)
    os.kill(guardian, signal.SIGKILL)
    os.kill(launcher, signal.SIGKILL)
    process.wait()
    assert second.wait(20) == 0


def test_a_waiting_run_starts_when_an_allocation_ends_or_is_freed(workstation: Workstation) -> None:
    workstation.command("allocate", "gpu1@ws", "--job", "j2")
    workstation.command("allocate", "gpu0@ws", "--job", "j1", "--duration", "4s")
    first = workstation.popen("run", "-g1", "--wait", "--", "true")
    assert first.wait(30) == 0
    second = workstation.popen("run", "-g2", "--wait", "--", "true")
    waiting(workstation)
    workstation.command("free", "j2")
    assert second.wait(20) == 0


def order_of(place: Workstation, *waits: tuple[str, ...]) -> list[str]:
    """The order in which waiting runs start, by the numbers of their arguments."""
    process, _ = place.program("-g2")
    log = place.folder / "order"
    log.touch()
    runs = []
    for number, words in enumerate(waits):
        runs.append(place.popen("run", "--no-bind", *words, "--wait", "--", "sh", "-c", f"echo {number} >> {log}; sleep 0.1"))
        waiting(place, number + 1)
    process.terminate()
    for run in runs:
        assert run.wait(30) == 0
    return log.read_text().split()


def test_first_come_first_served(workstation: Workstation) -> None:
    assert order_of(workstation, ("-g2",), ("-g2",), ("-g2",)) == ["0", "1", "2"]


def test_higher_priority_goes_first(workstation: Workstation) -> None:
    assert order_of(workstation, ("-g2",), ("-g2", "--priority", "5"), ("-g2", "--priority", "-1")) == ["1", "0", "2"]


def test_a_later_run_does_not_delay_an_earlier_one(workstation: Workstation) -> None:
    workstation.command("allocate", "gpu0@ws", "--job", "j1")
    big = workstation.popen("run", "-g2", "-c6", "--wait", "--job", "big", "--", "true")
    waiting(workstation)
    small = workstation.popen("run", "-g1", "--wait", "--job", "small", "--", "true")
    waiting(workstation, 2)
    assert workstation.command("run", "-c2", "--no-bind", "--wait", "--", "echo", "through") == "through\n"
    assert "2 requests before it" in workstation.command("run", "-c3", "--", "true", status=1)
    workstation.command("free", "j1")
    assert (big.wait(30), small.wait(30)) == (0, 0)


def test_a_short_run_may_go_before_a_start_that_is_known(workstation: Workstation) -> None:
    workstation.command("allocate", "gpu0@ws", "--job", "j1", "--duration", "1h")
    workstation.popen("run", "-g2", "--wait", "--duration", "1h", "--", "true")
    waiting(workstation)
    assert workstation.command("run", "-g1", "--no-bind", "--duration", "30m", "--", "echo", "through") == "through\n"
    assert "before it" in workstation.command("run", "-g1", "--duration", "2h", "--", "true", status=1)
    shown = json.loads(workstation.command("ps", "--json"))["programs"]
    assert [(one["state"], one["place"]) for one in shown] == [("waiting", 1)]
    assert abs(shown[0]["expected"] - time.time() - 3600) < 60


@pytest.mark.parametrize("number", [signal.SIGSTOP, signal.SIGKILL])
def test_a_stopped_or_killed_waiter_blocks_nobody(workstation: Workstation, number: signal.Signals) -> None:
    process, _ = workstation.program("-g2")
    first = workstation.popen("run", "-g2", "--wait", "--", "true")
    assert first.stderr is not None
    assert "waits for resources" in first.stderr.readline()  # now, it holds no lock of the store
    first.send_signal(number)
    if number == signal.SIGKILL:
        first.wait()
        waiting(workstation, 0)  # its guardian takes it out
    second = workstation.popen("run", "-g2", "--wait", "--", "true")
    waiting(workstation, 2 if number == signal.SIGSTOP else 1)
    process.terminate()
    assert second.wait(30) == 0
    if number == signal.SIGSTOP:
        first.send_signal(signal.SIGCONT)
        assert first.wait(30) == 0


def test_a_waiter_that_is_continued_looks_at_once(workstation: Workstation) -> None:
    workstation.command("allocate", "gpu0@ws", "--job", "j1")
    process = workstation.popen("run", "-g2", "--wait", "--no-bind", "--", "true")
    waiting(workstation)
    time.sleep(1)  # it has looked, and has no lock of the database
    process.send_signal(signal.SIGSTOP)
    workstation.command("free", "j1")
    process.send_signal(signal.SIGCONT)
    assert process.wait(limits.QUEUE_LOOK_SECONDS / 3) == 0


def test_one_waits_no_longer_than_it_may(workstation: Workstation) -> None:
    workstation.program("-g2")
    assert "resources were not free within 0.3 s" in workstation.command("run", "-g1", "--wait=0.3", "--", "true", status=1)
    assert workstation.tickets() == []
    assert "resources were not free within 0.3 s" in workstation.command("run", "--wait", "0.3s", "-g1", "--", "true", status=1)


def test_ctrl_c_takes_a_waiting_run_out_of_the_queue(workstation: Workstation) -> None:
    workstation.program("-g2")
    second = workstation.popen("run", "-g1", "--wait", "--", "true")
    waiting(workstation)
    second.send_signal(signal.SIGINT)
    assert second.wait() == 130
    assert workstation.tickets() == []


# -- ps, wait, cancel ----------------------------------------------------------------------------------------------------


def test_ps_shows_what_runs_and_what_waits(workstation: Workstation) -> None:
    workstation.program("-g2", "--name", "training")
    workstation.popen("run", "-g1", "--wait", "--", "hostname", "-f")
    waiting(workstation)
    assert "it waits for resources" in workstation.command("jobs", "r2", status=2)
    assert "1 request of run and shell waits in the queue (fluxres ps)" in workstation.command("jobs", "--pending")
    running, queued = json.loads(workstation.command("ps", "--json"))["programs"]
    assert (running["job"], running["name"], running["state"], running["holds"]) == (
        "r1",
        "training",
        "running",
        "1 core, 2 gpus",
    )
    assert (queued["job"], queued["state"], queued["place"], queued["expected"]) == ("r2", "waiting", 1, None)
    assert queued["command"] == ["hostname", "-f"]
    assert [line.split()[0] for line in workstation.command("ps", "--no-header").splitlines()] == ["r1", "r2"]
    assert workstation.command("ps", "-o", "csv").startswith("job,user,name,state,place,since,until,expected,")


def test_units_of_a_divided_pool_are_no_pools(tmp_path: Path) -> None:
    place = Workstation(tmp_path, tmp_path / "ws.db")
    memory = {"type": "memory", "size": 4000}
    node = {"type": "node", "with": [{"type": "core", "count": 2}, memory]}
    open_store(str(place.store)).put("ws", fluxres.load({"fluxres": 1, "name": "ws", "resources": [node]}))
    process, _ = place.program("slot/[core;memory=1000]", "--no-bind")
    (shown,) = json.loads(place.command("ps", "--json"))["programs"]
    assert shown["holds"] == "1 core, 1000 units of memory"
    place.command("cancel", "r1")
    place.end()
    assert process.returncode == 143
    assert "no program runs or waits" in place.command("ps")


def test_wait_returns_when_jobs_end(workstation: Workstation) -> None:
    process, _ = workstation.program("-g2")
    second = workstation.popen("run", "-g1", "--wait", "--", "true")
    waiting(workstation)
    waits = workstation.popen("wait", "r1", "r2")
    time.sleep(0.3)
    assert waits.poll() is None
    process.terminate()
    assert (second.wait(), waits.wait()) == (0, 143)
    assert workstation.command("wait", "r1", status=143) == ""
    assert json.loads(workstation.command("wait", "r1", "r2", "--json", status=143))["statuses"] == {"r1": 143, "r2": 0}
    assert "r1: everything (exit status 143)" in workstation.command("log")
    assert "no job 'r9'" in workstation.command("wait", "r9", status=2)
    workstation.command("allocate", "gpu0@ws", "--job", "j1")
    assert "fluxres free j1" in workstation.command("wait", "j1", status=2)


def test_cancel_ends_what_runs_and_what_waits(workstation: Workstation) -> None:
    process, program = workstation.program("-g2")
    second = workstation.popen("run", "-g1", "--wait", "--", "true")
    waiting(workstation)
    assert workstation.command("cancel", "r2", "r1") == "r2 is canceled\nr1 is canceled\n"
    assert (process.wait(), second.wait()) == (143, 5)
    assert not is_running(program)
    assert (workstation.graph().jobs(), workstation.tickets()) == ([], [])


def test_cancel_kills_what_does_not_end(workstation: Workstation) -> None:
    process, program = workstation.program("-g2", script="trap '' TERM; while :; do sleep 0.1; done")
    process.send_signal(signal.SIGSTOP)
    workstation.command("cancel", "r1", "--grace", "0")
    assert not is_running(program)
    assert workstation.graph().jobs() == []


def test_ids_are_not_used_twice(workstation: Workstation) -> None:
    workstation.program("--job", "mine")
    assert "job 'mine'" in workstation.command("run", "--job", "mine", "--", "true", status=2)
    workstation.command("allocate", "gpu0@ws", "--job", "r1")
    assert workstation.command("run", "--no-bind", "--", "sh", "-c", "echo $FLUXRES_JOB") == "r2\n"


def test_the_id_of_a_waiting_job_is_not_given_to_another(workstation: Workstation) -> None:
    process, _ = workstation.program("-g2", "--job", "mine")
    first = workstation.popen("run", "-g2", "--no-bind", "--wait", "--job", "r1", "--", "sh", "-c", "echo $FLUXRES_JOB")
    waiting(workstation)
    assert workstation.command("run", "--no-bind", "--", "sh", "-c", "echo $FLUXRES_JOB") == "r2\n"
    refused = workstation.command("allocate", "core7@ws", "--job", "r1", status=2)
    assert "job 'r1': is the id of a run that waits" in refused
    process.terminate()
    assert first.communicate()[0] == "r1\n"
    assert workstation.graph().jobs() == []


def test_a_waiting_job_whose_id_a_program_has_used_is_refused(workstation: Workstation) -> None:
    workstation.command("allocate", "gpu0@ws", "--job", "j1")
    first = workstation.popen("run", "-g2", "--wait", "--job", "mine", "--", "true")
    waiting(workstation)
    with fluxres.open(str(workstation.store)) as attached:
        attached.allocate("slot/core", job="mine")
    assert "its id was given to another job" in first.communicate(timeout=limits.QUEUE_LOOK_SECONDS / 2)[1]
    assert first.returncode == 5
    assert workstation.graph().jobs() == ["j1", "mine"]


def test_a_lease_is_renewed(workstation: Workstation) -> None:
    workstation.program("--lease", "1")
    first = workstation.graph().facts("r1").launch
    assert first is not None
    assert first.lease is not None

    def renewed() -> bool:
        now = workstation.graph().facts("r1").launch
        return now is not None and now.lease is not None and first.lease is not None and first.lease < now.lease < FOREVER

    wait_until(renewed)


def test_a_small_campaign_of_kills_leaves_nothing(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.launch.run_campaign", "--runs", "12", "--seed", "3"],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_ctest_gets_a_specification_of_what_was_allocated(workstation: Workstation) -> None:
    script = "cat $CTEST_RESOURCE_SPEC_FILE"
    out = json.loads(workstation.command("run", "-c2", "-g1", "--no-bind", "--ctest", "--", "sh", "-c", script))
    assert out["local"] == [{"cpus": [{"id": "0", "slots": 1}, {"id": "1", "slots": 1}], "gpus": [{"id": "0", "slots": 1}]}]


def test_canary_gets_a_pool_of_what_was_allocated(workstation: Workstation) -> None:
    script = "cat $FLUXRES_POOL_FILE"
    out = json.loads(workstation.command("run", "-c2", "-g1", "--no-bind", "--canary", "--", "sh", "-c", script))
    (node,) = out["resource_pool"]["nodes"]
    assert {name: [one["id"] for one in some] for name, some in node["resources"].items()} == {"cpus": ["0", "1"], "gpus": ["0"]}


def test_one_program_reads_one_file(workstation: Workstation) -> None:
    assert "both --ctest and --canary" in workstation.command("run", "--ctest", "--canary", "--", "true", status=2)


@pytest.mark.skipif(shutil.which("ctest") is None, reason="needs ctest (apt-get install cmake)")
def test_the_real_ctest_runs_inside_an_allocation(workstation: Workstation) -> None:
    (workstation.folder / "CTestTestfile.cmake").write_text(
        'add_test(one sh -c "echo got=$CTEST_RESOURCE_GROUP_0_GPUS")\n'
        'set_tests_properties(one PROPERTIES RESOURCE_GROUPS "gpus:1")\n',
        encoding="utf-8",
    )
    out = workstation.command("run", "-g1", "--no-bind", "--ctest", "--", "ctest", "-j2", "-V")
    assert "got=id:0,slots:1" in out


def test_requests_of_other_systems_get_their_variables(workstation: Workstation) -> None:
    script = "echo $CTEST_RESOURCE_GROUP_COUNT $CTEST_RESOURCE_GROUP_0_GPUS"
    request = ("--request-format", "ctest", "gpus:1")
    assert workstation.command("run", *request, "--no-bind", "--", "sh", "-c", script) == "1 id:0,slots:1\n"
    script = "echo $CANARY_GPU_IDS $CUDA_VISIBLE_DEVICES"
    request = ("--request-format", "canary", "gpus=1")
    assert workstation.command("run", *request, "--no-bind", "--wait", "--", "sh", "-c", script) == "0 0\n"
    script = "echo $HQ_RESOURCE_REQUEST_gpus $HQ_RESOURCE_VALUES_gpus $CUDA_VISIBLE_DEVICES"
    out = workstation.command("run", "--resources", "gpus=1 cpus=2", "--no-bind", "--", "sh", "-c", script)
    first, policy, values, shown = out.split()
    assert (first, policy) == ("1", "compact")
    assert values == shown in ("0", "1")
