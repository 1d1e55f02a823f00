"""The runner itself, on our own cases: what counts as agreeing, differing, documented and not covered, and that it continues."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from fluxres.syntax import idset
from tests.conformance import rfc_requests, rfc_resources, rfc_text, runner
from tests.conformance.runner import Case, Deviation, NotCovered, Suite, Tally
from tests.conformance.seed_allocations import EVERY
from tests.conformance.test_seeds import suite as seed_suite
from tests.traceability import ROOT


def by_name(tallies: list[Tally]) -> dict[str, Tally]:
    return {each.name: each for each in tallies}


def counts(each: Tally) -> tuple[int, int, int, int, int]:
    return each.cases, each.agreeing, len(each.differing), len(each.documented), each.forms.total()


# -- the tally -----------------------------------------------------------------------------------------------------------


def test_cases_agree_differ_or_are_skipped_by_form() -> None:
    def differs(case: Case) -> list[str]:
        if case["input"] == "new":
            raise NotCovered("a new form")
        return runner.differs(case["expected"], idset.parse(case["input"]))

    old = Deviation("page.md", "as we will have it", lambda case: case["old"])
    suite = Suite("ids", lambda case: case["kind"] == "parse", differs, [old])
    cases: list[Any] = [
        {"id": "a", "kind": "parse", "input": "0-1", "expected": [0, 1]},
        {"id": "b", "kind": "parse", "input": "0-1", "expected": [0]},
        {"id": "c", "kind": "parse", "input": "1-0", "expected": [0]},
        {"id": "d", "kind": "parse", "input": "0-1", "expected": [], "old": True},
        {"id": "e", "kind": "parse", "input": "new", "expected": []},
        {"id": "f", "kind": "parse", "input": 7, "expected": []},
        {"id": "g", "kind": "parse", "input": "0"},
        {"id": "h", "kind": "write", "rfc": 1, "input": {"b": 1, "a": 2}},
        {"kind": "write", "system": "x", "operations": [{"op": "take"}, {"op": "give"}, {"op": "take"}]},
        {},
        "no case",
        None,
    ]
    found = by_name(runner.tally("others", cases, [suite]))
    ids, others = found["ids"], found["others"]
    assert counts(ids) == (7, 1, 3, 1, 2)
    assert ids.covered == 5
    assert [told.partition(":")[0] for told in ids.differing] == ["b", "c", "f"]
    assert "refused: idset" in ids.differing[1]
    assert "crashed with AttributeError" in ids.differing[2]
    assert ids.documented == ["d: expected [], got [0, 1] (documented in page.md: as we will have it)"]
    assert ids.forms == {"a new form": 1, "parse str: KeyError: 'expected'": 1}
    assert others.forms == {
        "RFC 1 write {a, b}": 1,
        "x write take, give": 1,
        "an empty case": 1,
        "a str": 1,
        "a NoneType": 1,
    }
    lines = list(runner.lines([ids.plain(), others.plain()]))
    assert lines[0] == "ids: 1 of 5 covered cases agree, 5 of 7 are covered"
    assert "  not covered: 1 × a new form" in lines
    assert lines[-1] == "in all: 1 of 5 covered cases agree, 1 differ as documented, 5 of 12 are covered"


def test_function_that_the_package_no_longer_has_is_a_difference() -> None:
    suite = Suite("ids", lambda _: True, lambda _: getattr(idset, "no_longer_there")())  # noqa: B009 - the linters know it
    (found,) = runner.tally("others", [{"id": "a", "input": "0"}], [suite])
    assert counts(found) == (1, 0, 1, 0, 0)
    assert "no_longer_there" in found.differing[0]


def test_file_that_is_not_a_list_of_cases_is_an_error_with_its_name(tmp_path: Path) -> None:
    file = tmp_path / "vectors.json"
    file.write_text("{}", encoding="utf-8")
    with pytest.raises(ValueError, match=r"vectors\.json: expected a list of cases"):
        runner.load(file)


# -- forms that no folder had yet ----------------------------------------------------------------------------------------

SUITES = [*rfc_text.SUITES, *rfc_requests.SUITES, *rfc_resources.suites([])]
KINDS = (
    "parse",
    "reject",
    "op",
    "format",
    "expand",
    "count",
    "find",
    "query",
    "evaluate",
    "validate",
    "alloc",
    "config",
    "brand-new",
)
R = {"version": 1, "execution": {"R_lite": [{"rank": "0", "children": {"core": "0"}}], "nodelist": ["a"]}}
INPUTS: tuple[Any, ...] = (
    None,
    7,
    [],
    ["0-3"],
    {},
    {"op": "brand-new", "a": "0-3"},
    {"op": "union", "a": "0-3", "c": "4"},
    {"op": "union", "a": R, "b": R, "more": 1},
    {"op": "flux-hostlist", "args": ["--brand-new", "a"]},
    {"op": "decode", "R": R, "args": ["--brand-new"]},
    {"hostname": "a", "more": 1},
    {"hostlist": "a", "brand": "new"},
    {"shape": "slot/core"},
    {"query": "a", "brand": "new"},
    {"constraint": {"properties": ["a"]}},
    {"R": R, "brand": "new"},
    {"pool": "NewPool", "R": R, "steps": []},
    {"pool": "Rv1Pool", "R": R, "steps": [{"op": "brand-new"}]},
    {"pool": "Rv1Pool", "R": R, "steps": [{"op": "alloc", "jobid": 1, "request": {"brand": "new"}}]},
    {"pool": "Rv1Pool", "R": R, "steps": [{"op": "alloc", "jobid": 1}]},
    {"cluster": "Z", "shape": "slot/core", "jobspec_resources": []},
    {"id": "1", "form": "brand-new"},
    {"count": 3, "brand": "new"},
)


@pytest.mark.parametrize("kind", KINDS)
def test_unknown_forms_do_not_fail(kind: str) -> None:
    for rfc in (19, 20, 22, 23, 25, 29, 31, 35, 40, 45, 46, 49, 14, 999):
        cases = [{"id": str(at), "rfc": rfc, "kind": kind, "input": given, "expected": 1} for at, given in enumerate(INPUTS)]
        found = runner.tally("others", cases, SUITES)
        assert sum(each.cases for each in found) == len(INPUTS)
        assert [told for each in found for told in each.differing if "crashed" in told] == [], rfc


MORE = {"source_file": "x", "provenance": "x", "description": "x"}


@pytest.mark.parametrize(("system", "kind"), EVERY)
def test_unknown_operations_do_not_fail(system: str, kind: str) -> None:
    pool = {
        "resources": [{"name": "cpus", "definition": "range(0-3)"}],
        "syntax": "canary-nodes",
        "pool": {"cpus": 1},
        "managers": [],
    }
    cases: list[Case] = [
        {"id": "a", "system": system, "kind": kind, "pool": pool, "operations": [{"op": "brand-new", "x": 1}], **MORE},
        {"id": "b", "system": system, "kind": kind, "pool": None, "operations": [{}], **MORE},
        {"id": "c", "system": system, "kind": kind, **MORE},
        {"id": "d", "system": system, "kind": "brand-new", "operations": [{"op": "x"}]},
    ]
    found = by_name(runner.tally("others", cases, [seed_suite(system, kind)]))
    assert found[f"{system} {kind}"].forms.total() + found["others"].cases == 4
    assert found[f"{system} {kind}"].differing == []


NEW_KEYS: list[tuple[str, str, Any, dict[str, Any]]] = [
    ("hyperqueue", "parse-amount", None, {"op": "parse-amount", "text": "1.5", "expect": {"ok": True, "amount": "1.5"}}),
    ("hyperqueue", "parse-coupling", {"resources": []}, {"op": "parse-coupling", "text": "a[0]:b[0]", "expect": {"ok": False}}),
    ("hyperqueue", "format-amount", None, {"op": "format-amount", "units": 1, "fractions": 5000, "expect": "1.5"}),
    ("hyperqueue", "env", {"resources": [{"name": "cpus", "definition": "1x2"}]}, {"op": "launch", "request": {"cpus": "1"}}),
    ("canary", "env", None, {"op": "env", "allocated_ids": {"cpus": ["0"]}, "task_variables": {}, "expect_env": {}}),
    ("ctest", "parse-request", None, {"op": "parse-groups", "text": "gpus:1", "expect": {"ok": True, "groups": [[["gpus", 1]]]}}),
    ("ctest", "allocate", {"instances": {"0": 2}}, {"op": "pack", "slots_needed": [1], "expect": {"granted": True}}),
    ("jqm", "validate", None, {"op": "set-priority", "value": 3, "expect": {"ok": True, "stored": 3}}),
]


@pytest.mark.parametrize(("system", "kind", "pool", "operation"), NEW_KEYS)
def test_a_case_with_a_key_that_nobody_reads_is_not_covered(system: str, kind: str, pool: Any, operation: dict[str, Any]) -> None:
    known = {"id": "a", "system": system, "kind": kind, "pool": pool, "operations": [operation], **MORE}
    expect = operation.get("expect")
    more = [{**operation, "expect-more": 1}]
    more += [{**operation, "expect": {**expect, "more": 1}}] if isinstance(expect, dict) else []
    cases = [known, *({**known, "operations": [each]} for each in more)]
    if pool is not None:
        more.append({})
        cases.append({**known, "pool": {**pool, "more": 1}})
    (found,) = runner.tally("others", cases, [seed_suite(system, kind)])
    assert counts(found) == (1 + len(more), 1, 0, 0, len(more)), found


def test_an_end_makes_a_poll_unless_the_period_is_strict() -> None:
    pool = {"syntax": "x", "policy": "poller", "queues": [{"name": "q", "managers": [{"type": "quantity", "key": "thread"}]}]}
    submit = {"op": "submit", "queue": "q", "jobs": [{"id": "a"}]}
    ends = [
        {"expect_poll_triggered": True},
        {"expect_poll_triggered": False, "strictPollingPeriod": True},
        {"expect_poll_triggered": True, "strictPollingPeriod": True},
        {"expect_poll_triggered": False},
    ]
    poll = {"op": "poll", "expect_started": ["a"]}
    cases = [
        {"id": str(at), "system": "jqm", "kind": "schedule", "pool": pool,
         "operations": [submit, poll, {"op": "end", "jobs": ["a"], **end}]}
        for at, end in enumerate(ends)
    ]  # fmt: skip
    (found,) = runner.tally("others", cases, [seed_suite("jqm", "schedule")])
    assert counts(found) == (4, 2, 1, 0, 1)
    assert found.differing[0].startswith("2:")


# -- what is compared ----------------------------------------------------------------------------------------------------


def ctest(local: Any, expect: dict[str, Any]) -> Case:
    file = {"version": {"major": 1, "minor": 0}, "local": local}
    return {"id": "a", "system": "ctest", "kind": "parse-pool", "pool": file, "operations": [{"op": "parse", "expect": expect}]}


def test_complete_content_of_a_valid_file_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    suite = seed_suite("ctest", "parse-pool")
    one = ctest([{"gpus": [{"id": "0", "slots": 2}, {"id": "1"}], "fpgas": []}], {"ok": True})
    (found,) = runner.tally("others", [one], [suite])
    assert counts(found) == (1, 1, 0, 0, 0)
    from fluxres.formats.peers.ctest import resource_spec as ctest_files

    known = ctest_files._instance
    monkeypatch.setattr(ctest_files, "_instance", lambda *given: ctest_files.SpecInstance(known(*given).id, 1))
    (found,) = runner.tally("others", [one], [suite])
    assert "expected {'gpus': [('0', 2), ('1', 1)]" in found.differing[0]


def test_request_of_a_valid_jobspec_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    slot = {"type": "slot", "count": 4, "label": "a", "with": [{"type": "core", "count": "2-4"}]}
    task = {"command": ["x"], "slot": "a", "count": {"per_slot": 1}}
    document = {"version": 999, "resources": [slot], "tasks": [task], "attributes": {"system": {"duration": 1}}}
    case = {"id": "a", "rfc": 14, "kind": "validate", "verdicts": {}, "input": document, "expected": "valid"}
    assert by_name(runner.tally("others", [case], SUITES))["jobspec"].agreeing == 1
    from fluxres.syntax import jobspec

    known = jobspec.to_plain
    monkeypatch.setattr(jobspec, "to_plain", lambda request: {**known(request), "version": 1})
    assert by_name(runner.tally("others", [case], SUITES))["jobspec"].agreeing == 0


def test_dependent_allocations_are_replayed_or_skipped() -> None:
    def step(order: int, shape: str, core: str) -> Case:
        resources = [{"type": "slot", "count": 1, "label": "task", "with": [{"type": "core", "count": int(shape[-1])}]}]
        asked = {"cluster": "C", "shape": shape, "jobspec_resources": resources}
        expected = {"R_lite": [{"rank": "0", "children": {"core": core}}]}
        return {"id": str(order), "rfc": 49, "kind": "alloc", "group": "g", "order": order, "input": asked, "expected": expected}

    tree = {"writer": "TreePool", "children": [{"ranks": "0", "topo": {"cores": "0-7"}}]}
    lite = [{"rank": "0", "children": {"core": "0-7"}}]
    cluster = {"version": 1, "execution": {"R_lite": lite, "nodelist": ["n0"]}, "scheduling": tree}
    start = {"id": "0", "rfc": 49, "kind": "config", "group": "g", "order": 0, "input": {"cluster": "C"}, "expected": cluster}
    steps = [step(1, "slot/core=2", "0-1"), step(2, "slot/core=3", "2-4"), step(3, "slot/core=1", "5")]
    for listed, agreeing, passed_over in (([start, *steps], 3, 0), ([start, steps[0], steps[2]], 1, 1), (steps, 0, 3)):
        found = by_name(runner.tally("others", listed, rfc_resources.suites(listed)))["treepool-vectors"]
        assert (found.agreeing, found.forms.total(), found.differing) == (agreeing, passed_over, [])


# -- complete runs -------------------------------------------------------------------------------------------------------


def folder(at: Path, vectors: list[Any], seeds: list[Any]) -> Path:
    for part, values in (("rfc/vectors.json", vectors), ("seeds/cases.json", seeds), ("fluxion/cases.json", [])):
        (at / part).parent.mkdir(parents=True)
        (at / part).write_text(json.dumps(values), encoding="utf-8")
    (at / "traces").mkdir()
    return at


def test_directory_of_other_cases_runs_without_minima(tmp_path: Path) -> None:
    good = {"id": "a", "rfc": 22, "kind": "expand", "input": "0-1", "expected": [0, 1]}
    strange = {"id": "b", "rfc": 22, "kind": "op", "input": {"op": "brand-new", "a": "0"}, "expected": 1}
    asked = ctest([{"gpus": [{"id": "0"}]}], {"ok": True})
    other = folder(tmp_path / "other", [good, strange, good | {"expected": [0]}], [asked, {"kind": "brand-new"}])
    files = ["tests/conformance/test_rfc.py", "tests/conformance/test_seeds.py"]
    command = [sys.executable, "-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider", *files, "--cases", str(other)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    told = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert told.returncode == 1
    for line in (
        "1 failed, 1 passed",
        "idset: 1 of 2 covered cases agree, 2 of 3 are covered",
        "  differs: a: '0-1': expected [0], got [0, 1]",
        "  not covered: 1 × RFC 22 op brand-new {a, op}",
        "ctest parse-pool: 1 of 1 covered cases agree, 1 of 1 are covered",
        "in all: 2 of 3 covered cases agree, 0 differ as documented, 3 of 5 are covered",
    ):
        assert line in told.stdout, told.stdout


def test_only_differences_and_missing_cases_fail() -> None:
    some = Tally("some", cases=9, agreeing=3, documented=["d"], forms=Counter({"new": 5}))
    assert runner.wrong([some, Tally("none")]) == []
    assert runner.wrong([some], {"some": 3}) == []
    assert runner.wrong([some], {"some": 4, "gone": 1}) == ["some: 3 agree, at least 4 must", "gone: 0 agree, at least 1 must"]
    some.differing.append("a: 1, not 2")
    assert runner.wrong([some], {"some": 3}) == ["some: a: 1, not 2"]
