"""`fluxres help`: help on commands and topics."""

from __future__ import annotations

import sys

import click

from fluxres.cli import completing
from fluxres.cli.program import COMMANDS, Command
from fluxres.cli.settings import Settings
from fluxres.cli.words import ELSEWHERE
from fluxres.documents.suggestion import near
from fluxres.errors import UsageError


@click.command("help", cls=Command, outputs=("table",))
@click.argument("words", nargs=-1, metavar="[COMMAND|TOPIC]", shell_complete=completing.topic)
@click.pass_context
def help_command(ctx: click.Context, words: tuple[str, ...]) -> None:
    """Show help on a command or a topic; without a name, list the commands; fluxres help topics lists the topics."""
    from fluxres.cli.program import program
    from fluxres.cli.topics import ALSO, TOPICS

    name = " ".join(words)
    name = ALSO.get(name, name)
    if name == "topics":
        _list_topics()
    elif name in TOPICS:
        _show(ctx.ensure_object(Settings), name)
    else:
        top = click.Context(program, info_name="fluxres", obj=ctx.obj)
        click.echo(_command_context(top, words).get_help())


def _command_context(top: click.Context, words: tuple[str, ...]) -> click.Context:
    from fluxres.cli.topics import TOPICS

    at = top
    for word in words:
        command = at.command
        found = command.get_command(at, word) if isinstance(command, click.Group) else None
        if found is None:
            if (hint := ELSEWHERE.get(word)) is not None and at is top:
                raise UsageError(f"no command or topic '{word}'", hint=hint)
            if at is not top and isinstance(command, click.Group):
                raise _no_subcommand(at, command, word)
            known = [*(command.list_commands(at) if isinstance(command, click.Group) else ()), *TOPICS]
            meant = near(word, known)
            hint = f"perhaps {meant[0]}; " if meant else ""
            raise UsageError(
                f"no command or topic '{' '.join(words)}'",
                hint=f"{hint}'fluxres help' lists the commands, 'fluxres help topics' the topics",
            )
        at = click.Context(found, info_name=word, parent=at)
    return at


def _no_subcommand(at: click.Context, group: click.Group, word: str) -> UsageError:
    """The error for a word that a group does not have: the nearest one, or the command of this name."""
    meant = [*near(word, group.list_commands(at)), *([f"`fluxres help {word}`"] if word in COMMANDS else [])]
    hint = f"perhaps {meant[0]}; " if meant else ""
    lists = f"`fluxres help {at.info_name}` lists the commands of {at.info_name}"
    return UsageError(f"no command or topic '{at.info_name} {word}'", hint=f"{hint}{lists}")


def _list_topics() -> None:
    from fluxres.cli.topics import TOPICS

    formatter = click.HelpFormatter()
    with formatter.section("Topics of fluxres help TOPIC"):
        formatter.write_dl([(name, topic.summary) for name, topic in TOPICS.items()])
    click.echo(formatter.getvalue(), nl=False)


def _show(settings: Settings, name: str) -> None:
    """A document, drawn for the terminal, in a pager where it would scroll away."""
    import io

    from rich.console import Console
    from rich.markdown import Markdown

    from fluxres.cli.topics import text

    style = settings.style()
    drawn = io.StringIO()
    width = min(style.columns or 100, 100)
    console = Console(file=drawn, width=width, force_terminal=style.enabled, color_system="standard" if style.enabled else None)
    console.print(Markdown(text(name), hyperlinks=False))
    lines = "\n".join(line.rstrip() for line in drawn.getvalue().splitlines()) + "\n"
    if sys.stdout.isatty():
        click.echo_via_pager(lines)
    else:
        click.echo(lines, nl=False)
