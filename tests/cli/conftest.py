"""A separate store for every test, and three ways to run commands: in this process, in another one, as a transcript."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from fluxres import clock
from fluxres.cli.program import program
from fluxres.store import journal

MACHINE = Path(__file__).with_name("machine.yaml")

Invoke = Callable[..., Result]


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory without a store, and a fixed clock."""
    for name in [name for name in os.environ if name.startswith(("FLUXRES_", "NO_COLOR", "TERM", "OMP_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setattr(clock, "system", clock.fixed(1000.0))
    monkeypatch.setattr(journal, "os_user", lambda: "ada")
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def fluxres() -> Invoke:
    """Run a command in this process; fails unless it ends with `status`."""

    def invoke(*args: str, status: int = 0, stdin: str | None = None) -> Result:
        result = CliRunner().invoke(program, list(args), input=stdin)
        assert result.exit_code == status, f"fluxres {' '.join(args)}\n{result.output}"
        return result

    return invoke


@pytest.fixture
def tiny(fluxres: Invoke) -> Invoke:
    """The same, with the small machine loaded."""
    fluxres("load", str(MACHINE))
    return fluxres


def process(*args: str, **settings: object) -> subprocess.Popen[str]:
    """A command in a process of its own."""
    command = [sys.executable, "-c", "import sys; from fluxres.cli.main import main; sys.exit(main())", *args]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL, "text": True, **settings}
    return subprocess.Popen(command, **pipes)  # type: ignore[call-overload, no-any-return]  # the settings are those of Popen
