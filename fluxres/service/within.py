"""A bound on the time of a coroutine that rarely has to wait.

The body of a small request has come with its head, and a small answer fits into the buffer of the connection. A timer for each
would take longer than the work that it guards, so a coroutine is begun first, and gets a timer only if it waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from functools import partial
from typing import Any, TypeVar

T = TypeVar("T")


async def within(seconds: float, coroutine: Coroutine[Any, Any, T]) -> T:
    """What a coroutine returns.

    Errors: TimeoutError; those of the coroutine.
    """
    try:
        awaited = coroutine.send(None)
    except StopIteration as done:
        found: T = done.value
        return found
    async with asyncio.timeout(seconds):
        rest: T = await _Begun(coroutine, awaited)
        return rest


class _Begun:
    """A coroutine that has been begun, to be awaited.

    Args:
        awaited: what it waits for.
    """

    def __init__(self, coroutine: Coroutine[Any, Any, Any], awaited: Any) -> None:
        self._coroutine, self._awaited = coroutine, awaited

    def __await__(self) -> Generator[Any, Any, Any]:
        step: Callable[[], Any]
        while True:
            try:
                step = partial(self._coroutine.send, (yield self._awaited))
            except BaseException as error:  # noqa: BLE001 - the coroutine decides about it, as if it were awaited itself
                step = partial(self._coroutine.throw, error)
            try:
                self._awaited = step()
            except StopIteration as done:
                return done.value
