"""Maintenance reservations, against the rule: in a window, all of the reserved pools is held, by the reservation or by jobs that
held it before."""

from __future__ import annotations

import pickle
import time
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from random import Random

import numpy as np
import pytest

import fluxres
from fluxres import InsufficientResources, LimitExceeded, Resource, ResourceGraph, UnknownJob, UsageError, limits
from fluxres.allocation.records import STAGE_OWNER
from fluxres.clock import TICKS_PER_S
from fluxres.store import open_store
from fluxres.store.records import capture

START, END = 100, 200
TYPES = ("node", "core", "memory")


def machine(*, exclusive: bool = False) -> ResourceGraph:
    node = Resource("node", 3, children=[Resource("core", 2), Resource("memory", size=4)], exclusive=exclusive)
    return fluxres.build(Resource("rack", 2, children=[node]), name="lab")


def free_units(graph: ResourceGraph, at: int) -> dict[str, int]:
    moment = at * TICKS_PER_S
    lo, hi = (graph.vertex("/lab/rack0"), graph.structure.end.item(graph.vertex("/lab/rack0")))
    free = graph.planner.free_slice(lo, hi, moment, moment + 1)
    leaves = graph.structure.end[lo:hi] == np.arange(lo, hi) + 1
    return {graph.structure.where(v): int(n) for v, n in zip(np.arange(lo, hi)[leaves], free[leaves], strict=True) if n}


def is_of_a_job(graph: ResourceGraph, path: str, at: int) -> bool:
    """Whether the node around this pool is exclusive, and a job holds something of it."""
    node = graph.pool(path).parent
    assert node is not None
    return node.exclusive_required and any(
        owner != "m" and any(start <= at * TICKS_PER_S < end for start, end, _ in steps)
        for v in range(node.vertex, graph.structure.end.item(node.vertex))
        for owner, steps in graph.records.held.get(v, {}).items()
    )


@pytest.mark.parametrize("exclusive", [False, True], ids=["shared nodes", "exclusive nodes"])
@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(40))
def test_nothing_is_left_in_the_window_whatever_jobs_hold_and_release(seed: int, exclusive: bool) -> None:
    random, graph = Random(seed), machine(exclusive=exclusive)
    events: list[dict[str, object]] = []
    graph.sink = events.append
    replica = machine(exclusive=exclusive)
    wanted = ["/lab/rack0", "/lab/rack0/node1", "/lab/rack0/node0/core0", "/lab/rack1/node3", "/lab/rack0/node2/core1"]
    jobs = []
    for number in range(8):
        start = random.choice([0, 20, 120])
        try:
            graph.allocate(
                random.choice([random.choice(wanted), [("/lab/rack0/node2/memory", random.randint(1, 3))]]),
                job=f"j{number}",
                start=start,
                end=start + random.choice([50, 90, 150, 400]),
            )
            jobs.append(f"j{number}")
        except fluxres.FluxresError:
            pass
    graph.reserve("/lab/rack0", name="m", start=START, end=END, ignore_jobs=True)
    for _ in range(4):
        assert all(is_of_a_job(graph, path, at) for at in range(START, END, 5) for path in free_units(graph, at))
        assert graph.check() == []
        with pytest.raises(InsufficientResources):
            graph.allocate("/lab/rack0/node0/core0", job="late", start=START + 1, end=START + 2)
        if not jobs:
            break
        job = jobs.pop(random.randrange(len(jobs)))
        if random.random() < 0.5:
            graph.free(job)
        else:
            with suppress(fluxres.NotHeld):
                graph.free(job, start=random.choice([110, 130, 150]))
    for event in events:
        replica.apply(event)
    assert capture(replica.records).reservations == capture(graph.records).reservations
    assert _held(replica) == _held(graph)
    graph.unreserve("m")
    assert "m" not in graph.records.jobs()
    assert graph.check() == []


def _held(graph: ResourceGraph) -> list[tuple[object, ...]]:
    return sorted((v, job, steps) for v, holders in graph.records.held.items() for job, steps in holders.items())


def test_a_job_that_runs_into_it_is_a_reason_to_refuse_and_nothing_changes() -> None:
    graph = machine()
    graph.allocate("/lab/rack0/node0", job="j", start=0, end=150)
    revision = graph.revision
    with pytest.raises(InsufficientResources, match="j holds something there between 100 s and 200 s"):
        graph.reserve("/lab/rack0", name="m", start=100, end=200)
    assert (graph.revision, graph.reservations(), graph.jobs()) == (revision, {}, ["j"])


def test_a_part_of_an_exclusive_node_is_reserved_when_its_job_ends() -> None:
    graph = machine(exclusive=True)
    graph.allocate(["/lab/rack0/node0/core0", "/lab/rack0/node0/core1"], job="j", start=0, end=150)
    before = _held(graph)
    with pytest.raises(InsufficientResources, match="j holds something there"):
        graph.reserve("/lab/rack0/node0/memory", name="m", start=START, end=END)
    assert (graph.reservations(), _held(graph)) == ({}, before)
    graph.reserve(["/lab/rack0/node0/core0", "/lab/rack0/node0/memory"], name="m", start=START, end=END, ignore_jobs=True)
    assert {owner for _, owner, steps in _held(graph) if steps[0][0] < 150 * TICKS_PER_S} == {"j"}
    graph.free("j", "/lab/rack0/node0/core0")
    graph.free("j")
    assert graph.allocation("m", at=START).start == START
    assert graph.check() == []


def test_what_an_expired_stage_held_is_reserved_for_readers_of_a_store_too(tmp_path: Path) -> None:
    store, now = open_store(str(tmp_path / "lab.db")), [0.0]
    store.put("lab", machine())
    with store.writing("lab", clock=lambda: now[0]) as transaction:
        transaction.graph.stage("/lab/rack0/node0", job="s", ttl_s=10)
        transaction.graph.reserve("/lab/rack0", name="m", start=START, end=END, ignore_jobs=True)
    staged, now[0] = store.load(clock=lambda: now[0]), 20.0
    late = store.load(clock=lambda: now[0])
    node = late.vertex("/lab/rack0/node0")
    assert [list(graph.records.held.get(node, {})) for graph in (staged, late)] == [[f"{STAGE_OWNER}s0"], ["m"]]
    assert late.why_not("-N6 -x", at=START, duration_s=1) is not None


def test_its_windows_repeat() -> None:
    graph = machine()
    made = graph.reserve("/lab", name="m", start=100, duration_s=10, every_s=50, until=220, user="ada")
    assert [start // TICKS_PER_S for start, _ in made.windows] == [100, 150, 200]
    assert graph.earliest("slot/node", after=105, duration_s=40) == 110
    assert graph.earliest("slot/node", after=105, duration_s=41) == 210
    assert graph.records.facts["m"].user == "ada"


def test_whole_days_count_in_local_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    try:
        week = {"duration_s": "4h", "every_s": "7d", "until": "2027-04-08"}
        found = machine().reserve("/lab/rack0", name="m", start="2027-03-23T08:00", **week)
        starts = [datetime.fromtimestamp(start / TICKS_PER_S) for start, _ in found.windows]
        assert [(start.day, start.hour) for start in starts] == [(23, 8), (30, 8), (6, 8)]
        assert {end - start for start, end in found.windows} == {4 * 3600 * TICKS_PER_S}
        hours = machine().reserve(
            "/lab/rack0", name="m", start="2027-03-27T08:00", duration_s=60, every_s="25h", until="2027-03-30"
        )
        assert [datetime.fromtimestamp(start / TICKS_PER_S).hour for start, _ in hours.windows] == [8, 10, 11]
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize("start", [300_000_000_000, 253_402_000_000])
def test_windows_beyond_the_calendar_repeat_after_days_of_one_length(start: int) -> None:
    found = machine().reserve("/lab/rack0", name="m", start=start, duration_s=60, every_s="7d", until=start + 15 * 86400)
    begins = [begin // TICKS_PER_S for begin, _ in found.windows]
    assert begins == [start, start + 7 * 86400, start + 14 * 86400]


def test_it_is_no_job() -> None:
    graph = machine()
    graph.reserve("/lab/rack0", name="m", start=100, duration_s=10)
    assert graph.jobs() == []
    for change in (
        lambda: graph.free("m"),
        lambda: graph.set_end("m", 300),
        lambda: graph.allocate("/lab/rack1", job="m"),
        lambda: graph.allocate("slot/node", job="m", duration_s=1),
        lambda: graph.allocate_all([("slot/node", "m")], duration_s=1),
        lambda: graph.stage("/lab/rack1", job="m"),
    ):
        with pytest.raises(UsageError, match="'m' is a maintenance reservation"):
            change()
    with pytest.raises(UsageError, match="'m' is a reservation already"):
        graph.reserve("/lab/rack1", name="m", start=100, duration_s=10)
    with pytest.raises(UnknownJob, match="no reservation 'x'"):
        graph.unreserve("x")


def test_pools_that_are_down_can_be_reserved() -> None:
    graph = machine()
    graph.set_state("/lab/rack0", "down")
    graph.reserve("/lab/rack0", name="m", start=100, duration_s=10)
    assert graph.check() == []


def test_it_draws_nothing_from_suppliers() -> None:
    graph = fluxres.load("data/clusters/demo.yaml")
    before = graph.aggregate("power:/", at=150)
    graph.reserve("/demo", name="m", start=100, duration_s=100)
    assert graph.aggregate("power:/", at=150)["pdu"] == before["pdu"]
    assert graph.check() == []


def test_it_survives_a_store_a_pickle_and_a_change_of_the_shape(tmp_path: object) -> None:
    graph = machine()
    graph.allocate("/lab/rack0/node0/core0", job="j", start=0, end=150, user="bob", name="x")
    graph.reserve("/lab/rack0", name="m", start=100, end=200, ignore_jobs=True)
    store = fluxres.store.open_store(f"{tmp_path}/x.db")
    store.put("lab", graph)
    graph.merge(fluxres.build(Resource("rack", 1, id=[7], children=[Resource("node", 1)]), name="lab"), at="/lab")
    for copy in (store.load(clock=lambda: 0.0), pickle.loads(pickle.dumps(graph)), graph, graph.duplicate()):
        assert copy.reservations()["m"].ignores_jobs
        assert (copy.facts("j").user, copy.facts("j").name) == ("bob", "x")
        copy.free("j")
        assert copy.pool("/lab/rack0/node0/core0").available(at=120) == 0
        assert copy.check() == []


def test_it_is_forgotten_when_its_records_expire() -> None:
    graph = machine()
    graph.reserve("/lab/rack0", name="m", start=0, end=50)
    graph.clock = lambda: 60.0
    assert graph.reservations() == {}
    graph.expire()
    assert graph.records.reservations == {}
    assert graph.records.facts == {}


def test_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = machine()
    with pytest.raises(LimitExceeded, match=f"would have {limits.RESERVATION_WINDOWS_MAX + 1} windows"):
        graph.reserve("/lab", name="m", start=0, end=1, every_s=1, until=1001)
    monkeypatch.setattr(limits, "RESERVATION_SPANS_MAX", 3)
    with pytest.raises(LimitExceeded, match="2 windows of 2 pools"):
        graph.reserve(["/lab/rack0", "/lab/rack1"], name="m", start=0, end=1, every_s=2, until=3)
    monkeypatch.setattr(limits, "RESERVATIONS_MAX", 0)
    with pytest.raises(LimitExceeded, match="more than 0 reservations"):
        graph.reserve("/lab", name="m", start=0, end=1)
    for wrong in (
        {"start": 0},
        {"start": 5, "end": 5},
        {"start": 0, "duration_s": 9, "every_s": 5, "until": 50},
        {"start": 0, "duration_s": 9, "until": 50},
        {"start": 0, "duration_s": 9, "every_s": 10},
    ):
        with pytest.raises(UsageError):
            graph.reserve("/lab", name="m", **wrong)
    assert graph.records.reservations == {}


def test_a_reservation_of_nothing_is_refused_and_leaves_the_store_readable(tmp_path: Path) -> None:
    site = f"sqlite://{tmp_path}/site.db"
    fluxres.save(machine(), site)
    with fluxres.open(site) as graph:
        for nothing in ([], {}, graph.find("type=gpu")):
            with pytest.raises(UsageError, match="no pools named"):
                graph.reserve(nothing, name="m", start=START, end=END + time.time())
        graph.unlink("/lab/rack1")  # writes a snapshot
    assert fluxres.load(site).reservations() == {}


def test_what_a_reservation_holds_is_no_job_to_copy() -> None:
    graph = machine()
    graph.reserve("/lab/rack0", name="m", start=0, end=END)
    with pytest.raises(UsageError, match="maintenance reservation, not a job"):
        graph.copy(job="m")


# -- suppliers -----------------------------------------------------------------------------------------------------------


def supplied(*, draw: bool = False) -> ResourceGraph:
    """Four racks of two nodes: the first two on a PDU of their own, the third on both, the last on none."""
    properties = {"draw.power": 100} if draw else {}
    node = fluxres.Resource("node", 2, properties=properties, children=[Resource("core", 2)])
    edges = [
        *(fluxres.Edge(f"power:/pdu{i}", f"/lab/rack{i}") for i in range(2)),
        *(fluxres.Edge(f"power:/pdu{i}", "/lab/rack2", attributes={"supply": "any"}) for i in range(2)),
    ]
    power = fluxres.AuxiliaryGraph(pools=[Resource("power", 2, basename="pdu", size=1000, unit="W")], edges=edges)
    return fluxres.build(Resource("rack", 3 if draw else 4, children=[node]), name="lab", graphs={"power": power})


def idle(graph: ResourceGraph, at: int) -> list[str]:
    states = graph.node_states(at=at)
    each = zip(states.vertices.tolist(), states.states, strict=True)
    return [graph.structure.path(v).removeprefix("/lab/") for v, state in each if state == "idle"]


def nodes(*racks: int) -> list[str]:
    return [f"rack{rack}/node{number}" for rack in racks for number in range(2)]


def test_rule_f3_what_only_a_reserved_supplier_supplies_is_reserved() -> None:
    graph = supplied()
    events: list[dict[str, object]] = []
    graph.sink = events.append
    made = graph.reserve("power:/pdu0", name="m", start=START, end=END)
    assert [graph.structure.wheres(of) for of in (made.pools, made.out)] == [["power:pdu0"], ["/lab/rack0", "power:pdu0"]]
    for wanted in ("/lab/rack0/node0", "/lab/rack0/node1/core0", "/lab/rack0"):
        with pytest.raises(InsufficientResources, match="maintenance 'm'"):
            graph.allocate(wanted, job="j", start=START, end=START + 1)
    assert graph.earliest("slot=8/node", after=0, duration_s=START + 1) == END
    assert [idle(graph, at) for at in (START - 1, START, END)] == [nodes(0, 1, 2, 3), nodes(1, 2, 3), nodes(0, 1, 2, 3)]
    graph.allocate("/lab/rack2", job="has another supplier", start=START, end=END)
    graph.allocate("/lab/rack0", job="before", start=0, end=START)
    graph.allocate("/lab/rack0", job="after", start=END, end=END + 1)
    replica = supplied()
    for event in events:
        replica.apply(event)
    assert replica.reservations() == graph.reservations()
    assert _held(replica) == _held(graph)
    graph.unreserve("m")
    graph.allocate("/lab/rack0", job="j", start=START, end=END)
    assert graph.check() == replica.check() == []


def test_rule_f3_two_reserved_suppliers_reserve_what_both_supply() -> None:
    graph = supplied()
    graph.reserve(["power:/pdu0", "power:/pdu1"], name="m", start=START, end=END)
    assert idle(graph, START) == nodes(3)
    graph.unreserve("m")
    graph.set_state("power:/pdu1", "down")
    graph.reserve("power:/pdu0", name="m", start=START, end=END)
    graph.set_state("power:/pdu1", "up")
    assert idle(graph, START) == nodes(1, 3)


def test_no_node_draws_in_the_window_of_its_only_supplier() -> None:
    graph = supplied(draw=True)
    graph.reserve("power:/pdu0", name="m", start=START, end=END)
    for wanted in ("slot=3/node", "slot=9/core"):  # the nodes of rack2 draw from the first of its suppliers, which is reserved
        with pytest.raises(InsufficientResources, match="maintenance 'm'"):
            graph.allocate(wanted, job="j", at=START, duration_s=1)
    graph.allocate("slot=2/node", job="j", at=START, duration_s=1)
    assert idle(graph, START) == nodes(2)
    assert graph.check() == []


def test_a_job_that_only_a_reserved_supplier_supplies_is_a_reason_to_refuse() -> None:
    graph = supplied()
    graph.allocate("/lab/rack0/node1/core0", job="j", start=0, end=150)
    with pytest.raises(InsufficientResources, match="j holds something there between 100 s and 200 s"):
        graph.reserve("power:/pdu0", name="m", start=START, end=END)
    assert (graph.reservations(), graph.jobs()) == ({}, ["j"])
    graph.reserve("power:/pdu0", name="m", start=START, end=END, ignore_jobs=True)
    with pytest.raises(InsufficientResources):
        graph.allocate("/lab/rack0/node1/core1", job="late", start=START, end=END)
    graph.free("j", start=120)
    with pytest.raises(InsufficientResources):
        graph.allocate("/lab/rack0/node1/core0", job="late", start=120, end=130)
    assert graph.check() == []


def test_a_later_change_of_the_suppliers_leaves_what_is_reserved() -> None:
    graph = supplied()
    graph.reserve("power:/pdu0", name="m", start=START, end=END)
    before = graph.reservations()["m"].out
    graph.add_edge("power:/pdu1", "/lab/rack0", "power")
    graph.remove_edge("power:/pdu1", "/lab/rack2", "power")
    assert graph.reservations()["m"].out == before
    assert idle(graph, START) == nodes(1, 2, 3)
    again = fluxres.loads(fluxres.dumps(graph))
    assert again.reservations() == graph.reservations()
    assert _held(again) == _held(graph)
    graph.unreserve("m")
    made = graph.reserve("power:/pdu0", name="m", start=START, end=END)
    assert graph.structure.wheres(made.out) == ["/lab/rack2", "power:pdu0"]


def test_the_copy_of_a_part_has_the_reservation_of_its_supplier() -> None:
    graph = supplied()
    graph.reserve("power:/pdu0", name="m", start=START, end=END)
    for where in ("/lab/rack0", "/lab/rack0/node1"):
        part = graph.duplicate(where)
        assert idle(part, START) == []
        assert len(idle(part, END)) == len(part.find("type=node"))
        assert part.check() == []
