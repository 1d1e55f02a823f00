"""What a child on a server asks, without the sending: one text for clients of both kinds, as in `calls`."""

from __future__ import annotations

import os
from secrets import token_hex
from typing import Any

from fluxres import limits
from fluxres.clock import Length, Time
from fluxres.service.client.calls import chosen, length_of, moment_of
from fluxres.service.client.requests import Call, of_graph, post
from fluxres.service.client.values import end_of, names_of


def begun(
    at: str,
    graph: str | None,
    *,
    job: str,
    wanted: Any = None,
    duration_s: Length | None = None,
    name: str | None = None,
    lease_s: float = limits.CHILD_LEASE_SECONDS_DEFAULT,
) -> Call[dict[str, Any]]:
    """Begin to work on what a job holds; returns the lease. The errors are those of `fluxres.open_child`.

    Args:
        at: the server, for messages.
        graph: the parent; the one in use if None.
    """
    above = yield from chosen(graph, at)
    body = {
        "job": job,
        "wanted": None if wanted is None else names_of(wanted),
        "duration_s": length_of(duration_s),
        "name": name,
        "lease_s": lease_s,
        "host": os.uname().nodename,
        "process": os.getpid(),
    }
    found: dict[str, Any] = (yield post(of_graph(above, "child/open"), body, key=token_hex(16))).document()
    return found


class ChildCalls:
    """What can be asked for a child.

    Args:
        graph: its name.
        mark: of its lease; None for what a command asks for a child of others.
        command: for the journal.
    """

    def __init__(self, graph: str, mark: str | None = None, command: str | None = None) -> None:
        self.graph, self.mark, self._command = graph, mark, command

    def grow(self, wanted: Any, *, policy: str = "first") -> Call[list[str]]:
        """More of the parent; returns the paths."""
        return list((yield from self._post("grow", {"wanted": names_of(wanted), "policy": policy}))["paths"])

    def shrink(self, wanted: Any) -> Call[list[str]]:
        """Return pools to the parent; returns their paths."""
        return list((yield from self._post("shrink", {"wanted": names_of(wanted)}))["paths"])

    def extend(self, end: Time | None = None, *, duration_s: Length | None = None) -> Call[float]:
        """Move the end of the job in the parent; returns it in seconds, infinity for no end."""
        body = {"end": moment_of(end), "duration_s": length_of(duration_s)}
        return end_of((yield from self._post("extend", body))["end"])

    def refresh(self) -> Call[None]:
        """Take over what the parent has changed in what the job holds."""
        yield post(of_graph(self.graph, "child/refresh"), {}, key=token_hex(16))

    def renew(self) -> Call[bool]:
        """Renew the lease; returns whether the graph allocates nothing now, because the parent has changed what the job holds."""
        reply = yield post(of_graph(self.graph, "child/renew"), {"mark": self.mark}, key=token_hex(16))
        return reply.document()["lapsed"] is not None

    def end(self) -> Call[None]:
        """Free the job in the parent, and remove the graph."""
        yield from self._post("end", {"mark": self.mark})

    def detach(self) -> Call[None]:
        """Give the lease back, and leave the graph."""
        yield post(of_graph(self.graph, "child/detach"), {"mark": self.mark}, key=token_hex(16))

    def _post(self, operation: str, body: dict[str, Any]) -> Call[Any]:
        said = {**body, "command": self._command}
        return (yield post(of_graph(self.graph, f"child/{operation}"), said, key=token_hex(16))).document()
