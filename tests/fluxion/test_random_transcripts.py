"""A short run of the random transcripts, and tests that their checker detects errors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fluxres.fluxion import matching, record, traverser
from fluxres.fluxion.graph import Vertex
from fluxres.fluxion.scores import Scores
from tests.fluxion import random_transcripts
from tests.fluxion.answer_checker import Grant, Ledger, Wrong, meets
from tests.fluxion.random_machine import Machine, Pool
from tests.fluxion.random_requests import Values
from tests.fluxion.random_transcripts import Answer, answers, compare

SHORT = 20
BROKEN = 8
"""Transcripts of a program with a part that is broken: one that notices is enough."""


def test_short_run_has_no_findings() -> None:
    counts, findings = random_transcripts.campaign(1, transcripts=SHORT)
    assert not findings, "\n".join(findings[:3])
    for kind in ("allocated", "reserved", "matched", "refused", "cancel", "partial-cancel", "find", "update", "attach"):
        assert counts[kind] > 0, counts


def findings(monkeypatch: pytest.MonkeyPatch, holder: Any, name: str, broken: Any) -> str:
    """The findings of a run in which a part of the program is replaced by a broken one."""
    monkeypatch.setattr(holder, name, broken)
    return "\n".join(random_transcripts.campaign(1, transcripts=BROKEN)[1])


def test_granted_held_pools_are_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "is held then" in findings(monkeypatch, Vertex, "available", lambda self, at, duration: self.size)


def test_granted_down_pools_are_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    window: Callable[..., Any] = matching.Window

    def any_state(*words: Any, **more: Any) -> Any:
        return window(*words, **more | {"only_up": False})

    assert "is granted and down" in findings(monkeypatch, matching, "Window", any_state)


def test_violated_constraints_are_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "is granted against" in findings(monkeypatch, traverser, "accepts", lambda constraint, vertex: True)


def test_missing_releases_are_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    def forgets(vertex: Vertex, job: int) -> None:
        vertex.scheduled().sharer_spans.pop(job)

    assert "is not free" in findings(monkeypatch, record, "forget", forgets)


def test_incomplete_grants_are_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    real = Scores.choose
    assert "are granted" in findings(
        monkeypatch, Scores, "choose", lambda self, type_, units: real(self, type_, max(units - 1, 1))
    )


def test_exceptions_are_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "ZeroDivisionError" in findings(monkeypatch, traverser, "fill", lambda slot, inner: 1 // 0)


def tiny() -> Machine:
    root = Pool("cluster", "c0", 0)
    for number in range(2):
        node = root.add(Pool("node", f"n{number}", number, number))
        node.add(Pool("core", "core0", 0))
        node.add(Pool("core", "core1", 1))
    return Machine(root, "jgf", "")


def slot(*below: tuple[str, int], count: int = 1) -> Values:
    return {"type": "slot", "count": count, "label": "s", "with": [{"type": type_, "count": number} for type_, number in below]}


CORES = (("/c0/n0/core0", True, 1), ("/c0/n0/core1", True, 1), ("/c0/n0", False, 1), ("/c0", False, 1))


@pytest.mark.parametrize(
    ("resources", "message"),
    [
        ([slot(("core", 3))], "are granted"),
        ([slot(("core", 1), count=3)], "are granted"),
        ([slot(("core", 1), count=1)], "1 are asked for"),
        ([slot(("node", 1))], "are granted"),
        ([{"type": "node", "count": 2, "with": [slot(("core", 1))]}], "are granted"),
        ([slot(("core", 1)), slot(("core", 1))], "siblings"),
    ],
)
def test_wrong_grants_are_detected(resources: list[Values], message: str) -> None:
    grant = Grant(tiny(), CORES, set())
    grant.check_pools(None)
    with pytest.raises(Wrong, match=message):
        grant.check_any(resources, flexible=False)
    grant.check_any([slot(("core", 2))], flexible=False)
    grant.check_any([slot(("core", 1), count=2)], flexible=False)


def test_ledger_knows_the_earliest_start() -> None:
    ledger = Ledger(tiny(), [("ALL", "core")])
    request = {"resources": [slot(("core", 1), count=3)], "attributes": {"system": {"duration": 5}}}
    assert ledger.earliest(request) == 0
    one = {"resources": [slot(("core", 2))], "attributes": {"system": {"duration": 9.5}}}
    ledger.grant(1, one, CORES, 0, record=True)
    assert ledger.earliest(request) == 10
    with pytest.raises(Wrong, match="is held then"):
        ledger.grant(2, one, CORES, 9, record=True)
    ledger.grant(2, one, CORES, 10, record=True)
    assert ledger.earliest(request) == 20


def test_differing_forms_are_detected() -> None:
    nodes = [{"id": "0", "metadata": {"type": "node", "rank": 0, "id": 0, "paths": {"containment": "/n0"}, "exclusive": True}}]
    found: dict[str, Any] = {"nodes": nodes, "edges": []}
    compare("simple", found, "      ---n0[1:x]\n", "containment")
    for form, text in (("simple", "      ---n0[1:s]\n"), ("pretty_simple", ""), ("rv1_nosched", "{}"), ("jgf_shorthand", "")):
        with pytest.raises(Wrong):
            compare(form, found, text, "containment")
    with pytest.raises(Wrong):
        answers("something that is no block")
    rule = random_transcripts.RULE
    assert answers(f"{rule}\nINFO: JOBID=1\n{rule}\n") == [Answer("", ("JOBID=1",))]


def test_constraints_of_the_checker(tmp_path: Path) -> None:
    pool = Pool("node", "n0", 0, 3, properties={"a@b": ""})
    yes: list[Values] = [
        {"properties": ["a@b", "^a"]},
        {"ranks": ["3"]},
        {"not": [{"hostlist": ["n1"]}]},
        {"or": [{"ranks": ["3"]}]},
    ]
    assert all(meets(constraint, pool) for constraint in yes)
    assert not any(meets({"not": [constraint]}, pool) for constraint in yes)
