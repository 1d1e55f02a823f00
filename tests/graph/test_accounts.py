"""Edges with a capacity as accounts after the pools: their order, sizes, names, and what a copy leaves of them."""

from __future__ import annotations

import numpy as np
import pytest

from fluxres import limits
from fluxres.errors import UnknownPool
from fluxres.graph import surgery, uuids
from fluxres.graph.auxiliary import Subsystem
from fluxres.graph.recipe import Recipe, expand
from fluxres.graph.structure import Structure

NAN = float("nan")


def machine(*rows: tuple[str, str, float], hierarchy: bool = False, **attributes: list[object]) -> Structure:
    """Two racks of two nodes and a PDU of 100 W; edges by name with their capacities."""
    rack = Recipe("rack", 2, children=(Recipe("node", 2, ids=np.arange(4)),))
    made = expand(Recipe("c", children=(rack,)), more=[Recipe("pdu", ids=None, size=100, unit="W")], origin=uuids.new_origin())
    numbers = {made.name(v): v for v in range(made.n)}
    src, dst = (np.array([numbers[row[at]] for row in rows], np.int32) for at in (0, 1))
    columns = {"capacity": np.array([row[2] for row in rows], np.float64)}
    for key, values in attributes.items():
        columns[key] = np.array(values, object)
    relation = np.arange(len(rows), dtype=np.uint16)
    names = [f"cable {at}" for at in range(len(rows))]
    made.subsystems = {"power": Subsystem("power", hierarchy, src, dst, relation, names, columns)}
    return made


def sizes(made: Structure) -> dict[str, int]:
    accounts = made.accounts
    return {accounts.where(v): int(accounts.size[v]) for v in range(made.n, accounts.n)}


def test_without_capacities_the_columns_are_those_of_the_structure() -> None:
    made = machine(("pdu", "rack0", NAN))
    accounts = made.accounts
    assert accounts.n == made.n
    assert accounts.size is made.size
    assert accounts.parent is made.parent
    made.subsystems = {}
    assert machine().accounts.n == made.n


def test_edge_carries_whole_units_and_parallel_edges_add_up() -> None:
    made = machine(("pdu", "rack0", 7.9), ("rack0", "node0", 2), ("rack0", "node0", 3.5), ("rack0", "node1", 0), hierarchy=True)
    assert sizes(made) == {
        "power: /c/rack0 -> /c/rack0/node0": 5,
        "power: /c/rack0 -> /c/rack0/node1": 0,
        "power: power:/pdu -> /c/rack0": 7,
    }
    accounts = made.accounts
    assert [accounts.unit(v) for v in range(made.n, accounts.n)] == ["W"] * 3
    assert accounts.parent[made.n :].tolist() == [-1] * 3
    assert (accounts.end[made.n :] == np.arange(made.n, accounts.n) + 1).all()


@pytest.mark.parametrize("unlimited", [NAN, float("inf"), float(limits.SIZE_MAX), 1e308])
def test_unlimited_edge_is_not_an_account(unlimited: float) -> None:
    # An unlimited cable parallel to a limited one: both together are unlimited.
    assert sizes(machine(("pdu", "rack0", unlimited), ("rack0", "node0", 5), ("rack0", "node0", unlimited))) == {}


def test_edge_may_have_its_own_unit() -> None:
    made = machine(("pdu", "rack0", 2), ("rack0", "node0", 5), unit=["kW", None])
    accounts = made.accounts
    assert {accounts.where(v): accounts.unit(v) for v in range(made.n, accounts.n)} == {
        "power: power:pdu -> /c/rack0": "kW",
        "power: /c/rack0 -> /c/rack0/node0": "W",
    }


def test_names_can_be_looked_up() -> None:
    made = machine(("pdu", "rack0", 7), ("rack0", "node0", 2))
    accounts = made.accounts
    for v in range(accounts.n):
        assert accounts.number(accounts.where(v)) == v
    assert accounts.said(made.n) == "power: /c/rack0 -> /c/rack0/node0"
    assert accounts.said(made.n + 1) == "power: power:pdu -> /c/rack0"
    with pytest.raises(UnknownPool, match="no edge with a capacity"):
        accounts.number("power: /c/rack0 -> /c/rack0/node1")


def test_numbers_follow_the_pools_to_another_structure() -> None:
    made = machine(("pdu", "rack0", 7), ("rack0", "node0", 2), ("rack1", "node2", 4))
    after, old_to_new = surgery.unlink(made, made.vertex("/c/rack0/node0"))
    moved = made.accounts.renumbered(after.accounts, old_to_new)
    names = {made.accounts.where(v): moved[v] for v in range(made.n, made.accounts.n)}
    assert names.pop("power: /c/rack0 -> /c/rack0/node0") == -1
    assert {after.accounts.where(int(v)) for v in names.values()} == set(names)


def test_copy_has_the_remaining_capacity_and_merges_back_to_the_original() -> None:
    made = machine(("pdu", "rack0", 7.5), ("rack0", "node0", 2), ("rack0", "node0", 2), ("rack1", "node2", 4))

    def part(left: int) -> Structure:
        keep = np.ones(made.n, np.bool_)
        copied, _ = surgery.extract_many(made, keep, made.size, carried=lambda edges: np.full(len(edges), left, np.int64))
        return copied

    one, other = part(1), part(4)
    assert set(sizes(one).values()) == {1}
    assert [(data["capacity"], data["full"]) for *_, data in one.subsystems["power"].rows()] == [(1, 7.5), (1, 2), (0, 2), (1, 4)]
    # Edges with a capacity of four still have all of it.
    assert [data.get("full") for *_, data in other.subsystems["power"].rows()] == [7.5, None, None, None]
    for structure in (one, other):
        structure.flags[:] = 0
        structure.capacity = {v: 2 * int(size) for v, size in enumerate(structure.size)}
    joint, _, _ = surgery.merge(one, other)
    assert list(sizes(joint).values()) == [4, 4, 5]
    assert [data.get("full") for *_, data in joint.subsystems["power"].rows()] == [7.5, None, None, None]


def test_merging_two_descriptions_of_one_machine_adds_nothing_to_an_edge() -> None:
    made = machine(("pdu", "rack0", 7), ("rack0", "node0", NAN))
    other = surgery.duplicate(made)
    made.capacity = {v: 2 * int(size) for v, size in enumerate(made.size)}
    joint, _, _ = surgery.merge(made, other)
    assert [data.get("capacity") for *_, data in joint.subsystems["power"].rows()] == [7.0, None]
