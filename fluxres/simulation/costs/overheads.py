"""What the work of an instance costs beside its decisions: taking jobs in, starting them, noticing their ends, booting children.

An instance has one processor.  Whatever it does, it does one after the other, in the order in which it was asked: a burst of
submissions delays the decisions, the start of many children delays the ends of jobs.  Costs are seconds of this processor, except
`launch_s`, which passes on the nodes of a job.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Final

from fluxres import limits
from fluxres.errors import UsageError
from fluxres.simulation.costs.cost import Fitted
from fluxres.simulation.costs.fit import Fit
from fluxres.syntax import parameters

if TYPE_CHECKING:
    from fluxres.simulation.costs.cost import Cost


@dataclass(frozen=True)
class Overheads:
    """Seconds that the processor of an instance is busy; all zero for an instance of which only decisions take time.

    Args:
        ingest_s: per job submitted to it.
        start_s: per job that it starts, after the decision.
        event_s: per job that has ended; its resources are free afterwards.
        spawn_s: per child.
        messages: sent by a booting child, each of which the instance answers before the child sends the next one.
        message_s: per message.
        launch_s: from the start until the job runs; not of the processor of the instance but on the nodes of the job.
    """

    ingest_s: float = 0.0
    start_s: float = 0.0
    event_s: float = 0.0
    spawn_s: float = 0.0
    messages: int = 0
    message_s: float = 0.0
    launch_s: float = 0.0

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if not 0 <= value < 1e9:
                raise UsageError(f"{each.name}: expected a number of at least 0, got {value!r:.80}", where="cost")
        if self.messages > limits.BOOT_MESSAGES_MAX:
            raise UsageError(f"messages: expected at most {limits.BOOT_MESSAGES_MAX}, got {self.messages}", where="cost")

    @property
    def is_nothing(self) -> bool:
        """Whether nothing but decisions takes time."""
        times = (self.ingest_s, self.start_s, self.event_s, self.spawn_s, self.launch_s)
        return not any(times) and not (self.messages and self.message_s)


def parse(text: str) -> Overheads:
    """Overheads as ``name=value,…``: durations, and a number of messages.

    Errors: UsageError.

    >>> parse("ingest=1ms,spawn=0.5s,messages=20,message=2ms").message_s
    0.002
    """
    return Overheads(**parameters.read(text, parameters.of(Overheads), "overhead"))


NO_OVERHEADS: Final = Overheads()


@dataclass(frozen=True)
class LevelCost:
    """The costs of the instances of one level.

    Args:
        decision: of a decision; None for no cost.
        overheads: of everything else.
    """

    decision: Cost | None = None
    overheads: Overheads = NO_OVERHEADS


def levels_of(costs: Sequence[Cost | None], overheads: Sequence[Overheads]) -> list[LevelCost]:
    """The costs of levels of which some may have only one of both; the last one given applies to all further levels.

    >>> [each.overheads.ingest_s for each in levels_of([None], [parse("ingest=1s"), parse("ingest=2s")])]
    [1.0, 2.0]
    """
    decisions, others = list(costs) or [None], list(overheads) or [NO_OVERHEADS]
    number = max(len(decisions), len(others))
    decisions += [decisions[-1]] * (number - len(decisions))
    others += [others[-1]] * (number - len(others))
    return [LevelCost(*both) for both in zip(decisions, others, strict=True)]


def by_level(cost: Cost | LevelCost | Sequence[Cost | LevelCost | None] | None, levels: int) -> list[LevelCost]:
    """The costs of each level, from the outermost on; the last one given applies to all further levels.

    A cost of nothing is none, so that both give the same results.

    Errors: UsageError for an empty sequence, and for more costs than levels.

    >>> [each.decision for each in by_level([Fitted(start_s=1.0), Fitted()], 3)][1:]
    [None, None]
    """
    given = list(cost) if isinstance(cost, Sequence) else [cost]
    if not given:
        raise UsageError("expected the cost of at least one level", where="cost")
    require_levels(len(given), levels)
    found = [_of_level(each) for each in given]
    return found + [found[-1]] * (levels - len(found))


def require_levels(costs: int, levels: int) -> None:
    """Errors: UsageError for costs of levels that a hierarchy does not have."""
    if costs > levels:
        number = f"{levels} level{'s' * (levels > 1)} of instances"
        raise UsageError(
            f"expected at most one cost for each of {number}, got {costs}", where="cost", hint="use a topology with more levels"
        )


def _of_level(given: Cost | LevelCost | None) -> LevelCost:
    found = given if isinstance(given, LevelCost) else LevelCost(given)
    is_free = isinstance(found.decision, Fitted) and found.decision.is_nothing
    return LevelCost(None, found.overheads) if is_free else found


def fit_of(costs: Sequence[LevelCost]) -> Fit | None:
    """A fit of the decisions of all levels that measure them, by the first model that does; None if no level does."""
    measured = next((each.decision for each in costs if each.decision is not None and each.decision.measures), None)
    return None if measured is None else Fit(measured)


def fitting(costs: Sequence[LevelCost], fit: Fit) -> list[LevelCost]:
    """The same costs, with a fit of the decisions of the levels that it is for."""
    return [LevelCost(fit, each.overheads) if each.decision == fit.cost else each for each in costs]
