"""A slow matcher that is obviously correct: it enumerates all assignments in the order of the policy, and checks them by rules.

It shares nothing with the package but the values of a request and of a machine: what is held is a list of holds that is searched
through moment by moment, an assignment is a flat list of entries, and `broken` says what is wrong with one, rule by rule of
`specs/matching.md`.  Rules never mend: an assignment that breaks one is not extended.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from fluxres.syntax.jobspec import Request
from fluxres.syntax.vertex import Vertex
from tests.match.site import Site

STEPS_MAX = 20_000

Goal = tuple[Vertex, int, "tuple[str, int] | None", tuple[int, ...], int]
"""A request vertex, the pool below which to search for it, its slot instance, the exclusive pools above it, and how many
entries there were before those of its siblings."""


class TooLarge(Exception):
    """The case has too many assignments to enumerate."""


@dataclass(frozen=True)
class Entry:
    """`bind` passes through, `whole` takes all, `units` takes some, `share` looks; `around` are the exclusively taken pools in
    which it was searched for, outermost first. `draw` charges a pool on the path to others, alone if it is `kept`; `look` is
    `share` for such a pool."""

    what: str
    v: int
    amount: int
    slot: tuple[str, int] | None
    around: tuple[int, ...]
    kept: bool = False

    @property
    def within(self) -> int:
        """The outermost exclusively taken pool that implies this one."""
        return self.around[0] if self.around else -1


@dataclass
class Case(Site):
    """A request on a site, and the order of candidates."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.modes: dict[int, str] = {}
        #: Where the nodes meet, and which they may be: one alone, or all that are below a supplier.
        self.meeting: tuple[int, set[int]] | None = None
        self.find_modes(self.request.resources, None, inside=False)

    def find_modes(self, vertices: Sequence[Vertex], above: str | None, *, inside: bool) -> None:
        """Which vertices are charged `below` the pool that contains them or for their `siblings`; the others are picked."""
        alone = all(map(self.is_distributed, vertices))
        for v in vertices:
            if self.is_distributed(v):
                occurs = above is not None and not v.is_directed and self.occurs(v.type, above)
                if v.ids is None and not occurs:
                    self.modes[id(v)] = "siblings" if not inside and not alone else "below" if above is not None else ""
            elif v.is_slot and self.is_confined_by_types(v):
                within = [child for child in v.children if self.may_lie_in_node(child)]
                self.find_modes(within, "node", inside=True)
                self.find_modes([child for child in v.children if child not in within], above, inside=inside)
            elif v.is_slot:
                self.find_modes(v.children, above, inside=inside or above == "node")
            else:
                self.find_modes(v.children, v.type, inside=inside or v.type == "node" or self.occurs(v.type, "node"))

    def is_distributed(self, vertex: Vertex) -> bool:
        leaf = not vertex.is_slot and not vertex.children
        return leaf and (vertex.is_directed or self.ways.distributed(vertex.type))

    def occurs(self, type_name: str, below: str) -> bool:
        pools = (v for v in range(self.structure.n) if self.type(v) == type_name)
        return any(self.type(u) == below for v in pools for u in self.above(v))

    def in_turn(self, vertices: Sequence[Vertex]) -> list[Vertex]:
        return [*(v for v in vertices if not self.modes.get(id(v))), *(v for v in vertices if self.modes.get(id(v)))]

    def goals(self, vertices: Sequence[Vertex], below: int, slot: tuple[str, int] | None, around: tuple[int, ...], first: int):
        return [(vertex, below, slot, around, first) for vertex in self.in_turn(vertices)]

    # -- assignments ---------------------------------------------------------------------------------------------

    def solve(self, counts: dict[int, int]) -> list[Entry] | None:
        """The first assignment in the order of the policy, for fixed counts by identity of request vertex."""
        goals: list[Goal] = self.goals(self.request.resources, 0, None, (), 0)
        name = next((v.type for v in self.request.vertices() if v.between is not None), None)
        if name is None:
            return next(self.extend(goals, [], counts), None)
        for meeting in self.meetings(name):
            self.meeting = meeting
            self.known.clear()
            found = next(self.extend(goals, [], counts), None)
            if found is not None:
                return found
        return None

    def meetings(self, name: str) -> Iterator[tuple[int, set[int]]]:
        """One node alone, then the suppliers, the nearest first; all that are equally near in the order of the policy."""
        self.meeting = None
        self.known.clear()
        alone = self.ordered([v for v in range(self.structure.n) if self.type(v) == "node"])
        levels = [dict(level) for level in self.ways.meetings(name)]
        found = [(-1, {v}) for v in alone]
        yield from [*found, *((v, level[v]) for level in levels for v in self.ordered(list(level)))]

    def satisfies(self, v: int) -> bool:
        if self.meeting is not None and self.node(v) >= 0 and self.node(v) not in self.meeting[1]:
            return False
        return super().satisfies(v)

    def candidates(self, type_name: str, below: int) -> list[int]:
        everywhere = range(self.structure.n)
        pools = [v for v in (self.below(below) if below else everywhere) if self.type(v) == type_name]
        return self.ordered(pools)

    def extend(self, goals: list[Goal], taken: list[Entry], counts: dict[int, int]) -> Iterator[list[Entry]]:
        """All ways to reach the goals (vertex, pool it is below, slot, exclusive pools above it)."""
        self.step()
        if not goals:
            yield taken
            return
        (vertex, below, slot, around, first), rest = goals[0], goals[1:]
        if self.modes.get(id(vertex)):
            charged = self.charge(vertex, below, slot, taken, counts, first)
            if charged is not None:
                yield from self.extend(rest, charged, counts)
        elif vertex.is_slot:
            yield from self.instances(vertex, below, around, rest, taken, counts, 0, 0)
        elif vertex.children:
            yield from self.pools(vertex, below, slot, around, rest, taken, counts, 0, 0)
        else:
            needed = Fraction(counts[id(vertex)])
            yield from self.units(vertex, below, slot, around, rest, taken, counts, 0, needed)

    def step(self) -> None:
        self.steps += 1
        if self.steps > STEPS_MAX:
            raise TooLarge

    def instances(self, vertex, below, around, rest, taken, counts, number, at):
        self.step()
        if number == counts[id(vertex)]:
            yield from self.extend(rest, taken, counts)
            return
        own = (vertex.label, sum(1 for e in taken if e.what == "slot" and e.slot and e.slot[0] == vertex.label))
        opened = [*taken, Entry("slot", -1, 0, own, around)]
        if not self.is_confined(vertex, below):
            goals = self.goals(vertex.children, below, own, around, len(opened))
            for found in self.extend(goals, opened, counts):
                yield from self.instances(vertex, below, around, rest, found, counts, number + 1, at)
            return
        nodes = self.candidates("node", below)
        if self.policy == "spread":
            # The most room left first; each instance looks at all of them.
            nodes, at = sorted(nodes, key=lambda v: (self.taken_in(v, taken) - self.room(v), v)), 0
        for position in range(at, len(nodes)):
            node = nodes[position]
            if not (self.is_up(node) and self.satisfies(node) and self.is_passable(node)):
                continue
            if self.policy.endswith("nodex") and not self.whole_is_possible(node):
                continue
            inside = [child for child in vertex.children if self.may_lie_in_node(child)]
            goals = self.goals(inside, node, own, around, len(opened))
            goals += self.goals([child for child in vertex.children if child not in inside], below, own, around, len(opened))
            for found in self.extend(goals, opened, counts):
                yield from self.instances(vertex, below, around, rest, found, counts, number + 1, position)

    def taken_in(self, node: int, taken: list[Entry]) -> int:
        """Units of the measured type that a match has in a node."""
        own = [e for e in taken if e.what in ("units", "whole", "share", "draw") and self.type(e.v) == self.measured()]
        return sum(e.amount for e in own if self.node(e.v) == node)

    def is_confined(self, slot: Vertex, below: int) -> bool:
        """Whether each instance lies within one node."""
        return self.node(below) < 0 and self.is_confined_by_types(slot)

    def is_confined_by_types(self, slot: Vertex) -> bool:
        inner = list(Request((slot,)).vertices())
        return (
            not any(v.type == "node" for v in inner)
            and not self.stands_below_node(slot)
            and any(map(self.is_in_node, slot.children))
        )

    def stands_below_node(self, wanted: Vertex) -> bool:
        def search(vertices: Sequence[Vertex], inside: bool) -> bool:
            return any((v is wanted and inside) or search(v.children, inside or v.type == "node") for v in vertices)

        return search(self.request.resources, False)

    def is_in_node(self, vertex: Vertex) -> bool:
        if vertex.is_slot:
            parts = [child for child in vertex.children if not self.is_distributed(child)]
            return all(map(self.is_in_node, parts or vertex.children))
        if vertex.is_directed:
            return False
        return self.once(
            vertex.type,
            -1,
            lambda: any(
                self.type(v) == vertex.type and any(self.type(u) == "node" for u in self.above(v))
                for v in range(self.structure.n)
            ),
        )

    def may_lie_in_node(self, vertex: Vertex) -> bool:
        return self.is_distributed(vertex) or self.is_in_node(vertex)

    def pools(self, vertex, below, slot, around, rest, taken, counts, number, at):
        self.step()
        if number == counts[id(vertex)]:
            yield from self.extend(rest, taken, counts)
            return
        pools = self.named(vertex, self.candidates(vertex.type, below))
        for position in range(at, len(pools)):
            v = pools[position]
            entry = Entry("whole" if vertex.is_exclusive else "bind", v, self.size(v), slot, around)
            if self.broken(taken, entry):
                continue
            inner = (*around, v) if vertex.is_exclusive else around
            goals = self.goals(vertex.children, v, slot, inner, len(taken) + 1)
            for found in self.extend(goals, [*taken, entry], counts):
                yield from self.pools(vertex, below, slot, around, rest, found, counts, number + 1, position + 1)

    def units(self, vertex, below, slot, around, rest, taken, counts, at, left):
        self.step()
        if left <= 0:
            yield from self.extend(rest, taken, counts)
            return
        pools = self.named(vertex, self.candidates(vertex.type, below))
        for position in range(at, len(pools)):
            v = pools[position]
            worth = self.worth(vertex, v)
            if worth is None:
                continue
            size = self.size(v)
            only_whole = bool(vertex.exclusive) or self.is_only_whole(v)
            if not vertex.is_exclusive and size == 1:
                choices = [Entry("share", v, 1, slot, around)]
            elif size == 1 or only_whole:
                choices = [Entry("whole", v, size, slot, around)]
            else:
                choices = [Entry("units", v, n, slot, around) for n in range(min(size, ceil(left / worth)), 0, -1)]
            for entry in choices:
                if self.broken(taken, entry):
                    continue
                joined: list[Entry] | None = [*taken, entry]
                if entry.what != "share" and self.is_distributed(vertex):
                    # What is picked is charged farther up.
                    due = {u: part * entry.amount * worth for u, part in self.ways.upstream(v, vertex.type).items()}
                    joined = self.draw(vertex, due, slot, [*taken, entry])
                if joined is not None:
                    after = left - entry.amount * worth
                    yield from self.units(vertex, below, slot, around, rest, joined, counts, position + 1, after)

    # -- charges -------------------------------------------------------------------------------------------------

    def charge(self, vertex, below, slot, taken, counts, first):
        """The entries with what a vertex charges, or None."""
        self.step()
        if self.modes[id(vertex)] == "below":
            starts = [below]
        else:
            picked = [e.v for e in taken[first:] if e.what in ("units", "share") or (e.what == "whole")]
            starts = list(dict.fromkeys(self.node(v) for v in picked if self.node(v) >= 0)) or list(dict.fromkeys(picked))
        due: dict[tuple[int, ...], Fraction] = {}
        for v in starts:
            charges = self.charges(vertex, v)
            if charges is None:
                return None
            for u, part in charges.items():
                due[u] = due.get(u, Fraction(0)) + part * counts[id(vertex)] / len(starts)
        return self.draw(vertex, due, slot, taken)

    def charges(self, vertex: Vertex, v: int) -> dict[tuple[int, ...], Fraction] | None:
        if vertex.to is not None:
            return self.ways.routed(v, vertex.type, vertex.to)
        if vertex.between is None:
            return self.ways.charged(v, vertex.type)
        assert self.meeting is not None
        supplier, nodes = self.meeting
        if self.node(v) not in nodes:
            return None
        edges = self.ways.graphs[self.ways.names.index(vertex.type)]
        return {} if supplier < 0 else self.ways.along(edges, self.ways.routes_to(edges, v, supplier))

    def draw(
        self, vertex: Vertex, due: dict[tuple[int, ...], Fraction], slot: tuple[str, int] | None, taken: list[Entry]
    ) -> list[Entry] | None:
        """The entries with what each pool gives, one after the other, as much as possible; None if that is too little."""
        for givers, number in sorted(due.items()):
            for v in givers:
                worth = self.worth(vertex, v)
                if worth is None or number <= 0:
                    continue
                new = self.given(vertex, v, ceil(number / worth), slot, taken)
                if new is not None:
                    number -= max(new.amount, new.what == "look") * worth
                    taken = [*taken, new]
            if number > 0:
                return None
        return taken

    def given(self, vertex: Vertex, v: int, units: int, slot: tuple[str, int] | None, taken: list[Entry]) -> Entry | None:
        """What one pool gives of a number of units: as much as breaks no rule."""
        if not vertex.is_exclusive and self.size(v) == 1 and not self.is_edge(v) and not self.is_flow(vertex):
            new = Entry("look", v, 0, slot, ())
            return None if self.overdrawn(taken, new) else new
        kept = bool(vertex.exclusive) or self.is_only_whole(v)
        tries = (Entry("draw", v, number, slot, (), kept) for number in range(min(units, self.size(v)), 0, -1))
        return next((new for new in tries if not self.overdrawn(taken, new)), None)

    def is_flow(self, vertex: Vertex) -> bool:
        return vertex.is_directed or self.ways.is_flow(vertex.type)

    def overdrawn(self, taken: list[Entry], new: Entry) -> bool:
        """Whether a pool on the way cannot give what is drawn."""
        v = new.v
        same = [e for e in taken if e.v == v and e.what != "slot"]
        if not self.is_up(v) or not self.satisfies(v) or self.free(v) < 1:
            return True
        if new.what == "look":
            return any(e.what != "look" for e in same)
        if any(e.what not in ("draw", "units") for e in same):
            return True
        node = self.node(v)
        if self.policy.endswith("nodex") and node >= 0 and not self.whole_is_possible(node):
            return True
        drawn = sum(e.amount for e in same if e.what == "draw") + new.amount
        picked = sum(e.amount for e in same if e.what == "units")
        if new.kept or any(e.kept for e in same):
            return bool(picked) or drawn > self.size(v) or not self.whole_is_possible(v)
        total = drawn + picked
        return total > self.free(v) or (total == self.size(v) and not self.whole_is_possible(v))

    # -- the rules -----------------------------------------------------------------------------------------------

    def broken(self, taken: list[Entry], new: Entry) -> bool:
        """Whether an entry may not join those taken."""
        v, size = new.v, self.size(new.v)
        others = [e for e in taken if e.what != "slot"]
        is_there = self.is_passable(v) if new.what == "bind" else self.free(v) > 0
        if not self.is_up(v) or not self.satisfies(v) or not is_there:
            return True
        node = self.node(v)
        if self.policy.endswith("nodex") and node >= 0 and not self.whole_is_possible(node):
            return True
        same = [e for e in others if e.v == v]
        if any(e.what not in ("units", "draw") for e in same) or (same and new.what != "units") or any(e.kept for e in same):
            return True
        for e in others:
            if self.takes_all(others, e.v) and e.v in self.above(v) and e.v not in new.around:
                return True
        own = sum(e.amount for e in same if e.what != "look") + (new.amount if new.what in ("units", "whole") else 0)
        if new.what in ("units", "whole"):
            if own > self.free(v):
                return True
            if own == size and (not self.whole_is_possible(v) or any(v in self.above(e.v) for e in others)):
                return True
        return False

    def takes_all(self, taken: list[Entry], v: int) -> bool:
        same = [e for e in taken if e.v == v]
        units = sum(e.amount for e in same if e.what in ("units", "whole", "draw"))
        return any(e.kept for e in same) or units == self.size(v) > 0

    # -- counts --------------------------------------------------------------------------------------------------

    def settle(self) -> tuple[dict[int, int], list[Entry]] | None:
        """Counts settled in the order written, and the assignment."""
        vertices = [v for v in self.request.vertices() if v.count.max != 0]
        counts = {id(v): v.count.min for v in vertices}
        found = self.solve(counts)
        if found is None:
            return None
        limit = int(self.structure.size.sum()) * 4
        for v in vertices:
            for number in v.count.descending(min(limit, v.count.max or limit)):
                if number <= v.count.min:
                    break
                better = self.solve({**counts, id(v): number})
                if better is not None:
                    found, counts[id(v)] = better, number
                    break
        return counts, found


def picked(case: Case, found: list[Entry]) -> tuple[dict[int, int], set[int], dict[tuple[str, int], set[int]]]:
    """What an assignment records: units by pool, pools only shared, and the pools of each instance of a slot."""
    units: dict[int, int] = {}
    shared: set[int] = set()
    slots: dict[tuple[str, int], set[int]] = {}
    nodex = case.policy.endswith("nodex")

    def record(v: int, within: int) -> int:
        v = within if within >= 0 else v
        return case.node(v) if nodex and case.node(v) >= 0 else v

    topmost = {}
    if any(e.what == "draw" for e in found):
        topmost = {e.v: [u for u in case.above(e.v) if case.takes_all(found, u)][-1:] for e in found if e.what != "slot"}
    for e in found:
        if e.what == "slot":
            assert e.slot is not None
            slots[e.slot] = set()
            if e.within >= 0:
                slots[e.slot].add(record(e.within, -1))
            continue
        target = record(e.v, next(iter(topmost.get(e.v, ())), e.within))
        if target != e.v:
            units[target] = case.size(target)
        elif e.what == "draw" and any(o.kept for o in found if o.v == e.v):
            units[e.v] = case.size(e.v)
        elif e.what in ("units", "whole", "draw"):
            units[e.v] = min(units.get(e.v, 0) + e.amount, case.size(e.v))
        elif nodex and case.type(e.v) == "node":
            units[e.v] = 1
        elif e.what in ("share", "look"):
            shared.add(e.v)
        if e.slot is not None and target in units:
            slots[e.slot].add(target)
    shared = {v for v in shared if not (nodex and case.node(v) >= 0)}
    return units, shared, slots
