"""One step of an instance whose jobs are real: schedule what has become possible, wait for an event, handle what is due."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from fluxres.errors import PolicyError
from fluxres.instance.runner import STOPPED
from fluxres.instance.states import RUNNING

if TYPE_CHECKING:
    from fluxres.instance import Instance
    from fluxres.launch.loop import Loop
    from fluxres.launch.work import ProcessRunner

STARTS: Final = 256
"""Maximal number of jobs started by one pass, so that messages and jobs to end are handled between passes."""


def turn(instance: Instance, runner: ProcessRunner, loop: Loop, schedule: Callable[[int], int], *, is_fed: bool = False) -> None:
    """Run one step.

    Args:
        schedule: makes a pass with at most this number of starts, and returns the number of starts.
        is_fed: whether more jobs will come.

    Errors: PolicyError for a policy that raises, or leaves jobs pending while nothing runs.
    """
    if runner.changed:
        runner.changed = False
        if schedule(STARTS) >= STARTS:
            runner.changed = True
        if not instance.is_active and not is_fed:
            return
    due = instance.next_due()
    if not (runner.changed or runner.running or is_fed) and due is None and instance.pending:
        raise PolicyError("jobs are pending but nothing runs", where=f"queue policy {instance.policy.name}")
    wait_s = None if due is None else max(0.0, due - instance.clock())
    loop.turn(0.0 if runner.changed else wait_s)
    if due is not None and instance.clock() >= due:
        instance.advance()
        runner.changed = True


def wind_down(instance: Instance, runner: ProcessRunner, loop: Loop, patience_s: float) -> None:
    """End everything that still runs, wait for it, then end the instance; a second signal ends the waiting."""
    for job in instance.jobs():
        if not instance.is_closed and job.result is None:
            instance.cancel(job, "the instance ends")
    is_over = is_hurried = False

    def over() -> None:
        nonlocal is_over
        is_over = True

    timer = loop.after(patience_s, over)
    while runner.running and not is_over:
        if loop.stops > 1 and not is_hurried:
            is_hurried = True
            for running in runner.running:
                running.kill()
        loop.turn()
    timer.cancel()
    for job in instance.jobs():
        if not instance.is_closed and job.state in RUNNING:
            instance.finish(job, STOPPED)  # the patience is exhausted
    instance.close()
