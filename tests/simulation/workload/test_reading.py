"""Workloads from files and models; errors have a line and column."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fluxres import InputError, LimitExceeded, UsageError, limits
from fluxres.clock import FOREVER
from fluxres.documents.source import Source
from fluxres.errors import FluxresError, TextPlace
from fluxres.simulation.workload import batsim, jobspecs, swf
from fluxres.simulation.workload.reading import read
from fluxres.simulation.workload.trace import detect

S = 1_000_000
LINE = "{job} {submit} 0 {run} {given} -1 -1 {wanted} {limit} -1 1 7 1 -1 -1 -1 -1 -1"


def line(job: object = 1, submit: object = 0, run: object = 5, given: object = 2, wanted: object = 2, limit: object = 9) -> str:
    return LINE.format(job=job, submit=submit, run=run, given=given, wanted=wanted, limit=limit)


def swf_of(*lines: str) -> Any:
    return swf.read(Source(("\n".join(lines) + "\n").encode(), "x.swf"))


def test_a_model_has_so_many_days() -> None:
    week = list(read("lublin:days=7,size=64", seed=3))
    longer = list(read("lublin:days=30,size=64", seed=3))
    assert longer[: len(week)] == week
    first = week[0].submit
    assert week[-1].submit - first < 7 * 86400 * 10**6 <= longer[len(week)].submit - first
    assert read("bursts:days=1,on=10m", seed=3).count == len(list(read("bursts:days=1,on=10m", seed=3)))
    assert read("lublin:days=7,jobs=5").count == 5
    with pytest.raises(UsageError, match="workload model ensemble: no parameter 'days'"):
        read("ensemble:days=7")


def test_a_week_with_too_many_jobs_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "JOBS_LISTED_MAX", 10)
    with pytest.raises(LimitExceeded, match="more than 10 jobs in 7 days"):
        read("lublin:days=7")


def test_swf() -> None:
    found = swf_of("; MaxProcs: 100", "; Note: uses EASY", ";", "", line(), line(2, 3, run=2.5, limit=-1), line(3, 4, wanted=-1))
    assert (found.processors, found.header["Note"], found.count) == (100, "uses EASY", 3)
    first, second, third = found
    assert (first.id, first.submit, first.run, first.limit, first.ask, first.user, first.status) == (
        1,
        0,
        5 * S,
        9 * S,
        2,
        "7",
        0,
    )
    assert (second.submit, second.run, second.limit) == (3 * S, 2_500_000, 2_500_000)
    assert third.ask == 2
    assert sum(found.notes.values()) == 2


@pytest.mark.parametrize(("processors", "sizes"), [("requested", [4, 4, 8]), ("allocated", [6, 4, 2]), ("larger", [6, 4, 8])])
def test_swf_processors_are_those_requested_or_allocated(processors: str, sizes: list[int]) -> None:
    given = [(6, 4), (-1, 4), (2, 8)]
    lines = [f"{n} 0 -1 5 {had} -1 -1 {asked} 9 -1 1 1 1 -1 -1 -1 -1 -1" for n, (had, asked) in enumerate(given, 1)]
    read = swf.read(Source("\n".join(lines).encode(), "x"), processors)
    assert [job.ask for job in read] == sizes
    assert read.notes["requested processors used as those allocated"] == (processors == "allocated")


def test_swf_with_more_columns_and_other_blanks() -> None:
    (found,) = swf_of(f"  {line().replace(' ', chr(9))}  0.5 x ; comment")
    assert found.run == 5 * S


def test_swf_counts_and_leaves_out_lines_that_are_not_jobs() -> None:
    found = swf_of(line(1, run=-1), line(2, submit=-1), line(3, given=-1, wanted=0), line(4, run=0, limit=0))
    (job,) = found
    assert (job.id, job.run, job.limit) == (4, S, S)
    assert found.left_out == {"no run time": 1, "no submission time": 1, "no number of processors": 1}


def test_swf_with_less_than_one_processor_is_no_job() -> None:
    found = swf_of(line(1, given=0.5, wanted=0.4), line(2, run=2.5, given=3.5, wanted=0.4))
    assert [(job.id, job.ask) for job in found] == [(2, 3)]
    assert found.left_out == {"no number of processors": 1}


def test_swf_counts_a_job_that_ran_in_parts_once() -> None:
    def part(job: int, submit: int, status: int) -> str:
        return line(job, submit).replace(" -1 1 7 ", f" -1 {status} 7 ")

    found = swf_of(part(1, 0, 1), part(1, 0, 2), part(1, -1, 3), part(2, 4, 2))
    assert [(job.id, job.submit) for job in found] == [(1, 0), (2, 4 * S)]
    assert found.left_out == {"part of a job that is also listed as a whole": 1, "no submission time": 1}


@pytest.mark.parametrize("comment", ["; Computer: caf\xe9".encode("latin-1"), b"\xef\xbb\xbf; Computer: x"])
def test_swf_with_comments_in_any_encoding_and_any_line_ends(comment: bytes) -> None:
    text = b"\r\n".join([comment, b"; MaxProcs: 8", line().encode(), b"; in between", line(2, run=0).encode(), b""])
    found = swf.read(Source(text, "x.swf"))
    assert ([job.id for job in found], found.processors) == ([1, 2], 8)


def test_a_line_of_swf_that_is_too_short_says_what_swf_needs() -> None:
    with pytest.raises(InputError) as refused:
        swf_of("7")
    assert refused.value.message == "expected the 18 numbers of a job in the Standard Workload Format (SWF), got 1 value"
    assert refused.value.hint == "-1 stands for a number that is not known"


def test_swf_sorts_unsorted_submissions() -> None:
    found = swf_of(line(1, 10), line(2, 5), line(3, 10))
    assert [job.id for job in found] == [2, 1, 3]
    assert found.notes["submissions were not sorted"] == 1


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("1 2 3", "x.swf:1:6"),
        (line(submit="soon"), "x.swf:1:3"),
        (line(run="nan"), "x.swf:1:7"),
        (line(limit="1e400"), "x.swf:1:19"),
        (line(submit=10**15), "x.swf:1:3"),
        ("; ok\n" + line(wanted="many"), "x.swf:2:17"),
    ],
)
def test_swf_errors_name_their_place(text: str, place: str) -> None:
    with pytest.raises(InputError) as found:
        swf_of(text)
    assert found.value.where == place


def batsim_of(**changed: Any) -> Any:
    job = {"id": "a!1", "profile": "p", "res": 4, "subtime": 1.5, "walltime": 20}
    document: dict[str, Any] = {
        "nb_res": 8,
        "jobs": [job | changed.pop("job", {})],
        "profiles": {"p": {"type": "delay", "delay": 12.25}},
    }
    return batsim.read(Source(json.dumps(document | changed).encode(), "w.json"))


def test_batsim() -> None:
    found = batsim_of()
    (job,) = found
    assert (job.id, job.submit, job.run, job.limit, job.ask, found.processors) == ("a!1", 1_500_000, 12_250_000, 20 * S, 4, 8)
    (job,) = batsim_of(job={"walltime": -1})
    assert job.limit == FOREVER


def test_batsim_profiles() -> None:
    (job,) = batsim_of(profiles={"p": {"type": "parallel", "cpu": [1e9, 5e9], "com": [0, 0]}})
    assert job.run == 5 * S
    found = batsim_of(profiles={"p": {"type": "smpi", "trace": "x"}})
    assert (list(found), found.left_out["profile without a run time"]) == ([], 1)


def test_batsim_profiles_of_parts() -> None:
    parts: dict[str, Any] = {
        "a": {"type": "delay", "delay": 2.5},
        "b": {"type": "parallel_homogeneous_total", "cpu": 12e9, "com": 0},
    }
    (job,) = batsim_of(profiles=parts | {"p": {"type": "composed", "repeat": 3, "seq": ["a", "b", "a"]}})
    assert job.run == 24 * S  # 3 * (2.5 + 12 / 4 + 2.5)
    nested = {"p": {"type": "composed", "nb": 2, "seq": ["q"]}, "q": {"type": "composed", "seq": ["a"]}}
    (job,) = batsim_of(profiles=parts | nested)
    assert job.run == 5 * S
    found = batsim_of(profiles=parts | {"p": {"type": "composed", "seq": ["a", "x"]}, "x": {"type": "smpi"}})
    assert (list(found), found.left_out["profile without a run time"]) == ([], 1)


def _in_itself(depth: int) -> dict[str, Any]:
    return {"p": {"type": "composed", "seq": ["0"]}} | {
        str(at): {"type": "composed", "seq": [str((at + 1) % depth)] * 9} for at in range(depth)
    }


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"profiles": _in_itself(1)}, "profiles.0.seq[0]: profile '0' would contain itself"),
        ({"profiles": _in_itself(100)}, "would contain itself, or be nested in more than 8 others"),
        ({"profiles": {"p": {"type": "composed", "seq": ["q"]}}}, "profiles.p.seq[0]: no profile 'q'"),
        ({"profiles": {"p": {"type": "composed", "seq": "p"}}}, "a list of profiles"),
        ({"profiles": {"p": {"type": "composed", "repeat": 0, "seq": []}}}, "profiles.p.repeat"),
        ({"jobs": {}}, "a list of jobs"),
        ({"job": {"profile": "q"}}, "no profile"),
        ({"job": {"res": 0}}, "jobs[0].res"),
        ({"job": {"subtime": -1}}, "jobs[0].subtime"),
        ({"job": {"subtime": "x"}}, "jobs[0].subtime"),
        ({"profiles": {"p": {"type": "delay"}}}, "profiles.p.delay"),
        ({"profiles": {"p": {"type": "parallel", "cpu": ["x"]}}}, "profiles.p.cpu"),
        ({"profiles": []}, "profiles"),
    ],
)
def test_batsim_errors_name_their_place(changed: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError) as found:
        batsim_of(**changed)
    assert words in str(found.value)
    assert found.value.where.startswith("w.json:1:")


def test_batsim_lists_all_mistakes() -> None:
    good = {"id": "a!1", "profile": "p", "res": 4, "subtime": 0}
    wrong = [good | {"res": 0}, good, good | {"subtime": -1}, good | {"profile": "q"}, *[good | {"profile": "x"}] * 2]
    profiles = {"p": {"type": "delay", "delay": 1}, "x": {"type": "delay", "delay": "soon"}}
    with pytest.raises(InputError) as found:
        batsim_of(jobs=wrong, profiles=profiles)
    places = [each.where.partition(": ")[2] for each in found.value.mistakes]
    assert sorted(places) == ["jobs[0].res", "jobs[2].subtime", "jobs[3].profile", "profiles.x.delay"]
    with pytest.raises(InputError) as found:
        batsim_of(jobs=[good | {"res": 0}] * 30)
    assert len(found.value.mistakes) == limits.MISTAKES_MAX
    assert found.value.unlisted > 0


def jobs_of(text: str) -> Any:
    return jobspecs.read(Source(text.encode(), "jobs.yaml"))


def test_lists_of_jobs() -> None:
    found = jobs_of(
        """
        jobs:
        - {id: late, request: "slot=2/core", submit: 1m, run: 90, duration: 2m, user: ann, urgency: 20}
        - {id: many, request: slot=1/node, run: 1, count: 2}
        - request: {version: 1, resources: [{type: slot, count: 1, label: t, with: [{type: core, count: 3}]}],
                    tasks: [{command: [a], slot: t, count: {per_slot: 1}}], attributes: {system: {duration: 30}}}
          status: 1
        """
    )
    first, second, third, late = found
    assert [first.id, second.id, third.id, late.id] == ["many.0", "many.1", 2, "late"]
    assert (late.submit, late.run, late.limit, late.user, late.urgency) == (60 * S, 90 * S, 120 * S, "ann", 20)
    assert (first.limit, third.run, third.limit, third.status) == (FOREVER, 30 * S, 30 * S, 1)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("2h30m", 9000), ("1:30:00", 5400), ("1-0", 86400), ("1w", 604800), ("24 hrs", 86400), ("90min", 5400), ("90", 90)],
)
def test_times_in_lists_of_jobs_are_read_as_in_commands(text: str, seconds: int) -> None:
    (job,) = jobs_of(f"- {{request: slot=1/core, run: '{text}', submit: '{text}', duration: '{text}'}}")
    assert (job.run, job.submit, job.limit) == (seconds * S,) * 3


@pytest.mark.parametrize("word", ["UNLIMITED", "INFINITE", "inf"])
def test_an_unlimited_duration_in_a_list_of_jobs_is_no_limit(word: str) -> None:
    (job,) = jobs_of(f"- {{request: slot=1/core, run: 5, duration: {word}}}")
    assert job.limit == FOREVER


@pytest.mark.parametrize("key", ["run", "submit", "duration"])
def test_negative_times_are_refused_with_the_valid_range(key: str) -> None:
    with pytest.raises(InputError) as found:
        jobs_of(f"- {{request: slot=1/core, run: 1, {key}: -5}}".replace("run: 1, run", "run"))
    assert f"[0].{key}: expected a number of seconds, at least 0, got -5" in str(found.value)
    assert found.value.hint == "such as 90, or 30m"


def test_jobs_come_after_their_dependencies() -> None:
    found = jobs_of(
        """
        - {id: c, request: slot=1/core, run: 1, dependencies: ["afterok:b"]}
        - {id: b, request: slot=1/core, run: 1, dependencies: ["afterok:a", "singleton", "begin-time:5"], name: x}
        - {id: a, request: slot=1/core, run: 1}
        """
    )
    assert [job.id for job in found] == ["a", "b", "c"]
    assert found.has_dependencies


def test_a_dependency_on_an_entry_with_a_count_is_on_all_of_its_jobs() -> None:
    found = list(
        jobs_of(
            """
        - {id: b, request: slot=1/core, run: 1, count: 2, dependencies: ["afterok:a", "after:c"]}
        - {id: a, request: slot=1/core, run: 1, count: 3}
        - {id: c, request: slot=1/core, run: 1}
        """
        )
    )
    assert [job.id for job in found] == ["a.0", "a.1", "a.2", "c", "b.0", "b.1"]
    assert found[4].dependencies == found[5].dependencies == ("afterok:a.0", "afterok:a.1", "afterok:a.2", "after:c")


def test_dependencies_on_entries_with_a_count_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "JOBS_LISTED_MAX", 40)
    with pytest.raises(LimitExceeded, match="more than 40 dependencies"):
        jobs_of(
            """
            - {id: a, request: slot=1/core, run: 1, count: 7}
            - {id: b, request: slot=1/core, run: 1, count: 7, dependencies: ["afterok:a"]}
            """
        )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("- {run: 1}", "request"),
        ("- {request: slot=, run: 1}", "jobs.yaml:1:13"),
        ("- {request: slot=1/core}", "neither a run time nor a limit"),
        ("- {request: slot=1/core, run: soon}", "jobs.yaml:1:31"),
        ("- {request: slot=1/core, run: -1}", "run"),
        ("- {request: slot=1/core, duration: 0, run: 1}", "above 0"),
        ("- {request: slot=1/core, run: 1, sizes: 3}", "unknown key"),
        ("- {request: slot=1/core, run: 1, urgency: 32}", "urgency"),
        ("- {request: slot=1/core, run: 1, count: 0}", "count"),
        ("- {id: [1], request: slot=1/core, run: 1}", "an id"),
        (
            "- {id: a, request: slot=1/core, run: 1}\n- {id: a, request: slot=1/core, run: 1}",
            "jobs.yaml:2:3: [1]: the id 'a' occurs twice",
        ),
        ("- {id: a, request: slot=1/core, run: 1, dependencies: [x]}", "SCHEME:ID"),
        ("- {id: a, request: slot=1/core, run: 1, dependencies: ['afterok:b']}", "there is no job b"),
        ("- {id: a, request: slot=1/core, run: 1, dependencies: ['afterok:b?afterany:c']}", "expected one dependency, got"),
        ("- {id: a, request: slot=1/core, run: 1, dependencies: ['afterok:b,afterany:c']}", "expected one dependency, got"),
        (
            "- {id: a, request: slot=1/core, run: 1, dependencies: ['after:b']}\n- {id: b, submit: 5, run: 1, request: node}",
            "submitted later",
        ),
        (
            """
            - {id: a, request: slot=1/core, run: 1, dependencies: ['afterok:b']}
            - {id: b, request: slot=1/core, run: 1, dependencies: ['after:a']}
            """,
            "a cycle of dependencies: a → b → a",
        ),
        ("- x", "a mapping"),
        ("{}", "jobs"),
        ("5", "a list of jobs"),
    ],
)
def test_errors_in_lists_name_their_place(text: str, words: str) -> None:
    with pytest.raises(InputError) as found:
        jobs_of(text)
    assert words in str(found.value)


def test_a_misspelt_key_is_shown_where_it_is_with_the_one_that_is_meant() -> None:
    with pytest.raises(InputError) as found:
        jobs_of("- {run: 5, reqest: slot=1/node}")
    (only,) = found.value.mistakes
    assert str(only) == "jobs.yaml:1:12: [0].reqest: unknown key 'reqest' (did you mean 'request'?)"


def test_all_mistakes_of_a_list_are_listed_at_once() -> None:
    with pytest.raises(InputError) as found:
        jobs_of(
            """
            - {id: a, request: slot=1/core, run: -3, urgency: 99, foo: 1, bar: 2}
            - {id: b, request: slot=, duration: x, count: 0, dependencies: [bad, "after:", 3]}
            - {id: c, run: 1}
            - 7
            - id: stage
              request: slot=1/core
              run: 5
              jobs:
                - {id: x, request: slot=1/core, run: soon}
                - {id: y, request: slot=1/core}
            - {id: d, request: slot=1/core, run: 1, dependencies: ["afterok:a"]}
            """
        )
    places = [mistake.where.partition(": ")[2] or mistake.where for mistake in found.value.mistakes]
    assert places == [
        *("[0].run", "[0].urgency", "[0].foo", "[0].bar"),
        *("[1].request", "[1].duration", "[1].count", *(f"[1].dependencies[{n}]" for n in range(3))),
        *("[2]", "[3]", "[4]", "[4].jobs[0].run", "[4].jobs[1]"),
    ]  # not that job d waits for one that cannot be read
    lines = [mistake.where.line for mistake in found.value.mistakes if isinstance(mistake.where, TextPlace)]
    assert lines == sorted(lines)
    assert len(lines) == len(places)


def test_all_dependencies_that_are_wrong_are_listed_once_the_jobs_are_right() -> None:
    with pytest.raises(InputError) as found:
        jobs_of(
            """
            - {id: a, request: slot=1/core, run: 1, dependencies: ["afterok:no", "afterok:b"]}
            - {id: b, request: slot=1/core, run: 1, dependencies: ["afterok:none"], submit: 5}
            """
        )
    assert [mistake.message for mistake in found.value.mistakes] == [
        "afterok:no: there is no job no",
        "afterok:b: job b is submitted later",
        "afterok:none: there is no job none",
    ]


@pytest.mark.parametrize(("text", "where"), [("{}", ""), ("[{}]", "[0]"), ('{{"jobs": [{}]}}', "jobs[0]")])
def test_a_jobspec_in_place_of_a_job_is_one_mistake(text: str, where: str) -> None:
    jobspec = '{"version": 1, "resources": [], "tasks": [], "attributes": {}}'
    with pytest.raises(InputError) as found:
        jobs_of(text.format(jobspec))
    assert found.value.message == "expected a job, whose 'request' is the jobspec, got a jobspec alone"
    assert found.value.hint == 'write [{"request": JOBSPEC}], or the same list under "jobs"'
    assert str(found.value.where).endswith(f": {where}" if where else "jobs.yaml:1:1")


def test_a_list_with_many_mistakes_is_not_read_to_its_end() -> None:
    with pytest.raises(InputError) as found:
        jobs_of("\n".join(f"- {{id: {number}, request: slot=1/core, run: -1}}" for number in range(3 * limits.MISTAKES_MAX)))
    assert len(found.value.mistakes) == limits.MISTAKES_MAX
    assert str(found.value).endswith("and at least 1 more mistake")


@pytest.mark.parametrize(
    "request_text",
    ["'-n1 -t 0.0000001s'", "{version: 9999, resources: [{type: core, count: 1}], attributes: {system: {duration: 0.0000001}}}"],
)
def test_the_duration_of_a_request_is_above_0(request_text: str) -> None:
    with pytest.raises(InputError, match=r"^jobs.yaml:1:13: \[0\]\.request: "):
        jobs_of(f"- {{request: {request_text}, run: 1}}")


def test_lists_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "JOBS_LISTED_MAX", 3)
    with pytest.raises(LimitExceeded):
        jobs_of("- {request: slot=1/core, run: 1, count: 3}\n- {request: slot=1/core, run: 1}")


def test_formats_are_detected_by_content(tmp_path: Path) -> None:
    packed = tmp_path / "KTH.swf.gz"
    packed.write_bytes(gzip.compress(line().encode()))
    found = read(str(packed))
    assert (found.name, found.count) == ("KTH", 1)
    assert detect(b"\n  12 0 0") == "swf"
    assert detect(b"jobs:\n- request: x") == "jobs"
    with pytest.raises(UsageError, match="workload format"):
        read(str(packed), format="csv")
    with pytest.raises(InputError):
        read(str(packed), format="batsim")
    with pytest.raises(FluxresError):
        read(str(tmp_path / "none.swf"))
    (tmp_path / "empty.swf").write_text("\n")
    with pytest.raises(InputError, match=r"empty.swf: is empty \(a workload is an SWF trace"):
        read(str(tmp_path / "empty.swf"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("lublin:size=3", "expected a number of jobs"),
        ("lublin:jobs", "name=value"),
        ("lublin:jobs=x", "lublin jobs: expected a whole number"),
        ("ensemble:jobs=3,run=soon", "a duration"),
        ("ensemble:jobs=3,colour=1", "no parameter 'colour'"),
        ("ensemble:jobs=3,distribution=zipf", "fixed"),
        ("bursts:jobs=3,on=0", "above 0"),
        ("lublin:jobs=3,size=0", "at least 1"),
        ("lubln:jobs=3", r"neither a file nor a workload model: 'lubln:jobs=3' \(did you mean lublin\?\)"),
        ("what:jobs=3", "models are lublin, ensemble, bursts, resample"),
    ],
)
def test_invalid_models_are_refused(text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        read(text)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200) | st.text(max_size=200).map(lambda text: ("1 " + text).encode("utf-8", "replace")))
def test_rule_e1_anything_is_a_workload_or_refused_with_a_place(data: bytes) -> None:
    for reader in (swf.read, batsim.read, jobspecs.read):
        try:
            list(reader(Source(data, "any")))
        except FluxresError as error:
            assert error.where  # noqa: PT017 - both ends are right


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("yield {'id': 1}", r"expected a Submission, got \{'id': 1\}"),
        ("yield from 1 / 0", "ZeroDivisionError: division by zero"),
    ],
)
def test_what_a_model_of_others_does_wrong_names_it(line: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "odd.py").write_text(
        f"class Odd:\n    def __init__(self, seed): ...\n    def __len__(self): return 3\n    def __iter__(self): {line}\n"
    )
    made = read(f"{tmp_path}/odd.py:Odd")
    assert made.count == 3
    with pytest.raises(UsageError, match=f"^workload model .*odd.py:Odd: {message}$"):
        list(made)
