"""The common options of every command, accepted before or after its name.

Users add `--json` or `--store` anywhere on the line. So each option is declared on the program and on every command; the last
occurrence wins.
"""

from __future__ import annotations

import os
import shlex
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import click

from fluxres import limits

if TYPE_CHECKING:
    from fluxres.render.text import Style

POOL_OUTPUTS: Final = ("table", "json", "paths", "folded")
"""Forms of output of commands that list pools."""
R_OUTPUTS: Final[dict[str, bool | str]] = {"R": False, "rv1": "jgf", "rv1_shorthand": "jgf_shorthand"}
"""Forms of output that are resource sets, and the graph in each of them."""
OUTPUTS: Final = (*POOL_OUTPUTS, *R_OUTPUTS)
JOB_OUTPUTS: Final = ("csv", "swf")
"""Forms of output of commands that list jobs, besides the metrics."""


@dataclass(slots=True)
class Settings:
    """The values of the common options.

    Args:
        argv: the words after `fluxres`.
        store: address of the store; None is the default one.
        graph: its graph; None is the one in use.
        output: one of `OUTPUTS`.
        header: whether tables have a line of headings.
        color: auto, always or never.
        wait_s: how long to wait for the lock of the store.
    """

    argv: tuple[str, ...] = ()
    store: str | None = None
    graph: str | None = None
    output: str = "table"
    header: bool = True
    color: str = "auto"
    wait_s: float = limits.LOCK_WAIT_SECONDS_DEFAULT

    @property
    def command(self) -> str:
        """The command as typed, for the journal and for other processes that wait."""
        return shlex.join(["fluxres", *self.argv])

    @property
    def json(self) -> bool:
        return self.output == "json"

    def wants_json(self) -> bool:
        """Whether an error must be JSON; also works for command lines that could not be parsed."""
        words = " ".join(self.argv)
        return self.json or "--json" in self.argv or "-o json" in words or "--output json" in words or "--output=json" in words

    def style(self) -> Style:
        """Colour for standard output (https://no-color.org is honoured), and whether tables have headings."""
        from fluxres.render.text import Style

        if self.color == "auto":
            plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
            return Style(sys.stdout.isatty() and not plain, self.header)
        return Style(self.color == "always", self.header)


class EverywhereOption(click.Option):
    """An option of every command."""


def keep(ctx: click.Context) -> None:
    """Move the common options from the parameters of a command to the settings, in the order given: the last one wins."""
    settings = ctx.ensure_object(Settings)
    for name in list(ctx.params):
        if name not in _COMMON:
            continue
        value = ctx.params.pop(name)
        if ctx.get_parameter_source(name) is click.core.ParameterSource.DEFAULT:
            continue
        if name == "json":
            settings.output = "json"
        elif name == "no_header":
            settings.header = False
        else:
            setattr(settings, name, value)


class Duration(click.ParamType[float]):
    """A duration as people write it, as seconds: a Flux standard duration, or Slurm's `1:00:00` and `1-12`."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Seconds of `30m` or `1:00:00`."""
        from fluxres.syntax import duration

        return value if isinstance(value, float) else duration.read(value)


_COMMON: Final = ("store", "graph", "json", "output", "no_header", "color", "wait_s")


def _option(*names: str, **settings: Any) -> EverywhereOption:
    return EverywhereOption(list(names), **settings)


def everywhere() -> list[click.Parameter]:
    """New options, for one command."""
    return [
        _option("--store", metavar="URL", help="The store. Default: $FLUXRES_STORE, else SQLite in the XDG data directory."),
        _option("--graph", metavar="NAME", help="The graph in the store. Default: the one in use."),
        _option("--json", is_flag=True, help="Print JSON; the same as -o json."),
        _option(
            "-o",
            "--output",
            type=click.Choice((*OUTPUTS, *JOB_OUTPUTS)),
            help="Output form. Default: table. paths, folded: commands that list pools; R: commands that list allocations.",
        ),
        _option("--no-header", is_flag=True, help="Omit table headings."),
        _option("--color", type=click.Choice(("auto", "always", "never")), help="Colour. Default: auto, only on a terminal."),
        _option(
            "--wait",
            "wait_s",
            type=Duration(),
            metavar="SECONDS",
            help=f"How long to wait for the store lock. Default: {limits.LOCK_WAIT_SECONDS_DEFAULT:g}.",
        ),
    ]


inventory_option = click.option(
    "--inventory",
    type=click.Choice(("graph", "auto")),
    default="graph",
    show_default=True,
    help="How free resources are tracked.",
)
"""Of commands that run instances in real time."""
