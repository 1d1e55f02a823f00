"""Requests of HyperQueue tasks and of canary and CTest tests, as requests for a graph.

A jobspec expresses most of them: a number of pools of a type within one node. It cannot express which groups of a node to use,
that all of a resource is wanted, or that the slots of one requirement must come from one instance. Whatever it cannot express is
listed in words beside the request, which also carries the original text.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
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
from fluxres.formats.peers.hyperqueue.definitions import CPUS
from fluxres.formats.peers.hyperqueue.request import ALL, Ask, Variant
from fluxres.formats.peers.hyperqueue.tokens import PER_UNIT
from fluxres.formats.peers.instances import type_of
from fluxres.formats.peers.inventory import FRACTION_UNIT, TYPES
from fluxres.formats.peers.jqm import jobs as jqm_jobs
from fluxres.match.chooser import Chooser
from fluxres.syntax import count as counts
from fluxres.syntax import duration
from fluxres.syntax.count import Count
from fluxres.syntax.jobspec import Request
from fluxres.syntax.range import Range
from fluxres.syntax.vertex import SLOT, Vertex, settled

FORMATS: Final = ("hyperqueue", "canary", "ctest", "jqm")
#: type of the pool that holds the ten-thousandths of an index
SHARE: Final = "share"
_TASK: Final = "task"
_SUBMIT = re.compile(r"(?:\$[ \t]+)?(?:hq[ \t]+submit\b)?[ \t]*(?=--)")
_ASK_END = re.compile(r"[,;\n]")


@dataclass(frozen=True, slots=True)
class Asked:
    """A request, and the part of the original that it cannot express.

    Args:
        left_out: in words, what only the other system's own rules can honour.
    """

    request: Request
    left_out: list[str]


def parse(text: str, format: str, *, types: Collection[str] = (), sums: Collection[str] = ()) -> list[Asked]:
    """The requests of a text in the language of a peer system; several are alternatives.

    Args:
        text: see :func:`hyperqueue`, :func:`canary_of` and :func:`ctest`.
        format: one of FORMATS.
        types: types of the graph; a word that is one of them is kept, others are converted as by the readers.
        sums: types that are amounts in ten-thousandths.

    Errors: UsageError for another format; InputError with the column.

    >>> [vertex.type for vertex in parse("gpus=2 compact!", "hyperqueue")[0].request.vertices()]
    ['slot', 'gpu', 'core']
    """
    if format not in FORMATS:
        raise UsageError(f"no requests of format {format!r}", hint=f"the formats are {', '.join(FORMATS)}")
    if len(text) > limits.REQUEST_TEXT_MAX:
        raise LimitExceeded(f"expected at most {limits.REQUEST_TEXT_MAX} characters, got {len(text)}", where="request")
    if format == "ctest":
        found = [ctest(ctest_groups.parse(text), types=types)]
    elif format == "jqm":
        found = [Asked(jqm_jobs.parse(text), [])]
    elif format == "canary":
        found = [canary_of(_canary_requests(text), types=types)]
    else:
        found = [hyperqueue(variant, types=types, sums=sums) for variant in _hyperqueue_variants(text)]
    asked = []
    for each in found:
        said = {"format": format, "text": text[: limits.VALUE_LENGTH_MAX], "left_out": each.left_out}
        user = {**each.request.attributes.get("user", {}), "asked": said}
        made = replace(each.request, attributes={"user": user})
        asked.append(Asked(made, each.left_out))
    return asked


def chooser(user: Mapping[str, Any]) -> Chooser | None:
    """The rule of a request, from the user attributes of its jobspec; None for one without.

    Errors: InputError for a text that is none of its system's.
    """
    asked, kept = user.get("asked"), user.get(jqm_jobs.KEY)
    if isinstance(kept, Mapping):
        return jqm_jobs.rule_of(kept)
    if not isinstance(asked, Mapping) or asked.get("format") not in ("canary", "ctest", "jqm"):
        return None
    text = asked.get("text")
    if not isinstance(text, str) or len(text) >= limits.VALUE_LENGTH_MAX:  # it may have been cut
        return None
    return parse(text, str(asked["format"]))[0].request.chooser


def request(source: object, format: str) -> Request:
    """The one request of a text or a file. Errors: as :func:`parse`; UsageError for several alternatives."""
    if not isinstance(source, str | bytes | Path):
        raise UsageError(f"expected text in the language of {format}, got {source!r:.60}", hint="leave the format out")
    if isinstance(source, str) and source != "-":
        text = source
    else:
        data, file, _ = source_text.opened(source)
        text = source_text.decode(data, file)
    found = parse(text, format)
    if len(found) > 1:
        hint = "fluxres.formats.peers.requests.parse gives each"
        raise UsageError(f"{len(found)} alternatives, and a request is one of them", where="request", hint=hint)
    return found[0].request


def _slot(inside: Iterable[Vertex], count: int = 1, label: str = _TASK) -> Vertex:
    return Vertex(SLOT, counts.exactly(count), label=label, children=tuple(inside))


def _look(type_name: str) -> Vertex:
    """A pool that must exist and of which nothing is taken."""
    return Vertex(type_name, counts.exactly(1), exclusive=False)


def _pool(type_name: str, amount: int, unit: str | None = None) -> Vertex:
    return Vertex(type_name, counts.exactly(amount), unit)


# -- HyperQueue ------------------------------------------------------------------------------------------------------


def hyperqueue(variant: Variant, *, types: Collection[str] = (), sums: Collection[str] = ()) -> Asked:
    """The request of one variant of a task: everything in one node, or exclusive nodes.

    A fraction asks for ten-thousandths of one index (the machine is read with `fractions`), or, for a type in `sums`, of the
    amount. A time request becomes the duration.

    >>> found = hyperqueue(hyperqueue_request.variant([hyperqueue_request.parse("gpus=1.5 scatter")]))
    >>> [(v.type, v.count.min) for v in found.request.vertices()], found.left_out
    ([('slot', 1), ('gpu', 1), ('gpu', 1), ('share', 5000), ('core', 1)], ['gpus: policy scatter'])
    """
    if variant.nodes:
        node = Vertex("node", counts.exactly(variant.nodes), exclusive=True)
        left_out = ["nodes: all must be in one group of workers"] if variant.nodes > 1 else []
        return Asked(Request(settled([_slot([node])]), duration_s=variant.min_time_s or None), left_out)
    inside: list[Vertex] = []
    left_out = []
    for ask in variant.asks:
        inside += _vertices(ask, type_of(ask.name, types), left_out, is_sum=type_of(ask.name, types) in sums)
    if variant.weight != 1.0:
        left_out.append(f"weight {variant.weight:g} among variants")
    return Asked(Request(settled([_slot(inside)]), duration_s=variant.min_time_s or None), left_out)


def _vertices(ask: Ask, type_name: str, left_out: list[str], *, is_sum: bool) -> list[Vertex]:
    if ask.policy not in (None, "compact"):
        left_out.append(f"{ask.name}: policy {ask.policy}")
    if ask.amount == ALL:
        left_out.append(f"{ask.name}: all of it; the request asks for as much as available, but at least one")
        return [Vertex(type_name, Count(Range(1, None)))]
    if is_sum:
        return [_pool(type_name, ask.amount, FRACTION_UNIT)]
    units, fraction = divmod(ask.amount, PER_UNIT)
    found = [_pool(type_name, units)] if units else []
    if fraction:
        share = _pool(SHARE, fraction, FRACTION_UNIT)
        found.append(Vertex(type_name, counts.exactly(1), exclusive=False, children=(share,)))
    return found


def _hyperqueue_variants(text: str) -> tuple[Variant, ...]:
    stripped = text.strip()
    if stripped.startswith(("{", "[")):
        return _exported(stripped)
    if (start := _SUBMIT.match(stripped)) is not None:
        return (_submitted(stripped[start.end() :]),)
    column, asks = 1, []
    for part in _ASK_END.split(text):
        if part.strip():
            asks.append(hyperqueue_request.parse(part, column=column))
        column += len(part) + 1
    if not asks:
        raise InputError("asks for nothing", where="request:1", hint="write NAME=AMOUNT, such as gpus=2")
    return (hyperqueue_request.variant(asks),)


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
    nodes, min_time_s = 0, 0.0
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
            min_time_s = duration.parse(value)
        elif option not in ("--time-limit", "--name", "--priority", "--array", "--max-fails", "--cwd", "--env", "--pin"):
            hint = "the options are --cpus, --resource, --nodes and --time-request"
            raise InputError(f"unknown option {option[:40]}", where="request", hint=hint)
    return hyperqueue_request.variant(asks, nodes=nodes, min_time_s=min_time_s)


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
