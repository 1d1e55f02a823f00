"""Draws the results of `match_table.py --save`: `python -m tests.bench.plots specs/figures/match.json specs/figures`.

Needs matplotlib (the extra `plot`). The figures are small SVGs whose text stays text; the same results give the same file.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.bench import fluxion

SIZES = (16, 128, 1024, 4096, 10_240)
OPERATIONS = {"1 core": "C0", "1 node": "C1", "64 nodes": "C2", "queue, mean": "C3"}
Column = dict[str, Any]


def pyplot() -> Any:
    """Matplotlib, ready to draw; imported here, because the tests in this directory do not need it."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "fluxres", "font.size": 9, "axes.grid": True, "grid.alpha": 0.3})
    from matplotlib import pyplot as plt

    return plt


def of(columns: Sequence[Column], shape: str, policy: str) -> list[Column]:
    """Columns of one shape and policy with the recorded queue, by size."""
    found = [c for c in columns if (c["shape"], c["policy"], c["queue_jobs"]) == (shape, policy, 1000)]
    return sorted(found, key=lambda column: column["nodes"])


def against_nodes(columns: Sequence[Column], file: Path) -> None:
    """Medians of each operation against the size of the machine."""
    drawing, axes = pyplot().subplots(1, 2, figsize=(9, 3.6), sharey=True)
    for axis, policy in zip(axes, ("first", "low"), strict=True):
        mine = of(columns, "rack", policy)
        for name, colour in OPERATIONS.items():
            points = [(c["nodes"], c["figures"][name]) for c in mine if name in c["figures"]]
            which = "least" if name == "queue, mean" else "median"
            axis.plot([n for n, _ in points], [f[which] for _, f in points], "o-", color=colour, label=name, markersize=4)
            theirs = [(n, known[name]) for (p, n), known in sorted(fluxion.RACK.items()) if p == policy]
            axis.plot([n for n, _ in theirs], [us for _, us in theirs], "x--", color=colour, markersize=5)
        axis.set(xscale="log", yscale="log", xlabel="nodes", title=f"policy {policy}")
        axis.set_xticks(SIZES, [f"{n:,}" for n in SIZES], minor=False)
        axis.minorticks_off()
    axes[0].set_ylabel("µs")
    axes[0].plot([], [], "kx--", label="Fluxion")
    axes[0].legend(fontsize=7)
    finish(drawing, file)


def against_reservations(columns: Sequence[Column], file: Path) -> None:
    """The mean of each tenth of a queue against the number of jobs before it."""
    drawing, axis = pyplot().subplots(figsize=(6, 3.6))
    long = [c for c in columns if c["nodes"] == 10_240 and c["queue_jobs"] == 10_000]
    for column in sorted(long, key=lambda column: str(column["policy"])):
        tenths(axis, column["queue_tenths_us"], 10_000, "o-", f"10,240 nodes, {column['policy']}")
    for nodes in (10_240, 1_024):
        tenths(axis, fluxion.QUEUE_TENTHS[nodes], 1_000, "x--", f"Fluxion, {nodes:,} nodes, first")
    axis.set(xlabel="jobs allocated or reserved before", ylabel="µs a job", xscale="log", yscale="log")
    axis.legend(fontsize=7)
    finish(drawing, file)


def tenths(axis: Any, means: Sequence[float], jobs: int, style: str, label: str) -> None:
    step = jobs // 10
    axis.plot([step * at + step // 2 for at in range(len(means))], means, style, label=label, markersize=4)


def finish(drawing: Any, file: Path) -> None:
    drawing.tight_layout()
    drawing.savefig(file, metadata={"Date": None})
    pyplot().close(drawing)
    # Lines end without blanks, as everywhere here.
    file.write_text("\n".join(line.rstrip() for line in file.read_text().splitlines()) + "\n")


def main() -> None:
    results, folder = Path(sys.argv[1]), Path(sys.argv[2])
    columns = json.loads(results.read_text())
    against_nodes(columns, folder / "match-nodes.svg")
    against_reservations(columns, folder / "match-reservations.svg")


if __name__ == "__main__":
    main()
