"""A study: one page that describes many runs, read, checked and expanded before any of them starts.

The types of the page are the single definition of its content, for the reader and for messages.  Keys that select one of several
forms (a workload is a file or a model) are separate keys instead of a tag, so that the page reads naturally; a check when a run
is built ensures that exactly one of them is given.

Varied values are given as paths into the page itself, so anything on it can vary and no second vocabulary is needed.  Each
combination is the page with these values filled in, converted again by the same types; an invalid value is reported at its own
line.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from math import prod
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal

import msgspec
from msgspec import Meta, Struct

from fluxres import limits
from fluxres.documents import suggestion, typed, yaml_document
from fluxres.documents.document import Document, Key, shown
from fluxres.errors import FluxresError, InputError, LimitExceeded
from fluxres.experiments.figures import FIGURES, SHOWN, SHOWN_DISTURBED, SHOWN_ENERGY, SHOWN_PREDICTED
from fluxres.instance.accounting import Accounting
from fluxres.simulation.workload.reading import DAYS_MAX

# -- the page ----------------------------------------------------------------------------------------------------------

Word = Annotated[str, Meta(min_length=1, max_length=limits.NAME_LENGTH_MAX)]
Jobs = Annotated[int, Meta(ge=1, le=10**12)]
Seconds = Annotated[float, Meta(ge=0, le=1e9)]
Above = Annotated[float, Meta(ge=1e-6, le=1e9)]
Watts = Annotated[float, Meta(ge=0, le=limits.NODE_WATTS_MAX)]
CapWatts = Annotated[float, Meta(ge=0, le=limits.POWER_CAP_WATTS_MAX)]
Days = Annotated[float, Meta(gt=0, lt=DAYS_MAX)]
Units = Annotated[int, Meta(ge=1, le=limits.SIZE_MAX)]
Fraction = Annotated[float, Meta(ge=0, lt=0.5)]
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
    """The model of Lublin and Feitelson, with this number of jobs or days; `size` is that of the machine by default."""

    jobs: Jobs | None = None
    days: Days | None = None
    size: Units | None = None
    overestimate: Annotated[float, Meta(ge=1, le=1e5)] = 1.0


class BurstsModel(Struct, forbid_unknown_fields=True):
    """On-off arrivals (`models.Bursts`), with this number of jobs or days."""

    jobs: Jobs | None = None
    days: Days | None = None
    on_s: Above = 600.0
    off_s: Above = 3000.0
    interval_s: Above = 10.0
    run_s: Above = 600.0
    size: Units = 1


class AdaptiveEntry(Struct, forbid_unknown_fields=True, rename={"least": "min", "most": "max"}):
    """Jobs that request a number become moldable or malleable (`adapted.Adapting`)."""

    kind: Literal["moldable", "malleable"]
    speedup: Word | dict[str, Any]
    least: Annotated[float, Meta(ge=1e-6, le=1)] = 0.5
    most: Annotated[float, Meta(ge=1, le=1e6)] = 2.0
    operator: Literal["+", "*"] = "+"
    operand: Units = 1
    fraction: Annotated[float, Meta(ge=0, le=1)] = 1.0
    reconfiguration_s: Seconds = 0.0


class WorkloadEntry(Struct, forbid_unknown_fields=True):
    """One workload: a file or a model, and modifications of it."""

    name: Word | None = None
    file: Word | None = None
    ensemble: EnsembleModel | None = None
    lublin: LublinModel | None = None
    bursts: BurstsModel | None = None
    model: Word | None = None
    jobs: Jobs | None = None
    days: Days | None = None
    load: Above | None = None
    rate: Above | None = None
    offered_load: Above | None = None
    request: Word | None = None
    adaptive: AdaptiveEntry | None = None
    cut: bool = False
    processors: Literal["requested", "allocated", "larger"] = "requested"
    estimates: Word | None = None
    estimates_for: Literal["all", "missing"] = "all"


class HierarchyEntry(Struct, forbid_unknown_fields=True):
    """Levels of instances (`hierarchy.Hierarchy`), and how jobs are dealt to the innermost ones."""

    topology: int | Word = "1"
    parts: list[Units] | None = None
    queue_policy: Policies = "easy"
    match_policy: Policies = "first"
    boot_s: Seconds = 0.0
    ahead: Annotated[int, Meta(ge=0, le=10**9)] | None = None
    jobs: Literal["even", "batch", "work"] = "even"
    divide: Policies | None = None
    larger: Literal["refuse", "up"] = "refuse"
    balance: Word = "none"
    elastic: Word = "none"
    starts_per_node: Annotated[int, Meta(ge=0, le=10**6)] = 0


class FittedCost(Struct, forbid_unknown_fields=True):
    """Seconds per decision as a sum (`cost.Fitted`)."""

    base_s: Seconds = 0.0
    start_s: Seconds = 0.0
    considered_s: Seconds = 0.0
    queued_s: Seconds = 0.0
    size_s: Seconds = 0.0
    unit_s: Seconds = 0.0
    first_s: Seconds = 0.0
    doubling_s: Seconds = 0.0
    several_s: Seconds = 0.0
    seen: Annotated[str, Meta(min_length=1, max_length=10_000)] | None = None


class MeasuredCost(Struct, forbid_unknown_fields=True):
    """Processor time on this machine, multiplied by a factor. A decision costs the least that a similar one took in any pass."""

    factor: Above = 1.0
    passes: Annotated[int, Meta(ge=1, le=1000)] = 8
    calibrate: bool = False


class BootCost(Struct, forbid_unknown_fields=True):
    """What the boot of a child costs its parent (`overheads.Overheads`)."""

    spawn_s: Seconds = 0.0
    messages: Annotated[int, Meta(ge=0, le=limits.BOOT_MESSAGES_MAX)] = 0
    message_s: Seconds = 0.0


class CostEntry(Struct, forbid_unknown_fields=True):
    """The cost of a decision, by at most one of the first four models, and of other work (`overheads.Overheads`)."""

    fixed_s: Seconds | None = None
    fitted: FittedCost | None = None
    measured: MeasuredCost | None = None
    model: Word | None = None
    ingest_s: Seconds = 0.0
    start_s: Seconds = 0.0
    event_s: Seconds = 0.0
    launch_s: Seconds = 0.0
    boot: BootCost = msgspec.field(default_factory=BootCost)


CostOfLevel = Literal["none", "measured"] | CostEntry


class FailuresModel(Struct, forbid_unknown_fields=True):
    """Failures and repairs of all pools of a type (`failures.Failures`)."""

    mtbf_s: Above
    mttr_s: Above
    shape: Annotated[float, Meta(ge=0.1, le=100)] = 1.0
    repair_shape: Annotated[float, Meta(ge=0.1, le=100)] = 1.0
    each: Word = "node"


class CheckpointEntry(Struct, forbid_unknown_fields=True):
    """How jobs save their work (`attempts.Checkpoint`)."""

    interval_s: Above
    save_s: Seconds = 0.0
    restart_s: Seconds = 0.0


class DisturbancesEntry(Struct, forbid_unknown_fields=True):
    """Failures, reservations and other external events, and what they do to jobs (`external.Disturbances`)."""

    events: Word | None = None
    failures: FailuresModel | None = None
    on_failure: Literal["fail", "requeue"] = "fail"
    checkpoint: CheckpointEntry | None = None


class SavingEntry(Struct, forbid_unknown_fields=True):
    """When idle nodes are switched off, and what that takes (`power_saving.PowerSaving`)."""

    suspend_time_s: Seconds
    suspend_s: Seconds = 0.0
    resume_s: Seconds = 0.0
    keep_idle: Annotated[int, Meta(ge=0, le=10**9)] = 0
    suspend_rate: Annotated[int, Meta(ge=0, le=10**9)] = 0
    resume_rate: Annotated[int, Meta(ge=0, le=10**9)] = 0


class CapStep(Struct, forbid_unknown_fields=True):
    """The cap on the power of all nodes from a time on; null for none."""

    at_s: Seconds
    watts: CapWatts | None


class EnergyEntry(Struct, forbid_unknown_fields=True):
    """What nodes draw (`node_power.NodePower`; without `idle_w`, their properties say it), and when they are switched off."""

    idle_w: Watts | None = None
    full_w: Watts | None = None
    epsilon_w: Watts | None = None
    off_w: Watts = 0.0
    resume_w: Watts | None = None
    suspend_w: Watts | None = None
    saving: SavingEntry | None = None
    cap: CapWatts | Annotated[list[CapStep], Meta(min_length=1)] | None = None


class PredictionEntry(Struct, forbid_unknown_fields=True):
    """Predicted run times, with which policies plan (`prediction.Prediction`)."""

    predictor: Word = "requested"
    corrector: Word = "tsafrir"


class TrimEntry(Struct, forbid_unknown_fields=True):
    """The fractions of the jobs, in order of submission, that are in no metric (`distribution.Trim`)."""

    warm_up: Fraction = 0.0
    drain: Fraction = 0.0


class StopEntry(Struct, forbid_unknown_fields=True):
    """When there are enough repeats: from `least` on, as soon as the intervals of a metric are within a fraction of its mean.

    `against: baseline` asks this of the ratio to the baseline.
    """

    metric: Word
    within: Annotated[float, Meta(gt=0, lt=10)]
    least: Annotated[int, Meta(ge=2, le=10_000)] = 3
    against: Literal["baseline"] | None = None


class Expectation(Struct, forbid_unknown_fields=True):
    """An expected metric: a value, or a ratio to other settings, within two bounds.

    Without `published` it guards the results of the study against unintended changes.  With it, the value is one that others have
    published in `source`, and agreement with it is claimed if there are bounds, or `within`: a fraction of it.
    """

    metric: Word
    of: dict[str, Any] = {}
    against: Literal["baseline"] | dict[str, Any] | None = None
    ratio: Interval | None = None
    range: Interval | None = None
    published: float | None = None
    within: Annotated[float, Meta(gt=0, lt=10)] | None = None
    source: str = ""


class StudyDocument(Struct, forbid_unknown_fields=True, rename={"version": "fluxres-experiment"}):
    """The complete page."""

    also_called: ClassVar[dict[str, str]] = {name: f"hierarchy.{name}" for name in HierarchyEntry.__struct_fields__}

    version: Literal[1]
    name: Word
    machine: int | Word | dict[str, Any]
    workload: WorkloadEntry | Annotated[list[WorkloadEntry], Meta(min_length=1)]
    title: str = ""
    unit: Word | None = None
    inventory: Word = "auto"
    size_policy: Word = "requested"
    resize_policy: Word = "none"
    hierarchy: HierarchyEntry = msgspec.field(default_factory=HierarchyEntry)
    cost: CostOfLevel | Annotated[list[CostOfLevel], Meta(min_length=1)] = "none"
    event_order: Literal["sequential", "batched"] = "sequential"
    disturbances: DisturbancesEntry = msgspec.field(default_factory=DisturbancesEntry)
    accounting: Accounting | Word | None = None
    energy: EnergyEntry | Literal["none"] | None = None
    prediction: PredictionEntry | None = None
    feedback: Word = "none"
    repeats: Annotated[int, Meta(ge=1, le=10_000)] = 1
    seed: Annotated[int, Meta(ge=0, le=2**31)] = 0
    vary: dict[str, Annotated[list[Any], Meta(min_length=1)]] = {}
    cases: dict[Word, dict[str, Any]] = {}
    labels: dict[str, Word] = {}
    baseline: dict[str, Any] = {}
    metrics: Annotated[list[Word], Meta(min_length=1)] | None = None
    trim: TrimEntry = msgspec.field(default_factory=TrimEntry)
    stop: StopEntry | None = None
    expect: list[Expectation] = []


# -- its runs ----------------------------------------------------------------------------------------------------------

CASE: Final = "case"
"""The path of the axis of cases, each of which sets several values of the page."""

_KEY_LENGTH: Final = 80
"""Of the settings in the name of a directory; more are cut."""
_FILE: Final = re.compile(r"\.(ya?ml|json|xml|graphml|swf|csv)(\.(gz|zst|xz))?\Z")
_FOLDER: Final = re.compile(r"(?<![^:,=])[^:,=]*/(?=[^/:,=]+\.(?:py|ya?ml|json|swf)(?:\.(?:gz|zst|xz))?(?:[:,]|\Z))")
"""The folder of a file that a text names: a study and its copy with the results, which has absolute paths, say the same."""
_PLAIN: Final = re.compile(r"[^A-Za-z0-9._=,+-]+")


@dataclass(frozen=True)
class Run:
    """One run of a study.

    Args:
        number: from 1.
        key: name of its directory; the same for the same study.
        settings: the varied values, as path → value; the same for all repeats.
        repeat: from 0.
        seed: of its workload.
        page: the page with the settings filled in.
        folder: base of relative paths.
    """

    number: int
    key: str
    settings: dict[str, Any]
    repeat: int
    seed: int
    page: StudyDocument
    folder: Path

    @property
    def workload(self) -> WorkloadEntry:
        entry = self.page.workload
        return entry[0] if isinstance(entry, list) else entry

    @property
    def label(self) -> str:
        """The settings in readable form."""
        return label(self.settings, self.page.labels)


@dataclass
class Study:
    """A page and the runs that it describes.

    Args:
        document: its text, for the places of errors.
        page: as written.
        folder: base of relative paths.
        varied: the varied paths, in the order of the runs.
        settings: each combination once.
        runs: each combination with each repeat.
    """

    document: Document
    page: StudyDocument
    folder: Path
    varied: dict[str, list[Any]]
    settings: list[dict[str, Any]] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)

    @property
    def headings(self) -> list[str]:
        """The table headings of the varied paths."""
        return [self.page.labels.get(path, _last(path)) for path in self.varied]

    @property
    def shown(self) -> list[str]:
        """The metrics to show first."""
        disturbed = self.page.disturbances != DisturbancesEntry() or any(name.startswith("disturbances") for name in self.varied)
        powered = self.page.energy not in (None, "none") or any(name.startswith("energy") for name in self.varied)
        predicted = self.page.prediction is not None or any(name.startswith("prediction") for name in self.varied)
        added = [(disturbed, SHOWN_DISTURBED), (powered, SHOWN_ENERGY), (predicted, SHOWN_PREDICTED)]
        return self.page.metrics or [*SHOWN, *(name for is_given, names in added if is_given for name in names)]

    def where(self, settings: Mapping[str, Any], *path: Key, key: bool = False) -> str:
        """The place in the file of the value that a run has at a path: where it is varied, else where it is defined."""
        chosen = self.page.cases.get(settings.get(CASE, ""), {})
        for name, value in chosen.items():
            if (below := _below(name, value, path)) is not None:
                return self.document.where(["cases", settings[CASE], name, *below], key=key and bool(below))
        for name, value in settings.items():
            if (below := _below(name, value, path)) is not None:
                at = self.varied[name].index(value)
                if name == "workload" and isinstance(self.page.workload, list):
                    return self.document.where(["workload", at, *path[1:]], key=key)
                return self.document.where(["vary", name, at, *below], key=key and bool(below))
        return self.document.where(path, key=key)

    def part(self, run: Run, name: str) -> Document:
        """A part of the page of a run, whose places are those of its values in the file."""
        return _PartOfRun(self, run, name)


class _PartOfRun(Document):
    def __init__(self, study: Study, run: Run, name: str) -> None:
        whole = study.document
        super().__init__(getattr(run.page, name), whole.file, whole.text, None, whole.is_json)
        self._study, self._run, self._name = study, run, name

    def where(self, path: Iterable[Key], *, key: bool = False) -> str:
        return self._study.where(self._run.settings, self._name, *path, key=key)


def _below(name: str, value: Any, path: Sequence[Key]) -> list[Key] | None:
    """The steps from a set value to the one at a path, as far as it has them; None if it has nothing to do with the path.

    >>> _below("machine.resources.0", {"count": 2}, ["machine", "resources", 0, "count"])
    ['count']
    >>> _below("machine", {"count": 2}, ["machine", "resources"]), _below("cost", "none", ["machine"])
    ([], None)
    """
    set_at, words = name.split("."), [str(step) for step in path]
    common = min(len(set_at), len(words))
    if set_at[:common] != words[:common]:
        return None
    found: list[Key] = []
    for step in path[len(set_at) :]:
        if isinstance(value, list) and str(step).isdecimal() and int(step) < len(value):
            found.append(int(step))
        elif isinstance(value, dict) and step in value:
            found.append(step)
        else:
            break
        value = value[found[-1]]
    return found


_MEASURED: Final = re.compile(r"(.*) \((.+)\)")


def label(settings: Mapping[str, Any], labels: Mapping[str, str]) -> str:
    """Settings in readable form.

    Args:
        labels: names of paths, instead of their last word.

    >>> label({"hierarchy.topology": "1x36", "workload": {"name": "short"}}, {"workload": "jobs"})
    'topology 1x36, jobs short'
    >>> label({"machine.graphs.power.pools.0.size": 12800}, {"machine.graphs.power.pools.0.size": "cap (W)"})
    'cap 12,800 W'
    """
    return ", ".join(_with_value(labels.get(path, _last(path)), value) for path, value in settings.items())


def in_words(settings: Mapping[str, Any], labels: Mapping[str, str]) -> str:
    """Settings as in a sentence.

    >>> in_words({"hierarchy.queue_policy": "fcfs"}, {})
    'queue policy fcfs'
    """
    return label(settings, {path: labels.get(path, _last(path)).replace("_", " ") for path in settings})


def _with_value(name: str, value: object) -> str:
    """The unit of a name such as `cap (W)` goes behind the value."""
    measured = _MEASURED.fullmatch(name)
    return f"{name} {readable(value)}" if measured is None else f"{measured[1]} {readable(value)} {measured[2]}"


def readable(value: object) -> str:
    """A value of a setting as a short text, for people: as :func:`value_text`, but thousands are separated.

    >>> readable(12800), readable("36x32")
    ('12,800', '36x32')
    """
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else value_text(value)


def _last(path: str) -> str:
    return path.rpartition(".")[2]


def value_text(value: object) -> str:
    """A value of a setting as a short text.

    >>> value_text(["easy", "fcfs"]), value_text(True), value_text({"file": "data/KTH.swf"}), value_text({"fixed_s": 0.02})
    ('easy+fcfs', 'true', 'KTH', 'fixed_s=0.02')
    >>> value_text("mine/fair.py:Fair:age=2"), value_text("node=36/core=32"), value_text("resample:file=/data/KTH.swf,weeks=4")
    ('fair.py:Fair:age=2', 'node=36/core=32', 'resample:file=KTH.swf,weeks=4')
    """
    if isinstance(value, dict):
        for name in ("name", "file"):
            if isinstance(value.get(name), str):
                return Path(value[name]).stem if name == "file" else str(value[name])
        first = next(iter(value.items()), ("", ""))
        return str(first[0]) if isinstance(first[1], dict) else f"{first[0]}={value_text(first[1])}"
    if isinstance(value, list):
        return "+".join(map(value_text, value))
    if value is None or isinstance(value, bool):
        return shown(value)
    text = str(value)
    return Path(text).name.split(".")[0] if _FILE.search(text) and "=" not in text else _FOLDER.sub("", text)


def default_of(field: msgspec.structs.FieldInfo) -> object:
    """The value of a key that a page leaves out."""
    return field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()


def load(path: str | Path) -> Study:
    """Read a study and expand its runs; looks at nothing but the page itself (see `checks.check`).

    Errors: InputError with file, line, column and path; LimitExceeded for more than `limits.RUNS_MAX` runs.
    """
    return of_document(yaml_document.load(Path(path)), Path(path).parent)


def of_document(document: Document, folder: Path) -> Study:
    """The study of a document; see `load`."""
    page = typed.convert(document, StudyDocument)
    varied = dict(page.vary)
    if isinstance(page.workload, list):
        if "workload" in varied:
            raise InputError("workload is a list and varies as well", where=document.where(["vary", "workload"], key=True))
        values: Any = document.values
        varied = {"workload": list(values["workload"]), **varied}
    elif "workload" in varied:
        varied = {"workload": varied.pop("workload"), **varied}
    if page.cases:
        varied = {CASE: list(page.cases), **varied}
    study = Study(document, page, folder, varied)
    count = prod(len(values) for values in varied.values()) * page.repeats
    if count > limits.RUNS_MAX:
        raise LimitExceeded(f"{count} runs, at most {limits.RUNS_MAX} are allowed in a study", where=document.where(["vary"]))
    _check_values(study)
    _check_names(study)
    study.settings = [dict(zip(varied, values, strict=True)) for values in product(*varied.values())]
    study.runs = list(_runs(study, len(str(count))))
    return study


def _runs(study: Study, digits: int) -> Iterator[Run]:
    number = 0
    for settings in study.settings:
        page = _filled(study, settings)
        for repeat in range(page.repeats):
            number += 1
            seed = page.seed + repeat
            words = [f"{name}={value_text(value)}" for name, value in zip(study.headings, settings.values(), strict=True)]
            text = _PLAIN.sub("-", ",".join(words))[:_KEY_LENGTH].strip("-,")
            text = ",".join(filter(None, [text, *[f"seed={seed}"] * (page.repeats > 1)]))
            key = f"{number:0{max(digits, 3)}d}" + (f"-{text}" if text else "")
            yield Run(number, key, settings, repeat, seed, page, study.folder)


def _filled(study: Study, settings: Mapping[str, Any]) -> StudyDocument:
    """The page with settings filled in.

    Errors: InputError at an invalid value.
    """
    page = msgspec.structs.replace(study.page, vary={}, cases={})
    values: Any = copy.deepcopy(study.document.values)
    values.pop("vary", None)
    chosen = values.pop("cases", {}).get(settings.get(CASE), {})
    given = [*chosen.items(), *((path, value) for path, value in settings.items() if path != CASE)]
    for path, value in sorted(given, key=lambda each: each[0].count(".")):  # a whole workload before a key of it
        try:
            _put(values, path.split("."), copy.deepcopy(value))
            changed = replace(study.document, values=values)
            page = typed.convert(changed, StudyDocument)
        except FluxresError as error:
            place = error.where.partition(": ")[2]
            message = f"{place}: {error.message}" if place else error.message
            at = settings if path in chosen else {path: value}
            raise InputError(message, where=study.where(at, *path.split(".")), hint=error.hint) from None
    return page


def _put(values: Any, steps: list[str], value: Any) -> None:
    for at, step in enumerate(steps):
        key: Key = int(step) if isinstance(values, list) and step.isdecimal() else step
        if isinstance(values, list):
            if not isinstance(key, int) or key >= len(values):
                raise InputError(f"expected the number of one of {len(values)} entries, got {step!r:.80}")
        elif not isinstance(values, dict):
            raise InputError(f"nothing can be below {'.'.join(steps[:at])!r:.80}, which is {shown(values)}")
        elif at < len(steps) - 1 and not isinstance(values.get(step), dict | list):
            values[step] = {}
        if at == len(steps) - 1:
            values[key] = value
        else:
            values = values[key]


def _check_values(study: Study) -> None:
    """Check that each varied value is valid at its place."""
    first = {path: values[0] for path, values in study.varied.items()}
    for path, values in study.varied.items():
        if path != CASE or path in study.page.vary:
            _require_setting(path, study.document.where(["vary", path], key=True))
        for value in values:
            if values.count(value) > 1:
                where = study.document.where(["vary", path] if path in study.page.vary else ["workload"])
                raise InputError(f"{value_text(value)} occurs in the list twice", where=where)
            _filled(study, {**first, path: value} if path != "workload" else {path: value})
    for name, given in study.page.cases.items():
        for path in given:
            where = study.document.where(["cases", name, path], key=True)
            _require_setting(path, where)
            if path in study.page.vary:
                raise InputError(f"{path} varies as well", where=where, hint="a case sets what does not vary otherwise")


_NO_SETTINGS: Final = ("vary", "cases", CASE, "baseline", "expect", "metrics", "stop", "labels", "name", "title")


def _require_setting(path: str, where: str) -> None:
    if path.split(".", maxsplit=1)[0] in (*_NO_SETTINGS, "fluxres-experiment", "repeats"):
        raise InputError(f"{path} is not a setting of a run", where=where)


def _check_names(study: Study) -> None:
    """Check that baseline, expectations and metrics name what exists."""
    page, document = study.page, study.document
    for at, name in enumerate(page.metrics or ()):
        if name not in FIGURES:
            hint = suggestion.nearest(name, list(FIGURES))
            raise InputError(f"no metric {name!r:.80}", where=document.where(["metrics", at]), hint=hint)
    for path in page.labels:
        if path not in study.varied:
            raise InputError(f"{path} does not vary", where=document.where(["labels", path], key=True))
    _check_settings(study, page.baseline, "baseline")
    if page.stop is not None:
        if page.stop.metric not in FIGURES:
            hint = suggestion.nearest(page.stop.metric, list(FIGURES))
            raise InputError(f"no metric {page.stop.metric!r:.80}", where=document.where(["stop", "metric"]), hint=hint)
        if page.stop.against is not None and not page.baseline:
            raise InputError("the study has no baseline", where=document.where(["stop", "against"]))
        if page.stop.least > page.repeats:
            message = f"at least {page.stop.least} repeats, but 'repeats' allows {page.repeats}"
            raise InputError(message, where=document.where(["stop", "least"]), hint="'repeats' is the largest number then")
    for at, expected in enumerate(page.expect):
        where = document.where(["expect", at])
        if expected.metric not in FIGURES:
            hint = suggestion.nearest(expected.metric, list(FIGURES))
            raise InputError(f"no metric {expected.metric!r:.80}", where=document.where(["expect", at, "metric"]), hint=hint)
        _check_bounds(expected, where)
        if expected.against == "baseline" and not page.baseline:
            raise InputError("the study has no baseline", where=document.where(["expect", at, "against"]))
        _check_settings(study, expected.of, "expect", at, "of")
        if isinstance(expected.against, dict):
            _check_settings(study, expected.against, "expect", at, "against")


def _check_bounds(expected: Expectation, where: str) -> None:
    if expected.published is not None:
        if not expected.source:
            raise InputError("a published value needs a 'source'", where=where)
        if sum(bound is not None for bound in (expected.ratio, expected.range, expected.within)) > 1:
            raise InputError("expected at most one of 'range', 'ratio' and 'within'", where=where)
        if (expected.ratio and expected.against is None) or (expected.range and expected.against is not None):
            raise InputError("expected a 'range', or a 'ratio' and 'against'", where=where)
    elif expected.within is not None:
        raise InputError("'within' is a fraction of a published value, which is not given", where=where)
    elif (expected.ratio is None) == (expected.range is None) or (expected.ratio is None) != (expected.against is None):
        raise InputError("expected either a 'range', or a 'ratio' and 'against'", where=where)
    low, high = expected.ratio or expected.range or (0.0, 0.0)
    if not low <= high:
        raise InputError(f"expected two bounds, the lower one first, got [{low:g}, {high:g}]", where=where)
    if expected.published is not None and (expected.ratio or expected.range) and not low <= expected.published <= high:
        raise InputError(
            f"the published value {expected.published:g} is not within [{low:g}, {high:g}]",
            where=where,
            hint="bounds of an agreement contain the published value; without 'published', they guard this study's own result",
        )


def _check_settings(study: Study, settings: Mapping[str, Any], *place: Key) -> None:
    for path, value in settings.items():
        if path not in study.varied:
            hint = f"varied are {', '.join(study.varied)}" if study.varied else "nothing varies"
            raise InputError(f"{path} does not vary", where=study.document.where([*place, path], key=True), hint=hint)
        if not any(same(value, other) for other in study.varied[path]):
            known = ", ".join(map(value_text, study.varied[path]))
            where = study.document.where([*place, path])
            raise InputError(f"{path} is never {value_text(value)}", where=where, hint=f"it is {known}")


def same(value: object, other: object) -> bool:
    """Whether a value named by a baseline or an expectation is this one, given directly or by its short name."""
    return value == other or value_text(value) == value_text(other)


def matches(settings: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    return all(same(value, settings.get(path)) for path, value in wanted.items())
