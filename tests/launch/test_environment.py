"""What a program gets, by what was allocated: devices of each vendor, threads, CPUs, memory."""

from __future__ import annotations

import os
from typing import Any

import pytest

import fluxres
from fluxres.hwloc import Topology
from fluxres.launch import environment
from fluxres.launch.environment import Setting
from tests.hwloc.needs import the_library

CPUS = sorted(os.sched_getaffinity(0))


def machine(*gpus: dict[str, Any], cores: int = 2) -> fluxres.ResourceGraph:
    inside: list[dict[str, Any]] = [
        {"type": "core", "id": n, "properties": {"cpus": str(CPUS[n % len(CPUS)])}} for n in range(cores)
    ]
    inside += [{"type": "gpu", "id": n, "properties": said} for n, said in enumerate(gpus)]
    inside.append({"type": "memory", "size": 64, "unit": "MiB"})
    return fluxres.load({"fluxres": 1, "name": "ws", "resources": [{"type": "node", "hosts": "ws", "with": inside}]})


def setting(graph: fluxres.ResourceGraph, wanted: str, given: dict[str, str] | None = None) -> Setting:
    return environment.setting(graph, graph.allocate(wanted, job="j"), binds=True, given=given or {})


NVIDIA, AMD, INTEL = ({"vendor": name} for name in ("nvidia", "amd", "intel"))


@pytest.mark.parametrize(
    ("gpus", "wanted", "variables"),
    [
        ([{}, {}], "slot/[core;gpu]", {"CUDA_VISIBLE_DEVICES": "0", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}),
        ([{}, {}], "slot/core", {"CUDA_VISIBLE_DEVICES": ""}),
        ([NVIDIA, NVIDIA], "slot/[core;gpu=2]", {"CUDA_VISIBLE_DEVICES": "0,1", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}),
        ([{"vendor": "nvidia", "visible": "GPU-7"}], "gpu", {"CUDA_VISIBLE_DEVICES": "GPU-7", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}),
        ([AMD, AMD], "slot/[core;gpu]", {"ROCR_VISIBLE_DEVICES": "0"}),
        ([INTEL, INTEL], "slot/[core;gpu=2]", {"ZE_AFFINITY_MASK": "0,1"}),
        ([AMD, NVIDIA], "slot/[core;gpu]", {"ROCR_VISIBLE_DEVICES": "0", "CUDA_VISIBLE_DEVICES": ""}),
        ([{"vendor": "acme"}], "slot/[core;gpu]", {"CUDA_VISIBLE_DEVICES": "0", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}),
        ([], "slot/core", {}),
    ],
)
def test_devices_are_shown_by_vendor(gpus: list[dict[str, Any]], wanted: str, variables: dict[str, str]) -> None:
    shown = setting(machine(*gpus), "slot/gpu" if wanted == "gpu" else wanted).variables
    assert {key: value for key, value in shown.items() if key != "OMP_NUM_THREADS"} == variables


@pytest.mark.parametrize(
    ("words", "fractions", "text", "language", "shown"),
    [
        ("hyperqueue:cpus=4 gpus=[5,7,9]", None, "gpus=2", "hyperqueue", "9,7"),
        ("hyperqueue:cpus=4 gpus=[a,b]", None, "gpus=1", "hyperqueue", "b"),
        ("hyperqueue:cpus=4 gpus=[a,b]", True, "gpus=1.5", "hyperqueue", "b,a"),
        ("canary:gpus=2 cpus=2 nodes=2", None, "nodes=2", "canary", "0,1"),
    ],
)
def test_devices_are_those_that_the_system_of_the_request_says(
    words: str, fractions: bool | None, text: str, language: str, shown: str
) -> None:
    graph, request = fluxres.load(words, fractions=fractions), fluxres.Request.parse(text, format=language)
    made = environment.setting(
        graph, graph.allocate(request, job="j"), request, binds=False, given={"KEPT": "as it is"}
    ).variables
    assert made["CUDA_VISIBLE_DEVICES"] == made.get("HQ_RESOURCE_VALUES_gpus", shown) == shown
    assert "KEPT" not in made


def test_names_that_the_machine_gives_its_devices_come_in_the_order_of_the_request() -> None:
    graph = machine(*({"vendor": "nvidia", "visible": f"GPU-{name}"} for name in "abc"))
    request = fluxres.Request.parse("gpus=2", format="hyperqueue")
    made = environment.setting(graph, graph.allocate(request, job="j"), request, binds=False, given={}).variables
    assert (made["HQ_RESOURCE_VALUES_gpus"], made["CUDA_VISIBLE_DEVICES"]) == ("2,1", "GPU-c,GPU-b")


def test_threads_are_the_cores_unless_they_are_set() -> None:
    assert setting(machine(), "slot/core=2").variables["OMP_NUM_THREADS"] == "2"
    assert "OMP_NUM_THREADS" not in setting(machine(), "slot/core=2", {"OMP_NUM_THREADS": "7"}).variables


def test_cpus_are_those_of_the_cores() -> None:
    assert setting(machine(), "slot/core").cpus == (CPUS[0],)
    assert setting(machine(), "slot/node{x}").cpus == tuple(CPUS[:2])
    graph = machine()
    assert environment.setting(graph, graph.allocate("slot/core", job="j"), binds=False, given={}).cpus is None


def test_cores_that_are_no_cpus_of_this_process_are_not_bound() -> None:
    inside = [{"type": "core", "id": 100_000}]
    graph = fluxres.load({"fluxres": 1, "name": "ws", "resources": [{"type": "node", "hosts": "ws", "with": inside}]})
    found = setting(graph, "slot/core")
    assert (found.cpus, found.notes) == (None, ["not bound to cores: /ws/ws/core100000 is no CPU that this process may use"])


def test_processing_units_of_hwloc_have_the_numbers_of_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    the_library()

    def synthetic() -> Topology:
        return Topology.from_synthetic("core:2 pu:2(indexes=0,2,1,3)")

    monkeypatch.setattr(Topology, "from_this_system", synthetic)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(4)))
    cores = [{"type": "core", "id": core, "with": [{"type": "pu", "id": 2 * core + k} for k in (0, 1)]} for core in (0, 1)]
    graph = fluxres.load({"fluxres": 1, "name": "ws", "resources": [{"type": "node", "hosts": "ws", "with": cores}]})
    found = [environment.setting(graph, graph.allocate("slot/core{x}", job=job), binds=True).cpus for job in "ab"]
    assert found == [(0, 2), (1, 3)]


def test_memory_is_in_bytes() -> None:
    assert setting(machine(), "slot/[core;memory=16]").memory_bytes == 16 << 20
    assert setting(machine(), "slot/node{x}").memory_bytes == 64 << 20
    assert setting(machine(), "slot/core").memory_bytes is None


def test_an_amount_of_memory_without_a_unit_is_no_limit() -> None:
    graph = fluxres.load(b"managers: [{type: quantity, key: memory, quantity: 2048}]", format="jqm")
    found = environment.setting(graph, graph.allocate("slot/memory=256", job="j"), binds=False)
    assert (found.memory_bytes, found.notes) == (None, ["memory is not limited: its unit is not known"])


def test_a_job_of_jqm_sees_its_items() -> None:
    graph = fluxres.load(b"managers: [{type: discrete, key: ports, list: 'a,b', consumption: 2}]", format="jqm")
    request = fluxres.Request.parse("ports=1", format="jqm")
    found = environment.setting(graph, graph.allocate(request, job="j"), request, binds=False)
    assert found.variables["JQM_RM_DISCRETE_PORTS_ITEMS"] == "a"
