"""The mistakes of a document, each with the line it is on and a caret below the place, as compilers show them."""

from __future__ import annotations

from typing import Final

from fluxres.documents.document import plural
from fluxres.errors import InputError, TextPlace
from fluxres.render.text import printable, width

#: columns of an excerpt besides its line number: it fits a terminal of 80
_COLUMNS: Final = 70
#: spaces for a tab
_TAB: Final = "    "


def lines(error: InputError) -> list[str]:
    """Every mistake of a document, with its line where that is known."""
    out: list[str] = []
    for mistake in error.mistakes:
        first, *more = str(mistake).splitlines() or [""]
        out += [f"fluxres: ERROR {printable(first)}", *(f"  {printable(line)}" for line in more)]
        out += excerpt(mistake.where) if isinstance(mistake.where, TextPlace) else []
    total = len(error.mistakes) + error.unlisted
    if error.unlisted and not error.is_all:
        out.append(f"fluxres: ERROR and at least {error.unlisted} more")
    elif error.unlisted:
        out.append(f"fluxres: ERROR and {error.unlisted} more; {plural(total, 'mistake')} in all")
    elif total > 1:
        out.append(f"fluxres: ERROR {plural(total, 'mistake')}")
    return out


def excerpt(place: TextPlace) -> list[str]:
    """The line of a place, cut where it is long, and the caret; nothing for an empty line.

    >>> place = TextPlace("m.yaml:7:5")
    >>> place.line, place.column, place.text, place.offset = 7, 5, "    coutn: 4", 4
    >>> print("\\n".join(excerpt(place)))
      7 |     coutn: 4
        |     ^
    """
    if not place.text.strip():
        return []
    before, after = _shown(place.text[: place.offset]), _shown(place.text[place.offset :])
    lead, tail = "…" * place.cut[0], "…" * place.cut[1]
    room = max(_COLUMNS // 2, _COLUMNS - 2 - width(after))
    while width(before) > room:
        before, lead = before[1:], "…"
    room = max(1, _COLUMNS - width(lead + before) - 1)
    while width(after) > room:
        after, tail = after[:-1], "…"
    number = f"{place.line:>3}"
    return [f"{number} | {lead}{before}{after}{tail}", f"{' ' * len(number)} | {' ' * width(lead + before)}^"]


def _shown(text: str) -> str:
    return printable(text.replace("\t", _TAB))
