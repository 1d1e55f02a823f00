"""The options of an instance, of which a child inherits those that it is not given."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from fluxres.documents import arguments
from fluxres.errors import UsageError
from fluxres.instance.interchangeable import InterchangeableInventory
from fluxres.instance.inventory import Inventory
from fluxres.instance.job import Job, JobEvent
from fluxres.instance.queue import QueuePolicy
from fluxres.instance.runner import Runner
from fluxres.instance.sizes import SizePolicy

AnyQueuePolicy = str | QueuePolicy | type[QueuePolicy]
Sink = Callable[[Job], None]
Listener = Callable[[Job, JobEvent], None]


class InstanceOptions(NamedTuple):
    """What `Instance` takes and a child inherits; None for what is not given."""

    queue_policy: AnyQueuePolicy | None = None
    match_policy: str | None = None
    size_policy: str | SizePolicy | None = None
    inventory: str | None = None
    runner: Runner | None = None
    sink: Sink | None = None
    events: Listener | bool | None = None
    passes: str | None = None

    def require_calls(self) -> None:
        """Check what the instance calls. Errors: UsageError."""
        runner = self.runner
        if runner is not None and not (callable(getattr(runner, "start", None)) and callable(getattr(runner, "stop", None))):
            raise arguments.expected("a runner with start(job) and stop(job, why)", runner, "runner")
        if self.sink is not None:
            arguments.function(self.sink, "sink", "takes a job that has ended")
        if self.events is not None and not isinstance(self.events, bool):
            arguments.function(self.events, "events", "takes a job and an event")

    def for_child(self, given: InstanceOptions, inventory: Inventory, runner: Runner) -> InstanceOptions:
        """The options of a child: those given to it, else these, which are those of its parent.

        Args:
            inventory, runner: of the parent.

        Errors: UsageError if a queue policy cannot be made again for the child.
        """
        own = self
        if given.queue_policy is None and isinstance(own.queue_policy, QueuePolicy):
            given = given._replace(queue_policy=_another(own.queue_policy))
        if isinstance(inventory, InterchangeableInventory) and own.inventory == inventory.kind:
            own = own._replace(inventory=f"{own.inventory}:{inventory.type}")  # the child may have one unit of it
        return given.or_else(own._replace(runner=runner))

    def or_else(self, others: InstanceOptions) -> InstanceOptions:
        """These, and the others for what is not given here."""
        return others._replace(**{name: option for name, option in self._asdict().items() if option is not None})


def _another(policy: QueuePolicy) -> QueuePolicy:
    """A policy of the same class for a child.

    Errors: UsageError if that takes arguments.
    """
    try:
        return type(policy)()
    except TypeError:
        message = f"a child needs a policy of its own, and {policy.name} cannot be made without arguments"
        raise UsageError(message, hint="give queue_policy") from None
