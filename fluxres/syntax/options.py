"""Short requests: `-N 2 -n 8 -c 4 -g 1 -x` → the resources that Flux's own commands ask for with them.

They mean what they mean to `flux run`: n tasks in n slots of c cores and g gpus; with nodes, each node has as many
slots as the tasks need when they are distributed evenly, rounded up.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from fluxres import limits
from fluxres.documents.document import excerpt, shown
from fluxres.errors import InputError, LimitExceeded, UsageError
from fluxres.syntax import count as counts
from fluxres.syntax.shape import DEFAULT_LABEL
from fluxres.syntax.vertex import SLOT, Vertex

_WORD: Final = re.compile(r"-(?P<letter>[Nncg])\s*=?\s*(?P<value>[^\s-][^\s]*)|-(?P<flag>x)", re.ASCII)


def parse_options(
    N: int | str | None = None,  # noqa: N803 - the letters are the options
    n: int | None = None,
    c: int = 1,
    g: int = 0,
    x: bool = False,
) -> tuple[Vertex, ...]:
    """The resources of short options.

    Args:
        N: nodes; also a count such as `2-4` or `2+`, with one task on each.
        n: tasks, each in a slot of its own; one per node, or one, when not given.
        c: cores per task.
        g: gpus per task.
        x: allocate the nodes exclusively; needs N.

    Errors: InputError naming the option; UsageError for options that do not go together.

    >>> (node,) = parse_options(N=2, n=8, c=4)
    >>> [(vertex.type, vertex.count.min) for vertex in (node, *node.children, *node.children[0].children)]
    [('node', 2), ('slot', 4), ('core', 4)]
    """
    cores = _number("-c", c, 1)
    inside = [Vertex("core", counts.exactly(cores), is_exclusive=True)]
    if _number("-g", g, 0):
        inside.append(Vertex("gpu", counts.exactly(g), is_exclusive=True))
    tasks = None if n is None else _number("-n", n, 1)
    if N is None:
        if x:
            raise UsageError("expected a number of nodes (-N) with exclusive nodes (-x)", where="-x")
        return (_slot(tasks or 1, inside),)
    try:
        nodes = counts.parse(N)
    except InputError as error:
        raise type(error)(error.message, where="-N", hint=error.hint) from None
    per_node = 1
    if tasks is not None:
        if nodes.fixed is None:
            raise UsageError(f"expected a fixed number of nodes with tasks (-n), got {nodes}", where="-N")
        if tasks < nodes.fixed:
            raise UsageError(f"expected at least one task per node, got {tasks} on {nodes}", where="-n")
        per_node = -(-tasks // nodes.fixed)
    return (Vertex("node", nodes, exclusive=x or None, children=(_slot(per_node, inside),), is_exclusive=x),)


def of_words(text: str) -> tuple[Vertex, ...]:
    """The resources of short options as one text, such as ``-N4 -c 8 -x``.

    Errors: InputError for a word that is no such option, or one given twice; those of :func:`parse_options`.

    >>> of_words("-n3 -g 1") == parse_options(n=3, g=1)
    True
    """
    given: dict[str, str | bool] = {}
    rest = text.strip()
    while rest:
        found = _WORD.match(rest)
        if found is None:
            raise InputError(f"expected -N, -n, -c, -g with a number or -x, got {excerpt(rest)}", where="options")
        letter = found["letter"] or "x"
        if letter in given:
            raise InputError(f"-{letter} is given twice", where="options")
        given[letter] = found["value"] or True
        rest = rest[found.end() :].lstrip()
    return of_letters(given)


def of_letters(given: Mapping[str, str | bool]) -> tuple[Vertex, ...]:
    """The resources of options by their letters, with values as typed. Errors: those of :func:`parse_options`."""
    read: dict[str, object] = dict(given)
    for letter, value in given.items():
        if isinstance(value, str) and value.isdecimal() and len(value) < 20:
            read[letter] = int(value)
    return parse_options(**read)  # type: ignore[arg-type]  # it checks what was typed


def _number(option: str, value: object, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InputError(f"expected an integer >= {least}, got {shown(value)}", where=option)
    if value > limits.COUNT_MAX:
        raise LimitExceeded(f"expected an integer up to {limits.COUNT_MAX}, got {shown(value)}", where=option)
    return value


def _slot(number: int, inside: list[Vertex]) -> Vertex:
    return Vertex(SLOT, counts.exactly(number), label=DEFAULT_LABEL, children=tuple(inside), is_exclusive=True)
