"""The lease of a server for what a job of another graph holds: it takes the place of the lead over a store.

It writes under the lease of a child. It has no standby server: when the lease is lost, its parent has everything back.
"""

from __future__ import annotations

import logging

from fluxres.errors import HoldLapsed, StoreError
from fluxres.service.client.child import RemoteChild
from fluxres.store.child import Child
from fluxres.store.claims import lapsed

_log = logging.getLogger("fluxres.service")


class Tenancy:
    """The lease of a server on its graph, with the attributes and methods of :class:`fluxres.service.leadership.Leadership`.

    Args:
        child: that it serves.
    """

    epoch = 0
    is_overdue = False

    def __init__(self, child: Child | RemoteChild) -> None:
        self.child = child
        self.leader = ""

    @property
    def is_leading(self) -> bool:
        return not self.child.is_over

    def begin(self, url: str, *, is_open: bool, may_stand_by: bool) -> None:
        """It has its lease already."""
        self.leader = url

    def require(self, mark: str | None = None) -> None:
        """Errors: HoldLapsed."""
        if (lapse := self.supersession()) is not None:
            raise lapse

    def supersession(self) -> HoldLapsed | None:
        """What refuses a change once the lease is lost."""
        if not self.child.is_over:
            return None
        return self.child.loss or lapsed(self.child.name, "it is ending")

    def close(self) -> None:
        """Give everything back. Where the store, or the server of the parent, is away, the parent does it after the lease."""
        child = self.child
        try:
            child.end()
        except StoreError as error:
            _log.error("graph '%s' cannot be ended: %s; job '%s' is freed once its lease is over", child.name, error, child.job)
