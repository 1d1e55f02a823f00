"""GRUG: Fluxion's generation recipes for resource graphs, written in GraphML.

A node of the GraphML graph is a kind of pool. An edge says how many pools of one kind each pool of the other gets and how they
are numbered, or that existing pools are connected in another subsystem. The recipe keeps the order of the document, because that
order determines the vertex numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from fluxres import limits
from fluxres.documents import safe_xml
from fluxres.documents.safe_xml import Element
from fluxres.errors import InputError, LimitExceeded

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
        source: key of a kind.
        target: key of a kind.
        method: make new vertices, or connect existing ones.
        scale: new vertices below each source.
        id_scope: enclosing edges over which ids run on.
        target_subsystem: subsystem whose paths decide which vertices are connected.
        target_up: levels cut from the end of the target's path before paths are compared.
        source_up: the same for the source.
        line: its line in the file.
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
    """The data of one element, with the defaults."""

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
            raise InputError(f"{name}: expected an integer >= 0, got {text[:40]!r}", where=self.where)
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
