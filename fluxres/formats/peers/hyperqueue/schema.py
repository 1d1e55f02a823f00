"""HyperQueue's workers as JSON: the part of the output of ``hq worker info --output-mode json`` that describes resources.

A worker has many more keys, which change with every version and do not describe resources; they are ignored. Under ``resources``
every key is read.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from fluxres import limits
from fluxres.formats.peers.hyperqueue.tokens import U32_MAX

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


class Coupling(Struct, forbid_unknown_fields=True):
    weights: list[Weight] = []


class Resources(Struct, forbid_unknown_fields=True):
    """The resources of a worker."""

    resources: list[Resource]
    coupling: Coupling | None = None


class Configuration(Struct):
    """The configuration of a worker."""

    resources: Resources
    hostname: Word | UnsetType = UNSET
    group: Word | UnsetType = UNSET


class Worker(Struct):
    configuration: Configuration
    id: Number | UnsetType = UNSET


def json_schema() -> dict[str, Any]:
    """The JSON Schema of workers, as in ``specs/schemas/hyperqueue.schema.json``.

    >>> json_schema()["title"]
    'HyperQueue workers'
    """
    (worker, resources), definitions = msgspec.json.schema_components([Worker, Resources], ref_template="#/$defs/{name}")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "HyperQueue workers",
        "anyOf": [{"type": "array", "items": {"anyOf": [worker, resources]}, "minItems": 1}, worker, resources],
        "$defs": definitions,
    }
