"""GRUG as machines: the same pools, edges and numbers as vertex by vertex in `fluxres query`."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fluxres.errors import FluxresError, InputError, LimitExceeded
from fluxres.fluxion import loading
from fluxres.fluxion.graph import CONTAINMENT
from fluxres.formats import registry
from fluxres.formats.flux import grug
from fluxres.graph.audit import check_structure
from fluxres.graph.structure import Structure
from tests.choices import among, integers

Node = tuple[str, dict[str, Any]]
Edge = tuple[str, str, dict[str, Any]]
KEYS = '<key id="root" for="node" attr.name="root"/>'


def text(nodes: list[Node], edges: list[Edge]) -> bytes:
    def data(values: dict[str, Any]) -> str:
        return "".join(f'<data key="{key}">{value}</data>' for key, value in values.items())

    body = [f'<node id="{key}">{data({"type": key, **values})}</node>' for key, values in nodes]
    body += [f'<edge source="{a}" target="{b}">{data(values)}</edge>' for a, b, values in edges]
    return f"<graphml>{KEYS}<graph>\n{chr(10).join(body)}\n</graph></graphml>".encode()


def read(nodes: list[Node], edges: list[Edge]) -> Structure:
    structure = registry.read(text(nodes, edges), file="g.xml").structure
    assert [problem for problem in check_structure(structure) if problem.severity == "error"] == []
    return structure


def paths(structure: Structure) -> list[str]:
    return [structure.path(v) for v in range(structure.n)]


ROOT: Node = ("c", {"root": 1})


# -- numbers ---------------------------------------------------------------------------------------------------------------


def test_children_are_numbered_in_the_scope_of_their_edge() -> None:
    nodes: list[Node] = [ROOT, ("r", {}), ("n", {}), ("k", {})]
    more: list[dict[str, Any]] = [{}, {"id_scope": 1, "id_start": 1}, {"id_scope": 9, "id_stride": 3}]
    racks, of_racks, cores = ({"multi_scale": 2, **each} for each in more)
    made = read(nodes, [("c", "r", racks), ("r", "n", of_racks), ("n", "k", cores)])
    assert [made.id[v] for v in made.of_type("n")] == [1, 2, 3, 4]
    assert [made.id[v] for v in made.of_type("k")] == [0, 3, 6, 9, 12, 15, 18, 21]
    assert made.path(4) == "/c0/r0/n1/k3"


def test_sizes_units_ranks_and_defaults() -> None:
    nodes: list[Node] = [ROOT, ("node", {"basename": "n"}), ("m", {"size": 8, "unit": "GB"})]
    made = read(nodes, [("c", "node", {"multi_scale": 2}), ("node", "m", {})])
    assert (made.size.tolist(), made.rank.tolist()) == ([1, 1, 8, 1, 8], [-1, 0, 0, 1, 1])
    assert made.kind_of(2).unit == "GB"
    assert made.subsystems == {}


# -- what is tied in -------------------------------------------------------------------------------------------------------

FEED: Node = ("feed", {"root": 1, "subsystem": "p"})
POWER: list[Node] = [ROOT, ("r", {}), ("n", {}), FEED, ("r2", {"type": "r"}), ("n2", {"type": "n"})]
TWO_RACKS: list[Edge] = [("c", "r", {"multi_scale": 2}), ("r", "n", {"multi_scale": 2})]
IN_POWER = {"e_subsystem": "p", "relation": "feeds"}


def test_all_pools_of_a_type_or_of_one_place_are_linked() -> None:
    by_path = {**IN_POWER, "gen_method": "ASSOCIATE_BY_PATH_IN", "as_tgt_uplvl": 1, "as_src_uplvl": 0, "rrelation": "drains"}
    made = read(POWER, [*TWO_RACKS, ("feed", "r2", {**IN_POWER, "gen_method": "ASSOCIATE_IN"}), ("r2", "n2", by_path)])
    power = made.subsystems["p"]
    assert (power.hierarchy, power.relations, made.where(made.tree_end)) == (True, ["feeds"], "p:/feed0")
    assert [(made.where(u), made.where(v)) for u, v, _ in power.rows()] == [
        ("p:/feed0", "/c0/r0"), ("p:/feed0", "/c0/r1"), ("/c0/r0", "/c0/r0/n0"), ("/c0/r0", "/c0/r0/n1"),
        ("/c0/r1", "/c0/r1/n0"), ("/c0/r1", "/c0/r1/n1"),
    ]  # fmt: skip
    assert [data.get("reverse") for _, _, data in power.rows()] == ["in"] * 2 + ["drains"] * 4


def test_pools_created_in_a_subsystem_are_outside_containment() -> None:
    made = read(POWER, [*TWO_RACKS, ("feed", "r2", {**IN_POWER, "gen_method": "ASSOCIATE_IN"}), ("r2", "n2", IN_POWER)])
    assert made.tree_end == 7
    assert [made.where(v) for v in range(7, 10)] == ["p:/feed0", "p:/feed0/r0/n0", "p:/feed0/r1/n0"]


def test_second_place_in_containment_becomes_an_edge() -> None:
    nodes: list[Node] = [ROOT, ("r", {}), ("u", {}), ("k", {}), ("k2", {"type": "k"})]
    tie: Edge = ("u", "k2", {"gen_method": "ASSOCIATE_IN"})
    made = read(nodes, [("c", "r", {}), ("c", "u", {}), ("r", "k", {"multi_scale": 2}), tie])
    beside = made.subsystems["contains"]
    assert [(made.where(u), made.where(v)) for u, v, _ in beside.rows()] == [("/c0/u0", "/c0/r0/k0"), ("/c0/u0", "/c0/r0/k1")]


def test_edges_without_effect_are_reported() -> None:
    made = read([ROOT, ("a", {}), ("b", {})], [("c", "a", {}), ("a", "b", {}), ("c", "b", {}), ("b", "c", {})])
    assert paths(made) == ["/c0", "/c0/a0", "/c0/a0/b0"]
    assert made.tags == {0: {"grug.passed_over": "b to c; c to b"}}


# -- what is wrong ---------------------------------------------------------------------------------------------------------


def chain(length: int, scale: int) -> tuple[list[Node], list[Edge]]:
    nodes: list[Node] = [ROOT, *((f"n{i}", {}) for i in range(length))]
    return nodes, [(above, below, {"multi_scale": scale}) for (above, _), (below, _) in itertools.pairwise(nodes)]


MANY = {"multi_scale": 10**4}
TIE: Edge = ("m", "t", {"gen_method": "ASSOCIATE_IN"})


@pytest.mark.parametrize(
    ("nodes", "edges", "words"),
    [
        ([ROOT, ("n", {})], [("c", "n", {"multi_scale": 10**17})], "g.xml:4: 100000000000000000 pools"),
        (*chain(30, 10), "100000000 pools, at most"),
        (*chain(70, 1), "64 levels"),
        ([ROOT, ("n", {})], [("c", "n", {"multi_scale": 3, "id_stride": 0})], "/c0/n0: another pool has the same path"),
        ([ROOT, ("n", {}), ("m", {"basename": "n"})], [("c", "n", {}), ("c", "m", {})], "/c0/n0: another pool has the same path"),
        ([ROOT, ("n", {})], [("c", "n", {"gen_method": "ASSOCIATE_IN"})], "g.xml:4: no n has been made yet"),
        ([ROOT, ("n", {"root": 1})], [], "g.xml:3: a second root of containment"),
        ([("c", {"root": 1, "subsystem": "p"})], [], "no node is the root of containment"),
        ([ROOT, ("n", {}), ("m", {})], [("c", "n", {}), ("n", "m", {"e_subsystem": "p"})], "g.xml:6: n has no path in p"),
        ([("c", {"root": 1, "size": 0})], [], "size: expected a whole number of at least 1"),
        ([("c", {"root": 1, "basename": "a/b"})], [], "basename 'a/b' has a character"),
        ([ROOT, ("n", {})], [("c", "n", {"multi_scale": 3, "id_stride": 2**61, "id_start": 2**61})], "ids above"),
        ([ROOT, ("n", {}), ("m", {}), ("t", {"type": "n"})], [("c", "n", MANY), ("c", "m", MANY), TIE], "64000000 edges"),
    ],
)
def test_recipes_without_a_machine_are_refused(nodes: list[Node], edges: list[Edge], words: str) -> None:
    with pytest.raises(InputError, match=words):
        read(nodes, edges)


def test_entities_are_not_read() -> None:
    bomb = '<!DOCTYPE g [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]>' + text([ROOT], []).decode().replace("root", "&b;", 1)
    with pytest.raises(InputError, match="declares the entity"):
        registry.read(bomb.encode(), format="grug")
    with pytest.raises(LimitExceeded):
        registry.read(b"<a>" * 1000, format="grug")


# -- against the recipe carried out vertex by vertex -----------------------------------------------------------------------


@st.composite
def recipes(draw: st.DrawFn) -> tuple[list[Node], list[Edge]]:
    """Trees of kinds, then a subsystem that links some of them."""
    count = draw(integers(1, 5))
    nodes: list[Node] = [ROOT]
    edges: list[Edge] = []
    bounds = {"multi_scale": (0, 3), "id_scope": (0, 3), "id_start": (0, 2), "id_stride": (1, 2)}
    numbers = st.fixed_dictionaries({}, optional={key: st.integers(*ends) for key, ends in bounds.items()})
    for i in range(count):
        nodes.append((f"k{'abcde'[i]}", {"type": draw(among("node", "core", "rack")), "basename": f"b{'abcde'[i]}"}))
        edges.append((draw(st.sampled_from(nodes[:-1]))[0], nodes[-1][0], draw(numbers)))
    if draw(st.booleans()):
        nodes.append(("feed", {"root": 1, "subsystem": "p"}))
        above = "feed"
        for i in range(draw(integers(1, 3))):
            tied = draw(st.sampled_from(nodes[1 : count + 1]))[1]["type"]
            nodes.append((f"t{i}", {"type": tied, "basename": f"t{'abc'[i]}"}))
            ups = {"as_tgt_uplvl": draw(integers(0, 2)), "as_src_uplvl": draw(integers(0, 2))}
            method = draw(among("ASSOCIATE_IN", "ASSOCIATE_BY_PATH_IN", "MULTIPLY"))
            edges.append((above, f"t{i}", {**IN_POWER, **ups, "gen_method": method, "multi_scale": draw(integers(1, 2))}))
            above = f"t{i}"
    return nodes, draw(st.permutations(edges))


@settings(max_examples=300, deadline=None)
@given(recipes())
def test_machine_equals_the_recipe_expanded_vertex_by_vertex(given_: tuple[list[Node], list[Edge]]) -> None:
    data = text(*given_)
    try:
        graph = loading.from_recipe(grug.parse(data))
    except LimitExceeded:
        return  # pools linked below themselves have infinite paths there, which are not generated here
    except FluxresError:
        with pytest.raises(FluxresError):
            registry.read(data)
        return
    made = registry.read(data).structure
    inside = [v for v in graph.vertices if CONTAINMENT in v.paths]
    expected = Counter((v.paths[CONTAINMENT], v.type, v.size, v.id) for v in inside)
    found = ((made.path(v), made.kind_of(v).type, made.size.item(v), made.id.item(v)) for v in range(made.tree_end))
    assert Counter(found) == expected
    assert made.n == len(graph.vertices)
    nodes = sorted(v.rank for v in graph.vertices if v.type == "node")
    assert sorted(made.rank.item(v) for v in made.of_type("node").tolist()) == nodes
    ties = Counter((e.source.path, e.target.path) for v in graph.vertices for e in v.edges if e.subsystem == "p")
    if "p" in made.subsystems and made.subsystems["p"].hierarchy:
        assert Counter((_place(made, u), _place(made, v)) for u, v, _ in made.subsystems["p"].rows()) == ties
    else:
        assert len(made.subsystems.get("p", ())) == sum(ties.values())


def _place(made: Structure, v: int) -> str:
    return made.path(v) if v < made.tree_end else "/" + made.auxiliary_uri(made.subsystems["p"], v).partition(":/")[2]
