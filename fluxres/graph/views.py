"""The containment tree and the auxiliary graphs as networkx graphs that cost nothing to create.

A plain ``networkx.DiGraph`` of a million pools takes seconds and half a gigabyte.  networkx reads a graph only through three
mappings (``_node``, ``_adj``, ``_pred``), so these classes are real DiGraphs whose mappings read the columns, and every algorithm
runs on them.  They are read-only: changes go through the `ResourceGraph`, which owns records and rules.  Graphs derived from a
view (``copy()``, ``subgraph``, ``reverse``) are ordinary networkx graphs, because networkx makes them with ``G.__class__()``,
which without a structure gives a plain DiGraph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from typing import Any, Final, NoReturn, cast

import networkx
import numpy as np

from fluxres.errors import StaleHandle, UsageError
from fluxres.graph.auxiliary import Subsystem
from fluxres.graph.kinds import EXCLUSIVE, STATES
from fluxres.graph.structure import Structure

Free = Callable[[int], int]
_WAY_OUT: Final = (
    "change the machine with tag, state, merge, unlink or add_edge of its ResourceGraph, or call copy() for a graph of your own"
)


def _refuse(*_: Any, **__: Any) -> NoReturn:
    raise UsageError("this graph is a read-only view of the machine", hint=_WAY_OUT)


class Data(dict[str, Any]):
    """Attributes of a node, an edge or a graph, made on request.  It refuses writes, because they would be lost.

    Copies are plain dictionaries.
    """

    __slots__ = ()

    __setitem__ = __delitem__ = __ior__ = _refuse
    update = setdefault = pop = popitem = clear = _refuse

    def copy(self) -> dict[str, Any]:
        return {key: value.copy() if isinstance(value, Data) else value for key, value in self.items()}

    def __deepcopy__(self, memo: dict[int, Any]) -> dict[str, Any]:
        return deepcopy(dict(self), memo)

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (self.copy(),)


_CONTAINS: Final = Data(subsystem="containment", type="contains")


def node_data(s: Structure, v: int) -> Data:
    """The attributes of a pool as a networkx node dictionary.  Cost O(depth)."""
    kind = s.kind_of(v)
    number, rank = s.id.item(v), s.rank.item(v)
    return Data(
        type=kind.type,
        name=s.name(v),
        basename=kind.basename,
        id=None if number < 0 else number,
        size=s.size.item(v),
        unit=kind.unit,
        rank=None if rank < 0 else rank,
        state=STATES[s.state[v]],
        exclusive_only=bool(s.flags.item(v) & EXCLUSIVE),
        uuid=s.uuid(v),
        path=s.where(v),
        properties=Data(kind.properties),
        tags=Data(s.tags.get(v, ())),
    )


def _number(key: object) -> int:
    """A node key as a vertex number, -1 for a key that cannot be one."""
    if type(key) is int:
        return key
    return int(key) if isinstance(key, np.integer) else -1


class StructureRef:
    """The structure that views read, until its graph has another one.

    Views need no check for that on each access: the graph calls `withdraw`, which replaces the structure with an object that
    raises.
    """

    __slots__ = ("structure",)

    def __init__(self, structure: Structure) -> None:
        self.structure = structure

    def withdraw(self) -> None:
        """From now on, every access through a view of this structure raises StaleHandle."""
        self.structure = cast("Structure", _Withdrawn())


class _Withdrawn:
    """Replaces a structure that its graph no longer has."""

    __slots__ = ()

    def __getattr__(self, name: str) -> NoReturn:
        raise StaleHandle("this view was made before the graph changed its structure", hint="ask the graph for the view again")


class _Lazy(Mapping[int, Any]):
    """A mapping that reads the columns and has the further dictionary methods that networkx calls."""

    __slots__ = ("_columns",)

    def __init__(self, columns: StructureRef) -> None:
        self._columns = columns

    def copy(self) -> dict[int, Any]:
        return dict(self)

    __setitem__ = __delitem__ = update = setdefault = pop = popitem = clear = _refuse


# -- containment ---------------------------------------------------------------------------------------------------------


class _Tree(_Lazy):
    """A mapping over the vertices of the containment tree."""

    __slots__ = ()

    def __len__(self) -> int:
        return self._columns.structure.tree_end

    def __iter__(self) -> Iterator[int]:
        return iter(range(self._columns.structure.tree_end))

    def __contains__(self, key: object) -> bool:
        return 0 <= _number(key) < self._columns.structure.tree_end

    def _vertex(self, key: object) -> int:
        v = _number(key)
        if not 0 <= v < self._columns.structure.tree_end:
            raise KeyError(key)
        return v


class _TreeNodes(_Tree):
    __slots__ = ()

    def __getitem__(self, key: int) -> Data:
        return node_data(self._columns.structure, self._vertex(key))


class _TreeSuccessors(_Tree):
    __slots__ = ()

    def __getitem__(self, key: int) -> _Children:
        columns = self._columns
        is_plain = type(key) is int and 0 <= key < columns.structure.tree_end  # saves two calls per vertex of a walk
        return _Children(columns, key if is_plain else self._vertex(key))


class _TreePredecessors(_Tree):
    __slots__ = ()

    def __getitem__(self, key: int) -> _Parent:
        columns = self._columns
        is_plain = type(key) is int and 0 <= key < columns.structure.tree_end
        return _Parent(columns, key if is_plain else self._vertex(key))


class _Parent(_Lazy):
    __slots__ = ("_v",)

    def __init__(self, columns: StructureRef, v: int) -> None:
        self._columns, self._v = columns, v

    def __iter__(self) -> Iterator[int]:
        parent = self._columns.structure.parent.item(self._v)
        return iter((parent,) if parent >= 0 else ())

    def __len__(self) -> int:
        return int(self._columns.structure.parent.item(self._v) >= 0)

    def __contains__(self, key: object) -> bool:
        return _number(key) == self._columns.structure.parent.item(self._v) >= 0

    def __getitem__(self, key: int) -> Data:
        if key not in self:
            raise KeyError(key)
        return _CONTAINS


class _Children(_Lazy):
    """The children of a vertex: the next sibling is one step over a subtree away."""

    __slots__ = ("_v",)

    def __init__(self, columns: StructureRef, v: int) -> None:
        self._columns, self._v = columns, v

    def __iter__(self) -> Iterator[int]:
        end = self._columns.structure.end.item
        child, stop = self._v + 1, end(self._v)
        while child < stop:
            yield child
            child = end(child)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __contains__(self, key: object) -> bool:
        child = _number(key)
        return (
            self._v < child < self._columns.structure.end.item(self._v) and self._columns.structure.parent.item(child) == self._v
        )

    def __getitem__(self, key: int) -> Data:
        if key not in self:
            raise KeyError(key)
        return _CONTAINS


# -- auxiliary graphs ----------------------------------------------------------------------------------------------------


class _Members(_Lazy):
    """A mapping over the vertices that an auxiliary graph touches."""

    __slots__ = ("_free", "_subsystem")

    def __init__(self, columns: StructureRef, graph: Subsystem, free: Free | None) -> None:
        super().__init__(columns)
        self._subsystem, self._free = graph, free

    @property
    def _graph(self) -> Subsystem:
        _ = self._columns.structure.n  # of this generation
        return self._subsystem

    def __len__(self) -> int:
        return len(self._graph.members)

    def __iter__(self) -> Iterator[int]:
        return iter(self._graph.members.tolist())

    def __contains__(self, key: object) -> bool:
        v = _number(key)
        return v >= 0 and self._columns.structure.is_member(self._graph, v)

    def _vertex(self, key: object) -> int:
        if key not in self:
            raise KeyError(key)
        return _number(key)

    def edge_data(self, row: int) -> dict[str, Any]:
        """The attributes of one edge, and how much of its capacity is free."""
        graph = self._graph
        data = graph.edge_data(row)
        if self._free is not None and "capacity" in data:
            (account,) = self._columns.structure.accounts.between(
                graph, graph.src[row : row + 1], graph.dst[row : row + 1]
            ).tolist()
            if account >= 0:
                data["free"] = self._free(account)
        return data


class _MemberNodes(_Members):
    __slots__ = ()

    def __getitem__(self, key: int) -> Data:
        return node_data(self._columns.structure, self._vertex(key))


class _MemberSuccessors(_Members):
    __slots__ = ()

    def __getitem__(self, key: int) -> _Neighbours:
        rows = self._graph.out_rows(self._vertex(key))
        return _Neighbours(self, self._graph.dst[rows].tolist(), rows.tolist())


class _MemberPredecessors(_Members):
    __slots__ = ()

    def __getitem__(self, key: int) -> _Neighbours:
        rows = self._graph.in_rows(self._vertex(key))
        return _Neighbours(self, self._graph.src[rows].tolist(), rows.tolist())


class _Neighbours(_Lazy):
    """The pools at the other ends of some edge rows."""

    __slots__ = ("_found", "_members")

    def __init__(self, members: _Members, ends: list[int], rows: list[int]) -> None:
        super().__init__(members._columns)
        self._members = members
        self._found: dict[int, list[int]] = {}
        for end, row in zip(ends, rows, strict=True):
            self._found.setdefault(end, []).append(row)

    @property
    def _rows(self) -> dict[int, list[int]]:
        _ = self._columns.structure.n  # of this generation
        return self._found

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[int]:
        return iter(self._rows)

    def __contains__(self, key: object) -> bool:
        return _number(key) in self._rows

    def __getitem__(self, key: int) -> Data:
        rows = self._rows.get(_number(key))
        if rows is None:
            raise KeyError(key)
        data = self._members.edge_data(rows[0])
        if len(rows) > 1:
            # A DiGraph has one edge between two nodes, so it has the sum of the capacities and lists all edges as `parallel`.
            parallel = [self._members.edge_data(row) for row in rows]
            data["parallel"] = tuple(map(Data, parallel))
            if all("capacity" in edge for edge in parallel):
                data["capacity"] = sum(edge["capacity"] for edge in parallel)
        return Data(data)


# -- the graphs ----------------------------------------------------------------------------------------------------------


class StructureGraph(networkx.DiGraph):
    """Base of both views: a graph over a structure that refuses changes.

    Node keys are vertex numbers, valid for the generation of the structure.  When its owner has another one, every access through
    the view raises StaleHandle.
    """

    frozen = True

    def __new__(cls, structure: Any = None, *args: Any, **attributes: Any) -> Any:
        """A view, or a plain DiGraph when networkx asks for an empty graph of this class or for one with its own data."""
        if isinstance(structure, Structure):
            return object.__new__(cls)
        return networkx.DiGraph(structure, *args, **attributes)

    def _lay_over(
        self, name: str, nodes: Mapping[int, Any], successors: Mapping[int, Any], predecessors: Mapping[int, Any]
    ) -> None:
        self.graph = Data(name=name)
        self._node = nodes
        self._adj = successors
        self._pred = predecessors
        self.__networkx_cache__: dict[str, Any] = {}

    add_node = add_nodes_from = add_edge = add_edges_from = add_weighted_edges_from = _refuse
    remove_node = remove_nodes_from = remove_edge = remove_edges_from = _refuse
    clear = clear_edges = update = _refuse


class ContainmentGraph(StructureGraph):
    """The containment tree: an edge leads from a pool to each pool it contains (RFC 4, "Composite Resource Data").

    Cost: nothing to make; a step to a child or the parent is one column access.

    >>> networkx.is_empty(ContainmentGraph())
    True
    """

    def __init__(self, structure: Structure, columns: StructureRef | None = None) -> None:
        self.structure, columns = structure, columns or StructureRef(structure)
        self._lay_over(structure.hierarchy, _TreeNodes(columns), _TreeSuccessors(columns), _TreePredecessors(columns))

    def __reduce__(self) -> tuple[Any, ...]:
        return ContainmentGraph, (self.structure,)


class SubsystemGraph(StructureGraph):
    """An auxiliary graph (RFC 4, "Resource Graph Data"): its nodes are the pools that its edges touch.

    If several edges join the same two pools in the same direction, the view has one edge with the data of the first, `parallel`
    with the data of each, and the sum of their capacities.

    Args:
        free: maps an edge account to the units that no job draws now; edges then have this as data.

    Cost: nothing to make; the first access sorts the edges, a step is a binary search.
    """

    def __init__(
        self, structure: Structure, subsystem: Subsystem, columns: StructureRef | None = None, free: Free | None = None
    ) -> None:
        self.structure, self.subsystem = structure, subsystem
        parts = (columns or StructureRef(structure), subsystem, free)
        self._lay_over(subsystem.name, _MemberNodes(*parts), _MemberSuccessors(*parts), _MemberPredecessors(*parts))

    def __reduce__(self) -> tuple[Any, ...]:
        return SubsystemGraph, (self.structure, self.subsystem)
