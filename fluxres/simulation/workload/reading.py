"""Read a workload from a command line argument: a trace, whose format its content decides, or a model with parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

from fluxres.documents.source import Source
from fluxres.errors import FluxresError, InputError, UsageError
from fluxres.simulation.registry import Registry, pairs
from fluxres.simulation.workload import batsim, jobspecs, swf, workload
from fluxres.simulation.workload.models import Bursts, Ensemble, Lublin
from fluxres.simulation.workload.resampling import Resample
from fluxres.simulation.workload.workload import Submission, Workload
from fluxres.syntax import duration as durations

MODELS: Final[Registry[Iterable[Submission]]] = Registry(
    "workload",
    {"lublin": Lublin, "ensemble": Ensemble, "bursts": Bursts, "resample": Resample},
    "fluxres.workload_models",
)
"""Models; those of other packages are classes whose annotations are the parameters, iterable over submissions."""
FORMATS: Final[dict[str, Callable[[Source], Workload]]] = {"swf": swf.read, "batsim": batsim.read, "jobs": jobspecs.read}
BY_DAYS: Final = ("lublin", "bursts")
"""Models whose jobs arrive over time, so that their number can be given by a length in days."""
DAYS_MAX: Final = 1e5
EVERY: Final = 10**12
"""More jobs than a model is asked for."""

_HEAD = 1 << 16


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
    name, colon, rest = text.partition(":")
    if is_model(name) and (colon or format is None):
        return Workload(name, _model(name, rest, seed), _size(name, rest))
    if colon and format is None and not Path(text).exists() and "://" not in text:
        near = get_close_matches(name, models(), 1)
        hint = f"did you mean {near[0]}?" if near else f"models are {', '.join(models())}"
        raise UsageError(f"neither a file nor a workload model: {text!r:.80}", hint=hint)
    source = Source.named(text)
    if not source.data.strip():
        raise InputError("is empty", where=source.file, hint="a workload is an SWF trace, Batsim JSON, or a list of jobs")
    found = FORMATS.get(format or detect(source.data[:_HEAD]))
    if found is None:
        raise UsageError(f"no workload format {format!r:.80}", hint=f"there is {', '.join(FORMATS)}")
    return swf.read(source, processors) if found is swf.read else found(source)


def is_model(name: str) -> bool:
    """Whether this is the name of a model, of this package or of another one."""
    return name in models()


def models() -> list[str]:
    """The names of all models; those of other packages come last."""
    return MODELS.names()


def _model_of(name: str) -> Callable[..., Iterable[Submission]]:
    found = MODELS.find(name)
    assert found is not None  # `is_model` was asked
    return found


def detect(head: bytes) -> str:
    """The format of a workload by its beginning.

    >>> detect(b"; Version: 2.2"), detect(b'{"jobs": [], "profiles": {}}'), detect(b"- request: node")
    ('swf', 'batsim', 'jobs')
    """
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if start[:1] == b";" or start[:1].isdigit() or (start[:1] == b"-" and start[1:2].isdigit()):
        return "swf"
    return "batsim" if start[:1] == b"{" and (b'"profiles"' in head or b'"profile"' in head) else "jobs"


def _parameters(name: str, text: str) -> dict[str, str]:
    return {key.replace("-", "_"): value for key, value in pairs(text, f"workload {name}").items()}


def model_values(name: str, text: str) -> tuple[dict[str, Any], float | None]:
    """The parameters of a model by the names of its fields, and its length in days, if that is given.

    Errors: UsageError for a parameter that the model does not have, and for neither a number of jobs nor of days.
    """
    hidden = ("seed", "jobs") if name == "resample" else ("seed",)
    known = {field: kind for field, kind in _model_of(name).__annotations__.items() if field not in hidden}
    given: dict[str, Any] = {}
    parameters = _parameters(name, text)
    days = parameters.pop("days", None) if name in BY_DAYS else None
    for key, value in parameters.items():
        field = key if key in known else f"{key}_s"
        if field not in known:
            if not known:
                raise UsageError(f"{name} has no parameters", where="workload", hint="those of a class are its annotations")
            there = [*(each.removesuffix("_s") for each in known), *["days"] * (name in BY_DAYS)]
            raise UsageError(f"{name} has no {key!r:.80}", where="workload", hint=f"it has {', '.join(there)}")
        given[field] = _value(
            getattr(known[field], "__name__", str(known[field])), value, f"workload {name} {key}", is_time=field.endswith("_s")
        )
    if "jobs" in known and "jobs" not in given and days is None:
        hint = f"such as {name}:jobs=1000" + f", or {name}:days=7" * (name in BY_DAYS)
        raise UsageError(f"{name} needs a number of jobs", where="workload", hint=hint)
    length = None if days is None else _value("float", days, f"workload {name} days", is_time=False)
    if length is not None and not 0 < length < DAYS_MAX:
        raise UsageError(
            f"expected a number of days above 0 and below {DAYS_MAX:,.0f}, got {days!r:.80}", where=f"workload {name}"
        )
    return given, length


def _model(name: str, text: str, seed: int) -> Iterable[Submission]:
    given, days = model_values(name, text)
    model = _model_of(name)
    every = {"jobs": EVERY} if "jobs" in model.__annotations__ and name != "resample" else {}
    try:
        made = model(**{**every, "seed": seed, **given})
    except FluxresError:
        raise
    except Exception as error:  # it may be the model of another package
        raise UsageError(f"{error}" or type(error).__name__, where=f"workload {name}") from error
    return made if days is None else workload.first_days(made, days)


def _value(kind: str, text: str, where: str, *, is_time: bool) -> Any:
    if kind == "str":
        return text
    try:
        if is_time:
            return durations.read(text)
        return int(text) if kind == "int" and len(text) < 19 else float(text)
    except (ValueError, InputError):
        raise UsageError(f"expected {'a duration' if is_time else 'a number'}, got {text!r:.80}", where=where) from None


def _size(name: str, text: str) -> int | None:
    """Processors of the machine that a model was made for."""
    size = _parameters(name, text).get("size", "128" if name == "lublin" else "")
    return int(size) if name == "lublin" and size.isdecimal() and len(size) < 10 else None
