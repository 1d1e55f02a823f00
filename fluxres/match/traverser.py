"""The reference traverser: depth first, the first match in the order of the policy.

It uses RFC 4's abstractions by name.  The Walker lists the candidates for a demand below a pool, in the order of the policy; the
Pruning Filter rejects a list that cannot be long enough; the Evaluating Filter decides whether a candidate is suitable; the
Accumulator records what was taken and can undo it.  The search works on goals: a goal is one thing left to find, and an agenda is
the list of all of them.  Every way to reach the first goal is tried, each followed by the rest.  If the rest fails, the last
choice is undone and the next one tried, so the result is the first match in that order, and if there is no result there is no
match.

If a choice cannot interfere with later ones (`Demand.settled`), its alternatives are dropped as soon as it is made, so ordinary
requests cost no more than the pools looked at.  Only demands that compete need a search, which is bounded by
`limits.MATCH_STEPS_MAX`.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from heapq import merge
from math import ceil, prod
from typing import Final, NamedTuple

import numpy as np

from fluxres import limits
from fluxres.arrays import Int32
from fluxres.errors import LimitExceeded
from fluxres.match import relations
from fluxres.match.accumulator import Accumulator, Charger, Pick
from fluxres.match.bounds import Bounds, SupplyBound
from fluxres.match.demand import Counts, Demand, Plan, in_turn
from fluxres.match.policy import Policy, nearest
from fluxres.match.result import Placement
from fluxres.match.situation import Situation, having

STEPS_BEFORE_DOUBT: Final = 500
"""Choices undone before a search checks whether it can succeed at all: nearly all searches end sooner."""


OF_SEVERAL: Final = "parts compete for the same pools", "request its parts one by one, or in one slot"
OF_ONE_PART: Final = "pools compete for the same suppliers", "request fewer, or restrict them by a constraint"
"""What a search that gave up was about, and a hint."""


class Goal(NamedTuple):
    """`left` more of a demand, below pool `below`, from candidate `cursor` on.

    `slot` is the slot instance it is for, and `within` the exclusively taken pool whose contents are being checked; -1 for none.
    Picks from number `first` on were made for its sibling demands.
    """

    demand: Demand
    below: int
    left: Fraction | int
    cursor: int
    slot: int
    within: int
    first: int = 0


class Cut(NamedTuple):
    """Drop the choices made since the stack had this height: none of them can matter to what is left."""

    height: int


class Close(NamedTuple):
    """The contents of an exclusively taken pool are found: nothing below it is available any more."""

    v: int


Step = Goal | Cut | Close
Agenda = tuple[Step, "Agenda"] | None


class Budget:
    """The number of choices that may still be undone, over all searches for one query.

    Args:
        of_one_part: the request asks for pools of one type only.
    """

    def __init__(self, steps: int, *, of_one_part: bool = False) -> None:
        self.steps = self.left = steps
        self._what, self._hint = OF_ONE_PART if of_one_part else OF_SEVERAL

    def spend(self) -> None:
        """Count one undone choice.  Errors: LimitExceeded if none is left."""
        self.left -= 1
        if self.left < 0:
            raise LimitExceeded(
                f"a request whose {self._what}: undecided after {self.steps} choices",
                hint=self._hint,
            )


class Traverser:
    """One search.

    Args:
        situation: what is available.
        plan: the request.
        counts: how many of each demand, by number.
        policy: the order.
        budget: shared by the searches of one query.
    """

    def __init__(self, situation: Situation, plan: Plan, counts: Counts, policy: Policy, budget: Budget | None = None) -> None:
        relations.settle(plan, situation.typology)
        self.situation = situation
        self.plan = plan
        self.counts = counts
        self.policy = policy
        self.taken = Accumulator(situation)
        self.charger = Charger(situation, self.taken, node_exclusive=policy.node_exclusive)
        self.budget = budget or Budget(limits.MATCH_STEPS_MAX)
        self.evened = Evened(situation, self.taken, plan.measured)
        self._bounds = Bounds(situation, plan, counts, node_exclusive=policy.node_exclusive)
        self.likeness = Likeness(situation, plan, self.taken)
        self._orders: dict[tuple[int, int], Int32] = {}
        self._supplying: dict[int, bool] = {}
        self._stack: list[tuple[Iterator[Agenda], int]] = []
        #: Pools are sorted by what they draw of this type, before the policy applies; -1 for none.
        self._lightest_of = -1

    def match(self) -> Placement | None:
        """The first match in the order of the policy, or None.

        Errors: LimitExceeded if competing demands stay undecided.
        """
        if not self._bounds.is_conceivable() or not self._find():
            return None
        return self.taken.match(self.plan, self.counts, self.policy.name, self.policy.node_exclusive)

    def _find(self) -> bool:
        """Search; if that takes long, check whether some part is impossible on its own before continuing."""
        # Sorting nodes by locality tries each of them.
        nodes = len(self.situation.typology.vertices(self.situation.typology.node)) if self.policy.near else 0
        budget, self.budget = self.budget, Budget(min(self.budget.left, STEPS_BEFORE_DOUBT + 2 * nodes))
        try:
            return self._search_all()
        except LimitExceeded:
            self._forget()
            if not self._bounds.leaves_enough() or not self._has_room_for_each() or self._is_undersupplied():
                return False
        finally:
            self.budget = budget
        try:
            return self._search_all()
        except LimitExceeded:
            if self._find_lightest():
                return True
            raise

    def _search_all(self) -> bool:
        return self._search(self._goals(self.plan.demands, 0, -1, -1, None))

    def _forget(self) -> None:
        """Reset to the state before an abandoned search."""
        self.taken.undo(0)
        self._orders.clear()

    def _is_undersupplied(self) -> bool:
        """Whether the suppliers have too little for all parts, whatever is chosen."""
        if not self.plan.charged:
            return False
        self._forget()
        return SupplyBound(self.situation, self.plan, self.counts, self.charger).is_below(self._possible)

    def _possible(self, demand: Demand) -> list[int]:
        """The pools that could satisfy a demand if it were the only one, including those that stay undecided."""
        vertices = self.of_ids(demand, self.situation.typology.vertices(demand.kind)).tolist()
        known: dict[object, bool] = {}
        found = []
        for v in vertices:
            key: object = v
            if not self.plan.named:
                key = self.likeness.supply(v), self.situation.signature(v), self.situation.free(v), self.situation.is_clear(v)
            if key not in known:
                known[key] = self._is_possible(demand, v)
            found += [v] * known[key]
        return found

    def _is_possible(self, demand: Demand, v: int) -> bool:
        if not demand.children:
            return self._room(demand, v)[0] > 0
        if not self._will_do(demand, v):
            return False
        budget, self.budget = self.budget, Budget(STEPS_BEFORE_DOUBT)
        try:
            return self.instances_in(demand, v, 1) > 0
        except LimitExceeded:
            return True
        finally:
            self.budget = budget
            self._forget()

    def _find_lightest(self) -> bool:
        """Search once more, trying the pools that draw least first, with almost no backtracking."""
        budget = self.budget
        for kind in dict.fromkeys(demand.kind for demand in self.plan.all if demand.own and not demand.even):
            self._forget()
            self._lightest_of = kind
            self.budget = Budget(STEPS_BEFORE_DOUBT + 4 * self.situation.structure.n)
            try:
                if self._search_all():
                    return True
            except LimitExceeded:
                continue
            finally:
                self._lightest_of = -1
                self.budget = budget
        self._forget()
        return False

    def _has_room_for_each(self) -> bool:
        """Whether every part would be possible if it were the only one; a part that stays undecided counts as possible."""
        for demand in self.plan.demands:
            if demand.charged or len(self.plan.demands) == 1:
                continue
            self.budget = Budget(STEPS_BEFORE_DOUBT)
            try:
                if not self._search(self._goals((demand,), 0, -1, -1, None)):
                    return False
            except LimitExceeded:
                self._orders.clear()
            self.taken.undo(0)
        return True

    # -- the machine -------------------------------------------------------------------------------------------------

    def _search(self, agenda: Agenda) -> bool:
        """Reach every goal. On failure everything taken is undone."""
        stack, self._stack = self._stack, []
        try:
            while agenda is not None:
                step, rest = agenda
                if isinstance(step, Cut):
                    del self._stack[step.height :]
                    agenda = rest
                elif isinstance(step, Close):
                    self.taken.close(step.v)
                    agenda = rest
                else:
                    self._stack.append((self._ways(step, rest), self.taken.mark))
                    found, agenda = self._next()
                    if not found:
                        return False
            return True
        finally:
            self._stack = stack

    def _next(self) -> tuple[bool, Agenda]:
        """The next alternative of the last choice that has one."""
        while self._stack:
            ways, mark = self._stack[-1]
            self.taken.undo(mark)
            for agenda in ways:
                return True, agenda
            self.budget.spend()
            self._stack.pop()
        return False, None

    def _goals(self, demands: tuple[Demand, ...], below: int, slot: int, within: int, rest: Agenda) -> Agenda:
        first = len(self.taken.picks)
        for demand in reversed(in_turn(demands)):
            rest = (Goal(demand, below, self.counts[demand.number], 0, slot, within, first), rest)
        return rest

    def _ways(self, goal: Goal, rest: Agenda) -> Iterator[Agenda]:
        """Every way to take one step towards a goal; the step is made when its agenda is requested."""
        if goal.left <= 0:
            yield rest
        elif goal.demand.is_slot:
            yield from self._slots(goal, rest)
        elif goal.demand.children:
            yield from self._pools(goal, rest)
        elif goal.demand.charged:
            yield from self._charges(goal, rest)
        else:
            yield from self._units(goal, rest)

    def _pools(self, goal: Goal, rest: Agenda) -> Iterator[Agenda]:
        demand, taken, here = goal.demand, self.taken, len(self._stack) - 1
        candidates = self._candidates(demand, goal.below, goal.within)
        refused: set[object] = set()
        for at in range(goal.cursor, len(candidates)):
            if len(candidates) - at < goal.left:
                return
            v = int(candidates[at])
            if not self._will_do(demand, v) or self.likeness.is_like(v, refused):
                continue
            following: Agenda = (goal._replace(left=goal.left - 1, cursor=at + 1), rest)
            if demand.settled:
                following = (Cut(here), following)
            within = goal.within
            if demand.whole:
                # What was found inside only proves that the contents suffice: except for charges, other choices change nothing
                # outside.
                following = following if self.plan.charged else (Cut(here + 1), following)
                following = (Close(v), following)
                taken.take(v, self.situation.size[v], goal.slot, goal.within)
                within = v if within < 0 else within
            else:
                taken.bind(v, goal.slot)
            yield self._goals(demand.children, v, goal.slot, within, following)
            self.likeness.refuse(demand, v, refused)

    def _units(self, goal: Goal, rest: Agenda) -> Iterator[Agenda]:
        demand, taken, here = goal.demand, self.taken, len(self._stack) - 1
        situation = self.situation
        candidates = self._candidates(demand, goal.below, goal.within)
        refused: set[object] = set()
        for at in range(goal.cursor, len(candidates)):
            v = int(candidates[at])
            room, whole, factor = self._room(demand, v)
            if not room or self.likeness.is_like(v, refused):
                continue
            most = room if whole else min(room, ceil(goal.left / factor))
            if demand.upstream:
                most = self.charger.most(demand, v, factor, most)
            mark, least = taken.mark, 0
            for amount in range(most, room - 1 if whole else 0, -1):
                taken.undo(mark)
                if amount == most - 1:
                    rest_at_most = self._units_in(demand, candidates[at + 1 :], goal.left)
                    least = ceil((goal.left - rest_at_most) / factor)
                if amount < least:
                    break
                if demand.shared and situation.size[v] == 1:
                    taken.share(v, goal.slot, goal.within)
                else:
                    taken.take(v, amount, goal.slot, goal.within)
                    if taken.used[v] == situation.size[v] and situation.stop[v] > v + 1:
                        taken.close(v)
                    if not (
                        self.charger.take_upstream(demand, v, amount * factor, goal.slot) and self._draws(demand, v, goal.slot)
                    ):
                        taken.undo(mark)
                        continue
                following: Agenda = (goal._replace(left=goal.left - amount * factor, cursor=at + 1), rest)
                yield (Cut(here), following) if demand.settled else following
            self.likeness.refuse(demand, v, refused)

    def _units_in(self, demand: Demand, candidates: Int32, enough: Fraction | int) -> Fraction:
        """Units that candidates have at most for a demand; stops once they have `enough`."""
        found = Fraction(0)
        for v in candidates.tolist():
            if found >= enough:
                break
            room, _, factor = self._room(demand, v)
            found += room * factor
        return found

    def _charges(self, goal: Goal, rest: Agenda) -> Iterator[Agenda]:
        """Charge all requested units to every pool on the supply paths; there is only one way to do that."""
        if goal.demand.own:
            if self.charger.take_by_itself(goal.demand, goal.below, goal.slot):
                yield rest
            return
        starts = [goal.below] if goal.demand.charged == "below" else self.charger.starts(goal.first)
        due = self.charger.due(goal.demand, starts, goal.left)
        if due is not None and self.charger.take(goal.demand, due, goal.slot):
            yield rest

    def _draws(self, demand: Demand, v: int, slot: int) -> bool:
        """Charge what a pool draws on its own when its last units were picked; nothing is drawn for a part of it."""
        is_whole = self.taken.used[v] == self.situation.size[v]
        return not is_whole or all(self.charger.take_by_itself(own, v, slot) for own in demand.draws)

    def _slots(self, goal: Goal, rest: Agenda) -> Iterator[Agenda]:
        demand, taken, here = goal.demand, self.taken, len(self._stack) - 1
        following: Agenda = (goal._replace(left=goal.left - 1), rest)
        if not (demand.confined and self.situation.typology.node_at[goal.below] < 0):
            following = (goal._replace(left=goal.left - 1, cursor=len(taken.picks) + 1), rest)
            following = (Cut(here), following) if demand.settled else following
            slot = taken.open_slot(demand, goal.within)
            yield self._no_sooner(goal, self._goals(demand.children, goal.below, slot, goal.within, following))
            return
        nodes = self._candidates(demand, goal.below, goal.within)
        # An instance may be in the same node as the one before it or a later one; when spreading, in any node.
        following_nodes = enumerate(nodes[goal.cursor :].tolist(), goal.cursor)
        refused: set[object] = set()
        for at, node in ((0, v) for v in self.evened.nodes(nodes)) if self.policy.evened else following_nodes:
            if self.likeness.is_like(node, refused) or not self._is_passable(node):
                continue
            following = (goal._replace(left=goal.left - 1, cursor=at), rest)
            following = (Cut(here), following) if demand.settled else following
            slot = taken.open_slot(demand, goal.within)
            yield self._goals(
                demand.inside, node, slot, goal.within, self._goals(demand.beside, goal.below, slot, goal.within, following)
            )
            self.likeness.refuse(demand, node, refused)

    def _no_sooner(self, goal: Goal, agenda: Agenda) -> Agenda:
        """Require that an instance's first pick is not before that of the previous instance.

        Instances are interchangeable, so one order of them is enough, unless one can take what supplies another.

        Args:
            goal: of the slot; `cursor` is one more than the number of the first pick of the previous instance, 0 for none.
        """
        if not goal.cursor or agenda is None:
            return agenda
        first, rest = agenda
        if not isinstance(first, Goal) or first.left <= 0 or not first.demand.is_picked or self._may_supply(first.demand.kind):
            return agenda
        candidates = self._candidates(first.demand, first.below, first.within)
        at = np.flatnonzero(candidates == self.taken.picks[goal.cursor - 1].v)
        return (first._replace(cursor=int(at[0])), rest)

    def _may_supply(self, kind: int) -> bool:
        """Whether pools of a type, or pools in them, supply others by an auxiliary graph."""
        if not self.plan.charged:
            return False
        found = self._supplying.get(kind)
        if found is None:
            typology = self.situation.typology
            types = [kind, *typology.below[kind]]
            found = any(np.isin(typology.structure.type[feeds.given], types).any() for feeds in typology.paths.feeds)
            self._supplying[kind] = found
        return found

    def _is_passable(self, node: int) -> bool:
        """Whether an instance of a slot confined to a node may be in this node."""
        return self.situation.is_clear(node) if self.policy.node_exclusive else self.situation.is_passable(node)

    # -- the Walker --------------------------------------------------------------------------------------------------

    def _candidates(self, demand: Demand, below: int, within: int) -> Int32:
        """Pools below a pool that may satisfy a demand, in the order of the policy; for a slot confined to a node, nodes."""
        key = (demand.number, below)
        found = self._orders.get(key)
        if found is None:
            kind = self.situation.typology.node if demand.is_slot else demand.kind
            vertices = self.situation.typology.vertices(kind)
            # Below the root of the machine means everything, including the root and the pools outside the tree.
            lo, hi = (below + 1, self.situation.stop[below]) if below else (0, self.situation.structure.n)
            a, b = vertices.searchsorted(np.array([lo, hi], np.int32)).tolist()
            found = vertices[a:b] if demand.is_slot else self.of_ids(demand, vertices[a:b])
            is_near = self.policy.near and self._lightest_of < 0
            if is_near and self.situation.typology.node_at[below] < 0 and kind == self.situation.typology.node >= 0:
                found = self._near_first(demand, below, within, found)
            else:
                found = self._lightest_first(demand, self.policy.order(self.situation, found))
            self._orders[key] = found
        return found

    def _lightest_first(self, demand: Demand, vertices: Int32) -> Int32:
        """Sorted by what the pools draw, if that is wanted."""
        draws = self.situation.typology.draws
        for child in demand.children:
            if child.own and child.kind == self._lightest_of:
                return vertices[np.argsort(draws.total(child.type)[vertices], kind="stable")]
        return vertices

    def of_ids(self, demand: Demand, vertices: Int32) -> Int32:
        """Those of the vertices that a demand selects by id, name or property; all of them if it selects none."""
        structure = self.situation.structure
        if demand.properties:
            vertices = vertices[having(structure, vertices, demand.properties)]
        if demand.ids is not None:
            ids = structure.id[vertices]
            kept = np.logical_or.reduce([(first <= ids) & (ids <= last) for first, last in demand.ids])
            kept_pools: Int32 = vertices[np.broadcast_to(kept, ids.shape)]
            return kept_pools
        if demand.names is not None:
            return np.array([v for v in vertices.tolist() if structure.name(v) in demand.names], np.int32)
        return vertices

    def _near_first(self, demand: Demand, below: int, within: int, nodes: Int32) -> Int32:
        """The nodes that are closest together first (ascending), then the others."""
        wanted = prod(self.counts[number] for number in demand.total)
        self._orders[(demand.number, below)] = nodes
        room = np.array([self._room_for(demand, below, within, at, nodes, wanted) for at in range(len(nodes))], np.int64)
        positions = nearest(nodes, self.situation.structure.parent[nodes], room, wanted)
        return np.concatenate([nodes[positions], np.delete(nodes, positions)])

    def _room_for(self, demand: Demand, below: int, within: int, at: int, nodes: Int32, wanted: int) -> int:
        """How many instances of a demand fit into one node, up to `wanted`, given what was taken so far."""
        mark, found = self.taken.mark, 0
        one = Goal(demand, below, 1, at, -1, within)
        self._orders[(demand.number, below)] = nodes[: at + 1]
        while found < wanted and self._search((one, None)):
            found += 1
            if not demand.is_slot:
                break
        self.taken.undo(mark)
        self._orders[(demand.number, below)] = nodes
        return found

    # -- single parts ------------------------------------------------------------------------------------------------

    def instances_in(self, demand: Demand, v: int, most: int) -> int:
        """How many instances of a demand with children one pool has room for on its own, up to `most`.

        The pool is a candidate for the demand, or a node if the demand is a slot confined to a node.
        """
        self._orders.clear()
        below = max(self.situation.parent[v], 0)
        found = self._room_for(demand, below, -1, 0, np.array([v], np.int32), most)
        self._orders.clear()
        return found

    def candidates_but_for_charges(self, demand: Demand) -> list[int]:
        """The pools that could each satisfy a demand with children on its own, if nothing were charged."""
        vertices = self.of_ids(demand, self.situation.typology.vertices(demand.kind)).tolist()
        parts = [child for child in demand.children if not child.charged]
        known: dict[object, bool] = {}
        found = []
        for v in vertices:
            if self._will_do(demand, v):
                inside = (self.likeness.supply(v), self.situation.signature(v)) if parts else None
                if inside not in known:
                    known[inside] = all(self.has_room_for(child, v) for child in parts)
                found += [v] * known[inside]
        return found

    def has_room_for(self, demand: Demand, below: int) -> bool:
        """Whether a demand could be satisfied below a pool if it were the only one."""
        self._orders.clear()
        mark = self.taken.mark
        found = self._search(self._goals((demand,), below, -1, -1, None))
        self.taken.undo(mark)
        return found

    # -- the Evaluating Filter ---------------------------------------------------------------------------------------

    def _is_open(self, v: int) -> bool:
        """Whether this match has not taken a pool and may touch its node."""
        taken = self.taken
        if v in taken.bound or taken.is_implied(v):
            return False
        if self.policy.node_exclusive:
            node = self.situation.typology.node_at[v]
            return node < 0 or self.situation.is_clear(node)
        return True

    def _will_do(self, demand: Demand, v: int) -> bool:
        """Whether a pool may be passed through or taken exclusively, regardless of its children."""
        if not self._is_open(v) or v in self.taken.used:
            return False
        if demand.whole:
            return self.situation.is_clear(v) and not self.taken.below.get(v)
        return self.situation.is_passable(v)

    def _room(self, demand: Demand, v: int) -> tuple[int, bool, Fraction]:
        """Units that a pool has for a demand, whether only all of them together, and what one is worth."""
        situation, taken = self.situation, self.taken
        factor = demand.per_unit(situation.structure.kind_of(v).unit)
        nothing = 0, False, Fraction(1)
        if factor is None or not self._is_open(v):
            return nothing
        size, used, below = situation.size[v], taken.used.get(v, 0), taken.below.get(v, 0)
        if demand.shared and size == 1:
            return (1, False, factor) if not used and situation.free(v) else nothing
        if size == 1 or demand.whole or situation.only_whole(v):
            return (size, True, factor) if not used and not below and situation.is_clear(v) else nothing
        room = situation.free(v) - used
        if room > 0 and used + room == size and not (situation.is_clear(v) and not below):
            # All units would be the pool itself, exclusively, but something below it is in use.
            room -= 1
        return max(room, 0), False, factor


class Evened:
    """The order of nodes by the room left in them while a match grows, for the policy `spread`.

    Each instance of a slot goes where most room is left, so the previous instance changes where the next one goes.

    Cost: the nodes in which this match has something, and the nodes asked about.
    """

    def __init__(self, situation: Situation, taken: Accumulator, measured: int) -> None:
        self._situation = situation
        self._taken = taken
        self._measured = measured
        self._counted: list[Pick] = []
        self._used: dict[int, int] = {}

    def nodes(self, ordered: Int32) -> Iterator[int]:
        """Nodes with the most room left first; `ordered` by the room they had initially."""
        self._count()
        used = self._used
        room = dict(zip(used, self._room(np.array(list(used), np.int32)), strict=True))
        there = set(ordered.tolist()) if used else set()
        changed = sorted((used[v] - room[v], v) for v in used if v in there)
        if not changed:
            yield from ordered.tolist()
            return
        rest = ((-units, v) for v, units in zip(ordered.tolist(), self._room(ordered), strict=True) if v not in used)
        yield from (v for _, v in merge(changed, rest))

    def _room(self, nodes: Int32) -> list[int]:
        found: list[int] = self._situation.room(nodes).tolist() if len(nodes) else []
        return found

    def _count(self) -> None:
        """Update the sums: picks are appended and removed only at the end of the list, and each is a new object."""
        picks, counted = self._taken.picks, self._counted
        while counted and (len(picks) < len(counted) or picks[len(counted) - 1] is not counted[-1]):
            self._add(counted.pop(), -1)
        for pick in picks[len(counted) :]:
            counted.append(pick)
            self._add(pick, 1)

    def _add(self, pick: Pick, sign: int) -> None:
        node = self._situation.typology.node_at[pick.v]
        if node >= 0 and self._situation.structure.type.item(pick.v) == self._measured:
            self._used[node] = self._used.get(node, 0) + sign * (pick.amount or 1)


class Likeness:
    """Interchangeable choices: if one failed, an equal one need not be tried."""

    def __init__(self, situation: Situation, plan: Plan, taken: Accumulator) -> None:
        self._situation = situation
        self._plan = plan
        self._taken = taken
        self._asked = {demand.kind for demand in plan.all}

    def refuse(self, demand: Demand, v: int, refused: set[object]) -> None:
        """Remember that a choice failed."""
        if not demand.settled and not self._plan.named and self._is_untouched(v):
            refused.add(self._of(v))

    def is_like(self, v: int, refused: set[object]) -> bool:
        """Whether an equal choice has failed."""
        return bool(refused) and self._is_untouched(v) and self._of(v) in refused

    def _is_untouched(self, v: int) -> bool:
        """Whether this match has nothing at or below a pool.  Choices are undone before the next one is tried."""
        return v not in self._taken.used and v not in self._taken.bound and not self._taken.below.get(v)

    def _of(self, v: int) -> object:
        # Ancestors matter only if the request names them, or the node does; suppliers matter only if they are charged.
        structure = self._situation.structure
        above: list[int] = []
        u = structure.parent.item(v)
        while u >= 0:
            if structure.type.item(u) in self._asked or self._situation.typology.node == structure.type.item(u):
                above.append(u)
            u = structure.parent.item(u)
        return (self.supply(v), *above, *self._situation.signature(v))

    def supply(self, v: int) -> object:
        """How a pool and those in it are supplied with what is charged, and what they supply; equal for interchangeable pools."""
        if not self._plan.charged:
            return ()
        typology = self._situation.typology
        interchange = typology.interchange
        supplies = [interchange.of(v, demand.channel) for demand in self._plan.all if demand.charged or demand.upstream]
        draws = (typology.draws_of(v, demand.kind) for demand in self._plan.all if demand.own and not demand.even)
        return (*supplies, *(tuple((u - v, units) for u, units in of_pool) for of_pool in draws), *self._left_inside(v))

    def _left_inside(self, v: int) -> Iterator[object]:
        """What is left of the edges in a pool, and which pools in it are looked at on supply paths of others."""
        taken = self._taken
        for edge in self._situation.typology.interchange.edges_inside(v):
            left = self._situation.free(edge) - taken.used.get(edge, 0)
            yield left, taken.drawn.get(edge, 0), taken.spare.get(edge, 0)
        if taken.looked:
            stop = self._situation.stop[v]
            yield tuple(sorted(u - v for u in taken.looked if v <= u < stop))
