"""A request as a matcher answers it in any window: compiled, with a policy, and with the targets that it may use."""

from __future__ import annotations

import msgspec

from fluxres.match.demand import Plan
from fluxres.match.form import Form
from fluxres.match.node_table import NodeTable
from fluxres.match.policy import POLICIES, Policy
from fluxres.match.situation import Eligible, Situation


class Query(msgspec.Struct, frozen=True, eq=False):
    """
    Args:
        node_table: of the machine.
        plan: the compiled request.
        form: as the vector path reads it; None if the traverser has to answer, for its form or for the policy.
        eligible: the targets that its constraint and its partition allow.
        policy: the order of candidates.
        between: type numbers of the pools between a node and what the form requests in it.
    """

    node_table: NodeTable
    plan: Plan
    form: Form | None
    eligible: Eligible
    policy: Policy
    between: frozenset[int] = frozenset()

    @classmethod
    def of(cls, node_table: NodeTable, plan: Plan, form: Form | None, eligible: Eligible, policy: Policy) -> Query:
        """The query of a request, whose form counts only if the vector path can sort the candidates as the policy requires."""
        if form is not None and form.sort == "units" and policy.score is not None and not policy.by_node:
            is_plain = policy.score is POLICIES["variation"].score and not node_table.is_varied(form.kinds[0])
            form = form if is_plain else None
        between = () if form is None else map(node_table.level.between, form.kinds)
        return cls(node_table, plan, form, eligible, policy, frozenset[int]().union(*between))

    def situation(self, start: int, end: int) -> Situation:
        """What is available to it in a window."""
        table = self.node_table
        return Situation(table.typology, table.planner, self.eligible, start, end, measured=self.plan.measured, ideal=table.ideal)
