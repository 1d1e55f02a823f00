"""The ledger of draws: for which of its pools a job drew units from suppliers (rule F2).

A record says how much a job holds of a supplier; the ledger says for which pools, so that 400 W are freed with the node that
draws them.  The sum in the ledger never exceeds the records: the rest was requested directly and is freed by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec
import numpy as np

from fluxres.allocation import steps
from fluxres.allocation.steps import Steps
from fluxres.arrays import Int32, Int64

Rows = Int64
"""(pool, account, units): units of an account drawn for a pool.  A row with 0 units adds a pool to those that share the units of
the account's other rows; these are freed with the last of the pools."""
Consumers = tuple[int, ...]
"""Pools that share a draw, ascending; mostly one."""
NO_ROWS: Rows = np.zeros((0, 3), np.int64)
NO_ACCOUNTS: Final[frozenset[int]] = frozenset()


class DrawLedger(msgspec.Struct):
    """The draws of one owner: units over time by account and consumers, and the accounts by consumers."""

    held: dict[int, dict[Consumers, Steps]] = msgspec.field(default_factory=dict)
    accounts: dict[Consumers, set[int]] = msgspec.field(default_factory=dict)


class DrawRecords:
    """The ledgers of all owners."""

    def __init__(self) -> None:
        #: By owner; only for those that drew something.
        self.ledgers: dict[str, DrawLedger] = {}

    def rows(self) -> Iterator[tuple[str, Consumers, int, Steps]]:
        """(owner, consumers, account, units over time) of all ledgers."""
        for owner, ledger in self.ledgers.items():
            for account, by_consumers in ledger.held.items():
                for consumers, held in by_consumers.items():
                    yield owner, consumers, account, held

    def of(self, owner: str, consumers: Consumers) -> dict[int, Steps]:
        """By account, what was drawn for these consumers together."""
        ledger = self.ledgers[owner]
        return {account: ledger.held[account][consumers] for account in sorted(ledger.accounts[consumers])}

    def total(self, owner: str, account: int) -> Steps:
        """Units over time that an owner drew from an account for any pool."""
        ledger = self.ledgers.get(owner)
        return () if ledger is None else steps.joined(ledger.held.get(account, {}).values())

    def ending(self, owner: str, account: int, moment: int) -> list[tuple[Consumers, int]]:
        """(consumers, units) of the draws from an account that end at a moment."""
        ledger = self.ledgers.get(owner)
        every = {} if ledger is None else ledger.held.get(account, {})
        return sorted((consumers, held[-1][2]) for consumers, held in every.items() if held[-1][1] == moment)

    def related(self, owner: str, vertices: Iterable[int], end: Int32) -> list[Consumers]:
        """Consumers in the ledger of an owner that are at, above or below some vertices.

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
        """Enter rows of one window."""
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
        """Add units over time drawn from an account."""
        ledger = self.ledgers.setdefault(owner, DrawLedger())
        ledger.accounts.setdefault(consumers, set()).add(account)
        by_consumers = ledger.held.setdefault(account, {})
        by_consumers[consumers] = steps.joined([by_consumers.get(consumers, ()), held])

    def drop(self, owner: str, consumers: Consumers, account: int, gone: Steps) -> None:
        """Subtract units over time drawn from an account, down to 0."""
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
        """Subtract draws that exceed what is held of an account, those for the last pools first."""
        over = steps.excess(self.total(owner, account), held)
        while over:
            by_consumers = self.ledgers[owner].held[account]
            last = max(consumers for consumers, drawn in by_consumers.items() if steps.overlap(drawn, over))
            drawn = by_consumers[last]
            self.drop(owner, last, account, over)
            over = steps.excess(over, drawn)

    def forget(self, owner: str) -> None:
        """Drop the ledger of an owner."""
        self.ledgers.pop(owner, None)

    def carry_over(self, other: DrawRecords, consumers_to_new: Int32, accounts_to_new: Int32) -> None:
        """Add the ledgers of another structure by new numbers, -1 for removed pools and accounts."""
        for owner, consumers, account, held in other.rows():
            kept = tuple(sorted(int(consumers_to_new[v]) for v in consumers if consumers_to_new[v] >= 0))
            if kept and accounts_to_new[account] >= 0:
                self.put(owner, kept, int(accounts_to_new[account]), held)


def implicit(targets: Iterable[tuple[int, int]], rows: Rows) -> frozenset[int]:
    """Accounts that are targets only because pools draw from them."""
    if not len(rows):
        return NO_ACCOUNTS
    named: dict[int, int] = {}
    for v, amount in targets:
        named[v] = named.get(v, 0) + amount
    for _, account, units in rows.tolist():
        named[account] = named.get(account, 0) - units
    return frozenset(account for account in rows[:, 1].tolist() if named[account] <= 0)


def minus(held: Mapping[int, Steps], gone: Mapping[int, Steps]) -> dict[int, Steps]:
    """By account, what is left after subtracting `gone`; without accounts of which nothing is left."""
    left = {account: steps.excess(spans, gone.get(account, ())) for account, spans in held.items()}
    return {account: spans for account, spans in left.items() if spans}
