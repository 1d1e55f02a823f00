"""Lets time pass for the instances of a site: an instance never waits, and does nothing between two calls.

A task of the event loop calls `advance` when a limit, a begin time or a reservation is due, when others have changed something in
the graph, and for all instances of the store when this server begins to lead.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from fluxres import clock
from fluxres.errors import FluxresError, UnknownGraph, UnknownJob
from fluxres.model import ResourceGraph
from fluxres.service.access import Caller, Role
from fluxres.service.served import Served
from fluxres.service.site import Site
from fluxres.store import journal
from fluxres.store.lease import INSTANCE

_LOOK_EVERY_S: Final = 0.25
"""How long a change by another process may go unseen."""
_LEAST_S: Final = 0.02
"""Between two rounds, whatever is due."""
_COMMAND: Final = "fluxres serve"

_log = logging.getLogger("fluxres.service")


class Pulse:
    """Advances the instances of a site.

    Args:
        site: whose graphs have them.
    """

    def __init__(self, site: Site) -> None:
        self._site = site
        self._caller = Caller(journal.os_user(), Role.ADMIN)

    async def run(self) -> None:
        """Go on until it is cancelled."""
        epoch, has_failed = None, False
        while True:
            try:
                async with asyncio.timeout(_LOOK_EVERY_S if has_failed else self._pause()):
                    await self._site.changed.wait()
            except TimeoutError:
                pass
            self._site.changed.clear()
            leadership = self._site.leadership
            if not leadership.is_leading:
                epoch = None
                continue
            try:
                if epoch != leadership.epoch:
                    await self._site.work(self._open_all)
                    epoch = leadership.epoch
            except FluxresError as error:  # a store that is busy, or away: it is tried again
                _log.warning("instances: %s", error)
            has_failed = False
            for served in self._site.open_graphs:
                has_failed = not await self._advance(served) or has_failed

    def _pause(self) -> float:
        found = [due for served in self._site.open_graphs if (due := served.instances.next_due()) is not None]
        return min(_LOOK_EVERY_S, max(_LEAST_S, min(found) - clock.system())) if found else _LOOK_EVERY_S

    def _open_all(self) -> None:
        """Open the graphs with instances, and know them."""
        with self._site.store.reading(None) as rows:
            uids = {key.split(":")[1] for key in rows.db.notes() if key.startswith(INSTANCE)}
            names = [row.name for row in rows.db.graphs() if row.uid in uids]
        for name in names:
            if self._site.child is None or name == self._site.child.name:
                self._site.served(name).instances.names()

    async def _advance(self, served: Served) -> bool:
        """Advance the instances of one graph, whatever ails another one; returns whether that could be done."""
        is_done = True
        for name in served.instances.due(clock.system()):

            def operation(graph: ResourceGraph, name: str = name) -> None:
                if graph is served.graph:  # else it was replaced, and so were its instances
                    served.instances.operate(graph, name, "", lambda _instance: None)

            try:
                await self._site.change(served.name, self._caller, _COMMAND, None, operation)
            except UnknownGraph:
                return True  # it was dropped
            except UnknownJob:
                pass  # another process has ended it
            except FluxresError as error:  # a store that is busy, or away: it is tried again
                is_done = False
                _log.warning("instances: %s", error)
            except Exception:  # noqa: BLE001 - a mistake in one of them is no end of the others
                is_done = False
                _log.exception("instance '%s' of graph '%s'", name, served.name)
        return is_done
