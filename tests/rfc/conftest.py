"""A small machine for the requirements, with everything that RFC 4 mentions."""

from __future__ import annotations

import numpy as np
import pytest

from fluxres import ResourceGraph
from fluxres.graph import uuids
from fluxres.graph.auxiliary import Subsystem
from fluxres.graph.recipe import Recipe, expand

NODE = (
    Recipe("core", count=4),
    Recipe("gpu"),
    Recipe("memory", size=64, unit="GiB", ids=None),
)


@pytest.fixture
def g() -> ResourceGraph:
    """Cluster demo: 2 racks of 2 nodes with 4 cores, a gpu and 64 GiB; an exclusive pool; power and network.

    pdu0 supplies node0 and node1 with 900 W each, pdu1 the others; node0 – node1 – node2 – node3 are linked both ways.
    """
    node = Recipe("node", count=2, ids=np.arange(4), properties={"ssd": None, "class": 7, "vendor": "Acme"}, children=NODE)
    whole = Recipe("burstbuffer", size=8, unit="TiB", ids=None, exclusive=True)
    demo = Recipe("cluster", name="demo", children=(Recipe("rack", count=2, children=(node,)), whole))
    pdus_beside = Recipe("pdu", count=2, ids=np.arange(2), size=5000, unit="W")
    structure = expand(demo, more=[pdus_beside], origin=uuids.new_origin())
    nodes = structure.of_type("node")
    pdus = structure.of_type("pdu")
    structure.subsystems["power"] = Subsystem(
        "power",
        True,
        np.repeat(pdus, 2).astype(np.int32),
        nodes,
        relations=["supplies"],
        attributes={"capacity": np.full(4, 900.0)},
    )
    structure.subsystems["network"] = Subsystem(
        "network", False, np.concatenate([nodes[:-1], nodes[1:]]), np.concatenate([nodes[1:], nodes[:-1]]), relations=["links"]
    )
    return ResourceGraph(structure)
