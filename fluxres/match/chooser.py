"""Requests that another system's rules answer: a `Chooser` picks the units, in place of the search and its policies.

A jobspec says how many pools of a type are wanted, and a policy says which are preferred.  It cannot say that the slots of one
item come from one instance, that what was returned last is taken first, or that a placement is found whenever there is one.
HyperQueue, canary, CTest and JQM have such rules.  A request in the language of one of them carries its rule.  The rule sees what
is free in a window and names units; everything else (windows, the earliest start, reservations, records, refusals) is as for any
request.  Nodes are left to the rule, so it also skips those whose suppliers cannot give what its picks would draw.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

import numpy as np

from fluxres import limits
from fluxres.arrays import Int32, Int64
from fluxres.errors import LimitExceeded, UsageError
from fluxres.match.demand import Counts
from fluxres.match.policy import Policy
from fluxres.match.result import NO_ROWS, Picked, Placement, SlotGroup
from fluxres.match.situation import Situation
from fluxres.match.typology import Typology
from fluxres.syntax.jobspec import Request, Rule

Returned = Mapping[int, dict[int, int]]
"""By parent, the pools that were chosen by amounts and returned, with the number of the return, in the order of the numbers."""
COMBINATIONS_MAX: Final = limits.MATCH_STEPS_MAX // 20
"""Combinations of nodes that a rule tries where suppliers are short."""
_NO_POOLS: Final = np.zeros(0, np.int32)


class Choice(NamedTuple):
    """The answer of a chooser.

    Args:
        picked: in the order of the items.
        slots: the number of slots.
        whole: pools taken exclusively; what is picked in them is implied.
        variant: which of the alternatives of the request was chosen; then the order of `picked` is recorded, too.
    """

    picked: Sequence[Picked]
    slots: int = 1
    whole: tuple[int, ...] = ()
    variant: int | None = None


class Alternative(NamedTuple):
    """One of the alternatives of a request, for its refusal.

    Args:
        lacks: returns why it fails although the machine has enough of everything, as sentences without their full stop.
        asked: the closest request that a jobspec can express; None if the machine does not have what it names.
        name: what it is called, empty for the only one.
    """

    lacks: Callable[[], Sequence[str]]
    asked: Request | None
    name: str = ""


class SupplierDraws(NamedTuple):
    """What pools draw by themselves: the units of each supplier, and (pool, supplier, units)."""

    units: Mapping[int, int]
    rows: Int64


_NOTHING_DRAWN: Final = SupplierDraws({}, NO_ROWS)


class Offer:
    """What a rule chooses from.

    Args:
        situation: what is free in a window.
        policy: the order of nodes, where the rule leaves it open.
        returned: the pools that were returned last, for rules that prefer them.
        facts: what rules have computed about the machine, by the class that computes it.
    """

    __slots__ = ("facts", "policy", "returned", "situation")

    def __init__(self, situation: Situation, policy: Policy, returned: Returned, facts: dict[type, Any]) -> None:
        self.situation, self.policy, self.returned, self.facts = situation, policy, returned, facts

    def is_supplied(self, taken: Iterable[tuple[int, int]]) -> bool:
        """Whether suppliers have what these pools, with these units, draw by themselves.  Cost: nothing if no pool draws."""
        return not self.situation.typology.drawn_by_itself or self.drawn(taken) is not None

    def drawn(self, taken: Iterable[tuple[int, int]]) -> SupplierDraws | None:
        """What these pools draw by themselves where all of their units are taken; None if suppliers have too little.

        A type of which units are taken themselves is not drawn, nor is one of the same auxiliary graph.
        """
        situation, typology = self.situation, self.situation.typology
        if not typology.drawn_by_itself:
            return _NOTHING_DRAWN
        total: dict[int, int] = {}
        for v, units in taken:
            total[v] = total.get(v, 0) + units
        said = typology.said({situation.structure.type.item(v) for v in total})
        whole = [v for v, units in total.items() if units == situation.size[v]]
        given: dict[int, int] = {}
        rows: list[tuple[int, int, int]] = []
        for kind in typology.drawn_by_itself.keys() - said:
            for pool, _, parts in (charge for v in whole for charge in typology.charged_by_itself(v, kind)):
                if parts is None:
                    return None  # nothing supplies it
                for givers, number in parts:
                    left = number
                    for u in givers:
                        units = min(left, situation.free(u) - given.get(u, 0))
                        if units > 0:
                            given[u] = given.get(u, 0) + units
                            rows.append((pool, u, units))
                            left -= units
                    if left:
                        return None
        return SupplierDraws(given, np.array(sorted(rows), np.int64).reshape(-1, 3)) if rows else _NOTHING_DRAWN

    def first_supplied(self, pools: Sequence[tuple[int, int]], number: int) -> list[tuple[int, int]] | None:
        """The first `number` of these pools, with their units, that suppliers can feed together, in the order of the pools.

        Errors: LimitExceeded, undecided, after many combinations.
        """
        chosen: list[int] = []
        at = 0
        for _ in range(COMBINATIONS_MAX):
            if len(chosen) == number:
                return [pools[each] for each in chosen]
            if len(pools) - at < number - len(chosen):
                if not chosen:
                    return None
                at = chosen.pop() + 1
                continue
            if self.is_supplied([pools[each] for each in (*chosen, at)]):
                chosen.append(at)
            at += 1
        message = f"undecided after {COMBINATIONS_MAX} combinations of nodes, whose suppliers have too little for each"
        raise LimitExceeded(message, where="suppliers", hint="request fewer nodes")


class Chooser(Rule, ABC):
    """What the rule of a request does.  It has no state of its own."""

    __slots__ = ()

    @abstractmethod
    def asked(self, request: Request, typology: Typology) -> Request:
        """The closest request that a jobspec can express, on this machine.

        Errors: InfeasibleRequest for a type that the machine does not have.
        """

    @abstractmethod
    def choose(self, offer: Offer) -> Choice | None:
        """The units to take, or None if there are not enough.

        Errors: LimitExceeded if it gives up; InfeasibleRequest for what the machine never allows.
        """

    @abstractmethod
    def alternatives(self, request: Request, offer: Offer) -> Sequence[Alternative]:
        """What would satisfy it, for a refusal."""


def chooser(rule: Rule) -> Chooser:
    """The rule of a request as what picks its units.  Errors: UsageError for one that picks nothing."""
    if isinstance(rule, Chooser):
        return rule
    raise UsageError(f"the rule of a request is a Chooser, not {rule!r:.80}")


def free_units(situation: Situation, vertices: Int32) -> Int64:
    """Units of each of these pools (ascending) that a request may take in the window.

    A pool in use below has none, and neither has one that is only allocated exclusively and is not free as a whole.
    Cost: one slice of the planner where everything is up and eligible; else a query for each pool.
    """
    if not len(vertices):
        return np.zeros(0, np.int64)
    structure = situation.structure
    if situation.ideal:
        free = structure.units[vertices].astype(np.int64)
    else:
        first, last = int(vertices[0]), int(vertices[-1])
        free = situation.planner.free_slice(first, last + 1, situation.start, situation.end)[vertices - first]
    if situation.hinders or not situation.eligible.everywhere:
        free = np.array([situation.free(v) for v in vertices.tolist()], np.int64)
        only_whole = np.array([situation.only_whole(v) and not situation.is_clear(v) for v in vertices.tolist()])
        free[only_whole] = 0
    inner = np.flatnonzero((structure.end[vertices] > vertices + 1) & (free > 0))
    for at in inner.tolist():
        if situation.is_busy_below(int(vertices[at])):
            free[at] = 0
    return free


def placed(choice: Choice | None, offer: Offer, counts: Counts) -> Placement | None:
    """What a rule chose, as the placement of a request; None without a choice, or if suppliers cannot give what its pools draw.

    Args:
        counts: of the placement.
    """
    if choice is None:
        return None
    situation, size = offer.situation, offer.situation.size
    taken: dict[int, int] = {}
    if choice.whole:
        stop = situation.stop
        covers = [(v, stop[v]) for v in choice.whole]
        for _, v, units in choice.picked:
            if units and not any(first <= v < end for first, end in covers):
                taken[v] = taken.get(v, 0) + units
        taken.update((v, size[v]) for v in choice.whole)
    else:
        covers = []
        for _, v, units in choice.picked:
            if units:
                taken[v] = taken.get(v, 0) + units
    drawn = offer.drawn(taken.items())
    if drawn is None:
        return None
    own = every = sorted(taken)
    if drawn.units:
        for account, units in drawn.units.items():
            taken[account] = taken.get(account, 0) + units
        every = sorted(taken)
    vertices = np.array(every, np.int32)
    amounts = np.array([taken[v] for v in every], np.int64)
    slots = _one_slot(vertices, own) if choice.slots == 1 and not covers else _slots(choice, vertices, covers)
    return Placement(
        vertices,
        amounts,
        amounts == situation.accounts.size[vertices],
        _NO_POOLS,
        (slots,),
        counts,
        situation.start,
        situation.end,
        policy=offer.policy.name,
        drawn=drawn.rows,
        picked=tuple(choice.picked),
        variant=choice.variant,
    )


def _one_slot(vertices: Int32, own: Sequence[int]) -> SlotGroup:
    if len(own) == len(vertices):
        return _everything(len(own))
    return SlotGroup(None, np.array([0, len(own)]), vertices.searchsorted(np.array(own, np.int32)))


@lru_cache(maxsize=256)
def _everything(number: int) -> SlotGroup:
    """One slot that has all pools of a placement, `number` of them."""
    starts, picks = np.array([0, number]), np.arange(number)
    starts.flags.writeable = picks.flags.writeable = False
    return SlotGroup(None, starts, picks)


def _slots(choice: Choice, vertices: Int32, covers: list[tuple[int, int]]) -> SlotGroup:
    """The pools of each slot; a pool taken as a whole is in the slots of what is picked in it."""
    inside: list[set[int]] = [set() for _ in range(choice.slots)]
    for slot, v, units in choice.picked:
        if units:
            around = next((first for first, end in covers if first < v < end), v)
            inside[slot].add(int(vertices.searchsorted(np.int32(around))))
    starts = np.cumsum([0, *map(len, inside)])
    return SlotGroup(None, starts, np.array([at for some in inside for at in sorted(some)], np.int64))
