"""Requests as written in RFC 14, RFC 25, RFC 31 and RFC 46, from document to pools.

Every form of count, exclusivity on every level, units, siblings, levels left out, constraints.
"""

from __future__ import annotations

from typing import Any

import pytest

from fluxres.errors import InfeasibleRequest, InputError, LimitExceeded
from fluxres.graph.recipe import Recipe
from fluxres.match import Matcher, Placement
from fluxres.match.policy import POLICIES
from fluxres.syntax import jobspec
from fluxres.syntax.jobspec import Request
from tests.match.machines import matcher, names

Values = dict[str, Any]


def core(count: object = 1, **more: object) -> Values:
    return {"type": "core", "count": count, **more}


def node(count: object, *children: Values, **more: object) -> Values:
    return {"type": "node", "count": count, **({"with": list(children)} if children else {}), **more}


def slot(count: object, *children: Values, label: str = "task", **more: object) -> Values:
    return {"type": "slot", "count": count, "label": label, "with": list(children), **more}


def asked(*resources: Values, constraint: Values | None = None) -> Request:
    tasks = [{"command": ["app"], "slot": "task", "count": {"per_slot": 1}}]
    system = {"duration": 10.0} | ({"constraints": constraint} if constraint is not None else {})
    return jobspec.parse({"version": 999, "resources": list(resources), "tasks": tasks, "attributes": {"system": system}})


def plain(*resources: Values) -> Request:
    """Resources without a slot, which no task can name."""
    return Request(jobspec.parse_resources(list(resources)))


@pytest.fixture
def site() -> Matcher:
    """Two racks of two nodes: two sockets of ten cores, a GPU and 64 GiB each; batch nodes in rack0, debug nodes in rack1."""
    socket = Recipe("socket", 2, children=(Recipe("core", 10), Recipe("gpu"), Recipe("memory", size=64, unit="GiB")))

    def rack(at: int, queue: str) -> Recipe:
        nodes = Recipe("node", 2, ids=2 * at, properties={f"+{queue}": None, "class": at}, children=(socket,))
        return Recipe("rack", 1, ids=at, children=(nodes,))

    return matcher(rack(0, "batch"), rack(1, "debug"))


def found(made: Matcher, request: Request, policy: str = "first") -> Placement | None:
    """The match, by both paths."""
    fast, slow = (made.match(request, 0, 10, policy, reference=reference) for reference in (False, True))
    assert (fast is None) == (slow is None)
    assert fast is None or slow is None or fast.is_equal(slow)
    return fast


def pools(made: Matcher, request: Request, policy: str = "first") -> list[str]:
    match = found(made, request, policy)
    assert match is not None
    return [name.removeprefix("/cluster/") for name in names(made, match)]


@pytest.mark.parametrize(
    ("count", "settled"),
    [
        (3, 3),
        ("3", 3),
        ("1,3,7", 7),
        ("2-5", 5),
        ("2-5,30", 5),
        ("2+", 20),
        ("1-30:2:*", 16),
        ("2-300:2:^", 16),
        ("1-30:4", 17),
        ("[3-5]", 5),
        ({"min": 3}, 20),
        ({"min": 3, "max": 30}, 20),
        ({"min": 3, "max": 30, "operator": "+", "operand": 5}, 18),
        ({"min": 1, "max": 64, "operator": "*", "operand": 3}, 9),
        ({"min": 2, "max": 64, "operator": "^", "operand": 2}, 16),
        ({"min": 2, "operator": "*", "operand": 2}, 16),
    ],
)
def test_every_form_of_count(site: Matcher, count: object, settled: int) -> None:
    match = found(site, asked(slot(1, core(count))))
    assert match is not None
    assert match.counts == (1, settled)
    assert len(match) == settled


@pytest.mark.parametrize(("part", "settled"), [({"operand": 5}, 18), ({"operator": "*"}, None), ({"max": 7}, 7)])
def test_incomplete_counts(site: Matcher, part: Values, settled: int | None) -> None:
    """An operand without operator adds; an operator without operand has no step."""
    if settled is None or "operand" in part:
        with pytest.raises(InputError, match=r"resources\[0\]\.with\[0\]\.count: .*operator and operand together"):
            asked(slot(1, core({"min": 3, "max": 20, **part})))
        return
    match = found(site, asked(slot(1, core({"min": 3, **part}))))
    assert match is not None
    assert match.counts[1] == settled


class TestExclusivity:
    def test_exclusive_defaults_to_false_above_a_slot_and_true_in_it(self, site: Matcher) -> None:
        assert pools(site, asked(node(1, slot(1, core())))) == ["rack0/node0/socket0/core0"]
        assert pools(site, asked(slot(1, node(1, core())))) == ["rack0/node0"]
        assert pools(site, asked(slot(1, node(1, {"type": "socket", "count": 1, "with": [core()]})))) == ["rack0/node0"]

    def test_false_in_a_slot_applies_to_what_is_below(self, site: Matcher) -> None:
        assert pools(site, asked(slot(1, node(1, core(2), exclusive=False)))) == [
            "rack0/node0/socket0/core0",
            "rack0/node0/socket0/core1",
        ]
        socket = {"type": "socket", "count": 1, "with": [core(2)], "exclusive": False}
        assert pools(site, asked(slot(1, node(1, socket, exclusive=False)))) == [
            "rack0/node0/socket0/core0",
            "rack0/node0/socket0/core1",
        ]

    def test_true_above_a_slot_takes_the_pool_exclusively(self, site: Matcher) -> None:
        rack = {"type": "rack", "count": 1, "exclusive": True, "with": [node(1, slot(1, core()))]}
        assert pools(site, asked(rack)) == ["rack0"]
        assert pools(site, asked(node(1, {"type": "socket", "count": 1, "exclusive": True, "with": [slot(1, core())]}))) == [
            "rack0/node0/socket0"
        ]

    def test_true_on_a_pool_of_many_units_takes_all_of_them(self, site: Matcher) -> None:
        match = found(site, asked(slot(1, {"type": "memory", "count": 3, "unit": "GiB", "exclusive": True})))
        assert match is not None
        assert match.targets[0][1] == 64


@pytest.mark.parametrize(
    ("count", "unit", "units"), [(3, None, [3]), (3, "GiB", [3]), (3000, "MiB", [3]), (70, "GB", [64, 2]), (1, "B", [1])]
)
def test_units_of_one_dimension_convert(site: Matcher, count: int, unit: str | None, units: list[int]) -> None:
    """A fraction of a unit takes a complete unit of the last pool: 70 GB are 65.2 GiB."""
    memory = {"type": "memory", "count": count, **({"unit": unit} if unit else {})}
    match = found(site, asked(slot(1, memory)))
    assert match is not None
    assert match.amounts.tolist() == units


def test_units_of_another_dimension_never_match(site: Matcher) -> None:
    watts = asked(slot(1, {"type": "memory", "count": 1, "unit": "W"}))
    assert found(site, watts) is None
    assert not site.satisfiable(watts)


class TestStructure:
    def test_several_slots_get_separate_pools(self, site: Matcher) -> None:
        request = asked(node(1, slot(2, core(4), label="a"), slot(1, core(8), {"type": "gpu", "count": 1}, label="task")))
        match = found(site, request)
        assert match is not None
        picks = [set(group.picks.tolist()) for group in match.slots]
        assert [len(group) for group in match.slots] == [2, 1]
        assert [len(pick) for pick in picks] == [8, 9]
        assert not picks[0] & picks[1]

    def test_siblings_of_one_type_are_disjoint(self, site: Matcher) -> None:
        three = plain(node(1, exclusive=True), node(2, exclusive=True))
        assert pools(site, three) == ["rack0/node0", "rack0/node1", "rack1/node2"]
        assert len(pools(site, asked(slot(1, core(2), core(3), core(1))))) == 6
        assert found(site, plain(node(3, exclusive=True), node(2, exclusive=True))) is None

    @pytest.mark.parametrize("above", ["", "rack", "socket", "rack socket", "rack node", "rack node socket"])
    def test_levels_may_be_left_out_anywhere(self, site: Matcher, above: str) -> None:
        inner = slot(1, core(3))
        for level in reversed(above.split()):
            inner = {"type": level, "count": 1, "with": [inner]}
        assert pools(site, asked(inner)) == [f"rack0/node0/socket0/core{n}" for n in range(3)]

    @pytest.mark.parametrize(
        ("words", "taken"),
        [
            ("-N2", 2),
            ("-N2 -n3", 4),  # as in Flux, which leaves a slot empty
            ("-N2 -n4", 4),
            ("-N2 -n4 -x", 2),
            ("-n3 -c4", 12),
            ("-n2 -c2 -g1", 6),
        ],
    )
    def test_short_options(self, site: Matcher, words: str, taken: int) -> None:
        match = found(
            site, Request(jobspec.parse_resources(jobspec.resources_to_plain(jobspec.as_request(words).resources), dialect="v1"))
        )
        assert match is not None
        assert len(match) == taken


@pytest.mark.parametrize(
    ("constraint", "first"),
    [
        ({"properties": ["+debug"]}, "rack1/node2"),
        ({"properties": ["^+batch"]}, "rack1/node2"),
        ({"properties": ["class=1"]}, "rack1/node2"),
        ({"properties": ["node3"]}, "rack1/node3"),
        ({"hostlist": ["node[3,2]"]}, "rack1/node2"),
        ({"ranks": ["1-3"]}, "rack0/node1"),
        ({"states": ["degraded"]}, "rack0/node1"),
        ({"not": [{"hostlist": ["node0"]}]}, "rack0/node1"),
        ({"and": [{"properties": ["+batch"]}, {"not": [{"ranks": ["0"]}]}]}, "rack0/node1"),
        ({"or": [{"states": ["degraded"]}, {"properties": ["+debug"]}]}, "rack0/node1"),
    ],
)
def test_constraints(site: Matcher, constraint: Values, first: str) -> None:
    site.structure.set_state([site.structure.vertex("/cluster/rack0/node1")], "degraded")
    assert pools(site, asked(slot(1, node(1)), constraint=constraint)) == [first]
    assert pools(site, asked(slot(1, core()), constraint=constraint)) == [f"{first}/socket0/core0"]


@pytest.mark.parametrize("policy", [name for name in POLICIES if name.endswith("nodex")])
def test_node_exclusive_policies_take_their_first_node_exclusively(site: Matcher, policy: str) -> None:
    first = "rack1/node3" if policy in ("highnodex", "hinodex") else "rack0/node0"
    for request in (asked(slot(1, core())), asked(node(1, slot(2, core(3)))), plain(core(1, exclusive=True))):
        assert pools(site, request, policy) == [first]
    site.planner.hold(site.structure.vertex(f"/cluster/{first}/socket0/core0"), 1, 0, 10)
    assert pools(site, asked(slot(1, core())), policy) != [first]


class TestBadInput:
    @pytest.mark.parametrize("depth", [79, 200, 10_000])
    def test_request_nested_too_deeply_is_refused(self, depth: int) -> None:
        inner = core()
        for _ in range(depth):
            inner = node(1, inner)
        with pytest.raises(LimitExceeded, match=r"resources\[0\]\.with\[0\]"):
            asked(slot(1, inner))

    @pytest.mark.parametrize("count", [2**62, 2**63, 10**400, "9223372036854775808", "1-9223372036854775808"])
    def test_count_beyond_any_machine_is_infeasible(self, count: object) -> None:
        with pytest.raises(LimitExceeded, match=r"resources\[0\]\.with\[0\]\.count: expected a count up to 4611686018427387903"):
            asked(slot(1, core(count)))

    @pytest.mark.parametrize("duration", [float("nan"), float("inf"), -1, "1h", True, None])
    def test_invalid_duration_is_refused(self, duration: object) -> None:
        document = {"version": 999, "resources": [slot(1, core())], "attributes": {"system": {"duration": duration}}}
        document["tasks"] = [{"command": ["app"], "slot": "task", "count": {"per_slot": 1}}]
        with pytest.raises(InputError, match=r"attributes\.system\.duration"):
            jobspec.parse(document)

    def test_unknown_type_is_infeasible_and_known_ones_are_named(self, site: Matcher) -> None:
        tpu = asked(slot(1, core(), {"type": "tpu", "count": 1}))
        for ask in (lambda: site.satisfiable(tpu), lambda: site.why_not(tpu, 0, 10), lambda: site.earliest(tpu, 10, 0)):
            with pytest.raises(InfeasibleRequest, match=r"with\[1\]: no pool of type 'tpu'.*core, gpu, memory, node"):
                ask()
