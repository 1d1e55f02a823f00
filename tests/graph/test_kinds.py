"""What equal pools share is stored once, compared exactly, and bounded."""

from __future__ import annotations

import pytest

import fluxres
from fluxres import AuxiliaryGraph, Edge, Resource, limits
from fluxres.errors import FluxresError, LimitExceeded
from fluxres.graph.kinds import Kind, KindTable, fault_of


def test_equal_kinds_are_shared_and_value_types_distinguish_kinds() -> None:
    table = KindTable()
    kinds = [Kind("node", "node", properties=(("class", value),)) for value in (1, 1.0, True, "1", None)]
    assert [table.intern(kind) for kind in kinds] == [0, 1, 2, 3, 4]
    assert [table.intern(kind) for kind in kinds] == [0, 1, 2, 3, 4]
    assert [type(kind.properties[0][1]) for kind in table] == [int, float, bool, str, type(None)]


def test_kind_table_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "KINDS_MAX", 2)
    table = KindTable([Kind("a", "a"), Kind("b", "b")])
    assert table.intern(Kind("b", "b")) == 1
    with pytest.raises(LimitExceeded, match="more than 2 different kinds"):
        table.intern(Kind("c", "c"))
    assert len(table) == 2


@pytest.mark.parametrize(
    ("value", "message", "hint"),
    [
        ("x" * (limits.VALUE_LENGTH_MAX + 1), f"{limits.VALUE_LENGTH_MAX + 1} characters, at most {limits.VALUE_LENGTH_MAX}", ""),
        ("\ud800", r"half a character in '\ud800'", "write the whole character"),
        (limits.NUMBER_MAX, "a number of more than 300 digits", "write it as text"),
    ],
    ids=["long", "half a character", "digits"],
)
def test_properties_and_attributes_of_edges_refuse_a_value_in_the_same_words(value: str | int, message: str, hint: str) -> None:
    def edges(attributes: dict[str, str | int]) -> AuxiliaryGraph:
        return AuxiliaryGraph(edges=[Edge("/m/node0", "/m/node1", attributes=attributes)])

    nodes = Resource("node", 2)
    graph = fluxres.build(nodes, name="m", graphs={"net": edges({})})
    ways = {
        f"property 'a': {message}": lambda: fluxres.build(Resource("node", properties={"a": value})),
        f"attribute a: {message}": lambda: graph.set_edge("/m/node0", "/m/node1", "net", attributes={"a": value}),
        message: lambda: fluxres.build(nodes, name="m", graphs={"net": edges({"a": value})}),
    }
    for said, way in ways.items():
        with pytest.raises(FluxresError) as caught:
            way()
        assert (caught.value.message, caught.value.hint) == (said, hint)
    fault = fault_of(value)
    assert fault is not None
    assert fault.is_limit == (not hint.endswith("character"))
