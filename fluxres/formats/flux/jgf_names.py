"""Names of the nodes of a JGF document: the name, basename and id, or the last step of a path, all of which must agree."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, NoReturn, Protocol

import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from fluxres import limits
from fluxres.documents.document import Key
from fluxres.formats.flux.jgf_columns import NodeColumns
from fluxres.graph.auxiliary import Int32
from fluxres.syntax import template

_DIGITS: Final = "0123456789"
_DIGITS_MAX: Final = 18


class Fail(Protocol):
    """Raises for the document at a place in its graph."""

    def __call__(self, path: Sequence[Key], message: str, hint: str = "") -> NoReturn: ...


class Names(NamedTuple):
    """Ids of all nodes; name templates by node if any has one; the names that no template gives, by node."""

    ids: NDArray[np.int64]
    templates: list[str | None] | None
    explicit: dict[int, str]


def name_nodes(nodes: NodeColumns, parent: Int32, fail: Fail) -> Names:
    """Ids and names of all nodes.

    Errors: what `fail` raises for a path that does not continue the parent's path or does not end in the name, for two nodes of
    one path, and for invalid names. Cost: about 0.5 µs per node, more for those whose name is not basename and id.
    """
    basenames = nodes.type
    if (given := nodes.column("basename")) is not None:
        basenames = [own if word is UNSET else word for own, word in zip(nodes.type, given, strict=True)]
    ids = _ids(nodes, basenames, fail)
    above = ["" if path is None else path for path in nodes.path] if None in nodes.path else list(nodes.path)
    above.append("")
    up = [above[i] for i in parent.tolist()]
    usual = [f"{head}/{word}{number}" for head, word, number in zip(up, basenames, ids.tolist(), strict=True)]
    odd = [i for i, (expected, path) in enumerate(zip(usual, nodes.path, strict=True)) if expected != path]
    del usual
    # If a path is not the parent's path with basename and id, its last step must be the explicit name of the node.
    steps = {i: _step(nodes, i, up[i], fail) for i in odd}
    del up, above
    _distinct(nodes, fail)
    _compare(nodes, basenames, ids, steps, fail)
    explicit: dict[int, str] = {}
    names, numbers = nodes.column("name"), nodes.column("id")
    for i, name in steps.items():
        default = basenames[i] if ids[i] < 0 else f"{basenames[i]}{ids[i]}"
        if name == default:
            continue
        if (names is None or names[i] is UNSET) and numbers is not None and numbers[i] is not UNSET:
            fail(["nodes", i, "metadata", "id"], f"the id makes the name {default!r:.300}, and the path ends in {name!r:.300}")
        if len(name) > limits.NAME_LENGTH_MAX or not name.isprintable() or "/" in name:
            fail(["nodes", i], f"{name[:80]!r} is not a valid name: 1 to {limits.NAME_LENGTH_MAX} characters without '/'")
        explicit[i] = name
    return Names(ids, *_templates(nodes, basenames, ids, explicit))


def _step(nodes: NodeColumns, i: int, up: str, fail: Fail) -> str:
    """The last step of the path of a node, which is its name."""
    path = nodes.path[i]
    if path is None:
        return _outside_step(nodes, i, fail)
    head, slash, step = path.rpartition("/")
    place: list[Key] = ["nodes", i, "metadata", "paths", "containment"]
    if head != up or not slash:
        hint = f"according to the edges it is in {up:.300}" if up else "a path begins with '/'"
        fail(place, f"{path:.300} does not continue the path of its parent", hint)
    if not step:
        fail(place, f"{path:.300} does not end in a name")
    return step


def _distinct(nodes: NodeColumns, fail: Fail) -> None:
    """Refuse two nodes of one path."""
    if len(set(nodes.path)) < len(nodes.path) - max(nodes.path.count(None) - 1, 0):
        seen: set[str | None] = {None}
        for i, path in enumerate(nodes.path):
            if path is not None and path in seen:
                fail(["nodes", i, "metadata", "paths", "containment"], f"a second node of the path {path:.300}")
            seen.add(path)


def _outside_step(nodes: NodeColumns, i: int, fail: Fail) -> str:
    """The name of a node outside containment: the end of its paths, its name, or its basename and id."""
    steps = {path.rpartition("/")[2] for path in nodes.auxiliary.get(i, {}).values()}
    for path in nodes.auxiliary.get(i, {}).values():
        if not path.startswith("/"):
            fail(["nodes", i, "metadata", "paths"], f"expected a path such as /pdu0, got {path!r:.300}")
    if len(steps) > 1 or "" in steps:
        fail(["nodes", i, "metadata", "paths"], f"paths with different last steps: {', '.join(sorted(steps)):.300}")
    if steps:
        return steps.pop()
    columns = [nodes.column(key) for key in ("name", "basename", "id")]
    name, basename, number = (UNSET if column is None else column[i] for column in columns)
    if name is not UNSET:
        return str(name)
    base = nodes.type[i] if basename is UNSET else basename
    return f"{base}" if number is UNSET or number < 0 else f"{base}{number}"


def _ids(nodes: NodeColumns, basenames: list[str], fail: Fail) -> NDArray[np.int64]:
    column = nodes.column("id")
    if column is not None and UNSET not in column:
        return np.array(column, np.int64)
    names, uniq_ids = nodes.column("name"), nodes.column("uniq_id")
    found = []
    for i, basename in enumerate(basenames):
        number = UNSET if column is None else column[i]
        if number is UNSET:
            path = nodes.path[i]
            step = _outside_step(nodes, i, fail) if path is None else path[path.rfind("/") + 1 :]
            number = template.default_id(basename, step)
            if number is None and nodes.type[i] == "node" and names is not None:
                digits = step[len(step.rstrip(_DIGITS)) :][-_DIGITS_MAX:]
                number = int(digits) if digits else None
            if number is None and uniq_ids is not None and uniq_ids[i] is not UNSET:
                number = uniq_ids[i]
            if number is None:
                key = nodes.key[i]
                number = int(key) if key.isascii() and key.isdecimal() and len(key) <= _DIGITS_MAX else -1
        found.append(number)
    return np.array(found, np.int64)


def _compare(nodes: NodeColumns, basenames: list[str], ids: NDArray[np.int64], steps: dict[int, str], fail: Fail) -> None:
    """Refuse a name that is not the last step of the path."""
    for i, name in nodes.given("name").items():
        step = steps[i] if i in steps else f"{basenames[i]}{ids[i]}"
        if name != step:
            fail(["nodes", i, "metadata", "name"], f"the name is {name!r:.300}, and the path ends in {step!r:.300}")


def _templates(
    nodes: NodeColumns, basenames: list[str], ids: NDArray[np.int64], explicit: dict[int, str]
) -> tuple[list[str | None] | None, dict[int, str]]:
    """Templates for the names that follow a rule, and the names that do not."""
    sorts: dict[tuple[str, str], list[int]] = {}
    for i in explicit:
        sorts.setdefault((nodes.type[i], basenames[i]), []).append(i)
    templates: list[str | None] | None = None
    left = dict(explicit)
    for rows in sorts.values():
        text = _template_of(explicit[rows[0]], [explicit[i] for i in rows])
        if text is None:
            continue
        form = _format_of(text)
        fitting = [i for i, number in zip(rows, ids[rows].tolist(), strict=True) if number >= 0 and form(number) == explicit[i]]
        if len(fitting) < max(2, len(rows) // 2):
            continue
        templates = templates if templates is not None else [None] * nodes.n
        for i in fitting:
            templates[i] = text
            del left[i]
    return templates, left


def _template_of(name: str, names: list[str]) -> str | None:
    """A template that gives this name from a number at its end, with leading zeros if one of the names has some."""
    stem = name.rstrip(_DIGITS)
    width = len(name) - len(stem)
    if not 0 < width <= _DIGITS_MAX or "$" in stem:
        return None
    padded = next((each for each in names if each.startswith(stem) and each[len(stem) : len(stem) + 1] == "0"), None)
    if padded is not None and len(padded) > len(stem) + 1:
        return f"{stem}${{id:0{len(padded) - len(stem)}}}"
    return f"{stem}${{id}}"


def _format_of(text: str) -> Callable[[int], str]:
    stem, _, rest = text.partition("${id")
    width = int(rest[1:-1]) if rest.startswith(":") else 0
    return lambda number: f"{stem}{number:0{width}}"
