"""Tables for data frames: the columns say what the handles say, and pandas, polars and pyarrow read them."""

from __future__ import annotations

import math
import sys
from typing import Any

import pytest

import fluxres
from fluxres.errors import UsageError
from tests.traceability import ROOT

pyarrow = pytest.importorskip("pyarrow")


def demo() -> fluxres.ResourceGraph:
    g = fluxres.load(ROOT / "data" / "clusters" / "demo.yaml")
    g.allocate("slot=4/[core=8;gpu=1]", job="j1", duration_s=3600)
    g.allocate("/demo/rack1/node4", job="j2")
    g.pool("/demo/rack0/node2/socket0/memory").allocate(16, "j3", start=0, end=60)
    g.pool("/demo/rack0/node2/socket0/memory").allocate(8, "j4", start=0, end=60)
    g.pool("/demo/rack0/node2/socket0/memory").allocate(8, "j5", start=60, end=90)
    g.pool("/demo/rack1/node7").state = "drain"
    return g


def host_of(pool: fluxres.Pool) -> str | None:
    return next((each.name for each in (pool, *pool.ancestors) if each.type == "node"), None)


@pytest.mark.parametrize("criteria", ["type=node", "type=memory or type=pdu", "available>=0", "type=gpu and id=77"])
def test_each_row_says_what_the_pool_says(criteria: str) -> None:
    found = demo().find(criteria)
    assert found.to_arrow().to_pylist() == [
        {
            "path": pool.where,
            "name": pool.name,
            "type": pool.type,
            "id": pool.id,
            "rank": pool.rank,
            "host": host_of(pool),
            "size": pool.size,
            "unit": pool.unit,
            "free": pool.available(),
            "state": pool.state,
            "jobs": ", ".join(sorted({span.job for span in pool.allocations(0, 1)})) or None,
        }
        for pool in found
    ]


@pytest.mark.parametrize("source", ["workstation", "quartz", "frontier"])
def test_names_and_paths_are_those_of_the_pools(source: str) -> None:
    g = fluxres.load(ROOT / "data" / "clusters" / f"{source}.yaml")
    for criteria in ("type=node", "type=core and id=3", "type=gpu"):
        found = g.find(criteria)[::7]
        columns = found.to_arrow()
        assert columns["path"].to_pylist() == found.paths()
        assert columns["name"].to_pylist() == [pool.name for pool in found]


def test_names_of_every_kind() -> None:
    g = fluxres.load(
        {
            "fluxres": 1,
            "name": "s",
            "resources": [
                {
                    "type": "rack",
                    "count": 2,
                    "with": [
                        {
                            "type": "node",
                            "hosts": "n[08-11]",
                            "count": 2,
                            "with": [{"type": "core", "count": 2}, {"type": "memory"}],
                        },
                        {"type": "blade", "count": 12, "name": "b-${id:03}-x"},
                        {"type": "slice", "count": 2, "name": "${parent}-s${id}"},
                    ],
                }
            ],
        }
    )
    every = g.find("size>=0")
    assert every.to_arrow()["path"].to_pylist() == every.paths()
    assert every.to_arrow()["name"].to_pylist() == [pool.name for pool in every]


def test_holdings_have_a_row_for_each_record() -> None:
    g = demo()
    rows = g.holdings().to_arrow().to_pylist()
    assert [(row["job"], row["path"], row["amount"], row["start"], row["end"]) for row in rows] == [
        (span.job, span.pool, span.amount, span.start, None if math.isinf(span.end) else span.end) for span in g.holdings()
    ]
    assert [row for row in rows if row["job"] == "j1"] == g.allocation("j1").to_arrow().to_pylist()
    assert rows[-1] == {
        "job": "j5",
        "path": "/demo/rack0/node2/socket0/memory",
        "type": "memory",
        "host": "node2",
        "amount": 8,
        "unit": "GiB",
        "start": 60.0,
        "end": 90.0,
    }
    assert [span.job for span in g.holdings(at=3600)] == ["j2"]


def test_edges_that_a_job_draws_through_have_rows_without_a_type() -> None:
    node = fluxres.Resource("node", 2)
    pdu = fluxres.Resource("pdu", size=1500, unit="W", id=[0])
    feeds = [fluxres.Edge("power:/pdu0", "/lab/node[0-1]", relation="supplies", capacity=1000)]
    graphs = {"power": fluxres.AuxiliaryGraph(hierarchy=True, pools=[pdu], edges=feeds)}
    g = fluxres.build(node, name="lab", graphs=graphs)
    a = g.allocate("slot/[node;power=400]", job="j")
    assert [(row["path"], row["type"], row["host"], row["amount"], row["unit"]) for row in a.to_arrow().to_pylist()] == [
        ("/lab/node0", "node", "node0", 1, None),
        ("power:/pdu0", "pdu", None, 400, "W"),
        ("power: power:/pdu0 -> /lab/node0", None, None, 400, "W"),
    ]


def test_totals_are_those_of_aggregate() -> None:
    g = demo()
    rows = g.totals().to_arrow().to_pylist()
    free = g.aggregate(all=True)
    assert {row["type"]: row["available"] for row in rows if row["type"] in free} == free


def test_jobs_of_an_instance() -> None:
    top = fluxres.Instance(fluxres.load(ROOT / "data" / "clusters" / "demo.yaml"))
    first = top.submit("slot/node", duration_s="1h", name="solve", user="ann")
    top.submit("-N8 -x")
    rows = top.to_arrow().to_pylist()
    assert [(row["id"], row["name"], row["state"], row["duration"], row["started"]) for row in rows] == [
        (str(first.id), "solve", "RUN", 3600.0, 0.0),
        (str(rows[1]["id"]), None, "SCHED", None, None),
    ]


def tables() -> dict[str, Any]:
    g = demo()
    return {
        "graph": g,
        "selection": g.find("type=core"),
        "none": g.find("type=gpu and id=77"),
        "allocation": g.allocation("j1"),
        "holdings": g.holdings(),
        "totals": g.totals(),
        "instance": fluxres.Instance(g),
    }


@pytest.mark.parametrize("name", tables())
def test_libraries_read_it(name: str) -> None:
    value = tables()[name]
    rows = value.to_arrow().to_pylist()
    assert pyarrow.table(value).to_pylist() == rows
    frames = 0
    try:
        import polars
    except ImportError:
        pass
    else:
        frames += 1
        assert polars.DataFrame(value).to_dicts() == value.to_polars().to_dicts() == rows
    try:
        import pandas
    except ImportError:
        pass
    else:
        frames += 1
        frame = value.to_pandas()
        assert list(frame.columns) == value.to_arrow().column_names
        assert len(frame) == len(rows)
        if hasattr(pandas.DataFrame, "from_arrow"):
            assert list(pandas.DataFrame.from_arrow(value).columns) == list(frame.columns)
    if not frames:
        pytest.skip("neither polars nor pandas is installed")


@pytest.mark.parametrize(
    ("missing", "call", "hint"),
    [
        ("pyarrow", "to_arrow", "pip install pyarrow"),
        ("pandas", "to_pandas", "pip install pandas"),
        ("polars", "to_polars", "pip install polars"),
    ],
)
def test_a_missing_library_is_named(missing: str, call: str, hint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(UsageError, match=f"{missing} is not installed") as refused:
        getattr(demo().find("type=node"), call)()
    assert refused.value.hint == hint
