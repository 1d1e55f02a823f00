"""What the documents show is what happens: their commands are run, and their output is compared.

- A ```` ```console ```` block holds commands after `$ ` (continued after `> `) and their output. All blocks of a section run
  in order, in one folder that has `data/` as a clone has it, with a store of its own; `-m slow` runs all sections in one.
  `...` in the output stands for anything. A command has to succeed unless the next one is `echo $?`.
- A ```` ```pycon ```` block is a doctest; the blocks of a document share their names.
- A ```` ```sh ```` block is for the reader's machine (it creates a venv, say). It is only parsed.
"""

from __future__ import annotations

import doctest
import fcntl
import os
import pty
import re
import shlex
import struct
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.forks import write_program
from tests.ports import free_port
from tests.store.servers import find_etcd, has_postgresql, postgresql
from tests.traceability import ROOT

DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
COMMAND_SECONDS_MAX = 900
PROCESSES = ("experiment", "graphs", "hierarchy", "run", "serve", "shell", "simulate")
"""Commands that run in an interpreter of their own: those that start processes, receive signals or take long, and a short one."""
RECORDED = ("experiment run data/experiments/levels.yaml",)
"""These take half a minute: only `--deeper 1` and `-m slow` run them, else `test_studies.py` compares what is recorded."""


@dataclass(frozen=True)
class Block:
    """A block of a document, below the last heading of the second level."""

    language: str
    line: int
    text: str
    section: str


@dataclass(frozen=True)
class Command:
    line: int
    text: str
    output: str


def blocks(document: Path) -> list[Block]:
    text = document.read_text(encoding="utf-8")
    fenced = re.finditer(r"^```(\w+)\n(.*?)^```$|^## ([^\n]+)$", text, re.MULTILINE | re.DOTALL)
    found, section = list[Block](), ""
    for match in fenced:
        section = match[3] or section
        if match[1]:
            found.append(Block(match[1], text[: match.start(2)].count("\n") + 1, match[2], section))
    return found


def sections(document: Path) -> list[str]:
    """Those with commands."""
    return list(dict.fromkeys(block.section for block in blocks(document) if block.language == "console"))


def commands(block: Block) -> list[Command]:
    found: list[Command] = []
    for number, line in enumerate(block.text.splitlines(), block.line):
        if line.startswith("$ "):
            found.append(Command(number, line[2:], ""))
            continue
        assert found, f"line {number}: output before the first command"
        last = found[-1]
        if line.startswith("> ") and not last.output:
            found[-1] = Command(last.line, f"{last.text}\n{line[2:]}", "")
        else:
            found[-1] = Command(last.line, last.text, f"{last.output}{line}\n")
    return found


def alike(expected: str, got: str) -> bool:
    pattern = ".*".join(re.escape(part) for part in expected.rstrip().split("..."))
    lines = "\n".join(line.rstrip() for line in got.rstrip().splitlines())
    return re.fullmatch(pattern, lines, re.DOTALL) is not None


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder as a reader has it after cloning, and a home without a store."""
    home = tmp_path / "home"
    programs = home / "bin"
    programs.mkdir(parents=True)
    write_program(programs / "fluxres", alone=PROCESSES)
    python = programs / "python"
    python.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n', encoding="utf-8")
    python.chmod(0o755)
    folder = tmp_path / "fluxres"
    folder.mkdir()
    for name in ("data", "specs"):
        if (ROOT / name).is_dir():
            (folder / name).symlink_to(ROOT / name)
    for name in [name for name in os.environ if name.startswith("FLUXRES_")]:
        monkeypatch.delenv(name)
    settings = {
        "HOME": home,
        "XDG_DATA_HOME": home / "data",
        "PYTHONPATH": ROOT,
        "PATH": f"{programs}:{os.environ['PATH']}",
        "COLUMNS": 100,
    }
    for name, value in settings.items():
        monkeypatch.setenv(name, str(value))
    monkeypatch.chdir(folder)
    return folder


def run(command: str, status: int = 0) -> subprocess.CompletedProcess[str]:
    """Run a command by bash, with `$?` of the command before it."""
    return subprocess.run(
        ["bash", "-c", f"(exit {status})\n{command}"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=COMMAND_SECONDS_MAX,
        check=False,
    )


@contextmanager
def servers(
    clone: Path, document: Path, monkeypatch: pytest.MonkeyPatch, section: str | None = None
) -> Iterator[Callable[[str, int], subprocess.CompletedProcess[str]]]:
    """Runs commands with servers of their own in place of those of a document: etcd on its usual port, and PostgreSQL."""
    programs = clone.parent / "home" / "bin"
    places = {}
    etcd = find_etcd("etcd")
    if etcd is not None:
        (programs / "etcd").symlink_to(etcd)
        client, peer = (f"127.0.0.1:{free_port()}" for _ in range(2))
        for name in ("LISTEN_CLIENT_URLS", "ADVERTISE_CLIENT_URLS"):
            monkeypatch.setenv(f"ETCD_{name}", f"http://{client}")
        for name in ("LISTEN_PEER_URLS", "INITIAL_ADVERTISE_PEER_URLS"):
            monkeypatch.setenv(f"ETCD_{name}", f"http://{peer}")
        monkeypatch.setenv("ETCD_INITIAL_CLUSTER", f"default=http://{peer}")
        places["127.0.0.1:2379"] = client
    with ExitStack() as stack:
        shown = "postgresql://ada@db.site/cluster"
        if has_postgresql() and any(shown in command.text for command in console(document, section)):
            places[shown] = stack.enter_context(postgresql()).url

        def at_places(command: str, status: int = 0) -> subprocess.CompletedProcess[str]:
            for shown, real in places.items():
                command = command.replace(shown, real)
            done = run(command, status)
            for shown, real in places.items():
                done.stdout = done.stdout.replace(real, shown)
            return done

        yield at_places


def run_on_terminal(command: str, status: int = 0) -> subprocess.CompletedProcess[str]:
    """The same on a terminal of 80 columns."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    line = ["bash", "-c", f"(exit {status})\n{command}"]
    shown = {name: value for name, value in os.environ.items() if name not in {"LINES", "COLUMNS"}} | {"TERM": "dumb"}
    running = subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs, env=shown)
    os.close(theirs)
    read = b""
    with suppress(OSError):  # the other end is closed
        while part := os.read(ours, 65536):
            read += part
    os.close(ours)
    return subprocess.CompletedProcess(line, running.wait(COMMAND_SECONDS_MAX), read.decode().replace("\r\n", "\n"))


def console(document: Path, section: str | None = None) -> list[Command]:
    """The commands of a document, or of one of its sections."""
    shown = [block for block in blocks(document) if block.language == "console" and section in (None, block.section)]
    return [command for block in shown for command in commands(block)]


def check_commands(
    document: Path,
    run: Callable[[str, int], subprocess.CompletedProcess[str]] = run,
    section: str | None = None,
    without: tuple[str, ...] = (),
) -> None:
    """Compare the output of each command with the document, or put it there if UPDATE_GOLDEN is set.

    Args:
        without: parts of commands that are left out.
    """
    status = 0
    shown = [command for command in console(document, section) if not any(part in command.text for part in without)]
    missing = [" etcd://"] * (find_etcd("etcd") is None) + [" postgresql://"] * (not has_postgresql())
    shown = [command for command in shown if not any(server in command.text for server in missing)]
    for number, command in enumerate(shown, 1):
        done = run(command.text, status)
        status = done.returncode
        place = f"{document.name}:{command.line}: $ {command.text}"
        if "UPDATE_GOLDEN" in os.environ and not alike(command.output, done.stdout):
            text, typed = document.read_text(encoding="utf-8"), "$ " + command.text.replace("\n", "\n> ") + "\n"
            document.write_text(text.replace(typed + command.output, typed + done.stdout, 1), encoding="utf-8")
        else:
            assert alike(command.output, done.stdout), f"{place}\nexpected:\n{command.output}\ngot:\n{done.stdout}"
        wanted = number < len(shown) and shown[number].text == "echo $?"
        assert status == 0 or wanted, f"{place}\nended with status {status}:\n{done.stdout}"


def check_doctests(document: Path) -> None:
    names: dict[str, object] = {}
    for block in blocks(document):
        if block.language == "pycon":
            test = doctest.DocTestParser().get_doctest(block.text, {}, document.name, str(document), block.line - 1)
            test.globs = names
            report: list[str] = []
            runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
            runner.run(test, out=report.append, clear_globs=False)
            assert not report, "".join(report)


def begin(document: Path) -> None:
    """The console of the README begins after the first line of the page, which ends by loading the demo."""
    if document.name == "README.md":
        assert run(blocks(document)[0].text.rpartition("&& .venv/bin/")[2]).returncode == 0


def follow_an_earlier_reader() -> None:
    assert run("fluxres allocate node0 --job j1 && fluxres copy /demo --as part").returncode == 0


@pytest.mark.long
@pytest.mark.parametrize(
    ("document", "section"), [(document, section) for document in DOCUMENTS for section in sections(document)]
)
def test_commands_do_what_the_document_shows(
    document: Path, section: str, clone: Path, monkeypatch: pytest.MonkeyPatch, deeper: float
) -> None:
    begin(document)
    without = () if deeper >= 1 or "UPDATE_GOLDEN" in os.environ else RECORDED
    if section == "Five minutes":
        follow_an_earlier_reader()
    with servers(clone, document, monkeypatch, section) as run_there:
        check_commands(document, run_there, section, without)


@pytest.mark.slow
@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_all_commands_of_a_document_work_one_after_another(document: Path, clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begin(document)
    if document.name == "README.md":
        follow_an_earlier_reader()
    with servers(clone, document, monkeypatch) as run_there:
        check_commands(document, run_there)


@pytest.mark.usefixtures("clone")
def test_a_reader_can_follow_the_page_on_studies() -> None:
    pytest.importorskip("matplotlib")
    check_commands(ROOT / "specs" / "studies.md")


@pytest.mark.usefixtures("clone")
def test_the_tasks_of_a_day_work_on_a_terminal_of_80_columns() -> None:
    check_commands(ROOT / "specs" / "tasks.md", run_on_terminal)


@pytest.mark.usefixtures("clone")
def test_the_commands_offered_for_habits_of_other_tools_succeed() -> None:
    assert run("fluxres load data/clusters/demo.yaml").returncode == 0
    rows = [line for line in (ROOT / "specs" / "habits.md").read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    typed = [command for row in rows for command in re.findall(r"`(fluxres .*?)`", row)]
    assert len(typed) > len(rows)
    failed = {command: done.stdout for command in typed if (done := run(command)).returncode}
    asked_in_vain = "fluxres why -N8 -x -t 1h"  # status 1: not now
    assert list(failed) == [asked_in_vain], failed


@pytest.mark.usefixtures("clone")
@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_python_does_what_the_document_shows(document: Path) -> None:
    check_doctests(document)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_shell_of_the_document_is_shell(document: Path) -> None:
    for block in blocks(document):
        if block.language == "sh":
            done = subprocess.run(["bash", "-n", "-c", block.text], capture_output=True, text=True, check=False)
            assert done.returncode == 0, f"{document.name}:{block.line}: {done.stderr}"


def test_the_readme_opens_with_first_steps_and_tests() -> None:
    first, second = [block.text for block in blocks(ROOT / "README.md")][:2]
    assert "-m venv" in first
    assert "pip install" in first
    assert "fluxres load data/clusters/demo.yaml" in first
    assert "[test]" in second
    assert "python -m pytest\n" in second.replace("bin/python", "python")


WRONG_DOCUMENTS = {
    "other output": "```console\n$ echo 1\n2\n```\n",
    "missing output": "```console\n$ echo 1; echo 2\n1\n```\n",
    "failing command": "```console\n$ false\n```\n",
    "other status": "```console\n$ false\n$ echo $?\n0\n```\n",
}


@pytest.mark.usefixtures("clone")
@pytest.mark.parametrize("text", WRONG_DOCUMENTS.values(), ids=WRONG_DOCUMENTS)
def test_a_document_that_shows_something_else_is_noticed(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("UPDATE_GOLDEN", raising=False)
    document = tmp_path / "wrong.md"
    document.write_text(text, encoding="utf-8")
    with pytest.raises(AssertionError, match=r"wrong\.md:[23]: \$ "):
        check_commands(document)


@pytest.mark.usefixtures("clone")
def test_output_of_a_failing_command_is_not_put_unnoticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UPDATE_GOLDEN", "1")
    document = tmp_path / "wrong.md"
    document.write_text("```console\n$ echo 1; false\n```\n", encoding="utf-8")
    with pytest.raises(AssertionError, match="ended with status 1"):
        check_commands(document)


@pytest.mark.usefixtures("clone")
def test_a_doctest_that_shows_something_else_is_noticed(tmp_path: Path) -> None:
    document = tmp_path / "wrong.md"
    document.write_text("```pycon\n>>> x = 1\n```\n\n```pycon\n>>> x\n2\n```\n", encoding="utf-8")
    with pytest.raises(AssertionError, match="line 6"):
        check_doctests(document)


@pytest.mark.usefixtures("clone")
def test_a_document_that_is_right_passes(tmp_path: Path) -> None:
    document = tmp_path / "right.md"
    document.write_text(
        "```console\n$ printf 'a  \\nb\\n'\na\n...\n$ echo \\\n> over two lines\nover two ...\n$ false\n$ echo $?\n1\n```\n",
        encoding="utf-8",
    )
    check_commands(document)
