"""The entry point of matching: a machine and its planner, queried by request.

Keeps what can be reused between queries (facts about types, compiled requests, evaluated constraints) and nothing that a query
changes.  The vector path answers a request whose form it knows, the reference traverser any other; both choose the same pools.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np

from fluxres import limits
from fluxres.clock import FOREVER, positive_ticks, seconds
from fluxres.errors import InfeasibleRequest, LimitExceeded, UsageError
from fluxres.graph.outage import NOTHING_DEAD, Dead
from fluxres.graph.partitions import Partition
from fluxres.graph.structure import Structure
from fluxres.match import admission
from fluxres.match.admission import Objection
from fluxres.match.chooser import Offer, Returned, chooser, placed
from fluxres.match.demand import Counts, Plan
from fluxres.match.drawing import is_guided
from fluxres.match.form import Form, NeedsTraverser, form
from fluxres.match.node_table import NodeTable
from fluxres.match.plan import plan as compile_plan
from fluxres.match.plan import settle
from fluxres.match.policy import Policy, policy
from fluxres.match.query import Query
from fluxres.match.result import Placement
from fluxres.match.situation import Eligible, Situation
from fluxres.match.typology import Typology
from fluxres.match.vector import Search
from fluxres.planner.planner import Planner
from fluxres.syntax.constraint import Constraint
from fluxres.syntax.jobspec import Request

# What few requests need is imported by the first one that does: the traverser, routes between nodes, requests for amounts.
if TYPE_CHECKING:
    from fluxres.match.earliest import Failures, WindowSkipper
    from fluxres.match.reasons import Holders
    from fluxres.match.refusal import PartReport, Refusal
    from fluxres.match.together import Below, Together
    from fluxres.match.traverser import Budget

MULTINODE: Final = "allow_multinode"
"""canary: whether a test may use several nodes of the pool; a property of the root."""
REQUESTS_KEPT: Final = 256
"""Number of queries and of compiled requests that are kept."""


class Matcher:
    """Finds pools for requests on one generation of a machine.

    Args:
        structure: the machine.
        planner: over the same vertices; only read.
        ideal: as if everything were up and nothing held.
        with_draws: charge what pools draw on their own.
        with_partitions: a request goes to a partition (rule P1).
        typology: of another matcher of the same machine, to share; it has the present states, or as many as `ideal` asks for.
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
        typology: Typology | None = None,
        returned: Returned | None = None,
    ) -> None:
        self.structure = structure
        self.planner = planner
        self.ideal = ideal
        self.with_partitions = with_partitions
        #: What takes no new work, as everything derived from states has it.
        self._outage = structure.outage
        present = () if ideal else (self._outage.dead, self._outage.stated)
        self.typology = typology or Typology(structure, *present, with_draws=with_draws)
        #: By the identity of the resources, which jobspecs read from the same text share, and what else a query depends on. The
        #: request keeps the resources alive.
        self._queries: dict[object, tuple[Request, Query]] = {}
        #: By content: parsing the same resources again gives other, equal objects.
        self._compiled: dict[object, tuple[Plan, Form | None]] = {}
        self._eligible: dict[object, Eligible] = {}
        #: Requests with their ranges of nodes cut to the limits of a partition, by resources, constraint and partition.
        self._within: dict[object, Request] = {}
        #: By eligible nodes and kind of request.
        self._failures: dict[tuple[Eligible, object], Failures] = {}
        self._node_table = NodeTable(self.typology, planner, ideal=ideal)
        self._below_meetings: Below = {}
        self._returned: Returned = {} if returned is None else returned
        #: what rules keep about the machine, by the class that keeps it
        self._facts: dict[type, Any] = {}
        self._idle: Matcher | None = None
        self._shared: Budget | None = None
        self._empty: Matcher | None = None

    def forget(self) -> None:
        """Drop what was derived from kinds."""
        self._forget_queries()
        self._facts = {}
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
        if not 0 <= start < end or start >= FOREVER:
            raise _wrong_window(start, end)
        partition = self.partition_for(request) if self.structure.partitions or request.attributes else None
        if partition is None:
            return self._match(request, how, None, start, end, reference=reference)
        if admission.objections(partition, request, _length(start, end), is_queued=is_queued, ideal=self.ideal):
            return None
        within = self._within_limits(request, partition)
        return self._allowed(self._match(within, how, partition, start, end, reference=reference), partition)

    def _match(
        self, request: Request, how: str | Policy, partition: Partition | None, start: int, end: int, *, reference: bool = False
    ) -> Placement | None:
        """The match of a request among the members of a partition, whatever else that allows."""
        return self._answer(self._query(request, how, partition), start, end, reference=reference)

    def _answer(self, query: Query, start: int, end: int, *, reference: bool = False) -> Placement | None:
        """The match of a query in a window."""
        rule = query.plan.request.chooser
        if rule is not None:
            offer = self._offer(query, start, end)
            return placed(chooser(rule).choose(offer), offer, query.plan.lowest)
        if query.plan.between >= 0:
            return self._meeting(query, reference=reference).match(start, end)
        if query.form is not None and not reference:
            try:
                return Search(query, start, end).settle()
            except NeedsTraverser:
                pass
        from fluxres.match.traverser import Traverser

        plan, situation, budget = query.plan, query.situation(start, end), self._budget(query.plan)
        return settle(plan, self.typology, lambda counts: Traverser(situation, plan, counts, query.policy, budget).match())

    def at_most(self, request: Request, start: int, end: int, how: str | Policy = "first") -> int:
        """A number of the first resource of a request above which there is no match in a window; COUNT_MAX if unknown.

        Cost: the rows of the window over one level; nothing if the form of the request is unknown.
        """
        query = self._query(request, how, self.partition_for(request))
        asked = request.resources[0].count.fixed
        if query.form is None or not asked or len(request.resources) > 1 or request.chooser is not None:
            return limits.COUNT_MAX
        amounts = query.form.amounts(query.plan.lowest)
        return Search(query, start, end).at_most(amounts) * asked // amounts.number

    def offer(self, request: Request | None, start: int, end: int) -> Offer:
        """What there is to choose from on the nodes that the constraint and the partition of a request allow."""
        situation = Situation(self.typology, self.planner, self.eligible_for(request), start, end, ideal=self.ideal)
        return Offer(situation, policy("first"), self._returned, self._facts)

    def _offer(self, query: Query, start: int, end: int) -> Offer:
        return Offer(query.situation(start, end), query.policy, self._returned, self._facts)

    def eligible_for(self, request: Request | None) -> Eligible:
        """The nodes that the constraint and the partition of a request allow; all of them without a request."""
        if request is None:
            return self._eligible_for(None)
        return self._eligible_for(request.constraint, self.partition_for(request))

    # -- partitions --------------------------------------------------------------------------------------------------

    def _allowed(self, found: Placement | None, partition: Partition | None) -> Placement | None:
        """A match, unless it has more or fewer nodes than its partition allows."""
        return None if found is None or (partition is not None and self._beyond(partition, found) is not None) else found

    def partition_for(self, request: Request) -> Partition | None:
        """The partition that a request goes to; None if it goes to the whole machine (rule P1).

        Errors: UsageError for a partition that the machine does not have.
        """
        if (self.structure.partitions or request.attributes) and self.with_partitions:
            return admission.of_request(self.structure, request)
        return None

    def _within_limits(self, request: Request, partition: Partition) -> Request:
        """The request as its partition limits it, the same object for the same resources."""
        if (partition.max_nodes is None and not partition.min_nodes) or request.chooser is not None:
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

    def _objections(self, request: Request, start: int, end: int, how: str | Policy) -> list[Objection]:
        """What the partition of a request does not allow in a window, or of the match there."""
        partition = self.partition_for(request)
        if partition is None:
            return []
        found = admission.objections(partition, request, _length(start, end), is_queued=False)
        if found or (partition.max_nodes is None and not partition.min_nodes):
            return found
        try:
            there = self._match(self._within_limits(request, partition), how, partition, start, end)
        except LimitExceeded:
            return []
        beyond = None if there is None else self._beyond(partition, there)
        return [] if beyond is None else [beyond]

    def lengths(self, request: Request) -> tuple[int, int]:
        """The number of counts and of slots that a match of the request has.

        Errors: InfeasibleRequest for a type that the machine does not have.
        """
        plan = self._query(request).plan
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
        if not 0 <= after < FOREVER:
            raise _wrong_window(after, min(after + duration, FOREVER))
        partition = self.partition_for(request)
        from fluxres.match.earliest import earliest

        within = request if partition is None else self._within_limits(request, partition)
        query = self._query(within, how, partition)
        if partition is not None and admission.objections(partition, request, duration, is_queued=is_queued, ideal=self.ideal):
            return None
        undecided: list[LimitExceeded] = []

        def attempt(start: int, end: int) -> Placement | None:
            try:
                return self._allowed(self._answer(query, start, end, reference=reference), partition)
            except LimitExceeded as error:
                undecided.append(error)
                return None

        skipper = None if reference else self._skipper(query)
        found = earliest(attempt, self.planner, skipper, duration, after)
        if found is None and undecided:
            raise undecided[0]
        return found

    def prepare(self) -> None:
        """Count what is held by node, which the first match would do otherwise.  Cost: O(pools and spans)."""
        _ = self._node_table.is_flat

    def no_start_before(self, request: Request, duration: int, after: int, how: str | Policy = "first") -> int:
        """A moment, `after` or later, before which no match of that duration starts, from counts alone; FOREVER for never.

        Cost: little, and nothing is known about a request without a form.
        """
        skipper = self._skipper(self._query(request, how, self.partition_for(request)))
        if skipper is None:
            return after
        found = skipper.first_start(duration, after)
        return FOREVER if found is None else found

    def _skipper(self, query: Query) -> WindowSkipper | None:
        if query.form is None or not is_guided(query.form.draws, self.typology):
            return None
        from fluxres.match.earliest import WindowSkipper

        return WindowSkipper(query, partial(self._failures_of, query.eligible))

    def satisfiable(self, request: Request, *, reference: bool = False) -> bool:
        """Whether the request can match with everything up and nothing held.  Constraint and limits of its partition still apply.

        Errors: InfeasibleRequest for a type that the machine does not have.
        """
        partition = self.partition_for(request)
        if partition is not None:
            length = None if request.duration_s is None else positive_ticks(request.duration_s)
            objections = admission.objections(partition, request, length, is_queued=True, ideal=True)
            request = self._within_limits(request, partition)
            self._query(request)  # this comes before what a partition does not allow
            if objections:
                return False
        self.follow_suppliers()
        eligible = self._eligible_for(request.constraint, partition)
        idle = [self._unhindered()]
        if self.typology.dead:
            idle.append(self._unheld())  # a supplier that is down need not give its share
        for matcher in idle:
            query = matcher._query(request, eligible=eligible)
            if matcher._fits(query, query.plan.lowest, 0, FOREVER, reference=reference):
                return True
        return False

    def is_recorded(self, request: Request, how: str | Policy = "first") -> bool:
        """Whether a match of the request has pools to record; a request for shared pools alone has none.

        Errors: as `satisfiable`.
        """
        if any(vertex.is_exclusive for vertex in request.vertices()):
            return True
        found = self._unhindered().match(request, 0, FOREVER, how)
        return found is None or len(found.vertices) > 0

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
        if not 0 <= start < end or start >= FOREVER:
            raise _wrong_window(start, end)
        partition, undecided = self.partition_for(request), False
        query = self._query(request if partition is None else self._within_limits(request, partition), how, partition)
        if partition is not None and (found := self._objections(request, start, end, how)):
            return self._objected(request, found, start, end, how)
        try:
            if self._fits(query, query.plan.lowest, start, end):
                return None
        except LimitExceeded:
            undecided = True
        return self.refusal(request, start, end, how, holders=holders, undecided=undecided)

    def _objected(self, request: Request, found: list[Objection], start: int, end: int, how: str | Policy) -> Refusal:
        """The refusal of what a partition does not allow."""
        from fluxres.match.refusal import Refusal  # most requests are not refused

        never = any(each.is_lasting for each in found)
        first = None
        if not never and all(each.code != "state" for each in found):
            with suppress(LimitExceeded):
                first = self.earliest(request, _length(start, end), start, how)
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
        smaller counts, and one search for the earliest start, which together take back `limits.WHY_STEPS_MAX` choices at most;
        after that the refusal is `undecided`.
        Errors: InfeasibleRequest for a type that the machine does not have.
        """
        partition = self.partition_for(request)
        within = request if partition is None else self._within_limits(request, partition)
        query = self._query(within, how, partition)
        with self._explaining(query.plan):
            if partition is not None and (objected := self._objections(request, start, end, how)):
                return self._objected(request, objected, start, end, how)
            return self._refused(query, start, end, how, holders, undecided=undecided)

    @contextmanager
    def _explaining(self, plan: Plan) -> Iterator[None]:
        """All searches share one budget: an explanation is one question."""
        from fluxres.match.traverser import Budget

        steps = limits.WHY_STEPS_MAX // 20 if plan.charged else limits.WHY_STEPS_MAX + 8 * self.structure.n
        before, self._shared = self._shared, Budget(steps, of_one_part=plan.is_of_one_type)
        try:
            yield
        finally:
            self._shared = before

    def _refused(
        self, query: Query, start: int, end: int, how: str | Policy, holders: Holders | None, *, undecided: bool
    ) -> Refusal:
        from fluxres.match.refusal import Refusal  # most requests are not refused

        request, partition = query.plan.request, self.partition_for(query.plan.request)
        name = None if partition is None else partition.name
        if self._is_never(request):
            idle = self._unhindered()
            query = idle._query(request, how, eligible=query.eligible)
            start, end = 0, FOREVER
            parts, notes = idle._explained(query, start, end, None)
            with idle._explaining(query.plan):
                less, given_up = idle._enough(query, start, end)
            return Refusal(
                parts, less, True, undecided=given_up, partition=name, notes=notes, is_of_part=query.eligible.part is not None
            )
        less, given_up = self._enough(query, start, end)
        first = None
        try:
            first = self.earliest(request, _length(start, end), start, how)
        except LimitExceeded:
            undecided = True
        parts, notes = self._explained(query, start, end, holders)
        return Refusal(
            parts,
            less,
            earliest=None if first is None else seconds(first.start),
            undecided=undecided or given_up,
            partition=name,
            notes=notes,
            is_of_part=query.eligible.part is not None,
        )

    def _explained(
        self, query: Query, start: int, end: int, holders: Holders | None
    ) -> tuple[tuple[PartReport, ...], tuple[str, ...]]:
        """A report for each part of a request, and what its rule notes beyond them."""
        from fluxres.match import reasons

        rule = query.plan.request.chooser
        if rule is None:
            return reasons.explain(query, self._widest(query.plan), start, end, holders), ()
        alternatives = chooser(rule).alternatives(query.plan.request, self._offer(query, start, end))
        return reasons.of_alternatives(query, alternatives, start, end, holders)

    def _is_never(self, request: Request) -> bool:
        """Whether a request is known to be unsatisfiable."""
        with self._unhindered()._explaining(self._query(request).plan):
            try:
                return not self.satisfiable(request)
            except LimitExceeded:
                return False

    def _fits(self, query: Query, counts: Counts, start: int, end: int, *, reference: bool = False) -> bool:
        """Whether a query has a match for these counts in a window."""
        if query.plan.request.chooser is not None:
            return self._answer(query, start, end) is not None
        if query.plan.between >= 0:
            return self._meeting(query).at(counts, start, end) is not None
        if query.form is not None and not reference:
            with suppress(NeedsTraverser):
                return Search(query, start, end).fits(counts)
        from fluxres.match.traverser import Traverser

        situation, budget = query.situation(start, end), self._budget(query.plan)
        return Traverser(situation, query.plan, counts, query.policy, budget).match() is not None

    def _enough(self, query: Query, start: int, end: int) -> tuple[dict[str, int], bool]:
        if query.plan.request.chooser is not None:
            return {}, False  # it answers the request as it is
        from fluxres.match import reasons

        return reasons.enough(query.plan, lambda counts: self._fits(query, counts, start, end))

    def _meeting(self, query: Query, *, reference: bool = False) -> Together:
        from fluxres.match.together import Together

        return Together(query, self._below_meetings, self._budget, reference=reference)

    def _widest(self, plan: Plan) -> Plan:
        """The plan used to explain a refusal: its nodes meet where most nodes do."""
        widest = self.typology.meetings(plan.between).widest if plan.between >= 0 else None
        return plan if widest is None else compile_plan(plan.request, self.typology, widest)

    # -- caches ------------------------------------------------------------------------------------------------------

    def _budget(self, plan: Plan) -> Budget:
        if self._shared is not None:
            return self._shared
        from fluxres.match.traverser import Budget

        # Where suppliers overlap, very many choices of nodes are equivalent, and each costs a walk over its suppliers.
        steps = limits.MATCH_STEPS_MAX // 20 if plan.charged else limits.MATCH_STEPS_MAX + 8 * self.structure.n
        return Budget(steps, of_one_part=plan.is_of_one_type)

    def _query(
        self,
        request: Request,
        how: str | Policy = "first",
        partition: Partition | None = None,
        eligible: Eligible | None = None,
    ) -> Query:
        """A request, compiled, with what it may use.

        Args:
            partition: whose members it may use, as far as its constraint allows.
            eligible: use these targets instead.
        """
        if self.structure.outage is not self._outage:
            self.follow_suppliers()
        if request.attributes:
            _require_allowed(self.structure, request)
        named = how if isinstance(how, str) else id(how)
        among = None if partition is None else partition.vertex
        key = id(request.resources), request.constraint, request.parts, id(request.chooser), named, among, eligible
        found = self._queries.get(key)
        if found is None:
            chosen, (plan, shape) = policy(how), self._compile(request)
            allowed = self._eligible_for(request.constraint, partition) if eligible is None else eligible
            found = request, Query.of(self._node_table, plan, shape, allowed, chosen)
            _keep(self._queries, key, found)
        return found[1]

    def _compile(self, request: Request) -> tuple[Plan, Form | None]:
        """The request for the traverser, and for the vector path if its form is known."""
        what = request.resources, request.constraint, request.parts, request.chooser
        found = self._compiled.get(what)
        if found is not None and not found[0].is_routed:
            return found
        if any(vertex.is_directed for vertex in request.vertices()):  # routes avoid every pool out of service
            self.follow_suppliers(routed=True)
        if request.chooser is not None:
            found = compile_plan(chooser(request.chooser).asked(request, self.typology), self.typology), None
            _keep(self._compiled, what, found)
            return found
        plan = compile_plan(request, self.typology)
        has_form = plan.between < 0 and self._node_table.is_flat
        found = plan, form(plan, self.typology) if has_form else None
        _keep(self._compiled, what, found)
        return found

    def _eligible_for(self, constraint: Constraint | None, partition: Partition | None = None) -> Eligible:
        key = constraint if partition is None else (constraint, partition.vertex)
        found = self._eligible.get(key)
        if found is None:
            if len(self._eligible) >= REQUESTS_KEPT:
                self._forget_queries()
            found = self._eligible[key] = Eligible(self.typology, constraint, partition)
        return found

    def _forget_queries(self) -> None:
        self._queries.clear()
        self._eligible.clear()
        self._failures.clear()

    def _failures_of(self, eligible: Eligible, kind: object) -> Failures:
        found = self._failures.get((eligible, kind))
        if found is None:
            from fluxres.match.earliest import Failures

            found = self._failures[eligible, kind] = Failures(self.planner)
        return found

    def follow_suppliers(self, *, routed: bool = False) -> None:
        """Drop what was derived from states if they have changed, and the supply paths if other suppliers give nothing.

        Args:
            routed: the caller will ask for routes, which avoid every pool out of service.
        """
        outage, known = self.structure.outage, self.typology
        if outage is not self._outage:
            self._outage = outage
            self._forget_queries()  # a constraint may test states
            self._node_table.forget_states()
        elif not routed:
            return
        if self.ideal:
            return
        same_routes = not (routed or known.paths.is_routed) or np.array_equal(outage.stated, known.stated)
        same_routes = same_routes and not (routed and known.paths.is_crowded)
        if same_routes and _is_same(outage.dead, known.dead):
            return
        self.typology = Typology(self.structure, outage.dead, outage.stated)
        self._compiled = {}  # an idle matcher may go on using the former one
        self._forget_queries()
        self._below_meetings.clear()
        self._facts = {}
        self._node_table = NodeTable(self.typology, self.planner)
        self._empty = None

    def _unheld(self) -> Matcher:
        """A matcher for the same machine with nothing held."""
        if self._empty is None:
            columns = self.planner.columns
            nothing = Planner(columns.parents, columns.ends, columns.type_numbers, columns.sizes, of_type=self.typology.vertices)
            self._empty = Matcher(self.structure, nothing, typology=self.typology)
            self._empty._compiled = self._compiled
        return self._empty

    def _unhindered(self) -> Matcher:
        """A matcher for the same machine with nothing held and everything up."""
        if self._idle is None:
            shared = None if self.typology.dead is not NOTHING_DEAD or len(self.typology.stated) else self.typology
            self._idle = Matcher(self.structure, self.planner, ideal=True, typology=shared)
            if shared is not None:
                self._idle._compiled = self._compiled
        return self._idle


Kept = TypeVar("Kept")


def _keep(known: dict[object, Kept], key: object, found: Kept) -> None:
    """Remember one more, and forget the oldest beyond REQUESTS_KEPT."""
    if len(known) >= REQUESTS_KEPT:
        del known[next(iter(known))]
    known[key] = found


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


def _is_same(one: Dead, other: Dead) -> bool:
    return one is other or (one.keys() == other.keys() and all(np.array_equal(one[kind], other[kind]) for kind in one))


def _length(start: int, end: int) -> int:
    return end - start if end < FOREVER else FOREVER


def _wrong_window(start: int, end: int) -> UsageError:
    said = f"[{seconds(start):g} s, {seconds(end):g} s)"
    return UsageError(f"window {said}: expected 0 <= start < end and a finite start")
