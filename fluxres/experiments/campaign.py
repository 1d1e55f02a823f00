"""All runs of a study: in this process, in several, or on a cluster; resumed where it was stopped.

Each run has a process of its own, so that one killed for lack of memory takes no other with it, and its memory is returned.
These processes end when the campaign ends, however it does: each holds one end of a pipe whose other end disappears with the
campaign.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import partial
from multiprocessing import connection
from pathlib import Path
from typing import Any, Final, NamedTuple

from fluxres.experiments.execution import Outcome, Progress, execute
from fluxres.experiments.folder import ResultsFolder, cannot
from fluxres.experiments.study import Run, Study

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


def run(study: Study, out: Path, *, processes: int = 1, cluster: str | None = None, tell: Progress | None = None) -> Campaign:
    """Make every run of a study that does not exist yet.

    Args:
        out: directory of results.
        processes: the number of parallel processes; 1 makes the runs in this process.
        cluster: address of a dask.distributed scheduler to use instead.

    Errors: StoreError for a directory that cannot be written or a full disk, UsageError for the directory of another study.
    Errors of a single run are in `failed`, and the other runs are made.
    """
    folder, told = ResultsFolder(out), tell or (lambda _done, _text: None)
    with folder.writing(study):
        left = [run for run in study.runs if not folder.is_done(run)]
        kept = len(study.runs) - len(left)
        failed: dict[str, str] = {}
        made = 0
        told(kept, "")
        for outcome in _outcomes(left, folder, processes, cluster, lambda done, text: told(kept + done, text)):
            made += 1
            if outcome.error:
                failed[outcome.key] = outcome.error
    return Campaign(made - len(failed), kept, failed)


def _outcomes(runs: list[Run], folder: ResultsFolder, processes: int, cluster: str | None, tell: Progress) -> Iterator[Outcome]:
    if cluster is not None:
        from fluxres.experiments import sweep

        yield from sweep.outcomes(runs, folder, cluster, tell)
    elif processes <= 1 or len(runs) == 1:
        yield from _here(runs, folder, tell)
    else:
        yield from _Processes(runs, folder, processes, tell).outcomes()


def _here(runs: Iterable[Run], folder: ResultsFolder, tell: Progress) -> Iterator[Outcome]:
    for number, each in enumerate(runs):
        tell(number, each.key)
        place = folder.begin(each)
        progress = partial(_tell_part, tell, number, each.key)
        try:
            outcome = execute(each, place, progress)
        except OSError as error:
            raise cannot(place, error) from None
        folder.finish(each, place, outcome)
        yield outcome


def _tell_part(tell: Progress, number: int, key: str, part: float) -> None:
    tell(number + part, key)


class _Live(NamedTuple):
    run: Run
    place: Path
    process: Any
    pipe: Any


class _Processes:
    """Runs in processes of their own, a bounded number at a time."""

    def __init__(self, runs: list[Run], folder: ResultsFolder, processes: int, tell: Progress) -> None:
        self.waiting = list(reversed(runs))
        self.folder = folder
        self.processes = processes
        self.tell = tell
        self.done = 0
        self.live: dict[Any, _Live] = {}
        self.parts: dict[str, float] = {}
        # A server that has imported everything forks in a millisecond and has none of our threads.
        self.context: Any = multiprocessing.get_context("forkserver" if sys.platform != "win32" else "spawn")
        if sys.platform != "win32":
            self.context.set_forkserver_preload(["fluxres.experiments.forked"])

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
        self.tell(self.done + sum(self.parts.values()), ", ".join(live.run.key for live in self.live.values()))


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
