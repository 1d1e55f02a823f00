"""canary's words: pools in counts, requests from parameters, variables and their placeholders."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fluxres import limits
from fluxres.errors import FluxresError, InputError, LimitExceeded, UsageError
from fluxres.formats.peers.canary.language import Device, device_environment, environment, infer, parse_counts, requests


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        ("resource_pool:gpus:4", {"gpus": 4}),
        ("-c resource_pool:gpus:4 -c resource_pool:fpgas:0", {"gpus": 4, "fpgas": 0}),
        ("gpu=2, nodes=3", {"gpus": 2, "nodes": 3}),
        ("-r slots_per_gpu=3\n-r gpu=1", {"slots_per_gpus": 3, "gpus": 1}),
        ("-r gpus=2 --oversubscribe gpu=3 -r cpus=4", {"gpus": 2, "cpus": 4, "slots_per_gpus": 3}),
        ("gpus=2 slots_per_gpu=2 --oversubscribe=gpus=3", {"gpus": 2, "slots_per_gpus": 6}),
        ("", {}),
    ],
)
def test_pools_in_words(text: str, counts: dict[str, int]) -> None:
    assert parse_counts(text) == counts


@pytest.mark.parametrize("text", ["gpus", "gpus=", "gpus=-1", "gpus=1.5", "=3", "a:b:3", "resource_pool:gpus=4", "gpu=1 gpus=2"])
def test_invalid_words_are_refused(text: str) -> None:
    with pytest.raises(InputError) as found:
        parse_counts(text)
    assert found.value.where == "resource pool"


@pytest.mark.parametrize("text", ["--oversubscribe gpus=2", "nodes=2 --oversubscribe nodes=2", "gpus=1 --oversubscribe gpus=0"])
def test_oversubscribing_types_missing_in_the_pool_is_refused(text: str) -> None:
    with pytest.raises(InputError) as found:
        parse_counts(text)
    assert found.value.where == "resource pool: --oversubscribe"


@pytest.mark.parametrize("text", ["gpus=" + "9" * 30, "x" * 70_000])
def test_bounds(text: str) -> None:
    with pytest.raises(LimitExceeded):
        parse_counts(text)


def test_parameter_is_a_resource_if_the_pool_declares_the_type() -> None:
    assert infer({"gpus": 2, "np": 3, "cpus": 4}, ["gpus", "cpus"]) == {"gpus": 2, "cpus": 4}
    assert infer({"name": "x"}, ["gpus"]) == {"cpus": 1}
    for wrong in (1.5, "2", True, -1, None, [1]):
        with pytest.raises(InputError, match="whole number"):
            infer({"gpus": wrong}, ["gpus"])
    with pytest.raises(LimitExceeded):
        infer({"gpus": 2**64}, ["gpus"])


COUNTS = st.dictionaries(st.sampled_from(["cpus", "gpus", "fpgas"]), st.integers(0, 40), min_size=1)


@given(COUNTS, st.integers(1, 8), st.none() | st.integers(1, 7))
def test_counts_are_distributed_evenly(counts: dict[str, int], each: int, nodes: int | None) -> None:
    found = requests(counts, dict.fromkeys(counts, each), nodes=nodes)
    for word, count in counts.items():
        per_node = [sum(item.type == word for item in request.items) for request in found]
        assert sum(per_node) == count
        assert max(per_node) - min(per_node) <= 1
        assert per_node == sorted(per_node, reverse=True)
        assert nodes is not None or max(per_node) <= each
    assert {request.exclusive for request in found} == {len(found) > 1}
    assert nodes is not None or len(found) == max(1, -(-max(counts.values()) // each))


def test_invalid_requests_are_refused() -> None:
    with pytest.raises(InputError, match="no node has any"):
        requests({"gpus": 1}, {"cpus": 1})
    with pytest.raises(UsageError):
        requests({"cpus": 1}, {"cpus": 1}, nodes=0)
    with pytest.raises(LimitExceeded):
        requests({"cpus": 10**9}, {"cpus": 1})
    with pytest.raises(LimitExceeded):
        requests({"cpus": 1}, {"cpus": 1}, nodes=10**9)


@pytest.mark.parametrize(
    ("value", "made"),
    [
        ("%(gpu_ids)s", "0,1"),
        ("a%(cpu_ids)sb%%", "5b%".replace("5", "a5")),
        ("100%", "100%"),
        ("%(fpga_ids)s", "%(fpga_ids)s"),
        ("%(gpu_ids)d", "%(gpu_ids)d"),
        ("%(gpu_ids", "%(gpu_ids"),
        ("%(gpu_ids)99999999999s", "%(gpu_ids)99999999999s"),
        ("%(gpu_ids).99999999999s", "%(gpu_ids).99999999999s"),
        ("%(" * limits.VALUE_LENGTH_MAX + "%(gpu_ids)s", "%(" * limits.VALUE_LENGTH_MAX + "%(gpu_ids)s"),
        ("", ""),
    ],
)
def test_placeholders(value: str, made: str) -> None:
    assert environment({"gpus": ["0", "1"], "cpus": ["5"]}, {"V": value})["V"] == made


@given(st.text(st.sampled_from("%()sd0123456789.*-+ #gpu_ids"), max_size=30))
def test_placeholders_in_any_value_are_filled_or_left(value: str) -> None:
    assert len(environment({"gpus": ["0"]}, {"V": value})["V"]) < 40_000


def test_devices_by_vendor() -> None:
    devices = [
        Device("n", "1"),
        Device("n", "0", "nvidia"),
        Device("m", "1", "NVIDIA"),
        Device("n", "7", "AMD"),
        Device("n", "8", "x"),
        Device("n", "2", "UNKNOWN"),
        Device("n", "3", ""),
        Device("n", "9", "ROCm"),
    ]
    assert device_environment(devices) == {"CUDA_VISIBLE_DEVICES": "1,0,2,3", "ROCR_VISIBLE_DEVICES": "7,9"}
    assert device_environment(devices, {"ROCR_VISIBLE_DEVICES": "", "A": "b"})["ROCR_VISIBLE_DEVICES"] == ""
    assert device_environment([]) == {}


@given(st.text(max_size=12))
def test_any_text_is_counts_or_an_error(text: str) -> None:
    try:
        where = "".join(parse_counts(text)) or "nothing"
    except FluxresError as error:
        where = error.where
    assert where
