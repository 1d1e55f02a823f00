"""For which of its pools a job drew what it holds of its suppliers: watts go with the node that they were drawn for (rule F2).

A record says how much a job holds of a supplier; this says for whom.  It is kept beside the records and adds up to no more than
they say: what is left of them was drawn for nobody in particular, and goes when it is named.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fluxres.allocation import steps
from fluxres.allocation.steps import Steps
from fluxres.graph.auxiliary import Int32

Rows = NDArray[np.int64]
"""(pool, account, units) a row: units of an account drawn for a pool.  A row without units says that the account is held
whole for this pool as well: what the other rows say goes with the last of them."""
Consumers = tuple[int, ...]
"""Pools for which something was drawn together, ascending; mostly one."""
NO_ROWS: Rows = np.zeros((0, 3), np.int64)
NO_ACCOUNTS: Final[frozenset[int]] = frozenset()


@dataclass(slots=True)
class Ledger:
    """What one owner drew: over time by account and consumers, and the accounts by consumers."""

    held: dict[int, dict[Consumers, Steps]] = field(default_factory=dict)
    accounts: dict[Consumers, set[int]] = field(default_factory=dict)


class Drawn:
    """By owner, what was drawn for which pools."""

    def __init__(self) -> None:
        #: What each owner drew; those that drew nothing have none.
        self.ledgers: dict[str, Ledger] = {}

    def rows(self) -> Iterator[tuple[str, Consumers, int, Steps]]:
        """Everything there is."""
        for owner, ledger in self.ledgers.items():
            for account, by_consumers in ledger.held.items():
                for consumers, held in by_consumers.items():
                    yield owner, consumers, account, held

    def of(self, owner: str, consumers: Consumers) -> dict[int, Steps]:
        """By account what was drawn for some pools together."""
        ledger = self.ledgers[owner]
        return {account: ledger.held[account][consumers] for account in sorted(ledger.accounts[consumers])}

    def total(self, owner: str, account: int) -> Steps:
        """Units of one account that an owner drew for some pool."""
        ledger = self.ledgers.get(owner)
        return () if ledger is None else steps.joined(ledger.held.get(account, {}).values())

    def ending(self, owner: str, account: int, moment: int) -> list[tuple[Consumers, int]]:
        """What was drawn from an account up to a moment, and no longer."""
        ledger = self.ledgers.get(owner)
        every = {} if ledger is None else ledger.held.get(account, {})
        return sorted((consumers, held[-1][2]) for consumers, held in every.items() if held[-1][1] == moment)

    def related(self, owner: str, vertices: Iterable[int], end: Int32) -> list[Consumers]:
        """Pools at, above or below some others, for which an owner drew something.

        Args:
            end: one past the last descendant, by vertex.
        """
        ledger = self.ledgers.get(owner)
        lo = np.unique(np.fromiter(vertices, np.int64))
        if ledger is None or not len(lo):
            return []
        reach = np.maximum.accumulate(end[lo])
        every = list(ledger.accounts)
        pools = np.array([v for consumers in every for v in consumers], np.int64)
        of = np.repeat(np.arange(len(every)), [len(consumers) for consumers in every])
        before = lo.searchsorted(end[pools]) - 1
        near = (before >= 0) & (reach[before] > pools)
        return [every[at] for at in np.unique(of[near]).tolist()]

    # -- changes -----------------------------------------------------------------------------------------------------

    def add(self, owner: str, rows: Rows, start: int, end: int) -> None:
        """Remember rows of one window."""
        together: dict[int, list[tuple[int, int]]] = {}
        for pool, account, units in rows.tolist():
            together.setdefault(account, []).append((pool, units))
        for account, parts in together.items():
            if all(units for _, units in parts):
                for pool, units in parts:
                    self.put(owner, (pool,), account, ((start, end, units),))
            else:
                pools = tuple(sorted({pool for pool, _ in parts}))
                self.put(owner, pools, account, ((start, end, sum(units for _, units in parts)),))

    def put(self, owner: str, consumers: Consumers, account: int, held: Steps) -> None:
        """Add what was drawn from one account."""
        ledger = self.ledgers.setdefault(owner, Ledger())
        ledger.accounts.setdefault(consumers, set()).add(account)
        by_consumers = ledger.held.setdefault(account, {})
        by_consumers[consumers] = steps.joined([by_consumers.get(consumers, ()), held])

    def drop(self, owner: str, consumers: Consumers, account: int, gone: Steps) -> None:
        """Forget a part of what was drawn from one account, as far as there is that much."""
        ledger = self.ledgers[owner]
        left = steps.excess(ledger.held[account][consumers], gone)
        if left:
            ledger.held[account][consumers] = left
            return
        del ledger.held[account][consumers]
        ledger.accounts[consumers].discard(account)
        if not ledger.held[account]:
            del ledger.held[account]
        if not ledger.accounts[consumers]:
            del ledger.accounts[consumers]
        if not ledger.accounts:
            del self.ledgers[owner]

    def trim(self, owner: str, account: int, held: Steps) -> None:
        """Leave no more than is held of an account; what was drawn for the last pools goes first."""
        over = steps.excess(self.total(owner, account), held)
        while over:
            by_consumers = self.ledgers[owner].held[account]
            last = max(consumers for consumers, drawn in by_consumers.items() if steps.overlap(drawn, over))
            drawn = by_consumers[last]
            self.drop(owner, last, account, over)
            over = steps.excess(over, drawn)

    def forget(self, owner: str) -> None:
        """Forget all of an owner."""
        self.ledgers.pop(owner, None)

    def take(self, other: Drawn, consumers_to_new: Int32, accounts_to_new: Int32) -> None:
        """Add those of another structure by new numbers; what is gone is left out."""
        for owner, consumers, account, held in other.rows():
            kept = tuple(sorted(int(consumers_to_new[v]) for v in consumers if consumers_to_new[v] >= 0))
            if kept and accounts_to_new[account] >= 0:
                self.put(owner, kept, int(accounts_to_new[account]), held)


def implicit(targets: Iterable[tuple[int, int]], rows: Rows) -> frozenset[int]:
    """Accounts among the targets of which nothing is named: all of it is drawn for others."""
    if not len(rows):
        return NO_ACCOUNTS
    named: dict[int, int] = {}
    for v, amount in targets:
        named[v] = named.get(v, 0) + amount
    for _, account, units in rows.tolist():
        named[account] = named.get(account, 0) - units
    return frozenset(account for account in rows[:, 1].tolist() if named[account] <= 0)


def minus(held: Mapping[int, Steps], gone: Mapping[int, Steps]) -> dict[int, Steps]:
    """By account what is left when something goes; accounts of which nothing is left are left out."""
    left = {account: steps.excess(spans, gone.get(account, ())) for account, spans in held.items()}
    return {account: spans for account, spans in left.items() if spans}
