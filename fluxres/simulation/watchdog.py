"""End a pass of a third-party queue policy that loops without ever making a request; a separate thread watches for that.

The thread only checks whether the same pass is still running as at its previous check.  Policies that come with fluxres are not
watched, and short passes cost nothing.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from fluxres import limits
from fluxres.clock import stopwatch
from fluxres.instance.queue import Endless

if TYPE_CHECKING:
    from fluxres.instance import Instance

_LOOKS: Final = 60
"""Number of checks in that time."""


@contextmanager
def watching(instances: Callable[[], list[Instance]], *, needed: bool) -> Iterator[None]:
    """While the block runs in this thread, end passes that take longer than `limits.PASS_SECONDS_MAX`, and sooner those of a
    policy that did so before.

    Args:
        instances: those that may be in a pass.
        needed: whether there is anything to watch.
    """
    if not needed:
        yield
        return
    over, thread_id = threading.Event(), threading.get_ident()

    def watch() -> None:
        seen: dict[tuple[Instance, int], float] = {}
        ended: set[str] = set()
        while not over.wait(limits.PASS_SECONDS_MAX / _LOOKS):
            now = stopwatch()
            going = {(one, one.queue.rounds): one.policy.name for one in instances() if one.queue.is_running}
            seen = {key: seen.get(key, now) for key in going}
            for key, since in list(seen.items()):
                # A policy that looped in one instance loops in its siblings, which need not wait as long again.
                if now - since >= limits.PASS_SECONDS_MAX * (2 / _LOOKS if going[key] in ended else 1):
                    ended.add(going[key])
                    seen[key] = now
                    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread_id), ctypes.py_object(Endless))

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
