"""End a call of a third-party queue policy that loops without ever making a request; a separate thread watches for that.

The thread only checks whether the same call is still in progress as at its previous check; after some seconds it says so.
Policies that come with fluxres are not watched, and short calls cost nothing.
"""

from __future__ import annotations

import ctypes
import logging
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from traceback import extract_stack
from typing import TYPE_CHECKING, Final

from fluxres import limits
from fluxres.clock import stopwatch
from fluxres.errors import PolicyError
from fluxres.instance.queue import Endless, QueuePolicy, is_built_in, line_in

if TYPE_CHECKING:
    from fluxres.instance import Instance

_LOOKS: Final = 60
"""Number of checks in that time."""
_LOOKS_TO_LOG: Final = 5
"""Checks after which a call that is still in progress is logged."""

_log = logging.getLogger("fluxres.instance")


@contextmanager
def watching(
    instances: Callable[[], list[Instance]], policies: Iterable[QueuePolicy], *, is_ending: Callable[[], bool] = lambda: False
) -> Iterator[None]:
    """While the block runs in this thread, end calls of policies that take longer than `limits.PASS_SECONDS_MAX`, sooner those
    of a policy that did so before, and all when the program is to end.

    Args:
        instances: those whose policies may be called.
        policies: theirs; there is nothing to watch if all come with fluxres.
        is_ending: whether the program was asked to end, by a signal.
    """
    if all(map(is_built_in, policies)):
        yield
        return
    over, thread_id = threading.Event(), threading.get_ident()
    ended: set[str] = set()

    def watch() -> None:
        seen: dict[tuple[Instance, int], float] = {}
        logged: set[tuple[Instance, int]] = set()
        while not over.wait(limits.PASS_SECONDS_MAX / _LOOKS):
            now, is_hurried = stopwatch(), is_ending()
            going = {(one, one.queue.policy_calls): one.policy for one in instances() if one.queue.is_in_policy}
            seen = {key: seen.get(key, now) for key in going}
            logged.intersection_update(going)
            for key, since in list(seen.items()):
                if now - since >= limits.PASS_SECONDS_MAX * _LOOKS_TO_LOG / _LOOKS and key not in logged:
                    logged.add(key)
                    _log_call(going[key], now - since, thread_id)
                # A policy that looped in one instance loops in its siblings, which need not wait as long again.
                if now - since >= limits.PASS_SECONDS_MAX * (2 / _LOOKS if is_hurried or going[key].name in ended else 1):
                    ended.add(going[key].name)
                    seen[key] = now
                    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread_id), ctypes.py_object(Endless))

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    except Endless as error:  # it came when the call was just over
        raise PolicyError(str(error), where=f"queue policy {', '.join(sorted(ended))}") from error
    finally:
        over.set()
        thread.join()


def _log_call(policy: QueuePolicy, for_s: float, thread_id: int) -> None:
    """Log that a policy is still deciding, and where; Python prints that on standard error if no handler is set."""
    line = line_in(policy, extract_stack(sys._current_frames().get(thread_id)))
    ends = f"it is stopped after {limits.PASS_SECONDS_MAX:g} s"
    _log.warning("fluxres: queue policy %s has been deciding for %.2g s%s; %s", policy.name, for_s, line, ends)
