"""The machine that the tests run on: as the operating system, nproc, taskset, cgroups and libhwloc see it, and by command."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import fluxres
from fluxres.formats.machine import this_machine
from fluxres.syntax import idset
from tests.formats.machine.outline import sizes, values
from tests.hwloc.needs import the_library

pytestmark = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the machine has no /proc")
V1 = Path("/sys/fs/cgroup/cpu")


def cpus() -> list[int]:
    return sorted(cpu for text in values(this_machine(), "core", "cpus") for cpu in idset.parse(str(text)))


def test_cpus_are_those_that_this_process_may_use() -> None:
    assert set(cpus()) == os.sched_getaffinity(0)


def test_name_is_the_short_name_of_the_host() -> None:
    assert this_machine().name == os.uname().nodename.partition(".")[0]


def test_memory_is_at_most_what_the_operating_system_has() -> None:
    assert 0 < sum(sizes(this_machine()).values()) <= os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20


def test_number_of_cpus_agrees_with_nproc() -> None:
    said = int(subprocess.run(["nproc"], capture_output=True, text=True, check=True, env={"PATH": os.environ["PATH"]}).stdout)
    # Under a quota, nproc of coreutils 9.8 and later says fewer.
    assert said <= len({*cpus()})
    if not any("quota" in line for line in this_machine().seen):
        assert said == len(cpus())


def test_one_cpu_by_taskset() -> None:
    last = max(os.sched_getaffinity(0))
    program = "from fluxres.formats.machine import this_machine; print(*this_machine().seen, sep='\\n')"
    done = subprocess.run(
        [sys.executable, "-c", f"import os; os.sched_setaffinity(0, [{last}])\n{program}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert f"CPUs {last}, " in done.stdout
    assert ": 1 core in 1 socket" in done.stdout


def test_cores_and_sockets_agree_with_libhwloc() -> None:
    the_library()
    by_library, by_kernel = fluxres.load("hwloc:").structure, this_machine().structure
    for type_ in ("core", "socket"):
        assert len(by_library.of_type(type_)) == len(by_kernel.of_type(type_))
    assert len(by_library.of_type("pu")) == len(cpus())


@pytest.fixture
def group() -> Iterator[Path]:
    """A cgroup of version 1 for the controller cpu."""
    made = V1 / f"fluxres-test-{os.getpid()}"
    try:
        made.mkdir()
    except OSError:
        pytest.skip("no cgroup of version 1 can be made here; it takes root, and a system without version 2")
    yield made
    made.rmdir()


def test_quota_of_a_real_cgroup(group: Path) -> None:
    (group / "cpu.cfs_quota_us").write_text("150000")
    program = f"echo $$ > {group}/cgroup.procs && exec {sys.executable} -m fluxres convert this-machine -"
    done = subprocess.run(["sh", "-c", program], capture_output=True, text=True, check=True)
    assert (
        f"quota of 1.5 CPUs: 1 core, each on any of these CPUs ({group}/cpu.cfs_quota_us)" in done.stderr or os.cpu_count() == 1
    )
    assert done.stdout.count("type: core") == 1


# -- as users have it --------------------------------------------------------------------------------------------------------


def test_load_in_python() -> None:
    found = fluxres.load("this-machine")
    assert found.name == this_machine().name
    assert {pool.type for pool in found.find("type=core")} == {"core"}
    assert fluxres.load("this-machine:", cluster="lab").pool("/lab").type == "cluster"
    assert not fluxres.load("this-machine:detect=mem").find("type=core or type=socket")


def test_what_a_reader_returned_can_be_loaded(tmp_path: Path) -> None:
    graph = fluxres.load(this_machine(tmp_path, {}, [0], detect="cpus"), name="spare")
    assert (graph.name, len(graph.find("type=core"))) == ("spare", 1)


def test_file_of_this_name(tmp_path: Path) -> None:
    (tmp_path / "this-machine").write_text("fluxres: 1\nname: file\nresources: [{type: node}]\n")
    for source, name in (("this-machine", this_machine().name), ("./this-machine", "file")):
        done = subprocess.run(
            [sys.executable, "-m", "fluxres", "convert", source, "-"], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        assert f"name: {name}\n" in done.stdout
