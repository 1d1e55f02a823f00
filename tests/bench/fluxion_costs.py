"""Fits the constants of the cost models of Fluxion (`simulation.costs.models`) to its measured match times.

``python -m tests.bench.fluxion_costs DIR`` prints them; DIR has `queue-N.csv` for machines of N nodes of 44 cores, a row for
each of 1,000 jobs that are submitted at once: what it requests (`nodes_exclusive`, or `slot_cores`), `duration`, and for each
shape of the machine and policy the start and the match time (`start_SHAPE_POLICY`, `us_SHAPE_POLICY`; empty where the
measurement had ended).

Two kinds of matches are fitted apart, those of jobs that start at once and those of jobs that get a reservation.  Each is a
sum of terms that are not negative; residuals are relative to the fitted value, as for gamma distributed times (the spread of
match times grows with their mean).
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

NODE_CORES = 44
NODES = (16, 128, 1024, 4096, 10240)
MODELS = {f"fluxion-{policy}-{shape}": (shape, policy) for shape in ("rack", "flat") for policy in ("first", "low")}


class Matched(NamedTuple):
    """One match: cores of the machine, requested and free ones; jobs that hold or have reserved something."""

    size: int
    units: int
    free: int
    held: int
    starts: bool
    took_s: float


class Found(NamedTuple):
    """A fit: seconds by term; matches; the median factor between fitted and measured; how much of the variance of logarithms it
    explains; fitted divided by measured total, by number of nodes."""

    terms: dict[str, float]
    matches: int
    factor: float
    explained: float
    totals: dict[int, float]


def read(folder: Path, shape: str, policy: str) -> Iterator[Matched]:
    for nodes in NODES:
        path = folder / f"queue-{nodes}.csv"
        if not path.exists():
            continue
        free = size = nodes * NODE_CORES
        with path.open(encoding="utf-8", newline="") as file:
            for held, row in enumerate(csv.DictReader(file)):
                took, start = row.get(f"us_{shape}_{policy}"), row.get(f"start_{shape}_{policy}")
                if not took or not start:
                    continue
                units = int(row["nodes_exclusive"]) * NODE_CORES or int(row["slot_cores"])
                yield Matched(size, units, max(free, 0), held, start == "0", float(took) * 1e-6)
                free -= units * (start == "0")


def least(columns: Any, took: Any) -> Any:
    """Parameters, none of them negative, of the least sum of squares of errors relative to the fitted values.

    Cost: one small system of equations for each set of columns and iteration.
    """
    scale = columns.max(axis=0)
    scaled, said = columns / scale, np.full(len(took), took.mean())
    parts = np.zeros(columns.shape[1])
    for _ in range(100):
        rows, ones = scaled / said[:, None], took / said
        best = float("inf")
        for number in range(1, columns.shape[1] + 1):
            for chosen in map(list, combinations(range(columns.shape[1]), number)):
                found = np.linalg.lstsq(rows[:, chosen], ones, rcond=None)[0]
                error = float(((rows[:, chosen] @ found - ones) ** 2).sum())
                if (found >= 0).all() and error < best:
                    best, parts = error, np.zeros(columns.shape[1])
                    parts[chosen] = found
        after = scaled @ parts
        if np.allclose(after, said, rtol=1e-7):
            break
        said = np.sqrt(said * after)
    return parts / scale


def fitted(matches: list[Matched]) -> dict[str, Found]:
    """The fits of starts and of reservations."""
    of_start = {
        "start_s": lambda made: 1.0,
        "size_s": lambda made: made.size,
        "free_s": lambda made: made.free,
        "unit_s": lambda made: made.units,
    }
    of_plan = {
        "plan_s": lambda made: 1.0,
        "plan_unit_s": lambda made: made.units,
        "held_s": lambda made: made.held * made.size,
    }
    return {
        "start": _fit([made for made in matches if made.starts], of_start),
        "plan": _fit([made for made in matches if not made.starts], of_plan),
    }


def _fit(matches: list[Matched], terms: dict[str, Any]) -> Found:
    columns = np.array([[term(made) for term in terms.values()] for made in matches], float)
    took = np.array([made.took_s for made in matches])
    parts = least(columns, took)
    said = columns @ parts
    off = np.log(said / took)
    nodes = np.array([made.size // NODE_CORES for made in matches])
    totals = {each: float(said[nodes == each].sum() / took[nodes == each].sum()) for each in sorted(set(nodes.tolist()))}
    rounded = {name: float(f"{value:.3g}") for name, value in zip(terms, parts.tolist(), strict=True)}
    explained = float(1 - off.var() / np.log(took).var()) if np.log(took).var() > 0 else 1.0
    return Found(rounded, len(took), float(np.exp(np.median(np.abs(off)))), explained, totals)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    given = parser.parse_args()
    for name, (shape, policy) in MODELS.items():
        for kind, found in fitted(list(read(given.folder, shape, policy))).items():
            totals = ", ".join(f"{nodes:,}: {ratio:.2f}" for nodes, ratio in found.totals.items())
            terms = ", ".join(f"{term}={value:g}" for term, value in found.terms.items())
            print(f"{name} {kind}: {terms}")
            print(f"  {found.matches:,} matches, median factor {found.factor:.2f}, {found.explained:.0%} of the log variance")
            print(f"  fitted / measured total by nodes: {totals}")


if __name__ == "__main__":
    main()
