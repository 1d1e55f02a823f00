"""JQM's resource managers as pools of a graph: what they answer, what a job gets, and changes while jobs run."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fluxres
from fluxres.errors import InfeasibleRequest, InputError, InsufficientResources, UsageError
from fluxres.formats import registry
from fluxres.formats.peers.jqm import jobs
from fluxres.formats.peers.jqm.jobs import answer, environment, parse, request, slots_available
from fluxres.formats.peers.jqm.managers import Discrete, Highlander, Quantity
from fluxres.formats.peers.jqm.pollers import pollers
from fluxres.formats.peers.jqm.reconfiguring import reconfigure
from fluxres.model import ResourceGraph
from fluxres.syntax.jobspec import Request


def machine(*managers: dict[str, Any], **more: Any) -> ResourceGraph:
    return fluxres.load(json.dumps({"managers": list(managers), **more} if managers else more).encode())


THREADS = {"type": "quantity", "key": "thread", "quantity": 3}
PORTS = {"type": "discrete", "key": "ports", "list": "p,q"}


def test_empty_begins_below_the_default_consumption() -> None:
    graph = machine({**THREADS, "quantity": 10, "consumption": 4})
    graph.allocate(parse("thread=8"), job="a")
    assert answer(graph, parse("thread=5"), "thread") == "empty"
    assert answer(graph, parse("thread=2"), "thread") == "go"
    graph.free("a", [("/cluster/node0/thread", 3)])
    assert answer(graph, parse("thread=6"), "thread") == "not-enough"
    assert (slots_available(graph, "thread"), answer(graph, parse(""), "thread")) == (1, "go")
    with pytest.raises(InsufficientResources, match="thread is not enough: 6 requested, 5 free"):
        graph.allocate(parse("thread=6"), job="b")
    with pytest.raises(InfeasibleRequest, match="11 requested"):
        graph.allocate(parse("thread=11"), job="b")


def test_items_are_taken_in_their_order_and_named_to_the_job() -> None:
    graph = machine(THREADS, PORTS)
    one = parse("ports=1")
    assert environment(one, graph.allocate(one, job="a")) == {"JQM_RM_DISCRETE_PORTS_ITEMS": "p"}
    assert answer(graph, parse("ports=2"), "ports") == "not-enough"
    graph.allocate(one, job="b")
    assert [answer(graph, parse(f"ports={number}"), "ports") for number in (1, 0)] == ["empty", "go"]
    none = parse("ports=0")
    assert environment(none, graph.allocate(none, job="c")) == {}
    graph.free("a")
    assert environment(one, graph.allocate(one, job="d")) == {"JQM_RM_DISCRETE_PORTS_ITEMS": "p"}
    assert not graph.check()
    with pytest.raises(UsageError, match="no request of JQM"):
        environment(Request.parse("gpus=1", format="canary"), graph.allocation("d"))


def test_defaults_are_those_of_jqm() -> None:
    graph = machine({"type": "quantity", "key": "thread"}, {"type": "discrete", "key": "ports"})
    two = parse("ports=2")
    assert environment(two, graph.allocate(two, job="j0")) == {"JQM_RM_DISCRETE_PORTS_ITEMS": "item01,item02"}
    for number in range(1, 10):
        assert environment(request(), graph.allocate(request(), job=f"j{number}")) == {}
    assert (answer(graph, request(), "thread"), answer(graph, parse("ports=8"), "ports")) == ("empty", "go")
    assert answer(graph, parse("ports=9"), "ports") == "not-enough"


def test_a_job_is_told_the_items_of_its_own_queue() -> None:
    listed = {"q1": "a,b", "q2": "c,d"}
    queues = [{"name": name, "managers": [{"type": "discrete", "key": "ports", "list": items}]} for name, items in listed.items()]
    graph = fluxres.load(json.dumps({"queues": queues}).encode())
    for name, items in listed.items():
        one = parse(f"queue={name} ports=2")
        assert environment(one, graph.allocate(one, job=name)) == {"JQM_RM_DISCRETE_PORTS_ITEMS": items}


def test_parameters_of_a_job_win_over_definition_manager_and_default() -> None:
    graph = machine({**THREADS, "quantity": 9, "consumption": 2})
    key = "com.enioka.jqm.rm.quantity.thread.consumption"
    for number, wanted in (
        (2, request()),
        (3, request(definition_parameters={key: "3"})),
        (4, request(definition_parameters={key: "3"}, parameters={key: 4})),
    ):
        assert sum(span.amount for span in graph.allocate(wanted, job=f"j{number}").spans) == number
    assert slots_available(graph, "thread") == 0


def test_queues_have_managers_of_their_own_and_share_those_of_the_node() -> None:
    graph = machine(PORTS, queues=[{"name": "a", "nbThread": 2}, {"name": "b"}])
    assert {
        name: [type(each.rules) for each in some[0].managers] for name, some in pollers(graph.structure).by_queue.items()
    } == {
        "a": [Quantity, Discrete],
        "b": [Quantity, Discrete],
    }
    graph.allocate(parse("queue=a ports=2"), job="j")
    assert [slots_available(graph, key, queue) for key, queue in (("thread", "a"), ("thread", "b"), ("ports", "b"))] == [1, 1, 0]
    with pytest.raises(InsufficientResources, match="ports is empty: 1 requested, 0 free"):
        graph.allocate(parse("queue=b ports=1"), job="k")
    assert [pool.path for pool in graph.allocate(parse("queue=b"), job="k").pools] == ["/cluster/node0/b/thread"]
    for wanted, words in ((parse("queue=x"), "no queue 'x'"), (parse(""), "names no queue")):
        with pytest.raises(UsageError, match=words):
            graph.allocate(wanted, job="l")
    with pytest.raises(UsageError, match="no queue"):
        fluxres.load("canary:cpus=2").allocate(parse("queue=a"), job="m")


def test_queues_survive_other_formats() -> None:
    shared = {"type": "quantity", "key": "cpu", "quantity": 4, "shared": True}
    queues = [
        {"name": "a", "managers": [{"type": "highlander", "key": "only"}, shared]},
        {"name": "b", "managers": [shared, {"type": "discrete", "key": "ports", "list": "p"}]},
    ]
    graph = machine(queues=queues)
    expected = [Highlander("only"), Quantity("cpu", 4)], [Quantity("cpu", 4), Discrete("ports", ("p",))]
    for name in ("jqm", "jgf", "cluster", "node-link"):
        structure = registry.read(registry.write(graph.structure, format=name).data).structure
        found = pollers(structure).by_queue
        assert ([each.rules for each in found["a"][0].managers], [each.rules for each in found["b"][0].managers]) == expected
        assert found["a"][0].managers[1] is found["b"][0].managers[0]


@pytest.mark.parametrize(
    ("site", "message"),
    [
        ({"queues": [{"name": "a"}, {"name": "a"}]}, "a second queue 'a'"),
        ({"queues": [{"name": "a", "nbThread": 2, "managers": [THREADS]}]}, "a second manager 'thread'"),
        ({"managers": [{**THREADS, "shared": True}]}, "the manager 'thread' is shared"),
        (
            {"queues": [{"name": q, "managers": [{**THREADS, "shared": True, "quantity": n}]} for q, n in (("a", 1), ("b", 2))]},
            "differs",
        ),
        ({"queues": [{"name": ""}]}, "name"),
        ({"queues": [{"name": "a", "managers": [THREADS, THREADS]}]}, "a second manager"),
    ],
)
def test_mistakes_in_queues_are_refused(site: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        registry.read(json.dumps(site).encode(), format="jqm")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("thread", "NAME=VALUE"),
        ("queue=a queue=b", "given twice"),
        ("priority=11", "1 to 10"),
        ("priority=0", "1 to 10"),
        ("priority=x", "expected a number"),
        ("position=nan", "expected a number"),
        ("highlander", "a highlander needs a definition"),
        ("highlander=maybe definition=d", "true or false"),
        ("{", "expected JSON"),
        ('{"queue": 3}', "expected a name"),
        ('{"ports": [1]}', "text or a number"),
    ],
)
def test_mistakes_in_requests_are_refused(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Request.parse(text, format="jqm")


def test_words_and_json_are_the_same_request() -> None:
    words = Request.parse("queue=a definition=d priority=3 highlander ports=2 x.y=z", format="jqm")
    same = '{"queue": "a", "definition": "d", "priority": 3, "highlander": true, "parameters": {"ports": "2", "x.y": "z"}}'
    assert words.chooser == Request.parse(same, format="jqm").chooser
    parameters = {"com.enioka.jqm.rm.ports.consumption": "2", "x.y": "z"}
    assert jobs.facts(words) == {
        "queue": "a",
        "definition": "d",
        "priority": 3,
        "highlander": True,
        "parameters": parameters,
    }
    for bad in ("x", "-1", "1.5"):
        with pytest.raises(InputError, match=r"thread\.consumption"):
            machine(THREADS).allocate(parse(f"thread={bad}"), job="j")


# -- changes while jobs run ------------------------------------------------------------------------------------------


def test_reduced_quantity_in_use_may_leave_a_negative_amount() -> None:
    graph = machine(THREADS)
    for name in "ab":
        graph.allocate(request(), job=name)
    reconfigure(graph, "thread", quantity=1)
    assert (slots_available(graph, "thread"), answer(graph, request(), "thread")) == (-1, "empty")
    assert set(graph.jobs()) == {"a", "b"}
    with pytest.raises(InsufficientResources, match="empty: 1 requested, -1 free"):
        graph.allocate(request(), job="c")
    graph.free("a")
    graph.free("b")
    assert slots_available(graph, "thread") == 1
    reconfigure(graph, "thread", quantity=5, consumption=2)
    assert (slots_available(graph, "thread"), not graph.check()) == (2, True)


def test_item_list_changed_while_in_use() -> None:
    graph = machine(PORTS)
    graph.allocate(parse("ports=2"), job="a")
    reconfigure(graph, "ports", items=["q", "r"])
    wanted = parse("ports=1")
    assert environment(wanted, graph.allocate(wanted, job="b")) == {"JQM_RM_DISCRETE_PORTS_ITEMS": "r"}
    graph.free("a")
    assert slots_available(graph, "ports") == 1
    assert environment(wanted, graph.allocate(wanted, job="c")) == {"JQM_RM_DISCRETE_PORTS_ITEMS": "q"}
    assert not graph.check()


def test_manager_of_a_queue_is_changed_alone() -> None:
    shared = {"type": "quantity", "key": "cpu", "quantity": 4, "shared": True}
    graph = machine(queues=[{"name": name, "managers": [THREADS, shared]} for name in "ab"])
    reconfigure(graph, "thread", queue="a", quantity=7)
    reconfigure(graph, "cpu", quantity=6)
    assert [slots_available(graph, "thread", name) for name in "ab"] == [7, 3]
    assert [slots_available(graph, "cpu", name) for name in "ab"] == [6, 6]
    with pytest.raises(UsageError, match="no manager 'x'"):
        reconfigure(graph, "x", quantity=1)
    with pytest.raises(UsageError, match="no manager 'cpu' in queue 'z'"):
        slots_available(graph, "cpu", "z")


@given(st.lists(st.tuples(st.sampled_from(["take", "end", "resize"]), st.integers(0, 5)), max_size=12))
def test_free_amount_is_the_quantity_less_what_is_held(steps: list[tuple[str, int]]) -> None:
    graph, quantity, held = machine(THREADS), 3, dict[str, int]()
    for number, (step, amount) in enumerate(steps):
        free = quantity - sum(held.values())
        if step == "take":
            go = answer(graph, parse(f"thread={amount}"), "thread") == "go"
            assert go is (amount <= free)
            if go and amount:
                graph.allocate(parse(f"thread={amount}"), job=f"j{number}")
                held[f"j{number}"] = amount
        elif step == "end" and held:
            job = sorted(held)[amount % len(held)]
            graph.free(job)
            del held[job]
        elif step == "resize":
            reconfigure(graph, "thread", quantity=amount)
            quantity = amount
        assert slots_available(graph, "thread") == quantity - sum(held.values())
        assert set(graph.jobs()) == set(held)
    assert not graph.check()
