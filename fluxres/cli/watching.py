"""`--watch`: run a command again and again, and redraw its output on the terminal."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from functools import wraps
from typing import Any, Final

import click

from fluxres import clock, limits
from fluxres.cli.output import note
from fluxres.cli.settings import Duration, Settings
from fluxres.documents.document import plural
from fluxres.errors import FluxresError, StoreError, UsageError
from fluxres.render.text import printable, when

_EVERY_S: Final = "2"


class _Frame(io.StringIO):
    """What a command prints, for a terminal."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def watchable(function: Callable[..., None]) -> Callable[..., None]:
    """Give a command the option `--watch`; its first argument is the settings."""

    @click.option(
        "--watch",
        "every_s",
        is_flag=False,
        flag_value=_EVERY_S,
        type=Duration(),
        metavar="[S]",
        help=f"Repeat every S seconds (default: {_EVERY_S}) until Ctrl-C; on a terminal, in place.",
    )
    @wraps(function)
    def watched(settings: Settings, every_s: float | None, **given: Any) -> None:
        if every_s is None:
            function(settings, **given)
            return
        if not limits.WATCH_SECONDS_MIN <= every_s <= limits.WATCH_SECONDS_MAX:
            bounds = f"{limits.WATCH_SECONDS_MIN:g} to {limits.WATCH_SECONDS_MAX:g} s"
            raise UsageError(f"--watch: expected an interval of {bounds}, got {every_s:g}")
        try:
            _repeat(settings, every_s, lambda: function(settings, **given))
        except KeyboardInterrupt:
            return

    return watched


def _repeat(settings: Settings, every_s: float, run: Callable[[], None]) -> None:
    if sys.stdout.isatty() and settings.has_table:
        _redraw(settings, every_s, run)
        return
    has_answered = False
    while True:
        try:
            run()
        except StoreError as error:  # it may pass: a server that starts again
            if not has_answered:
                raise
            note(str(error))
        else:
            has_answered = True
            sys.stdout.write("\n" if settings.has_table else "")
        sys.stdout.flush()
        clock.sleep(every_s)


def _redraw(settings: Settings, every_s: float, run: Callable[[], None]) -> None:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    console = Console()
    with Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            frame = _frame(settings, every_s, run).splitlines()
            room = max(console.size.height, 2)
            if len(frame) > room:
                frame = [*frame[: room - 1], f"… {plural(len(frame) - room + 1, 'more line')}"]
            live.update(Text.from_ansi("\n".join(frame), no_wrap=True, overflow="crop"), refresh=True)
            clock.sleep(every_s)


def _frame(settings: Settings, every_s: float, run: Callable[[], None]) -> str:
    """One picture; what goes wrong is shown in it, because it may pass: a graph that is being loaded, a store that is busy."""
    real, frame = sys.stdout, _Frame()
    sys.stdout = frame
    try:
        run()
        text = frame.getvalue()
    except FluxresError as error:
        text = f"fluxres: ERROR {printable(str(error))}\n"
    finally:
        sys.stdout = real
    return f"{when(clock.system())}  every {every_s:g} s: {printable(settings.command)}\n\n{text}"
