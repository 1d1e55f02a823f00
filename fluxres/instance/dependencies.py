"""Job dependencies (Flux RFC 26): a job may wait for other jobs, for earlier jobs of its name and user, or for a time.

Dependencies are indexed by the job they wait for, so the start or end of a job costs only as much as there are jobs that wait for
it.  Of inactive jobs only the outcome is kept (whether they succeeded, and whether they ran), and only of the latest
`limits.OUTCOMES_KEPT`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from enum import Enum
from typing import Any, Final

from fluxres import limits
from fluxres.clock import FOREVER, ticks
from fluxres.documents import arguments
from fluxres.documents.document import listed as listed_names
from fluxres.documents.document import shown
from fluxres.documents.suggestion import suggest
from fluxres.errors import InputError, UsageError
from fluxres.instance.job import AFTER, ANY, BEGIN, OK, SCHEMES, SINGLETON, Dependency, Job
from fluxres.instance.states import RUNNING, State
from fluxres.syntax import fluid

AnyDependency = Dependency | str | Mapping[str, Any]
_ALIASES: Final = {"afterstart": AFTER}
_EACH: Final = "give each job on its own: repeat --dependency for each, or pass a list"
_NAMES_A_JOB: Final = "a dependency names a job by its id, which `fluxres instance queue -a` lists; f may stand for ƒ"
_NO_KEYS: Final = "a dependency has a scheme and a value, such as afterok:ƒA, and no keys"
_NO_MINUTES: Final = "there are no minutes after a job, as Slurm's +5; begin-time:+5m waits for a time"
_NOT_ANY: Final = "a job waits for all of its dependencies, not for any of several: there is no `?`"
_SINGLETON_HINT: Final = "it waits for earlier jobs of its own name and user"
_SUCH_AS: Final = "such as 'afterok:ƒA' or 'begin-time:3600'"


def listed(given: AnyDependency | Iterable[AnyDependency] | None) -> tuple[AnyDependency, ...]:
    """Dependencies as a list; one alone is a list of one. Errors: UsageError."""
    if isinstance(given, Dependency | str | Mapping):
        return (given,)
    return () if given is None else tuple(arguments.items(given, "dependencies", "dependencies", hint=_SUCH_AS))


class Verdict(Enum):
    """Whether a dependency is satisfied, may still be, or never will be."""

    MET = "met"
    OPEN = "open"
    NEVER = "never"


def parse(given: AnyDependency, now: int = 0) -> Dependency:
    """Parse a dependency: `scheme:value`, or ``{"scheme": …, "value": …}`` as in a jobspec.

    Args:
        now: in ticks, from which a begin time such as ``+1h`` counts.

    RFC 26 lets a scheme have further keys, in text after a ``?``; those here have none, so any are refused.

    Errors: InputError for an unknown scheme or key, several dependencies in one text as Slurm has them, and for a value that is
    not a job id or a time; UsageError for another type.

    >>> parse("afterok:ƒNH"), parse({"scheme": "begin-time", "value": "1.5"})
    (Dependency(scheme='afterok', value=1234), Dependency(scheme='begin-time', value=1500000))
    """
    if isinstance(given, Dependency):
        arguments.whole(given.value, f"dependency {_scheme(given.scheme)}")
        return given
    if isinstance(given, str):
        require_one(given)
        scheme, _, value = given.partition(":")
    elif isinstance(given, Mapping):
        more = [f"{key!s:.40}" for key in given if key not in ("scheme", "value")]
        if more:
            raise InputError(f"unknown keys: {listed_names(more)}", where="dependency", hint=_NO_KEYS)
        scheme, value = str(given.get("scheme", "")), str(given.get("value", ""))
    else:
        raise UsageError(f"dependency: expected text or a mapping, got {shown(given)}", hint=_SUCH_AS)
    scheme = _scheme(_ALIASES.get(scheme, scheme))
    if scheme == SINGLETON:
        if value:
            raise InputError(f"a singleton has no value, got {value!r:.80}", where="dependency", hint=_SINGLETON_HINT)
        return Dependency(scheme)
    if scheme == BEGIN:
        return Dependency(scheme, _begin_time(value, now))
    return Dependency(scheme, _number(scheme, value))


def require_one(text: str) -> None:
    """Refuse text with more than one dependency, or with keys. Errors: InputError.

    >>> require_one("afterok:ƒA?afterany:ƒB")
    Traceback (most recent call last):
      ...
    fluxres.errors.InputError: dependency: expected one dependency, got 'afterok:ƒA?afterany:ƒB' (a job waits for all of its \
dependencies, not for any of several: there is no `?`)
    """
    if "?" in text:
        is_other = any(text.partition("?")[2].startswith(scheme) for scheme in (*SCHEMES, *_ALIASES))
        message = f"expected one dependency, got {text!r:.80}" if is_other else f"unknown keys in {text!r:.80}"
        raise InputError(message, where="dependency", hint=_NOT_ANY if is_other else _NO_KEYS)
    if "," in text or (":" in text.partition(":")[2] and not text.startswith(BEGIN)):
        raise InputError(f"expected one dependency, got {text!r:.80}", where="dependency", hint=_EACH)


def _scheme(scheme: object) -> str:
    if not isinstance(scheme, str) or scheme not in SCHEMES:
        hint = suggest(scheme, SCHEMES) if isinstance(scheme, str) else ""
        raise InputError(f"expected {', '.join(SCHEMES)}, got {scheme!r:.80}", where="dependency", hint=hint)
    return scheme


def _number(scheme: str, value: str) -> int:
    """The number of the job that is waited for. Errors: InputError."""
    try:
        return fluid.decode(value)
    except InputError:
        given = f"{scheme}:{value}" if value else scheme
        hint = _NO_MINUTES if "+" in value else _NAMES_A_JOB
        raise InputError(f"expected {scheme}:JOB, got {given!r:.80}", where="dependency", hint=hint) from None


def _begin_time(value: str, now: int) -> int:
    """A begin time in ticks: seconds, as in RFC 26, or text as for other times. Errors: InputError."""
    moment: float | str = value
    with suppress(ValueError):
        moment = float(value)
    try:
        found = ticks(moment, BEGIN, now)
    except UsageError as error:
        raise InputError(error.message.removeprefix(f"{BEGIN}: "), where=f"dependency {BEGIN}", hint=error.hint) from None
    if found >= FOREVER:
        raise InputError(f"expected a time, got {value!r:.80}, which never comes", where=f"dependency {BEGIN}")
    return found


class Dependencies:
    """The open dependencies of the jobs of one instance."""

    def __init__(self) -> None:
        self._waiting: dict[int, list[tuple[Job, Dependency]]] = {}
        self._open: dict[int, list[Dependency]] = {}
        self._outcomes: dict[int, int] = {}
        """By job number: 1 if it succeeded, plus 2 if it ran; small integers cost no memory."""
        self.remembers = True
        """Whether outcomes are kept, for dependencies on jobs that have ended."""
        self._named: dict[tuple[str | None, str], dict[int, Job]] = {}

    def __len__(self) -> int:
        return len(self._open)

    def concern(self, job: Job) -> bool:
        """Whether the end of a job may matter to others, or has to be remembered."""
        return self.remembers or bool(self._open or self._waiting) or job.name is not None

    def open(self, job: Job) -> list[Dependency]:
        """The dependencies that a job still waits for."""
        return list(self._open.get(job.number, ()))

    # -- adding ------------------------------------------------------------------------------------------------------

    def register(self, job: Job) -> None:
        """Add a job with a name, for which singletons of that name and user may have to wait."""
        if job.name is not None:
            self._named.setdefault((job.user, job.name), {})[job.number] = job

    def require(self, dependency: Dependency, name: str | None, jobs: Mapping[int, Job], where: str = "", text: str = "") -> None:
        """Check that a job of this name, which may be a new one, can have a dependency.

        Args:
            text: the dependency as it was given, for messages.

        Errors: UsageError for an unknown job, and singleton for a job without a name.
        """
        scheme, value = dependency
        if scheme == SINGLETON:
            if name is None:
                raise UsageError("a singleton needs a name: it waits for earlier jobs of that name", where=where)
        elif scheme != BEGIN and value not in jobs and value not in self._outcomes:
            message = f"{text or dependency}: no such job, or it ended too long ago to be remembered"
            raise UsageError(message, where=where, hint=_NAMES_A_JOB)

    def require_possible(self, dependency: Dependency) -> None:
        """Refuse a dependency that can never be satisfied, because of how the job that it names has ended.

        Errors: UsageError.
        """
        scheme, value = dependency
        outcome = self._outcomes.get(value) if scheme not in (SINGLETON, BEGIN) else None
        if outcome is None or _is_met(scheme, bool(outcome & 1), bool(outcome & 2)):
            return
        had = "ended without having started" if scheme == AFTER else "did not complete" if scheme == OK else "completed"
        hint = "leave it out, or name another job; `fluxres instance queue -a` shows how jobs ended"
        raise UsageError(f"{dependency} can never be satisfied: job {fluid.encode(value)} {had}", hint=hint)

    def add(self, job: Job, dependency: Dependency, jobs: Mapping[int, Job], now: int) -> Verdict:
        """Add a dependency to a job.

        Args:
            jobs: the active jobs of the instance, by number.

        Errors: UsageError for a cycle, an unknown job, and singleton for a job without a name.
        """
        verdict = self._verdict(job, dependency, jobs, now)
        if verdict is Verdict.OPEN:
            opened = self._open.setdefault(job.number, [])
            if dependency not in opened:
                opened.append(dependency)
                if dependency.scheme not in (SINGLETON, BEGIN):
                    self._waiting.setdefault(dependency.value, []).append((job, dependency))
        return verdict

    def _verdict(self, job: Job, dependency: Dependency, jobs: Mapping[int, Job], now: int) -> Verdict:
        self.require(dependency, job.name, jobs, str(job.id))
        scheme, value = dependency
        if scheme == BEGIN:
            return Verdict.MET if value <= now else Verdict.OPEN
        if scheme == SINGLETON:
            return Verdict.OPEN if next(self._earlier(job), None) is not None else Verdict.MET
        other = jobs.get(value)
        if other is not None:
            if scheme == AFTER and other.state in RUNNING:
                return Verdict.MET
            self._refuse_cycle(job, other, jobs)
            return Verdict.OPEN
        outcome = self._outcomes[value]
        return Verdict.MET if _is_met(scheme, bool(outcome & 1), bool(outcome & 2)) else Verdict.NEVER

    def _earlier(self, job: Job) -> Iterator[Job]:
        if job.name is not None:
            found = self._named.get((job.user, job.name), {})
            yield from (other for number, other in found.items() if number < job.number)

    def _refuse_cycle(self, job: Job, other: Job, jobs: Mapping[int, Job]) -> None:
        todo, came_from = [other], {other.number: job.number}
        while todo:
            reached = todo.pop()
            if reached is job:
                raise UsageError(f"a cycle of dependencies: {_cycle(job.number, came_from)}", where=str(job.id))
            for waited in self._antecedents(reached, jobs):
                if waited.number not in came_from:
                    came_from[waited.number] = reached.number
                    todo.append(waited)

    def _antecedents(self, job: Job, jobs: Mapping[int, Job]) -> Iterator[Job]:
        for dependency in self._open.get(job.number, ()):
            if dependency.scheme == SINGLETON:
                yield from self._earlier(job)
            elif dependency.scheme != BEGIN and dependency.value in jobs:
                yield jobs[dependency.value]

    # -- events of jobs ----------------------------------------------------------------------------------------------

    def started(self, job: Job) -> list[Job]:
        """Return the jobs whose last dependency is satisfied by the start of this job."""
        return [] if job.number not in self._waiting else self._settle(job.number, lambda dependency: dependency.scheme == AFTER)

    def ended(self, job: Job, succeeded: bool, ran: bool) -> tuple[list[Job], list[tuple[Job, Dependency]]]:
        """Return the jobs whose last dependency is satisfied by the end of this job, and the dependencies that never will be."""
        number = job.number
        self._open.pop(number, None)
        if self.remembers:
            self._outcomes[number] = succeeded | ran << 1
            if len(self._outcomes) > limits.OUTCOMES_KEPT:
                del self._outcomes[next(iter(self._outcomes))]
        ready: list[Job] = []
        never: list[tuple[Job, Dependency]] = []
        if number in self._waiting:
            never = [
                (waiting, dependency)
                for waiting, dependency in self._waiting[number]
                if waiting.state is State.DEPEND and not _is_met(dependency.scheme, succeeded, ran)
            ]
            ready = self._settle(number, lambda dependency: _is_met(dependency.scheme, succeeded, ran))
            self._waiting.pop(number, None)
        if job.name is not None:
            ready += self._release_name(job, job.name)
        return ready, never

    def due(self, job: Job, now: int) -> bool:
        """Drop the begin times that have come; return whether the job waits for nothing else."""
        opened = self._open.get(job.number)
        if opened is None:
            return False
        opened[:] = [dependency for dependency in opened if dependency.scheme != BEGIN or dependency.value > now]
        return self._is_ready(job)

    def _release_name(self, job: Job, name: str) -> list[Job]:
        namesakes = self._named[job.user, name]
        del namesakes[job.number]
        if not namesakes:
            del self._named[job.user, name]
        ready = []
        for other in namesakes.values():
            opened = self._open.get(other.number)
            if opened and Dependency(SINGLETON) in opened and next(self._earlier(other), None) is None:
                opened.remove(Dependency(SINGLETON))
                if self._is_ready(other):
                    ready.append(other)
        return ready

    def _settle(self, number: int, met: Any) -> list[Job]:
        ready, left = [], []
        for job, dependency in self._waiting.pop(number, ()):
            if not met(dependency):
                left.append((job, dependency))
                continue
            opened = self._open.get(job.number)
            if opened is not None and dependency in opened:
                opened.remove(dependency)
                if self._is_ready(job):
                    ready.append(job)
        if left:
            self._waiting[number] = left
        return ready

    def _is_ready(self, job: Job) -> bool:
        if self._open.get(job.number):
            return False
        self._open.pop(job.number, None)
        return job.state is State.DEPEND


def _is_met(scheme: str, succeeded: bool, ran: bool) -> bool:
    """Whether a dependency on an inactive job is satisfied."""
    if scheme == AFTER:
        return ran
    return scheme == ANY or succeeded == (scheme == OK)


def _cycle(first: int, came_from: Mapping[int, int]) -> str:
    names, at = [first], first
    while (at := came_from[at]) != first:
        names.append(at)
    names.append(first)
    return " → ".join(fluid.encode(number) for number in reversed(names))
