"""The `[resource]` table of flux-core's configuration: nodes as TOML tables, or the resource set that it refers to.

Hosts get ranks in the order of their first appearance in `[[resource.config]]`, and what several tables say about one host is
combined. Hosts in `exclude` are drained. The rest of a configuration does not describe a machine but is kept: other settings of
the table, and other tables, become tags of the root, from which they are written again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final, NoReturn

import numpy as np
import orjson
from msgspec import UNSET, Meta, Struct, UnsetType

from fluxres import limits
from fluxres.arrays import Int64
from fluxres.documents import source_text, toml_document, typed
from fluxres.documents.document import Key
from fluxres.documents.source import Source
from fluxres.errors import ErrorPlace, FluxresError, InputError, LimitExceeded
from fluxres.formats import losses
from fluxres.formats.flux import resource_set
from fluxres.formats.flux.ranks import (
    BARRED,
    HOST,
    NO_IDS,
    Block,
    BlockRows,
    Described,
    Pairs,
    Targets,
    children_of,
    count_of,
    fill,
    host_ids,
    hosts_of,
    lost,
    pairs_of,
    positions,
    properties_of,
    require_path_steps,
    targets_of,
)
from fluxres.formats.format import Hold, Loaded, Output
from fluxres.graph import uuids
from fluxres.graph.kinds import STATES, Kind, KindTable, require_draws
from fluxres.graph.structure import Structure
from fluxres.syntax import hostlist, idset
from fluxres.syntax.hostlist import Expression

Text = Annotated[str, Meta(min_length=1)]
Word = Annotated[str, Meta(min_length=1, max_length=limits.NAME_LENGTH_MAX)]


class Nodes(Struct, forbid_unknown_fields=True):
    """One table of nodes."""

    hosts: Annotated[Text, Meta(description="Hostlist (RFC 29).")]
    cores: Annotated[str | UnsetType, Meta(description="Idset of cores of each host (RFC 22).")] = UNSET
    gpus: Annotated[str | UnsetType, Meta(description="Idset of gpus of each host.")] = UNSET
    properties: Annotated[list[Word] | UnsetType, Meta(description="Properties of each host.")] = UNSET


class ResourceTable(Struct):
    """The `[resource]` table of flux-core; other keys are kept unchanged."""

    config: Annotated[list[Nodes], Meta(min_length=1)] | UnsetType = UNSET
    path: Annotated[Text | UnsetType, Meta(description="File with a resource set (RFC 20), instead of config.")] = UNSET
    scheduling: Annotated[Text | UnsetType, Meta(description="File with the scheduling key of the resource set.")] = UNSET
    exclude: Annotated[str | UnsetType, Meta(description="Ranks or hosts that are excluded from scheduling.")] = UNSET


class Configuration(Struct):
    """A configuration of flux-core; other tables are kept unchanged."""

    resource: ResourceTable


def json_schema() -> dict[str, Any]:
    """The JSON Schema of a configuration, as in ``specs/schemas/resource-config.schema.json``."""
    return typed.json_schema(Configuration, title="resource configuration")


EXCLUDED: Final = "excluded"
"""Tag of nodes that are excluded from scheduling."""
SETTING: Final = "resource."
"""Prefix of the tags of the root for other settings of the table: their values as JSON."""
TABLE: Final = "config."
"""Prefix of the tags of the root for other tables of the configuration: their values as JSON."""
_TYPES: Final = {"cores": "core", "gpus": "gpu"}


def read(source: Source, *, origin: int | None = None) -> Loaded:
    """The machine of a configuration.

    Errors: InputError ``FILE:line:column: path``; LimitExceeded.
    Cost: O(hosts) Python and O(pools) array writes.

    >>> read(Source(b'[[resource.config]]\\nhosts = "n[0-1]"\\ncores = "0-3"')).structure.path(10)
    '/cluster0/n1/core3'
    """
    return _Reader(source).loaded(origin)


class _Reader:
    def __init__(self, source: Source) -> None:
        self._source = source
        parsed = toml_document.parse(source, "use R for large machines")
        values = parsed.values
        assert isinstance(values, dict)
        resource = values.get("resource")
        known = ResourceTable.__struct_fields__
        self._other = {key: value for key, value in values.items() if key != "resource"}
        self._settings: dict[str, Any] = {}
        if isinstance(resource, dict):
            self._settings = {key: value for key, value in resource.items() if key not in known}
            values = {"resource": {key: value for key, value in resource.items() if key in known}}
        self._document = toml_document.TomlDocument(values, source.file, source.text, source.path)
        self._table = typed.convert(self._document, Configuration).resource

    def _fail(self, path: Sequence[Key], message: str, hint: str = "", *, limit: bool = False) -> NoReturn:
        raise (LimitExceeded if limit else InputError)(message, where=self._document.where(path), hint=hint)

    def loaded(self, origin: int | None) -> Loaded:
        table = self._table
        if (table.config is UNSET) == (table.path is UNSET):
            what = "nothing that names nodes" if table.config is UNSET else "both 'config' and 'path'"
            self._fail(["resource"], what, "use [[resource.config]] with hosts, cores, gpus, or path for a file with R")
        base = uuids.new_origin() if origin is None else origin
        if table.path is not UNSET:
            structure = self._of_file(self._file(table.path, "path"), origin)
        else:
            assert table.config is not UNSET
            structure = self._of_tables(table.config, base)
            if table.scheduling is not UNSET:
                made = resource_set.write(structure).data
                structure = self._of_file(Source(made, self._source.file), origin)
        if table.exclude is not UNSET:
            self._exclude(structure, table.exclude)
        for prefix, values in ((SETTING, self._settings), (TABLE, self._other)):
            for key, value in values.items():
                structure.set_tag([0], prefix + key, self._kept(key, value))
        return Loaded(structure, [], structure.name(0))

    def _kept(self, key: str, value: Any) -> str:
        try:
            text = orjson.dumps(value, option=orjson.OPT_PASSTHROUGH_DATETIME).decode()
        except orjson.JSONEncodeError:
            self._fail([key], "has a date, a time or a number that cannot be kept", "remove it, or write it as text")
        if len(text) > limits.VALUE_LENGTH_MAX or len(key) > limits.NAME_LENGTH_MAX - len(SETTING):
            self._fail([key], f"{len(text)} characters to keep, at most {limits.VALUE_LENGTH_MAX} are allowed", limit=True)
        return text

    def _file(self, name: str, key: str) -> Source:
        if self._source.path is None and not Path(name).is_absolute():
            self._fail(
                ["resource", key], f"names the file {name!r}, but this text is not in a directory", "give an absolute path"
            )
        folder = Path() if self._source.path is None else self._source.path.parent
        return Source.open(folder / source_text.file_named(name))

    def _of_file(self, source: Source, origin: int | None) -> Structure:
        if self._table.scheduling is not UNSET:
            values = source.document.values
            if not isinstance(values, dict):
                raise InputError("expected a resource set", where=source.file)
            scheduling = self._file(self._table.scheduling, "scheduling").document.values
            source = Source(orjson.dumps({**values, "scheduling": scheduling}), source.file)
        return resource_set.read(source, origin=origin).structure

    # -- tables ----------------------------------------------------------------------------------------------------------

    def _of_tables(self, tables: Sequence[Nodes], origin: int) -> Structure:
        """A cluster of the hosts, in the order of their first appearance in the tables."""
        of_host: dict[str, list[int]] = {}
        self._require_bounded(tables)
        ids = [{_TYPES[key]: self._ids(i, key, getattr(nodes, key)) for key in _TYPES} for i, nodes in enumerate(tables)]
        for i, nodes in enumerate(tables):
            for host in self._hosts(i, nodes.hosts):
                of_host.setdefault(host, []).append(i)
            if len(of_host) > limits.RANKS_MAX:
                self._fail(["resource", "config", i, "hosts"], f"more than {limits.RANKS_MAX} hosts", limit=True)
        kinds = KindTable()
        node = kinds.intern(Kind("node", "node"))
        known: dict[tuple[int, ...], Block] = {}
        blocks: list[tuple[Block, int]] = []
        for host, members in of_host.items():
            key = tuple(members)
            if key not in known:
                known[key] = self._block(kinds, node, [ids[i] for i in key], host, key)
            if blocks and blocks[-1][0] is known[key]:
                blocks[-1] = (known[key], blocks[-1][1] + 1)
            else:
                blocks.append((known[key], 1))
        ranks = np.arange(len(of_host))
        try:
            structure, nodes_at = fill(blocks, ranks, kinds, origin)
        except FluxresError as error:
            self._fail(["resource", "config"], error.message, error.hint, limit=True)
        hosts = hosts_of([Expression(host) for host in of_host], ranks)
        numbers = {key: number for number, key in enumerate(known)}
        which = np.array([numbers[tuple(members)] for members in of_host.values()])
        hosts.describe(structure, nodes_at, [self._properties(tables, key) for key in known], which)
        return structure

    def _require_bounded(self, tables: Sequence[Nodes]) -> None:
        """Refuse tables whose total is too large, before anything is made from them."""
        hosts = ids = 0
        for i, nodes in enumerate(tables):
            place: list[Key] = ["resource", "config", i]
            try:
                hosts += hostlist.count(nodes.hosts)
                for key in _TYPES:
                    text = getattr(nodes, key)
                    ids += 0 if text is UNSET else count_of(idset.ranges(text))
            except InputError:
                return  # which is reported with its place when the table is read
            for count, most, what in ((hosts, limits.CONFIG_HOSTS_MAX, "hosts"), (ids, limits.IDSET_COUNT_MAX, "cores and gpus")):
                if count > most:
                    self._fail(place, f"more than {most} {what} in the tables up to this one", limit=True)

    def _hosts(self, i: int, text: str) -> list[str]:
        with ErrorPlace(partial(self._document.where, ["resource", "config", i, "hosts"])):
            if hostlist.count(text) > limits.RANKS_MAX:
                raise LimitExceeded(f"more than {limits.RANKS_MAX} hosts")
            require_path_steps(hostlist.expressions(text))
            if found := hostlist.parse(text):
                return found
            raise InputError("expected at least one host, got none")

    def _ids(self, i: int, key: str, text: str | UnsetType) -> Int64:
        if text is UNSET:
            return NO_IDS
        with ErrorPlace(partial(self._document.where, ["resource", "config", i, key])):
            return np.array(idset.parse(text), np.int64)

    def _block(
        self, kinds: KindTable, node: int, given: Sequence[Mapping[str, Int64]], host: str, tables: tuple[int, ...]
    ) -> Block:
        rows = BlockRows(kinds, node)
        for type_ in _TYPES.values():
            ids = np.unique(np.concatenate([each[type_] for each in given]))
            rows.add(0, kinds.intern(Kind(type_, type_)), ids)
        block = rows.block()
        if len(block) == 1:
            self._fail(["resource", "config", tables[0]], f"{host} has no cores and no gpus", 'cores = "0-3"')
        return block

    def _properties(self, tables: Sequence[Nodes], key: tuple[int, ...]) -> Pairs:
        names: list[str] = []
        for i in key:
            given = tables[i].properties
            for at, name in enumerate([] if given is UNSET else given):
                where = partial(self._document.where, ["resource", "config", i, "properties", at])
                if BARRED & set(name):
                    raise InputError(f"{min(BARRED & set(name))!r} in the name of a property", where=where())
                try:
                    require_draws(pairs_of([name]), where)
                except InputError as error:
                    raise InputError(error.message, where=error.where) from None
                names.append(name)
        return pairs_of(names)

    def _exclude(self, structure: Structure, text: str) -> None:
        ranks, tops = structure.execution_targets
        place: list[Key] = ["resource", "exclude"]
        try:
            spans = idset.ranges(text)
        except InputError:
            try:
                hosts = set(hostlist.parse(text)) if hostlist.count(text) <= limits.RANKS_MAX else set()
            except InputError as error:
                self._fail(place, error.message, "ranks as an idset, or hosts")
            found = {structure.name(v): v for v in tops.tolist()}
            if lost := sorted(hosts - found.keys()):
                self._fail(place, f"unknown host {lost[0]!r}")
            chosen = [found[host] for host in hosts]
        else:
            rows = positions(spans, ranks)
            if len(rows) < count_of(spans):
                self._fail(place, f"ranks beyond those of the {len(ranks)} hosts")
            chosen = tops[rows].tolist()
        structure.set_state(chosen, "drain")
        structure.set_tag(chosen, EXCLUDED, None)


_KEYS: Final = {"core": "cores", "gpu": "gpus"}
_DRAIN: Final = STATES.index("drain")


def write(structure: Structure, allocations: Sequence[Hold] = (), *, name: str | None = None) -> Output:
    """A machine as tables of nodes.

    Errors: InputError for a machine without ranks or with one rank twice, for node names that a hostlist cannot express, for two
    nodes on one host, and for nodes without cores and gpus. Cost: O(pools) array operations, O(nodes) Python.
    """
    targets = targets_of(structure)
    described = Described.nothing(structure, targets)
    children = children_of(structure, targets)
    described.add_children(structure, targets, children)
    described.mixed[targets.vertices[children.mixed | children.gpus_first]] = True
    hosts = _hosts(structure, targets)
    lines = _settings(structure)
    rows = list(zip(*children.texts.values(), strict=True))
    begin = 0
    for i in range(1, len(hosts) + 1):
        if i == len(hosts) or rows[i] != rows[begin]:
            have = {_KEYS[type_]: text for type_, text in zip(children.texts, rows[begin], strict=True) if text}
            if not have:
                raise InputError(f"{hosts[begin]} has no cores and no gpus", hint="flux-core refuses such a host")
            lines += _table({"hosts": hostlist.format(hosts[begin:i]), **have})
            begin = i
    for text, ranks in properties_of(structure, targets, described).items():
        at = np.searchsorted(targets.ranks, idset.parse(ranks))
        lines += _table({"hosts": hostlist.format([hosts[i] for i in at.tolist()]), "properties": [text]})
    missing = lost(structure, allocations, targets, described, host_ids(structure, targets), name)
    missing = _said(structure, targets, described, missing)
    return Output("\n".join(lines).lstrip("\n").encode() + b"\n", missing)


def _hosts(structure: Structure, targets: Targets) -> list[str]:
    hosts = [structure.name(v) for v in targets.vertices.tolist()]
    for v in targets.vertices.tolist():
        if HOST in structure.tags.get(v, {}):
            raise InputError(f"{structure.path(v)} shares its host {structure.tags[v][HOST]!r} with another node")
    if len(set(hosts)) < len(hosts):
        twice = next(host for i, host in enumerate(hosts) if host in hosts[:i])
        raise InputError(f"two nodes are named {twice!r}", hint="the hosts of a configuration must differ")
    return hosts


def _settings(structure: Structure) -> list[str]:
    """The tables other than nodes, from the tags of the root."""
    tags = sorted(structure.tags.get(0, {}).items())
    lines, settings = (
        [f"{_key(key[len(prefix) :])} = {_kept(key, value)}" for key, value in tags if key.startswith(prefix)]
        for prefix in (TABLE, SETTING)
    )
    excluded = [v for v, values in structure.tags.items() if EXCLUDED in values and structure.state[v] == _DRAIN]
    if excluded:
        settings.append(f"exclude = {_value(hostlist.format([structure.name(v) for v in sorted(excluded)]))}")
    return [*lines, "", "[resource]", *settings] if settings else lines


def _table(values: dict[str, Any]) -> list[str]:
    return ["", "[[resource.config]]", *(f"{key} = {_value(value)}" for key, value in values.items())]


def _kept(key: str, text: str | None) -> str:
    try:
        return _value(orjson.loads(text or ""))
    except orjson.JSONDecodeError as error:
        raise InputError(f"the tag {key} of the root is not JSON: {error.msg}", hint="remove the tag") from None


def _key(text: str) -> str:
    return text if text and all(c.isascii() and (c.isalnum() or c in "-_") for c in text) else _value(text)


def _value(value: Any) -> str:
    """A value in TOML, on one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_key(key)} = {_value(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    if value is None:
        raise InputError("TOML has no null", hint="remove the tag")
    # TOML's basic strings allow all escapes of JSON and require one more.
    return orjson.dumps(value).decode().replace("\x7f", "\\u007f")


def _said(structure: Structure, targets: Targets, described: Described, missing: list[str]) -> list[str]:
    """The list of what is lost, adjusted for a configuration: ranks count up from 0, and exclusion and settings are kept."""
    kept = [line for line in missing if line.partition(":")[0] not in ("states", "tags")]
    drained = np.zeros(structure.n, np.bool_)
    tagged = np.zeros(structure.n, np.bool_)
    is_target = np.zeros(structure.n, np.bool_)
    is_target[targets.vertices] = True
    for v, tags in structure.tags.items():
        drained[v] = EXCLUDED in tags and is_target[v] and structure.state[v] == _DRAIN
        said = {EXCLUDED} if drained[v] else {key for key in tags if key.startswith((SETTING, TABLE))} if v == 0 else set()
        tagged[v] = bool(tags.keys() - said)
    kept += losses.concern(structure, "tags", tagged & described.pools)
    kept += losses.concern(structure, "states", (structure.state != 0) & ~drained & described.pools)
    if not np.array_equal(targets.ranks, np.arange(len(targets.ranks))):
        kept.append(f"ranks: of {len(targets.ranks)} nodes, which become 0, 1, …")
    return kept
