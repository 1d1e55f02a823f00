"""Each value once, ascending: what `numpy.unique` does, for the columns of a machine.

Neighbours in a column are mostly alike (the cores of one socket have one parent), so runs are melted first and little is left to
be sorted.  `numpy.unique` sorts or hashes everything, and imports masked arrays on its way, which a command feels.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Number = TypeVar("Number", bound=np.integer)


def distinct(values: NDArray[Number]) -> NDArray[Number]:
    """The values, ascending, each once.

    >>> distinct(np.array([3, 3, 1, 1, 3])).tolist()
    [1, 3]
    """
    found = _melted(values)
    return found if (found[1:] > found[:-1]).all() else _melted(np.sort(found))


def _melted(values: NDArray[Number]) -> NDArray[Number]:
    return values[np.concatenate([[True], values[1:] != values[:-1]])] if len(values) > 1 else values
