"""The keys of find criteria: one table for the parser, the documentation and the command help."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal

Kind = Literal["text", "names", "number", "flag", "job", "sharing", "qualified"]
"""How values are read: exact text or globs; hostlists; integers and idsets; true or false; job ids; for `shared`, either of
the last two; for `property` and `tag`, a key or, with `:KEY`, its value."""

_EQUAL: Final = ("=", "!=", "~")
_ORDER: Final = ("=", "!=", "<", "<=", ">", ">=")
_EVERY: Final = (*_ORDER, "~")


@dataclass(frozen=True, slots=True)
class Key:
    """One key: the kind of its values, its operators, whether it may be used alone, and whether it depends on time."""

    name: str
    kind: Kind
    help: str
    operators: tuple[str, ...] = _EQUAL
    alone: bool = False
    timed: bool = False


def _table(*keys: Key) -> Mapping[str, Key]:
    return MappingProxyType({key.name: key for key in keys})


KEYS: Final = _table(
    Key("type", "text", "type of the pool, such as node or core"),
    Key("name", "names", "name of the pool; hostlists such as node[0-3,7]"),
    Key("basename", "names", "basename of the pool; hostlists"),
    Key("id", "number", "numeric id; idsets such as 0-3,7", _ORDER),
    Key("rank", "number", "execution target the pool is on; idsets", _ORDER),
    Key("path", "text", "containment path, such as /demo/rack0/node3"),
    Key("uri", "text", "URI in any of its hierarchies, such as power:/pdu0/node3"),
    Key("uuid", "text", "uuid of the pool"),
    Key("size", "number", "units of the pool; k M G T Ki Mi Gi Ti multiply", _ORDER),
    Key("unit", "text", "what its size counts, such as GiB"),
    Key("state", "text", "up, down, drain, degraded, failing, unknown or null; also written status"),
    Key("property", "qualified", "property=KEY has it; property:KEY=VALUE compares its value", _EVERY, alone=True),
    Key("tag", "qualified", "tag=KEY has it; tag:KEY=VALUE compares its value", _EVERY, alone=True),
    Key("allocated", "number", "units that jobs hold", _ORDER, timed=True),
    Key("available", "number", "units that are free", _ORDER, timed=True),
    Key("job", "job", "id of a job that holds units of the pool", timed=True),
    Key("exclusive", "flag", "one job holds all of the pool", ("=", "!="), alone=True, timed=True),
    Key("shared", "sharing", "jobs hold something below the pool; shared=JOB for one job", alone=True, timed=True),
    Key("staged", "flag", "the pool is locked while a job is considered", ("=", "!="), alone=True, timed=True),
    Key("subsystem", "text", "name of a subsystem (auxiliary graph) the pool is in"),
    Key("hierarchy", "text", "name of a hierarchy the pool is in"),
    Key("depth", "number", "levels below the root, which is 0", _ORDER),
    Key("parent", "text", "path or name of the parent, or its URI in another hierarchy"),
    Key("under", "text", "path of an ancestor, or its URI in another hierarchy"),
)

ALIASES: Final = MappingProxyType({"status": "state"})


def find(word: str) -> Key | None:
    """The key of this name or alias.

    >>> find("status").name
    'state'
    """
    return KEYS.get(ALIASES.get(word, word))


def nearest(word: str) -> str:
    """What to write instead of an unknown key.

    >>> nearest("Tpye")
    'did you mean type?'
    """
    if word.startswith("/"):
        return f"for a path write path={word}"
    known = [*KEYS, *ALIASES]
    close = difflib.get_close_matches(word[:64].lower().partition(".")[0], known, n=3)
    if close:
        return f"did you mean {' or '.join(close)}?"
    return "keys are " + ", ".join(KEYS)
