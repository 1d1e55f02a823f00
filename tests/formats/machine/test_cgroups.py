"""Quotas and limits of cgroups, wherever in the hierarchy and however mounted."""

from __future__ import annotations

from pathlib import Path

import pytest

from fluxres.formats.machine import this_machine
from fluxres.formats.machine.cgroups import Cgroups
from fluxres.formats.machine.files import Files
from tests.formats.machine import trees
from tests.formats.machine.outline import said, sizes, values
from tests.formats.machine.trees import GIB, Tree


def cgroups(root: Path) -> Cgroups:
    return Cgroups(Files(root))


def eight(root: Path) -> Tree:
    """A machine of eight cores of two threads in two sockets, which are NUMA domains of 8 and 24 GiB."""
    tree = Tree(root)
    tree.host("n1", 32 * GIB)
    tree.cpus([(cpu, cpu + 8) for cpu in range(8)], [[*range(4), *range(8, 12)], [*range(4, 8), *range(12, 16)]])
    tree.numa({0: ([*range(4), *range(8, 12)], 8 * GIB), 1: ([*range(4, 8), *range(12, 16)], 24 * GIB)})
    return tree


# -- quota -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("quota", "cores"),
    [
        ("max 100000", 8),
        ("1600000 100000", 8),
        ("800000 100000", 8),
        ("799999 100000", 7),
        ("250000 100000", 2),
        ("299999 100000", 2),
        ("300000 100000", 3),
        ("150000 50000", 3),
        ("50000 100000", 1),
        ("1000 1000000", 1),
    ],
)
def test_whole_cpus_of_a_quota_and_at_least_one(tmp_path: Path, quota: str, cores: int) -> None:
    eight(tmp_path).cgroup2("/", cpu_max=quota)
    found = this_machine(tmp_path, {})
    assert len(found.structure.of_type("core")) == cores
    # Cores are places again where the quota is enough for all of them.
    assert values(found, "core", "cpus")[0] == ("0,8" if cores == 8 else "0-15")
    assert len(found.structure.of_type("socket")) == (2 if cores == 8 else 1)


def test_quota_that_is_enough_is_said(tmp_path: Path) -> None:
    eight(tmp_path).cgroup2("/", cpu_max="1200000 100000")
    assert said(this_machine(tmp_path, {}), tmp_path)[2] == "quota of 12 CPUs, enough for all cores (/sys/fs/cgroup/cpu.max)"


def test_the_tightest_quota_of_all_ancestors_counts(tmp_path: Path) -> None:
    tree = eight(tmp_path)
    tree.cgroup2("/a/b/c", cpu_max="max 100000")
    tree.in_cgroup("/a/b", cpu_max="400000 100000")
    tree.in_cgroup("/a", cpu_max="200000 100000")
    tree.in_cgroup("", cpu_max="600000 100000")
    found = cgroups(tmp_path).quota()
    assert found == (2.0, "/sys/fs/cgroup/a/cpu.max")


def test_docker_of_version_1_shows_a_part_of_the_hierarchy(tmp_path: Path) -> None:
    trees.docker1(tmp_path)
    found = cgroups(tmp_path)
    assert found.quota() == (2.5, "/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us")
    assert found.memory() == (8 << 30, "/sys/fs/cgroup/memory/memory.limit_in_bytes")
    assert found.cpus() == ({*range(8, 16), *range(72, 80)}, "/sys/fs/cgroup/cpuset/cpuset.effective_cpus")


def test_version_1_without_limits(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    tree.write("proc/self/cgroup", "2:memory:/x\n1:cpu:/x\n0::/\n")
    tree.in_cgroup("/x", "cpu", **{"cpu.cfs_quota_us": "-1", "cpu.cfs_period_us": "100000"})
    tree.in_cgroup("/x", "memory", **{"memory.limit_in_bytes": "9223372036854771712"})
    assert cgroups(tmp_path).quota() is None
    assert cgroups(tmp_path).memory() is None


def test_hybrid_hierarchy(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    tree.write("proc/self/cgroup", "3:cpu,cpuacct:/user\n1:name=systemd:/user/session\n0::/user/session\n")
    mounts = [
        "31 23 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
        "32 23 0:29 / /cg/with\\040blank rw shared:3 - cgroup cg rw,cpu,cpuacct\n",
    ]
    tree.write("proc/self/mountinfo", "".join(mounts))
    tree.write("cg/with blank/user/cpu.cfs_quota_us", "150000\n")
    tree.write("cg/with blank/user/cpu.cfs_period_us", "100000\n")
    assert cgroups(tmp_path).quota() == (1.5, "/cg/with blank/user/cpu.cfs_quota_us")
    assert cgroups(tmp_path).memory() is None


@pytest.mark.parametrize("path", ["/../../other", "/elsewhere/on/the/host", "/gone (deleted)"])
def test_path_outside_of_what_is_mounted(tmp_path: Path, path: str) -> None:
    tree = Tree(tmp_path)
    tree.cgroup2("/", cpu_max="200000 100000")
    tree.write("proc/self/cgroup", f"0::{path}\n")
    assert cgroups(tmp_path).quota() == (2.0, "/sys/fs/cgroup/cpu.max")


@pytest.mark.parametrize(
    "text", ["", "x", "max", "250000", "a b", "0 100000", "-5 100000", "100000 0", "1 2 3", "\0\1\2", "9" * 40]
)
def test_malformed_quotas_do_not_count(tmp_path: Path, text: str) -> None:
    eight(tmp_path).cgroup2("/", cpu_max=text)
    assert len(this_machine(tmp_path, {}).structure.of_type("core")) == 8


@pytest.mark.parametrize("text", ["", "0::", "0", ":", "::::", "x:y:z", "0::/\n0::/a", "\0" * 100, "0::/" + "a/" * 9000])
def test_malformed_lists_of_cgroups(tmp_path: Path, text: str) -> None:
    Tree(tmp_path).write("proc/self/cgroup", text)
    Tree(tmp_path).write("proc/self/mountinfo", f"{text}\n - cgroup\n1 2 3 - cgroup2\na b c d e - cgroup c\n")
    assert cgroups(tmp_path).quota() is None


# -- memory ------------------------------------------------------------------------------------------------------------------


def test_limit_is_divided_by_the_sizes_of_the_domains(tmp_path: Path) -> None:
    eight(tmp_path).cgroup2("/", memory_max=str(4 << 30))
    assert sizes(this_machine(tmp_path, {})) == {0: 1 << 10, 1: 3 << 10}


@pytest.mark.parametrize("mib", [1, 2, 3, 1001, 32767])
def test_parts_of_a_limit_come_to_the_limit(tmp_path: Path, mib: int) -> None:
    eight(tmp_path).cgroup2("/", memory_max=str(mib << 20))
    assert sum(sizes(this_machine(tmp_path, {})).values()) == mib


@pytest.mark.parametrize("text", ["max", str(1 << 40), "x", "", "-1"])
def test_no_limit(tmp_path: Path, text: str) -> None:
    eight(tmp_path).cgroup2("/", memory_max=text)
    assert sizes(this_machine(tmp_path, {})) == {0: 8 << 10, 1: 24 << 10}


def test_limit_of_an_ancestor(tmp_path: Path) -> None:
    tree = eight(tmp_path)
    tree.cgroup2("/job/step", memory_max="max")
    tree.in_cgroup("/job", memory_max=str(2 << 30))
    assert sum(sizes(this_machine(tmp_path, {})).values()) == 2 << 10


def test_no_memory_left(tmp_path: Path) -> None:
    eight(tmp_path).cgroup2("/", memory_max="0")
    found = this_machine(tmp_path, {})
    assert sizes(found) == {}
    assert [note.partition(": ")[2] for note in found.notes] == ["no memory is known"]
