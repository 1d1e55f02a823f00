"""Read a workload from a command line argument: a trace, whose format its content decides, or a model with parameters."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from fluxres.documents.suggestion import suggest
from fluxres.errors import UsageError
from fluxres.simulation.workload import trace, workload
from fluxres.simulation.workload.models import Bursts, Ensemble, Lublin
from fluxres.simulation.workload.resampling import Resample
from fluxres.simulation.workload.workload import Submission, Workload
from fluxres.syntax import parameters
from fluxres.syntax.registry import Registry, Reported, split

MODELS: Final[Registry[Iterable[Submission]]] = Registry(
    "workload model",
    {"lublin": Lublin, "ensemble": Ensemble, "bursts": Bursts, "resample": Resample},
    "fluxres.workload_models",
    methods=("__iter__",),
    without=("seed",),
)
"""Models; those of other packages are classes with a parameter `seed`, iterable over submissions."""
BY_DAYS: Final = ("lublin", "bursts")
"""Models whose jobs arrive over time, so that their number can be given by a length in days."""
DAYS_MAX: Final = 1e5
EVERY: Final = 10**12
"""More jobs than a model is asked for."""


def read(text: str, *, format: str | None = None, seed: int = 0, processors: str = "requested") -> Workload:
    """A workload from a file (``-`` is standard input), compressed or not, or from a model.

    Args:
        text: a path; or ``lublin:jobs=1000,size=128``, ``ensemble:jobs=100000,run=2s``, ``bursts:jobs=500,on=10m``,
            ``resample:file=trace.swf,weeks=4,by=user``; further models by the entry point group ``fluxres.workload_models``.
        format: swf, batsim or jobs; by default the content decides.
        seed: of a model.
        processors: of jobs of an SWF trace: requested, allocated, or the larger number of both.

    Errors: InputError with line and column; UsageError for a parameter a model does not have.

    >>> read("ensemble:jobs=3,run=2s", seed=1).count
    3
    """
    name, rest = split(text)
    colon = name != text
    if is_model(name) and (colon or format is None):
        return Workload(name, _model(name, rest, seed), _size(name, rest))
    meant = "" if format is not None or text == "-" or Path(text).exists() or "://" in text else suggest(name, models())
    if meant or (colon and format is None and not Path(text).exists() and "://" not in text):
        hint = meant or f"models are {', '.join(models())}"
        raise UsageError(f"neither a file nor a workload model: {text!r:.80}", hint=hint)
    return trace.read(text, format, processors)


def is_model(name: str) -> bool:
    """Whether this is the name of a model, of this package or of another one, or a class in a file."""
    return MODELS.has(name)


def models() -> list[str]:
    """The names of all models; those of other packages come last."""
    return MODELS.names()


def model_values(name: str, text: str) -> tuple[dict[str, Any], float | None]:
    """The parameters of a model by the names of its fields, and its length in days, if that is given.

    Errors: UsageError for a parameter that the model does not have, and for neither a number of jobs nor of days.
    """
    where, has_days = MODELS.where(name), name in BY_DAYS
    known = {**MODELS.known(MODELS.find(name)), **(_DAYS if has_days else {})}
    needs_jobs = "jobs" in known and known["jobs"].is_required
    known = {key: each._replace(is_required=each.is_required and key != "jobs") for key, each in known.items()}
    given = parameters.values(MODELS.written(name, text), known, where, text)
    days = given.pop("days", None)
    if days is None and needs_jobs and "jobs" not in given:
        hint = f"such as {name}:jobs=1000" + f", or {name}:days=7" * has_days
        raise UsageError("expected a number of jobs", where=where, hint=hint)
    if days is not None and not 0 < days < DAYS_MAX:
        raise UsageError(f"expected a number of days above 0 and below {DAYS_MAX:,.0f}, got {days}", where=where)
    return given, days


_DAYS: Final = {"days": parameters.Parameter("days", "a number", parameters.number)}


def _model(name: str, text: str, seed: int) -> Iterable[Submission]:
    given, days = model_values(name, text)
    model = MODELS.find(name)
    if days is None:
        made = MODELS.call(name, model, {"seed": seed, **given})
        if name in MODELS.built_in:
            return made
        return (_Listed if hasattr(made, "__len__") else _OfOthers)(MODELS.where(name), made)
    return workload.first_days(MODELS.call(name, model, {"jobs": EVERY, "seed": seed, **given}), days)


class _OfOthers:
    """The jobs of a model that is not of this package; what it raises, or makes instead of jobs, is reported with its name."""

    def __init__(self, where: str, made: Iterable[Submission]) -> None:
        self.where, self.made = where, made

    def __iter__(self) -> Iterator[Submission]:
        with Reported(self.where):
            for job in self.made:
                if not isinstance(job, Submission):
                    raise UsageError(f"expected a Submission, got {job!r:.80}", where=self.where)
                yield job


class _Listed(_OfOthers):
    """Those of a model that knows their number."""

    made: Collection[Submission]

    def __len__(self) -> int:
        return len(self.made)


def _size(name: str, text: str) -> int | None:
    """Processors of the machine that a model was made for."""
    size = model_values(name, text)[0].get("size", 128) if name == "lublin" else 0
    return size or None
