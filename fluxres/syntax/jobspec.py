"""Jobspecs: what a job asks for, from plain values into frozen ones and back (Flux RFC 14 and RFC 25).

One reading for everybody.  The matcher wants exclusivity decided, counts and constraints parsed and labels checked; a
user wants `resources[0].with[1].count: expected …`.  What differs between canonical jobspec, version 1 and the forms
that Fluxion takes is a matter of the `dialect`, whose rules stand in `jobspec_dialects.py`.

Values come parsed: files, YAML and lines are the business of the document readers, and says lines through `position`.
JSON is the exception, because that is how jobspecs travel.  The reader recurses once a level, and levels are bounded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise
from typing import Any, Final, Literal

import orjson

from fluxres import limits
from fluxres.errors import InputError, LimitExceeded
from fluxres.syntax import constraint as constraints
from fluxres.syntax import count as counts
from fluxres.syntax import idset
from fluxres.syntax.constraint import Constraint
from fluxres.syntax.count import Count
from fluxres.syntax.jobspec_dialects import RULES, Dialect, Rules
from fluxres.syntax.jobspec_system import check_attributes
from fluxres.syntax.place import Place, Position

SLOT: Final = "slot"
_TOP = ("version", "resources", "tasks", "attributes")
_VERTEX = ("type", "count", "unit", "exclusive", "label", "id", "to", "between", "with")
_TASK = ("command", "slot", "count", "attributes", "distribution")
_PER_TASK = ("per_slot", "per_resource", "total")


@dataclass(frozen=True, slots=True)
class Vertex:
    """One resource of a request, with what must be below it.

    `exclusive` is as written; `is_exclusive` is what holds: as written, else false outside slots, true for a slot
    and everything below (RFC 14). Build vertices by hand without it and pass them through :func:`settled`.
    """

    type: str
    count: Count
    unit: str | None = None
    exclusive: bool | None = None
    label: str | None = None
    ids: str | None = None
    """The RFC's `id`: text that names the acceptable ids."""
    children: tuple[Vertex, ...] = ()
    is_exclusive: bool = False
    to: str | None = None
    """The pool (path, URI or uuid, or a name in the graph) to which units of a graph are asked for. Not in RFC 14."""
    between: str | None = None
    """`node`: units of a graph are asked for between the nodes of the request. Not in RFC 14."""

    @property
    def is_directed(self) -> bool:
        """Whether it says where units of a graph lead."""
        return self.to is not None or self.between is not None

    @property
    def is_slot(self) -> bool:
        """Whether it only groups what is below it."""
        return self.type == SLOT

    @property
    def id_ranges(self) -> list[tuple[int, int]] | None:
        """The acceptable ids as ranges, when `ids` is an idset; None when there is none, or it names pools otherwise."""
        try:
            return None if self.ids is None else idset.ranges(self.ids)
        except InputError:
            return None


@dataclass(frozen=True, slots=True)
class Task:
    """What runs in the slots of a label, and how often: `number` times per slot, per resource of a type, or in total."""

    command: tuple[str, ...]
    slot: str
    per: Literal["per_slot", "per_resource", "total"] = "per_slot"
    number: int = 1
    resource_type: str | None = None
    attributes: Mapping[str, Any] | None = field(default=None, hash=False)
    distribution: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """Keys of the site (RFC 14 leaves them free)."""


@dataclass(frozen=True, slots=True)
class Request:
    """A job's request. Mappings in it are private copies, to be read only."""

    resources: tuple[Vertex, ...]
    tasks: tuple[Task, ...] = ()
    attributes: Mapping[str, Any] = field(default_factory=dict, hash=False)
    version: int = 1
    duration_s: float | None = None
    """Seconds asked for; None when none is set (0 in a jobspec says the same)."""
    constraint: Constraint | None = None
    parts: tuple[int, ...] = ()
    """Of several requests asked as one (`joined`), how many of `resources` each has; empty for one request."""

    @property
    def by_part(self) -> list[tuple[Vertex, ...]]:
        """`resources`, by the request that asks for them."""
        ends = [*accumulate(self.parts)] or [len(self.resources)]
        return [self.resources[start:end] for start, end in pairwise([0, *ends])]

    @property
    def system(self) -> Mapping[str, Any]:
        """`attributes.system`, empty when there is none."""
        found: Mapping[str, Any] = self.attributes.get("system", {})
        return found

    @property
    def stray_slots(self) -> list[str]:
        """Slots that tasks name and the resources do not have. Flux runs such a job, but hardly as it was meant."""
        labels = {vertex.label for vertex in self.vertices() if vertex.is_slot}
        return list(dict.fromkeys(task.slot for task in self.tasks if task.slot not in labels))

    @property
    def queue(self) -> str | None:
        """The queue it was submitted to."""
        return self.system.get("queue")

    def vertices(self) -> Iterable[Vertex]:
        """All resource vertices in pre-order."""
        return preorder(self.resources)


def preorder(vertices: Sequence[Vertex]) -> Iterator[Vertex]:
    """Resource vertices with all below them."""
    todo = list(reversed(vertices))
    while todo:
        vertex = todo.pop()
        yield vertex
        todo += reversed(vertex.children)


def joined(requests: Sequence[Request]) -> Request:
    """Several requests as one, with the constraint of the first.  What each says of itself alone stays told apart.

    >>> node, core = Vertex("node", counts.exactly(1)), Vertex("core", counts.exactly(4))
    >>> joined([Request((node, core)), Request((core,))]).parts
    (2, 1)
    """
    vertices = tuple(vertex for request in requests for vertex in request.resources)
    return Request(vertices, constraint=requests[0].constraint, parts=tuple(len(request.resources) for request in requests))


def parse(values: object, *, dialect: Dialect = "rfc14", position: Position | None = None) -> Request:
    """A jobspec from plain values.

    Args:
        values: what JSON or YAML gives: a mapping of version, resources, tasks and attributes.
        dialect: `rfc14` canonical, `v1` RFC 25, `fluxion` what Fluxion's reader takes, `any` what one of them takes.
        position: says the line of a path of keys, for messages.

    Cost O(length). Errors: InputError with the place; LimitExceeded beyond `limits.REQUEST_DEPTH_MAX` levels,
    `limits.REQUEST_VERTICES_MAX` vertices or `limits.COUNT_MAX`. Sources: RFC 14, RFC 25.

    >>> core = {"type": "core", "count": "2-8:2:*"}
    >>> slot = {"type": "slot", "count": 4, "label": "task", "with": [core]}
    >>> task = {"command": ["app"], "slot": "task", "count": {"per_slot": 1}}
    >>> job = parse({"version": 999, "resources": [slot], "tasks": [task], "attributes": {"system": {"duration": 60}}})
    >>> job.resources[0].children[0].is_exclusive, job.duration_s
    (True, 60.0)
    >>> core["count"] = 0
    >>> parse({"version": 999, "resources": [slot], "tasks": [task], "attributes": {}})
    Traceback (most recent call last):
    fluxres.errors.InputError: resources[0].with[0].count: expected an integer >= 1, ... got 0
    """
    place, rules = Place(position=position), RULES[dialect]
    given = place.mapping(values, _TOP, _TOP)
    version = place.at("version").integer(given["version"])
    rules.check_version(version, place.at("version"))
    resources = _resources(given["resources"], place.at("resources"), rules)
    stated: object = {} if given["attributes"] is None and rules.null_attributes else given["attributes"]
    attributes = place.at("attributes").values(place.at("attributes").mapping(stated, ("system", "user")))
    check_attributes(attributes, place.at("attributes"), rules)
    system = attributes.get("system", {})
    constraint = system.get("constraints")
    return Request(
        resources,
        _tasks(given["tasks"], place.at("tasks"), rules),
        attributes,
        version,
        float(system["duration"]) if system.get("duration") else None,
        constraints.parse(constraint, place.at("attributes", "system", "constraints")) if constraint is not None else None,
    )


def parse_json(text: str | bytes, *, dialect: Dialect = "rfc14") -> Request:
    """A jobspec from JSON. Errors: InputError with line and column, else as :func:`parse`."""
    if len(text) > limits.DOCUMENT_BYTES_MAX:
        raise LimitExceeded(f"expected at most {limits.DOCUMENT_BYTES_MAX} bytes, got {len(text)}", where="jobspec")
    try:
        values = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise InputError(f"expected JSON: {error.msg}", where=f"jobspec:{error.lineno}:{error.colno}") from None
    return parse(values, dialect=dialect)


def parse_resources(values: object, *, dialect: Dialect = "rfc14", position: Position | None = None) -> tuple[Vertex, ...]:
    """The resources section alone, as shapes and short options give it. Errors: as :func:`parse`.

    >>> [(v.type, v.is_exclusive) for v in parse_resources([{"type": "node", "count": 2}])]
    [('node', False)]
    """
    return _resources(values, Place(("resources",), position), RULES[dialect])


def settled(resources: Iterable[Vertex], *, in_slot: bool = False, depth: int = 1) -> tuple[Vertex, ...]:
    """The same vertices with `is_exclusive` as RFC 14 has it; for those that were built by hand.

    Errors: LimitExceeded beyond `limits.REQUEST_DEPTH_MAX` levels.
    """
    if depth > limits.REQUEST_DEPTH_MAX:
        raise LimitExceeded(f"expected at most {limits.REQUEST_DEPTH_MAX} levels of resources", where="resources")
    return tuple(
        replace(
            vertex,
            is_exclusive=(in_slot or vertex.is_slot) if vertex.exclusive is None else vertex.exclusive,
            children=settled(vertex.children, in_slot=in_slot or vertex.is_slot, depth=depth + 1) if vertex.children else (),
        )
        for vertex in resources
    )


def to_plain(request: Request) -> dict[str, Any]:
    """The jobspec as plain values; :func:`parse` reads an equal one back. Cost O(length).

    `duration_s` and `constraint` are written over what the attributes say, so a request made by hand keeps them.
    """
    attributes = Place().values(request.attributes)
    system = dict(attributes.get("system", {}))
    if (request.duration_s or 0) != system.get("duration", 0):
        system["duration"] = request.duration_s or 0
    stated = system.get("constraints")
    if request.constraint is None:
        system.pop("constraints", None)
    elif stated is None or constraints.parse(stated) != request.constraint:
        system["constraints"] = constraints.to_plain(request.constraint)
    if system or "system" in attributes:
        attributes["system"] = system
    return {
        "version": request.version,
        "resources": resources_to_plain(request.resources),
        "tasks": [_task_to_plain(task) for task in request.tasks],
        "attributes": attributes,
    }


def resources_to_plain(resources: Iterable[Vertex]) -> list[dict[str, Any]]:
    """The resources section as plain values.

    >>> resources_to_plain(parse_resources([{"type": "core", "count": "2+", "exclusive": True}]))
    [{'type': 'core', 'count': {'min': 2}, 'exclusive': True}]
    """
    found = []
    for vertex in resources:
        made: dict[str, Any] = {"type": vertex.type, "count": vertex.count.to_plain()}
        stated = {"unit": vertex.unit, "exclusive": vertex.exclusive, "label": vertex.label, "id": vertex.ids}
        stated |= {"to": vertex.to, "between": vertex.between}
        made |= {key: value for key, value in stated.items() if value is not None}
        if vertex.children:
            made["with"] = resources_to_plain(vertex.children)
        found.append(made)
    return found


def _resources(values: object, place: Place, rules: Rules) -> tuple[Vertex, ...]:
    reader = _Resources(rules)
    found = reader.vertices(values, place, in_slot=False, depth=1)
    rules.check_resources(values, place)
    return found


class _Resources:
    """Reads one resources section: what must be unique or bounded over all of it."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.labels: dict[str, str] = {}
        self.number = 0

    def vertices(self, values: object, place: Place, in_slot: bool, depth: int) -> tuple[Vertex, ...]:
        if depth > limits.REQUEST_DEPTH_MAX:
            raise LimitExceeded(f"expected at most {limits.REQUEST_DEPTH_MAX} levels of resources", where=str(place))
        found = place.sequence(values, "a list of resources")
        self.number += len(found)
        if self.number > limits.REQUEST_VERTICES_MAX:
            raise LimitExceeded(f"expected at most {limits.REQUEST_VERTICES_MAX} resources", where=str(place))
        return tuple(self.vertex(value, place.at(number), in_slot, depth) for number, value in enumerate(found))

    def vertex(self, value: object, place: Place, in_slot: bool, depth: int) -> Vertex:
        given = place.mapping(value, _VERTEX, ("type", "count"))
        type_name = place.at("type").text(given["type"], length=limits.NAME_LENGTH_MAX)
        slot = type_name == SLOT
        exclusive = place.at("exclusive").boolean(given["exclusive"]) if "exclusive" in given else None
        unit, label, ids, to, between = (
            place.at(key).text(given[key], length=length) if key in given else None
            for key, length in (
                ("unit", limits.NAME_LENGTH_MAX),
                ("label", limits.NAME_LENGTH_MAX),
                ("id", limits.REQUEST_TEXT_MAX),
                ("to", limits.REQUEST_TEXT_MAX),
                ("between", limits.NAME_LENGTH_MAX),
            )
        )
        if slot and "label" not in given:
            raise place.error("expected a label, as on every slot", "tasks name the slot by it")
        if slot and "with" not in given:
            raise place.error("expected resources under `with`, as in every slot")
        if to is not None or between is not None:
            self.check_directed(given, place, slot)
        if label is not None and slot:
            if label in self.labels:
                raise place.at("label").error(f"expected a label of its own, got {label!r}, which {self.labels[label]} has")
            self.labels[label] = str(Place(place.path))
        return Vertex(
            type_name,
            self.count(given["count"], type_name, place.at("count")),
            unit,
            exclusive,
            label,
            ids,
            self.vertices(given["with"], place.at("with"), in_slot or slot, depth + 1) if "with" in given else (),
            (in_slot or slot) if exclusive is None else exclusive,
            to,
            between,
        )

    def check_directed(self, given: Mapping[str, Any], place: Place, slot: bool) -> None:
        hint = 'such as {"type": "network", "count": 10, "to": "network:/core0"} or {…, "between": "node"}'
        key = "to" if "to" in given else "between"
        if slot or "with" in given:
            raise place.at(key).error("expected units of a graph, which have nothing below them", hint)
        if "to" in given and "between" in given:
            raise place.error("expected one of `to` and `between`, got both", hint)
        if given.get("between", "node") != "node":
            raise place.at("between").expected("node", given["between"])

    def count(self, value: object, type_name: str, place: Place) -> Count:
        if type_name in self.rules.may_be_none and value == 0 and type(value) is int:
            return counts.NOTHING
        try:
            return counts.parse(value, dialect=self.rules.count)
        except InputError as error:
            raise place.refine(error) from None


def _tasks(values: object, place: Place, rules: Rules) -> tuple[Task, ...]:
    found = place.sequence(values, "a list of tasks")
    tasks = tuple(_task(value, place.at(number), rules) for number, value in enumerate(found))
    rules.check_tasks(tasks, place)
    return tasks


def _task(value: object, place: Place, rules: Rules) -> Task:
    given = place.mapping(value, rules.task_keys, ("command", "slot", "count"))
    command = place.at("command").sequence(given["command"], "a list of texts")
    per, number, type_name = _task_count(given["count"], place.at("count"), rules)
    attributes = place.at("attributes").mapping(given["attributes"]) if "attributes" in given else None
    return Task(
        tuple(place.at("command", at).text(word, empty=True, length=1 << 20) for at, word in enumerate(command)),
        place.at("slot").text(given["slot"]),
        per,
        number,
        type_name,
        None if attributes is None else place.at("attributes").values(attributes),
        place.at("distribution").text(given["distribution"]) if "distribution" in given else None,
        place.values({key: below for key, below in given.items() if key not in _TASK}),
    )


def _task_count(value: object, place: Place, rules: Rules) -> tuple[Any, int, str | None]:
    given = place.mapping(value, _PER_TASK)
    if len(given) != 1:
        raise place.error(f"expected exactly one of {', '.join(_PER_TASK)}, got {len(given)}")
    ((per, stated),) = given.items()
    if per not in rules.per_task:
        raise place.error(f"expected {' or '.join(rules.per_task)}, got {per}", "RFC 25 has no other")
    below = place.at(per)
    if per != "per_resource":
        return per, below.integer(stated), None
    each = below.mapping(stated, ("type", "count"), ("type", "count"))
    return per, below.at("count").integer(each["count"]), below.at("type").text(each["type"])


def _task_to_plain(task: Task) -> dict[str, Any]:
    number: Any = {"type": task.resource_type, "count": task.number} if task.resource_type is not None else task.number
    made: dict[str, Any] = {"command": list(task.command), "slot": task.slot, "count": {task.per: number}}
    if task.attributes is not None:
        made["attributes"] = Place().values(task.attributes)
    if task.distribution is not None:
        made["distribution"] = task.distribution
    return made | dict(Place().values(task.extra))
