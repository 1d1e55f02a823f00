"""Units of amounts, and exact conversion between units that measure the same quantity.

A request may use `memory=4{unit:GB}` for a pool that counts GiB, or kilowatts for a PDU in watts. The factors are fractions,
never floats: an amount of units is an integer in every record, and a rounding error of one byte could decide whether a job
fits. Results that are not integers are rounded up, because a job that requests 4 GB must not get less.

Prefixes follow their standards: kB, MB, GB are powers of 1000 (KB is read as kB), KiB, MiB, GiB powers of 1024. An unknown
unit (licences, tokens) converts only to itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Final

from fluxres.documents import suggestion
from fluxres.documents.document import excerpt, shown
from fluxres.documents.suggestion import did_you_mean
from fluxres.errors import InputError

_SI: Final = {"k": 1, "M": 2, "G": 3, "T": 4, "P": 5, "E": 6}
_IEC: Final = {f"{letter}i": power for power, letter in enumerate("KMGTPE", start=1)}


def _family(dimension: str, bases: dict[str, Fraction], *, iec: bool = False) -> dict[str, tuple[str, Fraction]]:
    """Units with prefixes, each (dimension, factor to the dimension's base)."""
    made = {base: (dimension, factor) for base, factor in bases.items()}
    for base, factor in bases.items():
        made |= {prefix + base: (dimension, factor * 1000**power) for prefix, power in _SI.items()}
        made["K" + base] = (dimension, factor * 1000)
        if iec:
            made |= {prefix + base: (dimension, factor * 1024**power) for prefix, power in _IEC.items()}
    return made


_WHOLE: Final = Fraction(1)
_UNITS: Final[dict[str, tuple[str, Fraction]]] = {
    **_family("bytes", {"B": _WHOLE}, iec=True),
    **_family("power", {"W": _WHOLE}),
    "mW": ("power", Fraction(1, 1000)),
    **_family("bandwidth", {"B/s": Fraction(8), "bit/s": _WHOLE, "b/s": _WHOLE, "bps": _WHOLE}, iec=True),
    **_family("frequency", {"Hz": _WHOLE}),
    **{word: ("time", Fraction(seconds)) for word, seconds in (("s", 1), ("m", 60), ("h", 3600), ("d", 86400))},
    "ms": ("time", Fraction(1, 1000)),
    "us": ("time", Fraction(1, 1_000_000)),
}


_PART: Final = re.compile(r"0\.[0-9]{1,9}", re.ASCII)
_BASES: Final = ("bit/s", "B/s", "b/s", "bps", "Hz", "B", "W")


def dimension(unit: str) -> str | None:
    """The quantity that a unit measures: bytes, power, bandwidth, frequency or time; None for an unknown unit.

    >>> dimension("GiB"), dimension("Gb/s"), dimension("licence")
    ('bytes', 'bandwidth', None)
    """
    found = _UNITS.get(unit)
    return found[0] if found else None


def convert(amount: int | Fraction, from_unit: str | None, to_unit: str | None) -> int | Fraction:
    """The same amount in another unit, exactly; an int if it is an integer.

    Args:
        amount: an integer or a fraction.
        from_unit, to_unit: units of one dimension, or the same text; None is a plain number.

    Errors: InputError for an unknown unit, and for units of different dimensions.

    >>> convert(4, "GiB", "MiB"), convert(1, "Gbps", "MB/s"), convert(1, "kB", "KiB")
    (4096, 125, Fraction(125, 128))
    """
    if isinstance(amount, bool) or not isinstance(amount, int | Fraction):
        raise InputError(f"expected a whole number or a fraction, got {shown(amount)}", where="unit")
    if from_unit == to_unit:
        return _whole(Fraction(amount))
    ends = []
    for unit in (from_unit, to_unit):
        if unit is None or unit not in _UNITS:
            raise _unknown(unit, from_unit, to_unit)
        ends.append(_UNITS[unit])
    (measures, factor), (wanted, divisor) = ends
    if measures != wanted:
        raise InputError(f"expected units of one dimension, got {from_unit} ({measures}) and {to_unit} ({wanted})", where="unit")
    return _whole(Fraction(amount) * factor / divisor)


_SIZE: Final = re.compile(r"\s*([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*([A-Za-z][A-Za-z/]*)\s*", re.ASCII)


def is_size(text: str) -> bool:
    """Whether a text is a number with a known unit.

    >>> is_size("8GiB"), is_size("20 kW"), is_size("8"), is_size("2x")
    (True, True, False, False)
    """
    found = _SIZE.fullmatch(text)
    return found is not None and found[2] in _UNITS


def is_misspelt(text: str) -> bool:
    """Whether a text is a number with a unit that differs from a known one only in upper and lower case.

    >>> is_misspelt("8gib"), is_misspelt("8GiB"), is_misspelt("8Gi")
    (True, False, False)
    """
    found = _SIZE.fullmatch(text)
    return found is not None and found[2] not in _UNITS and bool(same_but_case(found[2]))


def same_but_case(unit: str) -> list[str]:
    """The known units that differ from a unit only in upper and lower case.

    >>> same_but_case("GIB"), same_but_case("kw"), same_but_case("GiB"), same_but_case("seats")
    (['GiB'], ['kW'], [], [])
    """
    if unit in _UNITS:
        return []
    close = [known for known in _UNITS if known.lower() == unit.lower()]
    return [known for known in close if f"k{known[1:]}" not in close or known[0] != "K"]  # KB is another word for kB


def parse(text: str) -> tuple[int, str]:
    """The number and the unit of a size; in a smaller unit if it is not a whole number.

    Errors: InputError for other text, and for less than the smallest unit can express.

    >>> parse("8GiB"), parse("20 kW"), parse("1.5TiB"), parse("0.25 kW")
    ((8, 'GiB'), (20, 'kW'), (1536, 'GiB'), (250, 'W'))
    """
    amount, unit = _size(text)
    dimension, factor = _UNITS[unit]
    if amount.denominator == 1:
        return amount.numerator, unit
    alike = [
        (own, name)
        for name, (measures, own) in _UNITS.items()
        if measures == dimension and own < factor and ("i" in name[:2]) == ("i" in unit[:2]) and name[:1] != "K"
    ]
    for own, name in sorted([*alike, (_WHOLE, _base(dimension))], reverse=True):
        if own < factor and (amount * factor / own).denominator == 1:
            return int(amount * factor / own), name
    raise InputError(f"expected a whole number of {_base(dimension)}, got {excerpt(text)}", where="size")


def exactly(text: str, to_unit: str | None, *, or_else: str = "") -> int:
    """A size in another unit, which must be a whole number.

    Args:
        or_else: another way out for a number that is not whole.

    Errors: InputError for other text, units that do not convert, and other numbers, with the nearest whole ones.

    >>> exactly("10GiB", "MiB")
    10240
    >>> exactly("1.5GiB", "GiB")
    Traceback (most recent call last):
    fluxres.errors.InputError: size: expected a whole number of GiB, got '1.5GiB' (the nearest are 1 and 2 GiB)
    """
    amount, unit = _size(text)
    if to_unit is None:
        raise InputError(f"expected a number without a unit, got {excerpt(text)}", where="size", hint="the pool has no unit")
    found = Fraction(convert(amount, unit, to_unit))
    if found.denominator != 1:
        below = found.numerator // found.denominator
        hint = f"the nearest are {below} and {below + 1} {to_unit}{f'; or {or_else}' if or_else else ''}"
        raise InputError(f"expected a whole number of {to_unit}, got {excerpt(text)}", where="size", hint=hint)
    return found.numerator


def _size(text: str) -> tuple[Fraction, str]:
    found = _SIZE.fullmatch(text)
    if found is None or len(found[1]) > 40:
        expected = "a number of at least 0" if text[:1] == "-" else "a number"
        raise InputError(f"expected {expected} with a unit, got {excerpt(text)}", where="size", hint="such as 8GiB or 20 kW")
    if found[2] not in _UNITS:
        raise _unknown(found[2], found[2], None)
    return Fraction(found[1]), found[2]


def _base(dimension: str) -> str:
    """The unit with the factor 1, as which a smaller one is written."""
    return next(name for name, (measures, factor) in _UNITS.items() if measures == dimension and factor == 1)


def common(units: Iterable[str]) -> str:
    """The largest unit of which each given unit is a multiple: one of them, or the base unit of their quantity.

    Args:
        units: at least one known unit, all of one dimension.

    >>> common(["GiB", "MiB"]), common(["GB", "GiB"]), common(["h", "m"])
    ('MiB', 'B', 'm')
    """
    factors = {unit: _UNITS[unit][1] for unit in units}
    measures = {_UNITS[unit][0] for unit in factors}
    base = {unit: factor for unit, (dimension, factor) in _UNITS.items() if dimension in measures and factor == 1}
    return next(
        unit
        for unit, least in sorted({**factors, **base}.items(), key=lambda item: -item[1])
        if all((factor / least).denominator == 1 for factor in factors.values())
    )


def readable(amount: int, unit: str | None) -> str:
    """An amount for people: three digits, in the unit with the largest prefix that leaves at least 1. Bytes and units with binary
    prefixes are scaled by 1024, the others by 1000; unknown units and plain numbers stay as they are.

    >>> readable(9087168512, "B"), readable(34650, "W"), readable(4096, "GiB"), readable(128, "GiB"), readable(3, None)
    ('8.46 GiB', '34.6 kW', '4 TiB', '128 GiB', '3')
    """
    *_, (value, largest) = _scaled(amount, unit)
    digits = 0 if value.denominator == 1 or value >= 100 else 1 if value >= 10 else 2
    return _with_unit(f"{float(value):.{digits}f}", largest)


def exact(amount: int, unit: str | None) -> str:
    """An amount for people without rounding, in the largest unit that needs at most two decimals; a unit that is a part of one,
    such as 0.0001, is multiplied.

    >>> exact(34650, "W"), exact(3001, "W"), exact(18_000, "GiB"), exact(4096, "GiB"), exact(3, None), exact(7500, "0.0001")
    ('34.65 kW', '3001 W', '18000 GiB', '4 TiB', '3', '0.75')
    >>> exact(4_480_000, "mW")
    '4.48 kW'
    """
    if unit is not None and _PART.fullmatch(unit):
        return _with_unit(f"{amount * Decimal(unit):f}", None)
    value, largest = [(value, scaled) for value, scaled in _scaled(amount, unit) if (value * 100).denominator == 1][-1]
    return _with_unit(str(value) if value.denominator == 1 else f"{float(value):.2f}", largest)


def _scaled(amount: int, unit: str | None) -> Iterator[tuple[Fraction, str | None]]:
    """The amount in its unit, then in each larger one in which it is at least 1."""
    value = Fraction(amount)
    yield value, unit
    prefix, base = (None, "") if unit is None else _prefix_and_base(unit)
    if prefix is None:
        return
    prefixes, step = (("", *_IEC), 1024) if prefix in _IEC or unit == "B" else (("m", "", *_SI), 1000)
    for larger in prefixes[prefixes.index(prefix) + 1 :]:
        value /= step
        if value < 1:
            return
        yield value, larger + base


def _with_unit(number: str, unit: str | None) -> str:
    shown = number.rstrip("0").rstrip(".") if "." in number else number
    return shown if unit is None else f"{shown} {unit}"


def _prefix_and_base(unit: str) -> tuple[str | None, str]:
    """Prefix and base of a known unit; the prefix is None for others, and for times."""
    if dimension(unit) in (None, "time"):
        return None, unit
    base = next(base for base in _BASES if unit.endswith(base))
    prefix = unit.removesuffix(base)
    return "k" if prefix == "K" else prefix, base


def _whole(amount: Fraction) -> int | Fraction:
    return amount.numerator if amount.denominator == 1 else amount


def near(unit: str) -> list[str]:
    """The known units that an unknown one may stand for.

    >>> near("gib"), near("G"), near("seats")
    (['GiB'], ['GiB', 'GB'], [])
    """
    close = same_but_case(unit) or [
        known
        for known in (f"{unit}iB", f"{unit}B")
        if known in _UNITS  # Slurm's 8G
    ]
    return close or suggestion.near(unit, _UNITS, most=3)


def _unknown(unit: str | None, from_unit: str | None, to_unit: str | None) -> InputError:
    if unit is None:
        said = from_unit or to_unit or ""
        return InputError(f"expected a unit on both sides, got {excerpt(said)} and none", where="unit")
    known = "known: bytes B … EiB, power W … EW, bandwidth B/s bit/s b/s bps, frequency Hz … EHz, time us ms s m h d"
    hint = did_you_mean(near(unit)) or known
    return InputError(f"expected a known unit, got {excerpt(unit)}", where="unit", hint=hint)
