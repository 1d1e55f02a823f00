"""Bitmaps: sets of PUs or NUMA nodes by index, finite or infinite.

A bitmap owns its memory; the bitmaps of a topology are copied before they are returned.  All calls hold the interpreter lock,
so several threads may use one bitmap.
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
#: the type, because `set` is a method of the class
_Set: TypeAlias = set[int]


def _index(bit: int) -> int:
    """Check an index before libhwloc allocates memory up to it."""
    if not 0 <= bit <= limits.BITMAP_INDEX_MAX:
        raise ValueError(f"expected an index from 0 to {limits.BITMAP_INDEX_MAX}, got {bit}")
    return bit


def _allocated(handle: int | None) -> ctypes.c_void_p:
    if not handle:
        raise MemoryError("libhwloc cannot allocate a bitmap")
    return ctypes.c_void_p(handle)


class Bitmap:
    """A set of indexes, not hashable because it is mutable: ``Bitmap.from_list_string("0,2,4-6").weight()`` is 5."""

    _hdl: ctypes.c_void_p
    _own: bool

    def __init__(self) -> None:
        self._hdl = _allocated(C.bitmap_alloc())
        self._own = True

    @property
    def native_handle(self) -> ctypes.c_void_p:
        """The pointer to pass to libhwloc; valid as long as this object exists."""
        return self._hdl

    def __del__(self) -> None:
        handle = self.__dict__.pop("_hdl", None)
        if handle and self._own:
            C.bitmap_free(handle)

    # -- constructors --------------------------------------------------------------------------------------------------

    @classmethod
    def full(cls) -> Bitmap:
        """The infinite bitmap of all indexes."""
        return cls.from_native_handle(_allocated(C.bitmap_alloc_full()))

    @classmethod
    def from_ulong(cls, mask: int) -> Bitmap:
        """Indexes 0 to 63 from the bits of a mask."""
        bitmap = cls()
        check(C.bitmap_from_ulong(bitmap._hdl, mask))
        return bitmap

    @classmethod
    def from_ulongs(cls, mask: Sequence[int]) -> Bitmap:
        """The bits of several 64-bit masks, lowest indexes first."""
        bitmap = cls()
        check(C.bitmap_from_ulongs(bitmap._hdl, len(mask), (ctypes.c_ulong * len(mask))(*mask)))
        return bitmap

    @classmethod
    def from_ith_ulong(cls, i: int, mask: int) -> Bitmap:
        """The bits of the `i`-th 64-bit mask: bit 0 of mask 2 is index 128."""
        bitmap = cls()
        _index(i * 64)
        check(C.bitmap_from_ith_ulong(bitmap._hdl, i, mask))
        return bitmap

    @classmethod
    def from_pyseq(cls, index: Iterable[int]) -> Bitmap:
        bitmap = cls()
        for number in index:
            bitmap.set(number)
        return bitmap

    @classmethod
    def from_string(cls, string: str) -> Bitmap:
        """Parse the format of :meth:`to_string`: ``0x0000000f``."""
        return cls._parsed(C.bitmap_sscanf, string)

    @classmethod
    def from_list_string(cls, list_string: str) -> Bitmap:
        """Parse the format of :meth:`to_list_string`: ``0,2,4-6``, or ``4-`` for an infinite range."""
        for number in _NUMBER.findall(list_string):
            _index(int(number) if len(number) < 20 else limits.BITMAP_INDEX_MAX + 1)
        return cls._parsed(C.bitmap_list_sscanf, list_string)

    @classmethod
    def from_taskset_string(cls, string: str) -> Bitmap:
        """Parse the format of :meth:`to_taskset_string`: ``0xf``."""
        return cls._parsed(C.bitmap_taskset_sscanf, string)

    @classmethod
    def _parsed(cls, parse: Any, string: str) -> Bitmap:
        bitmap = cls()
        # These functions do not set errno if they fail, so clear what an earlier failure left there.
        ctypes.set_errno(0)
        check(parse(bitmap._hdl, string.encode("utf-8")))
        return bitmap

    @classmethod
    def from_sched_set(cls, index: _Set) -> Bitmap:
        """A set of CPUs as returned by ``os.sched_getaffinity``."""
        return cls.from_pyseq(index)

    @classmethod
    def from_native_handle(cls, hdl: ctypes.c_void_p, *, own: bool = True) -> Bitmap:
        """Wrap a bitmap of libhwloc; with `own`, it is freed with this object, otherwise the caller keeps it alive."""
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

    # -- changes in place ----------------------------------------------------------------------------------------------

    def set(self, bit: int) -> None:
        """Add an index."""
        check(C.bitmap_set(self._hdl, _index(bit)))

    def clr(self, bit: int) -> None:
        """Remove an index."""
        check(C.bitmap_clr(self._hdl, _index(bit)))

    def set_range(self, begin: int, end: int) -> None:
        """Add the indexes from `begin` to `end` inclusive; with an `end` of -1, all from `begin` on."""
        check(C.bitmap_set_range(self._hdl, _index(begin), end if end == -1 else _index(end)))

    def clear_range(self, begin: int, end: int) -> None:
        """Remove the indexes from `begin` to `end` inclusive; with an `end` of -1, all from `begin` on."""
        check(C.bitmap_clr_range(self._hdl, _index(begin), end if end == -1 else _index(end)))

    def zero(self) -> None:
        """Remove all indexes."""
        C.bitmap_zero(self._hdl)

    def fill(self) -> None:
        """Add all indexes; the bitmap becomes infinite."""
        C.bitmap_fill(self._hdl)

    def only(self, bit: int) -> None:
        """Replace the content with a single index."""
        check(C.bitmap_only(self._hdl, _index(bit)))

    def allbut(self, bit: int) -> None:
        """Replace the content with all indexes but one; the bitmap becomes infinite."""
        check(C.bitmap_allbut(self._hdl, _index(bit)))

    def singlify(self) -> None:
        """Keep only the first index."""
        check(C.bitmap_singlify(self._hdl))

    def __setitem__(self, bit: int, value: bool) -> None:
        if value:
            self.set(bit)
        else:
            self.clr(bit)

    # -- text and sets -------------------------------------------------------------------------------------------------

    def to_string(self) -> str:
        """Words of 32 bits in hexadecimal, the highest first: ``0x00000001,0x0000000f``."""
        return self._written(C.bitmap_asprintf)

    def to_list_string(self) -> str:
        """Indexes and ranges: ``0,2,4-6``."""
        return self._written(C.bitmap_list_asprintf)

    def to_taskset_string(self) -> str:
        """One hexadecimal number, as ``taskset`` prints it."""
        return self._written(C.bitmap_taskset_asprintf)

    def _written(self, write: Any) -> str:
        text = ctypes.c_char_p()
        if write(ctypes.byref(text), self._hdl) < 0:
            raise failure(-1)
        try:
            return (text.value or b"").decode("ascii")
        finally:
            _LIBC.free(text)

    def to_sched_set(self) -> _Set:
        """A set of CPUs for ``os.sched_setaffinity``.

        Errors: ValueError if the bitmap is infinite.
        """
        if self.weight() < 0:
            raise ValueError("an infinite bitmap cannot be converted to a set")
        return {*self}

    # -- queries -------------------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[int]:
        bit = C.bitmap_first(self._hdl)
        while bit != -1:
            yield bit
            bit = C.bitmap_next(self._hdl, bit)

    def iter_unset(self) -> Iterator[int]:
        """The indexes that are not set, in ascending order."""
        bit = C.bitmap_first_unset(self._hdl)
        while bit != -1:
            yield bit
            bit = C.bitmap_next_unset(self._hdl, bit)

    def weight(self) -> int:
        """Number of indexes; -1 if the bitmap is infinite."""
        return int(C.bitmap_weight(self._hdl))

    def first(self) -> int:
        """The lowest index; -1 if the bitmap is empty."""
        return int(C.bitmap_first(self._hdl))

    def last(self) -> int:
        """The highest index; -1 if the bitmap is empty or infinite."""
        return int(C.bitmap_last(self._hdl))

    def is_zero(self) -> bool:
        """Whether no index is set."""
        return bool(C.bitmap_iszero(self._hdl))

    def is_full(self) -> bool:
        """Whether all indexes are set."""
        return bool(C.bitmap_isfull(self._hdl))

    def any(self) -> bool:
        """Whether at least one index is set."""
        return not self.is_zero()

    def intersects(self, other: Bitmap) -> bool:
        """Whether the bitmaps have an index in common."""
        return bool(C.bitmap_intersects(self._hdl, other._hdl))

    def is_included(self, other: Bitmap) -> bool:
        """Whether `other` contains all indexes of this bitmap."""
        return bool(C.bitmap_isincluded(self._hdl, other._hdl))

    def __contains__(self, bit: int) -> bool:
        return bit >= 0 and bool(C.bitmap_isset(self._hdl, bit))

    def __getitem__(self, bit: int) -> bool:
        return bit in self

    # -- operators -----------------------------------------------------------------------------------------------------

    def _combined(self, combine: Any, other: Bitmap) -> Bitmap:
        result = Bitmap()
        check(combine(result._hdl, self._hdl, other._hdl))
        return result

    def andnot(self, other: Bitmap) -> Bitmap:
        """The indexes of this bitmap that are not in `other`."""
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

    # -- comparison: as binary numbers, by the highest index in which two bitmaps differ -------------------------------

    __hash__ = None  # type: ignore[assignment]  # mutable

    def __eq__(self, other: object) -> bool:
        return bool(C.bitmap_isequal(self._hdl, _comparable(other)._hdl))

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __lt__(self, other: object) -> bool:
        return bool(C.bitmap_compare(self._hdl, _comparable(other)._hdl) < 0)

    def __gt__(self, other: object) -> bool:
        return bool(C.bitmap_compare(self._hdl, _comparable(other)._hdl) > 0)

    def __le__(self, other: object) -> bool:
        return not self > other

    def __ge__(self, other: object) -> bool:
        return not self < other

    def __str__(self) -> str:
        return self.to_list_string()

    def __repr__(self) -> str:
        return f"Bitmap({self.to_list_string()!r})"


def _comparable(other: object) -> Bitmap:
    if not isinstance(other, Bitmap):
        raise TypeError("Expecting Bitmap for comparison.")
    return other


def copy_of(handle: ctypes.c_void_p) -> Bitmap:
    """A copy of a bitmap that something else owns, such as a topology."""
    return Bitmap.from_native_handle(_allocated(C.bitmap_dup(handle)))


def compare_first(lhs: Bitmap, rhs: Bitmap) -> int:
    """Compare the lowest indexes: negative if that of `lhs` is lower.  An empty bitmap is greater than all others."""
    return int(C.bitmap_compare_first(lhs.native_handle, rhs.native_handle))
