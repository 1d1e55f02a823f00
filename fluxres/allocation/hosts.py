"""The names of execution targets, folded into host lists by number and not by text.

Every allocation names its hosts, one of a thousand nodes a thousand of them.  So the name of each target is made and split (stem,
number, digits) once, and comparing columns then tells which neighbours share a range.  The text is that of
:func:`fluxres.syntax.hostlist.format`.
"""

from __future__ import annotations

import re
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fluxres.graph.auxiliary import Int32
from fluxres.graph.structure import Structure
from fluxres.syntax import hostlist

NUMBER_DIGITS_MAX: Final = 18
"""Longer numbers count as part of the name: they do not fit the column."""
_PLAIN: Final = re.compile(r"[A-Za-z][A-Za-z0-9.-]{0,63}")
"""Names that every host list can contain; others are checked."""


class Hosts:
    """Names of targets, each made when it is first needed.

    Args:
        vertices: the pool of each target.
    """

    __slots__ = ("_digits", "_names", "_numbers", "_padded", "_stem_of", "_stems", "_vertices")

    def __init__(self, vertices: Int32) -> None:
        length = len(vertices)
        self._vertices = vertices
        self._names: list[str | None] = [None] * length
        #: Number of the stem; -1 for a name that was not made yet.
        self._stem_of = np.full(length, -1, np.int32)
        self._numbers: NDArray[np.int64] = np.zeros(length, np.int64)
        #: Digits of the number; 0 for a name without one.
        self._digits = np.zeros(length, np.int8)
        self._padded = np.zeros(length, np.bool_)
        self._stems: dict[str, int] = {}

    def _learn(self, structure: Structure, at: int) -> str:
        name = structure.name(self._vertices.item(at))
        if not _PLAIN.fullmatch(name):
            hostlist.format([name])  # refuses a name that no host list can contain
        stem = name.rstrip("0123456789")
        digits = name[len(stem) :]
        if 0 < len(digits) <= NUMBER_DIGITS_MAX:
            self._numbers[at] = int(digits)
            self._digits[at] = len(digits)
            self._padded[at] = digits[0] == "0" and len(digits) > 1
        else:
            stem = name
        self._stem_of[at] = self._stems.setdefault(stem, len(self._stems))
        self._names[at] = name
        return name

    def name(self, structure: Structure, at: int) -> str:
        """The name of one target; cost and errors as for :meth:`folded`."""
        return self._names[at] or self._learn(structure, at)

    def folded(self, structure: Structure, targets: NDArray[np.int64]) -> str:
        """The host list of these targets, in this order.

        Args:
            structure: that the vertices belong to.
            targets: positions, at least one.

        Cost: columns over the targets; a few microseconds for each new name.
        Errors: InputError for a name that no host list can contain.
        """
        if len(targets) == 1:
            return self.name(structure, targets.item(0))
        stem = self._stem_of[targets]
        if (new := targets[stem < 0]).size:
            for at in new.tolist():
                self._learn(structure, at)
            stem = self._stem_of[targets]
        number, digits = self._numbers[targets], self._digits[targets]
        # The next number with as many digits, or with more of them where the number is not padded.
        longer = (digits[1:] > digits[:-1]) & ~self._padded[targets[1:]]
        joins = (stem[1:] == stem[:-1]) & (number[1:] == number[:-1] + 1) & ((digits[1:] == digits[:-1]) | longer)
        joins &= digits[:-1] > 0
        first = np.flatnonzero(np.concatenate([[True], ~joins]))
        last = np.append(first[1:], len(targets)) - 1
        stems = list(self._stems)
        groups: list[tuple[int, list[str]]] = []
        columns = (stem[first], number[first], digits[first], number[last])
        for which, low, width, high in zip(*(column.tolist() for column in columns), strict=True):
            text = f"{low:0{width}}" if low == high else f"{low:0{width}}-{high:0{width}}"
            if width and groups and groups[-1][0] == which and groups[-1][1]:
                groups[-1][1].append(text)
            else:
                groups.append((which, [text] if width else []))
        return ",".join(_group(stems[which], runs) for which, runs in groups)


def _group(stem: str, runs: list[str]) -> str:
    if len(runs) == 1 and "-" not in runs[0]:
        return stem + runs[0]
    return f"{stem}[{','.join(runs)}]" if runs else stem
