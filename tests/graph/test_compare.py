"""`equal` reports every difference that a user could see, and no other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fluxres.graph import surgery
from fluxres.graph.auxiliary import Subsystem
from fluxres.graph.compare import SHOWN_MAX, equal, numbers_in
from fluxres.graph.recipe import Recipe, expand
from fluxres.graph.structure import Structure


def machine(**core: Any) -> Structure:
    tree = Recipe("cluster", children=(Recipe("node", 3, children=(Recipe("core", 4, **core),)),))
    structure = expand(tree, origin=8 << 76)
    edges = np.array([[0, 1], [0, 6]], np.int32)
    structure.subsystems["power"] = Subsystem(
        "power", True, edges[:, 0], edges[:, 1], attributes={"capacity": np.array([5.0, np.nan])}
    )
    return structure


CHANGES: list[tuple[Callable[[Structure], object], str]] = [
    (lambda s: s.size.__setitem__(2, 9), "/cluster/node0/core0: size 1, not 9"),
    (lambda s: s.id.__setitem__(2, 9), "/cluster/node0/core0: id 0, not 9"),
    (lambda s: s.rank.__setitem__(2, 9), "/cluster/node0/core0: rank 0, not 9"),
    (lambda s: s.flags.__setitem__(2, 1), "/cluster/node0/core0: flags 0, not 1"),
    (lambda s: s.set_state([2], "drain"), "/cluster/node0/core0: state up, not drain"),
    (lambda s: s.set_tag([2], "a", None), "/cluster/node0/core0: tags None, not {'a': None}"),
    (lambda s: s.capacity.__setitem__(2, 9), "/cluster/node0/core0: capacity None, not 9"),
    (lambda s: s.names.__setitem__(2, "x"), "/cluster/node0/core0: name 'core0', not 'x'"),
    (lambda s: s.uuid_texts.__setitem__(2, "x"), "/cluster/node0/core0: uuid 00000000-0000-8000-0000-000000000002, not x"),
    (lambda s: s.serial.__setitem__(2, 77), "/cluster/node0/core0: uuid 00000000-0000-8000-0000-000000000002, not"),
    (lambda s: s.subsystems.clear(), "auxiliary graphs power, not none"),
    (lambda s: setattr(s.subsystems["power"], "hierarchy", False), "graph power: hierarchy True, not False"),
    (lambda s: s.subsystems["power"].dst.__setitem__(1, 11), "graph power: /cluster to /cluster/node1"),
    (lambda s: s.subsystems["power"].attributes["capacity"].__setitem__(0, 6.0), "graph power: /cluster to /cluster/node0"),
]


@pytest.mark.parametrize(("change", "message"), CHANGES, ids=[message[:40] for _, message in CHANGES])
def test_each_difference_is_reported_with_its_place(change: Callable[[Structure], object], message: str) -> None:
    a, b = machine(), machine()
    assert equal(a, b) == []
    change(b)
    assert any(found.startswith(message) for found in equal(a, b))
    assert equal(b, b) == []


@pytest.mark.parametrize("core", [{"unit": "GiB"}, {"properties": {"a": 1}}, {"basename": "c"}])
def test_kinds_are_compared_by_content(core: dict[str, Any]) -> None:
    found = equal(machine(), machine(**core))
    assert any("(type, basename, unit, properties)" in line for line in found)
    assert equal(machine(properties={"a": 1}), machine(properties={"a": True})) != []


def test_equal_structures_may_be_encoded_differently() -> None:
    a, b = machine(), machine(name="core${id}")
    b.names[3] = "core1"
    b.uuid_texts[3] = a.uuid(3)
    b.origins = [0, 8 << 76]
    b.origin[:] = 1
    for subsystem in b.subsystems.values():
        order = [1, 0]
        subsystem.src, subsystem.dst = subsystem.src[order], subsystem.dst[order]
        subsystem.attributes = {key: column[order] for key, column in subsystem.attributes.items()}
    assert equal(a, b) == []


def test_different_shapes_are_reported_first_and_alone() -> None:
    bigger = expand(Recipe("cluster", children=(Recipe("node", 4),)), origin=0)
    assert equal(machine(), bigger) == ["16 pools, 16 of them in the containment tree, not 5 and 5"]
    flat = expand(Recipe("cluster", children=(Recipe("core", 15),)), origin=0)
    assert all("parent" in line or "end" in line or "more" in line for line in equal(machine(), flat))


def test_many_differences_are_shown_in_part() -> None:
    a, b = machine(), machine()
    b.size[:] = 2
    assert len(equal(a, b)) == SHOWN_MAX + 1
    assert equal(a, b)[-1] == f"and {16 - SHOWN_MAX} more pools like this"


def test_uuids_can_be_ignored() -> None:
    a, b = machine(), machine()
    b.serial += 100
    assert equal(a, b) != []
    assert equal(a, b, uuids=False) == []


def test_pools_are_found_in_another_structure_by_their_uuids() -> None:
    before = machine()
    before.uuid_texts.update({7: "f0000000-0000-4000-8000-000000000007", 8: "f0000000-0000-4000-8000-000000000008"})
    after, old_to_new = surgery.unlink(before, 1, None)
    stay = np.flatnonzero(old_to_new >= 0)
    assert len(stay) == after.n < before.n
    assert numbers_in(after, before).tolist() == old_to_new.tolist()
    assert numbers_in(before, after)[old_to_new[stay]].tolist() == stay.tolist()
    assert numbers_in(before, before).tolist() == list(range(before.n))


def test_pools_of_another_origin_are_others_although_their_serials_are_equal() -> None:
    before = machine()
    after = expand(Recipe("cluster", children=(Recipe("node", 3, children=(Recipe("core", 4),)),)), origin=9 << 76)
    assert numbers_in(after, before).tolist() == [-1] * before.n
