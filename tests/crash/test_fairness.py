"""Several attached processes: every change is kept, whoever made it.  `python -m tests.crash.fairness` measures their waits."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crash.fairness import campaign


@pytest.mark.parametrize("as_commands", [False, True])
def test_rule_d1_each_change_of_each_writer_is_in_the_store(tmp_path: Path, as_commands: bool) -> None:
    shares, problems = campaign(tmp_path / "x.db", 3, 1.0, as_commands=as_commands)
    assert all(share.changes for share in shares)
    assert [problem for problem in problems if "waited" not in problem and "got" not in problem] == []
