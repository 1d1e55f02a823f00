"""Commands as processes: concurrent commands, closed terminals, interrupts."""

from __future__ import annotations

import json
import os
import pty
import resource
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from fluxres.cli import main
from fluxres.store import open_store
from tests.cli.conftest import MACHINE, Invoke, process
from tests.forks import Fork

WAIT_S = 60


def finish(running: subprocess.Popen[str] | Fork) -> tuple[int, str, str]:
    out, err = running.communicate(timeout=WAIT_S)
    return running.wait(), out or "", err or ""


def test_help_needs_click_and_nothing_heavy() -> None:
    heavy = ["numpy", "rich", "yaml", "networkx", "msgspec", "orjson", "sqlite3"]
    code = f"""
import sys
from fluxres.cli.main import main
status = main()
print([name for name in {heavy} if name in sys.modules], status)
"""
    shown = subprocess.run([sys.executable, "-c", code, "--help"], capture_output=True, text=True, check=True)
    assert shown.stdout.splitlines()[-1] == "[] 0"
    assert "allocate" in shown.stdout


def test_command_imports_only_what_it_needs_and_no_networkx(tiny: Invoke) -> None:
    code = """
import sys
from fluxres.cli.main import main
status = main()
print([name for name in ("networkx", "rich", "yaml", "hypothesis") if name in sys.modules], status)
"""
    for command in (["info"], ["show"], ["find", "type=node"], ["allocate", "/tiny/rack0", "--job", "j1"], ["log"]):
        shown = subprocess.run([sys.executable, "-c", code, *command], capture_output=True, text=True, check=True)
        assert shown.stdout.splitlines()[-1] == "[] 0", command


def test_two_concurrent_commands_allocate_a_node_only_once(tiny: Invoke) -> None:
    started = [Fork("allocate", "/tiny/rack0/node0", "--job", f"j{i}") for i in range(4)]
    ended = [finish(running) for running in started]
    assert sorted(status for status, *_ in ended) == [0, 1, 1, 1]
    assert tiny("jobs", "-o", "paths").stdout == "/tiny/rack0/node0\n"
    assert all("held by" in err for status, _, err in ended if status == 1)


def test_a_waiting_command_reports_the_lock_holder_and_continues(tiny: Invoke) -> None:
    with open_store().writing(command="a long command"):
        waiting = Fork("state", "/tiny/rack0", "down", "--wait", "50")
        told = waiting.stderr.readline()
    status, out, _ = finish(waiting)
    assert told.startswith(f"fluxres: waiting for process {os.getpid()} (a long command")
    assert (status, out) == (0, "/tiny/rack0: down\n")


def test_command_that_waits_too_long_gives_up_with_status_4(tiny: Invoke) -> None:
    with open_store().writing(command="a long command"):
        status, out, err = finish(Fork("state", "/tiny/rack0", "down", "--wait", "0.1"))
    assert (status, out) == (4, "")
    assert "a long command" in err
    assert tiny("find", "state=down").stdout == ""


def test_reading_does_not_wait(tiny: Invoke) -> None:
    with open_store().writing(command="a long command"):
        status, out, _ = finish(Fork("find", "name=rack0", "-o", "paths"))
    assert (status, out) == (0, "/tiny/rack0\n")


def test_ctrl_c_ends_quietly_and_leaves_the_store_unchanged(tiny: Invoke) -> None:
    with open_store().writing(command="a long command"):
        waiting = Fork("state", "/tiny/rack0", "down", "--wait", "50")
        waiting.stderr.readline()
        waiting.send_signal(signal.SIGINT)
        status, out, err = finish(waiting)
    assert (status, out, err.strip()) == (130, "", "fluxres: interrupted")
    assert tiny("find", "state=down").stdout == ""


def test_ctrl_c_while_a_class_is_created_shows_no_traceback() -> None:
    code = """
import fluxres.cli.program
from fluxres.cli.main import main

class Slow:
    def __set_name__(self, owner, name):
        raise KeyboardInterrupt

def run(argv):
    class Owner:
        slow = Slow()

fluxres.cli.program.run = run
raise SystemExit(main())
"""
    shown = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert (shown.returncode, shown.stderr) == (130, "fluxres: interrupted\n")


def test_nothing_that_takes_time_is_imported_before_ctrl_c_is_caught() -> None:
    code = "import sys; import fluxres.cli.main; print([name for name in ('typing', 'contextlib', 're') if name in sys.modules])"
    where = {**os.environ, "PYTHONPATH": str(Path(main.__file__).parents[2])}
    shown = subprocess.run([sys.executable, "-S", "-c", code], check=True, capture_output=True, text=True, env=where)
    assert shown.stdout == "[]\n"


def test_ctrl_c_at_any_moment_shows_no_traceback(tiny: Invoke) -> None:
    for pause_s in (0.03, 0.06, 0.1, 0.15, 0.2, 0.3):
        running = process("allocate", "/tiny/rack1", "--job", f"j{pause_s}")
        time.sleep(pause_s)
        running.send_signal(signal.SIGINT)
        status, _, err = finish(running)
        # A command interrupted after its commit has done its work, and exits with 130 nevertheless.
        assert finish(Fork("free", f"j{pause_s}"))[0] in (0, 2)
        came_so_far = "Traceback" not in err or ("in main" in err and "init_import_site" not in err)
        if status == -signal.SIGINT or not came_so_far:
            continue  # Python had not started the program yet
        assert status in (0, 130), err
        assert "Traceback" not in err


def test_closed_pipe_is_not_an_error() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    running = process("--store", str(MACHINE.with_name("none.db")), "formats", stdout=writer)
    os.close(writer)
    status, _, err = finish(running)
    assert (status, err) == (141, "")


def test_reader_that_stops_early_is_not_an_error(tiny: Invoke) -> None:
    running = Fork("find", "type=core", "-o", "paths")
    running.stdout.readline()
    running.stdout.close()
    assert running.stderr.read() == ""
    running.stderr.close()
    assert running.wait(WAIT_S) in (0, 141)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_for_standard_output_is_an_error(tiny: Invoke) -> None:
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        status, _, err = finish(process("find", "type=core", "-o", "paths", stdout=full))
    assert (status, err) == (4, "fluxres: ERROR standard output: No space left on device\n")


def closing(*closed: int) -> Callable[[], None]:
    """For a child: close some of its standard streams first, like `>&-` in a shell."""

    def close() -> None:
        for number in closed:
            os.close(number)

    return close


COMMANDS = {
    "a table": ("find", "type=node"),
    "names": ("find", "type=node", "-o", "folded"),
    "JSON": ("find", "type=node", "--json"),
    "a file": ("save", "-"),
    "help": ("--help",),
    "the version": ("--version",),
    "a session": ("query", "--help"),
}


@pytest.mark.parametrize("what", COMMANDS)
def test_output_lost_to_a_closed_standard_output_exits_with_status_4(what: str, tiny: Invoke) -> None:
    status, _, err = finish(process(*COMMANDS[what], preexec_fn=closing(1)))
    assert status == 4
    if what == "JSON":
        assert json.loads(err)["where"] == "standard output"
    else:
        assert err == "fluxres: ERROR standard output: Bad file descriptor\n"


def test_allocation_with_standard_output_closed_is_not_reported_as_refused(tiny: Invoke) -> None:
    status, _, err = finish(process("allocate", "/tiny/rack0/node0", "--job", "j1", preexec_fn=closing(1)))
    assert (status, err) == (4, "fluxres: ERROR standard output: Bad file descriptor\n")
    assert [span["job"] for span in json.loads(tiny("jobs", "--json").stdout)["jobs"]] == ["j1"]
    assert tiny("check", "--json").exit_code == 0


@pytest.mark.parametrize("closed", [(0,), (2,), (0, 2), (0, 1, 2)])
def test_closed_streams_change_the_status_only_if_output_is_lost(closed: tuple[int, ...], tiny: Invoke) -> None:
    lost = 4 if 1 in closed else 0
    started = process("allocate", "/tiny/rack0/node0", "--job", "j1", preexec_fn=closing(*closed))
    assert finish(started)[0] == lost
    status, _, err = finish(process("allocate", "/tiny/rack0/node0", "--job", "j2", preexec_fn=closing(*closed)))
    assert status == 1
    assert ("held by j1" in err) == (2 not in closed)
    status, _, err = finish(process("load", "-", preexec_fn=closing(*closed)))
    assert (status, "Traceback" in err) == (2, False)
    assert finish(process("info", preexec_fn=closing(*closed)))[0] == lost


@pytest.mark.parametrize("dest", ["w.swf", "w.json", "w.yaml"])
def test_a_full_disk_leaves_the_old_file(fluxres: Invoke, place: Path, dest: str) -> None:
    fluxres("workload", "lublin:jobs=1,size=8", dest)
    before = (place / dest).read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    for new in (dest, f"new-{dest}"):
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
        try:
            result = fluxres("workload", "lublin:jobs=99,size=8", new, status=4)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert f"{new}: cannot be written: File too large; nothing was written" in result.stderr
        assert (os.listdir(place), (place / dest).read_bytes()) == ([dest], before)


@pytest.mark.parametrize("words", [("timeline", "--svg"), ("save", "--graph", "tiny"), ("convert", "tiny.yaml")])
def test_a_full_disk_leaves_the_old_picture_or_machine(tiny: Invoke, place: Path, words: tuple[str, ...]) -> None:
    tiny("save", "tiny.yaml")
    tiny(*words, "old.svg" if "--svg" in words else "old.yaml")
    old = next(place.glob("old.*"))
    before, names = old.read_bytes(), sorted(os.listdir(place))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    try:
        result = tiny(*words, old.name, status=4)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert f"{old.name}: cannot be written: File too large; nothing was written" in result.stderr
    assert (old.read_bytes(), sorted(os.listdir(place))) == (before, names)


def test_a_workload_is_written_to_a_pipe() -> None:
    status, out, _ = finish(Fork("workload", "lublin:jobs=3,size=8", "/dev/stdout", "--to", "swf"))
    assert (status, len([line for line in out.splitlines() if line[:1].isdecimal()])) == (0, 3)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_for_standard_error_does_not_change_the_status(tiny: Invoke) -> None:
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        assert finish(process("find", "nope=3", stderr=full))[0] == 2
        assert finish(process("free", "nobody", stderr=full))[0] == 2
        assert finish(process("save", "out.hq", stderr=full))[0] == 0


def test_typing_error_in_a_file_is_reported_by_line_and_column(place: Path) -> None:
    (place / "site.yaml").write_text("fluxres: 1\nname: x\nresources:\n  - {type: node, cuont: 2}\n", encoding="utf-8")
    status, out, err = finish(Fork("load", "site.yaml"))
    assert (status, out) == (2, "")
    assert err.startswith("fluxres: ERROR site.yaml:4:18: resources[0].cuont: unknown key")
    assert not open_store().names()


@pytest.mark.parametrize("content", [b"", b"\t", b"\x00", b"\xff\xfe", b"a: [", b"- 1", b"fluxres: 2"], ids=repr)
def test_invalid_input_leaves_the_store_unchanged(place: Path, tiny: Invoke, content: bytes) -> None:
    (place / "site.yaml").write_bytes(content)
    refused = tiny("load", "site.yaml", "--name", "tiny", "--replace", status=2)
    assert refused.stderr.startswith("fluxres: ERROR site.yaml")
    assert len(tiny("log", "--no-header").stdout.splitlines()) == 1


def terminal(*args: str) -> str:
    """What a command writes to a terminal."""
    master, slave = pty.openpty()
    running = Fork(*args, environment={**os.environ, "TERM": "xterm"}, terminal=slave)
    os.close(slave)
    seen = b""
    while True:
        try:
            part = os.read(master, 65536)
        except OSError:
            break
        if not part:
            break
        seen += part
    os.close(master)
    assert finish(running) == (0, "", "")
    return seen.decode().replace("\r\n", "\n")


def test_terminal_gets_the_same_text_with_colour_and_pipe_without(tiny: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny("state", "/tiny/rack0", "down")
    plain = tiny("find", "type=rack").stdout
    coloured = terminal("find", "type=rack")
    assert "\x1b[31mdown\x1b[0m" in coloured
    assert _without_colour(coloured) == plain
    assert terminal("find", "type=rack", "--color", "never") == plain
    assert tiny("find", "type=rack", "--color", "always").stdout == coloured
    monkeypatch.setenv("NO_COLOR", "1")
    assert terminal("find", "type=rack") == plain


def _without_colour(text: str) -> str:
    for code in ("0", "1", "2", "31", "33", "36"):
        text = text.replace(f"\x1b[{code}m", "")
    return text


def test_completion_offers_commands_options_pools_and_jobs(tiny: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny("allocate", "/tiny/rack0", "--job", "j17")

    def complete(words: str, at: int) -> list[str]:
        env = {**os.environ, "_FLUXRES_COMPLETE": "fish_complete", "COMP_WORDS": words, "COMP_CWORD": words.split(" ")[at]}
        status, out, err = finish(Fork(environment=env))
        assert (status, err) == (0, "")
        return [line.partition(",")[2].partition("\t")[0] for line in out.splitlines()]

    assert complete("fluxres al", 1) == ["allocate"]
    assert "--job" in complete("fluxres allocate --j", 2)
    assert complete("fluxres show /tiny/rack1/n", 2) == [f"/tiny/rack1/node{i}" for i in (3, 4, 5)]
    assert complete("fluxres show p", 2) == ["power:/", "pdu0", "pdu1"]
    assert complete("fluxres show log", 2) == ["login1", "login2"]
    assert complete("fluxres show node1,log", 2) == ["node1,login1", "node1,login2"]
    assert complete("fluxres show core0@log", 2) == ["core0@login1", "core0@login2"]
    assert complete("fluxres show n", 2) == ["network:", *(f"node{i}" for i in range(6))]
    assert complete("fluxres show network:s", 2) == ["network:spine"]
    assert complete("fluxres show power:/", 2) == ["power:/pdu0", "power:/pdu1"]
    assert complete("fluxres show power:/pdu1/rack1/n", 2) == [f"power:/pdu1/rack1/node{i}" for i in (3, 4, 5)]
    assert complete("fluxres show network:/s", 2) == ["network:/spine"]
    assert complete("fluxres free j", 2) == ["j17"]
    assert complete("fluxres graphs use t", 3) == ["tiny"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_name_the_command(fluxres: Invoke, shell: str) -> None:
    script = fluxres("completion", shell).stdout
    assert "fluxres" in script
    assert "_FLUXRES_COMPLETE" in script


SLOW = """
import sys
from fluxres.cli.progress import progress
with progress(2) as shown:
    shown.step("reading it")
    sys.stdin.readline()
print("done")
"""


def test_progress_bar_is_shown_on_a_terminal() -> None:
    master, slave = pty.openpty()
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    running = subprocess.Popen([sys.executable, "-c", SLOW], stderr=slave, env={**os.environ, "TERM": "xterm"}, **pipes)
    os.close(slave)
    seen = ""
    while "reading it" not in seen:
        seen += os.read(master, 65536).decode()
    out, _ = running.communicate("\n", timeout=WAIT_S)
    os.close(master)
    assert out == "done\n"


def test_progress_bar_is_not_shown_in_a_pipe_or_on_a_terminal_that_cannot_erase_it() -> None:
    code = SLOW.replace("sys.stdin.readline()", "__import__('time').sleep(0.8)")
    piped = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (piped.stdout, piped.stderr) == ("done\n", "")
    master, slave = pty.openpty()
    env = {**os.environ, "TERM": "dumb"}
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=slave, env=env, check=True)
    assert done.stdout == b"done\n"
    assert select.select([master], [], [], 0)[0] == []
    os.close(master)
    os.close(slave)


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_terminal_without_utf8_gets_the_same_lines(tiny: Invoke, encoding: str) -> None:
    tiny("tag", "/tiny/rack0", "Größe=核")
    env = {**os.environ, "PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"}
    running = process("show", env=env, text=False)
    out, err = running.communicate(timeout=WAIT_S)
    lines = out.decode(encoding).splitlines()
    assert (running.returncode, len(lines)) == (0, len(tiny("show").stdout.splitlines())), err
    assert lines[1].startswith("|- rack0")
    assert "\\u6838" in lines[1]
    status, text, _ = finish(process("find", "name=rack0", "--json", env=env))
    assert status == 0
    assert json.loads(text)["pools"][0]["tags"] == {"Größe": "核"}
