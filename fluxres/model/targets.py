"""The names that callers use for pools, as vertex numbers and amounts.

A person types a path, a program passes handles, a search returns a selection, an event contains pairs.  All of them are resolved
here, so every operation accepts all of them, with the same messages.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final, TypeGuard

import msgspec
import numpy as np

from fluxres import limits
from fluxres.allocation.facts import ID_OF_JOB
from fluxres.errors import FluxresError, StaleHandle, UnknownPool, UsageError
from fluxres.graph.accounts import ARROW, is_edge
from fluxres.graph.auxiliary import Subsystem
from fluxres.graph.forest import Forest
from fluxres.graph.partitions import PARTITION
from fluxres.graph.short_names import AT
from fluxres.graph.structure import Structure
from fluxres.model.pool import Pool
from fluxres.model.selection import Selection
from fluxres.syntax.folded import folds, listed
from fluxres.syntax.name import is_name

if TYPE_CHECKING:
    from fluxres.model.resource_graph import ResourceGraph
    from fluxres.syntax.jobspec import Wanted

Where = str | int | Pool
"""A path, URI, uuid or short name; a vertex number; a handle."""
Targets = Where | Selection | Mapping[Where, int | None] | Iterable[Where | tuple[Where, int | None]]
"""One or more pools, or edges with a capacity, with amounts or all units."""


WORDS_KEPT: Final = 1024
"""Words of which it is remembered whether they name pools or are a request: a workload has a few shapes, again and again."""


def vertex(graph: ResourceGraph, where: Where) -> int:
    """Vertex number of one pool.

    Errors: UnknownPool; StaleHandle for a handle of another generation or graph; UsageError for another type.
    """
    if isinstance(where, str):
        try:
            return vertex_named(graph.structure, where)
        except UnknownPool as error:
            raise _one_pool(error, where) from None
    if isinstance(where, Pool):
        if where.graph is not graph:
            raise StaleHandle("this handle belongs to another graph", hint="ask this graph for the pool, by path or uuid")
        return where.vertex
    if is_whole(where):
        if not 0 <= where < graph.structure.n:
            raise UnknownPool(f"no vertex {where}: the graph has 0 to {graph.structure.n - 1}")
        return int(where)
    raise UsageError(f"a pool is named by a path, URI, uuid, vertex number or handle, not by {where!r}")


def _one_pool(error: UnknownPool, where: str) -> UnknownPool:
    """The error, which says that a list is not accepted here."""
    if folds(where):
        error.hint = "name one pool, without brackets and commas; find('path=…') takes both"
    return error


def account(graph: ResourceGraph, where: Where) -> int:
    """Number of a pool, or of an edge with a capacity, by its name.

    Errors: as :func:`vertex`.
    """
    accounts = graph.structure.accounts
    if isinstance(where, str) and is_edge(where):
        between = accounts.edges_between(where, lambda end: [vertex(graph, end)])
        return between[0] if between else accounts.number(where)
    if is_whole(where) and graph.structure.n <= where < accounts.n:
        return int(where)
    return vertex(graph, where)


def vertex_named(structure: Structure, where: str) -> int:
    """Vertex number of the pool with this path, URI, uuid or short name; names in it may be quoted, as in lists.

    Errors: UnknownPool.
    """
    lookup = structure.lookup
    try:
        return lookup.vertex(where) if lookup.is_placed(where) else structure.short_names.vertex(where)
    except UnknownPool:
        if "'" in where or '"' in where:
            with suppress(FluxresError):
                found = vertices_named(structure, where)
                if len(found) == 1:
                    return found[0]
        raise


def spelled_out(structure: Structure, where: str) -> str:
    """A name as a path or as a URI with its slash, for code that distinguishes hierarchies; uuids remain.

    Errors: UnknownPool for a short name that no pool has, or several.
    """
    if where.startswith("/") or structure.lookup.is_uuid(where):
        return where
    name, path = structure.lookup.graph_and_path(where)
    if path is None:
        try:
            where = structure.where(vertex_named(structure, where))
        except UnknownPool as error:
            raise _one_pool(error, where) from None
        name, path = structure.lookup.graph_and_path(where)
    return where if path is None else f"{name}:/{path}"


def vertices_named(structure: Structure, where: str) -> list[int]:
    """Vertex numbers of the pools that a path, URI, uuid or short name names: several where it has brackets or commas.

    A pool whose name really has brackets or commas takes precedence.

    Errors: UnknownPool; InputError for brackets that are wrong; LimitExceeded beyond IDSET_COUNT_MAX pools.
    """
    if not folds(where):
        return [vertex_named(structure, where)]
    if (exact := _exactly(structure, where)) is not None:
        return [exact]
    found: list[int] = []
    for names, hosts in listed(where):
        if not names or "" in names:
            raise UnknownPool("no pool has this name", where=where[: limits.NAME_LENGTH_MAX], hint="write a name between commas")
        if hosts:
            found += structure.short_names.all_below(names, hosts)
        elif structure.lookup.is_placed(names[0]):
            found += [structure.vertex(name) for name in names]
        else:
            found += structure.short_names.all(names)
    return found


def _exactly(structure: Structure, where: str) -> int | None:
    """The pool with exactly this name, None if there is not just one."""
    if not structure.lookup.is_placed(where):
        found = structure.named([where])
        return found[0] if len(found) == 1 else None
    with suppress(UnknownPool):
        return structure.vertex(where)
    return None


def names_pools(structure: Structure, word: str) -> bool:
    """Whether a word where a request is possible names pools instead.

    It does if it is a path, a URI, a uuid or an edge, has a hostlist in brackets or an ``@``, or is the name of a pool, or a list
    with such a name; but a type of the machine is a request for it, and so is any text in braces.

    Cost: a scan for the name, the first time.
    """
    known = structure.lookup.are_names
    found = known.get(word)
    if found is None:
        found = _names_pools(structure, word)
        if len(known) < WORDS_KEPT and len(word) <= limits.NAME_LENGTH_MAX:
            known[word] = found
    return found


def _names_pools(structure: Structure, word: str) -> bool:
    if is_edge(word) or structure.lookup.is_uuid(word) or word.startswith("/") or _BELOW_PATH.match(word) is not None:
        return True
    before, _, _ = word.partition("{")  # a key of a shape may name a pool, such as {to:network:/core0}
    if structure.lookup.graph_and_path(before)[1] is not None or ":/" in before:
        return True
    is_type = any(kind.type == word for kind in structure.kinds) and word in structure.types
    if is_type or _SHORT.fullmatch(word) is None:
        return False
    return AT in word or _HOSTLIST.match(word) is not None or _any_named(structure, word)


_SHORT: Final = re.compile(r"[^\s/{}=;-][^\s/{}=;]*")
_BELOW_PATH: Final = re.compile(r"[^\s/{}=;]+@/")
_HOSTLIST: Final = re.compile(r"[^\[\]]+\[[0-9,-]+\]")


def _any_named(structure: Structure, word: str) -> bool:
    short_names = structure.short_names
    try:
        return bool(short_names.meant(word)) or (
            folds(word) and any(short_names.meant(name) for names, _ in listed(word) for name in names[:1])
        )
    except FluxresError:
        return False


def accounts_named(structure: Structure, where: str) -> list[int]:
    """As :func:`vertices_named`, and edges with a capacity by the name that `jobs` shows.

    That is ``power: power:/pdu0 -> /demo/node[0-3]``.

    Errors: as :func:`vertices_named`.
    """
    if not is_edge(where):
        return vertices_named(structure, where)
    accounts = structure.accounts
    return accounts.edges_between(where, lambda end: vertices_named(structure, end)) or [accounts.number(where)]


def _accounts(graph: ResourceGraph, where: Where) -> list[int]:
    if isinstance(where, str):
        return accounts_named(graph.structure, where)
    return [vertex(graph, where) if isinstance(where, Pool) else account(graph, where)]


class Place(msgspec.Struct, frozen=True):
    """Where a query starts: pools of a hierarchy, or of an auxiliary graph that is not one.

    Args:
        structure: of the resource graph.
        vertices: one pool; or all roots of an auxiliary hierarchy, for ``power:/``.
        name: of the auxiliary graph, None for containment.
        above_roots: whether the place is ``power:/``, that is all roots.
    """

    structure: Structure
    vertices: list[int]
    name: str | None = None
    above_roots: bool = False

    @property
    def subsystem(self) -> Subsystem | None:
        """The auxiliary graph, if it is not a hierarchy."""
        found = None if self.name is None else self.structure.subsystem(self.name)
        return None if found is None or found.hierarchy else found

    def require_forest(self) -> Forest:
        """The hierarchy.

        Errors: UsageError for a graph that is not one.
        """
        return self.structure.forest(self.name)


def place(graph: ResourceGraph, where: Where, hierarchy: str | None = None) -> Place:
    """The start of a query, and its hierarchy or graph.

    Args:
        where: a pool; a URI also names the hierarchy, and ``power:/`` all of one.
        hierarchy: name of the hierarchy or graph, which overrides a URI; containment by default.

    Errors: as :func:`vertex`; UnknownGraph; UsageError for a pool that is not in it.
    """
    structure, is_named = graph.structure, hierarchy is None
    if isinstance(where, str):
        where = spelled_out(structure, where)
    if hierarchy is None and isinstance(where, str) and where.startswith("/"):
        return Place(structure, [vertex(graph, where)])
    if hierarchy is None and isinstance(where, str) and ":/" in where:
        named = where.partition(":/")[0]
        hierarchy = named if named in structure.subsystems and named != structure.hierarchy else None
    if not isinstance(hierarchy, str) or hierarchy == structure.hierarchy or hierarchy not in structure.subsystems:
        structure.forest(hierarchy)
        return Place(structure, [vertex(graph, where)])
    if where in ("/", f"{hierarchy}:/") and structure.subsystem(hierarchy).hierarchy:
        try:
            return Place(structure, [structure.vertex(f"{hierarchy}:/")], hierarchy)
        except UnknownPool:
            return Place(structure, structure.forest(hierarchy).roots.tolist(), hierarchy, above_roots=True)
    v = vertex(graph, where)
    if not structure.is_member(structure.subsystem(hierarchy), v):
        if is_named:
            return Place(structure, [v])
        graphs = ", ".join([structure.hierarchy] * (v < structure.tree_end) + structure.graphs_of(v)) or "none"
        raise UsageError(f"is not in '{hierarchy}'", where=structure.where(v), hint=f"its graphs are {graphs}")
    return Place(structure, [v], hierarchy)


def is_request(wanted: object, graph: ResourceGraph) -> TypeGuard[Wanted]:
    """Whether this is a request (a shape, options, a jobspec, a Request), and not pools by name."""
    if isinstance(wanted, str):
        if wanted.startswith("-") and "/" not in wanted and ARROW not in wanted:  # short options
            return True
        if wanted.lstrip()[:1] == "{" and '"' in wanted:  # JSON, whatever it contains
            return True
        return not names_pools(graph.structure, wanted)
    return "resources" in wanted if isinstance(wanted, Mapping) else hasattr(wanted, "resources")


def require_no_number(wanted: object) -> None:
    """Refuse a number alone where an amount could be meant as well as the number of a vertex. Errors: UsageError."""
    if is_whole(wanted):
        hint = f"such as slot={wanted}/node, or the path of a pool"
        raise UsageError(f"expected a request or pools, got the number {wanted}", hint=hint)


def resolve(
    graph: ResourceGraph, targets: Targets | Sequence[Where], *, bare_numbers: bool = True
) -> list[tuple[int, int | None]]:
    """Numbers of pools and edges, and amounts, None if none was given. A text may name several, with brackets.

    Args:
        bare_numbers: whether the number of a vertex may stand without an amount, where it could be meant as one.

    Errors: as :func:`vertex` and :func:`vertices_named`; UsageError for an amount that is not a whole number.
    """
    if not bare_numbers:
        require_no_number(targets)
    if isinstance(targets, str | Pool) or is_whole(targets):
        return [(v, None) for v in _accounts(graph, targets)]
    if isinstance(targets, Selection):
        if targets.graph is not graph:
            raise StaleHandle("this selection belongs to another graph", hint="search in this graph")
        return [(v, None) for v in targets.vertices.tolist()]
    if isinstance(targets, Mapping):
        return [(v, _amount(amount)) for where, amount in targets.items() for v in _accounts(graph, where)]
    if not isinstance(targets, Iterable) or isinstance(targets, bytes | bytearray | memoryview):
        raise UsageError(f"pools are named by a path, a selection, pairs or a mapping, not by {targets!r:.80}")
    found: list[tuple[int, int | None]] = []
    for item in targets:
        if isinstance(item, tuple | list):
            if len(item) != 2:
                raise UsageError(f"expected a pair of pool and amount, got {item!r}")
            amount = _amount(item[1])
            found += [(v, amount) for v in _accounts(graph, item[0])]
        else:
            if not bare_numbers:
                require_no_number(item)
            found += [(v, None) for v in _accounts(graph, item)]
    return found


def pools(graph: ResourceGraph, targets: Targets | Sequence[Where], what: str) -> list[int]:
    """Vertices of pools; edges are not allowed.

    Errors: as :func:`vertex`; UsageError for an edge.
    """
    vertices = [v for v, _ in resolve(graph, targets)]
    for v in vertices:
        if graph.structure.accounts.is_edge(v):
            raise UsageError(f"an edge has no {what}", where=graph.structure.accounts.where(v), hint="name a pool")
    return vertices


def with_amounts(graph: ResourceGraph, targets: Targets) -> list[tuple[int, int]]:
    """As :func:`resolve`, with the size of the pool if no amount was given, for an allocation.

    Errors: UsageError for a partition, and for a number without an amount.
    """
    structure, found = graph.structure, resolve(graph, targets, bare_numbers=False)
    for v, _ in found:
        if structure.tree_end <= v < structure.n and structure.kind_of(v).type == PARTITION:
            name = structure.name(v)
            raise UsageError(
                "partitions cannot be allocated", where=structure.where(v), hint=f"request nodes of it: -N1 -p {name}"
            )
    size = structure.accounts.size
    return [(v, size.item(v) if amount is None else amount) for v, amount in found]


def _amount(amount: object) -> int | None:
    if amount is None:
        return None
    if not is_whole(amount):
        raise UsageError(f"amount: expected a whole number of units, got {amount!r}")
    return int(amount)


def is_whole(value: object) -> TypeGuard[int]:
    """Whether this is a whole number, also one of NumPy. True is none, nor is a timedelta64, which NumPy counts as an integer."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool | np.timedelta64)


def label(text: object, name: str) -> str | None:
    """A user, a name or a reason, checked: printable text within limits, or None.

    Errors: UsageError.
    """
    if text is None:
        return None
    if not is_name(text):
        message = f"{name}: expected 1 to {limits.NAME_LENGTH_MAX} printable characters, got {text!r:.80}"
        raise UsageError(message)
    return text


def job_id(job: object) -> str:
    """A job id, checked: text of printable characters, not empty, within limits.

    Errors: UsageError.
    """
    if not isinstance(job, str):
        raise UsageError(f"job: expected an id, got {job!r}", hint=ID_OF_JOB)
    if not job or not job.isprintable():
        raise UsageError(f"job: expected an id of printable characters, got {job!r}")
    if len(job) > limits.JOB_ID_LENGTH_MAX:
        raise UsageError(f"job: an id may have {limits.JOB_ID_LENGTH_MAX} characters, got {len(job)}")
    return job
