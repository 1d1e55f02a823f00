"""HyperQueue's workers as the command lines that started them: lines of options, or paragraphs of definitions.

A line is split as a shell does it, without variables and without running anything.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Final, TypeVar

from fluxres.documents.document import excerpt
from fluxres.documents.source import Source
from fluxres.errors import ErrorPlace, InputError
from fluxres.formats.peers.hyperqueue import coupling as hyperqueue_coupling
from fluxres.formats.peers.hyperqueue import definitions as hyperqueue
from fluxres.formats.peers.hyperqueue.coupling import Coupling
from fluxres.formats.peers.hyperqueue.definitions import Pool
from fluxres.graph.kinds import PropertyValue

T = TypeVar("T")
_START = re.compile(r"(?:\$[ \t]+)?hq[ \t]+worker[ \t]+start(?![\w-])[ \t]*")
_BARE_CPUS = re.compile(r"cpus=([0-9][0-9_]*)")
#: an ordinary word, without quotes
_PLAIN = re.compile(r"""[^\s'"\\]++(?!\S)""")
_WORD = re.compile(r"""(?:[^\s'"\\]|\\.|'[^'\n]*'|"(?:[^"\\\n]|\\.)*")+""")
_ESCAPED = re.compile(r'\\(["\\$`])')
_QUOTED = re.compile(r"""'([^'\n]*)'|"((?:[^"\\\n]|\\.)*)"|\\(.)|([^'"\\]+)""")
#: options that do not define resources, with a value and without
_PASSED_OVER: Final = frozenset(
    {
        "time-limit",
        "idle-timeout",
        "heartbeat",
        "on-server-lost",
        "work-dir",
        "overview-interval",
        "manager",
        "detect-resources",
        "server-dir",
        "max-parallel-downloads",
        "max-download-tries",
        "wait-between-download-tries",
    }
)
_FLAGS: Final = frozenset({"no-detect-resources", "no-hyper-threading", "debug"})


def _cached(read: Callable[[str], T]) -> Callable[[str], T]:
    """A reader that keeps its results for short texts, because workers are usually alike."""
    known = lru_cache(maxsize=4096)(read)
    return lambda text: known(text) if len(text) <= 1000 else read(text)


_pool, _cpus = _cached(hyperqueue.parse), _cached(hyperqueue.parse_cpus)


@dataclass(slots=True)
class Started:
    """A worker as it is started; `where` returns its place in the file."""

    where: Callable[[], str] = str
    pools: list[Pool] = field(default_factory=list)
    couplings: list[Coupling] = field(default_factory=list)
    name: str | None = None
    group: str | None = None
    properties: dict[str, PropertyValue] = field(default_factory=dict)


def of_words(source: Source) -> Iterator[Started]:
    """Workers, one per line of options or paragraph of definitions.

    Errors: InputError with file and line, and the column in the definition.
    """
    open_worker: Started | None = None
    for number, raw in enumerate(source.text.split("\n"), start=1):
        line = raw.strip()
        if line.startswith("#"):
            continue
        started = _START.match(line)
        is_options = started is not None or line.startswith("--")
        if open_worker is not None and (is_options or not line):
            yield open_worker
            open_worker = None
        if not line:
            continue
        worker = Started(partial(source.where, number)) if is_options or open_worker is None else open_worker
        with ErrorPlace(partial(source.where, number), inner=True):
            if is_options:
                add_options(line, worker)
            else:
                worker.pools.append(_pool(line))
        if is_options:
            yield worker
        else:
            open_worker = worker
    if open_worker is not None:
        yield open_worker


def add_options(line: str, worker: Started) -> None:
    """Add the options of a line to a worker, with or without the command in front; a word without an option is a definition.

    Only here, as for ``--cpus=4``, a bare number is accepted in ``cpus=4`` too.

    Errors: InputError for an option that ``hq worker start`` does not have, and those of the definitions.
    """
    words = _options(line)
    at = 0
    cpus, couplings = list[Pool](), list[str]()
    while at < len(words):
        word = words[at]
        at += 1
        if not word.startswith("--"):
            word, at = _closed(words, at - 1)
            bare = _BARE_CPUS.fullmatch(word)
            worker.pools.append(_pool(word) if bare is None else _cpus(bare[1]))
            continue
        option, equals, value = word[2:].partition("=")
        if option in _FLAGS:
            continue
        if not equals:
            if at == len(words):
                raise InputError("expected a value, got the end", where=f"--{option[:40]}")
            value = words[at]
            at += 1
        match option:
            case "cpus":
                cpus.append(_cpus(value))
            case "resource" | "resources":
                worker.pools.append(_pool(value))
            case "coupling":
                couplings.append(value)
            case "hostname":
                worker.name = value
            case "group":
                worker.group = value
            case _ if option not in _PASSED_OVER:
                hint = "the options are --cpus, --resource, --coupling, --hostname and --group"
                raise InputError(f"unknown option --{option[:40]}", where="options", hint=hint)
    worker.pools[:0] = reversed(cpus)
    if couplings:
        worker.couplings = hyperqueue_coupling.parse(",".join(couplings), worker.pools)


def _closed(words: Sequence[str], at: int) -> tuple[str, int]:
    """The definition that begins with a word, up to its closing brackets, and the position after it.

    Blanks may surround any token: `gpus=[0, 1]` is several words to a shell.
    """
    first, opened = at, 0
    while at < len(words) and (at == first or opened > 0):
        opened += sum(map(words[at].count, "[(")) - sum(map(words[at].count, "])"))
        at += 1
    return " ".join(words[first:at]), at


@_cached
def _options(line: str) -> tuple[str, ...]:
    started = _START.match(line)
    return tuple(words_of(line if started is None else line[started.end() :]))


def words_of(line: str) -> Iterator[str]:
    """The words of a command line, split as a shell does it.

    Errors: InputError for unclosed quotes.

    >>> list(words_of("--a 'b c' \\"d\\"e # f"))
    ['--a', 'b c', 'de']
    """
    at = 0
    while at < len(line):
        if line[at].isspace():
            at += 1
            continue
        if line[at] == "#":
            return
        plain = _PLAIN.match(line, at)
        if plain is not None:
            yield plain[0]
            at = plain.end()
            continue
        found = _WORD.match(line, at)
        if found is None:
            raise InputError(f"unclosed quotes begin with {excerpt(line[at:])}", where=f"column {at + 1}")
        yield "".join(
            part[1] if part[1] is not None else _ESCAPED.sub(r"\1", part[2]) if part[2] is not None else part[3] or part[4]
            for part in _QUOTED.finditer(found[0])
        )
        at = found.end()
