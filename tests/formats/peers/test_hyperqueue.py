"""What a HyperQueue worker guarantees, and the groups it chooses, compared with all choices."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from fluxres import limits
from fluxres.errors import LimitExceeded, UsageError
from fluxres.formats.peers.hyperqueue import coupling as hyperqueue_coupling
from fluxres.formats.peers.hyperqueue import definitions as hyperqueue
from fluxres.formats.peers.hyperqueue import request as hyperqueue_request
from fluxres.formats.peers.hyperqueue.allocator import Given, GroupNeed, Pair, Worker, choose
from fluxres.formats.peers.hyperqueue.request import ALL, POLICIES, Ask
from fluxres.formats.peers.hyperqueue.tokens import PER_UNIT

POOLS = [hyperqueue.parse(text) for text in ("cpus=3x3", "gpus=[[a,b],[c,d,e],[f]]", "x=range(1-4)", "mem=sum(5.5)")]
COUPLINGS = hyperqueue_coupling.parse("cpus[0]:gpus[0],cpus[1]:gpus[1]=300,cpus[2]:gpus[2]=1500", POOLS)


@st.composite
def needs(draw: Any) -> GroupNeed:
    count = draw(st.integers(1, 4))
    free = draw(st.lists(st.integers(0, 4), min_size=count, max_size=count))
    most_open = draw(st.lists(st.sampled_from([0, 0, 3000, 7000]), min_size=count, max_size=count))
    return GroupNeed(draw(st.integers(0, 6)), draw(st.sampled_from([0, 0, 2000, 8000])), tuple(free), tuple(most_open))


def best_of_all(wanted: Sequence[GroupNeed], weights: Mapping[Pair, float]) -> float | None:
    """The value of the best choice of groups."""
    ways = []
    for need in wanted:
        groups = range(len(need.free))
        subsets = itertools.chain.from_iterable(itertools.combinations(groups, size) for size in range(len(groups) + 1))
        ways.append([subset for subset in subsets if need.is_met(subset)])
    worths = [
        sum(need.score(group) for need, groups in zip(wanted, way, strict=True) for group in groups)
        + sum(weight for (one, other), weight in weights.items() if one[1] in way[one[0]] and other[1] in way[other[0]])
        for way in itertools.product(*ways)
    ]
    return max(worths, default=None)


@settings(max_examples=200, deadline=None)
@given(st.lists(needs(), min_size=1, max_size=3), st.data())
def test_the_choice_of_groups_is_optimal(wanted: list[GroupNeed], data: st.DataObject) -> None:
    cells = [(number, group) for number, need in enumerate(wanted) for group in range(len(need.free))]
    pairs = list(itertools.combinations(cells, 2))
    weights: dict[Pair, float] = {}
    if pairs:
        weights = data.draw(st.dictionaries(st.sampled_from(pairs), st.sampled_from([1.0, 256.0, 3000.0]), max_size=5))
    found, best = choose(wanted, weights), best_of_all(wanted, weights)
    if found is None or best is None:
        assert found is best is None
        return
    assert found.worth == pytest.approx(best)
    assert all(need.is_met(groups) for need, groups in zip(wanted, found.groups, strict=True))


def test_many_groups_are_chosen_in_bounded_time() -> None:
    weights: dict[Pair, float] = {((0, group), (1, group)): 256.0 for group in range(64)}
    found = choose([GroupNeed(40, 0, (2,) * 64, (0,) * 64), GroupNeed(20, 0, (1,) * 64, (0,) * 64)], weights)
    assert found is not None
    assert [len(groups) for groups in found.groups] == [20, 20]
    assert choose([GroupNeed(10**6, 0, (10**5,) * 64, (0,) * 64)], {}) is not None


class Machine(RuleBasedStateMachine):
    """Tasks start and end; the guarantees of a worker hold at any moment."""

    def __init__(self) -> None:
        super().__init__()
        self.worker = Worker(POOLS, COUPLINGS)
        self.held: dict[str, dict[str, Given]] = {}
        self.number = 0
        self.last: tuple[list[Ask], dict[str, Given]] | None = None

    @rule(
        amounts=st.dictionaries(
            st.sampled_from(["cpus", "gpus", "x", "mem", "none"]),
            st.one_of(st.integers(1, 4).map(lambda units: units * PER_UNIT), st.integers(1, 60_000), st.just(ALL)),
            min_size=1,
        ),
        policy=st.sampled_from(POLICIES),
    )
    def ask(self, amounts: dict[str, int], policy: str) -> None:
        asks = [Ask(name, amount, None if amount == ALL else policy) for name, amount in amounts.items()]
        before = {pool.name: self.worker.free(pool.name) for pool in POOLS}
        self.number += 1
        can = self.worker.can_give(asks)
        found = self.worker.allocate(f"t{self.number}", asks)
        assert (found is not None) is can
        if found is None:
            assert before == {pool.name: self.worker.free(pool.name) for pool in POOLS}
            if policy[-1] != "!":
                assert not all(self.could(ask, before) for ask in asks)
            return
        self.held[f"t{self.number}"] = found
        self.last = (asks, found)
        for ask in asks:
            given_of = found[ask.name]
            assert before[ask.name] - self.worker.free(ask.name) == given_of.amount
            assert given_of.amount == ask.amount or ask.amount == ALL
            shares = [index.share for index in given_of.indices or ()]
            assert not any(shares[:-1])
            if given_of.indices is not None:
                assert sum(share or PER_UNIT for share in shares) == given_of.amount

    def could(self, ask: Ask, before: dict[str, int]) -> bool:
        """Whether totals alone would allow it: whole indices and one share."""
        if ask.name not in before:
            return False
        if ask.name == "mem":
            return before["mem"] == 55_000 if ask.amount == ALL else ask.amount <= before["mem"]
        used: dict[str, int] = defaultdict(int)
        for given_of in self.held.values():
            for index in given_of[ask.name].indices or () if ask.name in given_of else ():
                used[index.label] += index.share or PER_UNIT
        size = next(len(pool.kind) for pool in POOLS if pool.name == ask.name)  # type: ignore[arg-type]  # mem is dealt with
        whole = (size - len(used)) * PER_UNIT
        most = whole + max((PER_UNIT - share for share in used.values() if share < PER_UNIT), default=0)
        return not used if ask.amount == ALL else ask.amount <= most

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        task = data.draw(st.sampled_from(sorted(self.held)))
        self.worker.release(task)
        del self.held[task]
        with pytest.raises(UsageError):
            self.worker.release(task)

    @precondition(lambda self: self.last is not None and f"t{self.number}" in self.held)
    @rule()
    def repeat(self) -> None:
        assert self.last is not None
        asks, before = self.last
        self.worker.release(f"t{self.number}")
        again = self.worker.allocate(f"t{self.number}", asks)
        assert again is not None
        for name, each in again.items():
            assert each.amount == before[name].amount
            if all(ask.policy in (None, "compact", "tight") or ask.name != name for ask in asks) and name == "x":
                assert each.labels == before[name].labels
        self.held[f"t{self.number}"] = again

    @invariant()
    def no_index_is_given_twice(self) -> None:
        for name in ("cpus", "gpus", "x"):
            shares: Counter[str] = Counter()
            for given_of in self.held.values():
                for index in (given_of[name].indices or ()) if name in given_of else ():
                    shares[index.label] += index.share or PER_UNIT
            assert max(shares.values(), default=0) <= PER_UNIT
            size = next(len(pool.kind) for pool in POOLS if pool.name == name)  # type: ignore[arg-type]  # indices
            assert self.worker.free(name) == size * PER_UNIT - sum(shares.values())


TestWorker = Machine.TestCase
TestWorker.settings = settings(max_examples=60, stateful_step_count=20, deadline=None)


def test_invalid_requests_are_refused() -> None:
    worker = Worker([hyperqueue.parse("x=[a]")])
    worker.allocate("t", [Ask("x", PER_UNIT)])
    with pytest.raises(UsageError, match="holds something"):
        worker.allocate("t", [])
    with pytest.raises(UsageError, match="twice"):
        worker.allocate("u", [Ask("x", 1), Ask("x", 2)])
    with pytest.raises(UsageError, match="no resource 'y'"):
        worker.free("y")
    with pytest.raises(UsageError, match="too little"):
        worker.occupy("u", "x", [0], PER_UNIT)
    with pytest.raises(LimitExceeded):
        Worker([hyperqueue.parse(f"x=range(0-{limits.IDSET_COUNT_MAX})")])


def test_the_first_variant_that_fits_is_allocated() -> None:
    worker = Worker([hyperqueue.parse("cpus=1x4"), hyperqueue.parse("x=[0,1]")])
    variants = [
        hyperqueue_request.variant([hyperqueue_request.parse(text) for text in texts])
        for texts in (["cpus=8"], ["y=1"], ["cpus=4", "x=1"])
    ]
    found = worker.allocate_variant("t", [hyperqueue_request.variant([], nodes=1), *variants])
    assert found is not None
    assert found[0] == 3
    assert worker.allocate_variant("u", variants) is None
    assert worker.has_ever(variants[2].asks)
    assert not worker.has_ever(variants[0].asks)


def test_versions_without_group_choice_allocate_cpus_in_order() -> None:
    ask = [hyperqueue_request.parse("cpus=3")]
    pools = [hyperqueue.parse("cpus=1x4")]
    given_each = [Worker(pools, seed=seed).allocate("t", ask) for seed in (False, True)]
    labels = [found["cpus"].labels for found in given_each if found is not None]
    assert labels == [("3", "2", "1"), ("1", "2", "3")]
