"""Lists of devices, read as CUDA and ROCr read them."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fluxres.formats.machine.visible import Chosen, Device, cuda, rocr, words
from fluxres.formats.peers.hyperqueue.environment import detected

FOUR = [Device(0, "GPU-8932f937"), Device(1, "GPU-8932aaaa"), Device(2, "GPU-77000000"), Device(3, "")]
MIG = [
    Device(0, "GPU-8932f937", ("MIG-c6d4f1ef", "MIG-GPU-8932f937/1/0")),
    Device(0, "GPU-8932f937", ("MIG-c6ffffff", "MIG-GPU-8932f937/2/0")),
    Device(1, "GPU-77000000"),
]


@pytest.mark.parametrize(
    ("value", "devices", "ended"),
    [
        ("0", [0], ""),
        ("2,0", [2, 0], ""),
        (" 1 , 3 ", [1, 3], ""),
        ("0,2,-1,1", [0, 2], "'-1' is no GPU here"),
        ("0,9,1", [0], "'9' is no GPU here"),
        ("-1", [], "'-1' is no GPU here"),
        ("NoDevFiles", [], "'NoDevFiles' is no GPU here"),
        ("", [], "it is empty"),
        ("  ", [], "it is empty"),
        (",0", [], "'' is no GPU here"),
        ("0,", [0], "'' is no GPU here"),
        ("0,1,0", [], "'0' is repeated"),
        ("1gpu2,2ampere", [1, 2], ""),
        ("+1", [1], ""),
        ("0x1", [0], ""),
        ("all", [], "'all' is no GPU here"),
        ("GPU-8932f937", [0], ""),
        ("GPU-77,GPU-8932a", [2, 1], ""),
        ("GPU-8932", [], "'GPU-8932' is no GPU here"),
        ("GPU-77,0", [2], "'0' is no GPU here"),
        ("0,GPU-77", [0], "'GPU-77' is no GPU here"),
        ("GPU-77,GPU-770", [], "'GPU-770' is repeated"),
        ("gpu-77", [], "'gpu-77' is no GPU here"),
        ("GPU-", [], "'GPU-' is no GPU here"),
        ("MIG-GPU-77000000/1/0", [], "'MIG-GPU-77000000/1/0' is no GPU here"),
        ("9" * 40, [], f"'{'9' * 40}' is no GPU here"),
    ],
)
def test_cuda(value: str, devices: list[int], ended: str) -> None:
    found = cuda(value, FOUR)
    assert [at for at, _ in found.devices] == devices
    assert found.ended == ended


@pytest.mark.parametrize(
    ("value", "devices"),
    [
        ("MIG-c6d4f1ef", [0]),
        ("MIG-GPU-8932f937/2/0", [1]),
        ("MIG-c6ff,MIG-c6d4", [1, 0]),
        ("MIG-c6", []),
        # A GPU with instances is its first one.
        ("0", [0]),
        ("1,0", [2, 0]),
        ("GPU-8932f937", [0]),
        ("MIG-c6d4f1ef,GPU-77000000", [0]),
    ],
)
def test_instances(value: str, devices: list[int]) -> None:
    assert [at for at, _ in cuda(value, MIG).devices] == devices


@pytest.mark.parametrize(
    ("value", "devices", "ended"),
    [
        ("1,0", [1, 0], ""),
        ("0x1,02", [1, 2], ""),
        ("1gpu", [], "'1gpu' is no GPU here"),
        ("0,0,1", [0], "'0' is repeated"),
        ("0,4", [0], "'4' is no GPU here"),
        ("-1", [], "'-1' is no GPU here"),
        ("", [], "it is empty"),
        ("gpu-77,0", [2, 0], ""),
        ("0,GPU-8932A", [0, 1], ""),
        ("GPU-8932", [], "'GPU-8932' is no GPU here"),
        ("GPU-", [], "'GPU-' is no GPU here"),
        ("GPU-7700000000000000000000", [], "'GPU-7700000000000000000000' is no GPU here"),
        ("08", [], "'08' is no GPU here"),
    ],
)
def test_rocr(value: str, devices: list[int], ended: str) -> None:
    found = rocr(value, FOUR)
    assert [at for at, _ in found.devices] == devices
    assert found.ended == ended


def test_names_stay_and_numbers_are_decimal() -> None:
    assert cuda("GPU-77", FOUR) == Chosen([(2, "GPU-77")])
    assert rocr("0x3, gpu-77", FOUR) == Chosen([(3, "3"), (2, "gpu-77")])


LISTS = st.lists(st.integers(-2, 6), max_size=7)


@given(LISTS)
def test_lists_of_numbers(numbers: list[int]) -> None:
    """Both end at the first number that is no device; a repeated one hides all from CUDA, and the rest from ROCr."""
    valid = [*itertools.takewhile(lambda number: 0 <= number < len(FOUR), numbers)]
    first = [number for at, number in enumerate(valid) if number not in valid[:at]]
    once = [*itertools.takewhile(lambda pair: pair[0] == pair[1], zip(valid, first, strict=False))]
    value = ",".join(map(str, numbers))
    assert [at for at, _ in cuda(value, FOUR).devices] == (valid if len(first) == len(valid) else [])
    assert [at for at, _ in rocr(value, FOUR).devices] == [number for number, _ in once]


@given(st.text(alphabet="01x-, GPUMIGgpu893277/f", max_size=30))
def test_any_text_is_a_list(value: str) -> None:
    for read, devices in ((cuda, FOUR), (cuda, MIG), (rocr, FOUR), (rocr, MIG)):
        found = read(value, devices)
        places = [at for at, _ in found.devices]
        assert len({*places}) == len(places)
        assert all(0 <= at < len(devices) for at in places)
        # What was chosen chooses the same again.
        if places:
            assert read(",".join(name for _, name in found.devices), devices).devices == found.devices


def test_hyperqueue_takes_the_same_words_as_they_are() -> None:
    assert words(" foo, bar,,2") == ["foo", "bar", "2"]
    assert detected({"CUDA_VISIBLE_DEVICES": " foo, bar,,2"})[0] == {"gpus/nvidia": ("foo", "bar", "2")}
