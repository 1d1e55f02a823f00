"""The values in specs/tour.md are those of the present code."""

from __future__ import annotations

import re

from tests.docs import tour


def test_the_tour_shows_what_the_code_does() -> None:
    text = tour.PAGE.read_text(encoding="utf-8")
    blocks = tour.in_fresh_process()
    assert sorted(name for _, name, _, _ in tour.BLOCK.findall(text)) == sorted(blocks)
    assert "(not reached)" not in "".join(blocks.values())
    assert text == tour.page(text, blocks), "python -m tests.docs.tour --write brings the page up to date"


def test_files_that_the_tour_names_exist() -> None:
    text = tour.PAGE.read_text(encoding="utf-8")
    named = re.findall(r"`((?:cli|syntax|store|graph|model|match|planner|allocation|render|instance)/[a-z_/]+\.py)`", text)
    assert len(named) > 20
    assert [name for name in named if not (tour.ROOT / "fluxres" / name).exists()] == []
