"""How CTest allocates slots: it tries every way to place the requirements of a test before it refuses.

Requirements are placed largest first, each on the instance with the most free slots, which then sinks to its place in the order
(round robin) or moves to the front (block).  If the next one cannot be placed, the last choice is undone.  So a packing is found
whenever one exists, in exponential time in bad cases; this implementation is bounded and reports when it gives up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal

from fluxres import limits
from fluxres.errors import LimitExceeded
from fluxres.formats.peers.ctest.groups import Group, expand

Strategy = Literal["round-robin", "block"]

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
    for requirement, (instances, place) in zip(order, chosen, strict=True):
        found[requirement] = instances[place][1]
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


def place(
    groups: Sequence[Group], machine: Mapping[str, Mapping[str, int]], strategy: Strategy = "round-robin"
) -> list[dict[str, list[tuple[str, int]]]] | None:
    """What each process of a test gets, or None if CTest would not run it.

    Args:
        machine: free slots by type and instance.

    Errors: LimitExceeded as :func:`pack`, and for too many processes.

    >>> from fluxres.formats.peers.ctest import groups as ctest_groups
    >>> place(ctest_groups.parse("2,gpus:2"), {"gpus": {"0": 2, "1": 3}})
    [{'gpus': [('1', 2)]}, {'gpus': [('0', 2)]}]
    """
    processes = list(expand(groups))
    by_type: dict[str, list[tuple[int, int]]] = {}
    for number, needs in enumerate(processes):
        for need in needs:
            by_type.setdefault(need.type, []).append((number, need.slots))
    given: list[dict[str, list[tuple[str, int]]]] = [{} for _ in processes]
    for type_name, wanted in by_type.items():
        found = pack([slots for _, slots in wanted], machine.get(type_name, {}), strategy)
        if found is None:
            return None
        for (number, slots), name in zip(wanted, found, strict=True):
            given[number].setdefault(type_name, []).append((name, slots))
    return given


class Slots:
    """The slots of a machine while tests run.

    >>> slots = Slots({"gpus": {"0": 4}})
    >>> slots.take("gpus", "0", 3), slots.take("gpus", "0", 2), slots.locked("gpus")
    (True, False, {'0': 3})
    """

    def __init__(self, machine: Mapping[str, Mapping[str, int]]) -> None:
        self._total = {type_name: dict(instances) for type_name, instances in machine.items()}
        self._locked = {type_name: dict.fromkeys(instances, 0) for type_name, instances in machine.items()}

    def take(self, type_name: str, name: str, slots: int) -> bool:
        """Take slots of one instance; False, without a change, if it has fewer or does not exist."""
        locked = self._locked.get(type_name, {})
        if slots < 0 or name not in locked or locked[name] + slots > self._total[type_name][name]:
            return False
        locked[name] += slots
        return True

    def give_back(self, type_name: str, name: str, slots: int) -> bool:
        """Return slots; False, without a change, if fewer are taken."""
        locked = self._locked.get(type_name, {})
        if slots < 0 or name not in locked or locked[name] < slots:
            return False
        locked[name] -= slots
        return True

    def locked(self, type_name: str) -> dict[str, int]:
        return dict(self._locked.get(type_name, {}))

    def free(self) -> dict[str, dict[str, int]]:
        return {
            type_name: {name: slots - self._locked[type_name][name] for name, slots in instances.items()}
            for type_name, instances in self._total.items()
        }
