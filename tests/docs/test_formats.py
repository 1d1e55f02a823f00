"""specs/formats.md and the README have a row for each format, and each row is true: what it says is read is read, what it says is
lost is told.

    python -m tests.docs.test_formats

writes the tables where they have to stand.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from fluxres.cli.commands.formats import carried
from fluxres.errors import UsageError
from fluxres.formats import registry
from fluxres.formats.format import FACTS, Format, Hold, Reserved
from fluxres.graph.structure import Structure
from tests.traceability import ROOT

SPECS = ROOT / "specs" / "formats.md"
README = ROOT / "README.md"
TABLE = re.compile(r"(?<=<!-- formats -->\n).*?(?=<!-- /formats -->)", re.DOTALL)


def full_table() -> str:
    """The rows of specs/formats.md."""
    rows = [["format", "what", "read", "write", "endings", "carries", "lost"], ["---"] * 7]
    for known in registry.formats():
        name, reads, writes, lost = ways(known)
        endings = " ".join(f"`{ending}`" for ending in known.extensions)
        rows.append([name, known.title, reads, writes, endings, carried(known.carries), lost])
    return table(rows)


def short_table() -> str:
    """The rows of the README."""
    rows = [[f"`{known.name}`", known.title, *ways(known)[1:3]] for known in registry.formats()]
    return table([["format", "what", "read", "write"], ["---"] * 4, *rows])


def ways(known: Format) -> list[str]:
    """Name, whether it is read, whether it is written, what is lost."""
    reads = "yes, several too" if known.many else "yes" if known.reader else "live" if known.live else "–"
    lost = known.loses or ("–" if known.writer is None else "nothing")
    return [f"`{known.name}`", reads, "yes" if known.writer else "–", lost]


def table(rows: list[list[str]]) -> str:
    """Rows as Markdown."""
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |\n" for row in rows).replace("| --- ", "|---")


TABLES = ((SPECS, full_table), (README, short_table))


@pytest.mark.parametrize(("file", "made"), TABLES, ids=["specs", "readme"])
def test_the_table_is_that_of_the_registry(file: Path, made: Callable[[], str]) -> None:
    found = TABLE.search(file.read_text(encoding="utf-8"))
    assert found
    assert found[0].split("\n") == made().split("\n"), "python -m tests.docs.test_formats writes it"


def test_every_fact_is_explained() -> None:
    assert [fact for fact in FACTS if not re.search(rf"^\| [^|]*`{fact}`", SPECS.read_text(encoding="utf-8"), re.MULTILINE)] == []


def everything() -> Structure:
    """A machine with all that fluxres knows of one."""
    structure = registry.read(ROOT / "data" / "fuzz" / "cluster" / "everything.yaml").structure
    structure.capacity[5] = 99
    structure.rank[1:3] = 7
    return structure


WRITTEN = [known for known in registry.formats() if known.writer is not None]


@pytest.mark.parametrize("known", WRITTEN, ids=lambda known: known.name)
def test_what_a_format_does_not_carry_is_told(known: Format) -> None:
    try:
        written = registry.write(
            everything(),
            [Hold("j", 0.0, None, {5: 1})],
            reservations=[Reserved("r", (6,), ((0.0, 1.0),))],
            name="m",
            format=known.name,
        )
    except UsageError as error:
        assert error.message.startswith(f"cannot be written in format '{known.name}'")  # noqa: PT017 - told as well
        return
    told = {line.partition(":")[0] for line in written.left_out}
    # Of pools that are not written at all no more is told than that.
    if "pools" not in told:
        assert {fact for fact in FACTS if fact not in known.carries} <= told | {"pools"}
    assert told <= set(FACTS)
    assert bool(told) == bool(known.loses) or known.carries == frozenset(FACTS)


@pytest.mark.parametrize("known", registry.formats(), ids=lambda known: known.name)
def test_what_a_row_names_is_there(known: Format) -> None:
    for place in (known.reader, known.writer, known.many, known.live):
        if place is not None:
            assert callable(registry._function(place))
    assert known.reader or known.writer or known.live
    assert known.title
    assert all(ending.startswith(".") for ending in known.extensions)
    if known.writer is not None:
        assert known.loses or known.carries == frozenset(FACTS)


if __name__ == "__main__":
    for file, made in TABLES:
        file.write_text(TABLE.sub(lambda _, made=made: made(), file.read_text(encoding="utf-8")), encoding="utf-8")
