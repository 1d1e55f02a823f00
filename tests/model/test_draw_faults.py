"""Invalid and unusual draws of pools: as text, of a name that nothing supplies, in several units."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import fluxres
from fluxres.cli import program as cli
from fluxres.errors import InputError, InsufficientResources
from fluxres.formats import registry
from fluxres.graph import auxiliary
from fluxres.model import ResourceGraph

SITE = """
fluxres: 1
name: m
resources:
  - {type: node, count: 4, draw: {DRAW}, with: [{type: core, count: 2}]}
graphs:
  power:
    hierarchy: true
    pools: [{type: feed, with: [{type: power, id: null, size: 1000, unit: W}]}]
    edges: [{from: "power:/feed", to: "/m/node*", capacity: 900}]
"""


def made(draw: str = "power: 400") -> ResourceGraph:
    return ResourceGraph(registry.read(SITE.replace("DRAW", draw).encode()).structure)


@pytest.mark.parametrize("format", ["cluster", "jgf", "graphml", "node-link"])
def test_draw_survives_a_format(format: str) -> None:
    written = registry.write(made().structure, name="m", format=format)
    graph = ResourceGraph(registry.read(written.data).structure)
    graph.allocate("slot=2/node", job="a")
    assert {span.pool: span.amount for span in graph.allocation("a").spans if span.pool.startswith("power")}[
        "power:/feed/power"
    ] == 800
    with pytest.raises(InsufficientResources):
        graph.allocate("/m/node2", job="b")
    assert graph.check() == []


def test_draw_survives_a_resource_set() -> None:
    graph = made()
    graph.allocate("slot=4/core=1", job="a")
    again = fluxres.load(graph.allocation("a").R(scheduling=True))
    assert [pool.properties["draw.power"] for pool in again.find("type=node")] == [400] * 2


@pytest.mark.parametrize("value", ["lots", 1.5, True, None, "-3", "9" * 30])
def test_draw_that_is_not_a_whole_number_is_refused(value: object) -> None:
    node = {"type": "node", "properties": {"draw.power": value}}
    with pytest.raises(InputError, match=r"draw\.power: expected a whole number of units") as refusal:
        fluxres.load({"fluxres": 1, "name": "m", "resources": [node]})
    assert "resources[0].properties" in refusal.value.where


@pytest.mark.parametrize("format", ["jgf", "node-link"])
def test_every_format_reports_the_place_of_an_invalid_draw(format: str) -> None:
    data = registry.write(made().structure, name="m", format=format).data
    assert b"400" in data
    with pytest.raises(InputError, match=r"draw\.power: expected a whole number of units") as refusal:
        registry.read(
            data.replace(b'"draw.power":"400"', b'"draw.power":"many"').replace(b'"draw.power":400', b'"draw.power":"many"')
        )
    assert "nodes[1]" in refusal.value.where


@pytest.mark.parametrize("name", ["powr", "Power", "core"])
def test_draw_that_no_graph_distributes_is_refused(name: str) -> None:
    with pytest.raises(InputError, match=f"draws units of '{name}', which no graph distributes") as refusal:
        made(f"{name}: 400")
    assert f"resources[0].draw.{name}" in refusal.value.where
    assert refusal.value.hint == "choose from feed, power"


def test_machine_to_merge_may_draw_from_missing_suppliers() -> None:
    alone = fluxres.build(fluxres.Resource("node", 2, draw={"power": 400}), name="m")
    assert [problem.message for problem in alone.check()] == [
        "draws units of 'power', which no graph distributes (no graph distributes anything)"
    ]
    again = ResourceGraph(registry.read(registry.write(alone.structure, name="m").data).structure)
    assert again.structure.kinds.may_draw


@pytest.mark.parametrize("other", ["size: 1000, unit: kW", "size: 1000, unit: GB"])
def test_draw_in_several_units_is_refused(other: str) -> None:
    text = SITE.replace("DRAW", "power: 1").replace("type: feed,", "type: feed, id: 0,")
    text = text.replace(
        "with: [{type: power,", f"with: [{{type: pdu, with: [{{type: power, id: null, {other}}}]}}, {{type: power,"
    )
    with pytest.raises(InputError, match=r"draws units of 'power', which is counted in \w+ and \w+"):
        fluxres.loads(text.replace('"power:/feed"', '"power:/feed0/pdu"'))


def test_edges_in_another_unit_are_refused() -> None:
    with pytest.raises(InputError, match="which is counted in W and kW"):
        registry.read(SITE.replace("DRAW", "power: 1").replace("capacity: 900", "capacity: 900, unit: kW").encode())


def test_draw_that_can_never_be_supplied_is_a_problem() -> None:
    problems = made("power: 950").check()
    assert len(problems) == 4
    assert problems[0].message == "draws 950 W of power: power:/feed -> /m/node0, which has 900 W: it can never be allocated"


MIXED = """
fluxres: 1
name: m
resources: [{type: node, count: 4}]
graphs:
  power:
    hierarchy: true
    pools: [{type: feed, size: 1000, unit: UNIT, with: [{type: panel, with: [{type: pdu, count: 2, size: 800, unit: W}]}]}]
    edges: [{from: "power:/feed/panel/pdu*", to: "/m/node*", pairing: share}]
"""


def test_suppliers_of_several_types_on_one_path_are_a_problem(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    graph = fluxres.loads(MIXED.replace("UNIT", "W"))
    assert [(problem.severity, problem.where) for problem in graph.check()] == [("warning", "power:/feed/panel/pdu0")]
    assert "a request for units of 'pdu' is not charged to 'feed'" in graph.check()[0].message
    graph.allocate("slot/[node;power=300]", job="j")  # a request by the name of the graph draws from all of them
    assert (graph.pool("power:/feed").available(), graph.pool("power:/feed/panel/pdu0").available()) == (700, 500)
    (tmp_path / "m.yaml").write_text(MIXED.replace("UNIT", "W"))
    assert cli.run(["--store", f"sqlite:///{tmp_path}/m.db", "load", f"{tmp_path}/m.yaml"]) == 0
    assert "a request for units of 'pdu' is not charged to 'feed'" in capsys.readouterr().err


def test_suppliers_of_one_type_or_in_several_units_are_no_problem() -> None:
    assert fluxres.loads(MIXED.replace("UNIT", "kV")).check() == []
    one = MIXED.replace("UNIT", "W").replace("type: feed", "type: pdu, name: feed")
    graph = fluxres.loads(one)
    assert graph.check() == []
    graph.allocate("slot/pdu=300", job="j")
    assert graph.pool("power:/feed").available() == 700


@pytest.mark.parametrize(("capacity", "said"), [("0.5", "carries 0.5 kW, and 0 whole"), ("1.5", "carries 1.5 kW, and 1 whole")])
def test_fractional_edge_capacities_are_a_problem(capacity: str, said: str) -> None:
    text = """
fluxres: 1
name: m
resources: [{type: node, count: 2}]
graphs:
  power:
    pools: [{type: pdu, size: 9, unit: kW}]
    edges: [{from: "power:/pdu", to: "/m/node*", capacity: CAPACITY, unit: kW}]
"""
    (problem,) = fluxres.loads(text.replace("CAPACITY", capacity)).check()
    assert (problem.severity, problem.where) == ("warning", "power: power:pdu -> /m/node0")
    assert problem.message == f"{said} units of it count (write it in a smaller unit; edges like this: 2)"
    assert fluxres.loads(text.replace("CAPACITY", "2.0")).check() == []


def test_hierarchy_roots_are_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = 0
    sought = auxiliary.np.setdiff1d

    def counted(*args: object) -> object:
        nonlocal calls
        calls += 1
        return sought(*args)

    graph = made()
    monkeypatch.setattr(auxiliary.np, "setdiff1d", counted)
    for node in range(2):
        graph.allocate(f"/m/node{node}", job=f"j{node}")
    names = [graph.structure.accounts.where(v) for v in range(graph.structure.accounts.n)]
    assert [graph.structure.accounts.number(name) for name in names] == list(range(len(names)))
    assert calls <= 1 + sum(1 for _ in graph.structure.feeds)


def test_a_unit_in_other_letters_is_a_problem(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    said = "is counted in 'GIB', which converts to no other unit (did you mean GiB?)"
    memory = "resources: [{type: node, count: 4, with: [{type: memory, size: 8, unit: GIB}, {type: seat, size: 2, unit: seats}]}]"
    graph = fluxres.loads(MIXED.replace("resources: [{type: node, count: 4}]", memory).replace("UNIT", "kw"))
    found = [(problem.severity, problem.where, problem.message) for problem in graph.check()]
    assert found[0] == ("warning", "/m/node0/memory", said)
    assert found[1:] == [("warning", "feed", "is counted in 'kw', which converts to no other unit (did you mean kW?)")]
    (tmp_path / "m.yaml").write_text(f"fluxres: 1\nname: m\n{memory}\n")
    assert cli.run(["--store", f"sqlite:///{tmp_path}/m.db", "load", f"{tmp_path}/m.yaml"]) == 0
    assert f"fluxres: /m/node0/memory: {said}" in capsys.readouterr().err


def test_a_unit_of_edges_in_other_letters_is_a_problem() -> None:
    text = SITE.replace("DRAW", "power: 1").replace("capacity: 900", "capacity: 900, unit: w").replace("unit: W", "unit: w")
    messages = [problem.message for problem in fluxres.loads(text).check()]
    assert messages == ["is counted in 'w', which converts to no other unit (did you mean W?)"]


def units_noted(**pool: Any) -> list[tuple[str, str]]:
    node = {"type": "node", "count": 2, "with": [pool]}
    found = fluxres.load({"fluxres": 1, "name": "m", "resources": [node]}).check()
    return [(one.severity, one.message) for one in found]


@pytest.mark.parametrize(
    ("type_name", "unit", "such_as"),
    [
        ("memory", "gigs", "GiB"),
        ("storage", "teras", "GiB"),
        ("power", "Watts", "W"),
        ("bandwidth", "gigabit", "Gb/s"),
    ],
)
def test_a_unit_of_a_size_that_converts_to_none_is_noted(type_name: str, unit: str, such_as: str) -> None:
    said = f"is counted in '{unit}', which converts to no other unit (write one such as {such_as}: sizes in requests never match)"
    assert units_noted(type=type_name, size=8, unit=unit) == [("warning", said)]


@pytest.mark.parametrize(
    "pool",
    [
        {"type": "memory", "unit": "GB"},
        {"type": "memory"},
        {"type": "licence", "unit": "seats"},
        {"type": "memory", "unit": "0.0001"},  # of a pool of HyperQueue, which is divided
    ],
)
def test_other_units_are_not_noted(pool: dict[str, Any]) -> None:
    assert units_noted(**pool, size=8) == []


def test_a_unit_is_noted_once_for_each_type() -> None:
    pools = [{"type": "licence", "size": 4, "unit": "gigs"}, {"type": "memory", "size": 4, "unit": "gigs"}]
    found = fluxres.load({"fluxres": 1, "name": "m", "resources": [{"type": "node", "count": 3, "with": pools}]}).check()
    assert [one.where for one in found] == ["/m/node0/memory"]


def test_a_misspelt_supplier_of_a_draw_in_text_is_named() -> None:
    with pytest.raises(InputError, match=r"draw\.powr: 'powr' is counted in no unit .* \(did you mean 'power'\?\)"):
        made("powr: 2.5 kW")
    with pytest.raises(InputError, match=r"'licence' is counted in no unit .* \(write a number, in the units of the suppliers\)"):
        made("licence: 2.5 kW")
