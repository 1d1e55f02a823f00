"""What the nodes of a JGF document are called: by name, by basename and id, or by the last step of a path, which must agree."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, NoReturn, Protocol

import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from fluxres import limits
from fluxres.formats.jgf_columns import NodeColumns
from fluxres.formats.yaml_document import Key
from fluxres.graph.auxiliary import Int32
from fluxres.syntax import template

_DIGITS: Final = "0123456789"
_DIGITS_MAX: Final = 18


class Fail(Protocol):
    """Refuses a document at a place in its graph."""

    def __call__(self, path: Sequence[Key], message: str, hint: str = "") -> NoReturn: ...


class Names(NamedTuple):
    """Ids of all nodes; name templates by node where any has one; the names that no template gives, by node."""

    ids: NDArray[np.int64]
    templates: list[str | None] | None
    explicit: dict[int, str]


def name_nodes(nodes: NodeColumns, parent: Int32, fail: Fail) -> Names:
    """Ids and names of all nodes.

    Errors: what `fail` raises for a path that does not lead on from that of the node above, or does not end in the name; for
    two nodes of one path; for names that no path can hold.
    Cost: about 0.5 µs a node, more for those whose name is not basename and id.
    """
    steps = _steps(nodes, parent, fail)
    basenames = nodes.type
    if (given := nodes.column("basename")) is not None:
        basenames = [own if word is UNSET else word for own, word in zip(nodes.type, given, strict=True)]
    ids = _ids(nodes, basenames, steps, fail)
    default = [f"{word}{number}" for word, number in zip(basenames, ids.tolist(), strict=True)]
    names = nodes.column("name")
    if names is not None:
        _compare(names, steps, fail)
    # The last step is the name, and where it is not basename and id the node must have said so.
    odd = [i for i, (name, step) in enumerate(zip(default, steps, strict=True)) if name != step]
    explicit: dict[int, str] = {}
    for i in odd:
        name = steps[i]
        if ids[i] < 0 and name == basenames[i]:
            continue
        if names is None or names[i] is UNSET:
            column = nodes.column("id")
            if column is not None and column[i] is not UNSET:
                fail(["nodes", i, "metadata", "id"], f"the id makes the name {default[i]!r}, and the path ends in {name!r}")
        if len(name) > limits.NAME_LENGTH_MAX or not name.isprintable() or "/" in name:
            fail(["nodes", i], f"{name[:80]!r} is no name: 1 to {limits.NAME_LENGTH_MAX} characters without '/'")
        explicit[i] = name
    return Names(ids, *_templates(nodes, basenames, ids, explicit))


def _steps(nodes: NodeColumns, parent: Int32, fail: Fail) -> list[str]:
    """The last step of each node's path, which is what the node is called."""
    paths = [path or "" for path in nodes.path]
    cuts = [path.rfind("/") for path in paths]
    above = [*paths, ""]
    up = [above[i] for i in parent.tolist()]
    heads = [path[:cut] for path, cut in zip(paths, cuts, strict=True)]
    if heads != up:
        for i, (head, expected) in enumerate(zip(heads, up, strict=True)):
            if head != expected and paths[i]:
                hint = f"by the edges it is in {expected}" if expected else "a path begins with '/'"
                fail(["nodes", i, "metadata", "paths", "containment"], f"{paths[i]} does not lead on from the node above", hint)
    del heads, up, above
    if len(set(paths)) < len(paths) - max(nodes.path.count(None) - 1, 0):
        seen: set[str] = set()
        for i, path in enumerate(paths):
            if path and path in seen:
                fail(["nodes", i, "metadata", "paths", "containment"], f"a second node of the path {path}")
            seen.add(path)
    steps = [path[cut + 1 :] for path, cut in zip(paths, cuts, strict=True)]
    if not all(steps):
        for i in [i for i, step in enumerate(steps) if not step]:
            steps[i] = _outside_step(nodes, i, fail)
    return steps


def _outside_step(nodes: NodeColumns, i: int, fail: Fail) -> str:
    """What a node outside containment is called: as its paths end, or by its name or its basename and id."""
    if nodes.path[i] is not None:
        fail(["nodes", i, "metadata", "paths", "containment"], f"{nodes.path[i]} ends in no name")
    steps = {path.rpartition("/")[2] for path in nodes.auxiliary.get(i, {}).values()}
    for path in nodes.auxiliary.get(i, {}).values():
        if not path.startswith("/"):
            fail(["nodes", i, "metadata", "paths"], f"expected a path such as /pdu0, got {path!r}")
    if len(steps) > 1 or "" in steps:
        fail(["nodes", i, "metadata", "paths"], f"paths that end differently: {', '.join(sorted(steps))}")
    if steps:
        return steps.pop()
    values = [(nodes.column(key) or {i: UNSET})[i] for key in ("name", "basename", "id")]  # type: ignore[call-overload]
    name, basename, number = values
    if name is not UNSET:
        return str(name)
    base = nodes.type[i] if basename is UNSET else basename
    return f"{base}" if number is UNSET or number < 0 else f"{base}{number}"


def _ids(nodes: NodeColumns, basenames: list[str], steps: list[str], fail: Fail) -> NDArray[np.int64]:
    column = nodes.column("id")
    if column is not None and UNSET not in column:
        return np.array(column, np.int64)
    names, uniq_ids = nodes.column("name"), nodes.column("uniq_id")
    found = []
    for i, (basename, step) in enumerate(zip(basenames, steps, strict=True)):
        number = UNSET if column is None else column[i]
        if number is UNSET:
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


def _compare(names: Sequence[object], steps: list[str], fail: Fail) -> None:
    if names == steps:
        return
    for i, (name, step) in enumerate(zip(names, steps, strict=True)):
        if name is not UNSET and name != step:
            fail(["nodes", i, "metadata", "name"], f"the name is {name!r}, and the path ends in {step!r}")


def _templates(
    nodes: NodeColumns, basenames: list[str], ids: NDArray[np.int64], explicit: dict[int, str]
) -> tuple[list[str | None] | None, dict[int, str]]:
    """Templates for the names that follow a rule, and those that are left."""
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
    """A template that gives this name by a number at its end, with zeros before it where one of the names has some."""
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
