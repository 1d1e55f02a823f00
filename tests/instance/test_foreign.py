"""Some courses of the campaign over changes by others, and whether its oracle sees what is wrong."""

from __future__ import annotations

from typing import Any

import pytest

from fluxres.instance.holding import Holdings
from tests.instance import foreign


def test_rule_t1_no_job_starts_on_what_a_program_uses_whatever_others_free() -> None:
    wrong, counts = foreign.run(1, 12)
    assert wrong == []
    assert min(counts[name] for name in foreign.Course.WEIGHTS) > 0


MISTAKES: dict[str, tuple[type, str, Any]] = {
    "what others free is not held again": (Holdings, "_take_back", lambda *_: None),
    "what others free is not noticed": (Holdings, "find_cut", lambda *_: None),
    "a loss before the limit is not noticed": (Holdings, "_note_loss", lambda *_: None),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_the_oracle_detects_mistakes(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, name, wrong = MISTAKES[mistake]
    monkeypatch.setattr(owner, name, wrong)
    found, _ = foreign.run(1, 20, stop_at=1)
    assert found
