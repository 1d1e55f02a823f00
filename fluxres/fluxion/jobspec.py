"""Jobspecs as `resource-query` accepts them: the subset of RFC 14 that Fluxion reads, with siblings of one type.

The reader in :mod:`fluxres.syntax.jobspec` refuses siblings of one type, because the other matchers of fluxres give them no
meaning; here sibling slots are alternatives for the flexible traverser. Needs are summed once per request, since every visit of a
vertex compares them with the units available below it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from fluxres import limits
from fluxres.documents.document import Document, Place
from fluxres.errors import LimitExceeded
from fluxres.syntax import constraint as constraints
from fluxres.syntax.constraint import Constraint

SLOT: Final = "slot"
XOR_SLOT: Final = "xor_slot"
KNOWN_TYPES: Final = frozenset(
    (SLOT, XOR_SLOT, "cluster", "rack", "node", "storage_node", "socket", "core", "gpu", "ssd"),
)
"""Types that a request may name on any graph."""
_TOP = ("version", "resources", "tasks", "attributes")
_KEYS = ("type", "count", "unit", "exclusive", "with", "label", "id")
_TASK_KEYS_MAX = 5
_VERSION_MAX = 9999
_BITS = 64
"""Powers beyond twice as many bits exceed every bound and are not computed."""


@dataclass(frozen=True)
class Count:
    """A count: `least` to `most`, in steps of an operator.

    >>> Count(1, 64, "*", 2).up_to(100), Count(1, 64, "*", 2).up_to(10), Count(2, 64, "^", 4).up_to(20)
    (64, 8, 16)
    """

    least: int
    most: int
    operator: str = "+"
    operand: int = 1

    @property
    def largest(self) -> int:
        """The largest count of the series."""
        return self.up_to(limits.COUNT_MAX)

    def up_to(self, available: int) -> int:
        """The largest count of the series up to `available`; 0 if there is none."""
        bound = min(available, self.most)
        if self.least > self.most or self.least > available:
            return 0
        if self.operator == "+":
            return bound - (bound - self.least) % self.operand
        count = self.least
        while self.operand > 1:
            if self.operator == "^" and (count < 2 or count.bit_length() * self.operand > 2 * _BITS):
                break
            larger = count * self.operand if self.operator == "*" else count**self.operand
            if larger > bound:
                break
            count = larger
        return count


@dataclass
class Resource:
    """One resource of a request, with its children."""

    type: str
    count: Count
    exclusive: bool | None = None
    unit: str = ""
    label: str = ""
    children: list[Resource] = field(default_factory=list)
    needs: dict[str, int] = field(default_factory=dict)
    """The minimum of each type below one unit of it."""

    @property
    def is_slot(self) -> bool:
        """Whether it only groups its children."""
        return self.type == SLOT


@dataclass
class Jobspec:
    """A request: resources, duration, constraints."""

    resources: list[Resource]
    duration_s: float = 0.0
    constraint: Constraint | None = None
    queue: str | None = None


def read(document: Document, known: Iterable[str]) -> Jobspec:
    """A request from a document.

    Args:
        known: types of the graph, and types counted by its filters.

    Errors: InputError with the place; LimitExceeded beyond `limits.REQUEST_DEPTH_MAX` levels.
    """

    place = Place(document=document)
    given = place.mapping(document.values, _TOP, _TOP)
    version = place.at("version").integer(given["version"], 1)
    if version > _VERSION_MAX:
        raise place.at("version").expected(f"a version up to {_VERSION_MAX}", version)
    types = KNOWN_TYPES | frozenset(known)
    resources = _resources(given["resources"], place.at("resources"), types, 1)
    _tasks(given["tasks"], place.at("tasks"))
    system = _system(given["attributes"], place.at("attributes"))
    queue = system.get("queue")
    job = Jobspec(resources, queue=None if queue is None else str(queue))
    where = place.at("attributes", "system")
    if "duration" in system:
        job.duration_s = _duration(system["duration"], where.at("duration"))
    if system.get("constraints") is not None:
        job.constraint = constraints.parse(system["constraints"], where.at("constraints"))
    return job


def _resources(values: Any, place: Place, known: frozenset[str], depth: int) -> list[Resource]:
    if depth > limits.REQUEST_DEPTH_MAX:
        raise LimitExceeded(f"more than {limits.REQUEST_DEPTH_MAX} levels of resources", where=str(place))
    listed = place.sequence(values, "a list of resources", empty=depth > 1)
    return [_resource(value, place.at(number), known, depth) for number, value in enumerate(listed)]


def _resource(value: Any, place: Place, known: frozenset[str], depth: int) -> Resource:
    given = place.mapping(value, _KEYS, ("type", "count"))
    type_ = given["type"]
    if not isinstance(type_, str) or type_ not in known:
        raise place.at("type").expected(f"a type of the graph ({', '.join(sorted(known))})", type_)
    exclusive = given.get("exclusive")
    if exclusive is not None and not isinstance(exclusive, bool):
        raise place.at("exclusive").expected("true or false", exclusive)
    _check_scalars(given, place, ("unit", "label", "id"))
    label = str(given.get("label", ""))
    is_slot = type_ in (SLOT, XOR_SLOT)
    if is_slot and not label:
        raise place.error("expected a label, got a slot without one")
    resource = Resource(type_, _count(given["count"], place.at("count")), exclusive, str(given.get("unit", "")), label)
    if "with" in given:
        resource.children = _resources(given["with"], place.at("with"), known, depth + 1)
    if is_slot and not resource.children:
        raise place.error("expected resources below a slot, got none")
    return resource


def _check_scalars(given: Mapping[str, Any], place: Place, keys: Iterable[str]) -> None:
    for key in keys:
        if key in given and (given[key] is None or isinstance(given[key], dict | list)):
            raise place.at(key).expected("text or a number", given[key])


def _count(value: Any, place: Place) -> Count:
    if not isinstance(value, dict):
        count = place.integer(value, 1)
        return Count(count, count)
    given = place.mapping(value, ("min", "max", "operator", "operand"), ("min",))
    least = place.at("min").integer(given["min"], 1)
    if len(given) == 1:
        return Count(least, limits.COUNT_MAX)
    place.mapping(value, ("min", "max", "operator", "operand"), ("min", "max", "operator", "operand"))
    operator = given["operator"]
    if operator not in ("+", "*", "^"):
        raise place.at("operator").expected("+, * or ^", operator)
    if operator == "^" and least < 2:
        raise place.at("min").expected("at least 2 for powers", least)
    most = place.at("max").integer(given["max"], least)
    operand = place.at("operand").integer(given["operand"], 1 if operator == "+" else 2)
    return Count(least, most, operator, operand)


def _tasks(values: Any, place: Place) -> None:
    for number, value in enumerate(place.sequence(values, "a list of tasks", empty=True)):
        _task(value, place.at(number))


def _task(value: Any, place: Place) -> None:
    """Check a task: it has three to five keys, of which the known ones must be valid; sites may add their own."""
    given = place.mapping(value, (), ("command", "slot"))
    if not 3 <= len(given) <= _TASK_KEYS_MAX:
        raise place.error(f"expected 3 to {_TASK_KEYS_MAX} keys, got {len(given)}")
    words = place.at("command").sequence(given["command"], empty=True)
    if any(isinstance(word, dict | list) for word in words):
        raise place.at("command").error("expected a list of words")
    _check_scalars(given, place, ("slot", "distribution"))
    for key in ("count", "attributes"):
        pairs = place.at(key).mapping(given.get(key, {}))
        _check_scalars(pairs, place.at(key), pairs)
        if key == "count" and key in given and len(pairs) != 1:
            raise place.at(key).error(f"expected one entry, got {len(pairs)}")


def _system(attributes: Any, place: Place) -> Mapping[str, Any]:
    if attributes is None:
        return {}
    inside = place.at("system")
    system = inside.mapping(place.mapping(attributes, ("user", "system")).get("system") or {})
    _check_scalars(system, inside, ("queue", "cwd"))
    environment = inside.at("environment").mapping(system.get("environment") or {})
    _check_scalars(environment, inside.at("environment"), environment)
    return system


def _duration(value: Any, place: Place) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        raise place.expected("seconds, 0 or more", value)
    return float(min(value, limits.TIME_MAX_S))


def sum_needs(resources: Sequence[Resource], *, alternatives: bool = False) -> dict[str, int]:
    """Set the needs of every resource; returns the sum over the list.

    Args:
        alternatives: count of sibling slots only what all of them need.
    """
    total: dict[str, int] = {}
    slots: list[dict[str, int]] = []
    for resource in resources:
        resource.needs = sum_needs(resource.children, alternatives=alternatives)
        least = resource.count.least
        needs = {resource.type: least}
        for type_, count in resource.needs.items():
            needs[type_] = needs.get(type_, 0) + least * count
        if resource.is_slot and alternatives:
            slots.append(needs)
        else:
            _add(total, needs)
    if slots:
        _add(total, {type_: min(needs.get(type_, 0) for needs in slots) for type_ in slots[0]})
    return total


def _add(total: dict[str, int], needs: dict[str, int]) -> None:
    for type_, count in needs.items():
        total[type_] = total.get(type_, 0) + count


def shared_in_exclusive(resources: Sequence[Resource], inside: bool = False) -> str | None:
    """The type of a resource with `exclusive: false` below a slot or an exclusive resource, where nothing can be shared."""
    for resource in resources:
        if inside and resource.exclusive is False:
            return resource.type
        held = inside or resource.exclusive is True or resource.type in (SLOT, XOR_SLOT)
        found = shared_in_exclusive(resource.children, held)
        if found is not None:
            return found
    return None


def exclusive_types(resources: Sequence[Resource]) -> set[str]:
    """Types that the request asks for exclusively somewhere."""
    found = {resource.type for resource in resources if resource.exclusive}
    for resource in resources:
        found |= exclusive_types(resource.children)
    return found


def has_labels(resources: Sequence[Resource]) -> bool:
    """Whether anything but a slot has a label."""
    return any((one.label and one.type not in (SLOT, XOR_SLOT)) or has_labels(one.children) for one in resources)
