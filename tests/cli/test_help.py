"""Help on commands and topics, and that nothing points to what an installation does not have."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib

import pytest

from fluxres.cli import topics
from fluxres.cli.program import COMMANDS
from fluxres.cli.topics import TOPICS
from tests.cli.conftest import Invoke
from tests.traceability import ROOT

SOURCES = sorted((ROOT / "fluxres").rglob("*.py"))


def test_help_alone_is_the_overview(fluxres: Invoke) -> None:
    assert fluxres("help").stdout == fluxres("--help").stdout == fluxres().stdout


@pytest.mark.parametrize("words", [*([name] for name in COMMANDS), ["graphs", "use"], ["experiment", "run"], ["query"]])
def test_help_on_a_command_is_its_help_option(fluxres: Invoke, words: list[str]) -> None:
    shown = fluxres("help", *words).stdout
    assert shown.startswith(f"Usage: fluxres {' '.join(words)}")
    assert words == ["query"] or shown == fluxres(*words, "--help").stdout


@pytest.mark.parametrize("name", TOPICS)
def test_a_topic_is_a_document_without_links(fluxres: Invoke, name: str) -> None:
    shown = fluxres("help", name).stdout
    assert len(shown.splitlines()) > 1
    assert max(map(len, shown.splitlines())) <= 100
    assert "](" not in shown
    assert "<!--" not in shown
    assert not {topic.file for topic in TOPICS.values()} & set(re.findall(r"[\w-]+\.md\b", topics.text(name)))


@pytest.mark.parametrize("topic", TOPICS.values(), ids=TOPICS)
def test_the_first_part_of_a_topic_is_in_its_document(topic: topics.Topic) -> None:
    text = (ROOT / "specs" / topic.file).read_text(encoding="utf-8")
    assert not topic.parts or f"\n{topic.parts[0]}" in text


def test_no_topic_has_the_name_of_a_command() -> None:
    assert not {*TOPICS, "topics"} & {*COMMANDS}


def test_other_names_of_topics_show_them(fluxres: Invoke) -> None:
    assert {*topics.ALSO.values()} <= {*TOPICS}
    assert not {*topics.ALSO} & {*TOPICS, *COMMANDS, "topics"}
    assert fluxres("help", "experiments").stdout == fluxres("help", "studies").stdout


def test_topics_are_listed(fluxres: Invoke) -> None:
    listed = re.findall(r"^  ([\w-]+)  ", fluxres("help", "topics").stdout, re.MULTILINE)
    assert listed == list(TOPICS)


@pytest.mark.parametrize(("words", "near"), [("alocate", "allocate"), ("criterias", "criteria"), ("graphs sue", "use")])
def test_an_unknown_word_is_refused_with_the_nearest(fluxres: Invoke, words: str, near: str) -> None:
    told = fluxres("help", *words.split(), status=2).stderr
    assert told.startswith(f"fluxres: ERROR no command or topic '{words}' (perhaps {near}; ")


def test_a_wheel_has_the_documents_of_all_topics() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    included = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    assert included == {f"specs/{file}": f"fluxres/topics/{file}" for file in sorted({topic.file for topic in TOPICS.values()})}


def texts(part: str) -> list[tuple[str, str]]:
    """(module, text) of all string constants with a text but docstrings, and of the docstrings of commands, their help."""
    found = []
    for path in SOURCES:
        source = path.read_text(encoding="utf-8")
        if part not in source:
            continue
        tree = ast.parse(source)
        is_command = "commands" in path.parts
        help_texts = {id(node.body[0]) for node in tree.body if is_command and isinstance(node, ast.FunctionDef)}
        docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr) and id(node) not in help_texts}
        found += [
            (path.name, node.value)
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and part in node.value and id(node) not in docs
        ]
    return found


def test_no_message_points_to_a_file_of_the_sources() -> None:
    bare = [(name, text) for name, text in texts("specs/") if "\n" not in text.strip("\n")]
    assert [each for each in bare if each[0] != "topics.py"] == []


def test_messages_point_to_topics_and_commands_that_exist() -> None:
    named = [(name, word) for name, text in texts("fluxres help") for word in re.findall(r"fluxres help ([a-z-]+)", text)]
    assert named
    assert [each for each in named if each[1] not in {*TOPICS, *COMMANDS, "topics"}] == []


def test_no_message_names_a_package_that_cannot_be_had() -> None:
    assert [each for each in texts("pip install") if "fluxres" in each[1]] == []


def test_the_overview_imports_only_click() -> None:
    code = "import sys; from fluxres.cli.program import run; run(['--help']); print([n for n in sys.modules if n in"
    heavy = "('numpy', 'rich', 'yaml', 'msgspec', 'orjson', 'sqlite3', 'networkx', 'fluxres.cli.arguments')])"
    shown = subprocess.run([sys.executable, "-c", f"{code} {heavy}"], check=True, capture_output=True, text=True).stdout
    assert shown.splitlines()[-1] == "[]"
