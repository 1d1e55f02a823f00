"""`fluxres run` in processes of their own, with a store for each test."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import fluxres
from fluxres.store import Ticket, open_store
from tests.forks import Fork

PATIENCE_S = 60.0
"""How long something may take on a busy machine before a test gives up."""
FLUXRES = (sys.executable, "-m", "fluxres")
Started: TypeAlias = "subprocess.Popen[str] | Fork"


def wait_until(what: Callable[[], Any], patience_s: float = PATIENCE_S) -> Any:
    """What a function returns, once that is true."""
    deadline = time.monotonic() + patience_s
    while not (found := what()):
        assert time.monotonic() < deadline, "gave up"
        time.sleep(0.01)
    return found


def is_running(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


@dataclass
class Workstation:
    """A store with a machine of one node, and the processes started in a test."""

    folder: Path
    store: Path
    started: list[Started] = field(default_factory=list)

    @property
    def environment(self) -> dict[str, str]:
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("FLUXRES_", "CUDA_", "OMP_"))}
        return {**kept, "FLUXRES_STORE": str(self.store)}

    def popen(self, *words: str, bounds: Mapping[str, float] = {}, **settings: Any) -> Started:
        """A command of fluxres in the background: a fork, or with settings of `subprocess.Popen`, one in a new interpreter.

        Args:
            bounds: of `fluxres.limits`, where a fork has others.
        """
        process: Started
        if settings:
            assert not bounds
            given = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL, "text": True, **settings}
            process = subprocess.Popen([*FLUXRES, *words], env=self.environment, cwd=self.folder, **given)
        else:
            process = Fork(*words, bounds=bounds, environment=self.environment, folder=self.folder)
        self.started.append(process)
        return process

    def command(self, *words: str, status: int = 0, **settings: Any) -> str:
        """The output of a command of fluxres that ends with this status."""
        process = self.popen(*words, **settings)
        out, err = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == status, f"{words}: status {process.returncode}\n{out}{err}"
        return (out or "") + (err or "")

    def program(self, *request: str, script: str = "", **settings: Any) -> tuple[Started, int]:
        """A run whose program writes its process id to a file, and then runs a script of sh, or sleeps; with that id."""
        file = self.folder / f"program{len(self.started)}"
        shell = f"echo $$ > {file}.new; mv {file}.new {file}; {script or 'exec sleep 1000'}"
        process = self.popen("run", *request, "--", "sh", "-c", shell, **settings)
        return process, int(wait_until(lambda: file.exists() and file.read_text()))

    def graph(self) -> fluxres.ResourceGraph:
        return open_store(str(self.store)).load()

    def tickets(self) -> list[Ticket]:
        return open_store(str(self.store)).tickets()

    def processes(self, job: str) -> tuple[int, int, int]:
        """The ids of launcher, guardian and program."""
        launch = self.graph().facts(job).launch
        assert launch is not None
        launcher, guardian, program = (pid for pid, _ in launch.processes)
        return launcher, guardian, program

    def job_of(self, launcher: Started) -> str:
        facts = self.graph().records.facts
        return next(job for job, one in facts.items() if one.launch is not None and one.launch.processes[0][0] == launcher.pid)

    def end(self) -> None:
        for process in self.started:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.terminate()
        for process in self.started:
            with suppress(subprocess.TimeoutExpired):
                process.communicate(timeout=20)
            if process.poll() is None:
                process.kill()
                process.communicate()


MACHINE = """
fluxres: 1
name: ws
resources:
  - type: node
    hosts: ws
    with:
      - {type: core, count: 8}
      - {type: gpu, count: 2}
      - {type: memory, size: 1024, unit: MiB}
"""


def workstation(folder: Path) -> Workstation:
    """A store in a folder with a machine of eight cores and two GPUs."""
    made = Workstation(folder, folder / "ws.db")
    open_store(str(made.store)).put("ws", fluxres.loads(MACHINE))
    return made
