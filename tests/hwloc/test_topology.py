"""Topologies: sources, levels and objects, changes, export."""

from __future__ import annotations

import copy
import ctypes
import os
import pickle
import re
from pathlib import Path

import pytest

import fluxres.hwloc as pyhwloc
from fluxres.hwloc.bitmap import Bitmap
from fluxres.hwloc.hwobject import (
    Bridge,
    Cache,
    GetTypeDepth,
    NumaNode,
    Object,
    ObjOsdevType,
    ObjType,
    ObjTypeCmp,
    OsDevice,
    PciDevice,
    compare_types,
)
from fluxres.hwloc.topology import (
    AllowFlags,
    ExportSyntheticFlags,
    ExportXmlFlags,
    Topology,
    TopologyFlags,
    TypeFilter,
    get_api_version,
)
from fluxres.hwloc.utils import PciId
from tests.traceability import ROOT

MACHINE = "package:2 l3:2 core:2 pu:2"
NODE = ROOT / "data" / "fuzz" / "hwloc" / "gpu-node.xml"


def _objects(given: Topology | str) -> str:
    """The XML without the support flags of the machine that wrote it."""
    text = given if isinstance(given, str) else given.export_xml_buffer()
    return re.sub(r"\n  <support [^>]*>", "", text)


def test_levels(machine: Topology) -> None:
    assert machine.depth == 5
    assert [machine.get_depth_type(depth).name for depth in range(5)] == ["MACHINE", "PACKAGE", "L3CACHE", "CORE", "PU"]
    assert [machine.get_nbobjs_by_depth(depth) for depth in range(5)] == [1, 2, 4, 8, 16]
    assert (machine.n_packages(), machine.n_cores(), machine.n_cpus(), machine.n_numa_nodes()) == (2, 8, 16, 1)
    assert machine.get_nbobjs_by_type(ObjType.L3CACHE) == 4
    assert machine.get_nbobjs_by_type(ObjType.GROUP) == machine.n_os_devices() == machine.n_pci_devices() == 0
    assert machine.get_nbobjs_by_depth(GetTypeDepth.NUMANODE) == 1
    assert [found.logical_index for found in machine.iter_cores()] == [*range(8)]
    assert len(list(machine.iter_all_breadth_first())) == 1 + 2 + 4 + 8 + 16
    assert [found.os_index for found in machine.iter_cpus()] == [*range(16)]
    with pytest.raises(ValueError, match="ObjType"):
        machine.get_depth_type(99)


def test_single_objects(machine: Topology) -> None:
    core = machine.get_obj_by_type(ObjType.CORE, 5)
    assert core == machine.get_obj_by_depth(3, 5)
    assert core != machine.get_obj_by_depth(3, 4)
    assert core is not None
    assert {core: 1}[core] == 1
    assert machine.get_obj_by_depth(3, 8) is None
    assert machine.get_obj_by_depth(3, -1) is None
    assert machine.get_obj_by_type(ObjType.DIE, 0) is None
    found = machine.get_pu_obj_by_os_index(11)
    assert found is not None
    assert found.parent == core
    assert machine.get_pu_obj_by_os_index(16) is None
    node = machine.get_numanode_obj_by_os_index(0)
    assert isinstance(node, NumaNode)
    assert node.local_memory == node.total_memory == 1 << 30
    assert [(page.size, page.count) for page in node.page_types] == [(4096, 262144)]
    assert machine.get_root_obj().is_machine()


def test_parents_children_and_siblings(machine: Topology) -> None:
    root = machine.get_root_obj()
    package = root.first_child
    assert package is not None
    assert package.is_package()
    assert package.is_normal()
    assert [child.sibling_rank for child in root.children] == [0, 1]
    assert [*root.iter_children()] == root.children == [package, root.last_child]
    assert package.next_sibling == root.children[1] == package.next_cousin
    assert root.children[1].prev_sibling == package == root.children[1].prev_cousin
    assert [*root.children[1].iter_siblings()] == root.children
    assert (root.arity, root.memory_arity, root.io_arity, root.misc_arity) == (2, 1, 0, 0)
    assert [child.type for child in root.iter_memory_children()] == [ObjType.NUMANODE]
    assert root.memory_first_child == next(machine.iter_numa_nodes())
    assert root.io_first_child is root.misc_first_child is root.parent is None
    assert [*root.iter_io_children(), *root.iter_misc_children()] == []
    assert root.symmetric_subtree
    cores = list(machine.iter_cores())
    assert cores[0].common_ancestor_obj(cores[1]).type == ObjType.L3CACHE
    assert cores[0].common_ancestor_obj(cores[7]) == root
    assert cores[0].common_ancestor_obj(cores[0]) == cores[0]
    assert cores[0].common_ancestor_obj(package) == package
    assert cores[5].get_ancestor_obj_by_depth(1) == root.children[1]
    assert cores[5].get_ancestor_obj_by_depth(3) == cores[5]
    assert cores[5].get_ancestor_obj_by_depth(4) is None
    assert cores[5].get_ancestor_obj_by_type(ObjType.PACKAGE) == root.children[1]
    assert cores[5].get_ancestor_obj_by_type(ObjType.PU) is None
    assert cores[5].is_in_subtree(root.children[1])
    assert not cores[5].is_in_subtree(package)
    with pytest.raises(ValueError, match="main tree"):
        cores[0].common_ancestor_obj(next(machine.iter_numa_nodes()))


def test_cpusets_and_nodesets(machine: Topology) -> None:
    core = machine.get_obj_by_type(ObjType.CORE, 2)
    assert core is not None
    assert (str(core.cpuset), str(core.complete_cpuset)) == ("4-5", "4-5")
    assert (str(core.nodeset), str(core.complete_nodeset)) == ("0", "0")
    assert str(machine.cpuset) == str(machine.allowed_cpuset) == "0-15"
    assert str(machine.allowed_nodeset) == "0"
    # It is a copy, so that changing it does not change the topology.
    given = core.cpuset
    assert given is not None
    given.zero()
    assert str(core.cpuset) == "4-5"


def test_object_attributes_and_info(machine: Topology) -> None:
    cache = machine.get_obj_by_type(ObjType.L3CACHE, 0)
    assert isinstance(cache, Cache)
    assert (cache.cache_depth, cache.cache_type) == (3, 0)
    assert (cache.is_cache(), cache.is_dcache(), cache.is_icache()) == (True, True, False)
    assert cache.size == cache.attr.size > 0
    assert str(cache.attr).startswith("CacheAttr(size=")
    assert "size=" in (cache.format_attr() or "")
    root = machine.get_root_obj()
    assert root.attr is None
    assert root.info["Backend"] == "Synthetic" == root.get_info_by_name("Backend") == machine.info["Backend"]
    root.add_info("Site", "здесь")
    assert root.info["Site"] == root.get_info_by_name("Site") == "здесь"
    assert root.get_info_by_name("nothing") is None
    root.add_info("Long", "x" * 5000)
    assert "x" * 5000 in (root.format_attr() or "")
    with pytest.raises(ValueError, match="non-empty"):
        root.add_info("", "value")
    assert (root.name, root.subtype) == (None, None)
    assert root.gp_index != cache.gp_index
    assert str(root) == "MACHINE#0"
    assert repr(cache) == "Object(type=L3CACHE, logical_index=0, depth=2)"
    with pytest.raises(ValueError, match="PCI"):
        _ = root.pci_id


def test_io_devices() -> None:
    with Topology.from_xml_file(NODE).set_io_types_filter(TypeFilter.KEEP_ALL) as topology:
        devices = {found.name: found for found in topology.iter_os_devices()}
        assert topology.n_os_devices() == len(devices) == 10
        rsmi, disk, vector = devices["rsmi1"], devices["nvme0n1"], devices["ve0"]
        assert isinstance(rsmi, OsDevice)
        assert (rsmi.is_gpu(), rsmi.is_coproc(), rsmi.is_storage(), rsmi.subtype) == (True, False, False, "RSMI")
        assert (disk.is_storage(), disk.is_gpu(), vector.is_coproc(), vector.is_os_device()) == (True, False, True, True)
        assert devices["hsn0"].is_osdev_type(ObjOsdevType.NETWORK)
        assert devices["cxi0"].is_osdev_type(ObjOsdevType.OPENFABRICS | ObjOsdevType.DMA)
        assert not devices["cxi0"].is_osdev_type(ObjOsdevType.NETWORK)
        assert str(rsmi) == "OS_DEVICE#2 (rsmi1) [RSMI]"
        card = rsmi.parent
        assert isinstance(card, PciDevice)
        assert card.is_pci_device()
        assert card.is_io()
        assert not card.is_memory()
        assert (card.vendor_id, card.device_id, card.subvendor_id, card.subdevice_id) == (0x1002, 0x7408, 0x1002, 0x0B0C)
        assert (card.base_class, card.subclass, card.revision, card.func) == (3, 0x80, 1, 0)
        assert card.linkspeed == pytest.approx(31.507692)
        assert card.pci_id == PciId(0, 0xC1, 0) == super(PciDevice, card).pci_id
        assert card.cpuset is card.nodeset is None
        assert not card.is_in_subtree(topology.get_root_obj())
        with pytest.raises(NotImplementedError, match="libhwloc 2"):
            _ = card.prog_if
        bridge = card.parent
        assert isinstance(bridge, Bridge)
        assert bridge.is_bridge()
        assert (bridge.upstream_type.name, bridge.downstream_type().name) == ("HOST", "PCI")
        assert (bridge.downstream_pci.secondary_bus, bridge.downstream_pci.subordinate_bus) == (0xC0, 0xC3)
        assert bridge.upstream_pci.func == 0
        assert len(list(topology.iter_bridges())) == 2
        assert len(list(topology.iter_pci_devices())) == topology.n_pci_devices() == 6
        memory = [found.subtype for found in topology.iter_numa_nodes()]
        assert sorted(str(kind) for kind in memory) == ["GPUMemory", "None", "None"]


def test_sources(tmp_path: Path) -> None:
    with Topology() as here, Topology.from_this_system(load=True) as same, Topology.from_pid(os.getpid(), load=True) as own:
        assert here.is_loaded
        assert here.is_this_system()
        assert here.n_cpus() == same.n_cpus() == own.n_cpus() >= 1
        text = here.export_xml_buffer()
        here.export_xml_file(tmp_path / "here.xml")
    file = tmp_path / "here.xml"
    for other in (Topology.from_xml_buffer(text), Topology.from_xml_file(file), pyhwloc.from_xml_buffer(text, load=True)):
        with other:
            assert not other.is_this_system()
            assert _objects(other) == _objects(text)
    with pytest.raises((OSError, ValueError)):
        Topology.from_xml_file(tmp_path / "missing.xml").load()
    with pytest.raises(ValueError, match="Invalid argument"):
        Topology.from_synthetic("nonsense:4")


def test_export_of_older_xml_and_synthetic_descriptions(machine: Topology) -> None:
    assert 'type="Socket"' in machine.export_xml_buffer(ExportXmlFlags.V1)
    text = machine.export_synthetic(0)
    assert re.search(r"Package:2 .*Core:2 PU:2", text)
    flags = [ExportSyntheticFlags.NO_ATTRS, ExportSyntheticFlags.IGNORE_MEMORY]
    assert machine.export_synthetic(flags) == "Package:2 L3Cache:2 Core:2 PU:2"
    with Topology.from_synthetic(text) as again:
        assert again.n_cpus() == 16
    # Longer than the first buffer that export_synthetic allocates.
    numbers = ",".join(str(number * 1237 % 1499) for number in range(1499))
    with Topology.from_synthetic(f"numa:1499(indexes={numbers}) pu:1") as topology:
        assert topology.export_synthetic(0).count(",") == 1498


def test_flags_and_filters_are_set_before_loading() -> None:
    topology = (
        Topology.from_synthetic("package:2 l2:2 core:2 pu:1")
        .set_all_types_filter(TypeFilter.KEEP_ALL)
        .set_cache_types_filter(TypeFilter.KEEP_NONE)
        .set_icache_types_filter(TypeFilter.KEEP_NONE)
        .set_io_types_filter(TypeFilter.KEEP_NONE)
        .set_flags([TopologyFlags.INCLUDE_DISALLOWED])
        .set_components("linux")
    )
    assert not topology.is_loaded
    assert not topology.is_this_system()
    with pytest.raises(RuntimeError, match="not loaded"):
        _ = topology.depth
    with topology:
        assert topology.get_nbobjs_by_type(ObjType.L2CACHE) == 0
        assert topology.get_flags() == TopologyFlags.INCLUDE_DISALLOWED
        assert topology.load() is topology
        with pytest.raises(RuntimeError, match="after topology is loaded"):
            topology.set_all_types_filter(TypeFilter.KEEP_ALL)
        topology.check()


def test_support_flags_match_those_in_exported_xml() -> None:
    with Topology.from_this_system() as topology:
        support = topology.get_support()
        # libhwloc writes the same flags to XML since 2.3.
        written = {*re.findall(r'<support name="(\w+\.\w+)"', topology.export_xml_buffer())} - {"custom.exported_support"}
    said = {f"{group}.{flag}" for group, flags in support._asdict().items() for flag, is_set in flags._asdict().items() if is_set}
    if get_api_version() >= (2, 3, 0):
        assert said == written
    assert support.discovery.pu is True


def test_copies_are_independent(machine: Topology) -> None:
    for other in (copy.copy(machine), copy.deepcopy(machine), pickle.loads(pickle.dumps(machine))):
        with other:
            assert _objects(other) == _objects(machine)
            assert other.get_root_obj() != machine.get_root_obj()
            other.get_root_obj().add_info("only", "here")
        assert "only" not in machine.info
    taken = Topology.from_native_handle(_handle(), True)
    assert taken.n_cpus() == 1
    taken.destroy()


def _handle() -> ctypes.c_void_p:
    given = Topology.from_synthetic("pu:1", load=True)
    handle, given._hdl = given.native_handle, None
    return handle


def test_allow_refresh_and_restrict(machine: Topology) -> None:
    with Topology.from_synthetic(MACHINE).set_flags(TopologyFlags.INCLUDE_DISALLOWED) as other:
        other.allow(Bitmap.from_list_string("0-7"), None, AllowFlags.CUSTOM)
        assert str(other.allowed_cpuset) == "0-7"
        other.allow(None, None, AllowFlags.ALL)
        assert str(other.allowed_cpuset) == "0-15"
    machine.refresh()
    machine.restrict(Bitmap.from_list_string("0-3"), 0)
    assert (machine.n_cores(), machine.n_packages()) == (2, 1)
    with pytest.raises(ValueError, match="Invalid argument"):
        machine.restrict(Bitmap(), 0)


def test_compare_types(machine: Topology) -> None:
    assert compare_types(ObjType.PACKAGE, ObjType.CORE) == ObjTypeCmp.INCLUDE
    assert compare_types(ObjType.CORE, ObjType.PACKAGE) == ObjTypeCmp.INCLUDED_BY
    assert compare_types(machine.get_root_obj(), ObjType.MACHINE) == ObjTypeCmp.EQUAL
    assert compare_types(ObjType.OS_DEVICE, ObjType.CORE) == ObjTypeCmp.UNORDERED


def test_groups_on_several_levels() -> None:
    with Topology.from_synthetic("group:2 group:2 core:2 pu:1") as topology:
        groups = list(topology.iter_objs_by_type(ObjType.GROUP))
        assert len(groups) == 6
        assert all(isinstance(found, Object) and found.is_group() for found in groups)
        assert {found.attr.depth for found in groups if found.attr} == {0, 1}
        assert topology.get_nbobjs_by_type(ObjType.GROUP) == -1
        assert topology.get_obj_by_type(ObjType.GROUP, 0) is None
