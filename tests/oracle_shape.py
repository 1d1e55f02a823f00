"""The oracle of the operations that change what machine there is: copy, merge, unlink (rules C1 and M1).

Here a machine is a list of pools in pre-order, each with the uuid of its parent, and the edges of its auxiliary graphs
between uuids.  Paths follow from that, and are computed again for each result.
"""

from __future__ import annotations

import contextlib
import copy
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from tests.oracle import Oracle, PoolData, Refused, job_of, limited_edge

Edge = tuple[str, str, str, float | None, float | None]
"""uuid, uuid, relation, capacity, and the full capacity where a copy has less of it."""


@dataclass
class Graph:
    hierarchy: bool
    edges: list[Edge]

    def above(self, uuid: str) -> str | None:
        return next((src for src, dst, *_ in self.edges if dst == uuid), None) if self.hierarchy else None

    def below(self, uuid: str) -> list[str]:
        return [uuid, *(u for src, dst, *_ in self.edges if src == uuid for u in self.below(dst))]

    def touches(self, uuid: str) -> bool:
        return any(uuid in edge[:2] for edge in self.edges)


Graphs = dict[str, Graph]
Along = Callable[[set[str]], set[str]]
"""Of some pools, what supplies them: that is held to a definition of its own in tests/match/test_paths.py."""


class EqualNumbers(Exception):
    """Two pools outside containment have one name and one number, because they come from two machines.

    The graph distinguishes them by the number of the machine, which the oracle does not know.
    """


@dataclass
class Shape:
    """Pools by uuid in pre-order, with `parent` the uuid of another, and auxiliary graphs over them."""

    pools: dict[str, PoolData]
    graphs: Graphs

    def ancestors(self, uuid: str) -> Iterator[str]:
        parent = self.pools[uuid]["parent"]
        while parent is not None:
            yield parent
            parent = self.pools[parent]["parent"]

    def subtree(self, uuid: str) -> list[str]:
        return [u for u in self.pools if u == uuid or uuid in self.ancestors(u)]

    @property
    def root(self) -> str:
        return next(iter(self.pools))

    @property
    def tree(self) -> list[str]:
        return self.subtree(self.root)

    def in_hierarchy(self, uuid: str) -> bool:
        return any(graph.hierarchy and graph.touches(uuid) for graph in self.graphs.values())

    def key(self, uuid: str) -> str:
        """The path of a pool; outside the tree, a URI in a hierarchy, or graph and path, numbered if others have them too."""
        if uuid in self.tree:
            return "".join(f"/{self.pools[u]['name']}" for u in [*reversed(list(self.ancestors(uuid))), uuid])
        for name, graph in self.graphs.items():
            if graph.hierarchy and graph.touches(uuid) and self.at_uri(name, self.uri(name, uuid)) == [uuid]:
                return self.uri(name, uuid)
        path, around = self.path_outside(uuid), self.around(uuid) or ["pools"]
        for name in around:
            if name in self.graphs and self.graphs[name].hierarchy and self.graphs[name].touches(uuid):
                continue
            named = [u for u in self.pools if u not in self.tree and self.path_outside(u) == path and self.is_named_by(name, u)]
            if len(named) == 1:
                return f"{name}:{path}"
        top, *below = path.split("/")
        number = self.outermost(uuid)[-12:]
        roots = {self.outermost(u) for u in self.pools if u not in self.tree and self.is_named_by(around[0], u)}
        if sum(self.pools[root]["name"] == top and root[-12:] == number for root in roots) > 1:
            raise EqualNumbers(path)
        return "/".join([f"{around[0]}:{top}#{int(number, 16)}", *below])

    def outermost(self, uuid: str) -> str:
        return [uuid, *self.ancestors(uuid)][-1]

    def around(self, uuid: str) -> list[str]:
        """The graphs with edges at some pool of the tree of this pool."""
        tree = self.subtree(self.outermost(uuid))
        return [name for name, graph in self.graphs.items() if any(graph.touches(u) for u in tree)]

    def is_named_by(self, name: str, uuid: str) -> bool:
        """Whether a name that begins with a graph without hierarchy, or with `pools`, may mean a pool outside the tree."""
        if name not in self.graphs:
            return True
        return self.graphs[name].touches(uuid) or not any(graph.touches(uuid) for graph in self.graphs.values())

    def path_outside(self, uuid: str) -> str:
        return "/".join(self.pools[u]["name"] for u in [*reversed(list(self.ancestors(uuid))), uuid])

    def at_uri(self, name: str, uri: str) -> list[str]:
        """Pools of this URI; in a hierarchy made of edges there may be several."""
        return [u for u in self.pools if self.graphs[name].touches(u) and self.uri(name, u) == uri]

    def uri(self, name: str, uuid: str) -> str:
        chain = [uuid]
        while (above := self.graphs[name].above(chain[-1])) is not None:
            chain.append(above)
        return f"{name}:/" + "/".join(self.pools[u]["name"] for u in reversed(chain))

    def restricted(self, pools: dict[str, PoolData]) -> Shape:
        """Only these pools, with the edges between them."""
        graphs = {
            name: Graph(graph.hierarchy, [edge for edge in graph.edges if edge[0] in pools and edge[1] in pools])
            for name, graph in self.graphs.items()
        }
        return Shape(pools, graphs)


def shape_of(oracle: Oracle, graphs: Graphs) -> Shape:
    uuid = {key: pool["uuid"] for key, pool in oracle.pools.items()}
    pools = {uuid[key]: {**copy.deepcopy(pool), "parent": uuid.get(pool["parent"])} for key, pool in oracle.pools.items()}
    return Shape(pools, copy.deepcopy(graphs))


def oracle_of(shape: Shape, like: Oracle, *sources: tuple[Oracle, dict[str, str]]) -> Oracle:
    """An oracle of this shape, with the records of these oracles on its pools, some of which are renamed."""
    key = {uuid: shape.key(uuid) for uuid in shape.pools}
    pools = {key[u]: {**pool, "parent": key.get(pool["parent"])} for u, pool in shape.pools.items()}
    made = Oracle(pools, like.horizon, limited(shape, key))
    made.now = like.now
    for source, same in sources:
        for k, rows in source.given.items():
            now = moved_to(source, k, shape, key, same)
            for t, row in enumerate(rows) if now in made.accounts and not made.is_way(now) else ():
                for holder, n in row.items():
                    mine = made.given[now][t]
                    mine[holder] = mine.get(holder, 0) + n
        for number, (job, targets, ticks, expires) in source.stages.items():
            moved = [(now, n) for k, n in targets if (now := moved_to(source, k, shape, key, same)) in made.accounts]
            if moved:
                made.stages[number] = (job, moved, ticks, expires)
    made.settle()
    return made


def limited(shape: Shape, key: dict[str, str]) -> dict[str, PoolData]:
    """The edges of a shape with a limited number of units, by the names that the graph uses."""
    found: dict[str, PoolData] = {}
    for name, graph in shape.graphs.items():
        for src, dst, _, capacity, _ in graph.edges:
            if capacity is not None:
                found[edge_key(name, key[src], key[dst])] = limited_edge(name, src, dst, math.floor(capacity))
    return found


def edge_key(graph: str, src: str, dst: str) -> str:
    return f"{graph}: {src} -> {dst}"


def moved_to(source: Oracle, k: str, shape: Shape, key: dict[str, str], same: dict[str, str]) -> str:
    """The name here of a pool or an edge of another oracle; empty if it no longer exists."""
    if k in source.pools:
        uuid = source.pools[k]["uuid"]
        return key.get(same.get(uuid, uuid), "")
    name, *ends = source.edges[k]["ends"]
    src, dst = (key.get(same.get(uuid, uuid), "") for uuid in ends)
    return edge_key(name, src, dst) if src and dst else ""


def cut(oracle: Oracle, shape: Shape, units: Callable[[str], int]) -> Graphs:
    """The graphs of a part, with only some units of their edges."""
    key = {pool["uuid"]: k for k, pool in oracle.pools.items()}

    def left(name: str, edge: Edge) -> Edge:
        src, dst, relation, capacity, full = edge
        if capacity is None or (n := units(edge_key(name, key[src], key[dst]))) == math.floor(capacity):
            return edge
        return src, dst, relation, float(n), capacity if full is None else full

    return {name: Graph(graph.hierarchy, [left(name, e) for e in graph.edges]) for name, graph in shape.graphs.items()}


def free_units(oracle: Oracle, tick: int) -> dict[str, int]:
    """The units of each pool in a copy; a pass-through pool stays one."""
    return {
        pool["uuid"]: pool["size"] * (oracle.is_up(key) and not oracle.implied(key, tick))
        if oracle.is_way(key)
        else oracle.available(key, [tick])
        for key, pool in oracle.pools.items()
    }


def beside(shape: Shape, taken: Iterable[str]) -> set[str]:
    """Pools outside the tree on the path from a taken one to the root of a hierarchy, and their parents."""
    found: set[str] = set()
    pending = list(taken)
    while pending:
        uuid = pending.pop()
        above = {graph.above(uuid) for graph in shape.graphs.values()}
        above |= set() if uuid in shape.tree else set(shape.ancestors(uuid))
        fresh = {u for u in above if u is not None and u not in found and u not in shape.tree}
        found |= fresh
        pending += fresh
    return found


def linked(shape: Shape, kept: Iterable[str]) -> set[str]:
    """Pools outside the tree, such as switches, that an edge of a graph without hierarchy joins to one of these."""
    edges = [edge for graph in shape.graphs.values() if not graph.hierarchy for edge in graph.edges]
    ends = {pair for src, dst, *_ in edges for pair in ((src, dst), (dst, src))}
    return {far for near, far in ends if near in kept and far not in shape.tree}


def copied(oracle: Oracle, graphs: Graphs, key: str, tick: int, along: Along) -> tuple[Oracle, Graphs]:
    """What is available at and below a pool, the path to the root, its suppliers, and linked pools outside the tree (C1)."""
    if key not in oracle.pools:
        raise Refused(["UnknownPool"])
    shape, free = shape_of(oracle, graphs), free_units(oracle, tick)
    top = oracle.pools[key]["uuid"]
    faults = {"InsufficientResources"} if not free[top] else set()
    if faults := faults if top in shape.tree else faults | {"UnknownPool"}:
        raise Refused(faults)
    kept: list[str] = []
    for u in shape.subtree(top):
        if free[u] and (u == top or shape.pools[u]["parent"] in kept):
            kept.append(u)
    supplied = along(set(kept)) - set(shape.subtree(top)) if top != shape.root else set()
    above = {*shape.ancestors(top), *(u for v in supplied & set(shape.tree) for u in (v, *shape.ancestors(v)))}
    # The root owns everything outside the tree; a part of the tree has there only its path in other hierarchies.
    outside = [u for u in shape.pools if u not in shape.tree]
    own = {u for u in outside if free[u]} if top == shape.root else set()
    near = {u for u in linked(shape, kept) if free[u]}
    near |= supplied - set(shape.tree)
    way = (near | beside(shape, [*above, *kept, *own, *near])) - own
    pools = {}
    for u, pool in shape.pools.items():
        if u in kept or u in own:
            pools[u] = {**pool, "size": free[u]}
        elif u in above or u in way:
            pools[u] = {**pool, "size": free[u] or pool["size"], "way": True}
    made = shape.restricted(pools)
    made.graphs = cut(oracle, made, lambda edge: oracle.available(edge, [tick]))
    return oracle_of(made, oracle), made.graphs


def copied_job(oracle: Oracle, graphs: Graphs, job: str, tick: int, along: Along) -> tuple[Oracle, Graphs]:
    """What a job holds at a moment, with its ancestors and suppliers."""
    if job not in oracle.jobs():
        raise Refused(["UnknownJob"])
    shape = shape_of(oracle, graphs)
    units: dict[str, int] = {}
    for key, pool in oracle.pools.items():
        n = oracle.held[key][tick].get(job, 0)
        if n == pool["size"]:
            units.update({u: shape.pools[u]["size"] for u in shape.subtree(pool["uuid"])})
        elif n:
            units[pool["uuid"]] = n
    if not units:
        raise Refused(["InsufficientResources"])
    taken = {shape.root} | set(units) | {above for u in units for above in shape.ancestors(u)}
    taken |= linked(shape, [u for u in units if u in shape.tree]) | along(set(units))
    taken |= {above for u in taken for above in shape.ancestors(u)}
    taken |= beside(shape, taken)
    pools = {
        u: {**pool, "size": units.get(u, pool["size"]), "way": pool["way"] or u not in units}
        for u, pool in shape.pools.items()
        if u in taken
    }
    made = shape.restricted(pools)
    made.graphs = cut(oracle, made, lambda edge: oracle.held[edge][tick].get(job, 0))
    return oracle_of(made, oracle), made.graphs


def lasting(oracle: Oracle) -> Oracle:
    """Without ended records."""
    found = copy.deepcopy(oracle)
    for number, (_, _, ticks, _) in list(found.stages.items()):
        if max(ticks) < found.now:
            found.release(number)
    found.expire()
    return found


def unlinked(oracle: Oracle, graphs: Graphs, key: str) -> tuple[Oracle, Graphs]:
    """Without a pool and its subtree in the hierarchy that the key names (M1); blocking ended records expire (T2)."""
    with contextlib.suppress(Refused):
        return _unlinked(oracle, graphs, key)
    return _unlinked(lasting(oracle), graphs, key)


def _unlinked(oracle: Oracle, graphs: Graphs, key: str) -> tuple[Oracle, Graphs]:
    """The same, if nothing may have been held at any time.

    Pools in another hierarchy stay there; a pool in none is removed, and must not be held.
    """
    shape = shape_of(oracle, graphs)
    name = key.partition(":")[0]
    around = shape.graphs.get(name)  # None for a path
    named = [oracle.pools[key]["uuid"]] if key in oracle.pools else shape.at_uri(name, key) if around else []
    if len(named) != 1:
        raise Refused(["UnknownPool"])
    top = named[0]
    if around is not None and around.hierarchy:
        below = around.below(top)
        around.edges = [edge for edge in around.edges if edge[1] not in below]
        left = [u for v in below if v not in shape.tree for u in shape.subtree(v)]
    elif top in shape.tree and top != shape.root:
        left = shape.subtree(top)
    else:
        raise Refused(["UsageError"])
    loose = [u for u in shape.pools if u in left and shape.in_hierarchy(u)]
    ever = range(oracle.horizon + 1)
    where = {pool["uuid"]: k for k, pool in oracle.pools.items()}
    for u in left:
        if any(oracle.held[where[u]][t] or oracle.implied(where[u], t) for t in ever):
            raise Refused(["StillHeld"])
    pools = {u: pool for u, pool in shape.pools.items() if u not in left}
    # Pools removed from the tree are only pass-through pools in other hierarchies.
    ways = {u: {**shape.pools[u], "way": shape.pools[u]["way"] or around is None} for u in loose}
    pools.update({u: {**pool, "parent": None} for u, pool in ways.items()})
    made = shape.restricted(pools)
    for k, limit in oracle.edges.items():
        graph, *ends = limit["ends"]
        is_left = graph in made.graphs and any(list(edge[:2]) == ends for edge in made.graphs[graph].edges)
        if not is_left and any(oracle.held[k][t] for t in ever):
            raise Refused(["StillHeld"])
    return oracle_of(made, oracle, (oracle, {})), made.graphs


def merged(a: Oracle, a_graphs: Graphs, b: Oracle, b_graphs: Graphs, at: str | None = None) -> tuple[Oracle, Graphs]:
    """`a` with `b` joined to it; blocking ended records of `a` expire, and none of `b` do (T2)."""
    with contextlib.suppress(Refused):
        return _merged(a, a_graphs, b, b_graphs, at)
    return _merged(lasting(a), a_graphs, b, b_graphs, at)


def _merged(a: Oracle, a_graphs: Graphs, b: Oracle, b_graphs: Graphs, at: str | None) -> tuple[Oracle, Graphs]:
    """`a` with `b` joined to it: equal paths are one pool, pools of `b` alone keep their place (M1).

    Args:
        at: the place of the root of `b`: below this pool, as this pool if it has the same name, or under this
            name. None: both have the same root.
    """
    mine, theirs = shape_of(a, a_graphs), shape_of(b, b_graphs)
    if b.stages:
        raise Refused(["MergeConflict"])
    parent = root_place(a, mine, theirs, at)
    same = joined(mine, theirs, parent)
    moved = displaced(mine, theirs, same)
    pools = {u: dict(pool) for u, pool in mine.pools.items()}
    for u, v in same.items():
        is_leaf = len(mine.subtree(v)) == len(theirs.subtree(u)) == 1 and u not in moved and (u == v or v != mine.root)
        if is_leaf and u != v and not (mine.pools[v]["way"] or theirs.pools[u]["way"]):
            raise Refused(["MergeConflict"])
        join_data(pools[v], theirs.pools[u], leaf=is_leaf)
    for u, pool in theirs.pools.items():
        above = parent if u == theirs.root else pool["parent"]
        if u in moved:
            pools[u] = {**pools.pop(u), "parent": same.get(above, above)}
        elif u not in same:
            pools[u] = {**pool, "parent": same.get(above, above)}
    made = Shape(in_order(pools), joint_graphs(mine, theirs, same))
    for shape, oracle in ((mine, a), (theirs, b)):
        require_whole(oracle, shape, made, same)
    result = oracle_of(made, a, (a, {}), (b, same))
    if is_broken(result) or any(is_lost(result, made, oracle, same) for oracle in (a, b)):
        raise Refused(["MergeConflict"])
    return result, made.graphs


def root_place(a: Oracle, mine: Shape, theirs: Shape, at: str | None) -> str | None:
    """My pool below which their root goes, None if it is my root; it may get another name."""
    root = theirs.pools[theirs.root]
    if at is None:
        if [root["name"], root["type"]] != [mine.pools[mine.root]["name"], mine.pools[mine.root]["type"]]:
            raise Refused(["MergeConflict"])
        return None
    if at not in a.pools:
        above, _, root["name"] = at.rpartition("/")
        number = root["name"].removeprefix(root["type"])
        root["id"] = int(number) if number.isdigit() else root["id"]
        if above not in a.pools:
            raise Refused(["UnknownPool"])
        return str(a.pools[above]["uuid"])
    v = a.pools[at]["uuid"]
    if [root["name"], root["type"]] == [mine.pools[v]["name"], mine.pools[v]["type"]]:
        return mine.pools[v]["parent"]
    if v == mine.root and root["type"] == mine.pools[v]["type"]:
        raise Refused(["MergeConflict"])
    return str(v)


def joined(mine: Shape, theirs: Shape, parent: str | None) -> dict[str, str]:
    """Their pools by the equal pool of mine: equal names below one pool; outside the tree equal uuids or URIs."""
    same: dict[str, str] = {}
    in_tree, my_outside = theirs.tree, {mine.key(v): v for v in mine.pools if v not in mine.tree}
    for u, pool in theirs.pools.items():
        above = parent if u == theirs.root else same.get(pool["parent"])
        beside = [v for v, other in mine.pools.items() if above is not None and other["parent"] == above]
        named = [v for v in beside if mine.pools[v]["name"] == pool["name"]]
        if u == theirs.root and parent is None:
            same[u] = mine.root
        elif u not in in_tree and u in mine.pools and (pool["parent"] is None or above is not None):
            same[u] = u
        elif u not in in_tree and u not in mine.pools and pool["parent"] is None and theirs.key(u) in my_outside:
            same[u] = my_outside[theirs.key(u)]
        elif named:
            same[u] = named[0]
    for u, v in same.items():
        if theirs.pools[u]["type"] != mine.pools[v]["type"]:
            raise Refused(["MergeConflict"])
    return same


def displaced(mine: Shape, theirs: Shape, same: dict[str, str]) -> set[str]:
    """Single pools outside my tree that get a place in it from theirs; any other duplicate uuid is a conflict."""
    moved = {u for u in theirs.pools if u not in same and u in mine.pools}
    for u in moved:
        alone = u not in mine.tree and mine.pools[u]["parent"] is None and len(mine.subtree(u)) == 1
        if not alone or u not in theirs.tree or mine.pools[u]["type"] != theirs.pools[u]["type"]:
            raise Refused(["MergeConflict"])
    same.update({u: u for u in moved})
    return moved


def join_data(mine: PoolData, theirs: PoolData, leaf: bool) -> None:
    """Sizes add up, up to the full size of a pool that both were copied from; a pass-through pool adds nothing."""
    one = mine["uuid"] == theirs["uuid"]
    a, b, full_a, full_b = mine["size"], theirs["size"], mine["full"], theirs["full"]
    if mine["way"] or theirs["way"]:
        mine["size"] = a if theirs["way"] else b
        mine["full"] = max(full_a, full_b) if one else full_a if theirs["way"] else full_b
    elif leaf:
        mine["size"], mine["full"] = a + b, max(full_a, full_b) if one else full_a + full_b
    elif one:
        mine["full"] = max(full_a, full_b)
        mine["size"] = min(a + b, mine["full"])
    if mine["size"] > mine["full"]:
        raise Refused(["MergeConflict"])
    mine["way"] = mine["way"] and theirs["way"]
    mine["tags"] = {**theirs["tags"], **mine["tags"]}


def in_order(pools: dict[str, PoolData]) -> dict[str, PoolData]:
    """Pre-order, with children and trees in their present order."""
    found: dict[str, PoolData] = {}

    def visit(parent: str | None) -> None:
        for u, pool in pools.items():
            if pool["parent"] == parent:
                found[u] = pool
                visit(u)

    visit(None)
    return found


def joint_graphs(mine: Shape, theirs: Shape, same: dict[str, str]) -> Graphs:
    """The edges of both, equal ones once with the sum of both capacities up to the full one; a hierarchy stays a forest."""
    made = copy.deepcopy(mine.graphs)
    for name, graph in theirs.graphs.items():
        into = made.setdefault(name, Graph(graph.hierarchy, []))
        if into.hierarchy != graph.hierarchy:
            raise Refused(["MergeConflict"])
        for src, dst, relation, capacity, full in graph.edges:
            edge = (same.get(src, src), same.get(dst, dst), relation, capacity, full)
            at = next((i for i, known in enumerate(into.edges) if known[:3] == edge[:3]), None)
            if at is None:
                into.edges.append(edge)
            else:
                into.edges[at] = together(into.edges[at], edge)
        targets = [edge[1] for edge in into.edges]
        if into.hierarchy and len(targets) != len(set(targets)):
            raise Refused(["MergeConflict"])
    return made


def together(mine: Edge, theirs: Edge) -> Edge:
    """Two edges as one; if only one of them has a capacity, it is as mine."""
    src, dst, relation, a, full_a = mine
    b, full_b = theirs[3:]
    if a is None or b is None:
        return mine
    full = max(a if full_a is None else full_a, b if full_b is None else full_b)
    units = min(a + b, full)
    return src, dst, relation, units, full if full > units else None


def require_whole(oracle: Oracle, shape: Shape, made: Shape, same: dict[str, str]) -> None:
    """Refuse if a pool that a job held exclusively would grow and no longer be held exclusively."""
    for key, pool in oracle.pools.items():
        whole = any(oracle.owner(key, t) is not None for t in range(oracle.horizon + 1))
        u = pool["uuid"]
        grows = made.pools[u if u in made.pools else same[u]]["size"] != pool["size"]
        if whole and grows and len(shape.subtree(u)) > 1:
            raise Refused(["MergeConflict"])


def is_lost(made: Oracle, shape: Shape, source: Oracle, same: dict[str, str]) -> bool:
    """Whether a job held something that an exclusive record of the other graph would imply."""
    for k in source.pools:
        uuid, rows = source.pools[k]["uuid"], source.held[k]
        now = made.held[shape.key(same.get(uuid, uuid))]
        if any(h not in now[t] for t, row in enumerate(rows) for h in row):
            return True
    return False


def is_broken(oracle: Oracle) -> bool:
    """More units held than the size (A1), a part of an exclusive pool, or anything below an exclusively held pool (A3, A5)."""
    for key, pool in oracle.accounts.items():
        for t in range(oracle.horizon + 1):
            holder = oracle.owner(key, t)
            if sum(oracle.held[key][t].values()) > pool["size"]:
                return True
            if pool["exclusive"] and any(n != pool["size"] for n in oracle.held[key][t].values()):
                return True
            inside = {job_of(h) for b in oracle.below(key) for h in oracle.held[b][t]}
            if pool["exclusive"] and len(inside) > 1:
                return True
            allowed = () if holder is None or isinstance(holder, str) else holder[:1]
            for k in oracle.below(key) if holder is not None else ():
                if any(h not in allowed for h in oracle.held[k][t]):
                    return True
    return False
