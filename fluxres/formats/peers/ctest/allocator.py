"""How CTest allocates slots, as the rule of a request: it tries every way to place the requirements of a test before it refuses.

Requirements are placed largest first, each on the instance with the most free slots, which then sinks to its place in the order
(round robin) or moves to the front (block).  If the next one cannot be placed, the last choice is undone.  So a packing is found
whenever one exists, in exponential time in bad cases; this implementation is bounded and reports when it gives up.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, Literal

from fluxres import limits
from fluxres.errors import LimitExceeded
from fluxres.formats.peers import instances
from fluxres.formats.peers.ctest.groups import Group, expand
from fluxres.match.chooser import Alternative, Choice, Chooser, Offer
from fluxres.match.result import Picked
from fluxres.syntax.variants import type_of

if TYPE_CHECKING:
    from fluxres.match.situation import Situation
    from fluxres.match.typology import Typology
    from fluxres.syntax.jobspec import Request

Strategy = Literal["round-robin", "block"]

#: numbers of slots that a refusal names
_NAMED_MAX: Final = 6
#: cells of all orders kept while choices may be undone
_KEPT_MAX: Final = 20_000_000


def pack(needed: Sequence[int], free: Mapping[str, int], strategy: Strategy = "round-robin") -> list[str] | None:
    """The instance for each requirement, or None if there is no way to place them all.

    Args:
        needed: slots of each requirement; all of one come from one instance.
        free: slots by instance.
        strategy: CTest uses round robin.

    Cost: O(requirements × instances) if no choice has to be undone.
    Errors: LimitExceeded, undecided, after `limits.MATCH_STEPS_MAX` choices were undone.

    >>> pack([2, 2, 2], {"0": 4, "1": 2}), pack([3], {"0": 2, "1": 2})
    (['0', '0', '1'], None)
    """
    if not needed:
        return []
    order = sorted(range(len(needed)), key=lambda at: -needed[at])
    # CTest stores instances by id and sorts them stably.
    start = sorted(((slots, name) for name, slots in sorted(free.items())), key=lambda each: -each[0])
    if sum(needed) > sum(slots for slots, _ in start) or (start and max(needed) > start[0][0]) or not start:
        return None
    chosen: list[tuple[list[tuple[int, str]], int]] = []
    current, at, steps = start, 0, 0
    while True:
        wanted = needed[order[len(chosen)]]
        if at < len(current) and current[at][0] >= wanted:
            chosen.append((current, at))
            if len(chosen) == len(order):
                break
            current, at = _moved(current, at, wanted, strategy), 0
            if len(chosen) * len(current) > _KEPT_MAX:
                message = f"{len(order)} requirements on {len(current)} instances are too many to search"
                raise LimitExceeded(message, where="packing", hint="request less")
            continue
        at = _next(current, at) if at < len(current) else at
        while at >= len(current):
            if not chosen:
                return None
            steps += 1
            if steps > limits.MATCH_STEPS_MAX:
                message = f"undecided after {limits.MATCH_STEPS_MAX} choices were undone"
                raise LimitExceeded(message, where="packing", hint="request slots in fewer different sizes")
            current, last = chosen.pop()
            at = _next(current, last)
    found = [""] * len(needed)
    for requirement, (free_there, place) in zip(order, chosen, strict=True):
        found[requirement] = free_there[place][1]
    return found


def _next(instances: Sequence[tuple[int, str]], at: int) -> int:
    """The next instance with a different number of free slots: one with the same number would lead to the same result."""
    free = instances[at][0]
    while at < len(instances) and instances[at][0] == free:
        at += 1
    return at


def _moved(instances: Sequence[tuple[int, str]], at: int, taken: int, strategy: Strategy) -> list[tuple[int, str]]:
    """The instances after slots of one were taken, in the order in which the next requirement tries them."""
    slots, name = instances[at]
    rest = [*instances[:at], *instances[at + 1 :]]
    place = 0
    if strategy == "round-robin":
        place = at
        while place < len(rest) and rest[place][0] > slots - taken:
            place += 1
    rest.insert(place, (slots - taken, name))
    return rest


@dataclass(frozen=True, slots=True)
class Packing(Chooser):
    """The rule of a request: the resource groups of a test, one for each of its processes.

    CTest knows one machine, so all of it comes from one node: the first that has a packing.
    """

    groups: tuple[Group, ...]

    def asked(self, request: Request, typology: Typology) -> Request:
        return request

    def choose(self, offer: Offer) -> Choice | None:
        found = next((picked for picked in self._packings(offer.situation) if offer.is_supplied(_pools(picked))), None)
        return None if found is None else Choice(found, sum(group.count for group in self.groups))

    def alternatives(self, request: Request, offer: Offer) -> list[Alternative]:
        return [Alternative(partial(self._lacks, offer.situation), request)]

    def _lacks(self, situation: Situation) -> list[str]:
        if next(self._packings(situation), None) is not None:
            return ["the slots can be packed, but the suppliers of each such node have too little left"]
        most: dict[str, list[int]] = {}
        needed: dict[str, list[int]] = {}
        first: dict[str, str] = {}  # by type, the first word for it
        for needs in expand(self.groups):
            for need in needs:
                word = first.setdefault(type_of(need.type, situation.structure.types), need.type)
                needed.setdefault(word, []).append(need.slots)
        for word in needed:
            free = (self._free(situation, node, word) for node in instances.nodes(situation.structure))
            most[word] = max((sorted(each.values(), reverse=True) for each in free), default=[])
        asked = ", ".join(f"{word}: {_listed(slots)}" for word, slots in needed.items())
        there = ", ".join(f"{word}: {_listed(slots)}" for word, slots in most.items())
        return [f"the slots cannot be packed, each requirement on one instance (requested {asked}; free on instances {there})"]

    def _packings(self, situation: Situation) -> Iterator[list[Picked]]:
        """The packing on each node that has one."""
        for node in instances.nodes(situation.structure):
            found = self._packed(situation, node)
            if found is not None:
                yield found

    def _packed(self, situation: Situation, node: int) -> list[Picked] | None:
        """The instance of each requirement, in the order written; None if there is no packing on a node."""
        wanted = [(number, need) for number, needs in enumerate(expand(self.groups)) for need in needs]
        picked: list[Picked | None] = [None] * len(wanted)
        types = [type_of(need.type, situation.structure.types) for _, need in wanted]  # two words may mean one
        for type_name in dict.fromkeys(types):
            places = [at for at, each in enumerate(types) if each == type_name]
            word = wanted[places[0]][1].type
            free = self._free(situation, node, word)
            names = {label: v for v, label in self._labels(situation, node, word).items()}
            found = pack([wanted[at][1].slots for at in places], {label: free[v] for label, v in names.items()})
            if found is None:
                return None
            for at, label in zip(places, found, strict=True):
                picked[at] = Picked(wanted[at][0], names[label], wanted[at][1].slots)
        return [each for each in picked if each is not None]

    def _free(self, situation: Situation, node: int, word: str) -> dict[int, int]:
        """The whole slots that are free on each instance of a type."""
        structure = situation.structure
        vertices = instances.inside(structure, node, type_of(word, structure.types))
        free = instances.free(situation, vertices) // instances.scale(structure, vertices)
        return dict(zip(vertices.tolist(), free.tolist(), strict=True))

    def _labels(self, situation: Situation, node: int, word: str) -> dict[int, str]:
        structure = situation.structure
        vertices = instances.inside(structure, node, type_of(word, structure.types))
        return dict(zip(vertices.tolist(), instances.labels(structure, vertices), strict=True))


def _pools(picked: Sequence[Picked]) -> list[tuple[int, int]]:
    return [(each.vertex, each.units) for each in picked]


def _listed(slots: Sequence[int]) -> str:
    """The largest numbers of slots, such as `4, 2, 2, …`."""
    some = sorted(slots, reverse=True)
    return ", ".join(map(str, some[:_NAMED_MAX])) + ", …" * (len(some) > _NAMED_MAX) if some else "none"
