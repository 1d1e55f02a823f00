"""A campaign on a dask.distributed cluster of two workers gives the same results as one process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fluxres.errors import StoreError
from fluxres.experiments import campaign
from tests.experiments.conftest import SMALL, Write
from tests.experiments.test_campaign import files

distributed: Any = pytest.importorskip("distributed")

pytestmark = pytest.mark.filterwarnings("ignore")  # warnings of dask and its event loops are not ours


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, scheduler_port=0, silence_logs=50
    ) as made:
        yield made


def test_a_cluster_produces_the_same_files_as_a_process(page: Write, tmp_path: Path, cluster: Any) -> None:
    here = campaign.run(page(SMALL), tmp_path / "a")
    fractions: list[float] = []
    there = campaign.run(
        page(SMALL), tmp_path / "b", cluster=cluster.scheduler_address, on_progress=lambda done, _text: fractions.append(done)
    )
    assert there == here
    assert files(tmp_path / "a") == files(tmp_path / "b")
    assert fractions[-1] == 4
    assert campaign.run(page(SMALL), tmp_path / "b", cluster=cluster.scheduler_address) == campaign.Campaign(0, 4, {})


def test_a_run_that_fails_on_a_worker_is_reported(page: Write, tmp_path: Path, cluster: Any) -> None:
    text = (
        SMALL.replace("hierarchy.queue_policy: [fcfs, easy]", "hierarchy.topology: [1, 9]")
        .replace("baseline", "labels")
        .replace("hierarchy.queue_policy: fcfs", "hierarchy.topology: levels")
    )
    ended = campaign.run(page(text), tmp_path / "a", cluster=cluster.scheduler_address)
    assert ended.made == 2
    assert sorted(ended.failed) == ["003-levels=9,seed=0", "004-levels=9,seed=1"]
    assert all("9 innermost instances" in error for error in ended.failed.values())


def test_an_unreachable_scheduler_is_reported(page: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(campaign, "CONNECT_S", 0.5)
    with pytest.raises(StoreError, match="no dask scheduler answers"):
        campaign.run(page(SMALL), tmp_path / "a", cluster="tcp://127.0.0.1:9")
