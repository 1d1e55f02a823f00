"""What works on a machine, as named tuples."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

from fluxres.hwloc._library import get_api_version
from fluxres.hwloc._structs import SUPPORT_SINCE, TopologySupport


def support_of(support: TopologySupport) -> Any:
    """A copy of the structure; what this release of libhwloc does not say is False."""
    version = get_api_version()
    found: dict[str, Any] = {}
    for name, pointer_type in support._fields_:
        is_there = version >= SUPPORT_SINCE.get(name, (0,)) and bool(getattr(support, name))
        fields = [field for field, *_ in pointer_type._type_._fields_]
        flags = getattr(support, name).contents if is_there else None
        values = {field: bool(getattr(flags, field, 0)) and version >= SUPPORT_SINCE.get(field, (0,)) for field in fields}
        found[name] = namedtuple(f"{name.capitalize()}Support", fields)(**values)
    return namedtuple("TopologySupport", list(found))(**found)
