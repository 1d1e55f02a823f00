"""Programs that run inside allocations, and those that wait for resources."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from fluxres.clock import FOREVER, seconds
from fluxres.model import ResourceGraph
from fluxres.render import jobs
from fluxres.render.text import PLAIN, Column, Style, seconds_or_none, table
from fluxres.store import Ticket
from fluxres.syntax import duration

_WAITING: Final = "waiting"
_FREED: Final = "freed"
_COMMAND_MAX: Final = 60
_UNIT: Final = re.compile(r" ([dhms])(?:in)? ?")


@dataclass(frozen=True, slots=True)
class ProgramView:
    """A program that runs or waits.

    Args:
        job, user, name: of its job.
        state: running, waiting, or freed if its program runs without what it held.
        place: in the queue, from 1; 0 if it runs.
        since_s: when it got its resources, or began to wait.
        until_s: when its time is over; infinity for never; None if it holds nothing.
        expected_s: when it is expected to start; infinity if that is not known; None if it does not wait.
        hosts: nodes on which it holds something.
        holds: what it holds, in words.
        machine: the host on which its processes are.
        processes: ids of its launcher, its guardian and the program.
        command: with its arguments.
    """

    job: str
    user: str | None
    name: str | None
    state: str
    place: int
    since_s: float
    until_s: float | None
    expected_s: float | None
    hosts: str
    holds: str
    machine: str
    processes: tuple[int, ...]
    command: tuple[str, ...]

    def document(self) -> dict[str, Any]:
        """The program as plain values."""
        return {
            "job": self.job,
            "user": self.user,
            "name": self.name,
            "state": self.state,
            "place": self.place or None,
            "since": self.since_s,
            "until": None if self.until_s is None else seconds_or_none(self.until_s),
            "expected": None if self.expected_s is None or math.isinf(self.expected_s) else self.expected_s,
            "hosts": self.hosts,
            "holds": self.holds,
            "machine": self.machine,
            "processes": list(self.processes),
            "command": list(self.command),
        }


def views(
    graph: ResourceGraph, tickets: Sequence[Ticket], starts: Mapping[str, float], freed: Sequence[Ticket] = ()
) -> list[ProgramView]:
    """The programs that run, and then those that wait, in the order of the queue.

    Args:
        starts: expected starts by job; infinity for those that are not known.
        freed: the programs that run although what they held was freed.
    """
    found = []
    for view in jobs.views(graph, (graph.now(), FOREVER)):
        one, facts = view.holding, view.holding.facts
        if (launch := facts.launch) is not None:
            pids = tuple(pid for pid, _ in launch.processes)
            until_s = math.inf if one.end >= FOREVER else seconds(one.end)
            where = view.hosts, view.in_words(), launch.host, pids, launch.command
            found.append(ProgramView(one.job, facts.user, facts.name, view.state, 0, seconds(one.start), until_s, None, *where))
    found += [_without_resources(ticket, _FREED, 0, None) for ticket in freed]
    for place, ticket in enumerate(tickets, 1):
        found.append(_without_resources(ticket, _WAITING, place, starts.get(ticket.job, math.inf)))
    return found


def _without_resources(ticket: Ticket, state: str, place: int, expected_s: float | None) -> ProgramView:
    launch, who = ticket.launch, (ticket.job, ticket.user, ticket.name)
    pids = tuple(pid for pid, _ in launch.processes)
    return ProgramView(*who, state, place, ticket.since, None, expected_s, "", "", launch.host, pids, launch.command)


def lines(found: Sequence[ProgramView], now_s: float, *, style: Style = PLAIN) -> list[str]:
    """Programs as a table; hosts only if there are several."""
    columns = [
        Column("JOB", role=lambda _text: "job"),
        Column("USER"),
        Column("NAME", drop=1),
        Column("STATE", role=lambda text: "faint" if text == _WAITING else None),
        Column("FOR", right=True, drop=2),
        Column("LEFT", right=True),
        Column("HOSTS", drop=3),
        Column("RESOURCES"),
        Column("COMMAND", cut=True),
    ]
    has_hosts = len({view.hosts for view in found if view.hosts}) > 1
    return table(columns, [_row(view, now_s, has_hosts=has_hosts) for view in found], style=style)


def _row(view: ProgramView, now_s: float, *, has_hosts: bool) -> list[str]:
    command = shlex.join(view.command)
    return [
        view.job,
        view.user or "",
        view.name or "",
        view.state,
        _length(now_s - view.since_s),
        "" if view.until_s is None else _length(view.until_s - now_s),
        view.hosts if has_hosts else "",
        view.holds if view.expected_s is None else f"place {view.place}, start {_start(view.expected_s - now_s)}",
        command if len(command) <= _COMMAND_MAX else f"{command[: _COMMAND_MAX - 1]}…",
    ]


def _length(length_s: float) -> str:
    """A length of time to the second, as short as commands take it: 1h30m."""
    return duration.readable(length_s) if math.isinf(length_s) else _UNIT.sub(r"\1", duration.readable(max(0, round(length_s))))


def _start(wait_s: float) -> str:
    return "unknown" if math.isinf(wait_s) else f"in {_length(wait_s)}" if wait_s > 0 else "now"
