"""Run a program inside an allocation: `fluxres run` from the request to the exit status.

The launcher, this process, gets the resources, waits for them if it may, says how the program is to be started, passes on
signals, and frees what the job holds. What happens if one of the processes is killed is in :mod:`fluxres.launch.guardian`.
"""

from __future__ import annotations

import math
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Final

import msgspec

from fluxres import clock, limits
from fluxres.allocation.facts import Launch
from fluxres.errors import FluxresError
from fluxres.launch import (
    cgroup,
    descendants,
    environment,
    guardian,
    identity,
    lifeline,
    program,
    terminal,
)
from fluxres.launch.desk import Application
from fluxres.launch.environment import Setting
from fluxres.launch.guardian import Crew
from fluxres.launch.loop import Loop
from fluxres.launch.program import Start
from fluxres.launch.wait import Reporter, Wait
from fluxres.syntax import jobspec

if TYPE_CHECKING:
    from fluxres.launch.broker import Broker
    from fluxres.launch.gate import Gate
    from fluxres.launch.loop import Timer
    from fluxres.model import Allocation, ResourceGraph
    from fluxres.syntax.jobspec import Request

_FORWARDED: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
_FROM_TERMINAL: Final = frozenset({signal.SIGINT, signal.SIGQUIT})
"""Of a jobspec in the queue, which has to have one."""

Asking = Callable[["ResourceGraph"], "tuple[Request | None, tuple[tuple[str, int | None], ...], str]"]
"""What is asked for, once the graph is known: a request, or pools by path with their units; and the match policy."""


class Order(msgspec.Struct, frozen=True):
    """What to run, and with what.

    Args:
        argv: the program with its arguments.
        asking: what is asked for.
        duration_s: limit of the run time; None for that of the request.
        wait_s: how long to wait for resources: 0 for not at all, infinity for as long as it takes.
        priority: in the queue.
        job: id; None for a new one.
        user, name: of the job.
        grace_s: between SIGTERM and SIGKILL.
        binds: whether to bind the program to its cores.
        reader: `ctest` or `canary` if the program is that, or runs it, and gets a file of what was allocated in its format.
    """

    argv: tuple[str, ...]
    asking: Asking
    duration_s: float | None = None
    wait_s: float = 0.0
    priority: int = 0
    job: str | None = None
    user: str = ""
    name: str | None = None
    grace_s: float = limits.RUN_GRACE_SECONDS_DEFAULT
    binds: bool = True
    reader: str | None = None


class _Ended(Exception):
    """A signal ended a run that had not started yet."""

    def __init__(self, number: int) -> None:
        self.number = number


class Run:
    """A run in its launcher.

    Args:
        broker: where the resources are.
        order: what to run.
        reporter: tells the user.
        gate: which it has passed; it leaves it once it has its place in the queue.
    """

    def __init__(self, broker: Broker, order: Order, reporter: Reporter, gate: Gate) -> None:
        self.broker, self.order, self.reporter = broker, order, reporter
        self._gate = gate
        self._job = ""
        self._start_s = self._until = math.inf
        self._timer: Timer | None = None
        self._has_lost = False
        self._limit_s: float | None = None
        self._status: int | None = None
        self._is_started = self._has_given_terminal = False
        self._request: Request | None = None
        self._wait: Wait | None = None

    def run(self) -> int:
        """Run the program to its end and return its exit status.

        Errors: InsufficientResources, InfeasibleRequest, UsageError, StoreError before the program has started.
        """
        self._terminal = terminal.find()
        self._crew = Crew.fork(self._release, has_group=not self._terminal.is_shared)
        with Loop() as self._loop:
            calls: dict[int, Callable[[], None]] = {number: partial(self._forward, number) for number in _FORWARDED}
            calls[signal.SIGCONT] = self._continued
            if not self._terminal.is_shared:
                calls[signal.SIGTSTP] = self._stop  # in a shared group, it stops together with the program
            with self._loop.handling(calls):
                try:
                    self.broker.listen()
                    setting, granted = self._allocated()
                    with self._files(granted, setting) as argv:
                        return self._run(argv, setting, granted)
                except _Ended as ended:
                    return 128 + ended.number
                finally:
                    self.broker.close()
                    self._crew.dismiss()

    # -- resources -------------------------------------------------------------------------------------------------------

    def _allocated(self) -> tuple[Setting, Allocation]:
        """Get the resources.  Errors: as :meth:`run`; _Ended."""
        import_module("fluxres.match")  # now, and not at its first use, when others wait for the store
        try:
            standing, graph = self.broker.enter(self._apply)
            self._job = standing.job
            self._gate.leave()
            if graph is None:
                self._wait = Wait(self.broker, self._job, self.order.wait_s, self.reporter, self._loop)
                graph = self._wait.until_granted()
        except BaseException:
            if self._job or self.broker.is_served:
                with suppress(FluxresError):
                    self._release()
            raise
        finally:
            self._wait = None
        granted = graph.allocation(self._job)
        return environment.setting(graph, granted, self._request, binds=self.order.binds), granted

    def _apply(self, graph: ResourceGraph) -> Application:
        """What is asked for on a graph."""
        order = self.order
        self._request, pools, policy = order.asking(graph)
        request = self._request
        self._limit_s = limit_s = order.duration_s if order.duration_s is not None or request is None else request.duration_s
        command = tuple(os.fsencode(word).decode("utf-8", "backslashreplace") for word in order.argv)
        return Application(
            Launch(identity.host(), identity.boot(), self._crew.processes, self.broker.mark, command),
            order.user,
            order.name,
            order.wait_s > 0,
            order.job,
            order.priority,
            request,
            None if request is None else jobspec.to_document(request),
            pools,
            None if limit_s is None or limit_s == math.inf else limit_s + order.grace_s,
            policy,
            self.reporter.shows_place,
            self.broker.lease_s,
            self.broker.is_served,
        )

    @contextmanager
    def _files(self, granted: Allocation, setting: Setting) -> Iterator[tuple[str, ...]]:
        """The program with its arguments, and the files that it reads, for as long as it runs."""
        if self.order.reader is None:
            yield self.order.argv
            return
        import tempfile

        from fluxres.formats.peers.canary import environment as canary
        from fluxres.formats.peers.ctest import environment as ctest

        with tempfile.NamedTemporaryFile("w", encoding="utf-8", prefix="fluxres-", suffix=".json") as file:
            is_ctest = self.order.reader == "ctest"
            file.write(ctest.spec_file(granted) if is_ctest else canary.pool_file(granted))
            file.flush()
            setting.variables |= (ctest.spec_environment if is_ctest else canary.pool_environment)(file.name)
            yield tuple((ctest.with_spec_file if is_ctest else canary.with_pool_file)(self.order.argv, file.name))

    def _release(self, status: int | None = None) -> None:
        """Free what the job holds, and take its ticket out of the queue; nothing of the program runs any more."""
        cgroup.remove(self.broker.mark)
        self.broker.release(status)

    def _until_s(self, start_s: float, end_s: float) -> float:
        """When the time of the program is over, by what it holds; infinity for no limit."""
        if math.isinf(self.order.grace_s):
            return start_s + self._limit_s if self._limit_s is not None and math.isinf(end_s) else end_s
        return end_s - self.order.grace_s

    # -- the program -----------------------------------------------------------------------------------------------------

    def _run(self, argv: tuple[str, ...], setting: Setting, granted: Allocation) -> int:
        """Run the program, and free what the job holds when it has ended; returns its exit status."""
        order, reporter = self.order, self.reporter
        for note in setting.notes:
            reporter.note(note)
        group, is_limited = cgroup.create(self.broker.mark, setting.memory_bytes)
        if setting.memory_bytes is not None and not is_limited:
            reporter.note("memory is not limited: there is no delegated cgroup (version 2) with a memory controller")
        own = environment.of_job(self._job, self.broker.mark, self.broker.url, self.broker.graph)
        takes_terminal = self._has_given_terminal = not self._terminal.is_shared and self._terminal.is_ours
        self._loop.watch(self._crew.socket.fileno(), self._heard)
        everything = {**os.environ, **setting.variables, **own}
        variables = {os.fsencode(key): os.fsencode(value) for key, value in everything.items() if key}
        start = Start(tuple(map(os.fsencode, argv)), variables, setting.cpus, setting.memory, group, takes_terminal)
        reporter.begins()
        number = self._crew.start(start)
        self._is_started = True
        guardian.leave_streams()
        self._start_s = granted.start
        until_s = self._until_s(granted.start, granted.end)
        self._limit_to(until_s, until_s - clock.system(), order.grace_s)
        self._renew_later()
        if (news := self.broker.fileno()) is not None:
            self._loop.watch(news, self._told)
        while self._status is None:
            self._loop.turn()
        if self._has_given_terminal:
            self._terminal.take_back(self._crew.program)
        status = program.status_of(number) if number else lifeline.exit_code(self._status)
        try:
            self._release(status)
        except FluxresError as error:
            how = "when its lease is over" if self.broker.is_served else "by the next command"
            reporter.note(f"what job {self._job} holds is freed {how}: {error}")
        if number:
            reporter.note(f"{order.argv[0] or repr('')}: {os.strerror(number)}")
        return status

    def _heard(self) -> None:
        """A message of the guardian, or its end."""
        try:
            word, _, value = self._crew.socket.recv(4096).decode().partition(" ")
        except OSError:
            word, value = "", ""
        match word:
            case "ended":
                status, _, left = value.partition(" ")
                self._status = int(status)
                if left:
                    self.reporter.note(f"these processes could not be killed: {left}")
            case "stopped":
                if self._terminal.is_there and not self._terminal.is_shared:
                    self._terminal.stop(self._crew.program)
            case _:
                self._loop.unwatch(self._crew.socket.fileno())
                descendants.kill_all()
                self.reporter.note("the guardian process was killed, and the program with it")
                self._status = signal.SIGKILL

    # -- its time --------------------------------------------------------------------------------------------------------

    def _limit_to(self, until_s: float, delay_s: float, grace_s: float) -> None:
        """End the program after a delay, when its time is over by what it holds."""
        if self._timer is not None:
            self._timer.cancel()
        self._until = until_s
        self._timer = None if math.isinf(delay_s) else self._loop.after(max(0.0, delay_s), partial(self._end, grace_s))

    def _end(self, grace_s: float) -> None:
        """Ask the program to end, for its time is over, unless `extend` has moved the end of its allocation."""
        standing = self.broker.renew()
        later_s = -math.inf
        if standing is not None and standing.state == "running":
            later_s = self._until_s(self._start_s, math.inf if standing.end is None else standing.end)
        more_s = min(later_s - self._until, later_s - clock.system())  # the clock may have jumped
        if more_s > 0:
            self._limit_to(later_s, more_s, grace_s)
            return
        self.reporter.note(f"the time of job {self._job} is over")
        self._crew.send(f"end {grace_s}")

    def _moved(self) -> None:
        """End the program earlier, if the end of what it holds has moved there; a later end is found when its time is over."""
        standing = self.broker.renew()
        if standing is None or standing.state != "running" or standing.end is None:
            return
        until_s, now_s = self._until_s(self._start_s, standing.end), clock.system()
        if until_s < self._until:
            grace_s = min(self.order.grace_s, standing.end - max(now_s, until_s))
            self._limit_to(until_s, until_s - now_s, max(0.0, grace_s))

    def _renew_later(self) -> None:
        if (every_s := self.broker.renews_every_s) is not None:
            self._loop.after(every_s, self._renew)

    def _renew(self) -> None:
        self._renew_now()
        self._renew_later()

    def _renew_now(self) -> None:
        standing = self.broker.renew()
        if standing is not None and standing.state == "gone" and not self._has_lost:
            self._has_lost = True
            self.reporter.note(f"job {self._job} has lost its resources; its program is still running")

    def _told(self) -> None:
        """News while the program runs."""
        for news in self.broker.read():
            if news.grace_s is not None:
                self._crew.send(f"end {news.grace_s}")
            if news.has_new_end:
                self._moved()
            if news.look and self.broker.is_served:
                self._renew_now()

    # -- signals ---------------------------------------------------------------------------------------------------------

    def _forward(self, number: int) -> None:
        if not self._is_started:
            raise _Ended(number)
        if self._terminal.is_shared and number in _FROM_TERMINAL:
            return  # the terminal sends it to the program as well
        self._crew.send(f"end {self.order.grace_s}" if number == signal.SIGTERM else f"signal {number}")

    def _stop(self) -> None:
        if self._is_started:
            self._crew.send(f"signal {signal.SIGTSTP}")
        else:
            os.kill(os.getpid(), signal.SIGSTOP)

    def _continued(self) -> None:
        if self._wait is not None:
            self._wait.look()  # nothing was granted to it while it was stopped
        if not self._is_started:
            return
        if not self._terminal.is_shared and self._terminal.is_ours:
            program.take_terminal(self._crew.program)
            self._has_given_terminal = True
        self._crew.send(f"signal {signal.SIGCONT}")


class Plan(msgspec.Struct, frozen=True):
    """What a run would get now.

    Args:
        pools: paths with units.
        start_s, end_s: of the allocation.
        variables: that it would have, in addition to those of this process.
        cpus: that it would be bound to; None for no binding.
        memory_bytes: allocated memory; None for none.
        notes: what cannot be done.
    """

    pools: list[tuple[str, int]]
    start_s: float
    end_s: float
    variables: dict[str, str]
    cpus: tuple[int, ...] | None
    memory_bytes: int | None
    notes: list[str]


def plan(graph: ResourceGraph, url: str, order: Order) -> Plan:
    """What a run would get now; nothing is recorded.

    Errors: InsufficientResources, InfeasibleRequest, UsageError.
    """
    request, pools, policy = order.asking(graph)
    job = order.job or "-"
    if request is not None:
        granted = graph.allocate(request, job=job, duration_s=order.duration_s, policy=policy)
    else:
        named = [(graph.vertex(path), amount) for path, amount in pools]
        granted = graph.allocate(named, job=job, duration_s=order.duration_s)
    made = environment.setting(graph, granted, request, binds=order.binds)
    own = {key: value for key, value in environment.of_job(job, "", url, graph.name).items() if value not in ("", "-")}
    where = graph.structure.accounts.where
    held = [(where(v), amount) for v, amount in zip(*(column.tolist() for column in granted.held), strict=True)]
    return Plan(held, granted.start, granted.end, {**made.variables, **own}, made.cpus, made.memory_bytes, made.notes)
