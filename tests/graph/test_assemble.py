"""A table of pools in any order becomes the same machine as the recipe it was taken from."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fluxres import limits
from fluxres.errors import InputError, LimitExceeded
from fluxres.graph.assemble import assemble
from fluxres.graph.audit import check_structure
from fluxres.graph.compare import equal
from fluxres.graph.kinds import EXCLUSIVE, Kind, KindTable
from fluxres.graph.recipe import Recipe, expand
from fluxres.graph.structure import Structure
from tests.graph.builders import ORIGIN, Node, build, trees

CORES = KindTable([Kind("core", "core")])


def rows_in(structure: Structure, order: np.ndarray) -> tuple[np.ndarray, dict[str, object]]:
    """The parents of a structure's pools when they are listed in an order, and the other columns."""
    place = np.argsort(order)
    parent = structure.parent[order]
    columns = {name: getattr(structure, name)[order] for name in ("kind", "size", "id", "rank", "state")}
    sparse = {
        name: {int(place[v]): value for v, value in getattr(structure, name).items()}
        for name in ("names", "uuid_texts", "tags", "capacity")
    }
    exclusive = (structure.flags[order] & EXCLUSIVE) != 0
    return np.where(parent >= 0, place[parent], -1), {**columns, **sparse, "exclusive": exclusive}


@given(trees(), st.integers(1, 3), st.randoms(use_true_random=False))
def test_rows_in_any_order_that_keeps_siblings_in_order(root: Node, outside: int, random: object) -> None:
    more = [Node("pdu", i, [Node("panel", 0, tags={"a": None}), Node("panel", 1, size=4)]) for i in range(outside)]
    machine = build(root, *more)
    shuffled = np.array(random.sample(range(machine.n), machine.n))  # type: ignore[attr-defined]  # a random.Random
    # Siblings keep their order: each group of siblings takes its places in ascending order.
    order = shuffled.copy()
    for group in set(machine.parent.tolist()):
        places = np.flatnonzero(machine.parent[shuffled] == group)
        order[places] = np.sort(shuffled[places])
    parent, columns = rows_in(machine, order)
    made = assemble(parent, kinds=machine.kinds, origin=ORIGIN, **columns)  # type: ignore[arg-type]  # columns by name
    assert equal(machine, made.structure) == []
    assert made.vertex.tolist() == order.tolist()
    assert check_structure(made.structure) == []


def test_nodes_are_numbered_and_pass_their_rank_down() -> None:
    rack = Recipe("rack", 2, children=(Recipe("node", 2, children=(Recipe("core", 2),)),))
    whole = expand(Recipe("cluster", children=(rack,)), origin=0)
    assert equal(whole, assemble(whole.parent, whole.kind, kinds=whole.kinds, id=whole.id, origin=0).structure) == []


def test_pools_inherit_ranks_unless_they_have_one() -> None:
    made = assemble([-1, 0, 1, 1, 0], [0] * 5, kinds=CORES, id=range(5), rank=[-1, 7, -1, 3, -1])
    assert made.structure.rank.tolist() == [-1, 7, 7, 3, -1]


@pytest.mark.parametrize(
    ("parent", "words"),
    [
        ([-1, 2, 1], "row 1: is its own descendant"),
        ([0], "no root"),
        ([-1, 2, 3, 2], "row 2: is its own descendant"),
        ([-1, 9], "row 1: parent 9 does not exist: there are 2 pools"),
        ([-1, -2], "row 1: parent -2 does not exist"),
        ([], "no root"),
    ],
)
def test_parents_that_form_no_tree_are_refused(parent: list[int], words: str) -> None:
    with pytest.raises(InputError, match=words):
        assemble(np.array(parent, np.int32), np.zeros(len(parent)), kinds=CORES)


def test_levels_are_bounded() -> None:
    chain = np.arange(limits.DEPTH_MAX) - 1
    assert assemble(chain, np.zeros(len(chain)), kinds=CORES).structure.n == limits.DEPTH_MAX
    with pytest.raises(LimitExceeded, match="pool 64: more than 64 levels"):
        assemble(np.arange(limits.DEPTH_MAX + 1) - 1, np.zeros(len(chain) + 1), kinds=CORES, where="pool {}".format)
