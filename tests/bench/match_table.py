"""All of the matching benchmark at one size: `python -m tests.bench.match_table --nodes 1024 [--shape rack] [--queue FILE]`.

`match_measures.py` defines what is measured: calls of the API, from the text of a request to the text of R.  Each policy
runs in its own process, whose memory is reported.  Fluxion's time is shown next to each figure, if there is one.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.bench import fluxion, machines, match_measures
from tests.bench.machines import Job
from tests.bench.match_measures import Column

POLICIES = ("first", "low")
PARTS = ("single", "fill", "queue")
ROWS = ("1 core", "8 cores + 1 GPU", "1 node", "64 nodes", "satisfiable, N+1 nodes", "fill, per node", "queue, mean")


def micros(value: float) -> str:
    return f"{value:,.0f} µs" if value < 10_000 else f"{value / 1000:,.0f} ms"


def cell(column: dict[str, Any], row: str, theirs: float | None) -> str:
    """Least / median, and Fluxion's figure in brackets."""
    figure = column["figures"].get(row)
    if figure is None:
        return "–"
    shown = micros(figure["least"]) if row == "queue, mean" else f"{figure['least']:,.0f} / {micros(figure['median'])}"
    return shown if theirs is None else f"{shown} ({micros(theirs)})"


def lines(columns: Sequence[dict[str, Any]], jobs: Sequence[Job]) -> list[str]:
    """The table of one machine."""
    shape, nodes = columns[0]["shape"], columns[0]["nodes"]
    found = [f"{shape}, {nodes:,} nodes: least / median, Fluxion in brackets", ""]
    found += [f"| | {' | '.join(column['policy'] for column in columns)} |", f"|---|{'--:|' * len(columns)}"]

    def row(name: str, cells: list[str]) -> None:
        found.append(f"| {name} | {' | '.join(cells)} |")

    planned = [fluxion.queue(jobs, shape, column["policy"]) for column in columns]
    for name in ROWS:
        theirs = [dict(fluxion.RACK.get((column["policy"], nodes), {})) if shape == "rack" else {} for column in columns]
        for mine, recorded in zip(theirs, planned, strict=True):
            if recorded is not None:
                mine["queue, mean"] = recorded[1]
        row(name, [cell(column, name, mine.get(name)) for column, mine in zip(columns, theirs, strict=True)])
        if name in ROWS[:4]:
            row(f"{name}, free", [cell(column, f"{name}, free", None) for column in columns])
    if not columns[0]["queue_jobs"]:
        return found
    for name in ("1 core, behind the queue", "1 node, behind the queue"):
        row(name, [cell(column, name, None) for column in columns])
    row("queue, jobs", [_jobs(column, recorded) for column, recorded in zip(columns, planned, strict=True)])
    row("queue, 99 % / worst", [f"{column['queue_99_us']:,.0f} / {micros(column['queue_worst_us'])}" for column in columns])
    row("queue, first / last tenth", [_tenths(column) for column in columns])
    row("makespan", [_makespan(column, recorded) for column, recorded in zip(columns, planned, strict=True)])
    row("machine made / first request", [f"{c['load_s'] * 1e3:.0f} / {c['first_request_s'] * 1e3:.0f} ms" for c in columns])
    row("memory loaded / after the queue / peak", [_memory(column) for column in columns])
    return found


def _jobs(column: dict[str, Any], recorded: tuple[int, float, int] | None) -> str:
    return f"{column['queue_jobs']:,}" + (f" ({recorded[0]:,})" if recorded else "")


def _tenths(column: dict[str, Any]) -> str:
    return f"{column['queue_tenths_us'][0]:,.0f} / {micros(column['queue_tenths_us'][-1])}"


def _makespan(column: dict[str, Any], recorded: tuple[int, float, int] | None) -> str:
    complete = recorded is not None and recorded[0] == column["queue_jobs"]
    return f"{column['makespan_s']:,} s" + (f" ({recorded[2]:,} s)" if recorded and complete else "")


def _memory(column: dict[str, Any]) -> str:
    return f"{column['loaded_mb']:.0f} / {column['queued_mb']:.0f} / {column['peak_mb']:.0f} MB"


def in_a_process(policy: str) -> dict[str, Any]:
    """A column measured by a fresh interpreter with the same options."""
    command = [sys.executable, "-m", "tests.bench.match_table", *sys.argv[1:], "--one", policy]
    found: dict[str, Any] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    return found


def save(path: Path, columns: Sequence[dict[str, Any]]) -> None:
    """Add to a file of results; a later measurement of the same replaces the earlier one."""
    known = json.loads(path.read_text()) if path.exists() else []
    keys = {(c["shape"], c["nodes"], c["policy"], c["queue_jobs"]) for c in columns}
    kept = [c for c in known if (c["shape"], c["nodes"], c["policy"], c["queue_jobs"]) not in keys]
    path.write_text("[\n" + ",\n".join(json.dumps(_rounded(c)) for c in [*kept, *columns]) + "\n]\n")


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    return float(f"{value:.4g}") if isinstance(value, float) else value


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=1024)
    parser.add_argument("--shape", choices=machines.SHAPES, default="rack")
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--queue", type=Path, help="a recorded queue (CSV) instead of a generated one")
    parser.add_argument("--policy", action="append", help="may be given several times; by default first and low")
    parser.add_argument("--part", action="append", choices=PARTS, help="only these operations")
    parser.add_argument("--save", type=Path, help="a file of results to add to")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    jobs = machines.read_queue(options.queue) if options.queue else machines.queue(options.nodes, options.jobs)
    if options.one:
        column = Column(options.shape, options.nodes, options.one)
        print(json.dumps(match_measures.measure(column, jobs, options.part or PARTS).as_values()))
        return
    columns = [in_a_process(policy) for policy in options.policy or POLICIES]
    print("\n".join(lines(columns, jobs)))
    if options.save:
        save(options.save, columns)


if __name__ == "__main__":
    main()
