"""What a remote graph returns, as values."""

from __future__ import annotations

import pytest

from fluxres.model.values import Span
from fluxres.service.client.values import AsyncRemoteAllocation, RemoteAllocation, RemotePool, RemoteReservation, RemoteSelection


@pytest.mark.parametrize(("number", "pools"), [(0, "0 pools"), (1, "1 pool"), (2, "2 pools")])
def test_the_text_of_a_value_counts_its_pools(number: int, pools: str) -> None:
    paths = [f"/demo/node{i}" for i in range(number)]
    spans = [Span("in", 1, 0.0, 60.0, path) for path in paths]
    assert repr(RemoteAllocation("in", spans, None, lambda _: {})) == f"<RemoteAllocation of job in: {pools}>"
    assert repr(AsyncRemoteAllocation("in", spans, None, _no_set)) == f"<AsyncRemoteAllocation of job in: {pools}>"
    assert repr(RemoteSelection([RemotePool(path, None) for path in paths])) == f"<RemoteSelection of {pools}>"
    assert repr(RemoteReservation({"name": "weekly", "pools": paths}, None)) == f"<RemoteReservation weekly of {pools}>"


async def _no_set(_scheduling: bool) -> dict[str, object]:
    return {}
