"""`find`: the pools that satisfy an expression, and how they are printed."""

from __future__ import annotations

import json

import pytest

from fluxres import limits
from fluxres.errors import InputError, LimitExceeded
from fluxres.fluxion import find
from tests.fluxion.conftest import Start, Typed, ask, grug

FLAT = grug((("cluster", "node", 3, 0), ("node", "core", 2, 0)))
NODE = ask("slot", 1, ask("node", 1, ask("core", 2)))


def found(session: Typed, expression: str) -> str:
    """Names of what is found, without the root."""
    lines = session(f"find {expression}").partition("INFO")[0].splitlines()
    return " ".join(line.strip(" -").partition("[")[0] for line in lines if "---m0" not in line)


@pytest.fixture
def busy(start: Start) -> Typed:
    """Job 1 has node0, job 2 will have all nodes, node2 is down."""
    session = start("-P", "low", graph=FLAT)
    session.match(NODE)
    session.match(ask("slot", 3, ask("node", 1)), op="allocate_orelse_reserve")
    session("set-status /m0/node2 down", "set-property /m0/node1 Ssd=1")
    return session


@pytest.mark.parametrize(
    ("expression", "names"),
    [
        ("status=down", "core0 core1 node2"),
        ("status=up", "core0 core1 node0 core0 core1 node1"),
        ("sched-now=allocated", "core0 core1 node0"),
        ("sched-now=free", "core0 core1 node1 core0 core1 node2"),
        ("sched-future=reserved", "core0 core1 node0 core0 core1 node1 core0 core1 node2"),
        ("sched-future=free", ""),
        ("names=node[1-2]", "node1 node2"),
        ("names=core1", "core1 node0 core1 node1 core1 node2"),
        ("property=Ssd", "node1"),
        ("property=ssd", ""),
        ("jobid-alloc=1", "core0 core1 node0"),
        ("jobid-alloc=2", ""),
        ("jobid-reserved=2", "node0 node1 node2"),
        ("jobid-span=1", "node0"),
        ("jobid-span=2", ""),
        ("agfilter=false", ""),
        ("agfilter=t or names=core0", "node0 node1 node2"),
        ("jobid-tag=1", "core0 core1 node0"),
        ("status=up and names=node[0-2]", "node0 node1"),
        ("status=up names=node[0-2]", "node0 node1"),
        ("names=node0 or names=node1 and status=down", ""),
        ("names=node0 or (names=node1 and status=up)", "node0 node1"),
        ("STATUS=Down AND names=node2", "node2"),
        ("((names=node1))", "node1"),
    ],
)
def test_predicates_and_connectives(busy: Typed, expression: str, names: str) -> None:
    assert found(busy, expression) == names


def test_answer_names_the_expression_and_ancestors(busy: Typed) -> None:
    assert busy("find   names=node1   and status=up") == (
        "      ------node1[1:x]\n      ---m0[1:x]\nINFO: =============================\n"
        'INFO: EXPRESSION="names=node1 and status=up"\nINFO: =============================\n'
    )


def test_counts_are_shown_if_something_is_counted(start: Start) -> None:
    session = start("-P", "low", "-F", "jgf", graph=FLAT)
    session.match(NODE)
    session.match(ask("slot", 1, ask("core", 1)))

    def counts(expression: str) -> dict[str, dict[str, str]]:
        graph = json.loads(session(f"find {expression}").splitlines()[0])["graph"]
        return {item["metadata"]["paths"]["containment"]: item["metadata"]["agfilter"] for item in graph["nodes"]}

    assert counts("agfilter=t") == {
        "/m0/node0": {"core": "used:2, total:2"},
        "/m0/node1": {"core": "used:1, total:2"},
        "/m0/node2": {"core": "used:0, total:2"},
        "/m0": {"core": "used:3, total:6", "node": "used:1, total:3"},
    }
    assert counts("jobid-tag=2 agfilter=true") == {
        "/m0/node1": {"core": "used:1, total:2"},
        "/m0": {"core": "used:1, total:6", "node": "used:0, total:3"},
    }


@pytest.mark.parametrize(
    "text",
    ["", "status", "status=sideways", "=up", "color=red", "(status=up", "status=up)", "status=up or", "and status=up", "names=n[",
     "jobid-alloc=x!", "agfilter=maybe", "not status=up", "status=up & status=down"],
)  # fmt: skip
def test_invalid_expressions_are_refused(text: str) -> None:
    with pytest.raises(InputError):
        find.parse(text)


def test_expressions_are_bounded() -> None:
    deep = limits.CRITERIA_DEPTH_MAX + 1
    with pytest.raises(LimitExceeded):
        find.parse("(" * deep + "status=up" + ")" * deep)
    with pytest.raises(LimitExceeded):
        find.parse("status=up " * limits.CRITERIA_LENGTH_MAX)
