"""The table of maintenance reservations."""

from __future__ import annotations

import time

import pytest

import fluxres
from fluxres.render import reservations


def every(graph: fluxres.ResourceGraph, **repeated: object) -> str:
    """What the table says about the interval."""
    graph.reserve("node0", name="m", duration_s=60, **repeated)  # type: ignore[arg-type]  # as given
    heads, row = reservations.lines(graph, graph.records.reservations)
    at = heads.index("EVERY")
    return row[at : heads.index("LEFT", at)].strip()


@pytest.mark.parametrize(
    ("start", "interval", "shown"),
    [
        ("2026-03-28T08:00", "1d", "1 d"),  # the clocks change in the night of 28 March
        ("2026-03-28T08:00", "7d", "7 d"),
        ("2026-03-28T02:30", "1d", "1 d"),  # on 29 March, 02:30 is skipped
        ("2026-03-29T02:30", "1d", "1 d"),
        ("2026-10-24T08:00", "1d", "1 d"),
        ("2026-03-28T08:00", "12h", "12 h"),
        ("2026-03-28T08:00", "25h", "1 d 1 h"),
        (100, "1d", "1 d"),
        (300_000_000_000, "1d", "1 d"),
    ],
)
def test_the_interval_is_the_one_that_was_asked_for(
    monkeypatch: pytest.MonkeyPatch, start: object, interval: str, shown: str
) -> None:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    try:
        graph = fluxres.load("data/clusters/demo.yaml")
        begin = graph.allocate("node1", job="x", start=start, duration_s=1).start  # the start in seconds
        assert every(graph, start=start, every_s=interval, until=begin + 30 * 86400) == shown
    finally:
        monkeypatch.undo()
        time.tzset()
