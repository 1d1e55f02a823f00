"""What a completing shell is offered, and what bash makes of it."""

from __future__ import annotations

import os
import pty
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from fluxres.cli import shells
from fluxres.cli.program import COMMANDS, program
from fluxres.cli.settings import Settings
from fluxres.graph.kinds import STATES
from fluxres.syntax.criteria import KEYS
from tests.cli.conftest import MACHINE, Invoke

WAIT_S = 30
FILE = "(files)"


def offered(*words: str) -> list[str]:
    """The continuations of the last word; file names as `FILE`."""
    completer = ShellComplete(program, {"obj": Settings()}, "fluxres", shells.VARIABLE)
    items = completer.get_completions([*words[:-1]], words[-1])
    return [FILE if item.type == "file" else item.value for item in items]


@pytest.mark.parametrize(
    "words",
    [
        ("load", ""),
        ("load", "data/"),
        ("load", "--changes", ""),
        ("check", "d"),
        ("convert", "a"),
        ("convert", "a", "b"),
        ("merge", "rack"),
        ("save", ""),
        ("copy", "--as", "x"),
        ("simulate", "t"),
        ("simulate", "t", "--machine", "m"),
        ("instance", "run", "w"),
        ("experiment", "run", "s"),
        ("experiment", "show", "s"),
        ("hierarchy", "--machine", "m"),
        ("when", "job"),
        ("info", "--store", "s"),
    ],
    ids=" ".join,
)
def test_files_are_left_to_the_shell(tiny: Invoke, words: tuple[str, ...]) -> None:
    assert offered(*words) == [FILE]


def test_values_are_those_of_the_graph_and_of_the_tables(tiny: Invoke) -> None:
    tiny("allocate", "/tiny/rack0/node0", "--job", "j17")
    tiny("stage", "/tiny/rack1", "--job", "j18")
    assert offered("state", "/tiny/rack0", "dr") == ["drain"]
    assert offered("state", "/tiny/rack0", "") == list(STATES)
    assert "drain" not in offered("state", "")
    assert offered("state", "/tiny/rack0", "/tiny/rack1") == ["/tiny/rack1"]
    assert offered("state", "/tiny/ra") == ["/tiny/rack0", "/tiny/rack1"]
    assert offered("info", "--graph", "t") == offered("merge", "t") == ["tiny"]
    assert offered("show", "--subsystem", "") == ["power", "network"]
    assert offered("stage", "--commit", "") == offered("stage", "--release", "s") == ["s0"]
    assert offered("load", "hw") == ["hwloc:"]
    assert offered("load", "thi") == offered("convert", "thi") == ["this-machine"]
    assert offered("convert", "a", "b", "--to", "treep") == offered("formats", "treep") == ["treepool"]
    assert offered("load", "x", "--format", "slurm") == ["slurm", "slurm-json"]
    assert "slurm" not in offered("save", "x", "--format", "")
    assert offered("simulate", "x", "-Q", "easy-s") == offered("hierarchy", "--queue-policy", "easy-s") == ["easy-sjbf"]
    assert offered("simulate", "x", "-M", "loca") == offered("why", "--match-policy", "loca") == ["locality"]
    assert offered("jobs", "") == offered("log", "--job", "") == offered("copy", "--job", "j") == ["j17"]
    assert offered("jobs", "--user", "") == offered("jobs", "-u", "a") == ["ada"]
    tiny("reserve", "/tiny/rack0/node2", "--start", "+2h", "--duration", "1h", "--name", "pump")
    assert offered("reserve", "--remove", "") == ["pump"]
    assert offered("allocate", "-w", "node4") == ["node4"]
    assert offered("help", "crit") == ["criteria"]
    assert offered("find", "-o", "p") == ["paths"]


@pytest.mark.parametrize(
    ("typed", "then"),
    [
        ("type=no", ["type=node"]),
        ("type=node,co", ["type=node,core"]),
        ("state=de", ["state=degraded"]),
        ("type=node and st", ["state=", "state!=", "state~", "staged", "staged=", "staged!="]),
        ("(not ba", ["basename=", "basename!=", "basename~"]),
        ("type=node ", ["and ", "or "]),
        ("type=node a", ["and "]),
        ("type=node and subsystem=", ["subsystem=power", "subsystem=network"]),
        ("hierarchy=t", ["hierarchy=tiny"]),
        ("job=", ["job=j17"]),
        ("property=s", ["property=ssd"]),
        ("tag=", ["tag=seen"]),
        ("id=", []),
        ("nonsense=", []),
    ],
)
def test_criteria_are_continued(tiny: Invoke, typed: str, then: list[str]) -> None:
    tiny("allocate", "/tiny/rack0/node0", "--job", "j17")
    tiny("tag", "/tiny/rack0", "seen")
    before = typed[: max(typed.rfind(" "), typed.rfind("(")) + 1]
    assert [found.removeprefix(before) for found in offered("find", typed)] == then
    assert [found.removeprefix(before) for found in offered("tag", "--find", typed)] == then


def test_all_keys_of_criteria_are_offered(tiny: Invoke) -> None:
    assert {word.rstrip("=!<>~") for word in offered("find", "")} == set(KEYS)


def test_partitions_are_offered(tiny: Invoke, place: Path) -> None:
    shutil.copy(MACHINE.with_name("partitions.yaml"), place)
    tiny("load", str(place / "partitions.yaml"), "--use")
    for words in (("allocate", "-p"), ("when", "--partition"), ("nodes", "-p")):
        assert offered(*words, "") == ["batch", "debug", "gpu"]


def test_a_store_that_cannot_be_read_offers_nothing(tiny: Invoke, place: Path) -> None:
    (place.parent / "data" / "fluxres" / "fluxres.db").write_bytes(b"not a database")
    for words in (("jobs", ""), ("info", "/"), ("show", "--subsystem", ""), ("find", "type="), ("stage", "--commit", "")):
        assert offered(*words) == []


def test_commands_are_offered_without_importing_them() -> None:
    code = """
import os, sys
os.environ |= {"_FLUXRES_COMPLETE": "bash_complete", "FLUXRES_LINE": "fluxres a"}
from fluxres.cli.program import run
run([])
print([name for name in sys.modules if name.startswith(("fluxres.cli.commands.", "numpy", "rich"))])
"""
    shown = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert shown.splitlines() == ["plain,allocate", "plain,apply", "[]"]
    assert offered("") == list(COMMANDS)


def test_lines_that_make_no_sense_are_silent(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for line in ("fluxres shwo x", "fluxres graphs nothing x", "fluxres find --nope x", "fluxres 'unclosed", "fluxres"):
        monkeypatch.setenv("FLUXRES_LINE", line)
        shells.complete(program, "bash_complete")
    assert capfd.readouterr().err == ""


@pytest.fixture
def bash(place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with a `fluxres` to run."""
    (place / "bin").mkdir()
    script = place / "bin" / "fluxres"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m fluxres "$@"\n', encoding="utf-8")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{place / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    return place


TYPED = {
    "fluxres allo": "cate ",
    "fluxres load dat": "a/",
    "fluxres load data/mach": "ine.yaml ",
    "fluxres info --graph t": "iny ",
    "fluxres show power:/p": "du",
    "fluxres show /tiny/rack1/no": "de",
    "fluxres find type=n": "ode ",
    "fluxres find 'type=node and prop": "erty",
    "fluxres state /tiny/rack0 dr": "ain ",
    "fluxres find --output=j": "son ",
}
"""What bash adds to a line."""


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_completes(tiny: Invoke, bash: Path) -> None:
    (bash / "data").mkdir()
    (bash / "data" / "machine.yaml").touch()
    process, terminal = pty.fork()
    if process == 0:
        os.execvpe("bash", ["bash", "--norc", "-i"], {**os.environ, "TERM": "dumb", "PS1": "", "INPUTRC": os.devnull})
    try:
        os.write(terminal, b"bind 'set bell-style none'; source <(fluxres completion bash); PS1=REA''DY\n")
        for line, added in TYPED.items():
            _until(terminal, "READY")
            os.write(terminal, line.encode())
            _until(terminal, line)
            os.write(terminal, b"\t")
            _until(terminal, added)
            os.write(terminal, b"\x15\n")  # empty the line: an interrupt may hit a completion that still runs
    finally:
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
        os.close(terminal)


@pytest.mark.skipif(shutil.which("fish") is None, reason="needs fish")
def test_fish_shows_whole_names_and_descriptions(tiny: Invoke, bash: Path) -> None:
    def completions(line: str) -> list[str]:
        script = f"fluxres completion fish | source; complete --do-complete '{line}'"
        return subprocess.run(
            ["fish", "--no-config", "-c", script], check=True, capture_output=True, text=True
        ).stdout.splitlines()

    assert completions("fluxres allo") == ["allocate\t" + COMMANDS["allocate"]]
    assert "node0,node1" in completions("fluxres show node0,node")


def test_the_script_for_fish_splits_at_the_first_comma() -> None:
    assert 'string split -m 1 ","' in shells.script(program, "fish")


def _until(terminal: int, text: str) -> str:
    seen, end = "", time.monotonic() + WAIT_S
    while text not in seen and time.monotonic() < end:
        if select.select([terminal], [], [], 0.1)[0]:
            seen += os.read(terminal, 65536).decode(errors="replace")
    assert text in seen, seen
    return seen
