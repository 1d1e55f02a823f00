"""Distinct values in ascending order: what `numpy.unique` does, but faster for the columns of a machine.

Adjacent values of a column are mostly equal (the cores of one socket have the same parent), so adjacent duplicates are dropped
first and little remains to be sorted.  `numpy.unique` sorts or hashes everything, and it imports masked arrays, which noticeably
delays a command.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Number = TypeVar("Number", bound=np.integer)


def distinct(values: NDArray[Number]) -> NDArray[Number]:
    """The distinct values, ascending.

    >>> distinct(np.array([3, 3, 1, 1, 3])).tolist()
    [1, 3]
    """
    found = _without_adjacent_duplicates(values)
    return found if (found[1:] > found[:-1]).all() else _without_adjacent_duplicates(np.sort(found))


def _without_adjacent_duplicates(values: NDArray[Number]) -> NDArray[Number]:
    return values[np.concatenate([[True], values[1:] != values[:-1]])] if len(values) > 1 else values
