"""Why a request does not match: for each of its parts how many candidates there were, and what ruled the others out.

A refusal without reasons sends its reader to guess.  Every candidate is put under the first thing that rules it out, in the
order in which the matcher would meet them: its id, its unit, its state, the constraint, a whole holding above it, its own
holders, what others hold below it, and at last what it lacks inside.  What is left over was good enough by itself; when those are
enough for every part, the parts compete with each other, and the refusal says that too.

Counting is vectorised and complete; names of holders come from a callback, because a planner knows no jobs, and for some of
the pools only (`limits.WHY_POOLS_MAX`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fluxres import clock, limits
from fluxres.errors import LimitExceeded
from fluxres.match.demand import Demand, Plan
from fluxres.match.policy import Policy
from fluxres.match.shortage import Supplies, listed
from fluxres.match.situation import Situation
from fluxres.match.traverser import Traverser
from fluxres.syntax.moment import in_message

Holders = Callable[[int, int, int], Sequence[tuple[str, int]]]
"""(job, until in ticks) of the jobs that hold units of a vertex in a window."""

Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Cause:
    """One thing that rules candidates out.

    Args:
        code: ``id``, ``unit``, ``state``, ``cut-off`` (all that supplies it is out of service), ``constraint``, ``held-above``,
            ``held``, ``below`` (the pool is to be taken whole, and others hold something in it), ``inside`` (it has too little of
            what is asked for in it), ``held-in-part`` (it has room, and others hold the rest of it), ``supply`` (it is on the way
            to what is asked for, and has too little to give) or ``route`` (none leads from it to the pool that is named).
        number: candidates ruled out, or held in part.
        pools: paths of some of them.
        holders: (job, until in seconds) in the order found, where holdings are the cause.
        detail: the states, the missing parts.
    """

    code: str
    number: int
    pools: tuple[str, ...]
    holders: tuple[tuple[str, float], ...] = ()
    detail: tuple[str, ...] = ()

    def sentence(self) -> str:
        """The cause in words, without its number of pools."""
        by = listed([f"{job} {_until(until)}" for job, until in self.holders])
        one = self.number == 1
        are, have, lack = ("is", "has", "lacks") if one else ("are", "have", "lack")
        tightest = "" if one else "tightest first: "
        return {
            "id": f"{have} another id",
            "unit": f"{are} counted in a unit that does not convert",
            "state": f"{are} {listed(self.detail)}, or below a pool that is",
            "cut-off": f"{'gets' if one else 'get'} nothing from {listed(self.detail)}",
            "constraint": f"{'does' if one else 'do'} not satisfy the constraint",
            "way": f"{are} here only as the way to others",
            "held-above": f"{are} held through a pool above{f', by {by}' if by else ''}",
            "held": f"{are} held{f' by {by}' if by else ''}",
            "held-in-part": f"{are} held in part{f' by {by}' if by else ''}",
            "route": f"of those it is asked for {have} no route to {listed(self.detail)}",
            "below": f"cannot be given whole: in {'it' if one else 'them'} something is held{f' by {by}' if by else ''}",
            "supply": f"{have} too little to give ({tightest}{listed(self.detail, self.number)})"
            + (f", held by {by}" if by else ""),
            "inside": f"{lack} {listed(self.detail) or 'what is asked for in ' + ('it' if one else 'them')}"
            + (f", some of it held by {by}" if by else ""),
        }[self.code]


@dataclass(frozen=True, slots=True)
class PartReport:
    """One part of a request and its candidates.

    Args:
        place: such as ``resources[0].with[1]``.
        type: resource type; ``slot`` where instances of a slot are counted in nodes.
        asked: pools, units or instances, all repetitions together.
        candidates: pools of the type in the machine (for a slot, nodes).
        left: candidates that nothing rules out.
        room: what those have: pools, free units or instances.
        causes: what ruled the others out, and where they are too few, who holds a part of those that are left.
        each: of what suppliers give, units that each pool needs which asks for it; 0 of anything else.
        each_most: the same of the pool that needs the most, where pools draw differently: as few units are asked for as can be.
    """

    place: str
    type: str
    asked: int
    candidates: int
    left: int
    room: int
    causes: tuple[Cause, ...]
    each: int = 0
    each_most: int = 0

    @property
    def is_short(self) -> bool:
        """Whether this part alone cannot be had."""
        return self.room < self.asked

    def sentence(self) -> str:
        """The part in words."""
        is_slot = self.type == "slot"
        what = f"instance{'s' * (self.asked != 1)} of a slot" if is_slot else f"of type {self.type}"
        kind = ("node" if is_slot else "candidate") + "s" * (self.candidates != 1)
        ruled_out = "; ".join(f"{cause.number} {cause.sentence()}" for cause in self.causes)
        if self.each:
            is_even = self.each_most <= self.each
            each = f" ({self.each}{'' if is_even else f' to {self.each_most}'} each)" if self.each < self.asked else ""
            least = "" if is_even else "at least "
            room = f"have room for {self.room}" if self.room else f"cannot give {self.each} at once"
            head = f"{self.place}: {least}{self.asked} {what} asked for{each}, suppliers {room}"
            return f"{head}: of {self.candidates}, {ruled_out}." if ruled_out else f"{head}."
        head = f"{self.place}: {self.asked} {what} asked for, {self.room} available in {self.left} of {self.candidates} {kind}"
        return f"{head}: {ruled_out}." if ruled_out else f"{head}."


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request has no match in a window.

    Args:
        parts: one report for each part that pools are sought for, in the order written.
        enough: by place, the largest count with which the request would match now; places where none would are left out.
        never: no holding and no state is in the way: the machine itself has too little.
        earliest: seconds of the earliest start, None where it is not known or never comes.
        undecided: the parts compete, and the search for what would be enough was given up.
    """

    parts: tuple[PartReport, ...]
    enough: dict[str, int]
    never: bool = False
    earliest: float | None = None
    undecided: bool = False

    def sentences(self) -> list[str]:
        """The refusal as a terminal shows it, one sentence an item."""
        found = [part.sentence() for part in self.parts if part.is_short or part.causes]
        if not any(part.is_short for part in self.parts):
            found.append(self.together())
        found += [f"With a count of {count} at {place} it would match." for place, count in self.enough.items()]
        if self.never:
            found.append("This machine can never satisfy it, even with nothing held and everything up.")
        elif self.earliest is not None:
            found.append(f"The earliest start is {in_message(self.earliest)}.")
        elif self.undecided:
            found.append("Whether there is a start later stays undecided: its parts compete for the same pools.")
        else:
            found.append("There is no start while what is out of service, or held without end, stays so.")
        return found

    def together(self) -> str:
        """What is in the way where no part is short by itself."""
        if sum(not part.each for part in self.parts) > 1:
            return "Each part could be had by itself; together they ask for the same pools."
        return "There are enough pools, and no supplier by itself has too little; together they have."

    def __str__(self) -> str:
        return "\n".join(self.sentences())

    def reasons(self) -> dict[str, str]:
        """By place, what is short; for the errors that carry reasons."""
        short = [part for part in self.parts if part.is_short] or list(self.parts)
        return {part.place: part.sentence().removeprefix(f"{part.place}: ") for part in short}


def explain(situation: Situation, plan: Plan, policy: Policy, holders: Holders | None) -> tuple[PartReport, ...]:
    """A report for every part of a request.

    Cost: vector operations over the pools of each type asked for, and `limits.WHY_POOLS_MAX` pools looked into for each cause.
    """
    writer = _Writer(situation, plan, policy, holders)
    return tuple(writer.reports(plan.demands, 1))


def enough(plan: Plan, attempt: Callable[[tuple[int, ...]], bool]) -> tuple[dict[str, int], bool]:
    """By place, the largest smaller count with which the request would match while the others stay; and whether one is undecided.

    Args:
        attempt: whether there is a match for these counts.
    """
    found: dict[str, int] = {}
    undecided = False
    for demand in plan.all:
        if demand.own:
            continue  # nobody asked for it
        low, high = 0, demand.count.min - 1
        while low < high or (low == high > 0 and demand.place not in found):
            middle = (low + high + 1) // 2
            try:
                fits = attempt((*plan.lowest[: demand.number], middle, *plan.lowest[demand.number + 1 :]))
            except LimitExceeded:
                fits, undecided = False, True
            if fits:
                found[demand.place] = low = middle
                if low == high:
                    break
            else:
                high = middle - 1
    return found, undecided


class _Writer:
    def __init__(self, situation: Situation, plan: Plan, policy: Policy, holders: Holders | None) -> None:
        self.situation = situation
        self.structure = situation.structure
        self.plan = plan
        self.holders = holders
        self.trial = Traverser(situation, plan, plan.lowest, policy)
        self.supplies = Supplies(situation, plan)
        planner = situation.planner
        n = self.structure.n
        self.busy = np.zeros(0, np.int32) if situation.ideal else planner.busy(0, n, situation.start, situation.end)
        self.free = self.structure.units if situation.ideal else planner.free_slice(0, n, situation.start, situation.end)
        self.node_exclusive = policy.node_exclusive

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
        pools = typology.vertices(typology.node if demand.is_slot else demand.kind)
        causes: list[Cause] = []
        left = np.ones(len(pools), np.bool_)
        for code, out in self.ruled_out(demand, pools):
            out = out & left
            if out.any():
                causes.append(self.cause(code, pools[out]))
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
            causes.append(self.cause("below", rest[in_use]))
        if room.sum() < asked:
            causes += self.held_in_part(demand, rest)
        return PartReport(demand.place, demand.type, asked, len(pools), len(rest), int(room.sum()), tuple(causes))

    def supplied(self, demand: Demand, times: int) -> PartReport:
        """The report on what is charged: its candidates are those that supply it."""
        found = self.supplies.of(demand, times, self.trial.candidates_but_for_charges)
        causes: list[Cause] = []
        if found.room < found.asked:
            worthless = [givers[0] for givers in found.short if not demand.per_unit(self.situation.accounts.unit(givers[0]))]
            if worthless:
                causes.append(self.cause("unit", np.array(worthless, np.int32)))
            short = [givers for givers in found.short if givers[0] not in set(worthless)]
            below = [givers for givers in short if any(map(self.supplies.is_in_use_below, givers))]
            if below:
                causes.append(self.cause("below", np.array([givers[0] for givers in below], np.int32)))
                short = [givers for givers in short if givers not in below]
            if short:
                some = short[: limits.WHY_POOLS_MAX]  # the tightest
                paths = self.paths(np.array([givers[0] for givers in some], np.int32))
                pools = [v for givers in some for v in givers][: limits.WHY_POOLS_MAX]
                causes.append(Cause("supply", len(short), paths, self.who(pools), tuple(map(self.supplies.in_words, some))))
            if found.astray and demand.to is not None:
                astray = np.array(found.astray, np.int32)
                causes.append(Cause("route", len(astray), self.paths(astray), (), (demand.to,)))
        left = found.suppliers - len(found.short)
        return PartReport(demand.place, demand.type, found.asked, found.suppliers, left, found.room, tuple(causes), *found.each)

    def ruled_out(self, demand: Demand, pools: NDArray[np.int32]) -> Iterator[tuple[str, Mask]]:
        """What may rule candidates out, with which ones it does, in the order in which it counts."""
        situation, structure = self.situation, self.structure
        yield "id", ~np.isin(pools, self.trial.of_ids(demand, pools)) if demand.named else np.zeros(len(pools), np.bool_)
        worthless = [n for n in np.unique(structure.kind[pools]).tolist() if not demand.per_unit(structure.kinds[n].unit)]
        yield "unit", np.isin(structure.kind[pools], worthless)
        if not situation.ideal:
            yield "state", structure.outage.is_stated(pools)
            yield "cut-off", structure.outage.is_cut_off(pools)
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
        if whole or self.node_exclusive:
            first, stop = self.busy.searchsorted(pools, "right"), self.busy.searchsorted(structure.end[pools])
            yield "below", (first < stop) & (single | self.node_exclusive)

    def room(self, demand: Demand, pools: NDArray[np.int32]) -> NDArray[np.int64]:
        """What each pool that is left has: itself, or its free units in what is asked for."""
        if demand.children or not len(pools):
            return np.ones(len(pools), np.int64)
        worth = self.situation.typology.most_worth(demand)
        units = self.structure.size[pools] if demand.whole else self.free[pools] - self.only_in_part(demand, pools)
        return (units * worth.numerator // worth.denominator).astype(np.int64)

    def only_in_part(self, demand: Demand, pools: NDArray[np.int32]) -> Mask:
        """Which pools have all their units free and can give all but one: all are the whole pool, in which something is held."""
        if demand.whole or demand.children:
            return np.zeros(len(pools), np.bool_)
        first, stop = self.busy.searchsorted(pools, "right"), self.busy.searchsorted(self.structure.end[pools])
        sizes = self.structure.size[pools]
        found: Mask = (first < stop) & (sizes > 1) & (self.free[pools] == sizes)
        return found

    def instances(self, demand: Demand, pools: NDArray[np.int32], most: int) -> NDArray[np.int64]:
        """How many instances each pool has room for, up to `most`; pools that are alike inside are looked into once.

        Past `limits.WHY_POOLS_MAX` different ones, the rest are taken to have room for one.
        """
        known: dict[object, int] = {}
        found = np.ones(len(pools), np.int64)
        for at, v in enumerate(pools.tolist()):
            inside = (self.trial.likeness.ways(v), self.situation.signature(v))
            if inside not in known and len(known) < limits.WHY_POOLS_MAX:
                known[inside] = self.trial.instances_in(demand, v, most)
            found[at] = known.get(inside, 1)
        return found

    def cause(self, code: str, pools: NDArray[np.int32]) -> Cause:
        situation, structure = self.situation, self.structure
        some = _some_of(pools)
        detail: tuple[str, ...] = ()
        held: list[int] = []
        if code == "state":
            detail = tuple(dict.fromkeys(structure.state_name(structure.unavailable_above(v)) for v in some))
        elif code == "cut-off":
            culprits = dict.fromkeys(u for v in some for u in structure.unavailable_because(v))
            detail = tuple(f"{situation.accounts.said(u)}, which is {structure.state_name(u)}" for u in culprits)
        elif code == "held-above":
            held = [situation.planner.covered_by(v, situation.start, situation.end) for v in some]
        elif code == "held":
            held = some
        elif code == "below":
            held = self.held_in(self.busy, some)
        return Cause(code, len(pools), self.paths(pools), self.who(held), detail)

    def held_in(self, busy: NDArray[np.int32], pools: Sequence[int]) -> list[int]:
        """Pools strictly below some others in which units are held: as many of each as the bounds leave to it.

        Args:
            busy: those that count, ascending.
        """
        most = limits.WHY_NAMES_MAX * max(limits.WHY_POOLS_MAX // max(len(pools), 1), 1)
        stops = self.structure.end[pools]
        between = busy.searchsorted(np.array([pools, stops - 1], np.int32).reshape(2, -1), "right").T
        return [u for a, b in between.tolist() for u in busy[a : min(b, a + most)].tolist()]

    def held_in_part(self, demand: Demand, pools: NDArray[np.int32]) -> list[Cause]:
        """Who holds a part of pools that have room: units of them, or something of what is asked for in them."""
        if not demand.children:
            some = pools[(self.free[pools] > 0) & (self.free[pools] < self.structure.units[pools])]
            held = _some_of(some)
        else:
            busy = self.busy_for((demand,) if not demand.is_slot else demand.inside)
            some = pools[busy.searchsorted(pools, "right") < busy.searchsorted(self.structure.end[pools])]
            held = self.held_in(busy, _some_of(some))
        return [Cause("held-in-part", len(some), self.paths(some), self.who(held))] if len(some) else []

    def busy_for(self, demands: Sequence[Demand]) -> NDArray[np.int32]:
        """Pools that are held, as far as that leaves less for some demands."""
        below, wanted = self.situation.typology.below, self.sought(demands)
        kinds = [kind for kind in np.unique(self.structure.type[self.busy]).tolist() if kind in wanted or below[kind] & wanted]
        return self.busy[np.isin(self.structure.type[self.busy], kinds)]

    def sought(self, demands: Sequence[Demand]) -> set[int]:
        """Types of pools that are taken, and of what stands in these."""
        below = self.situation.typology.below
        found: set[int] = set()
        for demand in demands:
            if demand.is_slot or (demand.children and not demand.whole):
                found |= self.sought(demand.children)
            elif not demand.charged:
                found |= {demand.kind, *below[demand.kind]}
        return found

    def inside(self, demand: Demand, pools: NDArray[np.int32]) -> Cause:
        """What the pools lack: the parts of which the first of them has too little."""
        v = int(pools[0])
        # What a slot has beside its node is not sought in it.
        beside = {child.number for child in demand.beside}
        places = [(child, 0 if child.number in beside else v) for child in demand.children]
        # What is charged for others cannot be had without them.
        alone = [(child, below) for child, below in places if child.charged != "siblings"]
        lacking = [(child, below) for child, below in alone if not self.trial.has_room_for(child, below)]
        lacking = lacking or [(child, below) for child, below in places if child.charged == "siblings"]
        busy = self.busy_for([child for child, below in lacking if below == v])
        held = self.held_in(busy, _some_of(pools))
        words = tuple(self.in_words(child, below, pools) for child, below in lacking)
        return Cause("inside", len(pools), self.paths(pools), self.who(held), words)

    def in_words(self, demand: Demand, v: int, pools: NDArray[np.int32]) -> str:
        """A part that pools have no room for, of which `v` is the first."""
        if demand.is_slot:
            number = demand.count.min
            return f"room for {number} instance{'s' * (number > 1)} of slot {demand.label!r}"
        units = str(demand.count.min)
        if demand.own:
            draws = self.situation.typology.draws.total(demand.type)[pools]
            units = f"{draws.min()}" if draws.min() == draws.max() else f"{draws.min()} to {draws.max()}"
        return f"{units} {demand.type}{self.short_on_the_way(demand, v)}"

    def short_on_the_way(self, demand: Demand, v: int) -> str:
        """Where too little is left of what is charged along the way from a pool; empty for any other demand."""
        if not demand.charged:
            return ""
        short = self.supplies.lacking(demand, v)
        if short:
            return f" ({listed([self.supplies.in_words(u) for u in short])})"
        return self.missing(demand) if short is None else ""

    def missing(self, demand: Demand) -> str:
        """What a pool that nothing supplies has not got."""
        return " on the way to it" if demand.to is None else f" (no route to {demand.to})"

    def paths(self, pools: NDArray[np.int32]) -> tuple[str, ...]:
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


def _some_of(pools: NDArray[np.int32]) -> list[int]:
    """As many of some pools as are looked into one by one, from all over the machine: pools of one node often have one holder."""
    step = -(-len(pools) // limits.WHY_POOLS_MAX)
    some: list[int] = pools[:: max(step, 1)].tolist()
    return some


def _until(end_s: float) -> str:
    return "without end" if end_s == float("inf") else f"until {in_message(end_s)}"
