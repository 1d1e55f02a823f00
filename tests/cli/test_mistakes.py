"""Mistakes that people make in files: each file in mistakes/ and, beside it, exactly what the command says about it.

To accept the present messages, for right, run with `UPDATE_GOLDEN=1` and read the difference.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

import pytest

from fluxres import limits
from fluxres.render.text import width
from tests.cli.conftest import Invoke

FILES = sorted(Path(__file__).with_name("mistakes").glob("*.yaml"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_what_a_command_says_about_a_wrong_file(file: Path, fluxres: Invoke, place: Path) -> None:
    shutil.copy(file, place)
    found = fluxres("check", file.name, status=2).stderr
    expected = file.with_suffix(".txt")
    if os.environ.get("UPDATE_GOLDEN"):
        expected.write_text(found, encoding="utf-8")
    assert found == expected.read_text(encoding="utf-8")


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_each_mistake_has_its_line_and_a_caret_below_the_place(file: Path, fluxres: Invoke, place: Path) -> None:
    shutil.copy(file, place)
    lines = fluxres("check", file.name, status=2).stderr.splitlines()
    plain = json.loads(fluxres("check", file.name, "--json", status=2).stderr)
    assert 1 <= len(plain["mistakes"]) <= limits.MISTAKES_MAX
    assert plain["where"] == plain["mistakes"][0]["where"]
    text = file.read_bytes().decode("utf-8", "replace").splitlines()
    for mistake in plain["mistakes"]:
        assert mistake["where"].startswith(file.name)
        if "line" not in mistake:
            continue
        at = lines.index(next(line for line in lines if line.startswith(f"fluxres: ERROR {mistake['where']}: ")))
        shown, caret = lines[at + 1 : at + 3]
        assert width(shown) <= 80
        number, column = int(shown.split("|")[0]), len(caret) - 1
        assert number == mistake["line"]
        assert caret.strip(" |") == "^"
        wanted = text[number - 1][mistake["column"] - 1 : mistake["column"]].replace("\t", " ").replace("\0", "")
        assert shown[column : column + 1].strip() == wanted.strip()
    listed = [line for line in lines if re.match(r"fluxres: ERROR \S+:\d+:\d+", line)]
    assert len(listed) in (len(plain["mistakes"]), 0)


def test_move_to_a_name_that_was_misspelled_says_what_it_did(tiny: Invoke) -> None:
    done = tiny("move", "/tiny/rack0/node1", "/tiny/rak0")
    assert done.stdout == "/tiny/rack0/node1 moved to /tiny/rak0, and is named rak0 now\n"
    assert done.stderr == "fluxres: did you mean /tiny/rack0? (`fluxres undo` takes the move back)\n"
    tiny("undo")
    assert tiny("move", "/tiny/rack0/node1", "/tiny/rack0/node01").stderr == ""
    assert tiny("move", "/tiny/rack0/node01", "/tiny").stdout == "/tiny/rack0/node01 moved to /tiny/node01\n"
