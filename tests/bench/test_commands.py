"""Complete commands, each in a new process, on the El Capitan file, 1.4 million pools.

`pytest tests/bench/test_commands.py -m bench`.  The targets are in specs/performance.md: 2 s for the load, 0.5 s for every
later command, 0.15 s for help.  Python must be allowed to keep its byte code, as in any installation.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.traceability import ROOT

pytestmark = pytest.mark.bench

MACHINE = ROOT / "data" / "clusters" / "el-capitan.yaml"
START = "import sys; from fluxres.cli.main import main; sys.exit(main())"
ROUNDS = 5

Run = Callable[..., None]

COMMANDS = {
    "info": ["info"],
    "show": ["show"],
    "show node": ["show", "/elcap/rack0/elcap1"],
    "find type": ["find", "type=node"],
    "find available": ["find", "type=memory and available>=64", "--limit", "10"],
    "find all cores": ["find", "type=core", "-o", "folded"],
    "find all available": ["find", "available>0"],
    "jobs": ["jobs"],
    "info rack": ["info", "/elcap/rack0"],
    "tag": ["tag", "/elcap/rack0", "seen"],
    "state": ["state", "/elcap/rack[0-3]", "up"],
    "graphs": ["graphs"],
    "check": ["check"],
    "log": ["log"],
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Run a command with a separate store."""
    folder: Path = tmp_path_factory.mktemp("store")
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    environment["FLUXRES_STORE"] = str(folder / "bench.db")
    environment["PYTHONPYCACHEPREFIX"] = str(folder / "bytecode")

    def command(*words: str) -> None:
        subprocess.run([sys.executable, "-c", START, *words], check=True, env=environment, stdout=subprocess.DEVNULL, cwd=ROOT)

    return command


@pytest.fixture(scope="module")
def loaded(run: Run) -> Run:
    """The same, with the machine loaded and some jobs on it."""
    run("load", str(MACHINE), "--replace")
    for rack in range(3):
        run("allocate", f"/elcap/rack{rack}", "--job", f"j{rack}", "--duration", "1h")
    return run


def test_help(benchmark: Any, run: Run) -> None:
    run("--help")
    benchmark.pedantic(run, ("--help",), rounds=ROUNDS)


def test_load(benchmark: Any, run: Run) -> None:
    benchmark.pedantic(run, ("load", str(MACHINE), "--replace"), rounds=3)


@pytest.mark.parametrize("name", COMMANDS)
def test_command(benchmark: Any, loaded: Run, name: str) -> None:
    benchmark.pedantic(loaded, COMMANDS[name], rounds=ROUNDS)


def test_allocate_and_free(benchmark: Any, loaded: Run) -> None:
    """Two commands, one after the other."""

    def both() -> None:
        loaded("allocate", "/elcap/rack5/elcap[641-660]", "--job", "bench")
        loaded("free", "bench")

    benchmark.pedantic(both, rounds=ROUNDS)
