"""Access to the graph of a command: read it, or change it under the store's lock."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from fluxres import clock
from fluxres.cli.output import note
from fluxres.cli.settings import Settings

if TYPE_CHECKING:
    from fluxres.model import ResourceGraph
    from fluxres.store import Holder, SqliteStore


def store(settings: Settings) -> SqliteStore:
    """The store given by --store, or the default one; it is not read yet."""
    from fluxres.store import open_store

    return open_store(settings.store, clock=clock.system, notify=_tell_waiting)


def _tell_waiting(holder: Holder) -> None:
    note(f"waiting for {holder}, which is writing to this store")


def reading(settings: Settings) -> ResourceGraph:
    """The graph given by --graph, or the one in use, with the wall clock."""
    return store(settings).load(settings.graph, clock=clock.system)


@contextmanager
def changing(settings: Settings) -> Iterator[ResourceGraph]:
    """The same graph under the lock: when the block ends, its changes are on disk; if it raises, none are made."""
    with store(settings).writing(
        settings.graph, command=settings.command, wait_s=settings.wait_s, clock=clock.system
    ) as transaction:
        yield transaction.graph


@contextmanager
def trying(settings: Settings) -> Iterator[ResourceGraph]:
    """The same graph, read for a dry run: changes stay in memory."""
    yield reading(settings)
