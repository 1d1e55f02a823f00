"""Tables fit the terminal: columns are left out in their order, then texts are folded, and nothing else is lost."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fluxres.render.text import Column, Style, table, width

WORDS = st.text(st.sampled_from("ab/, é核"), max_size=30)
COLUMNS = st.lists(
    st.builds(Column, st.sampled_from(["A", "PATH", "HELD BY"]), st.booleans(), drop=st.integers(0, 2)), min_size=1, max_size=5
)


def test_columns_are_left_out_in_their_order() -> None:
    columns = [Column("JOB"), Column("TYPE", drop=2), Column("POOLS", right=True, drop=1), Column("END")]
    rows = [["j1", "core", "8", "12:00"]]
    heads = [table(columns, rows, style=Style(columns=columns_of))[0].split() for columns_of in (40, 20, 14, 5)]
    assert heads == [["JOB", "TYPE", "POOLS", "END"], ["JOB", "TYPE", "END"], ["JOB", "END"], ["JOB", "END"]]


def test_the_widest_text_is_folded_after_blanks_commas_and_slashes() -> None:
    columns = [Column("JOB"), Column("PATH"), Column("EACH", right=True), Column("START"), Column("END")]
    row = ["j1", "/demo/rack0/node2/socket0/core[0-7]", "1", "2026-11-22T09:42:12", "2026-11-22T10:42:12"]
    assert table(columns, [row, ["j2", "/demo/rack0", "1", "-", "-"]], style=Style(columns=80)) == [
        "JOB  PATH                        EACH  START                END",
        "j1   /demo/rack0/node2/socket0/     1  2026-11-22T09:42:12  2026-11-22T10:42:12",
        "     core[0-7]",
        "j2   /demo/rack0                    1  -                    -",
    ]


def test_numbers_are_never_folded() -> None:
    assert table([Column("SIZE", right=True)], [["123456789 GiB"]], style=Style(columns=5)) == ["         SIZE", "123456789 GiB"]


@given(COLUMNS, st.data(), st.integers(1, 60))
def test_what_stays_is_complete_and_as_narrow_as_it_can_be(columns: list[Column], data: st.DataObject, most: int) -> None:
    row = st.lists(WORDS, min_size=len(columns), max_size=len(columns))
    rows = data.draw(st.lists(row, max_size=5))
    full, fitted = table(columns, rows), table(columns, rows, style=Style(columns=most))
    if all(width(line) <= most for line in full):
        assert fitted == full
    always = [at for at, column in enumerate(columns) if not column.drop]
    letters = sorted("".join(fitted[1:]).replace(" ", ""))
    for at in always:
        for text in (row[at] for row in rows):
            for letter in text.replace(" ", ""):
                letters.remove(letter)
    text_only = all(not column.right and column.drop == 0 for column in columns)
    if text_only and most >= 24 * len(columns) + 2 * (len(columns) - 1):
        assert all(width(line) <= most for line in fitted)
