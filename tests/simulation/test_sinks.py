"""A sink that raises ends a run, and harms no other sink (specs/simulation.md)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fluxres import FluxresError, InputError, ListenerError, UsageError
from fluxres.clock import TICKS_PER_S as S
from fluxres.simulation import Hierarchy
from fluxres.simulation.machine import of_shape
from fluxres.simulation.results.results import BatsimCsv
from fluxres.simulation.schedule import Finished
from fluxres.simulation.simulator import simulate
from fluxres.simulation.workload.workload import Submission

ALL_CLOSED = "all other sinks are closed, with every job that had ended"


class Recorder:
    """A sink that raises at some jobs, or when it is closed."""

    def __init__(
        self, at: tuple[int | str, ...] = (), at_close: BaseException | None = None, error: type[BaseException] = KeyError
    ) -> None:
        self.at, self.at_close, self.error = at, at_close, error
        self.seen: list[int | str] = []
        self.closed = 0

    def add(self, job: Finished) -> None:
        self.seen.append(job.id)
        if job.id in self.at:
            raise self.error("wrong")

    def close(self) -> None:
        self.closed += 1
        if self.at_close is not None:
            raise self.at_close


def _jobs(*ends: int) -> list[Submission]:
    """Jobs of one unit that end at these moments, in seconds."""
    return [Submission(n, 0, end * S, 100 * S, 1) for n, end in enumerate(ends, 1)]


SETTINGS: list[dict[str, Any]] = [
    {},
    {"event_order": "batched"},
    {"hierarchy": Hierarchy((2,))},
    {"cost": "fixed:0.001"},
    {"accounting": {"users": {}}},
]


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("place", range(3))
def test_every_sink_gets_the_job_on_which_one_raises_and_is_closed(place: int, settings: dict[str, Any]) -> None:
    sinks = [Recorder(), Recorder(), Recorder()]
    sinks[place].at = (2,)
    with pytest.raises(
        ListenerError, match=r"^sink Recorder, job 2: KeyError: 'wrong' \(the run ended with this event; "
    ) as raised:
        simulate(_jobs(1, 2, 3, 4), of_shape("node=4"), sinks=sinks, **settings)
    assert [each.seen for each in sinks] == [[1, 2]] * 3
    assert [each.closed for each in sinks] == [1] * 3
    assert isinstance(raised.value.__cause__, KeyError)


def test_jobs_that_end_in_the_same_event_reach_all_sinks() -> None:
    """The limit of a job with an instance ends all jobs in it."""
    inner = tuple(Submission(f"in{n}", 0, 50 * S, 100 * S, 1) for n in range(3))
    outer = Submission("out", 0, 10 * S, 10 * S, 4, jobs=inner)
    sinks = [Recorder(at=("in0", "in1", "in2")), Recorder()]
    with pytest.raises(ListenerError, match=r"^sink Recorder, job in\d: KeyError: .*; 2 more errors followed in this run\)$"):
        simulate([outer, *_jobs(20)], of_shape("node=5"), sinks=sinks)
    assert sorted(map(str, sinks[1].seen)) == ["in0", "in1", "in2"]
    assert sinks[0].seen == sinks[1].seen


def test_a_sink_that_raises_when_it_is_closed_leaves_no_other_open() -> None:
    sinks = [Recorder(at_close=ValueError("full")), Recorder(), Recorder(at_close=ValueError("too"))]
    with pytest.raises(ListenerError, match=r"^sink Recorder, close: ValueError: full \(all other .*; 1 more error followed"):
        simulate(_jobs(1, 2), of_shape("node=4"), sinks=sinks)
    assert [(each.seen, each.closed) for each in sinks] == [([1, 2], 1)] * 3


@pytest.mark.parametrize("wanted", [KeyboardInterrupt, SystemExit])
def test_a_sink_that_ends_the_program_harms_no_other(wanted: type[BaseException]) -> None:
    sinks = [Recorder(at=(2,), error=wanted), Recorder()]
    with pytest.raises(wanted):
        simulate(_jobs(1, 2, 3), of_shape("node=4"), sinks=sinks)
    assert [(each.seen, each.closed) for each in sinks] == [([1, 2], 1)] * 2


def test_an_interrupt_while_a_sink_is_closed_leaves_no_other_open() -> None:
    sinks = [Recorder(at_close=KeyboardInterrupt()), Recorder()]
    with pytest.raises(KeyboardInterrupt):
        simulate(_jobs(1), of_shape("node=4"), sinks=sinks)
    assert [each.closed for each in sinks] == [1, 1]


@pytest.mark.parametrize("error", [OSError, UsageError])
def test_errors_that_say_what_could_not_be_written_are_raised_unchanged(error: type[Exception]) -> None:
    sinks = [Recorder(at=(1,), error=error), Recorder()]
    with pytest.raises(error, match=r"^wrong") as raised:
        simulate(_jobs(1, 2), of_shape("node=4"), sinks=sinks)
    assert raised.value.__notes__ == ["sink Recorder, job 1"]
    assert sinks[1].seen == [1]
    assert sinks[1].closed == 1


def test_the_error_of_the_run_has_that_of_a_sink_as_a_note() -> None:
    late = Submission(2, 0, S, S, 1)._replace(dependencies=("afterok:nosuch",))
    sinks = [Recorder(at_close=ValueError("full")), Recorder()]
    with pytest.raises(InputError, match="no job nosuch") as raised:
        simulate(iter([*_jobs(1), late]), of_shape("node=4"), sinks=sinks)
    assert raised.value.__notes__ == [f"a sink, too: sink Recorder, close: ValueError: full ({ALL_CLOSED})"]
    assert [each.closed for each in sinks] == [1, 1]


def test_what_was_written_until_then_can_be_read(tmp_path: Path) -> None:
    with (tmp_path / "jobs.csv").open("w") as file, pytest.raises(ListenerError):
        simulate(_jobs(1, 2, 3), of_shape("node=4"), sinks=[Recorder(at=(2,)), BatsimCsv(file)])
    assert [line.split(",")[0] for line in (tmp_path / "jobs.csv").read_text().splitlines()] == ["job_id", "1", "2"]


@pytest.mark.parametrize("wrong", [5, print, object()])
def test_what_is_no_sink_is_refused_before_the_run(wrong: Any) -> None:
    with pytest.raises(FluxresError, match="sinks: expected objects with the methods add and close, got"):
        simulate(_jobs(1), of_shape("node=4"), sinks=[wrong])
