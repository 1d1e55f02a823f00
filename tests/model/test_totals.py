"""Sums of units: which pools count, and in which units."""

from __future__ import annotations

import numpy as np
import pytest

import fluxres
from fluxres import AuxiliaryGraph, Edge, Resource, build, limits
from fluxres.errors import LimitExceeded
from fluxres.graph import uuids
from fluxres.graph.recipe import Recipe, expand
from fluxres.model import ResourceGraph, targets
from fluxres.render import documents
from tests import sites
from tests.traceability import ROOT


def machine(*pools: Recipe) -> ResourceGraph:
    return ResourceGraph(expand(Recipe("cluster", name="c", ids=None, children=pools), origin=uuids.new_origin(bytes(16))))


def memory(size: int, unit: str | None, count: int = 1, first: int = 0) -> Recipe:
    return Recipe("memory", count, ids=first, size=size, unit=unit)


def table(g: ResourceGraph) -> dict[str, tuple[int, int, str | None, int]]:
    """By type: pools, units, unit, units available."""
    return {row["type"]: (row["pools"], row["units"], row["unit"], row["available"]) for row in documents.totals(g)}


# -- units -----------------------------------------------------------------------------------------------------------


def test_convertible_units_are_one_sum() -> None:
    g = machine(memory(64, "GiB"), memory(65536, "MiB", first=1))
    assert g.aggregate() == {"cluster": 1, "memory": 128}
    assert g.units == {"cluster": None, "memory": "GiB", "memory[MiB]": "MiB"}
    assert table(g)["memory"] == (2, 128, "GiB", 128)


def test_remainder_below_a_whole_unit_has_its_own_entry() -> None:
    g = machine(memory(64, "GiB"), memory(65536, "MiB", first=1))
    g.allocate({"/c/memory1": 1}, job="a")
    assert g.aggregate() == {"cluster": 1, "memory": 127, "memory[MiB]": 1023}
    assert table(g)["memory"] == (2, 131072, "MiB", 131071)
    g.allocate({"/c/memory0": 64, "/c/memory1": 65000}, job="a")
    assert g.aggregate() == {"cluster": 1, "memory[MiB]": 535}
    assert g.aggregate(all=True) == {"cluster": 1, "memory": 0, "memory[MiB]": 535}


def test_unit_is_that_of_most_pools_for_any_subtree() -> None:
    g = machine(memory(64, "GiB"), memory(2048, "MiB", 2, 1))
    assert g.aggregate() == {"cluster": 1, "memory": 64 * 1024 + 4096}
    assert g.aggregate("/c/memory0") == {"memory": 65536}
    assert g.units == {"cluster": None, "memory": "MiB"}


def test_remainder_of_incommensurable_units_is_in_their_base_unit() -> None:
    g = machine(memory(64, "GiB"), memory(100, "GB", first=1))
    whole, rest = divmod(64 * 2**30 + 100 * 10**9, 2**30)
    assert g.aggregate() == {"cluster": 1, "memory": whole, "memory[B]": rest}
    assert table(g)["memory"] == (2, 64 * 2**30 + 100 * 10**9, "B", 64 * 2**30 + 100 * 10**9)


def test_units_that_do_not_convert_are_not_added() -> None:
    g = machine(memory(64, "GiB"), memory(7, "blocks", first=1), memory(3, None, first=2), memory(1024, "MiB", first=3))
    assert g.aggregate() == {"cluster": 1, "memory[GiB]": 65, "memory[blocks]": 7, "memory": 3}
    assert g.aggregate("/c/memory1", all=True) == {"memory[blocks]": 7}
    rows = [(row["type"], row["pools"], row["units"], row["unit"]) for row in documents.totals(g)]
    assert rows == [("cluster", 1, 1, None), ("memory", 2, 65, "GiB"), ("memory", 1, 7, "blocks"), ("memory", 1, 3, None)]


def test_sums_above_the_bound_are_refused() -> None:
    half = limits.SIZE_MAX // 2 + 1
    g = machine(memory(half, "GiB", 3), memory(1, "blocks", first=3))
    with pytest.raises(LimitExceeded, match="use a larger unit"):
        g.aggregate()


# -- suppliers -------------------------------------------------------------------------------------------------------

FEED = """
fluxres: 1
name: site
resources:
  - {type: rack, count: 2, with: [{type: node, count: 2, id: 0-3}]}
graphs:
  power:
    hierarchy: true
    pools:
      - {type: power, name: feed, size: 60, unit: kW}
      - {type: power, name: "pdu${id}", count: 2, size: 40000, unit: W}
    edges:
      - {from: "power:/feed", to: "power:/pdu[0-1]", relation: supplies}
      - {from: "power:/pdu[0-1]", to: "/site/rack[0-1]", relation: supplies}
  network:
    pools:
      - {type: switch, name: spine}
      - {type: switch, name: leaf}
    edges:
      - {from: "network:/spine", to: "network:/leaf", direction: both}
      - {from: "network:/leaf", to: "/site/rack*/node*", direction: both}
"""


@pytest.fixture
def site() -> ResourceGraph:
    """A feed of 60 kW over two PDUs of 40 kW, and two switches."""
    return sites.graph(FEED)


def test_feed_and_supplied_pools_are_counted_once(site: ResourceGraph) -> None:
    # Most of the pools of the type are counted in W.
    assert table(site)["power"] == (3, 60_000, "W", 60_000)
    assert site.aggregate("power:/")["power"] == 60_000
    assert site.aggregate("power:/feed")["power"] == 60_000
    assert site.aggregate("power:/feed/pdu1")["power"] == 40_000
    found = site.find("type=power")
    assert [pool.available() for pool in found] == [60, 40_000, 40_000]
    site.allocate("slot=1/node/power=2{unit:kW}", job="a")
    assert site.aggregate("power:/")["power"] == 58_000


def test_single_unit_suppliers_are_all_counted(site: ResourceGraph) -> None:
    assert table(site)["switch"] == (2, 2, None, 2)


def test_ring_of_suppliers_counts_as_one() -> None:
    ring = FEED.replace("hierarchy: true", "hierarchy: false").replace(
        '{from: "power:/feed", to: "power:/pdu[0-1]"',
        '{from: ["power:/feed", "power:/pdu[0-1]"], to: ["power:/pdu[0-1]", "power:/feed"], pairing: each',
    )
    g = sites.graph(ring)
    assert table(g)["power"] == (3, 60_000, "W", 60_000)


# -- copies ----------------------------------------------------------------------------------------------------------


def test_pass_through_pools_of_a_copy_count_nothing(site: ResourceGraph) -> None:
    child = site.copy("/site/rack1")
    assert child.aggregate() == {"rack": 1, "node": 2}
    assert child.aggregate("power:/") == {"rack": 1}
    assert child.available().paths() == ["/site/rack1", "/site/rack1/node2", "/site/rack1/node3"]
    assert child.pool("/site").available() == child.pool("power:/feed").available() == 0
    assert child.find("available>0") == child.available()
    assert child.find("type=cluster").paths() == ["/site"]
    assert child.find("type=power").paths() == []
    assert table(child) == {
        "cluster": (1, 1, None, 0),
        "rack": (1, 1, None, 1),
        "node": (2, 2, None, 2),
        "power": (2, 60, "kW", 0),
        "switch": (2, 2, None, 0),
    }


def test_power_of_nodes_is_not_added_to_the_feed_of_their_rack() -> None:
    feed = Resource("feed", 1, id=[0], children=[Resource("power", size=900, unit="W")])
    node = Resource("node", 2, children=[Resource("power", size=400, unit="W")])
    graphs = {"power": AuxiliaryGraph(pools=[feed], edges=[Edge("power:/feed0", "/lab/rack0")])}
    g = build(Resource("rack", 1, id=[0], children=[node]), name="lab", graphs=graphs)
    assert table(g)["power"] == (3, 900, "W", 900)
    assert g.aggregate("/lab")["power"] == 800


def test_totals_of_a_part_are_those_of_its_pools() -> None:
    g = fluxres.load(ROOT / "data" / "clusters" / "demo.yaml")
    g.allocate("/demo/rack0/node1", job="a", start=0, end=60)
    g.allocate([("/demo/rack0/node0/socket0/memory", 16)], job="b", start=0, end=90)
    g.set_state("/demo/rack1/node4", "down")
    for top in (
        "/",
        "/demo/rack0",
        "/demo/rack0/node0/socket0",
        "/demo/rack1",
        "power:/",
        "power:/pdu0",
        "power:/pdu1/rack1/node5",
    ):
        place = targets.place(g, top)
        below = g.find("all") & g.select(np.array(place.vertices, np.int32)).with_children(place.name)
        for at, duration_s in ((0.0, None), (60.0, None), (0.0, 100.0)):
            rows = documents.totals(g, at, duration_s, place)
            free = g.aggregate(top, at, duration_s, all=True)
            assert {row["type"]: row["available"] for row in rows} == free
            for row in rows:
                alike = [pool for pool in below if pool.type == row["type"]]
                assert (row["pools"], row["units"]) == (len(alike), sum(pool.size for pool in alike))
            assert sum(row["pools"] for row in rows) == len(below)


def test_units_that_are_available_are_what_find_says() -> None:
    g = fluxres.load(ROOT / "data" / "clusters" / "demo.yaml")
    g.allocate("/demo/rack0/node1", job="a", start=0, end=60)
    g.set_state("/demo/rack1/node4", "drain")
    for start, end in ((0.0, 30.0), (60.0, 70.0), (0.0, 100.0)):
        assert g.find("available>0", during=(start, end)) == g.available(start, end - start)
