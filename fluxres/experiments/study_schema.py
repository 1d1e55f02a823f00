"""The typed document of a study: the single definition of its content, for the reader and for messages.

Keys that select one of several forms (a workload is a file or a model) are separate keys instead of a tag, so that the page reads
naturally; a check when a run is built ensures that exactly one of them is given.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from fluxres import limits

Word = Annotated[str, Meta(min_length=1, max_length=limits.NAME_LENGTH_MAX)]
Jobs = Annotated[int, Meta(ge=1, le=10**12)]
Seconds = Annotated[float, Meta(ge=0, le=1e9)]
Above = Annotated[float, Meta(ge=1e-6, le=1e9)]
Units = Annotated[int, Meta(ge=1, le=limits.SIZE_MAX)]
Policies = Word | Annotated[list[Word], Meta(min_length=1)]
Interval = Annotated[list[float], Meta(min_length=2, max_length=2)]


class EnsembleModel(Struct, forbid_unknown_fields=True):
    """Many short jobs of one kind (`models.Ensemble`)."""

    jobs: Jobs
    run_s: Seconds = 1.0
    distribution: Literal["fixed", "uniform", "exponential"] = "fixed"
    size: Units = 1
    interval_s: Seconds = 0.0
    limit_s: Seconds | None = None


class LublinModel(Struct, forbid_unknown_fields=True):
    """The model of Lublin and Feitelson; `size` is that of the machine by default."""

    jobs: Jobs
    size: Units | None = None
    overestimate: Annotated[float, Meta(ge=1, le=1e5)] = 1.0


class BurstsModel(Struct, forbid_unknown_fields=True):
    """On-off arrivals (`models.Bursts`)."""

    jobs: Jobs
    on_s: Above = 600.0
    off_s: Above = 3000.0
    interval_s: Above = 10.0
    run_s: Above = 600.0
    size: Units = 1


class WorkloadEntry(Struct, forbid_unknown_fields=True):
    """One workload: a file or a model, and modifications of it."""

    name: Word | None = None
    file: Word | None = None
    ensemble: EnsembleModel | None = None
    lublin: LublinModel | None = None
    bursts: BurstsModel | None = None
    jobs: Jobs | None = None
    load: Above = 1.0
    request: Word | None = None
    cut: bool = False


class HierarchyEntry(Struct, forbid_unknown_fields=True):
    """Levels of instances (`hierarchy.Hierarchy`), and how jobs are dealt to the innermost ones."""

    topology: int | Word = "1"
    queue_policy: Policies = "easy"
    match_policy: Policies = "first"
    boot_s: Seconds = 0.0
    ahead: Annotated[int, Meta(ge=0, le=10**9)] | None = None
    jobs: Literal["even", "batch", "work"] = "even"
    divide: Policies | None = None


class FittedCost(Struct, forbid_unknown_fields=True):
    """Seconds per decision as a sum (`cost.Fitted`)."""

    base_s: Seconds = 0.0
    start_s: Seconds = 0.0
    considered_s: Seconds = 0.0
    queued_s: Seconds = 0.0
    size_s: Seconds = 0.0


class MeasuredCost(Struct, forbid_unknown_fields=True):
    """The time it took on this machine, multiplied by a factor."""

    factor: Above = 1.0


class CostEntry(Struct, forbid_unknown_fields=True):
    """The cost of a decision: one of these models."""

    fixed_s: Seconds | None = None
    fitted: FittedCost | None = None
    measured: MeasuredCost | None = None


class Expectation(Struct, forbid_unknown_fields=True):
    """An expected metric: a value, or a ratio to other settings, within two bounds."""

    metric: Word
    of: dict[str, Any] = {}
    against: Literal["baseline"] | dict[str, Any] | None = None
    ratio: Interval | None = None
    range: Interval | None = None
    source: str = ""


class StudyDocument(Struct, forbid_unknown_fields=True, rename={"version": "fluxres-experiment"}):
    """The complete page."""

    version: Literal[1]
    name: Word
    machine: int | Word | dict[str, Any]
    workload: WorkloadEntry | Annotated[list[WorkloadEntry], Meta(min_length=1)]
    title: str = ""
    unit: Word | None = None
    inventory: Word = "auto"
    hierarchy: HierarchyEntry = msgspec.field(default_factory=HierarchyEntry)
    cost: Literal["none", "measured"] | CostEntry = "none"
    repeats: Annotated[int, Meta(ge=1, le=10_000)] = 1
    seed: Annotated[int, Meta(ge=0, le=2**31)] = 0
    vary: dict[str, Annotated[list[Any], Meta(min_length=1)]] = {}
    labels: dict[str, Word] = {}
    baseline: dict[str, Any] = {}
    metrics: Annotated[list[Word], Meta(min_length=1)] | None = None
    expect: list[Expectation] = []
