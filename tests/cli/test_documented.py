"""specs/cli.md describes every command, option, key and exit status."""

from __future__ import annotations

import json
import re
from pathlib import Path

import click
import pytest

from fluxres.cli.arguments import RequestCommand
from fluxres.cli.failures import CLOSED_PIPE, INTERRUPTED
from fluxres.cli.program import COMMANDS, GROUPS, STAND_INS, program
from fluxres.cli.settings import JOB_OUTPUTS, RECORD_OUTPUTS, EverywhereOption
from fluxres.errors import STATUS
from fluxres.fluxion import options, session
from fluxres.fluxion.drawing import FORMS
from fluxres.fluxion.loading import FORMATS
from fluxres.fluxion.policies import POLICIES
from fluxres.fluxion.writers import WRITERS
from fluxres.model import Pool
from fluxres.render import documents
from fluxres.store import open_store
from tests.cli.conftest import Invoke
from tests.traceability import ROOT

TEXT = (ROOT / "specs" / "cli.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", TEXT, re.MULTILINE | re.DOTALL))
GOLDEN = Path(__file__).with_name("golden") / "json.txt"


REQUEST = "Options of a request"


def command(name: str) -> click.Command:
    found = program.get_command(click.Context(program), name)
    assert found is not None
    return found


def test_the_sections_are_the_commands_in_their_order() -> None:
    others = ("Everywhere", REQUEST, "Earlier words", "Exit status")
    assert [name for name in SECTIONS if name not in others] == [*COMMANDS, *STAND_INS]


def test_the_groups_of_the_overview_are_the_commands() -> None:
    assert sorted(name for names in GROUPS.values() for name in names) == sorted(COMMANDS)


def test_the_options_of_query_are_in_its_section() -> None:
    words = [option.rstrip("=") for option in options.LONG]
    values = [*FORMATS, *WRITERS, *FORMS, *POLICIES, *options.TRAVERSERS, *(c.name for c in session.COMMANDS)]
    text = SECTIONS["query"]
    assert [word for word in words if f"`--{word}" not in text] == []
    assert [letter for letter in options.LONG.values() if f"`-{letter}`" not in text] == []
    assert [value for value in values if f"`{value}`" not in text] == []
    assert set(re.findall(r"`--([a-z-]+)", text)) == set(words)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_is_in_the_section_of_its_command(name: str) -> None:
    found = command(name)
    below = list(getattr(found, "commands", {}).values())
    params = [*found.params, *(param for sub in below for param in sub.params)]
    takes_request = any(isinstance(one, RequestCommand) for one in (found, *below))
    own = [param for param in params if isinstance(param, click.Option) and not isinstance(param, EverywhereOption)]
    described = SECTIONS[name] + (SECTIONS[REQUEST] if takes_request else "")
    assert "options-of-a-request" in SECTIONS[name] or not takes_request
    missing = [word for param in own if not param.hidden for word in param.opts if f"`{word}" not in described]
    assert missing == []
    told = set(re.findall(r"`(--[a-z-]+)", SECTIONS[name]))
    known = {word for param in params for word in param.opts}
    assert told <= known | {"--changed-only", "--json", "--changes"}
    if isinstance(found, click.Group):
        assert all(f"fluxres {name} {sub}" in SECTIONS[name] for sub in found.commands)


def test_common_options_are_in_their_section() -> None:
    words = [word for param in program.params if isinstance(param, click.Option) for word in param.opts]
    assert [word for word in words if f"`{word}" not in SECTIONS["Everywhere"]] == []
    assert [output for output in (*RECORD_OUTPUTS, *JOB_OUTPUTS) if f"`{output}`" not in SECTIONS["Everywhere"]] == []


def test_every_exit_status_is_explained() -> None:
    statuses = {0, INTERRUPTED, CLOSED_PIPE, *(status for status, _ in STATUS.values())}
    assert statuses == {int(number) for number in re.findall(r"^\| (\d+) \|", SECTIONS["Exit status"], re.MULTILINE)}


def answers() -> list[tuple[str, dict[str, object]]]:
    """(command, document) of the transcript of JSON answers."""
    found = []
    for part in GOLDEN.read_text(encoding="utf-8").split("$ fluxres ")[1:]:
        words, _, text = part.partition("\n")
        name = next(word for word in words.split() if word in COMMANDS)
        printed = [line for line in text.splitlines() if not line.startswith(("! ", "(status "))]
        found.append((name, json.loads("\n".join(printed))))
    return found


def test_every_key_of_an_answer_is_in_its_section() -> None:
    missing = [(name, key) for name, document in answers() for key in document if f"`{key}`" not in SECTIONS[name]]
    assert missing == []


def test_every_command_has_an_answer_in_the_transcript() -> None:
    without = set(COMMANDS) - {name for name, _ in answers()}
    assert without == {"completion", "help", "serve"}  # a server goes on: tests/service has it


def test_keys_of_a_pool_and_of_a_span_are_listed(tiny: Invoke) -> None:
    tiny("allocate", "/tiny/rack0", "--job", "j1")
    graph = open_store().load()
    keys = [*documents.pool(Pool(graph, 0)), *documents.spans(graph, [1], 0, 2**61)[0]]
    assert [key for key in keys if f"`{key}`" not in SECTIONS["Everywhere"]] == []
