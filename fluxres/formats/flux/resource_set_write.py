"""Write R version 1 (RFC 20): ranks, the cores and gpus of each, hosts and properties; with a graph or topologies on request."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final

import orjson

from fluxres import limits
from fluxres.allocation.resource_set import CHILDREN
from fluxres.errors import InputError, UsageError
from fluxres.formats import left_out
from fluxres.formats.flux import jgf_write
from fluxres.formats.flux.rank_columns import Children, children_of, host_ids, host_of, nodelist_of, properties_of
from fluxres.formats.flux.resource_set import ATTRIBUTES, EXPIRATION, NSLOTS, SCHEDULING, STARTTIME
from fluxres.formats.flux.resource_set_told import Targets, Told, lost, pools_within, targets_of
from fluxres.formats.flux.treepool_write import topologies
from fluxres.formats.loaded import Hold, Output
from fluxres.graph.jgf_shorthand import left_out_below
from fluxres.graph.structure import Structure
from fluxres.syntax import idset

SCHEDULINGS: Final = ("none", "jgf", "jgf_shorthand", "treepool")
"""The possible values of `scheduling`."""


def write(structure: Structure, allocations: Sequence[Hold] = (), *, name: str | None = None, scheduling: str = "none") -> Output:
    """A machine as a resource set.

    Args:
        scheduling: ``none``, the graph as ``jgf`` or ``jgf_shorthand``, or ``treepool``.

    Errors: InputError for a machine without ranks, with one rank twice, or with node names that a hostlist cannot express;
    UsageError for another value of `scheduling`. Cost: O(pools) array operations, O(different nodes) Python, and that of the
    graph. Source: RFC 20, 40, 49.
    """
    if scheduling not in SCHEDULINGS:
        raise UsageError(f"no scheduling {scheduling!r}", hint=f"the values are {', '.join(SCHEDULINGS)}")
    targets = targets_of(structure)
    told = Told.nothing(structure, targets)
    children = children_of(structure, targets)
    if scheduling == "treepool":
        children.gpus_first[:] = False  # in the order of the topologies
    tags = structure.tags.get(0, {})
    execution: dict[str, Any] = {"R_lite": _entries(targets, children)}
    execution["starttime"], execution["expiration"] = (_number(tags, key) for key in (STARTTIME, EXPIRATION))
    execution["nodelist"] = [nodelist_of(structure, targets)]
    if properties := properties_of(structure, targets, told):
        execution["properties"] = properties
    if tags.get(NSLOTS):
        execution["nslots"] = _slots(tags)
    parts = [b'{"version":1,"execution":', orjson.dumps(execution)]
    lines: list[str] | None = None
    note = ""
    if scheduling == "treepool":
        parts += [b',"scheduling":', topologies(structure, targets, children.numbers, told)]
    elif scheduling != "none":
        pieces, lines = _graph(structure, children, name, shorthand=scheduling == "jgf_shorthand")
        parts += [b',"scheduling":', *pieces]
        lines += jgf_write.lost_of(structure, allocations)
        note = jgf_write.note_of(structure)
    elif tags.get(SCHEDULING):
        parts += [b',"scheduling":', _json(tags, SCHEDULING)]
    if scheduling != "treepool":
        for type_ in CHILDREN:
            pools = pools_within(structure, targets, type_)
            told.pools[pools] = True
            told.ids[pools] = structure.id[pools] == children.numbers[pools]
        told.mixed[targets.vertices[children.mixed]] = True
    if lines is None:
        lines = lost(structure, allocations, targets, told, host_ids(structure, targets), name)
        if scheduling == "treepool" and tags.get(SCHEDULING):
            lines.append(f"tags: {SCHEDULING} of the root, which is replaced by topologies")
    attributes = b',"attributes":' + _json(tags, ATTRIBUTES) if tags.get(ATTRIBUTES) else b""
    return Output(b"".join([*parts, attributes, b"}\n"]), lines, note)


def write_treepool(structure: Structure, allocations: Sequence[Hold] = (), *, name: str | None = None) -> Output:
    """A machine as a resource set with the topologies of its nodes; see :func:`write`."""
    return write(structure, allocations, name=name, scheduling="treepool")


def _graph(structure: Structure, children: Children, name: str | None, *, shorthand: bool) -> tuple[Iterator[bytes], list[str]]:
    """The graph as JSON in pieces, and what its shorthand leaves out."""
    part = jgf_write.part_of(structure, shorthand=shorthand)
    more = {}
    if shorthand:
        more = left_out_below(structure, part, CHILDREN, host=partial(host_of, structure), numbers=children.numbers)
    what = "what is below exclusive ones, of which R says nodes, cores and gpus;"
    lost = left_out.concern(structure, "pools", jgf_write.hidden_in(structure, part), what)
    return jgf_write.pieces_of(structure, part, name, more), lost


def _json(tags: dict[str, str | None], key: str) -> bytes:
    """The JSON in a tag."""
    text = str(tags[key]).encode()
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise InputError(f"the tag {key} of the root is not JSON: {error.msg}", hint="remove the tag") from None
    return text


def _slots(tags: dict[str, str | None]) -> int:
    text = tags[NSLOTS] or ""
    # A float cannot hold all digits of a count.
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 20 else int(_number(tags, NSLOTS))


def _number(tags: dict[str, str | None], key: str, most: float = limits.TIME_MAX_S) -> float:
    """The number in a tag, 0 without the tag."""
    text = tags.get(key) or "0"
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number <= most:
        raise InputError(f"the tag {key} of the root is not a valid number in R: {text[:40]!r}", hint="remove the tag")
    return number


def _entries(targets: Targets, children: Children) -> list[dict[str, Any]]:
    alike: dict[tuple[bool, str, str], list[int]] = {}
    columns = (children.gpus_first.tolist(), *(children.texts[type_] for type_ in CHILDREN))
    for rank, sort in zip(targets.ranks.tolist(), zip(*columns, strict=True), strict=True):
        alike.setdefault(sort, []).append(rank)
    entries = []
    for (gpus_first, cores, gpus), ranks in alike.items():
        held = {"core": cores, **({"gpu": gpus} if gpus else {})}
        entries.append({"rank": idset.format(ranks), "children": dict(reversed(held.items())) if gpus_first else held})
    return entries
