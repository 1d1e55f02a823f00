"""A waiting job has the size that it will have at least once it runs, in units of the type in which its instance measures."""

from __future__ import annotations

import pytest

from fluxres import Instance, load
from fluxres.errors import InfeasibleRequest
from fluxres.instance.accounting import Accounting, Qos, User

DEMO = "data/clusters/demo.yaml"


@pytest.mark.parametrize(
    ("request_text", "cores"),
    [
        ("-N2 -x", 32),
        ("slot=1/socket", 8),
        ("rack=1/slot=2/node", 32),
        ("slot=1/node/core=2", 16),
        ("-N2 -c4 -x", 32),
        ("node=1/slot=1/core=2", 2),
        ("-n4 -c2", 8),
        ("-N2", 2),
    ],
)
def test_a_waiting_job_has_the_size_of_what_it_takes(request_text: str, cores: int) -> None:
    instance = Instance(load(DEMO))
    first = instance.submit("-N8 -x", duration_s=60)
    job = instance.submit(request_text, duration_s=60)
    assert job.started_at is None
    waiting = job.size
    instance.finish(first)
    assert (waiting, job.started_at is None, job.size) == (cores, False, cores)


def test_a_size_is_measured_in_another_type() -> None:
    instance = Instance(load(DEMO))
    instance.measure_in("gpu")
    instance.submit("-N8 -x", duration_s=60)
    assert [instance.submit(text, duration_s=60).size for text in ("-N2 -x", "slot=3/gpu")] == [4, 3]


def test_nodes_are_charged_with_their_cores() -> None:
    rules = Accounting(qos={"normal": Qos(max_size_per_job=64, deny_on_limit=True)}, users={"ann": User(qos="normal")})
    instance = Instance(load(DEMO), accounting=rules)
    assert instance.submit("-N4 -x", duration_s=60, user="ann").size == 64
    with pytest.raises(InfeasibleRequest, match="max_size_per_job"):
        instance.submit("-N5 -x", duration_s=60, user="ann")
