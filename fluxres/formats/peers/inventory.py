"""What HyperQueue, canary, CTest and JQM describe: hosts, and on each a number of named stocks of labelled units.

The four files differ but describe the same kind of machine. Each reader converts its file to this, and the conversion to a graph
is defined here once (``specs/decisions/0008-peer-systems.md``): one pool for each label, a parent for each group of labels, one
pool with a size for units that are only counted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby
from typing import Any, Final

import numpy as np

from fluxres import limits
from fluxres.arrays import Int64, Mask
from fluxres.documents.document import excerpt
from fluxres.errors import InputError, LimitExceeded
from fluxres.formats import losses
from fluxres.formats.format import Fact, Hold
from fluxres.graph import uuids
from fluxres.graph.forest import topmost
from fluxres.graph.kinds import PropertyValue
from fluxres.graph.recipe import Recipe, expand, regular_names
from fluxres.graph.structure import Structure
from fluxres.syntax import variants
from fluxres.syntax.name import is_name

#: prefix of the key of a property that is about the file and not about the pool
OF_FILE: Final = "file:"
#: the property that keeps a label which cannot be a name: it occurs twice, or has a character not allowed in paths
LABEL: Final = f"{OF_FILE}label"
#: the property that keeps a number of slots which cannot be a size
SLOTS: Final = f"{OF_FILE}slots"
#: files and requests share their words and units
FRACTION_UNIT: Final = variants.FRACTION_UNIT
FRACTIONS: Final = variants.PER_UNIT
TYPES: Final = variants.TYPES
RESERVED: Final = variants.RESERVED

_DECIMAL = re.compile(r"0|[1-9][0-9]{0,17}")
DIGITS: Final = "0123456789"


@dataclass(frozen=True, slots=True)
class Run:
    """Labelled units that are equal except for their label.

    Args:
        labels: in order; a `range` of numbers costs nothing however long it is.
        size: units of each; 0 if it cannot be allocated.
        fractions: whether each can be allocated in ten-thousandths.
    """

    labels: Sequence[str] | range
    size: int = 1
    unit: str | None = None
    properties: Mapping[str, PropertyValue] = field(default_factory=dict)
    fractions: bool = False


def compact(labels: list[str]) -> Sequence[str] | range:
    """Labels as a range if they are consecutive numbers, which costs nothing however many there are.

    >>> compact(["3", "4", "5"]), compact(["3", "5"]), compact(["03", "4"])
    (range(3, 6), ['3', '5'], ['03', '4'])
    """
    if len(labels) > 1 and _DECIMAL.fullmatch(labels[0]):
        start = int(labels[0])
        made = range(start, start + len(labels))
        if labels[-1] == str(made[-1]) and labels == list(map(str, made)):
            return made
    return labels


def entries(run: Run, type_name: str, taken: set[str], stems: set[str]) -> list[Recipe]:
    """Entries for a run: numbers become ids and other labels names; a pool whose label can be neither is numbered and keeps its
    label.

    Args:
        taken: names that siblings have, to which those of the run are added.
        stems: words that, followed by a number, are the names of numbered pools.
    """
    base = Recipe(type_name, size=max(run.size, 1), unit=run.unit, properties=run.properties, children=shares(run))
    if run.size == 0:
        base = replace(base, properties={**run.properties, SLOTS: 0}, state="down")
    if isinstance(run.labels, range):
        return [replace(base, count=len(run.labels), ids=run.labels.start)] if len(run.labels) else []
    made: list[Recipe] = []
    numbers: list[int] = []
    names: list[str] = []

    def close() -> None:
        if numbers:
            made.append(replace(base, count=len(numbers), ids=np.array(numbers, np.int64)))
        if names:
            made.append(replace(base, count=len(names), ids=None, names=list(names), word_for_word=True))
        numbers.clear()
        names.clear()

    if _are_plain_names(run.labels, taken, stems):
        taken.update(run.labels)
        return [replace(base, count=len(run.labels), ids=None, names=list(run.labels), word_for_word=True)]
    for at, label in enumerate(run.labels):
        is_number = _DECIMAL.fullmatch(label) is not None
        name = f"{type_name}{label}" if is_number else label
        looks_numbered = not is_number and label.rstrip(DIGITS) in stems and label[-1:] in DIGITS
        if name in taken or looks_numbered or not is_name(name, without="/"):
            close()
            name = free(lambda at: f"{type_name}~{at}", at, taken)
            made.append(replace(base, names=[name], ids=None, word_for_word=True, properties={**base.properties, LABEL: label}))
        else:
            if names if is_number else numbers:
                close()
            if is_number:
                numbers.append(int(label))
            else:
                names.append(label)
        taken.add(name)
    close()
    return made


def _are_plain_names(labels: Sequence[str], taken: set[str], stems: set[str]) -> bool:
    """Whether all of these labels can be used as names, checked together: a hundred thousand take a few milliseconds."""
    whole = "".join(labels)
    return (
        len(labels) > 0
        and all(labels)
        and max(map(len, labels)) <= limits.NAME_LENGTH_MAX
        and whole.isprintable()
        and "/" not in whole
        and not any(map(str.isdecimal, labels))
        and taken.isdisjoint(labels)
        and stems.isdisjoint({label.rstrip(DIGITS) for label in labels})
        and len(set(labels)) == len(labels)
    )


def shares(run: Run) -> tuple[Recipe, ...]:
    """The child that makes each pool of a run divisible."""
    return (Recipe(variants.SHARE, ids=None, size=FRACTIONS, unit=FRACTION_UNIT),) if run.fractions else ()


def free(name: Callable[[int], str], start: int, seen: set[str]) -> str:
    """The first free name, numbering from `start` on."""
    while name(start) in seen:
        start += 1
    return name(start)


#: the property that lists the types of which a host explicitly has none
EMPTY: Final = f"{OF_FILE}empty_types"
#: longest range whose numbers are checked one by one where their names may collide; a longer one is an error then
_TOLD_APART_MAX: Final = 65_536
#: prefix of the key of a property whose value is a list or mapping, kept as JSON
NESTED: Final = "json:"


@dataclass(frozen=True, slots=True)
class Stock:
    """One resource of a host.

    Args:
        word: its name in the file.
        groups: runs by group; a single group is in the host itself, several groups have a pool each.
        grid: instead of groups: their number, and one run of numbers that is divided among them in equal parts.
        amount: units of a resource without labels; then there are no groups.
        beside: whether its groups are those of the first grouped stock, in the same pools.
        where: returns its place in the file; called only for an error.
    """

    word: str
    groups: tuple[tuple[Run, ...], ...] = ()
    amount: int | None = None
    unit: str | None = None
    beside: bool = False
    grid: tuple[int, Run] | None = None
    where: Callable[[], str] = str


@dataclass(frozen=True, slots=True)
class Host:
    """One node. A host without a name is numbered.

    Args:
        inner: parts of it with stocks of their own, each with the type of its pool.
    """

    stocks: tuple[Stock, ...]
    name: str | None = None
    properties: Mapping[str, PropertyValue] = field(default_factory=dict)
    where: Callable[[], str] = str
    inner: tuple[tuple[str, Host], ...] = ()


def types_of(words: Iterable[str], where: str) -> dict[str, str]:
    """The type in the graph of each word in a file.

    `cpus` become `core` and `gpus` become `gpu`, unless the file also uses that word.
    Errors: InputError if two words give the same type.

    >>> types_of(["cpus", "gpus/amd", "node"], "x"), types_of(["cpus", "core"], "x")
    ({'cpus': 'core', 'gpus/amd': 'gpus_amd', 'node': 'node_'}, {'cpus': 'cpus', 'core': 'core'})
    """
    known = dict.fromkeys(words)
    found: dict[str, str] = {}
    owner: dict[str, str] = {}
    for word in known:
        kept = TYPES.get(word)
        made = kept if kept is not None and kept not in known else word.replace("/", "_")
        made = f"{made}_" if made in RESERVED else made
        if made in owner:
            message = f"{excerpt(word)} and {excerpt(owner[made])} would both be the type {excerpt(made)}"
            raise InputError(message, where=where, hint="rename one")
        found[word], owner[made] = made, word
    return found


def structure(
    hosts: Sequence[Host],
    *,
    file: str,
    origin: int | None = None,
    properties: Mapping[str, PropertyValue] | None = None,
) -> Structure:
    """The machine of these hosts: a cluster of nodes, with ranks in their order.

    Args:
        file: for messages without a more specific place.

    Cost: O(hosts + stocks + labels listed) Python, O(pools) array writes.
    Errors: InputError and LimitExceeded with the place of the stock.

    >>> host = Host((Stock("cpus", ((Run(range(4)),),)), Stock("mem", amount=64)))
    >>> s = structure([host], file="x")
    >>> [s.path(v) for v in range(s.n)][-2:]
    ['/cluster/node0/core3', '/cluster/node0/mem']
    """
    site = _Site(types_of((stock.word for host in hosts for stock in _all_stocks(host)), file), file)
    root = Recipe("cluster", properties=properties or {}, children=site.nodes(hosts))
    try:
        return expand(root, origin=uuids.new_origin() if origin is None else origin, where=site.where)
    except LimitExceeded as error:  # an error about all entries together, which has no place
        where = error.where if error.where.startswith(file) else file
        raise LimitExceeded(error.message, where=where, hint=error.hint) from None


def _all_stocks(host: Host) -> Iterator[Stock]:
    yield from host.stocks
    for _, part in host.inner:
        yield from part.stocks


class _Site:
    """Makes recipes of hosts. Hosts with the same content share its entries, so ten thousand equal hosts cost little."""

    def __init__(self, types: Mapping[str, str], file: str) -> None:
        self.types = types
        self.file = file
        #: words that, followed by a number, are the names of numbered pools
        self.stems = {*types.values(), "socket", *(f"{type_name}-group" for type_name in types.values())}
        #: whether a name may belong to two types: `gpu10` is number 10 of gpu and number 0 of gpu1
        self.is_ambiguous = len({stem.rstrip(DIGITS) for stem in self.stems}) < len(self.stems)
        self.names: set[str] = set()
        self.places: dict[int, Callable[[], str]] = {}
        self.known: dict[object, tuple[Recipe, ...]] = {}

    def where(self, recipe: Recipe, key: str) -> str:
        """The place of an entry in the file; for shared entries, that of the first use."""
        place = self.places.get(id(recipe))
        return (place() if place is not None else "") or self.file

    def nodes(self, hosts: Sequence[Host]) -> tuple[Recipe, ...]:
        """The entries of the hosts, one for each run of hosts that differ only in their name."""
        made: list[Recipe] = []
        named = ((number, *self._named(number, host), self._contents(host)) for number, host in enumerate(hosts))
        for _, run in groupby(named, key=lambda each: (id(each[3]), [(key, type(of), of) for key, of in each[2].items()])):
            same = list(run)
            first, _, properties, inside = same[0]
            names = [name for _, name, _, _ in same]
            made.append(Recipe("node", len(same), names=names, ids=first, properties=properties, children=inside))
            self.places[id(made[-1])] = hosts[first].where
        return tuple(made)

    def _named(self, number: int, host: Host) -> tuple[str, dict[str, PropertyValue]]:
        """The name of a host, and its properties."""
        name = f"node{number}" if host.name is None else host.name
        properties = dict(host.properties)
        if name in self.names or not is_name(name, without="/"):
            properties[LABEL] = name
            name = free(lambda at: f"node~{at}", number, self.names)
        self.names.add(name)
        return name, properties

    def _contents(self, host: Host) -> tuple[Recipe, ...]:
        if host.inner:
            return self._inside(host)
        inside = self.known.get(id(host.stocks))
        if inside is None:
            key = tuple(map(_content, host.stocks))
            inside = self.known.get(key)
            if inside is None:
                inside = self.known[key] = self._inside(host)
            self.known[id(host.stocks)] = inside
        return inside

    def _inside(self, host: Host) -> tuple[Recipe, ...]:
        taken: set[str] = set()
        groups: list[_Group] = []
        children: list[Recipe | _Group] = []
        for stock in host.stocks:
            type_name = self.types[stock.word]
            if stock.grid is not None:
                made: list[Recipe] = [_dealt(*stock.grid, type_name)]
                if not stock.beside:
                    groups.append(_Group(*_type_and_base(type_name), 0, stock.grid[0]))
                    children.append(groups[-1])
                    self.places[id(groups[-1])] = stock.where
                groups[0 if stock.beside else -1].inside += made
            elif stock.amount is not None:
                made = [_sum(stock, type_name, taken)]
                children += made
            elif len(stock.groups) == 1:
                made = [recipe for run in stock.groups[0] for recipe in self._run(run, type_name, taken)]
                children += made
            else:
                numbers = () if stock.beside else range(len(stock.groups))
                new = [_Group(*_type_and_base(type_name), number) for number in numbers]
                children += new
                groups += new
                made = []
                for group, runs in zip(groups[: len(stock.groups)] if stock.beside else new, stock.groups, strict=True):
                    inside = [recipe for run in runs for recipe in self._run(run, type_name, group.taken)]
                    group.inside += inside
                    made += inside
                self.places.update((id(group), stock.where) for group in new)
            self.places.update((id(recipe), stock.where) for recipe in made)
        finished = []
        for child in children:
            finished.append(child.recipe() if isinstance(child, _Group) else child)
            self.places[id(finished[-1])] = self.places[id(child)]
        for number, (type_name, part) in enumerate(host.inner):
            name, properties = part.name or f"{type_name}{number}", dict(part.properties)
            if name in taken or not is_name(name, without="/"):
                properties[LABEL] = name
                name = free(lambda at, stem=type_name: f"{stem}~{at}", number, taken)  # type: ignore[misc]  # the stem of this turn
            taken.add(name)
            finished.append(Recipe(type_name, names=[name], ids=None, properties=properties, children=self._inside(part)))
            self.places[id(finished[-1])] = part.where
        return tuple(finished)

    def _run(self, run: Run, type_name: str, taken: set[str]) -> list[Recipe]:
        if self.is_ambiguous and isinstance(run.labels, range) and len(run.labels) <= _TOLD_APART_MAX:
            run = replace(run, labels=list(map(str, run.labels)))
        return entries(run, type_name, taken, self.stems)


def _content(stock: Stock) -> object:
    runs = tuple(
        tuple(
            (
                run.labels if isinstance(run.labels, range) else tuple(run.labels),
                run.size,
                run.unit,
                tuple((key, type(value), value) for key, value in run.properties.items()),
                run.fractions,
            )
            for run in group
        )
        for group in stock.groups
    )
    return stock.word, stock.amount, stock.unit, stock.beside, stock.grid and (stock.grid[0], stock.grid[1].labels), runs


@dataclass(eq=False, slots=True)
class _Group:
    """A pool for a group of labels, or several equal ones, while they are filled."""

    type: str
    basename: str
    number: int
    count: int = 1
    inside: list[Recipe] = field(default_factory=list)
    taken: set[str] = field(default_factory=set)

    def recipe(self) -> Recipe:
        return Recipe(self.type, self.count, basename=self.basename, ids=self.number, children=tuple(self.inside))


def _type_and_base(type_name: str) -> tuple[str, str]:
    return ("socket", "socket") if type_name == TYPES["cpus"] else ("group", f"{type_name}-group")


def _dealt(count: int, run: Run, type_name: str) -> Recipe:
    """The entry of a run of numbers that continues across a number of groups."""
    assert isinstance(run.labels, range)
    ids = np.arange(run.labels.start, run.labels.stop, dtype=np.int64)
    base = Recipe(type_name, len(run.labels) // count, ids=ids, size=run.size, unit=run.unit, properties=run.properties)
    return replace(base, children=shares(run))


def _sum(stock: Stock, type_name: str, taken: set[str]) -> Recipe:
    name = type_name if type_name not in taken else free(lambda at: f"{type_name}~{at}", 0, taken)
    taken.add(name)
    names = None if name == type_name else [name]
    return Recipe(type_name, ids=None, names=names, size=stock.amount or 0, unit=stock.unit)


def kept_properties(given: Mapping[str, Any], where: Callable[[], str] = str) -> dict[str, PropertyValue]:
    """Properties of a pool for those of a file: a list or mapping is kept as JSON under a marked key.

    Errors: InputError for a number that is NaN or infinite.

    >>> kept_properties({"vendor": "AMD", "links": [1, 2]})
    {'vendor': 'AMD', 'json:links': '[1,2]'}
    """
    made: dict[str, PropertyValue] = {}
    for key, value in given.items():
        if isinstance(value, dict | list) or key.startswith((NESTED, OF_FILE)):
            made[f"{NESTED}{key}"] = _json(value, key, where)
        else:
            made[key] = value
    return made


def _json(value: object, key: str, where: Callable[[], str]) -> str:
    try:
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    except ValueError:
        message = f"the property {excerpt(key)} has a number that is NaN or infinite"
        raise InputError(message, where=where(), hint="write it as text") from None


#: types that are counted although they have children
COUNTED: Final = ("core", "gpu")
#: properties that concern these formats and not the pool
MARKS: Final = frozenset({LABEL, SLOTS})
_WORDS: Final = {type_name: word for word, type_name in TYPES.items()}


@dataclass(frozen=True, slots=True, eq=False)
class Share:
    """The pools of one type in a host: vertices ascending, and their parents."""

    type: str
    vertices: Int64
    above: Int64

    def groups(self) -> list[Int64]:
        """The vertices by parent, in the order of the first vertex of each."""
        if self.above[0] == self.above[-1] and not np.count_nonzero(self.above != self.above[0]):
            return [self.vertices]
        _, first, which = np.unique(self.above, return_index=True, return_inverse=True)
        order = np.argsort(first[which.reshape(-1)], kind="stable")
        cuts = np.flatnonzero(np.diff(self.above[order])) + 1
        return np.split(self.vertices[order], cuts)


class Inventory:
    """The hosts of a machine, and what a writer cannot express of them.

    Args:
        marks: properties that the format expresses in another way.

    Cost: O(pools) array operations; O(hosts × types) Python for `shares`.
    """

    def __init__(self, structure: Structure, *, marks: frozenset[str] = frozenset()) -> None:
        self.structure = s = structure
        #: properties that need not be written
        self.marks = MARKS | marks
        nodes = s.of_type("node").astype(np.int64)
        nodes = nodes[nodes < s.tree_end]
        #: the nodes that are not in another node; the root of a machine without nodes
        self.hosts: Int64 = topmost(s.end, nodes) if len(nodes) else np.zeros(1, np.int64)
        number = np.arange(s.n)
        at = np.searchsorted(self.hosts, number, side="right") - 1
        inside = (at >= 0) & (number < s.end[self.hosts[at]]) & (number < s.tree_end)
        inside[self.hosts] = False
        #: number of the host of each pool, -1 for none
        self.host: Int64 = np.where(inside, at, -1)
        counted = np.isin(s.type, [s.types.index(name) for name in COUNTED if name in s.types])
        tops = np.flatnonzero(inside & (counted | (s.end == number + 1)))
        #: pools that are written: a counted type or a leaf, on a host, and not within another written pool
        self.written: Mask = np.zeros(s.n, np.bool_)
        self.written[topmost(s.end, tops)] = True
        #: the pools that lose each fact
        self._lost: dict[Fact, Mask] = {}
        #: pools that are not written but are read back all the same
        self.between: Mask = np.zeros(s.n, np.bool_)
        #: pools that are read back in another place
        self.moved: Mask = np.zeros(s.n, np.bool_)

    def mark(self, fact: Fact, vertices: Int64) -> None:
        """Record that these pools lose this fact."""
        if len(vertices):
            self._lost.setdefault(fact, np.zeros(self.structure.n, np.bool_))[vertices] = True

    def mark_units(self, vertices: Int64) -> None:
        """Record that pools lose their unit, those that have one."""
        self.mark("units", vertices[self._has_unit[self.structure.kind[vertices]]])

    @cached_property
    def _has_unit(self) -> Mask:
        return np.array([kind.unit is not None for kind in self.structure.kinds], np.bool_)

    def mark_unlabelled(self, share: Share) -> None:
        """Record that pools lose their id or name because they are written as an amount."""
        s, first = self.structure, int(share.vertices[0])
        self.mark("ids", share.vertices[s.id[share.vertices] >= 0])
        if s.id.item(first) < 0 and s.name(first) != share.type:
            self.mark("names", share.vertices)

    def mark_moved(self) -> None:
        """Record that the written pools are read back directly in their hosts."""
        self.moved |= self.written & (self.structure.parent != self.hosts[np.maximum(self.host, 0)])

    @cached_property
    def shares(self) -> list[list[Share]]:
        """The shares of each host, types in the order of their first pool."""
        s = self.structure
        vertices = np.flatnonzero(self.written)
        found: list[list[Share]] = [[] for _ in self.hosts]
        if not len(vertices):
            return found
        vertices = vertices[np.lexsort((vertices, s.type[vertices], self.host[vertices]))]
        turns = np.diff(self.host[vertices]) | np.diff(s.type[vertices].astype(np.int64))
        for part in np.split(vertices, np.flatnonzero(turns) + 1):
            first = int(part[0])
            share = Share(s.types[s.type.item(first)], part, s.parent[part].astype(np.int64))
            found[self.host.item(first)].append(share)
        for shares in found:
            shares.sort(key=lambda share: int(share.vertices[0]))
        return found

    def distinct_names(self) -> list[str]:
        """The names of all hosts, numbered where one occurs twice."""
        found: dict[str, None] = {}
        for number, v in enumerate(self.hosts.tolist()):
            name = base = self.label(v)
            at = number
            while name in found:
                name, at = f"{base}~{at}", at + 1
            if name != base:
                self.mark("names", np.array([v]))
            found[name] = None
        return list(found)

    def properties(self, v: int) -> dict[str, PropertyValue]:
        return dict(self.structure.kind_of(v).properties)

    @cached_property
    def _plain(self) -> Mask:
        """By vertex, whether its label is its id: it has one, and its name is basename and id."""
        s = self.structure
        of_kind = [kind.name is None and LABEL not in dict(kind.properties) for kind in s.kinds]
        plain: Mask = np.array(of_kind)[s.kind] & (s.id >= 0)
        plain[np.fromiter(s.names, np.int64, len(s.names))] = False
        return plain

    def labels(self, vertices: Int64) -> list[str] | range:
        """The labels of pools: the label kept for it, its id, or else its name; a range if they are consecutive numbers."""
        ids, plain = self.structure.id[vertices], self._plain[vertices]
        if plain.all():
            first = int(ids[0])
            return range(first, first + len(ids)) if (np.diff(ids) == 1).all() else list(map(str, ids.tolist()))
        return [
            str(number) if is_plain else self.label(v)
            for v, number, is_plain in zip(vertices.tolist(), ids.tolist(), plain.tolist(), strict=True)
        ]

    def is_sum(self, share: Share) -> bool:
        """Whether this is an amount and not labelled: one pool without a label or with a size, or several with a unit."""
        s, first = self.structure, int(share.vertices[0])
        if share.type in COUNTED:
            return False
        if len(share.vertices) == 1:
            is_bare = s.id.item(first) < 0 and LABEL not in self.properties(first) and s.name(first) == share.type
            return is_bare or s.size.item(first) != 1
        return any(s.kinds[number].unit is not None for number in np.unique(s.kind[share.vertices]).tolist())

    def distinct(self, vertices: Int64) -> list[str] | range:
        """The labels of pools on one host, renumbered where one occurs twice."""
        labels = self.labels(vertices)
        if isinstance(labels, range) or len(set(labels)) == len(labels):
            return labels
        self.relabelled("ids", vertices)
        return range(len(vertices))

    def relabelled(self, fact: Fact, vertices: Int64) -> None:
        """Record that pools are read back with other labels; for a label kept besides a name, both change."""
        self.mark(fact, vertices)
        keeps = np.array([any(key == LABEL for key, _ in kind.properties) for kind in self.structure.kinds])
        kept = vertices[keeps[self.structure.kind[vertices]]]
        self.mark("names", kept)
        self.mark("properties", kept)

    def label(self, v: int) -> str:
        """The name of a pool, or the label kept for it."""
        kept = self.properties(v).get(LABEL)
        return kept if isinstance(kept, str) else self.structure.name(v)

    def words(self, clean: Callable[[str], str]) -> tuple[dict[str, str], list[str]]:
        """The format's word for each written type, and messages about types that are read back as another.

        Args:
            clean: turns any word into one that the format allows, and leaves an allowed one unchanged.
        """
        types = list(dict.fromkeys(share.type for shares in self.shares for share in shares))
        found: dict[str, str] = {}
        taken: set[str] = set()
        for type_name in types:
            word = type_name[:-1] if type_name.endswith("_") and type_name[:-1] in RESERVED else type_name
            meant = _WORDS.get(word, word)
            word = base = clean(word if meant in types else meant)
            number = 1
            while word in taken:
                number += 1
                word = clean(f"{base}{number}")
            found[type_name] = word
            taken.add(word)
        try:
            back = types_of(found.values(), "")
        except InputError:
            back = {}
        renamed = [f"pools: type {name} is written as {word}" for name, word in found.items() if back.get(word) != name]
        return found, renamed

    def left_out(self, allocations: Sequence[Hold], carries: frozenset[Fact], more: Sequence[str] = ()) -> list[str]:
        """What a format cannot express of the machine.

        Args:
            carries: facts that it can express of hosts and written pools, except for those that were marked.
            more: further messages of the format.
        """
        s = self.structure
        kept = self.written | self.between
        kept[self.hosts] = True
        kept[0] = True
        missing = ~kept
        missing[s.tree_end :] = False
        found = losses.concern(s, "pools", missing)
        found += losses.concern(s, "pools", self.moved & kept, "the places")
        if self.hosts[0] == 0:
            found.append(f"pools: {s.where(0)} will be in a cluster when it is read")
        found += more
        self.mark("ids", np.flatnonzero(self._ids_lost()))
        if "properties" not in carries:
            described = np.array([any(key not in self.marks for key, _ in kind.properties) for kind in s.kinds])
            self.mark("properties", np.flatnonzero(described[s.kind]))
        based = np.array([kind.basename != kind.type for kind in s.kinds])[s.kind]
        self.mark("basenames", np.flatnonzero(based & ~self.between))
        for fact, mask in self._lost.items():
            found += losses.concern(s, fact, mask & kept)
        # A unit with no slots is down, because no pool has size 0; this state need not be reported.
        ghosts = np.array([any(key == SLOTS for key, _ in kind.properties) for kind in s.kinds])[s.kind]
        found += losses.lines(s, allocations, carries | {*self._lost, "ids", "basenames", "properties"}, within=kept & ~ghosts)
        return list(dict.fromkeys(found))

    def _ids_lost(self) -> Mask:
        """Pools with both an explicit name and an id, and hosts whose id does not follow from their name."""
        s = self.structure
        lost: Mask = self.written & (s.id >= 0) & ~self._plain
        for number, v in enumerate(self.hosts.tolist()):
            regular = regular_names([s.name(v)])
            lost[v] = s.id.item(v) != (number if regular is None else int(regular[1][0]))
        lost[0] = s.id.item(0) >= 0 and self.hosts[0] != 0
        return lost
