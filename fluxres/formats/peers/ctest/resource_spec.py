"""CTest's resource specification files, version 1.0, read exactly as CTest reads them.

CTest is strict in what it refuses and silent in what it ignores. A reader that differs in either would load a machine that CTest
does not see. Types that CTest ignores because of their name are ignored here too. The same file with ``local`` as an object,
which canary reads and writes, is also read, but not in strict mode.

The file describes one machine. If there are several nodes, one can be chosen by name when it is written; otherwise all instances
are written as those of one machine, with the name of the node prefixed to their ids, and this is reported.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Annotated, Any, Final, Literal

import numpy as np
import orjson
from msgspec import Meta, Struct

from fluxres.documents import typed
from fluxres.documents.document import Document, Key, shown
from fluxres.documents.source import Source
from fluxres.errors import InputError, LimitExceeded, UsageError
from fluxres.formats.format import Fact, Hold, Loaded, Output
from fluxres.formats.peers.ctest.groups import ID, TYPE
from fluxres.formats.peers.inventory import LABEL, SLOTS, Host, Inventory, Run, Share, Stock, compact, structure
from fluxres.graph.structure import Structure

_SLOTS_MAX: Final = (1 << 32) - 1
# In Python, `$` also matches before a line break at the end.
Identity = Annotated[str, Meta(pattern=r"^[a-z0-9_]+(?!\n)$", description="Lower case letters, digits and underscores.")]
Type = Annotated[str, Meta(pattern=r"^[a-z_][a-z0-9_]*(?!\n)$", description="Lower case letters, digits and underscores.")]


class Version(Struct, forbid_unknown_fields=True):
    """Version of the format."""

    major: Literal[1]
    minor: Literal[0]


class SpecInstance(Struct, gc=False, forbid_unknown_fields=True):
    """One instance of a type."""

    id: Identity
    slots: Annotated[int, Meta(ge=0, le=_SLOTS_MAX, description="Number of slots that it can be divided into.")] = 1


class Specification(Struct, forbid_unknown_fields=True):
    """The resources of a machine."""

    version: Version
    local: Annotated[list[dict[Type, list[SpecInstance]]], Meta(max_length=1, description="The machine: instances by type.")]


def json_schema() -> dict[str, Any]:
    """The JSON Schema of a resource specification file, as in ``specs/schemas/ctest.schema.json``."""
    return typed.json_schema(Specification, title="CTest resource specification")


VERSION: Final = {"major": 1, "minor": 0}


Machine = dict[str, list[SpecInstance]]
"""Instances by type, in the order of the file."""


def read(source: Source, *, origin: int | None = None) -> Loaded:
    """The machine of a resource specification file: one node.

    An instance is a pool whose size is its slots.  Errors: InputError with CTest's wording and the place.

    >>> text = b'{"version": {"major": 1, "minor": 0}, "local": [{"gpus": [{"id": "0", "slots": 2}]}]}'
    >>> s = read(Source(text)).structure
    >>> s.path(2), s.size.item(2)
    ('/cluster/node0/gpu0', 2)
    """
    runs = _runs(parse(source.document, strict=False))

    def where(*more: Key) -> str:
        return source.document.where([*_path(source.document), *more])

    stocks = [Stock(word, (tuple(some),), where=partial(where, word)) for word, some in runs.items()]
    return Loaded(structure([Host(tuple(stocks), where=where)], file=source.file, origin=origin), [], "ctest")


def _runs(machine: Machine) -> dict[str, list[Run]]:
    return {
        word: [Run(compact([each.id for each in run]), slots) for slots, run in groupby(instances, key=lambda each: each.slots)]
        for word, instances in machine.items()
    }


def parse(document: Document, *, strict: bool = True) -> Machine:
    """The instances that CTest sees in a document.

    Args:
        strict: accept only what CTest accepts; otherwise also `local` as an object, with or without a version.

    Source: CTest manual, resource specification file.
    """
    top = document.values
    if not isinstance(top, Mapping):
        raise InputError(f"expected an object, got {shown(top)}", where=document.where(()), hint="JSON begins with {")
    local = top.get("local")
    if strict or not isinstance(local, Mapping) or "version" in top:
        _version(document, top)
    if local is None:
        hint = 'list what the machine has: [{"gpus": [{"id": "0"}]}]'
        raise InputError("Invalid socket object: the key 'local' is missing", where=document.where(()), hint=hint)
    if isinstance(local, Mapping) and not strict:
        return _socket(document, local, ("local",))
    if not isinstance(local, list) or len(local) > 1:
        message = f"Invalid socket object: expected a list of one object, got {shown(local)}"
        raise InputError(message, where=document.where(["local"]), hint="CTest supports one machine with one part")
    if local and not isinstance(local[0], Mapping):
        message = f"Invalid socket object: expected an object in the list, got {shown(local[0])}"
        raise InputError(message, where=document.where(["local", 0]), hint='write [{"gpus": [{"id": "0"}]}]')
    return _socket(document, local[0], ("local", 0)) if local else {}


def _path(document: Document) -> tuple[Key, ...]:
    values = document.values
    local = values.get("local") if isinstance(values, Mapping) else None
    return ("local",) if isinstance(local, Mapping) else ("local", 0)


def _version(document: Document, top: Mapping[str, Any]) -> None:
    if "version" not in top:
        hint = 'write "version": {"major": 1, "minor": 0}'
        raise InputError("No version specified", where=document.where(()), hint=hint)
    version = top["version"]
    if not isinstance(version, Mapping) or not all(_is_integer(version.get(key)) for key in VERSION):
        hint = 'write {"major": 1, "minor": 0}'
        raise InputError(f"Invalid version object: got {shown(version)}", where=document.where(["version"]), hint=hint)
    if {key: version[key] for key in VERSION} != VERSION:
        got = f"{shown(version['major'])}.{shown(version['minor'])}"
        raise InputError(f"Unsupported version: {got}, expected 1.0", where=document.where(["version"]))


def _socket(document: Document, socket: Mapping[str, Any], path: tuple[Key, ...]) -> Machine:
    made: Machine = {}
    for word, instances in socket.items():
        if not TYPE.fullmatch(word):
            continue
        if not isinstance(instances, list):
            message = f"Invalid resource specification: expected a list, got {shown(instances)}"
            raise InputError(message, where=document.where([*path, word]), hint='write [{"id": "0", "slots": 1}]')
        made[word] = [_instance(document, each, (*path, word, at)) for at, each in enumerate(instances)]
    return made


def _instance(document: Document, value: object, path: tuple[Key, ...]) -> SpecInstance:
    if not isinstance(value, Mapping) or "id" not in value:
        message = f"Invalid resource object: expected an object with an id, got {shown(value)}"
        raise InputError(message, where=document.where(path), hint='write {"id": "0", "slots": 1}')
    name, slots = value["id"], value.get("slots", 1)
    if not isinstance(name, str) or not ID.fullmatch(name):
        message = f"Invalid resource object: expected an id, got {shown(name)}"
        hint = "an id consists of lower case letters, digits and underscores"
        raise InputError(message, where=document.where([*path, "id"]), hint=hint)
    if not _is_integer(slots) or slots < 0:
        message = f"Invalid resource object: expected a number of slots, got {shown(slots)}"
        raise InputError(message, where=document.where([*path, "slots"]), hint="slots is an integer, 1 by default")
    if slots > _SLOTS_MAX:
        message = f"Invalid resource object: expected at most {_SLOTS_MAX} slots, got {shown(slots)}"
        raise LimitExceeded(message, where=document.where([*path, "slots"]))
    return SpecInstance(name, slots)


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


CARRIES: Final[frozenset[Fact]] = frozenset({"names", "ids", "sizes"})


def write(structure: Structure, allocations: Sequence[Hold] = (), *, name: str | None = None, node: str | None = None) -> Output:
    """The instances on the nodes of a machine.

    Args:
        node: name of the node to write; all nodes by default.

    Errors: UsageError for a node that does not exist.  Cost: O(instances) Python, since each is an entry of the file.

    >>> from fluxres.graph.recipe import Recipe, expand
    >>> machine = expand(Recipe("cluster", children=(Recipe("node", children=(Recipe("gpu", size=2),)),)), origin=0)
    >>> write(machine).data.decode().split("local")[1]
    '":[{"gpus":[{"id":"0","slots":2}]}]}\\n'
    """
    inventory = Inventory(structure)
    names = inventory.distinct_names()
    if node is not None and node not in names:
        raise UsageError(f"no node {node!r}", hint=f"the nodes are {', '.join(names)}"[:200])
    chosen = [number for number, each in enumerate(names) if node is None or each == node]
    words, more = inventory.words(clean)
    local: dict[str, list[dict[str, Any]]] = {}
    for number in chosen:
        for share in inventory.shares[number]:
            prefix = f"{_id(names[number])}_" if len(chosen) > 1 else ""
            local.setdefault(words[share.type], []).extend(_instances(inventory, share, prefix))
    inventory.written &= np.isin(inventory.host, chosen)
    inventory.mark_moved()
    if len(chosen) > 1:
        more.append(f"pools: which of {len(chosen)} nodes an instance is in")
        inventory.moved |= inventory.written
    inventory.hosts = inventory.hosts[chosen]
    is_other = [structure.name(v) != "node0" for v in inventory.hosts.tolist()]
    inventory.mark("names", inventory.hosts[is_other])  # the single node is read back as node0
    data = orjson.dumps({"version": VERSION, "local": [local]}) + b"\n"
    return Output(data, inventory.left_out(allocations, CARRIES, more))


def clean(word: str) -> str:
    """A valid type name for CTest: lower case letters, digits and underscores, not starting with a digit.

    >>> clean("GPU/amd"), clean("1x")
    ('gpu_amd', '_1x')
    """
    made = re.sub(r"[^a-z0-9_]", "_", word.lower())
    return made if TYPE.fullmatch(made) else f"_{made}"


def _id(label: str) -> str:
    return label if ID.fullmatch(label) else re.sub(r"[^a-z0-9_]", "_", label.lower()) or "_"


def _instances(inventory: Inventory, share: Share, prefix: str) -> list[dict[str, Any]]:
    s, vertices = inventory.structure, share.vertices
    kinds = s.kind[vertices].tolist()
    keeps = [LABEL in dict(s.kinds[number].properties) for number in kinds]
    given = list(map(str, inventory.labels(vertices)))
    own = [label for label, is_kept in zip(given, keeps, strict=True) if not is_kept]
    if len(set(own)) < len(own):  # a label may occur twice if it did so in the file it came from
        given = list(map(str, inventory.distinct(vertices)))
    labels = [f"{prefix}{label}" for label in given]
    ids = list(map(_id, labels))
    if len(set(ids)) < len(set(labels)):
        ids = [f"{each}_{at}" for at, each in enumerate(ids)]
    if prefix or ids != labels:
        inventory.relabelled("names", vertices)
    slots = s.size[vertices]
    inventory.mark("sizes", vertices[slots > _SLOTS_MAX])
    inventory.mark_units(vertices)
    is_none = [SLOTS in dict(s.kinds[number].properties) for number in kinds]
    return [
        {"id": each, "slots": 0 if is_ghost else min(size, _SLOTS_MAX)}
        for each, size, is_ghost in zip(ids, slots.tolist(), is_none, strict=True)
    ]
