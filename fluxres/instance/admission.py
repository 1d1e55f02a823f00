"""Which new jobs an instance lets in: by its accounting, by their partition, and by what its inventory can ever give."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Protocol

from fluxres import limits
from fluxres.clock import FOREVER
from fluxres.instance import dependencies as deps
from fluxres.instance.charged import NOBODY, Charged
from fluxres.instance.choice import ChoiceOwner, InventoryChoice
from fluxres.instance.dependencies import AnyDependency, Dependencies
from fluxres.instance.inventory import Ask
from fluxres.instance.job import Dependency, Job
from fluxres.model import matching

if TYPE_CHECKING:
    from fluxres.instance.ledger import Ledger
    from fluxres.instance.sizes import Sizes
    from fluxres.syntax.jobspec import Request


class AdmissionOwner(ChoiceOwner, Protocol):
    """What `Admission` uses of its instance."""

    choice: InventoryChoice
    dependencies: Dependencies
    ledger: Ledger | None


class Admission:
    """What one instance requires of new jobs; everything that may be refused is checked before there is a job.

    Errors: InfeasibleRequest for what is never allowed; InsufficientResources for what is not allowed now; UsageError.
    """

    def __init__(self, instance: AdmissionOwner) -> None:
        self._instance = instance

    def of_sizes(self, charged: Charged | None, sizes: Sizes) -> Charged | None:
        """As `of_request`, for each of the sizes of a moldable job."""
        before = self._instance.inventory
        charged = sizes.admit(partial(self.of_request, charged))
        if self._instance.inventory is not before:
            sizes.use(self._instance.inventory)
        return charged

    def of_request(self, charged: Charged | None, request: Request, duration: int) -> tuple[Charged | None, Request, int, Ask]:
        """To whom a new job is charged, its request and limit by the rules of the accounting and its partition, and its ask."""
        instance, ledger = self._instance, self._instance.ledger
        graph = instance.holdings.graph
        if ledger is not None:
            size, named = instance.inventory.requested(request), charged or NOBODY
            if named.partition is None:
                named = named._replace(partition=request.queue)
            charged, duration = ledger.admit(named, size, duration, instance.inventory.measure)
            request = self.on_machine(request)
        if graph.structure.partitions:
            if charged is not None and charged.partition is not None:
                request = matching.in_partition(graph, request, charged.partition)
            if ledger is not None and duration >= FOREVER:
                found = matching.length(graph, request)
                duration = found if found >= FOREVER else found + ledger.lead
            matching.require_accepted(graph, request, duration)
        return charged, request, duration, instance.choice.ask(request)

    def of_limit(self, job: Job, duration: int) -> None:
        """Check another limit of a job, in ticks, by the rules of the accounting and its partition; a shorter one is allowed."""
        if duration <= job.duration or job.is_booking:
            return
        instance = self._instance
        if instance.ledger is not None:
            instance.ledger.require_time(job, duration)
        if instance.holdings.graph.structure.partitions:
            matching.require_time(instance.holdings.graph, job.request, duration)

    def on_machine(self, request: Request) -> Request:
        """The request as the machine matches it: on one without partitions, those of the accounting only limit.

        Errors: NotInAccounting for a partition that neither has.
        """
        instance, ledger = self._instance, self._instance.ledger
        if request.queue is None or ledger is None or not ledger.rules.partitions or instance.holdings.graph.structure.partitions:
            return request
        ledger.partition(request.queue)
        return matching.for_any_partition(request)

    def require_possible(self, request: Request, given: Iterable[AnyDependency]) -> None:
        """Refuse a new job that could only fail, because a dependency given to it or its request can never be satisfied.

        Flux does so too: its job manager rejects a job that depends on an inactive one whose result rules that out
        (flux-core, `dependency-after.c`, pull request 4388). If that job is still active and ends in that way later, the
        dependent job gets a fatal exception, as in RFC 26. Slurm lets it wait for ever with the reason
        DependencyNeverSatisfied, unless it has `kill_invalid_depend`. A simulation submits such jobs, which get the exception:
        in a workload, the order of ends and submissions does not matter for the result.

        Errors: UsageError; those of `dependencies.parse`.
        """
        for one in (*given, *deps.listed(request.system.get("dependencies"))):
            self._instance.dependencies.require_possible(deps.parse(one, self._instance.due.now))

    def of_dependencies(self, request: Request, given: Iterable[AnyDependency], name: str | None) -> tuple[Dependency, ...]:
        """The dependencies that are given to a new job, and those of its request.

        Args:
            name: of the job.
        """
        instance = self._instance
        found = []
        for one in (*given, *deps.listed(request.system.get("dependencies"))):
            dependency = deps.parse(one, instance.due.now)
            text = one[: limits.NAME_LENGTH_MAX] if isinstance(one, str) else ""
            instance.dependencies.require(dependency, name, instance.holdings.jobs, text=text)
            found.append(dependency)
        return tuple(found)
