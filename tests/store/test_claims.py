"""Rule N1 between the graphs of a store: a copy for a job gives something as long as the job holds all of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest
from click.testing import CliRunner

import fluxres
from fluxres import clock as clocks
from fluxres.cli.program import program
from fluxres.errors import FluxresError, HoldLapsed, InsufficientResources, StoreError, UnknownPool, UsageError
from fluxres.model import ResourceGraph, Span
from fluxres.store import Held, Store, open_store, upkeep
from fluxres.store.claims import Standing
from tests.store.conftest import KINDS
from tests.store.graphs import machine

NODE0, NODE1 = "/demo/rack0/node0", "/demo/rack0/node1"


class Moving:
    """A clock that the test moves."""

    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Moving:
    return Moving()


@pytest.fixture
def site(url: str, clock: Moving) -> Store:
    """`demo` with a job `a` on two nodes until 100 s, and its copy `part`."""
    store = open_store(url, clock=clock)
    store.put("demo", machine())
    with store.writing("demo") as transaction:
        transaction.graph.allocate([NODE0, NODE1], job="a", end=100)
    copied(store, "part", "demo", "a")
    return store


def copied(store: Store, name: str, graph: str, job: str, **how: Any) -> None:
    made = store.load(graph).copy(job=job)
    made.name = name
    store.put(name, made, held=Held(graph, job), **how)


@contextmanager
def changed(store: Store, name: str) -> Iterator[ResourceGraph]:
    with store.writing(name) as transaction:
        yield transaction.graph


def lapsed(store: Store, name: str = "part") -> str | None:
    return store.standings()[name].lapsed


def refused(store: Store, match: str, name: str = "part") -> None:
    """The graph gives nothing any more, and takes back what it gave."""
    with pytest.raises(HoldLapsed, match=match), changed(store, name) as graph:
        graph.allocate("slot/core", job="late")
    assert match in str(lapsed(store, name))
    jobs = store.load(name).jobs()
    for job in jobs:
        with changed(store, name) as graph:
            graph.free(job)
    with changed(store, name) as graph:
        graph.tag(graph.root.path, "seen")
    assert store.load(name).jobs() == []


def test_a_copy_gives_what_the_job_holds(site: Store) -> None:
    with changed(site, "part") as part:
        part.allocate("slot=2/node", job="x")
    with changed(site, "demo") as demo:
        demo.allocate("slot=3/node", job="b")
        demo.tag(NODE0, "seen")
        demo.expire()
    with changed(site, "part") as part:
        part.free("x")
        part.allocate("slot=8/core", job="y")
    assert site.standings() == {"part": Standing("demo", "a", None)}
    assert upkeep.check(site) == (["demo", "part"], [])


def test_the_job_is_freed(site: Store) -> None:
    with changed(site, "part") as part:
        part.allocate(NODE0, job="x")
    with changed(site, "demo") as demo:
        demo.free("a")
    (problem,) = upkeep.check(site)[1]
    assert (problem.severity, problem.where) == ("error", "graph part")
    assert problem.message.endswith("job 'a' of graph 'demo' holds nothing any more, but 1 job in it still holds something: x")
    refused(site, "job 'a' of graph 'demo' holds nothing any more")
    (problem,) = upkeep.check(site)[1]
    assert problem.severity == "warning"


def test_the_time_of_the_job_is_over(site: Store, clock: Moving) -> None:
    clock.now_s = 99
    with changed(site, "part") as part:
        part.allocate("slot/core", job="x")
    assert lapsed(site) is None
    clock.now_s = 100
    refused(site, "job 'a' of graph 'demo' ended at ")


def test_the_job_ends_later(site: Store, clock: Moving) -> None:
    with changed(site, "demo") as demo:
        demo.set_end("a", 200)
    clock.now_s = 150
    with changed(site, "part") as part:
        part.allocate("slot/core", job="x")
    with changed(site, "demo") as demo:
        demo.set_end("a", 160)
    clock.now_s = 160
    refused(site, "holds nothing any more")
    with changed(site, "demo") as demo:
        demo.allocate([NODE0, NODE1], job="a", duration_s=10)
    assert lapsed(site) is None


def test_the_records_of_the_job_are_dropped_before_its_time(site: Store) -> None:
    with changed(site, "part") as part:
        part.allocate("slot/core", job="x")
    with changed(site, "demo") as demo:
        demo.expire(99)
    assert lapsed(site) is None
    with changed(site, "demo") as demo:
        assert demo.expire(100) == ["a"]
        demo.allocate(NODE0, job="b")
    refused(site, "holds nothing any more")


def test_a_job_that_shrinks(site: Store) -> None:
    with changed(site, "demo") as demo:
        demo.free("a", NODE1)
    with pytest.raises(HoldLapsed, match=f"does not hold all of it any more: {NODE1} \\("), changed(site, "part") as part:
        part.allocate("slot/core", job="x")
    with changed(site, "part") as part:
        part.unlink(NODE1)
    with changed(site, "part") as part:
        part.allocate("slot/core", job="x")
    assert lapsed(site) is None


def test_a_copy_that_is_given_more_than_the_job_holds(site: Store) -> None:
    more = site.load("demo").duplicate("/demo/rack1")
    with pytest.raises(HoldLapsed, match="/demo/rack1"), changed(site, "part") as part:
        part.merge(more, "/demo/rack1")
    with pytest.raises(UnknownPool):
        site.load("part").pool("/demo/rack1")


def test_what_comes_back_is_given_again(site: Store) -> None:
    with changed(site, "demo") as demo:
        demo.free("a")
    site.undo("demo")
    with changed(site, "part") as part:
        part.allocate("slot/core", job="x")
    site.undo("demo", redo=True)
    refused(site, "holds nothing any more")


def test_the_parent_is_dropped(site: Store) -> None:
    assert site.drop("demo", force=True)[-1] == "the job of graph part, which allocates nothing any more"
    refused(site, "graph 'demo' was dropped")
    assert site.standings()["part"].graph is None


def test_the_parent_is_replaced(site: Store) -> None:
    site.put("demo", machine(1, 1, origin=2), replace=True)
    refused(site, "holds nothing any more")
    with changed(site, "demo") as demo:
        demo.allocate(NODE0, job="a")
    refused(site, "does not hold all of it any more")


def test_a_copy_of_a_copy_ends_with_it(site: Store) -> None:
    with changed(site, "part") as part:
        part.allocate(NODE0, job="x")
    copied(site, "inner", "part", "x")
    with changed(site, "inner") as inner:
        inner.allocate("slot/core", job="deep")
    with changed(site, "demo") as demo:
        demo.free("a", NODE1)
    assert "graph 'part' allocates nothing any more" in str(lapsed(site, "inner"))
    with changed(site, "part") as part:
        part.unlink(NODE1)
    assert lapsed(site, "inner") is None
    with changed(site, "demo") as demo:
        demo.free("a")
    refused(site, "holds nothing any more", "inner")


def test_one_copy_for_a_job(site: Store) -> None:
    with pytest.raises(UsageError, match="graph 'part' is what this job holds already"):
        copied(site, "again", "demo", "a")
    with pytest.raises(UsageError, match="a part of itself"):
        copied(site, "demo", "demo", "a", replace=True)
    copied(site, "part", "demo", "a", replace=True)
    site.drop("part")
    copied(site, "again", "demo", "a")
    assert list(site.standings()) == ["again"]


def test_a_copy_of_what_the_job_does_not_hold_any_more(site: Store) -> None:
    site.drop("part")
    made = site.load("demo").copy(job="a")
    with changed(site, "demo") as demo:
        demo.free("a", NODE1)
    with pytest.raises(HoldLapsed):
        site.put("part", made, held=Held("demo", "a"))
    assert site.names() == ["demo"]


def test_a_graph_that_replaces_a_copy_has_no_claim(site: Store) -> None:
    site.put("part", machine(1, 1), replace=True)
    site.drop("demo", force=True)
    with changed(site, "part") as part:
        part.allocate(NODE0, job="x")
    assert site.standings() == {}


def test_a_copy_for_later(url: str, clock: Moving) -> None:
    store = open_store(url, clock=clock)
    store.put("demo", machine())
    with changed(store, "demo") as demo:
        demo.allocate(NODE0, job="a", start=50, end=100)
    made = store.load("demo").copy(job="a", at=50)
    store.put("part", made, held=Held("demo", "a", at=50))
    with changed(store, "part") as part:
        part.allocate("slot/core", job="x", start=50, end=60)
    for start in (None, 49):
        with pytest.raises(HoldLapsed, match="holds it from then on"), changed(store, "part") as part:
            part.allocate("slot/core", job="y", start=start, duration_s=20)
    clock.now_s = 100
    refused(store, "ended at")


def test_a_copy_by_a_clock_that_is_ahead_gives_what_the_job_holds_already(url: str, clock: Moving) -> None:
    store = open_store(url, clock=clock)
    store.put("demo", machine())
    with changed(store, "demo") as demo:
        demo.allocate(NODE0, job="a")
    clock.now_s = 50
    store.put("part", store.load("demo").copy(job="a"), held=Held("demo", "a"))
    clock.now_s = 40
    with changed(store, "part") as part:
        part.allocate("slot/core", job="x")
    assert store.load("part").jobs() == ["x"]


def test_an_attached_copy(site: Store) -> None:
    """A change that gives nothing is made although it shares a commit with one that is refused."""
    with fluxres.open(site.url, name="part", clock=site.clock) as part:
        part.allocate("slot/core", job="x")
        with changed(site, "demo") as demo:
            demo.free("a")
        assert part.attachment is not None
        found = part.attachment.together(
            [lambda: part.free("x"), lambda: part.allocate("slot/core", job="y"), lambda: part.tag("/demo", "seen")]
        )
        assert [type(one) for one in found] == [type(None), HoldLapsed, type(None)]
        assert part.jobs() == []
    there = site.load("part")
    assert (there.jobs(), there.pool("/demo").tags) == ([], {"seen": None})


@pytest.mark.parametrize("kind", KINDS)
def test_a_dump_keeps_claims(site: Store, url: str, kind: str, tmp_path: Path, empty: Callable[[str], str]) -> None:
    upkeep.dump_to(site, tmp_path / "site.jsonl")
    there = open_store(f"sqlite://{tmp_path}/again.db" if url.startswith(kind) else empty(kind), clock=site.clock)
    upkeep.restore(there, tmp_path / "site.jsonl")
    assert there.standings() == site.standings()
    with changed(there, "demo") as demo:
        demo.free("a")
    refused(there, "holds nothing any more")


def test_a_store_that_is_restored_over_another_keeps_claims(site: Store, tmp_path: Path) -> None:
    upkeep.dump_to(site, tmp_path / "site.jsonl")
    upkeep.restore(site, tmp_path / "site.jsonl", replace=True)
    assert site.standings() == {"part": Standing("demo", "a", None)}
    assert upkeep.check(site)[1] == []


def test_a_damaged_claim_is_an_error(site: Store) -> None:
    with site.changing("part", "damage", None) as rows:
        rows.db.put_note("claim:" + rows.graph("part").uid, "{")
        rows.db.put_note("claim:gone", "{}")
    with pytest.raises(StoreError, match="its claim cannot be read"), changed(site, "part") as part:
        part.allocate("slot/core", job="x")
    said = [problem.message for problem in upkeep.check(site)[1]]
    assert any("its claim cannot be read" in one for one in said)
    assert any("the claim of a graph that does not exist" in one for one in said)


def spans(graph: ResourceGraph, job: str, now_s: float) -> list[Span]:
    found = graph.allocation(job).spans if job in graph.jobs() else ()
    return [span for span in found if span.start <= now_s and (span.end is None or now_s < span.end)]


def is_covered(parent: ResourceGraph, job: str, part: ResourceGraph, now_s: float) -> bool:
    """Whether a job holds, pool by pool, all that a copy can give, by the spans of the job alone."""
    held: dict[str, int] = {}
    for span in spans(parent, job, now_s):
        held[span.pool] = held.get(span.pool, 0) + span.amount
    whole = [path for path, amount in held.items() if amount == parent.pool(path).size]
    s = part.structure
    for v in range(s.n):
        path, units = s.path(v), int(s.units[v])
        if units and units > held.get(path, 0) and not any(path.startswith(f"{top}/") or path == top for top in whole):
            return False
    return True


@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(4))
def test_rule_n1_random_courses(tmp_path: Path, seed: int) -> None:
    """A copy gives something if and only if the job holds all that the copy consists of."""
    given, refusals = course(f"sqlite://{tmp_path}/site.db", seed)
    assert given
    assert refusals


def course(url: str, seed: int) -> tuple[int, int]:
    """Returns: how often a copy gave something, and how often it refused to."""
    random, clock = Random(seed), Moving()
    store = open_store(url, clock=clock)
    store.put("demo", machine())
    given = refusals = 0
    for turn in range(120):
        clock.now_s += random.choice((0, 0, 0, 5))
        name = random.choice(("demo", "part", "part"))
        if name not in store.names() or (name == "part" and random.random() < 0.1):
            if "part" in store.names():
                store.drop("part", force=True)
            elif "a" in store.load("demo").jobs():
                try:
                    copied(store, "part", "demo", "a")
                except InsufficientResources:
                    assert not spans(store.load("demo"), "a", clock.now_s)
            continue
        parent, part = store.load("demo"), store.load("part") if "part" in store.names() else None
        try:
            with changed(store, name) as graph:
                perform(graph, name, random, turn)
        except HoldLapsed:
            assert part is not None
            assert name == "part"
            assert not is_covered(parent, "a", part, clock.now_s)
            refusals += 1
        except FluxresError:
            continue
        else:
            if name == "part" and part is not None and store.log("part", limit=1)[0].event["event"] == "allocate":
                assert is_covered(parent, "a", part, clock.now_s)
                given += 1
    return given, refusals


def perform(graph: ResourceGraph, name: str, random: Random, turn: int) -> None:
    """A random change."""
    if name == "part":
        job = random.choice(["", *graph.jobs()])
        if job:
            graph.free(job)
        else:
            graph.allocate(random.choice(("slot/core", "slot/memory=2", "slot/node")), job=f"x{turn}")
        return
    what = random.randrange(5)
    if what == 0:
        shape = random.choice(("slot=2/node", "slot=5/core", "slot=2/[core;memory=3]"))
        graph.allocate(shape, job="a", duration_s=random.choice((20, 60)))
    elif what == 1:
        graph.free("a")
    elif what == 2:
        graph.free("a", random.choice(graph.allocation("a").spans).pool)
    elif what == 3:
        graph.set_end("a", graph.clock() + random.choice((5, 50)))
    else:
        graph.allocate("slot/core", job=f"b{turn}", duration_s=10)


def test_nobody_is_told_that_a_lapsed_graph_matches(site: Store, clock: Moving, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clocks, "system", clock)
    for command in ("when", "why"):
        asked = ["--store", site.url, "--graph", "part", command, "-N1", "-x"]
        assert CliRunner().invoke(program, asked).exit_code == 0
        clock.now_s = 100
        found = CliRunner().invoke(program, asked)
        assert (found.exit_code, found.stdout) == (2, "")
        assert "graph 'part': allocates nothing any more: job 'a' of graph 'demo' ended" in found.stderr
        assert "`fluxres graphs drop part` removes the graph" in found.stderr
        clock.now_s = 0
