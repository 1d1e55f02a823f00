"""Rule D1: acknowledged changes survive `kill -9`; other changes are there completely or not at all."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from fluxres.store import open_store
from tests.crash import campaign
from tests.crash.writer import MAIN
from tests.store.graphs import fingerprint, machine
from tests.traceability import ROOT


@pytest.mark.parametrize(("kind", "kills"), [("sqlite", 6), ("postgresql", 4), ("etcd", 4)])
def test_rule_d1_acknowledged_changes_survive_kills(empty: Callable[[str], str], kind: str, kills: int) -> None:
    command = [sys.executable, "-m", "tests.crash.campaign", "--kills", str(kills), "--seed", "4", "--store", empty(kind)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=200, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"{kills} kills" in done.stdout
    assert ", 0 problems in" in done.stdout
    assert f": {kills} kills, 0 operations" not in done.stdout


def lost(tmp_path: Path, *statements: str) -> campaign.Tally:
    """The campaign's findings on a store that lost something on purpose."""
    path = tmp_path / "x.db"
    store = open_store(str(path))
    store.put(MAIN, machine())
    before = {MAIN: fingerprint(store.load())}
    with store.writing(MAIN, command="operation 1") as tx:
        tx.graph.tag(0, "operation", "1")
    after = {MAIN: fingerprint(store.load())}
    with closing(sqlite3.connect(path)) as db, db:
        for statement in statements:
            db.execute(statement)
    tally = campaign.Tally(kills=1)
    said = [{"word": word, "number": 1, "state": after} for word in ("try", "done")]
    campaign.judge(str(path), before, said, tally)
    tally.problems += campaign.journal_problems(str(path), {1})
    return tally


def test_campaign_finds_nothing_in_a_complete_store(tmp_path: Path) -> None:
    tally = lost(tmp_path)
    assert (tally.problems, tally.done) == ([], 1)


def test_campaign_finds_a_lost_operation(tmp_path: Path) -> None:
    tally = lost(tmp_path, "DELETE FROM events WHERE seq = 2", "UPDATE graphs SET seq = 1")
    assert "neither the acknowledged state" in tally.problems[0]
    assert "operation 1 was acknowledged and is not in the journal" in tally.problems[1]


def test_campaign_finds_a_lost_graph(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    open_store(str(path)).put("other", machine())
    tally = campaign.Tally()
    campaign.judge(str(path), {MAIN: "x", "other": fingerprint(machine())}, [], tally)
    assert len(tally.problems) == 1
