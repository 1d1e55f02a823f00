"""The table of folders in specs/architecture.md is that of the package, of its import contract and of the rules."""

from __future__ import annotations

import re
from configparser import ConfigParser
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROW = re.compile(r"^\| (`[a-z_`, ]+`) \|[^|]*\|[^|]*\|([^|]*)\|$", re.MULTILINE)
WORD = re.compile(r"`([a-z_]+)`")
ENFORCED = re.compile(r"^- Enforced .*?(?=^- |\Z|^$)", re.MULTILINE | re.DOTALL)
FOLDER = re.compile(r"`fluxres/([a-z]+)")


def rows() -> list[tuple[list[str], set[str]]]:
    """Folders, or modules beside them, and the rules that each keeps, in the order of the table."""
    text = (ROOT / "specs" / "architecture.md").read_text(encoding="utf-8")
    section = text.split("## Folders", 1)[1].split("\n## ", 1)[0]
    return [(WORD.findall(names), set(re.findall(r"[A-Z][0-9]", rules))) for names, rules in ROW.findall(section)]


def test_every_folder_has_a_row() -> None:
    package = ROOT / "fluxres"
    found = {path.parent.name for path in package.glob("*/__init__.py")}
    found |= {path.stem for path in package.glob("*.py") if path.stem != "__init__"}
    assert sorted(name for names, _ in rows() for name in names) == sorted(found)


def test_rows_are_in_the_order_of_the_import_contract() -> None:
    contract = ConfigParser()
    contract.read(ROOT / ".importlinter", encoding="utf-8")
    layers = contract["importlinter:contract:layers"]["layers"].split("\n")
    order = {name: at for at, layer in enumerate(layers) for name in re.findall(r"[a-z]+", layer)}
    places = [order[names[0]] for names, _ in rows()]
    assert places == sorted(places)


def test_rows_name_the_rules_that_are_enforced_there() -> None:
    enforced: dict[str, set[str]] = {}
    for section in (ROOT / "specs" / "rules.md").read_text(encoding="utf-8").split("\n## ")[1:]:
        for text in ENFORCED.findall(section):
            for folder in FOLDER.findall(text):
                enforced.setdefault(folder, set()).add(section[:2])
    for names, rules in rows():
        if names[0] != "clock":
            assert rules == enforced.get(names[0], set()), names
