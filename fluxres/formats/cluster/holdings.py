"""The keys ``allocations`` and ``reservations`` of a cluster file: entries → what jobs and reservations hold, and back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
from msgspec import UNSET

from fluxres.documents.document import Document, Key
from fluxres.errors import InputError, UnknownPool
from fluxres.formats import windows
from fluxres.formats.cluster.schema import Held, ReservationEntry
from fluxres.formats.format import Hold, Reserved
from fluxres.formats.selector import Selectors
from fluxres.graph.accounts import is_edge

Values = dict[str, Any]
Path = tuple[Key, ...]


# -- reading -------------------------------------------------------------------------------------------------------------


def texts(entry: Held | ReservationEntry) -> list[str]:
    """The selectors in an entry."""
    if isinstance(entry, ReservationEntry):
        parts = [] if entry.held is UNSET else entry.held
        return [*entry.pools, *(entry.affected or ()), *(text for part in parts for text in part.pools)]
    drawn = {} if entry.drawn is UNSET else entry.drawn
    return [*(entry.pools or ()), *drawn, *(name for parts in drawn.values() for name in parts)]


def hold(document: Document, selectors: Selectors, held: Held, path: Path) -> Hold:
    """What an entry says that a job holds.

    Errors: InputError with its place.
    """
    if held.end is not None:
        windows.require_window(held.start, held.end, _failing(document, path))
    if not held.job.isprintable():
        raise InputError(f"{held.job!r} is not a valid job id", where=document.where((*path, "job")))
    pools = _units(document, selectors, held.pools, (*path, "pools"))
    return Hold(held.job, held.start, held.end, pools, held.slots, _drawn(document, selectors, held, path))


def reserved(document: Document, selectors: Selectors, entry: ReservationEntry, path: Path) -> Reserved:
    """The maintenance reservation of an entry.

    Errors: InputError with its place.
    """
    fail = _failing(document, path)
    windows.require_text(entry.name, "name", fail)
    user = None if entry.user is UNSET else entry.user
    windows.require_text(user, "user", fail)
    spans = tuple((window.start, window.end) for window in entry.windows)
    windows.require_in_order(spans, fail)

    def chosen(texts: Sequence[str], key: str) -> tuple[int, ...]:
        found = (_pools(document, selectors, text, (*path, key, i)) for i, text in enumerate(texts))
        return tuple(sorted(set(chain.from_iterable(found))))

    pools = chosen(entry.pools, "pools")
    affected = None if entry.affected is UNSET else chosen(entry.affected, "affected")
    held = None
    if entry.held is not UNSET:
        for j, part in enumerate(entry.held):
            windows.require_window(part.start, part.end, _failing(document, (*path, "held", j)))
        held = tuple(
            (part.start, part.end, _units(document, selectors, part.pools, (*path, "held", j, "pools")))
            for j, part in enumerate(entry.held)
        )
    submitted = None if entry.submitted is UNSET else entry.submitted
    return Reserved(entry.name, pools, spans, entry.ignores_jobs, user, submitted, held, affected)


def _failing(document: Document, path: Path) -> windows.Fail:
    def fail(inside: Sequence[Key], message: str, hint: str) -> None:
        raise InputError(message, where=document.where((*path, *inside)), hint=hint)

    return fail


def _units(document: Document, selectors: Selectors, entries: Mapping[str, int], path: Path) -> dict[int, int]:
    """Units by account."""
    pools: dict[int, int] = {}
    accounts = selectors.structure.accounts
    for text, amount in entries.items():
        where: Path = (*path, text)
        vertices = np.array(_accounts(document, selectors, text, where))
        over = vertices[accounts.size[vertices] < amount]
        if len(over):
            v = int(over[0])
            message = f"{amount} units of {accounts.where(v)}, which has {accounts.size.item(v)}"
            raise InputError(message, where=document.where(where), hint="a job holds at most the size of a pool")
        for v in vertices.tolist():
            if v in pools:
                raise InputError(
                    f"{accounts.where(v)} is listed twice", where=document.where(where, key=True), hint="add the units up"
                )
            pools[v] = amount
    return pools


def _drawn(document: Document, selectors: Selectors, held: Held, path: Path) -> tuple[tuple[int, int, int], ...]:
    rows: list[tuple[int, int, int]] = []
    for text, parts in ({} if held.drawn is UNSET else held.drawn).items():
        (pool,) = _accounts(document, selectors, text, (*path, "drawn", text), one=True)
        for name, units in parts.items():
            (account,) = _accounts(document, selectors, name, (*path, "drawn", text, name), one=True)
            rows.append((pool, account, units))
    return tuple(sorted(rows))


def _accounts(document: Document, selectors: Selectors, text: str, where: Path, *, one: bool = False) -> list[int]:
    """Pools that a text selects, or the edge of that name; the text is the key at that path."""
    if is_edge(text):
        try:
            return [selectors.structure.accounts.number(text)]
        except UnknownPool as error:
            raise InputError(error.message, where=document.where(where, key=True), hint=error.hint) from None
    found = _pools(document, selectors, text, where, key=True)
    if one and len(found) > 1:
        raise InputError(f"{text!r:.80} selects {len(found)} pools, expected one", where=document.where(where, key=True))
    return found


def _pools(document: Document, selectors: Selectors, text: str, where: Path, *, key: bool = False) -> list[int]:
    """Pools that a text selects.

    Args:
        key: whether the text is the key at that path, or its value.
    """
    try:
        found: list[int] = selectors.vertices(text).tolist()
    except InputError as error:
        raise type(error)(error.message, where=document.where(where, key=key), hint=error.hint) from None
    return found


# -- writing -------------------------------------------------------------------------------------------------------------


def hold_entry(selectors: Selectors, held: Hold) -> Values:
    """The entry of what a job holds."""
    accounts = selectors.structure.accounts
    drawn: dict[str, dict[str, int]] = {}
    for pool, account, units in held.drawn:
        name = accounts.where(account) if accounts.is_edge(account) else selectors.texts([account])[0]
        drawn.setdefault(selectors.texts([pool])[0], {})[name] = units
    return {
        "job": held.job,
        "start": _seconds(held.start_s),
        "end": None if held.end_s is None else _seconds(held.end_s),
        **({"slots": held.slots} if held.slots else {}),
        "pools": _texts_of(selectors, held.pools),
        **({"drawn": drawn} if drawn else {}),
    }


def reserved_entry(selectors: Selectors, one: Reserved) -> Values:
    """The entry of a maintenance reservation."""
    entry: Values = {
        "name": one.name,
        "pools": selectors.texts(one.pools),
        "windows": [{"start": _seconds(start), "end": _seconds(end)} for start, end in one.windows],
        **({"ignores_jobs": True} if one.ignores_jobs else {}),
        **({} if one.user is None else {"user": one.user}),
        **({} if one.submitted_s is None else {"submitted": _seconds(one.submitted_s)}),
    }
    if one.held is not None:
        entry["held"] = [
            {"start": _seconds(start), "end": _seconds(end), "pools": _texts_of(selectors, pools)}
            for start, end, pools in one.held
        ]
    if one.affected is not None:
        entry["affected"] = selectors.texts(one.affected)
    return entry


def _texts_of(selectors: Selectors, held: Mapping[int, int]) -> dict[str, int]:
    """Units by selector."""
    found: dict[str, int] = {}
    accounts = selectors.structure.accounts
    for amount in sorted(set(held.values())):
        vertices = sorted(v for v, units in held.items() if units == amount)
        edges: Iterable[int] = [v for v in vertices if accounts.is_edge(v)]
        names = [*selectors.texts([v for v in vertices if not accounts.is_edge(v)]), *map(accounts.where, edges)]
        found.update(dict.fromkeys(names, amount))
    return found


def _seconds(value: float) -> int | float:
    return int(value) if float(value).is_integer() else value
