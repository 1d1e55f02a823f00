"""The manual pages in man/ have the help of the commands, and formatters accept them."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from tests.docs.manual import FOLDER, manual

MADE = manual()


def test_there_is_a_page_for_each_command() -> None:
    assert sorted(path.name for path in FOLDER.iterdir()) == sorted(MADE)


@pytest.mark.parametrize("name", MADE)
def test_a_page_is_the_help_of_its_command(name: str) -> None:
    assert (FOLDER / name).read_text(encoding="utf-8") == MADE[name], "run: python -m tests.docs.manual"


@pytest.mark.skipif(shutil.which("mandoc") is None, reason="needs mandoc")
def test_mandoc_accepts_all_pages() -> None:
    files = [str(FOLDER / name) for name in MADE]
    told = subprocess.run(["mandoc", "-Tlint", "-Wwarning", *files], capture_output=True, text=True, check=False)
    assert told.stdout + told.stderr == ""


@pytest.mark.skipif(shutil.which("groff") is None, reason="needs groff")
def test_groff_accepts_all_pages() -> None:
    files = [str(FOLDER / name) for name in MADE]
    told = subprocess.run(["groff", "-man", "-ww", "-z", "-Tutf8", "-Kutf8", *files], capture_output=True, text=True, check=False)
    assert told.stderr == ""
