"""A progress bar on the terminal for slow commands, and nothing for fast ones.

The bar runs in a separate thread and waits before it imports anything, so a load of a tenth of a second pays nothing for it.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import click

from fluxres.cli.settings import Settings

_QUIET_S: Final = 0.4
_REFRESH_S: Final = 0.1
_END_S: Final = 1.0


class Progress:
    """How far a command is, shown if it takes long: a bar, n of N, and the time that is left.

    Args:
        total: what there is to do; None if that is not known.
        noun: what is counted, in the plural.
        done: how much of it is done, with fractions.
        text: what is being done.
    """

    def __init__(self, total: float | None, noun: str) -> None:
        self.total = total
        self.noun = noun
        self.done: float = -1
        self.text = ""

    def step(self, text: str) -> None:
        self.done += 1
        self.text = text

    def report(self, what: str, done: float, total: float, unit: str) -> None:
        """Show what the work itself says (:class:`fluxres.store.progress.OnProgress`)."""
        self.text, self.done, self.total, self.noun = what, done, total, unit

    @property
    def counted(self) -> str:
        """How much is done in words.

        >>> shown = Progress(200000, "jobs")
        >>> shown.done = 39936.5
        >>> shown.counted
        '39,936 of 200,000 jobs'
        """
        done = f"{max(int(self.done), 0):,}"
        return f"{done} {self.noun}" if self.total is None else f"{done} of {self.total:,.0f} {self.noun}"


@contextmanager
def progress(total: float | None = None, noun: str = "steps") -> Iterator[Progress]:
    """Show on standard error how far the block is, if a bar can be erased there and the block takes longer than a moment.

    There is no bar beside JSON, which programs read.
    """
    made = Progress(total, noun)
    if not sys.stderr.isatty() or os.environ.get("TERM") == "dumb" or _is_for_a_program():
        yield made
        return
    over = threading.Event()
    thread = threading.Thread(target=_draw, args=(made, over), daemon=True)
    try:
        thread.start()
        yield made
    finally:
        try:
            _end(thread, over)
        finally:
            _end(thread, over)  # an interrupt may have come in the first one; the terminal must not stay without a cursor


def _is_for_a_program() -> bool:
    context = click.get_current_context(silent=True)
    settings = None if context is None else context.find_object(Settings)
    return settings is not None and settings.json


def _end(thread: threading.Thread, over: threading.Event) -> None:
    over.set()
    if thread.ident is not None:
        thread.join(_END_S)  # an interrupt within an import may leave its lock locked, for which the thread then waits


def _draw(made: Progress, over: threading.Event) -> None:
    if over.wait(_QUIET_S):
        return
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar
    from rich.table import Column

    if over.is_set():
        return
    text = TextColumn("{task.description}", table_column=Column(no_wrap=True, ratio=1))
    counted = TextColumn("{task.fields[counted]}")
    left = TimeRemainingColumn(elapsed_when_finished=True)
    columns = (text, BarColumn(20), counted, left, TextColumn("left"))
    with Bar(*columns, console=Console(stderr=True), transient=True, expand=True) as bar:
        task = bar.add_task(made.text, total=made.total, counted=made.counted)
        while not over.wait(_REFRESH_S):
            bar.update(task, description=made.text, completed=max(made.done, 0), total=made.total, counted=made.counted)
