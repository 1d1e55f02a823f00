"""Requests: what a job asks for, from a jobspec (Flux RFC 14 and RFC 25), a shape or options, and back.

:mod:`fluxres.syntax.jobspec_schema` has the form of the document.  Here its counts and constraints are parsed, exclusivity is
decided, and labels are checked.

The dialects are canonical jobspec (RFC 14), version 1 (RFC 25), the forms that Fluxion's reader accepts, and the union of all.  A
dialect restricts the same document, so it is a set of rules applied by one reader. Where the RFC's text, its schema and its
examples disagree, the text decides, except where the RFC's own examples violate it: `total` of a version 1 task is not
compared with the number of slots, and a gpu count of 0 is accepted, as in flux-core. A task may name a slot label that does
not exist, because all of Flux's validators accept this, and such a job runs in Flux. According to the RFC's schema, null
attributes mean no attributes; Fluxion accepts them and flux-core does not.

A workload asks for the same few things again and again: ten thousand jobs, a dozen jobspecs.  Reading one takes as long as
finding its pools, so :func:`as_request` keeps what it read by content.
"""

from __future__ import annotations

import marshal
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from itertools import accumulate, pairwise
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

import msgspec

from fluxres import limits
from fluxres.clock import Length, positive_ticks, seconds
from fluxres.documents.document import Document, Key, Place, excerpt, path_text
from fluxres.errors import InputError, LimitExceeded, UsageError
from fluxres.syntax import constraint as constraints
from fluxres.syntax import count as counts
from fluxres.syntax import options, shape
from fluxres.syntax.constraint import Constraint
from fluxres.syntax.count import Count
from fluxres.syntax.vertex import SLOT, Vertex, preorder

if TYPE_CHECKING:
    from fluxres.syntax import jobspec_schema as schema


Dialect = Literal["rfc14", "v1", "fluxion", "any"]

_TASK_KEYS = ("command", "slot", "count", "attributes", "distribution")
_V1_CHILDREN = {"": ("node", "slot"), "node": ("slot",), "slot": ("core", "gpu")}
_FLUXION_VERSION_MAX = 9999


At = Callable[..., Place]
"""The place of keys from the top of a document, for messages."""


class Rules(msgspec.Struct, frozen=True):
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

    def check_version(self, version: int, at: At) -> None:
        """Refuse a version that this dialect does not have."""

    def check_resources(self, resources: Sequence[schema.Resource], at: At) -> None:
        """Refuse resources that this dialect does not have."""

    def check_task_keys(self, keys: Iterable[str], at: At, number: int) -> None:
        """Refuse keys of a task that this dialect does not have."""
        for key in keys if self.task_keys else ():
            if key not in self.task_keys:
                raise at("tasks", number, key).error(f"unknown key {excerpt(key)}", f"known are {', '.join(self.task_keys)}")

    def check_tasks(self, tasks: Sequence[Any], at: At) -> None:
        """Refuse tasks (already read) that this dialect does not have."""


class _V1(Rules, frozen=True):
    """RFC 25: slot>core or node>slot>core, optionally with gpus, with fixed counts; one task."""

    def check_version(self, version: int, at: At) -> None:
        if version != 1:
            raise at("version").expected("version 1", version)

    def check_resources(self, resources: Sequence[schema.Resource], at: At) -> None:
        self.level(resources, at("resources"), "")

    def level(self, resources: Sequence[schema.Resource], place: Place, above: str) -> None:
        allowed = _V1_CHILDREN[above]
        if above != "slot" and len(resources) != 1:
            raise place.error(f"expected exactly one resource, got {len(resources)}", "RFC 25 has one slot, in nodes or not")
        types: list[str] = []
        for number, resource in enumerate(resources):
            here = place.at(number)
            unknown: dict[str, Any] = {"id": resource.ids, "to": resource.to, "between": resource.between}
            unknown["properties"] = resource.properties
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

    def check_tasks(self, tasks: Sequence[Any], at: At) -> None:
        if len(tasks) != 1:
            raise at("tasks").error(f"expected exactly one task, got {len(tasks)}")
        if tasks[0].per == "per_slot" and tasks[0].number != 1:
            raise at("tasks", 0, "count", "per_slot").expected("1", tasks[0].number)


class _Fluxion(Rules, frozen=True):
    """What Fluxion reads and can match: no counts as text, nothing shared below a slot, no two siblings of one type."""

    def check_version(self, version: int, at: At) -> None:
        if version > _FLUXION_VERSION_MAX:
            raise at("version").expected(f"a version up to {_FLUXION_VERSION_MAX}", version)

    def check_resources(self, resources: Sequence[schema.Resource], at: At) -> None:
        self.level(resources, at("resources"), in_slot=False)

    def level(self, resources: Sequence[schema.Resource], place: Place, in_slot: bool) -> None:
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


PerTask = Literal["per_slot", "per_resource", "total"]
PER_TASK: Final[tuple[PerTask, ...]] = ("per_slot", "per_resource", "total")


@dataclass(frozen=True, slots=True)
class Task:
    """What runs in the slots of a label, and how often: `number` times per slot, per resource of a type, or in total."""

    command: tuple[str, ...]
    slot: str
    per: PerTask = "per_slot"
    number: int = 1
    resource_type: str | None = None
    attributes: Mapping[str, Any] | None = field(default=None, hash=False)
    distribution: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """Keys of the site (RFC 14 leaves them free)."""


class Rule:
    """The rule of another system that picks the units of a request: a value, equal for equal requests.

    A request only carries it; :class:`fluxres.match.chooser.Chooser` says what rules do.
    """

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Request:
    """What a job asks for. Mappings in it are private copies, to be read only."""

    resources: tuple[Vertex, ...]
    tasks: tuple[Task, ...] = ()
    attributes: Mapping[str, Any] = field(default_factory=dict, hash=False)
    version: int = 1
    duration_s: float | None = None
    """Seconds asked for, infinity for no end; None when none is set (0 in a jobspec says the same)."""
    constraint: Constraint | None = None
    parts: tuple[int, ...] = ()
    """Of several requests asked as one (`joined`), how many of `resources` each has; empty for one request."""
    chooser: Rule | None = None
    """The rule of another system that picks the units; `resources` is then what the request asks for as far as a jobspec can
    say.
    """

    @classmethod
    def parse(cls, source: Wanted | bytes | Path, *, duration_s: Length | None = None, format: str | None = None) -> Request:
        """A request from any form.

        Args:
            source: a shape (RFC 46) such as ``slot=4/[core=2;gpu=1]``; options such as ``-N4 -c8`` or ``--nodes=4 --time 1h``; a
                jobspec (RFC 14, RFC 25) as values, JSON or YAML text; a Path to a file with one; ``-`` for the standard input.
            duration_s: seconds, in place of those of the jobspec.
            format: `hyperqueue`, `canary` or `ctest` for text in the language of one of these; what is lost of it is listed in
                ``attributes["user"]["asked"]["left_out"]`` (:mod:`fluxres.formats.peers.requests`).

        Errors: InputError with file, line, column and place in the document.

        >>> Request.parse("slot=4/[core=2;gpu=1]", duration_s=3600).duration_s
        3600.0
        >>> [vertex.type for vertex in Request.parse("gpus=2", format="hyperqueue").vertices()]
        ['slot', 'gpu', 'core']
        """
        if format is not None:
            found: Request = import_module(_PEERS).request(source, format)
        elif isinstance(source, Path | bytes) or source == "-":
            found = _of_document(source)
        else:
            found = as_request(source)
        if duration_s is None:
            return found
        return replace(found, duration_s=seconds(positive_ticks(duration_s)))

    @property
    def by_part(self) -> list[tuple[Vertex, ...]]:
        """`resources`, by the request that asks for them."""
        if not self.parts:
            return [self.resources]
        ends = accumulate(self.parts)
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
        """The partition it names; Flux calls it a queue."""
        return self.system.get("queue") if self.attributes else None

    def vertices(self) -> Iterable[Vertex]:
        return preorder(self.resources)


def joined(requests: Sequence[Request]) -> Request:
    """Several requests as one, with the constraint and the partition of the first.  What each says about itself still applies
    only to it.

    >>> node, core = Vertex("node", counts.exactly(1)), Vertex("core", counts.exactly(4))
    >>> joined([Request((node, core)), Request((core,))]).parts
    (2, 1)
    """
    vertices = tuple(vertex for request in requests for vertex in request.resources)
    first, parts = requests[0], tuple(len(request.resources) for request in requests)
    attributes = {"system": {"queue": first.queue}} if "queue" in first.system else {}
    return Request(vertices, attributes=attributes, constraint=first.constraint, parts=parts)


def _chooser(attributes: Mapping[str, Any]) -> Rule | None:
    """The rule of a request that was written in the language of another system, from what its jobspec keeps of that."""
    user = attributes.get("user")
    if user is None or not isinstance(user, Mapping) or not ("asked" in user or "jqm" in user):
        return None
    found: Rule | None = import_module(_PEERS).chooser(user)
    return found


# -- any form ----------------------------------------------------------------------------------------------------------

Wanted = Request | str | Mapping[str, Any]
"""A request; a shape, short options or a jobspec as text; a jobspec as plain values."""

KEPT: Final = 1024
"""Contents that are remembered."""
LENGTH_MAX: Final = 16 * 1024
"""Longer contents are not remembered: together they would be large, and they take long anyway."""
_MARSHAL: Final = 2
"""The format of marshal in which equal values are equal bytes, however they are shared between each other."""
_PEERS: Final = "fluxres.formats.peers.requests"
"""What reads the languages of HyperQueue, canary and CTest; loaded when one of them is named."""
_LINES_OF_DOCUMENT: Final = re.compile(r"(?:[ \t]*(?:#[^\n]*|---[^\n]*)?\n)*[ \t]*(?:\{|['\"]?[A-Za-z_]\w*['\"]?[ \t]*:(?:\s|$))")

Content = TypeVar("Content")
Read = TypeVar("Read")

_known: dict[str | bytes, Request] = {}
"""What was read, by its content: a shape, options, or values as marshal writes them."""
_documents: dict[str, Request] = {}
"""The jobspecs that were read, by their text."""
_known_resources: dict[tuple[Dialect, bytes], tuple[Vertex, ...]] = {}
"""Resources of JSON documents, by dialect and content: most jobs of a site differ in their command and duration only."""


def as_request(wanted: Wanted) -> Request:
    """The request that a text, plain values or a request mean.

    Cost: that of a look-up for contents that were read before.
    Errors: InputError with the place.

    >>> as_request("slot=2/core") is as_request("slot=2/" + "core")
    True
    """
    if isinstance(wanted, Request):
        return wanted
    if isinstance(wanted, str):
        return _known.get(wanted) or _documents.get(wanted) or _of_text(wanted)
    if isinstance(wanted, Mapping):
        return _of_values(wanted)
    raise UsageError(f"a request is a shape, a jobspec or a Request, not {wanted!r:.80}")


def _keep(known: dict[Content, Read], content: Content, found: Read, length: int) -> Read:
    """Remember what was read, unless its content is too long."""
    if length <= LENGTH_MAX:
        if len(known) >= KEPT:
            del known[next(iter(known))]
        known[content] = found
    return found


def _of_text(text: str) -> Request:
    stripped = text.strip()
    if stripped.startswith("{") or ("\n" in stripped and _LINES_OF_DOCUMENT.match(text)):
        from fluxres.documents.yaml_document import parse_text

        return _keep(_documents, text, parse(parse_text(text), dialect="any"), len(text))
    found = of_options(options.words(stripped)) if stripped.startswith("-") else of_shape(stripped)
    return _keep(_known, text, found, len(text))


def of_options(given: options.Given, request: Request | None = None) -> Request:
    """The request of options with values as typed.

    Args:
        request: what they apply to, in place of options that say how much.

    Errors: those of `options.resources`, `constraint` and `duration_s`; UsageError if nothing says how much.

    >>> of_options({"N": "2", "time": "1:00:00"}).duration_s
    3600.0
    """
    if request is None:
        sizes = options.resources(given)
        if sizes is None:
            message = "expected a number of nodes, tasks or cores"
            raise UsageError(message, where=options.spelling(given), hint="such as -N4 or -n8 -c2")
        request = Request(sizes)
    found, duration_s, name = options.constraint(given), options.duration_s(given), options.partition(given)
    if name is not None:
        attributes = {**request.attributes, "system": {**request.system, "queue": name}}
        request = replace(request, attributes=attributes)
    if found is not None:
        found = found if request.constraint is None else constraints.And((request.constraint, found))
        request = replace(request, constraint=found)
    if duration_s is None:
        return request
    return replace(request, duration_s=seconds(positive_ticks(duration_s, "time")))


def of_shape(text: str) -> Request:
    """The request of a shape (RFC 46), in which a name in braces is a property. Errors: those of :func:`parse_shape`."""
    found = parse_shape(text)
    properties = _of_all_nodes(found)
    if not properties:
        return Request(found)
    required = tuple(name for name in properties if not name.startswith("^"))
    excluded = tuple(name[1:] for name in properties if name.startswith("^"))
    return Request(_without_properties(found), constraint=constraints.Properties(required, excluded))


def _of_all_nodes(resources: Sequence[Vertex]) -> tuple[str, ...]:
    """The properties that a constraint on nodes can express, which is matched much faster: those of all nodes, if nothing else is
    sought outside of nodes, and nothing else has any.
    """
    found: set[tuple[str, ...]] = set()
    todo = list(resources)
    while todo:
        vertex = todo.pop()
        if vertex.type == "node":
            if any(below.properties or below.type == "node" for below in preorder(vertex.children)):
                return ()
            found.add(vertex.properties)
        elif vertex.properties or not vertex.children or (vertex.is_exclusive and not vertex.is_slot):
            return ()
        todo += () if vertex.type == "node" else vertex.children
    return found.pop() if len(found) == 1 else ()


def _without_properties(resources: Sequence[Vertex]) -> tuple[Vertex, ...]:
    return tuple(
        msgspec.structs.replace(vertex, properties=(), children=_without_properties(vertex.children)) for vertex in resources
    )


def _of_document(source: str | bytes | Path) -> Request:
    from fluxres.documents.source_text import opened
    from fluxres.documents.yaml_document import parse as parse_document

    data, file, path = opened(source)
    text = data.decode("utf-8", "surrogateescape")
    if (known := _documents.get(text)) is not None:
        return known
    document = parse_document(data, file=file, path=path)
    return _keep(_documents, text, parse(document, dialect="any"), len(data))


def _of_values(values: Mapping[str, Any]) -> Request:
    # By the bytes that marshal writes, which differ for 1, 1.0 and true.
    plain: Any = values
    try:
        written = marshal.dumps(plain, _MARSHAL)
    except ValueError:  # another mapping than a dict, a value of a class, or too deep
        return parse(values, dialect="any")
    found = _known.get(written)
    if found is None:
        found = parse(values, dialect="any")
        if marshal.loads(written) == values:  # a number of NumPy comes back as something else
            _keep(_known, written, found, len(written))
    return found


def parse_shape(text: str) -> tuple[Vertex, ...]:
    """The resources of a shape (RFC 46). A name in braces that is no key of a resource is a property: `node{ssd,!slow}`.

    Errors: as `shape.parse` and :func:`parse_resources`.

    >>> [(v.type, v.count.min, v.label) for v in parse_shape("slot=4/[core=8;gpu]")]
    [('slot', 4, 'task')]
    """
    found = shape.parse(text, keep_counts=True)
    if "{" in text:
        _name_properties(found)
    return parse_resources(found)


_KEYS: Final = frozenset(("type", "count", "unit", "exclusive", "label", "id", "to", "between", "with", "properties"))


def _name_properties(resources: Sequence[shape.Resource]) -> None:
    """Gather the names in braces under `properties`."""
    for resource in resources:
        names = [key for key, value in resource.items() if key not in _KEYS and isinstance(value, bool)]
        said = [("" if resource.pop(key) != key.startswith("!") else "^") + key.removeprefix("!") for key in names]
        if said:
            resource["properties"] = [*resource.get("properties", ()), *said]
        _name_properties(resource.get("with", ()))


# -- jobspecs ----------------------------------------------------------------------------------------------------------


def parse(source: object, *, dialect: Dialect = "rfc14") -> Request:
    """A jobspec from a document, or from plain values.

    Args:
        source: a Document, or what JSON or YAML gives: a mapping of version, resources, tasks and attributes.
        dialect: `rfc14` canonical, `v1` RFC 25, `fluxion` what Fluxion's reader takes, `any` what one of them takes.

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
    fluxres.errors.InputError: resources[0].with[0].count: expected a whole number of at least 1, ... got 0
    """
    from fluxres.documents.typed import convert
    from fluxres.syntax.jobspec_schema import Jobspec, Rest

    document = source if isinstance(source, Document) else Document(source, "", "", is_made=True)
    reader, content = _Reader(document, RULES[dialect]), _content_of_resources(document)
    known = None if content is None else _known_resources.get((dialect, content))
    if known is not None:
        return reader.request(convert(document, Rest), known)
    if isinstance(document.values, Mapping):
        _require_bounded(document, document.values.get("resources"))
    found = reader.request(convert(document, Jobspec))
    if content is not None:
        _keep(_known_resources, (dialect, content), found.resources, len(content))
    return found


def _content_of_resources(document: Document) -> bytes | None:
    """The resources of a JSON document as marshal writes them; None for other documents."""
    if not document.is_json or not isinstance(document.values, dict):
        return None
    try:
        return marshal.dumps(document.values.get("resources"), _MARSHAL)
    except ValueError:  # too deep
        return None


def parse_resources(values: object, *, dialect: Dialect = "rfc14") -> tuple[Vertex, ...]:
    """The resources section alone, as a shape gives it. Errors: as :func:`parse`.

    >>> [(v.type, v.is_exclusive) for v in parse_resources([{"type": "node", "count": 2}])]
    [('node', False)]
    """
    from fluxres.documents.typed import convert
    from fluxres.syntax.jobspec_schema import Resources

    document = Document({"resources": values}, "", "", is_made=True)
    _require_bounded(document, values)
    return _Reader(document, RULES[dialect]).resources(convert(document, Resources).resources)


def _require_bounded(document: Document, resources: object) -> None:
    """Refuse resources that are too deep to recurse over, or that aliases make too many to convert in memory."""
    level: list[tuple[tuple[Key, ...], Any]] = [(("resources",), resources)]
    depth = number = 0
    while level := [(path, found) for path, found in level if isinstance(found, list | tuple)]:
        depth += 1
        number += sum(len(found) for _, found in level)
        if depth > limits.REQUEST_DEPTH_MAX:
            message = f"expected at most {limits.REQUEST_DEPTH_MAX} levels of resources"
            raise LimitExceeded(message, where=document.where(level[0][0]))
        if number > limits.REQUEST_VERTICES_MAX:
            message = f"expected at most {limits.REQUEST_VERTICES_MAX} resources"
            raise LimitExceeded(message, where=document.where(level[0][0]))
        level = [
            ((*path, at, "with"), vertex.get("with"))
            for path, found in level
            for at, vertex in enumerate(found)
            if isinstance(vertex, Mapping)
        ]


class _Reader:
    """Makes a request of a converted document, and checks what the types of the document do not say."""

    def __init__(self, document: Document, rules: Rules) -> None:
        self.document = document
        self.rules = rules
        self.labels: dict[str, Place] = {}

    def at(self, *path: Key) -> Place:
        return Place(path, self.document)

    def request(self, given: schema.Jobspec | schema.Rest, known: tuple[Vertex, ...] | None = None) -> Request:
        """The request of a document.

        Args:
            known: its resources, if they were read before.
        """
        values: Any = self.document.values
        self.rules.check_version(given.version, self.at)
        resources = self.resources(given.resources) if known is None else known
        tasks = tuple([self.task(task, values["tasks"][number], number) for number, task in enumerate(given.tasks)])
        self.rules.check_tasks(tasks, self.at)
        attributes = self.attributes(given.attributes, values["attributes"])
        system = attributes.get("system", {})
        constraint = system.get("constraints")
        return Request(
            resources,
            tasks,
            attributes,
            given.version,
            float(system["duration"]) if system.get("duration") else None,
            None if constraint is None else constraints.parse(constraint, self.at("attributes", "system", "constraints")),
            chooser=_chooser(attributes),
        )

    def resources(self, given: list[schema.Resource]) -> tuple[Vertex, ...]:
        found = self.vertices(given, ("resources",), in_slot=False)
        self.rules.check_resources(given, self.at)
        return found

    def vertices(self, given: list[schema.Resource], path: tuple[Key, ...], in_slot: bool) -> tuple[Vertex, ...]:
        return tuple([self.vertex(one, (*path, number), in_slot) for number, one in enumerate(given)])

    def vertex(self, given: schema.Resource, path: tuple[Key, ...], in_slot: bool) -> Vertex:
        is_slot = given.type == SLOT
        if is_slot:
            self.check_slot(given, self.at(*path))
        if given.to or given.between:
            _check_directed(given, self.at(*path))
        if given.properties:
            _check_properties(given, self.at(*path, "properties"))
        if given.count == 0 and type(given.count) is int and given.type in self.rules.may_be_none:
            count = counts.NOTHING
        else:
            try:
                found = given.count
                count = found if isinstance(found, Count) else counts.parse(found, dialect=self.rules.count)
            except InputError as error:
                raise self.at(*path, "count").refine(error) from None
        in_slot = in_slot or is_slot
        exclusive = given.exclusive if isinstance(given.exclusive, bool) else None
        return Vertex(
            given.type,
            count,
            given.unit or None,
            exclusive,
            given.label or None,
            given.ids or None,
            self.vertices(given.children, (*path, "with"), in_slot) if given.children else (),
            in_slot if exclusive is None else exclusive,
            given.to or None,
            given.between or None,
            tuple(given.properties or ()),
        )

    def check_slot(self, given: schema.Resource, place: Place) -> None:
        if not given.label:
            raise place.error("expected a label, as on every slot", "tasks name the slot by it")
        if not given.children:
            raise place.error("expected resources under `with`, as in every slot")
        other = self.labels.setdefault(given.label, place)
        if other is not place:
            has = path_text(other.path)
            raise place.at("label").error(f"expected a label of its own, got {given.label!r}, which {has} has")

    def task(self, given: schema.Task, values: Mapping[str, Any], number: int) -> Task:
        self.rules.check_task_keys(values, self.at, number)
        per, amount, resource_type = self.task_count(given.count, number)
        extra = {key: value for key, value in values.items() if key not in given.__struct_fields__}
        return Task(
            tuple(given.command),
            given.slot,
            per,
            amount,
            resource_type,
            self.free(given.attributes, "tasks", number, "attributes") if isinstance(given.attributes, dict) else None,
            given.distribution or None,
            self.free(extra, "tasks", number),
        )

    def task_count(self, given: schema.TaskCount, number: int) -> tuple[PerTask, int, str | None]:
        stated: list[tuple[PerTask, Any]] = [(per, found) for per in PER_TASK if (found := getattr(given, per))]
        if len(stated) != 1:
            raise self.at("tasks", number, "count").error(f"expected exactly one of {', '.join(PER_TASK)}, got {len(stated)}")
        ((per, amount),) = stated
        if per not in self.rules.per_task:
            message = f"expected {' or '.join(self.rules.per_task)}, got {per}"
            raise self.at("tasks", number, "count").error(message, "RFC 25 has no other")
        return (per, amount.count, amount.type) if per == "per_resource" else (per, amount, None)

    def attributes(self, given: schema.Attributes | None, values: Mapping[str, Any] | None) -> Mapping[str, Any]:
        if given is None or values is None:
            if not self.rules.null_attributes:
                raise self.at("attributes").expected("a mapping", None)
            return {}
        system: Any = given.system or None
        if self.rules.duration_required and not (system and isinstance(system.duration, float)):
            raise self.at("attributes", "system").error("the key 'duration' is missing")
        if system and system.cwd and not system.cwd.startswith("/"):
            raise self.at("attributes", "system", "cwd").expected("an absolute path", system.cwd)
        found: Mapping[str, Any] = self.free(values, "attributes")
        return found

    def free(self, values: Any, *path: Key) -> Any:
        """A private copy of free-form values, bounded. Those of a JSON text are private, and fewer than its characters."""
        document = self.document
        if document.is_json and len(document.text) <= limits.REQUEST_VALUES_MAX:
            return values
        return self.at(*path).values(values)


def _check_directed(given: schema.Resource, place: Place) -> None:
    hint = 'such as {"type": "network", "count": 10, "to": "network:/core0"} or {…, "between": "node"}'
    if given.type == SLOT or given.children:
        raise place.at("to" if given.to else "between").error("expected units of a graph, which have nothing below them", hint)
    if given.to and given.between:
        raise place.error("expected one of `to` and `between`, got both", hint)
    if given.between and given.between != "node":
        raise place.at("between").expected("node", given.between)


def _check_properties(given: schema.Resource, place: Place) -> None:
    if given.type == SLOT:
        raise place.error("a slot has no properties", "give them to what is in it, such as slot/node{ssd}")
    constraints.parse({"properties": given.properties}, place)


def to_plain(request: Request) -> dict[str, Any]:
    """The jobspec as plain values; :func:`parse` reads an equal one back. Cost O(length).

    `duration_s` and `constraint` are written over what the attributes say, so a request made by hand keeps them.
    """
    attributes = Place().values(request.attributes)
    system = dict(attributes.get("system", {}))
    duration = 0 if request.duration_s in (None, inf) else request.duration_s  # a jobspec cannot tell no end from none given
    if duration != system.get("duration", 0):
        system["duration"] = duration
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


def to_document(request: Request) -> dict[str, Any]:
    """The same as a complete jobspec: a request without tasks, as a shape is one, gets a task, which a jobspec needs."""
    return to_plain(request if request.tasks else replace(request, tasks=(Task(("program",), "task"),)))


def resources_to_plain(resources: Iterable[Vertex]) -> list[dict[str, Any]]:
    """The resources section as plain values.

    >>> resources_to_plain(parse_resources([{"type": "core", "count": "2+", "exclusive": True}]))
    [{'type': 'core', 'count': {'min': 2}, 'exclusive': True}]
    """
    found = []
    for vertex in resources:
        made: dict[str, Any] = {"type": vertex.type, "count": vertex.count.to_plain()}
        stated: dict[str, Any] = {"unit": vertex.unit, "exclusive": vertex.exclusive, "label": vertex.label, "id": vertex.ids}
        stated |= {"to": vertex.to, "between": vertex.between, "properties": list(vertex.properties) or None}
        made |= {key: value for key, value in stated.items() if value is not None}
        if vertex.children:
            made["with"] = resources_to_plain(vertex.children)
        found.append(made)
    return found


def _task_to_plain(task: Task) -> dict[str, Any]:
    number: Any = {"type": task.resource_type, "count": task.number} if task.resource_type is not None else task.number
    made: dict[str, Any] = {"command": list(task.command), "slot": task.slot, "count": {task.per: number}}
    if task.attributes is not None:
        made["attributes"] = Place().values(task.attributes)
    if task.distribution is not None:
        made["distribution"] = task.distribution
    return made | dict(Place().values(task.extra))
