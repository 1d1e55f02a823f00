"""R, the resource set of a job (RFC 20, version 1), from the pools it holds.

R has execution targets (ranks), cores and gpus.  Anything else that a job holds is only in the graph that R carries on request
for a nested scheduler (RFC 40).  Ids are logical: the position of a core among the cores of its target, whatever levels are in
between.  Targets of which the same ids are held share an entry.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from fluxres.allocation import execution_targets
from fluxres.clock import FOREVER, seconds
from fluxres.errors import UsageError
from fluxres.graph import jgf
from fluxres.graph.auxiliary import Int32
from fluxres.graph.structure import Structure
from fluxres.graph.surgery import Along

GRAPHS: Final = {"jgf": "fluxion:jgf", "jgf_shorthand": jgf.SHORTHAND}
"""Forms of the graph that R may carry, and the name of each in R."""


def resource_set(
    structure: Structure, vertices: Int32, amounts: NDArray[np.int64], start: int, end: int, nslots: int | None = 0
) -> dict[str, Any]:
    """R version 1 as plain values.

    Args:
        structure: the machine.
        vertices, amounts: the pools, ascending, each once, and the units held of each; a pool held exclusively includes all
            below it.
        start, end: window in ticks; no end leaves the expiration unset (0).
        nslots: number of slots of the request; 0, for none, counts each target as one. None leaves the number out.

    Cost: a few microseconds for complete targets or parts of one, and a microsecond per target that is held in part.
    Source: RFC 20.
    """
    if len(vertices) == 1:
        v = vertices.item(0)
        counted = amounts.item(0) == structure.size.item(v) or structure.end.item(v) == v + 1
        tops = vertices if counted else vertices[:0]
    else:
        counts = (amounts == structure.size[vertices]) | (structure.end[vertices] == vertices + 1)
        tops = vertices if counts.all() else vertices[counts]
    entries, hosts, properties, number = execution_targets.of(structure).describe(structure, tops)
    execution: dict[str, Any] = {
        "R_lite": entries,
        "starttime": seconds(start),
        "expiration": 0.0 if end >= FOREVER else seconds(end),
        "nodelist": [hosts] if number else [],
    }
    if properties:
        execution["properties"] = properties
    if nslots is not None and (slots := nslots or number):
        execution["nslots"] = slots
    return {"version": 1, "execution": execution}


def scheduling(structure: Structure, held: Int32, amounts: NDArray[np.int64], form: str = "jgf") -> dict[str, Any]:
    """The graph of what is held, which R carries under `scheduling`.

    Args:
        structure: the machine.
        held: accounts (:mod:`fluxres.graph.accounts`), ascending, each once: pools, and edges that have a capacity.
        amounts: units of each.
        form: ``jgf``; ``jgf_shorthand`` leaves out what is below pools held exclusively.

    Errors: UsageError for another form.
    Cost: about 2 µs a pool of the graph; arrays as long as the machine where its auxiliary graphs distribute something.
    Source: RFC 40.
    """
    if form not in GRAPHS:
        raise UsageError(f"no form '{form}' of the graph in R", hint=f"use one of {', '.join(GRAPHS)}")
    shorthand = form == "jgf_shorthand"
    pools = held < structure.n
    part = jgf.held(structure, held[pools], amounts[pools], shorthand=shorthand, along=_along(structure))
    more = jgf.left_out_below(structure, part, execution_targets.CHILDREN) if shorthand else {}

    def carried(edges: Int32) -> NDArray[np.int64]:
        at = np.minimum(held.searchsorted(edges), len(held) - 1)
        return np.where(held[at] == edges, amounts[at], 0)

    return {"writer": GRAPHS[form], **jgf.document(structure, part, more, carried)}


def _along(structure: Structure) -> Along | None:
    if not structure.feeds:
        return None
    from fluxres.match.paths import Paths  # imports the matcher, which an allocation by name does not need

    return Paths(structure).along
