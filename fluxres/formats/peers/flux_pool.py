"""How Flux's own pools choose: flux-core's default takes the roomiest node first, TreePool the fullest (RFC 20, RFC 49).

Both only know nodes, cores and GPUs, and fill a node before they go on to the next.  TreePool keeps the contents of a slot within
the finest domain that can hold it, so that cores and GPUs are close to each other, and takes cores without GPUs from domains that
are already in use.  A request waits if the same choice would succeed with nothing held and all nodes up; otherwise it can never
run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from fluxres import limits
from fluxres.documents.document import Place
from fluxres.errors import InfeasibleRequest, InputError, InsufficientResources, LimitExceeded, NotHeld, UsageError
from fluxres.syntax.flat_request import FlatRequest
from fluxres.syntax.idset import Ids, IDset
from fluxres.syntax.resource_set import ResourceSet, Target


class Locality(NamedTuple):
    """Cores and GPUs that are close to each other."""

    cores: IDset
    gpus: IDset

    def union(self, other: Locality) -> Locality:
        return Locality(self.cores | other.cores, self.gpus | other.gpus)

    def difference(self, other: Locality) -> Locality:
        return Locality(self.cores - other.cores, self.gpus - other.gpus)

    def intersect(self, other: Locality) -> Locality:
        return Locality(self.cores & other.cores, self.gpus & other.gpus)


@dataclass(frozen=True, slots=True)
class NodeLevels:
    """The levels of one node.

    Args:
        groups: by level, the finest first; the last is the whole node. A level equal to the one below it is left out.
        domains: groups by the name of their level, such as `numa`, in the order written.
    """

    groups: tuple[tuple[Locality, ...], ...]
    domains: Mapping[str, tuple[Locality, ...]]


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
    merged: list[list[Locality]] = []
    domains: dict[str, list[Locality]] = {}
    whole = _walk(topo, place, merged, domains, 1)
    if not merged or merged[-1] != [whole]:
        merged.append([whole])
    return NodeLevels(tuple(map(tuple, merged)), {name: tuple(groups) for name, groups in domains.items()})


def _walk(values: object, place: Place, above: list[list[Locality]], domains: dict[str, list[Locality]], depth: int) -> Locality:
    """The group of one domain; its levels are added to those above it, the finest first."""
    if depth > limits.DEPTH_MAX:
        raise LimitExceeded(f"expected at most {limits.DEPTH_MAX} levels", where=str(place))
    given = place.mapping(values)
    whole = Locality(*(_ids(given.get(key, ""), place.at(key)) for key in ("cores", "gpus")))
    mine: list[list[Locality]] = []
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


ALL = "all"
"""Argument of `mark_up` and `mark_down` for every rank."""
_NOTHING = Locality(IDset(), IDset())


class NodeGrant(NamedTuple):
    """What a request gets on one node, and the number of slots that makes."""

    group: Locality
    slots: int


@dataclass(frozen=True, slots=True)
class _Node:
    """The free part of one node, and all of it."""

    rank: int
    free: Locality
    whole: Locality
    levels: NodeLevels | None


class FluxPool:
    """What an instance of Flux can allocate to jobs.

    Args:
        resources: R of the instance; if it contains TreePool's topologies (RFC 49), the choice is TreePool's.

    >>> from fluxres.syntax.jobspec import parse_shape
    >>> from fluxres.syntax.flat_request import flatten
    >>> from fluxres.syntax.jobspec import Request
    >>> lite = [{"rank": "0-1", "children": {"core": "0-3"}}]
    >>> pool = FluxPool(ResourceSet.parse({"version": 1, "execution": {"R_lite": lite, "nodelist": ["n[0-1]"]}}))
    >>> slots = flatten(Request(parse_shape("slot=3/core")))
    >>> [str(pool.alloc(job, slots)) for job in "ab"]
    ['rank0/core[0-2]', 'rank1/core[0-2]']
    """

    def __init__(self, resources: ResourceSet) -> None:
        self.resources = resources
        self._scheduling = resources.scheduling
        self._levels = levels_of(resources)
        self._whole = {rank: _group(resources[rank]) for rank in resources}
        self._free = dict(self._whole)
        self._down = IDset()
        self._jobs: dict[str | int, ResourceSet] = {}

    # -- nodes -------------------------------------------------------------------------------------------------------

    def mark_down(self, ranks: Ids) -> None:
        """Allocate nothing more on these ranks; `all` is every rank. Jobs keep what they have there."""
        self._down |= self.resources.ranks if ranks == ALL else self.resources.ranks & ranks

    def mark_up(self, ranks: Ids) -> None:
        """Allocate on these ranks again; `all` is every rank."""
        self._down -= self.resources.ranks if ranks == ALL else ranks

    def remove_ranks(self, ranks: Ids) -> None:
        """Remove these ranks for good; they no longer count for what could ever run."""
        self._scheduling = self._scheduling_of(self.resources.ranks - ranks)
        self.resources = self.resources.remove_ranks(ranks)
        self._whole = {rank: whole for rank, whole in self._whole.items() if rank in self.resources}
        self._free = {rank: free for rank, free in self._free.items() if rank in self.resources}

    def free_resources(self) -> ResourceSet:
        """What no job has, whether down or not."""
        return self.resources.intersect(ResourceSet({rank: _target(free) for rank, free in self._free.items()}))

    # -- jobs --------------------------------------------------------------------------------------------------------

    def alloc(self, job: str | int, request: FlatRequest) -> ResourceSet:
        """Allocate to a job: returns R with its ranks, their hosts and properties, and the number of slots.

        Cost: O(ranks), and the contents of the nodes tried.
        Errors: InsufficientResources to wait; InfeasibleRequest if it can never run; UsageError for a job that has resources.
        """
        if job in self._jobs:
            raise UsageError(f"job {job} has resources already", hint="free them first")
        _require_contiguous(request)
        taken = self._chosen(request)
        if taken is None:
            self.check_feasibility(request)
            raise InsufficientResources("the free resources are not enough for the request")
        made = self._given(taken)
        for rank, each in taken.items():
            self._free[rank] = self._free[rank].difference(each.group)
        self._jobs[job] = made
        return made

    def free(self, job: str | int) -> None:
        """Free everything a job has. Errors: NotHeld for a job without resources."""
        held = self._jobs.pop(job, None)
        if held is None:
            raise NotHeld(f"job {job} has no resources")
        for rank in held:
            if rank in self._free:
                self._free[rank] = self._free[rank].union(_group(held[rank]))

    def check_feasibility(self, request: FlatRequest) -> None:
        """Errors: InfeasibleRequest if the request does not fit even with nothing held and all nodes up."""
        _require_contiguous(request)
        if self._chosen(request, idle=True) is None:
            message = f"{_said(request)} do not fit on these nodes, even with nothing held and all of them up"
            raise InfeasibleRequest(message, hint="request less", reasons={"resources": message})

    # -- selection ---------------------------------------------------------------------------------------------------

    def _chosen(self, request: FlatRequest, *, idle: bool = False) -> dict[int, NodeGrant] | None:
        """What is taken of each rank, at present or with nothing held and all nodes up; None if it is not enough."""
        found: dict[int, NodeGrant] = {}
        slots = 0
        each = request.nslots // request.nnodes if request.nnodes else None
        for node in self._candidates(request, idle=idle):
            most = request.nnodes_max if each is not None else request.nslots_max
            if most is not None and (len(found) if each is not None else slots) >= most:
                break
            room = each if each is not None else None if most is None else most - slots
            taken = _take(node, request, room)
            if taken.slots == 0 or (each is not None and taken.slots < each):
                continue
            found[node.rank] = NodeGrant(node.free, taken.slots) if request.exclusive else taken
            slots += taken.slots
        enough = len(found) >= request.nnodes if each is not None else slots >= request.nslots
        return found if enough else None

    def _candidates(self, request: FlatRequest, *, idle: bool) -> list[_Node]:
        """Nodes that are up, satisfy the constraint and may have room, in the order in which they are tried."""
        wanted = self.resources if request.constraint is None else self.resources.copy_constraint(request.constraint)
        nodes = [
            _Node(rank, whole if idle else self._free[rank], whole, None if self._levels is None else self._levels[rank])
            for rank, whole in self._whole.items()
            if rank in wanted and (idle or rank not in self._down)
        ]
        able = [
            node
            for node in nodes
            if len(node.free.cores) >= (len(node.whole.cores) if request.exclusive else request.slot_size)
            and len(node.free.gpus) >= request.gpu_per_slot
        ]
        sign = -1 if self._levels is None else 1
        return sorted(able, key=lambda node: (sign * len(node.free.cores), sign * len(node.free.gpus)))

    def _given(self, taken: dict[int, NodeGrant]) -> ResourceSet:
        ranks = IDset(taken)
        own = {name: having & ranks for name, having in self.resources.properties.items() if not name.startswith("+")}
        return ResourceSet(
            {rank: _target(each.group, self.resources[rank].host) for rank, each in taken.items()},
            properties={name: having for name, having in own.items() if having},
            nslots=sum(each.slots for each in taken.values()),
            scheduling=self._scheduling_of(ranks),
        )

    def _scheduling_of(self, ranks: IDset) -> object:
        """What R stores for the scheduler, reduced to some ranks if it is TreePool's."""
        kept = self._scheduling
        if self._levels is None or kept is None:
            return kept
        above = dict(zip(IDset().union(*(each["ranks"] for each in kept["children"])), self.resources, strict=True))
        mine = [IDset(rank for rank in IDset(each["ranks"]) if above[rank] in ranks) for each in kept["children"]]
        return {
            **kept,
            "children": [{**each, "ranks": str(some)} for each, some in zip(kept["children"], mine, strict=True) if some],
        }


def _said(request: FlatRequest) -> str:
    each = request.container or (f"{request.slot_size} cores" if request.slot_size else "all cores")
    each += f" and {request.gpu_per_slot} GPUs" * bool(request.gpu_per_slot)
    slots = f"{request.nslots} slots of {each}"
    return f"{slots} on {request.nnodes} nodes" if request.nnodes else slots


def _require_contiguous(request: FlatRequest) -> None:
    if request.is_stepped:
        message = "Flux's pools do not support counts with steps"
        raise InfeasibleRequest(message, hint="request a range such as 2-8", reasons={"resources": message})


# -- one node ------------------------------------------------------------------------------------------------------------


def _take(node: _Node, request: FlatRequest, most: int | None) -> NodeGrant:
    """The free slots of a node, up to a number."""
    if request.container is not None:
        return _sum(_containers(node, request.container), most)
    if not request.slot_size:
        return NodeGrant(node.free, 1)
    if node.levels is None:
        return _pack(node.free, request, most)
    return _sum(_local(node.free, node.levels, request), most)


def _room(group: Locality, request: FlatRequest) -> int:
    if not request.slot_size:
        return 1
    room = len(group.cores) // request.slot_size
    return min(room, len(group.gpus) // request.gpu_per_slot) if request.gpu_per_slot else room


def _pack(free: Locality, request: FlatRequest, most: int | None) -> NodeGrant:
    number = _room(free, request)
    number = number if most is None else min(number, most)
    return NodeGrant(_lowest(free, number * request.slot_size, number * request.gpu_per_slot), number)


def _local(free: Locality, levels: NodeLevels, request: FlatRequest) -> Iterator[Locality]:
    """Slots one by one, each within one group."""
    if request.gpu_per_slot:
        order: Iterable[Locality] = (group for level in levels.groups for group in level)
    else:
        # At the finest level with room for a slot, the groups with the least left first, so that unused ones stay unused.
        size = request.slot_size
        level = next((level for level in levels.groups if any(len(free.cores & group.cores) >= size for group in level)), ())
        order = sorted(level, key=lambda group: len(free.cores & group.cores))
    for group in order:
        here = free.intersect(group)
        while _room(here, request):
            slot = _lowest(here, request.slot_size, request.gpu_per_slot)
            here, free = here.difference(slot), free.difference(slot)
            yield slot


def _containers(node: _Node, name: str) -> Iterator[Locality]:
    """Domains of a level that are entirely free."""
    for group in node.levels.domains.get(name, ()) if node.levels is not None else ():
        if group.cores <= node.free.cores and group.gpus <= node.free.gpus:
            yield group


def _sum(slots: Iterator[Locality], most: int | None) -> NodeGrant:
    group, number = _NOTHING, 0
    while number != most and (slot := next(slots, None)) is not None:
        group, number = group.union(slot), number + 1
    return NodeGrant(group, number)


def _lowest(group: Locality, cores: int, gpus: int) -> Locality:
    return Locality(_first(group.cores, cores), _first(group.gpus, gpus))


def _first(ids: IDset, number: int) -> IDset:
    """The `number` lowest of some ids."""
    found: list[tuple[int, int]] = []
    for first, last in ids.ranges():
        if number <= 0:
            break
        found.append((first, min(last, first + number - 1)))
        number -= last - first + 1
    return IDset.of_ranges(found)


def _group(target: Target) -> Locality:
    return Locality(IDset(target.children.get("core", ())), IDset(target.children.get("gpu", ())))


def _target(group: Locality, host: str | None = None) -> Target:
    return Target(host, {"core": group.cores, "gpu": group.gpus})
