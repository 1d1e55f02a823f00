"""Numbers that keep the job ids of instances apart that schedule one graph: the generator of an id (RFC 19).

In its records a job has its id for a name, so two jobs of one id would be one job there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary, WeakValueDictionary

from fluxres.errors import LimitExceeded
from fluxres.syntax.fluid import GENERATOR_BITS

if TYPE_CHECKING:
    from fluxres.instance.lifecycle import Lifecycle
    from fluxres.model import ResourceGraph

_USED: Final[WeakKeyDictionary[ResourceGraph, WeakValueDictionary[int, Lifecycle]]] = WeakKeyDictionary()


def take(instance: Lifecycle, graph: ResourceGraph) -> int:
    """The least number that no other open instance on a graph has, which this one has from now on.

    Errors: LimitExceeded where all are in use.
    """
    with graph.lock:
        used = _USED.setdefault(graph, WeakValueDictionary())
        for number in range(1 << GENERATOR_BITS):
            other = used.get(number)
            if other is None or other.is_closed:
                used[number] = instance
                return number
    raise LimitExceeded(f"{1 << GENERATOR_BITS} instances schedule this graph", hint="close some of them")
