"""Small studies, and campaigns that run as separate processes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from fluxres.experiments import report, study
from fluxres.experiments.study import Run, Study

SMALL = """\
fluxres-experiment: 1
name: small
machine: node=2/core=4
unit: core
workload:
  lublin: {jobs: 30, size: 8}
repeats: 2
vary:
  hierarchy.queue_policy: [fcfs, easy]
baseline: {hierarchy.queue_policy: fcfs}
"""

Write = Callable[[str], Study]
Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def without_charts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports have no charts, which take most of the time of a report."""
    monkeypatch.setattr(report, "_charts", lambda *_: ([], []))


@pytest.fixture
def page(tmp_path: Path) -> Write:
    """Writes a study to a file and reads it."""

    def write(text: str) -> Study:
        path = tmp_path / "study.yaml"
        path.write_text(text, encoding="utf-8")
        return study.load(path)

    return write


def one(text: str) -> Run:
    """The only run of a study."""
    from fluxres.documents import yaml_document

    (run,) = study.of_document(yaml_document.load(text.encode()), Path()).runs
    return run


def start(*words: str, environment: Mapping[str, str] = {}) -> subprocess.Popen[str]:
    """`fluxres` as a process in its own process group."""
    command = [sys.executable, "-c", "import sys; from fluxres.cli.main import main; sys.exit(main())", *words]
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, **environment},
    )
