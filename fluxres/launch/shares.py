"""How an instance divides its resources and its jobs among its children."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec import structs

from fluxres.launch.protocol import Begin
from fluxres.simulation.hierarchy import shares
from fluxres.syntax.jobspec import Request, as_request, parse_shape

if TYPE_CHECKING:
    from fluxres.model import ResourceGraph


def child_begins(graph: ResourceGraph, begin: Begin) -> Iterator[tuple[Request, Begin]]:
    """For each child of an instance: the request for its part, and its parameters.

    Errors: InfeasibleRequest if there are fewer pools than children.
    """
    number = begin.fan_outs[0]
    unit, sizes = shares(graph, number, begin.tree_id, finest=_wanted(as_request(begin.request)))
    for child, size in enumerate(sizes):
        name = f"{begin.tree_id}.{child + 1}"
        yield (
            Request(parse_shape(f"slot={size}/{unit}")),
            structs.replace(
                begin,
                tree_id=name,
                store=f"{begin.folder}/{begin.tree_id}.db",
                graph=name,
                parent=os.getpid(),
                fan_outs=begin.fan_outs[1:],
                queue_policies=begin.queue_policies[1:] or begin.queue_policies,
                match_policies=begin.match_policies[1:] or begin.match_policies,
                jobs=begin.jobs // number + (child < begin.jobs % number),
            ),
        )


def _wanted(request: Request) -> str:
    """What a job asks for: the content of its slots, or else its first resource."""
    todo = list(request.resources)
    for vertex in todo:
        if vertex.is_slot:
            return vertex.children[0].type
        todo += vertex.children
    return request.resources[0].type
