"""What the resource pool of a peer system forbids a request in that system's language, beside what it does not have.

A request keeps the language it was written in (``attributes["user"]["asked"]``), and the machine keeps as a property of its root
what the pool says of all requests.  A request in another language is not concerned.
"""

from __future__ import annotations

from collections.abc import Mapping

from fluxres.errors import InfeasibleRequest
from fluxres.graph.structure import Structure
from fluxres.syntax.canary import MULTINODE
from fluxres.syntax.jobspec import Request


def require_allowed(structure: Structure, request: Request) -> None:
    """Errors: InfeasibleRequest for a canary request for several nodes of a pool with ``allow_multinode: false``."""
    user = request.attributes.get("user")
    asked = user.get("asked") if isinstance(user, Mapping) else None
    if not isinstance(asked, Mapping) or asked.get("format") != "canary":
        return
    nodes = sum(vertex.count.min for vertex in request.resources if vertex.type == "node")
    allowed = dict(structure.kind_of(0).properties).get(MULTINODE, True)
    # Formats that keep properties as text make a word of it.
    if nodes > 1 and (allowed is False or (isinstance(allowed, str) and allowed.lower() == "false")):
        message = f"{nodes} nodes are asked for, and the resource pool says {MULTINODE}: false"
        raise InfeasibleRequest(message, where="nodes", hint="ask for one node", reasons={"nodes": message})
