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
