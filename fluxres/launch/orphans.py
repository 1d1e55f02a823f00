"""What a dead process held is free (rule H1): jobs whose processes have ended are found by whoever looks next.

No process has to survive for this. A job records which processes it lives by; when all of them are gone, or its lease is over,
the next command that looks kills what the job has left behind and frees what it holds. A boot of the machine ends all of its
jobs.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from fluxres import limits
from fluxres.clock import seconds
from fluxres.errors import FluxresError
from fluxres.launch import cgroup, identity
from fluxres.launch.identity import Presence
from fluxres.model import changes, holdings

if TYPE_CHECKING:
    from fluxres.allocation.facts import Launch
    from fluxres.model import ResourceGraph


def launched(graph: ResourceGraph) -> Iterator[tuple[str, Launch]]:
    """The jobs that live by processes."""
    for job, facts in graph.records.facts.items():
        if facts.launch is not None:
            yield job, facts.launch


def are_there(graph: ResourceGraph) -> bool:
    """Whether there is a job whose processes are gone.

    Cost: 20 µs for each job that lives by processes.
    """
    now = graph.now()
    return any(identity.presence(launch, now) is Presence.GONE for _, launch in launched(graph))


def reap(graph: ResourceGraph) -> list[str]:
    """Free what jobs hold whose processes are gone, and kill what they have left behind; returns the marks of these jobs.

    A job that runs on although its time is over, because its clock or its launcher is late, keeps what nobody else has got.
    """
    now, found = graph.now(), []
    for job, launch in list(launched(graph)):
        what = identity.presence(launch, now)
        if what is Presence.GONE:
            kill_rest(launch)
            over = launch.lease is not None and launch.lease <= now
            changes.free(graph, job, None, None, None, reason="its lease is over" if over else "its processes have ended")
            found.append(launch.mark)
        elif what is not Presence.ELSEWHERE:
            _keep(graph, job, now)
    return found


def kill_rest(launch: Launch) -> None:
    """Kill what is left of the processes of a job, if it ran on this host."""
    if launch.host != identity.host() or launch.boot != identity.boot():
        return
    from fluxres.launch import lifeline

    cgroup.remove(launch.mark)
    lifeline.kill_marked(launch.mark, lifeline.RUN)


def _keep(graph: ResourceGraph, job: str, now: int) -> None:
    """Extend what a job holds to the present, for as long as its processes run: its time is over, or the clock has jumped."""
    spans = graph.allocation(job).spans
    if any(span.start <= seconds(now) for span in spans) and any(span.end > seconds(now) for span in spans):
        return
    for one in holdings.of(graph, 0):
        if one.job == job:
            is_over = one.end <= now
            rows = one.ends == one.end if is_over else one.starts == one.start
            window = (one.end, now + limits.OVERRUN_TICKS) if is_over else (now, one.start)
            named = list(zip(one.vertices[rows].tolist(), one.amounts[rows].tolist(), strict=True))
            with suppress(FluxresError):
                changes.allocate(graph, job, named, window)
