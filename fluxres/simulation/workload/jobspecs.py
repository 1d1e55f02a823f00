"""Workloads as lists of requests, for what SWF cannot express, such as sockets, GPUs, power and dependencies.

A YAML or JSON list, or a mapping with the list under `jobs`:

    - id: prepare
      request: slot=4/[core=2;gpu=1]     # a shape, short options, or a jobspec as a mapping
      submit: 0                          # seconds, or a duration such as 30m or 1:00:00; 0 by default
      run: 90                            # run time; by default the limit
      duration: 120                      # limit; by default that of the jobspec, else none
      user: ann
      name: prep
      urgency: 16

      dependencies: [afterok:other]      # ids of this list; that of an entry with a count means all of its jobs
      status: 0                          # wait status at its end
      count: 10                          # ten equal jobs, with ids prepare.0 to prepare.9
      level: 0                           # of the instance that runs it, 0 for the outermost; by default an innermost one
      jobs: [...]                        # instead of run: of an instance made for this job, on what it holds, ended with them

    - request: slot=2-16:2:*/node        # a moldable job: a range of counts of the outermost resource, and
      speedup: amdahl:serial=0.05        # how much faster it is on more; or a mapping, {downey: {A: 16, sigma: 0.5}}
      preferred: 8                       # the size to which run and duration refer; by default the largest
      run: 1h
      malleable: true                    # its size may change while it runs, after which
      reconfiguration: 30s               # it does no work for this time; 0 by default

Times of jobs of an instance count from its begin, and their dependencies concern each other.  Of jobs submitted at the same
moment, those that others depend on are submitted first.  A job cannot depend on one that is submitted later, and cycles are
refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Any, Final, TypeVar, cast

from fluxres import limits
from fluxres.clock import FOREVER, ticks
from fluxres.documents.document import Place
from fluxres.documents.mistakes import Mistakes
from fluxres.documents.source import Source
from fluxres.documents.suggestion import near
from fluxres.errors import FluxresError, InputError, LimitExceeded
from fluxres.instance.dependencies import require_one
from fluxres.instance.job import BEGIN, SCHEMES, SINGLETON, URGENCY_DEFAULT
from fluxres.instance.sizes import with_count
from fluxres.simulation.adaptive import speedup
from fluxres.simulation.adaptive.adaptive import Adaptive
from fluxres.simulation.adaptive.speedup import Times
from fluxres.simulation.workload.workload import Submission, Workload, name_of, of_list
from fluxres.syntax import duration as durations
from fluxres.syntax import jobspec
from fluxres.syntax.jobspec import Request, as_request
from fluxres.syntax.vertex import preorder

T = TypeVar("T")

KEYS: Final = (
    "id",
    "request",
    "submit",
    "run",
    "duration",
    "user",
    "name",
    "urgency",
    "dependencies",
    "status",
    "count",
    "level",
    "jobs",
    "account",
    "qos",
    "queue",
    "partition",
    "speedup",
    "preferred",
    "malleable",
    "reconfiguration",
)


def read(source: Source) -> Workload:
    """A workload from a list of jobs.

    Errors: InputError with all mistakes, each with line, column and place; LimitExceeded beyond `limits.JOBS_LISTED_MAX`.
    """
    document, mistakes = source.document, Mistakes()
    place = Place(document=document)
    values: Any = document.values
    with mistakes.all():
        if isinstance(values, Mapping):
            _require_no_jobspec(values, place, "jobs")
            place.mapping(values, ("jobs", "processors"), ("jobs",))
            place, values = place.at("jobs"), values["jobs"]
        found = of_list(_listed(values, place, {}, mistakes))
    found.name, found.has_requests = name_of(source.file), True
    return found


def _listed(values: object, place: Place, spots: dict[str, Place], mistakes: Mistakes) -> list[Submission]:
    """The jobs of a list, in the order of their submission.

    Args:
        spots: by id, the places of all jobs so far, in any list.
        mistakes: what is wrong so far; jobs in which there is something are left out.
    """
    found: list[Submission] = []
    counted: dict[str, list[str]] = {}  # by the id of an entry with a count
    for number, entry in enumerate(place.sequence(values, "a list of jobs")):
        with mistakes:
            for job in _jobs(entry, place.at(number), number, spots, mistakes):
                if str(job.id) in spots:
                    raise place.at(number).error(f"the id {job.id!r} occurs twice")
                spots[str(job.id)] = place.at(number)
                found.append(job)
                if "count" in cast("Mapping[str, Any]", entry):
                    counted.setdefault(str(job.id).rpartition(".")[0], []).append(str(job.id))
        if len(spots) > limits.JOBS_LISTED_MAX:
            raise LimitExceeded(f"more than {limits.JOBS_LISTED_MAX} jobs", where=str(place), hint="use a generator")
    if not mistakes and any(job.dependencies for job in found):  # those on a job with a mistake would follow from it
        return _in_order(_on_each(found, counted, spots), spots, mistakes)
    return sorted(found, key=lambda job: job.submit)


def _require_no_jobspec(given: Mapping[str, Any], place: Place, missing: str) -> None:
    if missing not in given and "resources" in given and "tasks" in given:
        hint = 'write [{"request": JOBSPEC}], or the same list under "jobs"'
        raise place.error("expected a job, whose 'request' is the jobspec, got a jobspec alone", hint)


class _Fields:
    """The values of one entry, each of which may be wrong.

    Args:
        given: the entry.
    """

    def __init__(self, given: Mapping[str, Any], place: Place, mistakes: Mistakes) -> None:
        self.given, self.place, self.mistakes = given, place, mistakes

    def read(self, key: str, how: Callable[[Any, Place], T], default: T) -> T:
        """The value of a key; the default if there is none, or it is wrong."""
        if key in self.given:
            try:
                with self.mistakes:
                    return how(self.given[key], self.place.at(key))
            except LimitExceeded as error:
                self.mistakes.add(error)  # of this value alone
        return default

    def text(self, key: str) -> str | None:
        return self.read(key, lambda value, place: place.text(value), None)

    def integer(self, key: str, default: int | None, least: int, most: int = limits.COUNT_MAX) -> Any:
        return self.read(key, lambda value, place: place.integer(value, least, most), default)

    def require_keys(self) -> None:
        """Note each key that there is not, and a request that is missing."""
        for key in self.given:
            if key not in KEYS:
                with self.mistakes:
                    self.place.mapping({key: None}, KEYS)
        if not any(key not in KEYS and near(str(key), KEYS) == ["request"] for key in self.given):
            with self.mistakes:
                self.place.mapping(self.given, required=("request",))


def _jobs(entry: object, place: Place, number: int, spots: dict[str, Place], mistakes: Mistakes) -> Iterator[Submission]:
    """The jobs of an entry; none if there is a mistake in it."""
    before = len(mistakes)
    given = place.mapping(entry)
    _require_no_jobspec(given, place, "request")
    field = _Fields(given, place, mistakes)
    field.require_keys()
    request = field.read("request", _request, None)
    limit = field.read("duration", _limit, FOREVER)
    unnamed: int | str = number
    job = field.read("id", _id, unnamed)
    count = field.integer("count", 1, 1, limits.JOBS_LISTED_MAX)
    run = field.read("run", _time, 0)
    one = Submission(
        job,
        field.read("submit", _time, 0),
        1,
        limit,
        request or 0,
        field.text("user"),
        field.text("name"),
        field.integer("urgency", URGENCY_DEFAULT, 0, 31),
        field.read("dependencies", lambda value, place: tuple(_dependencies(value, place, mistakes)), ()),
        field.integer("status", 0, 0),
        account=field.text("account"),
        qos=field.text("qos"),
        queue=field.text("queue"),
        partition=field.text("partition"),
        level=field.integer("level", None, 0, limits.INSTANCE_DEPTH_MAX),
    )
    for key in ("run", "count", "speedup"):
        with mistakes:
            if "jobs" in given and key in given:
                raise place.error(f"{key!r} cannot be combined with 'jobs', whose instance ends with the last of them")
    own = _listed(given["jobs"], place.at("jobs"), spots, mistakes) if "jobs" in given else []
    if request is None or len(mistakes) > before:
        return
    if "duration" not in given and request.duration_s is not None:
        limit = ticks(request.duration_s)
        if limit < 1:
            raise place.at("request").error("expected a duration above 0")
    adaptive = _adaptive(given, request, place)
    if adaptive is not None:
        request = with_count(request, adaptive.preferred)
    run = _run(given, adaptive, run if "run" in given else limit, place)
    if run >= FOREVER:
        raise place.error("neither a run time nor a limit, so it would never end", "give run")
    one = one._replace(run=max(run, 1), limit=limit, ask=request, adaptive=adaptive)
    if own:
        one = one._replace(jobs=tuple(_owned(job, one) for job in own))
    if "count" not in given:
        yield one
        return
    for at in range(count):
        yield one._replace(id=f"{job}.{at}")


def _run(given: Mapping[str, Any], adaptive: Adaptive | None, run: int, place: Place) -> int:
    """The run time at the preferred size, in ticks.

    Args:
        run: without a speed-up that has run times.
    """
    if "jobs" in given:
        return 1
    if adaptive is not None and isinstance(adaptive.speedup, Times):
        if "run" in given:
            raise place.at("run").error("the run times are those of 'speedup'", "leave one of them out")
        return ticks(float(adaptive.speedup.run_s(adaptive.preferred)))
    return run


def _adaptive(given: Mapping[str, Any], request: Request, place: Place) -> Adaptive | None:
    """The sizes of a job with a model of speed-up: the counts of the outermost resource of its request."""
    if "speedup" not in given:
        for key in ("preferred", "malleable", "reconfiguration"):
            if key in given:
                raise place.at(key).error("a job has sizes only if it says how much faster it is on more", "give speedup")
        return None
    spot = place.at("speedup")
    try:
        model = speedup.parse(given["speedup"])
    except FluxresError as error:
        message = f"{error.where}: {error.message}" if error.where else error.message
        raise InputError(message, where=str(spot), hint=error.hint) from None
    if len(request.resources) != 1 or any(vertex.count.fixed is None for vertex in preorder(request.resources[0].children)):
        raise place.at("request").error("the sizes of a job are counts of its one outermost resource", "such as slot=2-16/node")
    sizes = request.resources[0].count
    preferred = place.at("preferred").integer(given.get("preferred", sizes.valid(sizes.max or sizes.min)), 1)
    if preferred not in sizes:
        raise place.at("preferred").expected(f"one of the sizes {sizes}", preferred)
    wait = _time(given["reconfiguration"], place.at("reconfiguration")) if "reconfiguration" in given else 0
    is_malleable = place.at("malleable").boolean(given.get("malleable", False))
    if wait and not is_malleable:
        raise place.at("reconfiguration").error("only a malleable job changes its size", "give malleable: true")
    return Adaptive(sizes, preferred, model, is_malleable, wait)


def _owned(job: Submission, outer: Submission) -> Submission:
    """A job in a job is of the same user and account, unless it names others."""
    user, account = job.user or outer.user, job.account or outer.account
    if (user, account) == (job.user, job.account):
        return job
    changed = job._replace(user=user, account=account)
    return changed._replace(jobs=tuple(_owned(each, changed) for each in job.jobs))


def _request(given: object, place: Place) -> Request:
    try:
        if isinstance(given, Mapping):
            return jobspec.parse(given)
        return as_request(place.text(given, length=limits.REQUEST_TEXT_MAX))
    except FluxresError as error:
        message = f"{error.where}: {error.message}" if error.where else error.message
        kind = type(error) if isinstance(error, InputError) else InputError
        raise kind(message, where=str(place), hint=error.hint) from None


def _time(given: object, place: Place) -> int:
    try:
        seconds = durations.read(given) if isinstance(given, str) else place.seconds(given, "such as 90, or 30m")
        return ticks(seconds)
    except FluxresError as error:
        raise InputError(error.message, where=str(place), hint=error.hint) from None


def _limit(given: object, place: Place) -> int:
    if (limit := _time(given, place)) < 1:
        raise place.expected("a time above 0", given)
    return limit


def _id(given: object, place: Place) -> int | str:
    if not isinstance(given, int | str) or isinstance(given, bool):
        raise place.expected("an id as text or number", given)
    return given


def _dependencies(given: object, place: Place, mistakes: Mistakes) -> Iterator[str]:
    for number, one in enumerate(place.sequence(given, "a list of dependencies", empty=True)):
        with mistakes:
            text = place.at(number).text(one)
            scheme, _, value = text.partition(":")
            if scheme not in SCHEMES or (not value and scheme != SINGLETON):
                raise place.at(number).expected(f"SCHEME:ID with {', '.join(SCHEMES)}", text)
            yield text


def _unknown(dependency: str, place: Place) -> InputError:
    """The error for a dependency on a job that is not in the list, such as several in one text."""
    try:
        require_one(dependency)
    except InputError as error:
        return place.error(error.message, hint=error.hint)
    return place.error(f"{dependency}: there is no job {dependency.partition(':')[2]}")


def _on_each(jobs: list[Submission], counted: Mapping[str, list[str]], spots: Mapping[str, Place]) -> list[Submission]:
    """The jobs, with a dependency on an entry with a count spelled out as one on each of its jobs.

    Args:
        counted: by the id of such an entry, those of its jobs.
        spots: by id, the places of the jobs.

    Errors: LimitExceeded beyond `limits.JOBS_LISTED_MAX` dependencies, since two counts multiply.
    """
    ids, total, found = {str(job.id) for job in jobs}, 0, []
    for job in jobs:
        each: list[str] = []
        for dependency in job.dependencies:
            scheme, _, value = dependency.partition(":")
            if scheme in (SINGLETON, BEGIN) or value in ids or value not in counted:
                each.append(dependency)
            else:
                each += [f"{scheme}:{job_id}" for job_id in counted[value]]
            if total + len(each) > limits.JOBS_LISTED_MAX:
                message = f"more than {limits.JOBS_LISTED_MAX} dependencies"
                hint = "let one job depend on all of an entry, and the others on that job"
                raise LimitExceeded(message, where=str(spots[str(job.id)].at("dependencies")), hint=hint)
        total += len(each)
        found.append(job._replace(dependencies=tuple(each)))
    return found


def _in_order(jobs: Sequence[Submission], spots: Mapping[str, Place], mistakes: Mistakes) -> list[Submission]:
    """By submission time, and at the same moment dependencies first."""
    by_id = {str(job.id): job for job in jobs}
    waits: dict[str, list[str]] = {}
    for job in jobs:
        waited = waits[str(job.id)] = []
        for dependency in job.dependencies:
            scheme, _, value = dependency.partition(":")
            if scheme in (SINGLETON, BEGIN):
                continue
            with mistakes:
                if value not in by_id:
                    raise _unknown(dependency, spots[str(job.id)].at("dependencies"))
                if by_id[value].submit > job.submit:
                    raise spots[str(job.id)].at("dependencies").error(f"{dependency}: job {value} is submitted later")
                waited.append(value)
    try:
        rank = {job: at for at, job in enumerate(TopologicalSorter(waits).static_order())}
    except CycleError as error:
        circle: list[str] = error.args[1]
        raise spots[circle[0]].at("dependencies").error(f"a cycle of dependencies: {' → '.join(reversed(circle))}") from None
    first = {str(job.id): at for at, job in enumerate(jobs)}
    plain = not any(waits.values())
    return sorted(jobs, key=lambda job: (job.submit, 0 if plain else rank[str(job.id)], first[str(job.id)]))
