"""The examples work as described, run like readers run them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from fluxres import Instance
from fluxres.instance.policy import names
from tests.instance.machines import on_nodes
from tests.traceability import ROOT

EXAMPLES = ROOT / "data" / "examples"
POLICY = EXAMPLES / "policy"
WAIT_S = 90


def python(*words: str, **environment: str) -> str:
    paths = os.pathsep.join(path for path in (environment.pop("PYTHONPATH", ""), str(ROOT)) if path)
    shown = subprocess.run(
        [sys.executable, *words],
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        env={**os.environ, **environment, "PYTHONPATH": paths, "PYTHONIOENCODING": "utf-8"},
        check=False,
    )
    assert shown.returncode == 0, shown.stderr
    return shown.stdout


def test_nested_instances_by_hand() -> None:
    told = python(str(EXAMPLES / "nested.py"))
    steps = [line for line in told.splitlines() if line.startswith("--")]
    assert steps == [
        "-- two children; solve waits for prepare",
        "-- site/ƒ2/ƒ1 has a part of site/ƒ2",
        "-- site/ƒ1 has grown by /demo/rack1/node6",
        "-- its 200 jobs are done, and it has given that back",
        "-- prepare failed; solve, which waited for it, failed",
        "-- workflow canceled, ensemble completed",
    ]
    cells = [line.split() for line in told.splitlines()]
    assert ["├─", "ensemble", "site/ƒ1", "fcfs", "low", "4", "64", "136"] in cells
    assert ["├─", "ensemble", "site/ƒ1", "fcfs", "low", "5", "80", "120"] in cells
    assert ["├─", "ensemble", "site/ƒ1", "fcfs", "low", "4", "0", "0"] in cells
    assert ["└─", "prepare", "site/ƒ2/ƒ1", "conservative", "high", "1", "1", "0"] in cells
    assert cells[-1] == ["site", "site", "easy", "low", "8", "0", "0"]


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """The installed package of the policy: its modules, and its project file as metadata."""
    project = tomllib.loads((POLICY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    metadata = tmp_path / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    groups = project["entry-points"]
    texts = (f"[{group}]\n" + "".join(f"{name} = {what}\n" for name, what in found.items()) for group, found in groups.items())
    (metadata / "entry_points.txt").write_text("\n".join(texts))
    for module in POLICY.glob("*.py"):
        (tmp_path / module.name).write_text(module.read_text(encoding="utf-8"), encoding="utf-8")
    return tmp_path


def test_custom_policy_is_twenty_lines() -> None:
    lines = (POLICY / "shortest_first.py").read_text(encoding="utf-8").splitlines()
    assert sum(bool(line.strip()) for line in lines) <= 20


def test_custom_policy_is_found_by_its_entry_point(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(installed)
    assert "shortest-first" in names()
    instance, clock = on_nodes(4, "shortest-first:patience-s=100", passes="manual")
    long, short, wide = (
        instance.submit(f"slot={size}/node", duration_s=length) for size, length in ((3, 50.0), (2, 10.0), (4, 200.0))
    )
    instance.schedule()
    assert (short.started_at, long.started_at, wide.started_at) == (0.0, None, None)
    clock.now_s = 10.0
    instance.finish(short)
    instance.schedule()
    assert long.started_at == 10.0
    clock.now_s = 150.0  # it is late now, and shorter jobs must not delay it
    instance.finish(long)
    narrow = instance.submit("slot=1/node", duration_s=5.0)
    instance.schedule()
    assert (wide.started_at, narrow.started_at) == (150.0, None)
    assert isinstance(instance, Instance)


def test_every_process_of_a_hierarchy_finds_a_custom_policy(installed: Path) -> None:
    start = "import sys; from fluxres.cli.main import main; sys.exit(main())"
    words = ["hierarchy", "-N", "2", "-c", "2", "-T", "2", "-J", "4", "-Q", "shortest-first", "--json"]
    told = json.loads(python("-c", start, *words, PYTHONPATH=str(installed)))
    assert [one["completed"] for one in told["topologies"]] == [4, 4]


def test_unknown_policy_is_refused_with_the_known_names() -> None:
    start = "import sys; from fluxres.cli.main import main; sys.exit(main())"
    words = [sys.executable, "-c", start, "hierarchy", "-N", "2", "-Q", "shortest-first", "-d"]
    shown = subprocess.run(words, capture_output=True, text=True, timeout=WAIT_S, cwd=ROOT, check=False)
    assert shown.returncode == 2
    assert "fcfs" in shown.stderr
