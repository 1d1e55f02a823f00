"""Every integer column is restored, and a regular one is small."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fluxres.errors import StoreError
from fluxres.store import encoding

INT64 = st.integers(-(2**63), 2**63 - 1)
SHAPES = st.one_of(
    st.lists(INT64, max_size=40),
    st.lists(st.sampled_from([-(2**63), -1, 0, 1, 255, 256, 2**63 - 1]), max_size=40),
    st.builds(
        lambda first, step, n: [first + step * i for i in range(n)], st.integers(-9, 9), st.integers(-9, 9), st.integers(0, 99)
    ),
    st.builds(lambda part, times: part * times, st.lists(INT64, min_size=1, max_size=5), st.integers(0, 30)),
    st.builds(lambda runs: [v for v, n in runs for _ in range(n)], st.lists(st.tuples(INT64, st.integers(17, 60)), max_size=4)),
)


def there_and_back(values: np.ndarray[Any, Any]) -> tuple[encoding.Column, np.ndarray[Any, Any]]:
    payloads: list[bytes] = []
    column = encoding.encode_column(values, payloads)
    left = iter(payloads)

    def take(length: int) -> bytes:
        payload = next(left)
        assert len(payload) == length
        return payload

    back = encoding.decode_column(column, values.dtype, take)
    assert next(left, None) is None
    return column, back


@given(SHAPES)
def test_int64_is_restored(values: list[int]) -> None:
    given_values = np.array(values, np.int64)
    _, back = there_and_back(given_values)
    assert back.dtype == np.int64
    assert back.tolist() == values


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.int16, np.int32])
@given(data=st.data())
def test_narrow_types_are_restored(dtype: Any, data: st.DataObject) -> None:
    info = np.iinfo(dtype)
    values = np.array(data.draw(st.lists(st.integers(int(info.min), int(info.max)), max_size=50)), dtype)
    _, back = there_and_back(values)
    assert back.dtype == dtype
    assert back.tolist() == values.tolist()


@pytest.mark.parametrize(
    ("values", "bytes_max"),
    [
        (np.full(10_000, 7), 0),
        (np.arange(10_000) * 3 - 5, 0),
        (np.repeat(np.arange(100), 100), 200),
        (np.tile(np.arange(96), 100), 200),
        (np.cumsum(np.tile([1, 2, 3, 5], 1000)), 100),
    ],
)
def test_regular_column_takes_little_space(values: np.ndarray[Any, Any], bytes_max: int) -> None:
    payloads: list[bytes] = []
    encoding.encode_column(values.astype(np.int64), payloads)
    assert sum(map(len, payloads)) <= bytes_max


def test_inflated_data_never_exceeds_its_announced_size() -> None:
    payload, zipped = encoding.squeeze(bytes(1_000_000))
    assert zipped
    with pytest.raises(StoreError, match="11 bytes instead of 10"):
        encoding.expand(payload, zipped, 10)


@pytest.mark.parametrize(
    "column",
    [
        encoding.Column(-1),
        encoding.Column(3, width=3, length=6),
        encoding.Column(4, width=1, length=4),
        encoding.Column(0, width=1, length=0),
    ],
)
def test_invalid_column_descriptions_are_refused(column: encoding.Column) -> None:
    with pytest.raises(StoreError):
        encoding.decode_column(column, np.int64, lambda length: b"\0" * length)
