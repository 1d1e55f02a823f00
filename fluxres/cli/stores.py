"""The graph of a command: read it, change it under the store's lock, or save it elsewhere and report what was lost.

The store may be a server (`fluxres serve`); what a server does not do is refused here.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from fluxres import clock
from fluxres.cli.output import answer, note
from fluxres.cli.settings import Settings
from fluxres.errors import StoreError, UsageError

_BLAS_THREADS: Final = "OPENBLAS_NUM_THREADS"

if TYPE_CHECKING:
    from fluxres.clock import Clock
    from fluxres.graph.structure import Structure
    from fluxres.model import ResourceGraph
    from fluxres.service.client.addresses import Address
    from fluxres.service.client.led import Through
    from fluxres.service.client.store import RemoteStore
    from fluxres.store import Holder, Store
    from fluxres.store.files import SaveReport


def server(settings: Settings) -> RemoteStore | None:
    """The server that --store or the environment names, if it does name one. Errors: StoreError for what is no address."""
    from fluxres.store.url import VARIABLE

    url = settings.store if settings.store is not None else os.environ.get(VARIABLE)
    if url is None or not url.startswith(("http://", "https://")):
        return None
    _import_numpy()
    from fluxres.service.client.store import RemoteStore

    try:
        return RemoteStore(url, on_silence=_note_silence if sys.stderr.isatty() else None)
    except UsageError as error:  # as for the addresses of other stores
        raise StoreError(error.message, where=error.where, hint=error.hint) from None


def source(settings: Settings) -> Store | RemoteStore:
    """The store given by --store, or the default one, or a server: what graphs and their log can be read from."""
    return server(settings) or store(settings)


def store(settings: Settings, *, is_quiet: bool = False) -> Store:
    """The store given by --store, or the default one; it is not read yet.

    Args:
        is_quiet: whether a wait for its lock is not reported.

    Errors: UsageError for a server.
    """
    if (found := server(settings)) is not None:
        hint = "run it on the machine of the server, with the store that it serves"
        raise UsageError("this command does not work on a server", where=found.url, hint=hint)
    _import_numpy()
    from fluxres.store import open_store

    return open_store(settings.store, clock=clock.system, notify=None if is_quiet else _tell_waiting)


def _import_numpy() -> None:
    """Import NumPy without the threads of its linear algebra, which nothing here uses: they take 20 ms of processor time."""
    if "numpy" not in sys.modules and _BLAS_THREADS not in os.environ:
        os.environ[_BLAS_THREADS] = "1"
        import numpy  # noqa: F401

        del os.environ[_BLAS_THREADS]  # programs that are started have their own


def _tell_waiting(holder: Holder) -> None:
    note(f"waiting for {holder}, which is writing to this store")


def _note_silence(at: Address) -> None:
    note(f"waiting for {at}, which has not answered yet (Ctrl-C stops)")


def reading(settings: Settings) -> ResourceGraph:
    """The graph given by --graph, or the one in use, with the wall clock, and without what dead processes held."""
    if (remote := server(settings)) is not None:
        return remote.load(settings.graph)
    with suppress(StoreError):  # who may only read leaves it to others
        store(settings).settle(settings.graph, wait_s=settings.wait_s)
    graph = store(settings).load(settings.graph, clock=clock.system)
    if any(facts.launch is not None for facts in graph.records.facts.values()):
        from fluxres.launch import orphans

        if orphans.are_there(graph):
            # Who may only read leaves it to others.
            with suppress(StoreError):
                with changing(settings):
                    pass
                graph = store(settings).load(settings.graph, clock=clock.system)
    return graph


def at_once(settings: Settings) -> ResourceGraph:
    """As :func:`reading`, for a picture of one moment: its clock stands still."""
    graph = reading(settings)
    graph.clock = clock.fixed(clock.system())
    return graph


def os_user() -> str:
    """Who runs the command, as the journal records it."""
    from fluxres.store import journal

    return journal.os_user()


@contextmanager
def changing(settings: Settings) -> Iterator[ResourceGraph]:
    """The same graph under the lock: when the block ends, its changes are on disk; if it raises, none are made.

    If a server of this machine leads the store, the server makes the changes.
    """
    if (remote := server(settings)) is not None:
        with remote.changing(settings.graph, command=settings.command, clock=_present(settings)) as graph:
            yield graph
        return
    opened, attended = store(settings), None
    if (through := _through_leader(settings, opened)) is not None:
        with through as graph:
            yield graph
        return
    with opened.writing(
        settings.graph, command=settings.command, wait_s=settings.wait_s, clock=_present(settings)
    ) as transaction:
        if transaction.tickets.exist() or any(facts.launch is not None for facts in transaction.graph.records.facts.values()):
            from fluxres.launch.waiting import Attendance

            attended = Attendance(transaction, opened.path)
            attended.begin()
        yield transaction.graph
        if attended is not None:
            attended.end()
    if attended is not None:
        attended.tell()


def _through_leader(settings: Settings, opened: Store) -> Through | None:
    """The way through the server that leads the store, if one does and this machine can be sure of it."""
    from fluxres.store import lease

    found = None if settings.is_direct else lease.of(opened.database)
    if found is None:
        return None
    from fluxres.service.client import led

    return led.through(opened, found, settings.graph, settings.command, _present(settings))


def _present(settings: Settings) -> Clock:
    """The clock of a change: it stands still if an option depends on the present, so that both agree on `now`."""
    return clock.system if settings.now_s is None else clock.fixed(settings.now_s)


@contextmanager
def trying(settings: Settings) -> Iterator[ResourceGraph]:
    """The same graph, read for a dry run: changes stay in memory."""
    yield source(settings).load(settings.graph, clock=_present(settings))


def is_file(dest: str) -> bool:
    """Whether a destination is a file or another store, and not the name of a graph.

    >>> [is_file(text) for text in ("part", "./part", "part.yaml", "-")]
    [False, True, True, True]
    """
    return dest == "-" or "/" in dest or bool(Path(dest).suffix)


def save_file(
    graph: ResourceGraph, dest: str, format_name: str | None = None, *, replace: bool = False, strict: bool = False
) -> SaveReport | None:
    """Write a complete graph to a file, a store, or standard output (``-``, without a report)."""
    from fluxres.store.files import bytes_of, save

    if dest != "-":
        return save(graph, dest, format=format_name, replace=replace, strict=strict)
    import sys

    written = bytes_of(graph, format_name or "cluster", strict=strict)
    for left in written.left_out:
        note(f"left out: {left}")
    if written.note:
        note(written.note)
    sys.stdout.flush()
    sys.stdout.buffer.write(written.data)
    sys.stdout.buffer.flush()
    return None


def note_supply(graph: ResourceGraph, before: Structure | None = None) -> None:
    """Warn on standard error about draws that suppliers can never provide, as `fluxres check` does.

    Args:
        before: problems before a change, which are not repeated.
    """
    from fluxres.model.audit import check_supply
    from fluxres.render.text import printable

    known = set() if before is None else set(check_supply(before))
    for problem in (one for one in check_supply(graph.structure) if one not in known):
        note(printable(f"{problem.where}: {problem.message}" if problem.where else problem.message))


def answer_report(settings: Settings, report: SaveReport | None) -> None:
    """Report a save; what the format could not express also goes to standard error."""
    from fluxres.documents.document import plural

    if report is None:
        return
    for left in report.left_out:
        note(f"left out: {left}")
    if report.note:
        note(report.note)
    what = plural(report.pools, "pool") if report.events is None else plural(report.events, "change")
    said = f"{report.format}, from {what}" if report.left_out else f"{what}, {report.format}"
    answer(
        settings,
        document=lambda: {
            "dest": report.dest,
            "format": report.format,
            "pools": report.pools,
            "changes": report.events,
            "left_out": list(report.left_out),
            "note": report.note,
        },
        lines=lambda _style: [f"{report.dest}: {said}"],
    )
