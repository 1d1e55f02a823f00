"""Constraints over all nodes at once, compared with their definition for one node."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fluxres.graph import uuids
from fluxres.graph.recipe import Recipe, expand
from fluxres.graph.structure import Structure
from fluxres.match.situation import Eligible
from fluxres.match.typology import Typology
from fluxres.syntax import constraint
from fluxres.syntax.constraint import And, Constraint, Hostlist, Not, Or, Properties, Ranks, States
from tests.match.site import Target

NAMES = ["ssd", "class", "class=2", "class=3", "node0", "node3", "nothing"]
leaf = st.one_of(
    st.builds(
        Properties,
        st.lists(st.sampled_from(NAMES), max_size=2).map(tuple),
        st.lists(st.sampled_from(NAMES), max_size=1).map(tuple),
    ),
    st.sampled_from([Hostlist(("node[0-2]",)), Hostlist(("node1", "node[3-9]")), Hostlist(("other",)), Hostlist(())]),
    st.sampled_from([Ranks(("0",)), Ranks(("1-2", "9")), Ranks((f"2-{2**40}",)), Ranks(())]),
    st.sampled_from([States(("up",)), States(("down", "drain")), States(())]),
)
constraints = st.recursive(
    leaf,
    lambda below: st.one_of(st.builds(Not, below), *(st.builds(k, st.lists(below, max_size=3).map(tuple)) for k in (And, Or))),
)


@pytest.fixture(scope="module")
def machine() -> Structure:
    sorts = [{}, {"ssd": None}, {"class": 2}, {"class": 3, "ssd": None}]
    nodes = [Recipe("node", 1, ids=at, properties=sort, children=(Recipe("core", 2),)) for at, sort in enumerate(sorts)]
    made = expand(Recipe("cluster", children=(*nodes, Recipe("licence"))), origin=uuids.new_origin())
    made.set_state(made.of_type("node")[2:3], "down")
    return made


@given(stated=constraints)
@settings(max_examples=300, deadline=None)
def test_masks_agree_with_the_reference(machine: Structure, stated: Constraint) -> None:
    eligible = Eligible(Typology(machine), stated)
    nodes = machine.of_type("node").tolist()
    expected = [constraint.matches(stated, Target(machine, v)) for v in nodes]
    assert [eligible.of(v) for v in nodes] == expected
    assert [eligible.of(v + 1) for v in nodes] == expected
    assert eligible.all_below(0) == all(expected)
    assert eligible.of(0)
    assert eligible.of(machine.n - 1)


def test_constraint_on_a_machine_without_nodes_applies_to_each_pool() -> None:
    made = expand(Recipe("cluster", children=(Recipe("core", 2, ids=4),)), origin=uuids.new_origin())
    eligible = Eligible(Typology(made), Hostlist(("core5",)))
    assert [eligible.of(v) for v in range(3)] == [False, False, True]
