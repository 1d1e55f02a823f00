"""A refusal as a value: its parts, the causes that rule out their candidates, and the sentences about them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from fluxres import limits
from fluxres.documents.document import plural
from fluxres.graph.kinds import is_state
from fluxres.match.admission import Objection
from fluxres.shown import Shown
from fluxres.syntax import unit
from fluxres.syntax.moment import in_message
from fluxres.syntax.vertex import SLOT

Until = Callable[[float], str]
"""Puts the end of a holding, in seconds, into words."""


CUT: Final = "The search was cut: larger counts may match, or an earlier start."


@dataclass(frozen=True, slots=True)
class Cause:
    """One thing that rules out candidates.

    Args:
        code: ``id``, ``property``, ``unit``, ``state``, ``cut-off`` (all that supplies it is out of service), ``partition``,
            ``constraint``, ``held-above``, ``held``, ``below`` (the pool is requested exclusively, and others hold something in
            it), ``inside`` (it contains too little of what is requested), ``held-in-part`` (it has room, and others hold the rest
            of it), ``way`` (it is a pass-through pool), ``supply`` (it is on the supply path of what is requested, and has too
            little to give) or ``route`` (there is none from it to the named pool).
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
            what = units_of(self.asked, self.type, self.unit)
            return f"requested {what}, {only}{room} available in {self.left} of {plural(self.candidates, 'pool')}"
        asked = f"requested {plural(self.asked, self.type)}"
        if self.is_short and self.room == self.candidates:
            return f"{asked}, there {'is' if self.room == 1 else 'are'} only {self.room}"
        found = f"{only}{self.room}" if self.room else "none"
        is_one = (self.room or self.candidates) == 1
        return f"{asked}, {found} of {self.candidates} {'is' if is_one else 'are'} available"

    def counted(self, number: int) -> str:
        """An amount of what the part asks for, such as `4 nodes` or `1 TiB of memory`."""
        return units_of(number, self.type, self.unit) if self.is_amount else plural(number, self.type)

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


def units_of(amount: int, kind: str, of_unit: str | None) -> str:
    return f"{plural(amount, 'unit') if of_unit is None else unit.exact(amount, of_unit)} of {kind}"


def _until(end_s: float) -> str:
    return "without end" if end_s == float("inf") else f"until {in_message(end_s)}"


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
