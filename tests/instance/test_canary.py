"""canary's order of tests as a queue policy."""

from __future__ import annotations

import fluxres
from fluxres import Instance
from fluxres.instance.job import Job
from fluxres.instance.states import State
from fluxres.syntax.jobspec import Request


def submitted(instance: Instance, **tests: tuple[str, float]) -> dict[str, Job]:
    return {
        name: instance.submit(Request.parse(text, format="canary"), name=name, duration_s=runtime_s)
        for name, (text, runtime_s) in tests.items()
    }


def running(jobs: dict[str, Job]) -> list[str]:
    return sorted(name for name, job in jobs.items() if job.state is State.RUN)


def test_dear_tests_start_first_and_those_that_do_not_fit_are_passed_over() -> None:
    instance = Instance(fluxres.load("canary:cpus=4"), queue_policy="canary", passes="manual")
    jobs = submitted(
        instance, wide=("cpus=4", 1), long=("cpus=1", 50), both=("cpus=3", 40), small=("cpus=1", 1), twin=("cpus=1", 1)
    )
    instance.schedule()
    assert running(jobs) == ["both", "long"]
    instance.finish(jobs["both"])
    instance.schedule()
    assert running(jobs) == ["long", "small", "twin"]
    assert not instance.check()


def test_nothing_starts_beside_a_test_that_has_its_nodes_for_itself() -> None:
    instance = Instance(fluxres.load("canary:cpus=4 nodes=3"), queue_policy="canary", passes="manual")
    alone = '[{"items": [{"type": "cpus", "slots": 1}], "exclusive": true}]'
    jobs = submitted(instance, small=("cpus=1", 1), alone=(alone, 9), long=("cpus=1", 20))
    instance.schedule()
    assert running(jobs) == ["alone", "long"]
    instance.finish(jobs["long"])
    instance.schedule()
    assert running(jobs) == ["alone"]
    instance.finish(jobs["alone"])
    instance.schedule()
    assert running(jobs) == ["small"]
