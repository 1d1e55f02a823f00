"""The program: its commands by name, imported when they run.

`fluxres --help` and completion use the table below, so they cost only the import of click.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final, NoReturn, TextIO

import click

from fluxres import __version__
from fluxres.cli.failures import report, tell
from fluxres.cli.settings import PLAIN_OUTPUTS, EverywhereOption, Settings, everywhere, keep
from fluxres.errors import FluxresError, InputWarning

COMMANDS: Final = {
    "load": "Load a machine into the store and print a summary.",
    "graphs": "List the graphs of the store, select the default one, or remove one.",
    "info": "Show a summary of a graph: totals, jobs, states.",
    "nodes": "List nodes by state, with reasons.",
    "jobs": "List jobs: user, time left, nodes, what they hold.",
    "timeline": "Draw who holds what over the next hours or days.",
    "show": "Draw the tree, with equal parts folded.",
    "find": "Search for pools by criteria.",
    "allocate": "Allocate pools, or what a request asks for, to a job, now or later.",
    "free": "Release what a job holds, or a part of it.",
    "grow": "Allocate more to a job that already holds resources.",
    "shrink": "Release a part of what a job holds.",
    "extend": "Move the end of a job's allocation, later or earlier.",
    "stage": "Lock pools while a job is being considered; commit or release the lock.",
    "when": "Show the earliest time a request can start.",
    "why": "Explain why a request cannot be satisfied.",
    "available": "List pools with free units.",
    "allocated": "List allocations and reservations.",
    "aggregate": "Add up free units by type.",
    "reserve": "Reserve pools for maintenance, or list or remove reservations.",
    "tag": "Tag pools, or remove a tag.",
    "state": "Set the state of pools.",
    "copy": "Copy what is free, or what a job holds, to a new graph.",
    "merge": "Merge another graph into this one.",
    "unlink": "Remove a pool and everything below it.",
    "move": "Move a pool and everything below it.",
    "diff": "Show what a changed description would change.",
    "apply": "Bring a changed description onto a machine in use.",
    "undo": "Undo the last change of the graph.",
    "edge": "Add, change or remove an edge of an auxiliary graph.",
    "save": "Write the graph to a file or another store.",
    "simulate": "Simulate a workload on a machine.",
    "experiment": "Run the simulations described by a study, and compare them.",
    "instance": "Run the jobs of a workload in one instance, in real time.",
    "hierarchy": "Run jobs in nested instances, each a process, and compare their throughput.",
    "convert": "Convert a file from one format to another.",
    "formats": "List the file formats.",
    "check": "Validate a graph or a file.",
    "log": "Show the events of a graph.",
    "completion": "Print the completion script for a shell.",
}
_FILES: Final = {
    **dict.fromkeys(("info", "find", "available", "allocated", "aggregate"), "show"),
    **dict.fromkeys(("free", "grow", "shrink", "extend"), "allocate"),
    **dict.fromkeys(("when", "why"), "match"),
    **dict.fromkeys(("tag", "state", "reserve", "copy", "merge", "unlink", "move"), "machine"),
    **dict.fromkeys(("load", "graphs", "save", "check", "log"), "store"),
    **dict.fromkeys(("diff", "apply", "undo"), "change"),
    "convert": "formats",
}
"""The modules of :mod:`fluxres.cli.commands` in which commands are, where their name is another."""
STAND_INS: Final = {
    "query": "Match requests on a graph, like Fluxion's resource-query.",
}
"""Commands that replace another program: they have its options and its output, and none of the common options."""


class _WithCommonOptions(click.Command):
    """What commands and groups of commands share: the common options, and the forms of their output.

    Args:
        outputs: forms of output.
    """

    def __init__(self, *args: Any, outputs: Sequence[str] = PLAIN_OUTPUTS, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.outputs = tuple(outputs)
        self.params = [*self.params, *everywhere(self.outputs)]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        rest = super().parse_args(ctx, args)
        keep(ctx)
        return rest

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The command's own options first, then the common ones, then the subcommands."""
        for title, wanted in (("Options", False), ("Common options", True)):
            records = [
                param.get_help_record(ctx)
                for param in self.get_params(ctx)
                if isinstance(param, click.Option) and isinstance(param, EverywhereOption) == wanted
            ]
            shown = [record for record in records if record is not None]
            if shown:
                with formatter.section(title):
                    formatter.write_dl(shown)
        if isinstance(self, click.Group):
            self.format_commands(ctx, formatter)


class Command(_WithCommonOptions):
    """A command with the common options."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run it, unless it does not support the requested form of output."""
        settings = ctx.ensure_object(Settings)
        if settings.output not in self.outputs:
            raise click.UsageError(f"{self.name} has no output '{settings.output}', only {', '.join(self.outputs)}", ctx)
        return super().invoke(ctx)


class Group(_WithCommonOptions, click.Group):
    """A command with subcommands and the common options."""

    command_class = Command


class Program(Group):
    """`fluxres` itself, which imports a command when it is needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*COMMANDS, *STAND_INS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS and cmd_name not in STAND_INS:
            return None
        module = import_module(f"fluxres.cli.commands.{_FILES.get(cmd_name, cmd_name)}")
        command: click.Command = getattr(module, f"{cmd_name}_command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([*COMMANDS.items(), *STAND_INS.items()])

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does, but suggesting the nearest name for an unknown one."""
        if args and args[0] not in COMMANDS and args[0] not in STAND_INS and not args[0].startswith("-"):
            from difflib import get_close_matches

            near = get_close_matches(args[0], self.list_commands(ctx), 1)
            raise click.UsageError(f"no command '{args[0]}'" + (f", perhaps {near[0]}" if near else ""), ctx)
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; an error becomes a line and an exit status."""
        try:
            value = super().invoke(ctx)
            sys.stdout.flush()
        except _EXPECTED as error:
            raise click.exceptions.Exit(report(error, as_json=ctx.ensure_object(Settings).wants_json())) from None
        return value

    def main(self, args: Sequence[str] | None = None, *_: Any, **extra: Any) -> NoReturn:
        """Run, then exit; called by click's test runner."""
        sys.exit(run(sys.argv[1:] if args is None else args))


_EXPECTED: Final = (FluxresError, click.ClickException, click.Abort, OSError, MemoryError, KeyboardInterrupt)

program = Program(
    "fluxres",
    help="Describe a machine, ask what is free, hand out parts of it.",
    context_settings={"help_option_names": ["-h", "--help"]},
)
click.version_option(__version__, message="%(prog)s %(version)s", help="Show the version.")(program)


def run(argv: Sequence[str]) -> int:
    """Run one command line and return its exit status.

    >>> run(["--version"])
    fluxres 0.1.0
    0
    """
    settings = Settings(argv=tuple(argv))
    with warnings.catch_warnings():
        warnings.simplefilter("always", InputWarning)
        warnings.showwarning = _show
        try:
            status = click.Group.main(program, list(argv) or ["--help"], prog_name="fluxres", standalone_mode=False, obj=settings)
        except _EXPECTED as error:
            return report(error, as_json=settings.wants_json())
    return status if isinstance(status, int) else 0


def _show(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Print notes of readers on standard error; other warnings as Python shows them."""
    if not issubclass(category, InputWarning):
        tell(warnings.formatwarning(message, category, filename, lineno, line))
        return
    from fluxres.cli.output import note
    from fluxres.render.text import printable

    note(printable(str(message)))
