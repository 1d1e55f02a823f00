"""One pool with all of its data."""

from __future__ import annotations

from fluxres.render import documents, listings
from tests import sites


def test_pool_with_a_supplier_out_of_service_is_marked() -> None:
    graph = sites.graph(sites.TWO_PDUS)
    graph.set_state("power:/feed/pdu0", "drain")
    cut_off, supplied = graph.pool("/site/node0"), graph.pool("/site/node5")
    assert documents.pool(cut_off)["out_of_service_by"] == [{"path": "power:/feed/pdu0", "state": "drain"}]
    assert "takes no new work  power:/feed/pdu0 is drain" in listings.pool(cut_off)
    assert documents.pool(supplied)["out_of_service_by"] == []
    assert not any("new work" in line for line in listings.pool(supplied))
