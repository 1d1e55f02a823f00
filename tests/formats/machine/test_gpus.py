"""GPUs of each vendor: numbers, names, instances, restrictions, and those that cannot be opened."""

from __future__ import annotations

from pathlib import Path

import pytest

from fluxres import limits
from fluxres.formats.format import Loaded
from fluxres.formats.machine import this_machine
from tests.formats.machine import trees
from tests.formats.machine.outline import notes, said, values
from tests.formats.machine.trees import Tree

UUIDS = [f"GPU-{at}ef8089b-4820-abfc-e83e-94318197576e" for at in range(8)]
SMI = """\
cat <<'end'
GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-0)
  MIG 3g.20gb     Device  0: (UUID: MIG-aaaa0000-0000-0000-0000-000000000000)
  MIG 1g.5gb      Device  1: (UUID: MIG-bbbb0000-0000-0000-0000-000000000000)
GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-1)
end"""


def gpus(root: Path, **environ: str) -> Loaded:
    return this_machine(root, environ, [0], detect="gpus")


def partitioned(root: Path) -> Tree:
    """Two GPUs, of which the first has two instances."""
    tree = Tree(root)
    tree.nvidia("0000:07:00.0", 0, "GPU-0")
    tree.nvidia("0000:0f:00.0", 1, "GPU-1")
    tree.mig(0, [(1, 0), (5, 0)])
    return tree


# -- NVIDIA ------------------------------------------------------------------------------------------------------------------


def test_gpus_are_numbered_by_their_bus(tmp_path: Path) -> None:
    trees.epyc(tmp_path)
    found = gpus(tmp_path)
    assert values(found, "gpu", "visible") == [str(at) for at in range(8)]
    assert values(found, "gpu", "uuid") == UUIDS
    assert values(found, "gpu", "address") == [f"0000:{bus}:00.0" for bus in ("07", "0f", "47", "4e", "87", "90", "b7", "bd")]
    assert values(found, "gpu", "vendor") == ["nvidia"] * 8


@pytest.mark.parametrize(
    ("value", "visible", "minors"),
    [
        ("2,0", ["2", "0"], [2, 0]),
        (f"{UUIDS[5]},GPU-3", [UUIDS[5], "GPU-3"], [5, 3]),
        ("0,99,1", ["0"], [0]),
        ("", [], []),
        ("-1", [], []),
        ("NoDevFiles", [], []),
    ],
)
def test_variable_restricts(tmp_path: Path, value: str, visible: list[str], minors: list[int]) -> None:
    trees.epyc(tmp_path)
    found = gpus(tmp_path, CUDA_VISIBLE_DEVICES=value)
    assert values(found, "gpu", "visible") == visible
    assert values(found, "gpu", "uuid") == [UUIDS[minor] for minor in minors]
    assert sorted(found.structure.id[found.structure.of_type("gpu")].tolist()) == [*range(len(visible))]


def test_lists_that_end_early_are_noted_unless_they_mean_no_gpu(tmp_path: Path) -> None:
    trees.epyc(tmp_path)
    assert notes(gpus(tmp_path, CUDA_VISIBLE_DEVICES="0,99,1"), tmp_path) == [
        "CUDA_VISIBLE_DEVICES=0,99,1: '99' is no GPU here; programs see 1 GPU"
    ]
    assert notes(gpus(tmp_path, CUDA_VISIBLE_DEVICES="3,3"), tmp_path) == [
        "CUDA_VISIBLE_DEVICES=3,3: '3' is repeated; programs see no GPUs"
    ]
    for value in ("", "-1", "NoDevFiles"):
        assert gpus(tmp_path, CUDA_VISIBLE_DEVICES=value).notes == ()


def test_variable_without_driver_is_ignored(tmp_path: Path) -> None:
    found = gpus(tmp_path, CUDA_VISIBLE_DEVICES="0,1", ROCR_VISIBLE_DEVICES="0")
    assert values(found, "gpu", "visible") == []
    assert notes(found, tmp_path) == [
        "CUDA_VISIBLE_DEVICES=0,1 is ignored, since there is no driver of NVIDIA (/proc/driver/nvidia)",
        "ROCR_VISIBLE_DEVICES=0 is ignored, since there is no driver of AMD (/sys/class/kfd/kfd/topology/nodes)",
    ]
    assert said(found, tmp_path) == ["no GPU of nvidia, amd, intel"]


def test_gpus_of_several_models_are_in_another_order_for_cuda_by_default(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    tree.nvidia("0000:01:00.0", 0, "GPU-0", model="NVIDIA T400")
    tree.nvidia("0000:02:00.0", 1, "GPU-1", model="NVIDIA RTX A6000")
    what = "is read in the order of the PCI bus; with GPUs of several models, set CUDA_DEVICE_ORDER=PCI_BUS_ID"
    assert notes(gpus(tmp_path, CUDA_VISIBLE_DEVICES="0"), tmp_path) == [f"CUDA_VISIBLE_DEVICES=0 {what}"]
    assert gpus(tmp_path, CUDA_VISIBLE_DEVICES="0", CUDA_DEVICE_ORDER="PCI_BUS_ID").notes == ()
    assert gpus(tmp_path, CUDA_VISIBLE_DEVICES="GPU-0").notes == ()


def test_gpus_whose_files_are_missing_do_not_count(tmp_path: Path) -> None:
    tree = trees.epyc(tmp_path)
    for minor in (0, 2):
        (tree.root / f"dev/nvidia{minor}").unlink()
    found = gpus(tmp_path, CUDA_VISIBLE_DEVICES="0,1")
    assert values(found, "gpu", "uuid") == [UUIDS[1], UUIDS[3]]
    place = "/proc/driver/nvidia/gpus"
    assert notes(found, tmp_path) == [f"{place}: left out: 2 GPUs that cannot be opened: /dev/nvidia0, /dev/nvidia2"]


@pytest.mark.parametrize("is_host", [False, True], ids=["container", "host"])
def test_without_device_files_only_a_host_has_gpus(tmp_path: Path, is_host: bool) -> None:
    tree = Tree(tmp_path)
    tree.nvidia("0000:01:00.0", 0, "GPU-0")
    for name in ("nvidia0", "nvidiactl"):
        (tree.root / "dev" / name).unlink()
    if is_host:
        tree.program("usr/bin/nvidia-modprobe", "exit 0")
    assert values(gpus(tmp_path), "gpu", "visible") == ["0"] * is_host


@pytest.mark.parametrize("uuid", ["GPU-????????-????-????-????-????????????", "", "\x07", "MIG-1", "GPU-" + "1" * 80])
def test_gpu_that_no_program_uses_has_no_uuid_yet(tmp_path: Path, uuid: str) -> None:
    Tree(tmp_path).nvidia("0000:01:00.0", 0, uuid)
    assert values(gpus(tmp_path), "gpu", "uuid") == [None]
    assert values(gpus(tmp_path, CUDA_VISIBLE_DEVICES="GPU-1"), "gpu", "uuid") == []


def test_excluded_gpus_do_not_count(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    tree.nvidia("0000:01:00.0", 0, "GPU-0", excluded="Yes")
    tree.nvidia("0000:02:00.0", 1, "GPU-1")
    found = gpus(tmp_path)
    assert values(found, "gpu", "uuid") == ["GPU-1"]
    assert notes(found, tmp_path) == ["/proc/driver/nvidia/gpus/0000:01:00.0: left out: the driver excludes this GPU"]


@pytest.mark.parametrize("text", ["", "Model: x\n", "Device Minor: \t x\n", "Device Minor: \t 99999999999\n", "\0\xff" * 50])
def test_malformed_information(tmp_path: Path, text: str) -> None:
    tree = Tree(tmp_path)
    tree.nvidia("0000:01:00.0", 0, "GPU-0")
    tree.write("proc/driver/nvidia/gpus/0000:01:00.0/information", text)
    found = gpus(tmp_path)
    assert values(found, "gpu", "uuid") == []
    assert notes(found, tmp_path) == ["/proc/driver/nvidia/gpus/0000:01:00.0/information: has no 'Device Minor'; ignored"]


# -- instances of NVIDIA's GPUs ----------------------------------------------------------------------------------------------


def test_instances_have_the_names_of_nvidia_smi(tmp_path: Path) -> None:
    partitioned(tmp_path).program("opt/bin/nvidia-smi", f'[ "$*" = -L ] || exit 9\n{SMI}')
    found = gpus(tmp_path, PATH="/usr/bin:/opt/bin:relative")
    names = [f"MIG-{letter * 4}0000-0000-0000-0000-000000000000" for letter in "ab"]
    assert values(found, "gpu", "visible") == [*names, "1"]
    assert values(found, "gpu", "model") == [f"NVIDIA A100-SXM4-40GB{each}" for each in (" MIG 3g.20gb", " MIG 1g.5gb", "")]
    assert values(found, "gpu", "uuid") == [*names, "GPU-1"]
    assert found.notes == ()


@pytest.mark.parametrize("value", ["MIG-bbbb", "MIG-GPU-0/5/0"])
def test_variable_chooses_an_instance_by_any_of_its_names(tmp_path: Path, value: str) -> None:
    partitioned(tmp_path).program("opt/bin/nvidia-smi", SMI)
    found = gpus(tmp_path, PATH="/opt/bin", CUDA_VISIBLE_DEVICES=value)
    assert values(found, "gpu", "visible") == [value]
    assert values(found, "gpu", "model") == ["NVIDIA A100-SXM4-40GB MIG 1g.5gb"]


@pytest.mark.parametrize(
    "script",
    [
        "exit 3",
        f"{SMI}\nexit 1",
        "echo",
        "printf 'GPU 0: x (UUID: GPU-0)\\n  MIG 1g.5gb Device 0: (UUID: MIG-1)\\n'",
        "printf '\\377\\0'",
    ],
    ids=["fails", "fails late", "says nothing", "lists one of two", "binary"],
)
def test_instances_without_an_answer_have_their_older_names(tmp_path: Path, script: str) -> None:
    partitioned(tmp_path).program("opt/bin/nvidia-smi", script)
    found = gpus(tmp_path, PATH="/opt/bin")
    assert values(found, "gpu", "visible") == ["MIG-GPU-0/1/0", "MIG-GPU-0/5/0", "1"]
    what = "nvidia-smi does not list its instances; they have the names of drivers before 470"
    assert f"/proc/driver/nvidia/capabilities/gpu0: {what}" in notes(found, tmp_path)


def test_program_that_is_none(tmp_path: Path) -> None:
    tree = partitioned(tmp_path)
    tree.write("opt/bin/nvidia-smi", "\0not a program").chmod(0o755)
    found = gpus(tmp_path, PATH="/opt/bin")
    assert notes(found, tmp_path)[0] == "/opt/bin/nvidia-smi: cannot be started: Exec format error"


@pytest.mark.parametrize("script", ["exec sleep 60", "while :; do echo GPU; done", "trap '' TERM; while :; do sleep 1; done"])
def test_program_that_does_not_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    monkeypatch.setattr(limits, "DETECTION_PROGRAM_S", 0.3)
    monkeypatch.setattr(limits, "DETECTED_FILE_BYTES_MAX", 1 << 16)
    partitioned(tmp_path).program("opt/bin/nvidia-smi", script)
    found = gpus(tmp_path, PATH="/opt/bin")
    assert len(values(found, "gpu", "visible")) == 3
    assert notes(found, tmp_path)[0] == "/opt/bin/nvidia-smi: stopped after 0.3 s or too much output"


def test_instances_without_any_name_are_left_out(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    tree.nvidia("0000:07:00.0", 0, "GPU-????????-????-????-????-????????????")
    tree.mig(0, [(1, 0)])
    found = gpus(tmp_path)
    assert values(found, "gpu", "visible") == []
    assert notes(found, tmp_path) == [
        "/proc/driver/nvidia/capabilities/gpu0: nvidia-smi does not list its instances; it is left out, since nothing names them"
    ]


def test_nvidia_smi_is_not_asked_without_need(tmp_path: Path) -> None:
    tree = trees.epyc(tmp_path)
    tree.program("opt/bin/nvidia-smi", f"touch {tmp_path}/asked")
    gpus(tmp_path, PATH="/opt/bin")
    assert not (tmp_path / "asked").exists()


def test_windows_has_the_driver(tmp_path: Path) -> None:
    trees.wsl(tmp_path)
    found = gpus(tmp_path)
    assert values(found, "gpu", "uuid") == ["GPU-aaaa1111-0000-0000-0000-000000000000"]
    assert said(found, tmp_path) == [
        "1 GPU: 1 NVIDIA GeForce RTX 3080 (/usr/lib/wsl/lib/nvidia-smi)",
    ]
    assert values(gpus(tmp_path, CUDA_VISIBLE_DEVICES="-1"), "gpu", "uuid") == []


# -- AMD ---------------------------------------------------------------------------------------------------------------------


def test_dies_of_mi250x_are_gpus(tmp_path: Path) -> None:
    trees.mi250x(tmp_path)
    found = gpus(tmp_path)
    assert values(found, "gpu", "visible") == [str(at) for at in range(8)]
    assert values(found, "gpu", "uuid") == [f"GPU-{0x8000 + at:016x}" for at in range(8)]
    assert values(found, "gpu", "address")[:2] == ["0000:c1:00.0", "0000:c6:00.0"]


@pytest.mark.parametrize(
    ("value", "visible", "positions"),
    [
        ("3,1", ["3", "1"], [3, 1]),
        ("GPU-0000000000008005,0x0", ["GPU-0000000000008005", "0"], [5, 0]),
        ("", [], []),
        ("2,8,1", ["2"], [2]),
    ],
)
def test_variable_restricts_rocr(tmp_path: Path, value: str, visible: list[str], positions: list[int]) -> None:
    trees.mi250x(tmp_path)
    found = gpus(tmp_path, ROCR_VISIBLE_DEVICES=value)
    assert values(found, "gpu", "visible") == visible
    assert values(found, "gpu", "uuid") == [f"GPU-{0x8000 + at:016x}" for at in positions]


def test_variables_inside_that_of_rocr_are_noted(tmp_path: Path) -> None:
    trees.mi250x(tmp_path)
    found = gpus(tmp_path, HIP_VISIBLE_DEVICES="1", CUDA_VISIBLE_DEVICES="0")
    assert len(values(found, "gpu", "visible")) == 8
    assert notes(found, tmp_path)[1] == (
        "HIP_VISIBLE_DEVICES=1 is not read: it counts among the GPUs that ROCR_VISIBLE_DEVICES leaves"
    )


def test_render_nodes_that_are_missing_do_not_count(tmp_path: Path) -> None:
    tree = trees.mi250x(tmp_path)
    (tree.root / "dev/dri/renderD128").unlink()
    found = gpus(tmp_path, ROCR_VISIBLE_DEVICES="0")
    assert values(found, "gpu", "address") == ["0000:c6:00.0"]
    what = "left out: 1 GPU that cannot be opened: /dev/dri/renderD128; members of the group 'render' may"
    assert notes(found, tmp_path) == [f"/sys/class/kfd/kfd/topology/nodes: {what}"]


def test_without_the_compute_device_no_gpu_counts(tmp_path: Path) -> None:
    tree = trees.mi250x(tmp_path)
    (tree.root / "dev/kfd").unlink()
    found = gpus(tmp_path)
    assert values(found, "gpu", "visible") == []
    assert said(found, tmp_path) == ["0 GPUs (/sys/class/kfd/kfd/topology/nodes)"]


def test_model_is_that_of_the_product_where_it_is_known(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    tree.kfd_gpu(1, 128, "0000:03:00.0", version=120001)
    tree.kfd_gpu(2, 129, "0000:04:00.0")
    tree.write("sys/bus/pci/devices/0000:04:00.0/product_name", "AMD Instinct MI210\n")
    assert values(gpus(tmp_path), "gpu", "model") == ["gfx1201", "AMD Instinct MI210"]
    assert values(gpus(tmp_path), "gpu", "uuid") == [None, None]


# -- Intel -------------------------------------------------------------------------------------------------------------------


def test_discrete_gpus_of_intel(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    tree.card(0, "0000:00:02.0", "0x8086", "i915")
    tree.card(1, "0000:4d:00.0", "0x8086", "xe", numa=1)
    tree.card(2, "0000:29:00.0", "0x8086", "i915")
    tree.card(3, "0000:02:00.0", "0x1a03", "ast")
    tree.card(4, "0000:55:00.0", "0x8086", "vfio-pci")
    found = gpus(tmp_path)
    assert values(found, "gpu", "address") == ["0000:29:00.0", "0000:4d:00.0"]
    assert values(found, "gpu", "visible") == ["0", "1"]
    assert values(found, "gpu", "model") == ["8086:56c0"] * 2
    assert said(found, tmp_path) == ["2 GPUs: 2 8086:56c0 (/sys/class/drm)"]


@pytest.mark.parametrize("driver", ["xe", "i915"])
def test_stacks_of_a_gpu_are_devices_of_level_zero(tmp_path: Path, driver: str) -> None:
    tree = Tree(tmp_path)
    for number, bus in enumerate(("29", "3a")):
        tree.card(number, f"0000:{bus}:00.0", "0x8086", driver, device="0x0bd5")
        for stack in range(2):
            place = f"sys/devices/pci0000:00/0000:{bus}:00.0"
            tree.write(f"{place}/tile{stack}/id" if driver == "xe" else f"{place}/drm/card{number}/gt/gt{stack}/id", "0\n")
    assert values(gpus(tmp_path), "gpu", "visible") == ["0,1", "2,3"]
    assert values(gpus(tmp_path, ZE_FLAT_DEVICE_HIERARCHY="COMPOSITE"), "gpu", "visible") == ["0", "1"]


def test_masks_of_intel_are_noted(tmp_path: Path) -> None:
    Tree(tmp_path).card(1, "0000:29:00.0", "0x8086", "xe")
    found = gpus(tmp_path, ZE_AFFINITY_MASK="0", ONEAPI_DEVICE_SELECTOR="level_zero:gpu")
    assert notes(found, tmp_path) == [
        "ZE_AFFINITY_MASK=0 is not read: all GPUs of Intel are listed",
        "ONEAPI_DEVICE_SELECTOR=level_zero:gpu is not read: all GPUs of Intel are listed",
    ]


def test_cards_without_a_driver_for_computing_are_noted(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    tree.card(0, "0000:01:00.0", "0x10de", "nouveau")
    tree.card(1, "0000:02:00.0", "0x1002", "radeon")
    found = gpus(tmp_path)
    assert values(found, "gpu", "visible") == []
    assert notes(found, tmp_path) == [
        "/sys/class/drm: left out: card1 of vendor amd, for lack of /sys/class/kfd",
        "/sys/class/drm: left out: card0 of vendor nvidia, for lack of NVIDIA's driver",
    ]


# -- all -------------------------------------------------------------------------------------------------------------------------


def test_gpus_of_all_vendors_are_numbered_through(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    tree.nvidia("0000:09:00.0", 0, "GPU-0")
    tree.kfd_gpu(1, 131, "0000:03:00.0")
    tree.card(5, "0000:01:00.0", "0x8086", "xe")
    found = gpus(tmp_path)
    assert values(found, "gpu", "vendor") == ["nvidia", "amd", "intel"]
    assert values(found, "gpu", "visible") == ["0", "0", "0"]
