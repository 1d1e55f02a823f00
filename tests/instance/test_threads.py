"""Threads that share a tree of instances and its graphs: calls are serialized."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from random import Random

import pytest

from fluxres import InsufficientResources, StaleHandle, UsageError
from fluxres.errors import NotHeld, StillHeld, UnknownJob
from fluxres.instance import Instance, Job
from tests import sites
from tests.instance.machines import of_shape
from tests.model.test_threads import together

ROUNDS = 100
REFUSED = (InsufficientResources, StaleHandle, UsageError, StillHeld, NotHeld, UnknownJob)


@pytest.fixture(autouse=True)
def _switch_often() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def works(instance: Instance, source: Random) -> None:
    job = instance.submit(source.choice(["slot=1/core", "slot=1/[core;power=100]", "slot=1/node"]), duration_s=50)
    try:
        (instance.finish if source.random() < 0.7 else instance.cancel)(job)
    except REFUSED:
        instance.cancel(job)


def nests(instance: Instance, source: Random) -> None:
    job = instance.submit("slot=1/node")
    if job.state.name != "RUN":
        instance.cancel(job)
        return
    child = instance.spawn(job)
    for _ in range(3):
        works(child, source)
    child.close()


def outside(instance: Instance, source: Random) -> None:
    assert instance.graph is not None
    name = f"outsider{source.random()}"
    instance.graph.allocate("slot=1/[core;power=100]", job=name, duration_s=5)
    instance.graph.free(name)


def asks(instance: Instance, source: Random) -> None:
    assert instance.check() == []
    instance.jobs()
    instance.tree()


def test_threads_read_what_jobs_have_while_others_work() -> None:
    """The records of a job with several pools are written in full when something reads them."""
    top = Instance(of_shape("node=32"), queue_policy="easy")
    known, done = list[Job](), list[int]()
    values = [name for name, member in vars(Job).items() if isinstance(member, property)]

    def work(seed: int) -> None:
        source, jobs = Random(seed), list[Job]()
        for _ in range(8 * ROUNDS):
            jobs.append(top.submit(f"slot={source.randrange(1, 4)}/node", duration_s=50))
            known[:] = [*known[-5:], jobs[-1]]
            if len(jobs) > 3:
                with suppress(*REFUSED):
                    (top.finish if source.random() < 0.7 else top.cancel)(jobs.pop(source.randrange(3)))
        done.append(seed)

    def read() -> None:
        while len(done) < 2:
            for job in known:
                for name in values:
                    getattr(job, name)

    together(lambda: work(1), lambda: work(2), read, read)
    assert top.check() == []


@pytest.mark.parametrize("others", [[outside], [nests, outside], [asks, works]])
def test_threads_share_a_tree_of_instances(others: list[Callable[[Instance, Random], None]]) -> None:
    top = Instance(sites.graph(sites.TWO_PDUS))

    def repeat(what: Callable[[Instance, Random], None], seed: int) -> None:
        source = Random(seed)
        for _ in range(ROUNDS):
            try:
                what(top, source)
            except REFUSED:
                continue

    together(*(lambda what=what, seed=seed: repeat(what, seed) for seed, what in enumerate([works, *others])))
    assert top.check() == []
    top.shut("the end")
    assert top.graph is not None
    assert (top.graph.jobs(), top.graph.planner.moments(0, 10**18)) == ([], [])
