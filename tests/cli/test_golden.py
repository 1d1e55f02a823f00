"""The exact output of commands: each file in golden/ is a transcript that must be reproduced.

A line `$ fluxres …` is a command, then comes its standard output, standard error with `! ` before each line, and
`(status N)` unless that is 0.  All commands of a file share a store and a clock fixed at 1000.  To accept the present output,
for right, run with `UPDATE_GOLDEN=1` and read the difference.
"""

from __future__ import annotations

import os
import shlex
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from fluxres.cli.program import program
from tests.cli.conftest import MACHINE

FILES = sorted(Path(__file__).with_name("golden").glob("*.txt"))


def transcript(commands: list[str], place: Path) -> str:
    lines: list[str] = []
    for command in commands:
        result = CliRunner().invoke(program, shlex.split(command)[1:])
        lines += [f"$ {command}", *result.stdout.splitlines(), *(f"! {line}" for line in result.stderr.splitlines())]
        lines += [f"(status {result.exit_code})"] * (result.exit_code != 0)
    return "\n".join(lines).replace(str(place.parent), "TMP") + "\n"


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_transcript_is_reproduced(file: Path, place: Path) -> None:
    for name in (MACHINE.name, "job.yaml", "study.yaml", "ended.yaml", "partitions.yaml"):
        shutil.copy(MACHINE.with_name(name), place)
    expected = file.read_text(encoding="utf-8")
    commands = [line.removeprefix("$ ") for line in expected.splitlines() if line.startswith("$ ")]
    got = transcript(commands, place)
    if os.environ.get("UPDATE_GOLDEN"):
        file.write_text(got, encoding="utf-8")
    assert got == expected


def test_there_are_transcripts() -> None:
    assert len(FILES) >= 8
