"""The manual pages in man/, made from the help of the commands.

    python -m tests.docs.manual

writes them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from textwrap import wrap

import click

from fluxres import __version__
from fluxres.cli import pages
from fluxres.cli.pages import Page
from fluxres.cli.program import COMMANDS, GROUPS, STAND_INS, program
from fluxres.cli.settings import ALL_OUTPUTS, PLAIN_OUTPUTS, everywhere
from fluxres.cli.topics import TOPICS
from fluxres.fluxion import options
from tests.traceability import ROOT

FOLDER = ROOT / "man"
DATE = "2026-11-24"
ENVIRONMENT = (
    ("FLUXRES_STORE", "The store, where --store is not given."),
    ("XDG_DATA_HOME", "The default store is fluxres/fluxres.db in this directory. Default: ~/.local/share."),
    ("NO_COLOR, FORCE_COLOR, CLICOLOR_FORCE", "Colour off or on, where --color is not given."),
    ("FLUXRES_LIBHWLOC", "The path of libhwloc."),
)


def manual() -> dict[str, str]:
    """The text of each page, by the name of its file."""
    top = click.Context(program, info_name="fluxres")
    found = {"fluxres.1": "".join(_overview(pages.page(top)))}
    for name in COMMANDS:
        command = program.get_command(top, name)
        assert command is not None
        found[f"fluxres-{name}.1"] = "".join(_command(click.Context(command, info_name=name, parent=top)))
    found["fluxres-query.1"] = "".join(_query())
    return {name: re.sub(r"(?m)^(\.S[HS] .*\n)\.PP\n", r"\1", text) for name, text in found.items()}


def _overview(page: Page) -> Iterator[str]:
    yield from _head("fluxres", "describe a machine, ask what is free, hand out parts of it", page.usage)
    yield ".SH DESCRIPTION\n" + "".join(_paragraphs(page))
    yield "".join(
        _terms(title, tuple((f"fluxres-{name}(1)", COMMANDS[name]) for name in names)) for title, names in GROUPS.items()
    )
    yield _terms("Common options", _common_options())
    yield _terms("Topics of fluxres help", tuple((name, topic.summary) for name, topic in TOPICS.items()))
    yield _terms("Environment", ENVIRONMENT)
    yield _see_also(["fluxres-query"])


def _common_options() -> tuple[tuple[str, str], ...]:
    ctx = click.Context(click.Command("fluxres"))
    found = everywhere(PLAIN_OUTPUTS, ALL_OUTPUTS)
    return tuple(pages.term(option, ctx) for option in found if isinstance(option, click.Option))


def _command(ctx: click.Context) -> Iterator[str]:
    page = pages.page(ctx)
    summary = page.summary[0].lower() + page.summary[1:].rstrip(".")
    yield from _head(page.name.replace(" ", "-"), summary, page.usage, page.name)
    yield ".SH DESCRIPTION\n" + "".join(_paragraphs(page))
    yield from (_terms(title, terms) for title, terms in page.sections if title != "Commands")
    if isinstance(ctx.command, click.Group):
        for name, command in ctx.command.commands.items():
            yield from _subcommand(pages.page(click.Context(command, info_name=name, parent=ctx)))
    yield ".SH EXAMPLES\n"
    for example in page.examples:
        yield f".PP\n{_prose(example.what)}:\n.PP\n.RS 4\n.EX\n{_code(example.command)}\n.EE\n.RE\n"
    yield f".SH COMMON OPTIONS\n.PP\n{_prose(pages.common_line(page.outputs))}\n"
    yield _see_also(["fluxres"])


def _subcommand(page: Page) -> Iterator[str]:
    yield f".SS {_code(page.name)} {_code(page.usage)}\n" + "".join(_paragraphs(page))
    for _, terms in page.sections:
        yield from (_term(*each) for each in terms)


def _query() -> Iterator[str]:
    yield from _head("fluxres-query", "match requests on a graph, like resource-query of Fluxion", "[OPTIONS]")
    yield ".SH DESCRIPTION\n.PP\n" + _prose(STAND_INS["query"]) + "\nThe same as fluxres query.\n"
    yield f".PP\n.EX\n{_code(options.USAGE.strip())}\n.EE\n"
    yield _see_also(["fluxres"])


def _head(name: str, summary: str, usage: str, command: str | None = None) -> Iterator[str]:
    yield f'.TH {name.upper().replace("-", chr(92) + "-")} 1 {DATE} "fluxres {__version__}" "fluxres manual"\n'
    yield f".SH NAME\n{_code(name)} \\- {_prose(summary)}\n"
    yield f".SH SYNOPSIS\n.B {_code(command or name)}\n{_code(usage)}\n"


def _paragraphs(page: Page) -> Iterator[str]:
    return (f".PP\n{_prose(paragraph)}\n" for paragraph in page.paragraphs)


def _terms(title: str, terms: pages.Terms) -> str:
    return f".SH {_prose(title.upper().partition(' (')[0])}\n" + "".join(_term(*each) for each in terms)


def _term(words: str, meaning: str) -> str:
    return f".TP\n.B {_code(words)}\n{_prose(meaning)}\n"


def _see_also(names: list[str]) -> str:
    return ".SH SEE ALSO\n.PP\n" + ",\n".join(f"\\fB{_code(name)}\\fR(1)" for name in names) + "\n"


def _code(text: str) -> str:
    """Text that must be copied as it is."""
    for char, escape in (
        ("\\", "\\e"),
        ("-", "\\-"),
        ("'", "\\(aq"),
        ("`", "\\(ga"),
        ("^", "\\(ha"),
        ("~", "\\(ti"),
        ('"', "\\(dq"),
    ):
        text = text.replace(char, escape)
    return "\n".join(f"\\&{line}" if line.startswith(".") else line for line in text.splitlines())


def _prose(text: str) -> str:
    """A paragraph, with a line for each sentence."""
    text = text.replace("\\", "\\e").replace("~", "\\(ti").replace("^", "\\(ha").replace("'", "\\(aq").replace("`", "\\(ga")
    text = re.sub(r"(?<![\w/])-{1,2}(?=\w)", lambda match: "\\-" * len(match[0]), text)
    sentences = re.sub(r"(?<=[.:;]) (?=[A-Z])", "\n", text).splitlines()
    lines = [line for each in sentences for line in wrap(each, 78, break_long_words=False, break_on_hyphens=False)]
    return "\n".join(f"\\&{line}" if line.startswith(".") else line for line in lines)


def write(folder: Path = FOLDER) -> None:
    """Write the pages, and remove those of commands that are gone."""
    folder.mkdir(exist_ok=True)
    made = manual()
    for old in folder.glob("*.1"):
        if old.name not in made:
            old.unlink()
    for name, text in made.items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write()
