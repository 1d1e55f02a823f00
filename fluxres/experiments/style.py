"""How charts look: palette, axes, and files that follow the light or dark scheme of the reader.

The palette is that of Okabe and Ito (Color Universal Design, 2008, https://jfly.uni-koeln.de/color/), whose colours differ
with deuteranopia and protanopia; its yellow, hardly visible on white, is left out.  Lines differ by dashes and markers too.

Colours of text, lines and paper are CSS variables in an SVG, with a value for each scheme; matplotlib knows only the light ones.
"""

from __future__ import annotations

import io
import re
from typing import Any, Final, NamedTuple

from fluxres.errors import UsageError
from fluxres.experiments.figures import number

INK, MUTED, GRID, PAPER, MAIN = "#1f2933", "#5a6673", "#d9dee4", "#fffffe", "#0072b3"
GREY, OTHERS = "#8a939c", "#b9c0c7"
PALETTE: Final = ("#0072b2", "#e69f00", "#009e73", "#d55e00", "#56b4e9", "#cc79a7")
"""Okabe and Ito without yellow and black."""
DASHES: Final = ("-", (0, (5, 2)), (0, (1, 1.4)), (0, (6, 2, 1, 2)), (0, (3, 1.5)), (0, (8, 2, 1, 2, 1, 2)))
MARKERS: Final = ("o", "s", "^", "D", "v", "P")

_VARIABLES: Final = {INK: "ink", MUTED: "muted", GRID: "grid", PAPER: "paper", MAIN: "main"}
LIGHT: Final = {"ink": INK, "muted": MUTED, "grid": GRID, "paper": "#ffffff", "main": PALETTE[0]}
DARK: Final = {"ink": "#e6eaee", "muted": "#a3afba", "grid": "#3c4650", "paper": "#1c2228", "main": PALETTE[4]}

_MORE_DIGITS: Final = re.compile(r"(\d\.\d\d)\d+")
"""More of a coordinate than a screen shows."""
_ID: Final = re.compile(r' id="([^"]+)"')
_REFERENCE: Final = re.compile(r"""#([^"')\s]+)(["')])""")
"""To an id, or a colour."""
_SIZE: Final = 8.5
_DPI: Final = 150
WIDTH: Final = 8.4
"""Inches; a page shows it about 1,000 points wide."""


class Chart(NamedTuple):
    """A finished chart.

    Args:
        name: of its files.
        title: for people.
    """

    name: str
    title: str
    svg: bytes
    png: bytes

    @property
    def inline(self) -> str:
        """The SVG as a part of an HTML page that defines the colours; its ids begin with the name of the chart."""
        text = self.svg.decode()
        text = re.sub(r"<metadata>.*?</metadata>|<style[^>]*>.*?</style>", "", text[text.index("<svg") :], flags=re.DOTALL)
        declared, used = set(_ID.findall(text)), {found[1] for found in _REFERENCE.finditer(text)}
        text = _REFERENCE.sub(lambda found: f"#{self.name}-{found[1]}{found[2]}" if found[1] in declared else found[0], text)
        return _ID.sub(lambda found: f' id="{self.name}-{found[1]}"' if found[1] in used else "", text)


def require() -> None:
    """Check that matplotlib is available.

    Errors: UsageError with the command to install it.
    """
    try:
        import matplotlib  # noqa: F401 - only tests that it is installed
    except ImportError:
        raise UsageError("charts need matplotlib", hint="pip install matplotlib") from None


def figure(height: float, width: float = WIDTH) -> Any:
    """An empty figure; sizes in inches.

    The object interface of matplotlib never touches its global state: any thread can draw, and notebooks keep their settings.
    """
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained", facecolor=PAPER)


def tidy(axes: Any, *, grid: str = "both") -> None:
    """Light axes: no frame, a grid behind the marks, numbers with separators."""
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(GRID)
    axes.set_facecolor("none")
    axes.tick_params(which="both", colors=MUTED, labelsize=_SIZE - 0.5, length=0)
    if grid:
        axes.grid(axis=grid, color=GRID, linewidth=0.6)
    axes.set_axisbelow(True)


def numbered(axis: Any, *, whole: bool = False) -> None:
    """Write the numbers of an axis as tables do.

    Args:
        whole: ticks are at whole numbers.
    """
    if whole:
        axis.get_major_locator().set_params(integer=True)
    axis.set_major_formatter(lambda value, _place: number(value))


def decades(axis: Any, *, few: bool = False) -> None:
    """Ticks of a logarithmic axis: 1, 2, 5, 10, …, or powers of ten alone, where these would be close together."""
    from matplotlib.ticker import LogLocator, NullFormatter

    low, high = axis.get_view_interval()
    reach = 300 if high < 1000 else 100  # long numbers take more room
    axis.set_major_locator(
        LogLocator(subs=(1.0, 2.0, 5.0) if high < reach * low and not few else (1.0,), numticks=9 if high < 1e5 * low else 5)
    )
    axis.set_minor_formatter(NullFormatter())
    numbered(axis)


def label(axes: Any, *, x: str = "", y: str = "") -> None:
    axes.set_xlabel(x, fontsize=_SIZE, color=INK)
    axes.set_ylabel(y, fontsize=_SIZE, color=INK)


def drawn(made: Any, name: str, title: str) -> Chart:
    """The files of a finished figure; the same figure gives the same bytes."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    svg, png = io.BytesIO(), io.BytesIO()
    with rc_context({"svg.hashsalt": name, "svg.fonttype": "none", "font.family": "sans-serif"}):
        canvas: Any = FigureCanvasSVG(made)
        made.draw_without_rendering()
        made.set_layout_engine("none")  # most of the time is layout, and `savefig` makes it anew, twice for each file
        canvas.print_svg(svg, metadata={"Date": None, "Title": title})
        made.set_dpi(_DPI)
        canvas = FigureCanvasAgg(made)
        canvas.print_png(png, metadata={"Title": title})
    return Chart(name, title, themed(svg.getvalue().decode(), title).encode(), png.getvalue())


def themed(svg: str, title: str) -> str:
    """An SVG whose colours follow the scheme of the reader."""
    from html import escape

    for colour, variable in _VARIABLES.items():
        svg = svg.replace(colour, f"var(--{variable})")
    svg = re.sub(r"\bfont: ([\d.]+px) [^;\"]*", r"font: \1 system-ui, 'DejaVu Sans', sans-serif", svg)
    svg = re.sub(r'(<svg [^>]*?) width="[^"]*"', rf'\1 role="img" aria-label="{escape(title)}"', svg, count=1)
    svg = re.sub(r'(<svg [^>]*?) height="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r' d="[^"]*"', lambda found: _MORE_DIGITS.sub(r"\1", found[0]), svg)
    svg = "\n".join(line.rstrip() for line in svg.splitlines()) + "\n"
    return re.sub(r"(<svg [^>]*>)", rf"\1\n <style>{schemes()}</style>", svg, count=1)


def schemes() -> str:
    """The colours as CSS variables, for both schemes."""
    light, dark = (";".join(f"--{name}:{colour}" for name, colour in own.items()) for own in (LIGHT, DARK))
    return f":root{{color-scheme:light dark;{light}}}@media (prefers-color-scheme:dark){{:root{{{dark}}}}}"
