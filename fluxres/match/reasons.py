"""Why a request does not match: for each of its parts, the number of candidates and what ruled them out.

A refusal without reasons leaves the user guessing.  Every candidate is counted under the first thing that rules it out, in the
order in which the matcher checks: its id, its unit, its state, the constraint, an exclusive holding above it, its own holders,
what others hold below it, and finally what it lacks inside.  Candidates that remain are good enough on their own; if they are
enough for every part, then the parts compete with each other, and the refusal says so.

Counting is vectorised and complete.  Names of holders come from a callback, because a planner knows no jobs, and only for some of
the pools (`limits.WHY_POOLS_MAX`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import ceil
from typing import Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from fluxres import clock, limits
from fluxres.documents.document import plural
from fluxres.errors import LimitExceeded
from fluxres.graph.draws import ONLY_A_WAY
from fluxres.graph.kinds import is_state
from fluxres.match.admission import Objection
from fluxres.match.chooser import Way
from fluxres.match.demand import Demand, Plan
from fluxres.match.paths import Givers
from fluxres.match.plan import plan as compile_plan
from fluxres.match.query import Query
from fluxres.match.situation import Situation, having, unknown_hosts, unknown_properties
from fluxres.match.traverser import Traverser
from fluxres.match.vector import Search
from fluxres.shown import Shown
from fluxres.syntax import unit
from fluxres.syntax.constraint import hosts_of, required
from fluxres.syntax.moment import in_message
from fluxres.syntax.vertex import SLOT

Holders = Callable[[int, int, int], Sequence[tuple[str, int]]]
"""(job, until in ticks) of the jobs that hold units of a vertex in a window."""

Until = Callable[[float], str]
"""Puts the end of a holding, in seconds, into words."""

Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Cause:
    """One thing that rules out candidates.

    Args:
        code: ``id``, ``property``, ``unit``, ``state``, ``cut-off`` (all that supplies it is out of service), ``constraint``,
            ``held-above``, ``held``, ``below`` (the pool is requested exclusively, and others hold something in it), ``inside``
            (it contains too little of what is requested), ``held-in-part`` (it has room, and others hold the rest of it),
            ``way`` (it is a pass-through pool), ``supply`` (it is on the supply path of what is requested, and has too little
            to give) or ``route`` (there is none from it to the named pool).
        number: candidates ruled out, or held in part.
        pools: paths of some of them.
        holders: (job, until in seconds) in the order found, if holdings are the cause.
        detail: the states, the partition, the missing parts, or the requested properties and hosts that no pool has.
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
        said = [is_state(state) for state in self.detail] if self.code == "state" else self.detail
        detail = listed(said, self.number if self.code == "supply" else 0)
        return _CAUSES[self.code].format(
            **(_ONE if self.number == 1 else _SEVERAL),
            detail=detail,
            parts=detail or ("what is requested in it" if self.number == 1 else "what is requested in them"),
            unknown=f" ({detail})" if detail else "",
            by=by,
            apart=f",{by}" if by else "",
            held=f", held{by}" if by else "",
            some_held=f", some of it held{by}" if by else "",
        )


_CAUSES: Final = {
    "id": "{have} another id",
    "property": "{do} not have the requested properties{unknown}",
    "unit": "{are} counted in a unit that does not convert{unknown}",
    "state": "{are} {detail}, or below a pool that is",
    "cut-off": "{get} nothing from {detail}",
    "partition": "{are} not in partition {detail}",
    "constraint": "{do} not satisfy the constraint{unknown}",
    "way": "{are_ways} in this part of the machine",
    "held-above": "{are} held through a pool above{apart}",
    "held": "{are} held{by}",
    "held-in-part": "of those available {are} held in part{by}",
    "route": "of the pools that request it {have} no route to {detail}",
    "below": "cannot be allocated exclusively: something in {them} is held{by}",
    "supply": "{have} too little to give ({tightest}{detail}){held}",
    "inside": "{lack} {parts}{some_held}",
}
"""The causes in words, by code."""
_ONE: Final = {
    "are": "is",
    "have": "has",
    "lack": "lacks",
    "do": "does",
    "get": "gets",
    "them": "it",
    "tightest": "",
    "are_ways": "is only a pass-through",
}
_SEVERAL: Final = {
    "are": "are",
    "have": "have",
    "lack": "lack",
    "do": "do",
    "get": "get",
    "them": "them",
    "tightest": "tightest first: ",
    "are_ways": "are only pass-throughs",
}


_FROM_ABOVE: Final = frozenset({"held-above", "state", "partition", "constraint"})


@dataclass(frozen=True, slots=True)
class PartReport:
    """One part of a request and its candidates.

    Args:
        place: such as ``resources[0].with[1]``.
        type: resource type; ``slot`` if instances of a slot are counted in nodes.
        asked: requested pools, units or instances, over all repetitions.
        candidates: pools of the type in the machine, or in the part of it that the request is about (for a slot, nodes).
        left: candidates that nothing rules out.
        room: what those have: pools, free units or instances.
        causes: what ruled out the others and, if too few are left, the holders of a part of the remaining ones.
        each: for what suppliers give, the units that each requesting pool needs; 0 otherwise.
        each_most: the same for the pool that needs the most, if pools draw differently; `asked` then counts the least possible.
        unit: of `asked`, `room` and `each`; None for plain numbers, and where candidates have different units.
        is_amount: whether units of pools are counted, not pools.
        repeats: how often the request repeats the part, within the parts around it.
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
    unit: str | None = None
    is_amount: bool = False
    repeats: int = 1

    @property
    def is_short(self) -> bool:
        """Whether this part cannot be satisfied even on its own."""
        return self.room < self.asked

    @property
    def is_out_of_reach(self) -> bool:
        """Whether pools above are the only cause, or what holds for these as well."""
        return bool(self.causes) and all(cause.code in _FROM_ABOVE for cause in self.causes)

    def head(self) -> str:
        """What the part asks for and what is available, without the causes.

        >>> PartReport("resources[0]", "node", 6, 8, 4, 4, ()).head()
        'requested 6 nodes, only 4 of 8 are available'
        >>> PartReport("resources[0]", "gpu", 1, 1, 0, 0, ()).head()
        'requested 1 gpu, none of 1 is available'
        >>> PartReport("resources[0]", "memory", 2048, 2, 2, 1024, (), unit="GiB", is_amount=True).head()
        'requested 2 TiB of memory, only 1 TiB available in 2 of 2 pools'
        """
        only = "only " * self.is_short
        asked, room = unit.exact(self.asked, self.unit), unit.exact(self.room, self.unit)
        if self.each:
            least, each = "", unit.exact(self.each, self.unit)
            if self.each_most > self.each:
                least, each = "at least ", f"{each} to {unit.exact(self.each_most, self.unit)}"
            what = f"requested {least}{asked} of {self.type}{f' ({each} each)' * (self.each < self.asked)}"
            if not self.room:
                return f"{what}, suppliers cannot give {unit.exact(self.each, self.unit)} at once"
            return f"{what}, suppliers have room for {only}{room}"
        if self.type == "slot":
            if not self.room:
                return f"requested {plural(self.asked, 'slot')}, none of {plural(self.candidates, 'node')} has room for one"
            nodes = f"{self.left} of {plural(self.candidates, 'node')}"
            has = "has" if self.left == 1 else "have"
            return f"requested {plural(self.asked, 'slot')}, {nodes} {has} room for {only}{room}"
        if self.is_amount or self.room != self.left:
            what = _units_of(self.asked, self.type, self.unit)
            return f"requested {what}, {only}{room} available in {self.left} of {plural(self.candidates, 'pool')}"
        asked = f"requested {plural(self.asked, self.type)}"
        if self.is_short and self.room == self.candidates:
            return f"{asked}, there {'is' if self.room == 1 else 'are'} only {self.room}"
        found = f"{only}{self.room}" if self.room else "none"
        is_one = (self.room or self.candidates) == 1
        return f"{asked}, {found} of {self.candidates} {'is' if is_one else 'are'} available"

    def counted(self, number: int) -> str:
        """An amount of what the part asks for, such as `4 nodes` or `1 TiB of memory`."""
        return _units_of(number, self.type, self.unit) if self.is_amount else plural(number, self.type)

    def ruled_out(self, until: Until | None = None) -> list[str]:
        """The causes in words, each with the number of candidates; `until` as for :meth:`Cause.sentence`."""
        return [f"{cause.number} {cause.sentence(until)}" for cause in self.causes]

    def sentence(self, until: Until | None = None) -> str:
        """The part in words; `until` as for :meth:`Cause.sentence`."""
        if not self.causes:
            return f"{self.head()}."
        return f"{self.head()}: {f'of {self.candidates}, ' if self.each else ''}{'; '.join(self.ruled_out(until))}."


@dataclass(frozen=True, slots=True, repr=False)
class Refusal(Shown):
    """Why a request has no match in a window.

    Args:
        parts: one report for each part that the matcher searches pools for, in the order written.
        enough: by place, the largest count with which the request would match now; places where none would are left out.
        never: the machine itself has too little, whatever is held or down.
        earliest: seconds of the earliest start, None if it is unknown or there is none.
        undecided: the parts compete, and the search for a match, an earlier start or a larger count that would be enough was cut.
        objections: what the partition of the request does not allow; then there are no parts.
        partition: the partition that the request goes to; None for the whole machine.
        notes: why the rule of another system (`Chooser`) refuses the request beyond what the parts say, as sentences.
        is_of_part: whether the request is about a part of the machine only.
    """

    parts: tuple[PartReport, ...]
    enough: dict[str, int]
    never: bool = False
    earliest: float | None = None
    undecided: bool = False
    objections: tuple[Objection, ...] = ()
    partition: str | None = None
    notes: tuple[str, ...] = ()
    is_of_part: bool = False

    def sentences(self) -> list[str]:
        """The refusal as a terminal shows it, one sentence per item."""
        if self.objections:
            return [*(each.sentence() for each in self.objections), self.outlook()]
        found = [f"{self.marked(part)}{part.sentence()}" for part in self.obstacles]
        found += [f"{note[:1].upper()}{note[1:]}." for note in self.notes]
        if not self.notes and not any(part.is_short for part in self.parts):
            found.append(self.together())
        found += self.would_match()
        if self.never:
            bound = self.bound[:1].upper() + self.bound[1:]
            found.append(f"{bound} can never satisfy it, even with nothing held and everything up.")
        elif self.earliest is not None:
            found.append(f"The earliest start {'that was found ' * self.undecided}is {in_message(self.earliest)}.")
        elif self.undecided:
            found.append("Whether there is a later start is undecided: its parts compete for the same pools.")
        else:
            found.append("There is no start unless pools return to service, or pools held without an end are freed.")
        if self.undecided:
            found.append(CUT)
        return found

    @property
    def bound(self) -> str:
        """What the request is matched in, as the subject of a sentence."""
        if self.partition is not None:
            return f"partition '{self.partition}'"
        return "this part of the machine" if self.is_of_part else "this machine"

    def outlook(self) -> str:
        """When a request that its partition does not allow can start, as a sentence."""
        partition = f"partition '{self.objections[0].partition}'"
        if self.never:
            return f"It can never start in {partition}."
        if any(each.code == "state" for each in self.objections):
            return f"There is no start until the state of {partition} changes."
        return f"The earliest start is {in_message(self.earliest)}." if self.earliest is not None else "No start is known."

    @property
    def obstacles(self) -> list[PartReport]:
        """The parts that are short; if none is, those with pools that something rules out.

        What is missing only because the pools around it are, such as the cores of nodes that are held, is left out.
        """
        short = [part for part in self.parts if part.is_short]
        around = [f"{part.place}.with[" for part in short if part.type != SLOT]
        own = [part for part in short if not part.is_out_of_reach or not part.place.startswith(tuple(around))]
        return own or [part for part in self.parts if part.causes]

    def marked(self, part: PartReport) -> str:
        """The place of a part with a colon where the type does not identify it, else nothing."""
        alike = sum(other.type == part.type for other in self.parts)
        return f"{part.place}: " if alike > 1 else ""

    def would_match(self) -> list[str]:
        """For each part that could be smaller, the count with which the request would match."""
        parts = {part.place: part for part in self.parts}
        it = "With nothing held and everything up, it" if self.never else "It"
        return [f"{it} would match with {self._smaller(parts, place, count)}." for place, count in self.enough.items()]

    def _smaller(self, parts: dict[str, PartReport], place: str, count: int) -> str:
        if (part := parts.get(place)) is None:  # a slot that may span nodes, which has no candidates of its own
            slots = sum(place not in parts for place in self.enough)
            return plural(count, "slot") + f" at {place}" * (slots > 1)
        return part.counted(count) + " each" * (part.repeats > 1) + f" at {place}" * bool(self.marked(part))

    def together(self) -> str:
        """The reason if no single part is short."""
        if sum(not part.each for part in self.parts) > 1:
            return "Each part fits on its own, but together they compete for the same pools."
        return "There are enough pools and no single supplier is short, but together the suppliers have too little."

    def __repr__(self) -> str:
        return f"<Refusal: {' '.join(self.sentences())}>"

    def reasons(self) -> dict[str, str]:
        """What is short, by place; for errors that carry reasons."""
        if self.objections:
            return {f"partition {each.partition}: {each.code}": each.sentence() for each in self.objections}
        short = [part for part in self.obstacles if part.is_short]
        short = short or ([] if self.notes else list(self.parts))
        return {part.place: part.sentence() for part in short} | self.noted()

    def noted(self) -> dict[str, str]:
        """The notes by place, which is the request, numbered where there are several."""
        return {"request" if len(self.notes) == 1 else f"request ({number})": note for number, note in enumerate(self.notes, 1)}


def of_ways(
    query: Query, ways: Sequence[Way], start: int, end: int, holders: Holders | None
) -> tuple[tuple[PartReport, ...], tuple[str, ...]]:
    """Why no way to satisfy a request is open: what of its types is short, as parts for a single way, else as sentences, and what
    its rule notes beyond that.

    Types say how much there is in the whole machine; the rule notes what nodes lack where there is enough of each.
    """
    parts: tuple[PartReport, ...] = ()
    notes: list[str] = []
    for way in ways:
        short: tuple[PartReport, ...] = ()
        if way.asked is not None:
            plan = compile_plan(way.asked, query.node_table.typology)
            reports = explain(msgspec.structs.replace(query, plan=plan), plan, start, end, holders)
            reports = tuple(each for each in reports if each.type != SLOT or each.asked > 1)  # nodes are left to the rule
            short = tuple(report for report in reports if report.is_short)
            if len(ways) == 1:
                parts = reports
        notes += [f"{way.name}{report.sentence().removesuffix('.')}" for report in short if way.name]
        notes += [] if short else [f"{way.name}{text}" for text in way.lacks()]
    return parts, tuple(notes)


def _units_of(amount: int, kind: str, of_unit: str | None) -> str:
    return f"{plural(amount, 'unit') if of_unit is None else unit.exact(amount, of_unit)} of {kind}"


def explain(query: Query, plan: Plan, start: int, end: int, holders: Holders | None) -> tuple[PartReport, ...]:
    """A report for every part of a request.

    Args:
        plan: of the query, or another one of the same request.

    Cost: vector operations over the pools of each requested type, and `limits.WHY_POOLS_MAX` pools inspected for each cause.
    """
    writer = _Writer(query, plan, start, end, holders)
    return tuple(writer.reports(plan.demands, 1))


def enough(plan: Plan, attempt: Callable[[tuple[int, ...]], bool]) -> tuple[dict[str, int], bool]:
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
                return found, True  # they share what they may spend
            if fits:
                found[demand.place] = low = middle
                if low == high:
                    break
            else:
                high = middle - 1
    return found, False


CUT: Final = "The search was cut: larger counts may match, or an earlier start."


class _Writer:
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

    def unit_of(self, demand: Demand, pools: NDArray[np.int32]) -> str | None:
        """The unit in which a demand is counted: its own, or that of the pools."""
        found = self.situation.typology.units_of(pools)
        return demand.wanted_unit or (next(iter(found)) if len(found) == 1 else None)

    def ruled_out(self, demand: Demand, pools: NDArray[np.int32]) -> Iterator[tuple[str, Mask]]:
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
            inside = (self.trial.likeness.ways(v), self.situation.signature(v))
            if inside not in known and len(known) < limits.WHY_POOLS_MAX:
                known[inside] = self.trial.instances_in(demand, v, most)
            found[at] = known.get(inside, 1)
        return found

    def cause(self, code: str, pools: NDArray[np.int32], demand: Demand) -> Cause:
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
            what = f"{unit.exact(least, of_unit)} to " * (most > least) + _units_of(most, demand.type, of_unit)
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


class SupplyShortage(NamedTuple):
    """What is available of a charged demand.

    Args:
        asked: units requested; if pools draw differently, by those that draw least.
        each: what the first and the last of these pools draw.
        room: requested units that can be supplied.
        suppliers: the number of suppliers.
        short: those that could not give, each as the pools that give together; those that limit the number first, then by what
            they have free.
        astray: pools that nothing supplies, or that have no route to the named pool.
    """

    asked: int
    each: tuple[int, int]
    room: int
    suppliers: int
    short: tuple[Givers, ...]
    astray: tuple[int, ...] = ()


class PoolDraw(NamedTuple):
    """What one pool draws from each supplier each time, and how often at most."""

    needs: dict[Givers, Fraction]
    most: int
    units: Fraction


class Supplies:
    """Which suppliers have too little in one situation: produces texts such as "power on pdu3: 400 of 500 W free".

    Instances are supplied one after the other, as a match would do, ignoring what other parts of the same match take.  A supplier
    that cannot supply one of them is short; the number of instances supplied is what is available.
    """

    def __init__(self, situation: Situation, plan: Plan) -> None:
        self._situation = situation
        self._plan = plan
        self._paths = situation.typology.paths
        self._around: dict[int, tuple[Demand, ...]] = {}
        self._names: dict[tuple[int, bool], Counter[str]] = {}
        for demand in plan.all:
            for child in demand.children:
                self._around[child.number] = (demand, *self._around.get(demand.number, ()))

    def of(self, demand: Demand, times: int, candidates: Callable[[Demand], Sequence[int]]) -> SupplyShortage:
        """The shortage for a demand that is charged, or picked and charged upstream, and requested `times` times.

        Args:
            candidates: the pools that could satisfy a demand if supplies did not matter.

        Cost: walks over the pools that may be supplied, one for each level of limiting suppliers.
        """
        if demand.upstream:
            return self._picked(demand, times * demand.count.min)
        if demand.own:
            return self._drawn(demand, times, candidates)
        amount = Fraction(demand.count.min)
        pools, most, shared_by = self._whom(demand, times)
        loads: list[PoolDraw] = []
        astray: list[int] = []
        for v in pools:
            charges = self._paths.charged(v, demand.channel)
            if charges is None:
                astray.append(v)
                continue
            needs = {givers: self._rounded(demand, givers, amount / shared_by * part) for givers, part in charges}
            loads.append(PoolDraw(needs, most, amount / shared_by))
        supplied, short = self._in_the_way(demand, loads, times * shared_by)
        asked = times * demand.count.min
        room = asked if supplied is None and not astray else int(supplied or 0)
        return SupplyShortage(asked, (demand.count.min,) * 2, room, len(_suppliers(loads)), short, tuple(astray))

    def _drawn(self, demand: Demand, times: int, candidates: Callable[[Demand], Sequence[int]]) -> SupplyShortage:
        """The shortage for what pools draw on their own: pools that draw least are supplied first."""
        above = self._around[demand.number][0]
        every = self._situation.eligible.candidates(above.kind).tolist()
        draws = self._situation.typology.draws.total(demand.type)
        pools = sorted(candidates(above) or every, key=draws.item)
        loads: list[PoolDraw] = []
        astray: list[int] = []
        for v in pools:
            needs = self.needs_by_itself(demand, v)
            if needs is None:
                astray.append(v)
            else:
                loads.append(PoolDraw(needs, 1, Fraction(draws.item(v))))
        supplied, short = self._in_the_way(demand, loads, times)
        first = [draws.item(v) for v in pools[:times]]
        asked = sum(first) + (times - len(first)) * first[-1]
        room = asked if supplied is None and not astray else int(supplied or 0)
        return SupplyShortage(asked, (first[0], first[-1]), room, len(_suppliers(loads)), short, tuple(astray))

    def needs_by_itself(self, demand: Demand, v: int) -> dict[Givers, Fraction] | None:
        """What a pool draws on its own from each supplier; None if nothing supplies it."""
        found: dict[Givers, Fraction] = {}
        for _, _, parts in self._situation.typology.charged_by_itself(v, demand.kind):
            if parts is None:
                return None
            for givers, units in parts:
                found[givers] = found.get(givers, Fraction(0)) + units
        return found

    def _in_the_way(self, demand: Demand, loads: list[PoolDraw], wanted: int) -> tuple[Fraction | None, tuple[Givers, ...]]:
        """The units that can be supplied (None if unlimited), and the suppliers that prevent more.

        Of the suppliers that have nothing left for a pool, only those that supply the most pools count, since what is attached to
        them could have any amount.  If these alone do not explain the shortage, the next ones count as well.
        """
        number = Counter(givers for load in loads for givers in load.needs)
        short: list[Givers] = []
        units: Fraction | None = None
        while True:
            known = set(short)
            times, left = self._walk(demand, loads, wanted, known)
            units = (
                sum((load.units * often for load, often in zip(loads, times, strict=True)), Fraction(0))
                if units is None
                else units
            )
            if sum(times) >= wanted:
                break
            found: set[Givers] = set()
            for load, often in zip(loads, times, strict=True):
                if often < load.most:
                    found |= self._outermost(demand, load, left, known, number)
            if not found:
                break
            short += sorted(found, key=self._tightest)
        return units if short else None, tuple(short)

    def _outermost(
        self, demand: Demand, load: PoolDraw, left: dict[int, int], known: set[Givers], number: Counter[Givers]
    ) -> set[Givers]:
        """Of the suppliers with too little left for a pool, those that supply the most pools, except those already known."""
        lacking = [
            givers for givers, need in load.needs.items() if givers not in known and need > self._there(demand, givers, left)
        ]
        most = max((number[givers] for givers in lacking), default=0)
        return {givers for givers in lacking if number[givers] == most}

    def _walk(
        self, demand: Demand, loads: list[PoolDraw], wanted: int, unlimited: set[Givers]
    ) -> tuple[list[int], dict[int, int]]:
        """Supply one pool after the other: how often each was supplied, and what is left by account."""
        left: dict[int, int] = {}
        found: list[int] = []
        for load in loads:
            needs = {givers: need for givers, need in load.needs.items() if givers not in unlimited}
            times, _ = self._supply(demand, needs, min(load.most, wanted), left)
            wanted -= times
            found.append(times)
        return found, left

    def _supply(self, demand: Demand, needs: dict[Givers, Fraction], most: int, left: dict[int, int]) -> tuple[int, list[Givers]]:
        """Take what is needed as often as possible; returns that number, and the suppliers that could not give more."""
        room = {givers: self._there(demand, givers, left) // need for givers, need in needs.items() if need}
        times = min([most, *room.values()])
        for givers, need in needs.items():
            rest = times * need
            for u in givers:
                worth = self._worth(demand, u)
                units = min(left.get(u, self.most(u)), ceil(rest / worth)) if worth else 0
                left[u] = left.get(u, self.most(u)) - units
                rest -= units * worth
        return times, [givers for givers in room if room[givers] == times < most]

    def lacking(self, demand: Demand, v: int) -> list[Givers] | None:
        """Suppliers that have too little for one instance requested at a pool; None if nothing supplies it."""
        needs = self.needs_by_itself(demand, v) if demand.own else self._needs(demand, v)
        return None if needs is None else [givers for givers, need in needs.items() if need > self._there(demand, givers, {})]

    def _needs(self, demand: Demand, v: int) -> dict[Givers, Fraction] | None:
        charges = self._paths.charged(v, demand.channel)
        return None if charges is None else {givers: demand.count.min * part for givers, part in charges}

    def _there(self, demand: Demand, givers: Givers, left: dict[int, int]) -> Fraction:
        """What a supplier has, in the unit of the request."""
        return sum((left.get(u, self.most(u)) * self._worth(demand, u) for u in givers), Fraction(0))

    def most(self, u: int) -> int:
        """Units that one match can take of a supplier; all of them would be the pool itself."""
        return self._situation.free(u) - self.is_in_use_below(u)

    def is_in_use_below(self, u: int) -> bool:
        """Whether all units of a pool are free but cannot be taken together, because something below it is held."""
        situation = self._situation
        return situation.free(u) == situation.size[u] > 1 and not situation.is_clear(u)

    def _rounded(self, demand: Demand, givers: Givers, number: Fraction) -> Fraction:
        """Rounded up to whole units of the supplier."""
        worth = self._worth(demand, givers[0])
        return ceil(number / worth) * worth if worth else Fraction(number)

    def _worth(self, demand: Demand, u: int) -> Fraction:
        return demand.per_unit(self._situation.accounts.unit(u)) or Fraction(0)

    def _picked(self, demand: Demand, asked: int) -> SupplyShortage:
        """The shortage for pools that are picked: what they have, as far as their suppliers have it too."""
        left: dict[int, int] = {}
        short: set[Givers] = set()
        room = 0
        pools = self._situation.typology.vertices(demand.kind).tolist()
        for v in pools:
            charges = (((v,), Fraction(1)), *self._paths.upstream(v, demand.kind))
            needs = {givers: self._rounded(demand, givers, part) for givers, part in charges}
            number, lacking = self._supply(demand, needs, asked - room, left)
            room += number
            short.update(lacking)
            if room >= asked:
                break
        return SupplyShortage(asked, (demand.count.min,) * 2, room, len(pools), tuple(sorted(short, key=self._tightest)))

    # -- consumers ---------------------------------------------------------------------------------------------------

    def _whom(self, demand: Demand, times: int) -> tuple[Iterable[int], int, int]:
        """The pools to supply, how often each at most, and how many of them share the requested amount."""
        if demand.charged == "siblings":
            return self._nodes(), 1, self._beside(demand)
        often = 1
        for above in self._around.get(demand.number, ()):
            if above.confined:
                break
            if not above.is_slot:
                return self._of_type(above.kind), often, 1
            often *= above.count.min
        return self._nodes(), times, 1

    def _nodes(self) -> list[int]:
        typology = self._situation.typology
        return self._of_type(typology.node) if typology.node >= 0 else []

    def _of_type(self, kind: int) -> list[int]:
        """Pools to supply; if none is free, all of them, to show how much could be supplied."""
        pools: list[int] = self._situation.eligible.candidates(kind).tolist()
        return [v for v in pools if self._situation.free(v)] or pools

    def _beside(self, demand: Demand) -> int:
        """How many nodes share what is charged for them, if the request specifies it."""
        outer = self._around.get(demand.number, ())
        beside = [child for child in (outer[0].children if outer else self._plan.demands) if not child.charged]
        number = 1
        while len(beside) == 1:
            number *= beside[0].count.min
            if beside[0].kind == self._situation.typology.node:
                return number
            beside = [child for child in beside[0].children if not child.charged]
        return 1

    # -- words -------------------------------------------------------------------------------------------------------

    def in_words(self, givers: Givers) -> str:
        """A supplier and what it has, such as ``power on pdu3: 400 of 500 W free``, and the suppliers that stand by for it."""
        accounts, v = self._situation.accounts, givers[0]
        if not any(map(self._situation.is_up, givers)):
            return f"{self.name(givers)}: {self._why_out(v)}"
        if accounts.ways[list(givers)].all():
            return f"{self.name(givers)}, {ONLY_A_WAY}"
        free, size = (
            unit.exact(amount, accounts.unit(v)) for amount in (self.free(givers), sum(map(accounts.size.item, givers)))
        )
        idle = [self.name((u,)) for u in self._paths.standing_by(v)]
        others = f" while {listed(idle)} {'stands' if len(idle) == 1 else 'stand'} by" if idle else ""
        return f"{self.name(givers)}: {free} of {size} free{others}"

    def _why_out(self, v: int) -> str:
        """The state of a pool out of service; for one that is cut off, the missing suppliers and their states."""
        structure = self._situation.structure
        culprits = structure.unavailable_because(v)
        if not structure.outage.is_cut_off(np.array([v], np.int32)).any():
            return structure.state_name(culprits[0])
        lacking = [f"{self.name((u,))} ({structure.state_name(u)})" for u in culprits[: limits.WHY_NAMES_MAX]]
        return f"cut off from {listed(lacking)}"

    def free(self, givers: Givers) -> int:
        return sum(map(self._situation.free, givers))

    def _tightest(self, givers: Givers) -> tuple[int, Givers]:
        return self.free(givers), givers

    def name(self, givers: Givers) -> str:
        """A unique name of a supplier: short if possible, else its path or URI; an edge by its ends."""
        structure, v = self._situation.structure, givers[0]
        if self._situation.accounts.is_edge(v):
            return self._situation.accounts.said(v)
        alone = len(givers) == 1
        short = self._short_name(v, alone)
        return short if self._shared_by(structure.type.item(v), alone)[short] <= len(givers) else structure.where(v)

    def _shared_by(self, kind: int, alone: bool) -> Counter[str]:
        """The number of pools of a type with each short name."""
        if (kind, alone) not in self._names:
            pools = self._situation.typology.vertices(kind).tolist()
            self._names[kind, alone] = Counter(self._short_name(v, alone) for v in pools)
        return self._names[kind, alone]

    def _short_name(self, v: int, alone: bool) -> str:
        """The name of a pool; if it is attached to another and has no name of its own, its type and the name of that pool."""
        structure, kind = self._situation.structure, self._situation.structure.kind_of(v)
        on = [u for feeds in self._paths.feeds for u in feeds.suppliers(v) if v in feeds.hung_on(u)]
        above = structure.parent.item(v)
        if above >= structure.tree_end and structure.end.item(v) == v + 1:
            on.append(above)
        name = structure.name(v)
        if on and (not alone or kind.type in (name, kind.basename)):
            return f"{name if alone else kind.type} on {structure.name(on[0])}"
        return structure.path(v) if v < structure.tree_end else name


def _suppliers(loads: list[PoolDraw]) -> set[Givers]:
    return {givers for load in loads for givers in load.needs}


def listed(items: Sequence[str], total: int = 0) -> str:
    """Some of the items in words.

    Args:
        total: how many there are, if `items` does not contain all.

    >>> listed(["a", "b", "c"]), listed(list("abcdef"))
    ('a, b and c', 'a, b, c, d and 2 more')
    """
    shown = list(items[: limits.WHY_NAMES_MAX])
    more = max(total, len(items)) - len(shown)
    if more:
        return f"{', '.join(shown)} and {more} more"
    return f"{', '.join(shown[:-1])} and {shown[-1]}" if len(shown) > 1 else "".join(shown)
