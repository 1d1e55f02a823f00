"""Compare the benchmarks of this checkout with those of another: `python tests/bench/pair.py OTHER [WORD ...]`.

    python tests/bench/pair.py ../before                                          # every file of tests/bench
    python tests/bench/pair.py ../before tests/bench/test_planner.py -k level     # words go to pytest
    python tests/bench/pair.py ../before --turns 5 --benchmark-timer=time.process_time

Each file of benchmarks runs by turns in the other checkout and here, so that a slow phase of the machine slows both. A figure is
the least of all turns. The program prints the ratio, here to there, of each benchmark that is slower than --bound, and ends with
status 1 if there is one. A checkout runs with the Python of its `.venv` if it has one, otherwise with this Python. Benchmarks
that only one of the two has are counted. Processor time (the timer above) is right on a busy machine, but only for what
runs in the process itself, which the whole commands of `test_commands.py` do not.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parents[2]
NOTHING_SELECTED = 5
"""The status of pytest if no test matches its words."""


def measured(checkout: Path, words: list[str]) -> dict[str, float]:
    """The least seconds of each benchmark in one run of pytest in a checkout."""
    python = checkout / ".venv" / "bin" / "python"
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        options = ["-m", "bench", "-n", "0", "-q", "--benchmark-warmup=off", f"--benchmark-json={file.name}"]
        command = [str(python) if python.exists() else sys.executable, "-m", "pytest", *options, *words]
        environment = {**os.environ, "PYTHONPATH": str(checkout), "OPENBLAS_NUM_THREADS": "1"}
        done = subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True, check=False)
        if done.returncode == NOTHING_SELECTED:
            return {}
        if done.returncode:
            sys.exit(f"{checkout}: {' '.join(command)}\n{done.stdout}{done.stderr}")
        document = json.loads(Path(file.name).read_text(encoding="utf-8") or "{}")
    return {one["fullname"]: one["stats"]["min"] for one in document.get("benchmarks", ())}


def by_turns(checkouts: list[Path], words: list[str], turns: int) -> list[dict[str, float]]:
    """The least seconds of each benchmark, for each checkout."""
    least: list[dict[str, float]] = [{} for _ in checkouts]
    for _ in range(turns):
        for checkout, known in zip(checkouts, least, strict=True):
            for name, seconds in measured(checkout, words).items():
                known[name] = min(seconds, known.get(name, seconds))
    return least


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], allow_abbrev=False)
    parser.add_argument("other", type=Path, help="another checkout, for example a worktree of the commit before")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--bound", type=float, default=1.05, help="the largest ratio that is not reported")
    asked, words = parser.parse_known_args()
    files = [word for word in words if word.partition("::")[0].endswith(".py")]
    options = [word for word in words if word not in files]
    files = files or sorted(str(path.relative_to(HERE)) for path in (HERE / "tests" / "bench").glob("test_*.py"))
    there: dict[str, float] = {}
    here: dict[str, float] = {}
    for file in files:
        checkouts = [checkout for checkout in (asked.other.resolve(), HERE) if (checkout / file.partition("::")[0]).exists()]
        for checkout, found in zip(checkouts, by_turns(checkouts, [file, *options], asked.turns), strict=True):
            (here if checkout == HERE else there).update(found)
    ratios = {name: here[name] / there[name] for name in here if there.get(name)}
    slower = {name: ratio for name, ratio in ratios.items() if ratio > asked.bound}
    for name, ratio in sorted(slower.items(), key=lambda item: -item[1]):
        print(f"{ratio:5.2f}  {there[name] * 1e6:12,.1f} µs  {here[name] * 1e6:12,.1f} µs  {name}")
    alone = len(here.keys() ^ there.keys())
    print(f"{len(ratios)} benchmarks, {len(slower)} slower by more than {asked.bound - 1:.0%}, {alone} in one checkout only")
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
