"""The entry point of matching: a machine and its planner, queried by request.

Keeps what can be reused between queries (facts about types, compiled requests, evaluated constraints) and nothing that a query
changes.  The vector path answers a request whose form it knows, the reference traverser any other; both choose the same pools.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

import numpy as np

from fluxres import limits
from fluxres.clock import FOREVER, positive_ticks, seconds
from fluxres.errors import InfeasibleRequest, LimitExceeded, UsageError
from fluxres.graph.outage import NOTHING_DEAD, Dead, Outage
from fluxres.graph.partitions import Partition
from fluxres.graph.structure import Structure
from fluxres.match import admission, reasons
from fluxres.match.admission import Objection
from fluxres.match.demand import Plan
from fluxres.match.drawing import is_guided
from fluxres.match.earliest import Failures, WindowSkipper, earliest
from fluxres.match.form import Form, NeedsTraverser, form
from fluxres.match.node_table import NodeTable
from fluxres.match.plan import plan as compile_plan
from fluxres.match.plan import settle
from fluxres.match.policy import Policy, policy
from fluxres.match.reasons import Holders, Refusal
from fluxres.match.result import Placement
from fluxres.match.situation import Eligible, Situation
from fluxres.match.together import Below, Together
from fluxres.match.traverser import Budget, Traverser
from fluxres.match.typology import Typology
from fluxres.match.vector import Single, search, single
from fluxres.match.workers import Returned, Workers
from fluxres.planner.planner import Planner
from fluxres.syntax.constraint import Constraint
from fluxres.syntax.jobspec import Request

Ready = tuple[Plan, Form | None, Single | None]
"""A compiled request: for the traverser, for the vector path, and for the single-node path."""
MULTINODE: Final = "allow_multinode"
"""canary: whether a test may use several nodes of the pool; a property of the root."""
REQUESTS_KEPT: Final = 256
"""Number of compiled requests that are kept."""


class Matcher:
    """Finds pools for requests on one generation of a machine.

    Args:
        structure: the machine.
        planner: over the same vertices; only read.
        ideal: as if everything were up; expects an empty planner.
        with_draws: charge what pools draw on their own.
        with_partitions: a request goes to a partition (rule P1).
        returned: by parent, the pools that requests for amounts returned, in order; the caller keeps it up.

    Call `forget` after changing kinds of the structure in place (properties); changes of states are noticed.

    >>> from fluxres.graph.recipe import Recipe, expand
    >>> from fluxres.graph import uuids
    >>> from fluxres.syntax.jobspec import parse_shape
    >>> node = Recipe("node", 2, children=(Recipe("core", 4), Recipe("gpu")))
    >>> machine = expand(Recipe("cluster", children=(node,)), origin=uuids.new_origin())
    >>> planner = Planner(machine.parent, machine.end, machine.type, machine.size)
    >>> matcher = Matcher(machine, planner)
    >>> found = matcher.match(Request(parse_shape("slot=2/[core=2;gpu]")), 0, 10)
    >>> [machine.path(v) for v in found.vertices.tolist()][:3]
    ['/cluster/node0/core0', '/cluster/node0/core1', '/cluster/node0/gpu0']
    """

    def __init__(
        self,
        structure: Structure,
        planner: Planner,
        *,
        ideal: bool = False,
        with_draws: bool = True,
        with_partitions: bool = True,
        returned: Returned | None = None,
    ) -> None:
        self.structure = structure
        self.planner = planner
        self.ideal = ideal
        self.with_partitions = with_partitions
        present = () if ideal else (structure.outage.dead, structure.outage.stated)
        self.typology = Typology(structure, *present, with_draws=with_draws)
        #: By the identity of the resources, which jobspecs read from the same text share.
        self._plans: OrderedDict[int, tuple[Request, Ready]] = OrderedDict()
        self._ready_for: OrderedDict[object, Ready] = OrderedDict()
        self._eligible: dict[object, Eligible] = {}
        #: Requests with their ranges of nodes cut to the limits of a partition, by resources, constraint and partition.
        self._within: dict[object, Request] = {}
        #: By eligible nodes and kind of request.
        self._failures: dict[tuple[Eligible, object], Failures] = {}
        #: The outage when supply paths were last checked, and when eligible nodes were last computed.
        self._followed: Outage | None = None
        self._eligible_in: Outage | None = None
        self._node_table = NodeTable(self.typology, planner, ideal=ideal)
        self._below_meetings: Below = {}
        self._returned: Returned = {} if returned is None else returned
        self._workers: Workers | None = None
        self._idle: Matcher | None = None
        self._empty: Matcher | None = None

    def forget(self) -> None:
        """Drop what was derived from kinds."""
        self._plans.clear()
        self._forget_eligible()
        self._workers = None
        self._node_table.forget()
        for found in ("draws", "drawn_by_itself"):
            self.typology.__dict__.pop(found, None)
        self._idle = self._empty = None

    # -- queries -----------------------------------------------------------------------------------------------------

    def match(
        self,
        request: Request,
        start: int,
        end: int,
        how: str | Policy = "first",
        *,
        reference: bool = False,
        is_queued: bool = False,
    ) -> Placement | None:
        """The match of a request over a window, or None if there is none.

        Args:
            request: the request.
            start, end: window in ticks.
            how: a policy or its name.
            reference: use the reference traverser even if the vector path knows the form.
            is_queued: its partition accepted the job before; a partition that drains starts such jobs.

        Cost: with the vector path, the rows of the window over one level and the pools returned.
        Errors: InfeasibleRequest for a type that the machine does not have; LimitExceeded for competing parts that stay
        undecided; UsageError for an invalid window or policy, and for a partition that the machine does not have.
        """
        return self.attempt(request, how, reference=reference, is_queued=is_queued)(start, end)

    def attempt(
        self,
        request: Request,
        how: str | Policy = "first",
        *,
        reference: bool = False,
        is_queued: bool = False,
        among: Partition | None = None,
    ) -> Callable[[int, int], Placement | None]:
        """:meth:`match` as a function of the window, with everything that does not depend on the window done in advance.

        Args:
            among: match among the members of this partition, whatever else it allows.
        """
        if among is None and (self.structure.partitions or request.attributes):
            partition = self.partition_for(request)
            if partition is not None:
                return self._admitted(request, partition, how, reference=reference, is_queued=is_queued)
        chosen = policy(how)
        if request.variants:
            return self._of_amounts(request, chosen, among)
        plan, shape, alone = self._ready(request)
        eligible = self._eligible_for(request.constraint, among)

        if plan.between >= 0:
            together = self._meeting(plan, eligible, chosen, reference=reference)

            def meet(start: int, end: int) -> Placement | None:
                _require_window(start, end)
                return together.match(start, end)

            return meet

        def at(start: int, end: int) -> Placement | None:
            _require_window(start, end)
            fast = None if reference else search(self._node_table, plan, shape, eligible, chosen, start, end)
            if fast is not None:
                try:
                    return alone.match(fast) if alone is not None and alone.suits(fast) else fast.settle()
                except NeedsTraverser:
                    pass
            return self._traverse(self._situation(eligible, plan, start, end), plan, chosen)

        return at

    # -- amounts -----------------------------------------------------------------------------------------------------

    @property
    def workers(self) -> Workers:
        """What matches requests for amounts within a node."""
        if self._workers is None or self._workers.typology is not self.typology:
            self._workers = Workers(self.typology, self.planner, self._returned, ideal=self.ideal)
        return self._workers

    def _of_amounts(self, request: Request, chosen: Policy, among: Partition | None) -> Callable[[int, int], Placement | None]:
        """The match of a request with variants."""
        self.follow_suppliers()
        workers = self.workers
        workers.require_known(request.variants)
        eligible = self._eligible_for(request.constraint, among)
        measured = workers.measured(request.variants)

        def at(start: int, end: int) -> Placement | None:
            _require_window(start, end)
            situation = Situation(self.typology, self.planner, eligible, start, end, measured=measured, ideal=self.ideal)
            return workers.match(request.variants, situation, chosen)

        return at

    def eligible_for(self, request: Request | None) -> Eligible:
        """The nodes that the constraint and the partition of a request allow; all of them without a request."""
        if request is None:
            return self._eligible_for(None)
        return self._eligible_for(request.constraint, self.partition_for(request))

    def place(self, request: Request, number: int, nodes: Sequence[int], start: int, end: int) -> Placement | None:
        """A variant of a request for amounts on certain nodes, for a caller that chooses these; None if there is no room."""
        situation = Situation(self.typology, self.planner, self.eligible_for(request), start, end, ideal=self.ideal)
        return self.workers.place(request.variants, number, nodes, situation)

    def _refusal_of_amounts(
        self, request: Request, partition: Partition | None, start: int, end: int, chosen: Policy, holders: Holders | None
    ) -> Refusal:
        """Why a request with variants has no match: what the types of each variant say, and what only its node can."""
        eligible = self._eligible_for(request.constraint, partition)
        never = self._is_never(request)
        at, window = (self._unhindered(), (0, FOREVER)) if never else (self, (start, end))
        found = reasons.of_variants(
            request.variants,
            at.workers,
            lambda plan: Situation(at.typology, at.planner, eligible, *window, measured=plan.measured, ideal=at.ideal),
            chosen,
            None if never else holders,
        )
        first = None
        with suppress(LimitExceeded):
            first = None if never else self.earliest(request, _length(start, end), start, chosen)
        earliest = None if first is None else seconds(first.start)
        name = None if partition is None else partition.name
        return Refusal(found[0], {}, never, earliest, partition=name, notes=found[1])

    # -- partitions --------------------------------------------------------------------------------------------------

    def _admitted(
        self, request: Request, partition: Partition, how: str | Policy, *, reference: bool, is_queued: bool
    ) -> Callable[[int, int], Placement | None]:
        """The match of a request that goes to a partition, as far as the partition allows it."""
        among = self.attempt(self._within_limits(request, partition), how, reference=reference, among=partition)

        def at(start: int, end: int) -> Placement | None:
            _require_window(start, end)
            if admission.objections(partition, request, _length(start, end), is_queued=is_queued, ideal=self.ideal):
                return None
            found = among(start, end)
            return None if found is None or self._beyond(partition, found) is not None else found

        return at

    def partition_for(self, request: Request) -> Partition | None:
        """The partition that a request goes to; None if it goes to the whole machine (rule P1).

        Errors: UsageError for a partition that the machine does not have.
        """
        if not (self.structure.partitions or request.attributes) or not self.with_partitions:
            return None
        return admission.of_request(self.structure, request)

    def _within_limits(self, request: Request, partition: Partition) -> Request:
        """The request as its partition limits it, the same object for the same resources."""
        if (partition.max_nodes is None and not partition.min_nodes) or request.variants:
            return request
        key = request.resources, request.constraint, request.parts, partition.vertex
        found = self._within.get(key)
        if found is None:
            if len(self._within) >= REQUESTS_KEPT:
                self._within.clear()
            found = self._within[key] = admission.within_limits(partition, request)
        return found

    def _beyond(self, partition: Partition, found: Placement) -> Objection | None:
        if partition.max_nodes is None and not partition.min_nodes:
            return None
        return admission.beyond_limits(partition, admission.number_of_nodes(self.typology, found))

    def _objections(self, request: Request, start: int, end: int, how: Policy) -> list[Objection]:
        """What the partition of a request does not allow in a window, or of the match there."""
        partition = self.partition_for(request)
        if partition is None:
            return []
        found = admission.objections(partition, request, _length(start, end), is_queued=False)
        if found or (partition.max_nodes is None and not partition.min_nodes):
            return found
        try:
            there = self.attempt(self._within_limits(request, partition), how, among=partition)(start, end)
        except LimitExceeded:
            return []
        beyond = None if there is None else self._beyond(partition, there)
        return [] if beyond is None else [beyond]

    def lengths(self, request: Request) -> tuple[int, int]:
        """The number of counts and of slots that a match of the request has.

        Errors: InfeasibleRequest for a type that the machine does not have.
        """
        plan, _, _ = self._ready(request)
        return len(plan.all), len(plan.slots)

    def earliest(
        self,
        request: Request,
        duration: int,
        after: int,
        how: str | Policy = "first",
        *,
        reference: bool = False,
        is_queued: bool = False,
    ) -> Placement | None:
        """The match with the earliest start from `after` on, or None if there can never be one.

        A start that stays undecided is skipped.

        Args:
            duration: ticks; FOREVER for a job without end.
            is_queued: as for `match`.

        Errors: as for `match`; LimitExceeded only if no start was found.
        """
        if duration < 1:
            raise UsageError(f"duration: expected at least one tick, got {duration}")
        partition = self.partition_for(request)
        if partition is not None:
            if admission.objections(partition, request, duration, is_queued=is_queued, ideal=self.ideal):
                return None
            request = self._within_limits(request, partition)
        if request.variants:
            attempt_amounts = self.attempt(request, how, is_queued=is_queued, among=partition)
            return earliest(attempt_amounts, self.planner, None, duration, after)
        plan, shape, _ = self._ready(request)
        undecided: list[LimitExceeded] = []
        decisive = self.attempt(request, how, reference=reference, is_queued=is_queued)

        def attempt(start: int, end: int) -> Placement | None:
            try:
                return decisive(start, end)
            except LimitExceeded as error:
                undecided.append(error)
                return None

        eligible = self._eligible_for(request.constraint, partition)
        skipper = None
        if shape is not None and not reference and is_guided(shape.draws, self.typology):
            skipper = WindowSkipper(self._node_table, plan, shape, eligible, policy(how), partial(self._failures_of, eligible))
        found = earliest(attempt, self.planner, skipper, duration, after)
        if found is None and undecided:
            raise undecided[0]
        return found

    def satisfiable(self, request: Request, *, reference: bool = False) -> bool:
        """Whether the request can match with everything up and nothing held.  Constraint and limits of its partition still apply.

        Errors: InfeasibleRequest for a type that the machine does not have.
        """
        partition = self.partition_for(request)
        if partition is not None:
            length = None if request.duration_s is None else positive_ticks(request.duration_s)
            if admission.objections(partition, request, length, is_queued=True, ideal=True):
                return False
            request = self._within_limits(request, partition)
        eligible = self._eligible_for(request.constraint, partition)
        self.follow_suppliers()
        idle = [self._unhindered()]
        if self.typology.dead:
            idle.append(self._unheld())  # a supplier that is down need not give its share
        if request.variants:
            return any(matcher._of_amounts(request, policy("first"), partition)(0, FOREVER) for matcher in idle)
        for matcher in idle:
            plan, shape, _ = matcher._ready(request)
            if matcher._fits(plan, None if reference else shape, eligible, policy("first"), 0, FOREVER):
                return True
        return False

    def why_not(
        self,
        request: Request,
        start: int,
        end: int,
        how: str | Policy = "first",
        *,
        holders: Holders | None = None,
    ) -> Refusal | None:
        """Why a request has no match in a window, or None if it has one.

        Args: as for :meth:`refusal`.

        Errors: InfeasibleRequest for a type that the machine does not have.
        """
        chosen = policy(how)
        partition, undecided = self.partition_for(request), False
        if partition is not None and (found := self._objections(request, start, end, chosen)):
            return self._objected(request, found, start, end, chosen)
        within = request if partition is None else self._within_limits(request, partition)
        if request.variants:
            if self.attempt(within, chosen, among=partition)(start, end) is not None:
                return None
            return self.refusal(request, start, end, chosen, holders=holders)
        plan, shape, _ = self._ready(within)
        try:
            if self._fits(plan, shape, self._eligible_for(request.constraint, partition), chosen, start, end):
                return None
        except LimitExceeded:
            undecided = True
        return self.refusal(request, start, end, chosen, holders=holders, undecided=undecided)

    def _objected(self, request: Request, found: list[Objection], start: int, end: int, chosen: Policy) -> Refusal:
        """The refusal of what a partition does not allow."""
        never = any(each.is_lasting for each in found)
        first = None
        if not never and all(each.code != "state" for each in found):
            with suppress(LimitExceeded):
                first = self.earliest(request, _length(start, end), start, chosen)
        return Refusal((), {}, never, None if first is None else seconds(first.start), objections=tuple(found))

    def refusal(
        self,
        request: Request,
        start: int,
        end: int,
        how: str | Policy = "first",
        *,
        holders: Holders | None = None,
        undecided: bool = False,
    ) -> Refusal:
        """Why a request has no match in a window, after a search that found none.

        Args:
            holders: (job, until in ticks) of the jobs that hold units of a vertex in a window; without it, jobs are not named.
            undecided: the search reached its limit.

        Cost: vector operations over the pools of the requested types, a bounded number of pools inspected, some attempts with
        smaller counts, and one search for the earliest start.
        Errors: InfeasibleRequest for a type that the machine does not have.
        """
        chosen = policy(how)
        partition = self.partition_for(request)
        if partition is not None:
            if objected := self._objections(request, start, end, chosen):
                return self._objected(request, objected, start, end, chosen)
            request = self._within_limits(request, partition)
        if request.variants:
            return self._refusal_of_amounts(request, partition, start, end, chosen, holders)
        name = None if partition is None else partition.name
        plan, shape, _ = self._ready(request)
        eligible = self._eligible_for(request.constraint, partition)
        if self._is_never(request):
            idle = self._unhindered()
            plan, shape, _ = idle._ready(request)
            ideal = idle._situation(eligible, plan, 0, FOREVER)
            parts = reasons.explain(ideal, idle._widest(plan), chosen, None)
            return Refusal(parts, idle._enough(ideal, plan, shape, chosen)[0], True, partition=name)
        situation = self._situation(eligible, plan, start, end)
        less, given_up = self._enough(situation, plan, shape, chosen)
        first = None
        try:
            first = self.earliest(request, _length(start, end), start, chosen)
        except LimitExceeded:
            undecided = True
        return Refusal(
            reasons.explain(situation, self._widest(plan), chosen, holders),
            less,
            earliest=None if first is None else seconds(first.start),
            undecided=undecided or given_up,
            partition=name,
        )

    def _is_never(self, request: Request) -> bool:
        """Whether a request is known to be unsatisfiable."""
        try:
            return not self.satisfiable(request)
        except LimitExceeded:
            return False

    def _fits(self, plan: Plan, shape: Form | None, eligible: Eligible, chosen: Policy, start: int, end: int) -> bool:
        """Whether the minimum counts have a match in a window."""
        _require_window(start, end)
        if plan.between >= 0:
            return self._meeting(plan, eligible, chosen).at(plan.lowest, start, end) is not None
        fast = search(self._node_table, plan, shape, eligible, chosen, start, end)
        if fast is not None:
            with suppress(NeedsTraverser):
                return fast.fits(plan.lowest)
        situation = self._situation(eligible, plan, start, end)
        return Traverser(situation, plan, plan.lowest, chosen, self._budget(plan)).match() is not None

    def _enough(self, situation: Situation, plan: Plan, shape: Form | None, chosen: Policy) -> tuple[dict[str, int], bool]:
        node_table = self._node_table
        budget = self._budget(plan)

        if plan.between >= 0:
            meeting = self._meeting(plan, situation.eligible, chosen)
            return reasons.enough(plan, lambda counts: meeting.at(counts, situation.start, situation.end) is not None)

        def attempt(counts: tuple[int, ...]) -> bool:
            fast = search(node_table, plan, shape, situation.eligible, chosen, situation.start, situation.end)
            if fast is not None:
                with suppress(NeedsTraverser):
                    return fast.fits(counts)
            return Traverser(situation, plan, counts, chosen, budget).match() is not None

        return reasons.enough(plan, attempt)

    def _meeting(self, plan: Plan, eligible: Eligible, chosen: Policy, *, reference: bool = False) -> Together:
        return Together(self._node_table, plan, eligible, chosen, self._below_meetings, self._budget, reference=reference)

    def _widest(self, plan: Plan) -> Plan:
        """The plan used to explain a refusal: its nodes meet where most nodes do."""
        widest = self.typology.meetings(plan.between).widest if plan.between >= 0 else None
        return plan if widest is None else compile_plan(plan.request, self.typology, widest)

    def _situation(self, eligible: Eligible, plan: Plan, start: int, end: int) -> Situation:
        return Situation(self.typology, self.planner, eligible, start, end, measured=plan.measured, ideal=self.ideal)

    # -- caches ------------------------------------------------------------------------------------------------------

    def _traverse(self, situation: Situation, plan: Plan, chosen: Policy) -> Placement | None:
        budget = self._budget(plan)
        return settle(plan, self.typology, lambda counts: Traverser(situation, plan, counts, chosen, budget).match())

    def _budget(self, plan: Plan) -> Budget:
        # Where suppliers overlap, very many choices of nodes are equivalent, and each costs a walk over its suppliers.
        steps = limits.MATCH_STEPS_MAX // 20 if plan.charged else limits.MATCH_STEPS_MAX + 8 * self.structure.n
        return Budget(steps, of_one_part=plan.is_of_one_type)

    def _ready(self, request: Request) -> Ready:
        self.follow_suppliers()
        _require_allowed(self.structure, request)
        found = self._plans.get(id(request.resources))
        if found is None or not _asks_the_same(found[0], request):
            if any(vertex.is_directed for vertex in request.vertices()):
                self.follow_suppliers(routed=True)
            # Parsing the same resources again gives other, equal objects.
            what = request.resources, request.constraint, request.parts
            ready = self._ready_for.get(what)
            if ready is None:
                plan = compile_plan(request, self.typology)
                shape = self._form_of(plan)
                alone = None if shape is None else single(plan, shape, self.planner.columns)
                ready = self._ready_for[what] = plan, shape, alone
            found = self._plans[id(request.resources)] = (request, ready)
            if len(self._plans) > REQUESTS_KEPT:
                self._plans.popitem(last=False)
            if len(self._ready_for) > REQUESTS_KEPT:
                self._ready_for.popitem(last=False)
        return found[1]

    def _form_of(self, plan: Plan) -> Form | None:
        found = form(plan, self.typology) if plan.between < 0 else None
        return found if found is not None and self._node_table.level is not None else None

    def _eligible_for(self, constraint: Constraint | None, partition: Partition | None = None) -> Eligible:
        outage = self.structure.outage
        if outage is not self._eligible_in:  # a constraint may test states
            self._forget_eligible()
            self._eligible_in = outage
        key = constraint if partition is None else (constraint, partition.vertex)
        found = self._eligible.get(key)
        if found is None:
            if len(self._eligible) >= REQUESTS_KEPT:
                self._forget_eligible()
            found = self._eligible[key] = Eligible(self.typology, constraint, partition)
        return found

    def _forget_eligible(self) -> None:
        self._eligible.clear()
        self._failures.clear()

    def _failures_of(self, eligible: Eligible, kind: object) -> Failures:
        found = self._failures.get((eligible, kind))
        if found is None:
            found = self._failures[eligible, kind] = Failures(self.planner)
        return found

    def follow_suppliers(self, *, routed: bool = False) -> None:
        """Check whether the set of suppliers that give nothing has changed, which changes supply paths.

        Args:
            routed: the caller will ask for routes, which avoid every pool out of service.
        """
        outage, known = self.structure.outage, self.typology
        if self.ideal or (outage is self._followed and not routed):
            return
        self._followed = outage
        same_routes = not (routed or known.paths.is_routed) or np.array_equal(outage.stated, known.stated)
        same_routes = same_routes and not (routed and known.paths.is_crowded)
        if same_routes and _is_same(outage.dead, known.dead):
            return
        self.typology = Typology(self.structure, outage.dead, outage.stated)
        self._plans, self._ready_for = OrderedDict(), OrderedDict()  # an idle matcher may go on using the former ones
        self._forget_eligible()
        self._below_meetings.clear()
        self._node_table = NodeTable(self.typology, self.planner)
        self._empty = None

    def _unheld(self) -> Matcher:
        """A matcher for the same machine with nothing held."""
        if self._empty is None:
            self._empty = Matcher(self.structure, self._empty_planner())
            self._empty.share(self)
        return self._empty

    def _empty_planner(self) -> Planner:
        columns = self.planner.columns
        return Planner(columns.parents, columns.ends, columns.type_numbers, columns.sizes, of_type=self.typology.vertices)

    def _unhindered(self) -> Matcher:
        """A matcher for the same machine with nothing held and everything up."""
        if self._idle is None:
            self._idle = Matcher(self.structure, self._empty_planner(), ideal=True)
            if self.typology.dead is NOTHING_DEAD and not len(self.typology.stated):
                self._idle.share(self)
        return self._idle

    def share(self, other: Matcher) -> None:
        """Use the facts about types and the compiled requests of another matcher of the same machine."""
        self.typology = other.typology
        self._plans, self._ready_for = other._plans, other._ready_for
        self._forget_eligible()
        self._below_meetings.clear()
        self._node_table = NodeTable(self.typology, self.planner, ideal=self.ideal)


def _require_allowed(structure: Structure, request: Request) -> None:
    """Refuse what the resource pool of a peer system forbids a request in that system's language, beyond missing resources.

    A request records the language it was written in.

    Errors: InfeasibleRequest for a canary request for several nodes of a pool with ``allow_multinode: false``.
    """
    user = request.attributes.get("user")
    if user is None:
        return
    asked = user.get("asked") if isinstance(user, Mapping) else None
    if not isinstance(asked, Mapping) or asked.get("format") != "canary":
        return
    nodes = sum(vertex.count.min for vertex in request.resources if vertex.type == "node")
    allowed = dict(structure.kind_of(0).properties).get(MULTINODE, True)
    # Formats with text properties store it as a word.
    if nodes > 1 and (allowed is False or (isinstance(allowed, str) and allowed.lower() == "false")):
        message = f"{nodes} nodes requested, but the resource pool has {MULTINODE}: false"
        raise InfeasibleRequest(message, where="nodes", hint="request one node", reasons={"nodes": message})


def _asks_the_same(one: Request, other: Request) -> bool:
    return one.resources is other.resources and one.constraint == other.constraint and one.parts == other.parts


def _is_same(one: Dead, other: Dead) -> bool:
    return one is other or (one.keys() == other.keys() and all(np.array_equal(one[kind], other[kind]) for kind in one))


def _length(start: int, end: int) -> int:
    return end - start if end < FOREVER else FOREVER


def _require_window(start: int, end: int) -> None:
    if not 0 <= start < end or start >= FOREVER:
        said = f"[{seconds(start):g} s, {seconds(end):g} s)"
        raise UsageError(f"window {said}: expected 0 <= start < end and a finite start")
