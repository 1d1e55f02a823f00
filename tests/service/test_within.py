"""A bound on the time of a coroutine is kept, whether it waits or not."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from fluxres.service.within import within


async def at_once() -> str:
    return "done"


async def refuse() -> str:
    raise ValueError("no")


async def later(turns: int = 3) -> str:
    for _ in range(turns):
        await asyncio.sleep(0)
    async with asyncio.timeout(10):
        await asyncio.sleep(0.001)
    return "done"


async def refuse_later() -> str:
    await asyncio.sleep(0.001)
    return await refuse()


async def of_future(outcome: str | Exception) -> str:
    answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    settle: Callable[..., object] = answer.set_exception if isinstance(outcome, Exception) else answer.set_result
    asyncio.get_running_loop().call_later(0.001, settle, outcome)
    return await answer


def test_what_a_coroutine_returns_or_raises_comes_through() -> None:
    assert asyncio.run(within(0.0, at_once())) == "done"  # it did not wait, so no time has passed
    assert asyncio.run(within(10.0, later())) == "done"
    assert asyncio.run(within(10.0, of_future("done"))) == "done"
    for refused in (refuse(), refuse_later(), of_future(ValueError("no"))):
        with pytest.raises(ValueError, match="no"):
            asyncio.run(within(10.0, refused))


@pytest.mark.parametrize("bound", [-1.0, 0.0, 0.01])
def test_a_coroutine_that_waits_longer_is_ended(bound: float) -> None:
    ended: list[str] = []

    async def wait() -> None:
        try:
            await asyncio.sleep(30)
        finally:
            ended.append("ended")

    with pytest.raises(TimeoutError):
        asyncio.run(within(bound, wait()))
    assert ended == ["ended"]


def test_a_task_that_is_cancelled_ends_what_it_waits_for() -> None:
    said: list[str] = []

    async def wait() -> None:
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            await asyncio.sleep(0)  # it may still wait for something
            said.append("cancelled")
            raise

    async def run(work: Callable[[], Awaitable[None]]) -> None:
        task = asyncio.ensure_future(work())
        await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run(lambda: within(10.0, wait())))
    assert said == ["cancelled"]
