"""GRUG: Fluxion's generation recipes for resource graphs, written in GraphML.

A node of the GraphML graph is a kind of pool. An edge says how many pools of one kind each pool of the other gets and how they
are numbered, or that existing pools are connected in another subsystem. The recipe keeps the order of the document, because that
order determines the vertex numbers.

Fluxion walks the recipe depth first from each of its nodes in turn. An edge met for the first time makes the pools of its target
below every pool of its source, or connects existing pools in another subsystem. Number, id, rank and path of a pool follow from
the order in which pools are made, so that order is kept here, and a rule is a few array operations.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any, Final, Literal, NoReturn

import numpy as np
from numpy.typing import NDArray

from fluxres import limits
from fluxres.arrays import Int32, Int64
from fluxres.documents import safe_xml
from fluxres.documents.safe_xml import Element
from fluxres.documents.source import Source
from fluxres.errors import InputError, LimitExceeded
from fluxres.formats.format import Loaded
from fluxres.graph import kinds as pool_kinds
from fluxres.graph.assemble import assemble
from fluxres.graph.audit import require_valid
from fluxres.graph.auxiliary import Subsystem
from fluxres.graph.kinds import KindTable
from fluxres.graph.structure import Structure

Method = Literal["MULTIPLY", "ASSOCIATE_IN", "ASSOCIATE_BY_PATH_IN"]
METHODS: Final[dict[str, Method]] = {
    "MULTIPLY": "MULTIPLY",
    "ASSOCIATE_IN": "ASSOCIATE_IN",
    "ASSOCIATE_BY_PATH_IN": "ASSOCIATE_BY_PATH_IN",
}
_NODE_DEFAULTS = {"root": "0", "type": "", "basename": "", "unit": "", "size": "1", "subsystem": "containment"}
_EDGE_DEFAULTS = {
    "e_subsystem": "containment",
    "relation": "contains",
    "rrelation": "in",
    "id_scope": "0",
    "id_start": "0",
    "id_stride": "1",
    "gen_method": "MULTIPLY",
    "multi_scale": "1",
    "as_tgt_subsystem": "containment",
    "as_tgt_uplvl": "1",
    "as_src_uplvl": "1",
}
_DIGITS_MAX: Final = len(str(limits.SIZE_MAX))


@dataclass(frozen=True)
class Kind:
    """A kind of pool, from which vertices are made."""

    key: str
    type: str
    basename: str
    unit: str = ""
    size: int = 1
    subsystem: str = "containment"
    is_root: bool = False
    line: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Rule:
    """An edge of the recipe: how targets are placed below each source.

    Args:
        method: make new vertices, or connect existing ones.
        scale: new vertices below each source.
        id_scope: enclosing edges over which ids run on.
        target_subsystem: subsystem whose paths decide which vertices are connected.
        target_up: levels cut from the end of the target's path before paths are compared.
        source_up: the same for the source.
    """

    source: str
    target: str
    subsystem: str = "containment"
    relation: str = "contains"
    reverse_relation: str = "in"
    method: Method = "MULTIPLY"
    scale: int = 1
    id_scope: int = 0
    id_start: int = 0
    id_stride: int = 1
    target_subsystem: str = "containment"
    target_up: int = 1
    source_up: int = 1
    line: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Recipe:
    """A GRUG document: kinds and rules in the order written."""

    kinds: tuple[Kind, ...]
    rules: tuple[Rule, ...]


def load(path: Path) -> Recipe:
    """The recipe of a file; see :func:`parse` for errors."""
    return _recipe(safe_xml.load(path), str(path))


def parse(data: bytes, *, file: str = "<text>") -> Recipe:
    """The recipe of a GraphML text.

    Cost O(length). Errors: InputError `FILE:line` for text that is not GraphML or not a recipe; LimitExceeded for numbers that
    are too large.

    >>> text = '<graphml><graph><node id="a"><data key="root">1</data><data key="type">cluster</data></node></graph></graphml>'
    >>> parse(text.encode()).kinds[0].basename
    'cluster'
    """
    return _recipe(safe_xml.load(data, file=file), file)


def _recipe(root: Element, file: str) -> Recipe:
    if root.name != "graphml":
        raise InputError(f"expected <graphml>, got <{root.name}>", where=f"{file}:{root.line}")
    graphs = root.all("graph")
    if len(graphs) != 1:
        raise InputError(f"expected one <graph>, got {len(graphs)}", where=f"{file}:{root.line}")
    names, defaults = _keys(root, file)
    kinds: dict[str, Kind] = {}
    for element in graphs[0].all("node"):
        kind = _kind(_Values(element, names, {**_NODE_DEFAULTS, **defaults["node"]}, file))
        if kind.key in kinds:
            raise InputError(f"node {kind.key!r} is defined twice", where=f"{file}:{element.line}")
        kinds[kind.key] = kind
    if not any(kind.is_root for kind in kinds.values()):
        raise InputError("expected a node with root 1, got none", where=f"{file}:{graphs[0].line}")
    rules = []
    for element in graphs[0].all("edge"):
        values = _Values(element, names, {**_EDGE_DEFAULTS, **defaults["edge"]}, file)
        rules.append(_rule(values, kinds))
    return Recipe(tuple(kinds.values()), tuple(rules))


def _keys(root: Element, file: str) -> tuple[dict[str, str], dict[str, dict[str, str]]]:
    """Attribute names by key id, and the defaults that the file gives."""
    names: dict[str, str] = {}
    defaults: dict[str, dict[str, str]] = {"node": {}, "edge": {}}
    for element in root.all("key"):
        key = element.attributes.get("id")
        if key is None:
            raise InputError("a <key> without id", where=f"{file}:{element.line}")
        name = names[key] = element.attributes.get("attr.name", key)
        for default in element.all("default"):
            side = element.attributes.get("for", "node")
            if side in defaults:
                defaults[side][name] = default.text.strip()
    return names, defaults


class _Values:
    def __init__(self, element: Element, names: Mapping[str, str], defaults: Mapping[str, str], file: str) -> None:
        self.line = element.line
        self.where = f"{file}:{element.line}"
        self._attributes = element.attributes
        self._values = dict(defaults)
        for data in element.all("data"):
            key = data.attributes.get("key", "")
            self._values[names.get(key, key)] = data.text.strip()

    def attribute(self, name: str) -> str:
        value = self._attributes.get(name)
        if not value:
            raise InputError(f"expected the attribute {name!r}, which is missing", where=self.where)
        return value

    def text(self, name: str) -> str:
        value = self._values[name]
        if len(value) > limits.NAME_LENGTH_MAX:
            raise LimitExceeded(f"{name} of more than {limits.NAME_LENGTH_MAX} characters", where=self.where)
        return value

    def integer(self, name: str) -> int:
        text = self._values[name]
        digits = text.removeprefix("-")
        if not (digits.isascii() and digits.isdecimal()) or (text != digits and int(digits[:_DIGITS_MAX]) > 0):
            raise InputError(f"{name}: expected a whole number of at least 0, got {text[:40]!r}", where=self.where)
        if len(digits) > _DIGITS_MAX or int(digits) > limits.SIZE_MAX:
            raise LimitExceeded(f"{name}: expected at most {limits.SIZE_MAX}, got {text[:40]}", where=self.where)
        return int(digits)


def _kind(values: _Values) -> Kind:
    type_ = values.text("type")
    if not type_:
        raise InputError("expected a type, got none", where=values.where)
    return Kind(
        values.attribute("id"),
        type_,
        values.text("basename") or type_,
        values.text("unit"),
        values.integer("size"),
        values.text("subsystem"),
        values.integer("root") != 0,
        values.line,
    )


def _rule(values: _Values, kinds: Mapping[str, Kind]) -> Rule:
    source, target = values.attribute("source"), values.attribute("target")
    for key in (source, target):
        if key not in kinds:
            raise InputError(f"edge to a node {key!r} that does not exist", where=values.where)
    method = METHODS.get(values.text("gen_method"))
    if method is None:
        raise InputError(f"gen_method: expected {', '.join(METHODS)}, got {values.text('gen_method')!r}", where=values.where)
    return Rule(
        source,
        target,
        values.text("e_subsystem"),
        values.text("relation"),
        values.text("rrelation"),
        method,
        values.integer("multi_scale"),
        values.integer("id_scope"),
        values.integer("id_start"),
        values.integer("id_stride"),
        values.text("as_tgt_subsystem"),
        values.integer("as_tgt_uplvl"),
        values.integer("as_src_uplvl"),
        values.line,
    )


CONTAINMENT: Final = "containment"
REVERSE: Final = "reverse"
"""Attribute of an edge: the name of its relation in the reverse direction."""
PASSED_OVER: Final = "grug.passed_over"
"""Tag of the root: edges of the recipe to nodes that were reached before, from which Fluxion makes nothing."""
_NONE: Final = np.zeros(0, np.int32)


def read(source: Source, *, origin: int | None = None) -> Loaded:
    """The machine that a GRUG recipe makes.

    Containment edges besides those of the tree (a pool that is connected a second time) become an auxiliary graph named after
    their relation.

    Errors: InputError ``FILE:line`` for text that is not GraphML, not a recipe, or makes two pools of one path; LimitExceeded.
    Cost: about 0.4 µs per pool.
    """
    recipe = parse(source.data, file=source.file)
    structure = _Making(recipe, source).structure(origin)
    return Loaded(structure, [], structure.name(0))


@dataclass
class _Graph:
    """A subsystem being made: its pools, their parents, and its edges."""

    above: Int32 = field(default_factory=lambda: np.full(1024, -2, np.int32))
    """By pool, the last parent it was placed below, which determines its path; -1 for a root, -2 for a pool outside the
    subsystem.
    """
    root: int = -1
    source: list[Int32] = field(default_factory=list)
    target: list[Int32] = field(default_factory=list)
    rules: list[tuple[Rule, int]] = field(default_factory=list)

    def place(self, pools: Int32, above: Int32 | int) -> None:
        if len(pools) and int(pools.max()) >= len(self.above):
            grown = np.full(max(2 * len(self.above), int(pools.max()) + 1), -2, np.int32)
            grown[: len(self.above)] = self.above
            self.above = grown
        self.above[pools] = above

    def climb(self, pools: Int32, levels: int) -> Int32:
        """The pools `levels` levels up, -1 above the root and for pools outside the subsystem."""
        found = pools
        for level in range(levels + 1):
            inside = found < len(self.above)
            there = np.where(inside & (found >= 0), self.above[np.where(inside, found, 0)], -2)
            if level == levels:
                return np.where(there == -2, -1, found).astype(np.int32)
            found = np.where(there < 0, -1, there).astype(np.int32)
            if not (found >= 0).any():
                break
        return np.full(len(pools), -1, np.int32)

    def add(self, source: Int32, target: Int32, rule: Rule) -> None:
        self.source.append(source)
        self.target.append(target)
        self.rules.append((rule, len(source)))


class _Making:
    """The pools while rules make them, numbered in the order in which they are made."""

    def __init__(self, recipe: Recipe, source: Source) -> None:
        self._source = source
        self._kinds = {kind.key: kind for kind in recipe.kinds}
        self._rules: dict[str, list[Rule]] = {}
        for written in recipe.rules:
            self._rules.setdefault(written.source, []).append(written)
        self._table = KindTable()
        self._n = 0
        self._blocks: list[tuple[int, int, int]] = []  # kind, size, count
        self._parents: list[tuple[Int32, Int32]] = []
        self._ids: list[Int64] = []
        self._made: dict[str, list[Int32]] = {}
        self._by_type: dict[str, list[Int32]] = {}
        self._graphs: dict[str, _Graph] = {}
        self._scales: tuple[int, ...] = ()
        self._brothers: set[tuple[str, str]] = set()
        self._passed: list[str] = []
        self._doubtful = False
        steps = list(self._steps(recipe))
        self._require_few(steps)
        for kind, rule, self._scales in steps:
            if rule is not None:
                self._apply(rule)
            self._meet(kind, kind.line if rule is None else rule.line)

    def _fail(self, line: int, message: str, hint: str = "", *, limit: bool = False) -> NoReturn:
        raise (LimitExceeded if limit else InputError)(message, where=self._source.where(line), hint=hint)

    def _steps(self, recipe: Recipe) -> Iterator[tuple[Kind, Rule | None, tuple[int, ...]]]:
        """Nodes of the recipe in the order they are reached, depth first from each in turn, the rule that leads there, and its
        scales.
        """
        seen: set[str] = set()
        for start in recipe.kinds:
            if start.key in seen:
                continue
            seen.add(start.key)
            yield start, None, ()
            path: list[tuple[str, int, tuple[int, ...]]] = [(start.key, 0, ())]
            while path:
                key, position, scales = path.pop()
                rules = self._rules.get(key, ())
                if position < len(rules):
                    rule = rules[position]
                    path.append((key, position + 1, scales))
                    if rule.target in seen:
                        self._passed.append(f"{rule.source} to {rule.target}")
                        continue
                    seen.add(rule.target)
                    yield self._kinds[rule.target], rule, scales
                    path.append((rule.target, 0, (*scales, rule.scale)))

    def _require_few(self, steps: Sequence[tuple[Kind, Rule | None, tuple[int, ...]]]) -> None:
        """Refuse a recipe of too many pools before any is made; pools that rules connect are counted while the rules run."""
        counts: dict[str, int] = {}
        for kind, rule, _ in steps:
            if rule is None:
                counts[kind.key] = int(kind.is_root)
            elif rule.method == "MULTIPLY":
                count = counts[kind.key] = counts.get(rule.source, 0) * rule.scale
                if count > limits.POOLS_MAX:
                    self._fail(rule.line, f"{count} pools, at most {limits.POOLS_MAX} are allowed", limit=True)

    def _meet(self, kind: Kind, line: int) -> None:
        if not kind.is_root:
            return
        graph = self._graph(kind.subsystem)
        if graph.root >= 0:
            self._fail(kind.line, f"a second root of {kind.subsystem}", "one node of a subsystem has root 1")
        if self._made.get(kind.key):
            self._fail(line, f"{kind.key!r} is a root and also the target of an edge")
        rows = self._make(kind, np.zeros(1, np.int64), line)
        graph.root = int(rows[0])
        graph.place(rows, -1)
        self._made.setdefault(kind.key, []).append(rows)

    def _graph(self, subsystem: str) -> _Graph:
        if len(self._graphs) > limits.SUBSYSTEMS_MAX:
            raise LimitExceeded(f"more than {limits.SUBSYSTEMS_MAX} subsystems", where=self._source.file)
        return self._graphs.setdefault(subsystem, _Graph())

    def _make(self, kind: Kind, ids: Int64, line: int) -> Int32:
        count = len(ids)
        if self._n + count > limits.POOLS_MAX:
            self._fail(line, f"more than {limits.POOLS_MAX} pools in all", limit=True)
        for what, word in (("type", kind.type), ("basename", kind.basename), ("unit", kind.unit)):
            if ("/" in word and what != "unit") or not word.isprintable():
                self._fail(kind.line, f"{what} {word!r} has a character that no path can hold")
        if kind.size < 1:
            self._fail(kind.line, f"size: expected a whole number of at least 1, got {kind.size}")
        number = self._table.intern(pool_kinds.Kind(kind.type, kind.basename, kind.unit or None))
        self._doubtful |= kind.basename[-1:].isdigit()
        rows = np.arange(self._n, self._n + count, dtype=np.int32)
        self._n += count
        self._blocks.append((number, kind.size, count))
        self._ids.append(ids)
        self._by_type.setdefault(kind.type, []).append(rows)
        return rows

    def _apply(self, rule: Rule) -> None:
        sources = _joined(self._made.get(rule.source, []))
        if rule.method == "MULTIPLY":
            self._multiply(rule, sources)
            return
        type_ = self._kinds[rule.target].type
        existing = _joined(self._by_type.get(type_, []))
        if not len(existing):
            hint = "edges are followed depth first, in their order"
            self._fail(rule.line, f"no {type_} has been made yet that could be tied in", hint)
        pairs = self._pairs(rule, sources, existing)
        graph = self._inside(rule, pairs[0])
        graph.place(pairs[1], pairs[0])
        graph.add(*pairs, rule)
        self._made.setdefault(rule.target, []).append(pairs[1])

    def _inside(self, rule: Rule, sources: Int32) -> _Graph:
        """The graph of a rule, of which its sources must be a part."""
        graph = self._graph(rule.subsystem)
        outside = sources[(sources >= len(graph.above)) | (graph.above[np.minimum(sources, len(graph.above) - 1)] == -2)]
        if len(outside):
            hint = "it is placed there by an edge of its own"
            self._fail(rule.line, f"{self._kinds[rule.source].type} has no path in {rule.subsystem}", hint)
        return graph

    def _pairs(self, rule: Rule, sources: Int32, existing: Int32) -> tuple[Int32, Int32]:
        """What is tied to what: every existing pool to each source, or those that stand in the same place."""
        if rule.method == "ASSOCIATE_IN":
            self._bound(rule, len(sources) * len(existing))
            return np.repeat(sources, len(existing)), np.tile(existing, len(sources))
        graph = self._graph(rule.target_subsystem)
        near, far = graph.climb(sources, rule.source_up), graph.climb(existing, rule.target_up)
        order = np.argsort(far, kind="stable")
        first = np.searchsorted(far[order], near)
        count = np.searchsorted(far[order], near, side="right") - first
        self._bound(rule, int(count.sum()))
        rows = np.repeat(first - np.cumsum(count) + count, count) + np.arange(int(count.sum()))
        return np.repeat(sources, count), existing[order[rows]]

    def _bound(self, rule: Rule, count: int) -> None:
        if count + sum(count for graph in self._graphs.values() for _, count in graph.rules) > limits.EDGES_MAX:
            self._fail(rule.line, f"more than {limits.EDGES_MAX} edges", limit=True)

    def _multiply(self, rule: Rule, sources: Int32) -> None:
        target, scale, stride = self._kinds[rule.target], rule.scale if len(sources) else 0, rule.id_stride
        if len(sources) * scale > limits.POOLS_MAX:
            self._fail(rule.line, f"{len(sources) * scale} pools, at most {limits.POOLS_MAX} fit", limit=True)
        scope = min(rule.id_scope, len(self._scales))
        period = prod(self._scales[len(self._scales) - scope :]) if scope else 1
        if rule.id_start + min(period, max(len(sources), 1)) * scale * stride > limits.ID_MAX:
            self._fail(rule.line, f"ids above {limits.ID_MAX}", limit=True)
        base = np.arange(len(sources), dtype=np.int64) % period if period else np.zeros(len(sources), np.int64)
        ids = rule.id_start + (base * (scale * stride))[:, None] + np.arange(scale, dtype=np.int64) * stride
        graph = self._inside(rule, sources)
        rows = self._make(target, ids.reshape(-1), rule.line)
        above = np.repeat(sources, scale)
        graph.place(rows, above)
        if rule.subsystem == CONTAINMENT:
            self._parents.append((rows, above))
        else:
            graph.add(above, rows, rule)
        self._doubtful |= (stride == 0 and scale > 1) or len(np.unique(sources)) < len(sources)
        brother = rule.source, target.basename
        self._doubtful |= brother in self._brothers
        self._brothers.add(brother)
        self._made.setdefault(rule.target, []).append(rows)

    # -- the structure ---------------------------------------------------------------------------------------------------

    def structure(self, origin: int | None) -> Structure:
        containment = self._graphs.pop(CONTAINMENT, _Graph())
        if containment.root < 0:
            raise InputError("no node is the root of containment", where=self._source.file, hint="it has root 1")
        parent = np.full(self._n, -1, np.int32)
        for rows, above in self._parents:
            parent[rows] = above
        spare = self._tie(containment, parent)
        numbers, sizes, counts = (np.array(column, np.int64) for column in zip(*self._blocks, strict=True))
        types = np.repeat(np.array([self._table[number].type == "node" for number in numbers]), counts)
        rank = np.full(self._n, -1, np.int32)
        rank[types] = np.arange(int(types.sum()))
        # The root of containment comes first, whatever was made before it; what is outside comes last.
        order = np.argsort(self._outside(parent, containment.root), kind="stable")
        place = np.empty(self._n, np.int32)
        place[order] = np.arange(self._n, dtype=np.int32)
        above = parent[order]
        made = assemble(
            np.where(above >= 0, place[above], np.int32(-1)),
            np.repeat(numbers, counts)[order],
            kinds=self._table,
            size=np.repeat(sizes, counts)[order],
            id=np.concatenate(self._ids)[order],
            rank=rank[order],
            origin=origin,
            where=lambda _: self._source.file,
        )
        vertex = made.vertex[place]
        for name, graph in [*spare.items(), *self._graphs.items()]:
            if graph.source:
                made.structure.subsystems[name] = _subsystem(name, graph, vertex)
        if self._passed:
            text = "; ".join(self._passed)
            made.structure.set_tag([0], PASSED_OVER, text[: limits.VALUE_LENGTH_MAX])
        if self._doubtful:
            try:
                require_valid(made.structure)
            except InputError as error:
                raise InputError(f"{error.where}: {error.message}", where=self._source.file) from None
        return made.structure

    def _outside(self, parent: Int32, root: int) -> NDArray[np.int8]:
        """By pool: 0 the root of containment, 1 a pool that is in another, 2 one outside."""
        found = np.where(parent < 0, 2, 1).astype(np.int8)
        found[root] = 0
        return found

    def _tie(self, containment: _Graph, parent: Int32) -> dict[str, _Graph]:
        """Give pools that were tied into containment their place, if they had none; the edges that are left, by relation."""
        spare: dict[str, _Graph] = {}
        for source, target, (rule, _) in zip(containment.source, containment.target, containment.rules, strict=True):
            rows, first = np.unique(target, return_index=True)
            is_new = (parent[rows] < 0) & (rows != containment.root)
            parent[rows[is_new]] = source[first[is_new]]
            left = np.ones(len(target), np.bool_)
            left[first[is_new]] = False
            if left.any():
                name = rule.relation if rule.relation not in self._graphs else f"{CONTAINMENT}.{rule.relation}"
                spare.setdefault(name, _Graph()).add(source[left], target[left], rule)
        return spare


def _joined(arrays: list[Int32]) -> Int32:
    return arrays[0] if len(arrays) == 1 else np.concatenate([_NONE, *arrays])


def _subsystem(name: str, graph: _Graph, vertex: Int32) -> Subsystem:
    relations: dict[str, int] = {}
    counts = [len(rows) for rows in graph.source]
    numbers = [relations.setdefault(rule.relation, len(relations)) for rule, _ in graph.rules]
    attributes: dict[str, NDArray[Any]] = {}
    reverse = np.array([rule.reverse_relation for rule, _ in graph.rules], object)
    if any(word != "in" for word in reverse):
        attributes[REVERSE] = np.repeat(reverse, counts)
    src, dst = vertex[np.concatenate(graph.source)], vertex[np.concatenate(graph.target)]
    made = Subsystem(name, False, src, dst, np.repeat(np.array(numbers, np.uint16), counts), list(relations), attributes)
    try:
        made.require_forest()
    except InputError:
        return made
    made.hierarchy = True
    return made
