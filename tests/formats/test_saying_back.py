"""Rule S1 at the bounds of files: what cannot be expressed is refused or reported, and never written wrongly."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fluxres
from fluxres import limits
from fluxres.errors import UsageError
from fluxres.formats import registry
from fluxres.formats.format import Hold
from fluxres.graph.auxiliary import Subsystem
from fluxres.graph.compare import equal
from fluxres.graph.kinds import WAY, Kind
from fluxres.graph.recipe import Recipe, expand
from fluxres.graph.structure import Structure
from fluxres.graph.uuids import new_origin
from fluxres.model import ResourceGraph


def machine() -> Structure:
    node = Recipe("node", 3, children=(Recipe("core", 2), Recipe("memory", size=64, unit="GiB")))
    return expand(Recipe("cluster", name="m", children=(node,)), origin=new_origin(bytes(16)))


def linked(name: str = "power", value: Any = None, capacity: float = 1.0, relation: str = "link") -> Subsystem:
    cells = np.empty(1, object)
    cells[:] = [value]
    attributes = {"capacity": np.array([capacity]), "note": cells}
    ends = np.array([[1], [5]], np.int32)
    return Subsystem(name, False, ends[0], ends[1], np.zeros(1, np.uint16), [relation], attributes)


def has(subsystem: Subsystem) -> Callable[[Structure], None]:
    return lambda s: s.subsystems.__setitem__(subsystem.name, subsystem)


def of_kind(**changes: Any) -> Callable[[Structure], None]:
    def damage(s: Structure) -> None:
        s.kind[1] = s.kinds.intern(Kind(**{"type": "node", "basename": "node", **changes}))

    return damage


def cell(column: str, value: int) -> Callable[[Structure], None]:
    return lambda s: getattr(s, column).__setitem__(1, value)


REFUSED: dict[str, tuple[Callable[[Structure], None], str]] = {
    "a property that is not a number": (of_kind(properties=(("x", float("nan")),)), "NaN"),
    "a property of too many digits": (of_kind(properties=(("x", limits.NUMBER_MAX),)), r"\d+ digits"),
    "a property that is too long": (of_kind(properties=(("x", "y" * 5000),)), "at most 4096"),
    "a type with a slash": (of_kind(type="a/b", basename="c"), "not allowed in a path"),
    "a template without its id": (lambda s: (of_kind(name="n${id}")(s), cell("id", -1)(s))[0], "pools that have none"),
    "a template without its ancestor": (of_kind(name="n${rack}"), "'rack'|rack"),
    "a size of nothing": (cell("size", 0), "expected a whole number of at least 1, got 0"),
    "a name for two": (cell("id", 1), "two node pools with id 1"),
    "a graph called pools": (has(linked("pools")), "no particular graph"),
    "a graph called as the machine": (has(linked("m")), "the machine itself"),
    "a graph called by no name": (has(linked("a:b")), "not a valid graph name"),
    "an attribute that is not a number": (has(linked(value=float("nan"))), r"got \.nan"),
    "an attribute that is a list": (has(linked(value=[1])), "value a list of 1, which"),
    "an attribute of too many digits": (has(linked(value=limits.NUMBER_MAX)), r"\d+ digits"),
    "a negative capacity": (has(linked(capacity=-1.0)), "expected a number of at least 0"),
    "a relation without a name": (has(linked(relation="")), "text"),
    "a uuid for two": (lambda s: s.uuid_texts.__setitem__(1, s.uuid(2)), "two pools have the uuid"),
    "a uuid without text": (lambda s: s.uuid_texts.__setitem__(1, ""), "expected a UUID"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_unreadable_output_is_refused_and_nothing_is_written(what: str, tmp_path: Path) -> None:
    damage, message = REFUSED[what]
    structure = machine()
    damage(structure)
    with pytest.raises(UsageError, match=message) as caught:
        registry.write(structure)
    assert "cannot be written in format 'cluster'" in caught.value.message
    assert caught.value.hint
    path = tmp_path / "m.yaml"
    path.write_text("what was there before")
    with pytest.raises(UsageError, match="cannot be written in format 'cluster'"):
        fluxres.save(ResourceGraph(structure, name="m"), path)
    assert path.read_text() == "what was there before"


SAID: dict[str, Callable[[Structure], None]] = {
    "infinite properties": of_kind(properties=(("a", float("inf")), ("b", float("-inf")))),
    "long numbers": of_kind(properties=(("a", 1 - limits.NUMBER_MAX), ("b", 1e308), ("c", 5e-324), ("d", -0.0))),
    "no size on the way": lambda s: (cell("size", 0)(s), cell("flags", WAY)(s))[0],
    "an infinite capacity": has(linked(capacity=float("inf"))),
    "an unknown capacity": has(linked(capacity=float("nan"))),
    "a capacity that is no whole number of digits": has(linked(capacity=1e300)),
    "an attribute that no float holds": has(linked(value=2**53 + 1)),
    "an attribute of many digits": has(linked(value=limits.NUMBER_MAX - 1)),
    "an attribute of nothing": has(linked(value=None)),
}


@pytest.mark.parametrize("what", SAID)
def test_unusual_machines_are_read_back_equal(what: str) -> None:
    structure = machine()
    SAID[what](structure)
    written = registry.write(structure)
    assert written.left_out == []
    assert equal(structure, registry.read(written.text.encode()).structure) == []


@pytest.mark.parametrize(("bound", "value"), [("RECIPES_MAX", 30), ("DOCUMENT_BYTES_MAX", 1000), ("DOCUMENT_VALUES_MAX", 50)])
def test_machine_too_large_for_a_reader_is_refused(bound: str, value: int, monkeypatch: pytest.MonkeyPatch) -> None:
    structure = expand(Recipe("cluster", children=(Recipe("core", 100),)), origin=new_origin())
    structure.id[1:] = np.random.default_rng(1).permutation(100) * 2
    structure.set_state(np.arange(1, 101, 3, dtype=np.int32), "down")
    assert registry.write(structure).left_out == []
    monkeypatch.setattr(limits, "YAML_BYTES_MAX", 500)
    monkeypatch.setattr(limits, bound, value)
    with pytest.raises(UsageError, match=r"at most|more (values )?than"):
        registry.write(structure)


def test_list_with_more_ids_than_readers_accept_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    structure = expand(Recipe("cluster", children=(Recipe("core", 100),)), origin=new_origin())
    structure.id[1:] = np.random.default_rng(1).permutation(100) * 2
    assert registry.write(structure).left_out == []
    monkeypatch.setattr(limits, "IDSET_COUNT_MAX", 40)
    with pytest.raises(UsageError, match="more than 40 numbers"):
        registry.write(structure)


def test_document_too_long_for_yaml_is_written_as_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "YAML_BYTES_MAX", 100)
    written = registry.write(machine(), [Hold("j", 0.0, None, {2: 1})])
    assert json.loads(written.text)["name"] == "m"
    loaded = registry.read(written.text.encode())
    assert equal(machine(), loaded.structure) == []
    assert loaded.allocations == [Hold("j", 0.0, None, {2: 1})]


@pytest.mark.parametrize("name", ["", "a\nb", "x" * 300])
def test_graph_name_that_no_file_can_contain_is_refused(name: str) -> None:
    graph = ResourceGraph(machine(), name="m")
    graph.name = name
    with pytest.raises(UsageError, match="cannot be written"):
        registry.write(graph.structure, name=graph.name)
