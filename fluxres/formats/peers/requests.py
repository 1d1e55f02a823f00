"""Requests of HyperQueue tasks and of canary and CTest tests, as requests for a graph.

A jobspec expresses most of them: a number of pools of a type within one node.  What it cannot express, such as the variants of a
task of HyperQueue, or that the slots of one requirement come from one instance, the request carries as its rule.  Whatever is
lost is listed in words beside the request, which also carries the original text.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import orjson

from fluxres import limits
from fluxres.documents import source_text
from fluxres.errors import InputError, LimitExceeded, UsageError
from fluxres.formats.peers.canary import language as canary
from fluxres.formats.peers.canary.allocator import Checkout
from fluxres.formats.peers.ctest import groups as ctest_groups
from fluxres.formats.peers.ctest.allocator import Packing
from fluxres.formats.peers.hyperqueue import request as hyperqueue_request
from fluxres.formats.peers.hyperqueue.command_lines import words_of
from fluxres.formats.peers.inventory import TYPES
from fluxres.formats.peers.jqm import jobs as jqm_jobs
from fluxres.match.workers import Amounts
from fluxres.syntax import count as counts
from fluxres.syntax import duration
from fluxres.syntax.jobspec import Request, Rule
from fluxres.syntax.variants import CPUS, Ask, Variant, resources, type_of
from fluxres.syntax.vertex import SLOT, Vertex, settled

FORMATS: Final = ("hyperqueue", "canary", "ctest", "jqm")
_TASK: Final = "task"
_SUBMIT = re.compile(r"(?:\$[ \t]+)?(?:hq[ \t]+submit\b)?[ \t]*(?=--)")
_ASK_END = re.compile(r"[,;\n]")
_PRIORITY = re.compile(r"""(?:--priority[= \t]+|"priority"[ \t]*:[ \t]*)(-?[0-9]{1,10})\b""")
_ASK = re.compile(r"[A-Za-z0-9/]+[ \t]*=")


@dataclass(frozen=True, slots=True)
class Asked:
    """A request, and the part of the original that it cannot express.

    Args:
        left_out: in words, what only the other system's own rules can honour.
    """

    request: Request
    left_out: list[str]


def parse(text: str, format: str, *, types: Collection[str] = ()) -> Asked:
    """The request of a text in the language of a peer system.

    Args:
        text: for HyperQueue ``gpus=1 cpus=8 compact! | cpus=16``, with a `|` between variants, the options of ``hq submit``, or
            JSON; see also :func:`canary_of` and :func:`ctest`.
        format: one of FORMATS.
        types: types of the graph; a word that is one of them is kept, others are converted as by the readers.

    Errors: UsageError for another format; InputError with the column.

    >>> [vertex.type for vertex in parse("gpus=2 compact!", "hyperqueue").request.vertices()]
    ['slot', 'gpu', 'core']
    """
    if format not in FORMATS:
        raise UsageError(f"no requests of format {format!r}", hint=f"the formats are {', '.join(FORMATS)}")
    if len(text) > limits.REQUEST_TEXT_MAX:
        raise LimitExceeded(f"expected at most {limits.REQUEST_TEXT_MAX} characters, got {len(text)}", where="request")
    if format == "ctest":
        found = ctest(ctest_groups.parse(text), types=types)
    elif format == "jqm":
        found = Asked(jqm_jobs.parse(text), [])
    elif format == "canary":
        found = canary_of(_canary_requests(text), types=types)
    else:
        found = Asked(hyperqueue(variants(text), types=types), [])
    said: dict[str, Any] = {"format": format, "text": text, "left_out": found.left_out}
    if format == "hyperqueue" and (stated := _PRIORITY.search(text)) is not None:
        said["priority"] = int(stated[1])
    user = {**found.request.attributes.get("user", {}), "asked": said}
    return Asked(replace(found.request, attributes={"user": user}), found.left_out)


def chooser(user: Mapping[str, Any]) -> Rule | None:
    """The rule of a request, from the user attributes of its jobspec; None for one without.

    Errors: InputError for a text that is none of its system's.
    """
    asked, kept = user.get("asked"), user.get(jqm_jobs.KEY)
    if isinstance(kept, Mapping):
        return jqm_jobs.rule_of(kept)
    if not isinstance(asked, Mapping) or asked.get("format") not in FORMATS:
        return None
    text = asked.get("text")
    if not isinstance(text, str):
        return None
    return parse(text, str(asked["format"])).request.chooser


def request(source: object, format: str) -> Request:
    """The request of a text or a file. Errors: as :func:`parse`."""
    if not isinstance(source, str | bytes | Path):
        raise UsageError(f"expected text in the language of {format}, got {source!r:.60}", hint="leave the format out")
    if isinstance(source, str) and source != "-":
        text = source
    else:
        data, file, _ = source_text.opened(source)
        text = source_text.decode(data, file)
    return parse(text, format).request


def _slot(inside: Iterable[Vertex], count: int = 1, label: str = _TASK) -> Vertex:
    return Vertex(SLOT, counts.exactly(count), label=label, children=tuple(inside))


def _look(type_name: str) -> Vertex:
    """A pool that must exist and of which nothing is taken."""
    return Vertex(type_name, counts.exactly(1), exclusive=False)


def _pool(type_name: str, amount: int, unit: str | None = None) -> Vertex:
    return Vertex(type_name, counts.exactly(amount), unit)


# -- HyperQueue ------------------------------------------------------------------------------------------------------


def hyperqueue(asked: Sequence[Variant], *, types: Collection[str] = ()) -> Request:
    """The request of a task: everything in one node, or whole nodes, by the first variant that a node can serve.

    `resources` is the nearest that a jobspec says to the first.

    >>> found = hyperqueue([hyperqueue_request.variant([hyperqueue_request.parse("gpus=1.5 scatter")])])
    >>> [(v.type, v.count.min) for v in found.vertices()], found.chooser.variants[0].asks[0].policy
    ([('slot', 1), ('gpu', 1), ('gpu', 1), ('share', 5000), ('core', 1)], 'scatter')
    """
    return Request(resources(asked[0], types=types), chooser=Amounts(tuple(asked)))


def variants(text: str) -> tuple[Variant, ...]:
    """The variants of a text: JSON, or what ``hq submit`` takes, or ``NAME=AMOUNT [POLICY]…``; `|` divides variants."""
    stripped = text.strip()
    if stripped.startswith(("{", "[")):
        return _exported(stripped)
    found, column = [], 1
    for part in text.split("|"):
        start = _SUBMIT.match(part.strip())
        found.append(_asked(part, column) if start is None else _submitted(part.strip()[start.end() :]))
        column += len(part) + 1
    return hyperqueue_request.variants(found)


def _asked(text: str, column: int) -> Variant:
    """The variant of requests one after another; a comma may stand between them."""
    asks = []
    for part in _ASK_END.split(text):
        starts = [found.start() for found in _ASK.finditer(part)]
        if part.strip() and (not starts or part[: starts[0]].strip()):
            starts = [0]  # no name at the beginning: an error with its place
        for start, end in pairwise([*starts, len(part)]):
            asks.append(hyperqueue_request.parse(part[start:end].rstrip(), column=column + start))
        column += len(part) + 1
    if not asks:
        raise InputError("asks for nothing", where=f"request:{column - len(text) - 1}", hint="write NAME=AMOUNT, such as gpus=2")
    return hyperqueue_request.variant(asks)


def _json(text: str) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise InputError(f"expected JSON: {error.msg}", where=f"request:{error.lineno}:{error.colno}") from None


def _exported(text: str) -> tuple[Variant, ...]:
    values = _json(text)
    listed = values if isinstance(values, list) else values.get("variants", [values])
    if not isinstance(listed, list) or not all(isinstance(each, Mapping) for each in listed):
        raise InputError("expected a variant or a list of them", where="request", hint="each has a key 'resources'")
    return hyperqueue_request.variants([hyperqueue_request.of_plain(each) for each in listed])


def _submitted(line: str) -> Variant:
    """The request in the options of ``hq submit``."""
    asks: list[Ask] = []
    nodes, min_time_s, weight = 0, 0.0, 1.0
    words = list(words_of(line))
    at = 0
    while at < len(words):
        option, equals, value = words[at].partition("=")
        at += 1
        if option in ("--", "") or not option.startswith("--"):
            break  # here the command of the task begins
        if not equals:
            if at == len(words):
                raise InputError("expected a value, got the end", where=f"{option}"[:60])
            value = words[at]
            at += 1
        if option in ("--resource", "--resources"):
            asks.append(hyperqueue_request.parse(value))
        elif option == "--cpus":
            asks.append(hyperqueue_request.parse(f"{CPUS}={value}"))
        elif option == "--nodes":
            if not re.fullmatch(r"[0-9]{1,10}", value):
                raise InputError(f"expected a number, got {value!r:.60}", where="--nodes")
            nodes = int(value)
        elif option == "--time-request":
            min_time_s = duration.read(value)
        elif option == "--weight":
            weight = _number(value, "--weight")
        elif option == "--priority":
            if not re.fullmatch(r"-?[0-9]{1,10}", value) or not -(1 << 31) <= int(value) < 1 << 31:
                raise InputError(f"expected a whole number of 32 bits, got {value!r:.60}", where="--priority")
        elif option not in ("--time-limit", "--name", "--array", "--max-fails", "--cwd", "--env", "--pin"):
            hint = "the options are --cpus, --resource, --nodes, --time-request and --weight"
            raise InputError(f"unknown option {option[:40]}", where="request", hint=hint)
    return hyperqueue_request.variant(asks, nodes=nodes, min_time_s=min_time_s, weight=weight)


def _number(text: str, where: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InputError(f"expected a number, got {text!r:.60}", where=where) from None


# -- canary ----------------------------------------------------------------------------------------------------------


def canary_of(requests: Sequence[canary.NodeRequest], *, types: Collection[str] = ()) -> Asked:
    """The request of a test: what it needs on each of its nodes; equal nodes are combined.

    >>> found = canary_of(canary.requests({"cpus": 4}, {"cpus": 2}))
    >>> [(v.type, v.count.min, v.is_exclusive) for v in found.request.vertices()]
    [('node', 2, True), ('slot', 1, True), ('core', 2, True)]
    """
    if not requests:
        raise InputError("asks for no nodes", where="request")
    alike: dict[canary.NodeRequest, int] = {}
    for each in requests:
        alike[each] = alike.get(each, 0) + 1
    made = []
    for number, (each, count) in enumerate(alike.items()):
        amounts: dict[str, int] = {}
        inside: list[Vertex] = []
        for item in each.items:
            if item.type in canary.NODES:
                continue  # the node itself, which the request already contains
            type_name = type_of(_known(item.type, types), types)
            if isinstance(item.slots, bool) or not isinstance(item.slots, int) or item.slots < 1:
                raise InputError(
                    f"expected a whole number of slots, got {item.slots!r:.40}", where=item.type, hint="ask for a whole number"
                )
            if item.slots == 1:
                amounts[type_name] = amounts.get(type_name, 0) + 1
            else:
                inside.append(_pool(type_name, item.slots))
        inside = [*(_pool(type_name, amount) for type_name, amount in amounts.items()), *inside]
        label = _TASK if len(alike) == 1 else f"{_TASK}{number}"
        slots = (_slot(inside, label=label),) if inside else ()
        made.append(Vertex("node", counts.exactly(count), exclusive=each.exclusive, children=slots))
    return Asked(Request(settled(made), chooser=Checkout(tuple(requests))), [])


def _known(word: str, types: Collection[str]) -> str:
    """The type that an item names, or the singular of it if only that is known."""
    known = {*types, *TYPES}
    return word if word in known or f"{word}s" not in known else f"{word}s"


def _canary_requests(text: str) -> list[canary.NodeRequest]:
    """Requests as JSON, one per node, or parameters such as ``cpus=4 gpus=2``."""
    if not text.lstrip().startswith(("{", "[")):
        return _of_parameters(canary.parse_counts(text))
    values = _json(text)
    if isinstance(values, Mapping) and "items" not in values:
        return _of_parameters(values)
    listed = values if isinstance(values, list) else [values]
    return [_node_request(each, at) for at, each in enumerate(listed)]


def _of_parameters(parameters: Mapping[str, Any]) -> list[canary.NodeRequest]:
    named = {name if f"{name}s" in parameters else _known(name, ()): value for name, value in parameters.items()}
    wanted = canary.infer(named, named)
    nodes = wanted.pop("nodes", None)
    if nodes is None:
        if sum(wanted.values()) > limits.REQUEST_VERTICES_MAX:
            raise LimitExceeded(f"more than {limits.REQUEST_VERTICES_MAX} items", where="request", hint="ask for fewer")
        items = (canary.Item(word, 1) for word, count in wanted.items() for _ in range(count))
        return [canary.NodeRequest(tuple(items))]
    return canary.requests(wanted, {word: max(count, 1) for word, count in wanted.items()}, nodes=nodes)


def _node_request(values: object, at: int) -> canary.NodeRequest:
    items = values.get("items") if isinstance(values, Mapping) else None
    if not isinstance(values, Mapping) or not isinstance(items, list):
        raise InputError("expected {'items': [{'type': …, 'slots': …}]}", where=f"request[{at}]")
    made = []
    for number, item in enumerate(items):
        where = f"request[{at}].items[{number}]"
        if not isinstance(item, Mapping) or not isinstance(item.get("type"), str) or not item["type"]:
            raise InputError("expected {'type': NAME, 'slots': N}", where=where)
        made.append(canary.Item(item["type"], item.get("slots", 1)))
    return canary.NodeRequest(tuple(made), bool(values.get("exclusive", False)))


# -- CTest ----------------------------------------------------------------------------------------------------------


def ctest(groups: Sequence[ctest_groups.Group], *, types: Collection[str] = ()) -> Asked:
    """The request of a test: a slot for each of its processes.

    The slots of each requirement come from one instance, which the rule of the request sees to.

    >>> found = ctest(ctest_groups.parse("2,gpus:2;fpgas:1"))
    >>> [(v.type, v.count.min, v.label) for v in found.request.vertices()][:3]
    [('slot', 2, 'group0'), ('gpu', 2, None), ('slot', 1, 'group1')]
    """
    made: list[Vertex] = []
    for number, group in enumerate(groups):
        inside = [
            _pool(type_of(need.type, types), need.slots) if need.slots else _look(type_of(need.type, types))
            for need in group.needs
        ]
        if group.count and inside:
            made.append(_slot(inside, group.count, f"group{number}"))
    if not made:
        raise InputError("asks for no resources", where="RESOURCE_GROUPS", hint="such as 2,gpus:1")
    return Asked(Request(settled(made), chooser=Packing(tuple(groups))), [])
