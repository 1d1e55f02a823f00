"""Servers that are killed while clients change a graph; `python -m tests.service.kills` does so many times."""

from __future__ import annotations

from pathlib import Path
from random import Random

import fluxres
from tests.service.conftest import demo_store
from tests.service.kills import Client, compare, cycle


def test_rule_d1_what_a_killed_server_acknowledged_is_in_the_store(tmp_path: Path) -> None:
    store, clients = demo_store(tmp_path), [Client(f"c{number}", Random(number)) for number in range(3)]
    while not all(client.acknowledged > 2 for client in clients):
        assert cycle(store, clients, Random(1)) == []


def test_the_comparison_finds_what_is_lost_and_what_is_there_in_part(tmp_path: Path) -> None:
    store, client = demo_store(tmp_path), Client("c0", Random(0), held={"c0-1"})
    with fluxres.open(store) as graph:
        graph.allocate("slot=1/core", job="c0-2")
    assert sorted(compare(store, [client])) == [
        "c0-1 was acknowledged and is not there",
        "c0-2 holds 1 cores: a change is there in part",
        "c0-2 holds something after its end",
    ]
