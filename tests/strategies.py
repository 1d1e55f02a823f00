"""Random machines and operations, generated from a source of integers.

Hypothesis and the long runner need the same machines, the first in order to shrink them, the second quickly.  The same
code generates both and calls `integer(low, high)` for every choice; hypothesis shrinks each towards `low`, so `low` is
always the simplest choice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from hypothesis import strategies as st

from fluxres.graph import uuids
from fluxres.graph.auxiliary import Subsystem
from fluxres.graph.recipe import Recipe, expand
from fluxres.graph.structure import Structure
from tests.choices import integers

Integer = Callable[[int, int], int]
T = TypeVar("T")

STATES = ("up", "down", "drain", "degraded", "failing", "unknown", "null")
LEVELS = ("cluster", "rack", "node", "socket", "core")
LEAVES = ("core", "gpu", "memory", "nic")
JOBS = ("j1", "j2", "j3", "j4")
TAGS = ("maintenance", "owner", "Größe")
PROPERTIES: tuple[tuple[str, Any], ...] = (("ssd", None), ("class", 7), ("vendor", "Acme"), ("ratio", 0.5))


@dataclass
class Spec:
    """One pool of a random machine, with its children: all data of a recipe, and the expected name."""

    type: str
    id: int | None
    name: str
    size: int = 1
    template: str | None = None
    unit: str | None = None
    state: str = "up"
    exclusive: bool = False
    tags: dict[str, str | None] = field(default_factory=dict)
    properties: dict[str, Any] = field(default_factory=dict)
    children: list[Spec] = field(default_factory=list)

    def recipe(self) -> Recipe:
        return Recipe(
            self.type,
            # An array, because a root that is given a plain first id has none.
            ids=None if self.id is None else np.array([self.id]),
            name=self.template,
            size=self.size,
            unit=self.unit,
            state=self.state,
            exclusive=self.exclusive,
            tags=self.tags,
            properties=self.properties,
            children=tuple(child.recipe() for child in self.children),
        )


@dataclass
class Edge:
    """An edge of an auxiliary graph between two pools, by key; `capacity` may be absent."""

    src: str
    dst: str
    relation: str
    capacity: float | None


@dataclass
class Machine:
    """A containment tree and an auxiliary hierarchy `power`; its own pools are `power` (trees of one or two levels)."""

    root: Spec
    power: list[Spec] = field(default_factory=list)
    feeds: list[Edge] = field(default_factory=list)
    links: list[Edge] = field(default_factory=list)

    def flat(self) -> dict[str, tuple[Spec, str | None]]:
        """Every pool by key (path, or URI of a pool outside the tree), in pre-order, with the key of its parent."""
        found: dict[str, tuple[Spec, str | None]] = {}

        def visit(spec: Spec, key: str, parent: str | None) -> None:
            found[key] = (spec, parent)
            for child in spec.children:
                visit(child, f"{key}/{child.name}", key)

        visit(self.root, f"/{self.root.name}", None)
        for spec in self.power:
            visit(spec, f"power:/{spec.name}", None)
        return found

    def structure(self, origin: int | None = None) -> Structure:
        """The columns of this machine, built by the recipe code under test."""
        made = expand(
            self.root.recipe(),
            more=[spec.recipe() for spec in self.power],
            origin=uuids.new_origin() if origin is None else origin,
        )
        number = {key: v for v, key in enumerate(self.flat())}
        for name, hierarchy, edges in (("power", True, self.feeds), ("network", False, self.links)):
            if edges:
                made.subsystems[name] = subsystem(name, hierarchy, edges, number)
        return made


def subsystem(name: str, hierarchy: bool, edges: Sequence[Edge], number: dict[str, int]) -> Subsystem:
    """The columns of an auxiliary graph."""
    relations = sorted({edge.relation for edge in edges})
    return Subsystem(
        name,
        hierarchy,
        np.array([number[edge.src] for edge in edges], np.int32),
        np.array([number[edge.dst] for edge in edges], np.int32),
        np.array([relations.index(edge.relation) for edge in edges], np.uint16),
        relations,
        {"capacity": np.array([np.nan if edge.capacity is None else edge.capacity for edge in edges])},
    )


def pick(integer: Integer, options: Sequence[T]) -> T:
    """One of these, the first being the simplest."""
    return options[integer(0, len(options) - 1)]


def chance(integer: Integer, one_in: int) -> bool:
    """True once in a number of times; False is the simplest."""
    return integer(0, one_in - 1) == one_in - 1


def spec(integer: Integer, type_name: str, number: int | None, above: dict[str, int | None]) -> Spec:
    """A pool without children: mixed sizes, sometimes a state, a tag, a property, a template, the exclusive flag."""
    made = Spec(type_name, number, type_name if number is None else f"{type_name}{number}")
    if chance(integer, 3):
        made.size = integer(1, 4)
        made.unit = "GiB" if type_name == "memory" else None
    if number is not None and chance(integer, 6):
        made.template, made.name = f"{type_name}-${{id:03}}", f"{type_name}-{number:03}"
        parent = pick(integer, list(above)) if above else None
        if parent is not None and above[parent] is not None:
            made.template = f"{type_name}-${{id}}-${{{parent}}}"
            made.name = f"{type_name}-{number}-{above[parent]}"
    if chance(integer, 12):
        made.state = pick(integer, STATES)
    if chance(integer, 12):
        made.tags = {pick(integer, TAGS): pick(integer, (None, "x y", ""))}
    if chance(integer, 6):
        made.properties = dict([pick(integer, PROPERTIES)])
    made.exclusive = chance(integer, 12)
    return made


def machine(integer: Integer, pools_max: int = 40) -> Machine:
    """A random machine of at most `pools_max` pools: a few levels, children of mixed types, perhaps power and network graphs."""
    budget = integer(2, pools_max) - 1
    root = spec(integer, "cluster", None, {})
    root.size, root.state, root.exclusive, root.unit = 1, "up", False, None

    def grow(parent: Spec, level: int, above: dict[str, int | None]) -> None:
        nonlocal budget
        first = integer(0, 2)
        wanted = integer(1, 4)
        for i in range(wanted):
            if budget <= 0:
                return
            budget -= 1
            leaf = level >= len(LEVELS) or chance(integer, 5)
            type_name = pick(integer, LEAVES) if leaf else LEVELS[level]
            child = spec(integer, type_name, first + i, above)
            parent.children.append(child)
            if not leaf and budget > 0 and level < len(LEVELS) - 1:
                grow(child, level + 1, {type_name: child.id, **above})

    while budget > 0 and len(root.children) < 12:
        before = len(root.children)
        grow(root, integer(1, 2), {})
        for i, child in enumerate(root.children[before:], before):
            renumber(child, i)
    made = Machine(root)
    if chance(integer, 2):
        add_power(integer, made)
    if chance(integer, 3):
        add_network(integer, made)
    return made


def renumber(child: Spec, number: int) -> None:
    """Give a child of the root an id that no sibling has, and the names that follow from it."""
    child.id, child.template, child.name = number, None, f"{child.type}{number}"
    above = [(child.type, number)]

    def visit(spec: Spec, above: list[tuple[str, int]]) -> None:
        if spec.template is not None:
            spec.name = spec.template.replace("${id:03}", f"{spec.id:03}").replace("${id}", str(spec.id))
            for type_name, value in above:
                spec.name = spec.name.replace(f"${{{type_name}}}", str(value))
        for below in spec.children:
            visit(below, [*above, (spec.type, spec.id or 0)])

    visit(child, above)


def add_power(integer: Integer, made: Machine) -> None:
    """An auxiliary hierarchy with pools of its own: pdus, some with an outlet, each supplying pools of the tree."""
    tree = [key for key in made.flat() if key.startswith("/")]
    for i in range(integer(1, 2)):
        pdu = spec(integer, "pdu", i, {})
        made.power.append(pdu)
        if chance(integer, 2):
            outlet = spec(integer, "outlet", 0, {})
            pdu.children.append(outlet)
            made.feeds.append(Edge(f"power:/{pdu.name}", f"power:/{pdu.name}/{outlet.name}", "has", None))
    fed = set[str]()
    sources = [f"power:/{pdu.name}" for pdu in made.power]
    for i in range(max(len(sources), integer(1, 6))):
        key = pick(integer, tree)
        if key not in fed:
            fed.add(key)
            made.feeds.append(Edge(sources[i % len(sources)], key, "supplies", pick(integer, (None, 1.0, 350.5))))
    silent = {f"power:/{pdu.name}" for pdu in made.power} - {edge.src for edge in made.feeds}
    made.power = [pdu for pdu in made.power if f"power:/{pdu.name}" not in silent]


def add_network(integer: Integer, made: Machine) -> None:
    """An auxiliary graph that is not a hierarchy: links both ways between pools of the tree."""
    tree = [key for key in made.flat() if key.startswith("/")]
    for _ in range(integer(1, 5)):
        a, b = pick(integer, tree), pick(integer, tree)
        if a != b and not any({a, b} == {edge.src, edge.dst} for edge in made.links):
            capacity = pick(integer, (None, 10.0, 200.0))
            made.links += [Edge(a, b, "link", capacity), Edge(b, a, "link", capacity)]


@st.composite
def machines(draw: st.DrawFn, pools_max: int = 20) -> Machine:
    """Random machines, shrinking to a cluster with one pool."""
    return machine(lambda low, high: draw(integers(low, high)), pools_max)
