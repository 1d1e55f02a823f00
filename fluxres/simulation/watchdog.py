"""Somebody else's queue policy may loop without ever asking for anything; a thread sees it and ends the pass.

It only looks whether the same pass is still going on as when it looked last, so passes of the policies that come with
fluxres, which are not watched, and short ones cost nothing.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from fluxres import limits
from fluxres.instance.queue import Endless

if TYPE_CHECKING:
    from fluxres.instance import Instance


@contextmanager
def watching(instances: Callable[[], list[Instance]], *, needed: bool) -> Iterator[None]:
    """While the block runs in this thread, end passes that take longer than `limits.PASS_SECONDS_MAX`.

    Args:
        instances: those that may be in a pass.
        needed: whether there is anything to watch.
    """
    if not needed:
        yield
        return
    over, thread_id = threading.Event(), threading.get_ident()

    def watch() -> None:
        seen: dict[int, int] = {}
        while not over.wait(limits.PASS_SECONDS_MAX / 2):
            now = {id(one): one.passes_begun for one in instances() if one.is_in_pass}
            if any(seen.get(key) == begun for key, begun in now.items()):
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread_id), ctypes.py_object(Endless))
            seen = now

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
