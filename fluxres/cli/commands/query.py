"""`fluxres query`: a replacement for Fluxion's `resource-query`."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, TextIO

import click

from fluxres import limits
from fluxres.errors import InputError, LimitExceeded

if TYPE_CHECKING:
    from fluxres.fluxion.session import Session


def _lines(stream: TextIO) -> Iterator[str]:
    while line := stream.readline(limits.TYPED_LINE_MAX + 1):
        if len(line) > limits.TYPED_LINE_MAX:
            raise LimitExceeded(f"a line of more than {limits.TYPED_LINE_MAX} characters", where="standard input")
        yield line


def write_drawing(session: Session) -> None:
    """Write the graph that a session has loaded to the file of its options.

    Errors: StoreError, InputError; the file is then unchanged.
    """
    if session.drawing is not None:
        from fluxres.store.disk import replacing

        with replacing(session.drawing.path) as file:
            session.drawing.write(file)


@click.command(
    "query",
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []},
)
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def query_command(ctx: click.Context, words: tuple[str, ...]) -> None:
    """Match requests on a graph, with the options, commands and output of Fluxion's resource-query.

    `fluxres query --help` lists the options; the command `help` in a session lists the commands.
    """
    from fluxres.fluxion import options
    from fluxres.fluxion.session import Session

    chosen = options.parse(words)
    if chosen.wants_help:
        click.echo(options.USAGE, nl=False)
        return
    with ExitStack() as stack:
        # A graph is half a million long-lived objects; scanning them for garbage would take most of the time.
        gc.disable()
        session = Session(chosen, sys.stdout, sys.stdout, sys.stderr)
        gc.freeze()
        gc.enable()
        write_drawing(session)
        if chosen.test_output is not None:
            try:
                session.out = stack.enter_context(open(chosen.test_output, "w", encoding="utf-8"))
            except (OSError, ValueError) as error:
                raise InputError(f"cannot be written: {error}", where=chosen.test_output) from None
        sys.stdin.reconfigure(errors="replace")  # type: ignore[union-attr]  # a text stream has it, its stub's union does not
        session.run(_lines(sys.stdin))
    if session.unknown_commands:
        ctx.exit(1)
