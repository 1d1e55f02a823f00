"""The machine of a simulation: a graph from any source, and the meaning of a workload's number of processors on it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Final

from msgspec import structs

from fluxres import limits
from fluxres.errors import InputError, UsageError
from fluxres.graph import uuids
from fluxres.graph.recipe import Recipe, expand
from fluxres.syntax import count as counts
from fluxres.syntax.jobspec import Request, parse_shape
from fluxres.syntax.vertex import Vertex

if TYPE_CHECKING:
    from fluxres.model import ResourceGraph

_NUMBER: Final = re.compile(r"[0-9]{1,18}")
_SHAPE: Final = re.compile(r"[A-Za-z_]\w*(=|/|\[|$)")


@dataclass
class Machine:
    """A machine for workloads that specify numbers.

    Args:
        graph: the machine.
        unit: type of the pools that a number counts; by default `node`, else the only pool with several units, else the most
            frequent type without children.
    """

    graph: ResourceGraph
    unit: str = ""
    _requests: dict[int, Request] = field(default_factory=dict, repr=False)
    _pattern: Vertex | None = field(default=None, repr=False)
    _has_units: bool = field(default=False, repr=False)

    def __post_init__(self) -> None:
        types = self.graph.structure.types
        if not self.unit:
            self.unit = self._usual()
        elif self.unit not in types:
            hint = f"it has {', '.join(types)}"
            raise UsageError(f"the machine has no {self.unit!r:.80}", where="unit", hint=hint)

    def _usual(self) -> str:
        structure = self.graph.structure
        if "node" in structure.types:
            return "node"
        leaves = [name for name in structure.types if (structure.end[v := structure.of_type(name)] == v + 1).all()]
        return max(leaves, key=lambda name: int(structure.size[structure.of_type(name)].sum()))

    @property
    def count(self) -> int:
        """The number of units."""
        structure = self.graph.structure
        return int(structure.size[structure.of_type(self.unit)].sum())

    @cached_property
    def cores(self) -> float:
        """The cores of a unit on average; 1 for a machine without cores, whose processors count as such."""
        structure = self.graph.structure
        if "core" not in structure.types or not self.count:
            return 1.0
        return int(structure.size[structure.of_type("core")].sum()) / self.count

    def asking(self, number: int) -> Request:
        """The request for a number of units."""
        found = self._requests.get(number)
        if found is None:
            if self._pattern is None:
                structure = self.graph.structure
                self._has_units = bool((structure.size[structure.of_type(self.unit)] > 1).any())
                self._pattern = _slot_of_one(self.unit)
            times = counts.parse(number)
            if self._has_units:
                slot = structs.replace(self._pattern, children=(structs.replace(self._pattern.children[0], count=times),))
            else:
                slot = structs.replace(self._pattern, count=times)
            found = self._requests[number] = Request((slot,))
        return found


@lru_cache(maxsize=64)
def _slot_of_one(unit: str) -> Vertex:
    """The same for all instances of a hierarchy, each of which is a machine."""
    (found,) = parse_shape(f"slot=1/{unit}")
    return found


def of_number(number: int, name: str = "processors") -> ResourceGraph:
    """A machine of processors without names: one pool.

    >>> of_number(100).find("type=core").vertices.tolist()
    [1]
    """
    return _graph(Recipe(name, children=(Recipe("core", 1, size=number, ids=None),)))


def of_processors(number: int) -> ResourceGraph:
    """The same, of a number that somebody gave.

    Errors: UsageError for none, or more than `limits.SIZE_MAX`.
    """
    if not 0 < number <= limits.SIZE_MAX:
        raise UsageError(f"expected at least one processor, got {number}", where="machine")
    return of_number(number)


def of_shape(text: str) -> ResourceGraph:
    """A machine in the syntax of a request: ``rack=2/node=16/[core=8;gpu=2]``; every pool has a number and a name.

    Errors: InputError for an invalid shape, a slot, or counts that leave a choice.

    >>> len(of_shape("node=4/core=2"))
    13
    """
    vertices = parse_shape(text)
    return _graph(Recipe("cluster", children=tuple(_recipe(vertex, text) for vertex in vertices)))


def _recipe(vertex: Vertex, text: str) -> Recipe:
    stated = vertex.ids is not None or vertex.unit is not None or vertex.is_directed or bool(vertex.properties)
    if vertex.is_slot or vertex.count.fixed is None or stated:
        raise InputError(
            f"{text!r:.80}: a machine has types and numbers", where="machine", hint="such as rack=2/node=16/[core=8;gpu=2]"
        )
    return Recipe(vertex.type, vertex.count.fixed, children=tuple(_recipe(child, text) for child in vertex.children))


def _graph(root: Recipe) -> ResourceGraph:
    from fluxres.model import ResourceGraph

    return ResourceGraph(expand(root, origin=uuids.new_origin()))


def read(text: str | None, processors: int | None = None) -> ResourceGraph:
    """A machine from a command line argument: a number, a shape, or the source of a graph; otherwise from the workload.

    Args:
        text: ``100``, ``node=32/core=8``, a file or URL; None to use `processors`.
        processors: the size of the machine according to the workload.

    Errors: UsageError if neither is given; those of reading a graph.
    """
    if text is None:
        if processors is None:
            raise UsageError("the workload does not specify its number of processors", hint="give --machine")
        return of_number(processors)
    if _NUMBER.fullmatch(text):
        return of_processors(int(text))
    from pathlib import Path

    if "://" not in text and "=" in text and _SHAPE.match(text) and not Path(text).exists():
        return of_shape(text)
    from fluxres.store.files import load

    return load(text)
