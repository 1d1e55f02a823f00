"""Rule F2 over time: pools draw only once when an end is moved, a part is freed, or a stage is committed."""

from __future__ import annotations

import json
import random

import pytest

from fluxres.errors import InsufficientResources, NotHeld, StaleHandle, UnknownJob, UsageError
from fluxres.model import ResourceGraph
from fluxres.store import encoding, records
from tests import sites

RACK, NODE0, NODE1, CORE = "/lab/rack", "/lab/rack/node0", "/lab/rack/node1", "/lab/rack/node0/core0"
HORIZON = 40
Held = tuple[int, int, int]


def lab(size_w: int, node_w: int = 100, core_w: int = 0, rack_w: int = 0, pdus: int = 1) -> ResourceGraph:
    """A rack of two nodes of two cores; with two PDUs, the nodes are supplied by either."""

    def draw(watts: int) -> str:
        return f", draw: {{power: {watts}}}" if watts else ""

    core = f"{{type: core, count: 2{draw(core_w)}}}"
    node = f"{{type: node, count: 2, id: 0-1{draw(node_w)}, with: [{core}]}}"
    supply = ", supply: any" if pdus > 1 else ""
    ends = [*(f"/lab/rack/node{i}" for i in range(2)), *([RACK] if rack_w else [])]
    edges = [f'{{from: "power:/pdu{i}", to: "{end}"{supply}}}' for end in ends for i in range(pdus)]
    return sites.graph(f"""
fluxres: 1
name: lab
resources: [{{type: rack, id: null{draw(rack_w)}, with: [{node}]}}]
graphs:
  power: {{pools: [{{type: pdu, count: {pdus}, size: {size_w}, unit: W}}], edges: [{", ".join(edges)}]}}
""")


def watts(graph: ResourceGraph, job: str = "a") -> list[int]:
    found = [0] * HORIZON
    for span in graph.allocation(job).spans if job in graph.jobs() else ():
        for moment in range(int(span.start), int(span.end)) if span.pool.startswith("power:") else ():
            found[moment] += span.amount
    return found


def steps(graph: ResourceGraph, job: str = "a") -> list[Held]:
    """Watts over time as (units, start, end)."""
    found: list[Held] = []
    for moment, units in enumerate(watts(graph, job)):
        if found and found[-1][0] == units:
            found[-1] = units, found[-1][1], moment + 1
        else:
            found.append((units, moment, moment + 1))
    return [held for held in found if held[0]]


# -- a moved end ---------------------------------------------------------------------------------------------------------


def test_rule_f2_extended_node_keeps_its_own_draw_and_the_requested_one() -> None:
    g = lab(420, node_w=120)
    g.allocate("slot=1/[core=1;power=300]", job="a", at=0, duration_s=10)
    g.allocate(NODE0, job="a", start=2, end=6)
    g.set_end("a", 8)
    assert (steps(g), g.check()) == ([(300, 0, 2), (420, 2, 8)], [])
    with pytest.raises(InsufficientResources, match="requested 120 units, 0 of 420 free"):
        g.allocate(NODE1, job="b", start=6, end=8)


def test_rule_f2_requested_draw_continues_from_its_own_end() -> None:
    g = lab(2000, node_w=120)
    g.allocate("slot=1/[core=1;power=300]", job="a", at=0, duration_s=5)
    g.allocate(NODE0, job="a", start=5, end=10)
    g.allocate("slot=1/[core=1;power=70]", job="a", at=12, duration_s=2, policy="high")
    g.set_end("a", 20)
    assert (steps(g), g.check()) == ([(300, 0, 5), (420, 5, 12), (490, 12, 20)], [])


@pytest.mark.parametrize("later", [NODE0, CORE, NODE1])
@pytest.mark.parametrize("pdus", [1, 2])
def test_rule_f2_later_draw_does_not_shorten_an_earlier_one(later: str, pdus: int) -> None:
    g = lab(500, core_w=50, pdus=pdus)
    g.allocate(RACK, job="a", start=1, end=8)
    g.allocate(later, job="a", start=10, end=17)
    for end in (9, 12, 20):
        copy = g.duplicate()
        copy.set_end("a", end)
        assert (steps(copy), copy.check()) == ([(400, 1, end)], [])


def test_rule_f2_shortened_job_draws_nothing_more() -> None:
    g = lab(200, core_w=50)
    g.allocate(CORE, job="a", start=0, end=5)
    g.allocate(NODE0, job="a", start=5, end=10)
    before = steps(g)
    g.set_end("a", 8)
    assert (before, steps(g)) == ([(50, 0, 5), (200, 5, 10)], [(50, 0, 5), (200, 5, 8)])
    g.free("a", NODE0)
    assert (steps(g), g.check()) == ([(50, 0, 8)], [])  # the core stays held, and the node drew for it


def test_rule_f2_requested_draw_continues_together_with_that_of_a_pool_above() -> None:
    g = lab(1000, node_w=120)
    g.allocate("slot=1/[node;power=300]", job="a", at=0, duration_s=5)
    g.allocate(RACK, job="a", start=5, end=10)
    g.set_end("a", 8)
    # As if a job that drew 300 W already had got the rack: only the draw of the other node is added.
    assert (steps(g), g.check()) == ([(300, 0, 5), (420, 5, 8)], [])


def test_rule_f2_draw_reduced_by_name_stays_reduced() -> None:
    g = lab(1000)
    g.allocate(NODE0, job="a", start=0, end=5)
    g.allocate(NODE1, job="a", start=8, end=10)
    g.shrink("a", [("power:/pdu0", 40)], start=0, end=5)
    g.set_end("a", 12)
    assert (steps(g), g.check()) == ([(60, 0, 8), (160, 8, 12)], [])


class Course:
    """One job that gets racks, nodes and cores, frees them, and is shortened or extended."""

    def __init__(self, seed: int) -> None:
        self.source = random.Random(seed)
        self.draws = [self.source.choice(of) for of in ((0, 100), (0, 50), (0, 30))]
        self.pdus = self.source.choice((1, 2))
        self.graph = lab(4000, *self.draws, pdus=self.pdus)
        self.events: list[dict[str, object]] = []
        self.graph.sink = self.events.append
        nodes = [(RACK, f"node{i}") for i in range(2)]
        self.paths = [RACK, *map("/".join, nodes), *(f"{'/'.join(node)}/core{i}" for node in nodes for i in range(2))]
        self.held: list[set[str]] = [set() for _ in range(HORIZON)]
        self.steps = set[str]()

    def step(self) -> None:
        what = self.source.choices((self.give, self.move_end, self.take), (5, 3, 2))[0]
        try:
            what()
            self.steps.add(what.__name__)
        except (NotHeld, UnknownJob, UsageError, InsufficientResources):
            return  # it has ended, has no record of its own, or is held already; nothing else can be refused
        assert (watts(self.graph), self.graph.check()) == ([self.drawn(held) for held in self.held], [])

    def drawn(self, held: set[str]) -> int:
        """The draw of everything that is held, each pool once."""
        node_w, core_w, rack_w = self.draws
        inside = {path for path in self.paths for top in held if f"{path}/".startswith(f"{top}/")}
        return sum(core_w if "core" in path else node_w if "node" in path else rack_w for path in inside)

    def window(self, last: int) -> tuple[int, int]:
        start, end = sorted(self.source.sample(range(0, last, 2), 2))
        return start, end

    def give(self) -> None:
        path, (start, end) = self.source.choice(self.paths), self.window(30)
        self.graph.allocate(path, job="a", start=start, end=end)
        for held in self.held[start:end]:
            held.add(path)

    def take(self) -> None:
        path = self.source.choice(self.paths)
        start, end = self.window(HORIZON) if self.source.random() < 0.4 else (0, HORIZON)
        self.graph.free("a", path, start=start, end=end)
        for held in self.held[start:end]:
            held.discard(path)

    def move_end(self) -> None:
        end = self.source.randrange(2, HORIZON - 2)
        if "a" not in self.graph.jobs():
            return
        self.graph.set_end("a", end)
        for path in self.paths:
            last = max((moment for moment in range(HORIZON) if path in self.held[moment]), default=HORIZON)
            for held in self.held[last + 1 : end]:
                held.add(path)
        for held in self.held[end:]:
            held.clear()


def test_rule_f2_each_pool_draws_once_at_every_moment(deeper: float) -> None:
    done = set[str]()
    for seed in range(round(120 * deeper)):
        course = Course(seed)
        for _ in range(14):
            course.step()
        done |= course.steps
        replayed = lab(4000, *course.draws, pdus=course.pdus)
        for event in json.loads(json.dumps(course.events)):
            replayed.apply(event)
        assert replayed.records.held == course.graph.records.held
        assert replayed.records.drawn.ledgers == course.graph.records.drawn.ledgers
        if "a" in course.graph.jobs():
            course.graph.free("a")
        assert course.graph.planner.moments(0, 10**18) == []
    assert done == {"give", "move_end", "take"}


# -- a pool that goes back -----------------------------------------------------------------------------------------------


def test_rule_f2_kept_part_of_a_pool_keeps_drawing() -> None:
    g = lab(2000, core_w=50)
    g.allocate([CORE, f"{NODE0}/core1"], job="a", start=0, end=5)
    g.allocate(RACK, job="a", start=5, end=10)
    g.set_end("a", 14)  # the cores stay held through the rack, which draws for them
    assert steps(g) == [(100, 0, 5), (400, 5, 14)]
    g.free("a", RACK, start=6, end=14)
    assert (steps(g), g.check()) == ([(100, 0, 5), (400, 5, 6), (100, 6, 14)], [])
    g.free("a", CORE, start=8, end=14)
    assert (steps(g), g.check()) == ([(100, 0, 5), (400, 5, 6), (100, 6, 8), (50, 8, 14)], [])


# -- stages --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("window", [(2, 5), (0, 20), (5, 15), (12, 14)])
@pytest.mark.parametrize("pdus", [1, 2])
def test_rule_f2_stage_draws_like_an_allocation(window: tuple[int, int], pdus: int) -> None:
    allocated, staged = lab(200, pdus=pdus), lab(200, pdus=pdus)
    events: list[dict[str, object]] = []
    staged.sink = events.append
    for g in (allocated, staged):
        g.allocate(NODE0, job="a", start=3, end=10)
    allocated.allocate(RACK, job="a", start=window[0], end=window[1])
    made = staged.stage(RACK, job="a", start=window[0], end=window[1])
    assert staged.check() == []
    shape = encoding.encode_shape(staged.structure)
    read = encoding.decode(shape, encoding.encode_marks(staged.structure, records.capture(staged.records), shape))
    stored = records.restore(*read, name="lab", clock=None)
    for g in (staged, stored):
        given = g.commit(made.stage)
        assert max(span.end for span in given.spans) == window[1]
        assert (g.allocation("a").spans, g.check()) == (allocated.allocation("a").spans, [])
        assert g.records.drawn.ledgers == allocated.records.drawn.ledgers
    replayed = lab(200, pdus=pdus)
    for event in json.loads(json.dumps(events)):
        replayed.apply(event)
    assert replayed.allocation("a").spans == allocated.allocation("a").spans


def test_rule_f2_stage_is_stale_after_the_job_frees_pools_it_relies_on() -> None:
    g = lab(400)
    g.allocate(NODE0, job="a", start=0, end=10)
    made = g.stage(RACK, job="a", start=2, end=15)
    g.free("a", NODE0, start=0, end=2)  # the stage does not rely on it
    g.duplicate().commit(made.stage)
    g.free("a", NODE0, start=4, end=10)
    with pytest.raises(StaleHandle, match=f"{NODE0}: a has freed it since stage 's0' was made"):
        made.commit()
    assert g.check() == []
    made.release()
    assert (steps(g), g.check()) == ([(100, 2, 4)], [])


def test_stage_with_varying_amounts_is_refused_where_it_does_not_fit() -> None:
    g = lab(199)
    g.allocate(NODE0, job="a", start=0, end=10)
    with pytest.raises(InsufficientResources, match=f"requested 100 units, 99 of 199 free .*; {NODE1} draws them"):
        g.stage(RACK, job="a", start=2, end=8)
    assert (g.records.stages, g.check()) == ({}, [])


# -- several together ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("window", [(2, 5), (0, 20), (5, 15), (12, 14)])
def test_rule_f2_co_allocation_draws_like_an_allocation(window: tuple[int, int]) -> None:
    start, end = window
    allocated, together = lab(300), lab(300)
    for g in (allocated, together):
        g.allocate(NODE0, job="a", start=3, end=10)
    allocated.allocate(RACK, job="a", start=start, end=end)
    events: list[dict[str, object]] = []
    together.sink = events.append
    given = together.allocate_all([(RACK, "a")], start=start, duration_s=end - start)
    assert [(one.job, one.start, one.end) for one in given] == [("a", start, end)]
    assert (together.allocation("a").spans, together.check()) == (allocated.allocation("a").spans, [])
    assert [event["event"] for event in events] == ["allocate_all"]


def test_co_allocated_draws_are_locked_at_each_moment() -> None:
    g = lab(300)
    g.allocate(NODE0, job="a", start=0, end=10)
    g.allocate_all([(RACK, "a"), ([("power:/pdu0", 100)], "b")], duration_s=20)
    assert (steps(g), steps(g, "b"), g.check()) == ([(200, 0, 20)], [(100, 0, 20)], [])
    g.free("b")
    with pytest.raises(InsufficientResources, match=r"request 1 \(b\).*requested 101 units, 100 of 300 free"):
        g.allocate_all([([("power:/pdu0", 101)], "b")], start=5, duration_s=20)
