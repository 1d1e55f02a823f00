"""Some courses of the campaign on graphs whose changes are stored, and whether it detects mistakes."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from fluxres.graph.structure import Structure
from fluxres.model import ResourceGraph, changes, events
from tests.instance import meeting
from tests.instance.journalled import Journalled


def test_rule_d1_changes_by_instances_are_read_back(tmp_path: Path) -> None:
    wrong, counts = meeting.run(1, 12, make=partial(Journalled, folder=tmp_path))
    assert wrong == []
    assert counts["depth 2"] > 10


def _new_work(graph: ResourceGraph, event: events.Event) -> None:
    """Replay an event as if all jobs in it were new work."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Structure, "lifted", lambda _: nullcontext())
        APPLY(graph, event)


def _unrecorded(graph: ResourceGraph, job: str, pieces: list[Any]) -> None:
    graph.records.free(pieces, job)
    graph.revision += 1


APPLY = events.apply
MISTAKES: dict[str, tuple[Any, str, Any]] = {
    "a job that continues is treated as new work": (events, "apply", _new_work),
    "what a child returns is not recorded": (changes, "free_pieces", _unrecorded),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_detected(mistake: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, name, wrong = MISTAKES[mistake]
    monkeypatch.setattr(owner, name, wrong)
    found, _ = meeting.run(1, 60, stop_at=1, make=partial(Journalled, folder=tmp_path))
    assert found
