"""All runs of a study: in this process, in several, or on a cluster; resumed where it was stopped.

Each run has a process of its own, so that one killed for lack of memory takes no other with it, and its memory is returned.
These processes end when the campaign ends, however it does: each holds one end of a pipe whose other end disappears with the
campaign.

On a dask.distributed cluster (extra `sweep`), a worker writes to its own directory and sends the files back, so workers need no
shared disk for results; the files that a study reads must exist under the same paths.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from multiprocessing import connection, resource_tracker
from pathlib import Path
from typing import Any, Final, NamedTuple
from uuid import uuid4

from fluxres.errors import StoreError, UsageError
from fluxres.experiments.comparison import compare, repeats_needed
from fluxres.experiments.execution import Outcome, Progress, execute
from fluxres.experiments.folder import ResultsFolder, cannot, translated
from fluxres.experiments.study import Run, Study

if sys.platform != "win32":
    from multiprocessing import forkserver

_LOOK_S: Final = 0.5
_TELL_EVERY: Final = 0.01


class Campaign(NamedTuple):
    """How a campaign ended.

    Args:
        made, kept: runs made now, and runs that existed already.
        failed: the reason by the key of the run.
    """

    made: int
    kept: int
    failed: dict[str, str]


def run(
    study: Study,
    out: Path,
    *,
    processes: int = 1,
    cluster: str | None = None,
    command: str = "",
    on_progress: Progress | None = None,
) -> Campaign:
    """Make every run of a study that does not exist yet.

    Args:
        out: directory of results.
        processes: the number of parallel processes; 1 makes the runs in this process.
        cluster: address of a dask.distributed scheduler to use instead.
        command: noted in the directory, for the report.

    Errors: StoreError for a directory that cannot be written or a full disk, UsageError for the directory of another study.
    Errors of a single run are in `failed`, and the other runs are made.
    """
    folder, report = ResultsFolder(out), on_progress or (lambda _done, _text: None)
    with folder.writing(study):
        kept = sum(map(folder.is_done, study.runs))
        failed: dict[str, str] = {}
        made = 0
        begun = folder.moment()
        report(kept, "")
        while left := _wanted(study, folder, failed):
            ready = kept + made
            for outcome in _outcomes(left, folder, processes, cluster, lambda done, text: report(ready + done, text)):  # noqa: B023
                made += 1
                if outcome.error:
                    failed[outcome.key] = outcome.error
                elif made - len(failed) == 1:
                    folder.note(command or "fluxres.experiments.campaign.run", begun)
    return Campaign(made - len(failed), kept, failed)


def _wanted(study: Study, folder: ResultsFolder, failed: Mapping[str, str]) -> list[Run]:
    """The runs to make next: with a stopping rule, some of those that are left, or none if there are enough."""
    left = [run for run in study.runs if not folder.is_done(run) and run.key not in failed]
    if study.page.stop is None or not left:
        return left
    needed = repeats_needed(compare(study, folder))
    return [run for run in left if run.repeat < needed]


def _outcomes(
    runs: list[Run], folder: ResultsFolder, processes: int, cluster: str | None, on_progress: Progress
) -> Iterator[Outcome]:
    if cluster is not None:
        yield from _on_cluster(runs, folder, cluster, on_progress)
    elif processes <= 1 or len(runs) == 1:
        yield from _here(runs, folder, on_progress)
    else:
        yield from _Processes(runs, folder, processes, on_progress).outcomes()


def _here(runs: Iterable[Run], folder: ResultsFolder, on_progress: Progress) -> Iterator[Outcome]:
    for number, each in enumerate(runs):
        on_progress(number, each.key)
        place = folder.begin(each)
        progress = partial(_report_part, on_progress, number, each.key)
        try:
            outcome = execute(each, place, progress)
        except OSError as error:
            raise cannot(place, error) from None
        folder.finish(each, place, outcome)
        yield outcome


def _report_part(on_progress: Progress, number: int, key: str, part: float) -> None:
    on_progress(number + part, key)


class _Live(NamedTuple):
    run: Run
    place: Path
    process: Any
    pipe: Any


class _Processes:
    """Runs in processes of their own, a bounded number at a time."""

    def __init__(self, runs: list[Run], folder: ResultsFolder, processes: int, on_progress: Progress) -> None:
        self.waiting = list(reversed(runs))
        self.folder = folder
        self.processes = processes
        self.on_progress = on_progress
        self.done = 0
        self.live: dict[Any, _Live] = {}
        self.parts: dict[str, float] = {}
        # A server that has imported everything forks in a millisecond and has none of our threads.
        self.context: Any = multiprocessing.get_context("forkserver" if sys.platform != "win32" else "spawn")
        if sys.platform != "win32":
            self.context.set_forkserver_preload(["fluxres.experiments.forked"])
            _begin_server()

    def outcomes(self) -> Iterator[Outcome]:
        """Yields outcomes as runs end."""
        try:
            while self.waiting or self.live:
                while self.waiting and len(self.live) < self.processes:
                    self._start(self.waiting.pop())
                for pipe in connection.wait(list(self.live), _LOOK_S):
                    outcome = self._hear(pipe)
                    if outcome is not None:
                        yield outcome
        finally:
            for live in self.live.values():
                live.process.kill()
            for live in self.live.values():
                live.process.join()

    def _start(self, each: Run) -> None:
        place = self.folder.begin(each)
        ours, theirs = self.context.Pipe()
        process = self.context.Process(target=work, args=(each, place, theirs), daemon=True)
        process.start()
        theirs.close()
        self.live[ours] = _Live(each, place, process, ours)
        self._show()

    def _hear(self, pipe: Any) -> Outcome | None:
        live = self.live[pipe]
        try:
            message = pipe.recv()
        except (EOFError, ConnectionResetError):
            live.process.join()
            message = Outcome(live.run.key, {}, _ended(live.process.exitcode))
        if isinstance(message, float):
            self.parts[live.run.key] = message
            self._show()
            return None
        del self.live[pipe]
        self.parts.pop(live.run.key, None)
        live.process.join()
        pipe.close()
        if isinstance(message, OSError):
            raise cannot(live.place, message)
        self.folder.finish(live.run, live.place, message)
        self.done += 1
        self._show()
        outcome: Outcome = message
        return outcome

    def _show(self) -> None:
        self.on_progress(self.done + sum(self.parts.values()), ", ".join(live.run.key for live in self.live.values()))


def _begin_server() -> None:
    """Begin the server that forks, which a SIGINT must not end while it imports; it is the campaign that is interrupted."""
    resource_tracker.ensure_running()  # which unblocks SIGINT
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _ended(code: int | None) -> str:
    if code == -signal.SIGKILL:
        return "its process was killed, which happens when memory runs out"
    if code is not None and code < 0:
        return f"its process was ended by signal {-code}"
    return f"its process exited with status {code}"


def work(each: Run, place: Path, pipe: Any) -> None:
    """The main function of a worker process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the campaign handles interruptions
    threading.Thread(target=_end_with, args=(pipe,), daemon=True).start()
    last = 0.0

    def progress(part: float) -> None:
        nonlocal last
        if part >= last + _TELL_EVERY:
            last = part
            pipe.send(part)

    message: Outcome | OSError
    try:
        message = execute(each, place, progress)
    except OSError as error:
        message = error
    with suppress(OSError):  # the campaign is gone
        pipe.send(message)


def _end_with(pipe: Any) -> None:
    """Wait for the campaign, which never sends anything, and exit when it is gone."""
    with suppress(OSError, EOFError):
        pipe.recv()
    os._exit(1)


def default_processes() -> int:
    """The number of processors available to this process."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


# -- on a cluster ------------------------------------------------------------------------------------------------------

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


def _on_cluster(runs: list[Run], folder: ResultsFolder, address: str, on_progress: Progress) -> Iterator[Outcome]:
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
        raise UsageError("--cluster needs dask.distributed", hint="pip install distributed") from None
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
