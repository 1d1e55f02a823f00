"""Write workloads: the Standard Workload Format, Batsim's JSON, lists of jobs.

What a format cannot say is counted by kind, never dropped silently.  What it can say is equal after it has been read again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import IO, Any, Final

import orjson
from msgspec import structs

from fluxres.clock import FOREVER, TICKS_PER_S
from fluxres.documents.suggestion import choose_from
from fluxres.errors import InputError, UsageError
from fluxres.simulation.adaptive.adaptive import Adaptive
from fluxres.simulation.adaptive.speedup import Times
from fluxres.simulation.workload.workload import Submission, Workload
from fluxres.syntax import jobspec
from fluxres.syntax.vertex import Vertex

Losses = Counter[str]


def write(workload: Workload, file: IO[str], format: str, *, unit: str = "node") -> Losses:
    """Write a workload.

    Args:
        format: swf, batsim or jobs.
        unit: in a list of jobs, the type of the pools of jobs that request a number.

    Returns: how many times something could not be written, by what it is.

    Errors: UsageError for an unknown format, and for jobs that a format cannot have at all.
    """
    if format not in WRITERS:
        raise UsageError(f"no workload format {format!r:.80}", hint=choose_from(WRITERS))
    losses: Losses = Counter()
    for text in WRITERS[format](workload, losses, unit):
        file.write(text)
    return losses


# -- SWF ---------------------------------------------------------------------------------------------------------------


class _Numbers:
    """Numbers for names: their own, if all are numbers, else new ones."""

    def __init__(self) -> None:
        self._known: dict[str, int] = {}
        self.renamed = 0

    def of(self, name: str | int | None) -> int:
        if name is None:
            return -1
        text = str(name)
        if text not in self._known:
            if text.isascii() and text.isdecimal() and str(int(text)) == text and int(text) not in self._known.values():
                self._known[text] = int(text)
            else:
                self.renamed += 1
                used = set(self._known.values())
                self._known[text] = next(n for n in range(len(used) + 1, 2 * len(used) + 2) if n not in used)
        return self._known[text]


def _swf(workload: Workload, losses: Losses, _: str) -> Iterator[str]:
    yield "; Version: 2.2\n"
    if workload.processors:
        yield f"; MaxProcs: {workload.processors}\n"
    kinds = ("user", "account", "application", "queue", "partition")
    numbers = {kind: _Numbers() for kind in kinds}
    ids = _Ids()
    for job in workload:
        values: list[object] = [-1] * 18
        values[0], values[1], values[3] = ids.of(job.id), _seconds(job.submit), _seconds(job.run)
        values[4] = values[7] = _number(job, "SWF")
        values[8] = -1 if job.limit >= FOREVER else _seconds(job.limit)
        if job.limit >= FOREVER:
            losses["jobs without a limit get their run time as limit"] += 1
        values[10] = 0 if job.status else 1
        values[9] = -1 if job.memory_kib is None else job.memory_kib
        for at, kind in ((11, "user"), (12, "account"), (13, "application"), (14, "queue"), (15, "partition")):
            values[at] = numbers[kind].of(getattr(job, kind))
        if job.waited is not None:
            values[2] = _seconds(job.waited)
        if job.previous is not None:
            values[16], values[17] = ids.of(job.previous), _seconds(job.think)
        _count(job, losses, ("name", "qos", "dependencies", "urgency", "level", "adaptive"))
        yield " ".join(map(str, values)) + "\n"
    for kind in kinds:
        if numbers[kind].renamed:
            losses[f"{kind} names written as numbers"] += numbers[kind].renamed
    if ids.renamed:
        losses["job ids written as numbers"] += ids.renamed


class _Ids:
    """Positive numbers of jobs."""

    def __init__(self) -> None:
        self._known: dict[int | str, int] = {}
        self._used: set[int] = set()
        self._next = 1
        self.renamed = 0

    def of(self, job: int | str) -> int:
        found = self._known.get(job)
        if found is None:
            if isinstance(job, int) and job >= 0 and job not in self._used:
                found = job
            else:
                while self._next in self._used:
                    self._next += 1
                found, self.renamed = self._next, self.renamed + 1
            self._known[job] = found
            self._used.add(found)
        return found


def _number(job: Submission, what: str) -> int:
    found = job.ask if isinstance(job.ask, int) else _slots(job.ask)
    if found is None or job.jobs:
        raise UsageError(f"job {job.id} requests more than a number, which {what} cannot say", hint="write a list of jobs")
    return found


def _slots(request: jobspec.Request) -> int | None:
    """The number that a request such as ``slot=4/core`` asks for; None for any other request."""
    number = request.resources[0].count.min
    kinds = [each.type for each in request.resources[0].children]
    return number if len(kinds) == 1 and jobspec.as_request(f"slot={number}/{kinds[0]}") == request else None


def _count(job: Submission, losses: Losses, kinds: Iterable[str]) -> None:
    defaults = Submission._field_defaults
    for kind in kinds:
        if getattr(job, kind) != defaults[kind]:
            losses[f"{kind} of a job"] += 1


def _seconds(ticks: int) -> str:
    whole, rest = divmod(ticks, TICKS_PER_S)
    return f"{whole}.{rest:06d}".rstrip("0") if rest else str(whole)


# -- Batsim ------------------------------------------------------------------------------------------------------------

_MORE: Final = ("user", "account", "qos", "queue", "partition")


def _batsim(workload: Workload, losses: Losses, _: str) -> Iterator[str]:
    jobs, profiles, most = [], {}, workload.processors or 0
    for job in workload:
        run = _value(job.run)
        profile = f"delay_{run:.6f}".rstrip("0").rstrip(".")
        profiles[profile] = {"type": "delay", "delay": run}
        entry: dict[str, Any] = {"id": job.id, "subtime": _value(job.submit), "res": _number(job, "Batsim"), "profile": profile}
        if job.limit < FOREVER:
            entry["walltime"] = _value(job.limit)
        entry |= {key: value for key in _MORE if (value := getattr(job, key)) is not None}
        if job.adaptive is not None:
            entry |= {"sizes": str(job.adaptive.sizes), **_adaptive(job.adaptive)}
        _count(
            job, losses, ("name", "urgency", "dependencies", "status", "memory_kib", "application", "previous", "level", "waited")
        )
        jobs.append(entry)
        most = max(most, entry["res"])
    yield orjson.dumps({"nb_res": most, "jobs": jobs, "profiles": profiles}, option=orjson.OPT_INDENT_2).decode() + "\n"


def _value(ticks: int) -> float:
    return ticks / TICKS_PER_S


# -- lists of jobs -----------------------------------------------------------------------------------------------------


def _listed(workload: Workload, losses: Losses, unit: str) -> Iterator[str]:
    """JSON, one job a line."""
    yield "[\n"
    before = ""
    for job in workload:
        yield before + orjson.dumps(_entry(job, losses, unit)).decode()
        before = ",\n"
    yield "\n]\n"


def _adaptive(given: Adaptive) -> dict[str, Any]:
    """What a job says of its sizes, without these."""
    entry: dict[str, Any] = {"speedup": str(given.speedup)}
    if given.is_malleable:
        entry |= {"malleable": True, "reconfiguration": _value(given.reconfiguration)}
    return entry


def _entry(job: Submission, losses: Losses, unit: str) -> dict[str, Any]:
    adaptive = job.adaptive
    if adaptive is not None and not isinstance(job.ask, int):
        outermost = structs.replace(job.ask.resources[0], count=adaptive.sizes)
        job = job._replace(ask=replace(job.ask, resources=(outermost,)))
    number = job.ask if adaptive is None else adaptive.sizes
    request: Any = f"slot={number}/{unit}" if isinstance(job.ask, int) else _request(job)
    entry: dict[str, Any] = {"id": job.id, "request": request, "submit": _value(job.submit)}
    if adaptive is not None:
        entry |= {"preferred": adaptive.preferred, **_adaptive(adaptive)}
    if job.jobs:
        entry["jobs"] = [_entry(each, losses, unit) for each in job.jobs]
    elif adaptive is None or not isinstance(adaptive.speedup, Times):
        entry["run"] = _value(job.run)
    if job.limit < FOREVER:
        entry["duration"] = _value(job.limit)
    defaults = Submission._field_defaults
    for key in ("name", "urgency", "status", "level", *_MORE):
        if getattr(job, key) != defaults[key]:
            entry[key] = getattr(job, key)
    if job.dependencies:
        entry["dependencies"] = list(job.dependencies)
    _count(job, losses, ("memory_kib", "application", "previous", "waited"))
    return entry


def _request(job: Submission) -> Any:
    """A shape that is read as an equal request, else a jobspec.

    Errors: UsageError for a request that neither says.
    """
    assert not isinstance(job.ask, int)  # callers look
    if not job.ask.tasks and not job.ask.attributes:
        text = _shape(job.ask.resources)
        try:
            if jobspec.as_request(text) == job.ask:
                return text
        except InputError:
            pass
    if job.ask.tasks:
        return jobspec.to_plain(job.ask)
    raise UsageError(f"the request of job {job.id} cannot be written as a shape", hint="give it as a jobspec")


def _shape(vertices: tuple[Vertex, ...]) -> str:
    parts = []
    for vertex in vertices:
        count = str(vertex.count)
        inside = f"/{_shape(vertex.children)}" if vertex.children else ""
        parts.append(f"{vertex.type}={count}{'{x}' if vertex.exclusive and not vertex.is_slot else ''}{inside}")
    return parts[0] if len(parts) == 1 else f"[{';'.join(parts)}]"


WRITERS: Final[dict[str, Callable[[Workload, Losses, str], Iterator[str]]]] = {"swf": _swf, "batsim": _batsim, "jobs": _listed}
