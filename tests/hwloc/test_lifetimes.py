"""Everything read from a topology raises an error after the topology is gone, and never crashes."""

from __future__ import annotations

import copy
import gc
import pickle
import threading
from collections.abc import Callable
from typing import Any

import pytest

from fluxres.hwloc import Topology
from fluxres.hwloc.bitmap import Bitmap
from fluxres.hwloc.hwobject import NumaNode, Object
from fluxres.hwloc.topology import TypeFilter
from tests.hwloc.test_attributes import with_distances


def _properties(found: object) -> list[str]:
    return [name for name in dir(type(found)) if isinstance(getattr(type(found), name), property)]


@pytest.mark.parametrize("index", range(4), ids=["machine", "NUMA node", "L3 cache", "PU"])
def test_objects_of_a_destroyed_topology_are_invalid(machine: Topology, index: int) -> None:
    memory, processor = next(machine.iter_numa_nodes()), next(machine.iter_cpus())
    found = [machine.get_root_obj(), memory, machine.get_obj_by_depth(2, 0), processor][index]
    assert isinstance(found, Object)
    other = copy.copy(found)
    machine.destroy()
    for each in (found, other):
        for name in _properties(each):
            with pytest.raises(RuntimeError, match="Topology is invalid"):
                getattr(each, name)
        for call in (str, repr, hash, lambda it: it == it, lambda it: list(it.iter_children()), lambda it: it.add_info("a", "b")):
            with pytest.raises(RuntimeError, match="Topology is invalid"):
                call(each)
        for call in (each.get_info_by_name, each.format_attr):
            with pytest.raises(RuntimeError, match="Topology is invalid"):
                call("x")


def test_objects_of_a_collected_topology_are_invalid() -> None:
    found = Topology.from_synthetic("pu:2", load=True).get_root_obj()
    gc.collect()
    with pytest.raises(RuntimeError, match="Topology is invalid"):
        _ = found.type


def test_matrices_kinds_attributes_and_iterators_of_a_destroyed_topology_are_invalid() -> None:
    topology = with_distances()
    matrix, kinds, memory = topology.get_distances()[0], topology.get_cpukinds(), topology.get_memattrs()
    capacity, walk, bits = memory.get("Capacity"), topology.iter_cpus(), topology.cpuset
    node = next(topology.iter_numa_nodes())
    attributes, pages = node.attr, node.attr.page_types
    assert next(walk).logical_index == 0
    topology.destroy()
    topology.destroy()
    uses: list[Callable[[], Any]] = [
        *(lambda name=name: getattr(matrix, name) for name in _properties(matrix)),
        lambda: matrix[0, 1],
        lambda: matrix.find_object_index(node),
        lambda: repr(matrix),
        kinds.n_kinds,
        lambda: kinds.get_info(0),
        lambda: capacity.get_value(node),
        lambda: capacity.name,
        lambda: memory.get("Latency"),
        lambda: memory.get_local_numa_nodes({0}),
        lambda: next(walk),
    ]
    for use in uses:
        with pytest.raises(RuntimeError, match=r"Topology (is invalid|has been destroyed)"):
            use()
    matrix.release()
    # Bitmaps and attributes are copies.
    assert bits.weight() == 4
    assert attributes.local_memory == 1 << 30
    assert (pages[0].size, attributes.page_types_len) == (4096, 1)


_USES = "depth cpuset info native_handle n_cpus get_root_obj load export_xml_buffer check get_support"


@pytest.mark.parametrize("name", _USES.split())
def test_destroyed_topology_raises(machine: Topology, name: str) -> None:
    machine.destroy()
    assert not machine.is_loaded
    assert not machine.is_this_system()
    with pytest.raises(RuntimeError, match="destroyed"):
        getattr(machine, name)()
    for use in (copy.copy, copy.deepcopy, pickle.dumps, lambda it: it.set_all_types_filter(TypeFilter.KEEP_ALL)):
        with pytest.raises(RuntimeError, match="destroyed"):
            use(machine)


def test_objects_removed_by_restrict_are_invalid(machine: Topology) -> None:
    cores = list(machine.iter_cores())
    matrix_of = with_distances()
    matrix, nodes = matrix_of.get_distances()[0], list(matrix_of.iter_numa_nodes())
    machine.restrict(Bitmap.from_list_string("0-3"), 0)
    assert [core.logical_index for core in cores[:2]] == [0, 1]
    for core in cores[2:]:
        with pytest.raises(RuntimeError, match="removed from its topology"):
            _ = core.os_index
    from fluxres.hwloc.topology import RestrictFlags

    matrix_of.restrict(Bitmap.from_sched_set({0, 1}), RestrictFlags.REMOVE_CPULESS)
    assert isinstance(nodes[0], NumaNode)
    assert nodes[0].local_memory == 1 << 30
    with pytest.raises(RuntimeError, match="removed"):
        _ = nodes[1].local_memory
    with pytest.raises(RuntimeError, match="removed"):
        _ = matrix.objects
    matrix_of.destroy()


def test_objects_cannot_be_pickled(machine: Topology) -> None:
    with pytest.raises((TypeError, ValueError), match="pickle"):
        pickle.dumps(machine.get_root_obj())


def _read(topology: Topology, running: threading.Barrier, ends: list[str]) -> None:
    """Read everything until the topology is destroyed."""
    matrix, root = topology.get_distances()[0], topology.get_root_obj()
    running.wait()
    try:
        while True:
            for core in topology.iter_cpus():
                assert (core.cpuset or Bitmap()).weight() == 1
                assert core.parent is not None
                assert root.info
            assert matrix[0, 1] == 20
            assert len(matrix.objects) == 2
            topology.get_distances()
    except RuntimeError as error:
        ends.append(str(error))


def test_destroying_a_topology_while_threads_read_it() -> None:
    for _ in range(20):
        topology = with_distances()
        ends: list[str] = []
        running = threading.Barrier(4)
        threads = [threading.Thread(target=_read, args=(topology, running, ends)) for _ in range(3)]
        for thread in threads:
            thread.start()
        running.wait()
        copied = copy.copy(topology)
        topology.destroy()
        for thread in threads:
            thread.join(20)
        assert len(ends) == 3
        assert all("invalid" in end or "destroyed" in end or "released" in end for end in ends)
        assert copied.n_cpus() == 4
        copied.destroy()


def test_released_and_outliving_matrices_are_invalid() -> None:
    topology = with_distances()
    first, second = topology.get_distances()[0], topology.get_distances()[0]
    assert first != second
    assert {first, second} == {second, first}
    first.release()
    with pytest.raises(RuntimeError, match="released"):
        _ = first.nbobjs
    first.release()
    del topology
    gc.collect()
    with pytest.raises(RuntimeError, match="invalid"):
        _ = second.nbobjs
    for make in (copy.copy, copy.deepcopy):
        with pytest.raises(RuntimeError, match="cannot be copied"):
            make(second)
