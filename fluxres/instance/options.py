"""The options of an instance, of which a child inherits those that it is not given."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

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

    def or_else(self, others: InstanceOptions) -> InstanceOptions:
        """These, and the others for what is not given here."""
        return others._replace(**{name: option for name, option in self._asdict().items() if option is not None})
