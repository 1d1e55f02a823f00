"""Resource sets as resource-query accepts them, for update and cancel: ids by rank (RFC 20).

A machine is read by :mod:`fluxres.formats.flux.resource_set`. Here only the execution section is read. The graph decides which
vertices it refers to; the graph that `scheduling` may carry is a separate document (:mod:`.jgf`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from fluxres.documents.document import Document, Place
from fluxres.errors import InputError
from fluxres.syntax import hostlist, idset

NUMBER_MAX: Final = 2**63 - 1
"""Largest number at the end of a host name."""


@dataclass(frozen=True)
class Entry:
    """One entry of R_lite: ranks, and the ids of their children by type."""

    ranks: tuple[int, ...]
    children: Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class ResourceSet:
    """The execution section of R.

    Args:
        hosts: one name per rank, in the order of ranks.
        properties: ranks by property; the key includes any text after `@`.
        starttime: seconds; 0 means unset.
        expiration: seconds; 0 means unset.
    """

    entries: tuple[Entry, ...]
    hosts: tuple[str, ...]
    properties: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    starttime: float = 0.0
    expiration: float = 0.0

    def ranks(self) -> list[int]:
        return sorted(rank for entry in self.entries for rank in entry.ranks)

    def host_of(self) -> dict[int, str]:
        """Host name by rank."""
        return dict(zip(self.ranks(), self.hosts, strict=True))


def read(document: Document) -> ResourceSet:
    """The resource set of a document.

    Cost O(ids named). Errors: InputError with the place.

    >>> from fluxres.documents import yaml_document
    >>> lite = '[{"rank": "0-1", "children": {"core": "0-3"}}]'
    >>> text = f'{{"version": 1, "execution": {{"R_lite": {lite}, "nodelist": ["n[0-1]"]}}}}'
    >>> read(yaml_document.load(text.encode())).host_of()
    {0: 'n0', 1: 'n1'}
    """
    place = Place(document=document)
    given = place.mapping(document.values, (), ("version", "execution"))
    if given["version"] != 1 or isinstance(given["version"], bool):
        raise place.at("version").expected("version 1", given["version"])
    at = place.at("execution")
    execution = at.mapping(given["execution"], (), ("R_lite", "nodelist"))
    lite = at.at("R_lite")
    entries = tuple(_entry(value, lite.at(number)) for number, value in enumerate(lite.sequence(execution["R_lite"])))
    ranks = [rank for entry in entries for rank in entry.ranks]
    if len(set(ranks)) < len(ranks):
        raise lite.error("expected each rank once, got one in two entries")
    hosts = _hosts(execution["nodelist"], at.at("nodelist"))
    if len(hosts) != len(ranks):
        raise at.at("nodelist").error(f"expected {len(ranks)} hosts, one for each rank, got {len(hosts)}")
    properties = at.at("properties").mapping(execution.get("properties", {}))
    return ResourceSet(
        entries,
        hosts,
        {key: _ids(value, at.at("properties", key)) for key, value in properties.items()},
        at.at("starttime").seconds(execution.get("starttime", 0)),
        at.at("expiration").seconds(execution.get("expiration", 0)),
    )


def _entry(value: Any, place: Place) -> Entry:
    given = place.mapping(value, (), ("rank", "children"))
    children = place.at("children").mapping(given["children"])
    ids = {type_: _ids(text, place.at("children", type_)) for type_, text in children.items()}
    return Entry(_ids(given["rank"], place.at("rank")), ids)


def _ids(value: Any, place: Place) -> tuple[int, ...]:
    try:
        return tuple(idset.parse(place.text(value, empty=True)))
    except InputError as error:
        raise place.refine(error) from None


def _hosts(value: Any, place: Place) -> tuple[str, ...]:
    hosts: list[str] = []
    for number, text in enumerate(place.sequence(value, empty=True)):
        at = place.at(number)
        try:
            hosts += hostlist.parse(at.text(text))
        except InputError as error:
            raise at.refine(error) from None
    for host in hosts:
        if suffix(host) > NUMBER_MAX:
            raise place.error(f"host {host[:80]}: its number is larger than {NUMBER_MAX}")
    return tuple(hosts)


def suffix(host: str) -> int:
    """The number at the end of a host name; -1 if there is none.

    >>> suffix("tux007"), suffix("login")
    (7, -1)
    """
    digits = host[len(host.rstrip("0123456789")) :]
    return int(digits) if digits else -1
