"""Properties of single parts of a request, `gpu{a100}`: the matcher takes such pools only, and says so of the others."""

from __future__ import annotations

from itertools import product

import pytest

from fluxres import ResourceGraph
from fluxres.errors import InfeasibleRequest
from fluxres.graph import uuids
from fluxres.graph.recipe import Recipe, expand
from fluxres.match import Matcher
from fluxres.syntax.jobspec import Request, as_request, parse_shape
from tests.match.machines import matcher


def _node(*properties: str, gpu: str = "a100", name: str | None = None) -> Recipe:
    gpus = (Recipe("gpu", properties={gpu: None}), Recipe("gpu", ids=1, properties={"h100": None, "mem": 80}))
    children = (Recipe("core", 2), *gpus)
    return Recipe("node", properties=dict.fromkeys(properties), name=name, children=children)


@pytest.fixture
def site() -> Matcher:
    return matcher(
        Recipe(
            "rack",
            ids=0,
            children=(_node("ssd", "slow"), Recipe("node", ids=1, properties={"ssd": None}, children=(Recipe("core", 2),))),
        ),
        Recipe(
            "rack", ids=1, children=(Recipe("node", ids=2, children=(Recipe("core", 2),)), _node("ssd", gpu="v100", name="big3"))
        ),
    )


def taken(made: Matcher, wanted: Request) -> list[str] | None:
    found = made.match(wanted, 0, 10)
    return None if found is None else sorted(made.structure.where(v) for v in [*found.vertices.tolist(), *found.shared.tolist()])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("slot/gpu{a100}", ["/cluster/rack0/node0/gpu0"]),
        ("slot/gpu{v100}", ["/cluster/rack1/big3/gpu0"]),
        ("slot/gpu{!a100}", ["/cluster/rack0/node0/gpu1"]),
        ("slot=2/gpu{'mem=80'}", ["/cluster/rack0/node0/gpu1", "/cluster/rack1/big3/gpu1"]),
        ("slot/node{!slow}/gpu{h100}", ["/cluster/rack1/big3"]),
        ("slot/node{big3}", ["/cluster/rack1/big3"]),
        ("[slot{a}/node{ssd};slot{b}/node{!ssd}]", ["/cluster/rack0/node0", "/cluster/rack1/node2"]),
        ("slot/gpu{b200}", None),
        ("slot=3/gpu{h100}", None),
    ],
)
def test_only_pools_with_the_properties_are_taken(site: Matcher, text: str, expected: list[str] | None) -> None:
    assert taken(site, as_request(text)) == expected


@pytest.mark.parametrize(
    "what", ["node=N{ssd}", "slot=N/node{ssd,!slow}", "node=N{ssd}/slot=2/core", "rack/node=N{!ssd}/slot/core"]
)
@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_properties_of_nodes_equal_a_constraint(site: Matcher, what: str, number: int) -> None:
    text = what.replace("N", str(number), 1)
    constrained = as_request(text)
    assert constrained.constraint is not None
    part_by_part = Request(parse_shape(text))
    assert any(vertex.properties for vertex in part_by_part.vertices())
    assert taken(site, constrained) == taken(site, part_by_part)


def test_a_constraint_and_properties_hold_both(site: Matcher) -> None:
    for left, right in product(("ssd", "^ssd", "slow"), ("h100", "v100", "^v100")):
        text = f'slot/node{{properties:["{left}"]}}/gpu{{properties:["{right}"]}}'
        found = taken(site, as_request(text))
        nodes = {"ssd": {"node0", "node1", "big3"}, "^ssd": {"node2"}, "slow": {"node0"}}[left]
        gpus = {"h100": {"node0", "big3"}, "v100": {"big3"}, "^v100": {"node0", "big3"}}[right]
        assert {path.rsplit("/", 1)[-1] for path in found or ()} <= nodes & gpus
        assert (found is None) is not (nodes & gpus)


def test_a_refusal_names_the_cause() -> None:
    graph = ResourceGraph(expand(Recipe("cluster", children=(_node("ssd"),)), origin=uuids.new_origin()))
    refusal = graph.why_not("slot=2/gpu{a100}")
    assert refusal is not None
    assert [(cause.code, cause.number) for part in refusal.parts for cause in part.causes] == [("property", 1)]
    assert "1 does not have the requested properties" in str(refusal)
    with pytest.raises(InfeasibleRequest, match="2 do not have the requested properties"):
        graph.allocate("gpu=2{b200}", job="j")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("slot=2/node{sdd}", "do not satisfy the constraint (none has 'sdd', did you mean ssd?)"),
        ("slot/gpu{h101}", "none has 'h101', did you mean h100?"),
        ("-N9 --requires 'ssd|bog'", "(none has 'bog')"),
        ("-w nod2", "do not satisfy the constraint (none is named 'nod2', did you mean node2?"),
        ("-N1 --requires 'ssd host:x[1-9]'", "(none is named 'x1')"),
        ("-N9 --requires 'host:node0 | host:node1 | -host:x9'", None),
        ("-N9 --requires ssd", None),
        ("[node=9{ssd};node{slow}]", None),
        ("-N9 --requires -bog", None),
        ("-N9 --requires big3", None),  # the name of a node
    ],
)
def test_a_refusal_names_properties_that_nothing_has(site: Matcher, text: str, said: str | None) -> None:
    told = str(site.why_not(as_request(text), 0, 10))
    assert "requested 9 nodes" in told or said is not None
    assert said in told if said is not None else "none has" not in told and "none is named" not in told
