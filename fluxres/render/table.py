"""Tables as aligned plain text, the same on a terminal and in a pipe."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fluxres.render.style import PLAIN, Style
from fluxres.render.text import pad, printable, width


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table.

    Args:
        title: its heading.
        right: whether its cells are aligned to the right, as numbers are.
        role: gives the colour role of a cell from its text.
    """

    title: str
    right: bool = False
    role: Callable[[str], str | None] | None = None


def table(columns: Sequence[Column], rows: Sequence[Sequence[str]], *, header: bool = True, style: Style = PLAIN) -> list[str]:
    """The lines of a table; a column of empty cells is left out.

    >>> print("\\n".join(table([Column("TYPE"), Column("POOLS", right=True)], [["core", "128"], ["gpu", "16"]])))
    TYPE  POOLS
    core    128
    gpu      16
    """
    cells = [[printable(cell) for cell in row] for row in rows]
    kept = [i for i in range(len(columns)) if not cells or any(row[i] for row in cells)]
    widths = {i: max([width(row[i]) for row in cells] + [width(columns[i].title) if header else 0]) for i in kept}

    def line(row: Sequence[str], role_of: Callable[[int, str], str | None]) -> str:
        texts = []
        for i in kept:
            last = i == kept[-1] and not columns[i].right
            text = row[i] if last else pad(row[i], widths[i], right=columns[i].right)
            texts.append(style.paint(text, role_of(i, row[i])))
        return "  ".join(texts).rstrip()

    def cell_role(i: int, text: str) -> str | None:
        role = columns[i].role
        return None if role is None else role(text)

    lines = [line([column.title for column in columns], lambda _i, _text: "heading")] if header and kept else []
    return lines + [line(row, cell_role) for row in cells]
