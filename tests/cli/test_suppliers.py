"""Commands on a machine whose racks have one PDU each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.cli.conftest import Invoke


def described(place: Path, *, of_node3: int = 1) -> str:
    """A file with two racks, each below a PDU; node3 is in one of them."""
    in_rack = {0: [0, 1], 1: [2]}
    in_rack[of_node3].append(3)
    racks: list[dict[str, Any]] = [
        {"type": "rack", "id": i, "with": [{"type": "node", "id": n, "with": [{"type": "core", "count": 2}]} for n in nodes]}
        for i, nodes in in_rack.items()
    ]
    edges = [{"from": f"power:/pdu{i}", "to": f"/lab/rack{i}"} for i in range(2)]
    edges += [{"from": f"/lab/rack{i}", "to": f"/lab/rack{i}/node*"} for i in range(2)]
    power = {"hierarchy": True, "pools": [{"type": "pdu", "count": 2, "size": 1000, "unit": "W"}], "edges": edges}
    file = place / f"node3-in-rack{of_node3}.yaml"
    file.write_text(json.dumps({"fluxres": 1, "name": "lab", "resources": racks, "graphs": {"power": power}}))
    return str(file)


def test_apply_moves_a_node_beside_a_job_that_drew_nothing(fluxres: Invoke, place: Path) -> None:
    fluxres("load", described(place))
    fluxres("allocate", "slot/core", "--requires", "host:node1", "--job", "c")
    wanted = described(place, of_node3=0)
    assert "1 pool moved" in fluxres("apply", wanted).stdout
    fluxres("load", described(place), "--replace")
    fluxres("allocate", "slot/core", "--requires", "host:node2", "--job", "c")
    for drain in ([], ["--drain"]):
        told = fluxres("apply", wanted, *drain, status=1).stderr
        assert told.endswith("jobs may draw through it (held by c) (free it, or wait until it ends)\n")


UPS = """
fluxres: 1
name: site
resources:
  - {type: node, count: 4, properties: {draw.power: 100}, with: [{type: core, count: 2}]}
graphs:
  power:
    hierarchy: true
    pools:
      - {type: power, basename: ups, size: 1000, unit: W, with: [{type: power, basename: pdu, count: 2, size: 500, unit: W}]}
    edges:
      - {from: "power:/ups/pdu0", to: "/site/node[0-1]"}
      - {from: "power:/ups/pdu1", to: "/site/node[2-3]"}
"""


def names(shown: str) -> list[str]:
    return [one["job"] for one in json.loads(shown)["jobs"]]


def test_state_lists_the_jobs_on_what_loses_its_only_supplier(fluxres: Invoke, place: Path) -> None:
    fluxres("load", described(place))
    fluxres("allocate", "node0", "--job", "a")
    fluxres("allocate", "slot/core", "--job", "b", "--requires", "host:node1")
    fluxres("allocate", "node2", "--job", "elsewhere")
    told = fluxres("state", "power:/pdu0", "down").stdout.splitlines()
    assert told[1] == "jobs there keep what they hold:"
    assert [line.split()[0] for line in told[3:]] == ["a", "b"]
    assert names(fluxres("state", "power:/pdu1", "drain", "--json").stdout) == ["elsewhere"]
    assert names(fluxres("state", "power:/pdu1", "up", "--json").stdout) == []


def test_jobs_of_a_neighbour_under_one_ups_are_not_listed(fluxres: Invoke, place: Path) -> None:
    (place / "ups.yaml").write_text(UPS)
    fluxres("load", "ups.yaml")
    fluxres("allocate", "node0", "--job", "draws")
    fluxres("allocate", "slot/core", "--job", "core", "--requires", "host:node1")
    assert names(fluxres("state", "power:/ups/pdu1", "down", "--json").stdout) == []
    assert names(fluxres("state", "power:/ups/pdu0", "down", "--json").stdout) == ["draws", "core"]
    assert names(fluxres("jobs", "--on", "power:/ups/pdu1", "--json").stdout) == []
    assert names(fluxres("jobs", "--on", "power:/ups/pdu0", "--json").stdout) == ["draws"]


def test_reserve_keeps_jobs_off_what_loses_its_only_supplier(fluxres: Invoke, place: Path) -> None:
    window = ("--start", "2040-01-01T08:00", "--duration", "4h")
    fluxres("load", described(place))
    fluxres("reserve", "power:/pdu0", *window, "--name", "pdu-swap")
    told = fluxres("allocate", "node[0-1]", "--job", "j", "--start", "2040-01-01T08:30", "--duration", "1h", status=1).stderr
    assert "maintenance 'pdu-swap'" in told
    fluxres("allocate", "node[2-3]", "--job", "j", "--start", "2040-01-01T08:30", "--duration", "1h")
    counts = json.loads(fluxres("nodes", "--start", "2040-01-01T09:00", "--json").stdout)["counts"]
    assert counts == {"allocated": 2, "reserved": 2}
    (made,) = json.loads(fluxres("reserve", "--json").stdout)["reservations"]
    assert (made["pools"], made["affected"]) == (["power:/pdu0"], ["/lab/rack0", "power:/pdu0"])
    assert "power:/pdu1: j holds something there" in fluxres("reserve", "power:/pdu1", *window, status=1).stderr
    fluxres("reserve", "power:/pdu1", *window, "--ignore-running")
    fluxres("free", "j")
    fluxres("allocate", "node[2-3]", "--job", "j", "--start", "2040-01-01T08:30", "--duration", "1h", status=1)
    assert fluxres("check").stdout == "lab: 17 pools, no problems\n"
