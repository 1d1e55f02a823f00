"""Several attached processes: every change is kept, whoever made it.  `python -m tests.crash.fairness` measures their waits."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.crash.fairness import campaign
from tests.store.conftest import KINDS


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("as_commands", [False, True])
def test_rule_d1_each_change_of_each_writer_is_in_the_store(empty: Callable[[str], str], kind: str, as_commands: bool) -> None:
    shares, problems = campaign(empty(kind), 3, 1.0, as_commands=as_commands)
    assert all(share.changes for share in shares)
    assert [problem for problem in problems if "waited" not in problem and "got" not in problem] == []
