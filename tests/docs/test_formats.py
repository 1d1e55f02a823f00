"""specs/formats.md has a row for each format, and each row is true: what it says is read is read, what it says is lost is told.

    python -m tests.docs.test_formats

prints the table as it has to stand there.
"""

from __future__ import annotations

import re

import pytest

from fluxres.cli.commands.formats import carried
from fluxres.errors import UsageError
from fluxres.formats import registry
from fluxres.formats.format import FACTS, Format
from fluxres.formats.loaded import Hold
from fluxres.graph.structure import Structure
from tests.traceability import ROOT

TEXT = (ROOT / "specs" / "formats.md").read_text(encoding="utf-8")


def table() -> str:
    """The rows that the document must have."""
    lines = ["| format | what | read | write | endings | carries | lost |", "|---|---|---|---|---|---|---|"]
    for known in registry.formats():
        reads = "several files" if known.many else "yes" if known.reader else "–"
        endings = " ".join(f"`{ending}`" for ending in known.extensions)
        lost = known.loses or ("–" if known.writer is None else "nothing")
        cells = [f"`{known.name}`", known.title, reads, "yes" if known.writer else "–", endings, carried(known.carries), lost]
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines)


def test_the_table_is_that_of_the_registry() -> None:
    found = re.search(r"<!-- formats -->\n(.*?)\n<!-- /formats -->", TEXT, re.DOTALL)
    assert found
    assert found[1].split("\n") == table().split("\n"), "python -m tests.docs.test_formats prints it"


def test_every_fact_is_explained() -> None:
    assert [fact for fact in FACTS if not re.search(rf"^\| [^|]*`{fact}`", TEXT, re.MULTILINE)] == []


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
        written = registry.write(everything(), [Hold("j", 0.0, None, {5: 1})], name="m", format=known.name)
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
    assert known.reader or known.writer
    assert known.title
    assert all(ending.startswith(".") for ending in known.extensions)
    if known.writer is not None:
        assert known.loses or known.carries == frozenset(FACTS)


if __name__ == "__main__":
    print(table())
