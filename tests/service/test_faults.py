"""A server goes on after each fault of its store, and its clients are told meanwhile what was made.

    python -m tests.service.faults --store etcd --faults 40

makes many more of them.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from fluxres.store import open_store
from tests.service.conftest import demo_store
from tests.service.faults import Worker, campaign, problems


@pytest.mark.long
@pytest.mark.parametrize(("kind", "count"), [("sqlite", 2), ("postgresql", 4), ("etcd", 5)])
def test_rule_d1_a_fault_of_the_store_loses_nothing_and_is_over_when_it_ends(kind: str, count: int) -> None:
    locked_s = {"ETCD_LEASE_SECONDS": 2}  # so long a lock stays of which the answer was lost, or the end
    report, found = campaign(kind, count, Random(5), clients=2, longest_s=1.0, bounds=locked_s)
    assert found == [], report


def test_the_judge_finds_what_is_wrong(tmp_path: Path) -> None:
    url = demo_store(tmp_path)
    with open_store(url).writing() as transaction:
        for job, cores in (("c0-1", 2), ("c0-2", 2), ("c0-3", 1), ("c1-1", 2)):
            transaction.graph.allocate(f"slot=1/core={cores}", job=job)
    workers = [Worker("c0", Random(1), held={"c0-1", "c0-9"}, unsure={"c0-3"}), Worker("c1", Random(1), held={"c1-1"})]
    assert problems(url, workers) == [
        "c0-3 holds 1 cores: a change is there in part",
        "c0-9 was acknowledged and is not there",
        "c0-2 holds something, which nobody was told",
    ]
