"""Why a request does not match: for each of its parts, the number of candidates and what ruled them out.

A refusal without reasons leaves the user guessing.  Every candidate is counted under the first thing that rules it out, in the
order in which the matcher checks: its id, its unit, its state, the constraint, an exclusive holding above it, its own holders,
what others hold below it, and finally what it lacks inside.  Candidates that remain are good enough on their own; if they are
enough for every part, then the parts compete with each other, and the refusal says so.

Counting is vectorised and complete.  Names of holders come from a callback, because a planner knows no jobs, and only for some of
the pools (`limits.WHY_POOLS_MAX`).
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

Until = Callable[[float], str]
"""Puts the end of a holding, in seconds, into words."""

Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Cause:
    """One thing that rules out candidates.

    Args:
        code: ``id``, ``unit``, ``state``, ``cut-off`` (all that supplies it is out of service), ``constraint``, ``held-above``,
            ``held``, ``below`` (the pool is requested exclusively, and others hold something in it), ``inside`` (it contains too
            little of what is requested), ``held-in-part`` (it has room, and others hold the rest of it), ``way`` (it is a
            pass-through pool), ``supply`` (it is on the supply path of what is requested, and has too little to give) or
            ``route`` (there is none from it to the named pool).
        number: candidates ruled out, or held in part.
        pools: paths of some of them.
        holders: (job, until in seconds) in the order found, if holdings are the cause.
        detail: the states, or the missing parts.
    """

    code: str
    number: int
    pools: tuple[str, ...]
    holders: tuple[tuple[str, float], ...] = ()
    detail: tuple[str, ...] = ()

    def sentence(self, until: Until | None = None) -> str:
        """The cause in words, without the number of pools.

        Args:
            until: puts the end of a holding into words; seconds by default.
        """
        end = until or _until
        holders = listed([f"{job} {end(seconds)}" for job, seconds in self.holders])
        by = f" by {holders}" if holders else ""
        one = self.number == 1
        are, have, lack = ("is", "has", "lacks") if one else ("are", "have", "lack")
        tightest = "" if one else "tightest first: "
        return {
            "id": f"{have} another id",
            "unit": f"{are} counted in a unit that does not convert",
            "state": f"{are} {listed(self.detail)}, or below a pool that is",
            "cut-off": f"{'gets' if one else 'get'} nothing from {listed(self.detail)}",
            "constraint": f"{'does' if one else 'do'} not satisfy the constraint",
            "way": f"{'is only a pass-through' if one else 'are only pass-throughs'} in this part of the machine",
            "held-above": f"{are} held through a pool above{',' * bool(by)}{by}",
            "held": f"{are} held{by}",
            "held-in-part": f"{are} held in part{by}",
            "route": f"of the pools that request it {have} no route to {listed(self.detail)}",
            "below": f"cannot be allocated exclusively: something in {'it' if one else 'them'} is held{by}",
            "supply": f"{have} too little to give ({tightest}{listed(self.detail, self.number)}){', held' * bool(by)}{by}",
            "inside": f"{lack} {listed(self.detail) or 'what is requested in ' + ('it' if one else 'them')}"
            f"{', some of it held' * bool(by)}{by}",
        }[self.code]


@dataclass(frozen=True, slots=True)
class PartReport:
    """One part of a request and its candidates.

    Args:
        place: such as ``resources[0].with[1]``.
        type: resource type; ``slot`` if instances of a slot are counted in nodes.
        asked: requested pools, units or instances, over all repetitions.
        candidates: pools of the type in the machine (for a slot, nodes).
        left: candidates that nothing rules out.
        room: what those have: pools, free units or instances.
        causes: what ruled out the others and, if too few are left, the holders of a part of the remaining ones.
        each: for what suppliers give, the units that each requesting pool needs; 0 otherwise.
        each_most: the same for the pool that needs the most, if pools draw differently; `asked` then counts the least possible.
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
        """Whether this part cannot be satisfied even on its own."""
        return self.room < self.asked

    def head(self) -> str:
        """What the part asks for and what is available, without the causes."""
        if self.each:
            is_even = self.each_most <= self.each
            each = f" ({self.each}{'' if is_even else f' to {self.each_most}'} each)" if self.each < self.asked else ""
            least = "" if is_even else "at least "
            room = f"have room for {self.room}" if self.room else f"cannot give {self.each} at once"
            return f"{self.place}: {least}{self.asked} of type {self.type} requested{each}, suppliers {room}"
        is_slot = self.type == "slot"
        what = f"instance{'s' * (self.asked != 1)} of a slot" if is_slot else f"of type {self.type}"
        kind = ("node" if is_slot else "candidate") + "s" * (self.candidates != 1)
        return f"{self.place}: {self.asked} {what} requested, {self.room} available in {self.left} of {self.candidates} {kind}"

    def ruled_out(self, until: Until | None = None) -> list[str]:
        """The causes in words, each with the number of candidates; `until` as for :meth:`Cause.sentence`."""
        return [f"{cause.number} {cause.sentence(until)}" for cause in self.causes]

    def sentence(self) -> str:
        """The part in words."""
        if not self.causes:
            return f"{self.head()}."
        return f"{self.head()}: {f'of {self.candidates}, ' if self.each else ''}{'; '.join(self.ruled_out())}."


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request has no match in a window.

    Args:
        parts: one report for each part that the matcher searches pools for, in the order written.
        enough: by place, the largest count with which the request would match now; places where none would are left out.
        never: the machine itself has too little, whatever is held or down.
        earliest: seconds of the earliest start, None if it is unknown or there is none.
        undecided: the parts compete, and the search for a count that would be enough was given up.
    """

    parts: tuple[PartReport, ...]
    enough: dict[str, int]
    never: bool = False
    earliest: float | None = None
    undecided: bool = False

    def sentences(self) -> list[str]:
        """The refusal as a terminal shows it, one sentence per item."""
        found = [part.sentence() for part in self.parts if part.is_short or part.causes]
        if not any(part.is_short for part in self.parts):
            found.append(self.together())
        found += [f"It would match with a count of {count} at {place}." for place, count in self.enough.items()]
        if self.never:
            found.append("This machine can never satisfy it, even with nothing held and everything up.")
        elif self.earliest is not None:
            found.append(f"The earliest start is {in_message(self.earliest)}.")
        elif self.undecided:
            found.append("Whether there is a later start is undecided: its parts compete for the same pools.")
        else:
            found.append("There is no start unless pools return to service, or pools held without an end are freed.")
        return found

    def together(self) -> str:
        """The reason if no single part is short."""
        if sum(not part.each for part in self.parts) > 1:
            return "Each part fits on its own, but together they compete for the same pools."
        return "There are enough pools and no single supplier is short, but together the suppliers have too little."

    def __str__(self) -> str:
        return "\n".join(self.sentences())

    def reasons(self) -> dict[str, str]:
        """What is short, by place; for errors that carry reasons."""
        short = [part for part in self.parts if part.is_short] or list(self.parts)
        return {part.place: part.sentence().removeprefix(f"{part.place}: ") for part in short}


def explain(situation: Situation, plan: Plan, policy: Policy, holders: Holders | None) -> tuple[PartReport, ...]:
    """A report for every part of a request.

    Cost: vector operations over the pools of each requested type, and `limits.WHY_POOLS_MAX` pools inspected for each cause.
    """
    writer = _Writer(situation, plan, policy, holders)
    return tuple(writer.reports(plan.demands, 1))


def enough(plan: Plan, attempt: Callable[[tuple[int, ...]], bool]) -> tuple[dict[str, int], bool]:
    """By place, the largest smaller count with which the request would match, other counts unchanged; and whether one is
    undecided.

    Args:
        attempt: whether there is a match for these counts.
    """
    found: dict[str, int] = {}
    undecided = False
    for demand in plan.all:
        if demand.own:
            continue  # not part of the request
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
        """The report on a charged demand; its candidates are its suppliers."""
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
                some = short[: limits.WHY_POOLS_MAX]  # those with the least left
                paths = self.paths(np.array([givers[0] for givers in some], np.int32))
                pools = [v for givers in some for v in givers][: limits.WHY_POOLS_MAX]
                causes.append(Cause("supply", len(short), paths, self.who(pools), tuple(map(self.supplies.in_words, some))))
            if found.astray and demand.to is not None:
                astray = np.array(found.astray, np.int32)
                causes.append(Cause("route", len(astray), self.paths(astray), (), (demand.to,)))
        left = found.suppliers - len(found.short)
        return PartReport(demand.place, demand.type, found.asked, found.suppliers, left, found.room, tuple(causes), *found.each)

    def ruled_out(self, demand: Demand, pools: NDArray[np.int32]) -> Iterator[tuple[str, Mask]]:
        """Each possible cause with a mask of the candidates it rules out, in the order in which causes count."""
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
        """What each remaining pool has: 1 for itself, or its free units in the unit of the request."""
        if demand.children or not len(pools):
            return np.ones(len(pools), np.int64)
        worth = self.situation.typology.most_worth(demand)
        units = self.structure.size[pools] if demand.whole else self.free[pools] - self.only_in_part(demand, pools)
        return (units * worth.numerator // worth.denominator).astype(np.int64)

    def only_in_part(self, demand: Demand, pools: NDArray[np.int32]) -> Mask:
        """Pools with all units free that can give all except one: all would be the pool, in which something is held."""
        if demand.whole or demand.children:
            return np.zeros(len(pools), np.bool_)
        first, stop = self.busy.searchsorted(pools, "right"), self.busy.searchsorted(self.structure.end[pools])
        sizes = self.structure.size[pools]
        found: Mask = (first < stop) & (sizes > 1) & (self.free[pools] == sizes)
        return found

    def instances(self, demand: Demand, pools: NDArray[np.int32], most: int) -> NDArray[np.int64]:
        """How many instances each pool has room for, up to `most`; of pools with equal contents, one is inspected.

        Beyond `limits.WHY_POOLS_MAX` different ones, the rest are assumed to have room for one.
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
        """Pools strictly below some others in which units are held, a bounded number for each of them.

        Args:
            busy: those that count, ascending.
        """
        most = limits.WHY_NAMES_MAX * max(limits.WHY_POOLS_MAX // max(len(pools), 1), 1)
        stops = self.structure.end[pools]
        between = busy.searchsorted(np.array([pools, stops - 1], np.int32).reshape(2, -1), "right").T
        return [u for a, b in between.tolist() for u in busy[a : min(b, a + most)].tolist()]

    def held_in_part(self, demand: Demand, pools: NDArray[np.int32]) -> list[Cause]:
        """The holders of a part of the pools that have room: of their units, or of something requested in them."""
        if not demand.children:
            some = pools[(self.free[pools] > 0) & (self.free[pools] < self.structure.units[pools])]
            held = _some_of(some)
        else:
            busy = self.busy_for((demand,) if not demand.is_slot else demand.inside)
            some = pools[busy.searchsorted(pools, "right") < busy.searchsorted(self.structure.end[pools])]
            held = self.held_in(busy, _some_of(some))
        return [Cause("held-in-part", len(some), self.paths(some), self.who(held))] if len(some) else []

    def busy_for(self, demands: Sequence[Demand]) -> NDArray[np.int32]:
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

    def inside(self, demand: Demand, pools: NDArray[np.int32]) -> Cause:
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

    def in_words(self, demand: Demand, v: int, pools: NDArray[np.int32]) -> str:
        """A part that pools have no room for; `v` is the first of these pools."""
        if demand.is_slot:
            number = demand.count.min
            return f"room for {number} instance{'s' * (number > 1)} of slot {demand.label!r}"
        units = str(demand.count.min)
        if demand.own:
            draws = self.situation.typology.draws.total(demand.type)[pools]
            units = f"{draws.min()}" if draws.min() == draws.max() else f"{draws.min()} to {draws.max()}"
        return f"{units} {demand.type}{self.short_on_the_way(demand, v)}"

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
    """A sample of pools to inspect, spread over the whole array: pools of one node often have one holder."""
    step = -(-len(pools) // limits.WHY_POOLS_MAX)
    some: list[int] = pools[:: max(step, 1)].tolist()
    return some


def _until(end_s: float) -> str:
    return "without end" if end_s == float("inf") else f"until {in_message(end_s)}"
