"""R version 1 as a value: which ids of which types each rank has, and set operations on that (Flux RFC 20).

Many schedulers add and subtract allocations without a graph. Here R is a set of (rank, type, id) with a host name for each
rank. The operations have the names of flux-core's librlist: they compare ids, ranks that become empty are removed, and
properties follow their ranks. :mod:`fluxres.formats.flux.resource_set` makes a machine from R.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import orjson

from fluxres import limits
from fluxres.documents.document import Place, excerpt
from fluxres.errors import InputError, LimitExceeded, MergeConflict, UsageError
from fluxres.syntax import constraint as constraints
from fluxres.syntax import hostlist
from fluxres.syntax.constraint import Constraint
from fluxres.syntax.hostlist import Hostlist, Hosts
from fluxres.syntax.idset import Ids, IDset

_TOP: Final = ("version", "execution", "scheduling", "attributes")
_EXECUTION: Final = ("R_lite", "nodelist", "nslots", "properties", "starttime", "expiration")
_FIRST: Final = ("core", "gpu")
"""Types in the order in which they are printed; others follow by name."""


class Target(NamedTuple):
    """The resources of one rank: the name of its host, None if unknown, and ids by type."""

    host: str | None
    children: Mapping[str, IDset]


class ResourceSet:
    """An immutable resource set.

    Args:
        targets: by rank.
        properties: ranks by property.
        starttime, expiration: seconds since 1970; 0 is unset.
        nslots: slots of the request that it answers; 0 is unset. Results of operations do not have it.
        scheduling: data of the scheduler. Operations keep it unchanged as long as the result is not empty, because only the
            scheduler can reduce it.

    >>> lite = [{"rank": "0-2", "children": {"core": "0-3", "gpu": "0"}}]
    >>> r = ResourceSet.parse({"version": 1, "execution": {"R_lite": lite, "nodelist": ["node[0-2]"]}})
    >>> str(r), r.count("core"), str(r.nodelist)
    ('rank[0-2]/core[0-3],gpu0', 12, 'node[0-2]')
    >>> str(r.diff(r.copy_ranks("1"))), str(r.copy_ranks("1-2").remap())
    ('rank[0,2]/core[0-3],gpu0', 'rank[0-1]/core[0-3],gpu0')
    """

    def __init__(
        self,
        targets: Mapping[int, Target] | None = None,
        *,
        properties: Mapping[str, IDset] | None = None,
        starttime: float = 0.0,
        expiration: float = 0.0,
        nslots: int = 0,
        scheduling: Any = None,
    ) -> None:
        if targets and not (isinstance(targets, Mapping) and all(isinstance(target, Target) for target in targets.values())):
            raise UsageError("expected targets by rank", hint="ResourceSet.parse(…) reads R, as plain values or JSON")
        self._targets = dict(sorted((targets or {}).items()))
        self.properties: Mapping[str, IDset] = dict(properties or {})
        self.starttime = starttime
        self.expiration = expiration
        self.nslots = nslots
        self.scheduling = scheduling

    @classmethod
    def parse(cls, values: Mapping[str, Any] | str | bytes) -> ResourceSet:
        """A resource set from R, as plain values or JSON.

        The list of hosts may be omitted.  Cost: O(ranks).
        Errors: InputError with the place; LimitExceeded beyond `limits.RANKS_MAX` ranks.  Source: RFC 20.
        """
        if isinstance(values, str | bytes):
            if len(values) > limits.DOCUMENT_BYTES_MAX:
                raise LimitExceeded(f"expected at most {limits.DOCUMENT_BYTES_MAX} bytes, got {len(values)}", where="R")
            try:
                values = orjson.loads(values)
            except orjson.JSONDecodeError as error:
                raise InputError(f"expected JSON: {error.msg}", where=f"R:{error.lineno}:{error.colno}") from None
        return _read(values)

    # -- contents ----------------------------------------------------------------------------------------------------

    @property
    def ranks(self) -> IDset:
        return IDset(self._targets)

    @property
    def nodelist(self) -> Hostlist:
        """The hosts in order of their ranks; empty if they are unknown."""
        return Hostlist([each.host for each in self._targets.values() if each.host is not None])

    @property
    def types(self) -> list[str]:
        """The types that it contains: core, gpu, then others by name."""
        found = {type_ for each in self._targets.values() for type_, ids in each.children.items() if ids}
        return sorted(found, key=lambda type_: (type_ not in _FIRST, type_))

    @property
    def nnodes(self) -> int:
        return len(self._targets)

    def count(self, type_: str) -> int:
        return sum(len(each.children.get(type_, ())) for each in self._targets.values())

    def host_ranks(self, hosts: Hosts) -> IDset:
        """The ranks on these hosts; a host may have several.

        Errors: UsageError that lists the missing hosts.

        >>> lite = [{"rank": "0-3", "children": {"core": "0"}}]
        >>> r = ResourceSet.parse({"version": 1, "execution": {"R_lite": lite, "nodelist": ["a,b,a,c"]}})
        >>> str(r.host_ranks("a,c"))
        '0,2-3'
        """
        wanted = Hostlist(hosts)
        missing = wanted.exclude(self.nodelist)
        if missing:
            raise UsageError(f"not in the resource set: {excerpt(str(missing))}", where="hosts")
        return IDset(rank for rank, each in self._targets.items() if each.host in wanted)

    def __getitem__(self, rank: int) -> Target:
        return self._targets[rank]

    def __contains__(self, rank: object) -> bool:
        return rank in self._targets

    def __iter__(self) -> Iterator[int]:
        return iter(self._targets)

    def __len__(self) -> int:
        return len(self._targets)

    def __eq__(self, other: object) -> bool:
        return self.to_dict() == other.to_dict() if isinstance(other, ResourceSet) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # as no mapping has one

    # -- set operations ----------------------------------------------------------------------------------------------

    def union(self, other: ResourceSet) -> ResourceSet:
        """The resources in either of the two.

        Errors: MergeConflict if a rank has different hosts in the two.
        """
        made = dict(self._targets)
        for rank, theirs in other._targets.items():
            mine = made.get(rank, Target(None, {}))
            if mine.host != theirs.host and None not in (mine.host, theirs.host):
                raise MergeConflict(f"rank {rank} is {mine.host} in one and {theirs.host} in the other", where=f"rank {rank}")
            types = {*mine.children, *theirs.children}
            children = {type_: _ids(mine, type_) | _ids(theirs, type_) for type_ in types}
            made[rank] = Target(mine.host or theirs.host, children)
        names = {*self.properties, *other.properties}
        properties = {name: self.properties.get(name, _NONE) | other.properties.get(name, _NONE) for name in names}
        return self._with(made, properties, self.scheduling if self.scheduling is not None else other.scheduling)

    def append(self, other: ResourceSet) -> ResourceSet:
        """The union of two sets that have nothing in common.

        Errors: MergeConflict that lists common resources, and those of :meth:`union`.
        """
        both = self.intersect(other)
        if both:
            raise MergeConflict(f"both resource sets have {excerpt(str(both))}")
        return self.union(other)

    def diff(self, other: ResourceSet) -> ResourceSet:
        return self._cut({
            rank: Target(each.host, {type_: ids - _ids(other._targets.get(rank), type_) for type_, ids in each.children.items()})
            for rank, each in self._targets.items()
        })  # fmt: skip

    def intersect(self, other: ResourceSet) -> ResourceSet:
        return self._cut({
            rank: Target(each.host, {type_: ids & _ids(other._targets[rank], type_) for type_, ids in each.children.items()})
            for rank, each in self._targets.items()
            if rank in other._targets
        })  # fmt: skip

    def copy_ranks(self, ranks: Ids) -> ResourceSet:
        """The resources of these ranks; ranks that it does not have are ignored."""
        wanted = IDset(ranks)
        return self._cut({rank: each for rank, each in self._targets.items() if rank in wanted})

    def remove_ranks(self, ranks: Ids) -> ResourceSet:
        return self.copy_ranks(self.ranks - ranks)

    def copy_constraint(self, constraint: Constraint | Mapping[str, Any]) -> ResourceSet:
        """The resources of ranks that satisfy a constraint (RFC 31); a host name also counts as a property of its rank.

        Errors: InputError for plain values that are not a constraint.

        >>> lite = [{"rank": "0-3", "children": {"core": "0"}}]
        >>> execution = {"R_lite": lite, "nodelist": ["n[0-3]"], "properties": {"ssd": "1-2"}}
        >>> str(ResourceSet.parse({"version": 1, "execution": execution}).copy_constraint({"properties": ["^ssd"]}))
        'rank[0,3]/core0'
        """
        wanted = constraints.parse(constraint) if isinstance(constraint, Mapping) else constraint
        return self.copy_ranks(rank for rank in self._targets if constraints.matches(wanted, _Described(self, rank)))

    def remap(self) -> ResourceSet:
        """The same resources renumbered for a child instance: ranks from 0 on in their order, and the ids of each rank
        likewise.

        Ids of GPUs are kept, because they name devices.
        """
        made = self._renumbered(list(self._targets))
        for rank, each in made._targets.items():
            counted = {type_: IDset.of_ranges([(0, len(ids) - 1)]) for type_, ids in each.children.items() if type_ != "gpu"}
            made._targets[rank] = Target(each.host, {**each.children, **counted})
        return made

    def rerank(self, hosts: Hosts) -> ResourceSet:
        """The same resources with ranks from 0 on in the order of a list of its hosts.

        Errors: UsageError for a list of other hosts.

        >>> lite = [{"rank": "0-1", "children": {"core": "0"}}, {"rank": "2", "children": {"core": "0-7"}}]
        >>> r = ResourceSet.parse({"version": 1, "execution": {"R_lite": lite, "nodelist": ["n[0-2]"]}})
        >>> str(r.rerank("n[2,0,1]"))
        'rank0/core[0-7] rank[1-2]/core0'
        """
        wanted = Hostlist(hosts)
        if len(wanted) != self.nnodes:
            than = "fewer" if len(wanted) < self.nnodes else "more"
            raise UsageError(f"{len(wanted)} hosts, {than} than the {self.nnodes} of the resource set", where="hosts")
        by_host: dict[str | None, list[int]] = {}
        for rank, each in reversed(self._targets.items()):
            by_host.setdefault(each.host, []).append(rank)
        order = []
        for host in wanted:
            if not by_host.get(host):
                raise UsageError(f"{excerpt(host)} is not in the resource set, or fewer times", where="hosts")
            order.append(by_host[host].pop())
        return self._renumbered(order)

    # -- as values and text ------------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """R as plain values; :meth:`parse` reads an equal set. Ranks with the same resources share an entry."""
        entries = [
            {"rank": str(IDset(ranks)), "children": {"core": "", **{type_: str(ids) for type_, ids in children}}}
            for ranks, children in self._alike()
        ]
        execution: dict[str, Any] = {"R_lite": entries, "starttime": self.starttime, "expiration": self.expiration}
        if self.nslots:
            execution["nslots"] = self.nslots
        hosts = self.nodelist
        if hosts or not self._targets:
            execution["nodelist"] = [str(hosts)] if hosts else []
        if self.properties:
            execution["properties"] = {name: str(ranks) for name, ranks in sorted(self.properties.items())}
        made: dict[str, Any] = {"version": 1, "execution": execution}
        return made if self.scheduling is None else {**made, "scheduling": self.scheduling}

    def __str__(self) -> str:
        """The short form of Flux's tools: `rank[0-2]/core[0-3],gpu0`."""
        return " ".join(
            f"rank{IDset(ranks).encode(True)}/" + ",".join(f"{type_}{ids.encode(True)}" for type_, ids in children)
            for ranks, children in self._alike()
        )

    def __repr__(self) -> str:
        return f"ResourceSet({str(self)!r})"

    # -- implementation ----------------------------------------------------------------------------------------------

    def _alike(self) -> list[tuple[list[int], list[tuple[str, IDset]]]]:
        """Groups of ranks with the same resources, in order of their first ranks, and these resources by type."""
        order = {type_: at for at, type_ in enumerate(self.types)}
        found: dict[object, tuple[list[int], list[tuple[str, IDset]]]] = {}
        for rank, each in self._targets.items():
            children = sorted(((type_, ids) for type_, ids in each.children.items() if ids), key=lambda child: order[child[0]])
            found.setdefault(tuple(children), ([], children))[0].append(rank)
        return list(found.values())

    def _with(self, targets: Mapping[int, Target], properties: Mapping[str, IDset], scheduling: Any) -> ResourceSet:
        return ResourceSet(
            targets,
            properties={name: ranks for name, ranks in properties.items() if ranks},
            starttime=self.starttime,
            expiration=self.expiration,
            scheduling=scheduling if targets else None,
        )

    def _cut(self, targets: Mapping[int, Target]) -> ResourceSet:
        """These targets without empty ones, and their properties."""
        left = {rank: each for rank, each in targets.items() if any(each.children.values())}
        return self._with(left, {name: ranks & left for name, ranks in self.properties.items()}, self.scheduling)

    def _renumbered(self, order: list[int]) -> ResourceSet:
        number = {rank: at for at, rank in enumerate(order)}
        targets = {number[rank]: each for rank, each in self._targets.items()}
        properties = {name: IDset(number[rank] for rank in ranks) for name, ranks in self.properties.items()}
        return self._with(targets, properties, self.scheduling)


_NONE: Final = IDset()


class _Described:
    """A rank as a target of constraints."""

    def __init__(self, resources: ResourceSet, rank: int) -> None:
        self.rank = rank
        self.hostname = resources[rank].host or ""
        self.state = "up"
        self._properties = resources.properties

    @property
    def properties(self) -> list[str]:
        return [name for name, ranks in self._properties.items() if self.rank in ranks]


def _ids(target: Target | None, type_: str) -> IDset:
    return _NONE if target is None else target.children.get(type_, _NONE)


# -- reading -------------------------------------------------------------------------------------------------------------


def _read(values: object) -> ResourceSet:
    place = Place(("R",))
    given = place.mapping(values, _TOP, ("version", "execution"))
    if type(given["version"]) is not int or given["version"] != 1:
        raise place.at("version").expected("version 1", given["version"])
    place = place.at("execution")
    execution = place.mapping(given["execution"], _EXECUTION, ("R_lite",))
    children = _children(execution["R_lite"], place.at("R_lite"))
    hosts: Iterable[str | None] = [None] * len(children)
    if "nodelist" in execution:
        hosts = _hosts(execution["nodelist"], place.at("nodelist"), len(children))
    targets = {rank: Target(host, children[rank]) for rank, host in zip(sorted(children), hosts, strict=True)}
    start, end = (place.at(key).seconds(execution.get(key, 0)) for key in ("starttime", "expiration"))
    if 0 < end <= start:
        raise place.at("expiration").error(f"the expiration {end!r} is not after the starttime {start!r}", "0 is unset")
    return ResourceSet(
        targets,
        properties=_properties(execution.get("properties", {}), place.at("properties"), IDset(targets)),
        starttime=start,
        expiration=end,
        nslots=place.at("nslots").integer(execution["nslots"]) if "nslots" in execution else 0,
        scheduling=Place(("R", "scheduling")).values(given["scheduling"]) if given.get("scheduling") is not None else None,
    )


def _children(values: object, place: Place) -> dict[int, Mapping[str, IDset]]:
    found: dict[int, Mapping[str, IDset]] = {}
    for number, entry in enumerate(place.sequence(values, empty=True)):
        here = place.at(number)
        given = here.mapping(entry, ("rank", "children"), ("rank", "children"))
        ranks = _idset(given["rank"], here.at("rank"))
        if len(found) + len(ranks) > limits.RANKS_MAX:
            raise LimitExceeded(f"more than {limits.RANKS_MAX} ranks", where=str(here.at("rank")))
        children = {
            here.at("children").text(type_): _idset(ids, here.at("children", type_))
            for type_, ids in here.at("children").mapping(given["children"]).items()
        }
        for rank in ranks:
            if rank in found:
                raise here.at("rank").error(f"rank {rank} is in two entries", "join them")
            found[rank] = children
    return found


def _idset(value: object, place: Place) -> IDset:
    # A single id may be a number, as in flux-core's readers.
    text = str(place.integer(value, 0)) if isinstance(value, int) else value
    try:
        return IDset(place.text(text, empty=True, length=limits.DOCUMENT_BYTES_MAX))
    except InputError as error:
        raise place.refine(error) from None


def _hosts(values: object, place: Place, ranks: int) -> Hostlist:
    texts = [
        place.at(number).text(text, empty=True, length=limits.DOCUMENT_BYTES_MAX)
        for number, text in enumerate(place.sequence(values, empty=True))
    ]
    count = 0
    for number, text in enumerate(texts):
        try:
            count += hostlist.count(text)
        except InputError as error:
            raise place.at(number).refine(error) from None
    if count != ranks:
        raise place.error(f"{count} hosts for {ranks} ranks", "one host for each rank, in ascending order")
    return Hostlist(texts)


def _properties(values: object, place: Place, ranks: IDset) -> dict[str, IDset]:
    found = {name: _idset(place.at(name).text(text, empty=True), place.at(name)) for name, text in place.mapping(values).items()}
    for name, having in found.items():
        if not name or not constraints.RESERVED.isdisjoint(name):
            raise place.error(
                f"{excerpt(name)} is not a property name", f"without any of {' '.join(sorted(constraints.RESERVED))}"
            )
        strays = having - ranks
        if strays:
            raise place.at(name).error(f"ranks {excerpt(str(strays))} are not in R_lite")
    return found
