"""A machine as HyperQueue, canary, CTest and JQM see it, computed pool by pool: the oracle of their writers.

A host, its types, and for each the labels and sizes in the pools that contain them.  Written for reading, not for speed, and
without the columns that the writers use.
"""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

from fluxres.graph.structure import Structure


class Thing(NamedTuple):
    """One pool that is written."""

    label: str
    size: int
    unit: str | None
    group: int


Table = list[tuple[str, dict[str, list[Thing]]]]
"""Hosts in order, and what each has by type."""


def kept_label(s: Structure, v: int) -> str | None:
    return next((str(value) for key, value in s.kind_of(v).properties if key == "file:label"), None)


def label(s: Structure, v: int) -> str:
    kept, name, number = kept_label(s, v), s.name(v), int(s.id[v])
    if kept is not None:
        return kept
    return str(number) if number >= 0 and name == f"{s.kind_of(v).basename}{number}" else name


def hosts(s: Structure) -> list[int]:
    """Nodes that are in no node; the root if there are none."""
    found = []
    for v in range(s.tree_end):
        above = [s.kind_of(u).type for u in s.ancestors(v)]
        if s.kind_of(v).type == "node" and "node" not in above:
            found.append(v)
    return found or [0]


def is_thing(s: Structure, v: int) -> bool:
    return s.kind_of(v).type in ("core", "gpu") or int(s.end[v]) == v + 1


def table(s: Structure) -> Table:
    made: Table = []
    for host in hosts(s):
        things: dict[str, list[Thing]] = defaultdict(list)
        groups: dict[str, dict[int, int]] = defaultdict(dict)
        for v in range(host + 1, int(s.end[host])):
            between = [u for u in s.ancestors(v) if u > host]
            if not is_thing(s, v) or any(is_thing(s, u) for u in between):
                continue
            type_name = s.kind_of(v).type
            group = groups[type_name].setdefault(int(s.parent[v]), len(groups[type_name]))
            things[type_name].append(Thing(label(s, v), int(s.size[v]), s.kind_of(v).unit, group))
        made.append((kept_label(s, host) or s.name(host), dict(things)))
    return made
