"""The examples in the help of commands work, and each stands in help as it is run here."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from fluxres.cli.examples import EXAMPLES, OF_SUBCOMMANDS, Example
from fluxres.cli.program import COMMANDS, program
from tests.cli.conftest import MACHINE
from tests.forks import Fork
from tests.traceability import ROOT

RACK = "fluxres: 1\nname: rack7\nroot: {type: rack, id: 7, with: [{type: node, count: 2, with: [{type: core, count: 4}]}]}\n"
SHELL = {"completion"}
"""Commands whose examples are for a shell."""
ONE_AFTER_THE_OTHER = {"experiment", "stage", "tag", "undo"}
"""Commands whose examples build on each other."""


def process_of(*words: str) -> None:
    running = Fork(*words)
    out, err = running.communicate(timeout=60)
    assert running.returncode == 0, f"fluxres {shlex.join(words)}\n{out}{err}"


def serve(*words: str) -> None:
    """A service on a free port, until it listens."""
    running = Fork(*words, "--port", "0")
    line = running.stdout.readline()
    running.terminate()
    _, err = running.communicate(timeout=60)
    assert (line.startswith("listening on http://127.0.0.1:"), running.returncode) == (True, 0), err


def run(command: str) -> str:
    words = shlex.split(command)
    assert words[0] == "fluxres"
    if words[1] == "serve":
        serve(*words[1:])
        return ""
    if words[1] in {"run", "shell"}:  # they fork, and wait for their children
        process_of(*words[1:])
        return ""
    result = CliRunner().invoke(program, words[1:])
    expected = 1 if words[1] == "why" and "-N8" in words else 3 if words[1] == "why" else 0
    assert result.exit_code == expected, f"{command}\n{result.output}"
    return result.stdout


@pytest.fixture
def demo(place: Path) -> Path:
    """The store in which the examples work, and the files that they name."""
    os.symlink(ROOT / "data", place / "data")
    (place / "rack.yaml").write_text(RACK, encoding="utf-8")
    shutil.copy(MACHINE.with_name("study.yaml"), place)
    shutil.copy(MACHINE, place)
    run("fluxres load data/clusters/demo.yaml --name spare")
    run("fluxres load data/clusters/demo.yaml")
    run("fluxres copy /demo/rack1 --as part")
    run("fluxres graphs use demo")
    run("fluxres allocate 'slot=2/[core=4;gpu=1]' --job j1 --duration 1h")
    run("fluxres allocate /demo/rack1/node7 --job old")
    run("fluxres free old")
    return place.parent / "data"


@pytest.mark.parametrize("name", [name for name in EXAMPLES if name not in SHELL])
def test_the_examples_of_a_command_work(name: str, demo: Path) -> None:
    saved = demo.with_name("saved")
    shutil.copytree(demo, saved)
    for example in EXAMPLES[name]:
        if name not in ONE_AFTER_THE_OTHER:
            shutil.rmtree(demo)
            shutil.copytree(saved, demo)
        if name == "merge":
            run("fluxres unlink /demo/rack1")
        if name == "child":
            run("fluxres allocate /demo/rack0/node[1-2] --job big --duration 2h")
            run("fluxres copy --job big --as part --replace")
        if name == "wait":
            process_of("run", "-n1", "--no-bind", "--job", "old", "--", "true")
        if name == "workload":
            run("fluxres workload lublin:days=21,size=8 trace.swf")
        run(example.command)


@pytest.mark.parametrize("name", OF_SUBCOMMANDS)
def test_the_examples_of_a_subcommand_work(name: str, demo: Path) -> None:
    run("fluxres load data/clusters/demo.yaml --replace")
    run("fluxres instance create main")
    submitted = {"ƒA": "-N2 -x -t 2h", "ƒB": "-N1 --urgency 0"}
    ids = {job: run(f"fluxres instance submit {words}").strip() for job, words in submitted.items()}
    if name in {"instance grow", "instance shrink"}:
        run(f"fluxres instance spawn {ids['ƒA']}")
    shown = CliRunner().invoke(program, [*name.split(), "--help"]).stdout
    for example in OF_SUBCOMMANDS[name]:
        assert f"  {example.what}:\n    {example.command}\n" in shown
        assert len(example.command) <= 76
        assert f"fluxres {name} " in example.command
        run(re.sub("ƒ[AB]", lambda found: ids[found[0]], example.command))


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_examples_in_its_help(name: str) -> None:
    shown = CliRunner().invoke(program, [name, "--help"]).stdout
    assert 1 <= len(EXAMPLES[name]) <= 3
    for example in EXAMPLES[name]:
        assert f"  {example.what}:\n    {example.command}\n" in shown
        assert len(example.command) <= 76
        assert f"fluxres {name}" in example.command or (name, example) == ("tag", Example("Find them", "fluxres find tag=reason"))


def test_examples_are_of_commands() -> None:
    assert sorted(EXAMPLES) == sorted(COMMANDS)
