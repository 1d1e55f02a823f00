"""Pool names with brackets, which Python methods accept for several pools like the command line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fluxres
from fluxres import limits
from fluxres.errors import InputError, LimitExceeded, UnknownPool, UsageError
from fluxres.model import ResourceGraph


@pytest.fixture
def site() -> ResourceGraph:
    node = {"type": "node", "count": 4, "id": "0-7", "with": [{"type": "memory", "size": 8}]}
    power = {
        "hierarchy": True,
        "pools": [{"type": "pdu", "count": 2, "size": 100, "unit": "W"}],
        "edges": [{"from": "power:/pdu[0-1]", "to": "/m/rack[0-1]", "pairing": "each", "capacity": 50}],
    }
    racks = {"type": "rack", "count": 2, "with": [node, {"type": "box", "name": "a[1],b"}]}
    return fluxres.load({"fluxres": 1, "name": "m", "resources": [racks], "graphs": {"power": power}})


def test_pools_can_be_named_with_brackets(site: ResourceGraph) -> None:
    given = site.allocate("/m/rack0/node[0,2-3]", job="a")
    assert [pool.path for pool in given] == ["/m/rack0/node0", "/m/rack0/node2", "/m/rack0/node3"]
    site.allocate([("/m/rack1/node[4-5]/memory", 3), "power:/pdu[0-1]"], job="b")
    assert {span.pool: span.amount for span in site.allocation("b").spans} == {
        "/m/rack1/node4/memory": 3,
        "/m/rack1/node5/memory": 3,
        "power:/pdu0": 100,
        "power:/pdu1": 100,
    }
    site.free("b", {"/m/rack1/node[4-5]/memory": 1, "power:/pdu[0-1]": 60})
    assert [span.amount for span in site.allocation("b").spans] == [2, 2, 40, 40]
    site.allocate([("power: power:/pdu[0-1] -> /m/rack[0-1]", 5)], job="c")
    assert [span.amount for span in site.allocation("c").spans] == [5, 5]
    site.set_state("/m/rack[0-1]", "drain")
    assert [pool.name for pool in site.find("state=drain and type=rack")] == ["rack0", "rack1"]
    assert site.check() == []


def test_criteria_accept_the_same_paths(site: ResourceGraph) -> None:
    assert [pool.name for pool in site.find("path=/m/rack1/node[4,6-7]")] == ["node4", "node6", "node7"]
    assert [pool.name for pool in site.find("uri=power:/pdu[0-1]")] == ["pdu0", "pdu1"]


def test_real_name_with_brackets_takes_precedence(site: ResourceGraph) -> None:
    assert [pool.path for pool in site.allocate("/m/rack0/a[1],b", job="a")] == ["/m/rack0/a[1],b"]


def test_wrong_brackets_are_refused(site: ResourceGraph) -> None:
    with pytest.raises(UnknownPool, match="no pool 'node4'"):
        site.allocate("/m/rack0/node[0-9]", job="a")
    with pytest.raises(InputError, match="matching brackets"):
        site.allocate("/m/rack0/node[0-", job="a")
    with pytest.raises(LimitExceeded, match=f"more than {limits.IDSET_COUNT_MAX} pools in one argument"):
        site.allocate("/m/rack[0-99999]/node[0-999]", job="a")
    assert site.jobs() == []


def test_brackets_are_refused_with_a_hint_where_one_pool_is_named(site: ResourceGraph) -> None:
    with pytest.raises(UnknownPool, match=r"no pool 'node\[0-1\]'.*find\('path=…'\) takes both"):
        site.pool("/m/rack0/node[0-1]")


@pytest.mark.parametrize("how", ["allocate", "grow", "allocate_all", "stage"])
@pytest.mark.parametrize("wanted", [3, [3, 6], np.int64(3), np.array([3, 6]), ["/m/rack0", 3]], ids=repr)
def test_a_number_alone_is_no_pool(site: ResourceGraph, how: str, wanted: Any) -> None:
    site.allocate("/m/rack0", job="held")
    asks: dict[str, Callable[[], object]] = {
        "allocate": lambda: site.allocate(wanted, job="x"),
        "grow": lambda: site.grow("held", wanted),
        "allocate_all": lambda: site.allocate_all([(wanted, "x")]),
        "stage": lambda: site.stage(wanted, job="x", duration_s=5),
    }
    with pytest.raises(UsageError, match=r"expected a request or pools, got the number 3 \(such as slot=3/node, or"):
        asks[how]()
    assert site.allocation("held").spans[0].pool == "/m/rack0"
    assert site.jobs() == ["held"]


def test_pairs_and_mappings_name_pools_by_vertex_number(site: ResourceGraph) -> None:
    v = site.vertex("/m/rack1/node4/memory")
    assert [span.amount for span in site.allocate([(v, 2)], job="a").spans] == [2]
    assert [span.amount for span in site.allocate({v: 3}, job="b").spans] == [3]
