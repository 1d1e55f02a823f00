"""What a HyperQueue task asks for: `gpus=2 compact!`, `mem=all`, variants ↔ values.

A policy says which indices of a grouped pool are wanted, and whether it would rather wait than take others.  That is kept
as it was said, in ten-thousandths and words; the part that knows the pools decides what can be done about it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from fluxres import limits
from fluxres.errors import ErrorPlace, InputError, LimitExceeded, UsageError
from fluxres.formats.peers.hyperqueue.definitions import Dialect
from fluxres.formats.peers.hyperqueue.tokens import U32_MAX, U64_MAX, Cursor, amount_of_float
from fluxres.syntax import duration
from fluxres.syntax.variants import ALL, CPUS, PER_UNIT, POLICIES, Ask, Variant, format_amount

VARIANTS_MAX: Final = 32
"""Alternatives of one task, as HyperQueue bounds them."""

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9/]*")
_SEED_NAME = re.compile(r"[A-Za-z0-9]+")
_WORD = re.compile(r"[a-z]+!?")
_EXPORTED: Final = {
    "compact": "Compact",
    "compact!": "ForceCompact",
    "tight": "Tight",
    "tight!": "ForceTight",
    "scatter": "Scatter",
}


def parse(text: str, *, dialect: Dialect = "any", column: int = 1) -> Ask:
    """A request as given to ``hq submit --resource``.

    Args:
        text: ``NAME=AMOUNT [POLICY]`` or ``NAME=all``; blanks may stand round every token.
        dialect: `seed` takes whole amounts without a policy, as versions 0.11 and 0.12 did.
        column: of the text, in the one that it is a part of.

    Errors: InputError with the column, also for the amount 0; LimitExceeded beyond 32 bits.

    >>> parse("gpus=2 compact!"), parse("mem=all").policy
    (Ask(name='gpus', amount=20000, policy='compact!'), None)
    """
    cursor = Cursor(text, "request", column=column)
    pattern = {"seed": _SEED_NAME, "current": _NAME}.get(dialect) or re.compile(f"{_NAME.pattern}|{_SEED_NAME.pattern}")
    name = cursor.match(pattern, "the name of a resource", "a request is NAME=AMOUNT")
    if len(name) > limits.NAME_LENGTH_MAX:
        raise LimitExceeded(f"expected a name of at most {limits.NAME_LENGTH_MAX} characters", where=cursor.where(0))
    cursor.require("=", "a request is NAME=AMOUNT, such as gpus=2")
    return _ask(name, cursor, dialect)


def of_value(name: str, value: object) -> Ask:
    """The request that a number or a text behind a name in a job file means.

    Errors: InputError naming the resource.

    >>> of_value("gpus", 0.5).amount, of_value("cpus", "8 scatter").policy
    (5000, 'scatter')
    """
    if isinstance(value, str):
        return _ask(name, Cursor(value, f"request {name}"), "any")
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(f"expected an amount or all, got {value!r:.60}", where=f"request {name}")
    with ErrorPlace(f"request {name}"):
        amount = amount_of_float(value)
    if amount == 0:
        raise _zero(f"request {name}")
    return Ask(name, amount)


def _ask(name: str, cursor: Cursor, dialect: Dialect) -> Ask:
    if dialect != "seed" and cursor.take("all"):
        cursor.end("nothing behind all", "a policy says which part; all has none")
        return Ask(name, ALL, None)
    cursor.skip()
    start = cursor.offset
    if dialect == "seed":
        amount = cursor.integer("a whole amount", U64_MAX) * PER_UNIT
    else:
        amount = cursor.amount(U32_MAX if dialect == "current" else U64_MAX)
    if amount == 0:
        raise _zero(cursor.where(start))
    if dialect == "seed":
        cursor.end("the end of the amount")
        return Ask(name, amount, None)
    cursor.skip()
    if cursor.offset == len(cursor.text):
        return Ask(name, amount)
    start = cursor.offset
    policy = cursor.match(_WORD, "a policy", f"policies are {', '.join(POLICIES)}")
    if policy not in POLICIES:
        raise cursor.error("a policy", f"policies are {', '.join(POLICIES)}", offset=start)
    cursor.end("nothing behind the policy")
    return Ask(name, amount, policy)


def _zero(where: str) -> InputError:
    return InputError("Zero resources cannot be requested", where=where, hint="leave the resource out")


def format(ask: Ask, *, short: bool = True) -> str:  # noqa: A001 - read as hyperqueue_request.format
    """The request as text; `short` leaves the default policy out.

    >>> format(Ask("gpus", 20000, "tight")), format(Ask("gpus", 5000)), format(Ask("x", ALL, None))
    ('gpus=2 tight', 'gpus=0.5', 'x=all')
    """
    return f"{ask.name}={format_value(ask, short=short)}"


def format_value(ask: Ask, *, short: bool = False) -> str:
    """What stands behind the name; HyperQueue's variables have it with its policy.

    >>> format_value(Ask("gpus", 20000)), format_value(Ask("gpus", 20000), short=True)
    ('2 compact', '2')
    """
    if ask.amount == ALL:
        return "all"
    bare = ask.policy is None or (short and ask.policy == "compact")
    return format_amount(ask.amount) if bare else f"{format_amount(ask.amount)} {ask.policy}"


def variant(asks: Iterable[Ask], *, nodes: int = 0, min_time_s: float = 0.0, weight: float = 1.0) -> Variant:
    """The variant of these requests; a task that asks for no cpus gets one.

    Errors: InputError for a name that is listed twice; UsageError for resources with whole workers, and for no weight or time.

    >>> [ask.name for ask in variant([parse("gpus=1")]).asks]
    ['gpus', 'cpus']
    """
    found: dict[str, Ask] = {}
    for ask in asks:
        if ask.name in found:
            raise InputError(f"Resource '{ask.name}' defined more than once", where="request", hint="add the amounts up")
        found[ask.name] = ask
    if nodes < 0 or nodes > U32_MAX:
        raise UsageError(f"expected a number of workers from 1 to {U32_MAX}, got {nodes}", where="nodes")
    if nodes and found:
        hint = "a task on whole workers has all of each"
        raise UsageError("expected no resources with whole workers", where="nodes", hint=hint)
    if not 0 <= min_time_s <= limits.TIME_MAX_S:
        raise UsageError(f"expected seconds from 0 to {limits.TIME_MAX_S:.0f}, got {min_time_s}", where="time request")
    if not 0 < weight < float("inf"):
        raise UsageError(f"expected a weight above 0, got {weight}", where="weight")
    if not nodes and CPUS not in found:
        found[CPUS] = Ask(CPUS, PER_UNIT)
    return Variant(tuple(found.values()), nodes, min_time_s, weight)


def variants(of: Sequence[Variant]) -> tuple[Variant, ...]:
    """The variants of a task, checked together.

    Errors: InputError for none or more than VARIANTS_MAX, and for whole workers beside parts of one.
    """
    if not 1 <= len(of) <= VARIANTS_MAX:
        raise InputError(f"expected 1 to {VARIANTS_MAX} variants, got {len(of)}", where="request")
    if len({bool(each.nodes) for each in of}) > 1:
        hint = "submit two tasks"
        raise InputError("expected all variants on whole workers, or all on parts of one", where="request", hint=hint)
    return tuple(of)


def to_plain(chosen: Variant) -> dict[str, Any]:
    """A variant as HyperQueue's JSON output has it.

    >>> to_plain(variant([parse("cpus=2 scatter")]))["resources"]
    [{'resource': 'cpus', 'request': {'Scatter': 20000}}]
    """
    return {
        "n_nodes": chosen.nodes,
        "min_time": chosen.min_time_s,
        "resources": [
            {"resource": ask.name, "request": "All" if ask.amount == ALL else {_EXPORTED[ask.policy or "compact"]: ask.amount}}
            for ask in chosen.asks
        ],
    }


def of_plain(values: Mapping[str, Any]) -> Variant:
    """The variant of such JSON. Errors: InputError naming the key.

    >>> of_plain(to_plain(variant([parse("x=all")]))) == variant([parse("x=all")])
    True
    """
    asks = []
    listed = values.get("resources", [])
    if isinstance(listed, Mapping):  # as in a job file
        asks = [of_value(str(name), value) for name, value in listed.items()]
        listed = []
    if not isinstance(listed, list):
        raise InputError(f"expected a list, got {listed!r:.60}", where="resources")
    for at, entry in enumerate(listed):
        where = f"resources[{at}]"
        if not isinstance(entry, Mapping) or not isinstance(entry.get("resource"), str) or not entry["resource"]:
            raise InputError("expected {'resource': NAME, 'request': …}", where=where)
        asks.append(_imported(entry["resource"], entry.get("request"), where))
    nodes, least = values.get("n_nodes", 0), values.get("min_time", 0.0)
    if isinstance(stated := values.get("time_request"), str):  # as in a job file
        least = duration.read(stated)
    if isinstance(nodes, bool) or not isinstance(nodes, int):
        raise InputError(f"expected a whole number, got {nodes!r:.40}", where="n_nodes")
    if isinstance(least, bool) or not isinstance(least, int | float):
        raise InputError(f"expected seconds, got {least!r:.40}", where="min_time")
    weight = values.get("weight", 1.0)
    if isinstance(weight, bool) or not isinstance(weight, int | float):
        raise InputError(f"expected a number, got {weight!r:.40}", where="weight")
    return variant(asks, nodes=nodes, min_time_s=float(least), weight=float(weight))


def _imported(name: str, request: object, where: str) -> Ask:
    if request == "All":
        return Ask(name, ALL, None)
    words = {word: policy for policy, word in _EXPORTED.items()}
    if isinstance(request, Mapping) and len(request) == 1:
        ((word, amount),) = request.items()
        if word in words and isinstance(amount, int) and not isinstance(amount, bool) and 0 < amount <= U64_MAX:
            return Ask(name, amount, words[word])
    raise InputError(f"expected All or one of {', '.join(words)} with an amount, got {request!r:.60}", where=f"{where}.request")
