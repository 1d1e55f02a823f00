"""The program of a child instance: ``python -m fluxres.launch.child``, which gets its parameters on standard input.

It ends when its parent requests it or has ended, together with everything it started. The output of its jobs goes to standard
error, since standard output is for its parent.
"""

from __future__ import annotations

import os
import shutil
import sys
from typing import Final

from fluxres import clock as clocks
from fluxres import limits
from fluxres.errors import FluxresError, InputError, RunFailed, exit_status
from fluxres.launch import lifeline
from fluxres.launch.branch import Branch
from fluxres.launch.loop import Loop
from fluxres.launch.protocol import Begin, Done, Failed, Go, Lines, Message, Ready, Working, line, to_child
from fluxres.store import open_store

_PIECE_BYTES: Final = 1 << 16


class Parent:
    """The parent's end of the two pipes."""

    def __init__(self, loop: Loop, to: int) -> None:
        self._loop, self._to = loop, to
        self._lines = Lines()
        self.begin: Begin | None = None
        self.is_going = self.is_gone = False
        self.branch: Branch | None = None
        loop.watch(0, self._read)
        self._show_life()

    def send(self, message: Message) -> None:
        """Send a message; a parent that has ended is detected elsewhere."""
        text = line(message)
        try:
            while text:
                text = text[os.write(self._to, text) :]
        except BrokenPipeError:
            self._end()

    def _show_life(self) -> None:
        completed, failed = (0, 0) if self.branch is None else self.branch.job_counts
        self.send(Working(completed, failed))
        self._loop.after(limits.SIGN_OF_LIFE_S, self._show_life)

    def _read(self) -> None:
        piece = os.read(0, _PIECE_BYTES)
        if not piece:
            self._loop.unwatch(0)
            self._end()
        for text in self._lines.take(piece):
            message = to_child(text)
            if isinstance(message, Go):
                self.is_going = True
            else:
                self.begin = message

    def _end(self) -> None:
        self.is_gone = True
        if self.branch is not None:
            self.branch.is_ended = True


def serve(loop: Loop, to: int) -> None:
    """Run the instance until it is done.

    Errors: FluxresError.
    """
    parent = Parent(loop, to)
    while parent.begin is None and not parent.is_gone and not loop.stops:
        loop.turn()
    if parent.begin is None:
        raise InputError("there is no parent process", where="standard input", hint="use 'fluxres hierarchy'")
    begin = parent.begin
    graph = open_store(begin.store).load(begin.graph, clock=clocks.system)
    branch = parent.branch = Branch(graph, begin, loop, parent.send)
    branch.is_ended = parent.is_gone
    try:
        with branch.watching():
            _work(branch, parent, loop)
        if loop.stops:
            raise RunFailed("ended by a signal", where=begin.tree_id)
    except FluxresError as error:
        branch.note, branch.status = str(error), exit_status(error)
        raise
    finally:
        branch.close()
        parent.send(branch.row())
        if begin.is_temporary and lifeline.has_ended(begin.parent):
            shutil.rmtree(begin.folder, ignore_errors=True)
    parent.send(Done())


def _work(branch: Branch, parent: Parent, loop: Loop) -> None:
    branch.boot()
    parent.send(Ready())
    while not parent.is_going and not branch.is_stopped:
        loop.turn()
    branch.run()


def main() -> int:
    """The entry point; returns the exit status."""
    to = os.dup(1)
    os.dup2(2, 1)
    os.environ.pop(lifeline.ROOM, None)
    lifeline.raise_open_files()
    with Loop() as loop, loop.signals():
        try:
            serve(loop, to)
        except FluxresError as error:
            return _failed(to, str(error), exit_status(error))
        except MemoryError:
            return _failed(to, "not enough memory", 1)
    return 0


def _failed(to: int, message: str, status: int) -> int:
    try:
        os.write(to, line(Failed(message[:4096])))
    except BrokenPipeError:
        sys.stderr.write(f"fluxres: ERROR {message}\n")
    return status


if __name__ == "__main__":
    sys.exit(main())
