"""Rule E1 for every format, a few hundred cases each time; ``python -m tests.fuzz.formats`` runs for any time."""

from __future__ import annotations

from random import Random

import pytest

from fluxres.formats import registry
from tests.fuzz import documents, formats
from tests.fuzz.documents import Finding, Tally

NAMES = [known.name for known in formats.readable()]


@pytest.mark.parametrize("name", NAMES)
def test_rule_e1_any_file_gives_a_machine_or_an_error(name: str, deeper: float) -> None:
    tally = Tally()
    texts = {name: formats.samples(name)}
    for number in range(round(160 * deeper)):
        formats.case(texts, f"test/{number}", tally)
    assert tally.findings == []
    assert sum(count for what, count in tally.cases.items() if "read" in what) > 0
    assert sum(count for what, count in tally.cases.items() if "read" not in what) > 0


@pytest.mark.parametrize("name", NAMES)
def test_undamaged_samples_are_read_and_written(name: str) -> None:
    for text in formats.samples(name):
        assert formats.examine(registry.named(name), text, by_content=True).startswith("read")


def test_command_repeats_a_case(capsys: pytest.CaptureFixture[str]) -> None:
    told = []
    for _ in range(2):
        assert formats.main(["--first", "7", "--cases", "20", "--format", "cluster"]) == 0
        told.append(capsys.readouterr().out)
    assert told[0] == told[1]
    assert told[0].startswith("20 cases, 0 findings: ")


def test_violations_are_found_and_kept(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("kept")
    monkeypatch.setattr(documents, "SECONDS", -1.0)
    assert formats.main(["--cases", "2", "--format", "cluster", "--keep", str(folder)]) == 1
    assert len(list(folder.iterdir())) == 2
    with pytest.raises(Finding, match="read: "):
        formats.examine(registry.named("cluster"), b"fluxres: 1", by_content=False)


def test_kinds_of_damage_differ() -> None:
    texts = formats.samples("cluster")
    assert len({formats.made_wrong(texts, Random(seed)) for seed in range(100)}) > 90
    assert max(len(formats.made_wrong(texts, Random(seed))) for seed in range(200)) == formats.LARGE
