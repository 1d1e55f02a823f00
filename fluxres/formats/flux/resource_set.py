"""R, the resource set of Flux, version 1 (RFC 20), as a machine of its nodes, with the graph or the topologies it carries.

Without `scheduling`, a node has its cores and gpus as children. With Fluxion's graph (RFC 40), that graph is the machine, and the
rest of R must agree with it. With TreePool's topologies (RFC 49), cores and gpus are in sockets and NUMA domains. The parts of R
that describe a job and not a machine (times, slots, data of other schedulers) become tags of the root, from which R is written
again.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import msgspec
from msgspec import UNSET

from fluxres import limits
from fluxres.documents import json_typed
from fluxres.documents.source import Source
from fluxres.errors import InputError, LimitExceeded
from fluxres.formats.flux import jgf, resource_set_shorthand
from fluxres.formats.flux.jgf import build
from fluxres.formats.flux.jgf_schema import RawJgf
from fluxres.formats.flux.resource_set_lite import Lite
from fluxres.formats.flux.resource_set_schema import Execution, RawResourceSet, ResourceSet, TreePool, WithGraph, WithTopology
from fluxres.formats.flux.treepool import Topologies
from fluxres.formats.format import Loaded
from fluxres.formats.losses import keys_passed_over
from fluxres.graph import uuids
from fluxres.graph.jgf import SHORTHAND
from fluxres.graph.structure import Structure

NSLOTS: Final = "R.nslots"
STARTTIME: Final = "R.starttime"
EXPIRATION: Final = "R.expiration"
SCHEDULING: Final = "R.scheduling"
ATTRIBUTES: Final = "R.attributes"
TAGS: Final = (NSLOTS, STARTTIME, EXPIRATION, SCHEDULING, ATTRIBUTES)
"""Tags of the root with the parts of R that do not describe a machine."""


def read(source: Source, *, origin: int | None = None) -> Loaded:
    """The machine of a resource set.

    Errors: InputError ``FILE:line:column: path``; LimitExceeded.
    Cost: O(pools) array writes, O(entries + irregular host names) Python; that of :mod:`~fluxres.formats.flux.jgf` with a graph.
    Source: RFC 20, 40, 49.

    >>> lite = '[{"rank": "0-1", "children": {"core": "0-3"}}]'
    >>> text = f'{{"version": 1, "execution": {{"R_lite": {lite}, "nodelist": ["n[08-09]"]}}}}'
    >>> [read(Source(text.encode())).structure.path(v) for v in (0, 6, 10)]
    ['/cluster0', '/cluster0/n09', '/cluster0/n09/core3']
    """
    document, some_unknown = json_typed.decode_leniently(source, RawResourceSet, whole=ResourceSet)
    execution, more_unknown = json_typed.decode_leniently(source, Execution, part=document.execution, whole=ResourceSet)
    has_unknown_keys = some_unknown or more_unknown
    lite = Lite(source, execution)
    tags = _tags(source, execution)
    if document.attributes is not UNSET:
        tags[ATTRIBUTES] = _kept(source, document.attributes, "attributes")
    form, passed_over = _form(source, document.scheduling), lite.passed_over
    kind: type[ResourceSet] = ResourceSet
    notes: tuple[str, ...] = ()
    if form == "graph" and document.scheduling is not UNSET:
        graph, more_unknown = json_typed.decode_leniently(source, RawJgf, part=document.scheduling, whole=WithGraph)
        made = _with_graph(source, graph, lite, origin)
        has_unknown_keys = has_unknown_keys or more_unknown or made.has_unknown_keys
        structure, kind = made.structure, WithGraph
        passed_over, notes = passed_over + made.passed_over, made.notes
        if graph.free_ranks is not UNSET:
            tags[jgf.FREE_RANKS] = graph.free_ranks
    else:
        topologies = None
        if form == "topology" and document.scheduling is not UNSET:
            pool = json_typed.decode(source, TreePool, part=document.scheduling, whole=WithTopology)
            topologies = Topologies(source, pool, lite.ranks)
        elif document.scheduling is not UNSET:
            tags[SCHEDULING] = _kept(source, document.scheduling, "scheduling")
        structure, notes = lite.structure(uuids.new_origin() if origin is None else origin, topologies), lite.notes
    passed_over = [*(json_typed.unknown_keys(source, kind) if has_unknown_keys else ()), *passed_over]
    for key, value in tags.items():
        structure.set_tag([0], key, value)
    return Loaded(structure, [], structure.name(0), (*keys_passed_over(source, passed_over), *notes))


class _Graph(NamedTuple):
    """The machine of a graph, whether it has keys that are ignored, the unkept parts, and notes."""

    structure: Structure
    has_unknown_keys: bool
    passed_over: list[str]
    notes: tuple[str, ...]


def _with_graph(source: Source, graph: RawJgf, lite: Lite, origin: int | None) -> _Graph:
    if graph.writer is not UNSET:
        jgf.require_known_writer(source, graph.writer, ["scheduling", "writer"])
    made = build(source, graph.graph, WithGraph, ("scheduling", "graph"), origin, is_of_job=True)
    structure = made.structure
    notes: tuple[str, ...] = ()
    # The graph may have tags from the R that its instance was started from; they do not belong to this R.
    for key in (NSLOTS, STARTTIME, EXPIRATION, ATTRIBUTES):
        structure.drop_tag([0], key)
    if graph.writer == SHORTHAND:
        structure, notes = resource_set_shorthand.completed(structure, made.hidden, lite, origin)
    notes += lite.agree(structure)
    return _Graph(structure, made.has_unknown_keys, [f"scheduling.graph.{what}" for what in made.passed_over], notes)


def _values(source: Source, part: msgspec.Raw) -> Any:
    return json_typed.decode(source, Any, part=part, whole=ResourceSet)


def _form(source: Source, scheduling: Any) -> str:
    """The content of `scheduling`: a graph, topologies, or something unknown."""
    if scheduling is UNSET:
        return "none"
    if bytes(memoryview(scheduling)[:1]) != b"{":
        return "other"
    values = json_typed.decode(source, dict[str, msgspec.Raw], part=scheduling, whole=ResourceSet)
    writer = values.get("writer", msgspec.Raw(b'""'))
    if bytes(writer) == b'"TreePool"':
        return "topology"
    return "graph" if "graph" in values else "other"


def _kept(source: Source, part: msgspec.Raw, key: str) -> str:
    text = msgspec.json.encode(_values(source, part)).decode()
    if len(text) > limits.VALUE_LENGTH_MAX:
        message = f"{len(text)} characters to keep, at most {limits.VALUE_LENGTH_MAX} are allowed"
        raise LimitExceeded(message, where=json_typed.where(source, [key]))
    return text


def _tags(source: Source, execution: Execution) -> dict[str, str | None]:
    start, end = (0.0 if time is UNSET else time for time in (execution.starttime, execution.expiration))
    tags: dict[str, str | None] = {key: repr(time) for key, time in ((STARTTIME, start), (EXPIRATION, end)) if time}
    if 0 < end <= start:
        message = f"the expiration {end!r} is not after the starttime {start!r}"
        raise InputError(message, where=json_typed.where(source, ["execution", "expiration"]), hint="0 means unset")
    if execution.nslots is not UNSET:
        tags[NSLOTS] = str(execution.nslots)
    return tags
