"""The runs of a study on a dask.distributed cluster (extra `sweep`).

A worker writes to its own directory and sends the files back, so workers need no shared disk for results; the files that a
study reads must exist under the same paths.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from fluxres.errors import StoreError, UsageError
from fluxres.experiments.execution import Outcome, Progress, execute
from fluxres.experiments.folder import ResultsFolder, translated
from fluxres.experiments.study import Run

CONNECT_S: Final = 10.0
"""Timeout for the connection to a scheduler."""


def remote(run: Run) -> tuple[Outcome, dict[str, bytes]]:
    """Make a run on a worker: returns its outcome and its files."""
    with tempfile.TemporaryDirectory(prefix="fluxres-") as name:
        place = Path(name)
        try:
            outcome = execute(run, place)
        except OSError as error:
            return Outcome(run.key, {}, f"on a worker: {(error.strerror or str(error)).lower()}: {error.filename}"), {}
        return outcome, {path.name: path.read_bytes() for path in place.iterdir()}


def outcomes(runs: list[Run], folder: ResultsFolder, address: str, on_progress: Progress) -> Iterator[Outcome]:
    """Make runs on a cluster; yields outcomes as they complete.

    Errors: UsageError without dask.distributed; StoreError if no scheduler answers.
    """
    client = _client(address)
    futures: list[Any] = []
    try:
        by_key = {run.key: run for run in runs}
        # Keys are unique per campaign: a second campaign with the same run keys must not get the results of the first.
        campaign = uuid4().hex
        futures = client.map(remote, runs, key=[f"{run.key}-{campaign}" for run in runs], pure=False, retries=1)
        keys = dict(zip(futures, by_key, strict=True))
        for number, future in enumerate(_as_completed(futures, client), 1):
            run = by_key[keys[future]]
            outcome, files = future.result() if future.status == "finished" else (Outcome(run.key, {}, _why(future)), {})
            place = folder.begin(run)
            with translated(place):
                for name, data in files.items():
                    (place / name).write_bytes(data)
            folder.finish(run, place, outcome)
            future.release()
            on_progress(number, run.key)
            yield outcome
    finally:
        client.cancel(futures)
        client.close()


def _client(address: str) -> Any:
    try:
        import distributed
    except ImportError:
        raise UsageError("--cluster needs dask.distributed", hint="pip install 'fluxres[sweep]'") from None
    untyped: Any = distributed
    try:
        return untyped.Client(address, timeout=CONNECT_S, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        raise StoreError(f"no dask scheduler answers: {str(error).splitlines()[0]:.200}", where=address) from None


def _as_completed(futures: list[Any], client: Any) -> Iterator[Any]:
    import distributed

    untyped: Any = distributed
    found: Iterator[Any] = untyped.as_completed(futures, loop=client.loop, raise_errors=False)
    return found


def _why(future: Any) -> str:
    if future.status == "cancelled":
        return "cancelled by the cluster"
    return f"its worker failed: {str(future.exception()).splitlines()[0]:.200}"
