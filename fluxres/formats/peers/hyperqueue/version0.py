"""The resources of a worker as printed by HyperQueue 0.7 and still shown in its documentation: `cpus` in groups, and a list of
generic resources with parameters. Amounts are whole units, where later versions have ten-thousandths.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from fluxres import limits
from fluxres.documents import typed
from fluxres.documents.document import Document, Key
from fluxres.documents.part import Part
from fluxres.errors import InputError
from fluxres.formats.peers.hyperqueue import definitions as hyperqueue
from fluxres.formats.peers.hyperqueue.definitions import CPUS
from fluxres.formats.peers.hyperqueue.pools import Listed, Pool, Range, Sum
from fluxres.formats.peers.hyperqueue.schema import List, Number, Word
from fluxres.formats.peers.hyperqueue.tokens import PER_UNIT

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


class Resources(Struct, forbid_unknown_fields=True):
    """The resources of a worker."""

    cpus: Annotated[list[List], Meta(min_length=1)]
    generic: list[Generic] = []


def is_meant(values: object) -> bool:
    """Whether the resources of a worker are in this form."""
    return isinstance(values, Mapping) and CPUS in values and "resources" not in values


def pools(document: Document, values: object, path: tuple[Key, ...]) -> list[Pool]:
    """The pools of a worker.

    Errors: InputError with the place.
    """
    found = typed.convert(Part(document, values, path), Resources)
    made = [Pool(CPUS, hyperqueue.grouped([list(map(str, group)) for group in found.cpus]))]
    return made + [_pool(each, document, (*path, "generic", at)) for at, each in enumerate(found.generic)]


def _pool(each: Generic, document: Document, path: tuple[Key, ...]) -> Pool:
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
