"""A pool as an object: graph and vertex number, created when needed (RFC 4, "Resource Pool Data" and methods)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from fluxres.clock import Length, Time, seconds
from fluxres.errors import StaleHandle, UsageError
from fluxres.graph import state_notes
from fluxres.graph.kinds import EXCLUSIVE, PropertyValue
from fluxres.graph.state_notes import StateNote
from fluxres.model.values import Allocation, Span
from fluxres.shown import ShownDeep

if TYPE_CHECKING:
    from fluxres.model.resource_graph import ResourceGraph

Direction = Literal["out", "in", "both"]
"""Edges that leave a pool, edges that reach it, or both."""


class Pool(ShownDeep):
    """One resource pool of a graph.

    A handle is valid for one generation: after a merge or unlink it raises StaleHandle, and
    ``graph.pool(path)`` makes a new one.

    Args:
        graph: the resource graph.
        vertex: its number there.
        generation: the generation of the number; the present one by default.
    """

    __slots__ = ("_generation", "_vertex", "graph")

    def __init__(self, graph: ResourceGraph, vertex: int, generation: int | None = None) -> None:
        self.graph = graph
        self._vertex = vertex
        self._generation = graph.generation if generation is None else generation

    @property
    def vertex(self) -> int:
        """Vertex number; the key of this pool in ``graph.containment``.

        Errors: StaleHandle after the graph changed its structure.
        """
        if self._generation != self.graph.generation:
            raise StaleHandle(
                f"this handle was made in generation {self._generation}, the graph is in {self.graph.generation}",
                hint="ask the graph for the pool again, by path or uuid",
            )
        return self._vertex

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Pool)
            and other.graph is self.graph
            and (other._vertex, other._generation) == (self._vertex, self._generation)
        )

    def __hash__(self) -> int:
        return hash((self.graph, self._vertex, self._generation))

    def __repr__(self) -> str:
        if self._generation != self.graph.generation:
            return f"<Pool {self._vertex} of an earlier generation>"
        return f"<Pool {self.where} {self.type} {self.available()}/{self.size}{self.unit or ''}>"

    # -- data --------------------------------------------------------------------------------------------------------

    @property
    def type(self) -> str:
        """Resource type, such as ``core``."""
        return self.graph.structure.kind_of(self.vertex).type

    @property
    def uuid(self) -> str:
        """Unique id; the same through save, load and copy."""
        return self.graph.structure.uuid(self.vertex)

    @property
    def basename(self) -> str:
        """First part of the default name; the type unless given."""
        return self.graph.structure.kind_of(self.vertex).basename

    @property
    def name(self) -> str:
        """Explicit name, name by template, or basename + id."""
        return self.graph.structure.name(self.vertex)

    @property
    def id(self) -> int | None:
        """Numeric id, or None."""
        number = self.graph.structure.id.item(self.vertex)
        return None if number < 0 else int(number)

    @property
    def rank(self) -> int | None:
        """Execution target (RFC 20) that this pool belongs to, or None."""
        number = self.graph.structure.rank.item(self.vertex)
        return None if number < 0 else int(number)

    @property
    def size(self) -> int:
        """Total units (RFC 4 Size)."""
        return int(self.graph.structure.size.item(self.vertex))

    @property
    def unit(self) -> str | None:
        """Unit of the size, or None."""
        return self.graph.structure.kind_of(self.vertex).unit

    @property
    def properties(self) -> Mapping[str, PropertyValue]:
        """Static properties; a bare one has the value None."""
        return MappingProxyType(dict(self.graph.structure.kind_of(self.vertex).properties))

    @property
    def tags(self) -> Mapping[str, str | None]:
        """Dynamic tags; a bare one has the value None."""
        return MappingProxyType(dict(self.graph.structure.tags.get(self.vertex, {})))

    @property
    def state_note(self) -> StateNote | None:
        """Why the pool is in its state, which user set it, and since when; None without a note."""
        return state_notes.of(self.graph.structure, self.vertex)

    @property
    def state(self) -> str:
        """Own state: up, down, drain, degraded, failing, unknown or null."""
        return self.graph.structure.state_name(self.vertex)

    @state.setter
    def state(self, state: str) -> None:
        self.graph.set_state(self, state)

    def tag(self, key: str, value: str | None = None) -> None:
        """Tag this pool (RFC 4 Tag(K, [V])), replacing the value if the key exists."""
        self.graph.tag(self, key, value)

    def untag(self, key: str) -> None:
        """Remove a tag, if the pool has it."""
        self.graph.untag(self, key)

    # -- places ------------------------------------------------------------------------------------------------------

    @property
    def path(self) -> str:
        """Path from the root of its tree: ``/demo/rack0/node3``.

        A pool outside containment has a path, too (``/pdu0``), but lookups do not accept it; use `where` for these.
        """
        return self.graph.structure.path(self.vertex)

    @property
    def where(self) -> str:
        """The name of this pool in records and messages, which lookups accept: its path, or ``power:/pdu0`` outside containment.

        Where several pools share a name, a number follows: ``network:leaf0#17``.
        """
        return self.graph.structure.where(self.vertex)

    @property
    def uri(self) -> str | None:
        """``name:/path`` in the containment tree, None for a pool that is only in auxiliary graphs."""
        return self.graph.structure.uri(self.vertex)

    @property
    def uris(self) -> list[str]:
        """A URI for each hierarchy that the pool is in, containment first."""
        return self.graph.structure.uris(self.vertex)

    @property
    def parent(self) -> Pool | None:
        """The pool that contains this one, None for a root."""
        above = self.graph.structure.parent.item(self.vertex)
        return None if above < 0 else Pool(self.graph, above)

    @property
    def children(self) -> Sequence[Pool]:
        """The pools directly in this one, in order."""
        return [Pool(self.graph, v) for v in self.graph.structure.children(self.vertex).tolist()]

    @property
    def ancestors(self) -> Sequence[Pool]:
        """The pools above it, parent first."""
        return [Pool(self.graph, v) for v in self.graph.structure.ancestors(self.vertex)]

    def parent_in(self, hierarchy: str) -> Pool | None:
        """The parent in the hierarchy of this name; None for a root and for a pool that is not in the hierarchy.

        Errors: UnknownGraph; UsageError for a graph that is not a hierarchy.
        """
        above = self.graph.structure.forest(hierarchy).parent(self.vertex)
        return None if above < 0 else Pool(self.graph, above)

    def children_in(self, hierarchy: str) -> Sequence[Pool]:
        """The children in the hierarchy of this name, in order.

        Errors: as for `parent_in`.
        """
        return [Pool(self.graph, v) for v in self.graph.structure.forest(hierarchy).children(self.vertex).tolist()]

    def ancestors_in(self, hierarchy: str) -> Sequence[Pool]:
        """The ancestors in the hierarchy of this name, parent first.

        Errors: as for `parent_in`.
        """
        return [Pool(self.graph, v) for v in self.graph.structure.forest(hierarchy).ancestors(self.vertex)]

    @property
    def graphs(self) -> list[str]:
        """Names of the auxiliary graphs that have an edge from or to it."""
        return self.graph.structure.graphs_of(self.vertex)

    def links(self, subsystem: str | None = None, direction: Direction = "out") -> list[tuple[Pool, dict[str, Any]]]:
        """Pools that edges of this pool lead to, with the attributes of each edge (RFC 4 graph data).

        Args:
            subsystem: an auxiliary graph; all by default. The attribute `subsystem` of an edge is its graph.
            direction: ``out``; ``in`` for the pools that edges come from; ``both`` for outgoing, then incoming edges.

        Errors: UnknownGraph; UsageError for another direction.
        """
        if direction not in ("out", "in", "both"):
            raise UsageError(f"direction: expected 'out', 'in' or 'both', got {direction!r}")
        structure, v = self.graph.structure, self.vertex
        found: list[tuple[Pool, dict[str, Any]]] = []
        for graph in structure.subsystems.values() if subsystem is None else [structure.subsystem(subsystem)]:
            for wanted, rows, ends in (("out", graph.out_rows, graph.dst), ("in", graph.in_rows, graph.src)):
                if direction in (wanted, "both"):
                    found += [(Pool(self.graph, ends.item(row)), graph.edge_data(row)) for row in rows(v).tolist()]
        return found

    # -- allocation data ---------------------------------------------------------------------------------------------

    @property
    def exclusive_required(self) -> bool:
        """Whether it may only be allocated exclusively."""
        return bool(self.graph.structure.flags.item(self.vertex) & EXCLUSIVE)

    @property
    def exclusive(self) -> bool:
        """Whether one job holds all its units now, itself or through a pool above."""
        return self.holder is not None

    @property
    def holder(self) -> str | None:
        """The job that holds all of it now, itself or through a pool above, or None."""
        with self.graph.lock:
            found = self.graph.records.exclusive_holder(self.vertex, self.graph.now())
        return None if found is None else found[1]

    @property
    def shared(self) -> list[str]:
        """Jobs that hold something below it now (RFC 4 `shared`)."""
        return self.shared_by()

    def shared_by(self, at: Time | None = None, duration_s: Length | None = None) -> list[str]:
        """Jobs that hold something below it at a moment, or at some moment of a window."""
        with self.graph.lock:
            start, end = self.graph.window(at, duration_s)
            return sorted(self.graph.records.shared_jobs(self.vertex, start, end))

    @property
    def staged(self) -> bool:
        """Whether a stage locks units of it."""
        with self.graph.lock:
            return self.graph.records.is_staged(self.vertex)

    def allocated(self, at: Time | None = None) -> int:
        """Units held at a moment (now by default), including those that a pool above implies."""
        with self.graph.lock:
            return units_held(self.graph, self.vertex, *self.graph.window(at, None))

    def available(self, at: Time | None = None, duration_s: Length | None = None) -> int:
        """Units free at a moment, or throughout a window; 0 when its state or one above forbids new work (rule A7).

        A pass-through pool of a copy has none. Units locked by a stage that has expired become free with the next change or
        `expire()`: a query changes nothing.
        """
        with self.graph.lock:
            return units_free(self.graph, self.vertex, *self.graph.window(at, duration_s))

    def allocations(self, start: Time | None = None, end: Time | None = None) -> list[Span]:
        """Records that have begun by now and overlap the window (from now on by default), by start."""
        return self._select(start, end, begun=True)

    def reservations(self, start: Time | None = None, end: Time | None = None) -> list[Span]:
        """Records that begin after now and overlap the window (from now on by default), by start."""
        return self._select(start, end, begun=False)

    def _select(self, start: Time | None, end: Time | None, *, begun: bool) -> list[Span]:
        with self.graph.lock:
            now = self.graph.now()
            lo, hi = self.graph.open_window(start, end)
            where = self.where
            return [
                Span(job, amount, seconds(s), seconds(e), where)
                for job, s, e, amount in self.graph.records.spans(self.vertex, lo, hi)
                if (s <= now) == begun
            ]

    def allocate(
        self, amount: int, job: str, start: Time | None = None, end: Time | None = None, duration_s: Length | None = None
    ) -> Allocation:
        """Allocate `amount` units to a job, in addition to those it holds (RFC 4 Allocate(N, S)).

        Errors: InsufficientResources (with `.earliest`), InfeasibleRequest, UsageError; nothing changes then.
        """
        return self.graph.allocate([(self, amount)], job=job, start=start, end=end, duration_s=duration_s)

    def free(self, job: str, amount: int | None = None, start: Time | None = None, end: Time | None = None) -> None:
        """Free a job's units, all or `amount` of them (RFC 4 Free(S, [N])).

        Errors: UnknownJob, NotHeld; nothing changes then.
        """
        if amount is not None and (isinstance(amount, bool) or not isinstance(amount, int)):
            raise UsageError(f"amount: expected a whole number of units, got {amount!r}", where=self.where)
        self.graph.free(job, [(self, amount)], start=start, end=end)


def units_free(graph: ResourceGraph, v: int, start: int, end: int) -> int:
    """Units of one pool that are free throughout a window in ticks, 0 where a state forbids new work (rule A7)."""
    return 0 if graph.structure.unavailable_above(v) >= 0 else graph.planner.free(v, start, end)


def units_held(graph: ResourceGraph, v: int, start: int, end: int) -> int:
    """Most units of one pool that are held at a moment of a window in ticks, those implied by a pool above included."""
    if graph.planner.covered_by(v, start, end) >= 0:
        held: int = graph.structure.units.item(v)
        return held
    return graph.planner.used(v, start, end)
