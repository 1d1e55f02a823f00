"""NUMA domains and their memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from fluxres.formats.machine import this_machine
from tests.formats.machine import trees
from tests.formats.machine.outline import notes, said, sizes, values
from tests.formats.machine.trees import GIB, NODE, Tree


def two(root: Path) -> Tree:
    """Two NUMA domains of 8 GiB."""
    tree = Tree(root)
    tree.host("n1", 16 * GIB)
    tree.cpus([(0,), (1,)], [[0], [1]])
    tree.numa({0: ([0], 8 * GIB), 1: ([1], 8 * GIB)})
    return tree


def test_domains_that_the_process_may_not_use(tmp_path: Path) -> None:
    two(tmp_path).status("0-1", "1")
    assert sizes(this_machine(tmp_path, {})) == {1: 8 << 10}


@pytest.mark.parametrize("version", [1, 2])
def test_domains_of_the_cpuset_where_the_process_says_nothing(tmp_path: Path, version: int) -> None:
    tree = two(tmp_path)
    if version == 2:
        tree.cgroup2("/job", cpuset_mems_effective="0")
    else:
        tree.write("proc/self/cgroup", "4:cpuset:/job\n")
        tree.in_cgroup("/job", "cpuset", **{"cpuset.mems": "0"})
    assert sizes(this_machine(tmp_path, {})) == {0: 8 << 10}


def test_mask_of_domains_that_are_not_there_does_not_count(tmp_path: Path) -> None:
    two(tmp_path).status("0-1", "5")
    assert sizes(this_machine(tmp_path, {})) == {0: 8 << 10, 1: 8 << 10}


def test_container_whose_meminfo_says_less_than_its_domains(tmp_path: Path) -> None:
    two(tmp_path).write("proc/meminfo", f"MemTotal:       {4 * GIB} kB\n")
    found = this_machine(tmp_path, {})
    assert sizes(found) == {0: 2 << 10, 1: 2 << 10}
    assert said(found, tmp_path)[2] == (
        "memory of 4096 MiB in 2 NUMA domains, limited by /proc/meminfo (/sys/devices/system/node/node*/meminfo)"
    )


def test_one_domain_has_what_meminfo_says(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    tree.host("n1", 5 * GIB)
    tree.numa({0: ([0], 4 * GIB)})
    assert sizes(this_machine(tmp_path, {})) == {0: 5 << 10}


def test_memory_of_gpus_does_not_count_towards_limits(tmp_path: Path) -> None:
    trees.grace_hopper(tmp_path).cgroup2("/", memory_max=str(100 << 30))
    found = this_machine(tmp_path, {})
    assert (sizes(found), sizes(found, "gpumemory")) == ({0: 100 << 10}, {1: 96 << 10})


def test_kinds_of_memory(tmp_path: Path) -> None:
    trees.xeon_max(tmp_path)
    assert values(this_machine(tmp_path, {}), "memory", "kind") == [None, None, "HBM", "HBM", "CXL"]


def test_memory_that_is_slower_than_that_of_the_cpus_has_no_kind(tmp_path: Path) -> None:
    tree = trees.xeon_max(tmp_path)
    tree.write(f"{NODE}/node2/access0/initiators/read_bandwidth", "20000\n")
    assert values(this_machine(tmp_path, {}), "memory", "kind") == [None, None, None, "HBM", "CXL"]


@pytest.mark.parametrize("text", ["", "MemTotal: many kB\n", "\0", "MemFree: 5 kB\n"])
def test_malformed_meminfo(tmp_path: Path, text: str) -> None:
    Tree(tmp_path).write("proc/meminfo", text)
    found = this_machine(tmp_path, {}, [0])
    assert sizes(found) == {}
    assert notes(found, tmp_path) == ["/proc/meminfo: has no line 'MemTotal: … kB'; ignored", "/proc/meminfo: no memory is known"]


def test_domain_without_meminfo_has_no_memory(tmp_path: Path) -> None:
    tree = two(tmp_path)
    (tree.root / NODE / "node1/meminfo").unlink()
    assert sizes(this_machine(tmp_path, {})) == {0: 8 << 10}
