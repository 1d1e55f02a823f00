"""A transaction: what it reads and writes of the keys of a store, and its commit.

Reads are of one revision of etcd. Writes are collected, and are made by one transaction of etcd where they fit into one request.
Otherwise events and blobs are written ahead, in requests of their own: nobody sees them before the commit.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from heapq import merge
from itertools import chain, islice
from operator import itemgetter
from typing import Final

import msgspec

from fluxres import limits
from fluxres.clock import monotonic_ns
from fluxres.errors import InDoubt, StoreConflict, StoreUnreachable
from fluxres.store.etcd import wire
from fluxres.store.etcd.client import Client, in_doubt
from fluxres.store.etcd.keys import Keys, end
from fluxres.store.etcd.state import Head, State, head_of
from fluxres.store.etcd.wire import Operation

_PAGE_BYTES: Final = 4 << 20
"""What one request for many keys should answer."""
_PAGE_KEYS_MAX: Final = 1000
_AHEAD_FROM_BYTES: Final = 8 << 20
"""Events and blobs that are collected before they are written ahead."""
_KEY_BYTES: Final = 64
"""What an operation takes in a request beside its value."""


class Fence(msgspec.Struct, eq=False):
    """A lock that a writer has got.

    Attributes:
        key, revision: its key, and when that was made.
        changed_at: of the state of the store at that time; no one else has changed it since.
        has_leftovers: whether a transaction was written ahead, and not committed.
        is_wanted: whether another writer waited at the last commit.
        checked_ns: when that was.
        valid_until_ns: it holds at least until then.
    """

    key: bytes
    revision: int
    changed_at: int
    has_leftovers: bool
    is_wanted: bool
    checked_ns: int
    valid_until_ns: int


class Pending(msgspec.Struct, frozen=True):
    """A transaction that is written ahead, to these graphs."""

    graphs: list[int]


class Reading:
    """Reads keys as of one revision.

    Args:
        state: of the store.
        revision: 0 for the present one.
    """

    def __init__(self, client: Client, keys: Keys, state: State, revision: int) -> None:
        self.client, self.keys, self.state, self._revision = client, keys, state, revision

    def items(
        self, lo: bytes, hi: bytes, *, is_backwards: bool = False, keys_only: bool = False, page: int = 64
    ) -> Iterator[tuple[bytes, bytes]]:
        """The keys from `lo` to below `hi`, with their values.

        Args:
            page: number of keys to ask for first; later pages are of about 4 MiB.
        """
        order = "DESCEND" if is_backwards else "NONE"
        while lo < hi:
            options = {
                "revision": self._revision,
                "limit": page,
                "sort_order": order,
                "sort_target": "KEY",
                "keys_only": keys_only,
            }
            found = self.client.call("/v3/kv/range", {"key": lo, "range_end": hi, **options}, wire.Found)
            for kv in found.kvs:
                yield kv.key, kv.value
            if not found.more or not found.kvs:
                return
            size = sum(len(kv.value) + _KEY_BYTES for kv in found.kvs)
            page = max(1, min(_PAGE_KEYS_MAX, _PAGE_BYTES * len(found.kvs) // size))
            lo, hi = (lo, found.kvs[-1].key) if is_backwards else (found.kvs[-1].key + b"\0", hi)


class Writing(Reading):
    """Reads keys, and collects what is to be written.

    It reads the present revision: only the holder of the lock writes, and the commit makes sure that it was alone.

    Args:
        fence: the lock that the writer has.
    """

    def __init__(self, client: Client, keys: Keys, state: State, fence: Fence) -> None:
        super().__init__(client, keys, state, 0)
        self._fence = fence
        self._puts: dict[bytes, bytes] = {}
        self._deleted: list[tuple[bytes, bytes]] = []
        self._bytes = 0
        self._ahead: set[int] = set()
        self._pending = b"%s%s" % (keys.pending, os.urandom(8).hex().encode())

    @property
    def is_empty(self) -> bool:
        return not (self._puts or self._deleted or self._ahead)

    # -- collecting --------------------------------------------------------------------------------------------------

    def put(self, key: bytes, value: bytes) -> None:
        self._puts[key] = value
        with suppress(ValueError):
            self._deleted.remove((key, key + b"\0"))  # etcd refuses both in one transaction
        self._bytes += len(key) + len(value)
        if self._bytes > _AHEAD_FROM_BYTES:
            self._write_ahead()

    def delete(self, lo: bytes, hi: bytes | None = None) -> None:
        """Delete a key, or all from `lo` to below `hi`."""
        hi = lo + b"\0" if hi is None else hi
        for key in [key for key in self._puts if lo <= key < hi]:
            del self._puts[key]
        self._deleted.append((lo, hi))

    def items(
        self, lo: bytes, hi: bytes, *, is_backwards: bool = False, keys_only: bool = False, page: int = 64
    ) -> Iterator[tuple[bytes, bytes]]:
        stored = super().items(lo, hi, is_backwards=is_backwards, keys_only=keys_only, page=page)
        written = sorted((item for item in self._puts.items() if lo <= item[0] < hi), reverse=is_backwards)
        if not written and not self._deleted:
            return stored
        kept = (item for item in stored if item[0] not in self._puts and not self._is_deleted(item[0]))
        return merge(kept, written, key=itemgetter(0), reverse=is_backwards)

    def _is_deleted(self, key: bytes) -> bool:
        return any(lo <= key < hi for lo, hi in self._deleted)

    # -- committing --------------------------------------------------------------------------------------------------

    def commit(self, head: Head) -> State:
        """Make all changes, together with this head; returns the state with its revisions.

        Errors: StoreConflict if the store has changed since it was read; StoreError if the lock was lost, and others; InDoubt.
        """
        fence, head = self._fence, msgspec.structs.replace(head, commit=os.urandom(8).hex())
        if not self._fits():
            self._write_ahead()
        operations = [wire.put(key, value) for key, value in self._puts.items()]
        operations += [wire.delete(lo, hi) for lo, hi in self._deleted]
        if self._ahead:
            operations.append(wire.delete(self._pending))
        count = wire.span(self.keys.lock, end(self.keys.lock), count_only=True)
        operations = [count, wire.put(self.keys.head, msgspec.json.encode(head)), *_nested(operations)]
        try:
            outcome = self._conditional(operations, is_commit=True)
        except InDoubt:
            fence.is_wanted = True  # it is given back at once: what is still on its way is refused then
            raise
        if outcome.succeeded:
            revision = outcome.header.revision
            fence.is_wanted = outcome.found(0).count > 1
        else:
            revision = self._made_before(outcome, head)
        if self._ahead:
            fence.has_leftovers = False
        fence.checked_ns = monotonic_ns()
        return msgspec.structs.replace(self.state, revision=revision, changed_at=revision, head=head)

    def sweep(self) -> None:
        """Remove what transactions have written ahead that were never committed."""
        for key, value in list(Reading.items(self, self.keys.pending, end(self.keys.pending))):
            operations = chain.from_iterable(map(self._leftovers, _pending(value)))
            for some in _groups(operations, limits.ETCD_OPERATIONS_MAX):
                self._require(some)
            self._require([wire.delete(key)])
        self._fence.has_leftovers = False

    def _leftovers(self, graph: int) -> Iterator[Operation]:
        keys = self.keys
        yield wire.delete(keys.event(graph, self.state.seq(graph) + 1), end(keys.events(graph)))
        folder, known = keys.blobs(graph), {g.encode() for g in self.state.generations(graph)}
        found = Reading.items(self, folder, end(folder), keys_only=True)
        for generation in sorted({key.removeprefix(folder).partition(b"/")[0] for key, _ in found} - known):
            yield wire.delete(keys.blob(graph, generation.decode()), end(keys.blob(graph, generation.decode())))

    def _fits(self) -> bool:
        """Whether all changes fit into one request."""
        size = self._bytes + _KEY_BYTES * (len(self._puts) + len(self._deleted))
        is_small = size <= limits.ETCD_REQUEST_BYTES_MAX
        return is_small and len(self._puts) + len(self._deleted) < limits.ETCD_OPERATIONS_MAX

    def _write_ahead(self) -> None:
        """Write the collected events and blobs."""
        ahead = {key: value for key, value in self._puts.items() if self._graph_of(key) is not None}
        for lot in _lots(ahead):
            self._fence.has_leftovers = True
            self._ahead |= {graph for key in lot if (graph := self._graph_of(key)) is not None}
            pending = wire.put(self._pending, msgspec.json.encode(Pending(sorted(self._ahead))))
            self._require([pending, *(wire.put(key, ahead[key]) for key in lot)])
        self._puts = {key: value for key, value in self._puts.items() if key not in ahead}
        self._bytes = sum(len(key) + len(value) for key, value in self._puts.items())

    def _graph_of(self, key: bytes) -> int | None:
        """The graph that has this key as an event or blob, which nobody sees before the commit."""
        is_hidden = key.startswith((self.keys.prefix + b"events/", self.keys.prefix + b"blobs/"))
        return self.keys.number(key) if is_hidden else None

    def _require(self, operations: list[Operation]) -> None:
        """Make changes before the commit, on the same conditions."""
        outcome = self._conditional(operations)
        if not outcome.succeeded:
            self._made_before(outcome, None)

    def _conditional(self, operations: list[Operation], *, is_commit: bool = False) -> wire.Outcome:
        """Make changes if nobody else has changed the store, and the lock is held; otherwise look why not."""
        head, key = self.keys.head, self._fence.key
        conditions = [wire.is_at(head, self.state.changed_at), wire.is_made_at(key, self._fence.revision)]
        return self.client.transact(operations, conditions, [wire.get(head), wire.get(key)], is_commit=is_commit)

    def _made_before(self, outcome: wire.Outcome, head: Head | None) -> int:
        """The revision of a commit that had been made when it was sent again.

        Errors: StoreError, StoreConflict if the conditions did not hold; InDoubt if another writer has the lock by now, and has
            committed, so that nobody can tell what became of the first one that was sent.
        """
        found = outcome.one(0)
        if found is not None and head is not None and head_of(found.value, self.client.url).commit == head.commit:
            return found.mod_revision
        if outcome.one(1) is None:
            self._fence.valid_until_ns = 0
            if head is not None and outcome.may_be_second and found is not None and found.mod_revision != self.state.changed_at:
                raise in_doubt("the answer of the server was lost, and then the lock of this store", self.client.url)
            raise lost(self.client.url)
        hint = "let only programs that take its lock write to the store"
        raise StoreConflict("the store was changed without its lock; nothing was changed here", where=self.client.url, hint=hint)


def _pending(value: bytes) -> list[int]:
    """The graphs to which a transaction was written ahead."""
    try:
        return msgspec.json.decode(value, type=Pending).graphs
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return []


def lost(url: str) -> StoreUnreachable:
    """The error of a writer that does not have the lock any more."""
    said = (
        f"the lock of this store was lost: this process was paused, or did not reach the server, for more than "
        f"{limits.ETCD_LEASE_SECONDS} s; nothing was changed"
    )
    return StoreUnreachable(said, where=url, hint="try again")


def _lots(puts: dict[bytes, bytes]) -> Iterator[list[bytes]]:
    """The keys in groups, each of which fits into one request."""
    lot: list[bytes] = []
    size = 0
    for key, value in puts.items():
        more = len(key) + len(value) + _KEY_BYTES
        if lot and (len(lot) + 2 > limits.ETCD_OPERATIONS_MAX or size + more > limits.ETCD_REQUEST_BYTES_MAX):
            yield lot
            lot, size = [], 0
        lot.append(key)
        size += more
    if lot:
        yield lot


def _nested(operations: list[Operation]) -> list[Operation]:
    """Operations so that etcd, which counts them at each level, takes them as one transaction."""
    if len(operations) <= limits.ETCD_OPERATIONS_MAX:
        return operations
    each = limits.ETCD_OPERATIONS_MAX // 2
    return [wire.together(some) for some in _groups(operations, each)]


def _groups(operations: Iterable[Operation], each: int) -> Iterator[list[Operation]]:
    found = iter(operations)
    ask: Callable[[], list[Operation]] = lambda: list(islice(found, each))  # noqa: E731
    return iter(ask, [])
