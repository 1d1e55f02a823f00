"""The journal knows who caused an event, and the store whose a job is."""

from __future__ import annotations

from pathlib import Path

import pytest

import fluxres
from fluxres import Resource
from fluxres.store import journal, open_store


def test_the_journal_names_the_user_and_replay_keeps_the_facts_of_jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(str(tmp_path / "x.db"), clock=lambda: 5.0)
    monkeypatch.setattr(journal, "os_user", lambda: "ada")
    store.put("lab", fluxres.build(Resource("node", 2), name="lab"))
    monkeypatch.setattr(journal, "os_user", lambda: "eve")
    with store.writing() as change:
        change.graph.allocate("slot/node", job="j", duration_s=9, user="bob", name="x")
        change.graph.allocate_all([("slot/node", "k")], duration_s=9, user="cy")
        change.graph.set_state("/lab/node0", "drain", reason="fan", user="bob")
    assert [(entry.user, entry.event["event"]) for entry in store.log()] == [
        ("ada", "load"),
        ("eve", "allocate"),
        ("eve", "allocate_all"),
        ("eve", "state"),
    ]
    assert [entry.seq for entry in store.log(user="ada")] == [1]
    graph = store.load()
    facts = graph.facts("j")
    assert (facts.user, facts.name, facts.submitted) == ("bob", "x", 5_000_000)
    assert graph.facts("k").user == "cy"
    assert graph.pool("/lab/node0").state_note == ("fan", "bob", 5.0)
    graph.set_state("/lab/node0", "up")
    assert graph.pool("/lab/node0").state_note is None
    graph.free("j")
    assert "j" not in graph.records.facts


def test_an_event_of_an_earlier_version_has_no_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(str(tmp_path / "x.db"))
    monkeypatch.setattr(journal, "os_user", lambda: None)
    store.put("lab", fluxres.build(Resource("node"), name="lab"))
    assert [entry.user for entry in store.log()] == [""]


def test_a_user_without_a_name_has_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 123_456_789)
    assert journal.os_user.__wrapped__() == "uid 123456789"


@pytest.mark.parametrize("wrong", ["", "a\nb", "x" * 300, 5])
def test_a_user_or_a_reason_is_printable_text(wrong: object) -> None:
    graph = fluxres.build(Resource("node"), name="lab")
    with pytest.raises(fluxres.UsageError, match="user: expected"):
        graph.allocate("slot/node", job="j", duration_s=1, user=wrong)
    with pytest.raises(fluxres.UsageError, match="reason: expected"):
        graph.set_state("/lab", "down", reason=wrong)
    assert graph.revision == 0
