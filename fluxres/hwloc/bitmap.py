"""Sets of processors or NUMA nodes: finite, or full from some index on.

Each bitmap owns its memory; those of topologies are copied before anyone sees them.  The functions called here hold the
interpreter lock, so a bitmap may be used by several threads.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, TypeAlias

from fluxres import limits
from fluxres.hwloc._library import C, check, failure

__all__ = ["Bitmap", "compare_first"]

_NUMBER: Final = re.compile(r"[0-9]+")
_LIBC: Final = ctypes.PyDLL(None)
#: inside the class, `set` is a method
_Numbers: TypeAlias = set[int]


def _index(bit: int) -> int:
    """An index that memory may be spent on."""
    if not 0 <= bit <= limits.BITMAP_INDEX_MAX:
        raise ValueError(f"expected an index from 0 to {limits.BITMAP_INDEX_MAX}, got {bit}")
    return bit


def _allocated(handle: int | None) -> ctypes.c_void_p:
    if not handle:
        raise MemoryError("libhwloc has no memory for a bitmap")
    return ctypes.c_void_p(handle)


class Bitmap:
    """A set of whole numbers: ``Bitmap.from_list_string("0,2,4-6").weight()`` is 5."""

    _hdl: ctypes.c_void_p
    _own: bool

    def __init__(self) -> None:
        self._hdl = _allocated(C.bitmap_alloc())
        self._own = True

    @property
    def native_handle(self) -> ctypes.c_void_p:
        """The pointer to give to libhwloc; valid while this object is."""
        return self._hdl

    def __del__(self) -> None:
        handle = self.__dict__.pop("_hdl", None)
        if handle and self._own:
            C.bitmap_free(handle)

    # -- made from other things --------------------------------------------------------------------------------------

    @classmethod
    def full(cls) -> Bitmap:
        """All numbers."""
        return cls.from_native_handle(_allocated(C.bitmap_alloc_full()))

    @classmethod
    def from_ulong(cls, mask: int) -> Bitmap:
        """The bits of one word of 64."""
        bitmap = cls()
        check(C.bitmap_from_ulong(bitmap._hdl, mask))
        return bitmap

    @classmethod
    def from_ulongs(cls, mask: Sequence[int]) -> Bitmap:
        """The bits of several words, the lowest first."""
        bitmap = cls()
        check(C.bitmap_from_ulongs(bitmap._hdl, len(mask), (ctypes.c_ulong * len(mask))(*mask)))
        return bitmap

    @classmethod
    def from_ith_ulong(cls, i: int, mask: int) -> Bitmap:
        """The bits of one word that stands at word `i`."""
        bitmap = cls()
        _index(i * 64)
        check(C.bitmap_from_ith_ulong(bitmap._hdl, i, mask))
        return bitmap

    @classmethod
    def from_pyseq(cls, index: Iterable[int]) -> Bitmap:
        """These numbers."""
        bitmap = cls()
        for number in index:
            bitmap.set(number)
        return bitmap

    @classmethod
    def from_string(cls, string: str) -> Bitmap:
        """As :meth:`to_string` writes it: ``0x0000000f``."""
        return cls._parsed(C.bitmap_sscanf, string)

    @classmethod
    def from_list_string(cls, list_string: str) -> Bitmap:
        """As :meth:`to_list_string` writes it: ``0,2,4-6``, or ``4-`` without an end."""
        for number in _NUMBER.findall(list_string):
            _index(int(number) if len(number) < 20 else limits.BITMAP_INDEX_MAX + 1)
        return cls._parsed(C.bitmap_list_sscanf, list_string)

    @classmethod
    def from_taskset_string(cls, string: str) -> Bitmap:
        """As :meth:`to_taskset_string` writes it: ``0xf``."""
        return cls._parsed(C.bitmap_taskset_sscanf, string)

    @classmethod
    def _parsed(cls, parse: Any, string: str) -> Bitmap:
        bitmap = cls()
        # These functions do not say why they fail, and an earlier reason must not stand for it.
        ctypes.set_errno(0)
        check(parse(bitmap._hdl, string.encode("utf-8")))
        return bitmap

    @classmethod
    def from_sched_set(cls, index: _Numbers) -> Bitmap:
        """A set as the ``os.sched_*`` functions use it."""
        return cls.from_pyseq(index)

    @classmethod
    def from_native_handle(cls, hdl: ctypes.c_void_p, *, own: bool = True) -> Bitmap:
        """A bitmap of libhwloc; freed with this object if `own`, else somebody else keeps it alive."""
        bitmap = cls.__new__(cls)
        bitmap._hdl = hdl
        bitmap._own = own
        return bitmap

    def __copy__(self) -> Bitmap:
        return copy_of(self._hdl)

    def __deepcopy__(self, memo: dict[int, Any]) -> Bitmap:
        return self.__copy__()

    def __reduce__(self) -> tuple[Callable[[str], Bitmap], tuple[str]]:
        return Bitmap.from_list_string, (self.to_list_string(),)

    # -- changed in place --------------------------------------------------------------------------------------------

    def set(self, bit: int) -> None:
        """Add a number."""
        check(C.bitmap_set(self._hdl, _index(bit)))

    def clr(self, bit: int) -> None:
        """Take a number out."""
        check(C.bitmap_clr(self._hdl, _index(bit)))

    def set_range(self, begin: int, end: int) -> None:
        """Add the numbers from `begin` to `end`, both of them; without an end for -1."""
        check(C.bitmap_set_range(self._hdl, _index(begin), end if end == -1 else _index(end)))

    def clear_range(self, begin: int, end: int) -> None:
        """Take out the numbers from `begin` to `end`, both of them; without an end for -1."""
        check(C.bitmap_clr_range(self._hdl, _index(begin), end if end == -1 else _index(end)))

    def zero(self) -> None:
        """Take everything out."""
        C.bitmap_zero(self._hdl)

    def fill(self) -> None:
        """Add all numbers."""
        C.bitmap_fill(self._hdl)

    def only(self, bit: int) -> None:
        """Be this number alone."""
        check(C.bitmap_only(self._hdl, _index(bit)))

    def allbut(self, bit: int) -> None:
        """Be everything but this number."""
        check(C.bitmap_allbut(self._hdl, _index(bit)))

    def singlify(self) -> None:
        """Keep the first number only."""
        check(C.bitmap_singlify(self._hdl))

    def __setitem__(self, bit: int, value: bool) -> None:
        if value:
            self.set(bit)
        else:
            self.clr(bit)

    # -- written out -------------------------------------------------------------------------------------------------

    def to_string(self) -> str:
        """Words of 32 bits in hexadecimal, the highest first: ``0x00000001,0x0000000f``."""
        return self._written(C.bitmap_asprintf)

    def to_list_string(self) -> str:
        """Numbers and ranges: ``0,2,4-6``."""
        return self._written(C.bitmap_list_asprintf)

    def to_taskset_string(self) -> str:
        """One hexadecimal number, as taskset writes it."""
        return self._written(C.bitmap_taskset_asprintf)

    def _written(self, write: Any) -> str:
        text = ctypes.c_char_p()
        if write(ctypes.byref(text), self._hdl) < 0:
            raise failure(-1)
        try:
            return (text.value or b"").decode("ascii")
        finally:
            _LIBC.free(text)

    def to_sched_set(self) -> _Numbers:
        """A set as the ``os.sched_*`` functions use it.

        Errors: ValueError for a bitmap without an end.
        """
        if self.weight() < 0:
            raise ValueError("a bitmap without an end is no finite set")
        return {*self}

    # -- asked -------------------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[int]:
        bit = C.bitmap_first(self._hdl)
        while bit != -1:
            yield bit
            bit = C.bitmap_next(self._hdl, bit)

    def iter_unset(self) -> Iterator[int]:
        """The numbers that are not in it, ascending."""
        bit = C.bitmap_first_unset(self._hdl)
        while bit != -1:
            yield bit
            bit = C.bitmap_next_unset(self._hdl, bit)

    def weight(self) -> int:
        """How many numbers; -1 for a bitmap without an end."""
        return int(C.bitmap_weight(self._hdl))

    def first(self) -> int:
        """The least number, -1 for none."""
        return int(C.bitmap_first(self._hdl))

    def last(self) -> int:
        """The greatest number, -1 for none or no end."""
        return int(C.bitmap_last(self._hdl))

    def is_zero(self) -> bool:
        """Whether it is empty."""
        return bool(C.bitmap_iszero(self._hdl))

    def is_full(self) -> bool:
        """Whether it has all numbers."""
        return bool(C.bitmap_isfull(self._hdl))

    def any(self) -> bool:
        """Whether it has any number."""
        return not self.is_zero()

    def intersects(self, other: Bitmap) -> bool:
        """Whether both have a number in common."""
        return bool(C.bitmap_intersects(self._hdl, other._hdl))

    def is_included(self, other: Bitmap) -> bool:
        """Whether `other` has all of its numbers."""
        return bool(C.bitmap_isincluded(self._hdl, other._hdl))

    def __contains__(self, bit: int) -> bool:
        return bit >= 0 and bool(C.bitmap_isset(self._hdl, bit))

    def __getitem__(self, bit: int) -> bool:
        return bit in self

    # -- combined ----------------------------------------------------------------------------------------------------

    def _combined(self, combine: Any, other: Bitmap) -> Bitmap:
        result = Bitmap()
        check(combine(result._hdl, self._hdl, other._hdl))
        return result

    def andnot(self, other: Bitmap) -> Bitmap:
        """What is in this one and not in `other`."""
        return self._combined(C.bitmap_andnot, other)

    def __or__(self, other: Bitmap) -> Bitmap:
        return self._combined(C.bitmap_or, other)

    def __and__(self, other: Bitmap) -> Bitmap:
        return self._combined(C.bitmap_and, other)

    def __xor__(self, other: Bitmap) -> Bitmap:
        return self._combined(C.bitmap_xor, other)

    def __invert__(self) -> Bitmap:
        result = Bitmap()
        check(C.bitmap_not(result._hdl, self._hdl))
        return result

    # -- compared: as numbers whose highest bits weigh most ----------------------------------------------------------

    __hash__ = None  # type: ignore[assignment]  # it changes in place

    def __eq__(self, other: object) -> bool:
        return bool(C.bitmap_isequal(self._hdl, _bitmap(other)._hdl))

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __lt__(self, other: object) -> bool:
        return bool(C.bitmap_compare(self._hdl, _bitmap(other)._hdl) < 0)

    def __gt__(self, other: object) -> bool:
        return bool(C.bitmap_compare(self._hdl, _bitmap(other)._hdl) > 0)

    def __le__(self, other: object) -> bool:
        return not self > other

    def __ge__(self, other: object) -> bool:
        return not self < other

    def __str__(self) -> str:
        return self.to_list_string()

    def __repr__(self) -> str:
        return f"Bitmap({self.to_list_string()!r})"


def _bitmap(other: object) -> Bitmap:
    if not isinstance(other, Bitmap):
        raise TypeError("Expecting Bitmap for comparison.")
    return other


def copy_of(handle: ctypes.c_void_p) -> Bitmap:
    """A copy of a bitmap that something else owns."""
    return Bitmap.from_native_handle(_allocated(C.bitmap_dup(handle)))


def compare_first(lhs: Bitmap, rhs: Bitmap) -> int:
    """Compare by the first number: negative where that of `lhs` is less; the empty bitmap comes last."""
    return int(C.bitmap_compare_first(lhs.native_handle, rhs.native_handle))
