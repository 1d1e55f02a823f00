"""Short requests: `-N 2 -n 8 -c 4 -g 1 --exclusive` → the resources section that Flux's own commands make of them.

They mean what they mean to `flux run`: n tasks in n slots of c cores and g gpus; with nodes, each node has as many
slots as the tasks need when dealt out evenly, rounded up.
"""

from __future__ import annotations

import re
from typing import Any, Final

from fluxres.documents.excerpt import excerpt
from fluxres.documents.place import Place
from fluxres.errors import InputError, UsageError
from fluxres.syntax import count as counts
from fluxres.syntax.shape import DEFAULT_LABEL


def parse_options(
    N: int | str | None = None,  # noqa: N803 - the letters are the options
    n: int | None = None,
    c: int = 1,
    g: int = 0,
    x: bool = False,
) -> list[dict[str, Any]]:
    """The resources of short options.

    Args:
        N: nodes; also a count such as `2-4` or `2+`, with one task on each.
        n: tasks, each in a slot of its own; one per node, or one, when not given.
        c: cores per task.
        g: gpus per task.
        x: nodes exclusively; needs N.

    Errors: InputError naming the option; UsageError for options that do not go together.

    >>> parse_options(N=2, n=8, c=4)[0]["with"]
    [{'type': 'slot', 'count': 4, 'with': [{'type': 'core', 'count': 4}], 'label': 'task'}]
    >>> parse_options(n=3, g=1)[0]["with"]
    [{'type': 'core', 'count': 1}, {'type': 'gpu', 'count': 1}]
    """
    inside: list[dict[str, Any]] = [{"type": "core", "count": Place(("-c",)).integer(c)}]
    if Place(("-g",)).integer(g, 0):
        inside.append({"type": "gpu", "count": g})
    tasks = None if n is None else Place(("-n",)).integer(n)
    if N is None:
        if x:
            raise UsageError("expected a number of nodes (-N) with exclusive nodes (-x)", where="-x")
        return [_slot(tasks or 1, inside)]
    try:
        nodes = counts.parse(N)
    except InputError as error:
        raise Place(("-N",)).refine(error) from None
    per_node = 1
    if tasks is not None:
        if nodes.fixed is None:
            raise UsageError(f"expected a fixed number of nodes with tasks (-n), got {nodes}", where="-N")
        if tasks < nodes.fixed:
            raise UsageError(f"expected at least one task per node, got {tasks} on {nodes}", where="-n")
        per_node = -(-tasks // nodes.fixed)
    made: dict[str, Any] = {"type": "node", "count": nodes.to_plain(), "with": [_slot(per_node, inside)]}
    return [made | ({"exclusive": True} if x else {})]


_WORD: Final = re.compile(r"-(?P<letter>[Nncg])\s*=?\s*(?P<value>[^\s-][^\s]*)|-(?P<flag>x)", re.ASCII)


def of_words(text: str) -> list[dict[str, Any]]:
    """The resources of short options as one text, such as ``-N4 -c 8 -x``.

    Errors: InputError for a word that is no such option, or one given twice; those of :func:`parse_options`.

    >>> of_words("-n3 -g 1") == parse_options(n=3, g=1)
    True
    """
    given: dict[str, Any] = {}
    rest = text.strip()
    while rest:
        found = _WORD.match(rest)
        if found is None:
            raise InputError(f"expected -N, -n, -c, -g with a number or -x, got {excerpt(rest)}", where="options")
        letter = found["letter"] or "x"
        if letter in given:
            raise InputError(f"-{letter} is given twice", where="options")
        value = found["value"]
        given[letter] = True if value is None else int(value) if value.isdecimal() and len(value) < 20 else value
        rest = rest[found.end() :].lstrip()
    return parse_options(**given)


def _slot(number: int, inside: list[dict[str, Any]]) -> dict[str, Any]:
    return {"type": "slot", "count": number, "with": inside, "label": DEFAULT_LABEL}
