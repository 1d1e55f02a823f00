"""What a description changes of a machine on a server: the value that `apply` and `diff` of a local graph return."""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

from fluxres.model.difference import EdgeChange, SubtreeChange


class RemoteChange(NamedTuple):
    """One attribute that changes in the same way in some pools.

    Args:
        before, after: its values; None where there is none.
        paths: of the pools.
    """

    attribute: str
    before: object
    after: object
    paths: list[str]


class RemoteDifference:
    """What differs between a machine and a description of it; false if nothing does.

    Args:
        document: as `fluxres diff --json` prints it.
    """

    def __init__(self, document: dict[str, Any]) -> None:
        self.document = document

    def __bool__(self) -> bool:
        return bool(self.document["different"])

    def __repr__(self) -> str:
        return f"<RemoteDifference: {self.summary}>"

    @property
    def summary(self) -> str:
        """The numbers of differences, in words."""
        return str(self.document["summary"])

    @property
    def drained(self) -> list[str]:
        """After `apply`: the pools that are gone from the description and stay until no job holds them."""
        return list(self.document.get("drained", ()))

    @property
    def added(self) -> list[SubtreeChange]:
        """Pools that only the description has, without what is below them."""
        return [SubtreeChange(one["path"], one["pools"]) for one in self.document["added"]]

    @property
    def removed(self) -> list[SubtreeChange]:
        """Pools that the description does not have, without what is below them."""
        return [SubtreeChange(one["path"], one["pools"], tuple(one["jobs"])) for one in self.document["removed"]]

    @property
    def moved(self) -> list[tuple[str, str]]:
        """Present and new path of pools with the same uuid or host name."""
        return [(one["from"], one["to"]) for one in self.document["moved"]]

    @cached_property
    def changed(self) -> list[RemoteChange]:
        """What changes in pools that stay."""
        found: dict[tuple[str, str], RemoteChange] = {}
        for one in self.document["changed"]:
            key = one["attribute"], repr((one["before"], one["after"]))
            alike = found.setdefault(key, RemoteChange(one["attribute"], one["before"], one["after"], []))
            alike.paths.append(one["path"])
        return list(found.values())

    @property
    def edges(self) -> list[EdgeChange]:
        """Edges between pools that stay."""
        return [EdgeChange(**one) for one in self.document["edges"]]

    @property
    def graphs(self) -> list[tuple[str, str | None, str | None]]:
        """Auxiliary graphs that appear, go, or change between ``hierarchy`` and ``graph``: name, before, after."""
        return [(one["graph"], one["before"], one["after"]) for one in self.document["graphs"]]
