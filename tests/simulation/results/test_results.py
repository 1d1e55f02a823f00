"""Results as text, and the checker of schedules."""

from __future__ import annotations

import csv
import io

import pytest

from fluxres.documents.source import Source
from fluxres.simulation.machine import of_number, of_shape
from fluxres.simulation.results.results import COLUMNS, BatsimCsv, SwfText, hosts_of
from fluxres.simulation.schedule import Schedule
from fluxres.simulation.simulator import simulate
from fluxres.simulation.workload import swf
from fluxres.simulation.workload.workload import Submission
from tests.simulation.invariants import violations

S = 1_000_000
WORK = [
    Submission(1, 0, 10 * S, 20 * S, 2, "7"),
    Submission("two", 0, 5 * S, 5 * S, 3, status=1),
    Submission(3, 1_500_000, 9 * S, 4 * S, 1),
    Submission(4, 0 + 2 * S, S, S, 1, dependencies=("afterok:two",)),
]


def test_csv_of_batsim() -> None:
    out = io.StringIO()
    simulate(WORK, of_shape("node=3"), sinks=[BatsimCsv(out, "demo")])
    rows = {row["job_id"]: row for row in csv.DictReader(io.StringIO(out.getvalue()))}
    assert tuple(rows["1"]) == COLUMNS
    assert rows["1"]["allocated_resources"] == "0-1"
    assert (rows["1"]["success"], rows["1"]["finish_time"], rows["1"]["stretch"]) == ("1", "10.000000", "1.000000")
    assert (rows["3"]["final_state"], rows["3"]["execution_time"]) == ("COMPLETED_WALLTIME_REACHED", "4.000000")
    assert (rows["two"]["success"], rows["two"]["final_state"]) == ("0", "COMPLETED_FAILED")
    assert (rows["4"]["final_state"], rows["4"]["starting_time"]) == ("REJECTED", "")
    assert hosts_of("0-1 4") == [0, 1, 4]
    assert hosts_of("") == []


def test_swf_is_read_back() -> None:
    out = io.StringIO()
    simulate(WORK[:3], of_number(3), sinks=[SwfText(out, {"MaxProcs": "3", "Note": "two\nlines"})])
    found = swf.read(Source(out.getvalue().encode(), "out.swf"))
    assert (found.processors, found.header["Note"]) == (3, "two lines")
    by_submit = {(job.submit, job.ask): job for job in found}
    assert by_submit[0, 2].run == 10 * S
    assert by_submit[0, 2].user == "7"
    assert by_submit[0, 3].status == 1


def schedule_of(*rows: tuple[int, int, int, int, str]) -> Schedule:
    class Inventory:
        def ids(self, claim: str) -> str:
            return claim

    made = Schedule()
    for number, (submit, start, end, size, ids) in enumerate(rows):
        made.ids.append(number)
        for column, value in ((made.submit, submit), (made.start, start), (made.end, end), (made.limit, 10), (made.size, size)):
            column.append(value)
        made.result.append(0)
        made.instance.append(0)
        made._claims.append((Inventory(), ids))  # type: ignore[arg-type]  # all that is asked of it
    return made


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([(5, 4, 8, 1, "0")], "before it was submitted"),
        ([(0, 0, 11, 1, "0")], "its limit"),
        ([(0, 0, 5, 2, ""), (0, 4, 6, 2, "")], "4 of 3 units"),
        ([(0, 0, 5, 1, "0"), (0, 4, 6, 1, "0")], "hold unit 0"),
        ([(0, 0, 5, 1, "3")], "unit 3 of a machine of 3"),
    ],
)
def test_the_checker_reports_violations(rows: list[tuple[int, int, int, int, str]], words: str) -> None:
    (found,) = violations(schedule_of(*rows), 3)
    assert words in found


def test_the_checker_uses_the_workload() -> None:
    work = [Submission(0, 0, 5, 10, 1), Submission(1, 0, 5, 10, 1, dependencies=("afterok:0",))]
    assert violations(schedule_of((0, 0, 5, 1, "0"), (0, 5, 10, 1, "0")), 3, work) == []
    found = violations(schedule_of((0, 0, 4, 1, "0"), (0, 2, 7, 1, "1")), 3, work)
    assert len(found) == 2
    assert "ran" in found[0]
    assert "afterok:0" in found[1]


def test_a_released_unit_may_be_taken_at_once() -> None:
    assert violations(schedule_of((0, 0, 5, 3, "0-2"), (0, 5, 9, 3, "0-2")), 3) == []
