"""Values in criteria that no pool has, and the suggested alternatives."""

from __future__ import annotations

import pytest

from fluxres.graph import uuids
from fluxres.graph.auxiliary import Subsystem
from fluxres.graph.recipe import Recipe, expand
from fluxres.model import ResourceGraph
from fluxres.model.search import unmet
from fluxres.syntax import criteria


@pytest.fixture
def g() -> ResourceGraph:
    node = Recipe(
        "node", 2, properties={"ssd": None}, children=(Recipe("core", 2), Recipe("memory", size=4, unit="GiB", ids=None))
    )
    made = ResourceGraph(expand(Recipe("cluster", name="c", ids=None, children=(node,)), origin=uuids.new_origin(bytes(16))))
    nodes = made.structure.of_type("node")
    made.structure.subsystems["power"] = Subsystem("power", True, nodes[:1], nodes[1:])
    made.tag("/c/node0", "owner", "ops")
    made.allocate("/c/node1", job="job-7")
    return made


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("type=nod", ["no type 'nod' in this graph (did you mean node?)"]),
        ("type=node,gpu", ["no type 'gpu' in this graph (choose from cluster, node, core, memory)"]),
        ("basename=coer and type=node", ["no basename 'coer' in this graph (did you mean core?)"]),
        (
            "unit=W or type=nod",
            ["no unit 'W' in this graph (choose from GiB)", "no type 'nod' in this graph (did you mean node?)"],
        ),
        ("property=sdd or property:clas>3", ["no property 'sdd' in this graph (choose from ssd)"]),
        ("property:clas=3", ["no property 'clas' in this graph (choose from ssd)"]),
        ("tag:ownr=ops", ["no tag 'ownr' in this graph (did you mean owner?)"]),
        ("subsystem=powr", ["no subsystem 'powr' in this graph (did you mean power?)"]),
        ("hierarchy=network", ["no hierarchy 'network' in this graph (choose from c, power)"]),
        ("available>=4Gi", ["no pool has 4294967296 units in this graph (the largest has 4; sizes have a unit, such as 64GiB)"]),
        ("size>4", []),
        ("size>=4GiB and size>=4 and size<9", []),
        ("job=job-8", ["no job 'job-8' in this graph (did you mean job-7?)"]),
        ("type=node and id=99", []),
        ("not type=gpu and type!=nod and type~no? and tag and property", []),
        ("subsystem=containment and hierarchy=c and job=job-7 and property=ssd", []),
        ("all", []),
    ],
)  # fmt: skip
def test_unknown_value_is_reported_with_a_known_one(g: ResourceGraph, text: str, sentences: list[str]) -> None:
    assert list(unmet(g, criteria.parse(text))) == sentences


def test_missing_alternatives_are_reported() -> None:
    g = ResourceGraph(expand(Recipe("cluster"), origin=uuids.new_origin(bytes(16))))
    assert list(unmet(g, criteria.parse("tag=x"))) == ["no tag 'x' in this graph (there is none)"]
