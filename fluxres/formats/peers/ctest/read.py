"""CTest's resource specification files, version 1.0, read exactly as CTest reads them.

CTest is strict in what it refuses and silent in what it ignores. A reader that differs in either would load a machine that CTest
does not see. Types that CTest ignores because of their name are ignored here too. The same file with ``local`` as an object,
which canary reads and writes, is also read, but not in strict mode.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any, Final

from fluxres.documents.document import Document, Key, shown
from fluxres.documents.source import Source
from fluxres.errors import InputError, LimitExceeded
from fluxres.formats.format import Loaded
from fluxres.formats.peers.ctest.groups import ID, TYPE
from fluxres.formats.peers.inventory import Host, Run, Stock, compact, structure

VERSION: Final = {"major": 1, "minor": 0}
_U32_MAX: Final = (1 << 32) - 1


@dataclass(frozen=True, slots=True)
class Instance:
    """One instance of a type and its number of slots."""

    id: str
    slots: int = 1


Machine = dict[str, list[Instance]]
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


def _instance(document: Document, value: object, path: tuple[Key, ...]) -> Instance:
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
    if slots > _U32_MAX:
        message = f"Invalid resource object: expected at most {_U32_MAX} slots, got {shown(slots)}"
        raise LimitExceeded(message, where=document.where([*path, "slots"]))
    return Instance(name, slots)


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
