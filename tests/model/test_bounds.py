"""Bounds of `ResourceGraph`."""

from __future__ import annotations

import pytest

from fluxres import limits
from fluxres.errors import UsageError
from tests.allocation.test_records import NODE, machine


def test_tag_values_are_bounded() -> None:
    g = machine()
    g.tag(NODE, "note", "x" * limits.VALUE_LENGTH_MAX)
    with pytest.raises(UsageError, match=f"at most {limits.VALUE_LENGTH_MAX} characters"):
        g.tag(NODE, "note", "x" * (limits.VALUE_LENGTH_MAX + 1))
    assert len(g.pool(NODE).tags["note"] or "") == limits.VALUE_LENGTH_MAX


def test_path_cache_is_bounded_and_eviction_is_harmless(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PATH_CACHE_MAX", 2)
    g = machine()
    paths = [p.path for p in g.walk()]
    for _ in range(2):
        assert [g.pool(path).path for path in paths] == paths
        assert len(g.structure.lookup._paths) <= limits.PATH_CACHE_MAX


def test_stage_expires_after_the_default_time() -> None:
    now = [0.0]
    g = machine()
    g.clock = lambda: now[0]
    stage = g.stage(NODE, job="a")
    now[0] = limits.STAGE_SECONDS_DEFAULT - 0.001
    assert stage.active
    now[0] = limits.STAGE_SECONDS_DEFAULT
    assert not stage.active
