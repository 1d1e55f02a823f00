"""Requests on a small machine: levels, exclusivity, counts, times, status and constraints."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from fluxres.fluxion.planner import HORIZON_S
from tests.fluxion.conftest import Start, ask, grug

NODE = ask("slot", 1, ask("node", 1))


def test_lines_of_a_match(start: Start) -> None:
    text = start("-P", "low").match(ask("node", 1, ask("slot", 1, ask("socket", 1, ask("core", 1), ask("memory", 3)))))
    assert text == (
        "      ---------------core0[1:x]\n"
        "      ---------------memory0[4:x]\n"
        "      ------------socket0[1:x]\n"
        "      ---------node0[1:s]\n"
        "      ------rack0[1:s]\n"
        "      ---m0[1:s]\n"
        "INFO: =============================\n"
        "INFO: JOBID=1\n"
        "INFO: RESOURCES=ALLOCATED\n"
        "INFO: SCHEDULED AT=Now\n"
        "INFO: =============================\n"
    )


def test_complete_pools_are_taken_until_there_are_enough_units(start: Start) -> None:
    session = start("-P", "low")
    assert session.taken(ask("socket", 1, ask("slot", 1, ask("memory", 3)))) == ["memory0"]
    assert session.taken(ask("socket", 1, ask("slot", 1, ask("memory", 1)))) == ["memory1"]
    assert session.taken(ask("slot", 1, ask("memory", 5))) == ["memory0", "memory1"]
    assert session("find sched-now=allocated").count("memory") == 4


def test_a_level_in_the_middle_cannot_be_left_out(start: Start) -> None:
    session = start()
    assert session.taken(ask("node", 1, ask("core", 1)), op="allocate_with_satisfiability") == ["unsatisfiable"]
    assert session.taken(ask("rack", 1, ask("node", 1, ask("socket", 1, ask("slot", 1, ask("core", 1)))))) == ["core7"]


def test_slot_is_filled_by_children_of_its_own_level(start: Start) -> None:
    session = start("-P", "low")
    below = ask("node", 1, ask("slot", 3, ask("core", 2)))
    assert session.taken(below) == ["busy"]
    assert "filled by the children" in session.told()
    assert session.taken(ask("rack", 1, below)) == ["busy"]
    assert session.taken(ask("node", 1, ask("slot", 3, ask("core", 2)), exclusive=True))[-1] == "node0"
    assert len(session.taken(ask("slot", 3, ask("core", 2)))) == 6


def test_all_requested_pools_are_granted_or_none(start: Start) -> None:
    # Only the second node has cores without sockets between.
    paths = ("/c0", "/c0/n0", "/c0/n0/s0", "/c0/n0/s0/core0", "/c0/n1", "/c0/n1/core0")
    kinds = {"c": "cluster", "n": "node", "s": "socket", "core": "core"}
    nodes = [
        {"id": str(number), "metadata": {"type": kinds[path.rpartition("/")[2].rstrip("01")], "paths": {"containment": path}}}
        for number, path in enumerate(paths)
    ]
    keys = {path: str(number) for number, path in enumerate(paths)}
    edges = [{"source": keys[path.rpartition("/")[0]], "target": key} for path, key in keys.items() if path != "/c0"]
    session = start("-f", "jgf", graph=json.dumps({"graph": {"nodes": nodes, "edges": edges}}))
    one = ask("slot", 1, ask("core", 1))
    assert session.taken(ask("node", 2, one)) == ["busy"]
    assert session.taken(ask("cluster", 1, ask("node", {"min": 2}, one))) == ["busy"]
    assert len(session.taken(ask("node", 2, one, exclusive=True))) == 5


def test_a_request_that_takes_nothing_is_not_granted(start: Start) -> None:
    session = start()
    assert session.taken(ask("node", 2)) == ["busy"]
    assert "nothing exclusively" in session.told()
    assert "JOBID=2\n" in session.match(NODE)
    assert session("find sched-now=allocated").count("node") == 1


def test_exclusive_keeps_others_out_from_above_and_below(start: Start) -> None:
    session = start("-P", "low")
    assert session.taken(ask("slot", 1, ask("core", 1))) == ["core0"]
    assert session.taken(ask("rack", 1, NODE, exclusive=True))[-1] == "rack1"
    assert session.taken(ask("rack", 1, NODE, exclusive=True)) == ["busy"]
    assert session.taken(ask("cluster", 1, ask("rack", 1, NODE), exclusive=True)) == ["busy"]
    # What is left is rack0 without its first core.
    assert session.taken(NODE) == ["node1"]
    assert session.taken(NODE) == ["busy"]


def test_shared_levels_are_shared(start: Start) -> None:
    session = start("-P", "low")
    one = ask("socket", 1, ask("slot", 1, ask("core", 1)), exclusive=False)
    assert [session.taken(one) for _ in range(3)] == [["core0"], ["core1"], ["core2"]]


@pytest.mark.parametrize(
    ("op", "answer"),
    [
        ("allocate", "No matching resources found\nINFO: JOBID=1\n"),
        ("allocate_orelse_reserve", "No matching resources found\nINFO: Unsatisfiable request\nINFO: JOBID=1\n"),
        ("satisfiability", "Unsatisfiable request\n"),
    ],
)
def test_sharing_below_a_slot_is_impossible(start: Start, op: str, answer: str) -> None:
    session = start()
    assert answer in session.match(ask("slot", 1, ask("node", 1, exclusive=False)), op=op)
    assert "no sharing" in session.told()


@pytest.mark.parametrize(
    ("count", "cores"),
    [
        ({"min": 1, "max": 3, "operator": "+", "operand": 1}, 3),
        ({"min": 1, "max": 99, "operator": "+", "operand": 1}, 4),
        ({"min": 1, "max": 99, "operator": "+", "operand": 2}, 3),
        ({"min": 1, "max": 99, "operator": "*", "operand": 2}, 4),
        ({"min": 2, "max": 99, "operator": "^", "operand": 3}, 2),
        ({"min": 3}, 4),
        ({"min": 5, "max": 9, "operator": "+", "operand": 1}, 0),
    ],
)
@pytest.mark.parametrize("policy", ["low", "high", "first", "hinode"])
def test_largest_number_in_a_range_is_taken(start: Start, policy: str, count: dict[str, object], cores: int) -> None:
    taken = start("-P", policy).taken(ask("socket", 1, ask("slot", 1, ask("core", count))))
    assert len(taken) == cores or (cores == 0 and taken == ["busy"])


def test_reservations_come_one_after_another(start: Start) -> None:
    session = start("-P", "low")
    machine = ask("slot", 4, ask("node", 1))
    texts = [session.match(machine, op="allocate_orelse_reserve", duration=duration) for duration in (100, 50.5, 20)]
    assert [text.split("SCHEDULED AT=")[1].split()[0] for text in texts] == ["Now", "100", "151"]
    assert ["RESOURCES=RESERVED" in text for text in texts] == [False, True, True]
    assert "SCHEDULED AT=171\n" in session.match(NODE, op="without_allocating_future", duration=100)


def test_reservation_fills_a_gap(start: Start) -> None:
    session = start("-P", "low")
    session.match(ask("slot", 3, ask("node", 1)), duration=100)
    session.match(ask("slot", 4, ask("node", 1)), op="allocate_orelse_reserve", duration=100)
    # One node is free until 100, and for good from 200 on.
    assert "AT=Now" in session.match(NODE, op="allocate_orelse_reserve", duration=100)
    assert "AT=200" in session.match(NODE, op="allocate_orelse_reserve", duration=100)


@pytest.mark.parametrize("op", ["allocate_with_satisfiability", "allocate_orelse_reserve", "without_allocating_future"])
def test_unsatisfiable_requests_are_distinguished_from_busy_pools(start: Start, op: str) -> None:
    session = start()
    assert session.taken(ask("slot", 1, ask("socket", 1, ask("core", 5))), op=op) == ["unsatisfiable"]
    session.match(ask("slot", 4, ask("node", 1)))
    assert session.taken(ask("slot", 2, ask("node", 1)), op="allocate_with_satisfiability") == ["busy"]


@pytest.mark.parametrize(
    ("op", "answer"),
    [("allocate", "busy"), ("allocate_orelse_reserve", "busy"), ("allocate_with_satisfiability", "unsatisfiable")],
)
def test_search_is_skipped_for_more_nodes_than_are_up(start: Start, op: str, answer: str) -> None:
    session = start()
    assert session.taken(ask("slot", 5, ask("node", 1)), op=op) == [answer]
    session("set-status /m0/rack0/node0 down")
    assert session.taken(ask("slot", 4, ask("node", 1)), op=op) == [answer]


def test_constraint_met_only_by_down_nodes_is_satisfiable(start: Start) -> None:
    session = start()
    session("set-status /m0/rack0/node0 down")
    first = {"constraints": {"ranks": ["0"]}}
    assert session.taken(NODE, op="allocate_with_satisfiability", **first) == ["busy"]
    assert session.taken(NODE, op="allocate_orelse_reserve", **first) == ["busy"]
    assert "INFO: Satisfiable" in session.match(NODE, op="satisfiability", **first)
    nobody = {"constraints": {"ranks": ["9"]}}
    assert session.taken(NODE, op="allocate_with_satisfiability", **nobody) == ["unsatisfiable"]


def test_satisfiability_records_nothing(start: Start) -> None:
    session = start()
    assert session.match(ask("slot", 4, ask("node", 1)), op="satisfiability").splitlines()[1] == "INFO: Satisfiable request"
    assert session.match(ask("slot", 5, ask("node", 1)), op="satisfiability").splitlines()[1] == "INFO: Unsatisfiable request"
    assert "JOBID=1\n" in session.match(NODE)


def test_match_without_allocating_uses_no_id(start: Start) -> None:
    session = start("-P", "low")
    for _ in range(2):
        text = session.match(NODE, op="without_allocating")
        assert "INFO: JOBID=1\nINFO: RESOURCES=MATCHED\nINFO: SCHEDULED AT=Now\n" in text
    assert session.taken(NODE) == ["node0"]


def test_ids_are_counted_for_failures_too(start: Start) -> None:
    session = start()
    assert "JOBID=1\n" in session.match(ask("slot", 9, ask("node", 1)))
    assert "JOBID=2\n" in session.match(NODE)


@pytest.mark.parametrize(
    "more",
    [
        {"constraints": {"properties": ["fast|slow"]}},
        {"constraints": {"color": ["red"]}},
        {"duration": HORIZON_S + 1},
        {"duration": "long"},
    ],
)
@pytest.mark.parametrize("op", ["allocate", "allocate_orelse_reserve", "without_allocating"])
def test_an_invalid_request_finds_nothing_and_takes_no_id(start: Start, op: str, more: dict[str, Any]) -> None:
    session = start()
    assert session.match(NODE, op=op, **more) == (
        "INFO: =============================\nINFO: No matching resources found\nINFO: JOBID=1\n"
        "INFO: =============================\n"
    )
    assert session.told().startswith("ERROR: ")
    assert session.match(NODE, op="satisfiability", **more) == ""
    assert "JOBID=1\nINFO: RESOURCES=ALLOCATED" in session.match(NODE)


def test_types_built_into_fluxion_are_not_found(start: Start) -> None:
    session = start(graph=grug((("cluster", "node", 1, 0),)))
    for type_ in ("rack", "socket", "core", "gpu", "ssd", "storage_node"):
        assert session.taken(ask("slot", 1, ask(type_, 1))) == ["busy"]
    assert session.errors.getvalue() == ""
    session.match(ask("slot", 1, ask("fork", 1)))
    assert "a type of the graph" in session.told()
    assert start("-p", "ALL:fork", graph=grug((("cluster", "node", 1, 0),))).taken(ask("slot", 1, ask("fork", 1))) == ["busy"]


def test_down_pools_and_all_below_them_are_skipped(start: Start) -> None:
    session = start("-P", "low")
    session("set-status /m0/rack0 down")
    assert session.taken(ask("slot", 1, ask("core", 1))) == ["core0"]
    assert "node2" in session("find sched-now=allocated")
    assert session.taken(ask("slot", 3, ask("node", 1))) == ["busy"]
    assert session.taken(ask("slot", 3, ask("node", 1)), op="allocate_orelse_reserve") == ["busy"]
    assert session.taken(ask("slot", 3, ask("node", 1)), op="allocate_with_satisfiability") == ["unsatisfiable"]
    assert "INFO: Satisfiable" in session.match(ask("slot", 3, ask("node", 1)), op="satisfiability")
    session("set-status /m0/rack0 up", "cancel 1")
    assert len(session.taken(ask("slot", 4, ask("node", 1)))) == 4


@pytest.mark.parametrize(
    ("constraint", "nodes"),
    [
        ({"properties": ["fast"]}, ["node1", "node2"]),
        ({"properties": ["^fast"]}, ["node0", "node3"]),
        ({"hostlist": ["node[1-3]"]}, ["node1", "node2", "node3"]),
        ({"ranks": ["0,3"]}, ["node0", "node3"]),
        ({"and": [{"properties": ["fast"]}, {"ranks": ["2-9"]}]}, ["node2"]),
        ({"or": [{"ranks": ["0"]}, {"hostlist": ["node3"]}]}, ["node0", "node3"]),
        ({"not": [{"properties": ["fast"]}]}, ["node0", "node3"]),
        ({}, ["node0", "node1", "node2", "node3"]),
    ],
)
def test_constraints_apply_to_nodes(start: Start, constraint: dict[str, object], nodes: list[str]) -> None:
    session = start("-P", "low")
    session("set-property /m0/rack0/node1 fast=1", "set-property /m0/rack1/node2 fast=1")
    taken = [session.taken(NODE, constraints=constraint) for _ in range(len(nodes) + 1)]
    assert list(itertools.chain(*taken)) == [*nodes, "busy"]
    assert session.taken(
        ask("slot", len(nodes) + 1, ask("node", 1)), op="allocate_with_satisfiability", constraints=constraint
    ) == ["unsatisfiable"]


def test_resource_set_properties_are_matched_by_their_complete_key(start: Start) -> None:
    lite = [{"rank": "0-2", "children": {"core": "0"}}]
    execution = {"R_lite": lite, "nodelist": ["n[0-2]"], "properties": {"arm-v9@core": "1-2", "ssd@fast": "2"}}
    graph = json.dumps({"version": 1, "execution": execution})

    def nodes(*properties: str) -> list[str]:
        session = start("-f", "rv1exec", "-P", "low", graph=graph)
        return session.taken(ask("slot", 1, ask("node", 1)), constraints={"properties": list(properties)})

    assert nodes("arm-v9@core") == ["n1"]
    assert nodes("^arm-v9@core") == ["n0"]
    assert nodes("arm-v9@core", "ssd@fast") == ["n2"]
    assert nodes("arm-v9") == nodes("ssd") == ["busy"]
    session = start("-f", "rv1exec", "-F", "rv1_nosched", graph=graph)
    text = session.match(ask("slot", 3, ask("node", 1, ask("core", 1))))
    assert json.loads(text.partition("INFO")[0])["execution"]["properties"] == {"arm-v9@core": "1-2", "ssd@fast": "2"}


def test_job_duration_is_limited_by_the_planning_horizon(start: Start) -> None:
    session = start()
    assert "ALLOCATED" in session.match(NODE, duration=HORIZON_S)
    assert "No matching" in session.match(NODE, duration=HORIZON_S + 1)
    assert "exceeds the planning horizon" in session.told()


def test_multi_match_stops_at_the_first_failure(start: Start) -> None:
    session = start()
    from tests.fluxion.conftest import jobspec

    files = [session.file(jobspec(ask("slot", count, ask("node", 1)))) for count in (2, 3, 1)]
    text = session(f"multi-match allocate {' '.join(files)}")
    assert text.count("ALLOCATED") == 1
    assert text.count("No matching") == 1
    session(f"multi-match allocate {files[0]}")
    assert "expected multi-match" in session.told()
    text = session(f"multi-match allocate /does/not/exist {files[2]}")
    assert text.count("ALLOCATED") == 1
    text = session(f"multi-match allocate {session.file('{}')} {files[2]}")
    assert (text.count("ALLOCATED"), text.count("No matching")) == (0, 1)


def test_siblings_of_one_type_match_nothing(start: Start) -> None:
    slot = ask("slot", 1, ask("socket", 1), ask("socket", 1))
    assert start().taken(ask("node", 1, slot)) == ["busy"]


@pytest.mark.parametrize(
    "siblings",
    [
        (ask("socket", 1, ask("slot", 1, ask("core", 3))),) * 2,
        (ask("slot", 1, ask("core", 1)),) * 3,
        (ask("node", 1, ask("slot", 1, ask("socket", 1))), ask("slot", 1, ask("socket", 1))),
    ],
)
@pytest.mark.parametrize("policy", ["first", "high", "lonodex"])
def test_siblings_are_never_granted_together(start: Start, policy: str, siblings: tuple[dict[str, Any], ...]) -> None:
    session = start("-P", policy)
    assert session.taken(*siblings) == ["busy"]
    assert session.taken(ask("rack", 1, *siblings)) == ["busy"]
    assert session.match(*siblings, op="satisfiability").splitlines()[1] == "INFO: Unsatisfiable request"


def test_filters_change_speed_and_not_results(start: Start) -> None:
    plain = start("-P", "low", "--prune-filters=")
    filtered = start("-P", "low", "-p", "ALL:core,ALL:memory", "-p", "rack:node")
    requests = [ask("slot", 2, ask("core", 3)), NODE, ask("slot", 1, ask("socket", 1)), ask("slot", 9, ask("core", 2))]
    for request in requests:
        assert plain.match(request) == filtered.match(request)


def test_other_subsystems_can_be_walked(start: Start) -> None:
    graph = grug((("cluster", "node", 2, 0),)).replace(
        "</graph>",
        '<node id="panel"><data key="root">1</data><data key="type">panel</data><data key="subsystem">power</data></node>'
        '<node id="fed"><data key="type">node</data></node><node id="watt"><data key="type">watt</data>'
        '<data key="size">50</data></node>'
        '<edge source="panel" target="fed"><data key="e_subsystem">power</data><data key="gen_method">ASSOCIATE_IN</data></edge>'
        '<edge source="fed" target="watt"><data key="e_subsystem">power</data><data key="multi_scale">3</data></edge></graph>',
    )
    session = start("-S", "PA", "-P", "low", graph=graph)
    assert session.match(ask("slot", 1, ask("node", 1, ask("watt", 60)))).startswith(
        "      ---------watt0[50:x]\n      ---------watt1[50:x]\n      ------node0[1:x]\n      ---panel0[1:s]\n"
    )
