"""Sites in cluster YAML that tests of several packages start from: nodes in racks, and the power that they are supplied with."""

from __future__ import annotations

from fluxres.documents.source import Source
from fluxres.formats.cluster import read as cluster
from fluxres.model import ResourceGraph

TWO_PDUS = """
fluxres: 1
name: site
resources:
  - {type: node, count: 6, with: [{type: core, count: 4}, {type: memory, size: 8, id: null}]}
graphs:
  power:
    hierarchy: true
    pools:
      - {type: power, basename: feed, size: 1500, unit: W, with: [{type: power, basename: pdu, count: 2, size: 1000, unit: W}]}
    edges:
      - {from: "power:/feed/pdu0", to: "/site/node[0-2]"}
      - {from: "power:/feed/pdu1", to: "/site/node[3-5]"}
"""
"""Six nodes, three on each of two PDUs of 1,000 W in one feed of 1,500 W."""


def racks(number: int = 2, nodes: int = 4, cores: int = 4, *, of_a_node: str = "") -> str:
    """Racks of nodes of cores, the nodes numbered through; `of_a_node` are further keys of each node, followed by a comma."""
    node = f"{{type: node, count: {nodes}, id: 0-{number * nodes - 1}, {of_a_node}with: [{{type: core, count: {cores}}}]}}"
    return f"""
fluxres: 1
name: site
resources:
  - {{type: rack, count: {number}, with: [{node}]}}
graphs:
"""


def power(feed_w: int, pdu_w: int, racks: int = 2) -> str:
    """A PDU for each rack in one feed.  The edges come last, so that a text can add more of them."""
    last = racks - 1
    return f"""\
  power:
    hierarchy: true
    pools:
      - type: feed
        with:
          - {{type: power, size: {feed_w}, unit: W, id: null}}
          - {{type: pdu, count: {racks}, with: [{{type: power, size: {pdu_w}, unit: W, id: null}}]}}
    edges:
      - {{from: "power:/feed/pdu[0-{last}]", to: "/site/rack[0-{last}]"}}
"""


def graph(text: str) -> ResourceGraph:
    return ResourceGraph(cluster.read(Source(text.encode(), "site.yaml")).structure)
