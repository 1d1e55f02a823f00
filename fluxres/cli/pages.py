"""The help of a command as values, which the terminal and the manual pages show alike."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import click

from fluxres.cli.examples import EXAMPLES, OF_SUBCOMMANDS, Example
from fluxres.cli.program import COMMANDS, GROUPS, STAND_INS
from fluxres.cli.settings import PLAIN_OUTPUTS, EverywhereOption
from fluxres.cli.words import command_name

Terms = tuple[tuple[str, str], ...]
"""Words with their meaning."""
COMMON: Final = "Common options"
TOPICS_HINT: Final = "fluxres help COMMAND and fluxres help TOPIC show more; fluxres help topics lists the topics."


@dataclass(frozen=True, slots=True)
class Page:
    """The help of one command.

    Args:
        name: the words of the command, with `fluxres`.
        summary: a line.
        usage: what follows the name.
        paragraphs: what it does.
        sections: titles, each with words and their meaning: subcommands, then options.
        examples: command lines.
        outputs: forms of output; none of `fluxres` itself.
    """

    name: str
    summary: str
    usage: str
    paragraphs: tuple[str, ...]
    sections: tuple[tuple[str, Terms], ...]
    examples: tuple[Example, ...]
    outputs: tuple[str, ...]


def page(ctx: click.Context) -> Page:
    """The help of the command of a context."""
    command, name = ctx.command, command_name(ctx)
    paragraphs = _paragraphs(command)
    return Page(
        ctx.command_path,
        COMMANDS.get(name) or STAND_INS.get(name) or summary(command),
        " ".join(command.collect_usage_pieces(ctx)),
        paragraphs if name else (*paragraphs, TOPICS_HINT),
        tuple((title, terms) for title, terms in _sections(ctx) if terms),
        _examples(name),
        tuple(getattr(command, "outputs", PLAIN_OUTPUTS)) if name else (),
    )


def _paragraphs(command: click.Command) -> tuple[str, ...]:
    return tuple(" ".join(text.split()) for text in (command.help or "").split("\n\n"))


def summary(command: click.Command) -> str:
    """The first sentence of its help."""
    return re.split(r"(?<=\.)\s", _paragraphs(command)[0], maxsplit=1)[0]


def _sections(ctx: click.Context) -> Iterator[tuple[str, Terms]]:
    command = ctx.command
    if not command_name(ctx):
        for title, names in GROUPS.items():
            yield title, tuple((name, COMMANDS[name]) for name in names)
        return
    if isinstance(command, click.Group):
        yield "Commands", tuple((name, summary(sub)) for name, sub in command.commands.items())
    own = set(map(id, getattr(command, "own_params", command.params)))
    options = [param for param in command.params if isinstance(param, click.Option) and not isinstance(param, EverywhereOption)]
    shown = [option for option in options if not option.hidden]
    yield "Options", tuple(term(option, ctx) for option in shown if id(option) in own)
    yield "Options of a request (fluxres help requests)", tuple(term(o, ctx) for o in shown if id(o) not in own)


def term(option: click.Option, ctx: click.Context) -> tuple[str, str]:
    """An option as typed, and what it means, with its default."""
    words = ", ".join((*option.opts, *option.secondary_opts))
    value = "" if option.is_flag else f" {option.make_metavar(ctx)}"
    extra = option.get_help_extra(ctx)
    meaning = option.help or ""
    meaning += f" Default: {extra['default']}." if "default" in extra else ""
    return words + value, meaning + (" Required." if "required" in extra else "")


def _examples(name: str) -> tuple[Example, ...]:
    """Those of a command; a subcommand without its own has those of its group in which it is used."""
    if name in OF_SUBCOMMANDS:
        return OF_SUBCOMMANDS[name]
    group, _, sub = name.partition(" ")
    found = EXAMPLES.get(group, ())
    return tuple(one for one in found if f"fluxres {name}" in one.command) if sub else found


def common_line(outputs: Sequence[str]) -> str:
    """The options of every command in a line, with the forms of output of this one."""
    forms = f"-o {'|'.join(outputs)}, " if outputs else "--version, -o, "
    return forms + "--json, --store, --graph, --no-header, --color, --wait, --help (see fluxres help options)"


def write(shown: Page, formatter: click.HelpFormatter) -> None:
    """The page as text: subcommands, options, examples, common options."""
    formatter.write_usage(shown.name, shown.usage)
    for paragraph in shown.paragraphs:
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text(paragraph)
    for title, terms in shown.sections:
        with formatter.section(title):
            formatter.write_dl(terms, col_max=26)
    if shown.examples:
        with formatter.section("Examples"):
            for example in shown.examples:
                formatter.write_text(f"{example.what}:")
                formatter.write(f"{'':{formatter.current_indent + 2}}{example.command}\n")
    with formatter.section(COMMON):
        formatter.write_text(common_line(shown.outputs))
