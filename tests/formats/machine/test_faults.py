"""Damaged, endless, forbidden and vanishing files: a machine comes out whatever happens, and a note says what was ignored."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fluxres
from fluxres import limits
from fluxres.formats.machine import this_machine
from tests.formats.machine import trees
from tests.formats.machine.outline import notes, values
from tests.formats.machine.trees import CPU, GIB, Tree
from tests.traceability import ROOT

ENVIRON = {"CUDA_VISIBLE_DEVICES": "0,1", "ROCR_VISIBLE_DEVICES": "0", "PATH": "/opt/bin"}


def everything(root: Path) -> Tree:
    """A small machine with all that is read."""
    tree = Tree(root)
    tree.host("n1", 16 * GIB, "Xeon", "GenuineIntel")
    tree.cpus([(0, 4), (1, 5), (2, 6), (3, 7)], [[0, 1, 4, 5], [2, 3, 6, 7]])
    tree.numa({0: ([0, 1, 4, 5], 8 * GIB), 1: ([2, 3, 6, 7], 8 * GIB), 2: ((), 4 * GIB)})
    tree.write(f"{trees.NODE}/node2/access0/initiators/read_bandwidth", "1\n")
    tree.write("sys/bus/dax/devices/dax0.0/target_node", "2\n")
    for cpu in range(8):
        tree.write(f"{CPU}/cpu{cpu}/cpu_capacity", f"{1024 >> cpu % 2}\n")
    tree.status("0-7", "0-2")
    tree.cgroup2("/a/b", cpu_max="300000 100000", memory_max=str(4 << 30), cpuset_cpus_effective="0-7")
    tree.nvidia("0000:01:00.0", 0, "GPU-0", numa=0)
    tree.nvidia("0000:02:00.0", 1, "GPU-1", numa=1)
    tree.write("proc/driver/nvidia/gpus/0000:02:00.0/numa_status", "Node: 2\n")
    tree.mig(1, [(1, 0)])
    tree.program("opt/bin/nvidia-smi", "echo 'GPU 0: x (UUID: GPU-0)'")
    tree.kfd_gpu(1, 128, "0000:03:00.0", numa=1)
    tree.card(1, "0000:04:00.0", "0x8086", "xe")
    return tree


def directory(file: Path) -> None:
    file.unlink()
    file.mkdir()


def pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


def loop(file: Path) -> None:
    file.unlink()
    file.symlink_to(file.name)


def dangling(file: Path) -> None:
    file.unlink()
    file.symlink_to("nowhere")


def to_itself(file: Path) -> None:
    """A link to a device that gives zeros without end."""
    file.unlink()
    file.symlink_to("/dev/zero")


def with_text(text: bytes) -> Callable[[Path], None]:
    def damage(file: Path) -> None:
        file.write_bytes(text)

    return damage


def truncated(file: Path) -> None:
    data = file.read_bytes()
    file.write_bytes(data[: len(data) // 2])


DAMAGES: list[Callable[[Path], None]] = [
    directory,
    pipe,
    loop,
    dangling,
    truncated,
    Path.unlink,
    *map(
        with_text,
        [b"", b"\0\xff\xfe" * 300, b"9" * 400, b"-" * 50, b"0-99999999999\n", b"\n" * 3000, b"0,0,0,0\n", b"-1\n", b"0-16383\n"],
    ),
]


@pytest.fixture(scope="module")
def machine() -> Iterator[Tree]:
    with tempfile.TemporaryDirectory() as folder:
        yield everything(Path(folder))


@given(st.integers(0, 2**32), st.integers(1, 4))
def test_any_files_may_be_damaged(machine: Tree, seed: int, count: int) -> None:
    chance = random.Random(seed)
    files = sorted(file for file in machine.root.rglob("*") if file.is_file() and not file.is_symlink())
    kept = {file: (file.read_bytes(), file.stat().st_mode) for file in chance.sample(files, count)}
    for file in kept:
        chance.choice(DAMAGES)(file)
    try:
        found = this_machine(machine.root, ENVIRON)
    finally:
        for file, (data, mode) in kept.items():
            if file.is_dir() and not file.is_symlink():
                file.rmdir()
            else:
                file.unlink(missing_ok=True)
            file.write_bytes(data)
            file.chmod(mode)
    graph = fluxres.load(found._replace(notes=()))
    assert graph.check() == []
    assert graph.find("type=node")
    assert all("\n" not in line for line in (*found.notes, *found.seen))


def test_undamaged_machine_is_found_whole(machine: Tree) -> None:
    found = this_machine(machine.root, ENVIRON)
    assert len(found.structure.of_type("core")) == 3
    assert values(found, "gpu", "visible") == ["0", "MIG-GPU-1/1/0", "0", "0"]


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (directory, "cannot be read: is a directory"),
        (loop, "cannot be read: too many levels of symbolic links"),
        (with_text(b"x" * 300), "expected numbers such as 0-3,8 below 16384, got 'xxx"),
        (with_text(b"\0\1\2"), "expected numbers such as 0-3,8 below 16384, got '"),
        (to_itself, f"ignored, since it has more than {limits.DETECTED_FILE_BYTES_MAX} bytes"),
    ],
    ids=["directory", "loop", "long", "binary", "endless"],
)
def test_what_is_ignored_is_said(tmp_path: Path, damage: Callable[[Path], None], said: str) -> None:
    tree = Tree(tmp_path)
    tree.cpus([(0,), (1,)], [[0, 1]])
    damage(tmp_path / CPU / "online")
    found = this_machine(tmp_path, {}, [0, 1], detect="cpus")
    assert values(found, "core", "cpus") == ["0", "1"]
    assert notes(found, tmp_path)[0].startswith(f"/{CPU}/online: {said}")


def test_many_mistakes_of_one_kind_are_one_note(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    tree.cpus([(cpu,) for cpu in range(40)], [range(40)])
    for cpu in range(40):
        tree.write(f"{CPU}/cpu{cpu}/topology/core_cpus_list", "nonsense\n")
    found = this_machine(tmp_path, {}, detect="cpus")
    assert len(found.structure.of_type("core")) == 40
    assert len(found.notes) == 1
    assert found.notes[0].endswith("ignored (and 39 more like it)")


def test_file_of_the_largest_size(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    head = "MemTotal: 1048576 kB\n"
    tree.write("proc/meminfo", head + "x" * (limits.DETECTED_FILE_BYTES_MAX - len(head)))
    assert this_machine(tmp_path, {}, detect="mem").notes == ()
    tree.write("proc/meminfo", head + "x" * (limits.DETECTED_FILE_BYTES_MAX - len(head) + 1))
    assert "has more than" in this_machine(tmp_path, {}, detect="mem").notes[0]


def test_directory_with_too_many_entries(tmp_path: Path) -> None:
    place = tmp_path / "sys/class/drm"
    place.mkdir(parents=True)
    for number in range(limits.DETECTED_ENTRIES_MAX + 1):
        (place / f"card{number}-DP-1").touch()
    found = this_machine(tmp_path, {}, [0], detect="gpus/intel")
    assert notes(found, tmp_path) == [f"/sys/class/drm: only {limits.DETECTED_ENTRIES_MAX} of its entries are read"]


def test_files_may_vanish_at_any_moment(tmp_path: Path) -> None:
    """A CPU is unplugged, a driver unloaded, a cgroup removed while they are read."""
    tree = everything(tmp_path)
    places = [
        tree.root / place
        for place in (f"{CPU}/cpu1", "proc/driver/nvidia", "sys/fs/cgroup/a", "sys/class/kfd", "dev", trees.NODE)
    ]
    over = threading.Event()

    def unplug() -> None:
        chance = random.Random(1)
        while not over.is_set():
            place = chance.choice(places)
            place.rename(place.with_suffix(".gone"))
            place.with_suffix(".gone").rename(place)

    thread = threading.Thread(target=unplug)
    thread.start()
    try:
        for _ in range(200):
            assert this_machine(tree.root, ENVIRON).structure.n > 2
    finally:
        over.set()
        thread.join()
    assert len(this_machine(tree.root, ENVIRON).structure.of_type("core")) == 3


def test_files_that_a_user_may_not_open() -> None:
    """As a user without rights: files that cannot be read are noted, devices that cannot be opened are left out."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        tree = trees.epyc(Path(folder))
        for path in ("dev/nvidia3", f"{CPU}/cpu7/topology/core_cpus_list", "sys/devices/system/node/node0/meminfo"):
            (tree.root / path).chmod(0)
        for file in tree.root.glob("dev/nvidia*"):
            file.chmod(0 if file.name == "nvidia3" else 0o666)
        program = (
            "import os, sys\nfrom pathlib import Path\n"
            "from fluxres.formats.machine import this_machine\n"
            "this_machine(Path(sys.argv[1]), {})\n"  # imports what a user without rights might not be able to read
            "if os.geteuid() == 0:\n    os.setgroups([])\n    os.setgid(65534)\n    os.setuid(65534)\n"
            "found = this_machine(Path(sys.argv[1]), {})\n"
            "print(len(found.structure.of_type('gpu')), len(found.structure.of_type('memory')), *found.notes, sep='\\n')"
        )
        done = subprocess.run([sys.executable, "-c", program, folder], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.replace(folder, "").splitlines() == [
        "7",
        "7",
        f"/{CPU}/cpu7/topology/core_cpus_list: cannot be read: permission denied (and 1 more like it)",
        "/proc/driver/nvidia/gpus: left out: 1 GPU that cannot be opened: /dev/nvidia3",
    ]
