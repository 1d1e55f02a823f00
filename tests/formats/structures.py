"""Random machines: regular ones from recipes, then modified pool by pool, so that every rule of the writers is tested."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

import numpy as np
from hypothesis import strategies as st

from fluxres.formats import registry
from fluxres.formats.cluster.write import document
from fluxres.formats.format import Hold
from fluxres.graph.auxiliary import Subsystem
from fluxres.graph.kinds import DRAW
from fluxres.graph.recipe import NO_RANK, Recipe, expand, hand_down
from fluxres.graph.structure import Structure
from fluxres.graph.uuids import new_origin
from tests.choices import among, integers

read_cluster = partial(registry.read, format="cluster")


def write_cluster(structure: Structure, allocations: Iterable[Hold] = (), *, name: str | None = None) -> str:
    return document(structure, allocations, name=name).text


TYPES = ["node", "core", "gpu", "rack", "cluster", "memory"]
WORDS = st.text(
    st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp", "Zs", "Cn", "Co", "Cf"], exclude_characters="/"),
    min_size=1,
    max_size=8,
)
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 10**20),
    st.floats(allow_nan=False),
    WORDS,
    st.sampled_from(["no", "1e3", "", "~", "a: b", "0x1"]),
)
#: A property that begins with `draw.` says a number of units; anything else is refused.
PROPERTIES = st.tuples(
    st.dictionaries(WORDS.filter(lambda key: not key.startswith(DRAW)), VALUES, max_size=2),
    st.dictionaries(st.one_of(st.just(""), st.just("pdu"), WORDS).map(DRAW.__add__), st.integers(0, 500), max_size=1),
    st.integers(0, 3),
).map(lambda drawn: drawn[0] if drawn[2] else drawn[0] | drawn[1])


@st.composite
def recipes(draw: Any, depth: int = 3, type_name: str | None = None) -> Recipe:
    children: list[Recipe] = []
    if depth:
        for i, kind in enumerate(draw(st.lists(st.sampled_from(TYPES), max_size=3))):
            child = draw(recipes(depth - 1, kind))
            # Different basenames distinguish siblings whatever their ids are.
            children.append(replaced(child, basename=f"{kind}{'abc'[i]}"))
    count = draw(integers(1, 3))
    return Recipe(
        type_name or "cluster",
        count if type_name else 1,
        ids=draw(integers(0, 12)) if count > 1 or not type_name else draw(st.one_of(st.none(), st.integers(0, 3))),
        name=draw(among(None, None, "x${type}-${basename}-${id:03}", "${basename}${id}")) if count > 1 and type_name else None,
        size=draw(among(1, 1, 64)),
        unit=draw(among(None, "GiB")),
        properties=draw(PROPERTIES),
        tags=draw(st.dictionaries(WORDS, st.one_of(st.none(), WORDS), max_size=1)),
        state=draw(among("up", "up", "drain", "null")),
        exclusive=draw(among(False, False, True)),
        children=tuple(children),
    )


def replaced(recipe: Recipe, **changes: Any) -> Recipe:
    import dataclasses

    return dataclasses.replace(recipe, **changes)


def parents_first_ids(structure: Structure, rng: np.random.Generator) -> None:
    """Other ids, unique among all so that names stay unique: shuffled, or consecutive over everything of one kind."""
    for number in range(len(structure.kinds)):
        of_kind = np.flatnonzero((structure.kind == number) & (structure.id >= 0))
        if len(of_kind) and rng.random() < 0.5:
            ids = np.arange(len(of_kind)) + 20
            structure.id[of_kind] = rng.permutation(ids) if rng.random() < 0.5 else ids


@st.composite
def structures(draw: Any) -> Structure:
    more = draw(st.lists(recipes(1, "pdu"), max_size=2))
    more = [replaced(r, basename=f"p{'ab'[i]}") for i, r in enumerate(more)]
    structure = expand(draw(recipes()), more=more, origin=new_origin(bytes(16)))
    rng = np.random.default_rng(draw(integers(0, 2**32)))
    n = structure.n
    parents_first_ids(structure, rng)
    some = st.lists(st.integers(0, n - 1), max_size=4, unique=True)
    for v in draw(some):
        structure.size[v] = 7
    for v in draw(some):
        structure.set_state([v], "failing")
    for v in draw(some):
        structure.set_tag([v], draw(WORDS), draw(st.one_of(st.none(), WORDS)))
    for v in draw(some):
        structure.names[v] = f"{draw(WORDS)}@{v}"
    for v in draw(some):
        structure.capacity[v] = 99
        structure.flags[v] |= 2
    ranked = draw(some)
    if ranked:
        setters = np.unique([v for v in ranked if v < structure.tree_end] or [0])
        rank = structure.rank.copy()
        rank[setters] = rng.integers(NO_RANK, 4, len(setters))
        changed = np.flatnonzero(rank != structure.rank)
        hand_down(
            rank, np.union1d(np.flatnonzero([structure.kinds[k].type == "node" for k in structure.kind]), changed), structure.end
        )
        structure.rank[: structure.tree_end] = rank[: structure.tree_end]
    if draw(st.booleans()):
        structure.origins.append(new_origin(b"\1" * 16))
        structure.origin[n // 2 :] = 1
        structure.serial[:] = rng.permutation(n) if draw(st.booleans()) else np.arange(n) + 5
    for v in draw(some):
        structure.uuid_texts[v] = draw(among("x", "00000000-0000-8000-8000-0000000000ff")) + str(v)
    for name in draw(st.lists(st.sampled_from(["power", "net"]), unique=True)):
        structure.subsystems[name] = draw(subsystems(structure, name))
    return structure


@st.composite
def subsystems(draw: Any, structure: Structure, name: str) -> Subsystem:
    pools = st.integers(0, structure.n - 1)
    edges = draw(st.lists(st.tuples(pools, pools).filter(lambda e: e[0] != e[1]), max_size=12))
    if draw(st.booleans()):
        edges += [(b, a) for a, b in edges]
    hierarchy = False
    if draw(st.booleans()):
        hierarchy, one_parent = True, {}
        for a, b in edges:
            if a < b:
                one_parent.setdefault(b, a)
        # Names under one parent of a hierarchy must differ; take the first of each.
        seen: dict[tuple[int, str], int] = {}
        edges = [(a, b) for b, a in one_parent.items() if seen.setdefault((a, structure.name(b)), b) == b]
        tops = {a for a, _ in edges} - {b for _, b in edges}
        if len({structure.name(v) for v in tops}) < len(tops):
            edges = edges[:1]
    m = len(edges)
    attributes: dict[str, Any] = {}
    if draw(st.booleans()):
        attributes["capacity"] = np.array(draw(st.lists(st.sampled_from([1.0, 2.5, np.nan]), min_size=m, max_size=m)))
    if draw(st.booleans()):
        cells = np.empty(m, object)
        cells[:] = draw(st.lists(st.sampled_from(["red", None, True, "7"]), min_size=m, max_size=m))
        attributes["colour"] = cells
    array = np.array(edges, np.int32).reshape(m, 2)
    relation = np.array(draw(st.lists(st.integers(0, 1), min_size=m, max_size=m)), np.uint16)
    return Subsystem(name, hierarchy, array[:, 0], array[:, 1], relation, ["link", "supplies"], attributes)
