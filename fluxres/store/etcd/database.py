"""A store in etcd as the store sees it: transactions, the lock, and what an operator does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec.structs import replace

from fluxres import limits
from fluxres.clock import Clock
from fluxres.errors import StoreError
from fluxres.store.database import Connection, Durability, ServerDatabase
from fluxres.store.etcd import state as states
from fluxres.store.etcd import wire
from fluxres.store.etcd.address import Address, parsed
from fluxres.store.etcd.client import Client
from fluxres.store.etcd.connection import EtcdConnection
from fluxres.store.etcd.keys import Keys, end
from fluxres.store.etcd.lock import EtcdLock, Fences, remove_of
from fluxres.store.etcd.state import BlobPlace, Document, State
from fluxres.store.etcd.transaction import Reading
from fluxres.store.lock import Notify
from fluxres.store.progress import OnProgress


class EtcdDatabase(ServerDatabase):
    """The keys under a prefix of an etcd.

    Args:
        address: ``etcd://host:port,host:port/prefix``, as :func:`fluxres.store.etcd.address.parsed` reads it.
        path: a file of this machine in place of the store; it is created when it is needed.

    Errors: StoreError for an invalid address.
    """

    kind = "a store in etcd"

    def __init__(self, address: str, path: Path) -> None:
        self.address: Address = parsed(address)
        super().__init__(path)
        self.url = str(self.address)
        self._client, self._keys, self._fences = Client(self.address), Keys(self.address.prefix), Fences()

    @contextmanager
    def translated(self) -> Iterator[None]:
        yield  # the client raises nothing else

    @contextmanager
    def reading(self) -> Iterator[Connection | None]:
        db = self._connection()
        db.begin_read()
        try:
            yield db if db.exists else None
        finally:
            db.end()

    def begin(self) -> Connection:
        db = self._connection()
        db.begin_write()
        return db

    def attach(self, durability: Durability) -> Connection:
        """A connection; etcd answers a commit when most of its servers have it on disk, whatever the durability."""
        return self._connection()

    def lock(self, clock: Clock, notify: Notify | None) -> EtcdLock:
        return EtcdLock(self._client, self._keys, self._fences, clock, notify)

    def break_lock(self, pid: int, host: str) -> bool:
        return remove_of(self._client, self._keys, pid, host)

    def _connection(self) -> EtcdConnection:
        return EtcdConnection(self._client, self._keys, self._fences.present)

    # -- operating it ------------------------------------------------------------------------------------------------

    def stored_version(self) -> int:
        return states.read(self._client, self._keys).head.version

    def integrity(self) -> list[str]:
        told = self._client.call_unless(wire.FORBIDDEN, "/v3/maintenance/alarm", {"action": "GET"}, wire.Alarms)
        alarms = told.alarms if told is not None else []
        found = sorted({f"etcd raises the alarm {one.alarm}" for one in alarms if one.alarm != "NONE"})
        state = states.read(self._client, self._keys)
        if state.changed_at:
            found += sorted(self._strays(state))
        return found

    def _strays(self, state: State) -> set[str]:
        """Keys of no graph, and others that do not belong here."""
        keys, known, found = self._keys, {-1, *state.documents}, set[str]()
        for key, _ in Reading(self._client, keys, state, state.revision).items(keys.prefix, end(keys.prefix), keys_only=True):
            if keys.number(key) not in known:
                folder = key.removeprefix(keys.prefix).partition(b"/")[0].decode("utf-8", "replace")
                found.add(f"a key of {folder} is of no graph" if keys.number(key) >= 0 else f"{folder} is no key of a store")
        return found

    def size(self) -> int:
        """What the graphs take, without the history that etcd keeps until it is compacted."""
        return sum(map(_size, states.read(self._client, self._keys).documents.values()))

    def shrink(self, on_progress: OnProgress) -> None:
        """Let etcd forget its history, and give the space to the system, one server after the other.

        A user who may not do the latter leaves it to the administrator of etcd; a server that is down is left out.
        """
        servers = self.address.servers
        on_progress("forgetting the history of etcd", 0, 1 + len(servers), "steps")
        revision = states.read(self._client, self._keys).revision
        self._client.call("/v3/kv/compaction", {"revision": revision, "physical": True}, wire.Nothing)
        errors = []
        for number, server in enumerate(servers, 1):
            on_progress(f"giving back space of {server}", number, 1 + len(servers), "steps")
            one = Client(replace(self.address, servers=(server,)))
            try:
                defragment = "/v3/maintenance/defragment"
                one.call_unless(wire.FORBIDDEN, defragment, {}, wire.Nothing, timeout_s=limits.ETCD_DEFRAGMENT_SECONDS)
            except StoreError as error:
                errors.append(error)
            finally:
                one.close()
        if len(errors) == len(servers):
            raise errors[0]


def _size(document: Document) -> int:
    blobs: list[BlobPlace] = [*document.blobs.values(), *(document.previous.blobs.values() if document.previous else ())]
    return sum((place.size for place in blobs), document.log_bytes)
