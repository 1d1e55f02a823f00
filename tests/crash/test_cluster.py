"""An etcd of several servers: `python -m tests.crash.cluster` runs for longer."""

from __future__ import annotations

from tests.crash.cluster import campaign
from tests.store.servers import etcd_program


def test_rule_d1_a_killed_server_of_three_loses_nothing() -> None:
    etcd_program("etcd")
    tally = campaign(4.0, seed=1)
    assert tally.problems == []
    assert tally.kills
    assert tally.done > 20
