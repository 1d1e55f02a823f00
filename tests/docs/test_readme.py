"""What the README shows besides commands: its cluster file is one, and what it points to is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import fluxres
from tests.traceability import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
FILES = re.findall(r"^```yaml\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def test_it_shows_a_cluster_file() -> None:
    assert len(FILES) == 1
    assert len(FILES[0].splitlines()) <= 10


@pytest.mark.parametrize("text", FILES)
def test_the_cluster_file_describes_a_machine(text: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(text, encoding="utf-8")
    graph = fluxres.load(file)
    assert graph.aggregate() == {"cluster": 1, "node": 16, "core": 1024, "memory": 8192}
    assert graph.pool("/mine/n16").id == 16
    assert graph.check() == []


def test_what_it_points_to_is_there() -> None:
    targets = re.findall(r"\]\(([^)]+)\)", README) + re.findall(r"`((?:specs|data)/[^`]+)`", README)
    assert targets
    assert [target for target in targets if not (ROOT / target).exists()] == []


def test_the_policy_it_shows_is_the_example() -> None:
    (shown,) = re.findall(r"^```python\n(from fluxres import QueuePolicy.*?)^```$", README, re.MULTILINE | re.DOTALL)
    example = (ROOT / "data" / "examples" / "policy" / "shortest_first.py").read_text(encoding="utf-8")
    assert shown[shown.index("class ") :].strip() in example
