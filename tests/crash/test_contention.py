"""Several processes on one store: every unit is allocated once, every allocation is kept."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable

import pytest

from fluxres.store import open_store
from tests.store.conftest import KINDS
from tests.store.graphs import machine
from tests.traceability import ROOT

TAKE = """
import json, sys
from fluxres.errors import InsufficientResources
from fluxres.store import open_store
store, job, got = open_store(sys.argv[1]), sys.argv[2], []
for turn in range(12):
    with store.writing(command=f"{job} {turn}", wait_s=120) as tx:
        free = tx.graph.find("type=core and available>=1").vertices.tolist()
        if not free:
            break
        path = tx.graph.structure.where(free[0])
        tx.graph.allocate(path, job=f"{job}-{turn}")
    got.append([f"{job}-{turn}", path])
print(json.dumps(got))
"""


PAIR = """
import json, sys
from fluxres.errors import InsufficientResources
from fluxres.store import open_store
store, job, got = open_store(sys.argv[1]), sys.argv[2], 0
for turn in range(8):
    try:
        with store.writing(command=f"{job} {turn}", wait_s=120) as tx:
            tx.graph.allocate_all([("slot/core=3", f"{job}-{turn}a"), ("slot/core=2", f"{job}-{turn}b")])
        got += 1
    except InsufficientResources:
        break
print(got)
"""


@pytest.mark.parametrize("kind", KINDS)
def test_rule_d1_co_allocations_are_complete_despite_other_writers(empty: Callable[[str], str], kind: str) -> None:
    url = empty(kind)
    store = open_store(url)
    store.put("demo", machine(2, 4))
    processes = [
        subprocess.Popen([sys.executable, "-c", PAIR, url, f"p{i}"], stdout=subprocess.PIPE, text=True, cwd=ROOT)
        for i in range(3)
    ]
    pairs = sum(int(process.communicate(timeout=200)[0]) for process in processes)
    assert all(process.returncode == 0 for process in processes)
    graph = store.load()
    held = {job: len(graph.allocation(job)) for job in graph.jobs()}
    # Eight nodes of four cores: three cores of one and two of another for each pair.
    assert pairs == len(held) / 2 == 5
    assert all(held[job[:-1] + "a"] == 3 and held[job[:-1] + "b"] == 2 for job in held)
    assert graph.check() == []
    assert [entry.event["event"] for entry in store.log()[1:]] == ["allocate_all"] * pairs


@pytest.mark.parametrize("kind", KINDS)
def test_rule_a2_processes_never_get_the_same_unit_and_lose_none(empty: Callable[[str], str], kind: str) -> None:
    url = empty(kind)
    store = open_store(url)
    store.put("demo", machine(2, 4))
    processes = [
        subprocess.Popen([sys.executable, "-c", TAKE, url, f"p{i}"], stdout=subprocess.PIPE, text=True, cwd=ROOT)
        for i in range(4)
    ]
    granted = [tuple(grant) for process in processes for grant in json.loads(process.communicate(timeout=200)[0])]
    assert all(process.returncode == 0 for process in processes)
    assert len(granted) == 32 == len({pool for _, pool in granted})
    graph = store.load()
    assert {(job, pool.path) for job in graph.jobs() for pool in graph.allocation(job)} == set(granted)
    assert graph.check() == []
    assert len(store.log()) == 33
