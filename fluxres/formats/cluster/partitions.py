"""The key ``partitions`` of a cluster file: entries → pools and edges of the graph ``partitions``, and back.

The pools come before all others outside the containment tree, and the graph before all others, so that a file describes the same
machine whether it says `partitions` or spells the graph out. What the key cannot say is spelled out (:func:`entries`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from msgspec import UNSET

from fluxres import limits
from fluxres.arrays import Int32
from fluxres.documents.document import Document, Key, shown
from fluxres.documents.mistakes import Mistakes
from fluxres.documents.suggestion import nearest
from fluxres.errors import ErrorPlace, InputError, LimitExceeded
from fluxres.formats.cluster.schema import Cluster, PartitionEntry
from fluxres.formats.selector import Selectors
from fluxres.graph.auxiliary import Subsystem
from fluxres.graph.kinds import STATES, PropertyValue
from fluxres.graph.partitions import PARTITION, PARTITION_STATES, PARTITIONS, SCHEDULES, SETTINGS
from fluxres.graph.recipe import Recipe
from fluxres.graph.structure import Structure
from fluxres.syntax import duration, hostlist
from fluxres.syntax.name import is_name

Values = dict[str, Any]
ALL = "all"
"""As the only word of `nodes`: all nodes."""


# -- reading -------------------------------------------------------------------------------------------------------------


def recipes(document: Document, cluster: Cluster, mistakes: Mistakes) -> list[Recipe]:
    """The pools of the partitions of a document, in order.

    Args:
        mistakes: gets what is wrong in single partitions: a name that is none, limits that contradict each other, a second
            default. Such partitions are left out.

    Errors: InputError with the place for what is wrong with all of them.
    """
    entries: Mapping[str, PartitionEntry] = cluster.partitions or {}
    if len(entries) > limits.PARTITIONS_MAX:
        message = f"{len(entries)} partitions, at most {limits.PARTITIONS_MAX}"
        raise LimitExceeded(message, where=document.where([PARTITIONS]))
    if entries and PARTITIONS in (cluster.graphs or {}):
        hint = "the key 'partitions' makes this graph"
        raise InputError(
            "both 'partitions' and a graph of this name", where=document.where(["graphs", PARTITIONS], key=True), hint=hint
        )
    defaults = [name for name, entry in entries.items() if entry.default is True]
    for name in defaults[1:]:
        message = f"a second default partition: {shown(defaults[0])} is one already"
        where = document.where([PARTITIONS, name, "default"])
        mistakes.add(InputError(message, where=where, hint="requests go to one of them"))
    made: list[Recipe] = []
    for name, entry in entries.items():
        with mistakes:
            made.append(_recipe(document, name, entry))
    return made


def _recipe(document: Document, name: str, entry: PartitionEntry) -> Recipe:
    path = (PARTITIONS, name)
    if not is_name(name, without="/:,"):
        hint = "names have no '/', ':', ',' and no control characters"
        raise InputError(f"{name!r:.80} is not a valid name of a partition", where=document.where(path, key=True), hint=hint)
    seconds = {key: _seconds(document, getattr(entry, key), (*path, key)) for key in ("default_time", "max_time")}
    if seconds["default_time"] > seconds["max_time"]:
        message = f"the default time {shown(entry.default_time)} is longer than the longest time {shown(entry.max_time)}"
        raise InputError(message, where=document.where((*path, "default_time")))
    if entry.min_nodes is not UNSET and entry.max_nodes is not UNSET and entry.min_nodes > entry.max_nodes:
        message = f"at least {entry.min_nodes} nodes, but at most {entry.max_nodes}"
        raise InputError(message, where=document.where((*path, "min_nodes")))
    properties: dict[str, PropertyValue] = {} if entry.properties is UNSET else dict(_pairs(entry.properties))
    for key in SETTINGS:
        if key in properties:
            raise InputError(
                f"{key!r} is a key of the partition", where=document.where((*path, "properties")), hint="write it there"
            )
        value = getattr(entry, key)
        if value is not UNSET and value is not False and seconds.get(key) != np.inf:
            properties[key] = value
    return Recipe(
        PARTITION,
        name=name.replace("$", "$$"),
        ids=None,
        rank=-1,
        properties=properties,
        tags={} if entry.tags is UNSET else dict(_pairs(entry.tags)),
        state="up" if entry.state is UNSET else entry.state,
    )


def _pairs(given: Mapping[str, Any] | list[str]) -> Mapping[str, Any]:
    return given if isinstance(given, Mapping) else dict.fromkeys(given)


def _seconds(document: Document, given: Any, path: tuple[Key, ...]) -> float:
    if given is UNSET:
        return np.inf if path[-1] == "max_time" else 0.0
    try:
        found = duration.read(given) if isinstance(given, str) else float(given)
    except InputError as error:
        raise InputError(error.message, where=document.where(path), hint="such as 30m, 24h or 7d") from None
    if not 0 < found <= limits.TIME_MAX_S and found != np.inf:
        raise InputError(f"expected a duration above 0, got {shown(given)}", where=document.where(path), hint="such as 24h")
    return found


def subsystem(document: Document, structure: Structure, selectors: Selectors, cluster: Cluster, mistakes: Mistakes) -> Subsystem:
    """The graph of the partitions, whose pools are the first outside the containment tree.

    Args:
        mistakes: gets members that do not exist, with the place.

    Cost: in the number of members.
    """
    src: list[Int32] = []
    dst: list[Int32] = []
    for number, (name, entry) in enumerate((cluster.partitions or {}).items()):
        members = np.zeros(0, np.int32)
        with mistakes:
            members = _members(document, structure, selectors, entry, (PARTITIONS, name))
        src.append(np.full(len(members), structure.tree_end + number, np.int32))
        dst.append(members)
        if sum(map(len, dst)) > limits.SELECTED_MAX:
            message = f"more than {limits.SELECTED_MAX} members of partitions"
            raise LimitExceeded(message, where=document.where((PARTITIONS, name)))
    return Subsystem(PARTITIONS, False, np.concatenate(src), np.concatenate(dst), relations=[SCHEDULES])


def _members(
    document: Document, structure: Structure, selectors: Selectors, entry: PartitionEntry, path: tuple[Key, ...]
) -> Int32:
    if entry.nodes is UNSET and entry.requires is UNSET:
        hint = "name its nodes: nodes: cpu[001-064], paths, or all; or requires: with properties that its nodes have"
        raise InputError("neither 'nodes' nor 'requires'", where=document.where(path), hint=hint)
    found = _targets(structure)
    if entry.nodes is not UNSET:
        texts = [entry.nodes] if isinstance(entry.nodes, str) else entry.nodes
        places = [(*path, "nodes")] if isinstance(entry.nodes, str) else [(*path, "nodes", i) for i in range(len(texts))]
        named = [_named(structure, selectors, text, partial(document.where, at)) for text, at in zip(texts, places, strict=True)]
        found = np.unique(np.concatenate([np.zeros(0, np.int32), *named])).astype(np.int32)
    if entry.requires is not UNSET:
        found = _meeting(document, structure, found, entry.requires, (*path, "requires"))
    return found


def _targets(structure: Structure) -> Int32:
    """The nodes of the containment tree; on a machine without nodes, its root."""
    nodes = structure.of_type("node")
    return nodes[nodes < structure.tree_end] if len(nodes) else np.zeros(1, np.int32)


def _named(structure: Structure, selectors: Selectors, text: str, where: Any) -> Int32:
    """The pools of a path with brackets and stars, of host names, or of the word `all`."""
    with ErrorPlace(where):
        if text.strip().lower() == ALL:
            return _targets(structure)
        if text.startswith("/") or ":/" in text:
            found = selectors.vertices(text)
            outside = found[found >= structure.tree_end]
            if len(outside):
                raise InputError(f"{structure.where(int(outside[0]))} is not in the containment tree")
            return found.astype(np.int32)
        return _hosts(structure, hostlist.parse(text))


def _hosts(structure: Structure, hosts: list[str]) -> Int32:
    nodes = structure.of_type("node")
    found = np.array(structure.named(hosts), np.int32)
    found = found[np.isin(found, nodes)] if len(nodes) else found[found < structure.tree_end]
    names = Counter(structure.name(v) for v in found.tolist())
    missing = next((host for host in hosts if not names[host]), None)
    if missing is not None:
        known = [structure.name(v) for v in nodes[: limits.IDSET_COUNT_MAX].tolist()]
        raise InputError(f"there is no node {shown(missing)}", hint=_near(missing, known))
    twice = next((host for host, number in names.items() if number > 1), None)
    if twice is not None:
        raise InputError(f"{names[twice]} nodes are named {shown(twice)}", hint="name them by path, such as /demo/rack0/node*")
    return found


def _near(host: str, known: list[str]) -> str:
    names = f"nodes are named {hostlist.fold(known[:1000])}{' …' * (len(known) > 1000)}"
    return nearest(host, known, names if known else "there are no nodes")


def _meeting(document: Document, structure: Structure, among: Int32, given: str | list[str], path: tuple[Key, ...]) -> Int32:
    """Those of the pools that meet a query, or have all of the properties of a list."""
    from fluxres.match.situation import Eligible
    from fluxres.match.typology import Typology
    from fluxres.syntax.constraint import Properties
    from fluxres.syntax.constraint_query import constraint_of

    machine = structure.replaced()  # what is derived from the structure depends on graphs that are still to come
    with ErrorPlace(partial(document.where, path)):
        eligible = Eligible(Typology(machine), constraint_of(given) if isinstance(given, str) else Properties(tuple(given), ()))
        found = among[np.isin(among, eligible.targets[eligible.mask])]
        if not len(found):
            raise InputError(f"no node meets {shown(given)}", hint="`fluxres find type=node` shows nodes and their properties")
    return found


# -- writing -------------------------------------------------------------------------------------------------------------


def entries(structure: Structure, selectors: Selectors) -> Values | None:
    """The partitions of a structure as values of the key; None if the key cannot say all that the pools and edges have."""
    graph = structure.subsystems.get(PARTITIONS)
    if graph is None or next(iter(structure.subsystems)) != PARTITIONS or graph.attributes or not structure.partitions:
        return None
    found = list(structure.partitions.values())
    first, count = structure.tree_end, len(found)
    pools = np.arange(first, first + count)
    plain = [each.vertex for each in found] == pools.tolist() and (structure.end[pools] == pools + 1).all()
    plain = (
        plain and (structure.size[pools] == 1).all() and not structure.flags[pools].any() and (structure.rank[pools] < 0).all()
    )
    plain = plain and (structure.parent[pools] < 0).all() and (structure.id[pools] < 0).all()
    if not plain or structure.names.keys() & set(pools.tolist()) or structure.capacity.keys() & set(pools.tolist()):
        return None
    rows = np.lexsort((graph.dst, graph.src))
    is_sorted = np.array_equal(rows, np.arange(len(graph))) and (graph.src >= first).all() and (graph.src < first + count).all()
    if not is_sorted or [graph.relations[number] for number in np.unique(graph.relation).tolist()] not in ([SCHEDULES], []):
        return None
    if graph.relations != [SCHEDULES] or (graph.dst >= structure.tree_end).any():
        return None
    made: Values = {}
    for each in found:
        kind = structure.kind_of(each.vertex)
        if kind.basename != PARTITION or kind.unit is not None or kind.name != each.name.replace("$", "$$"):
            return None
        entry = _entry(structure, selectors, each.vertex, graph.successors(each.vertex))
        if entry is None:
            return None
        made[each.name] = entry
    return made


def _entry(structure: Structure, selectors: Selectors, v: int, members: Int32) -> Values | None:
    state = STATES[structure.state.item(v)]
    properties = dict(structure.kind_of(v).properties)
    entry: Values = {"nodes": _texts(structure, selectors, members)}
    if state not in PARTITION_STATES:
        return None
    if state != "up":
        entry["state"] = state
    for key in SETTINGS:
        if key in properties:
            entry[key] = properties.pop(key)
    if not all(_is_plain(key, value) for key, value in entry.items() if key in SETTINGS):
        return None
    if properties:
        entry["properties"] = properties
    if tags := structure.tags.get(v):
        entry["tags"] = dict(sorted(tags.items()))
    return entry


def _is_plain(key: str, value: PropertyValue) -> bool:
    """Whether the reader takes a setting as it is; formats that only have text give numbers as text."""
    if key == "default":
        return value is True
    if isinstance(value, bool) or value is None:
        return False
    return isinstance(value, int) if key.endswith("_nodes") else True


def _texts(structure: Structure, selectors: Selectors, members: Int32) -> str | list[str]:
    nodes = _targets(structure)
    if np.array_equal(members, nodes) and structure.kind_of(int(nodes[0])).type == "node":
        return ALL
    if np.isin(members, nodes).all() and len(members) and structure.kind_of(int(nodes[0])).type == "node":
        names = [structure.name(v) for v in members.tolist()]
        named = np.array(structure.named(names), np.int32)
        is_unique = len(set(names)) == len(names) == len(named[np.isin(named, nodes)])
        if is_unique and not any("/" in name or name.lower() == ALL for name in names):
            try:
                text = hostlist.format(names)
                if sorted(hostlist.parse(text)) == sorted(names):
                    return text
            except InputError:
                pass
    texts = selectors.texts(members.tolist())
    return texts[0] if len(texts) == 1 else texts
