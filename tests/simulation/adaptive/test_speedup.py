"""Models of speed-up: published values, identities of their papers, and what every model has."""

from __future__ import annotations

import sys
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fluxres import UsageError
from fluxres.simulation.adaptive import speedup
from fluxres.simulation.adaptive.adaptive import speed
from fluxres.simulation.adaptive.speedup import Amdahl, Downey, Linear, Speedup, Table, Times, parse

FRACTIONS = st.decimals(0, 1, places=4).map(float)
A_VALUES = st.decimals(1, 500, places=2).map(float)
SIGMAS = st.decimals(0, 20, places=3).map(float)
MODELS = st.one_of(
    st.just(Linear()), st.builds(Amdahl, FRACTIONS), st.builds(Downey, A_VALUES, SIGMAS), st.builds(Downey, A_VALUES, FRACTIONS)
)


@given(MODELS, st.integers(1, 3000))
def test_one_unit_is_1_more_units_are_never_slower_and_none_is_faster_than_ideal(model: Speedup, size: int) -> None:
    assert model.of(1) == 1
    assert 1 <= model.of(size) <= size
    assert model.of(size) <= model.of(size + 1)


@given(FRACTIONS)
def test_amdahl_is_bounded_by_the_reciprocal_of_the_serial_fraction(serial: float) -> None:
    model = Amdahl(serial)
    if serial:
        assert model.of(10**9) <= 1 / Fraction(str(serial))
        assert float(model.of(10**12)) == pytest.approx(1 / serial, rel=1e-4)
    else:
        assert model.of(1234) == 1234


def test_amdahl_has_the_textbook_values() -> None:
    assert Amdahl(0.05).of(20) == Fraction(20 * 20, 39)  # 10.26 of at most 20
    assert [float(Amdahl(0.1).of(n)) for n in (2, 10, 100)] == pytest.approx([1.818, 5.263, 9.174], abs=1e-3)
    assert Amdahl(1).of(64) == 1


@given(A_VALUES, st.integers(1, 2000))
def test_downey_without_variance_is_the_upper_bound_of_eager_zahorjan_and_lazowska(most: float, size: int) -> None:
    assert Downey(most, 0).of(size) == min(size, Fraction(str(most)))


@given(A_VALUES, st.integers(1, 2000))
def test_downey_with_much_variance_approaches_their_lower_bound(most: float, size: int) -> None:
    a = Fraction(str(most))
    lower = a * size / (a + size - 1)
    found = Downey(most, 10**9).of(size)
    assert lower <= found
    assert float(found) == pytest.approx(float(lower), rel=1e-5)


@given(A_VALUES, SIGMAS, st.integers(1, 2000))
def test_downey_is_between_both_bounds(most: float, sigma: float, size: int) -> None:
    a = Fraction(str(most))
    assert a * size / (a + size - 1) <= Downey(most, sigma).of(size) <= min(a, Fraction(size))


@given(A_VALUES, SIGMAS)
def test_downey_saturates_where_the_paper_says(most: float, sigma: float) -> None:
    a, s = Fraction(str(most)), Fraction(str(sigma))
    saturated = 2 * a - 1 if s <= 1 else a + a * s - s
    if s == 0:
        saturated = a
    at = -(-saturated.numerator // saturated.denominator)
    model = Downey(most, sigma)
    assert model.of(at) == model.of(at + 1) == a
    if a > 1 and at - 1 < saturated and at > 1:
        assert model.of(at - 1) < a


@given(A_VALUES, st.integers(1, 2000))
def test_both_regimes_of_downey_meet_at_sigma_1(most: float, size: int) -> None:
    assert float(Downey(most, 1).of(size)) == pytest.approx(float(Downey(most, 1.000001).of(size)), rel=1e-5)


@given(st.integers(2, 200), st.decimals(0, 1, places=3).map(float))
def test_the_two_pieces_of_low_variance_meet_at_a(most: int, sigma: float) -> None:
    a, s = Fraction(most), Fraction(str(sigma))
    assert Downey(most, sigma).of(most) == a * a / (s * (a - Fraction(1, 2)) + a * (1 - s / 2))


@pytest.mark.parametrize(
    ("a", "sigma", "size", "value"),
    [
        (64, 0.5, 32, Fraction(64 * 32 * 4, 287)),  # A n / (A + sigma (n - 1) / 2)
        (64, 0.5, 100, Fraction(64 * 100 * 4, 427)),  # A n / (sigma (A - 1/2) + n (1 - sigma / 2))
        (64, 2, 64, Fraction(64 * 64 * 3, 318)),  # n A (sigma + 1) / (sigma (n + A - 1) + A)
        (64, 2, 190, Fraction(64)),
        (64, 0.5, 127, Fraction(64)),
    ],
)
def test_the_five_pieces_of_downey(a: int, sigma: float, size: int, value: Fraction) -> None:
    assert Downey(a, sigma).of(size) == value


def test_a_table_has_its_values_and_straight_lines_between_them() -> None:
    made = Table(((2, 2), (4, 3.5), (16, 9.5)))
    assert [made.of(n) for n in (1, 2, 3, 4, 10, 16, 64)] == [1, 2, 2.75, 3.5, 6.5, 9.5, 9.5]


@given(st.dictionaries(st.integers(1, 5000), st.integers(1, 10**7), min_size=1, max_size=8))
def test_times_are_exact(times: dict[int, int]) -> None:
    made = Times(tuple(sorted(times.items())))
    assert {size: made.run_s(size) for size in times} == times


def test_every_model_is_read_as_it_is_written() -> None:
    for text in ("linear", "amdahl:serial=0.05", "downey:A=12.5,sigma=2", "table:1=1,8=6.6", "times:4=100,8=60.5"):
        assert str(parse(text)) == text
    assert parse({"downey": {"A": 12.5, "sigma": 2}}) == parse("downey:A=12.5,sigma=2")
    assert parse({"times": {4: "2m30s", 8: "1:00"}}) == parse("times:4=150,8=60")
    assert parse({"times": {4: "100s", 8: 60.5}}) == parse("times:4=100,8=60.5")
    assert parse({"linear": None}) == Linear()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gustafson", "no speed-up model 'gustafson'"),
        ("amdahl", "expected serial"),
        ("amdahl:serial=2", "serial: expected 0 to 1, got 2"),
        ("amdahl:serial=nan", "serial: expected a number"),
        ("amdahl:serial", "expected name=value"),
        ("amdahl:part=0.1", "no parameter 'part'"),
        ("linear:x=1", "no parameter 'x'"),
        ("downey:A=0.5", "A: expected at least 1, got 0.5"),
        ("downey:A=8,sigma=-1", "sigma: expected at least 0"),
        ("table", "expected sizes from 1 on"),
        ("table:0=1", "expected sizes from 1 on"),
        ("table:x=1", "expected a number of units, got 'x'"),
        ("table:1=2", "the speed-up of one unit is 1, got 2"),
        ("table:2=0", "2: expected more than 0"),
        ("times:2=soon", "times"),
    ],
)
def test_errors_name_the_model_and_the_value(text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(text)
    assert message in str(caught.value)


def test_other_packages_add_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "roots.py").write_text(
        "class Root:\n    degree: float\n    def __init__(self, degree=2):\n        self.degree = float(degree)\n"
        "    def of(self, size):\n        return size ** (1 / self.degree)\n"
    )
    info = tmp_path / "roots-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: roots\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[fluxres.speedup_models]\nroot = roots:Root\nabsent = roots:Absent\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "roots", raising=False)
    assert parse("root:degree=2").of(9) == 3
    assert "root" in speedup.models()
    with pytest.raises(UsageError, match="cannot be imported"):
        parse("absent")


def test_what_a_model_of_others_does_wrong_names_it() -> None:
    class Zero:
        def of(self, size: int) -> Fraction:
            return Fraction(0)

    class Broken:
        def of(self, size: int) -> Fraction:
            raise KeyError(size)

    with pytest.raises(UsageError, match=r"^speedup Zero, size 2: expected a speed-up above 0, got "):
        speed(Zero(), 2)
    with pytest.raises(UsageError, match=r"^speedup Broken, size 2: KeyError: 2$"):
        speed(Broken(), 2)
