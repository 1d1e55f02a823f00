"""CPU and memory binding on the machine that runs the tests."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Iterator

import pytest

from fluxres.hwloc import Topology
from fluxres.hwloc.bitmap import Bitmap
from fluxres.hwloc.topology import CpuBindFlags, MemBindFlags, MemBindPolicy
from fluxres.hwloc.utils import memoryview_from_memory


@pytest.fixture
def here() -> Iterator[Topology]:
    allowed = os.sched_getaffinity(0)
    with Topology() as topology:
        yield topology
    os.sched_setaffinity(0, allowed)


def test_cpu_binding(here: Topology) -> None:
    if not here.get_support().cpubind.set_thisproc_cpubind:
        pytest.skip("CPU binding is not supported on this machine")
    allowed = os.sched_getaffinity(0)
    one = max(allowed)
    for target in ({one}, Bitmap.from_sched_set({one}), here.get_pu_obj_by_os_index(one)):
        assert target is not None
        here.set_cpubind(target)
        assert here.get_cpubind().to_sched_set() == os.sched_getaffinity(0) == {one}
        assert here.get_last_cpu_location(CpuBindFlags.THREAD).to_sched_set() == {one}
        here.set_cpubind(allowed, [CpuBindFlags.THREAD, CpuBindFlags.STRICT])
        assert here.get_proc_cpubind(os.getpid()).to_sched_set() == allowed
    here.set_proc_cpubind(os.getpid(), {one})
    assert here.get_proc_last_cpu_location(os.getpid()).to_sched_set() <= allowed
    here.set_thread_cpubind(threading.get_ident(), allowed)
    assert here.get_thread_cpubind(threading.get_ident()).to_sched_set() == allowed


def test_binding_errors(here: Topology) -> None:
    with pytest.raises(ValueError, match="Invalid argument"):
        here.set_cpubind(set())
    with pytest.raises(ValueError, match="no running thread"):
        here.set_thread_cpubind(12345, {0})
    with pytest.raises(ValueError, match="no running thread"):
        here.get_thread_cpubind(0)
    with pytest.raises(TypeError, match="memoryview"):
        here.get_area_membind(b"bytes")
    with pytest.raises(TypeError):
        here.get_area_membind(memoryview(b"not to be written"))


def test_memory_binding(here: Topology) -> None:
    support = here.get_support().membind
    if not (support.set_thisthread_membind and support.bind_membind):
        pytest.skip("memory binding is not supported on this machine")
    _, policy = here.get_membind()
    assert policy in MemBindPolicy
    try:
        here.set_membind(here.get_root_obj(), MemBindPolicy.BIND, MemBindFlags.THREAD)
    except PermissionError:
        pytest.skip("memory binding is not permitted on this machine")
    nodes, policy = here.get_membind([MemBindFlags.THREAD, MemBindFlags.BYNODESET])
    assert (nodes, policy) == (here.allowed_nodeset, MemBindPolicy.BIND)
    here.set_membind(here.allowed_nodeset, MemBindPolicy.DEFAULT, [MemBindFlags.THREAD, MemBindFlags.BYNODESET])


def test_memory_area_binding(here: Topology) -> None:
    if not here.get_support().membind.set_area_membind:
        pytest.skip("memory binding is not supported on this machine")
    size = 1 << 16
    buffer = (ctypes.c_uint32 * (size // 4))()
    view = memoryview(buffer).cast("B")
    mine = memoryview_from_memory(ctypes.cast(buffer, ctypes.c_void_p), size, False)
    mine[0] = 7
    assert view[0] == 7
    try:
        here.set_area_membind(view, here.get_root_obj(), MemBindPolicy.BIND)
    except PermissionError:
        pytest.skip("memory binding is not permitted on this machine")
    bits, policy = here.get_area_membind(mine)
    assert (bits, policy) == (here.cpuset, MemBindPolicy.BIND)


def test_objects_without_cpus_or_memory_are_rejected_as_targets() -> None:
    from fluxres.hwloc.topology import TypeFilter
    from tests.hwloc.test_topology import NODE

    with Topology.from_xml_file(NODE).set_io_types_filter(TypeFilter.KEEP_ALL) as topology:
        disk = next(topology.iter_os_devices())
        with pytest.raises(ValueError, match="no associated CPUs"):
            topology.set_cpubind(disk)
        with pytest.raises(ValueError, match="no associated NUMA"):
            topology.set_membind(disk, MemBindPolicy.BIND, MemBindFlags.BYNODESET)
