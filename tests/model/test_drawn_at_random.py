"""Rule F2 at random: jobs with several windows grow, shrink and end; compared with sums over their holdings at each moment."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable

import pytest

from fluxres.documents.source import Source
from fluxres.errors import InfeasibleRequest, InsufficientResources, NotHeld, UnknownJob, UsageError
from fluxres.formats.cluster import read as cluster
from fluxres.model import Allocation, ResourceGraph

HORIZON = 40
JOBS = ("a", "b", "c")
Window = tuple[int, int]

MACHINE = """
fluxres: 1
name: m
resources:
  - {{type: node, count: 4{draw}, with: [{{type: core, count: 3}}]}}
graphs:
  power:
    hierarchy: {tree}
    pools:
      - type: feed
        with:
          - {{type: power, size: 4000, unit: W, id: null}}
          - {{type: pdu, count: 2, with: [{{type: power, size: {pdu}, unit: W, id: null}}]}}
    edges:
{edges}
"""
ONE_EACH = """
      - {from: "power:/feed/pdu0", to: "/m/node[0-1]"}
      - {from: "power:/feed/pdu1", to: "/m/node[2-3]"}
"""
WITH_CABLES = """
      - {from: "power:/feed/pdu0", to: "/m/node[0-1]", capacity: 1500}
      - {from: "power:/feed/pdu1", to: "/m/node[2-3]", capacity: 1500}
"""
ONE_OF_TWO = """
      - {from: "power:/feed/pdu0", to: "/m/node[0-3]", supply: any}
      - {from: "power:/feed/pdu1", to: "/m/node[0-3]", supply: any}
"""
MACHINES = {
    "draws": MACHINE.format(draw=", draw: {power: 400}", pdu=1600, edges=ONE_EACH, tree="true"),
    "draws through cables": MACHINE.format(draw=", draw: {power: 400}", pdu=1600, edges=WITH_CABLES, tree="true"),
    "draws from either": MACHINE.format(draw=", draw: {power: 400}", pdu=2000, edges=ONE_OF_TWO, tree="false"),
    "asked": MACHINE.format(draw="", pdu=1600, edges=ONE_EACH, tree="true"),
    "asked through cables": MACHINE.format(draw="", pdu=1600, edges=WITH_CABLES, tree="true"),
}


class Course:
    """A machine, its operations, and what each job holds and draws by node and moment."""

    def __init__(self, name: str, seed: int) -> None:
        self.source = random.Random(f"{name}/{seed}")
        self.graph = ResourceGraph(cluster.read(Source(MACHINES[name].encode(), "m.yaml")).structure, clock=lambda: 0)
        self.draws = 400 if name.startswith("draws") else 0
        self.is_either, self.has_cables = name.endswith("either"), name.endswith("cables")
        #: (job, node, moment): each core of it, and "node" for the node itself.
        self.held: dict[tuple[str, int, int], set[str]] = {}
        self.watts: Counter[tuple[str, int, int]] = Counter()
        self.steps = Counter[str]()

    # -- what happens --------------------------------------------------------------------------------------------------

    def step(self) -> None:
        job = self.source.choice(JOBS)
        what = self.source.choices(
            (self.ask, self.name, self.free_named, self.free_all, self.shrink, self.move_end), (8, 4, 6, 1, 3, 2)
        )[0]
        before = self.state()
        try:
            what(job)
            self.steps[what.__name__] += 1
        except (InsufficientResources, InfeasibleRequest, NotHeld, UnknownJob, UsageError):
            assert self.state() == before  # what refuses has changed nothing
        self.compare()

    def state(self) -> object:
        records = self.graph.records
        return (
            {v: dict(holders) for v, holders in records.held.items()},
            {owner: dict(pools) for owner, pools in records.implied.items()},
            sorted(records.drawn.rows()),
            dict(records.slots_of),
        )

    def window(self) -> Window:
        points = range(0, HORIZON + 1, 5)  # few moments, so that windows are often adjacent
        start, end = sorted(self.source.sample(points, 2))
        return start, end

    def ask(self, job: str) -> None:
        start, end = self.window()
        number, asked = self.source.randint(1, 3), self.source.choice((0, 100, 300, 500)) if not self.draws else 0
        unit = self.source.choice(("node", "node", "core=2"))
        text = f"slot={number}/[{unit};power={asked}]" if asked else f"slot={number}/{unit}"
        given = self.graph.allocate(text, job=job, start=start, end=end, policy=self.source.choice(("first", "high")))
        slots = self.units_of(given)
        for node, units in slots.items():
            each = asked * (len(units) // 2 if unit == "core=2" else 1)
            self.add(job, node, units, (start, end), each or (self.draws if unit == "node" else 0))

    def units_of(self, given: Allocation) -> dict[int, set[str]]:
        found: dict[int, set[str]] = {}
        for pool in given.pools:
            if pool.type in ("node", "core"):
                _, _, node, *core = pool.path.split("/")
                found.setdefault(int(node.removeprefix("node")), set()).add(core[0] if core else "node")
        return found

    def name(self, job: str) -> None:
        window = self.window()
        node = self.source.randrange(4)
        unit = self.source.choice(("node", "node", "core0", "core1", "core2"))
        path = f"/m/node{node}" if unit == "node" else f"/m/node{node}/{unit}"
        self.graph.allocate(path, job=job, start=window[0], end=window[1])
        self.add(job, node, {unit}, window, self.draws if unit == "node" else 0)

    def add(self, job: str, node: int, units: Iterable[str], window: Window, watts: int) -> None:
        for moment in range(*window):
            self.held.setdefault((job, node, moment), set()).update(units)
            self.watts[job, node, moment] += watts

    def drop(self, job: str, node: int, unit: str, window: Window) -> None:
        for moment in range(*window):
            key = job, node, moment
            units = self.held.get(key, set())
            units.discard(unit)
            if unit == "node" and self.draws:
                self.watts[key] = 0  # drawn by the node, not by its contents
            if not units:
                self.held.pop(key, None)
                del self.watts[key]

    def free_named(self, job: str) -> None:
        units = sorted({(node, unit) for (holder, node, _), held in self.held.items() if holder == job for unit in held})
        if not units:
            return
        node, unit = self.source.choice(units)
        path = f"/m/node{node}" if unit == "node" else f"/m/node{node}/{unit}"
        start, end = self.window() if self.source.random() < 0.5 else (None, None)
        give_back = self.graph.free if self.source.random() < 0.5 else self.graph.shrink
        give_back(job, path, start=start, end=end)
        self.drop(job, node, unit, (0 if start is None else start, HORIZON if end is None else end))

    def free_all(self, job: str) -> None:
        self.graph.free(job)
        for node in range(4):
            for unit in ("node", "core0", "core1", "core2"):
                self.drop(job, node, unit, (0, HORIZON))

    def shrink(self, job: str) -> None:
        start, end = self.window() if self.source.random() < 0.5 else (None, None)
        wanted = self.source.choice(("slot=1/node", "slot=2/node", "slot=1/core"))
        taken = self.graph.shrink(job, wanted, start=start, end=end)
        for span in taken.spans:
            if span.pool.startswith("/m/") and "->" not in span.pool:
                _, _, node, *core = span.pool.split("/")
                when = int(span.start), int(min(span.end, HORIZON))
                self.drop(job, int(node.removeprefix("node")), core[0] if core else "node", when)

    def move_end(self, job: str) -> None:
        if job not in self.graph.jobs():
            return
        new, ends = self.source.randrange(5, HORIZON + 1, 5), self.ends(job)
        goes_on = {node: self.ending(job, node, set(of_units.values())) for node, of_units in ends.items()}
        self.graph.set_end(job, new)
        for node, of_units in ends.items():
            for unit, end in of_units.items():
                self.add(job, node, {unit}, (end, new), 0)
                self.drop(job, node, unit, (new, HORIZON))
                if unit == "node" and self.draws:
                    for moment in range(end, new):
                        self.watts[job, node, moment] = self.draws
            for end, watts in goes_on[node].items():
                self.add(job, node, (), (end, new), watts)

    def ending(self, job: str, node: int, ends: set[int]) -> dict[int, int]:
        """The requested draw of a node that ends with a part of it: all of it if the job holds nothing longer."""
        found = dict[int, int]()
        for end in ends if not self.draws else ():
            before, after = ((job, node, moment) for moment in (end - 1, end))
            goes_on = self.watts[after] if self.held.get(before, set()) & self.held.get(after, set()) else 0
            found[end] = max(self.watts[before] - goes_on, 0)
        return found

    def ends(self, job: str) -> dict[int, dict[str, int]]:
        """By node, the end of each of its parts that the job holds."""
        found: dict[int, dict[str, int]] = {}
        for holder, node, moment in sorted(self.held):
            if holder == job:
                found.setdefault(node, {}).update(dict.fromkeys(self.held[holder, node, moment], moment + 1))
        return found

    # -- what holds ----------------------------------------------------------------------------------------------------

    def compare(self) -> None:
        assert self.graph.check() == []
        found = Counter[tuple[str, str, int]]()
        for job in self.graph.jobs():
            for span in self.graph.allocation(job).spans:
                if "power" in span.pool:
                    for moment in range(int(span.start), int(span.end)):
                        found[job, self.supplier(span.pool), moment] += span.amount
        expected = Counter[tuple[str, str, int]]()
        for (job, node, moment), watts in self.watts.items():
            pdu = "pdu" if self.is_either else f"pdu{node // 2}"
            for supplier in ("feed", pdu, *([f"node{node}"] if self.has_cables else [])):
                expected[job, supplier, moment] += watts
        assert +found == +expected

    def supplier(self, pool: str) -> str:
        if "->" in pool:
            return pool.rpartition("/")[2]
        name = pool.removeprefix("power:").split("/")[-2]
        return "pdu" if self.is_either and name.startswith("pdu") else name


@pytest.mark.parametrize("name", MACHINES)
def test_rule_f2_draws_equal_the_nodes_watts_at_every_moment(name: str, deeper: float) -> None:
    steps = Counter[str]()
    for seed in range(round(16 * deeper)):
        course = Course(name, seed)
        for _ in range(60):
            course.step()
        for job in course.graph.jobs():
            course.graph.free(job)
        assert course.graph.planner.moments(0, 10**18) == []
        assert course.graph.records.drawn.ledgers == {}
        steps += course.steps
    assert len(steps) == 6
