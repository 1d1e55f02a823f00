"""The tree of instances as values, and the names in their addresses."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from fluxres import limits
from fluxres.documents import arguments
from fluxres.errors import UsageError

_NAME: Final = re.compile(rf"[A-Za-z0-9_.-]{{1,{limits.INSTANCE_NAME_LENGTH_MAX}}}")


def require_name(name: str) -> None:
    """The rule for the names of instances, outermost ones and children alike, wherever they are given.

    Errors: UsageError for a name that an instance cannot be addressed by.
    """
    arguments.text(name, "name")
    if _NAME.fullmatch(name) is None:
        hint = f"use up to {limits.INSTANCE_NAME_LENGTH_MAX} letters, digits and any of . _ -"
        raise UsageError(f"not a name for an instance: {name!r:.80}", hint=hint)


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
