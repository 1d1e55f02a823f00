"""The lock of writers: a queue of keys, each with the lease of a process.

Who has the key that was made first has the lock; each other one waits until the key before its own is gone. A thread renews the
lease; the keys of a process that died, or is paused, go with it. Whether a writer still has the lock is part of the condition of
each commit, so a writer that has lost it without knowing cannot do harm.

To take and give back the lock costs two commits of etcd, where the change itself is one. So it stays with its owner for a
moment after the last change, unless another writer waits: the answer to each commit tells.
"""

from __future__ import annotations

import atexit
import os
import threading
from contextlib import suppress
from typing import Final

import msgspec

from fluxres import limits
from fluxres.clock import Clock, monotonic_ns, sleep
from fluxres.errors import StoreBusy, StoreError, StoreUnreachable, UsageError
from fluxres.store.etcd import wire
from fluxres.store.etcd.client import Client
from fluxres.store.etcd.keys import Keys, end
from fluxres.store.etcd.transaction import Fence
from fluxres.store.lock import TELL_AFTER_S, Holder, Notify

_LINGER_S: Final = 0.05
"""How long the lock stays with its owner after a change."""
_IDLE_S: Final = 10.0
"""After this long without a change, the lease is not renewed any more."""
_RETRY_S: Final = 0.1
"""Between two attempts to find who is before this writer, when the server did not tell."""
_NS: Final = 1_000_000_000


class Fences:
    """The lock that this process has on a store, if any: the condition of its commits."""

    def __init__(self) -> None:
        self._latest: Fence | None = None

    def put(self, fence: Fence) -> None:
        self._latest = fence

    def present(self) -> Fence | None:
        fence = self._latest
        return fence if fence is not None and monotonic_ns() < fence.valid_until_ns else None


class EtcdLock:
    """The lock of one writer.

    Args:
        fences: where it is noted.
        clock: for when it was taken.
        notify: called once for each wait with the holder, half a second into it.
    """

    def __init__(self, client: Client, keys: Keys, fences: Fences, clock: Clock, notify: Notify | None) -> None:
        self._client, self._keys, self._fences, self._clock, self._notify = client, keys, fences, clock, notify
        self._process = os.getpid()
        # Under the guard:
        self._guard = threading.Condition()
        self._lease = 0
        self._valid_until_ns = 0
        self._count = 0
        self._fence: Fence | None = None
        self._is_used = False
        self._unused_since_ns = 0
        self._keeper: threading.Thread | None = None

    def acquire(self, command: str, wait_s: float) -> None:
        """Wait for the lock, behind all who wait already.

        Errors: StoreBusy naming the holder; StoreError.
        """
        if not wait_s >= 0:
            raise UsageError(f"wait: expected at least 0 seconds, got {wait_s!r}")
        with self._guard:
            self._is_used = True
            if self._fence is not None and monotonic_ns() < self._fence.valid_until_ns:
                return
            self._fence = None
        key = b""
        try:
            key, fence = self._entered(command)
            if fence is None:
                fence = self._waited(key, wait_s)
        except BaseException:
            with self._guard:
                self._is_used, self._unused_since_ns = False, monotonic_ns()
                if not key:  # it may be in the queue nevertheless
                    self._lease = 0
            if key:
                with suppress(StoreError):
                    self._remove(key)
            raise
        with self._guard:
            fence.valid_until_ns = self._valid_until_ns
            self._fence = fence
            self._fences.put(fence)

    def is_wanted(self) -> bool:
        """Whether another writer waits for the lock that this one holds, or has it already."""
        with self._guard:
            return self._fence is None or self._fence.is_wanted or monotonic_ns() >= self._fence.valid_until_ns

    def release(self) -> None:
        """Give the lock back, at once if another writer waits."""
        with self._guard:
            self._is_used = False
            self._unused_since_ns = monotonic_ns()
            fence = self._fence
            if fence is None:
                return
            is_checked = self._unused_since_ns - fence.checked_ns < _LINGER_S * _NS
            if is_checked and not fence.is_wanted:
                self._guard.notify_all()  # the keeper gives it back
                return
            self._drop()
        self._remove(fence.key)

    def close(self) -> None:
        """Give the lock and the lease back; if the server cannot be reached, they end by themselves."""
        if self._process != os.getpid():  # a fork has neither
            return
        with self._guard:
            lease, self._lease = self._lease, 0
            self._drop()
            self._guard.notify_all()
        atexit.unregister(self.close)
        if lease:
            with suppress(StoreError):
                self._client.call_unless(wire.MISSING, "/v3/lease/revoke", {"ID": lease}, wire.Nothing)

    def _remove(self, key: bytes) -> None:
        """Leave the queue.  If that fails, the lease is left to end: as long as it is renewed, nobody gets past the key."""
        try:
            self._client.ask([wire.delete(key)])
        except StoreError:
            with self._guard:
                self._lease = 0
            raise

    def _drop(self) -> None:
        """Forget the lock.  The caller holds the guard, and removes its key."""
        if self._fence is not None:
            self._fence.valid_until_ns = 0
        self._fence = None

    # -- the queue ---------------------------------------------------------------------------------------------------

    def _entered(self, command: str) -> tuple[bytes, Fence | None]:
        """Take a place in the queue; its key, and the lock if nobody is before it."""
        host = os.uname().nodename
        holder = msgspec.json.encode(Holder(os.getpid(), " ".join(command.split())[:1000], self._clock(), host))
        while True:
            lease = self._leased()
            self._count += 1
            key = b"%s%016x-%d" % (self._keys.lock, lease, self._count)
            operations = [*self._questions(), wire.put(key, holder, lease)]
            found = self._client.call_unless(wire.MISSING, "/v3/kv/txn", {"success": operations}, wire.Outcome)
            if found is None:  # the lease has ended
                with self._guard:
                    self._lease = 0
                continue
            if found.found(2).kvs:
                return key, None
            return key, _fence(key, found.header.revision, found)

    def _questions(self, before: int = 0) -> list[wire.Operation]:
        """The state of the store, what is left over in it, and who is last in the queue, of those `before` a revision."""
        keys, options = self._keys, {"max_create_revision": before - 1} if before else {}
        return [
            {"request_range": {"key": keys.head, "keys_only": True}},
            wire.span(keys.pending, end(keys.pending), count_only=True),
            wire.span(keys.lock, end(keys.lock), limit=1, keys_only=True, sort_target="CREATE", sort_order="DESCEND", **options),
        ]

    def _waited(self, key: bytes, wait_s: float) -> Fence:
        """Wait until nobody is before this key."""
        begun_ns, is_told, made_at = monotonic_ns(), False, 0
        while True:
            found = self._client.ask([*self._questions(made_at), wire.get(key)])
            own, before = found.one(3), found.one(2)
            if own is None:
                said = "the place in the queue of writers was lost: the server was not reached in time"
                raise StoreUnreachable(said, where=self._client.url, hint="try again")
            if not made_at:
                made_at = own.create_revision
                continue
            if before is None:
                return _fence(key, made_at, found)
            left_s = wait_s - (monotonic_ns() - begun_ns) / _NS
            if left_s <= 0:
                raise self._busy(wait_s)
            tell_s = TELL_AFTER_S - (wait_s - left_s)
            if tell_s <= 0 and not is_told:
                is_told = True
                if self._notify is not None and (holder := self._holder()) is not None:
                    self._notify(holder)
            watch_s = left_s if is_told else min(left_s, max(tell_s, _RETRY_S))
            if not self._client.wait_for_deletion(before.key, found.header.revision, watch_s):
                sleep(min(left_s, _RETRY_S))

    def _busy(self, wait_s: float) -> StoreBusy:
        return StoreBusy(
            f"waited {wait_s:g} s for {self._holder() or Holder()}, which is writing to this store",
            where=self._client.url,
            hint="wait longer with --wait, or end that process",
        )

    def _holder(self) -> Holder | None:
        """Who is first in the queue."""
        found = _first(self._client, self._keys)
        return None if found is None else found[1]

    # -- the lease ---------------------------------------------------------------------------------------------------

    def _leased(self) -> int:
        """A lease that has not ended, as far as is known."""
        with self._guard:
            if self._lease and monotonic_ns() < self._valid_until_ns:
                return self._lease
        asked_ns = monotonic_ns()
        found = self._client.call("/v3/lease/grant", {"TTL": limits.ETCD_LEASE_SECONDS}, wire.Lease)
        with self._guard:
            self._lease, self._valid_until_ns = found.id, asked_ns + found.ttl * _NS
            if self._keeper is None:
                self._keeper = threading.Thread(target=self._keep, name="fluxres-lease", daemon=True)
                self._keeper.start()
                atexit.register(self.close)
            return found.id

    def _keep(self) -> None:
        """Renew the lease, and give the lock back when it is not used."""
        while True:
            with self._guard:
                now_ns = monotonic_ns()
                is_over = not self._is_used and self._fence is None and now_ns - self._unused_since_ns > _IDLE_S * _NS
                if not self._lease or is_over:
                    self._lease, self._keeper = 0, None
                    atexit.unregister(self.close)
                    return
                renew_ns = self._valid_until_ns - round(limits.ETCD_LEASE_SECONDS * 2 / 3 * _NS)
                is_idle = self._fence is not None and not self._is_used
                drop_ns = self._unused_since_ns + round(_LINGER_S * _NS) if is_idle else renew_ns
                if now_ns < min(renew_ns, drop_ns):
                    self._guard.wait((min(renew_ns, drop_ns) - now_ns) / _NS)
                    continue
                dropped = self._fence if is_idle and now_ns >= drop_ns else None
                if dropped is not None:
                    self._drop()
                lease = self._lease
            if dropped is not None:
                with suppress(StoreError):
                    self._remove(dropped.key)
            else:
                self._renew(lease)

    def _renew(self, lease: int) -> None:
        asked_ns, found = monotonic_ns(), None
        with suppress(StoreError):
            found = self._client.call("/v3/lease/keepalive", {"ID": lease}, wire.Renewal, timeout_s=limits.ETCD_LEASE_SECONDS / 3)
        with self._guard:
            if lease != self._lease:
                return
            if found is not None and found.result.ttl > 0:
                self._valid_until_ns = asked_ns + found.result.ttl * _NS
                if self._fence is not None:
                    self._fence.valid_until_ns = self._valid_until_ns
            elif found is not None or monotonic_ns() >= self._valid_until_ns:
                self._lease = 0
                self._drop()
            else:
                self._guard.wait(_RETRY_S)


def remove_of(client: Client, keys: Keys, pid: int, host: str) -> bool:
    """Remove the lock of a process, which cannot commit then; False if another one has it."""
    found = _first(client, keys)
    if found is None or (found[1].pid, found[1].host) != (pid, host):
        return False
    client.ask([wire.delete(found[0])])
    return True


def _first(client: Client, keys: Keys) -> tuple[bytes, Holder] | None:
    """The key that is first in the queue, and whose it is."""
    first = client.ask([wire.span(keys.lock, end(keys.lock), limit=1, sort_target="CREATE", sort_order="ASCEND")]).one(0)
    if first is None:
        return None
    try:
        return first.key, msgspec.json.decode(first.value, type=Holder)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return first.key, Holder()


def _fence(key: bytes, revision: int, found: wire.Outcome) -> Fence:
    head = found.one(0)
    changed_at = 0 if head is None else head.mod_revision
    return Fence(key, revision, changed_at, found.found(1).count > 0, False, monotonic_ns(), 0)
