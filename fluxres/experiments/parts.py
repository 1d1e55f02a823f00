"""The parts of a run of a study: its machine, its workload, its hierarchy, the cost of its decisions, the draw of its nodes.

Each part is built from the typed page alone, so that a check before the first run builds the same as the run itself, here or on
another machine.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from msgspec import structs

from fluxres import limits
from fluxres.documents.document import Document
from fluxres.documents.source import Source
from fluxres.documents.suggestion import choose_from
from fluxres.errors import InfeasibleRequest, LimitExceeded, UsageError
from fluxres.experiments.study import CapStep
from fluxres.instance import accounting as accountings
from fluxres.instance.accounting import Accounting
from fluxres.simulation import machine as machines
from fluxres.simulation.costs import models as cost_models
from fluxres.simulation.costs import seen
from fluxres.simulation.costs.cost import Cost, Fitted, Measured
from fluxres.simulation.costs.overheads import NO_OVERHEADS, LevelCost, Overheads
from fluxres.simulation.disturbances import external
from fluxres.simulation.disturbances.attempts import NOTHING_SAVED, Checkpoint
from fluxres.simulation.disturbances.external import Disturbances, ExternalEvent
from fluxres.simulation.disturbances.failures import PoolFailures
from fluxres.simulation.energy.energy import Energy
from fluxres.simulation.energy.node_power import NodePower
from fluxres.simulation.energy.power_cap import PowerCap
from fluxres.simulation.energy.power_saving import ALWAYS_ON, PowerSaving
from fluxres.simulation.machine import Machine
from fluxres.simulation.nesting.hierarchy import Hierarchy, require_units, topology
from fluxres.simulation.prediction.prediction import Prediction
from fluxres.simulation.workload import estimates, reading
from fluxres.simulation.workload import workload as workloads
from fluxres.simulation.workload.adapted import Adapted, Adapting
from fluxres.simulation.workload.feedback import require_kind
from fluxres.simulation.workload.models import Bursts, Ensemble, Lublin
from fluxres.simulation.workload.workload import Submission, Workload
from fluxres.syntax.jobspec import Request, parse_shape
from fluxres.syntax.registry import file_of, placed, split

if TYPE_CHECKING:
    from fluxres.experiments.study import BurstsModel, CostOfLevel, EnergyEntry, HierarchyEntry, LublinModel, Run, WorkloadEntry
    from fluxres.graph.structure import Structure

_SIZE: Final = re.compile(r"\{size(?:/([1-9][0-9]{0,8}))?\}")


_FILE_OF_MODEL: Final = re.compile(r"([:,]file=)([^,]+)")
CUT: Final = "a job larger than the machine was cut to it"
"""The note on such a job."""

# -- the machine -----------------------------------------------------------------------------------------------------


def machine_file(text: object, folder: Path) -> Path | None:
    """The file a machine is read from; None for a number, a shape, a URL and a machine written on the page."""
    if not isinstance(text, str) or text.isdecimal() or "://" in text:
        return None
    path = folder / text
    return path if path.exists() or "=" not in text else None


def machine(run: Run, document: Document | None = None) -> Machine:
    """The machine of a run.

    Args:
        document: of a machine on the page, for the places of its errors; without it, they are paths.

    Errors: those of reading it; UsageError for a unit it does not have.
    """
    from fluxres.formats.cluster import read as cluster
    from fluxres.model import ResourceGraph

    given = run.page.machine
    if isinstance(given, dict):
        loaded = cluster.build(document or Document(given, "machine", "", is_made=True))
        return Machine(ResourceGraph(loaded.structure), run.page.unit or "")
    path = machine_file(given, run.folder)
    return Machine(machines.read(str(path) if path is not None else str(given)), run.page.unit or "")


# -- the workload ----------------------------------------------------------------------------------------------------


def workload_file(entry: WorkloadEntry, folder: Path) -> Path | None:
    return folder / entry.file if entry.file is not None else _resampled(entry.model, folder)


def workload(run: Run, size: int) -> Workload:
    """The workload of a run.

    Args:
        size: units of the machine, for a model that needs it.

    Errors: those of reading it; UsageError for an entry that does not name exactly one file or model.
    """
    entry, hierarchy = run.workload, run.page.hierarchy
    found = _source(entry, run, size)
    jobs: Any = found.submissions
    if entry.days is not None:
        jobs = workloads.first_days(jobs, entry.days)
    if entry.estimates is not None:
        found.submissions = list(jobs)[: entry.jobs] if entry.jobs is not None else jobs
        estimates.estimate(found, placed(entry.estimates, run.folder), run.seed, missing=entry.estimates_for == "missing")
        jobs = found.submissions
    leaves = math.prod(levels_of(hierarchy, size))
    if entry.jobs is not None or (leaves > 1 and not hasattr(jobs, "share")) or hierarchy.jobs != "even":
        # Dealing needs all jobs of a model that generates them in sequence.
        if (found.count or 0) > limits.JOBS_LISTED_MAX:
            raise LimitExceeded(
                f"{found.count} jobs to deal, which are kept as a list; at most {limits.JOBS_LISTED_MAX} are allowed",
                where="workload",
                hint="deal an ensemble evenly, which takes no memory",
            )
        jobs = list(jobs)[: entry.jobs]
    if leaves > 1 and hierarchy.jobs != "even":
        jobs = Dealt(jobs, by_work=hierarchy.jobs == "work")
    rate = _rate(entry, jobs, size)
    if rate != 1.0 or entry.request is not None or entry.cut:
        jobs = Changed(jobs, rate, entry.request, size if entry.cut else None, found.notes)
    found.submissions = jobs if entry.adaptive is None else Adapted(jobs, _adapting(entry, run.folder), size, run.seed)
    return found


def _adapting(entry: WorkloadEntry, folder: Path) -> Adapting:
    if entry.request is not None:
        raise UsageError("adaptive: only jobs that request a number change", where="workload", hint="leave 'request' out")
    assert entry.adaptive is not None  # the caller has looked
    given = structs.asdict(entry.adaptive)
    if isinstance(given["speedup"], str):
        given["speedup"] = placed(given["speedup"], folder)
    return Adapting(**given)


def _rate(entry: WorkloadEntry, jobs: Iterable[Submission], size: int) -> float:
    """The factor by which jobs arrive faster than written.

    Errors: UsageError if it is given more than once, or an offered load is wanted of jobs that have none.
    """
    given = {name: value for name in ("rate", "load", "offered_load") if (value := getattr(entry, name)) is not None}
    if len(given) > 1:
        raise UsageError(
            f"expected one of {', '.join(given)}", where="workload", hint="rate is a factor, offered_load a fraction"
        )
    if entry.offered_load is None:
        return float(next(iter(given.values()), 1.0))
    first = last = area = 0
    for number, job in enumerate(jobs):
        if not isinstance(job.ask, int):
            raise UsageError("an offered load needs jobs that request a number", where="workload", hint="give a rate")
        asked = min(job.ask, size) if entry.cut else job.ask
        first, last = job.submit if not number else first, job.submit
        area += min(job.run, job.limit) * asked * (asked <= size)
    if not area or last <= first:
        raise UsageError("jobs without a span of submissions have no offered load", where="workload", hint="give a rate")
    return entry.offered_load * size * (last - first) / area


def _source(entry: WorkloadEntry, run: Run, size: int) -> Workload:
    given = [form for form in (entry.file, entry.ensemble, entry.lublin, entry.bursts, entry.model) if form is not None]
    if len(given) != 1:
        raise UsageError("expected one of file, ensemble, lublin, bursts and model", where="workload")
    if entry.model is not None:
        return _by_text(entry.model, run)
    if entry.file is not None:
        return reading.read(str(run.folder / entry.file), processors=entry.processors)
    if entry.jobs is not None or entry.days is not None:
        word = "jobs" if entry.jobs is not None else "days"
        message = f"'{word}' cannot be combined with a model, which has its own number of jobs or days"
        raise UsageError(message, where="workload", hint="such as lublin: {days: 7}")
    seed, model = run.seed, entry.ensemble
    if model is not None:
        made: Iterable[Submission] = Ensemble(
            model.jobs, model.run_s, model.distribution, model.size, model.interval_s, model.limit_s, seed
        )
        return Workload(entry.name or "ensemble", made)
    if entry.lublin is not None:
        made = Lublin(_jobs(entry.lublin), entry.lublin.size or size, seed, entry.lublin.overestimate)
        return Workload(entry.name or "lublin", _days(entry.lublin, made))
    bursts = entry.bursts
    assert bursts is not None  # one of the four is there
    made = Bursts(_jobs(bursts), bursts.on_s, bursts.off_s, bursts.interval_s, bursts.run_s, bursts.size, seed)
    return Workload(entry.name or "bursts", _days(bursts, made))


def _by_text(text: str, run: Run) -> Workload:
    """A model as on the command line; a file in it is relative to the page."""
    text = placed_model(text, run.folder)
    if not reading.is_model(split(text)[0]):
        raise UsageError(f"no model {text!r:.80}", where="workload.model", hint=choose_from(reading.models()))
    return reading.read(text, seed=run.seed)


def placed_model(text: str, folder: Path) -> str:
    """A model as text, with the path of its file resolved."""
    return _FILE_OF_MODEL.sub(lambda found: f"{found[1]}{(folder / found[2]).resolve()}", placed(text, folder))


def _resampled(text: str | None, folder: Path) -> Path | None:
    found = None if text is None else _FILE_OF_MODEL.search(text)
    return None if found is None else folder / found[2]


def _jobs(model: LublinModel | BurstsModel) -> int:
    if model.jobs is None and model.days is None:
        raise UsageError("expected a number of jobs, or of days", where="workload", hint="such as days: 7")
    return reading.EVERY if model.jobs is None else model.jobs


def _days(model: LublinModel | BurstsModel, made: Iterable[Submission]) -> Iterable[Submission]:
    return made if model.days is None else workloads.first_days(made, model.days)


class Dealt:
    """Jobs dealt in blocks, or each to the instance with the least work so far, instead of in turns.

    Work is actual run time times size, which is more than a real dealer could know.
    """

    def __init__(self, jobs: Sequence[Submission], *, by_work: bool) -> None:
        self.jobs = jobs
        self.by_work = by_work
        self._hands: list[list[int]] = []

    def __len__(self) -> int:
        return len(self.jobs)

    def __iter__(self) -> Iterator[Submission]:
        return iter(self.jobs)

    def share(self, index: int, number: int) -> Iterator[Submission]:
        """The jobs for one of `number` instances."""
        if not self.by_work:
            count = len(self.jobs)
            return iter(self.jobs[count * index // number : count * (index + 1) // number])
        if len(self._hands) != number:
            self._hands = self._deal(number)
        return (self.jobs[at] for at in self._hands[index])

    def _deal(self, number: int) -> list[list[int]]:
        from heapq import heapreplace

        hands: list[list[int]] = [[] for _ in range(number)]
        least = [(0, hand) for hand in range(number)]
        for at, job in enumerate(self.jobs):
            work, hand = least[0]
            hands[hand].append(at)
            heapreplace(least, (work + job.run * (job.ask if isinstance(job.ask, int) else 1), hand))
        return hands


@dataclass
class Changed(workloads.ChangedJobs):
    """Jobs with shorter gaps between them, or with other requests.

    Args:
        jobs: the original jobs.
        rate: factor by which submissions are faster.
        request: a shape in which `{size}` is the number of a job, and `{size/36}` that divided by 36, rounded up.
        size_max: the size given to larger jobs.
        notes: counts such jobs.
    """

    jobs: Any
    rate: float = 1.0
    request: str | None = None
    size_max: int | None = None
    notes: Counter[str] = field(default_factory=Counter)
    _requests: dict[int, Request] = field(default_factory=dict)

    def changed(self, job: Submission) -> Submission:
        if self.rate != 1.0:
            job = job._replace(submit=round(job.submit / self.rate))
        if job.jobs:
            job = job._replace(jobs=tuple(map(self.changed, job.jobs)))
        if self.size_max is not None and isinstance(job.ask, int) and job.ask > self.size_max and job.adaptive is None:
            self.notes[CUT] += 1
            job = job._replace(ask=self.size_max)
        if self.request is None or not isinstance(job.ask, int):
            return job
        found = self._requests.get(job.ask)
        if found is None:
            found = self._requests[job.ask] = asking(self.request, job.ask)
        return job._replace(ask=found)


def asking(text: str, size: int) -> Request:
    """The request of a template for a job of this size.

    Errors: InputError for an invalid shape.

    >>> asking("slot={size/4}/node{x}", 6).resources[0].count.fixed
    2
    """
    return Request(parse_shape(_SIZE.sub(lambda found: str(-(-size // int(found[1] or 1))), text)))


# -- the rules of the site ---------------------------------------------------------------------------------------------


def accounting_file(entry: Accounting | str | None, folder: Path) -> Path | None:
    return folder / entry if isinstance(entry, str) else None


def accounting(run: Run) -> Accounting | None:
    """The partitions, QOS, accounts and users of a run; None without.

    Errors: InputError with the line of what is wrong.
    """
    given = run.page.accounting
    path = accounting_file(given, run.folder)
    if path is not None:
        return accountings.load(path)
    return given.require_valid() if isinstance(given, Accounting) else None


# -- the hierarchy and the cost --------------------------------------------------------------------------------------


def levels_of(entry: HierarchyEntry, units: int) -> tuple[int, ...]:
    """The children of each instance, level by level.

    Args:
        units: of the machine.

    Errors: UsageError for a topology that cannot be read, and for parts that do not divide the machine.
    """
    if entry.parts is None:
        return topology(str(entry.topology))[0]
    if str(entry.topology) != "1":
        raise UsageError("expected a topology, or the sizes of parts", where="hierarchy.parts")
    sizes = [units, *entry.parts]
    for whole, part in pairwise(sizes):
        if whole % part:
            raise UsageError(f"{whole} units cannot be divided into parts of {part}", where="hierarchy.parts")
    found = tuple(whole // part for whole, part in pairwise(sizes))
    return () if all(number == 1 for number in found) else found


def hierarchy(entry: HierarchyEntry, units: int, folder: Path = Path()) -> Hierarchy:  # immutable
    """Levels of instances.

    Args:
        units: of the machine.
        folder: base of the relative paths of policies in files.

    Errors: UsageError for fan-outs and policies that do not exist.
    """
    return Hierarchy(
        levels_of(entry, units),
        tuple(placed(name, folder) for name in _levels(entry.queue_policy)),
        _levels(entry.match_policy),
        entry.boot_s,
        entry.ahead,
        _levels(entry.divide or []),
        topology(str(entry.topology))[1],
        entry.larger,
        entry.balance,
        entry.elastic,
        entry.starts_per_node,
    )


def class_files(run: Run) -> list[Path]:
    """The files from which the classes of policies, predictors and models are read."""
    page, entry = run.page, run.page.prediction
    names = [*_levels(page.hierarchy.queue_policy), run.workload.model, run.workload.estimates]
    if run.workload.adaptive is not None and isinstance(run.workload.adaptive.speedup, str):
        names.append(run.workload.adaptive.speedup)
    names += [] if entry is None else [entry.predictor, entry.corrector]
    return [path for name in names if name is not None and (path := file_of(name, run.folder)) is not None]


def _levels(given: str | list[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


def require_room(machine: Machine, levels: Hierarchy, *, has_requests: bool = False) -> None:
    """Refuse a hierarchy with more innermost instances than there are pools of any type that may be divided among them.

    Args:
        has_requests: jobs request more than a number of the unit, so that finer pools may be divided as well.

    Errors: InfeasibleRequest. A hierarchy that passes may still be refused by an instance that gets too little to divide.
    """
    if levels.leaves == 1:
        return
    structure = machine.graph.structure
    if levels.sizes_of(0):
        require_units(machine.graph, levels.divides(0) or machine.unit, levels.sizes_of(0), "")
    by = levels.divides(levels.levels - 2)
    lowest = structure.end.size if has_requests else _depth(structure, machine.unit)
    contained = [name for name in structure.types if 0 < int(structure.of_type(name)[0]) < structure.tree_end]
    names = [name for name in contained if (name == by if by else _depth(structure, name) <= lowest)]
    units = [(int(structure.size[structure.of_type(name)].sum()), name) for name in names]
    most, name = max(units, default=(0, by or "any"))
    if levels.leaves > most:
        hint = "use smaller fan-outs"
        if not by and len(names) < len(contained):
            hint += f", or a unit finer than {machine.unit}"
        raise InfeasibleRequest(
            f"{levels.leaves} innermost instances, but the machine has at most {most} of type {name} to divide", hint=hint
        )


def _depth(structure: Structure, name: str) -> int:
    return structure.depth.item(int(structure.of_type(name)[0]))


def event_file(run: Run) -> Path | None:
    """The file of external events."""
    given = run.page.disturbances.events
    return None if given is None else run.folder / given


def events(run: Run) -> list[ExternalEvent]:
    """The external events of a file; none without a file.

    Errors: those of reading it.
    """
    file = event_file(run)
    return [] if file is None else external.read(Source.named(str(file)))


def disturbances(run: Run, machine: Machine) -> Disturbances:
    """The external events of a run, and what they do to jobs.

    Errors: those of reading them; UsageError for a type that the machine does not have.
    """
    entry = run.page.disturbances
    coming: Iterable[ExternalEvent] = events(run)
    if (model := entry.failures) is not None:
        made = PoolFailures(model.mtbf_s, model.mttr_s, model.shape, model.repair_shape, model.each, run.seed)
        made.require(machine.graph.structure)
        coming = external.merged(coming, made.events(machine.graph.structure))
    saving = entry.checkpoint
    how = NOTHING_SAVED if saving is None else Checkpoint(saving.interval_s, saving.save_s, saving.restart_s)
    return Disturbances(coming, entry.on_failure, how)


def energy(entry: EnergyEntry | Literal["none"] | None) -> Energy | Literal["none"] | None:
    """What nodes draw, when they are switched off, and what they may draw.

    Errors: UsageError for values that do not fit together.
    """
    if entry is None or entry == "none":
        return entry
    saving = ALWAYS_ON if entry.saving is None else PowerSaving(**structs.asdict(entry.saving))
    given = entry.cap if isinstance(entry.cap, list) else [] if entry.cap is None else [CapStep(0.0, entry.cap)]
    cap = PowerCap(tuple((step.at_s, step.watts) for step in given)) if given else None
    if entry.idle_w is not None and entry.full_w is not None:
        node = NodePower(entry.idle_w, entry.full_w, entry.epsilon_w, entry.off_w, entry.resume_w, entry.suspend_w)
        return Energy(node, saving, cap)
    if any(value is not None for value in (entry.idle_w, entry.full_w, entry.epsilon_w, entry.resume_w, entry.suspend_w)):
        raise UsageError("expected idle_w and full_w together, or neither", where="energy")
    return Energy(None, saving, cap)


def prediction(run: Run) -> Prediction | None:
    """The predictions of a run; None without.

    Errors: UsageError for names and parameters that do not exist.
    """
    entry = run.page.prediction
    return None if entry is None else Prediction(placed(entry.predictor, run.folder), placed(entry.corrector, run.folder))


def feedback(run: Run) -> str | None:
    """Which jobs follow others; None if all are submitted at their times.

    Errors: UsageError for another word.
    """
    given = run.page.feedback
    if given == "none":
        return None
    require_kind(given)
    return given


def costs(entry: CostOfLevel | list[CostOfLevel]) -> list[LevelCost]:
    """The costs of instances, by level from the outermost on; the last one applies to all further levels.

    Errors: UsageError if a level names several models of decisions, or none and no other cost.
    """
    if isinstance(entry, list):
        return [_cost(each, f"cost.{at}") for at, each in enumerate(entry)]
    return [_cost(entry, "cost")]


def _cost(entry: CostOfLevel, where: str) -> LevelCost:
    if isinstance(entry, str):
        return LevelCost(Measured() if entry == "measured" else None)
    boot = entry.boot
    overheads = Overheads(
        entry.ingest_s, entry.start_s, entry.event_s, boot.spawn_s, boot.messages, boot.message_s, entry.launch_s
    )
    given = [part for part in (entry.fixed_s, entry.fitted, entry.measured, entry.model) if part is not None]
    if len(given) > 1 or (not given and overheads == NO_OVERHEADS):
        raise UsageError("expected one of fixed_s, fitted, measured and model", where=where)
    decision: Cost | None = None
    if entry.fixed_s is not None:
        decision = Fitted(start_s=entry.fixed_s)
    elif entry.measured is not None:
        decision = Measured(entry.measured.factor, entry.measured.passes, entry.measured.calibrate)
    elif entry.model is not None:
        decision = cost_models.find(entry.model, f"{where}.model").cost
    elif (part := entry.fitted) is not None:
        given_seen = None if part.seen is None else seen.parse(part.seen, f"{where}.fitted")
        decision = Fitted(**{**structs.asdict(part), "seen": given_seen})
    return LevelCost(decision, overheads)
