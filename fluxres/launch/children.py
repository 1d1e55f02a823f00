"""A child instance as a process, from the point of view of its parent: the work of the job that holds the child's resources.

The parent writes the child's copy (RFC 4 Copy) into its own store, where the child reads it (RFC 16). Whatever happens to the
child, its job ends only after its process and everything belonging to it have ended. Then all resources are back with the parent
(rule N1), and nothing runs on them any more.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from fluxres.clock import seconds, stopwatch
from fluxres.errors import FluxresError
from fluxres.launch import lifeline
from fluxres.launch.fork import Forked
from fluxres.launch.plan import Facts, facts
from fluxres.launch.protocol import Begin, Done, Failed, Go, Lines, Ready, Row, ToParent, Working, line, to_parent
from fluxres.store import open_store

if TYPE_CHECKING:
    from fluxres.instance import Job
    from fluxres.launch.fork import Forker
    from fluxres.launch.loop import Timer
    from fluxres.launch.work import ProcessRunner

_ARGV: Final = (sys.executable, "-m", "fluxres.launch.child")
_PIECE_BYTES: Final = 1 << 16
_MORE_S: Final = 2.0


@dataclass
class Spawn:
    """The work of a child's job.

    Args:
        begin: parameters of the child.
        rows: receives the rows of instances that have ended.
        forker: forks it; None to execute the program of a child.
    """

    begin_as: Begin
    rows: Callable[[Row], None]
    forker: Forker | None = None
    child: Child | None = field(default=None, repr=False)

    def begin(self, job: Job, runner: ProcessRunner) -> Child:
        """Write its part into the store, and start it."""
        began = self.begin_as
        graph = job.instance.graph.copy(job=str(job.id), at=seconds(job.started))
        open_store(began.store).put(began.graph, graph, replace=True, command=f"spawn {began.tree_id}")
        self.child = Child(began, facts(graph), job, runner, self.rows, self.forker)
        return self.child


class Child:
    """The process of a child instance."""

    def __init__(
        self,
        begin: Begin,
        facts: Facts,
        job: Job,
        runner: ProcessRunner,
        rows: Callable[[Row], None],
        forker: Forker | None,
    ) -> None:
        self.begin, self.facts = begin, facts
        self.is_ready = self.is_over = False
        self.working = Working(0, 0)
        self.note = ""
        self._job, self._runner, self._rows = job, runner, rows
        self._row: Row | None = None
        self._is_done = False
        self._lines = Lines()
        self._began_s, self._heard_s, self._was_heard = job.instance.clock(), stopwatch(), False
        text = line(begin)
        self._process = (
            lifeline.start(_ARGV, mark=begin.mark, last_words=signal.SIGTERM, pipes=True)
            if forker is None
            else Forked(forker, begin.mark)
        )
        assert self._process.stdin is not None  # both are pipes
        assert self._process.stdout is not None
        self._to, self._source = self._process.stdin, self._process.stdout
        self._from = self._source.fileno()
        os.set_blocking(self._from, False)
        self._handle = os.pidfd_open(self._process.pid)
        runner.loop.watch(self._from, self._read)
        runner.loop.watch(self._handle, self._exited)
        self._silence: Timer = runner.loop.after(begin.silence_s, self._listen)
        self._is_watched = True
        self._say(text)

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def mark(self) -> str:
        """The mark of its processes."""
        return self.begin.mark

    def go(self) -> None:
        """Send `go`: all instances are ready."""
        self._say(line(Go()))

    def _say(self, text: bytes) -> None:
        # It has gone; its end is detected elsewhere.
        with suppress(BrokenPipeError, ValueError):
            os.write(self._to.fileno(), text)

    # -- end ------------------------------------------------------------------------------------------------------

    def stop(self, why: str) -> None:
        """End it, with time to end what it runs, level by level."""
        with suppress(BrokenPipeError):
            self._to.close()
        levels = len(self.begin.fan_outs) + 1
        self._runner.loop.after(self._runner.grace_s * levels + _MORE_S, self.kill)

    def kill(self) -> None:
        """Kill it now; what it runs is killed after it has ended."""
        if not self.is_over:
            lifeline.signal_group(self.pid, signal.SIGKILL)

    def _listen(self) -> None:
        """Require a message from time to time; while it boots, many processes may compete."""
        silence_s = self.begin.silence_s + (0 if self._was_heard else self.begin.instances)
        quiet_s = stopwatch() - self._heard_s
        if quiet_s >= silence_s:
            self.note = self.note or f"no message for {silence_s:g} s"
            self.kill()
        elif not self.is_over:
            self._silence = self._runner.loop.after(silence_s - quiet_s, self._listen)

    def _exited(self) -> None:
        while self._is_watched and self._read():
            pass
        if self._is_watched:
            self._unwatch()
        status = lifeline.wait_status(self._process.wait())
        self.is_over = True
        self._silence.cancel()
        self._runner.loop.unwatch(self._handle)
        os.close(self._handle)
        self._source.close()
        with suppress(BrokenPipeError):
            self._to.close()
        if not self._is_done or status:
            lifeline.kill_marked(self.mark)
            self.note = self.note or lifeline.status_text(status)
            if self._row is None:
                self._rows(self._last_row(status))
        self._runner.ended(self._job, status, self.note if status or not self._is_done else "")

    def _last_row(self, status: int) -> Row:
        """The row of a child that did not send its own."""
        begin, facts, last = self.begin, self.facts, self.working
        end_s = self._job.instance.clock()
        code = lifeline.exit_code(status) or 1
        return Row(
            tree_id=begin.tree_id,
            begin_s=self._began_s,
            end_s=end_s,
            boot_s=0.0,
            match_s=0.0,
            started=0,
            jobs=begin.jobs,
            completed=last.completed,
            failed=last.failed,
            nodes=facts.nodes,
            cores=facts.cores,
            gpus=facts.gpus,
            status=code,
            note=self.note,
            is_leaf=not begin.fan_outs,
        )

    # -- messages -----------------------------------------------------------------------------------------------------

    def _read(self) -> bool:
        """Read its messages; returns whether there may be more."""
        try:
            piece = os.read(self._from, _PIECE_BYTES)
        except BlockingIOError:
            return False
        if not piece:
            self._unwatch()
            return False
        self._heard_s, self._was_heard = stopwatch(), True
        try:
            for text in self._lines.take(piece):
                self._hear(to_parent(text))
        except FluxresError as error:
            self.note = self.note or str(error)
            self.kill()
            self._unwatch()
            return False
        return True

    def _unwatch(self) -> None:
        self._is_watched = False
        self._runner.loop.unwatch(self._from)

    def _hear(self, message: ToParent) -> None:
        match message:
            case Working():
                self.working = message
            case Ready():
                self.is_ready = True
            case Row():
                if message.tree_id == self.begin.tree_id:
                    self._row = message
                self._rows(message)
            case Failed():
                self.note = message.message
            case Done():
                self._is_done = True
