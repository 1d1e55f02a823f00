"""Check rules A1 to A6, A8, C1 and F2 on live records.

The planner's rows, the `shared` counters and the index of pools are derived from the records; the audit derives them again, the
slow way, and compares.  It assumes nothing: records of pools, stages or jobs that do not exist are findings.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import pairwise

from fluxres.allocation import steps
from fluxres.allocation.drawn import Consumers
from fluxres.allocation.records import ELSEWHERE, STAGE_OWNER, Records
from fluxres.clock import FOREVER
from fluxres.graph.kinds import EXCLUSIVE
from fluxres.graph.structure import Problem

_Rule = Iterator[Problem]


def check_records(records: Records) -> list[Problem]:
    """Problems of these records; empty if the rules hold.

    Records of pools that do not exist end the audit early, because nothing else can be checked then.
    Cost: O(spans x holders of a pool), and the pools held below each pool held exclusively.
    """
    if lost := list(_pools_there(records)):
        return lost
    return [
        problem
        for rule in (
            _within_size,
            _drawn_is_held,
            _drawn_for_what_is_held,
            _drawn_indexed,
            _given_whole,
            _exclusive_alone,
            _implied_below_whole,
            _one_job_inside,
            _stages_hold,
            _shared_counted,
            _spans_in_order,
            _index_complete,
            _planner_agrees,
            _planner_sound,
        )
        for problem in rule(records)
    ]


def _error(records: Records, v: int, message: str) -> Problem:
    return Problem("error", records.accounts.where(v), message)


def _job(records: Records, owner: str) -> str:
    """The job of an owner, for messages; a stage that no longer exists has none."""
    stage = owner.removeprefix(STAGE_OWNER)
    if owner.startswith(STAGE_OWNER) and stage not in records.stages:
        return f"stage {stage}, which no longer exists,"
    return records.job_behind(owner)


def _pools_there(records: Records) -> _Rule:
    n = records.accounts.n
    named = set[int]().union(records.held, records.shared, *records.pools_of.values(), *records.implied.values())
    for ledger in records.drawn.ledgers.values():
        named.update(ledger.held, *ledger.accounts, *(consumers for drawn in ledger.held.values() for consumers in drawn))
    if named and not (min(named) >= 0 and max(named) < n):
        for v in sorted(v for v in named if not 0 <= v < n):
            yield Problem("error", f"vertex {v}", "A1: a record of a pool that does not exist")


def _total(holders: dict[str, steps.Steps]) -> steps.Steps:
    if len(holders) == 1:
        (held,) = holders.values()
        if _is_step_function(held):
            return held
    return steps.joined((span,) for held in holders.values() for span in held)


def _within_size(records: Records) -> _Rule:
    # A1, A2: units of a pool are interchangeable: if their sum is within the size, none has two holders. C1: a pass-through pool
    # has no units.
    for v, holders in records.held.items():
        size = records.accounts.units.item(v)
        for s, e, amount in _total(holders):
            if amount > size:
                owners = [owner for owner, held in holders.items() if steps.touches(held, s, e)]
                rules = "A1, A2" if len(owners) > 1 else "A1"
                of = f"{amount} of {size} units" if size else f"{amount} units of a pass-through pool"
                by = " and ".join(_job(records, owner) for owner in owners)
                yield _error(records, v, f"{rules if size else f'{rules}, C1'}: {of} are held from tick {s} on, by {by}")


def _given_whole(records: Records) -> _Rule:
    # A8, RFC 16: an exclusive pool is never allocated in part.
    for v, holders in records.held.items():
        if not records.accounts.flags.item(v) & EXCLUSIVE:
            continue
        size = records.accounts.size.item(v)
        for owner, held in holders.items():
            if any(amount != size for _, _, amount in held):
                yield _error(
                    records, v, f"A8: {_job(records, owner)} holds a part of what is only allocated exclusively ({size} units)"
                )


def _exclusive_alone(records: Records) -> _Rule:
    # A2, A3, A5: below a pool held exclusively, no other job holds anything, and the holder has no records.
    accounts = records.accounts
    in_order = sorted(records.held)
    for v in in_order:
        size, stop = accounts.size.item(v), accounts.end.item(v)
        below = in_order[bisect_right(in_order, v) : bisect_left(in_order, stop)]
        if not below:
            continue
        for owner, held in records.held[v].items():
            # Several other instances may together hold all of a pool, while none of them holds what is below.
            for s, e in steps.whole(held, 0, FOREVER, 0, size) if owner != ELSEWHERE else ():
                yield from _below_whole(records, v, owner, below, s, e)


def _below_whole(records: Records, v: int, owner: str, below: list[int], start: int, end: int) -> _Rule:
    job = _job(records, owner)
    staged = owner != job
    for u in below:
        for other, held in records.held[u].items():
            # What other instances draw from a shared supplier is not part of the units that this graph has above it.
            if other != ELSEWHERE and steps.touches(held, start, end) and not (staged and other == job):
                who = _job(records, other)
                rules = "A5" if who == job else "A2, A3"
                yield _error(records, u, f"{rules}: {who} holds it below {records.accounts.where(v)}, held exclusively by {job}")


def _implied_below_whole(records: Records) -> _Rule:
    # A6: implied units are below an exclusive pool of the same owner at every moment.
    for owner, pools in records.implied.items():
        job = _job(records, owner)
        if not pools:
            yield Problem("error", "jobs", f"A6: {job} is listed as having implied units, but has none")
        for v, held in pools.items():
            size = records.accounts.size.item(v)
            if not _is_step_function(held) or max(amount for _, _, amount in held) > size:
                yield _error(records, v, f"A6: implied for {job} are {held}, of {size} units")
            for s, e, _ in held:
                for lo, _hi in steps.without(s, e, records.exclusive_above(v, owner, s, e)):
                    yield _error(
                        records, v, f"A6: implied for {job} from tick {lo} on, and {job} holds nothing above it exclusively"
                    )


def _one_job_inside(records: Records) -> _Rule:
    # A8: two jobs never use an exclusive pool at the same time, whatever parts of it they hold.
    composites = records.structure.exclusive_composites.tolist()
    in_order = sorted(records.held) if composites else []
    for v in composites:
        inside = in_order[bisect_right(in_order, v) : bisect_left(in_order, records.accounts.end.item(v))]
        spans = [(s, e, u, _job(records, owner)) for u in inside for owner, held in records.held[u].items() for s, e, _ in held]
        latest: dict[str, tuple[int, int]] = {}
        for s, e, u, job in sorted(spans):
            for other, (until, w) in latest.items():
                if other != job and s < until:
                    where = records.accounts.where
                    yield _error(records, v, f"A8: exclusive, and {other} holds {where(w)} while {job} holds {where(u)}")
            latest[job] = max(latest.get(job, (e, u)), (e, u))


def _stages_hold(records: Records) -> _Rule:
    # A6: a stage holds exactly what it locks, and no stage that no longer exists locks anything.
    for stage, staged in records.stages.items():
        owner, wanted = STAGE_OWNER + stage, dict[int, steps.Steps]()
        for part in staged.parts():
            for v, amount in part.targets:
                wanted[v] = steps.add(wanted.get(v, ()), part.start, part.end, amount)
        for v in sorted({*wanted, *records.pools_with_implied(owner)}):
            expected = wanted.get(v, ())
            held = records.given(v, owner)
            if held != expected:
                yield _error(records, v, f"A6: stage {stage} of {staged.job} locks {expected}, and holds {held}")
    for owner in records.pools_of.keys() | records.implied.keys():
        if owner.startswith(STAGE_OWNER) and owner.removeprefix(STAGE_OWNER) not in records.stages:
            pools = records.pools_with_implied(owner)
            yield from (_error(records, v, f"A6: {_job(records, owner)} holds it") for v in pools)


def _shared_counted(records: Records) -> _Rule:
    # A4: every pool above a record counts the record once.
    counted: dict[int, dict[str, int]] = {}
    for v, holders in records.held.items():
        for u in records.accounts.ancestors(v):
            for owner in holders:
                below = counted.setdefault(u, {})
                below[owner] = below.get(owner, 0) + 1
    for u in counted.keys() | records.shared.keys():
        if counted.get(u) != records.shared.get(u):
            yield _error(records, u, f"A4: shared counts {records.shared.get(u)}, the records give {counted.get(u)}")


def _drawn_is_held(records: Records) -> _Rule:
    # F2: a job does not draw more from an account than it holds of it.
    records.held  # noqa: B018 - batches become records
    owners = {(owner, account) for owner, _, account, _ in records.drawn.rows()}
    for owner, account in sorted(owners):
        held = steps.joined([records.steps_of(account, owner), records.implied.get(owner, {}).get(account, ())])
        if over := steps.excess(records.drawn.total(owner, account), held):
            yield _error(records, account, f"F2: {records.job_behind(owner)} drew {over} more than it holds for its pools")


def _drawn_for_what_is_held(records: Records) -> _Rule:
    # F2: units are drawn only for pools that are held. A stage may draw for what its job holds.
    for owner, ledger in records.drawn.ledgers.items():
        if owner.startswith(STAGE_OWNER):
            continue
        draws, windows = records.draws_of(owner), dict[Consumers, list[tuple[int, int]]]()
        for account, drawn in ledger.held.items():
            for consumers, held in drawn.items():
                if consumers not in windows:
                    windows[consumers] = [w for v in consumers for w in draws.windows_of(v)]
                for s, e, units in held:
                    for lo, _hi in steps.without(s, e, windows[consumers]):
                        what = f"drew {units} for {_all_of(records, consumers)}, and holds nothing of it from tick {lo} on"
                        yield _error(records, account, f"F2: {records.job_behind(owner)} {what}")


def _drawn_indexed(records: Records) -> _Rule:
    # F2: the index by pool is complete.
    for owner, ledger in records.drawn.ledgers.items():
        drawn = {(consumers, account) for account, by_consumers in ledger.held.items() for consumers in by_consumers}
        known = {(consumers, account) for consumers, accounts in ledger.accounts.items() for account in accounts}
        for consumers, account in sorted(drawn ^ known):
            what = "lacks" if (consumers, account) in drawn else "alone has"
            of = f"a draw of {records.job_behind(owner)} for {_all_of(records, consumers)}"
            yield _error(records, account, f"F2: the index of what was drawn {what} {of}")


def _all_of(records: Records, consumers: Consumers) -> str:
    return " and ".join(map(records.accounts.where, consumers))


def _is_step_function(held: steps.Steps) -> bool:
    """Whether spans form a non-empty step function of :mod:`fluxres.allocation.steps`."""
    if len(held) == 1:
        ((s, e, amount),) = held
        return s < e and amount > 0
    return (
        bool(held)
        and all(s < e and amount > 0 for s, e, amount in held)
        and all(a[1] < b[0] or (a[1] == b[0] and a[2] != b[2]) for a, b in pairwise(held))
    )


def _spans_in_order(records: Records) -> _Rule:
    for v, holders in records.held.items():
        for owner, held in holders.items():
            if not _is_step_function(held):
                yield _error(records, v, f"A6: the spans of {_job(records, owner)} are not in order: {held}")


def _index_complete(records: Records) -> _Rule:
    # A6: the index by job is complete, so that freeing a job finds everything it holds.
    by_owner: dict[str, set[int]] = {}
    for v, holders in records.held.items():
        for owner in holders:
            by_owner.setdefault(owner, set()).add(v)
    if by_owner != records.pools_of:
        for owner in by_owner.keys() | records.pools_of.keys():
            held, known = by_owner.get(owner, set()), records.pools_of.get(owner, set())
            for v in sorted(held ^ known):
                what = "lacks it for" if v in held else "gives it to"
                yield _error(records, v, f"A6: the index of jobs {what} {_job(records, owner)}, and the records do not")
            if not held and not known:
                yield Problem("error", "jobs", f"A6: {_job(records, owner)} is in the index of jobs and holds nothing")
    for job in records.slots_of.keys() - by_owner.keys():
        yield Problem("error", "jobs", f"A6: slots of {job} are counted, and it holds nothing")


def _planner_agrees(records: Records) -> _Rule:
    accounts, planner = records.accounts, records.planner
    used = planner.busy(0, accounts.n, 0, FOREVER).tolist()
    for v in sorted(set(used) ^ records.held.keys()):
        owners = [_job(records, owner) for owner in records.held.get(v, ())]
        yield _error(records, v, f"A1: the planner has {planner.segments(v)}, the records know of {owners}")
    for v, holders in records.held.items():
        have = list(planner.segments(v))
        total = list(_total(holders))
        if have != total:
            yield _error(records, v, f"A1: the planner has {have}, the records give {total}")
        if accounts.size.item(v) > 1:
            yield from _covered(records, v, holders)


def _covered(records: Records, v: int, holders: dict[str, steps.Steps]) -> _Rule:
    # A5: the planner covers a pool in exactly the windows in which one job holds all of it; a pool of one unit needs no cover.
    whole: list[tuple[int, int]] = []
    if records.accounts.end.item(v) > v + 1:
        size = records.accounts.size.item(v)
        for s, e in sorted(
            w for owner, held in holders.items() if owner != ELSEWHERE for w in steps.whole(held, 0, FOREVER, 0, size)
        ):
            if whole and s <= whole[-1][1]:
                whole[-1] = (whole[-1][0], max(whole[-1][1], e))
            else:
                whole.append((s, e))
    have = records.planner.covers(v)
    if have != whole:
        yield _error(records, v, f"A5: the planner covers it in {have}, and one job holds all of it in {whole}")


def _planner_sound(records: Records) -> _Rule:
    for v, message in records.planner.findings():
        yield Problem("error", records.accounts.where(v) if v >= 0 else "planner", message)
