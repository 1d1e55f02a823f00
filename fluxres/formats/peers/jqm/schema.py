"""JQM's resource managers as a typed document.

JQM keeps them in its database. A file has them in the form of its administration API (key, implementation, parameters), or
shorter with the type and the parameters beside the key. Released versions have only three global parameters instead.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from fluxres import limits

Word = Annotated[str, Meta(min_length=1, max_length=limits.NAME_LENGTH_MAX)]
Text = Annotated[str, Meta(max_length=limits.VALUE_LENGTH_MAX)]
Number = Annotated[int, Meta(ge=0, le=limits.SIZE_MAX)] | Word
Items = str | list[Word]


class ManagedResource(Struct, forbid_unknown_fields=True):
    """One resource manager."""

    key: Annotated[Word, Meta(description="Its name, which parameters of jobs refer to.")]
    type: Annotated[Word | UnsetType, Meta(description="quantity, discrete or highlander.")] = UNSET
    implementation: Annotated[
        Word | UnsetType, Meta(description="Its class, such as com.enioka.jqm.tools.QuantityResourceManager.")
    ] = UNSET
    description: Text | UnsetType | None = UNSET
    enabled: Annotated[bool, Meta(description="A disabled manager has no effect. Default: true.")] = True
    quantity: Annotated[Number | UnsetType, Meta(description="Total amount. Default: 10.")] = UNSET
    consumption: Annotated[Number | UnsetType, Meta(description="Amount that a job takes by default.")] = UNSET
    list_: Annotated[
        Items | UnsetType, Meta(description="Items, separated by commas or as a list. Default: item01 to item10.")
    ] = msgspec.field(default=UNSET, name="list")
    parameters: Annotated[dict[str, Any] | UnsetType, Meta(description="Parameters by name, in any capitalisation.")] = UNSET


Managers = list[ManagedResource]


class Node(Struct, forbid_unknown_fields=True):
    """One node and its managers."""

    name: Word | UnsetType = UNSET
    managers: Managers | UnsetType = UNSET
    resource_managers: Managers | UnsetType = msgspec.field(default=UNSET, name="resourceManagers")
    discrete_list: Annotated[Items | UnsetType, Meta(description="Items of the discrete manager of a node.")] = msgspec.field(
        default=UNSET, name="discreteRmList"
    )
    discrete_name: Annotated[Word | UnsetType, Meta(description="Its key. Default: ports.")] = msgspec.field(
        default=UNSET, name="discreteRmName"
    )
    threads: Annotated[Number | UnsetType, Meta(description="Threads of a poller, as the manager 'thread'.")] = msgspec.field(
        default=UNSET, name="nbThread"
    )


class Site(Node, forbid_unknown_fields=True):
    """One node, or several."""

    nodes: Annotated[list[Node] | UnsetType, Meta(description="Several nodes, each with its managers.")] = UNSET


def json_schema() -> dict[str, Any]:
    """The JSON Schema of resource managers, as in ``specs/schemas/jqm.schema.json``.

    >>> json_schema()["title"]
    'JQM resource managers'
    """
    schema = msgspec.json.schema(Site)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "JQM resource managers", **schema}
