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
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Final

import msgspec

from fluxres import clock, limits
from fluxres.allocation.facts import Launch
from fluxres.clock import seconds, ticks
from fluxres.documents.document import plural
from fluxres.errors import FluxresError, InsufficientResources, UsageError
from fluxres.launch import (
    cgroup,
    descendants,
    environment,
    guardian,
    identity,
    lifeline,
    orphans,
    program,
    terminal,
    waiting,
)
from fluxres.launch.environment import Setting
from fluxres.launch.guardian import Crew
from fluxres.launch.loop import Loop
from fluxres.launch.program import Start
from fluxres.launch.wait import Reporter, Wait
from fluxres.model import changes, matching
from fluxres.store import Ticket, mailbox
from fluxres.store.mailbox import Mailbox
from fluxres.syntax import jobspec

if TYPE_CHECKING:
    from fluxres.launch.gate import Gate
    from fluxres.model import Allocation, ResourceGraph
    from fluxres.store import Store, Transaction
    from fluxres.syntax.jobspec import Request

_FORWARDED: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
_FROM_TERMINAL: Final = frozenset({signal.SIGINT, signal.SIGQUIT})
_TASK: Final = jobspec.Task(("program",), "task")
"""Of a jobspec in the queue, which has to have one."""
_LOCK_WAIT_S: Final = 300.0
"""Hundreds may start or end at once, each with a transaction of some milliseconds."""


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
        lease_s: life of the lease, which the launcher renews; None for no lease.
        binds: whether to bind the program to its cores.
        reader: `ctest` or `canary` if the program is that, or runs it, and gets a file of what was allocated in its format.
        command: for the journal.
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
    lease_s: float | None = None
    binds: bool = True
    reader: str | None = None
    command: str = ""


class _Ended(Exception):
    """A signal ended a run that had not started yet."""

    def __init__(self, number: int) -> None:
        self.number = number


class Run:
    """A run in its launcher.

    Args:
        store: where the resources are.
        graph: name of the graph.
        order: what to run.
        reporter: tells the user.
        gate: which it has passed; it leaves it once it has its place in the queue.
    """

    def __init__(self, store: Store, graph: str, order: Order, reporter: Reporter, gate: Gate) -> None:
        self.store, self.graph, self.order, self.reporter = store, graph, order, reporter
        self._gate = gate
        self._mark = os.urandom(12).hex()
        self._job = ""
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
                    setting, granted = self._allocated()
                    with self._files(granted, setting) as argv:
                        return self._run(argv, setting, self._until_s(granted))
                except _Ended as ended:
                    return 128 + ended.number
                finally:
                    self._crew.dismiss()

    # -- resources -------------------------------------------------------------------------------------------------------

    def _allocated(self) -> tuple[Setting, Allocation]:
        """Get the resources.  Errors: as :meth:`run`; _Ended."""
        box = Mailbox(self.store.path, self._mark) if self.order.wait_s else None
        try:
            graph = self._ask()
            self._gate.leave()
            if graph is None:
                assert box is not None
                self._wait = Wait(self.store, self.graph, self._job, self.order.wait_s, self.reporter, self._loop, box)
                graph = self._wait.until_granted()
        except BaseException:
            if self._job:
                self._release()
            raise
        finally:
            self._wait = None
            if box is not None:
                box.close()
        granted = graph.allocation(self._job)
        return environment.setting(graph, granted, self._request, binds=self.order.binds), granted

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

    def _ask(self) -> ResourceGraph | None:
        """Ask for the resources, and return the graph if they were granted; otherwise, there is a ticket in the queue.

        Errors: InsufficientResources if it may not wait; InfeasibleRequest.
        """
        import_module("fluxres.match")  # now, and not at its first use, when others wait for the store
        with self.store.writing(self.graph, command=self.order.command, wait_s=_LOCK_WAIT_S) as transaction:
            graph = transaction.graph
            attendance = waiting.Attendance(transaction, self.store.path)
            attendance.begin()
            ticket, request = self._ticket(transaction)
            made = attendance.end(ticket, request)
            is_granted = ticket in made.granted
            if not is_granted:
                self._refuse(graph, ticket, request, made)
                transaction.tickets.add(ticket)
        self._job = ticket.job
        attendance.tell()
        return graph if is_granted else None

    def _ticket(self, transaction: Transaction) -> tuple[Ticket, Request | None]:
        order, graph = self.order, transaction.graph
        self._request, pools, policy = order.asking(graph)
        request = self._request
        if order.job is None:
            job = transaction.tickets.next_job()
            while graph.records.is_holder(job):
                job = transaction.tickets.next_job()
        else:
            job = order.job
            if graph.records.is_holder(job) or any(ticket.job == job for ticket in transaction.tickets.all()):
                raise UsageError("holds resources already", where=f"job '{job}'", hint="choose another id, or leave --job out")
        self._limit_s = limit_s = order.duration_s if order.duration_s is not None or request is None else request.duration_s
        now = graph.now()
        launch = Launch(
            identity.host(),
            identity.boot(),
            self._crew.processes,
            self._mark,
            tuple(os.fsencode(word).decode("utf-8", "backslashreplace") for word in order.argv),
            None if order.lease_s is None else now + ticks(order.lease_s),
        )
        ticket = Ticket(
            job,
            order.user,
            order.priority,
            seconds(now),
            launch,
            order.name,
            None if request is None else jobspec.to_plain(request if request.tasks else replace(request, tasks=(_TASK,))),
            pools,
            None if limit_s is None or limit_s == math.inf else limit_s + order.grace_s,
            policy,
            self.reporter.shows_place,
        )
        return ticket, request

    def _refuse(self, graph: ResourceGraph, ticket: Ticket, request: Request | None, made: waiting.Pass) -> None:
        """Refuse what can never be granted, and anything if it may not wait.

        Errors: InfeasibleRequest, InsufficientResources; UsageError for units that a pool does not have.
        """
        if request is not None:
            if self.order.wait_s and graph.satisfiable(request):
                return
            if (refusal := graph.why_not(request, duration_s=ticket.duration_s, policy=ticket.policy)) is not None:
                raise matching.refused(refusal)
        is_queued = any(one is ticket for one in made.waiting)
        if request is None and self.order.wait_s and is_queued:
            return
        number = len(made.waiting) - 1
        if not number or not is_queued:
            graph.allocate(_named(graph, ticket), job=ticket.job, duration_s=ticket.duration_s)  # this explains why not
        raise InsufficientResources(f"{plural(number, 'request')} before it in the queue", hint="--wait queues this one too")

    def _release(self) -> None:
        """Free what the job holds, and take its ticket out of the queue; nothing of the program runs any more."""
        cgroup.remove(self._mark)
        with self.store.writing(self.graph, command=self.order.command, wait_s=_LOCK_WAIT_S) as transaction:
            graph = transaction.graph
            attendance = waiting.Attendance(transaction, self.store.path)
            attendance.begin()
            for ticket in transaction.tickets.all():
                if ticket.launch.mark == self._mark:
                    transaction.tickets.remove(ticket)
            for job, launch in list(orphans.launched(graph)):
                if launch.mark == self._mark:
                    changes.free(graph, job, None, None, None)
            attendance.end()
        attendance.tell()
        mailbox.discard(self.store.path, self._mark)

    def _until_s(self, granted: Allocation) -> float:
        """When the time of the program is over; infinity for no limit."""
        if math.isinf(self.order.grace_s):
            return math.inf if self._limit_s is None else granted.start + self._limit_s
        return granted.end - self.order.grace_s

    # -- the program -----------------------------------------------------------------------------------------------------

    def _run(self, argv: tuple[str, ...], setting: Setting, until_s: float) -> int:
        """Run the program, and free what the job holds when it has ended; returns its exit status."""
        order, reporter = self.order, self.reporter
        for note in setting.notes:
            reporter.note(note)
        group, is_limited = cgroup.create(self._mark, setting.memory_bytes)
        if setting.memory_bytes is not None and not is_limited:
            reporter.note("memory is not limited: there is no delegated cgroup (version 2) with a memory controller")
        own = environment.of_job(self._job, self._mark, self.store.url, self.graph)
        takes_terminal = self._has_given_terminal = not self._terminal.is_shared and self._terminal.is_ours
        self._loop.watch(self._crew.socket.fileno(), self._heard)
        everything = {**os.environ, **setting.variables, **own}
        variables = {os.fsencode(key): os.fsencode(value) for key, value in everything.items() if key}
        start = Start(tuple(map(os.fsencode, argv)), variables, setting.cpus, setting.memory, group, takes_terminal)
        reporter.begins()
        number = self._crew.start(start)
        self._is_started = True
        guardian.leave_streams()
        if not math.isinf(until_s):
            self._loop.after(max(0.0, until_s - clock.system()), partial(self._end, until_s))
        if order.lease_s is not None:
            self._renew_later(order.lease_s)
        while self._status is None:
            self._loop.turn()
        if self._has_given_terminal:
            self._terminal.take_back(self._crew.program)
        try:
            self._release()
        except FluxresError as error:
            reporter.note(f"what job {self._job} holds is freed by the next command: {error}")
        if number:
            reporter.note(f"{order.argv[0] or repr('')}: {os.strerror(number)}")
            return program.status_of(number)
        return lifeline.exit_code(self._status)

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

    def _end(self, until_s: float) -> None:
        """Ask the program to end, for its time is over, unless `extend` has moved the end of its allocation."""
        later_s = self._until_in_store()
        more_s = min(later_s - until_s, later_s - clock.system())  # the clock may have jumped
        if more_s > 0:
            if not math.isinf(more_s):
                self._loop.after(more_s, partial(self._end, later_s))
            return
        self.reporter.note(f"the time of job {self._job} is over")
        self._crew.send(f"end {self.order.grace_s}")

    def _until_in_store(self) -> float:
        with suppress(FluxresError):
            graph = self.store.load(self.graph)
            if graph.records.is_holder(self._job):
                return self._until_s(graph.allocation(self._job))
        return -math.inf

    def _renew_later(self, lease_s: float) -> None:
        self._loop.after(lease_s / 3, partial(self._renew, lease_s))

    def _renew(self, lease_s: float) -> None:
        with suppress(FluxresError), self.store.writing(self.graph, command=self.order.command) as transaction:
            graph = transaction.graph
            if graph.records.is_holder(self._job):
                changes.renew(graph, self._job, graph.now() + ticks(lease_s))
        self._renew_later(lease_s)

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


def _named(graph: ResourceGraph, ticket: Ticket) -> list[tuple[int, int | None]]:
    return [(graph.vertex(path), amount) for path, amount in ticket.pools]


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


def plan(store: Store, name: str, order: Order) -> Plan:
    """What a run would get now; nothing is recorded.

    Errors: InsufficientResources, InfeasibleRequest, UsageError.
    """
    graph = store.load(name)
    request, pools, policy = order.asking(graph)
    job = order.job or "-"
    if request is not None:
        granted = graph.allocate(request, job=job, duration_s=order.duration_s, policy=policy)
    else:
        named = [(graph.vertex(path), amount) for path, amount in pools]
        granted = graph.allocate(named, job=job, duration_s=order.duration_s)
    made = environment.setting(graph, granted, request, binds=order.binds)
    own = {key: value for key, value in environment.of_job(job, "", store.url, name).items() if value not in ("", "-")}
    where = graph.structure.accounts.where
    held = [(where(v), amount) for v, amount in zip(*(column.tolist() for column in granted.held), strict=True)]
    return Plan(held, granted.start, granted.end, {**made.variables, **own}, made.cpus, made.memory_bytes, made.notes)
