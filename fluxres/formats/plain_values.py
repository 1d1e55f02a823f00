"""Convert Python values from a caller to the plain values of a document, or raise with the place of a value of another type.

A program may give ids as a range or an array and sizes as NumPy integers; readers expect lists, int and float. The copy is
bounded like a document, so a value that contains itself ends at the bound.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping
from typing import Any, Final, Protocol, runtime_checkable

import numpy as np

from fluxres import limits
from fluxres.documents.document import Document, Key, shown
from fluxres.errors import InputError, LimitExceeded
from fluxres.syntax.hostlist import Hostlist
from fluxres.syntax.idset import IDset


@runtime_checkable
class Described(Protocol):
    """An object that provides its own keys and values."""

    def described(self) -> dict[str, object]:
        """The keys of its entry; values may be `Described` too."""
        ...


def document(values: object, file: str, *, finite: bool = False) -> Document:
    """Values as a document, whose places are paths in them.

    Args:
        finite: refuse infinity and NaN, which JSON does not have.

    Errors: InputError with the path of a value that a document cannot have; LimitExceeded.

    >>> document({"fluxres": 1, "resources": [{"type": "node", "id": range(2)}]}, "<dict>").values
    {'fluxres': 1, 'resources': [{'type': 'node', 'id': [0, 1]}]}
    """
    return Document(_Copy(file, finite).plain(values, []), file, "", is_made=True)


_PLAIN: Final = frozenset((str, int, bool, type(None)))


class _Copy:
    """One pass over the values."""

    def __init__(self, file: str, finite: bool) -> None:
        self.count = 0
        self.file = file
        self.finite = finite

    def where(self, path: list[Key]) -> str:
        return Document(None, self.file, "", is_made=True).where(path)

    def plain(self, value: Any, path: list[Key]) -> object:
        self.count += 1
        if self.count > limits.DOCUMENT_VALUES_MAX:
            raise LimitExceeded(f"more than {limits.DOCUMENT_VALUES_MAX} values", where=self.where(path))
        if len(path) > limits.DOCUMENT_DEPTH_MAX:
            hint = f"a machine has at most {limits.DEPTH_MAX} levels"
            raise LimitExceeded(f"more than {limits.DOCUMENT_DEPTH_MAX} levels", where=self.where(path), hint=hint)
        if type(value) in _PLAIN:  # nearly all
            return value
        if isinstance(value, Described) and not isinstance(value, type):
            value = value.described()
        if isinstance(value, Mapping):
            return {self._key(key, path): self.plain(inner, [*path, key]) for key, inner in value.items()}
        if isinstance(value, np.ndarray):
            value = value.tolist()
        if isinstance(value, list | tuple | range):
            return [self.plain(inner, [*path, i]) for i, inner in enumerate(value)]
        return self._scalar(value, path)

    def _key(self, key: object, path: list[Key]) -> str:
        if not isinstance(key, str):
            raise InputError(f"the key {shown(key)} is not text", where=self.where(path), hint="put it in quotes")
        return str(key)

    def _scalar(self, value: object, path: list[Key]) -> object:
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str | Hostlist | IDset):
            return str(value)
        if isinstance(value, np.bool_):
            return bool(value)
        whole, real = (numbers.Integral, numbers.Real)
        if isinstance(value, whole):
            return int(value)
        if isinstance(value, real):
            if self.finite and not math.isfinite(value):
                raise InputError(f"expected a finite number, got {value}", where=self.where(path), hint="leave it out")
            return float(value)
        what = type(value).__name__
        raise InputError(f"expected text, a number, true, false, null, a list or a mapping, got {what}", where=self.where(path))
