"""A job of an instance on a server."""

from __future__ import annotations

from typing import Any

from fluxres.instance.job import Failure
from fluxres.instance.states import State
from fluxres.service.client.values import end_of


class RemoteJob:
    """A job of an instance on a server, as it was when it was asked for; its attributes are those of a job of an Instance.

    Args:
        document: as the server describes it.
    """

    def __init__(self, document: dict[str, Any]) -> None:
        self.document = document
        self.id: str = document["id"]
        self.state = State[document["state"]]
        self.result: str | None = document["result"]
        self.name: str | None = document["name"]
        self.user: str | None = document["user"]
        self.account: str | None = document["account"]
        self.qos: str | None = document["qos"]
        self.partition: str | None = document["partition"]
        self.limit_reached: str = document["limit_reached"]
        self.is_booking: bool = document["is_booking"]
        self.urgency: int = document["urgency"]
        self.priority: int = document["priority"]
        self.size: int = document["size"]
        self.status: int = document["status"]
        self.payload: Any = document["payload"]
        self.child: str | None = document["child"]
        self.duration_s = end_of(document["duration"])
        self.submitted_at: float = document["submitted"]
        self.reserved_at: float | None = document["reserved"]
        self.started_at: float | None = document["started"]
        self.finished_at: float | None = document["finished"]

    def waited_s(self, now_s: float) -> float:
        """How long the job has waited by a moment, since its submission."""
        return now_s - self.submitted_at

    @property
    def ends_at(self) -> float | None:
        """As of a job of an Instance."""
        ends = self.document["ends"]
        return None if ends is None and self.started_at is None else end_of(ends)

    @property
    def pools(self) -> list[tuple[str, int]]:
        """The paths and units of the pools that it holds."""
        return [(one["path"], one["amount"]) for one in self.document["pools"]]

    @property
    def dependencies(self) -> tuple[str, ...]:
        return tuple(self.document["dependencies"])

    @property
    def exceptions(self) -> tuple[Failure, ...]:
        return tuple(Failure(**one) for one in self.document["exceptions"])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RemoteJob) and other.document == self.document

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        return f"<RemoteJob {self.id} {self.name or ''}{' ' if self.name else ''}{self.state.name}>"
