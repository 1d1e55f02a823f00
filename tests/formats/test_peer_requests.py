"""Requests of HyperQueue, canary, CTest and JQM on the machines of their files: what is allocated, and what is left out."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fluxres
from fluxres.allocation.chosen import Chosen
from fluxres.errors import FluxresError, InputError, LimitExceeded, UsageError
from fluxres.formats import registry
from fluxres.formats.peers import requests as peer_requests
from fluxres.formats.peers.hyperqueue import request as hyperqueue_request
from fluxres.model.resource_graph import ResourceGraph
from fluxres.syntax import jobspec
from fluxres.syntax.jobspec import Request


def graph(text: str, **options: Any) -> ResourceGraph:
    return ResourceGraph(registry.read(text.encode(), **options).structure)


def given_to(g: ResourceGraph, text: str, format: str, job: str = "j") -> list[str]:
    found = g.allocate(Request.parse(text, format=format), job=job)
    return [pool.uri.partition("/")[2].rpartition("/")[2] for pool in found.pools]


HQ = "hq worker start --cpus 2x4 --resource gpus=[a,b] --resource mem=sum(100)\n"


def test_hyperqueue_task_is_within_one_worker() -> None:
    g = graph(HQ + HQ)
    assert given_to(g, "gpus=2, cpus=8, mem=60", "hyperqueue") == [*(f"core{i}" for i in range(8)), "a", "b", "mem"]
    with pytest.raises(fluxres.errors.InfeasibleRequest):
        g.allocate(Request.parse("gpus=3", format="hyperqueue"), job="k")


def test_shares_of_one_index_stay_together() -> None:
    g = graph(HQ, fractions=True)
    assert given_to(g, "gpus=1.5", "hyperqueue", "a") == ["core3", "share", "b"]
    assert given_to(g, "gpus=0.5", "hyperqueue", "b") == ["core2", "share"]
    with pytest.raises(fluxres.errors.InsufficientResources):
        g.allocate(Request.parse("gpus=0.1", format="hyperqueue"), job="c")


def test_amounts_in_ten_thousandths() -> None:
    g = graph("cpus=1x2\nmem=sum(1.5)\n")
    found = g.allocate(Request.parse("mem=0.75", format="hyperqueue"), job="a")
    assert [pool.available() for pool in found.pools if pool.type == "mem"] == [7500]


@pytest.mark.parametrize(
    ("text", "asks"),
    [
        ("gpus=2", ["gpus=2", "cpus=1"]),
        ("gpus = 2 tight! cpus=8", ["gpus=2 tight!", "cpus=8"]),
        ("gpus=0.5,cpus=all", ["gpus=0.5", "cpus=all"]),
        ("--cpus 2 --resource 'gpus=1 scatter' --time-request 1h --weight 2 prog", ["cpus=2", "gpus=1 scatter"]),
        ("hq submit --nodes 2 ./prog --cpus x", []),
        ('{"resources": {"cpus": "2 scatter", "gpus": 0.5}, "time_request": "1h"}', ["cpus=2 scatter", "gpus=0.5"]),
    ],
)
def test_nothing_of_a_hyperqueue_request_is_lost(text: str, asks: list[str]) -> None:
    request = Request.parse(text, format="hyperqueue")
    (variant,) = request.chooser.variants
    assert [hyperqueue_request.format(ask) for ask in variant.asks] == asks
    assert request.attributes["user"]["asked"] == {"format": "hyperqueue", "text": text, "left_out": []}
    assert jobspec.parse_resources(jobspec.resources_to_plain(request.resources)) == request.resources
    assert variant.min_time_s == (3600.0 if "1h" in text else 0.0)
    assert (variant.weight, variant.nodes) == (2.0 if "weight" in text else 1.0, 2 if "nodes" in text else 0)
    assert request.duration_s is None


def test_variants_are_one_request() -> None:
    plain = [{"resources": [{"resource": "cpus", "request": {"Compact": 80_000}}], "weight": 1.5}, {"resources": []}]
    for text in (json.dumps(plain), "cpus=8 | cpus=1", "--cpus 8 | cpus=1"):
        request = Request.parse(text, format="hyperqueue")
        assert [variant.asks[0].amount for variant in request.chooser.variants] == [80_000, 10_000]
    assert graph(HQ).allocate(request, job="a").chosen == Chosen((3, 4, 5, 6, 8, 9, 10, 11), 0)
    with pytest.raises(InputError, match="1 to 32 variants"):
        Request.parse("|".join(["cpus=1"] * 33), format="hyperqueue")
    with pytest.raises(InputError, match="whole workers, or all on parts"):
        Request.parse("--nodes 2 | cpus=1", format="hyperqueue")


CTEST = '{"version": {"major": 1, "minor": 0}, "local": [{"gpus": [{"id": "0", "slots": 2}, {"id": "1", "slots": 1}]}]}'


def test_processes_of_a_ctest_test_are_slots() -> None:
    g = graph(CTEST)
    assert given_to(g, "3,gpus:1", "ctest") == ["gpu0", "gpu1"]
    assert g.pool("/cluster/node0/gpu0").available() == 0
    asked = peer_requests.parse("gpus:2;fpgas:0;1", "ctest")
    assert asked.left_out == []
    assert [(vertex.type, vertex.count.min) for vertex in asked.request.vertices()][-2:] == [("slot", 1), ("fpgas", 1)]
    with pytest.raises(InputError, match="asks for no resources"):
        Request.parse("0,gpus:1", format="ctest")


CANARY = "nodes: [{id: a, resources: {cpus: [{id: '0', slots: 2}], gpus: []}}, {id: b, resources: {cpus: [{id: '0'}]}}]"


def test_canary_tests_by_parameters_and_by_node() -> None:
    assert given_to(graph(CANARY), "cpus=2", "canary") == ["core0"]
    assert given_to(graph(CANARY), '{"cpus": 2}', "canary") == ["core0"]
    assert given_to(graph(CANARY), "nodes=2 cpus=2", "canary") == ["a", "b"]
    two = json.dumps([{"items": [{"type": "cpus", "slots": 1}]}] * 2)
    assert given_to(graph(CANARY), two, "canary") == ["core0", "core0"]
    asked = peer_requests.parse('{"items": [{"type": "gpus", "slots": 3}]}', "canary")
    assert asked.left_out == []


def test_canary_types_in_the_singular_and_nodes_among_parameters() -> None:
    assert given_to(graph(CANARY), '{"items": [{"type": "cpu", "slots": 1}]}', "canary") == ["core0"]
    assert given_to(graph(CANARY), '{"cpu": 2}', "canary") == ["core0"]
    assert given_to(graph(CANARY), '{"nodes": 2, "cpus": 2}', "canary") == ["a", "b"]
    assert given_to(graph(CANARY), '{"items": [{"type": "nodes", "slots": 1}, {"type": "cpus"}]}', "canary") == ["core0"]
    asked = peer_requests.parse('{"items": [{"type": "fpga"}]}', "canary", types=["node", "fpgas"])
    assert [vertex.type for vertex in asked.request.vertices()] == ["node", "slot", "fpgas"]


@pytest.mark.parametrize("format", [None, "jgf", "cluster", "node-link"])
def test_pool_that_allows_one_node_refuses_canary_requests_for_several(format: str | None) -> None:
    g = graph("{allow_multinode: false, " + CANARY.removeprefix("{") + "}")
    if format is not None:
        g = ResourceGraph(registry.read(registry.write(g.structure, format=format).data).structure)
    two = Request.parse("nodes=2 cpus=2", format="canary")
    for ask in (lambda: g.allocate(two, job="j"), lambda: g.match(two), lambda: g.satisfiable(two), lambda: g.why_not(two)):
        with pytest.raises(fluxres.InfeasibleRequest, match="allow_multinode: false"):
            ask()
    assert g.earliest(Request.parse("nodes=1 cpus=2", format="canary")) == 0.0
    assert g.satisfiable("node=2")  # the rule is canary's own
    assert graph(CANARY).satisfiable(two)


_TASKS = {"tasks": [{"command": ["true"], "slot": "task", "count": {"per_slot": 1}}]}


@pytest.mark.parametrize(
    ("text", "format"),
    [("gpus=2 cpus=3", "canary"), ("2,gpus:2;gpus:0", "ctest"), ("queue=q ports=2 priority=3", "jqm")],
)
def test_rule_of_a_request_survives_its_jobspec(text: str, format: str) -> None:
    request = Request.parse(text, format=format)
    again = Request.parse(jobspec.to_plain(request) | _TASKS)
    assert again.chooser == request.chooser is not None
    assert again.resources == request.resources


def test_damaged_jobspecs_of_other_systems_are_refused() -> None:
    document = jobspec.to_plain(Request.parse("queue=q ports=2", format="jqm")) | _TASKS
    document["attributes"]["user"]["jqm"] = {"queue": 3}
    with pytest.raises(InputError, match=r"attributes\.user\.jqm: expected a queue"):
        Request.parse(document)


@pytest.mark.parametrize(
    ("text", "format", "message"),
    [
        ("", "hyperqueue", "asks for nothing"),
        ("gpus=2, cpus", "hyperqueue", "request:13: expected '='"),
        ("{", "hyperqueue", "expected JSON"),
        ("[1]", "hyperqueue", "a variant or a list"),
        ("--frob 2", "hyperqueue", "unknown option"),
        ("--cpus", "hyperqueue", "expected a value"),
        ("--nodes x", "hyperqueue", "expected a number"),
        ("--priority high --cpus 1", "hyperqueue", "--priority: expected a whole number of 32 bits"),
        ("--priority 99999999999 --cpus 1", "hyperqueue", "--priority: expected a whole number of 32 bits"),
        ("--time-request soon", "hyperqueue", "soon"),
        ("cpus", "canary", "a type and a number"),
        ("{", "canary", "expected JSON"),
        ("[]", "canary", "no node"),
        ("[{}]", "canary", "request[0]"),
        ('[{"items": [{"slots": 1}]}]', "canary", "request[0].items[0]"),
        ('[{"items": [{"type": "x", "slots": 0.5}]}]', "canary", "whole number of slots"),
        ('{"cpus": "x"}', "canary", "whole number"),
        ("gpus", "ctest", "RESOURCE_GROUPS:1"),
    ],
)
def test_refusals_have_a_place(text: str, format: str, message: str) -> None:
    with pytest.raises(InputError) as found:
        Request.parse(text, format=format)
    assert message in str(found.value)


def test_bounds_and_other_formats() -> None:
    with pytest.raises(LimitExceeded):
        Request.parse("x" * 70_000, format="ctest")
    with pytest.raises(LimitExceeded):
        Request.parse("cpus=99999999999", format="canary")
    with pytest.raises(UsageError, match="formats are"):
        Request.parse("x", format="slurm")
    with pytest.raises(UsageError, match="expected text"):
        Request.parse({"a": 1}, format="ctest")


@given(st.sampled_from(peer_requests.FORMATS), st.text(st.sampled_from('cpusg=:;,102.{}[]" -xal!'), max_size=24))
def test_any_text_is_a_request_or_an_error(format: str, text: str) -> None:
    try:
        found = peer_requests.parse(text, format)
    except FluxresError as error:
        assert_message = str(error)
    else:
        assert_message = "read"
        resources = found.request.resources
        assert jobspec.parse_resources(jobspec.resources_to_plain(resources)) == resources
    assert assert_message
