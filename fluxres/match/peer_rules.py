"""What the resource pool of a peer system forbids a request in that system's language, beyond missing resources.

A request records the language it was written in (``attributes["user"]["asked"]``), and the root of the machine has a property
with what the pool says about all requests.  Requests in other languages are not affected.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from fluxres.errors import InfeasibleRequest
from fluxres.graph.structure import Structure
from fluxres.syntax.jobspec import Request

MULTINODE: Final = "allow_multinode"
"""canary: whether a test may use several nodes of the pool; a property of the root."""


def require_allowed(structure: Structure, request: Request) -> None:
    """Errors: InfeasibleRequest for a canary request for several nodes of a pool with ``allow_multinode: false``."""
    user = request.attributes.get("user")
    if user is None:
        return
    asked = user.get("asked") if isinstance(user, Mapping) else None
    if not isinstance(asked, Mapping) or asked.get("format") != "canary":
        return
    nodes = sum(vertex.count.min for vertex in request.resources if vertex.type == "node")
    allowed = dict(structure.kind_of(0).properties).get(MULTINODE, True)
    # Formats with text properties store it as a word.
    if nodes > 1 and (allowed is False or (isinstance(allowed, str) and allowed.lower() == "false")):
        message = f"{nodes} nodes requested, but the resource pool has {MULTINODE}: false"
        raise InfeasibleRequest(message, where="nodes", hint="request one node", reasons={"nodes": message})
