"""`find` compared with a slow evaluation of the same criteria, pool by pool, on random machines with jobs."""

from __future__ import annotations

import fnmatch
import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fluxres import limits
from fluxres.errors import FluxresError, InputError, UnknownJob, UnknownPool, UsageError
from fluxres.graph import uuids
from fluxres.graph.recipe import Recipe, expand
from fluxres.model import Pool, ResourceGraph


def machine(seed: int = 0, jobs: int = 6) -> ResourceGraph:
    """Two racks of unequal nodes, with jobs here and there, two states and a few tags."""
    fast = Recipe(
        "node",
        count=2,
        name="n${rack}-${id}",
        properties={"ssd": None, "class": 7},
        children=(Recipe("core", count=3), Recipe("memory", size=8, unit="GiB")),
    )
    slow = Recipe("node", count=2, ids=10, properties={"class": 2, "vendor": "Acme"}, children=(Recipe("core", count=2),))
    root = Recipe("cluster", name="demo", ids=None, children=(Recipe("rack", count=2, children=(fast, slow)),))
    g = ResourceGraph(expand(root, origin=uuids.new_origin(bytes(16))))
    source = random.Random(seed)
    for _ in range(jobs):
        pool = g.pool(source.randrange(1, len(g)))
        start = source.randrange(0, 8)
        try:
            g.allocate(
                [(pool, source.randint(1, pool.size))],
                job=f"j{source.randrange(3)}",
                start=start,
                duration_s=source.randint(1, 6),
            )
        except FluxresError:
            continue
    g.pool(source.randrange(1, len(g))).state = "down"
    g.pool(source.randrange(1, len(g))).tag("maintenance", "2026-12-01")
    g.pool(source.randrange(1, len(g))).tag("spare")
    return g


def above(pool: Pool) -> list[Pool]:
    return list(pool.ancestors)


READINGS: dict[str, Callable[[Pool], Any]] = {
    "type=node": lambda p: p.type == "node",
    "type=node,core": lambda p: p.type in ("node", "core"),
    "type!=core": lambda p: p.type != "core",
    "type~c*": lambda p: fnmatch.fnmatchcase(p.type, "c*"),
    "name=n0-[0-1]": lambda p: p.name in ("n0-0", "n0-1"),
    "name=core1": lambda p: p.name == "core1",
    "name=demo": lambda p: p.name == "demo",
    "name~*1": lambda p: p.name.endswith("1"),
    "basename=node": lambda p: p.basename == "node",
    "id=0-1,11": lambda p: p.id in (0, 1, 11),
    "id>1": lambda p: p.id is not None and p.id > 1,
    "rank<3": lambda p: p.rank is not None and p.rank < 3,
    "size=8": lambda p: p.size == 8,
    "size>=2": lambda p: p.size >= 2,
    "size>=8GiB": lambda p: p.unit == "GiB" and p.size >= 8,
    "size>8589934591B": lambda p: p.unit == "GiB",
    "size<=8GB": lambda p: False,
    "size<8.125GiB": lambda p: p.unit == "GiB",
    "size=8192MiB": lambda p: p.unit == "GiB",
    "size=8GB": lambda p: False,
    "size!=8GiB": lambda p: p.unit != "GiB",
    "size=3,8192MiB": lambda p: p.unit == "GiB" or p.size == 3,
    "size>=1W": lambda p: False,
    "size<9000000000000000000EiB": lambda p: p.unit == "GiB",
    "available>=4GiB at 3": lambda p: p.unit == "GiB" and p.available(at=3) >= 4,
    "allocated>0B at 4": lambda p: p.unit == "GiB" and p.allocated(at=4) > 0,
    "unit=GiB": lambda p: p.unit == "GiB",
    "state=down": lambda p: p.state == "down",
    "status!=up": lambda p: p.state != "up",
    "property": lambda p: bool(p.properties),
    "tag": lambda p: bool(p.tags),
    "id=0,2-5,11": lambda p: p.id in (0, 2, 3, 4, 5, 11),
    "property=ssd": lambda p: "ssd" in p.properties,
    "property:class=7": lambda p: p.properties.get("class") == 7,
    "property:class:7": lambda p: p.properties.get("class") == 7,
    "property:class>=3": lambda p: p.properties.get("class", -1) >= 3,
    "property:vendor~A*": lambda p: str(p.properties.get("vendor", "")).startswith("A"),
    "tag=maintenance": lambda p: "maintenance" in p.tags,
    "tag:maintenance=2026-12-01": lambda p: p.tags.get("maintenance") == "2026-12-01",
    "tag:maintenance<2027": lambda p: "maintenance" in p.tags,
    "path=/demo/rack0": lambda p: p.path == "/demo/rack0",
    "path~/demo/rack1/*/core*": lambda p: fnmatch.fnmatchcase(p.path, "/demo/rack1/*/core*"),
    "uri=demo:/rack1": lambda p: p.uri == "demo:/rack1",
    "depth=2": lambda p: len(above(p)) == 2,
    "parent=/demo/rack0": lambda p: p.parent is not None and p.parent.path == "/demo/rack0",
    "parent=rack0": lambda p: p.parent is not None and p.parent.name == "rack0",
    "under=/demo/rack1": lambda p: any(a.path == "/demo/rack1" for a in above(p)),
    "hierarchy=demo": lambda p: True,
    "subsystem=containment": lambda p: True,
    "available>=1": lambda p: p.available() >= 1,
    "available=0": lambda p: p.available() == 0,
    "available>=1 at 3": lambda p: p.available(at=3) >= 1,
    "available>=1 during 2..6": lambda p: p.available(at=2, duration_s=4) >= 1,
    "allocated>0": lambda p: p.allocated() > 0,
    "allocated>0 at 4": lambda p: p.allocated(at=4) > 0,
    "job=j1": lambda p: any(s.job == "j1" and s.start <= 0 < s.end for s in p.allocations()),
    "job=j1 during 0..20": lambda p: any(s.job == "j1" for s in p.allocations() + p.reservations()),
    "job~j*  during 0..20": lambda p: bool(p.allocations() + p.reservations()),
    "exclusive": lambda p: p.exclusive,
    "exclusive=false": lambda p: not p.exclusive,
    "shared": lambda p: bool(p.shared),
    "shared=j1": lambda p: "j1" in p.shared,
    "shared=j0,j2 at 5": lambda p: bool({"j0", "j2"} & set(p.shared_by(at=5))),
    "staged": lambda p: p.staged,
    "all": lambda p: True,
}


@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(4))
def test_comparison_equals_a_test_of_each_pool(seed: int) -> None:
    g = machine(seed, jobs=10)
    for text, holds in READINGS.items():
        assert g.find(text).paths() == [p.path for p in g.walk() if holds(p)], text


@settings(max_examples=60, deadline=None)
@given(
    st.recursive(
        st.sampled_from(sorted(READINGS)),
        lambda inner: st.tuples(st.sampled_from(["and", "or", "not"]), inner, inner),
        max_leaves=6,
    ),
    st.integers(0, 20),
)
def test_connectives_combine_results(tree: Any, seed: int) -> None:
    g = machine(seed, jobs=8)

    def text_of(node: Any) -> str:
        if isinstance(node, str):
            return node
        return f"not ({text_of(node[1])})" if node[0] == "not" else f"({text_of(node[1])}) {node[0]} ({text_of(node[2])})"

    def reads(node: Any, pool: Pool) -> bool:
        if isinstance(node, str):
            return bool(READINGS[node](pool))
        if node[0] == "not":
            return not reads(node[1], pool)
        left, right = reads(node[1], pool), reads(node[2], pool)
        return (left and right) if node[0] == "and" else (left or right)

    assert g.find(text_of(tree)).paths() == [p.path for p in g.walk() if reads(tree, p)]


def test_at_and_during_apply_to_all_amounts() -> None:
    g = machine(jobs=0)
    g.allocate("/demo/rack0/n0-1/core0", job="a", start=10, end=20)
    free = "type=core and parent=/demo/rack0/n0-1 and available=1"
    assert len(g.find(free)) == 3
    assert len(g.find(free, at=10)) == 2
    assert len(g.find(free, during=(0, 11))) == 2
    assert len(g.find(free, during=(20, 30))) == 3
    with pytest.raises(UsageError, match="give `at` or `during`"):
        g.find("all", at=1, during=(0, 1))


def test_find_returns_children_and_ancestors_on_request() -> None:
    g = machine(jobs=0)
    found = g.find("type=node and property:class=7 and under=/demo/rack1")
    assert found.paths() == ["/demo/rack1/n1-0", "/demo/rack1/n1-1"]
    assert found.with_ancestors().paths() == ["/demo", "/demo/rack1", "/demo/rack1/n1-0", "/demo/rack1/n1-1"]
    assert [p.name for p in found.with_children()] == [
        "n1-0",
        "core0",
        "core1",
        "core2",
        "memory0",
        "n1-1",
        "core0",
        "core1",
        "core2",
        "memory0",
    ]
    assert found.with_ancestors().with_children() == g.find("all")
    assert g.pool("/demo/rack1/n1-0") in found
    assert g.pool("/demo/rack1") not in found


@pytest.mark.parametrize(
    ("criteria", "error"),
    [("type=", InputError), ("state=sleepy", UsageError), ("path=/demo/rack7", UnknownPool), ("parent=/nowhere", UnknownPool)],
)
def test_invalid_criteria_are_refused_by_name(criteria: str, error: type[FluxresError]) -> None:
    with pytest.raises(error):
        machine(jobs=0).find(criteria)


def test_walk_prunes_and_sorts_in_each_order() -> None:
    g = machine(jobs=0)
    pre = [p.vertex for p in g.walk()]
    assert pre == list(range(len(g)))
    post = [p.vertex for p in g.walk(order="post")]
    assert sorted(post) == pre
    assert all(post.index(child.vertex) < post.index(p.vertex) for p in g.walk() for child in p.children)
    racks = [p.path for p in g.walk(prune=lambda p: p.type == "node")]
    assert racks == ["/demo", "/demo/rack0", "/demo/rack1"]
    backwards = [
        p.path for p in g.walk(prune=lambda p: p.type == "node", sort=lambda kids: sorted(kids, key=lambda kid: -(kid.id or 0)))
    ]
    assert backwards == ["/demo", "/demo/rack1", "/demo/rack0"]
    assert next(p.path for p in g.walk("/demo/rack0/n0-0")) == "/demo/rack0/n0-0"
    with pytest.raises(UsageError, match="expected 'pre', 'post' or 'bfs'"):
        g.walk(order="sideways")


@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(8))
def test_aggregate_is_the_sum_over_the_pools(seed: int) -> None:
    g = machine(seed, jobs=12)
    for top in g.walk():
        for at, duration_s in ((0, None), (4, None), (2, 5)):
            sums: dict[str, int] = {}
            for p in g.walk(top):
                sums[p.type] = sums.get(p.type, 0) + p.available(at=at, duration_s=duration_s)
            assert g.aggregate(top, at=at, duration_s=duration_s, all=True) == sums
            assert g.aggregate(top, at=at, duration_s=duration_s) == {t: n for t, n in sums.items() if n}
            assert g.available(at, duration_s).paths() == [p.path for p in g.walk() if p.available(at, duration_s)]


def test_a_wrong_word_is_compared_with_a_bounded_number_of_words(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = machine(jobs=0)
    for number, job in enumerate(("first", "second")):
        graph.allocate("slot/core", job=job, start=number, duration_s=1)
    monkeypatch.setattr(limits, "COMPARED_MAX", 2)
    with pytest.raises(UnknownJob) as refused:
        graph.free("secnod")
    assert refused.value.hint == "did you mean second?"
    monkeypatch.setattr(limits, "COMPARED_MAX", 1)
    with pytest.raises(UnknownJob) as refused:
        graph.free("secnod")
    assert refused.value.hint == "`jobs` lists those that do"
