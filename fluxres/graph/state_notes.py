"""Why a pool is in its state, which user set it, and since when.

They are tags whose keys begin with ``state.``, so they go wherever the pool goes: into copies, merges, files and stores.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from fluxres.arrays import Int32

if TYPE_CHECKING:
    from fluxres.graph.structure import Structure

PREFIX: Final = "state."
REASON, _USER, _SINCE = (PREFIX + key for key in ("reason", "user", "since"))


class StateNote(NamedTuple):
    """Why a pool is in its state.

    Args:
        reason: as text.
        user: the one who set the state.
        since: when, in seconds.
    """

    reason: str | None
    user: str | None
    since: float | None


def put(structure: Structure, vertices: Int32 | Sequence[int], note: StateNote | None) -> None:
    """Replace the notes of these pools."""
    some = [int(v) for v in vertices if any(key.startswith(PREFIX) for key in structure.tags.get(int(v), ()))]
    for key in (REASON, _USER, _SINCE) if some else ():
        structure.drop_tag(some, key)
    if note is None:
        return
    since = None if note.since is None else f"{math.floor(note.since)}"
    for key, value in ((REASON, note.reason), (_USER, note.user), (_SINCE, since)):
        if value is not None:
            structure.set_tag(vertices, key, value)


def of(structure: Structure, v: int) -> StateNote | None:
    """The note of a pool, None if there is none."""
    tags = structure.tags.get(v)
    if not tags or not any(key.startswith(PREFIX) for key in tags):
        return None
    since = tags.get(_SINCE) or ""
    return StateNote(tags.get(REASON), tags.get(_USER), float(since) if since.isdecimal() else None)


def without(tags: dict[str, str | None]) -> dict[str, str | None]:
    """Tags without notes."""
    return {key: value for key, value in tags.items() if not key.startswith(PREFIX)}
