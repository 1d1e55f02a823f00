"""What a remote graph returns: the values of a local one, made from the documents of the server."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any

from fluxres.clock import ticks
from fluxres.documents.document import plural
from fluxres.errors import UsageError
from fluxres.model.values import Span

Fetch = Callable[[str], dict[str, Any]]
"""Asks for the document of a pool."""


def end_of(end: float | None) -> float:
    """Seconds; a document has null for no end."""
    return math.inf if end is None else end


class RemotePool:
    """A pool of a remote graph, as it was when it was asked for.

    Args:
        path: its name in the graph.
        fetch: asks for its document, at the first use of anything else; None if that cannot wait for an answer.
        document: if it is known already.
    """

    __slots__ = ("_document", "_fetch", "path")

    def __init__(self, path: str, fetch: Fetch | None, document: dict[str, Any] | None = None) -> None:
        self.path = path
        self._fetch, self._document = fetch, document

    @property
    def document(self) -> dict[str, Any]:
        """Everything about it, as `fluxres show PATH --json` prints it."""
        if self._document is None:
            if self._fetch is None:
                hint = f"await graph.pool({self.path!r})"
                raise UsageError("only the path of this pool is known, and a property cannot await the server", hint=hint)
            self._document = self._fetch(self.path)
        return self._document

    @property
    def where(self) -> str:
        return self.path

    @property
    def type(self) -> str:
        return str(self.document["type"])

    @property
    def uuid(self) -> str:
        return str(self.document["uuid"])

    @property
    def basename(self) -> str:
        return str(self.document["basename"])

    @property
    def name(self) -> str:
        return str(self.document["name"])

    @property
    def id(self) -> int | None:
        number: int | None = self.document["id"]
        return number

    @property
    def rank(self) -> int | None:
        number: int | None = self.document["rank"]
        return number

    @property
    def size(self) -> int:
        return int(self.document["size"])

    @property
    def unit(self) -> str | None:
        unit: str | None = self.document["unit"]
        return unit

    @property
    def state(self) -> str:
        return str(self.document["state"])

    @property
    def properties(self) -> Mapping[str, Any]:
        found: dict[str, Any] = self.document["properties"]
        return found

    @property
    def tags(self) -> Mapping[str, str | None]:
        found: dict[str, str | None] = self.document["tags"]
        return found

    @property
    def uris(self) -> list[str]:
        return list(self.document["uris"])

    @property
    def shared(self) -> list[str]:
        return list(self.document["shared"])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RemotePool) and other.path == self.path

    def __hash__(self) -> int:
        return hash(self.path)

    def __repr__(self) -> str:
        return f"<RemotePool {self.path}>"


class RemoteSelection(Sequence[RemotePool]):
    """Pools that a search found, in vertex order."""

    def __init__(self, pools: Sequence[RemotePool]) -> None:
        self._pools = tuple(pools)

    def __getitem__(self, at: Any) -> Any:
        return RemoteSelection(self._pools[at]) if isinstance(at, slice) else self._pools[at]

    def __len__(self) -> int:
        return len(self._pools)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RemoteSelection) and other._pools == self._pools

    def __hash__(self) -> int:
        return hash(self._pools)

    def __repr__(self) -> str:
        return f"<RemoteSelection of {plural(len(self), 'pool')}>"

    def paths(self) -> list[str]:
        """Path (or URI) of each pool."""
        return [pool.path for pool in self._pools]


class Grant:
    """Pools with units allocated to one job; a value, as of a local graph.

    Args:
        job: its id.
        spans: by pool and start.
        fetch: asks for the document of a pool.
    """

    def __init__(self, job: str, spans: Sequence[Span], fetch: Fetch | None) -> None:
        self.job = job
        self.spans = tuple(spans)
        self._fetch = fetch

    @property
    def start(self) -> float:
        """Beginning of the earliest span in seconds."""
        return min((span.start for span in self.spans), default=0.0)

    @property
    def end(self) -> float:
        """End of the latest span in seconds; infinity is no end."""
        return max((span.end for span in self.spans), default=math.inf)

    @property
    def pools(self) -> tuple[RemotePool, ...]:
        """The pools that have a record."""
        return tuple(RemotePool(path, self._fetch) for path in dict.fromkeys(span.pool for span in self.spans))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Grant):
            return NotImplemented
        return (self.job, [(s, s.pool) for s in self.spans]) == (other.job, [(s, s.pool) for s in other.spans])

    def __hash__(self) -> int:
        return hash(self.job)

    def __iter__(self) -> Iterator[RemotePool]:
        return iter(self.pools)

    def __len__(self) -> int:
        return len(self.pools)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of job {self.job}: {plural(len(self), 'pool')}>"


class RemoteAllocation(Grant):
    """What a job holds.

    Args:
        resource_set: asks for R.
    """

    def __init__(
        self, job: str, spans: Sequence[Span], fetch: Fetch | None, resource_set: Callable[[bool], dict[str, Any]]
    ) -> None:
        super().__init__(job, spans, fetch)
        self._resource_set = resource_set

    def R(self, scheduling: bool = False) -> dict[str, Any]:  # noqa: N802 - its usual name
        """The resource set of all that the job holds now (RFC 20). Errors: UnknownJob if that is nothing."""
        return self._resource_set(scheduling)


class AsyncRemoteAllocation(Grant):
    """What a job holds.

    Args:
        resource_set: asks for R.
    """

    def __init__(
        self, job: str, spans: Sequence[Span], fetch: Fetch | None, resource_set: Callable[[bool], Awaitable[dict[str, Any]]]
    ) -> None:
        super().__init__(job, spans, fetch)
        self._resource_set = resource_set

    async def R(self, scheduling: bool = False) -> dict[str, Any]:  # noqa: N802 - its usual name
        """The resource set of all that the job holds now (RFC 20). Errors: UnknownJob if that is nothing."""
        return await self._resource_set(scheduling)


class RemoteRefusal:
    """Why a request has no match.

    Args:
        document: as `fluxres why --json` prints it, with `sentences`.
    """

    def __init__(self, document: dict[str, Any]) -> None:
        self.document = document

    @property
    def never(self) -> bool:
        return bool(self.document["never"])

    @property
    def earliest(self) -> float | None:
        found: float | None = self.document["earliest"]
        return found

    @property
    def enough(self) -> dict[str, int]:
        return dict(self.document["enough"])

    def sentences(self) -> list[str]:
        """The refusal as a terminal shows it, one sentence per item."""
        return list(self.document["sentences"])

    def __str__(self) -> str:
        return "\n".join(self.sentences())

    def __repr__(self) -> str:
        return f"<RemoteRefusal: {' '.join(self.sentences())}>"


class RemoteMatch:
    """What a request would get.

    Args:
        document: as `fluxres when --json` prints it.
        fetch: asks for the document of a pool.
    """

    def __init__(self, document: dict[str, Any], fetch: Fetch | None) -> None:
        self.document, self._fetch = document, fetch

    @property
    def start(self) -> int:
        """In ticks, as of a local match."""
        return ticks(self.document["start"])

    @property
    def end(self) -> int:
        """In ticks; FOREVER is no end."""
        return ticks(end_of(self.document["end"]))

    @property
    def pools(self) -> tuple[RemotePool, ...]:
        return tuple(RemotePool(one["path"], self._fetch) for one in self.document["pools"])


class RemoteReservation:
    """A maintenance reservation.

    Args:
        document: as `fluxres reserve --json` prints it.
        fetch: asks for the document of a pool.
    """

    def __init__(self, document: dict[str, Any], fetch: Fetch | None) -> None:
        self.document, self._fetch = document, fetch

    @property
    def name(self) -> str:
        return str(self.document["name"])

    @property
    def user(self) -> str | None:
        user: str | None = self.document["user"]
        return user

    @property
    def pools(self) -> tuple[RemotePool, ...]:
        return tuple(RemotePool(path, self._fetch) for path in self.document["pools"])

    @property
    def windows(self) -> tuple[tuple[int, int], ...]:
        """(start, end) in ticks, as of a local reservation."""
        return tuple((ticks(one["start"]), ticks(one["end"])) for one in self.document["windows"])

    @property
    def ignores_jobs(self) -> bool:
        return bool(self.document["ignores_jobs"])

    @property
    def out(self) -> tuple[RemotePool, ...]:
        """The topmost pools that take no work while it lasts, as of a local reservation."""
        return tuple(RemotePool(path, self._fetch) for path in self.document["affected"])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RemoteReservation) and other.document == self.document

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return f"<RemoteReservation {self.name} of {plural(len(self.pools), 'pool')}>"


def name_of(where: str | RemotePool) -> str:
    """A pool by name."""
    return where.path if isinstance(where, RemotePool) else where


def names_of(wanted: Any) -> Any:
    """What is wanted, as JSON can say it: pools by name, requests as jobspecs.

    Errors: UsageError.
    """
    if isinstance(wanted, str):
        return wanted
    if isinstance(wanted, RemotePool):
        return [wanted.path]
    if isinstance(wanted, Mapping):
        return {key.path if isinstance(key, RemotePool) else key: value for key, value in wanted.items()}
    if hasattr(wanted, "resources"):
        raise UsageError("a request to a server must be text or a jobspec", hint="give what Request.parse was given")
    if isinstance(wanted, Sequence) and not isinstance(wanted, bytes | bytearray):
        return _of_items(wanted)
    raise UsageError(f"a server knows pools by name, and requests as text or jobspecs, not {wanted!r:.80}")


def _of_items(items: Sequence[Any]) -> list[str] | dict[str, int | None]:
    pairs = [item if isinstance(item, tuple | list) else (item, None) for item in items]
    named = [(str(name_of(where)), amount) for where, amount in pairs]
    return [name for name, _ in named] if all(amount is None for _, amount in named) else dict(named)
