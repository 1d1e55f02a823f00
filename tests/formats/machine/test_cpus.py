"""CPUs that may be used, and their cores and sockets, in the forms in which kernels say it."""

from __future__ import annotations

from pathlib import Path

import pytest

from fluxres import limits
from fluxres.formats.machine import this_machine
from fluxres.formats.machine.files import span_numbers
from tests.formats.machine import trees
from tests.formats.machine.outline import notes, said, values
from tests.formats.machine.trees import CPU, Tree


def smp(root: Path) -> Tree:
    """Two sockets of four cores of two threads."""
    tree = Tree(root)
    tree.cpus([(cpu, cpu + 8) for cpu in range(8)], [[*range(4), *range(8, 12)], [*range(4, 8), *range(12, 16)]])
    return tree


def sockets(root: Path, **given: object) -> list[list[object]]:
    """The CPUs of the cores of each socket."""
    structure = this_machine(root, {}, **given).structure  # type: ignore[arg-type]  # tests give what fits
    return [
        [dict(structure.kind_of(core).properties)["cpus"] for core in structure.children(socket).tolist()]
        for socket in structure.of_type("socket").tolist()
    ]


# -- which CPUs --------------------------------------------------------------------------------------------------------------


def test_the_mask_of_the_process_counts(tmp_path: Path) -> None:
    smp(tmp_path).status("1-2,9")
    assert sockets(tmp_path) == [["1,9", "2"]]


def test_all_that_are_online_without_a_mask(tmp_path: Path) -> None:
    smp(tmp_path)
    assert sockets(tmp_path) == [["0,8", "1,9", "2,10", "3,11"], ["4,12", "5,13", "6,14", "7,15"]]


def test_offline_cpus_do_not_count(tmp_path: Path) -> None:
    smp(tmp_path).write(f"{CPU}/online", "0-7\n")
    # The kernel's mask may have CPUs that went offline.
    assert sockets(tmp_path, affinity=range(16)) == [["0", "1", "2", "3"], ["4", "5", "6", "7"]]


def test_mask_without_any_cpu_that_is_online(tmp_path: Path) -> None:
    smp(tmp_path).write(f"{CPU}/online", "0-7\n")
    found = this_machine(tmp_path, {}, [9])
    assert values(found, "core", "cpus") == ["9"]
    assert notes(found, tmp_path)[0] == f"/{CPU}: no CPU of the affinity mask is online; the mask is used"


def test_isolated_cpus_are_left_out_as_the_kernel_does(tmp_path: Path) -> None:
    tree = smp(tmp_path)
    tree.write(f"{CPU}/isolated", "6-7,14-15\n")
    tree.status("0-5,8-13")
    found = this_machine(tmp_path, {})
    assert values(found, "core", "cpus")[-1] == "5,13"
    assert notes(found, tmp_path)[0] == f"/{CPU}/isolated: left out: 4 isolated CPUs; taskset can select them"


def test_isolated_cpus_that_somebody_asked_for_count(tmp_path: Path) -> None:
    tree = smp(tmp_path)
    tree.write(f"{CPU}/isolated", "6-7,14-15\n")
    found = this_machine(tmp_path, {}, [6, 7, 14, 15])
    assert values(found, "core", "cpus") == ["6,14", "7,15"]
    assert not any("isolated" in note for note in notes(found, tmp_path))


@pytest.mark.parametrize("version", [1, 2])
def test_the_cpuset_counts_where_the_mask_is_unknown(tmp_path: Path, version: int) -> None:
    tree = smp(tmp_path)
    if version == 2:
        tree.cgroup2("/job7/step0", cpuset_cpus_effective="0-1,8-9")
        place = "/sys/fs/cgroup/job7/step0/cpuset.cpus.effective"
    else:
        tree.write("proc/self/cgroup", "4:cpuset:/job7\n0::/\n")
        tree.in_cgroup("/job7", "cpuset", **{"cpuset.effective_cpus": "0-1,8-9"})
        place = "/sys/fs/cgroup/cpuset/job7/cpuset.effective_cpus"
    assert sockets(tmp_path) == [["0,8", "1,9"]]
    assert said(this_machine(tmp_path, {}), tmp_path)[0] == f"CPUs 0-1,8-9, 4 of 16 that are online (/{CPU}/online, {place})"


def test_cpuset_of_the_nearest_ancestor_that_has_one(tmp_path: Path) -> None:
    tree = smp(tmp_path)
    tree.cgroup2("/slice/job/step")
    tree.in_cgroup("/slice", cpuset_cpus_effective="4-7")
    tree.in_cgroup("", cpuset_cpus_effective="0-15")
    assert sockets(tmp_path) == [["4", "5", "6", "7"]]


def test_cpuset_without_a_cpu_of_the_mask_is_ignored(tmp_path: Path) -> None:
    smp(tmp_path).cgroup2("/", cpuset_cpus_effective="4-7")
    found = this_machine(tmp_path, {}, [0])
    assert values(found, "core", "cpus") == ["0"]
    assert notes(found, tmp_path)[0].endswith("cpuset.cpus.effective: has no CPU of the affinity mask; ignored")


# -- cores and sockets -------------------------------------------------------------------------------------------------------


def test_kernels_before_5_3(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    tree.cpus([(0, 2), (1, 3)], [[0, 2], [1, 3]], old_names=True)
    assert sockets(tmp_path) == [["0,2"], ["1,3"]]


def test_mainframe_with_books(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    tree.write(
        "proc/cpuinfo", "vendor_id       : IBM/S390\n# processors    : 4\nprocessor 0: version = FF,  identification = 1A\n"
    )
    tree.cpus([(0, 1), (2, 3)], [[0, 1], [2, 3]], packages=[1, 7])
    tree.write(f"{CPU}/cpu0/topology/book_siblings_list", "0-3\n")
    assert sockets(tmp_path) == [["0-1"], ["2-3"]]
    assert values(this_machine(tmp_path, {}), "socket", "vendor") == ["IBM/S390"] * 2


def test_eight_threads_a_core(tmp_path: Path) -> None:
    Tree(tmp_path).cpus([range(8 * at, 8 * at + 8) for at in range(4)], [range(16), range(16, 32)], packages=[0, 8])
    assert sockets(tmp_path) == [["0-7", "8-15"], ["16-23", "24-31"]]


def test_sockets_are_numbered_by_their_first_cpu(tmp_path: Path) -> None:
    Tree(tmp_path).cpus([(cpu,) for cpu in range(4)], [[2, 3], [0, 1]], packages=[0, 1])
    assert sockets(tmp_path) == [["0", "1"], ["2", "3"]]


def test_platform_without_packages_has_one_socket(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    tree.cpus([(cpu,) for cpu in range(3)], None)
    assert sockets(tmp_path) == [["0", "1", "2"]]


@pytest.mark.parametrize("value", ["-1", "-1\n", "4294967295x", "", "\0\0"])
def test_unusable_package_is_one_socket(tmp_path: Path, value: str) -> None:
    tree = Tree(tmp_path)
    tree.cpus([(0,), (1,)], [[0], [1]])
    for cpu in range(2):
        tree.write(f"{CPU}/cpu{cpu}/topology/physical_package_id", value)
    assert sockets(tmp_path) == [["0", "1"]]


def test_without_sys_by_cpuinfo(tmp_path: Path) -> None:
    records = [(0, 0, 0), (1, 0, 1), (2, 1, 0), (3, 1, 1), (4, 0, 0), (5, 0, 1), (6, 1, 0), (7, 1, 1)]
    text = "".join(
        f"processor\t: {cpu}\nmodel name\t: Xeon\nphysical id\t: {socket}\nsiblings\t: 4\ncore id\t\t: {core}\n\n"
        for cpu, socket, core in records
    )
    Tree(tmp_path).write("proc/cpuinfo", text)
    assert sockets(tmp_path) == [["0,4", "1,5"], ["2,6", "3,7"]]
    assert said(this_machine(tmp_path, {}), tmp_path)[0] == "CPUs 0-7, all that are online (/proc/cpuinfo)"


def test_without_sys_and_without_topology_in_cpuinfo(tmp_path: Path) -> None:
    Tree(tmp_path).write("proc/cpuinfo", "".join(f"processor\t: {cpu}\nBogoMIPS\t: 50.00\n\n" for cpu in range(3)))
    assert sockets(tmp_path) == [["0", "1", "2"]]


def test_a_mask_alone(tmp_path: Path) -> None:
    assert sockets(tmp_path, affinity=[0, 5]) == [["0", "5"]]


def test_favoured_cores_of_an_x86_are_of_one_kind(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    tree.cpus([(cpu,) for cpu in range(4)], [range(4)])
    for cpu in range(4):
        tree.write(f"{CPU}/cpu{cpu}/cpu_capacity", f"{1024 - 9 * cpu}\n")
    assert values(this_machine(tmp_path, {}), "core", "kind") == [None] * 4


def test_kinds_of_cores_that_may_be_used(tmp_path: Path) -> None:
    trees.laptop(tmp_path).status("10-13")
    assert values(this_machine(tmp_path, {}), "core", "kind") == ["performance", "efficiency", "efficiency"]


# -- lists of numbers --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("", []),
        ("\n", []),
        ("0\n", [0]),
        ("0-2,7", [0, 1, 2, 7]),
        ("7,0-2", [0, 1, 2, 7]),
        ("3-3", [3]),
        (f"{limits.CPUS_MAX - 1}", [limits.CPUS_MAX - 1]),
    ],
)
def test_lists(text: str, numbers: list[int]) -> None:
    assert sorted(span_numbers(text)) == numbers


@pytest.mark.parametrize(
    "text", ["x", "1-", "-1", "2-1", "1,,2", "1,", "0-3:1/2", "0x1", "1 2", f"0-{limits.CPUS_MAX}", "9" * 30, "٣", "1\n2"]
)
def test_other_texts_are_no_lists(text: str) -> None:
    with pytest.raises(ValueError, match=r"^"):
        span_numbers(text)
