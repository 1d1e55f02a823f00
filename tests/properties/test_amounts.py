"""Requests for amounts on a graph in a store: what HyperQueue guarantees, and what it would choose, at any moment."""

from __future__ import annotations

import tempfile
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from fluxres.errors import InfeasibleRequest, InsufficientResources, UnknownJob
from fluxres.formats.peers import requests as peer_requests
from fluxres.formats.peers.hyperqueue import environment
from fluxres.formats.peers.hyperqueue.read import read_words
from fluxres.graph import groups
from fluxres.model import Allocation, ResourceGraph
from fluxres.store import open_store
from fluxres.syntax.variants import ALL, PER_UNIT, POLICIES, Ask, Variant
from tests.hyperqueue_oracle import Index, Pool, Worker

POOLS = "cpus=3x3 gpus=[[a,b],[c,d,e],[f]] x=range(1-4) mem=sum(5.5)"
COUPLING = " --coupling cpus[0]:gpus[0],cpus[1]:gpus[1]=300,cpus[2]:gpus[2]=1500"
GROUPS = {
    "cpus": [["0", "1", "2"], ["3", "4", "5"], ["6", "7", "8"]],
    "gpus": [["a", "b"], ["c", "d", "e"], ["f"]],
    "x": [["1", "2", "3", "4"]],
    "mem": [],
}
WEIGHTS = {(("cpus", 0), ("gpus", 0)): 256.0, (("cpus", 1), ("gpus", 1)): 300.0, (("cpus", 2), ("gpus", 2)): 1500.0}
AMOUNTS = st.one_of(st.integers(1, 5).map(lambda units: units * PER_UNIT), st.integers(1, 60_000), st.just(ALL))
ASKS = st.dictionaries(st.sampled_from(list(GROUPS)), st.tuples(AMOUNTS, st.sampled_from(POLICIES)), min_size=1)


def machine() -> ResourceGraph:
    return ResourceGraph(read_words(POOLS + COUPLING, fractions=True).structure)


def oracle() -> Worker:
    pools = {name: Pool([list(group) for group in of], 55_000 if name == "mem" else 0) for name, of in GROUPS.items()}
    return Worker(pools, WEIGHTS)


def variant(asks: dict[str, tuple[int, str]]) -> Variant:
    return Variant(tuple(Ask(name, amount, None if amount == ALL else policy) for name, (amount, policy) in asks.items()))


def indices(graph: ResourceGraph, asked: Variant, got: Allocation) -> dict[str, tuple[int, list[Index]]]:
    """The amount and the indices of each resource."""
    number = {
        (name, environment.label(graph.structure, v)): at
        for name, kind in (("cpus", "core"), ("gpus", "gpu"), ("x", "x"))
        for at, part in enumerate(groups.in_host(graph.structure, graph.structure.of_type(kind).astype(int), 1))
        for v in part.tolist()
    }
    found = {}
    for grant in environment.grants(asked, got):
        labels = grant.labels or ()
        shares = [0] * len(labels)
        if labels and grant.amount % PER_UNIT:
            shares[-1] = grant.amount % PER_UNIT
        name = grant.ask.name
        found[name] = grant.amount, [(label, number[name, label], share) for label, share in zip(labels, shares, strict=True)]
    return found


class Amounts(RuleBasedStateMachine):
    """Tasks start and end, in one process after another; an in-memory worker is asked the same."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.place = str(Path(self.folder.name) / "site.db")
        self.store = open_store(self.place)
        self.store.put("w", machine())
        self.oracle = oracle()
        self.held: dict[str, dict[str, tuple[int, list[Index]]]] = {}
        self.number = 0

    def teardown(self) -> None:
        self.folder.cleanup()

    @rule(asks=ASKS)
    def ask(self, asks: dict[str, tuple[int, str]]) -> None:
        self.number += 1
        job, asked = f"t{self.number}", variant(asks)
        plain = {ask.name: (ask.amount, ask.policy) for ask in asked.asks}
        request = peer_requests.hyperqueue([asked])
        before = self.store.load("w").revision
        can = self.oracle.can_give(plain)
        try:
            with self.store.writing("w", command="allocate") as tx:
                why = tx.graph.why_not(request)
                assert (why is None) is can, why
                tx.graph.allocate(request, job=job)
        except (InsufficientResources, InfeasibleRequest) as error:
            refused = not can and bool(error.reasons) and self.store.load("w").revision == before
            if not refused:
                raise
            return
        graph = self.store.load("w")
        found = indices(graph, asked, graph.allocation(job))
        choosing = self.oracle.choosing(plain)
        for name, (amount, _) in plain.items():
            assert found[name][0] == (self.oracle.pools[name].size if amount == ALL else amount)
        tried = []
        for way in self.oracle.best_ways(choosing):
            trial = deepcopy(self.oracle)
            tried.append({name: trial.take(name, amount, policy, way.get(name, ())) for name, (amount, policy) in plain.items()})
            if all(found[name][1] == tried[-1][name] for name in plain):
                self.oracle, self.held[job] = trial, found
                return
        raise AssertionError((found, tried))

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        job = data.draw(st.sampled_from(sorted(self.held)))
        with self.store.writing("w", command="free") as tx:
            tx.graph.free(job)
            with pytest.raises(UnknownJob):
                tx.graph.free(job)
        for name, (amount, of) in self.held.pop(job).items():
            self.oracle.release(name, of, amount)

    @rule()
    def another_process(self) -> None:
        """The journal alone has everything, and so has a snapshot of the state."""
        self.store = open_store(self.place)
        graph = self.store.load("w")
        self.store.put("w", graph, replace=True)

    @invariant()
    def guarantees_hold(self) -> None:
        graph = self.store.load("w")
        assert graph.check() == []
        assert set(graph.jobs()) == set(self.held)
        used: dict[tuple[str, str], int] = {}
        for found in self.held.values():
            for name, (_, of) in found.items():
                for label, _, share in of:
                    used[name, label] = used.get((name, label), 0) + (share or PER_UNIT)
        assert max(used.values(), default=0) <= PER_UNIT
        for name in ("cpus", "gpus", "x"):
            size = sum(map(len, GROUPS[name])) * PER_UNIT
            assert self.oracle.pools[name].free == size - sum(amount for (of, _), amount in used.items() if of == name)
        (mem,) = graph.find("type=mem")
        assert mem.available() == self.oracle.pools["mem"].free >= 0
        total = sum(pool.available() for pool in graph.find("type=share"))
        assert total == sum(self.oracle.pools[name].free for name in ("cpus", "gpus", "x"))


TestAmounts = Amounts.TestCase
TestAmounts.settings = settings(max_examples=8, stateful_step_count=12, deadline=None)


@settings(max_examples=60, deadline=None)
@given(asks=ASKS, more=st.lists(ASKS, max_size=3))
def test_repeat_gets_the_same_pools_in_the_same_order(asks: Any, more: list[Any]) -> None:
    graph = machine()
    for number, each in enumerate(more):
        try:
            graph.allocate(peer_requests.hyperqueue([variant(each)]), job=f"m{number}")
        except (InsufficientResources, InfeasibleRequest):
            continue
    request = peer_requests.hyperqueue([variant(asks)])
    try:
        first = graph.allocate(request, job="j")
    except (InsufficientResources, InfeasibleRequest):
        return
    graph.free("j")
    again = graph.allocate(request, job="j")
    if all(policy not in ("compact", "compact!", "scatter") and amount != ALL for amount, policy in asks.values()):
        assert again.chosen == first.chosen
    assert sorted(pool.path for pool in again.pools) == sorted(pool.path for pool in first.pools)
