"""The checker of the load program finds what it is there to find."""

from __future__ import annotations

import asyncio

from tests.service.conftest import Server
from tests.service.load import LOOP, ROLES, Checker, cpu_s, drive

ACKNOWLEDGED = {("allocate", "a"), ("free", "a")}


def test_a_right_history_has_no_faults() -> None:
    checker = Checker()
    checker.event(1, "allocate", {"job": "a", "pools": ["/n/core0"]})
    checker.event(2, "free", {"job": "a"})
    checker.event(3, "allocate", {"job": "b", "pools": [["/n/core0", 1]]})
    assert checker.finish(ACKNOWLEDGED) == []


def test_a_pool_held_twice_a_lost_change_and_one_made_twice_are_faults() -> None:
    checker = Checker()
    checker.event(1, "allocate", {"job": "a", "pools": ["/n/core0"]})
    checker.event(2, "allocate", {"job": "b", "pools": [["/n/core0", 1]]})
    checker.event(3, "allocate", {"job": "b", "pools": ["/n/core1"]})
    assert checker.finish(ACKNOWLEDGED) == [
        "event 2: /n/core0 for b, but a holds it",
        "free of a was acknowledged and is not in the stream",
        "allocate of b is 2 times in the stream",
    ]


def test_clients_at_once_get_nothing_twice(server: Server) -> None:
    run, checker, _ = asyncio.run(drive(server.url, "demo", 4, 0.5))
    assert run.refused == {}
    assert len(run.acknowledged) == len(run.taken_s) > 0
    assert checker.finish(run.acknowledged) == []


def test_the_threads_of_a_server_that_change_a_graph_and_tell_of_it_are_known_by_name(server: Server) -> None:
    asyncio.run(drive(server.url, "demo", 1, 0.1))
    found = cpu_s(server.process.pid)
    assert {LOOP, *ROLES} <= set(found)
    assert all(seconds > 0 for seconds in found.values())
