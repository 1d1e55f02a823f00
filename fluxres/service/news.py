"""News for runs on other hosts: each has a mailbox on this host, and the server sends on what arrives there by an event stream.

So every process that changes a graph in the store, server or command, sends news in the same way, wherever the run is.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field
from typing import Final

import msgspec

from fluxres.errors import StoreError
from fluxres.store import Store
from fluxres.store.mailbox import Mailbox, News

_COMMENT_EVERY_S: Final = 15.0
_KEPT: Final = 100
"""News that wait for a client that does not read; it asks how it stands when it has read them."""
_EMPTY: Final = News()


@dataclass(eq=False)
class _Box:
    mailbox: Mailbox
    queues: list[asyncio.Queue[News | None]] = field(default_factory=list)


class Exchange:
    """The mailboxes of runs on other hosts.  Used in the thread of the event loop only.

    Args:
        store: whose directory they are in.
        look: called with the name of a graph if a request that waits there may be granted now.
        left: called with the name of a graph when a run has lost its connection, with the life of its lease.
    """

    def __init__(self, store: Store, look: Callable[[str], None], left: Callable[[str, float], None]) -> None:
        self._store, self._look, self._left = store, look, left
        self._boxes: dict[str, _Box] = {}
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._boxes)

    def close(self) -> None:
        """End all streams."""
        self._is_closed = True
        for box in self._boxes.values():
            for queue in box.queues:
                queue.put_nowait(None)

    async def follow(self, graph: str, mark: str, lease_s: float) -> AsyncGenerator[bytes]:
        """The news of a run, as server-sent events, until its connection ends.

        Errors: StoreError at the beginning.
        """
        queue: asyncio.Queue[News | None] = asyncio.Queue()
        box = self._opened(graph, mark)
        box.queues.append(queue)
        try:
            yield b": following\n\n"
            while not self._is_closed:
                try:
                    news = await asyncio.wait_for(queue.get(), _COMMENT_EVERY_S)
                except TimeoutError:
                    yield b": still there\n\n"
                    continue
                if news is None:
                    return
                yield b"event: run\ndata: %b\n\n" % msgspec.json.encode(news)
        finally:
            box.queues.remove(queue)
            if not box.queues:
                asyncio.get_running_loop().remove_reader(box.mailbox.fileno())
                box.mailbox.close()
                del self._boxes[mark]
                self._left(graph, lease_s)

    def _opened(self, graph: str, mark: str) -> _Box:
        """The mailbox of a run; a run that has lost its connection may be back before the end of that is noticed."""
        if mark not in self._boxes:
            try:
                box = _Box(Mailbox(self._store.path, mark))
            except OSError as error:
                raise StoreError(f"no mailbox: {error.strerror}", where=str(self._store.path)) from None
            self._boxes[mark] = box
            asyncio.get_running_loop().add_reader(box.mailbox.fileno(), self._read, graph, box)
        return self._boxes[mark]

    def _read(self, graph: str, box: _Box) -> None:
        for news in box.mailbox.read():
            if news.look:
                self._look(graph)
            told = msgspec.structs.replace(news, watch=False, holders=(), due_s=None, look=False)
            for queue in box.queues if told != _EMPTY else ():
                if queue.qsize() < _KEPT:
                    queue.put_nowait(told)
                elif queue.qsize() == _KEPT:
                    queue.put_nowait(News(look=True))
