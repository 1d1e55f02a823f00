"""``cluster.yaml``: the format of fluxres for people. Reader; :mod:`fluxres.formats.cluster.write` is the writer.

Reading goes in this order: parts and includes, entries to recipes, recipes to columns, then whatever refers to pools of the
finished tree: uuids, edges, allocations.  ``specs/cluster-yaml.md`` describes the format.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np
from msgspec import UNSET

from fluxres import limits
from fluxres.documents import typed, yaml_document
from fluxres.documents.document import Document, Key, shown
from fluxres.documents.mistakes import Mistakes
from fluxres.documents.source import Source
from fluxres.errors import InputError, LimitExceeded
from fluxres.formats.cluster import holdings, partitions
from fluxres.formats.cluster.edges import Doubts, Edges, attributes_of
from fluxres.formats.cluster.entries import Entries, Parts, entry_at
from fluxres.formats.cluster.schema import Cluster, Graph, Resource
from fluxres.formats.format import Hold, Loaded, Reserved
from fluxres.formats.selector import Selectors
from fluxres.graph import uuids
from fluxres.graph.draws import Draws
from fluxres.graph.identity import repeated, uuid_keys
from fluxres.graph.partitions import PARTITIONS
from fluxres.graph.recipe import Check, Recipe, expand
from fluxres.graph.structure import OUTSIDE, Structure
from fluxres.syntax.name import is_name

T = TypeVar("T")

#: a single top entry of one of these types is the root itself
ROOT_TYPES = ("cluster", "center")


def read(source: Source, *, origin: int | None = None) -> Loaded:
    """The machine of a cluster file.

    Errors: InputError ``FILE:line:col: path: …`` with the way out, LimitExceeded.
    Cost: O(entries) Python and O(pools) array writes.

    >>> text = b"{fluxres: 1, name: tiny, resources: [{type: node, count: 2, with: [{type: core, count: 4}]}]}"
    >>> loaded = read(Source(text))
    >>> loaded.structure.n, loaded.structure.path(10), loaded.name
    (11, '/tiny/node1/core3', 'tiny')
    """
    mistakes = Mistakes()
    with mistakes.all():
        document = yaml_document.parse(source.data, file=source.file, path=source.path, mistakes=mistakes)
        return _build(document, origin, mistakes)


def build(document: Document, *, origin: int | None = None) -> Loaded:
    """The machine of a parsed document; see :func:`read`."""
    mistakes = Mistakes()
    with mistakes.all():
        return _build(document, origin, mistakes)


def _build(document: Document, origin: int | None, mistakes: Mistakes) -> Loaded:
    """The machine. Errors: the mistake after which reading cannot go on; others are in `mistakes` by then."""
    cluster, wrong, entries, root, outside, roots = _recipes(document, mistakes)
    base = uuids.new_origin() if origin is None else origin
    before = len(mistakes)
    structure: Structure | None = None
    with mistakes:
        structure = expand(root, more=outside, origin=base, where=partial(_where, document, entries))
    entries.require_hosts_once()
    if structure is None or len(mistakes) > before:
        raise mistakes.error()
    if cluster.uuids is not UNSET:
        _set_uuids(document, structure, cluster.uuids)
    if structure.uuid_texts or cluster.uuids is not UNSET:
        _require_unique_uuids(document, structure)
    homes = _homes(structure, roots)
    selectors = Selectors(structure, homes)
    if cluster.partitions:
        with mistakes:
            structure.subsystems[PARTITIONS] = partitions.subsystem(document, structure, selectors, cluster, mistakes)
    doubts = Doubts(map(entry_at, wrong), mistakes)
    edges = Edges(document, structure, selectors, cluster.graphs or {}, doubts)
    for name, graph in (cluster.graphs or {}).items():
        with mistakes:
            _check_graph_name(document, structure, name)
            structure.subsystems[name] = edges.subsystem(name, graph, homes.get(name, ()))
            continue
        doubts.graphs.add(name)
    if not doubts.graphs:
        entries.require_supplied(Draws(structure))
    allocations: list[Hold] = []
    for held, path in _readable("allocations", cluster.allocations or (), doubts):
        with doubts.of(*holdings.texts(held)):
            allocations.append(holdings.hold(document, selectors, held, path))
    reservations: list[Reserved] = []
    for entry, path in _readable("reservations", cluster.reservations or (), doubts):
        with doubts.of(*holdings.texts(entry)):
            reservations.append(holdings.reserved(document, selectors, entry, path))
    name = cluster.name if cluster.name is not UNSET else structure.name(0)
    with mistakes:
        _check_name(document, name)
    return Loaded(structure, allocations, name, reservations=reservations)


def _readable(key: str, entries: Sequence[T], doubts: Doubts) -> Iterator[tuple[T, tuple[Key, ...]]]:
    """The entries of a list of which every value could be read, each with its path."""
    return ((entry, path) for i, entry in enumerate(entries) if (path := (key, i)) not in doubts.wrong)


def require_readable(document: Document, structure: Structure) -> None:
    """Refuse a document that :func:`build` would refuse for one of its values.

    Args:
        structure: the machine that the document describes; it is not made again.

    Errors: as :func:`build`. Cost: O(entries).
    """
    mistakes = Mistakes()
    cluster, _, entries, root, outside, _ = _recipes(document, mistakes)
    Check([root, *outside], partial(_where, document, entries))
    mistakes.require_none()
    for name, graph in (cluster.graphs or {}).items():
        _check_graph_name(document, structure, name)
        for i, edge in enumerate(graph.edges or ()):
            attributes_of(document, edge, ("graphs", name, "edges", i))
    _check_name(document, "" if cluster.name is UNSET else cluster.name)
    for v, text in structure.uuid_texts.items():
        if not 0 < len(text) <= limits.NAME_LENGTH_MAX:
            raise InputError(f"expected a UUID, got {shown(text)}", where=structure.where(v))
    if not isinstance(cluster.uuids, str):  # one run has no uuid twice
        _require_unique_uuids(document, structure)


class _Recipes(NamedTuple):
    """The entries of a document as recipes: of the tree, of the trees outside, and how many of these each graph declares."""

    cluster: Cluster
    wrong: list[tuple[Key, ...]]
    entries: Entries
    root: Recipe
    outside: list[Recipe]
    roots: dict[str, int]


def _recipes(document: Document, mistakes: Mistakes) -> _Recipes:
    cluster, wrong = _typed(document, mistakes)
    apart = (("graphs",), ("allocations",), ("reservations",), ("uuids",), ("name",))
    tree = [path for path in wrong if path[:1] not in apart or "pools" in path[:3]]
    before = len(mistakes)
    entries = Entries(Parts(document, cluster, tree, mistakes), mistakes)
    outside, roots = _outside(document, cluster, entries, mistakes)
    root: Recipe | None = None
    # That there is no tree follows from a key of the top level that is wrong or misspelt.
    with Mistakes() if any(len(path) <= 1 for path in tree) else mistakes:
        root = _root(document, cluster, entries)
    if root is None or tree or len(mistakes) > before:
        if root is not None:
            with mistakes:
                Check([root, *outside], partial(_where, document, entries))
            entries.require_hosts_once()
        raise mistakes.error()
    return _Recipes(cluster, wrong, entries, root, outside, roots)


def _where(document: Document, entries: Entries, recipe: Recipe, key: str) -> str:
    return entries.where(recipe, key) or document.where([key] if key else ())


def _check_name(document: Document, name: str) -> None:
    if not name.isprintable():
        raise InputError(f"{name!r} has control characters", where=document.where(["name"]), hint="a name is printable text")


def _typed(document: Document, mistakes: Mistakes) -> tuple[Cluster, list[tuple[Key, ...]]]:
    if not isinstance(document.values, dict):
        message = f"expected a mapping, got {shown(document.values)}"
        raise InputError(message, where=document.where(()), hint="a cluster file begins with 'fluxres: 1'")
    version = document.values.get("fluxres")
    if version is None:
        message = "the key 'fluxres' is missing"
        raise InputError(message, where=document.where(()), hint="a cluster file begins with 'fluxres: 1'")
    if type(version) is not int or version != 1:
        message = f"expected 1, got {shown(version)}"
        raise InputError(message, where=document.where(["fluxres"]), hint="1 is the only version of this format")
    return typed.convert_partly(document, Cluster, mistakes)


# -- the trees -------------------------------------------------------------------------------------------------------


def _root(document: Document, cluster: Cluster, entries: Entries) -> Recipe:
    resources = cluster.resources
    name = None if cluster.name is UNSET else cluster.name
    if cluster.root is not UNSET:
        if resources is not UNSET:
            hint = "the children of the root go into its 'with'"
            raise InputError("both 'root' and 'resources'", where=document.where(["resources"], key=True), hint=hint)
        return entries.root(cluster.root, document, ("root",), name)
    if resources is UNSET:
        hint = "this file has only parts: include it from a file with resources" if cluster.parts else "list what the machine has"
        raise InputError("the key 'resources' is missing", where=document.where(()), hint=hint)
    tops = [i for i, resource in enumerate(resources) if resource.type in ROOT_TYPES]
    if tops and len(resources) > 1:
        where = document.where(["resources", tops[1] if len(tops) > 1 else tops[0]])
        hint = "put them into one entry of type center" if len(tops) > 1 else "put the others into its 'with'"
        raise InputError(f"two roots: a {resources[tops[-1]].type} beside other entries", where=where, hint=hint)
    if tops:
        return entries.root(resources[0], document, ("resources", 0), name)
    inside = entries.recipes(resources, document, ("resources",), chain=(("cluster", 1),))
    return Recipe("cluster", name=None if name is None else name.replace("$", "$$"), ids=None, children=inside)


def _outside(document: Document, cluster: Cluster, entries: Entries, mistakes: Mistakes) -> tuple[list[Recipe], dict[str, int]]:
    """Recipes of the pools outside the containment tree, and how many root pools each graph declares."""
    recipes: list[Recipe] = []
    roots: dict[str, int] = {}
    declared: list[tuple[str, list[Resource], tuple[Key, ...]]] = []
    if cluster.partitions:
        with mistakes:
            recipes += partitions.recipes(document, cluster, mistakes)
        roots[PARTITIONS] = len(recipes)
    if cluster.pools is not UNSET:
        declared.append((OUTSIDE, cluster.pools, ("pools",)))
    graphs: dict[str, Graph] = cluster.graphs or {}
    if len(graphs) > limits.SUBSYSTEMS_MAX:
        raise LimitExceeded(f"{len(graphs)} graphs, at most {limits.SUBSYSTEMS_MAX}", where=document.where(["graphs"]))
    declared.extend((name, graph.pools, ("graphs", name, "pools")) for name, graph in graphs.items() if graph.pools is not UNSET)
    for name, pools, path in declared:
        made = entries.recipes(pools, document, path)
        entries.note_units(name, made)
        recipes.extend(made)
        roots[name] = sum(recipe.count for recipe in made)
    return recipes, roots


def _homes(structure: Structure, roots: dict[str, int]) -> dict[str, list[int]]:
    found = (np.flatnonzero(structure.parent[structure.tree_end :] < 0) + structure.tree_end).tolist()
    homes: dict[str, list[int]] = {}
    for name, count in roots.items():
        homes[name], found = found[:count], found[count:]
    return homes


def _check_graph_name(document: Document, structure: Structure, name: str) -> None:
    hint = "choose another name for the graph"
    if not is_name(name, without="/:"):
        message, hint = f"{name!r} is not a valid graph name", "names have no '/', no ':' and no control characters"
    elif name == structure.hierarchy:
        message = f"'{name}:/' denotes the machine itself"
    elif name == OUTSIDE:
        message = f"'{name}:/' denotes pools of no particular graph"
    else:
        return
    raise InputError(message, where=document.where(["graphs", name], key=True), hint=hint)


# -- parts that refer to pools of the tree ------------------------------------------------------------------------------------


def _set_uuids(document: Document, structure: Structure, runs: str | Sequence[str | list[Any]]) -> None:
    origins: dict[int, int] = {}
    at = 0
    listed: list[list[Any]]
    listed = [[runs, structure.n]] if isinstance(runs, str) else [[run, 1] if isinstance(run, str) else run for run in runs]
    of_entries, explicit = dict(structure.uuid_texts), set[str]()
    structure.uuid_texts.clear()
    for i, run in enumerate(listed):
        path: tuple[Key, ...] = ("uuids",) if isinstance(runs, str) else ("uuids", i)
        if len(run) != 2 or not isinstance(run[0], str) or not isinstance(run[1], int) or run[1] < 1:
            raise InputError("expected a UUID, or [UUID, count]", where=document.where(path))
        text, count = run
        if at + count > structure.n:
            raise InputError(f"more uuids than there are pools ({structure.n})", where=document.where(path))
        parts = uuids.split(text)
        if parts is not None and uuids.text(*parts) == text and (parts[0] in origins or len(origins) < limits.ORIGINS_MAX):
            if parts[1] + count - 1 > uuids.SERIAL_MAX:
                raise InputError(f"a run of {count} from {text} overflows its last 48 bits", where=document.where(path))
            structure.origin[at : at + count] = origins.setdefault(parts[0], len(origins))
            structure.serial[at : at + count] = np.arange(parts[1], parts[1] + count)
        elif count == 1 and 0 < len(text) <= limits.NAME_LENGTH_MAX:
            if text in explicit:
                raise InputError(f"the uuid {text!r} is given twice", where=document.where(path))
            explicit.add(text)
            structure.uuid_texts[at] = text
            structure.serial[at] = -1  # this uuid must not be found by base and serial
        else:
            raise InputError(f"expected a UUID, got {shown(text)}", where=document.where(path))
        at += count
    if at < structure.n:
        message = f"{at} uuids for {structure.n} pools"
        raise InputError(message, where=document.where(["uuids"]), hint="remove 'uuids' to have new ones made")
    structure.origins[:] = list(origins) or structure.origins
    for v, text in of_entries.items():
        if structure.uuid(v) != text:
            message = f"{structure.where(v)} has the uuid {text} in its entry, but {structure.uuid(v)} here"
            raise InputError(message, where=document.where(["uuids"]), hint="remove one of them")


def _require_unique_uuids(document: Document, structure: Structure) -> None:
    """Two pools must not have one uuid, whether it is part of a run or written in an entry."""
    again = repeated(*uuid_keys([structure]))
    if len(again):
        text = structure.uuid(int(again[0]))
        hint = "runs must not overlap each other or contain the 'uuid' of an entry"
        raise InputError(f"two pools have the uuid {text}", where=document.where(["uuids"]), hint=hint)
