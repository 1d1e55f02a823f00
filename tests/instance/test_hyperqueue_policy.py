"""Jobs of an instance with the queue policy `hyperqueue`: where they start, and that all of them end."""

from __future__ import annotations

import pytest

import fluxres
from fluxres.formats import registry
from fluxres.instance import Instance
from fluxres.instance.states import State
from fluxres.model import ResourceGraph
from fluxres.syntax import jobspec
from fluxres.syntax.jobspec import Request
from tests import sites


def site(lines: str, clock: list[float] | None = None, policy: str = "hyperqueue") -> Instance:
    moment = [0.0] if clock is None else clock
    graph = ResourceGraph(registry.read(lines.encode(), fractions=True).structure)
    return Instance(graph, queue_policy=policy, clock=lambda: moment[0])


def ask(text: str) -> Request:
    return Request.parse(text, format="hyperqueue")


def nodes(top: Instance, *jobs: fluxres.Job) -> list[list[str]]:
    return [list(dict.fromkeys(path.split("/")[2] for path, _ in job.pools if path.startswith("/"))) for job in jobs]


def test_jobs_are_allocations_with_the_variant_that_was_assigned() -> None:
    top = site("--cpus 4\n\n--cpus 8 --resource gpus=[a,b]\n")
    job = top.submit(ask("cpus=16 | gpus=1.5 cpus=2"))
    assert nodes(top, job) == [["node1"]]
    chosen = top.graph.allocation(str(job.id)).chosen
    assert chosen is not None
    assert chosen.variant == 1
    top.finish(job.id)
    assert top.graph.jobs() == []
    assert top.check() == top.graph.check() == []


def test_priority_of_the_request_and_of_the_job_decide() -> None:
    top = site("--cpus 2\n")
    first = top.submit(ask("--cpus 2"))
    low, high = top.submit(ask("--cpus 2 --priority -5")), top.submit(ask("--cpus 2 --priority 7"))
    urgent = top.submit(ask("--cpus 2"), urgency=20)
    order = []
    while running := top.jobs(State.RUN):
        order += running
        top.finish(running[0].id)
    assert order == [first, high, urgent, low]


def test_a_task_starts_only_on_a_worker_that_lives_long_enough() -> None:
    worker = (
        '{"started": "1970-01-01T00:00:00Z", "configuration": {"hostname": "%s", "time_limit": %d,'
        ' "resources": {"resources": [{"name": "cpus", "kind": "range", "start": 0, "end": 0}]}}}'
    )
    clock = [0.0]
    top = site(f"[{worker % ('short', 50)}, {worker % ('long', 200)}]", clock)
    long, short = top.submit(ask("--cpus 1 --time-request 170")), top.submit(ask("--cpus 1"))
    assert nodes(top, long, short) == [["long"], ["short"]]
    top.finish(long.id)
    clock[0] = 40.0
    assert top.submit(ask("--cpus 1 --time-request 170")).state is State.SCHED
    with pytest.raises(fluxres.InsufficientResources, match="time request"):
        top.graph.match(ask("--cpus 1 --time-request 170"))


def test_whole_workers_of_one_group() -> None:
    top = site("--cpus 1 --group a\n--cpus 1 --group b\n--cpus 1 --group b\n")
    both, one = top.submit(ask("--nodes 2")), top.submit(ask("--cpus 1"))
    assert nodes(top, both, one) == [["node1", "node2"], ["node0"]]
    with pytest.raises(fluxres.InfeasibleRequest):
        top.submit(ask("--nodes 3"))


def test_other_requests_constraints_and_states_are_respected() -> None:
    top = site("--cpus 2\n--cpus 2\n")
    top.graph.set_state("/cluster/node0", "drain")
    first = top.submit("slot/core=2")
    assert nodes(top, first) == [["node1"]]
    waiting = top.submit(ask("cpus=1"))
    assert waiting.state is State.SCHED
    top.graph.set_state("/cluster/node0", "up")
    top.schedule()
    assert nodes(top, waiting) == [["node0"]]


def test_a_stream_of_tasks_ends_and_nothing_is_held() -> None:
    clock = [0.0]
    top = site("--cpus 2x2 --resource gpus=[a,b] --resource mem=sum(10)\n" * 3, clock)
    texts = ("cpus=1", "cpus=3 tight", "gpus=0.5", "gpus=1 mem=4", "--nodes 2", "cpus=all | cpus=2 compact!")
    jobs = [top.submit(ask(texts[number % len(texts)]), duration_s=1 + number % 7) for number in range(90)]
    for _ in range(400):
        assert top.check() == []
        if not top.is_active:
            break
        clock[0] += 1.0
        top.advance()
    assert {job.result for job in jobs} == {"timeout"}
    assert top.graph.jobs() == []
    assert top.graph.check() == []


def test_a_jobspec_keeps_the_request() -> None:
    request = ask("gpus=0.5 cpus=2 tight! | cpus=all")
    task = {"command": ["a"], "slot": "task", "count": {"per_slot": 1}}
    again = Request.parse({**jobspec.to_plain(request), "tasks": [task]})
    assert again.chooser.variants == request.chooser.variants
    assert len(again.chooser.variants) == 2


def test_a_job_whose_worker_lacks_power_starts_on_another() -> None:
    tree = "fluxres: 1\nname: m\nresources:\n  - {type: node, count: 2, with: [{type: core, count: 4, draw: {power: 10}}]}\n"
    pdus = "[{type: pdu, id: 0, size: 15, unit: W}, {type: pdu, id: 1, size: 40, unit: W}]"
    edges = "[{from: 'power:/pdu0', to: /m/node0}, {from: 'power:/pdu1', to: /m/node1}]"
    graph = sites.graph(f"{tree}graphs: {{power: {{pools: {pdus}, edges: {edges}}}}}\n")
    top = Instance(graph, queue_policy="hyperqueue", clock=lambda: 0.0)
    jobs = [top.submit(ask("cpus=2")) for _ in range(3)]
    assert nodes(top, *jobs) == [["node1"], ["node1"], []]
    top.finish(jobs[0].id)
    assert nodes(top, jobs[2]) == [["node1"]]
    assert top.check() == graph.check() == []
