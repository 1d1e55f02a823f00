"""Turn entries of ``cluster.yaml`` into recipes: includes and parts, the defaults, and the short forms of ids, names and ranks.

An entry that uses a part is a stack of layers with its own keys on top. Nothing is copied, so a message about an inherited key
points into the file that has it. The rule for default ids (`DefaultIds`) is shared with the writer, which leaves out exactly the
ids that the rule gives back.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import UNSET

from fluxres import limits
from fluxres.arrays import Int64
from fluxres.documents import suggestion, typed, yaml_document
from fluxres.documents.document import Document, Key, excerpt
from fluxres.documents.mistakes import Mistakes
from fluxres.errors import ErrorPlace, FluxresError, InputError, LimitExceeded
from fluxres.formats.cluster import hosts
from fluxres.formats.cluster.schema import Cluster, IdStart, Resource
from fluxres.graph.draws import Draws
from fluxres.graph.kinds import DRAW
from fluxres.graph.recipe import NO_RANK, Recipe
from fluxres.syntax import hostlist, idset, template, unit


@dataclass(slots=True, eq=False)
class Layer:
    """A resource as written in a document."""

    resource: Resource
    document: Document
    path: tuple[Key, ...]

    def where(self, *more: Key, key: bool = False) -> str:
        """``file:line:column: path`` of this entry or of a key in it."""
        return self.document.where((*self.path, *more), key=key)


class Entry:
    """A resource with the parts it uses: the value of a key is that of the first layer that has it."""

    __slots__ = ("layers", "parts")

    def __init__(self, layers: list[Layer], parts: tuple[str, ...]) -> None:
        self.layers = layers
        #: names of the parts that were expanded to get here, including those of enclosing entries
        self.parts = parts

    def get(self, key: str) -> Any:
        """The value of a key, UNSET when no layer has it."""
        for layer in self.layers:
            value = getattr(layer.resource, key)
            if value is not UNSET:
                return value
        return UNSET

    def layer(self, key: str) -> Layer:
        """The layer that a key comes from; the entry itself if no layer has it."""
        return next((layer for layer in self.layers if getattr(layer.resource, key) is not UNSET), self.layers[0])

    def where(self, key: str = "") -> str:
        layer = self.layer(key) if key else self.layers[0]
        return layer.where(key.rstrip("_")) if key else layer.where()


def size_of(text: str, given: str | None, key: str = "size") -> dict[str, Any]:
    """Size (or capacity, by `key`) and unit of a text such as `192GiB`, in a given unit if there is one.

    Errors: InputError, LimitExceeded.

    >>> size_of("192GiB", None), size_of("192GiB", "MiB")
    ({'size': 192, 'unit': 'GiB'}, {'size': 196608, 'unit': 'MiB'})
    """
    number, own = unit.parse(text) if given is None else (unit.exactly(text, given), given)
    if number > limits.SIZE_MAX:
        raise LimitExceeded(f"expected at most {limits.SIZE_MAX} {own}, got {excerpt(text)}", where=key, hint="use a larger unit")
    return {key: number, "unit": own}


class Parts:
    """All parts a document can use: its own and, recursively, those of the files it includes.

    Errors: InputError for a part that is defined twice, a file that includes itself or cannot be read; LimitExceeded for includes
    deeper than INCLUDE_DEPTH_MAX.
    """

    def __init__(self, document: Document, cluster: Cluster, wrong: Iterable[tuple[Key, ...]], mistakes: Mistakes) -> None:
        self._parts: dict[str, Layer] = {}
        self._read: set[Path] = set()
        self._mistakes = mistakes
        self._wrong = {(document, entry_at(path)) for path in wrong}
        #: whether a file with parts could not be read
        self._is_partial = False
        self._collect(document, cluster, [] if document.path is None else [document.path.resolve()])

    def _collect(self, document: Document, cluster: Cluster, chain: list[Path]) -> None:
        for i, name in enumerate(cluster.include or ()):
            with self._mistakes:
                self._include(document, name, i, chain)
                continue
            self._is_partial = True
        for name, part in (cluster.parts or {}).items():
            known = self._parts.setdefault(name, Layer(part, document, ("parts", name)))
            if known.document is not document:
                message = f"the part {name!r} is also defined in {known.document.file}"
                self._mistakes.add(InputError(message, where=document.where(["parts", name], key=True), hint="rename one"))

    def _include(self, document: Document, name: str, i: int, chain: list[Path]) -> None:
        path = self._included(document, name, i, chain)
        if path in self._read:
            return
        self._read.add(path)
        inner = yaml_document.load(path, file=str(self._folder(document) / name))
        parts, wrong = typed.convert_partly(inner, Cluster, self._mistakes)
        self._wrong |= {(inner, entry_at(path)) for path in wrong}
        for key in ("resources", "root", "partitions", "pools", "graphs", "allocations", "reservations", "uuids"):
            if getattr(parts, key) is not UNSET:
                message = f"an included file may only have parts, but this one has {key!r}"
                where = inner.where([key], key=True)
                self._mistakes.add(InputError(message, where=where, hint="move it to the file that includes it"))
        self._collect(inner, parts, [*chain, path])

    def _included(self, document: Document, name: str, i: int, chain: list[Path]) -> Path:
        def where() -> str:
            return document.where(["include", i])

        if document.path is None:
            raise InputError("only a document loaded from a file can include files", where=where(), hint="load it from a file")
        try:
            path = (self._folder(document) / name).resolve()
        except (OSError, ValueError, RuntimeError) as error:
            raise InputError(f"cannot include {name!r}: {error}", where=where()) from None
        if path in chain:
            raise InputError(
                f"{name!r} includes itself, directly or through others", where=where(), hint="remove one of the includes"
            )
        if len(chain) >= limits.INCLUDE_DEPTH_MAX:
            raise LimitExceeded(f"includes are more than {limits.INCLUDE_DEPTH_MAX} files deep", where=where())
        if not path.exists():
            raise InputError(f"no file {name!r} to include", where=where(), hint=f"paths start at {self._folder(document)}")
        return path

    @staticmethod
    def _folder(document: Document) -> Path:
        return Path() if document.path is None else document.path.parent

    def entry(self, layer: Layer, around: tuple[str, ...] = ()) -> Entry:
        """An entry with the parts that it uses.

        Args:
            around: parts in which it is nested; using one of them again would never end.
        """
        layers = [layer]
        while (name := layers[-1].resource.use) is not UNSET:
            part = self._parts.get(name)
            if part is None and self._is_partial:
                self._wrong.add((layer.document, layer.path))
                break
            if part is None:
                part = self._meant(name, layers[-1])
            if name in around:
                raise InputError(f"the part {name!r} contains itself", where=layers[-1].where("use"), hint="remove the recursion")
            around = (*around, name)
            layers.append(part)
        return Entry(layers, around)

    def _meant(self, name: str, layer: Layer) -> Layer:
        """The part whose name was misspelt, so that it is read as well. Errors: InputError if no name is near."""
        hint = suggestion.nearest(name, list(self._parts)) if self._parts else "there are no parts"
        error = InputError(f"no part {name!r}", where=layer.where("use"), hint=hint)
        meant = suggestion.near(name, self._parts)
        if not meant:
            raise error
        self._mistakes.add(error)
        return self._parts[meant[0]]

    def is_wrong(self, entry: Entry) -> bool:
        """Whether a value in it could not be read: what else seems wrong may follow from that."""
        return bool(self._wrong) and any((layer.document, layer.path) in self._wrong for layer in entry.layers)


#: keys whose value is a list of entries that may have others in them
_LISTS = ("resources", "with", "pools", "edges")


def entry_at(path: tuple[Key, ...]) -> tuple[Key, ...]:
    """The path of the entry that a path leads into.

    >>> entry_at(("resources", 0, "with", 1, "id", "start")), entry_at(("parts", "cpu", "size"))
    (('resources', 0, 'with', 1), ('parts', 'cpu'))
    """
    if path[:1] in (("allocations",), ("reservations",)):
        return path[:2]  # their pools are names, and no entries
    for end in range(len(path), 1, -1):
        if isinstance(path[end - 1], int) and path[end - 2] in _LISTS:
            return path[:end]
    return path[:2] if path[:1] == ("parts",) else path[:1]


#: type and count of the enclosing entries, outermost first
Chain = tuple[tuple[str, int], ...]


#: keys of an entry that may determine a value of a recipe
_ALSO = {
    "name": ("name", "hosts"),
    "names": ("names", "hosts"),
    "id": ("id", "hosts"),
    "property": ("properties", "draw"),
    "tag": ("tags",),
}


class DefaultIds:
    """Ids of entries that do not give theirs, among one list of siblings.

    Pools of one type and basename are numbered from the highest id before them. A single pool has an id only if it was counted
    (``count: 1``), its name uses one, or a sibling entry has the same type and basename and no name of its own.

    >>> ids = DefaultIds([("node", "node", None), ("node", "node", None), ("gpu", "gpu", None)])
    >>> ids.start("node", "node", None, counted=True), ids.start("gpu", "gpu", None, counted=False)
    (0, None)
    """

    def __init__(self, brothers: Sequence[tuple[str, str, str | None]]) -> None:
        self._unnamed: dict[tuple[str, str], int] = {}
        for type_name, basename, name in brothers:
            if name is None:
                self._unnamed[type_name, basename] = self._unnamed.get((type_name, basename), 0) + 1
        self._next: dict[tuple[str, str], int] = {}

    def start(self, type_name: str, basename: str, name: str | None, *, counted: bool) -> int | None:
        """The first id of an entry that does not give one, None for no id."""
        among = name is None and self._unnamed.get((type_name, basename), 0) > 1
        if not (counted or among or (name is not None and asks_for_id(name))):
            return None
        return self._next.get((type_name, basename), 0)

    def took(self, type_name: str, basename: str, highest: int) -> None:
        """Record that an entry uses ids up to `highest`."""
        key = (type_name, basename)
        self._next[key] = max(self._next.get(key, 0), highest + 1)


def asks_for_id(name: str) -> bool:
    """Whether a name template contains ``${id}``; False for a malformed template.

    >>> asks_for_id("node-${rack}-${id:02}"), asks_for_id("login")
    (True, False)
    """
    try:
        return any(not isinstance(part, str) and part.key == "id" for part in template.parse(name))
    except InputError:
        return False


class Entries:
    """Makes recipes from entries and remembers where each was written."""

    def __init__(self, parts: Parts, mistakes: Mistakes) -> None:
        self._parts = parts
        self._mistakes = mistakes
        self._entries: dict[int, Entry] = {}
        self._recipes: list[Recipe] = []
        self._children: dict[tuple[int, Chain], tuple[Recipe, ...]] = {}
        #: units in which the pools of auxiliary graphs count, by the name of the graph and by type
        self._units: dict[str, set[str]] = {}
        self._made = 0

    def where(self, recipe: Recipe, key: str = "") -> str:
        """The place of a recipe's entry, or of the value of a key in it; empty for a root without an entry."""
        entry = self._entries.get(id(recipe))
        if entry is None:
            return ""
        written = [name for name in _ALSO.get(key, (key,)) if name and entry.get(name) is not UNSET]
        return entry.where(written[0] if written else "")

    def recipes(
        self,
        resources: Sequence[Resource],
        document: Document,
        path: tuple[Key, ...],
        *,
        chain: Chain = (),
        around: tuple[str, ...] = (),
    ) -> tuple[Recipe, ...]:
        if len(chain) > limits.DEPTH_MAX:
            hint = "leave out levels that no request names"
            raise LimitExceeded(f"more than {limits.DEPTH_MAX} levels", where=document.where(path), hint=hint)
        entries: list[Entry] = []
        for i, resource in enumerate(resources):
            layer = Layer(resource, document, (*path, i))
            with self._of(Entry([layer], ())):
                entry = self._parts.entry(layer, around)
                with self._of(entry):
                    self._identity(entry)
                    entries.append(entry)
        defaults = DefaultIds([self._identity(entry) for entry in entries])
        made: list[Recipe] = []
        for entry in entries:
            with self._of(entry):
                recipe = self._recipe(entry, defaults, chain)
                if not self._parts.is_wrong(entry):
                    made.append(recipe)
                continue
            self._below(entry, (*chain, (self._identity(entry)[0], 1)))  # for what is wrong there
        return tuple(made)

    def _of(self, entry: Entry) -> Mistakes:
        """Where mistakes in this entry go: nowhere if they may follow from a value that could not be read."""
        return Mistakes() if self._parts.is_wrong(entry) else self._mistakes

    def root(self, resource: Resource, document: Document, path: tuple[Key, ...], name: str | None) -> Recipe:
        """The recipe of the root pool; it has an id only if one is written."""
        entry = self._parts.entry(Layer(resource, document, path))
        return self._recipe(entry, DefaultIds([self._identity(entry)]), (), root_name=name, is_root=True)

    def note_units(self, graph: str, pools: Iterable[Recipe]) -> None:
        """Keep the units in which the pools of a graph count, for draws in text that are read later."""
        for recipe in pools:
            if recipe.unit is not None:
                self._units.setdefault(graph, set()).add(recipe.unit)
                self._units.setdefault(recipe.type, set()).add(recipe.unit)
            self.note_units(graph, recipe.children)

    def _drawn(self, entry: Entry, name: str, drawn: int | str) -> int:
        """What a pool draws, in the unit of its suppliers. Errors: InputError for a text that is no whole number of these."""
        if isinstance(drawn, int):
            return drawn
        units = sorted(self._units.get(name, ()))
        with ErrorPlace(lambda: entry.layer("draw").where("draw", name)):
            if len(units) != 1:
                unit.parse(drawn)  # an unknown unit comes first
                counted = f"is counted in {' and '.join(units)}" if units else "is counted in no unit by any graph of this file"
                hint = suggestion.nearest(name, sorted(self._units), "") if not units else ""
                hint = hint or "write a number, in the units of the suppliers"
                raise InputError(f"{name!r} {counted}, got {excerpt(drawn)}", hint=hint)
            smaller = f"write the sizes of the suppliers in a smaller unit than {units[0]}"
            found = unit.exactly(drawn, units[0], or_else=smaller)
            if not 1 <= found <= limits.SIZE_MAX:
                raise InputError(f"expected 1 to {limits.SIZE_MAX} {units[0]}, got {excerpt(drawn)}")
        return found

    def require_supplied(self, draws: Draws) -> None:
        """Refuse entries that draw from a supplier that does not exist. Draws written as properties (draw.power) are left to
        `check`.
        """
        if not draws.types or not draws.supplied:  # a node may be described alone and later merged into a machine with power
            return
        for recipe in self._recipes:
            entry = self._entries[id(recipe)]
            for name in {} if (draw := entry.get("draw")) is UNSET else draw:
                if (fault := draws.fault(name)) is not None:
                    where = entry.layer("draw").where("draw", name)
                    self._mistakes.add(InputError(fault.message, where=where, hint=fault.hint))

    def require_hosts_once(self) -> None:
        """Refuse a host name that two pools would have. Cost: O(entries), and O(hosts) where names can only be compared."""
        right = [recipe for recipe in self._recipes if not self._parts.is_wrong(self._entries[id(recipe)])]
        with_hosts = [recipe for recipe in right if self._entries[id(recipe)].get("hosts") is not UNSET]
        if with_hosts:
            hosts.require_once(right, with_hosts, lambda recipe: self._entries[id(recipe)].where("hosts"), self._mistakes)

    def _identity(self, entry: Entry) -> tuple[str, str, str | None]:
        type_name = entry.get("type")
        if type_name is UNSET:
            hint = "name the resource type, such as 'type: node', or a part, as 'use: PART'"
            raise InputError("the key 'type' is missing", where=entry.where(), hint=hint)
        named = next((key for key in ("name", "hosts", "names") if entry.get(key) is not UNSET), None)
        # Only `name` is a template: the names of a list are literal.
        name = entry.get("name") if named == "name" else None if named is None else ""
        return type_name, entry.get("basename") or type_name, name

    def _recipe(
        self, entry: Entry, defaults: DefaultIds, chain: Chain, *, root_name: str | None = None, is_root: bool = False
    ) -> Recipe:
        self._made += 1
        if self._made > limits.RECIPES_MAX:
            raise LimitExceeded(f"more than {limits.RECIPES_MAX} entries after parts are expanded", where=entry.where())
        type_name = self._identity(entry)[0]
        name, names, ids, count = self._names_and_ids(entry, defaults, chain)
        if is_root and isinstance(ids, int):
            ids = np.array([ids], np.int64) if entry.get("id") is not UNSET else None
        if root_name is not None and name is None and names is None:
            name = root_name.replace("$", "$$")
        fields: dict[str, Any] = {
            key: value
            for key in ("basename", "size", "unit", "exclusive", "uuid", "capacity", "way")
            if (value := entry.get(key)) is not UNSET
        }
        if isinstance(fields.get("size"), str):
            with ErrorPlace(lambda: entry.where("size")):
                fields |= size_of(fields["size"], fields.get("unit"))
        if fields.get("size") == 0 and not fields.get("way"):
            raise InputError(
                "expected a whole number of at least 1, got 0",
                where=entry.where("size"),
                hint="0 is only for pools of a copy that lead to its content, with 'way: true'",
            )
        for key in ("properties", "tags"):
            value = entry.get(key)
            if value is not UNSET:
                fields[key] = dict.fromkeys(value) if isinstance(value, list) else value
        if (draw := entry.get("draw")) is not UNSET:
            if fields.get("size", 1) != 1:
                hint = "put the draw on a pool of one unit that contains these"
                raise InputError("only a pool of one unit can have a draw", where=entry.where("draw"), hint=hint)
            drawn = {DRAW + name: self._drawn(entry, name, units) for name, units in draw.items()}
            fields["properties"] = {**fields.get("properties", {}), **drawn}
        state = entry.get("state")
        if state is not UNSET:
            fields["state"] = "null" if state is None else state
        recipe = Recipe(
            type_name,
            count,
            name=name,
            names=names,
            ids=ids,
            rank=self._rank(entry),
            word_for_word=entry.get("names") is not UNSET,
            children=self._below(entry, (*chain, (type_name, count))),
            **fields,
        )
        self._entries[id(recipe)] = entry
        self._recipes.append(recipe)  # keeps the object alive, so that its id() is not reused
        return recipe

    def _below(self, entry: Entry, chain: Chain) -> tuple[Recipe, ...]:
        resources = entry.get("with_")
        if not resources:
            return ()
        # A part that a thousand entries use is made once. The chain is in the key because ids may run on within an enclosing
        # pool.
        key = (id(resources), chain)
        known = self._children.get(key)
        if known is None:
            layer = entry.layer("with_")
            known = self.recipes(resources, layer.document, (*layer.path, "with"), chain=chain, around=entry.parts)
            self._children[key] = known
        return known

    # -- names, ids, ranks -------------------------------------------------------------------------------------------

    def _names_and_ids(
        self, entry: Entry, defaults: DefaultIds, chain: Chain
    ) -> tuple[str | None, Sequence[str] | None, int | Int64 | None, int]:
        type_name, basename, named = self._identity(entry)
        count = entry.get("count")
        given = [key for key in ("name", "hosts", "names") if entry.get(key) is not UNSET]
        if len(given) > 1:
            raise InputError(f"both {given[0]!r} and {given[1]!r}", where=entry.where(given[1]), hint="give one of them")
        name: str | None = entry.get("name") if given == ["name"] else None
        names: Sequence[str] | None = None
        ids: int | Int64 | None
        if given == ["hosts"] and entry.get("id") is UNSET:
            name, names, ids = self._hosts(entry)
            if count is UNSET:
                count = len(names) if names is not None else len(ids) if isinstance(ids, np.ndarray) else 1
        else:
            if given and given != ["name"]:
                names = self._listed(entry, given[0])
                count = len(names) if count is UNSET else count
            ids = self._ids(entry, 1 if count is UNSET else count, chain)
            if entry.get("id") is UNSET:
                counted = entry.get("count") is not UNSET or (names is not None and len(names) > 1)
                ids = defaults.start(type_name, basename, named, counted=counted)
            if count is UNSET:
                explicit = not isinstance(entry.get("id"), IdStart) and isinstance(ids, np.ndarray)
                count = len(ids) if explicit and isinstance(ids, np.ndarray) else 1
        if isinstance(ids, int):
            defaults.took(type_name, basename, ids + count - 1)
        elif ids is not None and len(ids):
            defaults.took(type_name, basename, int(ids.max()))
        return name, names, ids, count

    def _hosts(self, entry: Entry) -> tuple[str | None, Sequence[str] | None, int | Int64 | None]:
        """Template and ids of a plain range, without making the names; otherwise a list of names."""
        text = entry.get("hosts")
        plain = hostlist.regular(text)
        if plain is None:
            names = self._listed(entry, "hosts")
            return None, names, 0 if len(names) > 1 else None
        prefix, width, suffix, first, last = plain
        field = f"${{id:0{width}}}" if width > 1 else "${id}"
        if last > limits.ID_MAX:
            raise LimitExceeded(f"{last} is not a valid id, at most {limits.ID_MAX}", where=entry.where("hosts"))
        return f"{prefix.replace('$', '$$')}{field}{suffix.replace('$', '$$')}", None, np.arange(first, last + 1)

    @staticmethod
    def _listed(entry: Entry, key: str) -> Sequence[str]:
        value = entry.get(key)
        if isinstance(value, str):
            try:
                value = hostlist.parse(value)
            except FluxresError as error:
                raise type(error)(f"{error.message} ({error.where})", where=entry.where(key), hint=error.hint) from None
        if not value:
            raise InputError("expected at least one name, got none", where=entry.where(key))
        names: Sequence[str] = value
        return names

    def _ids(self, entry: Entry, count: int, chain: Chain) -> int | Int64 | None:
        value = entry.get("id")
        if isinstance(value, IdStart):
            return self._running(entry, value, count, chain)
        if isinstance(value, int):
            if value < 0:
                raise InputError(
                    f"expected a whole number of at least 0, got {value}",
                    where=entry.where("id"),
                    hint="write 'id: null' for a pool without id",
                )
            if value > limits.ID_MAX:
                raise LimitExceeded(f"expected a whole number of at most {limits.ID_MAX}, got {value}", where=entry.where("id"))
            return value
        return None if value is None or value is UNSET else self._numbers(entry, "id", value)

    @staticmethod
    def _running(entry: Entry, value: IdStart, count: int, chain: Chain) -> int | Int64:
        if value.within is UNSET:
            return value.start
        types = [type_name for type_name, _ in chain]
        if value.within not in types:
            around = ", ".join(types) or "nothing"
            place = entry.layer("id").where("id", "within")
            raise InputError(f"this entry is in no {value.within!r}", where=place, hint=f"it is in {around}")
        nearest = len(types) - 1 - types[::-1].index(value.within)
        total = count * math.prod(times for _, times in chain[nearest + 1 :])
        if total > limits.POOLS_MAX:
            raise LimitExceeded(f"{total} pools, at most {limits.POOLS_MAX} are allowed", where=entry.where("id"))
        return np.arange(value.start, value.start + total)

    @staticmethod
    def _numbers(entry: Entry, key: str, value: str | list[int | str]) -> Int64:
        """Numbers of an idset, or of a list of numbers and idsets, in the order written."""
        blocks: list[Int64] = []
        total = 0
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, int):
                spans = [(item, item)]
                if not 0 <= item <= limits.ID_MAX:
                    raise InputError(f"expected a whole number from 0 to {limits.ID_MAX}, got {item}", where=entry.where(key))
            else:
                try:
                    spans = idset.ranges(item)
                except FluxresError as error:
                    raise type(error)(error.message, where=entry.where(key), hint=error.hint) from None
            total += sum(last - first + 1 for first, last in spans)
            if total > limits.IDSET_COUNT_MAX:
                raise LimitExceeded(f"more than {limits.IDSET_COUNT_MAX} numbers", where=entry.where(key))
            blocks.extend(np.arange(first, last + 1) for first, last in spans)
        if not total:
            raise InputError("expected at least one number, got none", where=entry.where(key))
        return np.concatenate(blocks)

    def _rank(self, entry: Entry) -> int | Int64 | None:
        value = entry.get("rank")
        if value is UNSET or value is None:
            return None if value is UNSET else NO_RANK
        numbers = np.array([value]) if isinstance(value, int) else self._numbers(entry, "rank", value)
        if int(numbers.min()) < 0 or int(numbers.max()) > limits.POOLS_MAX:
            raise InputError(
                f"expected ranks from 0 to {limits.POOLS_MAX}", where=entry.where("rank"), hint="write null for no rank"
            )
        return value if isinstance(value, int) else numbers
