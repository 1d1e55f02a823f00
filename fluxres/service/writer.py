"""The thread that changes one graph for all requests.

Requests that arrive during a commit wait, and are then made together: one turn at the store, one transaction and one
wait for the disk, and one message to the event loop for all of them. A thread for each request would cost more than the change
itself, since it would need the interpreter lock several times.

Clients that send their next change as soon as they have an answer form two groups: while the changes of one group are committed,
those of the other wait, and each group needs a commit of its own. So before the next commit, the writer waits a little (half the
time of a commit) until as many changes have come as were in the last commit or waited at its end. Then one commit serves all.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any, Final

from fluxres.clock import stopwatch
from fluxres.errors import Unavailable
from fluxres.model.attachment import Attachment
from fluxres.service.thread_names import show_name

TOGETHER_MAX: Final = 64
"""The most changes of one commit, so that the first one does not wait long for the others."""
_PATIENCE_S: Final = 0.005
"""The longest wait for changes that are expected, whatever a commit takes."""

Answer = asyncio.Future[Any]


class Writer:
    """Makes changes in the order in which they come.

    Args:
        attachment: of the graph.
    """

    def __init__(self, attachment: Attachment, name: str) -> None:
        self._attachment = attachment
        self._waiting: list[tuple[Callable[[], Any], Answer]] = []
        self._lock = threading.Lock()
        self._work = threading.Condition(self._lock)
        self._is_closed = False
        self._expected, self._patience_s = 1, 0.0
        self._thread = threading.Thread(target=self._run, name=f"fluxres-write-{name}", daemon=True)
        self._thread.start()

    def submit(self, change: Callable[[], Any]) -> Answer:
        """Queue a change; its answer comes once it is committed. Errors: Unavailable if the graph was closed."""
        answer = asyncio.get_running_loop().create_future()
        with self._lock:
            if self._is_closed:
                raise Unavailable("the graph was replaced just now", hint="send the request again", retry_after_s=1)
            self._waiting.append((change, answer))
            if len(self._waiting) in (1, self._expected):
                self._work.notify()
        return answer

    def close(self) -> None:
        """Make the changes that wait, and end the thread."""
        with self._lock:
            self._is_closed = True
            self._work.notify()
        self._thread.join()

    def _run(self) -> None:
        show_name()
        while work := self._next():
            found: list[Any]
            begun = stopwatch()
            try:
                found = self._attachment.together([change for change, _ in work])
            except Exception as error:  # noqa: BLE001 - each of them waits for an answer
                found = [error] * len(work)
            self._expect(len(work), stopwatch() - begun)
            answers = [answer for _, answer in work]
            loop = answers[0].get_loop()
            if not loop.is_closed():
                loop.call_soon_threadsafe(_settle, answers, found)

    def _expect(self, answered: int, took_s: float) -> None:
        """Expect the next change of each client that is answered now, beside those that wait, for half the time of a commit."""
        with self._lock:
            self._expected = min(answered + len(self._waiting), TOGETHER_MAX)
            self._patience_s = min(took_s / 2, _PATIENCE_S)

    def _next(self) -> list[tuple[Callable[[], Any], Answer]]:
        with self._lock:
            self._work.wait_for(lambda: self._waiting or self._is_closed)
            self._work.wait_for(lambda: len(self._waiting) >= self._expected or self._is_closed, self._patience_s)
            work = self._waiting[:TOGETHER_MAX]
            del self._waiting[:TOGETHER_MAX]
            return work


def _settle(answers: list[Answer], found: list[Any]) -> None:
    for answer, one in zip(answers, found, strict=True):
        if answer.done():  # the client has gone
            continue
        if isinstance(one, Exception):
            answer.set_exception(one)
        else:
            answer.set_result(one)
