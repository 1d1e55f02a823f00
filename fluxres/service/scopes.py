"""What a token that is for a part of the machine sees and gets.

A search for pools is restricted to the nodes of the part before it is made; what a change concerns is checked again where its
event is told (`tap`), so that no operation has to remember it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from fluxres.arrays import Int32
from fluxres.documents.document import listed
from fluxres.documents.suggestion import suggest_or_choose
from fluxres.errors import Forbidden, StoreError, UnknownPool
from fluxres.model import ResourceGraph, Selection, targets
from fluxres.model.node_states import nodes_of
from fluxres.service.access import Caller
from fluxres.syntax import constraint
from fluxres.syntax.idset import IDset
from fluxres.syntax.jobspec import as_request


def tops(graph: ResourceGraph, caller: Caller) -> list[int]:
    """The pools that the parts of a token begin with. Errors: UnknownPool."""
    return [graph.vertex(path) for path in caller.paths or ()]


def visible(found: Selection, caller: Caller) -> Selection:
    """What of a selection is in the parts that a token is for."""
    if caller.paths is None:
        return found
    graph = found.graph
    seen = np.zeros(graph.structure.n, np.bool_)
    for top in tops(graph, caller):
        seen[top : graph.structure.end.item(top)] = True
    return found & graph.select(np.flatnonzero(seen).astype(np.int32))


def nodes(graph: ResourceGraph, caller: Caller) -> Int32:
    """The nodes in the parts that a token is for."""
    every = nodes_of(graph.structure)
    return visible(graph.select(every), caller).vertices


def unknown(names: Iterable[str], load: Callable[[str], ResourceGraph], callers: Iterable[Caller]) -> list[str]:
    """What tokens are for that is not there, in words; it may be made later.

    Args:
        names: of the graphs that are served.
        load: reads one of them.
    """
    found, known, opened = list[str](), tuple(names), cache(load)

    def has(graph: str, path: str) -> bool:
        try:
            opened(graph).vertex(path)
        except UnknownPool:
            return False
        except StoreError:
            return True  # a request for it gets this error
        return True

    for caller in callers:
        graphs = known if caller.graphs is None else sorted(caller.graphs)
        for graph in (graph for graph in graphs if graph not in known):
            hint = suggest_or_choose(graph, known)
            found.append(f"token '{caller.name}' is for graph '{graph}', which is not in the store ({hint})")
        there = [graph for graph in graphs if graph in known]
        for path in caller.paths or () if there else ():
            if not any(has(graph, path) for graph in there):
                found.append(f"token '{caller.name}' is for {path}, which is not in {listed(there)}")
    return found


def restricted(graph: ResourceGraph, caller: Caller, wanted: Any) -> Any:
    """A request that finds pools only in the parts that a token is for; pools by name remain as they are.

    Errors: Forbidden for a part without nodes: ranks are what a request can be restricted to.
    """
    if caller.paths is None or not targets.is_request(wanted, graph):
        return wanted
    ranks = graph.structure.rank[nodes(graph, caller)]
    if not len(ranks) or (ranks < 0).any():
        raise Forbidden(f"token '{caller.name}' is for a part without ranks", hint="name pools instead of a request")
    request = as_request(wanted)
    within: constraint.Constraint = constraint.Part((str(IDset(ranks.tolist())),))  # names of nodes may repeat
    if request.constraint is not None:
        within = constraint.And((request.constraint, within))
    return replace(request, constraint=within)
