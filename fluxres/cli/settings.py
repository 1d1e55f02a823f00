"""The common options of every command, accepted before or after its name.

Users add `--json` or `--store` anywhere on the line. So each option is declared on the program and on every command; the last
occurrence wins.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import click

from fluxres import clock, limits

if TYPE_CHECKING:
    from fluxres.render.text import Style

PLAIN_OUTPUTS: Final = ("table", "json")
"""Forms of output of commands that report what they did."""
TABLE_OUTPUTS: Final = ("table", "wide", "csv", "json")
"""Forms of output of commands with a table: within the terminal, in full width, for spreadsheets, for programs."""
POOL_OUTPUTS: Final = (*TABLE_OUTPUTS, "paths", "folded")
"""Forms of output of commands that list pools."""
R_OUTPUTS: Final[dict[str, bool | str]] = {"R": False, "rv1": "jgf", "rv1_shorthand": "jgf_shorthand"}
"""Forms of output that are resource sets, and the graph in each of them."""
RECORD_OUTPUTS: Final = (*POOL_OUTPUTS, *R_OUTPUTS)
"""Forms of output of commands that list allocations."""
JOB_OUTPUTS: Final = ("csv", "swf")
"""Forms of output of commands that list jobs, besides the metrics."""
ALL_OUTPUTS: Final = (*RECORD_OUTPUTS, "swf")
"""Forms of output of all commands."""


@dataclass(slots=True)
class Settings:
    """The values of the common options.

    Args:
        argv: the words after `fluxres`.
        store: address of the store; None is the default one.
        graph: its graph; None is the one in use.
        output: one of `ALL_OUTPUTS`.
        header: whether tables have a line of headings.
        color: auto, always or never.
        wait_s: how long to wait for the lock of the store.
        now_s: what "now" means in the options, once one of them depends on it: a command has one present.
        is_direct: whether changes go to the store itself, also if a server leads it.
    """

    argv: tuple[str, ...] = ()
    store: str | None = None
    graph: str | None = None
    output: str = "table"
    header: bool = True
    color: str = "auto"
    wait_s: float = limits.LOCK_WAIT_SECONDS_DEFAULT
    now_s: float | None = None
    is_direct: bool = False

    def now(self) -> float:
        """The wall clock time of this command, in whole microseconds."""
        if self.now_s is None:
            self.now_s = round(clock.system(), 6)
        return self.now_s

    @property
    def command(self) -> str:
        """The command as typed, without passwords, for the journal and for other processes that wait."""
        from fluxres.store.url import without_password

        return shlex.join(["fluxres", *map(without_password, self.argv)])

    @property
    def json(self) -> bool:
        return self.output == "json"

    def wants_json(self) -> bool:
        """Whether an error must be JSON; also works for command lines that could not be parsed."""
        words = " ".join(self.argv)
        return self.json or "--json" in self.argv or "-o json" in words or "--output json" in words or "--output=json" in words

    @property
    def has_table(self) -> bool:
        return self.output in {"table", "wide"}

    def style(self) -> Style:
        """How tables look on standard output: their width where it is a terminal, colour (https://no-color.org, FORCE_COLOR and
        CLICOLOR_FORCE are honoured), headings."""
        import shutil

        from fluxres.render.text import Style

        is_terminal, environment = sys.stdout.isatty(), os.environ
        columns = shutil.get_terminal_size().columns if is_terminal and self.output != "wide" else None
        if self.color == "auto":
            is_forced = any(environment.get(name, "0") not in {"", "0"} for name in ("FORCE_COLOR", "CLICOLOR_FORCE"))
            has_colour = (is_terminal or is_forced) and not is_plain()
        else:
            has_colour = self.color == "always"
        return Style(has_colour, self.header, columns, output_encoding())


def output_encoding() -> str:
    """The encoding of standard output; `utf8` in any spelling of it."""
    found = (sys.stdout.encoding or "utf-8").lower()
    return "utf8" if found.replace("-", "") == "utf8" else found


def is_plain() -> bool:
    """Whether the environment asks for output without colour."""
    return bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"


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
    """A duration as people write it, as seconds: a Flux standard duration, or Slurm's `1:00:00` and `1-12`.

    Args:
        is_positive: 0 is refused.
    """

    name = "duration"

    def __init__(self, *, is_positive: bool = False) -> None:
        self.is_positive = is_positive

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Seconds of `30m` or `1:00:00`."""
        from fluxres.errors import FluxresError, UsageError
        from fluxres.syntax import duration

        place = "" if param is None else param.opts[0]
        try:
            found = value if isinstance(value, float) else duration.read(value)
        except FluxresError as error:
            error.where = place or error.where
            raise
        if self.is_positive and found == 0:
            raise UsageError(f"expected a positive duration, got {value}", where=place)
        return found


class OutputFormat(click.ParamType[str]):
    """A form of output.

    Args:
        accepted: those of the command; before the name of a command, those of all.
    """

    name = "format"

    def __init__(self, accepted: Sequence[str]) -> None:
        self.accepted = accepted

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The same text, if the command has this form."""
        if value not in self.accepted:
            raise no_output(ctx, value, self.accepted)
        return str(value)


def no_output(ctx: click.Context | None, output: str, accepted: Sequence[str]) -> click.UsageError:
    """The error for a form of output that a command does not have."""
    name = ctx.info_name if ctx is not None else "it"
    instead = f"; `jobs NAME -o {output}` has that of a reservation" if name == "reserve" and output in R_OUTPUTS else ""
    return click.UsageError(f"{name} has no output '{output}', only {', '.join(accepted)}{instead}", ctx)


_COMMON: Final = ("store", "graph", "json", "output", "no_header", "color", "wait_s")


def _option(*names: str, **settings: Any) -> EverywhereOption:
    return EverywhereOption(list(names), **settings)


def _completer(name: str) -> Callable[[click.Context, click.Parameter, str], list[Any]]:
    """A function of :mod:`fluxres.cli.completing`, which only completion imports."""

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
        from fluxres.cli import completing

        found: list[Any] = getattr(completing, name)(ctx, param, incomplete)
        return found

    return complete


def everywhere(outputs: Sequence[str], accepted: Sequence[str]) -> list[click.Parameter]:
    """New options, for one command with these forms of output, and of what `-o` accepts."""
    return [
        _option(
            "--store",
            metavar="URL",
            shell_complete=_completer("file"),
            help="The store. Default: $FLUXRES_STORE, else SQLite in the XDG data directory.",
        ),
        _option(
            "--graph", metavar="NAME", shell_complete=_completer("graph"), help="The graph in the store. Default: the one in use."
        ),
        _option("--json", is_flag=True, help="Print JSON; the same as -o json."),
        _option(
            "-o",
            "--output",
            type=OutputFormat(accepted),
            metavar="FORMAT",
            shell_complete=lambda _ctx, _param, text: [form for form in outputs if form.startswith(text)],
            help=f"Output format: {', '.join(outputs)}. Default: {outputs[0]}.",
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
