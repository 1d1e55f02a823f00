"""Distance matrices, memory attributes, CPU kinds."""

from __future__ import annotations

import copy
import errno
import gc

import pytest

from fluxres.hwloc import Topology
from fluxres.hwloc._library import HwLocError
from fluxres.hwloc.bitmap import Bitmap
from fluxres.hwloc.memattrs import LocalNumaNodeFlag, MemAttrFlag, MemAttrId
from fluxres.hwloc.topology import DistancesKind

_MATRIX = """\
  <distances2 type="NUMANode" nbobjs="2" kind="5" name="NUMALatency" indexing="os">
    <indexes length="4">0 1 </indexes>
    <u64values length="12">10 20 30 10 </u64values>
  </distances2>
</topology>"""


def with_distances() -> Topology:
    with Topology.from_synthetic("package:2 [numa(memory=1073741824)] pu:2") as plain:
        text = plain.export_xml_buffer()
    return Topology.from_xml_buffer(text.replace("</topology>", _MATRIX), load=True)


def test_distance_matrix() -> None:
    with with_distances() as topology:
        (matrix,) = topology.get_distances()
        assert (matrix.name, matrix.nbobjs, matrix.shape) == ("NUMALatency", 2, (2, 2))
        nodes = list(topology.iter_numa_nodes())
        assert matrix.objects == nodes
        assert [[matrix[row, column] for column in (0, 1)] for row in (0, 1)] == [[10, 20], [30, 10]]
        assert matrix[nodes[1], nodes[0]] == matrix[1, nodes[0]] == 30
        assert matrix.get_distance(nodes[0], nodes[1]) == (20.0, 30.0)
        assert [matrix.find_object_index(found) for found in (*nodes, topology.get_root_obj())] == [0, 1, -1]
        assert (str(matrix), repr(matrix)) == ("Distance matrix 'NUMALatency'", "Distance(nbobjs=2, name='NUMALatency')")
        for wrong in ((0, 2), (-1, 0), (0, topology.get_root_obj())):
            with pytest.raises(IndexError, match="2x2"):
                matrix[wrong]
        for key in (0, (1, 2, 3)):
            with pytest.raises(TypeError, match="Key must be"):
                matrix[key]
        with pytest.raises(RuntimeError, match="read-only"):
            matrix[0, 0] = 3
        with pytest.raises(ValueError, match="not involved"):
            matrix.get_distance(nodes[0], topology.get_root_obj())
        assert topology.get_distances(DistancesKind.VALUE_BANDWIDTH) == []
        assert len(topology.get_distances([DistancesKind.VALUE_LATENCY, DistancesKind.FROM_OS])) == 1


def test_memory_attributes() -> None:
    with with_distances() as topology:
        known = topology.get_memattrs()
        near, far = topology.iter_numa_nodes()
        capacity = known.get("Capacity")
        assert capacity == known.get(MemAttrId.CAPACITY) == known.get(0) != known.get("Latency")
        assert (capacity.name, str(capacity), repr(capacity)) == ("Capacity", "Capacity", "MemAttr(Capacity)")
        assert (capacity.needs_initiator, capacity.higher_first, capacity.lower_first) == (False, True, False)
        assert capacity.get_value(near) == 1 << 30
        assert dict(capacity.get_targets()) == {near: 1 << 30, far: 1 << 30}
        assert capacity.get_initiators(near) == []
        speed = known.register("Speed", [MemAttrFlag.HIGHER_FIRST, MemAttrFlag.NEED_INITIATOR])
        assert speed.needs_initiator
        assert speed.flags == 5
        speed.set_value(near, 100, {0, 1})
        speed.set_value(far, 40, {0, 1})
        speed.set_value(far, 90, Bitmap.from_sched_set({2, 3}))
        assert speed.get_value(near, {0}) == 100
        assert speed.get_best_target({0}) == (near, 100)
        assert speed.get_best_target(Bitmap.from_sched_set({3})) == (far, 90)
        assert sorted(value for _, value in speed.get_targets({0})) == [40, 100]
        initiator, value = speed.get_best_initiator(far)
        assert isinstance(initiator, Bitmap)
        assert (str(initiator), value) == ("2-3", 90)
        assert sorted((str(bits), value) for bits, value in speed.get_initiators(far)) == [("0-1", 40), ("2-3", 90)]
        package = topology.get_root_obj().children[1]
        assert known.get_local_numa_nodes({2, 3}) == [far] == known.get_local_numa_nodes(package)
        assert known.get_local_numa_nodes({2}, LocalNumaNodeFlag.LARGER_LOCALITY) == [far]
        assert len(known.get_local_numa_nodes({0}, LocalNumaNodeFlag.ALL)) == 2


def test_memory_attribute_errors() -> None:
    with with_distances() as topology:
        known = topology.get_memattrs()
        node = next(topology.iter_numa_nodes())
        with pytest.raises(ValueError, match="Invalid argument"):
            known.get("Nothing")
        with pytest.raises(ValueError, match="Invalid argument"):
            known.get("Bandwidth").get_value(node)
        with pytest.raises(FileNotFoundError):
            known.get("Bandwidth").get_best_target({0})
        with pytest.raises(ValueError, match="Invalid argument"):
            known.register("Both", [MemAttrFlag.HIGHER_FIRST, MemAttrFlag.LOWER_FIRST])
        with pytest.raises(HwLocError) as taken:
            known.register("Capacity", MemAttrFlag.HIGHER_FIRST)
        assert taken.value.errno == errno.EBUSY
        with pytest.raises(TypeError, match="Initiator cannot be None"):
            known.get_local_numa_nodes(None)
        with pytest.raises(TypeError, match="Invalid initiator"):
            known.get("Latency").get_targets("0")


def test_cpu_kinds(machine: Topology) -> None:
    kinds = machine.get_cpukinds()
    assert kinds.n_kinds() == 0
    fast, frugal = Bitmap.from_list_string("0-7"), Bitmap.from_list_string("8-15")
    kinds.register(fast, 20, {"CoreType": "fast", "Nom": "véloce"})
    kinds.register(frugal, 10)
    assert kinds.n_kinds() == 2
    assert kinds.get_info(0) == (frugal, 0, {})
    assert kinds.get_info(1) == (fast, 1, {"CoreType": "fast", "Nom": "véloce"})
    assert kinds.get_kind_by_cpuset(Bitmap.from_sched_set({3})) == 1
    with pytest.raises(HwLocError, match="partially included") as partly:
        kinds.get_kind_by_cpuset(Bitmap.from_list_string("7-8"))
    assert partly.value.errno == errno.EXDEV
    with pytest.raises(HwLocError, match="not included in any") as none:
        kinds.get_kind_by_cpuset(Bitmap.from_list_string("99"))
    assert none.value.errno == errno.ENOENT
    with pytest.raises(ValueError, match="Invalid argument"):
        kinds.register(Bitmap(), 1)
    with pytest.raises((ValueError, FileNotFoundError)):
        kinds.get_info(7)
    with pytest.raises(RuntimeError, match="deep-copied"):
        copy.deepcopy(kinds)


def test_objects_of_another_topology_are_rejected(machine: Topology) -> None:
    with with_distances() as topology:
        foreign, own = next(machine.iter_numa_nodes()), next(topology.iter_numa_nodes())
        capacity = topology.get_memattrs().get("Capacity")
        for use in (
            lambda: capacity.get_value(foreign),
            lambda: capacity.get_initiators(foreign),
            lambda: topology.get_memattrs().get_local_numa_nodes(foreign),
            lambda: topology.get_root_obj().common_ancestor_obj(machine.get_root_obj()),
        ):
            with pytest.raises(ValueError, match="belongs to another topology"):
                use()
        assert own != foreign
        assert topology.get_distances()[0].find_object_index(foreign) == -1


def test_unreleased_matrices_are_freed_by_the_next_get_distances() -> None:
    with with_distances() as topology:
        for _ in range(3):
            topology.get_distances()
        gc.collect()
        assert len(topology.orphans) == 1
        kept = topology.get_distances()
        assert topology.orphans == []
    assert kept
