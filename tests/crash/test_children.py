"""Instances on one store whose processes are killed and stopped; `python -m tests.crash.children` does so for minutes."""

from __future__ import annotations

import json
from pathlib import Path

import fluxres
from fluxres.store import open_store
from fluxres.store.child import open_child
from tests.crash.children import MACHINE, Known, seen

CORES = [f"/site/rack0/node0/core{i}" for i in range(4)]


def lines(path: Path, *facts: dict[str, object]) -> Path:
    path.write_text("".join(json.dumps({**fact, "time": float(number)}) + "\n" for number, fact in enumerate(facts)))
    return path


def test_the_check_finds_what_is_given_twice(tmp_path: Path) -> None:
    url = f"sqlite://{tmp_path}/site.db"
    fluxres.save(fluxres.load(MACHINE), url)
    store = open_store(url)
    with open_child(url, job="kc0", wanted="/site/rack0/node0", name="c0"):
        assert seen(store)[1] == []
        with store.writing("site") as transaction:
            transaction.graph.free("kc0")
            transaction.graph.allocate([*CORES[1:], "/site/rack1"], job="kc0")
            transaction.graph.allocate(CORES[0], job="p1")
        assert seen(store)[1] == [f"c0: it has {CORES[0]}, which its job kc0 in 'site' does not hold"]
        with store.writing("site") as transaction:
            transaction.graph.free("kc0")
        assert seen(store)[1] == ["c0: its job kc0 holds nothing in 'site'"]


def test_the_comparison_finds_what_is_lost_and_leaves_out_what_is_in_doubt(tmp_path: Path) -> None:
    graph = fluxres.load(MACHINE)
    graph.allocate(CORES[0], job="x1")
    graph.allocate(CORES[1], job="x2")
    nodes = graph.find("type=node").paths()
    made = [
        {"open": nodes, "jobs": {"x1": CORES[:1]}},
        {"begun": "allocate", "job": "x3"},
        {"made": "allocate", "job": "x3", "paths": CORES[2:3]},
        {"begun": "shrink", "job": ""},
        {"made": "shrink", "job": "", "paths": nodes[:1]},
    ]
    known = Known.of(lines(tmp_path / "log", *made))
    assert known.made == [1.0, 3.0]
    assert [problem.partition(" and was given")[0] for problem in known.differences(graph, "x")] == [
        f"site: x2 has {CORES[1:2]}",
        "site: x3 has None",
        f"site: it has {sorted(nodes)}",
    ]
    doubtful = Known.of(lines(tmp_path / "log", *made[:2], {"refused": "allocate"}, {"begun": "allocate", "job": "x2"}))
    assert doubtful.differences(graph, "x") == []
