"""NumPy arrays by what is in them, for annotations."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
UInt64 = NDArray[np.uint64]
Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
