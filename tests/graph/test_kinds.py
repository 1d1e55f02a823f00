"""What equal pools share is stored once, compared exactly, and bounded."""

from __future__ import annotations

import pytest

from fluxres import limits
from fluxres.errors import LimitExceeded
from fluxres.graph.kinds import Kind, KindTable


def test_equal_kinds_are_shared_and_value_types_distinguish_kinds() -> None:
    table = KindTable()
    kinds = [Kind("node", "node", properties=(("class", value),)) for value in (1, 1.0, True, "1", None)]
    assert [table.intern(kind) for kind in kinds] == [0, 1, 2, 3, 4]
    assert [table.intern(kind) for kind in kinds] == [0, 1, 2, 3, 4]
    assert [type(kind.properties[0][1]) for kind in table] == [int, float, bool, str, type(None)]


def test_kind_table_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "KINDS_MAX", 2)
    table = KindTable([Kind("a", "a"), Kind("b", "b")])
    assert table.intern(Kind("b", "b")) == 1
    with pytest.raises(LimitExceeded, match="more than 2 different kinds"):
        table.intern(Kind("c", "c"))
    assert len(table) == 2
