"""A poll over many queues with many waiting jobs: `pytest tests/bench/test_jqm.py -m bench`."""

from __future__ import annotations

from time import process_time

import pytest

import fluxres
from fluxres import Instance
from fluxres.formats.peers.jqm import jobs

pytestmark = pytest.mark.bench

QUEUES, WAITING = 50, 100_000
GOAL_MS = 20.0


def filled(policy: str) -> Instance:
    """An instance whose queues are full: ten jobs of each run, and the others wait."""
    queues = "".join(f"- {{name: q{number}, nbThread: 10}}\n" for number in range(QUEUES))
    ports = ",".join(f"p{number}" for number in range(20))
    managers = f"[{{type: quantity, key: memory, quantity: 100000}}, {{type: discrete, key: ports, list: '{ports}'}}]"
    graph = fluxres.load(f"managers: {managers}\nqueues:\n{queues}".encode())
    instance = Instance(graph, queue_policy=policy, passes="manual", events=False)
    requests = [jobs.request(queue=f"q{number}", priority=rank) for number in range(QUEUES) for rank in (1, 5, 9)]
    for number in range(WAITING):
        instance.submit(requests[number % len(requests)])
    assert instance.schedule() == 10 * QUEUES
    return instance


def polled_ms(instance: Instance) -> tuple[int, float]:
    before = process_time()
    started = instance.schedule()
    return started, (process_time() - before) * 1e3


@pytest.mark.parametrize("policy", ["jqm-poller", "jqm-tours"])
def test_poll_over_fifty_queues(policy: str) -> None:
    instance = filled(policy)
    full = [polled_ms(instance) for _ in range(5)]
    one_each = []
    for _ in range(5):
        ended = {jobs.facts(job.request)["queue"]: job for job in instance.queue.running()}
        for job in ended.values():
            instance.finish(job)
        one_each.append(polled_ms(instance))
    print(f"{policy}: full {min(ms for _, ms in full):.2f} ms, one start in each queue {min(ms for _, ms in one_each):.2f} ms")
    assert {number for number, _ in full} == {0}
    assert {number for number, _ in one_each} == {QUEUES}
    assert min(ms for _, ms in full) <= GOAL_MS
    assert min(ms for _, ms in one_each) <= GOAL_MS
