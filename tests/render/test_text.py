"""Text, tables and amounts."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from fluxres.render import text
from fluxres.render.text import Column, Style, pad, printable, state_role, table, width
from fluxres.syntax import moment


@given(st.text())
def test_shown_text_cannot_move_the_cursor(text: str) -> None:
    shown = printable(text)
    assert shown.isprintable()
    assert (shown == text) == text.isprintable()


@given(st.text(st.characters(min_codepoint=32, max_codepoint=0x9FFF)), st.integers(0, 40), st.booleans())
def test_padding_never_truncates(text: str, columns: int, right: bool) -> None:
    padded = pad(text, columns, right=right)
    assert width(padded) == max(columns, width(text))
    assert padded.strip(" ") == text.strip(" ")


@given(st.lists(st.tuples(st.text(max_size=8), st.text(max_size=8), st.integers(0, 10**6)), min_size=1, max_size=8))
def test_table_columns_are_aligned(rows: list[tuple[str, str, int]]) -> None:
    cells = [[a, str(n), f"x{b}"] for a, b, n in rows]
    lines = table([Column("A"), Column("N", right=True), Column("B")], cells)
    assert len(lines) == len(rows) + 1
    assert not any(line.endswith(" ") for line in lines)
    ends = {width(line[: line.rindex(printable(cell[2]).rstrip())]) for line, cell in zip(lines[1:], cells, strict=True)}
    assert len(ends) == 1


@given(st.lists(st.tuples(st.sampled_from(["up", "down", "", "drain"]), st.text(max_size=5)), max_size=5))
def test_colour_adds_only_escape_sequences(rows: list[tuple[str, str]]) -> None:
    columns = [Column("S", role=state_role), Column("T", role=lambda _text: "job")]
    plain = table(columns, rows)
    painted = table(columns, rows, style=Style(True))
    for code in ("0", "1", "2", "31", "33", "36"):
        painted = [line.replace(f"\x1b[{code}m", "") for line in painted]
    assert [line.rstrip() for line in painted] == plain


def test_empty_column_is_left_out() -> None:
    assert table([Column("A"), Column("B"), Column("C")], [["1", "", "3"], ["4", "", ""]]) == ["A  C", "1  3", "4"]
    assert table([Column("A"), Column("B")], [["1", "2"]], header=False) == ["1  2"]


@given(st.floats(0, 4e12))
def test_printed_times_can_be_parsed(seconds: float) -> None:
    again = moment.parse(text.when(seconds), 0.0)
    assert abs(again - seconds) <= (1.0 if seconds > moment.EPOCH_FROM_S else 1e-6)


def test_infinite_end_is_shown_in_tables_and_json() -> None:
    assert text.when(math.inf) == "-"
    assert text.seconds_or_none(math.inf) is None
    assert text.seconds_or_none(5.0) == 5.0
