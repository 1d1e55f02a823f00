"""Workloads written and read again (`workload/writing.py`), traces drawn again (`resampling.py`), models of other packages."""

from __future__ import annotations

import sys
from collections import Counter
from io import StringIO
from pathlib import Path
from random import Random
from typing import Any

import pytest
from click.testing import CliRunner

from fluxres.cli.program import program
from fluxres.clock import FOREVER
from fluxres.documents.source import Source
from fluxres.errors import UsageError
from fluxres.simulation import Submission, Workload
from fluxres.simulation.workload import batsim, jobspecs, reading, swf
from fluxres.simulation.workload.resampling import WEEK, Resample
from fluxres.simulation.workload.writing import write
from fluxres.syntax.jobspec import as_request

S = 1_000_000


def drawn(seed: int, *, names: bool) -> list[Submission]:
    """Random jobs; SWF can say all of them, if names are numbers."""
    random = Random(seed)
    moment, jobs = 0, []
    for number in range(random.randint(1, 30)):
        moment += random.choice((0, 1, 250_000, S, 3600 * S))
        run = random.choice((1, S, 17 * S, 90 * S + 1, 86400 * S))

        def name(low: int, high: int) -> Any:
            found = random.choice((None, str(random.randint(low, high))))
            return f"n{found}" if names and found is not None else found

        jobs.append(
            Submission(
                number + 1,
                moment,
                run,
                run * random.randint(1, 5),
                random.randint(1, 64),
                name(0, 4),
                status=random.choice((0, 1)),
                account=name(0, 2),
                queue=name(0, 3),
                partition=name(1, 2),
                memory_kib=None if names else random.choice((None, 1024)),
                application=None if names else name(1, 9),
                previous=None if names or number < 3 or random.random() < 0.7 else number - 1,
            )
        )
    return [job._replace(think=S * 5) if job.previous is not None else job for job in jobs]


def text_of(jobs: list[Submission], format: str, **options: Any) -> tuple[bytes, Counter[str]]:
    file = StringIO()
    losses = write(Workload("w", jobs, 64), file, format, **options)
    return file.getvalue().encode(), losses


@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(40))
def test_swf_is_equal_when_read_again(seed: int) -> None:
    jobs = drawn(seed, names=False)
    text, losses = text_of(jobs, "swf")
    found = swf.read(Source(text, "w"))
    assert (list(found), losses, found.processors) == (jobs, {}, 64)


@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(40))
def test_batsim_and_lists_are_equal_when_read_again(seed: int) -> None:
    jobs = [job._replace(limit=FOREVER) if job.run == S else job for job in drawn(seed, names=True)]
    text, losses = text_of(jobs, "batsim")
    assert list(batsim.read(Source(text, "w"))) == [job._replace(status=0) for job in jobs]
    assert losses.total() == sum(job.status for job in jobs)
    text, losses = text_of(jobs, "jobs", unit="core")
    found = [job._replace(ask=job.ask.resources[0].count.fixed) for job in jobspecs.read(Source(text, "w"))]
    assert (found, losses) == (jobs, {})


def test_lists_keep_requests_dependencies_and_inner_jobs() -> None:
    inner = (Submission("c", 0, S, 2 * S, as_request("slot=1/core=2")),)
    jobs = [
        Submission("a", 0, S, FOREVER, as_request("slot=2/[core=2;gpu=1]"), "ann", "prep", 20, qos="high", level=0),
        Submission("b", S, 1, 9 * S, as_request("slot=1/node"), dependencies=("afterok:a",), jobs=inner),
    ]
    text, losses = text_of(jobs, "jobs")
    found = list(jobspecs.read(Source(text, "w")))
    assert [(job._replace(ask=0, jobs=()), job.ask) for job in found] == [(job._replace(ask=0, jobs=()), job.ask) for job in jobs]
    assert ([job._replace(ask=0) for job in found[1].jobs], losses) == ([inner[0]._replace(ask=0)], {})


def test_what_a_format_cannot_say_is_counted_or_refused() -> None:
    jobs = [
        Submission("first", 0, S, FOREVER, 1, "ann", "prep", 3, (), qos="high"),
        Submission(1, 0, S, S, 1, "1", dependencies=("afterok:first",)),
    ]
    _, losses = text_of(jobs, "swf")
    assert losses == {
        "jobs without a limit get their run time as limit": 1,
        "name of a job": 1,
        "qos of a job": 1,
        "urgency of a job": 1,
        "dependencies of a job": 1,
        "user names written as numbers": 2,
        "job ids written as numbers": 2,
    }
    with pytest.raises(UsageError, match="job 1 requests more than a number, which SWF cannot say"):
        text_of([Submission(1, 0, S, S, as_request("slot/[core=2;gpu=1]"))], "swf")
    with pytest.raises(UsageError, match="no workload format 'csv'"):
        text_of([], "csv")


def recorded(tmp_path: Path) -> str:
    random, jobs = Random(3), []
    for week in range(6):
        for _ in range(20):
            user = str(random.randint(1, 5))
            jobs.append(Submission(0, week * WEEK + random.randrange(WEEK // S) * S, S * int(user), S * 9, int(user), user))
    jobs = [job._replace(id=number) for number, job in enumerate(sorted(jobs, key=lambda job: job.submit), 1)]
    path = tmp_path / "trace.swf"
    path.write_bytes(text_of(jobs, "swf")[0])
    return str(path)


def test_weeks_and_users_are_drawn_again(tmp_path: Path) -> None:
    trace = recorded(tmp_path)
    source = list(reading.read(trace))
    for by in ("week", "user"):
        made = list(reading.read(f"resample:file={trace},weeks=3,by={by}", seed=4))
        assert made == list(reading.read(f"resample:file={trace},weeks=3,by={by}", seed=4))
        assert made != list(reading.read(f"resample:file={trace},weeks=3,by={by}", seed=5))
        assert [job.id for job in made] == list(range(1, len(made) + 1))
        assert sorted(job.submit for job in made) == [job.submit for job in made]
        assert max(job.submit for job in made) < 3 * WEEK
        # the time within the week, and all else, are those of a recorded job
        known = {(job.submit % WEEK, job.run, job.ask, job.user) for job in source}
        assert all((job.submit % WEEK, job.run, job.ask, (job.user or "").partition(".")[0]) in known for job in made)
    whole = Counter((job.submit // WEEK) for job in source)
    weeks = Counter((job.submit // WEEK) for job in Resample(trace, 30, "week"))
    assert set(weeks.values()) <= set(whole.values())
    with pytest.raises(UsageError, match="expected weeks of at least 1 and by week or user"):
        reading.read(f"resample:file={trace},by=day")
    with pytest.raises(UsageError, match="a trace without jobs"):
        reading.read("resample:weeks=2")


def test_models_of_other_packages_are_found_by_entry_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "steady.py").write_text(
        "from dataclasses import dataclass\nfrom fluxres.simulation import Submission\n\n@dataclass\nclass Steady:\n"
        "    jobs: int\n    gap_s: float = 1.0\n    seed: int = 0\n\n    def __iter__(self):\n"
        "        return (Submission(n, round(n * self.gap_s * 1e6), 1, 1, 1) for n in range(self.jobs))\n"
        "\nclass Bare:\n    def __init__(self, jobs=1, seed=0):\n        pass\n"
    )
    info = tmp_path / "steady-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: steady\nVersion: 1\n")
    (info / "entry_points.txt").write_text(
        "[fluxres.workload_models]\nsteady = steady:Steady\nabsent = steady:Absent\nbare = steady:Bare\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    assert [job.submit for job in reading.read("steady:jobs=3,gap=2s")] == [0, 2 * S, 4 * S]
    assert {"lublin", "resample", "steady"} <= set(reading.models())
    with pytest.raises(UsageError, match="workload model steady: no parameter 'size'"):
        reading.read("steady:jobs=3,size=2")
    with pytest.raises(UsageError, match="workload model bare: the class Bare does not define __iter__"):
        reading.read("bare:jobs=3")
    with pytest.raises(UsageError, match="workload model absent: cannot be imported: AttributeError"):
        reading.read("absent:jobs=1")
    sys.modules.pop("steady", None)


def test_the_command_converts_and_reports(tmp_path: Path) -> None:
    trace = recorded(tmp_path)
    done = CliRunner().invoke(program, ["workload", trace, str(tmp_path / "jobs.json")])
    assert done.exit_code == 0, done.output
    done = CliRunner().invoke(program, ["workload", str(tmp_path / "jobs.json"), str(tmp_path / "none" / "jobs.swf")])
    assert (done.exit_code, "cannot be written: No such file or directory" in done.output) == (4, True)
    assert [job.submit for job in reading.read(str(tmp_path / "jobs.json"))] == [job.submit for job in reading.read(trace)]


def test_a_list_of_jobs_with_plain_numbers_can_be_written_as_swf(tmp_path: Path) -> None:
    trace, listed, again = (tmp_path / name for name in ("trace.swf", "jobs.yaml", "again.swf"))
    for source, dest in ((Path("lublin:jobs=50,size=64"), trace), (trace, listed), (listed, again)):
        assert CliRunner().invoke(program, ["workload", str(source), str(dest), "--unit", "core"]).exit_code == 0
    assert reading.read(str(again)).submissions == reading.read(str(trace)).submissions
    refused = CliRunner().invoke(program, ["workload", str(trace), str(tmp_path / "x.csv")])
    assert (refused.exit_code, "--to swf" in refused.output) == (2, True)
