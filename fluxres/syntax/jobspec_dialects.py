"""The dialects of jobspec: canonical (RFC 14), version 1 (RFC 25), the forms that Fluxion's reader accepts, and the union of
all.

A dialect restricts the same document, so it is a set of rules applied by one reader. Where the RFC's text, its schema and its
examples disagree, the text decides, except where the RFC's own examples violate it: `total` of a version 1 task is not
compared with the number of slots, and a gpu count of 0 is accepted, as in flux-core. A task may name a slot label that does
not exist, because all of Flux's validators accept this, and such a job runs in Flux. According to the RFC's schema, null
attributes mean no attributes; Fluxion accepts them and flux-core does not.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from fluxres.documents.document import excerpt
from fluxres.documents.place import Place

if TYPE_CHECKING:
    from fluxres.syntax.jobspec_schema import Resource

Dialect = Literal["rfc14", "v1", "fluxion", "any"]

_TASK_KEYS = ("command", "slot", "count", "attributes", "distribution")
_V1_CHILDREN = {"": ("node", "slot"), "node": ("slot",), "slot": ("core", "gpu")}
_FLUXION_VERSION_MAX = 9999


@dataclass(frozen=True, slots=True)
class Rules:
    """What a dialect allows; the base is RFC 14."""

    count: Literal["rfc14", "fluxion"] = "rfc14"
    may_be_none: tuple[str, ...] = ()
    """Types whose count may be 0."""
    task_keys: tuple[str, ...] = ()
    """All keys of a task; empty if sites may add their own."""
    per_task: tuple[str, ...] = ("per_slot", "per_resource", "total")
    duration_required: bool = False
    null_attributes: bool = False
    """Whether `attributes: null` is accepted and means no attributes."""

    def check_version(self, version: int, place: Place) -> None:
        """Refuse a version that this dialect does not have."""

    def check_resources(self, resources: Sequence[Resource], place: Place) -> None:
        """Refuse resources that this dialect does not have."""

    def check_task_keys(self, keys: Iterable[str], place: Place) -> None:
        """Refuse keys of a task that this dialect does not have."""
        for key in keys:
            if self.task_keys and key not in self.task_keys:
                raise place.at(key).error(f"unknown key {excerpt(key)}", f"known are {', '.join(self.task_keys)}")

    def check_tasks(self, tasks: Sequence[Any], place: Place) -> None:
        """Refuse tasks (already read) that this dialect does not have."""


class _V1(Rules):
    """RFC 25: slot>core or node>slot>core, optionally with gpus, with fixed counts; one task."""

    __slots__ = ()

    def check_version(self, version: int, place: Place) -> None:
        if version != 1:
            raise place.expected("version 1", version)

    def check_resources(self, resources: Sequence[Resource], place: Place) -> None:
        self.level(resources, place, "")

    def level(self, resources: Sequence[Resource], place: Place, above: str) -> None:
        allowed = _V1_CHILDREN[above]
        if above != "slot" and len(resources) != 1:
            raise place.error(f"expected exactly one resource, got {len(resources)}", "RFC 25 has one slot, in nodes or not")
        types: list[str] = []
        for number, resource in enumerate(resources):
            here = place.at(number)
            unknown: dict[str, Any] = {"id": resource.ids, "to": resource.to, "between": resource.between}
            unknown |= {"exclusive": above == "slot" and isinstance(resource.exclusive, bool)}
            for key, stated in unknown.items():
                if stated:
                    raise here.error(f"unknown key '{key}'", "RFC 25 does not allow it here")
            if resource.type not in allowed or resource.type in types:
                raise here.at("type").expected(f"{' or '.join(allowed)}{', once each' if types else ''}", resource.type)
            types.append(resource.type)
            here.at("count").integer(resource.count, 0 if resource.type == "gpu" else 1)
            if resource.type in _V1_CHILDREN:
                if not resource.children:
                    raise here.error("the key 'with' is missing")
                self.level(resource.children, here.at("with"), resource.type)
            elif resource.children:
                raise here.at("with").error(f"expected nothing below a {resource.type}")
        if above == "slot" and "core" not in types:
            raise place.error("expected a core in the slot", "RFC 25 requires one")

    def check_tasks(self, tasks: Sequence[Any], place: Place) -> None:
        if len(tasks) != 1:
            raise place.error(f"expected exactly one task, got {len(tasks)}")
        if tasks[0].per == "per_slot" and tasks[0].number != 1:
            raise place.at(0, "count", "per_slot").expected("1", tasks[0].number)


class _Fluxion(Rules):
    """What Fluxion reads and can match: no counts as text, nothing shared below a slot, no two siblings of one type."""

    __slots__ = ()

    def check_version(self, version: int, place: Place) -> None:
        if version > _FLUXION_VERSION_MAX:
            raise place.expected(f"a version up to {_FLUXION_VERSION_MAX}", version)

    def check_resources(self, resources: Sequence[Resource], place: Place) -> None:
        self.level(resources, place, in_slot=False)

    def level(self, resources: Sequence[Resource], place: Place, in_slot: bool) -> None:
        seen: set[str] = set()
        for number, resource in enumerate(resources):
            here = place.at(number)
            if resource.type in seen:
                raise here.at("type").error(
                    f"expected siblings of different types, got {resource.type!r} again", "Fluxion's matcher refuses them"
                )
            seen.add(resource.type)
            if in_slot and resource.exclusive is False:
                raise here.at("exclusive").error(
                    "expected no sharing below a slot, got false", "Fluxion refuses it; RFC 14 allows it"
                )
            if resource.children:
                self.level(resource.children, here.at("with"), in_slot or resource.type == "slot")


RULES: Final[dict[Dialect, Rules]] = {
    "rfc14": Rules(),
    "v1": _V1(
        may_be_none=("gpu",),
        task_keys=("command", "slot", "count"),
        per_task=("per_slot", "total"),
        duration_required=True,
    ),
    "fluxion": _Fluxion(count="fluxion", task_keys=_TASK_KEYS, null_attributes=True),
    "any": Rules(null_attributes=True),
}
"""The rules by dialect name."""
