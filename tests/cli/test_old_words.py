"""Words of earlier versions work, are offered nowhere, and are in specs/cli.md; words of other systems name the command here.

    python -m tests.cli.test_old_words

writes the table there.
"""

from __future__ import annotations

import re

import click
import pytest
from click.shell_completion import ShellComplete

from fluxres.cli.program import COMMANDS, program
from fluxres.cli.topics import ALSO, TOPICS
from fluxres.cli.words import ELSEWHERE, OLD_COMMANDS, OLD_OPTIONS, OldOption
from tests.cli.conftest import Invoke
from tests.traceability import ROOT

SPECS = ROOT / "specs" / "cli.md"
TABLE = re.compile(r"(?<=<!-- old words -->\n).*?(?=<!-- /old words -->)", re.DOTALL)
OPTIONS = [(command, old, now) for command, words in OLD_OPTIONS.items() for old, now in words.items()]


def table() -> str:
    """The old words and the present ones, as Markdown."""
    commands = [(f"`fluxres {old}`", f"`fluxres {now}`", "") for old, now in OLD_COMMANDS.items()]
    places: dict[tuple[str, str], list[str]] = {}
    for command, old, now in [*OPTIONS, ("find", "--during", "--start A --end B")]:
        places.setdefault((old, now), []).append(f"`{command}`")
    options = [(f"`{old}`", f"`{now}`", ", ".join(names)) for (old, now), names in places.items()]
    rows = [("word", "now", "of"), ("---", "---", "---"), *commands, *options]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows).replace("| --- | --- | --- |", "|---|---|---|")


def context(name: str) -> click.Context:
    top = click.Context(program, info_name="fluxres")
    command = program.get_command(top, name)
    assert command is not None
    return click.Context(command, info_name=name, parent=top)


def offered(*words: str, incomplete: str) -> list[str]:
    completer = ShellComplete(program, {}, "fluxres", "_FLUXRES_COMPLETE")
    return [item.value for item in completer.get_completions([*words], incomplete)]


def test_the_table_in_the_specs_is_that_of_the_program() -> None:
    found = TABLE.search(SPECS.read_text(encoding="utf-8"))
    assert found is not None
    assert found[0] == table()


@pytest.mark.parametrize(("command", "old", "now"), OPTIONS)
def test_an_old_option_is_hidden_and_stands_for_the_present_one(command: str, old: str, now: str) -> None:
    ctx = context(command)
    (option,) = (param for param in ctx.command.get_params(ctx) if isinstance(param, OldOption) and old in param.opts)
    assert now in option.option.opts
    assert re.search(rf"(^|[\s,]){re.escape(old)}[\s,]", ctx.get_help()) is None
    assert old not in offered(command, incomplete="-")
    assert now in offered(command, incomplete="-")


@pytest.mark.parametrize("name", OLD_COMMANDS)
def test_an_old_command_is_not_offered(name: str) -> None:
    assert name not in COMMANDS
    assert name not in click.Context(program).get_help()
    assert name not in offered(incomplete=name[:3])
    assert context(name).command.name == name


@pytest.mark.parametrize("word", ELSEWHERE)
def test_a_word_of_another_system_is_refused_with_the_command_here(fluxres: Invoke, word: str) -> None:
    assert word not in COMMANDS
    hint = ELSEWHERE[word]
    for words in ((word, "x"), *[("help", word)] * (word not in {*TOPICS, *ALSO})):
        assert f"'{word}' ({hint})" in fluxres(*words, status=2).stderr
    named = re.findall(r"fluxres ([a-z]+)", hint)
    assert named
    assert set(named) <= set(COMMANDS)


if __name__ == "__main__":
    SPECS.write_text(TABLE.sub(lambda _: table(), SPECS.read_text(encoding="utf-8")), encoding="utf-8")
