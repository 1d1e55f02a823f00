"""NumPy arrays by what is in them, for annotations."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
UInt8 = NDArray[np.uint8]
UInt16 = NDArray[np.uint16]
UInt64 = NDArray[np.uint64]
Integers = NDArray[np.integer[Any]]
Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
