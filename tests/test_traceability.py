"""Every requirement and every rule has its test, and no test claims one that does not exist."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from tests import traceability
from tests.traceability import NOT_KEYWORDS, ROOT

SPECS = ROOT / "specs"
TESTS = ROOT / "tests"


@pytest.mark.parametrize("name", traceability.SPECS)
def test_ids_are_numbered_in_order(name: str) -> None:
    ids = [row.id for row in traceability.read(SPECS / name).requirements if row.keyword not in NOT_KEYWORDS]
    prefix = ids[0].split("-")[0]
    assert ids == [f"{prefix}-{number:02}" for number in range(1, len(ids) + 1)]


@pytest.mark.parametrize("name", traceability.SPECS)
def test_number_of_requirements_equals_that_of_rfc_keywords(name: str) -> None:
    spec = traceability.read(SPECS / name)
    listed = {section: Counter[str]() for section in spec.counts}
    for row in spec.requirements:
        if row.keyword not in NOT_KEYWORDS:
            listed[row.section][row.keyword] += 1
    assert listed == spec.counts


@pytest.mark.parametrize("name", traceability.SPECS)
def test_files_of_requirements_exist(name: str) -> None:
    for row in traceability.read(SPECS / name).requirements:
        assert row.built_in, row.id
        assert [path for path in row.built_in if not (ROOT / path).exists()] == [], row.id


def test_every_requirement_has_a_test_and_every_marker_a_requirement() -> None:
    assert set(traceability.marked(TESTS)) == {row.id for row in traceability.required(SPECS)}


def test_the_specs_name_the_tests_that_hold_them() -> None:
    holders = traceability.marked(TESTS)
    differing = [row.id for row in traceability.required(SPECS) if list(row.held_by) != holders.get(row.id, [])]
    assert differing == [], "run: python -m tests.traceability"


def test_every_rule_has_a_test_of_its_name() -> None:
    text = (SPECS / "rules.md").read_text(encoding="utf-8")
    rules = re.findall(r"^## ([A-Z]\d) ", text, re.MULTILINE)
    names = [function.name for function in traceability.functions(TESTS, "def test_rule_")]
    later = {"N1"}  # nesting is not built yet
    without = [rule for rule in rules if not any(re.match(rf"test_rule_{rule.lower()}(_|$)", name) for name in names)]
    assert " ".join(rules) == "A1 A2 A3 A4 A5 A6 A7 A8 F1 F2 F3 C1 M1 S1 N1 T1 T2 J1 P1 P2 H1 H2 D1 E1"
    assert set(without) <= later


SPEC = """\
## Sections

| section | keywords |
|---|---|
| One | SHALL 2, NEED NOT 1 |

## One

| id | keyword | what | built in | held by |
|---|---|---|---|---|
| RFC4-01 | SHALL | first | `a.py`, `b.py` | `test_first` |
| RFC4-02 | SHALL | second | `a.py` | `test_second` |
"""

INNER_TESTS = """\
import pytest

@pytest.mark.rfc("RFC4-01")
def test_first():
    pass

@pytest.mark.rfc("RFC4-02")
@pytest.mark.parametrize("works", [{works}])
def test_second(works):
    if not works:
        pytest.skip("not today")
"""


@pytest.fixture
def suite(pytester: pytest.Pytester) -> pytest.Pytester:
    """A project of two requirements, whose second test is skipped."""
    pytester.makeini("[pytest]\ntestpaths = inner\nmarkers =\n    rfc: ids\n")
    specs = pytester.mkdir("specs")
    (specs / "rfc4.md").write_text(SPEC, encoding="utf-8")
    (pytester.mkdir("inner") / "test_inner.py").write_text(INNER_TESTS.format(works=False), encoding="utf-8")
    return pytester


def run(suite: pytest.Pytester, *args: str) -> pytest.RunResult:
    return suite.runpytest_inprocess("-p", "tests.traceability", "-p", "no:cacheprovider", *args)


def test_spec_is_read(tmp_path: Path) -> None:
    path = tmp_path / "rfc4.md"
    path.write_text(SPEC, encoding="utf-8")
    spec = traceability.read(path)
    assert spec.counts == {"One": Counter({"SHALL": 2, "NEED NOT": 1})}
    assert spec.requirements[0] == traceability.Requirement("RFC4-01", "SHALL", "One", "first", ("a.py", "b.py"), ("test_first",))


@pytest.mark.parametrize("workers", [(), ("-n", "1")])
def test_complete_run_fails_if_a_requirement_has_no_passing_test(suite: pytest.Pytester, workers: tuple[str, ...]) -> None:
    result = run(suite, *workers)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(passed=1, skipped=1)
    result.stdout.fnmatch_lines(["*requirements without a passing test*", "RFC4-02"])


def test_complete_run_passes_if_one_test_of_each_passed(suite: pytest.Pytester) -> None:
    (suite.path / "inner" / "test_inner.py").write_text(INNER_TESTS.format(works="False, True"), encoding="utf-8")
    result = run(suite)
    assert result.ret == pytest.ExitCode.OK
    result.stdout.no_fnmatch_line("*without a passing test*")


@pytest.mark.parametrize("args", [("-k", "first"), ("inner/test_inner.py",), ("-m", "rfc")])
def test_partial_run_does_not_check_requirements(suite: pytest.Pytester, args: tuple[str, ...]) -> None:
    assert run(suite, *args).ret == pytest.ExitCode.OK
