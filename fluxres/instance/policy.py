"""The interface of queue policies, and their names.

A policy only decides which jobs start.  The inventory allocates their resources and refuses what does not fit, so a wrong policy
cannot break a rule.  A custom policy is a class with a method `schedule`:

>>> class ShortestFirst(QueuePolicy):
...     name = "shortest-first"
...
...     def schedule(self, queue):
...         for job in sorted(queue, key=lambda job: job.duration_s):
...             if not queue.start(job):
...                 break
>>> policy(ShortestFirst()).name
'shortest-first'

It can be used as `queue_policy="shortest-first"` if its package has an entry point of that name in `fluxres.queue_policies`.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import entry_points
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any, Final

from fluxres.errors import UsageError

if TYPE_CHECKING:
    from fluxres.instance.job import Job
    from fluxres.instance.queue import Queue

ENTRY_POINTS: Final = "fluxres.queue_policies"
"""The entry point group of custom policies."""


class QueuePolicy:
    """Base class of queue policies; its order is by urgency, then by submission.

    name: for messages and results. keeps_reservations: whether reservations outlive a pass and start jobs when their time
    comes; otherwise they only block other jobs. recalculate_s: the period after which priorities are computed again, or None.
    """

    name: str = "policy"
    keeps_reservations: bool = False
    recalculate_s: float | None = None

    def schedule(self, queue: Queue) -> None:
        """Make one pass: start jobs of the queue, and make reservations, with the methods of `Queue`."""
        raise NotImplementedError(f"{type(self).__name__} has no method schedule")

    def priority(self, job: Job, now_s: float) -> int:
        """The priority of a job, from 0 to 4294967295 (RFC 21); not called for held and expedited jobs."""
        return job.urgency

    def finished(self, job: Job, now_s: float) -> None:
        """Called when a job has freed its resources, for policies that track usage."""


def policy(given: str | QueuePolicy) -> QueuePolicy:
    """A policy by its name, with optional parameters after a colon; a policy object is returned as it is.

    Errors: UsageError for an unknown name or parameter, and for any other object.

    >>> policy("hybrid:depth=8").depth
    8
    """
    if isinstance(given, QueuePolicy):
        return given
    if not isinstance(given, str):
        raise UsageError(f"expected a queue policy or its name, got {given!r:.80}")
    name, _, text = given.partition(":")
    factory = _factories().get(name)
    if factory is None:
        factory = _from_entry_point(name)
    parameters = _parameters(given, text)
    _require_known(given, factory, parameters)
    try:
        made = factory(**parameters)
    except TypeError as error:
        raise UsageError(f"{error}", where=f"queue policy {given}") from None
    if not isinstance(made, QueuePolicy):
        raise UsageError(f"expected a QueuePolicy, got {made!r:.80}", where=f"queue policy {name}")
    return made


def names() -> list[str]:
    """The names of all policies; those of other packages come last."""
    return [*_factories(), *sorted(entry.name for entry in entry_points(group=ENTRY_POINTS))]


def _factories() -> dict[str, Any]:
    from fluxres.instance.policies import Conservative, Easy, EasyCount, EasySjbf, FairShare, Fcfs, Hybrid, Multifactor

    return {kind.name: kind for kind in (Fcfs, Easy, EasyCount, EasySjbf, Hybrid, Conservative, Multifactor, FairShare)}


def _from_entry_point(name: str) -> Any:
    for entry in entry_points(group=ENTRY_POINTS):
        if entry.name == name:
            return entry.load()
    raise UsageError(f"no queue policy {name!r:.80}", hint=f"known are {', '.join(names())}")


def _require_known(given: str, factory: Any, parameters: Iterable[str]) -> None:
    """Errors: UsageError for parameters that a policy does not have."""
    try:
        known = signature(factory).parameters
    except (TypeError, ValueError):  # its parameters are unknown
        return
    if any(each.kind is Parameter.VAR_KEYWORD for each in known.values()):
        return
    for name in parameters:
        if name not in known:
            hint = f"it has {', '.join(known)}" if known else "it has none"
            raise UsageError(f"no parameter {name!r:.80}", where=f"queue policy {given:.80}", hint=hint)


def _parameters(given: str, text: str) -> dict[str, float | int]:
    found: dict[str, float | int] = {}
    for pair in text.split(",") if text else ():
        key, equals, value = pair.partition("=")
        try:
            number = float(value)
        except ValueError:
            equals = ""
        if not equals:
            raise UsageError(f"expected parameters as name=number, got {pair!r:.80}", where=f"queue policy {given:.80}")
        found[key.strip().replace("-", "_")] = int(number) if number.is_integer() else number
    return found
