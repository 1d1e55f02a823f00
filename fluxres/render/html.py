"""Tables as HTML, for notebooks: the rows and columns of the terminal, in colours that suit light and dark pages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from fluxres import limits
from fluxres.documents.document import plural
from fluxres.render.text import Cells, Style, printable


class Markup(str):
    """A line that is HTML already."""

    __slots__ = ()


_ROLES: Final = {"heading": "head", "bad": "bad", "warn": "warn", "job": "job", "faint": "faint"}
_LIGHT: Final = "--bad:#b3261e;--warn:#7a5200;--job:#0b5a7a"
_DARK: Final = "--bad:#ff8a80;--warn:#f0c060;--job:#7cc7ea"
# A notebook's own theme decides before the preference of the browser. Rows have no background, so that those of the page show.
_CSS: Final = (
    f".fluxres{{{_LIGHT};font:12.5px/1.45 ui-monospace,Menlo,Consolas,monospace;overflow-x:auto;color:inherit}}"
    f"@media(prefers-color-scheme:dark){{.fluxres{{{_DARK}}}}}"
    f"[data-jp-theme-light=true] .fluxres,.vscode-light .fluxres{{{_LIGHT}}}"
    f"[data-jp-theme-light=false] .fluxres,.vscode-dark .fluxres{{{_DARK}}}"
    ".fluxres table{border-collapse:collapse;margin:.2em 0 .6em;font:inherit}"
    ".fluxres th,.fluxres td{padding:.1em 1.2em .1em 0;text-align:left;vertical-align:top;white-space:pre;border:0;"
    "background:none}"
    ".fluxres th{border-bottom:1px solid;font-weight:600}.fluxres .bare td{padding-top:0;padding-bottom:0}"
    ".fluxres .right{text-align:right}.fluxres p{margin:.1em 0}.fluxres .head{font-weight:600}"
    ".fluxres .bad{color:var(--bad)}.fluxres .warn{color:var(--warn)}.fluxres .job{color:var(--job)}"
    ".fluxres .faint{opacity:.65}"
)


@dataclass(frozen=True, slots=True)
class HtmlStyle(Style):
    """Tables as HTML elements, with a bounded number of rows.

    >>> from fluxres.render.text import Column, table
    >>> table([Column("TYPE")], [["a<b"]], style=HtmlStyle())
    ['<table><thead><tr><th>TYPE</th></tr></thead><tbody><tr><td>a&lt;b</td></tr></tbody></table>']
    """

    rows_max: int = limits.HTML_ROWS_MAX

    def paint(self, text: str, role: str | None) -> str:
        return text if role is None else Markup(f'<p class="{_ROLES[role]}">{escape(printable(text))}</p>')

    def lay_out(self, kept: Sequence[Cells], *, has_head: bool) -> list[str]:
        heads = "".join(f"<th{_class(column.right)}>{escape(column.title)}</th>" for column, _ in kept)
        count = max(len(texts) for _, texts in kept)
        rows = "".join(
            "<tr>"
            + "".join(self._cell(column.role and column.role(texts[i]), texts[i], column.right) for column, texts in kept)
            + "</tr>"
            for i in range(min(count, self.rows_max))
        )
        head = f"<thead><tr>{heads}</tr></thead>" if has_head else ""
        found: list[str] = [Markup(f"<table{'' if has_head else ' class=bare'}>{head}<tbody>{rows}</tbody></table>")]
        return [*found, f"… and {plural(count - self.rows_max, 'more row')}"] if count > self.rows_max else found

    def _cell(self, role: str | None, text: str, right: bool) -> str:
        return f"<td{_class(right, role and _ROLES[role])}>{escape(text)}</td>"


def _class(right: bool, name: str | None = None) -> str:
    names = " ".join(filter(None, ("right" if right else None, name)))
    return f' class="{names}"' if names else ""


def page(lines: Iterable[str]) -> str:
    """Lines of text and tables as one element, with its style sheet."""
    body = "".join(line if isinstance(line, Markup) else f"<p>{escape(printable(line)) or '&nbsp;'}</p>" for line in lines)
    return f'<div class="fluxres"><style>{_CSS}</style>{body}</div>'
