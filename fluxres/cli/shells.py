"""Answers for completing shells.

In bash, readline takes the text after the last `:` or `=` for the word, and leaves quoting to the completer. So fluxres has a
script of its own for bash, which passes the line as typed; that for zsh is click's, and so is that for fish, but for one line.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from typing import Any, ClassVar, Final

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    FishComplete,
    add_completion_class,
    shell_complete,
    split_arg_string,
)

from fluxres.cli.settings import Settings
from fluxres.errors import FluxresError

VARIABLE: Final = "_FLUXRES_COMPLETE"
_BASH: Final = """\
%(complete_func)s() {
    local type value
    COMPREPLY=()
    while IFS=, read -r type value; do
        case $type in
            file) compopt -o default ;;
            plain)
                COMPREPLY+=("$value")
                [[ $value == *[=:/\\ ] ]] && compopt -o nospace ;;
        esac
    done < <(FLUXRES_LINE="${COMP_LINE:0:COMP_POINT}" FLUXRES_BREAKS="$COMP_WORDBREAKS" \\
        %(complete_var)s=bash_complete "$1" 2>/dev/null)
}
complete -o nosort -F %(complete_func)s %(prog_name)s
"""
_SPECIAL: Final = re.compile(r"([\s\\'\"`$&|;<>()*?\[\]{}!#])")
_TYPED: Final = re.compile(
    r"""((?:[^\s'"\\]|\\.|'[^']*'|"(?:[^"\\]|\\.)*")*)(['"]?)((?:(?<=')[^']*|(?<=")(?:[^"\\]|\\.)*)?)$""", re.DOTALL
)


@add_completion_class
class Bash(BashComplete):
    """Completion in bash, from the line as typed."""

    name: ClassVar[str] = "bash"
    source_template: ClassVar[str] = _BASH

    def source(self) -> str:
        return self.source_template % self.source_vars()

    def get_completion_args(self) -> tuple[list[str], str]:
        line = os.environ.get("FLUXRES_LINE", "")
        words = split_arg_string(line)[1:]
        incomplete = words.pop() if words and not _is_between_words(line) else ""
        return words, incomplete

    def format_completion(self, item: CompletionItem[Any]) -> str:
        line, breaks = os.environ.get("FLUXRES_LINE", ""), os.environ.get("FLUXRES_BREAKS", "")
        return f"{item.type},{as_typed(str(item.value), line, breaks)}"


@add_completion_class
class Fish(FishComplete):
    """Completion in fish: click's script, but names and descriptions may contain commas (`node0,node1`)."""

    name: ClassVar[str] = "fish"
    source_template: ClassVar[str] = FishComplete.source_template.replace('string split ","', 'string split -m 1 ","')


def _is_between_words(line: str) -> bool:
    typed = _TYPED.search(line)
    return typed is None or not typed[0]


def as_typed(value: str, line: str, breaks: str) -> str:
    """What readline has to insert: a word as it is quoted on the line, from the last break on.

    >>> as_typed("type=node", "fluxres find type=n", ":="), as_typed("type=node", "fluxres find 'type=n", ":=")
    ('node', 'type=node')
    >>> as_typed("/demo/node[0-1]", "fluxres show /demo/n", ":=")
    '/demo/node\\\\[0-1\\\\]'
    """
    typed = _TYPED.search(line)
    if typed is not None and typed[2]:
        return value
    quoted = _SPECIAL.sub(r"\\\1", value)
    last = "" if typed is None else typed[1]
    cut = max((last.rfind(char) + 1 for char in breaks if not char.isspace() and char not in "'\""), default=0)
    return quoted.removeprefix(last[:cut])


def complete(program: click.Command, instruction: str) -> int:
    """Print what completes the line in the environment; nothing if it makes no sense."""
    with suppress(FluxresError, click.ClickException, OSError):
        return shell_complete(program, {"obj": Settings()}, "fluxres", VARIABLE, instruction)
    return 1


def script(program: click.Command, shell: str) -> str:
    from click.shell_completion import get_completion_class

    found = get_completion_class(shell)
    return "" if found is None else found(program, {}, "fluxres", VARIABLE).source()
