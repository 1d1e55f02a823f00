"""specs/this-machine.md says what detection does: its example, its types and properties, and its lists of devices."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fluxres import limits
from fluxres.formats.machine import this_machine
from fluxres.formats.machine.detect import PARTS
from fluxres.formats.machine.visible import Device, cuda, rocr
from tests.formats.machine import trees
from tests.formats.machine.outline import outline, said
from tests.traceability import ROOT

TEXT = (ROOT / "specs" / "this-machine.md").read_text(encoding="utf-8")
MACHINES = (
    *(trees.laptop, trees.epyc, trees.mi250x, trees.grace_hopper, trees.container, trees.wsl),
    *(trees.raspberry_pi, trees.phone, trees.power9, trees.xeon_max, trees.virtual),
)
TWO = [Device(0, "GPU-8932", ("MIG-c6d4",)), Device(1, "GPU-77AA")]


def rows(heading: str) -> list[list[str]]:
    """The cells of the table whose first header is this."""
    found = re.search(rf"^\| {re.escape(heading)} \|.*\n\|[-|:]+\n((?:\|.*\n)+)", TEXT, re.MULTILINE)
    assert found
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in found[1].splitlines()]


def test_the_example_is_what_is_shown(tmp_path: Path) -> None:
    trees.epyc(tmp_path)
    found = this_machine(tmp_path, {})
    assert f"/cluster\n{outline(found)}\n```" in TEXT
    lines = [line.replace("/proc/self/status", "affinity mask of this process") for line in said(found, tmp_path)]
    assert "\n".join(f"fluxres: this-machine: {line}" for line in lines[:-1]) in TEXT


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.__name__)
def test_types_and_properties_are_explained(tmp_path: Path, machine: object) -> None:
    machine(tmp_path)  # type: ignore[operator]  # it makes a tree
    explained = {type_.strip("`"): {*re.findall(r"`(\w+)`", text)} for type_, *_, text in rows("type")}
    structure = this_machine(tmp_path, {}).structure
    for kind in structure.kinds:
        assert {key for key, _ in kind.properties} <= explained[kind.type]


def test_parts_are_listed() -> None:
    row = next(cells for cells in rows("source") if "gpus/nvidia`" in cells[0])
    assert {*re.findall(r"`([^`]+)`", row[1])} == {*PARTS}


@pytest.mark.parametrize(("value", "by_cuda", "by_rocr"), rows("value"))
def test_lists_of_devices(value: str, by_cuda: str, by_rocr: str) -> None:
    for read, text in ((cuda, by_cuda), (rocr, by_rocr)):
        places = [at for at, _ in read(value.strip("`"), TWO).devices]
        assert places == ([] if text == "none" else [int(at) for at in text.split(", ")])


def test_bounds_are_those_of_the_code() -> None:
    assert f"{limits.DETECTED_FILE_BYTES_MAX >> 20} MiB of a file, {limits.DETECTED_ENTRIES_MAX:,} names" in TEXT
    assert f"numbers below {limits.CPUS_MAX:,}" in TEXT
    assert f"after {limits.DETECTION_PROGRAM_S:g} s" in TEXT
