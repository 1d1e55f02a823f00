"""Whether this server leads its store: it holds the lease, or stands by until it can take it.

The leader renews the lease after a third of its life. A standby server reads the note and takes the lease when it was
given back, when the process of its holder has ended on this host, or when the note has not changed for the life of the lease.
That time is measured here, by a clock that nobody sets, so the clocks of two hosts need not agree. A leader that was slower than
that cannot write any more (:class:`fluxres.store.lease.Fence`), and stands by in turn.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from secrets import token_hex
from typing import Final

from msgspec.structs import replace

from fluxres import clock, limits
from fluxres.allocation.facts import Launch
from fluxres.clock import stopwatch
from fluxres.errors import FluxresError, NotLeader, StoreBusy
from fluxres.launch import identity
from fluxres.launch.identity import Presence
from fluxres.store import Store, lease, open_store
from fluxres.store.database import Connection
from fluxres.store.lease import Fence, Lease

_COMMAND: Final = "fluxres serve"
_LOOK_EVERY_S: Final = 0.25
_LOOKS: Final = 8
"""Of a standby server, at least, in the life of a lease."""
_LOCK_WAIT_S: Final = 1.0
"""For the lock of the store, which a leader that has been stopped may hold."""

_log = logging.getLogger("fluxres.service.lease")


class Leadership:
    """The role of one server: it leads the store, or stands by.

    Args:
        store: its URL; the default one if None.
        life_s: of its leases.
        prepare: called when it has taken the lease, before it writes anything else.
    """

    def __init__(self, store: str | None, life_s: float, prepare: Callable[[Store], None]) -> None:
        self._store = open_store(store, clock=clock.system)
        self._life_s, self._prepare = life_s, prepare
        self._look = threading.Event()
        self.fence = Fence(self._look.set)
        self._url, self._is_open = "", False
        self._own: Lease | None = None
        self._seen: Lease | None = None
        self._seen_s = stopwatch()
        self._trouble = ""
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name="fluxres-lease", daemon=True)

    @property
    def is_leading(self) -> bool:
        return self.fence.own is not None

    @property
    def leader(self) -> str:
        """URL of the server that leads; empty if none is known."""
        return self._url if self.is_leading else self.fence.leader

    @property
    def epoch(self) -> int:
        """Of the lease that this server has, or saw last; 0 if there was none."""
        known = self.fence.own or self._seen
        return 0 if known is None else known.epoch

    @property
    def is_overdue(self) -> bool:
        """Whether another server may have taken its lease, which it did not renew in time."""
        own = self._own
        return own is not None and clock.system() > own.until

    def require(self, mark: str | None = None) -> None:
        """Errors: NotLeader; also if it leads by a lease that has not this mark."""
        own = self.fence.own
        if own is None:
            raise self.fence.refusal()
        if mark is not None and own.holder is not None and own.holder.mark != mark:
            raise NotLeader("this server leads by a later lease", hint="read who leads the store again", leader=self._url)

    def supersession(self) -> FluxresError | None:
        """What refuses a change if another server has led the store since, by the store itself; None if none has.

        Errors: StoreError if it cannot be read.
        """
        own = self._own
        with self._store.database.reading() as db:
            found = None if db is None else lease.read(db)
        if own is not None and found is not None and not found.is_term_of(own):
            self.fence.own, self.fence.leader = None, found.url
            self._look.set()
        return None if self.is_leading else self.fence.refusal()

    def begin(self, url: str, *, is_open: bool, may_stand_by: bool) -> None:
        """Take the lease, or stand by.

        Args:
            url: where this server serves.
            is_open: whether it needs no tokens.
            may_stand_by: otherwise it waits until it leads, or knows that another server does.

        Errors: StoreBusy naming the leader; StoreError.
        """
        self._url, self._is_open = url, is_open
        self._begin()
        first = self._seen
        while not (self.is_leading or may_stand_by):
            if self._seen is not None and (self._is_here(self._seen) or self._seen != first):
                hint = "end it, or let this one stand by"
                raise StoreBusy(f"another server leads this store: {self._seen.url}", where=self._store.url, hint=hint)
            self._look.wait(self._pause_s())
            self._begin()
        self._thread.start()

    def _begin(self) -> None:
        """Look who leads, as patiently as a command waits for others that write. Errors: StoreBusy; StoreError."""
        until_s = stopwatch() + limits.LOCK_WAIT_SECONDS_DEFAULT
        while True:
            try:
                self._stand_by()
            except StoreBusy:
                if stopwatch() > until_s:
                    raise
            else:
                return

    def close(self) -> None:
        """Give the lease back, so that another server takes it at once."""
        self._is_closed = True
        self._look.set()
        if self._has_begun:
            self._thread.join()
        own, self.fence.own = self.fence.own, None
        if own is not None:
            with suppress(FluxresError), self._writing(own.life_s) as db:
                found = lease.read(db)
                if found is not None and found.is_term_of(own):
                    lease.write(db, Lease(own.epoch))

    @property
    def _has_begun(self) -> bool:
        return self._thread.ident is not None

    # -- in its thread -------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            self._look.wait(self._pause_s())
            self._look.clear()
            if self._is_closed:
                return
            try:
                if self.is_leading:
                    self._renew()
                if not self.is_leading:
                    self._note_loss()
                    self._stand_by()
                self._trouble = ""
            except FluxresError as error:
                if str(error) != self._trouble:
                    self._trouble = str(error)
                    _log.warning("the lease of the store cannot be %s: %s", "renewed" if self.is_leading else "taken", error)

    def _pause_s(self) -> float:
        if self.is_leading:
            return self._life_s / 3
        life_s = self._life_s if self._seen is None or not self._seen.life_s else self._seen.life_s
        return min(_LOOK_EVERY_S, life_s / _LOOKS)

    def _renew(self) -> None:
        own = self._own
        assert own is not None
        with self._writing(own.life_s) as db:
            if self.fence.holds(db):
                self._own = replace(own, renewals=own.renewals + 1, until=clock.system() + own.life_s)
                lease.write(db, self._own)

    def _note_loss(self) -> None:
        if self._own is not None:
            _log.warning("the lease of the store was lost (epoch %d)", self._own.epoch)
            self._own = None

    def _note_leader(self, found: Lease | None) -> None:
        is_new = self._seen is None or found is None or not found.is_term_of(self._seen)
        if is_new and found is not None and found.holder is not None and self._has_begun:
            _log.warning("%s leads the store (epoch %d): this server stands by", found.url, found.epoch)

    def _stand_by(self) -> None:
        """Look who leads, and take the lease if nobody does."""
        with self._store.database.reading() as db:
            found = None if db is None else lease.read(db)
        if found != self._seen:
            self._note_leader(found)
            self._seen, self._seen_s = found, stopwatch()
        self.fence.leader = "" if found is None else found.url
        why = self._why_free(found)
        if why is not None:
            self._take(found, why)

    def _why_free(self, found: Lease | None) -> str | None:
        """Why the lease can be taken; None if it cannot."""
        if found is None or found.holder is None:
            return "the lease was free"
        if identity.presence_now(found.holder) is Presence.GONE:
            return f"the server that led it before, {found.url}, has ended"
        if stopwatch() - self._seen_s > found.life_s:
            return f"{found.url} has not renewed its lease for {found.life_s:g} s"
        return None

    def _is_here(self, found: Lease) -> bool:
        """Whether the holder of a lease of this very store runs on this host."""
        holder = found.holder
        is_running = holder is not None and identity.presence_now(holder) is Presence.RUNNING
        return is_running and found.store == self._store.url

    def _take(self, found: Lease | None, why: str) -> None:
        try:
            own = self._taken(found)
        except StoreBusy:
            with self._store.database.reading() as db:
                if db is None or lease.read(db) != found:
                    return  # it has been renewed, or another server was faster: the process that has the lock works
            holder = None if found is None else found.holder
            if holder is None or not self._store.database.break_lock(holder.processes[0][0], holder.host):
                raise
            own = self._taken(found)
        if own is None:
            return  # another server was faster
        self._prepare(self._store)
        self._seen = self._own = self.fence.own = own
        if self._has_begun or (found is not None and found.holder is not None):
            _log.warning("this server leads the store now (epoch %d): %s", own.epoch, why)

    def _taken(self, found: Lease | None) -> Lease | None:
        """The lease, if it still was as found."""
        here = Launch(identity.host(), identity.boot(), (identity.of(os.getpid()),), token_hex(8))
        epoch = 1 if found is None else found.epoch + 1
        until = clock.system() + self._life_s
        own = Lease(epoch, here, self._url, self._store.url, self._life_s, until, is_open=self._is_open)
        with self._writing(_LOCK_WAIT_S) as db:
            if lease.read(db) != found:
                return None
            lease.write(db, own)
        return own

    @contextmanager
    def _writing(self, wait_s: float) -> Iterator[Connection]:
        with self._store.creating(_COMMAND, wait_s) as db:
            yield db
