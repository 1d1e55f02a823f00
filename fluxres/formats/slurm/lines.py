"""The lines of Slurm's configuration files, `Key=Value Key="a value"`, parsed as by Slurm.

A trailing backslash continues a line, `#` begins a comment, keys are case-insensitive, and `Include` includes another file. An
included file is looked up only in the directory of the first one: a configuration of another site must not read arbitrary
files of this machine.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from fluxres import limits
from fluxres.documents import source_text
from fluxres.documents.document import shown
from fluxres.documents.mistakes import Mistakes
from fluxres.documents.source import Source
from fluxres.documents.suggestion import did_you_mean, near
from fluxres.errors import ErrorPlace, InputError, LimitExceeded
from fluxres.syntax import hostlist

_PAIR = re.compile(r"\s*([A-Za-z][\w.]*+)\s*([-+*/]?)=\s*(?:\"([^\"]*)\"|([^\s\"]*))")
_COMMENT = re.compile(r"(?<!\\)#.*")
_KEY = re.compile(r"\s*([A-Za-z][\w.]*+)\s*[-+*/]?=")
#: first keys of the lines that describe resources; the values of all other lines may have any form
_HEADS: Final = frozenset(
    {
        *("nodename", "partitionname", "nodeset", "downnodes", "switchname", "blockname", "ringname", "clustername", "name"),
        *("autodetect", "topologyplugin"),
    }
)
#: how Slurm spells the keys of lines that may have no others
_SPELLINGS: Final = (
    *(
        "NodeName",
        "NodeHostname",
        "NodeAddr",
        "BcastAddr",
        "Boards",
        "CoreSpecCount",
        "CoresPerSocket",
        "CpuBind",
        "CPUs",
        "Procs",
    ),
    *("CPUSpecList", "Features", "Feature", "Gres", "MemSpecLimit", "Parameters", "Port", "RealMemory", "Reason", "Sockets"),
    *("RestrictedCoresPerGPU", "SocketsPerBoard", "State", "ThreadsPerCore", "TmpDisk", "Topology", "Weight", "Extra"),
    *("InstanceId", "InstanceType", "Arch", "Comment", "Owner", "Name", "Type", "File", "Cores", "Count", "Links", "Flags"),
    *("AutoDetect", "MultipleFiles", "SwitchName", "Nodes", "Switches", "LinkSpeed", "BlockName", "RingName"),
)
_SPELLED: Final = {key.lower(): key for key in _SPELLINGS}
#: first keys that a line which describes resources may be meant to have, in Slurm's spelling
_DESCRIBING: Final = {key.lower(): key for key in ("NodeName", "PartitionName", "NodeSet", "DownNodes")}
ALMOST: Final = 0.85
"""How alike a word must be to a key of Slurm to be taken for it misspelt, where other keys may stand."""
_BRACKETS_MAX: Final = 8
#: maximal number of keys in one line: Slurm has some sixty for partitions
_KEYS_MAX: Final = 256
_TOO_MANY: Final = "more than {} hosts, features and settings in all lines together"
_SECOND_BRACKET = re.compile(r"\][^,\[\]]*\[")
_INCLUDE = re.compile(r"\s*include\s+(\S+)\s*$", re.IGNORECASE)


@dataclass(slots=True)
class Room:
    """The remaining number of names that the lines of a site may expand to, shared by all of its files."""

    names: int = field(default_factory=lambda: limits.SLURM_NAMES_MAX)


@dataclass(frozen=True, slots=True)
class Line:
    """One line of key and value pairs.

    Args:
        where: ``file:line`` of its beginning.
        pairs: values by lower case key, in the order written.
        written: by lower case key, the key as it is written, if that is not in lower case.
    """

    where: str
    pairs: dict[str, str]
    room: Room = field(default_factory=Room)
    written: dict[str, str] = field(default_factory=dict)

    @property
    def head(self) -> str:
        """The first key, which determines the kind of line."""
        return next(iter(self.pairs), "")

    def refuse(self, key: str, message: str, hint: str = "") -> InputError:
        """Raise an error at the value of a key."""
        return InputError(message, where=f"{self.where}: {key}", hint=hint)

    def count(self, key: str, default: int, *, least: int = 0) -> int:
        """The value of a key as an integer."""
        text = self.pairs.get(key)
        if text is None:
            return default
        return self.number(key, text, least=least)

    def number(self, key: str, text: str, *, least: int = 0) -> int:
        if not (text.isascii() and text.isdigit()):
            raise self.refuse(key, f"expected a number of at least {least}, got {shown(text)}")
        value = int(text) if len(text) < 20 else limits.SIZE_MAX + 1
        if value > limits.SIZE_MAX:
            raise LimitExceeded(f"expected at most {limits.SIZE_MAX}, got {shown(text)}", where=f"{self.where}: {key}")
        if value < least:
            raise self.refuse(key, f"expected a number of at least {least}, got {value}")
        return value

    def name(self, key: str) -> str:
        """The value of a key as a name. Errors: InputError for an empty name, LimitExceeded for a long one."""
        text = self.pairs[key]
        if not text:
            raise self.refuse(key, "expected a name, got an empty text")
        if len(text) > limits.NAME_LENGTH_MAX:
            message = f"expected at most {limits.NAME_LENGTH_MAX} characters, got {shown(text)}"
            raise LimitExceeded(message, where=f"{self.where}: {key}")
        return text

    def hosts(self, key: str) -> list[str]:
        """The hosts of a hostlist, in which a name may have several brackets, as in Slurm."""
        with ErrorPlace(f"{self.where}: {key}"):
            found: list[str] = []
            text = self.pairs.get(key, "")
            # Items with one bracket are expanded together, which is three times as fast.
            for item in hostlist.split(text) if _SECOND_BRACKET.search(text) else [text] if text.strip(", ") else []:
                found += _hosts(item, self.room.names - len(found))
        self.take(key, len(found))
        return found

    def take(self, key: str, names: int) -> None:
        """Count the names that this line expands to.

        Errors: LimitExceeded if the lines of the site expand to too many in total.
        """
        self.room.names -= names
        if self.room.names < 0:
            raise LimitExceeded(_TOO_MANY.format(limits.SLURM_NAMES_MAX), where=f"{self.where}: {key}")

    def require_known(self, known: frozenset[str], mistakes: Mistakes) -> None:
        """Note keys that Slurm does not have, which are most often misspelt."""
        for key in self.pairs:
            if key not in known:
                spelled = {each: _SPELLED[each] for each in sorted(known)}
                hint = (
                    did_you_mean([repr(spelled[each]) for each in near(key, spelled)]) or f"known: {', '.join(spelled.values())}"
                )
                with mistakes:
                    raise InputError(f"unknown key {shown(self.written.get(key, key))}", where=self.where, hint=hint)

    def right(self, check: Callable[[Line, str], object], mistakes: Mistakes) -> Line:
        """This line without the keys whose values are wrong, which are noted.

        Args:
            check: raises an InputError for a key with such a value.
        """
        wrong = set()
        for key in self.pairs:
            before = len(mistakes)
            with mistakes:
                check(self, key)
            if len(mistakes) > before:
                wrong.add(key)
        return replace(self, pairs={key: value for key, value in self.pairs.items() if key not in wrong}) if wrong else self


def _hosts(item: str, room: int) -> list[str]:
    several = _SECOND_BRACKET.search(item)
    if several and item.count("[") > _BRACKETS_MAX:
        raise InputError(f"more than {_BRACKETS_MAX} brackets in one name")
    first, _, rest = item.partition("]")
    if not several:
        found = hostlist.expressions(item)
        if sum(map(len, found)) > room:
            raise LimitExceeded(_TOO_MANY.format(limits.SLURM_NAMES_MAX))
        return [host for expression in found for host in expression]
    heads = hostlist.parse(first + "]")
    tails = _hosts(rest, room // max(len(heads), 1))
    return [head + tail for head in heads for tail in tails]


def lines(source: Source, room: Room, mistakes: Mistakes) -> Iterator[Line]:
    """The lines of a configuration and of what it includes.

    Args:
        mistakes: lines that cannot be read are noted here, with file and line.

    Errors: InputError for a file that does not begin like a configuration; LimitExceeded for files that include each other.
    """
    return _lines(source, 0, room, mistakes)


def _lines(source: Source, depth: int, room: Room, mistakes: Mistakes) -> Iterator[Line]:
    is_begun = depth > 0
    for number, text in _joined(source.text):
        if not text:
            continue
        where = source.where(number)
        include = _INCLUDE.match(text)
        if not is_begun and include is None and _KEY.match(text) is None:
            _pairs(text, where, {})  # refuses it: this is another kind of file
        is_begun = True
        if include is not None:
            inner: Source | None = None
            with mistakes:
                inner = _included(include[1], source, where, depth)
            if inner is not None:
                yield from _lines(inner, depth + 1, room, mistakes)
            continue
        pairs: dict[str, str] = {}
        written: dict[str, str] = {}
        with mistakes:
            pairs = _pairs(text, where, written)
        if pairs:
            yield Line(where, pairs, room, written)


def _joined(text: str) -> Iterator[tuple[int, str]]:
    """Lines without comments, with continuation lines joined, and the number of the first line of each."""
    open_at, parts = 0, list[str]()
    for number, line in enumerate(text.split("\n"), 1):
        if not line and not parts:
            continue
        plain = _COMMENT.sub("", line).rstrip()
        goes_on = plain.endswith("\\")
        parts.append(plain[:-1] if goes_on else plain)
        open_at = open_at or number
        if not goes_on:
            yield open_at, " ".join(parts).replace("\\#", "#")
            open_at, parts = 0, []
    if parts:
        yield open_at, " ".join(parts)


def _pairs(text: str, where: str, written: dict[str, str]) -> dict[str, str]:
    """The values by lower case key.

    Args:
        written: gets the keys as they are written.
    """
    pairs: dict[str, str] = {}
    head = _KEY.match(text)
    if head is not None and head[1].lower() not in _HEADS:
        meant = near(head[1].lower(), _DESCRIBING, cutoff=ALMOST)
        if meant:
            raise InputError(f"unknown key {head[1]!r}", where=where, hint=did_you_mean([_DESCRIBING[meant[0]]]))
        return {}
    at, end = 0, len(text.rstrip())
    while at < end:
        match = _PAIR.match(text, at)
        if match is None:
            hint = (
                "a quoted value must end on the same line, and '#' begins a comment even there (write \\#)"
                if '"' in text[at:]
                else ""
            )
            raise InputError(f"expected Key=Value, got {shown(text[at:].strip())}", where=where, hint=hint)
        if match[2]:
            raise InputError(f"'{match[1]}{match[2]}=' is syntax for changes with scontrol, not for a configuration", where=where)
        key = match[1].lower()
        if key in pairs:
            raise InputError(f"the key {match[1]!r} is in this line twice", where=where, hint="remove one")
        if len(pairs) >= _KEYS_MAX:
            raise LimitExceeded(f"more than {_KEYS_MAX} keys in one line", where=where)
        if key != match[1]:
            written[key] = match[1]
        pairs[key] = match[3] if match[3] is not None else match[4]
        at = match.end()
    return pairs


def _included(name: str, source: Source, where: str, depth: int) -> Source:
    if depth >= limits.INCLUDE_DEPTH_MAX:
        raise LimitExceeded(f"files include each other more than {limits.INCLUDE_DEPTH_MAX} deep", where=where)
    beside = source.path is not None and "/" not in name and name not in (".", "..")
    if not beside or source.path is None:
        hint = "copy its lines here, or move the file to the directory of this one"
        raise InputError(f"includes {shown(name)}, which is not in the directory of this file", where=where, hint=hint)
    with ErrorPlace(where, inner=True):
        return Source.named(str(source.path.parent / name))


def beside(source: Source, name: str) -> Source | None:
    """Another configuration file in the directory of this one, if it exists."""
    path: Path | None = None if source.path is None else source.path.parent / name
    if path is None or not path.is_file() or path == source.path:
        return None
    return Source(source_text.read_file(path), str(path), path)
