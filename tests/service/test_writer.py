"""Which changes the writer of a graph commits together."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any, cast

import pytest

from fluxres.errors import Unavailable
from fluxres.model.attachment import Attachment
from fluxres.service import writer
from fluxres.service.writer import Writer


class Commits:
    """Stands for a graph: keeps what was committed together, and lets the first commit end when it may."""

    def __init__(self) -> None:
        self.made: list[list[Any]] = []
        self.has_begun, self.may_end = threading.Event(), threading.Event()

    def together(self, operations: Sequence[Callable[[], Any]]) -> list[Any]:
        self.has_begun.set()
        self.may_end.wait(30)
        self.made.append([operation() for operation in operations])
        return self.made[-1]


@pytest.fixture
def commits() -> Commits:
    return Commits()


@pytest.fixture
def made(commits: Commits) -> Iterator[Writer]:
    found = Writer(cast(Attachment, commits), "test")
    yield found
    commits.may_end.set()
    found.close()


def takes(monkeypatch: pytest.MonkeyPatch, seconds: float, patience_s: float) -> None:
    """Let each commit take this long by the clock of the writer."""
    moments = count()
    monkeypatch.setattr(writer, "stopwatch", lambda: next(moments) * seconds)
    monkeypatch.setattr(writer, "_PATIENCE_S", patience_s)


def change(name: str) -> Callable[[], str]:
    return lambda: name


async def answered_then(made: Writer, first: asyncio.Future[Any], name: str) -> asyncio.Future[Any]:
    await first
    return made.submit(change(name))


async def begun(commits: Commits, made: Writer) -> asyncio.Future[Any]:
    """A change that is being committed."""
    answer = made.submit(change("a"))
    await asyncio.get_running_loop().run_in_executor(None, commits.has_begun.wait)
    return answer


def test_who_was_answered_and_who_waits_share_the_next_commit(
    commits: Commits, made: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    takes(monkeypatch, 120.0, 60.0)

    async def run() -> None:
        first = await begun(commits, made)
        second = made.submit(change("b"))
        commits.may_end.set()
        third = await answered_then(made, first, "c")
        assert [await second, await third] == ["b", "c"]

    asyncio.run(run())
    assert commits.made == [["a"], ["b", "c"]]


def test_a_change_goes_alone_if_no_other_comes(commits: Commits, made: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    takes(monkeypatch, 0.0, 60.0)

    async def run() -> None:
        first = await begun(commits, made)
        second = made.submit(change("b"))
        commits.may_end.set()
        assert [await first, await second, await made.submit(change("c"))] == ["a", "b", "c"]

    asyncio.run(run())
    assert commits.made == [["a"], ["b"], ["c"]]


def test_patience_is_bounded(commits: Commits, made: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    takes(monkeypatch, 1e6, 0.001)

    async def run() -> None:
        first = await begun(commits, made)
        second = made.submit(change("b"))
        commits.may_end.set()
        assert [await first, await asyncio.wait_for(second, 60)] == ["a", "b"]

    asyncio.run(run())
    assert commits.made == [["a"], ["b"]]


def test_closing_makes_what_waits_for_others(commits: Commits, made: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    takes(monkeypatch, 120.0, 60.0)

    async def run() -> None:
        first = await begun(commits, made)
        second = made.submit(change("b"))
        commits.may_end.set()
        await first
        await asyncio.get_running_loop().run_in_executor(None, made.close)
        assert await second == "b"
        with pytest.raises(Unavailable):
            made.submit(change("c"))

    asyncio.run(run())
    assert commits.made == [["a"], ["b"]]


def test_no_more_than_a_bound_share_a_commit(commits: Commits, made: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    takes(monkeypatch, 120.0, 60.0)
    monkeypatch.setattr(writer, "TOGETHER_MAX", 3)

    async def run() -> None:
        first = await begun(commits, made)
        others = [made.submit(change(name)) for name in "bcde"]
        commits.may_end.set()
        await first
        more = [made.submit(change(name)) for name in "fg"]
        assert await asyncio.gather(*others, *more) == list("bcdefg")

    asyncio.run(run())
    assert commits.made == [["a"], ["b", "c", "d"], ["e", "f", "g"]]
