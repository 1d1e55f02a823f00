"""The `[resource]` table of flux-core's configuration as a typed document."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from fluxres import limits

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
    """The JSON Schema of a configuration, as in ``specs/schemas/resource-config.schema.json``.

    >>> json_schema()["title"]
    'resource configuration'
    """
    schema = msgspec.json.schema(Configuration)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "resource configuration", **schema}
