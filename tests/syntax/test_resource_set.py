"""R as a value: set operations on ranks, types and ids."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fluxres
from fluxres import limits
from fluxres.errors import FluxresError, InputError, LimitExceeded, MergeConflict, UsageError
from fluxres.formats import registry
from fluxres.syntax.idset import IDset
from fluxres.syntax.resource_set import ResourceSet, Target

IDS = st.sets(st.integers(0, 5), max_size=4).map(IDset)
RANKS = st.dictionaries(st.integers(0, 6), st.fixed_dictionaries({"core": IDS}, optional={"gpu": IDS, "nic": IDS}), max_size=5)


def made(ranks: dict[int, dict[str, IDset]], properties: dict[str, set[int]] | None = None) -> ResourceSet:
    targets = {rank: Target(f"n{rank}", children) for rank, children in ranks.items()}
    return ResourceSet(targets, properties={name: IDset(having) for name, having in (properties or {}).items()})


def r(short: str, nodelist: str | None = "n", **more: Any) -> ResourceSet:
    """A set from its short form; hosts are n0, n1 … unless given."""
    lite = []
    for part in short.split():
        ranks, _, children = part.removeprefix("rank").partition("/")
        pairs = {type_: ids or one for type_, ids, one in re.findall(r"([a-z]+)(?:\[([-0-9,]+)\]|([0-9]+))", children)}
        lite.append({"rank": ranks.strip("[]"), "children": pairs})
    execution: dict[str, Any] = {"R_lite": lite, **more}
    if nodelist is not None:
        ranks = IDset().union(*(entry["rank"] for entry in lite))
        execution["nodelist"] = [",".join(f"n{rank}" for rank in ranks)] if nodelist == "n" else [nodelist]
    return ResourceSet.parse({"version": 1, "execution": execution})


def facts(resources: ResourceSet) -> set[tuple[int, str, int]]:
    return {(rank, type_, id_) for rank in resources for type_, ids in resources[rank].children.items() for id_ in ids}


@given(RANKS, RANKS)
def test_operations_are_those_of_sets_of_rank_type_and_id(one: dict[int, Any], other: dict[int, Any]) -> None:
    a, b = made(one), made(other)
    assert facts(a.union(b)) == facts(a) | facts(b)
    assert facts(a.diff(b)) == facts(a) - facts(b)
    assert facts(a.intersect(b)) == facts(a) & facts(b)
    for found in (a.diff(b), a.intersect(b)):
        assert all(any(found[rank].children.values()) for rank in found)
        assert [found[rank].host for rank in found] == [f"n{rank}" for rank in found]
    if facts(a) & facts(b):
        with pytest.raises(MergeConflict, match="both resource sets have 'rank"):
            a.append(b)
    else:
        assert a.append(b) == a.union(b)
    assert facts(a.diff(b).append(a.intersect(b))) == facts(a)


@given(RANKS, st.sets(st.integers(0, 7)))
def test_ranks_are_chosen_and_renumbered(ranks: dict[int, Any], chosen: set[int]) -> None:
    a = made(ranks, {"p": {rank for rank in ranks if rank % 2}})
    assert facts(a.copy_ranks(chosen)) == {fact for fact in facts(a) if fact[0] in chosen}
    assert facts(a.remove_ranks(chosen)) == {fact for fact in facts(a) if fact[0] not in chosen}
    assert a.copy_ranks(chosen).properties.get("p", IDset()) <= IDset(chosen)
    small = a.remap()
    assert list(small) == list(range(len(ranks)))
    assert [small[rank].host for rank in small] == [a[rank].host for rank in a]
    for new, old in zip(small, a, strict=True):
        before, after = a[old].children, small[new].children
        for type_, ids in before.items():
            assert after[type_] == ids if type_ == "gpu" else list(after[type_]) == list(range(len(ids)))
    assert list(small.properties.get("p", ())) == [at for at, rank in enumerate(a) if rank % 2]
    back = a.rerank(reversed(list(a.nodelist)))
    assert list(back.nodelist) == list(reversed(list(a.nodelist)))
    assert [back[rank].children for rank in back] == [a[rank].children for rank in reversed(list(a))]
    assert list(back.properties.get("p", ())) == sorted(len(ranks) - 1 - at for at, rank in enumerate(a) if rank % 2)


@given(RANKS)
def test_written_sets_are_read_back(ranks: dict[int, Any]) -> None:
    a = made(ranks, {"p": set(ranks)})
    again = ResourceSet.parse(json.dumps(a.to_dict()))
    assert again == a
    assert (str(again), again.ranks, again.nodelist) == (str(a), a.ranks, a.nodelist)
    assert facts(again) == facts(a)
    for type_ in ("core", "gpu", "nic"):
        assert a.count(type_) == sum(fact[1] == type_ for fact in facts(a))


@pytest.mark.parametrize(
    "short",
    [
        "",
        "rank0/core0",
        "rank[0-2]/core[0-3],gpu0 rank3/core0",
        "rank[0,4]/core[0-1] rank[1-3]/core[0-1],gpu[0,2]",
        "rank0/gpu0",
        "rank0/core0,gpu0,nic[0-1]",
    ],
)
def test_the_short_form(short: str) -> None:
    assert str(r(short)) == short
    assert repr(r(short)) == f"ResourceSet('{short}')"


def test_a_machine_is_the_same_from_its_resource_set() -> None:
    a = r("rank[0-2]/core[0-3],gpu0", properties={"ssd": "1"})
    g = fluxres.ResourceGraph(registry.read(json.dumps(a.to_dict()).encode()).structure)
    everything = g.allocate("node=3{x}", job="all")
    assert ResourceSet.parse(everything.R()).diff(a) == ResourceSet()
    part = g.allocation("all").R() | {"scheduling": {"writer": "x"}}
    assert ResourceSet.parse(part).scheduling == {"writer": "x"}


def test_times_slots_and_data_of_the_scheduler() -> None:
    a = r("rank[4-5]/core[0-1]", starttime=5, expiration=7.5, nslots=3)
    assert (a.starttime, a.expiration, a.nslots) == (5.0, 7.5, 3)
    plain = {**a.to_dict(), "scheduling": {"writer": "x", "graph": {}}}
    b = ResourceSet.parse(plain)
    assert b.to_dict() == plain
    assert b != a
    for found in (b.copy_ranks("4"), b.union(a), b.diff(r("rank4/core0")), b.rerank("n[4-5]"), b.remap(), b.intersect(a)):
        assert (found.starttime, found.expiration, found.nslots) == (5.0, 7.5, 0)
        assert found.scheduling == {"writer": "x", "graph": {}}
    assert a.union(b).scheduling == {"writer": "x", "graph": {}}
    assert b.diff(a).scheduling is None


def test_hosts_of_ranks_and_ranks_of_hosts() -> None:
    a = r("rank[2-5]/core0", nodelist="a,b,a,c")
    assert str(a.host_ranks("a")) == "2,4"
    assert str(a.host_ranks(["c", "a"])) == "2,4-5"
    with pytest.raises(UsageError, match=r"not in the resource set: 'x\[1-2\]'"):
        a.host_ranks("a,x[1-2]")
    assert str(a.rerank("c,a,b,a").nodelist) == "c,a,b,a"
    with pytest.raises(UsageError, match="'b' is not in the resource set, or fewer times"):
        a.rerank("a,b,b,c")
    with pytest.raises(UsageError, match="3 hosts, fewer than the 4"):
        a.rerank("a,b,c")
    with pytest.raises(UsageError, match="5 hosts, more than the 4"):
        a.rerank("a,a,b,c,d")
    with pytest.raises(MergeConflict, match="rank 2 is a in one and n2 in the other"):
        a.union(r("rank2/core1"))
    unnamed = r("rank[2-3]/core[0-1]", nodelist=None)
    assert str(unnamed.union(a).nodelist) == "a,b,a,c"
    assert unnamed[2].host is None
    assert "nodelist" not in unnamed.to_dict()["execution"]


def test_constraints() -> None:
    a = r("rank[0-3]/core0", properties={"ssd": "1-2", "big": "2-3"})
    for constraint, ranks in (
        ({"properties": ["ssd", "^big"]}, "1"),
        ({"properties": ["n3"]}, "3"),
        ({"hostlist": ["n[0-1]", "n3"]}, "0-1,3"),
        ({"not": [{"ranks": ["0", 2]}]}, "1,3"),
        ({"or": [{"properties": ["big"]}, {"ranks": ["0"]}]}, "0,2-3"),
        ({}, "0-3"),
        ({"not": []}, ""),
    ):
        assert str(a.copy_constraint(constraint).ranks) == ranks, constraint
    with pytest.raises(InputError, match="unknown key 'site'"):
        a.copy_constraint({"site": []})


def document(**changes: Any) -> dict[str, Any]:
    execution = {"R_lite": [{"rank": "0-1", "children": {"core": "0-1"}}], "nodelist": ["n[0-1]"]} | changes
    return {"version": 1, "execution": {key: value for key, value in execution.items() if value is not ...}}


@pytest.mark.parametrize(
    ("values", "where"),
    [
        ([], "R"),
        ({"version": 1}, "R"),
        (document() | {"version": 2}, "R.version"),
        (document() | {"version": True}, "R.version"),
        (document() | {"more": 1}, "R.more"),
        (document(R_lite=...), "R.execution"),
        (document(R_lite={}), "R.execution.R_lite"),
        (document(R_lite=[{"rank": "0"}]), "R.execution.R_lite[0]"),
        (document(R_lite=[{"rank": "1-0", "children": {}}]), "R.execution.R_lite[0].rank"),
        (document(R_lite=[{"rank": "0", "children": {"core": "x"}}]), "R.execution.R_lite[0].children.core"),
        (document(R_lite=[{"rank": "0", "children": {"core": None}}]), "R.execution.R_lite[0].children.core"),
        (document(R_lite=[{"rank": "0-1", "children": {}}, {"rank": 1, "children": {}}]), "R.execution.R_lite[1].rank"),
        (document(nodelist=["n0"]), "R.execution.nodelist"),
        (document(nodelist=["n[0-5]"]), "R.execution.nodelist"),
        (document(nodelist=["n0", "n[1-"]), "R.execution.nodelist[1]"),
        (document(nodelist="n[0-1]"), "R.execution.nodelist"),
        (document(properties={"p": "1-2"}), "R.execution.properties.p"),
        (document(properties=["p"]), "R.execution.properties"),
        (document(properties={"a&b": "0"}), "R.execution.properties"),
        (document(properties={"": "0"}), "R.execution.properties"),
        (document(properties={"p": 0}), "R.execution.properties.p"),
        (document(starttime=5, expiration=5), "R.execution.expiration"),
        (document(starttime=-1), "R.execution.starttime"),
        (document(nslots=0), "R.execution.nslots"),
        (document(slots=1), "R.execution.slots"),
    ],
)
def test_errors_name_their_position(values: Any, where: str) -> None:
    for given_as in (values, json.dumps(values)):
        with pytest.raises(InputError) as refused:
            ResourceSet.parse(given_as)
        assert refused.value.where == where


def test_bounds() -> None:
    with pytest.raises(LimitExceeded, match=str(limits.RANKS_MAX)):
        ResourceSet.parse(document(R_lite=[{"rank": f"0-{limits.RANKS_MAX}", "children": {}}]))
    with pytest.raises(LimitExceeded, match=str(limits.DOCUMENT_BYTES_MAX)):
        ResourceSet.parse(b" " * (limits.DOCUMENT_BYTES_MAX + 1))
    with pytest.raises(InputError, match="R:1:1: expected JSON"):
        ResourceSet.parse("x")
    wide = ResourceSet.parse(document(R_lite=[{"rank": "0-1", "children": {"core": f"0-{limits.ID_MAX}"}}]))
    assert str(wide.diff(r("rank[0-1]/core7"))) == f"rank[0-1]/core[0-6,8-{limits.ID_MAX}]"


KEYS = ["version", "execution", "R_lite", "rank", "children", "nodelist", "core"]
PLAIN = st.recursive(
    st.none() | st.integers() | st.text(max_size=3),
    lambda below: st.lists(below) | st.dictionaries(st.sampled_from(KEYS), below),
    max_leaves=8,
)


@given(PLAIN)
def test_anything_is_read_or_refused(values: Any) -> None:
    try:
        ResourceSet.parse(values)
    except FluxresError:
        return


@pytest.mark.parametrize("values", [{"version": 1, "execution": {"R_lite": []}}, '{"version": 1}', {0: {"core": "0-3"}}])
def test_invalid_targets_are_refused_with_a_hint_to_parse(values: Any) -> None:
    with pytest.raises(UsageError, match=r"targets by rank \(ResourceSet\.parse\(…\) reads R"):
        ResourceSet(values)
