"""Helpers that build a machine, a request and names."""

from __future__ import annotations

from fluxres.graph import uuids
from fluxres.graph.recipe import Recipe, expand
from fluxres.match import Matcher, Placement
from fluxres.planner.planner import Planner
from fluxres.syntax import constraint_query
from fluxres.syntax.jobspec import Request, parse_shape


def matcher(*below: Recipe) -> Matcher:
    """A matcher for a cluster with these recipes below it and nothing held."""
    structure = expand(Recipe("cluster", children=below), origin=uuids.new_origin())
    return Matcher(structure, Planner(structure.parent, structure.end, structure.type, structure.size))


def request(text: str, requires: str | None = None) -> Request:
    """A shape, and a constraint in the query language."""
    return Request(parse_shape(text), constraint=constraint_query.constraint_of(requires) if requires else None)


def names(made: Matcher, found: Placement) -> list[str]:
    """Paths of the picks."""
    return [made.structure.path(v) for v in found.vertices.tolist()]


def both(
    made: Matcher, text: str, start: int = 0, end: int = 10, policy: str = "first", requires: str | None = None
) -> Placement | None:
    """The match of both paths, which must agree."""
    asked = request(text, requires)
    fast, slow = (made.match(asked, start, end, policy, reference=way) for way in (False, True))
    assert (fast is None) == (slow is None)
    assert fast is None or slow is None or fast.is_equal(slow)
    return fast


def takes(made: Matcher, text: str, policy: str = "first", requires: str | None = None) -> dict[str, int] | None:
    """What a request takes in [0, 10), by path below the cluster. None for no match."""
    found = both(made, text, policy=policy, requires=requires)
    if found is None:
        return None
    return dict(zip([name.removeprefix("/cluster/") for name in names(made, found)], found.amounts.tolist(), strict=True))
