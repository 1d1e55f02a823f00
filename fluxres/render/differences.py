"""What a description would change: one line for all pools that change alike, or plain values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

import numpy as np

from fluxres.arrays import Int32
from fluxres.documents.document import plural, shown
from fluxres.graph.structure import Structure
from fluxres.model.difference import Changed, Difference, EdgeChange, SubtreeChange
from fluxres.render.events import folded_paths
from fluxres.render.folding import fold
from fluxres.render.text import printable

_FOLDS_MAX: Final = 4
"""Texts of folded paths in one line; the pools of more are counted."""
_SIGNS: Final = {"added": "+", "removed": "-", "changed": "~"}


def lines(found: Difference) -> Iterator[str]:
    """`+` appears, `-` goes, `>` moves, `~` changes."""
    same = found.same
    drained = set(found.drained)
    yield from _parts("+", same.other, same.new_tops, found.added, lambda _part: "")
    yield from _parts("-", same.s, same.gone_tops, found.removed, lambda part: _kept(part, part.path in drained))
    yield from (printable(f"> {before} -> {after}") for before, after in found.moved)
    yield from (_changed(each, same.s) for each in found.changed)
    for name, before, after in found.graphs:
        sign = "+" if before is None else "-" if after is None else "~"
        yield f"{sign} auxiliary graph {printable(name)}: {' -> '.join(each for each in (before, after) if each)}"
    yield from _edges(found.edges)
    yield found.summary


def _parts(
    sign: str, structure: Structure, tops: Int32, parts: Sequence[SubtreeChange], what: Callable[[SubtreeChange], str]
) -> Iterator[str]:
    groups: dict[tuple[int, str], list[int]] = {}
    for v, part in zip(tops.tolist(), parts, strict=True):
        groups.setdefault((part.pools, what(part)), []).append(v)
    for (pools, said), vertices in groups.items():
        each = " each" if len(vertices) > 1 else ""
        yield f"{sign} {_folded(structure, vertices)} ({plural(pools, 'pool')}{each}){said}"


def _folded(structure: Structure, vertices: list[int]) -> str:
    """Paths folded, or the first of them if they make many texts."""
    items = fold(structure, np.array(vertices, np.int32), np.zeros(len(vertices), np.uint64))
    rest = sum(item.count for item in items[_FOLDS_MAX:])
    return ",".join(item.text for item in items[:_FOLDS_MAX]) + (f" and {plural(rest, 'more pool')}" if rest else "")


def _kept(part: SubtreeChange, drained: bool) -> str:
    if not part.jobs and not drained:
        return ""
    held = f"held by {', '.join(map(printable, part.jobs))}" if part.jobs else "its pools are in use"
    return f": {held}{', drained until a later apply' * drained}"


def _changed(each: Changed, structure: Structure) -> str:
    where, kind = _folded(structure, each.vertices.tolist()), structure.kind_of(int(each.vertices[0]))
    unit = f" {kind.unit}" if each.attribute == "size" and kind.unit else ""
    if each.before is None:
        said = "added" if each.after is True else f"= {_value(each.after)}{unit}"
    else:
        said = "removed" if each.after is None else _step(each.before, each.after, unit)
    return printable(f"~ {where}: {each.attribute} {said}")


def _value(value: object) -> str:
    if value is None:
        return "none"
    return str(value).lower() if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)


def _step(before: object, after: object, unit: str = "") -> str:
    """A value and what becomes of it; text is quoted, and numbers are exact, where they would look alike."""
    texts = [_value(before), _value(after)]
    if texts[0] == texts[1]:
        texts = [shown(before), shown(after)]
    return " -> ".join(f"{text}{unit}" for text in texts)


def _edges(edges: Iterable[EdgeChange]) -> Iterator[str]:
    groups: dict[tuple[str, str, str, str, str], list[str]] = {}
    for edge in edges:
        groups.setdefault((edge.change, edge.graph, edge.source, edge.relation, _attributes(edge)), []).append(edge.target)
    for (change, graph, source, relation, said), targets in groups.items():
        yield printable(f"{_SIGNS[change]} {graph}: {source} -> {folded_paths(targets)} ({relation}){': ' * bool(said)}{said}")


def _attributes(edge: EdgeChange) -> str:
    if edge.change != "changed":
        return ", ".join(f"{key} {_value(value)}" for key, value in (edge.after or edge.before).items())
    return ", ".join(f"{key} {_step(edge.before.get(key), edge.after.get(key))}" for key in edge.after)


def document(found: Difference) -> dict[str, Any]:
    """As plain values; one item for each pool and attribute."""
    return {
        "different": bool(found),
        "summary": found.summary,
        "added": [{"path": part.path, "pools": part.pools} for part in found.added],
        "removed": [{"path": part.path, "pools": part.pools, "jobs": list(part.jobs)} for part in found.removed],
        "moved": [{"from": before, "to": after} for before, after in found.moved],
        "changed": [
            {"path": path, "attribute": each.attribute, "before": each.before, "after": each.after}
            for each in found.changed
            for path in each.paths
        ],
        "edges": [
            {
                "change": edge.change,
                "graph": edge.graph,
                "source": edge.source,
                "target": edge.target,
                "relation": edge.relation,
                "before": _plain(edge.before),
                "after": _plain(edge.after),
            }
            for edge in found.edges
        ],
        "graphs": [{"graph": name, "before": before, "after": after} for name, before, after in found.graphs],
    }


def _plain(attributes: Any) -> dict[str, Any]:
    return {key: value.item() if isinstance(value, np.generic) else value for key, value in attributes.items()}
