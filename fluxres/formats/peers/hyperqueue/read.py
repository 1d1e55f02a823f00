"""HyperQueue's workers: their JSON, that of version 0.7 too, and the command lines that started them.

In text, each line is a worker (``hq worker start --cpus 2x4 --resource "gpus=[0,1]"``; the words ``hq worker start`` may be left
out). Alternatively, each line is one definition, and an empty line ends a worker. A resource of labels becomes one pool per
label, a group becomes their parent, and a sum becomes one pool with a size; see ``specs/decisions/0008-peer-systems.md``.

JSON is the output of ``hq worker info --output-mode json``. A worker has many more keys, which change with every version and do
not describe resources; they are ignored. Under ``resources`` every key is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, Final, Literal

import msgspec
import numpy as np
from msgspec import UNSET, Meta, Struct, UnsetType

from fluxres import limits
from fluxres.clock import seconds, ticks
from fluxres.documents import typed
from fluxres.documents.document import Document, Key, SubDocument, shown
from fluxres.documents.source import Source
from fluxres.errors import ErrorPlace, InputError, LimitExceeded
from fluxres.formats.format import Loaded
from fluxres.formats.peers.hyperqueue import coupling as hyperqueue_coupling
from fluxres.formats.peers.hyperqueue import definitions as hyperqueue
from fluxres.formats.peers.hyperqueue.command_lines import Started, add_options, of_words
from fluxres.formats.peers.hyperqueue.definitions import Grid, Groups, Labels, Listed, Pool, Range, Sum
from fluxres.formats.peers.hyperqueue.tokens import U32_MAX
from fluxres.formats.peers.inventory import Host, Run, Stock, structure
from fluxres.graph.auxiliary import Subsystem
from fluxres.graph.groups import GRAPH, RELATION, WEIGHT, WEIGHT_DEFAULT
from fluxres.graph.kinds import PropertyValue
from fluxres.graph.structure import Structure
from fluxres.syntax.variants import CPUS, FRACTION_UNIT, PER_UNIT

Word = Annotated[str, Meta(min_length=1, max_length=limits.NAME_LENGTH_MAX)]
Label = Word | Annotated[int, Meta(ge=0, le=limits.ID_MAX)]
Number = Annotated[int, Meta(ge=0, le=U32_MAX)]
List = Annotated[list[Label], Meta(min_length=1)]


class Resource(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """One resource: a list or groups of labels, a range of numbers, or a sum in ten-thousandths."""

    name: Word
    kind: Literal["list", "range", "groups", "sum"]
    values: List | UnsetType = UNSET
    start: Number | UnsetType = UNSET
    end: Number | UnsetType = UNSET
    groups: Annotated[list[List], Meta(min_length=1)] | UnsetType = UNSET
    size: Annotated[int, Meta(ge=1, le=limits.SIZE_MAX, description="In ten-thousandths of a unit.")] | UnsetType = UNSET


class Weight(Struct, forbid_unknown_fields=True):
    """How strongly two groups are coupled; pools by their number in the list of resources."""

    resource1_idx: Number
    group1_idx: Number
    resource2_idx: Number
    group2_idx: Number
    weight: Annotated[int, Meta(ge=0, le=65_535)]


class CouplingWeights(Struct, forbid_unknown_fields=True):
    weights: list[Weight] = []


class Resources(Struct, forbid_unknown_fields=True):
    """The resources of a worker."""

    resources: list[Resource]
    coupling: CouplingWeights | None = None


class Configuration(Struct):
    """The configuration of a worker."""

    resources: Resources
    hostname: Word | UnsetType = UNSET
    group: Word | UnsetType = UNSET
    time_limit: Annotated[float, Meta(ge=0, le=limits.TIME_MAX_S, description="Seconds that the worker lives.")] | None = None
    min_utilization: Annotated[float, Meta(ge=0, le=1)] | None = None


class WorkerInfo(Struct):
    configuration: Configuration
    id: Number | UnsetType = UNSET
    started: Word | None = None


def json_schema() -> dict[str, Any]:
    """The JSON Schema of workers, as in ``specs/schemas/hyperqueue.schema.json``."""
    (worker, resources), definitions = msgspec.json.schema_components([WorkerInfo, Resources], ref_template="#/$defs/{name}")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "HyperQueue workers",
        "anyOf": [{"type": "array", "items": {"anyOf": [worker, resources]}, "minItems": 1}, worker, resources],
        "$defs": definitions,
    }


#: properties of a host: its worker group, the moment at which it ends in seconds, and the part of its cpus that must be in use
GROUP: Final = "worker_group"
EXPIRATION: Final = "expiration"
MIN_UTILIZATION: Final = "min_utilization"
_NOTHING: Final[dict[str, Any]] = {"resources": []}


def read(source: Source, *, origin: int | None = None, fractions: bool = False) -> Loaded:
    """The machine of these workers, each a node.

    Args:
        fractions: make each label of a list, range or group divisible into ten-thousandths (a pool `share` of size 10000), and
            count sums in ten-thousandths.

    Errors: InputError with file and line; LimitExceeded.  Cost: O(workers + labels listed) Python, O(pools) array writes.

    >>> s = read(Source(b"cpus=2x2\\nmem=sum(64)\\n")).structure
    >>> [s.path(v) for v in range(2, s.n)][1:]
    ['/cluster/node0/socket0/core0', '/cluster/node0/socket0/core1', '/cluster/node0/socket1', \
'/cluster/node0/socket1/core2', '/cluster/node0/socket1/core3', '/cluster/node0/mem']
    """
    is_json = source.data.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"[")
    workers = _of_json(source.document) if is_json else list(of_words(source))
    return machine(workers, source.file, origin, fractions=fractions)


def read_words(text: str, *, origin: int | None = None, fractions: bool = False) -> Loaded:
    """The machine of ``hyperqueue:DEFINITION DEFINITION…``: one worker defined on the command line.

    ``hyperqueue:detect=all`` is a worker of this machine, with what HyperQueue detects; ``detect=cpus,mem`` is a part of it.

    >>> read_words("cpus=1x4 gpus=[0,1]").structure.n
    8
    """
    if text.strip().startswith("detect="):
        from fluxres.formats.peers.hyperqueue.detection import definitions

        found = definitions(text.strip().removeprefix("detect="))
        made = read_words(found.text, origin=origin, fractions=fractions)
        return made._replace(notes=(*found.notes, *made.notes), seen=found.seen)
    started = Started(lambda: "hyperqueue:")
    with ErrorPlace("hyperqueue", inner=True):
        add_options(text, started)
    return machine([started], "hyperqueue:", origin, fractions=fractions)


def machine(workers: Sequence[Started], file: str, origin: int | None = None, *, fractions: bool = False) -> Loaded:
    """The machine of these workers. Errors: InputError for pools that no worker may have."""
    if not workers:
        raise InputError("no workers", where=file, hint="a line is a worker, such as --cpus 4 --resource gpus=[0,1]")
    # Workers are usually alike and share pool objects that were read once, so the content of each is checked once.
    known: dict[object, tuple[Stock, ...]] = {}
    hosts = []
    workers = [_cpus_first(worker) for worker in workers]
    for worker in workers:
        key = (*map(id, worker.pools), *worker.couplings)
        stocks = known.get(key)
        if stocks is None:
            with ErrorPlace(worker.where, inner=True):
                hyperqueue.check(worker.pools)
            stocks = known[key] = _stocks(worker, fractions)
        properties: dict[str, PropertyValue] = {} if worker.group is None else {GROUP: worker.group}
        properties |= worker.properties
        hosts.append(Host(stocks, worker.name, properties, worker.where))
    made = structure(hosts, file=file, origin=origin)
    _couple(made, workers, hosts)
    return Loaded(made, [], "hyperqueue")


def _cpus_first(worker: Started) -> Started:
    """The worker with its cpus before all else, as `--cpus` puts them and as they are written."""
    at = next((number for number, pool in enumerate(worker.pools) if pool.name == CPUS), 0)
    if at == 0:
        return worker
    pools = [worker.pools[at], *worker.pools[:at], *worker.pools[at + 1 :]]
    moved = [number + 1 for number in range(at)] + [0]
    moved += range(at + 1, len(pools))
    couplings = []
    for each in worker.couplings:
        ends = sorted([(moved[each.resource1], each.group1), (moved[each.resource2], each.group2)])
        couplings.append(hyperqueue_coupling.Coupling(*ends[0], *ends[1], each.weight))
    return replace(worker, pools=pools, couplings=couplings)


def _stocks(worker: Started, fractions: bool) -> tuple[Stock, ...]:
    beside = _beside(worker)
    stocks: list[Stock] = []
    _require_makeable(worker)
    # Consecutively numbered groups are made at once, unless other groups in the same sockets are not consecutive.
    grouped = {number: pool.kind.groups for number, pool in enumerate(worker.pools) if isinstance(pool.kind, Groups)}
    grids = {number: groups for number, groups in grouped.items() if isinstance(groups, Grid)}
    together = {*beside, next(iter(grouped))} if beside else set()
    if not together <= grids.keys():
        grids = {number: groups for number, groups in grids.items() if number not in together}
    for number, pool in enumerate(worker.pools):
        where = partial(_pool_place, worker, pool.name)
        if isinstance(pool.kind, Sum):
            units, fraction = divmod(pool.kind.amount, PER_UNIT)
            amount, unit = (pool.kind.amount, FRACTION_UNIT) if fraction or fractions else (units, None)
            if amount > limits.SIZE_MAX:
                raise LimitExceeded(f"{amount} units, at most {limits.SIZE_MAX}", where=where(), hint="use a larger unit")
            stocks.append(Stock(pool.name, amount=amount, unit=unit, where=where))
            continue
        if number in grids:
            run = Run(range(len(pool.kind)), fractions=fractions)
            stocks.append(Stock(pool.name, beside=number in beside, grid=(len(grids[number]), run), where=where))
            continue
        groups = pool.kind.groups if isinstance(pool.kind, Groups) else (pool.kind,)
        runs = tuple((Run(_labels(group), fractions=fractions),) for group in groups)
        stocks.append(Stock(pool.name, runs, beside=number in beside, where=where))
    return tuple(stocks)


def _require_makeable(worker: Started) -> None:
    """Refuse, before any pool is made, a worker with more labels and groups than a graph may have pools."""
    total = 0
    for pool in worker.pools:
        if not isinstance(pool.kind, Sum):
            total += len(pool.kind) + (len(pool.kind.groups) if isinstance(pool.kind, Groups) else 0)
    if total > limits.POOLS_MAX:
        message = f"{total} labels and groups, at most {limits.POOLS_MAX} pools are allowed"
        raise LimitExceeded(message, where=worker.where(), hint="use a sum for units without labels")


def _pool_place(worker: Started, name: str) -> str:
    return f"{worker.where()}: {name}"


def _labels(labels: Labels) -> Sequence[str] | range:
    return range(labels.start, labels.end + 1) if isinstance(labels, Range) else labels.labels


def _beside(worker: Started) -> frozenset[int]:
    """Pools whose groups are the sockets of the cpus: each group is coupled with the socket of its number and with no other."""
    grouped = [number for number, pool in enumerate(worker.pools) if isinstance(pool.kind, Groups)]
    if not grouped or worker.pools[grouped[0]].name != CPUS:
        return frozenset()
    cpus, pairs = grouped[0], _couplings_by_pair(worker.couplings)
    counts = {number: len(kind.groups) for number in grouped if isinstance(kind := worker.pools[number].kind, Groups)}
    return frozenset(
        number
        for number in grouped[1:]
        if counts[number] == counts[cpus] == len(pairs.get((cpus, number), ()))
        and pairs.get((cpus, number)) == [(group, group, WEIGHT_DEFAULT) for group in range(counts[cpus])]
    )


def _couplings_by_pair(couplings: Iterable[hyperqueue_coupling.Coupling]) -> dict[tuple[int, int], list[tuple[int, int, int]]]:
    found: dict[tuple[int, int], list[tuple[int, int, int]]] = {}
    for each in couplings:
        found.setdefault((each.resource1, each.resource2), []).append((each.group1, each.group2, each.weight))
    return found


def _couple(made: Structure, workers: Sequence[Started], hosts: Sequence[Host]) -> None:
    """The auxiliary graph of the weights that sockets do not express."""
    ends: list[tuple[int, int]] = []
    weights: list[int] = []
    nodes = made.of_type("node").tolist()
    for worker, host, node in zip(workers, hosts, nodes, strict=True):
        if not worker.couplings:
            continue
        groups = _group_vertices(made, node, host)
        cpus = next((number for number, pool in enumerate(worker.pools) if pool.name == CPUS), -1)
        for each in worker.couplings:
            if each.resource1 == cpus and host.stocks[each.resource2].beside:
                continue
            ends.append((groups[each.resource1][each.group1], groups[each.resource2][each.group2]))
            weights.append(each.weight)
    if ends:
        src, dst = np.array(ends, np.int32).T
        relation = np.zeros(len(ends), np.uint16)
        attributes: dict[str, Any] = {WEIGHT: np.array(weights, np.float64)}
        made.subsystems[GRAPH] = Subsystem(GRAPH, False, src.copy(), dst.copy(), relation, [RELATION], attributes)


def _group_vertices(made: Structure, node: int, host: Host) -> dict[int, list[int]]:
    """The vertices of each pool's groups, by number of the pool."""
    inside = [v for v in made.children(node).tolist() if made.kind_of(v).type in ("socket", "group")]
    found: dict[int, list[int]] = {}
    at = 0
    for number, stock in enumerate(host.stocks):
        count = stock.grid[0] if stock.grid is not None else len(stock.groups)
        if count < 2:
            continue
        if stock.beside:
            found[number] = inside[:count]
            continue
        found[number] = inside[at : at + count]
        at += count
    return found


# -- JSON ------------------------------------------------------------------------------------------------------------


def _called(started: Started, info: WorkerInfo) -> Started:
    about = info.configuration
    if about.min_utilization is not None:
        started.properties[MIN_UTILIZATION] = about.min_utilization
    if about.time_limit is not None and info.started is not None:
        with ErrorPlace(started.where, inner=True):
            started.properties[EXPIRATION] = seconds(ticks(info.started, "started")) + about.time_limit
    started.name = None if about.hostname is UNSET else about.hostname
    started.group = None if about.group is UNSET or about.group == "default" else about.group
    return started


def _of_json(document: Document) -> list[Started]:
    values, known = document.values, dict[bytes, Started]()
    if isinstance(values, list):
        return [_worker(document, entry, (at,), known) for at, entry in enumerate(values)]
    return [_worker(document, values, (), known)]


def _worker(document: Document, values: object, path: tuple[Key, ...], known: dict[bytes, Started]) -> Started:
    if not isinstance(values, Mapping):
        raise InputError(f"expected a worker, got {shown(values)}", where=document.where(path))
    if "configuration" in values:
        kept = _kept(values, "configuration", "id", "started")
        below = (*path, "configuration", "resources")
        old = None
        if isinstance(kept["configuration"], Mapping):
            about = _kept(kept["configuration"], "resources", "hostname", "group", "time_limit", "min_utilization")
            resources = about.get("resources")
            if isinstance(resources, Mapping) and CPUS in resources and "resources" not in resources:
                old = _version0_pools(document, about["resources"], below)
                about["resources"] = _NOTHING
            kept["configuration"] = about
        worker = typed.convert(SubDocument(document, kept, path), WorkerInfo)
        if old is not None:
            return _called(Started(partial(document.where, below), old), worker)
        return _called(_started(document, worker.configuration.resources, below, known), worker)
    if "resources" in values:
        return _started(document, typed.convert(SubDocument(document, values, path), Resources), path, known)
    hint = "a worker has a 'configuration', or 'resources' and 'coupling'"
    raise InputError("the key 'configuration' is missing", where=document.where(path), hint=hint)


def _kept(values: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    return {key: values[key] for key in keys if key in values}


def _started(document: Document, resources: Resources, path: tuple[Key, ...], known: dict[bytes, Started]) -> Started:
    """A worker with these resources; workers with equal resources share their pools."""
    content = msgspec.msgpack.encode(resources)
    if content in known:
        return Started(partial(document.where, path), known[content].pools, known[content].couplings)
    started = Started(partial(document.where, path))
    for at, entry in enumerate(resources.resources):
        started.pools.append(_pool(entry, document, (*path, "resources", at)))
    weights = resources.coupling.weights if resources.coupling is not None else []
    try:
        couplings = []
        for each in weights:
            ends = sorted([(each.resource1_idx, each.group1_idx), (each.resource2_idx, each.group2_idx)])
            couplings.append(hyperqueue_coupling.Coupling(*ends[0], *ends[1], each.weight))
        started.couplings = hyperqueue_coupling.checked(couplings, started.pools)
    except InputError as error:
        where = document.where((*path, "coupling", "weights"))
        raise type(error)(error.message, where=where, hint=error.hint) from None
    known[content] = started
    return started


#: the keys that each kind of pool has besides its name
_KEYS: Final = {"list": ("values",), "range": ("start", "end"), "groups": ("groups",), "sum": ("size",)}


def _pool(entry: Resource, document: Document, path: tuple[Key, ...]) -> Pool:
    keys = _KEYS[entry.kind]
    stated = [key for each in _KEYS.values() for key in each if getattr(entry, key) is not UNSET]
    for key in dict.fromkeys([*keys, *stated]):
        if key not in stated:
            message = f"the key '{key}' is missing"
            raise InputError(message, where=document.where(path), hint=f"a {entry.kind} has {' and '.join(keys)}")
        if key not in keys:
            message = f"a {entry.kind} cannot have {key}"
            raise InputError(message, where=document.where([*path, key], key=True), hint=f"it has {' and '.join(keys)}")
    if entry.size is not UNSET:
        return Pool(entry.name, Sum(entry.size))
    if entry.start is not UNSET and entry.end is not UNSET:
        if entry.start > entry.end:
            message = f"Start must be greater or equal to end: got {entry.start}-{entry.end}"
            raise InputError(message, where=document.where(path))
        return Pool(entry.name, Range(entry.start, entry.end))
    if entry.values is not UNSET:
        return Pool(entry.name, Listed(tuple(map(str, entry.values))))
    return Pool(entry.name, hyperqueue.grouped([list(map(str, group)) for group in entry.groups or []]))


_SIZE_MAX: Final = limits.SIZE_MAX // PER_UNIT


class Parameters(Struct, forbid_unknown_fields=True):
    """The amount or the range of a generic resource."""

    size: Annotated[int, Meta(ge=1, le=_SIZE_MAX)] | UnsetType = UNSET
    start: Number | UnsetType = UNSET
    end: Number | UnsetType = UNSET
    values: List | UnsetType = UNSET


class Generic(Struct, forbid_unknown_fields=True):
    """One resource other than the CPUs."""

    name: Word
    kind: Literal["sum", "list", "range", "indices"]
    params: Parameters


class Version0(Struct, forbid_unknown_fields=True):
    """The resources of a worker as printed by HyperQueue 0.7 and still shown in its documentation; amounts are whole units."""

    cpus: Annotated[list[List], Meta(min_length=1)]
    generic: list[Generic] = []


def _version0_pools(document: Document, values: object, path: tuple[Key, ...]) -> list[Pool]:
    """The pools of a worker."""
    found = typed.convert(SubDocument(document, values, path), Version0)
    made = [Pool(CPUS, hyperqueue.grouped(map(str, group) for group in found.cpus))]
    return made + [_version0_pool(each, document, (*path, "generic", at)) for at, each in enumerate(found.generic)]


def _version0_pool(each: Generic, document: Document, path: tuple[Key, ...]) -> Pool:
    given = each.params
    if each.kind == "sum" and given.size is not UNSET:
        return Pool(each.name, Sum(given.size * PER_UNIT))
    if each.kind == "list" and given.values is not UNSET:
        return Pool(each.name, Listed(tuple(map(str, given.values))))
    if each.kind in ("range", "indices") and given.start is not UNSET and given.end is not UNSET:
        if given.start <= given.end:
            return Pool(each.name, Range(given.start, given.end))
        message = f"Start must be greater or equal to end: got {given.start}-{given.end}"
        raise InputError(message, where=document.where([*path, "params"]))
    keys = {"sum": "size", "list": "values"}.get(each.kind, "start and end")
    raise InputError(f"a {each.kind} needs {keys}", where=document.where([*path, "params"]), hint="as HyperQueue 0.7 prints it")
