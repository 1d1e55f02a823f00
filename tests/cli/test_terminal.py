"""Commands on a terminal: tables fit into it, and piped output is complete."""

from __future__ import annotations

import csv
import fcntl
import io
import json
import os
import pty
import shutil
import signal
import socket
import struct
import termios
import threading
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import pytest

from fluxres import clock, limits
from fluxres.render.text import width
from tests.cli.conftest import MACHINE, Invoke
from tests.forks import Fork, output

On = Callable[..., list[str]]


@pytest.fixture
def on_terminal(monkeypatch: pytest.MonkeyPatch) -> On:
    """Run a command on a terminal of this width, and return its lines."""
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.setenv("TERM", "dumb")

    def run(columns: int, *args: str, status: int = 0) -> list[str]:
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        running = Fork(*args, terminal=theirs)
        os.close(theirs)
        read = b""
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:  # Linux: the other end is closed
                break
            if not part:
                break
            read += part
        os.close(ours)
        running.communicate()
        assert running.wait(60) == status, read.decode()
        return read.decode().replace("\r\n", "\n").splitlines()

    return run


COMMANDS = (
    ("nodes", "--reasons"),
    ("jobs",),
    ("jobs", "--pending"),
    ("jobs", "simulation-with-a-long-name"),
    ("reserve",),
    ("timeline", "--start", "2040-11-22T09:00", "--duration", "4h"),
    ("find", "type=node or type=memory"),
    ("log",),
    ("formats",),
    ("graphs",),
    ("info",),
    ("info", "/"),
    ("show",),
    ("check",),
    ("stage",),
    ("when", "slot=1/node"),
)


def piped(*args: str) -> str:
    done = output(*args)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def in_use(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data directory of somebody who has a machine in use, by the wall clock."""
    data = tmp_path_factory.mktemp("in-use")
    window = ("--start", "2040-11-22T09:42:12", "--duration", "1h")
    for command in (
        ("load", str(MACHINE)),
        ("allocate", "/tiny/rack0/node[0-1]/core[0-3]", "--job", "simulation-with-a-long-name", *window),
        ("allocate", "/tiny/rack0/node0/memory=16", "--job", "j2", *window),
        ("stage", "/tiny/rack1/node4", "--job", "j3", "--ttl", "1d"),
        ("reserve", "/tiny/rack0", *window, "--ignore-running", "--every", "7d", "--until", "2041-01-01"),
        ("state", "/tiny/rack1", "down", "--reason", "the cooling loop of the second row is replaced by the vendor"),
        ("tag", "/tiny/rack0/node2", "reason=the power supply is replaced by the vendor on Monday"),
    ):
        fork = Fork(*command, environment={**os.environ, "XDG_DATA_HOME": str(data)})
        fork.communicate()
        assert fork.wait() == 0
    return data


@pytest.fixture
def busy(in_use: Path, place: Path) -> None:
    """A store of this test with the machine in use."""
    shutil.copytree(in_use, os.environ["XDG_DATA_HOME"])


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
@pytest.mark.usefixtures("busy")
def test_every_table_fits_80_columns(on_terminal: On, command: tuple[str, ...]) -> None:
    lines = on_terminal(80, *command)
    assert lines
    assert [line for line in lines if width(line) > 80] == []
    if command != ("show",):
        assert on_terminal(80, *command, "-o", "wide") == piped(*command).splitlines()


@pytest.mark.usefixtures("busy")
@pytest.mark.parametrize(
    "command", [("nodes",), ("jobs",), ("timeline", "--by", "job"), ("info",)], ids=lambda command: command[0]
)
def test_watch_redraws_a_terminal_until_ctrl_c(monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]) -> None:
    monkeypatch.setenv("TERM", "xterm")
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 4, 80, 0, 0))
    env = {name: value for name, value in os.environ.items() if name not in {"LINES", "COLUMNS"}}  # readline sets them
    running = Fork(*command, "--watch", "0.5", environment=env, terminal=theirs)
    os.close(theirs)
    read = b""
    while read.count(b"every 0.5 s") < 3:
        read += os.read(ours, 65536)
    running.send_signal(signal.SIGINT)
    running.communicate()
    assert running.wait(60) == 0
    text = read.decode()
    assert f"fluxres {' '.join(command)}" in text
    assert "Traceback" not in text
    assert "more lines" in text, text
    os.close(ours)


@pytest.mark.usefixtures("busy")
def test_watch_prints_one_after_the_other_into_a_pipe() -> None:
    running = Fork("jobs", "--watch", "0.5", "-o", "csv")
    heads = (line for line in running.stdout if line.startswith("job,user"))
    assert len([*islice(heads, 2)]) == 2
    running.send_signal(signal.SIGINT)
    assert running.wait(60) == 0
    assert running.communicate()[1] == ""


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
@pytest.mark.usefixtures("busy")
def test_every_table_can_be_csv(command: tuple[str, ...]) -> None:
    rows = [*csv.reader(io.StringIO(piped(*command, "-o", "csv")))]
    assert len({len(row) for row in rows}) <= 1
    assert rows or command == ("check",)


@pytest.mark.usefixtures("busy")
def test_csv_has_the_keys_and_the_exact_values_of_json() -> None:
    rows = [*csv.DictReader(io.StringIO(piped("jobs", "j2", "-o", "csv")))]
    spans = json.loads(piped("jobs", "j2", "--json"))["allocated"]
    assert rows == [{key: "" if value is None else str(value) for key, value in span.items()} for span in spans]


def test_what_a_change_has_to_say_can_be_csv_too(tiny: Invoke) -> None:
    tiny("allocate", "/tiny/rack0/node0", "--job", "j", "--end", "1001")
    tiny("reserve", "/tiny/rack1", "--name", "pump", "--start", "2000", "--duration", "1h")
    tiny("stage", "/tiny/rack0/node1", "--job", "k")
    assert tiny("reserve", "--remove", "pump", "-o", "csv").stdout == "removed\npump\n"
    assert tiny("stage", "--release", "s0", "-o", "csv").stdout == "released\ns0\n"
    with pytest.MonkeyPatch.context() as later:
        later.setattr(clock, "system", clock.fixed(1001.0))
        assert tiny("free", "--ended", "-o", "csv").stdout == "ended\nj\n"


def test_a_command_refuses_a_format_that_it_does_not_have(tiny: Invoke) -> None:
    forms = ("paths", "folded", "R", "rv1", "rv1_shorthand", "swf")
    for command in (*(["graphs", "-o", form] for form in forms), ["show", "-o", "R"], ["tag", "/tiny/rack0", "a=b", "-o", "csv"]):
        assert f"no output '{command[-1]}'" in tiny(*command, status=2).output
    assert "a=b" not in tiny("show", "/tiny/rack0").stdout


def test_help_names_the_formats_of_a_command(fluxres: Invoke) -> None:
    assert "-o table|wide|csv|json|paths|folded, --json," in " ".join(fluxres("find", "--help").output.split())
    assert "-o table|json, --json," in " ".join(fluxres("tag", "--help").output.split())


def test_the_word_error_is_red_on_a_terminal_only(tiny: Invoke, on_terminal: On, monkeypatch: pytest.MonkeyPatch) -> None:
    assert on_terminal(80, "show", "/nowhere", status=2)[0].startswith("fluxres: ERROR ")  # TERM=dumb
    monkeypatch.setenv("TERM", "xterm")
    assert on_terminal(80, "show", "/nowhere", status=2)[0].startswith("fluxres: \x1b[31mERROR\x1b[0m ")
    assert "\x1b" not in tiny("show", "/nowhere", status=2).output


def test_intervals_and_widths_have_bounds(tiny: Invoke) -> None:
    for seconds in (limits.WATCH_SECONDS_MIN / 2, limits.WATCH_SECONDS_MAX * 2):
        assert "--watch: expected an interval of" in tiny("nodes", f"--watch={seconds:g}", status=2).output
    assert "20000" in tiny("timeline", "--width", str(limits.CHART_WIDTH_MAX + 1), status=2).output


def test_a_server_that_does_not_answer_is_named(on_terminal: On) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"http://127.0.0.1:{server.getsockname()[1]}"

        def refuse_late() -> None:
            connected, _ = server.accept()
            with connected:
                connected.recv(65536)
                time.sleep(4)
                connected.sendall(b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n")

        threading.Thread(target=refuse_late, daemon=True).start()
        notice, error = on_terminal(120, "--store", address, "jobs", status=4)
    assert notice == f"fluxres: waiting for {address}, which has not answered yet (Ctrl-C stops)"
    assert error.startswith("fluxres: ERROR ")
