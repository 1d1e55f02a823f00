"""The locks of a process on its database last, whatever else it reads there: others must not take it for unused."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import fluxres
from fluxres.store import open_store


def elsewhere(url: str) -> list[str]:
    """The jobs of a store, read by another process, which closes its only connection afterwards."""
    code = "import sys, fluxres; print(*fluxres.load(sys.argv[1]).jobs())"
    return subprocess.run([sys.executable, "-c", code, url], check=True, stdout=subprocess.PIPE, text=True).stdout.split()


def test_rule_d1_a_change_is_not_lost_when_others_look(tmp_path: Path) -> None:
    url = f"sqlite://{tmp_path}/site.db"
    fluxres.save(fluxres.load({"fluxres": 1, "name": "demo", "resources": [{"type": "node", "count": 4}]}), url)
    store, seen = open_store(url), list[str]()
    with fluxres.open(url) as graph:
        for number in range(3):
            job = f"j{number}"
            seen.append(job)
            graph.allocate("slot=1/node", job=job)
            assert [entry.event["job"] for entry in store.log() if entry.event["event"] == "allocate"] == seen
            assert store.names() == ["demo"]
            assert elsewhere(url) == seen
            assert (tmp_path / "site.db-wal").exists()
    assert fluxres.load(url).jobs() == seen
