"""A server on a store of each kind: changes through it are in the store, and it sees those of others."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import fluxres
from fluxres.store import open_store, upkeep
from tests.service.conftest import DEMO, running
from tests.store.conftest import KINDS, empty, etcd_server, postgresql_server

__all__ = ["empty", "etcd_server", "postgresql_server"]


@pytest.mark.parametrize("kind", KINDS)
def test_rule_d1_what_a_server_acknowledges_is_in_its_store(empty: Callable[[str], str], kind: str) -> None:
    url = empty(kind)
    fluxres.save(fluxres.load(DEMO), url)
    with running(url) as server:
        with fluxres.connect(server.url) as graph:
            graph.allocate("-N2 -x", job="j1", duration_s=3600)
            assert fluxres.load(url).jobs() == ["j1"]
            with open_store(url).writing(wait_s=20) as transaction:
                transaction.graph.allocate("-N1 -x", job="j2", duration_s=3600)
            graph.allocate("-N2 -x", job="j3", duration_s=3600)
            assert graph.jobs() == ["j1", "j2", "j3"]
        status, errors = server.stop()
    assert status == 0, errors
    stored = fluxres.load(url)
    assert stored.jobs() == ["j1", "j2", "j3"]
    assert stored.check() == []
    open_store(url).use("demo", wait_s=0)  # the server has given the lock back


@pytest.mark.parametrize("kind", KINDS)
def test_instances_are_kept_in_a_store_of_each_kind(empty: Callable[[str], str], kind: str) -> None:
    url = empty(kind)
    wide = {"fluxres": 1, "name": "wide", "resources": [{"type": "node", "count": 150}]}
    fluxres.save(fluxres.load(wide), url)
    with running(url) as server:
        with fluxres.connect(server.url) as graph:
            top = graph.create_instance("main", queue_policy="fcfs")
            block = top.submit("slot=150/node")
            for _ in range(150):
                top.submit("slot=1/node")
            top.finish(block.id)  # 150 jobs start in one transaction
            assert top.running == 150
            before = [job.document for job in top.jobs()]
        server.process.kill()
        server.process.wait()
    with running(url) as server, fluxres.connect(server.url) as graph:
        top = graph.instance("main")
        assert [job.document for job in top.jobs()] == before
        assert top.check() == []
        top.close()
        assert graph.jobs() == []
    assert upkeep.check(open_store(url))[1] == []
