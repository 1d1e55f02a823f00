"""Where an object stands in its topology: the part of it that knows its parents, children and neighbours."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from fluxres.hwloc.utils import TopologyPart

if TYPE_CHECKING:
    from fluxres.hwloc._enums import ObjType
    from fluxres.hwloc._structs import Obj, ObjPtr
    from fluxres.hwloc.hwobject import Object
    from fluxres.hwloc.utils import TopoRef


class Relatives(TopologyPart):
    """A pointer to an object, and whatever it points to."""

    def __init__(self, hdl: ObjPtr, topology: TopoRef) -> None:
        if not hdl:
            raise ValueError("expected a pointer to an object, got NULL")
        self._hdl = hdl
        self._topo_ref = topology
        self._generation = self._topo.generation

    @property
    def native_handle(self) -> ObjPtr:
        """The pointer, checked.

        Errors: RuntimeError when the topology is gone, or the object from it.
        """
        with self._read():
            return self._hdl

    @contextmanager
    def _read(self) -> Iterator[Obj]:
        """The structure, while nobody may destroy it."""
        with self._valid():
            topology = self._topo
            if self._generation != topology.generation:
                if ctypes.addressof(self._hdl.contents) not in topology.addresses():
                    raise RuntimeError("Object is invalid: it was removed from its topology")
                self._generation = topology.generation
            yield self._hdl.contents

    def _field(self, name: str) -> Any:
        with self._read() as found:
            return getattr(found, name)

    def _text(self, name: str) -> str | None:
        value = self._field(name)
        return value.decode("utf-8", "replace") if value else None

    def _relative(self, name: str) -> Object | None:
        from fluxres.hwloc.hwobject import object_of

        with self._read() as found:
            handle = getattr(found, name)
            return object_of(handle, self._topo_ref) if handle else None

    # -- its place ---------------------------------------------------------------------------------------------------

    @property
    def depth(self) -> int:
        """Level in the tree; memory, devices and remarks have a negative one of their own."""
        return int(self._field("depth"))

    @property
    def logical_index(self) -> int:
        """Number among the objects of its level."""
        return int(self._field("logical_index"))

    @property
    def sibling_rank(self) -> int:
        """Number among the children of its parent."""
        return int(self._field("sibling_rank"))

    @property
    def parent(self) -> Object | None:
        """What it is in; None for the machine."""
        return self._relative("parent")

    @property
    def next_cousin(self) -> Object | None:
        """The next one of its level."""
        return self._relative("next_cousin")

    @property
    def prev_cousin(self) -> Object | None:
        """The one before it in its level."""
        return self._relative("prev_cousin")

    @property
    def next_sibling(self) -> Object | None:
        """The next one in its parent."""
        return self._relative("next_sibling")

    @property
    def prev_sibling(self) -> Object | None:
        """The one before it in its parent."""
        return self._relative("prev_sibling")

    def iter_siblings(self) -> Iterator[Object]:
        """All objects of its list in its parent, with itself."""
        first: Any = self
        while (before := first.prev_sibling) is not None:
            first = before
        yield from _chain(first)

    # -- below it ----------------------------------------------------------------------------------------------------

    @property
    def arity(self) -> int:
        """How many normal children."""
        return int(self._field("arity"))

    @property
    def children(self) -> list[Object]:
        """Normal children: no memory, devices or remarks."""
        from fluxres.hwloc.hwobject import object_of

        with self._read() as found:
            return [object_of(found.children[i], self._topo_ref) for i in range(found.arity)]

    @property
    def first_child(self) -> Object | None:
        """First normal child."""
        return self._relative("first_child")

    @property
    def last_child(self) -> Object | None:
        """Last normal child."""
        return self._relative("last_child")

    @property
    def memory_arity(self) -> int:
        """How many memory children."""
        return int(self._field("memory_arity"))

    @property
    def memory_first_child(self) -> Object | None:
        """First memory child."""
        return self._relative("memory_first_child")

    @property
    def io_arity(self) -> int:
        """How many bridges and devices."""
        return int(self._field("io_arity"))

    @property
    def io_first_child(self) -> Object | None:
        """First bridge or device."""
        return self._relative("io_first_child")

    @property
    def misc_arity(self) -> int:
        """How many remarks."""
        return int(self._field("misc_arity"))

    @property
    def misc_first_child(self) -> Object | None:
        """First remark."""
        return self._relative("misc_first_child")

    def iter_children(self) -> Iterator[Object]:
        """Normal children in order."""
        return _chain(self.first_child)

    def iter_memory_children(self) -> Iterator[Object]:
        """Memory in order."""
        return _chain(self.memory_first_child)

    def iter_io_children(self) -> Iterator[Object]:
        """Bridges and devices in order."""
        return _chain(self.io_first_child)

    def iter_misc_children(self) -> Iterator[Object]:
        """Remarks in order."""
        return _chain(self.misc_first_child)

    # -- above it ----------------------------------------------------------------------------------------------------

    def common_ancestor_obj(self, other: Object) -> Object:
        """The nearest object that has both.

        Errors: ValueError for objects outside the main tree, or of another topology.
        """
        self._same(other)
        if self.depth < 0 or other.depth < 0:
            raise ValueError("This function only works with objects in the main tree.")
        # Levels differ between parents where packages are unlike each other: the deeper side goes up first.
        left, right = self._first(), other
        while left != right:
            deeper, higher = left.depth, right.depth
            if deeper >= higher:
                left = _parent(left)
            if higher >= deeper:
                right = _parent(right)
        return left

    def get_ancestor_obj_by_depth(self, depth: int) -> Object | None:
        """The object around it on a level; itself on its own."""
        if self.depth < depth:
            return None
        found: Object | None = self._first()
        while found is not None and found.depth > depth:
            found = found.parent
        return found

    def get_ancestor_obj_by_type(self, obj_type: ObjType) -> Object | None:
        """The nearest object of a type around it."""
        found = self.parent
        while found is not None and found.type != obj_type:
            found = found.parent
        return found

    def _first(self) -> Object:
        from fluxres.hwloc.hwobject import object_of

        with self._read():
            return object_of(self._hdl, self._topo_ref)

    # -- identity ----------------------------------------------------------------------------------------------------

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Relatives) and hash(self) == hash(other)

    def __hash__(self) -> int:
        return ctypes.addressof(self.native_handle.contents)


def _parent(found: Object) -> Object:
    parent = found.parent
    assert parent is not None, "the machine is above everything"
    return parent


def _chain(first: Object | None) -> Iterator[Object]:
    while first is not None:
        yield first
        first = first.next_sibling
