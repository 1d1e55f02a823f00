"""Validate a structure: the audit that file readers and `check` run.

A mistake in the columns may show up much later and somewhere else, so this module checks everything that the rest of the package
assumes about them, with array operations: an audit of a million pools takes less than a second.  A finding names the first few
pools affected and their number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from fluxres import limits
from fluxres.arrays import Int32, Mask
from fluxres.errors import FluxresError, InputError
from fluxres.graph.auxiliary import Subsystem
from fluxres.graph.identity import NameKeys, repeated, texts_needed, uuid_keys
from fluxres.graph.kinds import EXCLUSIVE, STATES, WAY
from fluxres.graph.structure import COLUMNS, Problem, Structure

_NAMED_MAX = 3


def check_structure(s: Structure) -> list[Problem]:
    """All problems of a structure; empty if there are none.

    If the columns do not form a tree, only that is reported, because no other check makes sense.
    Cost: O(n + edges), vectorised; Python for explicit names, uuids and tags.
    """
    found = list(_check_shape(s))
    if not found:
        for check in (_check_values, _check_sparse, _check_subsystems):
            found.extend(check(s))
    if not any(problem.severity == "error" for problem in found):
        found.extend(_check_names(s))
        found.extend(_check_uuids(s))
    return found


def require_valid(s: Structure) -> None:
    """Raise for a structure with errors.

    Errors: InputError with the first finding and the number of further ones.
    """
    errors = [problem for problem in check_structure(s) if problem.severity == "error"]
    if errors:
        more = f" (and {len(errors) - 1} more findings)" if len(errors) > 1 else ""
        raise InputError(errors[0].message + more, where=errors[0].where)


def _error(where: str, message: str) -> Problem:
    return Problem("error", where, message)


def _place(s: Structure, v: int) -> str:
    """The path of a pool, or its vertex number if the fault leaves it without a path."""
    try:
        return s.where(v)
    except (FluxresError, IndexError, ValueError):
        return f"vertex {v}"


def _findings(s: Structure, bad: Mask, message: Callable[[int], str]) -> Iterator[Problem]:
    """One problem for each of the first few marked pools, and one for the rest."""
    vertices = np.flatnonzero(bad)
    for v in vertices[:_NAMED_MAX].tolist():
        yield _error(_place(s, v), message(v))
    if len(vertices) > _NAMED_MAX:
        yield _error(_place(s, int(vertices[_NAMED_MAX])), f"{message(int(vertices[_NAMED_MAX]))}; {len(vertices)} pools in all")


# -- the tree ------------------------------------------------------------------------------------------------------------


def _check_shape(s: Structure) -> Iterator[Problem]:
    """Pre-order: a parent precedes its children, and each subtree is a slice within that of its parent."""
    lengths = {column: len(getattr(s, column)) for column in COLUMNS}
    if s.n < 1 or set(lengths.values()) != {s.n}:
        yield _error("", f"columns of different lengths, or none: {lengths}")
        return
    if s.n > limits.POOLS_MAX:
        yield _error("", f"{s.n} pools, at most {limits.POOLS_MAX} are allowed")
    if not 1 <= s.tree_end <= s.n or s.tree_end != s.end.item(0):
        yield _error("vertex 0", f"the containment tree ends at {s.tree_end}, its root at {s.end.item(0)} of {s.n}")
        return
    v = np.arange(s.n, dtype=np.int32)
    bad = (s.parent >= v) | (s.parent < -1) | (s.end <= v) | (s.end > s.n)
    if bad.any():
        yield from _numbered(bad, s, "is not in pre-order")
        return
    root = s.parent < 0
    inside = ~root & (s.end <= s.end[s.parent])
    bad = ~inside & ~root
    # The row before v is its parent, or the last pool in the subtree of its preceding sibling (for a root: the preceding root).
    bad |= (s.parent != v - 1) & (_ends_at(s) != s.parent)
    if bad.any():
        yield from _numbered(bad, s, "is not in the slice of its parent")
    elif int(s.depth.max()) >= limits.DEPTH_MAX:
        yield _error(
            f"vertex {int(s.depth.argmax())}",
            f"is {int(s.depth.max()) + 1} levels deep, at most {limits.DEPTH_MAX} are allowed",
        )


def _ends_at(s: Structure) -> Int32:
    """For each vertex v, the parent of the outermost subtree that ends just before v; -2 where none does."""
    found = np.full(s.n + 1, -2, np.int32)
    # Written innermost first: of the subtrees that end here, the one that begins earliest is the largest and is written last.
    found[s.end[::-1]] = s.parent[::-1]
    return found[: s.n]


def _numbered(bad: Mask, s: Structure, what: str) -> Iterator[Problem]:
    v = int(np.flatnonzero(bad)[0])
    yield _error(f"vertex {v}", f"{what}: parent {s.parent.item(v)}, end {s.end.item(v)}; {int(bad.sum())} pools in all")


# -- values --------------------------------------------------------------------------------------------------------------


def _check_values(s: Structure) -> Iterator[Problem]:
    strange = np.flatnonzero((s.kind < 0) | (s.kind >= len(s.kinds)))
    if len(strange):
        yield _error(
            f"vertex {int(strange[0])}", f"kind {s.kind.item(strange[0])} of {len(s.kinds)}; {len(strange)} pools in all"
        )
        return
    yield from _findings(
        s, (s.size < 1) | (s.size > limits.SIZE_MAX), lambda v: f"size {s.size.item(v)}, expected 1 to {limits.SIZE_MAX}"
    )
    yield from _findings(
        s, (s.id < -1) | (s.id > limits.ID_MAX), lambda v: f"id {s.id.item(v)}, expected -1 (none) to {limits.ID_MAX}"
    )
    yield from _findings(s, s.rank < -1, lambda v: f"rank {s.rank.item(v)}, expected -1 (none) or more")
    yield from _findings(s, s.state >= len(STATES), lambda v: f"state {s.state.item(v)} of {len(STATES)}")
    yield from _findings(s, (s.flags & ~np.uint8(EXCLUSIVE | WAY)) != 0, lambda v: f"unknown flags {s.flags.item(v)}")
    # A pool below a node belongs to that node, so it must have a rank.
    lost = (s.parent >= 0) & (s.rank < 0) & (s.rank[s.parent] >= 0)
    yield from _findings(s, lost, lambda v: f"has no rank below a pool of rank {s.rank.item(s.parent.item(v))}")


def _check_sparse(s: Structure) -> Iterator[Problem]:
    for what, sparse in (("name", s.names), ("uuid", s.uuid_texts), ("tags", s.tags), ("capacity", s.capacity)):
        for v in (v for v in sparse if not 0 <= v < s.n):
            yield _error(f"vertex {v}", f"{what} of a pool that does not exist")
            break
    known = {v: full for v, full in s.capacity.items() if 0 <= v < s.n}
    vertices = np.fromiter(known, np.int64, len(known))
    full = np.fromiter(known.values(), np.int64, len(known))
    for v in vertices[full < s.size[vertices]][:_NAMED_MAX].tolist():
        yield _error(_place(s, v), f"size {s.size.item(v)} is more than its full size {s.capacity[v]} (C1)")
    for v, name in s.names.items():
        if not name or "/" in name or len(name) > limits.NAME_LENGTH_MAX:
            yield _error(
                f"vertex {v}", f"'{name[:40]}' is not a valid name: expected 1 to {limits.NAME_LENGTH_MAX} characters without '/'"
            )
            break


def _check_names(s: Structure) -> Iterator[Problem]:
    """Siblings must have different names, so that a path identifies one pool."""
    vertices = np.arange(1, s.tree_end, dtype=np.int32)
    try:
        doubles = _named_again(s, vertices, s.parent[vertices], NameKeys())
    except FluxresError as error:
        yield _error(error.where, error.message)
        return
    bad = np.zeros(s.n, np.bool_)
    bad[doubles] = True
    yield from _findings(s, bad, lambda v: "another pool has the same path")


def _named_again(s: Structure, vertices: Int32, group: Int32, keys: NameKeys) -> list[int]:
    """The pools whose name an earlier pool of the same group has."""
    cls, number, odd = keys.of(s, vertices)
    doubles = set(vertices[repeated(group, cls, number)].tolist())
    needed = texts_needed(group, cls, odd, keys.injective())
    seen: set[tuple[int, str]] = set()
    for v, of_group in zip(vertices[needed].tolist(), group[needed].tolist(), strict=True):
        key = (of_group, s.name(v))
        if key in seen:
            doubles.add(v)
        seen.add(key)
    return sorted(doubles)


def check_hosts(s: Structure) -> Iterator[Problem]:
    """Host names given to several nodes, which a host list cannot tell apart.

    Nodes named by type and id are skipped: the nodes of two racks may well be numbered alike (see :func:`hosts_by_id`).
    Cost: vectorised over the nodes; Python for explicit names, and where several rules make the names.
    """
    nodes = s.in_tree("node")
    doubles = _hosts_again(s, nodes[_has_given_name(s, nodes)])
    if doubles:
        message = f"another node has the host name {s.name(doubles[0])}, too"
        yield Problem("warning", _place(s, doubles[0]), f"{message}; nodes with a duplicate host name: {len(doubles)}")


def hosts_by_id(s: Structure) -> list[int]:
    """The nodes named by type and id that have the name of an earlier one, as the nodes of two racks that are numbered alike.

    R lists their host once for each of their ranks, which RFC 20 allows; a constraint on the host means all of them.
    Cost: as :func:`check_hosts`.
    """
    nodes = s.in_tree("node")
    return _hosts_again(s, nodes[~_has_given_name(s, nodes)])


def _has_given_name(s: Structure, nodes: Int32) -> Mask:
    has_rule = np.array([kind.name is not None for kind in s.kinds], np.bool_)
    return has_rule[s.kind[nodes]] | np.isin(nodes, np.fromiter(s.names, np.int32, len(s.names)))


def _hosts_again(s: Structure, nodes: Int32) -> list[int]:
    keys = NameKeys()
    keys.ancestors_differ = True
    return _named_again(s, nodes, np.zeros(len(nodes), np.int32), keys)


def _check_uuids(s: Structure) -> Iterator[Problem]:
    bad = (s.origin >= len(s.origins)) | (s.serial < 0) | (s.serial >= 1 << 48)
    if s.uuid_texts:
        bad[np.fromiter(s.uuid_texts, np.int64, len(s.uuid_texts))] = False
    yield from _findings(s, bad, lambda v: f"uuid: invalid origin {s.origin.item(v)} or serial {s.serial.item(v)}")
    if bad.any():
        return
    again = repeated(*uuid_keys([s]))
    marked = np.zeros(s.n, np.bool_)
    marked[again] = True
    yield from _findings(s, marked, lambda v: f"another pool has the same uuid {s.uuid(v)}")


# -- auxiliary graphs ----------------------------------------------------------------------------------------------------


def _check_subsystems(s: Structure) -> Iterator[Problem]:
    if len(s.subsystems) > limits.SUBSYSTEMS_MAX:
        yield _error("", f"{len(s.subsystems)} auxiliary graphs, at most {limits.SUBSYSTEMS_MAX} are allowed")
    for name, graph in s.subsystems.items():
        yield from _check_edges(s, name, graph)


def _check_edges(s: Structure, name: str, graph: Subsystem) -> Iterator[Problem]:
    where = f"graphs.{name}"
    if name != graph.name:
        yield _error(where, f"is named '{graph.name}'")
    lengths = {len(graph.src), len(graph.dst), len(graph.relation), *map(len, graph.attributes.values())}
    if len(lengths) > 1:
        yield _error(where, f"columns of different lengths: {sorted(lengths)}")
        return
    if len(graph) > limits.EDGES_MAX:
        yield _error(where, f"{len(graph)} edges, at most {limits.EDGES_MAX} are allowed")
    ends = np.concatenate([graph.src, graph.dst])
    dangling = ends[(ends < 0) | (ends >= s.n)]
    if len(dangling):
        yield _error(where, f"an edge ends at vertex {int(dangling[0])}, which does not exist; {len(dangling)} such ends in all")
        return
    if len(graph) and int(graph.relation.max()) >= len(graph.relations):
        yield _error(where, f"relation {int(graph.relation.max())} of {len(graph.relations)}")
    if graph.hierarchy:
        try:
            graph.require_forest()
        except InputError as error:
            yield _error(where, error.message)
