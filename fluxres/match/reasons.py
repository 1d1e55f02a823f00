"""Why a request does not match: for each of its parts, the number of candidates and what ruled them out.

A refusal without reasons leaves the user guessing.  Every candidate is counted under the first thing that rules it out, in the
order of `Survey.ruled_out`: its properties, its id, its unit, its state and that of its suppliers, the partition, the constraint,
whether it is a pass-through pool, an exclusive holding above it, its own holders, what others hold below it, and finally what it
lacks inside.  Candidates that remain are good enough on their own; if they are
enough for every part, then the parts compete with each other, and the refusal says so.

Counting is vectorised and complete.  Names of holders come from a callback, because a planner knows no jobs, and only for some of
the pools (`limits.WHY_POOLS_MAX`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property

import msgspec
import numpy as np

from fluxres import clock, limits
from fluxres.arrays import Int32, Int64, Mask
from fluxres.documents.document import plural
from fluxres.errors import LimitExceeded
from fluxres.graph.kinds import is_state
from fluxres.match.chooser import Alternative
from fluxres.match.demand import Counts, Demand, Plan
from fluxres.match.plan import plan as compile_plan
from fluxres.match.query import Query
from fluxres.match.refusal import Cause, PartReport, listed, units_of
from fluxres.match.situation import having, unknown_hosts, unknown_properties
from fluxres.match.supplies import Supplies
from fluxres.match.traverser import Traverser
from fluxres.match.vector import Search
from fluxres.syntax import unit
from fluxres.syntax.constraint import hosts_of, required
from fluxres.syntax.vertex import SLOT

Holders = Callable[[int, int, int], Sequence[tuple[str, int]]]
"""(job, until in ticks) of the jobs that hold units of a vertex in a window."""


def explain(query: Query, plan: Plan, start: int, end: int, holders: Holders | None) -> tuple[PartReport, ...]:
    """A report for every part of a request.

    Args:
        plan: of the query, or another one of the same request.

    Cost: vector operations over the pools of each requested type, and `limits.WHY_POOLS_MAX` pools inspected for each cause.
    """
    survey = Survey(query, plan, start, end, holders)
    return tuple(survey.reports(plan.demands, 1))


def of_alternatives(
    query: Query, alternatives: Sequence[Alternative], start: int, end: int, holders: Holders | None
) -> tuple[tuple[PartReport, ...], tuple[str, ...]]:
    """Why no alternative of a request matches: what of its types is short, as parts if there is one alternative, else as
    sentences; and what its rule notes beyond that.

    Types say how much there is in the whole machine; the rule notes what nodes lack where there is enough of each.
    """
    parts: tuple[PartReport, ...] = ()
    notes: list[str] = []
    for each in alternatives:
        short: tuple[PartReport, ...] = ()
        if each.asked is not None:
            plan = compile_plan(each.asked, query.node_table.typology)
            reports = explain(msgspec.structs.replace(query, plan=plan), plan, start, end, holders)
            reports = tuple(report for report in reports if report.type != SLOT or report.asked > 1)  # nodes are left to the rule
            short = tuple(report for report in reports if report.is_short)
            if len(alternatives) == 1:
                parts = reports
        notes += [f"{each.name}{report.sentence().removesuffix('.')}" for report in short if each.name]
        notes += [] if short else [f"{each.name}{text}" for text in each.lacks()]
    return parts, tuple(notes)


def enough(plan: Plan, attempt: Callable[[Counts], bool]) -> tuple[dict[str, int], bool]:
    """By place, the largest smaller count with which the request would match, other counts unchanged; and whether one is
    undecided.

    Args:
        attempt: whether there is a match for these counts.
    """
    found: dict[str, int] = {}
    for demand in plan.all:
        if demand.own:
            continue  # not part of the request
        low, high = 0, demand.count.min - 1
        while low < high or (low == high > 0 and demand.place not in found):
            middle = (low + high + 1) // 2
            try:
                fits = attempt((*plan.lowest[: demand.number], middle, *plan.lowest[demand.number + 1 :]))
            except LimitExceeded:
                return found, True  # all attempts share one bound
            if fits:
                found[demand.place] = low = middle
                if low == high:
                    break
            else:
                high = middle - 1
    return found, False


class Survey:
    """Examines the candidates of each part of a request that does not match in one situation."""

    def __init__(self, query: Query, plan: Plan, start: int, end: int, holders: Holders | None) -> None:
        self.query = query
        self.situation = situation = query.situation(start, end)
        self.structure = situation.structure
        self.plan = plan
        self.holders = holders
        self.policy = query.policy
        planner = situation.planner
        n = self.structure.n
        self.busy = np.zeros(0, np.int32) if situation.ideal else planner.busy(0, n, situation.start, situation.end)
        self.free = self.structure.units if situation.ideal else planner.free_slice(0, n, situation.start, situation.end)

    @cached_property
    def trial(self) -> Traverser:
        """Looks at single pools."""
        return Traverser(self.situation, self.plan, self.plan.lowest, self.policy)

    @cached_property
    def supplies(self) -> Supplies:
        return Supplies(self.situation, self.plan)

    def reports(self, demands: tuple[Demand, ...], times: int) -> Iterator[PartReport]:
        for demand in demands:
            number = times * demand.count.min
            if demand.charged or demand.upstream:
                yield self.supplied(demand, times)
            elif not demand.is_slot or demand.confined:
                yield self.report(demand, number)
            yield from self.reports(demand.children, number)

    def report(self, demand: Demand, asked: int) -> PartReport:
        typology = self.situation.typology
        pools = self.situation.eligible.candidates(typology.node if demand.is_slot else demand.kind)
        causes: list[Cause] = []
        left = np.ones(len(pools), np.bool_)
        for code, out in self.ruled_out(demand, pools):
            out = out & left
            if out.any():
                causes.append(self.cause(code, pools[out], demand))
                left &= ~out
        rest = pools[left]
        room = self.room(demand, rest)
        if demand.children and len(rest):
            room = self.instances(demand, rest, asked if demand.is_slot else 1)
            lacking = room == 0
            if lacking.any():
                causes.append(self.inside(demand, rest[lacking]))
                rest, room = rest[~lacking], room[~lacking]
        elif room.sum() < asked and (in_use := self.only_in_part(demand, rest)).any():
            causes.append(self.cause("below", rest[in_use], demand))
        if room.sum() < asked:
            causes += self.held_in_part(demand, rest)
        available = int(room.sum())
        is_amount = not demand.is_slot and not demand.children and bool((self.structure.size[pools] > 1).any())
        return PartReport(
            demand.place,
            demand.type,
            asked,
            len(pools),
            len(rest),
            available,
            tuple(causes),
            unit=self.unit_of(demand, pools),
            is_amount=is_amount,
            repeats=asked // max(demand.count.min, 1),
        )

    def supplied(self, demand: Demand, times: int) -> PartReport:
        """The report on a charged demand; its candidates are its suppliers."""
        found = self.supplies.of(demand, times, self.trial.candidates_but_for_charges)
        causes: list[Cause] = []
        if found.room < found.asked:
            worthless = [givers[0] for givers in found.short if not demand.per_unit(self.situation.accounts.unit(givers[0]))]
            if worthless:
                causes.append(self.cause("unit", np.array(worthless, np.int32), demand))
            short = [givers for givers in found.short if givers[0] not in set(worthless)]
            below = [givers for givers in short if any(map(self.supplies.is_in_use_below, givers))]
            if below:
                causes.append(self.cause("below", np.array([givers[0] for givers in below], np.int32), demand))
                short = [givers for givers in short if givers not in below]
            if short:
                some = short[: limits.WHY_POOLS_MAX]  # those with the least left
                paths = self.paths(np.array([givers[0] for givers in some], np.int32))
                pools = [v for givers in some for v in givers][: limits.WHY_POOLS_MAX]
                causes.append(Cause("supply", len(short), paths, self.who(pools), tuple(map(self.supplies.in_words, some))))
            if found.astray and demand.to is not None:
                astray = np.array(found.astray, np.int32)
                causes.append(Cause("route", len(astray), self.paths(astray), (), (demand.to,)))
        left = found.suppliers - len(found.short)
        suppliers = self.situation.typology.vertices(demand.kind)
        if not len(suppliers):  # what pools draw is named after a graph
            suppliers = np.array([givers[0] for givers in found.short], np.int32)
        return PartReport(
            demand.place,
            demand.type,
            found.asked,
            found.suppliers,
            left,
            found.room,
            tuple(causes),
            *found.each,
            unit=self.unit_of(demand, suppliers),
            is_amount=True,
            repeats=times,
        )

    def unit_of(self, demand: Demand, pools: Int32) -> str | None:
        """The unit in which a demand is counted: its own, or that of the pools."""
        found = self.situation.typology.units_of(pools)
        return demand.wanted_unit or (next(iter(found)) if len(found) == 1 else None)

    def ruled_out(self, demand: Demand, pools: Int32) -> Iterator[tuple[str, Mask]]:
        """Each possible cause with a mask of the candidates it rules out, in the order in which causes count."""
        situation, structure = self.situation, self.structure
        if demand.properties:
            yield "property", ~having(structure, pools, demand.properties)
        yield "id", ~np.isin(pools, self.trial.of_ids(demand, pools)) if demand.named else np.zeros(len(pools), np.bool_)
        worthless = [n for n in np.unique(structure.kind[pools]).tolist() if not demand.per_unit(structure.kinds[n].unit)]
        yield "unit", np.isin(structure.kind[pools], worthless)
        if not situation.ideal:
            yield "state", structure.outage.is_stated(pools)
            yield "cut-off", structure.outage.is_cut_off(pools)
        if situation.eligible.partition is not None:
            yield "partition", situation.eligible.elsewhere(pools)
        if not situation.eligible.everywhere:
            yield "constraint", np.array([not situation.eligible.of(v) for v in pools.tolist()])
        if not demand.is_slot and (demand.whole or not demand.children):
            yield "way", structure.ways[pools]
        own = np.isin(pools, self.busy)
        none_free = (self.free[pools] == 0) & ~structure.ways[pools]
        yield "held-above", none_free & ~own & (structure.size[pools] > 0)
        whole = (demand.whole or (not demand.children and not demand.shared)) and not demand.is_slot
        single = (structure.size[pools] == 1) | demand.whole
        yield "held", (self.free[pools] < structure.units[pools]) if demand.whole else none_free
        if whole or self.policy.node_exclusive:
            first, stop = self.busy.searchsorted(pools, "right"), self.busy.searchsorted(structure.end[pools])
            yield "below", (first < stop) & (single | self.policy.node_exclusive)

    def room(self, demand: Demand, pools: Int32) -> Int64:
        """What each remaining pool has: 1 for itself, or its free units in the unit of the request."""
        if demand.children or not len(pools):
            return np.ones(len(pools), np.int64)
        worth = self.situation.typology.most_worth(demand)
        units = self.structure.size[pools] if demand.whole else self.free[pools] - self.only_in_part(demand, pools)
        return (units * worth.numerator // worth.denominator).astype(np.int64)

    def only_in_part(self, demand: Demand, pools: Int32) -> Mask:
        """Pools with all units free that can give all except one: all would be the pool, in which something is held."""
        if demand.whole or demand.children:
            return np.zeros(len(pools), np.bool_)
        first, stop = self.busy.searchsorted(pools, "right"), self.busy.searchsorted(self.structure.end[pools])
        sizes = self.structure.size[pools]
        found: Mask = (first < stop) & (sizes > 1) & (self.free[pools] == sizes)
        return found

    def instances(self, demand: Demand, pools: Int32, most: int) -> Int64:
        """How many instances each pool has room for, up to `most`, by numbers where the vector path knows the form.

        Otherwise, of pools with equal contents, one is inspected.  Beyond `limits.WHY_POOLS_MAX` different ones, the rest are
        assumed to have room for one.
        """
        form = self.query.form
        if form is not None and not form.draws and demand is (form.outer if form.node is None else form.node):
            search = Search(self.query, self.situation.start, self.situation.end)
            room = search.room(search.level.vertices.searchsorted(pools), form.amounts(self.plan.lowest).needs)
            return np.minimum(room, most)
        known: dict[object, int] = {}
        found = np.ones(len(pools), np.int64)
        for at, v in enumerate(pools.tolist()):
            inside = (self.trial.likeness.supply(v), self.situation.signature(v))
            if inside not in known and len(known) < limits.WHY_POOLS_MAX:
                known[inside] = self.trial.instances_in(demand, v, most)
            found[at] = known.get(inside, 1)
        return found

    def cause(self, code: str, pools: Int32, demand: Demand) -> Cause:
        situation, structure = self.situation, self.structure
        some = _some_of(pools)
        detail: tuple[str, ...] = ()
        held: list[int] = []
        if code == "state":
            detail = tuple(dict.fromkeys(structure.state_name(structure.unavailable_above(v)) for v in some))
        elif code == "cut-off":
            culprits = dict.fromkeys(u for v in some for u in structure.unavailable_because(v))
            detail = tuple(f"{situation.accounts.said(u)}, which is {is_state(structure.state_name(u))}" for u in culprits)
        elif code == "partition" and situation.eligible.partition is not None:
            detail = (f"'{situation.eligible.partition.name}'",)
        elif code == "constraint":
            targets, constraint = situation.eligible.targets, self.plan.request.constraint
            detail = (
                *unknown_properties(structure, targets, required(constraint)),
                *unknown_hosts(structure, targets, hosts_of(constraint)),
            )
        elif code == "property":
            detail = tuple(unknown_properties(structure, situation.typology.vertices(demand.kind), demand.properties))
        elif code == "unit":
            detail = tuple(dict.fromkeys(situation.accounts.unit(v) or "none" for v in some))
        elif code == "held-above":
            held = [situation.planner.covered_by(v, situation.start, situation.end) for v in some]
        elif code == "held":
            held = some
        elif code == "below":
            held = self.held_in(self.busy, some)
        return Cause(code, len(pools), self.paths(pools), self.who(held), detail)

    def held_in(self, busy: Int32, pools: Sequence[int]) -> list[int]:
        """Pools strictly below some others in which units are held, a bounded number for each of them.

        Args:
            busy: those that count, ascending.
        """
        most = limits.WHY_NAMES_MAX * max(limits.WHY_POOLS_MAX // max(len(pools), 1), 1)
        stops = self.structure.end[pools]
        between = busy.searchsorted(np.array([pools, stops - 1], np.int32).reshape(2, -1), "right").T
        return [u for a, b in between.tolist() for u in busy[a : min(b, a + most)].tolist()]

    def held_in_part(self, demand: Demand, pools: Int32) -> list[Cause]:
        """The holders of a part of the pools that have room: of their units, or of something requested in them."""
        if not demand.children:
            some = pools[(self.free[pools] > 0) & (self.free[pools] < self.structure.units[pools])]
            held = _some_of(some)
        else:
            busy = self.busy_for((demand,) if not demand.is_slot else demand.inside)
            some = pools[busy.searchsorted(pools, "right") < busy.searchsorted(self.structure.end[pools])]
            held = self.held_in(busy, _some_of(some))
        return [Cause("held-in-part", len(some), self.paths(some), self.who(held))] if len(some) else []

    def busy_for(self, demands: Sequence[Demand]) -> Int32:
        """Held pools, as far as that leaves less for some demands."""
        below, wanted = self.situation.typology.below, self.sought(demands)
        kinds = [kind for kind in np.unique(self.structure.type[self.busy]).tolist() if kind in wanted or below[kind] & wanted]
        return self.busy[np.isin(self.structure.type[self.busy], kinds)]

    def sought(self, demands: Sequence[Demand]) -> set[int]:
        """Types of pools that are taken, and of the pools in them."""
        below = self.situation.typology.below
        found: set[int] = set()
        for demand in demands:
            if demand.is_slot or (demand.children and not demand.whole):
                found |= self.sought(demand.children)
            elif not demand.charged:
                found |= {demand.kind, *below[demand.kind]}
        return found

    def inside(self, demand: Demand, pools: Int32) -> Cause:
        """What the pools lack: the parts of which the first of them has too little."""
        v = int(pools[0])
        # The parts of a slot that are not in its node are not searched for there.
        beside = {child.number for child in demand.beside}
        places = [(child, 0 if child.number in beside else v) for child in demand.children]
        # A charge cannot be tested without the pools that it is for.
        alone = [(child, below) for child, below in places if child.charged != "siblings"]
        lacking = [(child, below) for child, below in alone if not self.trial.has_room_for(child, below)]
        lacking = lacking or [(child, below) for child, below in places if child.charged == "siblings"]
        busy = self.busy_for([child for child, below in lacking if below == v])
        held = self.held_in(busy, _some_of(pools))
        words = tuple(self.in_words(child, below, pools) for child, below in lacking)
        return Cause("inside", len(pools), self.paths(pools), self.who(held), words)

    def in_words(self, demand: Demand, v: int, pools: Int32) -> str:
        """A part that pools have no room for; `v` is the first of these pools."""
        if demand.is_slot:
            number = demand.count.min
            return f"room for {plural(number, 'instance')} of slot {demand.label!r}"
        every = self.situation.typology.vertices(demand.kind)
        if not len(every) and demand.charged:
            every = np.array([givers[0] for givers in self.supplies.lacking(demand, v) or ()], np.int32)
        of_unit, least = self.unit_of(demand, every), demand.count.min
        most = least
        if demand.own:
            draws = self.situation.typology.draws.total(demand.type)[pools]
            least, most = int(draws.min()), int(draws.max())
        if demand.charged or (self.situation.accounts.size[every] > 1).any():
            what = f"{unit.exact(least, of_unit)} to " * (most > least) + units_of(most, demand.type, of_unit)
        else:
            what = plural(least, demand.type)
        return what + self.short_on_the_way(demand, v)

    def short_on_the_way(self, demand: Demand, v: int) -> str:
        """The suppliers of a pool that have too little left, in words; empty for a demand that is not charged."""
        if not demand.charged:
            return ""
        short = self.supplies.lacking(demand, v)
        if short:
            return f" ({listed([self.supplies.in_words(u) for u in short])})"
        return self.missing(demand) if short is None else ""

    def missing(self, demand: Demand) -> str:
        """What a pool that nothing supplies lacks."""
        return " (nothing supplies it)" if demand.to is None else f" (no route to {demand.to})"

    def paths(self, pools: Int32) -> tuple[str, ...]:
        return tuple(self.situation.accounts.where(v) for v in pools[: limits.WHY_NAMES_MAX].tolist())

    def who(self, held: list[int]) -> tuple[tuple[str, float], ...]:
        """Each job once, with the latest end found."""
        if self.holders is None:
            return ()
        until: dict[str, int] = {}
        for v in dict.fromkeys(held):
            for job, end in self.holders(v, self.situation.start, self.situation.end):
                until[job] = max(until.get(job, 0), end)
        return tuple((job, clock.seconds(end)) for job, end in until.items())


def _some_of(pools: Int32) -> list[int]:
    """A sample of pools to inspect, spread over the whole array: pools of one node often have one holder."""
    step = -(-len(pools) // limits.WHY_POOLS_MAX)
    some: list[int] = pools[:: max(step, 1)].tolist()
    return some
