"""Transcripts of Fluxion's `resource-query`, replayed in `fluxres query` and compared byte for byte; and its graph files."""

from __future__ import annotations

import io
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fluxres.errors import FluxresError
from fluxres.fluxion import loading, options
from fluxres.fluxion.session import Session
from fluxres.formats import registry
from tests.conformance import runner
from tests.conformance.conftest import Load, Report
from tests.conformance.runner import Case, NotCovered, Suite

pytestmark = pytest.mark.conformance

KNOWN = {"id", "family", "description", "argv", "commands", "commands_text", "expected", "expected_text"}
"""What a case may say; where it says more, the meaning of that is not known here."""


def replay(case: Case, folder: Path) -> tuple[str, str]:
    """The results of a case, and its standard error."""

    def filled(text: str) -> str:
        return text.replace("{data}", str(folder)).replace("{out}", "/dev/null")

    out, errors = io.StringIO(), io.StringIO()
    typed = case["commands_text"] if "commands_text" in case else (folder / case["commands"]).read_text(encoding="utf-8")
    try:
        chosen = options.parse([filled(word) for word in case["argv"]])
        Session(chosen, out, io.StringIO(), errors).run(filled(typed).splitlines())
    except FluxresError as error:
        errors.write(str(error))
    return out.getvalue(), errors.getvalue()


def transcripts(folder: Path) -> Suite:
    """Recorded sessions."""

    def differs(case: Case) -> list[str]:
        if not case.keys() <= KNOWN:
            raise NotCovered(f"transcript with {', '.join(sorted(case.keys() - KNOWN))}")
        expected = case["expected_text"] if "expected_text" in case else (folder / case["expected"]).read_text(encoding="utf-8")
        got, told = replay(case, folder)
        return [] if got == expected else [f"{case['description']}: {told.strip()[-200:] or _first_difference(expected, got)}"]

    return Suite("resource-query", lambda case: "argv" in case, differs)


def _first_difference(expected: str, got: str) -> str:
    for number, (one, other) in enumerate(zip(expected.splitlines(), got.splitlines(), strict=False), start=1):
        if one != other:
            return f"line {number}: expected {runner.short(one)}, got {runner.short(other)}"
    return f"expected {len(expected.splitlines())} lines, got {len(got.splitlines())}"


def test_fluxion_transcripts(cases: Path, load: Load, minima: dict[str, Any], report: Report) -> None:
    tallies = runner.tally("other transcripts", load("fluxion/cases.json"), [transcripts(cases / "fluxion")])
    report(tallies, {"resource-query": minima.get("fluxion", {}).get("resource-query", 0)})


def of_file(case: Case) -> list[str]:
    """Whether a file is loaded by its content, and has the pools that `fluxres query` makes of it."""
    try:
        expected = Counter(vertex.type for vertex in loading.load(case["path"], case["form"]).vertices)
    except FluxresError:
        raise NotCovered("a part of a graph, for commands that change another one") from None
    made = registry.read(Path(case["path"])).structure
    counts = np.bincount(made.type, minlength=len(made.types)).tolist()
    return runner.differs(expected, {type_: count for type_, count in zip(made.types, counts, strict=True) if count})


def test_graph_files(cases: Path, minima: dict[str, Any], report: Report) -> None:
    folder = cases / "fluxion" / "resource"
    files = [(path, "grug") for path in sorted(folder.rglob("*.graphml"))]
    files += [(path, "jgf") for path in sorted((folder / "jgfs").rglob("*.json"))]
    files += [(path, "rv1exec") for path in sorted((folder / "rv1exec").glob("*.json"))]
    listed: list[Case] = [{"id": path.name, "path": str(path), "form": form} for path, form in files]
    suite = Suite("graph-files", lambda case: True, of_file)
    report(runner.tally("other files", listed, [suite]), {"graph-files": minima.get("fluxion", {}).get("graph-files", 0)})
