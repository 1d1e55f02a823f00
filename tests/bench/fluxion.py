"""Times of Fluxion for comparison: an optimised build on the same kind of machine, medians, in microseconds.

Of the queue more is known where a recorded one is given: its file has, for each job, when Fluxion started it and how long it
took.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean

from tests.bench.machines import Job

_ROWS = ("1 core", "1 node", "64 nodes", "satisfiable, N+1 nodes", "queue, mean")
_MICROS = {
    ("first", 128): (53, 92, 2_000, 226, 1_700),
    ("first", 1_024): (58, 94, 2_000, 1_700, 9_400),
    ("first", 10_240): (130, 206, 5_400, 97_000, 116_000),
    ("low", 1_024): (57_000, 41_000, 67_000, 78_000, 22_000),
    ("low", 10_240): (818_000, 474_000, 600_000, 449_000, 109_000),
}
RACK: dict[tuple[str, int], dict[str, float]] = {key: dict(zip(_ROWS, row, strict=True)) for key, row in _MICROS.items()}
"""By policy and nodes."""

QUEUE_TENTHS: dict[int, list[int]] = {
    1_024: [2_905, 4_294, 4_284, 7_988, 12_059, 17_874, 10_773, 21_849, 15_873, 24_281],
    10_240: [28_358, 72_431, 123_401, 143_541, 134_295, 114_880, 127_910, 210_685],
}
"""Means of each hundred jobs of the recorded queue, *rack* and policy first, by nodes; at 10,240 nodes its time ran out."""


def queue(jobs: Sequence[Job], shape: str, policy: str) -> tuple[int, float, int] | None:
    """Jobs it planned before its time ran out, the mean microseconds of each, and the makespan of these in seconds."""
    start, us = f"start_{shape}_{policy}", f"us_{shape}_{policy}"
    done = [job for job in jobs if job.fluxion.get(start) and job.fluxion.get(us)]
    if not done:
        return None
    ends = [int(float(job.fluxion[start])) + job.duration_s for job in done]
    return len(done), mean(float(job.fluxion[us]) for job in done), max(ends)
