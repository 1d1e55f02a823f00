"""CTest's resource specification file as a typed document, for editors; unlike CTest, it rejects what CTest silently ignores.

The reader does not use it: the reader has to refuse what CTest refuses, in CTest's wording, and to ignore what CTest ignores.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

SLOTS_MAX = (1 << 32) - 1
# In Python, `$` also matches before a line break at the end.
Identity = Annotated[str, Meta(pattern=r"^[a-z0-9_]+(?!\n)$", description="Lower case letters, digits and underscores.")]
Type = Annotated[str, Meta(pattern=r"^[a-z_][a-z0-9_]*(?!\n)$", description="Lower case letters, digits and underscores.")]


class Version(Struct, forbid_unknown_fields=True):
    """Version of the format."""

    major: Literal[1]
    minor: Literal[0]


class Instance(Struct, gc=False, forbid_unknown_fields=True):
    """One instance of a type."""

    id: Identity
    slots: (
        Annotated[int, Meta(ge=0, le=SLOTS_MAX, description="Number of slots that it can be divided into. Default: 1.")]
        | UnsetType
    ) = UNSET


class Specification(Struct, forbid_unknown_fields=True):
    """The resources of a machine."""

    version: Version
    local: Annotated[list[dict[Type, list[Instance]]], Meta(max_length=1, description="The machine: instances by type.")]


def json_schema() -> dict[str, Any]:
    """The JSON Schema of a resource specification file, as in ``specs/schemas/ctest.schema.json``.

    >>> json_schema()["title"]
    'CTest resource specification'
    """
    schema = msgspec.json.schema(Specification)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "CTest resource specification", **schema}
