"""The levels of a node in TreePool: groups of cores and GPUs, from the finest domains to the node (Flux RFC 49)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from fluxres import limits
from fluxres.documents.place import Place
from fluxres.errors import InputError, LimitExceeded
from fluxres.syntax.idset import IDset
from fluxres.syntax.resource_set import ResourceSet


class Group(NamedTuple):
    """Cores and GPUs that are close to each other."""

    cores: IDset
    gpus: IDset

    def union(self, other: Group) -> Group:
        return Group(self.cores | other.cores, self.gpus | other.gpus)

    def difference(self, other: Group) -> Group:
        return Group(self.cores - other.cores, self.gpus - other.gpus)

    def intersect(self, other: Group) -> Group:
        return Group(self.cores & other.cores, self.gpus & other.gpus)


@dataclass(frozen=True, slots=True)
class NodeLevels:
    """The levels of one node.

    Args:
        groups: by level, the finest first; the last is the whole node. A level equal to the one below it is left out.
        domains: groups by the name of their level, such as `numa`, in the order written.
    """

    groups: tuple[tuple[Group, ...], ...]
    domains: Mapping[str, tuple[Group, ...]]


def levels_of(resources: ResourceSet) -> dict[int, NodeLevels] | None:
    """The levels of each rank, from what TreePool stores in R; None if it stores nothing.

    The ranks of topologies may be those of the parent instance, so they are matched by order.
    Errors: InputError with the place for what RFC 49 does not define.
    """
    scheduling = resources.scheduling
    if not isinstance(scheduling, Mapping) or scheduling.get("writer") != "TreePool":
        return None
    place = Place(("R", "scheduling", "children"))
    found: dict[int, NodeLevels] = {}
    for number, entry in enumerate(place.sequence(scheduling.get("children"), "a list of topologies")):
        here = place.at(number)
        given = here.mapping(entry, ("ranks", "topo"), ("ranks", "topo"))
        levels = _levels(given["topo"], here.at("topo"))
        for rank in _ids(given["ranks"], here.at("ranks")):
            if rank in found:
                raise here.at("ranks").error(f"rank {rank} has two topologies")
            found[rank] = levels
            if len(found) > resources.nnodes:
                break
    if len(found) != resources.nnodes:
        raise place.error(f"the topologies do not cover the {resources.nnodes} ranks of R_lite", "each rank has exactly one")
    return {rank: found[above] for rank, above in zip(resources, sorted(found), strict=True)}


def _levels(topo: object, place: Place) -> NodeLevels:
    merged: list[list[Group]] = []
    domains: dict[str, list[Group]] = {}
    whole = _walk(topo, place, merged, domains, 1)
    if not merged or merged[-1] != [whole]:
        merged.append([whole])
    return NodeLevels(tuple(map(tuple, merged)), {name: tuple(groups) for name, groups in domains.items()})


def _walk(values: object, place: Place, above: list[list[Group]], domains: dict[str, list[Group]], depth: int) -> Group:
    """The group of one domain; its levels are added to those above it, the finest first."""
    if depth > limits.DEPTH_MAX:
        raise LimitExceeded(f"expected at most {limits.DEPTH_MAX} levels", where=str(place))
    given = place.mapping(values)
    whole = Group(*(_ids(given.get(key, ""), place.at(key)) for key in ("cores", "gpus")))
    mine: list[list[Group]] = []
    for name, below, at in _domains(given, place):
        group = _walk(below, at, mine, domains, depth + 1)
        domains.setdefault(name, []).append(group)
        whole = whole.union(group)
    if (whole.cores or whole.gpus) and not (mine and mine[-1] == [whole]):
        mine.append([whole])
    for number, groups in enumerate(mine):
        if number == len(above):
            above.append([])
        above[number] += groups
    return whole


def _domains(given: Mapping[str, Any], place: Place) -> Iterator[tuple[str, object, Place]]:
    for name, listed in given.items():
        if name not in ("cores", "gpus", "memory", "storage"):
            for number, below in enumerate(place.at(name).sequence(listed)):
                yield name, below, place.at(name, number)


def _ids(value: object, place: Place) -> IDset:
    try:
        return IDset(str(place.integer(value, 0)) if isinstance(value, int) else place.text(value, empty=True))
    except InputError as error:
        raise place.refine(error) from None
