"""The program: its commands by name, imported when they run.

`fluxres --help` and completion use the table below, so they cost only the import of click.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, NoReturn, TextIO

import click

from fluxres import __version__
from fluxres.cli.failures import report, tell
from fluxres.cli.settings import ALL_OUTPUTS, PLAIN_OUTPUTS, Settings, everywhere, keep, no_output
from fluxres.cli.words import ELSEWHERE, OLD_COMMANDS, command_name, note_old, old_options
from fluxres.documents.suggestion import near
from fluxres.errors import FluxresError, InputWarning, RevisionConflict, UsageError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

COMMANDS: Final = {
    "load": "Load a machine into the store and print a summary.",
    "graphs": "List the graphs of the store, select the default one, or remove one.",
    "info": "Show totals, states and jobs of a graph, or totals of a part of it.",
    "nodes": "List nodes by partition and state, with reasons.",
    "jobs": "List jobs: user, time left, nodes, what they hold.",
    "timeline": "Draw which jobs hold which nodes over the next hours or days.",
    "show": "Draw the tree, with equal parts folded.",
    "find": "Search for pools by criteria.",
    "allocate": "Allocate pools, or what a request asks for, to a job.",
    "run": "Run a program inside an allocation, and free it afterwards.",
    "shell": "Start a shell inside an allocation.",
    "ps": "List who runs what where, and who waits.",
    "wait": "Wait until jobs end.",
    "cancel": "End jobs, and free what they hold.",
    "free": "Release what a job holds, or a part of it.",
    "grow": "Allocate more to a job that already holds resources.",
    "shrink": "Release a part of what a job holds.",
    "extend": "Move the end of a job's allocation, later or earlier.",
    "stage": "Lock pools while a job is being considered.",
    "when": "Show the earliest time a request can start.",
    "why": "Explain why a request cannot be satisfied.",
    "reserve": "Reserve pools for maintenance, or list or remove reservations.",
    "tag": "Tag pools, or remove a tag.",
    "state": "Set the state of pools.",
    "copy": "Copy what is free, or what a job holds, to a new graph.",
    "merge": "Merge another graph into this one.",
    "unlink": "Remove a pool and everything below it.",
    "move": "Move a pool and everything below it.",
    "diff": "Show what a changed description would change.",
    "apply": "Apply a changed description to a machine in use.",
    "undo": "Undo the last change of the graph.",
    "edge": "Add, change or remove an edge of an auxiliary graph.",
    "save": "Write the graph to a file or another store.",
    "child": "Grow, shrink, extend or end a child.",
    "serve": "Serve the graphs of the store over HTTP.",
    "store": "Check, compact, copy and move a whole store.",
    "simulate": "Simulate a workload on a machine.",
    "workload": "Convert a workload, or write the jobs of a model.",
    "experiment": "Run the simulations described by a study, and compare them.",
    "instance": "Keep schedulers with queues on a graph, or run a workload in one.",
    "hierarchy": "Run jobs in nested instances, each a separate process.",
    "convert": "Convert a file from one format to another.",
    "formats": "List the file formats.",
    "check": "Validate a graph or a file.",
    "log": "Show the events of a graph.",
    "completion": "Print the completion script for a shell.",
    "help": "Show help on a command or a topic.",
}
GROUPS: Final = {
    "Describe a machine and look at it": ("load", "graphs", "info", "nodes", "show", "find", "diff", "apply"),
    "Ask about requests and jobs": ("when", "why", "jobs", "timeline", "log"),
    "Hold and release resources": ("allocate", "free", "grow", "shrink", "extend"),
    "Run programs": ("run", "shell", "ps", "wait", "cancel"),
    "Operate the machine": (
        "state",
        "reserve",
        "tag",
        "merge",
        "unlink",
        "move",
        "edge",
        "copy",
        "undo",
        "check",
        "child",
        "serve",
        "store",
    ),
    "Simulate and run schedulers": ("simulate", "workload", "experiment", "instance", "hierarchy", "stage"),
    "Files, shell and help": ("save", "convert", "formats", "completion", "help"),
}
"""The commands as `fluxres --help` lists them."""
_FILES: Final = {
    **dict.fromkeys(("info", "find", *OLD_COMMANDS), "show"),
    **dict.fromkeys(("free", "grow", "shrink", "extend"), "allocate"),
    **dict.fromkeys(("when", "why"), "match"),
    **dict.fromkeys(("tag", "state", "reserve", "copy", "merge", "unlink", "move"), "machine"),
    **dict.fromkeys(("load", "graphs", "save", "check", "log"), "store"),
    **dict.fromkeys(("diff", "apply", "undo"), "change"),
    "shell": "run",
    "store": "upkeep",
    **dict.fromkeys(("wait", "cancel"), "ps"),
    "convert": "formats",
}
"""The modules of :mod:`fluxres.cli.commands` in which commands are, where their name is another."""
STAND_INS: Final = {
    "query": "Match requests on a graph, like Fluxion's resource-query.",
}
"""Commands that replace another program: they have its options and its output, and none of the common options.

They are programs of their own (`fluxres-query`), and not in the list of commands.
"""
_KNOWN: Final = frozenset((*COMMANDS, *STAND_INS, *OLD_COMMANDS))


class _WithCommonOptions(click.Command):
    """What commands and groups of commands share: the common options, and the forms of their output.

    Args:
        outputs: forms of output.
    """

    def __init__(self, *args: Any, outputs: Sequence[str] = PLAIN_OUTPUTS, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.outputs = tuple(outputs)
        self.own_params = tuple(self.params)
        self._old: list[click.Parameter] | None = None
        self.params = [*self.params, *everywhere(self.outputs, self.accepted_outputs)]

    @property
    def accepted_outputs(self) -> tuple[str, ...]:
        """The values of `-o`: a group passes it to a command that is not known yet."""
        return ALL_OUTPUTS

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            rest = super().parse_args(ctx, args)
        except click.UsageError as error:
            if error.ctx is None:  # an option without its argument: the parser does not know of which command
                error.ctx = ctx
            raise
        keep(ctx)
        return rest

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """With the options that it had under other words, which come first: they set the values of the present ones."""
        params = super().get_params(ctx)
        if self._old is None and ctx.command is self:
            self._old = old_options(command_name(ctx), params)
        return [*self._old, *params] if self._old and ctx.command is self else params

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        from fluxres.cli import pages

        pages.write(pages.page(ctx), formatter)


class Command(_WithCommonOptions):
    """A command with the common options."""

    @property
    def accepted_outputs(self) -> tuple[str, ...]:
        return self.outputs

    def invoke(self, ctx: click.Context) -> Any:
        """Run it, unless it does not support the requested form of output."""
        settings, name = ctx.ensure_object(Settings), command_name(ctx)
        if name in OLD_COMMANDS:
            note_old(ctx, name, OLD_COMMANDS[name])
        if settings.output not in self.outputs:
            raise no_output(ctx, settings.output, self.outputs)
        return super().invoke(ctx)


class Group(_WithCommonOptions, click.Group):
    """A command with subcommands and the common options."""

    command_class = Command


class Program(Group):
    """`fluxres` itself, which imports a command when it is needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _KNOWN:
            return None
        module = import_module(f"fluxres.cli.commands.{_FILES.get(cmd_name, cmd_name)}")
        command: click.Command = getattr(module, f"{cmd_name}_command")
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[Any]]:
        """The names of commands from the table, so that no command is imported; else options."""
        from click.shell_completion import CompletionItem

        names = [CompletionItem(name, help=text) for name, text in COMMANDS.items() if name.startswith(incomplete)]
        return names or click.Command.shell_complete(self, ctx, incomplete)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does, but naming the command that does what an unknown one does elsewhere, or the nearest name."""
        if args and args[0] not in _KNOWN and not args[0].startswith("-"):
            if args[0] in ELSEWHERE:
                raise UsageError(f"no command '{args[0]}'", hint=ELSEWHERE[args[0]])

            meant = near(args[0], COMMANDS)
            raise click.UsageError(f"no command '{args[0]}'" + (f", perhaps {meant[0]}" if meant else ""), ctx)
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; an error becomes a line and an exit status."""
        try:
            value = super().invoke(ctx)
            sys.stdout.flush()
        except RevisionConflict:
            raise
        except _EXPECTED as error:
            raise click.exceptions.Exit(report(error, as_json=ctx.ensure_object(Settings).wants_json())) from None
        return value

    def main(self, args: Sequence[str] | None = None, *_: Any, **extra: Any) -> NoReturn:
        """Run, then exit; called by click's test runner."""
        sys.exit(run(sys.argv[1:] if args is None else args))


_DECISIONS_MAX: Final = 8
_EXPECTED: Final = (FluxresError, click.ClickException, click.Abort, OSError, MemoryError, KeyboardInterrupt)

program = Program(
    "fluxres",
    help="Describe a machine, ask what is free, and allocate parts of it.",
    context_settings={"help_option_names": ["-h", "--help"]},
)
click.version_option(__version__, message="%(prog)s %(version)s", help="Show the version.")(program)


def run(argv: Sequence[str]) -> int:
    """Run one command line and return its exit status.

    >>> run(["--version"])
    fluxres 0.1.0
    0
    """
    if (instruction := os.environ.get("_FLUXRES_COMPLETE")) is not None:
        from fluxres.cli import shells

        return shells.complete(program, instruction)
    settings = Settings(argv=tuple(argv))
    with warnings.catch_warnings():
        warnings.simplefilter("always", InputWarning)
        warnings.showwarning = _show
        try:
            status = _decided(list(argv) or ["--help"], settings)
        except _EXPECTED as error:
            return report(error, as_json=settings.wants_json())
        except UnicodeEncodeError:  # bytes of a word that are not UTF-8 are surrogates
            from fluxres.documents import arguments

            strange = next((word for word in argv if not arguments.is_unicode(word)), None)
            if strange is None:
                raise
            return report(UsageError("is not in UTF-8", where=ascii(strange)), as_json=settings.wants_json())
    return status if isinstance(status, int) else 0


def _decided(argv: list[str], settings: Settings) -> object:
    """Run a command, again if the graph of a server changed while it decided: it has printed nothing by then."""
    for left in range(_DECISIONS_MAX - 1, -1, -1):
        try:
            return click.Group.main(program, list(argv), prog_name="fluxres", standalone_mode=False, obj=settings)
        except RevisionConflict as error:
            if not left:
                raise
            settings = Settings(argv=settings.argv, is_direct=left == 1 or settings.is_direct or error.is_for_store)
    raise AssertionError


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
