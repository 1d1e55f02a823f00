"""A timeline as SVG, readable on light and on dark ground."""

from __future__ import annotations

from typing import Final
from xml.sax.saxutils import escape

from fluxres import limits
from fluxres.documents.document import plural
from fluxres.render.text import printable, when
from fluxres.render.timeline import MAINTENANCE, OUT, PLANNED, RUNNING, Row, Segment, Timeline, ticks

_ROW, _BAR, _HEAD, _LETTER = 22, 16, 44, 6.6
_LABELS_MAX = 220
_COLOURS: Final = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#999933", "#882255")
"""Okabe and Ito's, which colour-blind people tell apart, and two of Tol's."""

_STYLE: Final = """
text { font: 11px system-ui, sans-serif; fill: #222 }
.faint { fill: #666 }
.grid { stroke: #ddd } .now { stroke: #d00; stroke-width: 1.5 }
.bar { stroke: #fff; stroke-width: 1 } .planned { fill-opacity: .45; stroke-dasharray: 4 2 }
.in { fill: #fff; paint-order: stroke; stroke: #0008; stroke-width: 2px }
.ground { fill: #fff } .stripe { fill: #f6f6f6 }
@media (prefers-color-scheme: dark) {
  text { fill: #eee } .faint { fill: #aaa } .grid { stroke: #444 } .bar { stroke: #1b1b1b }
  .ground { fill: #1b1b1b } .stripe { fill: #242424 } .in { fill: #fff }
}"""

_PATTERNS: Final = """<defs>
<pattern id="maint" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
<rect width="6" height="6" fill="#b8860b" fill-opacity=".25"/><rect width="2.5" height="6" fill="#b8860b"/></pattern>
<pattern id="out" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(-45)">
<rect width="6" height="6" fill="#888" fill-opacity=".15"/><rect width="1.2" height="6" fill="#888"/></pattern></defs>"""


def picture(timeline: Timeline, title: str, pixels: int) -> str:
    """The picture.

    Args:
        title: above it.
        pixels: its width.
    """
    rows = timeline.rows[: limits.CHART_ROWS_MAX]
    left = min(max([len(row.label) for row in rows], default=0) * _LETTER + 16, _LABELS_MAX)
    chart = max(pixels - left - 12, 100)
    hues = _hues(timeline)
    bottom = _HEAD + len(rows) * _ROW
    legend, height = _legend(timeline, hues, left, chart, bottom + 22)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{pixels}" height="{height}" viewBox="0 0 {pixels} {height}" role="img">',
        f"<title>{_text(title)}</title><style>{_STYLE}</style>{_PATTERNS}",
        f'<rect class="ground" width="{pixels}" height="{height}"/>',
        f'<text x="8" y="16" font-weight="bold">{_text(title)}</text>',
        *_grid(timeline, rows, left, chart, bottom, pixels),
    ]
    for number, row in enumerate(rows):
        y = _HEAD + number * _ROW
        parts.append(_label(row, left, y))
        parts += [_bar(timeline, segment, row, hues, left, chart, y) for segment in row.segments]
    if timeline.start <= timeline.now < timeline.end:
        x = _x(timeline, timeline.now, left, chart)
        parts.append(f'<line class="now" x1="{x:.1f}" x2="{x:.1f}" y1="{_HEAD - 6}" y2="{bottom}"><title>now</title></line>')
    if len(timeline.rows) > len(rows):
        more = len(timeline.rows) - len(rows)
        parts.append(f'<text class="faint" x="8" y="{bottom + 14}">… and {plural(more, "more row")}</text>')
    return "\n".join([*parts, *legend, "</svg>", ""])


def _text(text: str) -> str:
    return escape(printable(text))


def _hues(timeline: Timeline) -> dict[str, str]:
    """The colour of each user, or of each job if no users are known."""
    jobs = {job: None for row in timeline.rows for s in row.segments if s.kind not in {MAINTENANCE, OUT} for job in s.jobs}
    names = dict.fromkeys(timeline.user_of.get(job, job) for job in jobs)
    return {name: _COLOURS[i % len(_COLOURS)] for i, name in enumerate(names)}


def _x(timeline: Timeline, moment: float, left: float, chart: float) -> float:
    return left + (moment - timeline.start) / (timeline.end - timeline.start) * chart


def _grid(timeline: Timeline, rows: tuple[Row, ...], left: float, chart: float, bottom: int, pixels: int) -> list[str]:
    found = [
        f'<rect class="stripe" x="0" y="{_HEAD + i * _ROW}" width="{pixels}" height="{_ROW}"/>' for i in range(0, len(rows), 2)
    ]
    for moment, text in ticks(timeline.start, timeline.end, max(int(chart / 80), 2)):
        x = _x(timeline, moment, left, chart)
        found.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{_HEAD - 4}" y2="{bottom}"/>')
        if x + len(text) * _LETTER < left + chart + 12:
            found.append(f'<text class="faint" x="{x:.1f}" y="{_HEAD - 8}">{_text(text)}</text>')
    return found


def _label(row: Row, left: float, y: int) -> str:
    most = int((left - 14) / _LETTER)
    shown = row.label if len(row.label) <= most else row.label[: most - 1] + "…"
    return f'<text x="8" y="{y + 15}"><title>{_text(row.label)}</title>{_text(shown)}</text>'


def _bar(timeline: Timeline, segment: Segment, row: Row, hues: dict[str, str], left: float, chart: float, y: int) -> str:
    x = _x(timeline, segment.start, left, chart)
    wide = max(_x(timeline, segment.end, left, chart) - x, 1.5)
    users = [timeline.user_of.get(job, job) for job in segment.jobs]
    patterned = {MAINTENANCE: "url(#maint)", OUT: "url(#out)"}
    fill = patterned.get(segment.kind) or hues.get(users[0], _COLOURS[0])
    css = "bar planned" if segment.kind == PLANNED else "bar"
    said = f"{', '.join(segment.jobs)}: {row.label}, {when(segment.start)} to {when(segment.end)}"
    name = segment.label(int((wide - 8) / _LETTER))
    inside = ' class="in"' if segment.kind == RUNNING else ""
    label = f'<text{inside} x="{x + 4:.1f}" y="{y + 15}">{_text(name)}</text>' if name else ""
    box = f'<rect class="{css}" x="{x:.1f}" y="{y + 3}" width="{wide:.1f}" height="{_BAR}" rx="2" fill="{fill}"/>'
    return f"<g>{box}{label}<title>{_text(said)}</title></g>"


def _legend(timeline: Timeline, hues: dict[str, str], left: float, chart: float, y: int) -> tuple[list[str], int]:
    """The legend below the rows, and the height of the picture."""
    kinds = {segment.kind for row in timeline.rows for segment in row.segments}
    entries = [(name, colour, "") for name, colour in list(hues.items())[: limits.CHART_LEGEND_MAX]]
    if len(hues) > limits.CHART_LEGEND_MAX:
        entries.append((f"… {len(hues) - limits.CHART_LEGEND_MAX} more", "none", ""))
    entries += [("planned", "#888", " planned")] * (PLANNED in kinds)
    entries += [("maintenance", "url(#maint)", "")] * (MAINTENANCE in kinds) + [("drained or down", "url(#out)", "")] * (
        OUT in kinds
    )
    found, x = [], left
    for name, colour, css in entries:
        wide = len(name) * _LETTER + 30
        if x + wide > left + chart and x > left:
            x, y = left, y + 18
        found.append(f'<rect class="bar{css}" x="{x:.1f}" y="{y - 9}" width="12" height="11" fill="{colour}"/>')
        found.append(f'<text x="{x + 16:.1f}" y="{y}">{_text(name)}</text>')
        x += wide
    return found, y + 12
