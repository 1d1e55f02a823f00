"""A progress bar on the terminal for slow commands, and nothing for fast ones.

The bar runs in a separate thread and waits before it imports anything, so a load of a tenth of a second pays nothing for it.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_QUIET_S: Final = 0.4
_REFRESH_S: Final = 0.1


class Progress:
    """The steps of a command, shown if it takes long.

    Args:
        steps: number of steps.
    """

    def __init__(self, steps: int) -> None:
        self.steps = steps
        self.done: float = -1
        self.text = ""

    def step(self, text: str) -> None:
        self.done += 1
        self.text = text


@contextmanager
def progress(steps: int, *, shown: bool | None = None) -> Iterator[Progress]:
    """Show steps on standard error while the block runs, if that is a terminal and the block takes longer than a moment."""
    made = Progress(steps)
    if not (sys.stderr.isatty() if shown is None else shown):
        yield made
        return
    over = threading.Event()
    thread = threading.Thread(target=_draw, args=(made, over), daemon=True)
    thread.start()
    try:
        yield made
    finally:
        over.set()
        thread.join()


def _draw(made: Progress, over: threading.Event) -> None:
    if over.wait(_QUIET_S):
        return
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(made.text, total=made.steps)
        while not over.wait(_REFRESH_S):
            bar.update(task, description=made.text, completed=made.done)
