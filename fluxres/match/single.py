"""Requests that a single node satisfies: a core, a few cores and a gpu, a node.

Most requests are of this kind, and the only choice is the node: the first suitable one.  What such a request takes is known in
advance except for the pool numbers, so its match is built without collecting anything.  The choice of the node is that of the
vector path.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from fluxres.match.choosing import first_node
from fluxres.match.demand import Plan
from fluxres.match.form import Form
from fluxres.match.result import NO_ROWS, Match, SlotGroup
from fluxres.match.vector import Search
from fluxres.planner.columns import Columns

UNITS_MAX: Final = 1024
"""Requests for more units take the general path, so that nothing is cached for counts that no machine has."""
_NONE: Final = np.zeros(0, np.int32)


class Single:
    """What a request takes of one node; see :func:`single`.

    Args:
        plan: the request; its counts leave no choice.
        needs: units by type number; empty for the node itself, exclusively.
        draws: whether the node draws something as well.
    """

    __slots__ = ("_amounts", "_counts", "_draws", "_is_routed", "_needs", "_slots", "_whole")

    def __init__(self, plan: Plan, needs: dict[int, int], *, draws: bool) -> None:
        number = sum(needs.values()) or 1
        self._needs = needs
        self._draws = draws
        self._is_routed = plan.is_routed
        self._counts = plan.lowest
        self._amounts = np.ones(number, np.int64)
        self._whole = np.ones(number, np.bool_)
        starts, picks = np.array([0, number]), np.arange(number)
        for shared in (self._amounts, self._whole, starts, picks):
            shared.flags.writeable = False  # shared by all matches of this request
        self._slots = tuple(SlotGroup(slot.label, starts, picks) for slot in plan.slots)

    def match(self, search: Search) -> Match | None:
        """The match, or None if there is none.

        Args:
            search: of this request, with a policy for which :meth:`suits` holds.

        Errors: Entangled if only a search can decide.
        """
        node = first_node(search, search.candidates(self._needs), self._needs)
        if node is None:
            return None
        vertices, amounts, whole, slots, drawn = self._pools(search, node), self._amounts, self._whole, self._slots, NO_ROWS
        if self._draws:
            charges = search.drawing(self._counts).of_one(node)
            if charges is None:  # other nodes may have enough supply
                return search.settle()
            rows = np.array(sorted([*((v, 1) for v in vertices.tolist()), *charges]), np.int64)
            vertices, amounts = rows[:, 0].astype(np.int32), rows[:, 1].copy()
            whole = amounts == search.floor.typology.accounts.size[vertices]
            slots = tuple(SlotGroup(slot.label, np.array([0, len(rows)]), np.arange(len(rows))) for slot in slots)
            top = search.level.vertices.item(node)
            drawn = np.array([(top, *charge) for charge in charges], np.int64).reshape(-1, 3)
        return Match(
            vertices,
            amounts,
            whole,
            _NONE,
            slots,
            self._counts,
            search.start,
            search.end,
            policy=search.policy.name,
            drawn=drawn,
            is_routed=self._is_routed,
        )

    def _pools(self, search: Search, node: int) -> NDArray[np.int32]:
        if not self._needs:
            return search.level.vertices[node : node + 1]
        vertices = search.floor.typology.vertices
        found = [vertices(kind)[search.pools(node, kind)[0][:units]] for kind, units in self._needs.items()]
        return np.sort(found[0] if len(found) == 1 else np.concatenate(found)) if len(self._amounts) > 1 else found[0]

    def suits(self, search: Search) -> bool:
        """Whether the policy orders nodes by number and takes only what is requested."""
        policy = search.policy
        if policy.near and self._draws:
            return False
        if policy.near or policy.score is None:
            return not policy.node_exclusive or not self._needs
        return not policy.node_exclusive and search.scores is None


def single(plan: Plan, form: Form, columns: Columns) -> Single | None:
    """What a request takes of one node; None if it may take more than one node, or pools with several units."""
    counts = plan.lowest
    if any(demand.count.fixed is None for demand in plan.all) or form.number(counts) != 1:
        return None
    if len(plan.slots) != (form.outer is not None) or any(draw.inner or draw.slot is not form.outer for draw in form.draws):
        return None
    draws = bool(form.draws)
    if form.node is not None:
        return Single(plan, {}, draws=draws) if not form.node.children and not form.node.shared else None
    kinds = {part.demand.kind for part in form.parts}
    plain = all(not part.shares and part.worth == 1 and columns.dtype(part.demand.kind) is None for part in form.parts)
    needs = form.needs(counts)
    fits = sum(needs.values()) <= UNITS_MAX
    return Single(plan, needs, draws=draws) if plain and fits and len(kinds) == len(form.parts) else None
