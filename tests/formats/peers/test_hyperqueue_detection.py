"""A worker of HyperQueue on this machine, by HyperQueue's rules."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import fluxres
from fluxres.errors import UsageError
from fluxres.formats.peers.hyperqueue.detection import definitions
from tests.formats.machine import trees


@pytest.mark.parametrize(
    ("machine", "text"),
    [
        ("raspberry_pi", "cpus=range(0-3) mem=sum(3792.9687)"),
        ("laptop", f"cpus=[{','.join(map(str, range(22)))}] mem=sum(31738.2812)"),
        ("virtual", "cpus=[[0,1,2,3],[4,5,6,7]] mem=sum(8192)"),
        ("power9", "cpus=[[0,4,8,12],[16,20,24,28]] gpus/nvidia=range(0-0) mem=sum(278528)"),
        # Neither a quota nor a limit counts, only the mask.
        ("container", "cpus=[8,9,10,11,12,13,14,15,72,73,74,75,76,77,78,79] mem=sum(262144)"),
    ],
)
def test_machines(tmp_path: Path, machine: str, text: str) -> None:
    getattr(trees, machine)(tmp_path)
    found = definitions("all", tmp_path, {})
    assert found.text == text
    assert found.notes == ()


def test_only_the_variable_names_gpus_of_amd(tmp_path: Path) -> None:
    trees.mi250x(tmp_path)
    assert definitions("gpus/amd", tmp_path, {}).text == ""
    assert definitions("gpus/amd", tmp_path, {"ROCR_VISIBLE_DEVICES": "0,1"}).text == "gpus/amd=[0,1]"


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        ({}, ["gpus/nvidia=range(0-7)"]),
        ({"CUDA_VISIBLE_DEVICES": "2,3"}, ["gpus/nvidia=[2,3]"]),
        ({"CUDA_VISIBLE_DEVICES": "foo,GPU-1 x"}, ['gpus/nvidia=[foo,"GPU-1 x"]']),
        ({"ROCR_VISIBLE_DEVICES": "1"}, ["gpus/nvidia=range(0-7)", "gpus/amd=[1]"]),
        ({"CUDA_VISIBLE_DEVICES": ""}, ["gpus/nvidia=range(0-7)"]),
    ],
)
def test_variables_name_devices_whether_they_exist_or_not(tmp_path: Path, environ: dict[str, str], words: list[str]) -> None:
    trees.epyc(tmp_path)
    assert definitions("gpus/nvidia,gpus/amd", tmp_path, environ).text == " ".join(words)


def test_repeated_devices_are_ignored(tmp_path: Path) -> None:
    found = definitions("gpus/nvidia", tmp_path, {"CUDA_VISIBLE_DEVICES": "1,1"})
    assert found == ("", ("CUDA_VISIBLE_DEVICES is ignored: '1' is in it twice",), ())


def test_quota_counts_where_the_kernel_has_no_numa(tmp_path: Path) -> None:
    trees.raspberry_pi(tmp_path).cgroup2("/", cpu_max="250000 100000")
    assert definitions("cpus", tmp_path, {}).text == "cpus=range(0-1)"


@pytest.mark.parametrize("detect", ["", "none", "gpus", "cpus,,mem"])
def test_unknown_parts_are_refused(detect: str) -> None:
    with pytest.raises(UsageError, match=r"^hyperqueue:detect: unknown part"):
        definitions(detect)


def test_source() -> None:
    graph = fluxres.load("hyperqueue:detect=cpus")
    assert len(graph.find("type=core")) == len(os.sched_getaffinity(0))
