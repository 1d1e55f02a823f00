"""Random small machines: a tree of pools for the checker, and the file from which a session loads the same tree.

The tree is built here by the rules of the formats; the readers of these files are not used.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

Rule = tuple[str, str, int, int]
"""Source, target, how many below each source, and over how many levels ids run on."""


@dataclass(eq=False)
class Pool:
    """A pool with its place in the tree that is walked."""

    type: str
    name: str
    id: int
    rank: int = -1
    size: int = 1
    parent: Pool | None = None
    children: list[Pool] = field(default_factory=list)
    properties: dict[str, str] = field(default_factory=dict)
    is_up: bool = True

    @property
    def path(self) -> str:
        """Its path from the root."""
        return ("" if self.parent is None else self.parent.path) + "/" + self.name

    @property
    def above(self) -> list[Pool]:
        """All its ancestors, from its parent to the root."""
        return [] if self.parent is None else [self.parent, *self.parent.above]

    @property
    def is_reached(self) -> bool:
        """Whether it and all above it are up."""
        return self.is_up and all(pool.is_up for pool in self.above)

    def walk(self) -> Iterator[Pool]:
        """It and all below it, children first."""
        for child in self.children:
            yield from child.walk()
        yield self

    def add(self, child: Pool) -> Pool:
        """Put a pool below this one."""
        child.parent = self
        self.children.append(child)
        return child


@dataclass
class Machine:
    """A tree, how it is loaded, and the options that the checker needs."""

    root: Pool
    load_format: str
    text: str
    subsystem: str = "containment"
    matcher: str = "CA"
    others: dict[str, str] = field(default_factory=dict)
    """Containment paths of pools by their path in the subsystem that is walked, where that is another one."""

    def pools(self) -> list[Pool]:
        """All pools, children first."""
        return list(self.root.walk())

    def by_path(self) -> dict[str, Pool]:
        """Pools by path."""
        return {pool.path: pool for pool in self.pools()}

    def types(self) -> list[str]:
        """Types in the tree."""
        return list(dict.fromkeys(pool.type for pool in self.pools()))


def machine(random: Random) -> Machine:
    """A machine of any of the forms."""
    kind = random.choice(["grug", "grug", "jgf", "jgf", "rv1exec", "power"])
    if kind == "grug":
        return _grug(random)
    if kind == "rv1exec":
        return _resource_set(random)
    return _jgf(random, power=kind == "power")


def _rules(random: Random) -> list[Rule]:
    """Levels of a regular machine; leaves differ in number and kind."""
    rules: list[Rule] = []
    top = "cluster"
    if random.random() < 0.5:
        rules.append((top, "rack", random.randint(1, 3), 0))
        top = "rack"
        if random.random() < 0.2:
            rules.append(("rack", "ssd", random.randint(1, 2), 1))
    rules.append((top, "node", random.randint(1, 4), random.choice([0, 1, 2])))
    top = "node"
    if random.random() < 0.5:
        rules.append(("node", "socket", random.randint(1, 2), 0))
        top = "socket"
        if random.random() < 0.2 and all(target != "ssd" for _, target, _, _ in rules):
            rules.append(("node", "ssd", 1, 0))
    rules.append((top, "core", random.randint(1, 6), random.choice([0, 1])))
    if random.random() < 0.4:
        rules.append((top, "gpu", random.randint(1, 2), random.choice([0, 1])))
    if random.random() < 0.4:
        rules.append((top, "memory", random.randint(1, 3), 1))
    return rules


def _expand(rules: list[Rule], memory: int, basename: str) -> Pool:
    """The tree of a recipe whose edges are in the order of a walk through it, depth first."""
    root = Pool("cluster", f"{basename}0", 0)
    made: dict[str, list[Pool]] = {"cluster": [root]}
    scales: dict[str, list[int]] = {"cluster": []}
    for source, target, scale, scope in rules:
        scales[target] = [*scales[source], scale]
        enclosing = scales[source]
        period = 1
        for number in enclosing[len(enclosing) - min(scope, len(enclosing)) :]:
            period *= number
        made[target] = []
        for number, parent in enumerate(made[source]):
            for position in range(scale):
                id_ = number % period * scale + position
                size = memory if target == "memory" else 1
                rank = len(made[target]) if target == "node" else -1
                made[target].append(parent.add(Pool(target, f"{target}{id_}", id_, rank, size)))
    return root


def _grug(random: Random) -> Machine:
    rules, memory = _rules(random), random.choice([1, 2, 8])
    kinds = dict.fromkeys(kind for source, target, _, _ in rules for kind in (source, target))
    lines = ['<graphml xmlns="http://graphml.graphdrawing.org/xmlns"><graph edgedefault="directed">']
    for kind in kinds:
        data = {"type": kind, "basename": "tiny" if kind == "cluster" else kind, "root": int(kind == "cluster")}
        data |= {"size": memory, "unit": "GB"} if kind == "memory" else {}
        lines.append(f'<node id="{kind}">{_data(data)}</node>')
    for source, target, scale, scope in rules:
        data = {"multi_scale": scale, "id_scope": scope}
        lines.append(f'<edge source="{source}" target="{target}">{_data(data)}</edge>')
    return Machine(_expand(rules, memory, "tiny"), "grug", "\n".join([*lines, "</graph></graphml>"]))


def _data(values: dict[str, object]) -> str:
    return "".join(f'<data key="{key}">{value}</data>' for key, value in values.items())


def _jgf(random: Random, *, power: bool) -> Machine:
    """A machine from its pools one by one: uneven, with properties, some pools down."""
    root = _expand(_rules(random), random.choice([1, 2, 4]), "cluster")
    names = [pool.name for pool in root.walk() if pool.type == "node"]
    power = power and len(set(names)) == len(names)
    for pool in list(root.walk()):
        if pool.type == "node":
            pool.properties = {key: "" for key in ("ssd", "big@core") if random.random() < 0.3}
            pool.is_up = random.random() < 0.95
        elif not pool.children and len(pool.parent.children if pool.parent else ()) > 1 and random.random() < 0.1:
            assert pool.parent
            pool.parent.children.remove(pool)
    if not power:
        return Machine(root, "jgf", document(root))
    panels = _panels(random, root)
    others = {node.path: node.properties.pop("containment") for node in panels.walk() if node.type == "node"}
    text = _with_power(root, panels, others)
    return Machine(panels, "jgf", text, "power", random.choice(["PA", "pa"]), others)


def _panels(random: Random, root: Pool) -> Pool:
    """Nodes below power panels: the tree of another subsystem over the same nodes."""
    top = Pool("power_panel", "power_panel0", 0)
    pdus = [top.add(Pool("pdu", f"pdu{number}", number)) for number in range(random.randint(1, 2))]
    for number, node in enumerate(pool for pool in root.walk() if pool.type == "node"):
        fed = Pool("node", node.name, node.id, node.rank, 1, properties=dict(node.properties), is_up=node.is_up)
        fed.properties["containment"] = node.path
        pdus[number % len(pdus)].add(fed)
    return top


def _with_power(root: Pool, panels: Pool, others: dict[str, str]) -> str:
    values = json.loads(document(root))
    keys = {node["metadata"]["paths"]["containment"]: node for node in values["graph"]["nodes"]}
    numbers: dict[str, str] = {}
    for number, pool in enumerate(panels.walk(), len(keys)):
        if pool.path in others:
            node = keys[others[pool.path]]
            node["metadata"]["paths"]["power"] = pool.path
            numbers[pool.path] = node["id"]
        else:
            numbers[pool.path] = str(number)
            values["graph"]["nodes"].append({"id": str(number), "metadata": _metadata(pool, "power")})
    for pool in panels.walk():
        if pool.parent is not None:
            edge = {"source": numbers[pool.parent.path], "target": numbers[pool.path], "metadata": {"subsystem": "power"}}
            values["graph"]["edges"].append(edge)
    return json.dumps(values)


def document(root: Pool, chosen: list[Pool] | None = None, exclusive: frozenset[str] = frozenset(), first: int = 0) -> str:
    """Pools as a JGF document, a complete tree or some of its pools, some of them taken exclusively."""
    pools = list(root.walk()) if chosen is None else chosen
    keys = {pool.path: str(first + number) for number, pool in enumerate(pools)}
    nodes = [{"id": keys[pool.path], "metadata": _metadata(pool)} for pool in pools]
    for node, pool in zip(nodes, pools, strict=True):
        if pool.path in exclusive:
            node["metadata"]["exclusive"] = True  # type: ignore[index]  # a dict of its own
    pairs = [(pool.parent.path, pool.path) for pool in pools if pool.parent is not None and pool.parent.path in keys]
    edges = [{"source": keys[source], "target": keys[target]} for source, target in pairs]
    return json.dumps({"graph": {"nodes": nodes, "edges": edges}})


def _metadata(pool: Pool, subsystem: str = "containment") -> dict[str, object]:
    values: dict[str, object] = {"type": pool.type, "name": pool.name, "id": pool.id, "rank": pool.rank, "size": pool.size}
    values |= {"status": int(not pool.is_up), "properties": pool.properties, "paths": {subsystem: pool.path}}
    return values


def _resource_set(random: Random) -> Machine:
    count, cores, gpus = random.randint(1, 5), random.randint(1, 4), random.randint(0, 2)
    root = Pool("cluster", "cluster0", 0)
    start = random.choice([0, 3])
    for rank in range(count):
        node = root.add(Pool("node", f"tux{start + rank}", start + rank, rank))
        for type_, number in (("core", cores), ("gpu", gpus)):
            for id_ in range(number):
                node.add(Pool(type_, f"{type_}{id_}", id_, rank))
    properties = {}
    for key in ("ssd", "big@core", "arm-v9@core"):
        ranks = [rank for rank in range(count) if random.random() < 0.3]
        if ranks:
            properties[key] = ",".join(map(str, ranks))
            for rank in ranks:
                root.children[rank].properties[key] = ""
    text = resource_set([node.rank for node in root.children], {"core": cores, "gpu": gpus}, root, properties)
    return Machine(root, "rv1exec", text)


def resource_set(ranks: list[int], children: dict[str, int], root: Pool, properties: dict[str, str] | None = None) -> str:
    """An R of some ranks, each with the same number of children of each type."""
    names = {node.rank: node.name for node in root.walk() if node.type == "node"}
    held = {type_: ",".join(map(str, range(number))) for type_, number in children.items() if number}
    execution: dict[str, object] = {
        "R_lite": [{"rank": ",".join(map(str, ranks)), "children": held}],
        "nodelist": [names[rank] for rank in sorted(ranks)],
    }
    if properties:
        execution["properties"] = properties
    return json.dumps({"version": 1, "execution": execution})
