"""Transcripts of Fluxion's `resource-query`, typed into `fluxres query` and compared byte for byte."""

from __future__ import annotations

import collections
import io
import json
from pathlib import Path
from typing import Any

from fluxres.errors import FluxresError
from fluxres.query import options
from fluxres.query.session import Session

Case = dict[str, Any]


def replay(case: Case, folder: Path) -> tuple[str, str]:
    """What a case gives as results, and on standard error."""

    def filled(text: str) -> str:
        return text.replace("{data}", str(folder)).replace("{out}", "/dev/null")

    out, errors = io.StringIO(), io.StringIO()
    typed = case.get("commands_text") or (folder / case["commands"]).read_text(encoding="utf-8")
    try:
        chosen = options.parse([filled(word) for word in case["argv"]])
        Session(chosen, out, io.StringIO(), errors).run(filled(typed).splitlines())
    except FluxresError as error:
        errors.write(str(error))
    return out.getvalue(), errors.getvalue()


def test_fluxion_transcripts(cases: Path, agreeing_min: dict[str, Any]) -> None:
    folder = cases / "fluxion"
    tried: list[Case] = json.loads((folder / "cases.json").read_text(encoding="utf-8"))
    equal: collections.Counter[str] = collections.Counter()
    differing = []
    for case in tried:
        got, told = replay(case, folder)
        if got == (folder / case["expected"]).read_text(encoding="utf-8"):
            equal[case["family"]] += 1
        else:
            differing.append(f"{case['id']}: {case['description']}: {told.strip()[-200:]}")
    print(f"fluxion: {equal.total()} of {len(tried)} agree", *differing, sep="\n")
    assert equal.total() >= agreeing_min["fluxion"]["resource-query"], "\n".join(differing)
