"""Bounds: their relations to each other, and that each is hit by some test.

The tests that hit a bound are next to those of the code that checks it; `test_tidy.py` ensures that each bound has one.
"""

from __future__ import annotations

import numpy as np
import pytest

from fluxres import clock, limits


def test_bounds_are_positive() -> None:
    assert [name for name in dir(limits) if name.isupper() and not getattr(limits, name) > 0] == []


def test_vertex_numbers_fit_their_column() -> None:
    assert np.iinfo(np.int32).max >= limits.POOLS_MAX


@pytest.mark.parametrize("bound", [limits.SIZE_MAX, limits.ID_MAX])
def test_sizes_and_ids_fit_their_column_with_room_for_a_sum_of_two(bound: int) -> None:
    assert 2 * bound <= np.iinfo(np.int64).max


def test_largest_time_is_before_forever() -> None:
    assert clock.ticks(limits.TIME_MAX_S) < clock.FOREVER


def test_document_can_be_as_deep_as_a_machine() -> None:
    # Each level of containment takes a list and a mapping.
    assert limits.DOCUMENT_DEPTH_MAX >= 2 * limits.DEPTH_MAX
