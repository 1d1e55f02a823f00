"""Requests that another system's rules answer: a `Chooser` picks the units, in place of the search and its policies.

A jobspec says how many pools of a type are wanted, and a policy says which are preferred.  It cannot say that the slots of one
item come from one instance, that the fullest instance which suffices goes first, or that a placement is found whenever there is
one. HyperQueue, canary and CTest have such rules.  A request in the language of one of them carries its rule.  The rule sees what
is free in a window and names units; everything else (windows, the earliest start, reservations, records, refusals) is as for any
request.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from fluxres.errors import InfeasibleRequest
from fluxres.graph.auxiliary import Int32
from fluxres.match.demand import Plan
from fluxres.match.result import NO_ROWS, Placement, SlotGroup
from fluxres.match.situation import Situation


class Picked(NamedTuple):
    """What one item of a request gets.

    Args:
        slot: number of the slot that the item belongs to, from 0.
        vertex: the pool.
        units: 0 for an item that names a pool and takes nothing of it.
    """

    slot: int
    vertex: int
    units: int


class Choice(msgspec.Struct, frozen=True):
    """The answer of a chooser.

    Args:
        picked: in the order of the items.
        slots: the number of slots.
        whole: pools taken exclusively; what is picked in them is implied.
    """

    picked: tuple[Picked, ...]
    slots: int = 1
    whole: tuple[int, ...] = ()


class Chooser(Protocol):
    """The rule of a request.  It is a value: equal requests have equal rules, and it has no state of its own."""

    def choose(self, situation: Situation) -> Choice | None:
        """The units to take, or None if there are not enough.

        Errors: LimitExceeded if it gives up; InfeasibleRequest for what the machine never allows.
        """

    def refusal(self, situation: Situation) -> str:
        """Why `choose` found nothing, as a sentence without its full stop."""

    def __hash__(self) -> int: ...


def free_units(situation: Situation, vertices: Int32) -> NDArray[np.int64]:
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


def chosen(plan: Plan, situation: Situation, policy: str) -> Placement | None:
    """What the rule of a request picks in a window; None if it finds nothing, or suppliers cannot give what its pools draw."""
    rule = plan.request.chooser
    assert rule is not None  # callers check this
    choice = rule.choose(situation)
    if choice is None:
        return None
    taken: dict[int, int] = dict.fromkeys(choice.whole, 0)
    size, stop = situation.size, situation.stop
    covers = [(v, stop[v]) for v in choice.whole]
    for _, v, units in choice.picked:
        if units and not any(first < v < end for first, end in covers):
            taken[v] = taken.get(v, 0) + units
    for v in choice.whole:
        taken[v] = int(size[v])
    drawn = _drawn(situation, [v for v, units in taken.items() if units == size[v]])
    if drawn is None:
        return None
    for account, units in drawn[0].items():
        taken[account] = taken.get(account, 0) + units
    vertices = np.array(sorted(taken), np.int32)
    amounts = np.array([taken[v] for v in vertices.tolist()], np.int64)
    return Placement(
        vertices,
        amounts,
        amounts == situation.accounts.size[vertices],
        np.zeros(0, np.int32),
        (_slots(choice, vertices, covers),),
        plan.lowest,
        situation.start,
        situation.end,
        policy=policy,
        drawn=drawn[1],
        picked=choice.picked,
    )


def _slots(choice: Choice, vertices: Int32, covers: list[tuple[int, int]]) -> SlotGroup:
    """The pools of each slot; a pool taken as a whole is in the slots of what is picked in it."""
    inside: list[set[int]] = [set() for _ in range(choice.slots)]
    for slot, v, units in choice.picked:
        if units:
            around = next((first for first, end in covers if first < v < end), v)
            inside[slot].add(int(vertices.searchsorted(np.int32(around))))
    starts = np.cumsum([0, *map(len, inside)])
    return SlotGroup(None, starts, np.array([at for some in inside for at in sorted(some)], np.int64))


def _drawn(situation: Situation, whole: list[int]) -> tuple[dict[int, int], NDArray[np.int64]] | None:
    """What whole pools draw by themselves: the units of each supplier, and (pool, supplier, units); None if one has too few.

    Errors: InfeasibleRequest for what nothing supplies.
    """
    typology = situation.typology
    taken: dict[int, int] = {}
    rows: list[tuple[int, int, int]] = []
    for kind, name in typology.drawn_by_itself.items():
        for v in whole:
            for pool, units, parts in typology.charged_by_itself(v, kind):
                if parts is None:
                    where = situation.structure.where(pool)
                    raise InfeasibleRequest(f"it draws {units} of {name}, and nothing supplies it", where=where)
                for givers, number in parts:
                    left = number
                    for u in givers:
                        given = min(left, situation.free(u) - taken.get(u, 0))
                        if given > 0:
                            taken[u] = taken.get(u, 0) + given
                            rows.append((pool, u, given))
                            left -= given
                    if left:
                        return None
    return taken, np.array(sorted(rows), np.int64).reshape(-1, 3) if rows else NO_ROWS
