"""Impossible requests are recognised by numbers, without a search."""

from __future__ import annotations

import pytest

from fluxres.graph.recipe import Recipe
from fluxres.match import Matcher
from tests.match.machines import matcher, request


@pytest.fixture
def mixed() -> Matcher:
    """Two racks, each with two nodes of one socket and two of two."""
    small = Recipe("node", 2, children=(Recipe("socket", 1, children=(Recipe("core", 2), Recipe("memory", 2, size=2))),))
    large = Recipe("node", 2, ids=2, children=(Recipe("socket", 2, children=(Recipe("core", 2), Recipe("memory", 2, size=2))),))
    return matcher(Recipe("rack", 2, children=(small, large)))


@pytest.mark.parametrize("policy", ["first", "high", "hinodex", "variation"])
def test_exclusively_taken_nodes_include_their_contents(mixed: Matcher, policy: str) -> None:
    """Six of eight nodes leave at most four sockets, and six are wanted; with five sockets in seven nodes' company, one."""
    never = request("slot=3{a}/[slot=2{b}/slot=1{c}/node;socket=2]")
    assert mixed.match(never, 0, 10, policy) is None
    assert not mixed.satisfiable(never)
    assert mixed.match(request("slot=2{a}/[slot=2{b}/slot=1{c}/node;socket=2]"), 0, 10, policy) is not None


def test_part_that_is_impossible_on_its_own_ends_the_search(mixed: Matcher) -> None:
    """The memory of the racks can be chosen in very many ways, and no node has room for the slots."""
    never = request("[rack=2/[memory=5;memory=4];node/slot=5{a}/[core;memory=1{x}]]")
    assert mixed.match(never, 0, 10) is None
    assert mixed.earliest(never, 10, 0) is None
    assert mixed.match(request("[rack=2/[memory=5;memory=4];node/slot=1{a}/[core;memory=1{x}]]"), 0, 10) is not None
