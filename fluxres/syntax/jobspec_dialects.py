"""The dialects of jobspec: canonical (RFC 14), version 1 (RFC 25), the forms that Fluxion's reader takes, and what any takes.

Each is the same document with fewer liberties, so a dialect is a set of rules laid over one reader.  Where the RFC's text,
its schema and its examples disagree, the text decides, except where its own examples break it: `total` of a version 1
task is not held against the number of slots, and a gpu count of 0 is taken, as flux-core does.  That a task names a slot which
has no such label is no error in any of Flux's validators, and none here: such a job runs in Flux.  Null attributes are
none, says the RFC's schema; Fluxion takes them and flux-core does not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from fluxres.syntax.place import Place

Dialect = Literal["rfc14", "v1", "fluxion", "any"]

_TASK_KEYS = ("command", "slot", "count", "attributes", "distribution")
_V1_CHILDREN = {"": ("node", "slot"), "node": ("slot",), "slot": ("core", "gpu")}
_FLUXION_VERSION_MAX = 9999


@dataclass(frozen=True, slots=True)
class Rules:
    """What a dialect allows; the base is RFC 14."""

    count: Literal["rfc14", "fluxion"] = "rfc14"
    may_be_none: tuple[str, ...] = ()
    """Types of which none may be asked for."""
    task_keys: tuple[str, ...] = ()
    """All keys of a task; empty when sites may have their own."""
    per_task: tuple[str, ...] = ("per_slot", "per_resource", "total")
    duration_required: bool = False
    null_attributes: bool = False
    """Whether `attributes: null` says that there are none."""

    def check_version(self, version: int, place: Place) -> None:
        """Refuse a version that is not of this dialect."""

    def check_resources(self, values: Any, place: Place) -> None:
        """Refuse resources (already read as RFC 14) that this dialect does not have."""

    def check_tasks(self, tasks: Sequence[Any], place: Place) -> None:
        """Refuse tasks (already read) that this dialect does not have."""


class _V1(Rules):
    """RFC 25: one of slot>core, node>slot>core, and these with gpus, in fixed counts; one task."""

    __slots__ = ()

    def check_version(self, version: int, place: Place) -> None:
        if version != 1:
            raise place.expected("version 1", version)

    def check_resources(self, values: Any, place: Place) -> None:
        self.level(values, place, "")

    def level(self, values: Sequence[Mapping[str, Any]], place: Place, above: str) -> None:
        allowed = _V1_CHILDREN[above]
        if above != "slot" and len(values) != 1:
            raise place.error(f"expected exactly one resource, got {len(values)}", "RFC 25 has one slot, in nodes or not")
        types: list[str] = []
        for number, vertex in enumerate(values):
            here = place.at(number)
            keys = {"type", "count", "unit", "with", "label"} | ({"exclusive"} if above != "slot" else set())
            here.mapping(vertex, tuple(sorted(keys)))
            if vertex["type"] not in allowed or vertex["type"] in types:
                raise here.at("type").expected(f"{' or '.join(allowed)}{', once each' if types else ''}", vertex["type"])
            types.append(vertex["type"])
            here.at("count").integer(vertex["count"], 0 if vertex["type"] == "gpu" else 1)
            if vertex["type"] in _V1_CHILDREN:
                here.mapping(vertex, required=("with",))
                self.level(vertex["with"], here.at("with"), vertex["type"])
            elif "with" in vertex:
                raise here.at("with").error(f"expected nothing below a {vertex['type']}")
        if above == "slot" and "core" not in types:
            raise place.error("expected a core in the slot", "RFC 25 makes it compulsory")

    def check_tasks(self, tasks: Sequence[Any], place: Place) -> None:
        if len(tasks) != 1:
            raise place.error(f"expected exactly one task, got {len(tasks)}")
        if tasks[0].per == "per_slot" and tasks[0].number != 1:
            raise place.at(0, "count", "per_slot").expected("1", tasks[0].number)


class _Fluxion(Rules):
    """What Fluxion reads and can match: no text counts, nothing shared below a slot, no two siblings of one type."""

    __slots__ = ()

    def check_version(self, version: int, place: Place) -> None:
        if version > _FLUXION_VERSION_MAX:
            raise place.expected(f"a version up to {_FLUXION_VERSION_MAX}", version)

    def check_resources(self, values: Any, place: Place) -> None:
        self.level(values, place, in_slot=False)

    def level(self, values: Sequence[Mapping[str, Any]], place: Place, in_slot: bool) -> None:
        seen: set[str] = set()
        for number, vertex in enumerate(values):
            here = place.at(number)
            if vertex["type"] in seen:
                raise here.at("type").error(
                    f"expected types that differ among siblings, got {vertex['type']!r} again", "Fluxion's matcher refuses them"
                )
            seen.add(vertex["type"])
            if in_slot and vertex.get("exclusive") is False:
                raise here.at("exclusive").error(
                    "expected no sharing below a slot, got false", "Fluxion refuses it; RFC 14 has it"
                )
            self.level(vertex.get("with", ()), here.at("with"), in_slot or vertex["type"] == "slot")


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
"""The rules by name of dialect."""
