"""The rules A1 to A5 tested on live records, from the records alone and against what is kept beside them.

The planner's rows and the `shared` counters are derived from the records; an audit derives them again, the
slow way, and compares.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from fluxres.allocation import steps
from fluxres.allocation.holdings import ELSEWHERE
from fluxres.allocation.records import Records
from fluxres.clock import FOREVER
from fluxres.graph.kinds import EXCLUSIVE
from fluxres.graph.structure import Problem

_Rule = Iterator[Problem]


def check_records(records: Records) -> list[Problem]:
    """Problems of these records; empty when rules A1 to A5 hold.

    Cost: O(spans x holders of a pool), and the pools held below each pool held whole.
    """
    return [
        problem
        for rule in (
            _within_size,
            _given_whole,
            _exclusive_alone,
            _implied_below_whole,
            _one_job_inside,
            _shared_counted,
            _index_complete,
            _planner_agrees,
        )
        for problem in rule(records)
    ]


def _error(records: Records, v: int, message: str) -> Problem:
    return Problem("error", records.accounts.where(v), message)


def _total(holders: dict[str, steps.Steps]) -> steps.Steps:
    total: steps.Steps = ()
    for held in holders.values():
        for s, e, amount in held:
            total = steps.add(total, s, e, amount)
    return total


def _within_size(records: Records) -> _Rule:
    # A1, A2: units of a pool are alike, so no unit has two holders when the sum stays within the size.
    for v, holders in records.held.items():
        size = records.accounts.units.item(v)
        for s, _e, amount in _total(holders):
            if amount > size:
                yield _error(records, v, f"A1: {amount} of {size} units are held from tick {s} on")


def _given_whole(records: Records) -> _Rule:
    # A3, RFC 16: what may only be given whole is never given in part.
    for v, holders in records.held.items():
        size = records.accounts.size.item(v)
        if not records.accounts.flags.item(v) & EXCLUSIVE:
            continue
        for owner, held in holders.items():
            if any(amount != size for _, _, amount in held):
                yield _error(
                    records, v, f"A3: {records.job_behind(owner)} holds a part of what is only given whole ({size} units)"
                )


def _exclusive_alone(records: Records) -> _Rule:
    # A3, A5: below a pool held whole nobody holds anything, its holder has no records there.
    accounts = records.accounts
    in_order = sorted(records.held)
    for v in in_order:
        size, stop = accounts.size.item(v), accounts.end.item(v)
        below = in_order[bisect_right(in_order, v) : bisect_left(in_order, stop)]
        if not below:
            continue
        for owner, held in records.held[v].items():
            # Other instances are many: together they may hold all of a pool, and none of them what is below.
            for s, e in steps.whole(held, 0, FOREVER, 0, size) if owner != ELSEWHERE else ():
                yield from _below_whole(records, v, owner, below, s, e)


def _below_whole(records: Records, v: int, owner: str, below: list[int], start: int, end: int) -> _Rule:
    job = records.job_behind(owner)
    staged = owner != job
    for u in below:
        for other, held in records.held[u].items():
            if any(steps.within(held, start, end)) and not (staged and other == job):
                who = records.job_behind(other)
                yield _error(records, u, f"A3: {who} holds it below {records.accounts.where(v)}, held whole by {job}")


def _implied_below_whole(records: Records) -> _Rule:
    # A6: what is kept for the end of a whole holding lies below one, of the same owner and at every moment.
    for owner, pools in records.implied.items():
        for v, held in pools.items():
            for s, e, _ in held:
                for lo, _hi in steps.without(s, e, records.whole_above(v, owner, s, e)):
                    job = records.job_behind(owner)
                    yield _error(records, v, f"A6: implied for {job} from tick {lo} on, and {job} holds nothing above it whole")


def _one_job_inside(records: Records) -> _Rule:
    # A8: two jobs never use an exclusive pool at the same moment, whatever parts of it they hold.
    for v in records.structure.exclusive_composites.tolist():
        stop = records.accounts.end.item(v)
        spans = [
            (s, e, u, records.job_behind(owner))
            for owner in records.shared.get(v, ())
            for u in records.pools_of[owner]
            if v < u < stop
            for s, e, _ in records.held[u][owner]
        ]
        latest: dict[str, tuple[int, int]] = {}
        for s, e, u, job in sorted(spans):
            for other, (until, w) in latest.items():
                if other != job and s < until:
                    where = records.accounts.where
                    yield _error(records, v, f"A8: exclusive, and {other} holds {where(w)} while {job} holds {where(u)}")
            latest[job] = max(latest.get(job, (e, u)), (e, u))


def _shared_counted(records: Records) -> _Rule:
    # A4: every pool above a record counts it once.
    counted: dict[int, dict[str, int]] = {}
    for v, holders in records.held.items():
        for u in records.accounts.ancestors(v):
            for owner in holders:
                below = counted.setdefault(u, {})
                below[owner] = below.get(owner, 0) + 1
    for u in counted.keys() | records.shared.keys():
        if counted.get(u) != records.shared.get(u):
            yield _error(records, u, f"A4: shared counts {records.shared.get(u)}, the records give {counted.get(u)}")


def _index_complete(records: Records) -> _Rule:
    by_owner: dict[str, set[int]] = {}
    for v, holders in records.held.items():
        for owner, held in holders.items():
            by_owner.setdefault(owner, set()).add(v)
            if held != steps.canonical(list(held)) or not held:
                yield _error(records, v, f"A6: the spans of {owner!r} are not in order: {held}")
    if by_owner != records.pools_of:
        yield Problem("error", "jobs", "A6: the index of jobs disagrees with the records")


def _planner_agrees(records: Records) -> _Rule:
    accounts, planner = records.accounts, records.planner
    used = planner.busy(0, accounts.n, 0, FOREVER).tolist()
    for v in set(used) ^ records.held.keys():
        yield _error(
            records, v, f"A1: the planner has {planner.segments(v)}, the records know of {list(records.held.get(v, ()))}"
        )
    for v, holders in records.held.items():
        have = list(planner.segments(v))
        total = list(_total(holders))
        if have != total:
            yield _error(records, v, f"A1: the planner has {have}, the records give {total}")
        if accounts.end.item(v) > v + 1:
            yield from _covered(records, v, holders)


def _covered(records: Records, v: int, holders: dict[str, steps.Steps]) -> _Rule:
    # A5: the first child sees exactly the moments at which somebody holds all of its parent.
    size = records.accounts.size.item(v)
    for moment in sorted({t for held in holders.values() for s, e, _ in held for t in (s, e) if t < FOREVER}):
        whole = any(steps.amount_at(held, moment) == size for owner, held in holders.items() if owner != ELSEWHERE)
        if whole != (records.planner.covered_by(v + 1, moment, moment + 1) == v):
            yield _error(records, v, f"A5: the planner {'does not cover' if whole else 'covers'} it at tick {moment}")
    for message in records.planner.check():
        yield Problem("error", "planner", message)
