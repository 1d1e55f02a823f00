"""Which features of a simulation exclude each other, and why.

The simulator refuses them when it is made, and a study before its first run.  All other features can be combined.
specs/simulation.md has the table.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from fluxres.errors import UsageError
from fluxres.simulation.disturbances.attempts import NOTHING_SAVED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fluxres.instance.accounting import Accounting
    from fluxres.simulation.costs.overheads import LevelCost
    from fluxres.simulation.disturbances.attempts import Checkpoint
    from fluxres.simulation.energy.fleet import Fleet
    from fluxres.simulation.nesting.hierarchy import Hierarchy
    from fluxres.simulation.workload.workload import Submission

NESTING: Final = "nesting"
BALANCE: Final = "balance"
ELASTIC: Final = "elastic"
DECISIONS: Final = "decisions"
OVERHEADS: Final = "overheads"
EVENTS: Final = "events"
REQUEUE: Final = "requeue"
CHECKPOINTS: Final = "checkpoints"
ACCOUNTING: Final = "accounting"
TIME_LIMITS: Final = "time limits"
PREEMPTION: Final = "preemption"
PREDICTION: Final = "prediction"
FEEDBACK: Final = "feedback"
ENERGY: Final = "energy"
SAVING: Final = "power saving"
CAP: Final = "power cap"
INNER_JOBS: Final = "inner jobs"
MOLDABLE: Final = "moldable"
RESIZING: Final = "resizing"

CONTAINS: Final = {
    BALANCE: (NESTING,),
    ELASTIC: (NESTING,),
    OVERHEADS: (DECISIONS,),
    TIME_LIMITS: (ACCOUNTING,),
    PREEMPTION: (ACCOUNTING,),
    SAVING: (ENERGY,),
    CAP: (ENERGY,),
    RESIZING: (MOLDABLE,),
}
"""What a feature is a kind of, or needs: it is refused together with whatever excludes that."""


@dataclass(frozen=True)
class Exclusion:
    """Features that cannot be combined.

    Args:
        where: the setting that a message names.
        refuses_jobs: whether only jobs with one of them are refused, not the run.
    """

    features: tuple[str, ...]
    where: str
    message: str
    hint: str = ""
    refuses_jobs: bool = False

    def error(self) -> UsageError:
        return UsageError(self.message, where=self.where, hint=self.hint)


_ONE_INSTANCE: Final = "use one instance: no topology, or topology 1"
_NO_OVERHEADS: Final = "leave out starts_per_node, and all costs but that of decisions"
_NO_SWITCHING: Final = "use moldable jobs, or switch no nodes off"

EXCLUSIONS: Final = (
    Exclusion((ACCOUNTING, NESTING), "accounting", "limits are those of one queue", _ONE_INSTANCE),
    Exclusion((FEEDBACK, NESTING), "feedback", "jobs follow each other in one queue", _ONE_INSTANCE),
    Exclusion((PREEMPTION, DECISIONS), "accounting", "jobs cannot be preempted where decisions take time", "use cost none"),
    Exclusion((BALANCE, REQUEUE), "balance", "jobs that move between instances cannot be requeued", "use on_failure: fail"),
    Exclusion((OVERHEADS, EVENTS), "cost", "only decisions may take time beside external events", _NO_OVERHEADS),
    Exclusion((OVERHEADS, PREDICTION), "cost", "only decisions may take time beside predictions", _NO_OVERHEADS),
    Exclusion((OVERHEADS, CAP), "cost", "only decisions may take time below a power cap, which is kept by plans", _NO_OVERHEADS),
    Exclusion((RESIZING, DECISIONS), "resize_policy", "jobs cannot change their size where decisions take time", "use cost none"),
    Exclusion(
        (RESIZING, SAVING),
        "resize_policy",
        "a job that grows would wait for nodes that are switched off, and hold the others idle",
        _NO_SWITCHING,
    ),
    Exclusion(
        (RESIZING, CAP),
        "resize_policy",
        "what a job may draw below a power cap is planned at its start",
        "use moldable jobs, or no cap",
    ),
    Exclusion(
        (RESIZING, CHECKPOINTS),
        "checkpoint",
        "a malleable job has no checkpoints: make it moldable, or leave them out",
        refuses_jobs=True,
    ),
    Exclusion((MOLDABLE, PREDICTION), "prediction", "run times of jobs of several sizes are not predicted", refuses_jobs=True),
    Exclusion(
        (INNER_JOBS, SAVING, TIME_LIMITS),
        "accounting",
        "the instance of a job has no limit of the accounting where nodes are switched off",
        refuses_jobs=True,
    ),
)


def with_parts(features: Set[str]) -> set[str]:
    """Features, and what they contain."""
    return {*features, *(part for feature in features for part in CONTAINS.get(feature, ()))}


def found(features: Set[str], *, of_jobs: bool = False) -> Exclusion | None:
    """The first exclusion among features; None if they can be combined."""
    every = with_parts(features)
    return next((each for each in EXCLUSIONS if each.refuses_jobs == of_jobs and every.issuperset(each.features)), None)


def features(
    hierarchy: Hierarchy,
    costs: Sequence[LevelCost],
    *,
    has_events: bool,
    on_failure: str,
    checkpoint: Checkpoint,
    accounting: Accounting | None,
    has_prediction: bool,
    has_feedback: bool,
    fleet: Fleet | None,
    resizes: bool,
) -> set[str]:
    """The features of a simulation, without those of its jobs."""
    has_work = bool(hierarchy.starts_per_node) or any(not each.overheads.is_nothing for each in costs)
    is_nested = hierarchy.levels > 1
    known = {
        NESTING: is_nested,
        BALANCE: is_nested and hierarchy.balance != "none",
        ELASTIC: is_nested and hierarchy.elastic != "none",
        DECISIONS: any(each.decision is not None for each in costs),
        OVERHEADS: has_work,
        EVENTS: has_events,
        REQUEUE: on_failure == "requeue",
        CHECKPOINTS: checkpoint is not NOTHING_SAVED,
        ACCOUNTING: accounting is not None,
        TIME_LIMITS: accounting is not None and accounting.limits_times,
        PREEMPTION: accounting is not None and accounting.preempt_type != "none",
        PREDICTION: has_prediction,
        FEEDBACK: has_feedback,
        ENERGY: fleet is not None,
        SAVING: fleet is not None and fleet.saving.suspend_time_s is not None,
        CAP: fleet is not None and fleet.cap is not None,
        RESIZING: resizes,
    }
    return with_parts({name for name, is_there in known.items() if is_there})


def features_of(job: Submission, *, resizes: bool) -> set[str]:
    """The features of a job."""
    made = {INNER_JOBS} if job.jobs else set()
    if job.adaptive is not None:
        made.add(RESIZING if job.adaptive.is_malleable and resizes else MOLDABLE)
    return made
