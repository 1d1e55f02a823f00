"""What happened, job by job: the record of a finished job, and the sinks that receive it.

A run of a million jobs must not keep a million objects, so records go to sinks as jobs finish.  One of the sinks keeps columns of
eight bytes per value, for programs that look at all jobs.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from types import TracebackType
from typing import Final, NamedTuple, Protocol

from fluxres.clock import FOREVER, TICKS_PER_S
from fluxres.errors import FluxresError, UsageError
from fluxres.instance.deferred import EXITS, Deferred, listener_error
from fluxres.instance.inventory import Claim, Inventory
from fluxres.syntax.jobspec import Request

PICOJOULES: Final = 1_000_000 * TICKS_PER_S
"""Per joule: energy is counted in microwatts times ticks."""


class Finished(NamedTuple):
    """A finished job; times in ticks.

    Args:
        id: from the workload.
        submit, start, end: start is -1 for a job that never ran.
        limit: the longest it was allowed to run.
        size: in units of the machine's measure.
        status: wait status; 0 is success.
        result: completed, failed, canceled, timeout.
        user: from the workload.
        instance: number of the instance that ran it, 0 for the outermost.
        claim, inventory: what it held, rendered on demand by `allocated`.
        ask: what it requested.
        account, qos, partition: to which it was charged; from the workload, or by the accounting.
        queue: from the workload.
        work: how long it runs without interruptions, saves and restarts.
        earlier: its attempts that were interrupted, after each of which it waited again.
        sizes: of a malleable job that has changed: the moments of its sizes, and its units from then on; `size` is the first.
        paused: the unit-ticks in which it has done no work because it changed its size.
        predicted: how long it was expected to run at its submission; its limit in a run without prediction.
        corrections: how often it outlived what was expected.
        energy: what its nodes consumed while it ran, in picojoules; None if what they draw is not known.
    """

    id: int | str
    submit: int
    start: int
    end: int
    limit: int
    size: int
    status: int
    result: str
    user: str | None
    instance: int
    claim: Claim
    inventory: Inventory
    ask: int | Request = 0
    account: str | None = None
    qos: str | None = None
    partition: str | None = None
    queue: str | None = None
    work: int = 0
    earlier: tuple[Finished, ...] = ()
    sizes: tuple[tuple[int, int], ...] = ()
    paused: int = 0
    predicted: int = FOREVER
    corrections: int = 0
    energy: int | None = None

    def spans(self) -> Iterator[tuple[int, int, int]]:
        """Start, end and units of each part of its time with one size; nothing if it never ran."""
        if not self.sizes:
            if self.start >= 0:
                yield self.start, self.end, self.size
            return
        stops = [*(moment for moment, _ in self.sizes[1:]), self.end]
        for (moment, units), stop in zip(self.sizes, stops, strict=True):
            yield moment, stop, units

    @property
    def area(self) -> int:
        """The unit-ticks that it held."""
        return sum((end - start) * units for start, end, units in self.spans())

    @property
    def joules(self) -> float | None:
        """What its nodes consumed in all attempts."""
        if self.energy is None:
            return None
        return (self.energy + sum(each.energy or 0 for each in self.earlier)) / PICOJOULES

    def allocated(self) -> str:
        """What it held, as an idset of unit numbers; empty if units have no numbers."""
        return "" if self.claim is None else self.inventory.ids(self.claim)


class Sink(Protocol):
    """Receives records as jobs finish.  If one raises, the run ends with that event; all others get the same jobs (`Sinks`)."""

    def add(self, job: Finished) -> None:
        """Called with each record."""

    def close(self) -> None:
        """Called after the last record."""


class Sinks:
    """All sinks of a run: each gets every record and is closed, whatever the others raise.

    ``with sinks:`` closes them, and then raises what they have raised, as one error; as a note of its error if the run itself
    fails. The run looks at `deferred` after each event, and ends.
    """

    def __init__(self, sinks: Iterable[Sink]) -> None:
        self._sinks: list[Sink] = []
        self.deferred = Deferred("in this run")
        """What they have raised."""
        for each in sinks:
            self.append(each)

    def append(self, sink: Sink) -> None:
        """Let another sink get the records from now on. Errors: UsageError for what cannot get any."""
        if not (callable(getattr(sink, "add", None)) and callable(getattr(sink, "close", None))):
            raise UsageError(f"sinks: expected objects with the methods add and close, got {sink!r:.80}")
        self._sinks.append(sink)

    def add(self, job: Finished) -> None:
        for sink in self._sinks:
            try:
                sink.add(job)
            except EXITS as wanted:
                self.deferred.defer(wanted)
            except Exception as error:  # noqa: BLE001  # sinks may raise anything
                self._defer(error, f"{_name(sink)}, job {job.id}", _HAS_ENDED)

    def __enter__(self) -> Sinks:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        with ExitStack() as stack:  # Ctrl-C in one of them leaves none open
            for sink in reversed(self._sinks):
                stack.callback(self._close, sink)
        if self.deferred.first is None:
            return
        if error is None:
            raise self.deferred.take()
        self.deferred.join(error, "a sink, too")

    def _close(self, sink: Sink) -> None:
        try:
            sink.close()
        except Exception as error:  # noqa: BLE001  # as in `add`
            self._defer(error, f"{_name(sink)}, close", _ALL_CLOSED)

    def _defer(self, error: Exception, where: str, hint: str) -> None:
        if isinstance(error, (FluxresError, OSError)):  # these say what it could not write
            error.add_note(where)
            self.deferred.defer(error)
        else:
            self.deferred.defer(listener_error(error, where=where, hint=hint))


_ALL_CLOSED: Final = "all other sinks are closed, with every job that had ended"
_HAS_ENDED: Final = f"the run ended with this event; {_ALL_CLOSED}"


def _name(sink: Sink) -> str:
    return f"sink {type(sink).__name__}"


RESULTS = ("completed", "failed", "canceled", "timeout")


class Schedule:
    """All jobs, as columns in the order in which they finished.

    submit, start, end, limit: ticks. size: units. result: index into RESULTS. instance: number.
    """

    def __init__(self) -> None:
        self.ids: list[int | str] = []
        self.submit = array("q")
        self.start = array("q")
        self.end = array("q")
        self.limit = array("q")
        self.size = array("q")
        self.result = array("b")
        self.instance = array("l")
        self._claims: list[tuple[Inventory, Claim]] = []

    def __len__(self) -> int:
        return len(self.ids)

    def add(self, job: Finished) -> None:
        self.ids.append(job.id)
        self.submit.append(job.submit)
        self.start.append(job.start)
        self.end.append(job.end)
        self.limit.append(job.limit)
        self.size.append(job.size)
        self.result.append(RESULTS.index(job.result))
        self.instance.append(job.instance)
        self._claims.append((job.inventory, job.claim))

    @property
    def allocated(self) -> list[str]:
        """What each job held, as idsets; made on request, because that takes longer than the run."""
        return ["" if claim is None else inventory.ids(claim) for inventory, claim in self._claims]

    def close(self) -> None:
        """No-op: nothing is buffered."""

    def starts(self) -> dict[int | str, int]:
        """Start in ticks by job id."""
        return dict(zip(self.ids, self.start, strict=True))

    def __iter__(self) -> Iterator[tuple[int | str, int, int, int, int]]:
        """(id, submit, start, end, size) of each job."""
        return zip(self.ids, self.submit, self.start, self.end, self.size, strict=True)
