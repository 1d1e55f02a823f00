"""Whatever words follow the name of a command, it succeeds or reports an error (rule E1)."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from fluxres.cli import watching
from fluxres.cli.program import COMMANDS, program
from tests.choices import among, integers
from tests.cli.conftest import MACHINE, Invoke

WORDS = [
    *Path(__file__).with_name("words.txt").read_text(encoding="utf-8").split(),
    "",
    " ",
    "\udcff",
    "\x1b[2J",
    "é" * 300,
    "9" * 400,
]
# A command line cannot contain a NUL.
OTHERS = st.text(st.characters(exclude_characters="\0"), max_size=5)
# Commands that would run a word as a program only print what they would do.
HARMLESS = {"hierarchy": ["--dry-run"]}
# `serve` ends by a signal only.
ENDING = [name for name in COMMANDS if name != "serve"]
READING = {"info", "show", "find", "when", "why", "jobs", "log", "formats", "check", "completion", "help"}


@pytest.fixture(autouse=True)
def watched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """`--watch` ends by Ctrl-C only."""
    monkeypatch.setattr(watching, "_repeat", lambda _settings, _every_s, run: run())


@pytest.fixture
def stored(tiny: Invoke, place: Path) -> Path:
    """The data directory of a store with a machine and a job, from which each example starts."""
    shutil.copy(MACHINE, place / "machine.yaml")
    tiny("allocate", "/tiny/rack0/node0", "--job", "j1")
    tiny("stage", "/tiny/rack1/node3", "--job", "j2")
    return place.parent / "data"


@given(st.sampled_from(ENDING), st.lists(st.sampled_from(WORDS) | OTHERS, max_size=7))
@example("when", ["--policy", "/"])
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_command_succeeds_or_reports_an_error(stored: Path, command: str, words: list[str]) -> None:
    result = CliRunner().invoke(program, [command, *HARMLESS.get(command, []), *words])
    assert result.exception is None or isinstance(result.exception, SystemExit), (command, words, result.exc_info)
    assert result.exit_code in (0, 1, 2, 3, 4)
    reported = re.search(r'^(fluxres: ERROR|\{"error")', result.stderr, re.MULTILINE) is not None  # notes may come before it
    assert (result.exit_code != 0) == reported or (command == "why" and result.exit_code in (1, 3) and result.stdout)
    if command not in READING and result.exit_code == 0 and not result.stdout.startswith("Usage"):
        checked = CliRunner().invoke(program, ["check", "--graph", "tiny"])
        assert checked.exit_code in (0, 2), checked.output


# Plausible values, by the names of parameters.
LIKELY_WORDS = {
    "words": "/tiny/rack0 /tiny/rack1/node3/core[0-3] /tiny/rack0/node1/memory=8 power:/pdu0",
    "nodes tasks cores gpus": "1 2 3 40 0 2-3",
    "policy": "first high locality pack",
    "pools path where": "/tiny/rack0 /tiny/rack[0-1]/node[0-5] /tiny/rack0/node1 /tiny/rack1/node3/core[0-3] power:/pdu0",
    "criteria": "type=node type=memory job=j1 name=login1 size>=0",
    "at start end after": "now +30m 3600 0 5000 2040-01-01 noon tomorrow monday -",
    "duration ttl": "30m 1h inf 0",
    "job": "j1 j2 j3",
    "depth limit": "1 2 100",
    "commit release": "s0 s1",
    "shell": "bash zsh fish",
    "subsystem hierarchy": "power network",
    "source name graph": "tiny machine.yaml other out.yaml out.db",
    "dest changes": "other out.yaml out.db out.json -",
    "during": "now..+1h 0.. 0..5000",
    "state": "up down drain null",
    "tag": "k k=v",
    "output": "table json paths folded",
    "color": "always never",
    "wait_s": "1",
    "N n c g tasks_per_node gpus_per_node cores": "1 2 2-3 x",
    "time": "90 1:00:00 1-12 2h30m soon",
    "nodelist": "node0 node[0-3] [",
    "constraint requires": "ssd a&b [a] -slow",
}
REQUESTS = [
    "node{x}",
    "slot=2/core=2",
    "slot=9/[core;memory=8]",
    "slot=3/node",
    "-n2 -c2",
    "-N2 -x",
    "-N9",
    "--nodes=2 --time 1:00:00",
    "--cores 4 -w node[0-1]",
    "node=2{x,!slow}",
    "slot/[core;memory=2GiB]",
    "node=2",
    "slot/gpu",
    "-",
]
LIKELY = {name: words.split() for names, words in LIKELY_WORDS.items() for name in names.split()}
NAMES = st.sampled_from([name for name in ENDING if name not in ("completion", "help")])
ANY = st.sampled_from([word for word in WORDS if not word.startswith("--")])


@st.composite
def lines(draw: st.DrawFn) -> list[str]:
    """A command with the number of words that it accepts, mostly plausible ones, and with its options."""
    name = draw(NAMES)
    command = program.get_command(click.Context(program), name)
    assert command is not None
    line = [name, *HARMLESS.get(name, [])]
    for param in command.params:
        word = among(*LIKELY.get(param.name or "", WORDS)) if draw(integers(0, 15)) else ANY
        if param.name == "words" and draw(st.booleans()):
            line.append(draw(among(*REQUESTS)))
        elif isinstance(param, click.Argument):
            line += draw(st.lists(word, min_size=param.nargs == 1, max_size=1 if param.nargs == 1 else 3))
        elif isinstance(param, click.Option) and param.name != "store" and (param.required or not draw(integers(0, 14))):
            line += [draw(among(*param.opts))] + ([] if param.is_flag else [draw(word)])
    return line


@given(lines())
@example(["free", "/", "--end", "noon", "--ended", "--json", "--no-header"])
@example(["jobs", "--watch", "2"])
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_parsed_line_succeeds_or_reports_an_error(stored: Path, line: list[str]) -> None:
    result = CliRunner().invoke(program, line)
    assert result.exception is None or isinstance(result.exception, SystemExit), (line, result.exc_info)
    assert result.exit_code in (0, 1, 2, 3, 4)
    told = "ERROR" in result.stderr or '{"error"' in result.stderr
    assert (result.exit_code != 0) == told or (line[0] == "why" and result.exit_code in (1, 3) and result.stdout)
