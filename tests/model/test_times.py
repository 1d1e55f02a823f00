"""Moments and durations in any type that a caller has, and the requirements of RFC 16 for windows."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

import fluxres
from fluxres import clock
from fluxres.errors import UsageError
from fluxres.model import ResourceGraph
from tests.allocation.test_records import CORE, MEMORY, NODE, machine, trace

EIGHT = datetime(2030, 1, 1, 8, tzinfo=UTC)
EIGHT_S = 1_893_484_800.0


def at_eight() -> ResourceGraph:
    g = machine()
    g.clock = clock.fixed(EIGHT_S)
    return g


def test_datetime_and_timedelta_are_accepted_like_seconds() -> None:
    g, hour = at_eight(), timedelta(hours=1)
    later = EIGHT + hour
    assert g.allocate(CORE, job="a", start=later, duration_s=hour).end == EIGHT_S + 7200
    assert g.pool(CORE).available(at=later, duration_s=hour) == 0
    assert g.available(at=later).paths() != g.available(at=EIGHT).paths()
    assert g.find("type=core and available>=1", during=(EIGHT, later)).paths()[0] == CORE
    assert g.find("type=core and available=0", at=later).paths() == [CORE]
    assert g.aggregate(NODE, at=later)["core"] == 1
    assert g.earliest("node{x}", after=EIGHT, duration_s=2 * hour) == EIGHT_S
    assert g.match("slot/core", at=later, duration_s=hour).start == clock.ticks(later)
    assert g.allocate_orelse_reserve("slot=4/core", job="b", duration_s=hour, after=later).start == EIGHT_S + 7200
    assert g.set_end("b", EIGHT + 5 * hour).end == EIGHT_S + 5 * 3600
    with g.stage(MEMORY, job="c", end=later, ttl_s=hour) as stage:
        assert stage.active
    assert fluxres.Request.parse("slot/core", duration_s=hour).duration_s == 3600
    g.free("a", start=EIGHT + 1.5 * hour)
    assert g.allocation("a", at=later).end == EIGHT_S + 5400
    assert g.copy(at=later).aggregate()["core"] == 3
    assert g.expire(EIGHT + 2 * hour) == ["a"]


def test_any_real_number_is_accepted_as_seconds() -> None:
    g = machine()
    a = g.allocate(MEMORY, job="a", start=np.int64(0), end=np.float32(2.5))
    assert (a.start, a.end) == (0, 2.5)
    assert g.set_end("a", duration_s=Decimal(4)).end == 4


WRONG = ("x", 1e30, datetime(1960, 1, 1))
NAMED: dict[str, tuple[str, Callable[[ResourceGraph, Any], object]]] = {
    "allocate start": ("start", lambda g, t: g.allocate(CORE, job="a", start=t, duration_s=5)),
    "allocate at": ("at", lambda g, t: g.allocate(CORE, job="a", at=t, duration_s=5)),
    "allocate start to end": ("start", lambda g, t: g.allocate(CORE, job="a", start=t, end=5)),
    "allocate at to end": ("at", lambda g, t: g.allocate(CORE, job="a", at=t, end=5)),
    "request start": ("start", lambda g, t: g.allocate("slot/core", job="a", start=t, duration_s=5)),
    "request start to end": ("start", lambda g, t: g.allocate("slot/core", job="a", start=t, end=5)),
    "request at": ("at", lambda g, t: g.allocate("slot/core", job="a", at=t)),
    "stage": ("start", lambda g, t: g.stage(CORE, job="a", start=t, duration_s=5)),
    "stage a request": ("start", lambda g, t: g.stage("slot/core", job="a", start=t, duration_s=5)),
    "allocate all": ("start", lambda g, t: g.allocate_all([("slot/core", "a")], start=t, duration_s=5)),
    "allocate all at": ("at", lambda g, t: g.allocate_all([("slot/core", "a")], at=t, duration_s=5)),
    "reserve": ("after", lambda g, t: g.allocate_orelse_reserve("slot/core", job="a", after=t, duration_s=5)),
    "earliest": ("after", lambda g, t: g.earliest("slot/core", after=t)),
    "match": ("at", lambda g, t: g.match("slot/core", at=t)),
}


@pytest.mark.parametrize("way", NAMED)
@pytest.mark.parametrize("moment", WRONG)
def test_invalid_moment_is_reported_by_argument_name(way: str, moment: object) -> None:
    name, call = NAMED[way]
    with pytest.raises(UsageError, match=f"^{name}: "):
        call(machine(), moment)


@pytest.mark.parametrize("wanted", [CORE, "slot/core"])
def test_start_and_at_are_synonyms(wanted: str) -> None:
    g = machine()
    with pytest.raises(UsageError, match=r"both a start \(1\) and at \(2\) were given"):
        g.allocate(wanted, job="a", start=1, at=2, duration_s=5)
    with pytest.raises(UsageError, match="both a start"):
        g.allocate_all([(wanted, "a")], start=1, at=1, duration_s=5)
    assert g.allocate(wanted, job="a", at=2, duration_s=5).start == 2


def make(g: ResourceGraph, way: str, start: Any, end: Any) -> Any:
    ways: dict[str, Callable[[], Any]] = {
        "names": lambda: g.allocate(CORE, job="a", start=start, end=end),
        "pool": lambda: g.pool(CORE).allocate(1, job="a", start=start, end=end),
        "request": lambda: g.allocate("slot/core", job="a", start=start, end=end),
        "all": lambda: g.allocate_all([("slot/core", "a"), (MEMORY, "b")], start=start, end=end),
        "match": lambda: g.commit_match(g.match("slot/core", start, None if end is None else end - start), job="a"),
        "matches": lambda: g.commit_all([(g.match("slot/core", start, None if end is None else end - start), "a")]),
        "stage": lambda: g.stage(CORE, job="a", start=start, end=end),
        "stage by request": lambda: g.stage("slot/core", job="a", start=start, end=end),
        "grow": lambda: g.grow("held", CORE, start=start, end=end),
        "grow by request": lambda: g.grow("held", "slot/core", start=start, end=end),
    }
    return ways[way]()


WAYS = ["names", "pool", "request", "all", "match", "matches", "stage", "stage by request", "grow", "grow by request"]


@pytest.mark.parametrize("way", WAYS)
def test_later_allocation_needs_an_end_and_past_window_is_refused(way: str) -> None:
    g = machine()
    g.allocate("/demo/rack/node1/core1", job="held")
    g.clock = clock.fixed(100.0)
    before = trace(g)
    with pytest.raises(UsageError, match=r"the allocation begins at 101 s, later than now \(100 s\), and has no end"):
        make(g, way, 101, None)
    with pytest.raises(UsageError, match=r"the window ends at 100 s, which is not after now \(100 s\)"):
        make(g, way, 50, 100)
    assert trace(g) == before
    make(g, way, 101, 102)


@pytest.mark.parametrize("way", WAYS)
def test_allocation_that_has_begun_needs_no_end(way: str) -> None:
    g = machine()
    g.allocate("/demo/rack/node1/core1", job="held")
    g.clock = clock.fixed(100.0)
    make(g, way, 50, None)


def test_reservation_needs_an_end() -> None:
    g = machine()
    g.allocate("slot=4/core", job="a", duration_s=10)
    with pytest.raises(UsageError, match=r"the allocation begins at 10 s, later than now \(0 s\), and has no end"):
        g.allocate_orelse_reserve("slot/core", job="b")
    with pytest.raises(UsageError, match=r"request 1 \(b\): the allocation begins at 10 s"):
        g.allocate_all_orelse_reserve([("slot/core", "b")])
    assert g.earliest("slot/core") == 10
    assert g.allocate_orelse_reserve("slot/core", job="b", duration_s=5).end == 15
    g.free("a")
    assert g.allocate_orelse_reserve("slot/core", job="c").end == math.inf


def test_repr_of_a_stage() -> None:
    g = machine()
    now = [0.0]
    g.clock = lambda: now[0]
    stage = g.stage([CORE, MEMORY], job="a", ttl_s=5)
    assert repr(stage) == "<Stage s0 of job a: 2 pools>"
    other = g.stage(g.find("type=core")[1], job="b", ttl_s=9)
    assert repr(other) == "<Stage s1 of job b: 1 pool>"
    now[0] = 6.0
    assert repr(stage) == "<Stage s0 of job a: committed, released or expired>"
    other.commit()
    assert repr(other) == "<Stage s1 of job b: committed, released or expired>"
    g.destroy()
    assert repr(other) == "<Stage s1 of job b: committed, released or expired>"
