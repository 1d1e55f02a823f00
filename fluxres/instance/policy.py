"""Queue policies: the interface, and how a policy is named.

A policy decides which jobs start, and nothing else: what it starts is held by the inventory, which refuses what does not fit, so
a policy can be wrong but it cannot break a rule.  One of one's own is a class with a `schedule`:

>>> class ShortestFirst(QueuePolicy):
...     name = "shortest-first"
...
...     def schedule(self, queue):
...         for job in sorted(queue, key=lambda job: job.duration_s):
...             if not queue.start(job):
...                 break
>>> policy(ShortestFirst()).name
'shortest-first'

As `queue_policy="shortest-first"` it is found when its package names it in the entry point group `fluxres.queue_policies`.
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

GROUP: Final = "fluxres.queue_policies"


class QueuePolicy:
    """Base of queue policies: in order of urgency, and then of submission.

    name: for messages and results. keeps_reservations: whether reservations outlive a pass and start jobs when their time
    comes; otherwise they only keep others out. recalculate_s: how often priorities are worked out anew; None for never.
    """

    name: str = "policy"
    keeps_reservations: bool = False
    recalculate_s: float | None = None

    def schedule(self, queue: Queue) -> None:
        """One pass: start and reserve jobs of the queue (`instance/queue.py` says what it offers)."""
        raise NotImplementedError

    def priority(self, job: Job, now_s: float) -> int:
        """The priority of a job, from 0 to 4294967295 (RFC 21); held and expedited jobs are not asked for."""
        return job.urgency

    def finished(self, job: Job, now_s: float) -> None:
        """A job has given its resources back; for policies that keep accounts."""


def policy(given: str | QueuePolicy) -> QueuePolicy:
    """A policy from its name, with parameters behind a colon, or as it is.

    Errors: UsageError with the names there are, for a parameter it does not have, and for what is no policy.

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
    """Names of the policies there are, those of other packages last."""
    return [*_factories(), *sorted(entry.name for entry in entry_points(group=GROUP))]


def _factories() -> dict[str, Any]:
    from fluxres.instance.policies import Conservative, Easy, EasyCount, EasySjbf, FairShare, Fcfs, Hybrid, Multifactor

    return {kind.name: kind for kind in (Fcfs, Easy, EasyCount, EasySjbf, Hybrid, Conservative, Multifactor, FairShare)}


def _from_entry_point(name: str) -> Any:
    for entry in entry_points(group=GROUP):
        if entry.name == name:
            return entry.load()
    raise UsageError(f"no queue policy {name!r:.80}", hint=f"there is {', '.join(names())}")


def _require_known(given: str, factory: Any, parameters: Iterable[str]) -> None:
    """Refuse parameters that a policy does not have.

    Errors: UsageError.
    """
    try:
        known = signature(factory).parameters
    except (TypeError, ValueError):  # it does not say
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
