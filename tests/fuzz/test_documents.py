"""Rule E1 for complete files, a few hundred cases each time; ``python -m tests.fuzz.documents`` runs for any time."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fluxres.errors import InputError
from tests.fuzz import documents
from tests.fuzz.documents import Files, Finding, Tally


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files(tmp_path_factory.mktemp("fuzz"))


@pytest.mark.parametrize("sort", sorted(set(documents.SORTS)))
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(random=st.randoms(use_true_random=False))
def test_rule_e1_any_file_gives_a_result_or_an_error(files: Files, sort: str, random: Random) -> None:
    with documents.small():
        assert getattr(files, sort)(random)


@pytest.mark.parametrize("sort", sorted(set(documents.SORTS)))
def test_both_outcomes_occur(files: Files, sort: str) -> None:
    with documents.small():
        outcomes = {getattr(files, sort)(Random(seed)) for seed in range(60)}
    assert "read" in outcomes
    assert outcomes - {"read"}


def test_command_repeats_a_case(capsys: pytest.CaptureFixture[str]) -> None:
    told = []
    for _ in range(2):
        assert documents.main(["--first", "7", "--cases", "20"]) == 0
        told.append(capsys.readouterr().out)
    assert told[0] == told[1]
    assert told[0].startswith("20 cases, 0 findings: ")


def test_violations_are_found(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Finding, match="load: ZeroDivisionError"), documents.watched("load"):
        _ = 1 // 0
    with pytest.raises(InputError), documents.watched("load"):
        raise InputError("fine")
    monkeypatch.setattr(documents, "SECONDS", -1.0)  # a short case may take less than a tick of the process clock
    tally = Tally()
    documents.case(files, "1/0", tally)
    assert len(tally.findings) == 1


def _endless() -> None:
    while True:
        pass


def test_endless_case_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "HANG_SECONDS", 0.05)
    with pytest.raises(Finding, match=r"read: no end in 0\.05 s"), documents.watched("read"):
        _endless()
