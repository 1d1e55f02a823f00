"""`find`: the vertices that satisfy an expression, with their ancestors.

    expression := term ( [ "and" | "or" ] term )*
    term       := "(" expression ")" | key "=" value

`and` and `or` have equal precedence and associate to the left; adjacent terms are joined by `and`. Down, allocated and reserved
are inherited from above. `agfilter=true` requests the counts below each vertex, and then only vertices with counts are shown; no
vertex satisfies `agfilter=false`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from fluxres import limits
from fluxres.errors import InputError, LimitExceeded
from fluxres.fluxion.graph import Graph, Vertex
from fluxres.fluxion.writers import Writer
from fluxres.syntax import fluid, hostlist


@dataclass(frozen=True)
class Inherited:
    """Attributes that a vertex inherits from its ancestors."""

    down: bool = False
    allocated: bool = False
    reserved: bool = False

    def below(self, vertex: Vertex) -> Inherited:
        """The attributes including those of the vertex, for it and all below."""
        return Inherited(
            self.down or not vertex.up,
            self.allocated or bool(vertex.allocations),
            self.reserved or bool(vertex.reservations),
        )


Test = Callable[[Vertex, Inherited], bool]
_TOKEN = re.compile(r"\s*(?:([()])|([A-Za-z-]+)\s*=\s*([^\s()]+)|(and|or)\b)", re.IGNORECASE)
_TRUTHS: Final = {"true": True, "t": True, "false": False, "f": False}


@dataclass
class Expression:
    """A parsed expression.

    Args:
        test: whether a vertex with inherited attributes satisfies it.
        filters: whether to show aggregates.
        job: the job whose share of the aggregates is shown; None for all jobs.
    """

    test: Test
    filters: bool = False
    job: int | None = None


def parse(text: str) -> Expression:
    """Parse an expression.

    Errors: InputError with the column; LimitExceeded for more than `limits.CRITERIA_LENGTH_MAX` characters or
    `limits.CRITERIA_DEPTH_MAX` parentheses.

    >>> parse("status=up and (sched-now=free or names=node[0-3])").filters
    False
    """
    if len(text) > limits.CRITERIA_LENGTH_MAX:
        raise LimitExceeded(f"expression of more than {limits.CRITERIA_LENGTH_MAX} characters")
    parser = _Parser(text)
    test = parser.expression(0)
    if parser.position < len(text.rstrip()):
        raise parser.error("expected the end")
    return Expression(test, parser.filters, parser.job)


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self.filters = False
        self.job: int | None = None

    def error(self, message: str) -> InputError:
        rest = self.text[self.position :].strip()[:40]
        return InputError(f"{message}, got {rest!r}", where=f"expression:{self.position + 1}")

    def expression(self, depth: int) -> Test:
        if depth > limits.CRITERIA_DEPTH_MAX:
            raise LimitExceeded(f"more than {limits.CRITERIA_DEPTH_MAX} nested parentheses")
        test = self.term(depth)
        while True:
            match = _TOKEN.match(self.text, self.position)
            if match is None or match[1] == ")":
                return test
            joined = (match[4] or "and").lower()
            if match[4]:
                self.position = match.end()
            test = _join(test, self.term(depth), joined == "or")

    def term(self, depth: int) -> Test:
        match = _TOKEN.match(self.text, self.position)
        if match is None or match[4] or match[1] == ")":
            raise self.error("expected key=value or a parenthesis")
        self.position = match.end()
        if match[1]:
            test = self.expression(depth + 1)
            closing = _TOKEN.match(self.text, self.position)
            if closing is None or closing[1] != ")":
                raise self.error("expected a closing parenthesis")
            self.position = closing.end()
            return test
        return self.predicate(match[2].lower(), match[3])

    def predicate(self, key: str, value: str) -> Test:
        if key == "agfilter":
            if value.lower() not in _TRUTHS:
                raise InputError(f"agfilter: expected true or false, got {value[:40]!r}", where="expression")
            shown = self.filters = _TRUTHS[value.lower()]
            return lambda vertex, inherited: shown
        if key in _JOBS:
            self.job = job = fluid.decode(value)
            held = _JOBS[key]
            return lambda vertex, inherited: held(vertex, job)
        if key == "property":
            return lambda vertex, inherited: value in vertex.properties
        if key == "names":
            names = frozenset(hostlist.parse(value))
            return lambda vertex, inherited: vertex.name in names
        if (key, value.lower()) in _STATES:
            return _STATES[key, value.lower()]
        known = ", ".join([*(f"{state}={word}" for state, word in _STATES), "agfilter=", "names=", "property=", *_JOBS])
        raise InputError(f"unknown predicate {key[:40]}={value[:40]}", where="expression", hint=f"known: {known}")


def _join(one: Test, other: Test, either: bool) -> Test:
    if either:
        return lambda vertex, inherited: one(vertex, inherited) or other(vertex, inherited)
    return lambda vertex, inherited: one(vertex, inherited) and other(vertex, inherited)


_STATES: Final[dict[tuple[str, str], Test]] = {
    ("status", "up"): lambda vertex, inherited: not inherited.down,
    ("status", "down"): lambda vertex, inherited: inherited.down,
    ("sched-now", "allocated"): lambda vertex, inherited: inherited.allocated,
    ("sched-now", "free"): lambda vertex, inherited: not inherited.allocated,
    ("sched-future", "reserved"): lambda vertex, inherited: inherited.reserved,
    ("sched-future", "free"): lambda vertex, inherited: not inherited.reserved,
}
_JOBS: Final[dict[str, Callable[[Vertex, int], bool]]] = {
    "jobid-alloc": lambda vertex, job: job in vertex.allocations,
    "jobid-reserved": lambda vertex, job: job in vertex.reservations,
    "jobid-span": lambda vertex, job: vertex.schedule is not None and job in vertex.schedule.spans_below,
    "jobid-tag": lambda vertex, job: job in vertex.tags,
}


def find(graph: Graph, dominant: str, expression: Expression, writer: Writer, visited: int) -> None:
    """Write every vertex that satisfies an expression, and its ancestors, in the order of a match.

    Args:
        visited: colour of this walk.

    Cost O(vertices).
    """

    def walk(vertex: Vertex, inherited: Inherited, level: int) -> bool:
        if level > limits.DEPTH_MAX:
            raise LimitExceeded(f"more than {limits.DEPTH_MAX} levels", where=vertex.path[:80])
        vertex.color = visited
        here = inherited.below(vertex)
        found = False
        for edge in vertex.edges:
            if edge.subsystem == dominant and edge.target.color != visited and walk(edge.target, here, level + 1):
                writer.edge(edge)
                found = True
        found = expression.test(vertex, here) or found
        filters = None
        if found and expression.filters:
            filters = _filters(vertex, expression.job)
            found = filters is not None
        if found:
            writer.vertex(vertex, vertex.size, True, level, filters)
        return found

    walk(graph.roots[dominant], Inherited(), 1)


def _filters(vertex: Vertex, job: int | None) -> dict[str, str] | None:
    """The used units of each type counted below a vertex; None if there are none, or none of the job."""
    aggregate = vertex.aggregate
    if aggregate is None:
        return None
    if job is None:
        used = [plan.total - plan.at(0) for plan in aggregate.plans]
    elif vertex.schedule is None or job not in vertex.schedule.spans_below:
        return None
    else:
        spans = vertex.schedule.spans_below[job]
        used = [plan.window(span)[2] for plan, span in zip(aggregate.plans, spans, strict=True)]
    shown = zip(aggregate.types, used, aggregate.plans, strict=True)
    return {type_: f"used:{units}, total:{plan.total}" for type_, units, plan in sorted(shown, key=lambda one: one[0])}
