"""What jobs draw over time, compared with a count at every moment; hosts on the axes of charts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import orjson
import pytest

from fluxres.documents import yaml_document
from fluxres.experiments import campaign, study
from fluxres.simulation.machine import Machine, of_number, of_shape
from fluxres.simulation.results.numbering import hosts

PAGE = """\
fluxres-experiment: 1
name: drawing
machine:
  fluxres: 1
  name: lab
  resources: [{type: node, count: 4, DRAWS with: [{type: core, count: 2}]}]
  graphs:
    power:
      hierarchy: true
      pools: [{type: power, name: feed, size: 4000, unit: W, with: [{type: power, basename: pdu, count: 2, size: 2000, unit: W}]}]
      edges:
        - {from: "power:/feed/pdu0", to: "/lab/node[0-1]", relation: supplies}
        - {from: "power:/feed/pdu1", to: "/lab/node[2-3]", relation: supplies}
unit: node
workload: {lublin: {jobs: 25, size: 4}REQUEST}
"""


@pytest.mark.parametrize(
    ("draws", "request_", "watts"),
    [("", ', request: "slot={size}/[node{x};power=700]"', 700), ("draw: {power: 300},", "", 300), ("", "", 0)],
)
def test_power_is_that_of_the_nodes_in_use(draws: str, request_: str, watts: int, tmp_path: Path) -> None:
    text = PAGE.replace("DRAWS", draws).replace("REQUEST", request_)
    found = study.of_document(yaml_document.load(text.encode()), tmp_path)
    assert campaign.run(found, tmp_path / "a").failed == {}
    (path,) = (tmp_path / "a" / "runs").glob("*/metrics.json")
    over = orjson.loads(path.read_bytes())["over_time"]
    (supply,) = over["supplies"]
    assert (supply["name"], supply["unit"], supply["capacity"]) == ("power", "W", 4000)
    assert np.allclose(supply["used"], np.array(over["used"]) * watts, atol=1)
    assert max(supply["used"]) > 0 or not watts


def test_hosts_stand_at_their_first_unit() -> None:
    assert hosts(Machine(of_shape("node=3/core=4"), "core")) == [(0, "node0"), (4, "node1"), (8, "node2")]
    assert (
        hosts(Machine(of_shape("rack=2/node=2")), 9) == [(0, "node0"), (1, "node1"), (2, "node2"), (3, "node3")]
        or len({name for _, name in hosts(Machine(of_shape("rack=2/node=2")))}) == 4
    )
    assert len(hosts(Machine(of_shape("node=1000")))) <= 9
    assert hosts(Machine(of_number(100))) == []
    assert hosts(Machine(of_shape("core=3"))) == [(0, "core0"), (1, "core1"), (2, "core2")]
