"""Draws the results of `match_table.py --save`: `python -m tests.bench.plots specs/figures/match.json specs/figures`.

Needs matplotlib (the extra `plot`). The figures are small SVGs whose text stays text; the same results give the same file.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fluxres.experiments import charts, style
from tests.bench import fluxion

SIZES = (16, 128, 1024, 4096, 10_240)
OPERATIONS = {"1 core": "C0", "1 node": "C1", "64 nodes": "C2", "queue, mean": "C3"}
Column = dict[str, Any]


def of(columns: Sequence[Column], shape: str, policy: str) -> list[Column]:
    """Columns of one shape and policy with the recorded queue, by size."""
    found = [c for c in columns if (c["shape"], c["policy"], c["queue_jobs"]) == (shape, policy, 1000)]
    return sorted(found, key=lambda column: column["nodes"])


def against_nodes(columns: Sequence[Column], file: Path) -> None:
    """Medians of each operation against the size of the machine, a panel for each operation and policy."""
    made = style.figure(4.6)
    grid = made.subplots(2, len(OPERATIONS), sharex=True, sharey=True)
    for row, policy in zip(grid, ("first", "low"), strict=True):
        mine = of(columns, "rack", policy)
        for axes, name in zip(row, OPERATIONS, strict=True):
            points = [(c["nodes"], c["figures"][name]) for c in mine if name in c["figures"]]
            which = "least" if name == "queue, mean" else "median"
            charts.line(axes, [n for n, _ in points], [f[which] for _, f in points], 0, "fluxres")
            theirs = [(n, known[name]) for (p, n), known in sorted(fluxion.RACK.items()) if p == policy and name in known]
            charts.line(axes, [n for n, _ in theirs], [us for _, us in theirs], 1, "Fluxion")
            logarithmic(axes)
            axes.set_xticks((16, 128, 1024, 10_240), minor=False)
            style.numbered(axes.xaxis)
            axes.minorticks_off()
            axes.set_title(f"{name}, policy {policy}", loc="left", fontsize=8.5, color=style.INK)
        style.label(row[0], y="time (µs), log scale")
    for axes in grid[-1]:
        style.label(axes, x="nodes, log scale")
    legend(made, grid[0][0])
    finish(made, file, "Time of an operation by the size of the machine")


def against_reservations(columns: Sequence[Column], file: Path) -> None:
    """The mean of each tenth of a queue against the number of jobs before it."""
    made = style.figure(3.6)
    axes = made.subplots()
    long = [c for c in columns if c["nodes"] == 10_240 and c["queue_jobs"] == 10_000]
    lines = [(c["queue_tenths_us"], 10_000, f"10,240 nodes, {c['policy']}") for c in sorted(long, key=lambda c: str(c["policy"]))]
    lines += [(fluxion.QUEUE_TENTHS[nodes], 1_000, f"Fluxion, {nodes:,} nodes, first") for nodes in (10_240, 1_024)]
    for number, (means, jobs, label) in enumerate(lines):
        step = jobs // 10
        charts.line(axes, [step * at + step // 2 for at in range(len(means))], means, number, label)
    logarithmic(axes)
    style.label(axes, x="jobs allocated or reserved before, log scale", y="time (µs) per job, log scale")
    legend(made, axes)
    finish(made, file, "Time per job by the number of jobs before it")


def logarithmic(axes: Any) -> None:
    axes.set(xscale="log", yscale="log")
    style.tidy(axes)
    for axis in (axes.xaxis, axes.yaxis):
        style.numbered(axis)


def legend(made: Any, axes: Any) -> None:
    handles, labels = axes.get_legend_handles_labels()
    made.legend(handles, labels, loc="outside upper left", ncols=2, fontsize=8, frameon=False, labelcolor=style.INK)


def finish(made: Any, file: Path, title: str) -> None:
    file.write_bytes(style.drawn(made, file.stem, title).svg)


def main() -> None:
    results, folder = Path(sys.argv[1]), Path(sys.argv[2])
    columns = json.loads(results.read_text())
    against_nodes(columns, folder / "match-nodes.svg")
    against_reservations(columns, folder / "match-reservations.svg")


if __name__ == "__main__":
    main()
