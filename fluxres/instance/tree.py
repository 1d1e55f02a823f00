"""The tree of instances as values, and the names in their addresses."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from fluxres.documents import arguments
from fluxres.errors import UsageError

_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")


def require_name(name: str) -> None:
    """Errors: UsageError for a name that an instance cannot be addressed by."""
    arguments.text(name, "name")
    if _NAME.fullmatch(name) is None:
        raise UsageError(f"not a name for an instance: {name!r:.80}", hint="use up to 64 letters, digits and any of . _ -")


class Branch(NamedTuple):
    """One instance of a tree.

    Args:
        address: the path from the outermost instance, such as ``tioga/ƒA/ƒB``.
        depth: the number of levels below the instance at which the listing begins.
        pools: the number of pools of its graph, including pass-through pools.
        pending, running: the numbers of jobs.
    """

    address: str
    depth: int
    name: str
    queue_policy: str
    match_policy: str
    pools: int
    pending: int
    running: int
