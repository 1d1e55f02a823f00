"""Commands that run programs inside allocations: run, shell."""

from __future__ import annotations

import math
import os
import re
import shutil
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import click

from fluxres import clock, limits
from fluxres.cli import completing
from fluxres.cli.arguments import Asked, RequestCommand, targets
from fluxres.cli.failures import tell
from fluxres.cli.output import answer, note
from fluxres.cli.settings import PLAIN_OUTPUTS, Duration, EverywhereOption, Settings
from fluxres.cli.stores import os_user, server, store
from fluxres.errors import UsageError
from fluxres.render.text import Style, printable, seconds_or_none, when
from fluxres.syntax import duration

if TYPE_CHECKING:
    from fluxres.launch.broker import Broker
    from fluxres.launch.gate import Gate
    from fluxres.launch.runs import Plan
    from fluxres.model import ResourceGraph
    from fluxres.store import Store
    from fluxres.syntax.jobspec import Request

_FOREVER: Final = "forever"
_OF_RESOURCES: Final = "hyperqueue"
_FOR_ANY_TIME: Final = f"--wait={_FOREVER}"
_BEFORE_ASK: Final = re.compile(r"\s+(?=[A-Za-z][A-Za-z0-9/_]*\s*=)", re.ASCII)
"""A blank before the next resource: HyperQueue has an option for each."""
_A_DURATION: Final = re.compile(r"[0-9][0-9.:]*[a-z]*", re.ASCII)


class _RunCommand(RequestCommand):
    """A command with a request and, after `--`, a program.

    Its `--wait` is how long to wait in the queue, and not for the lock of the store.
    """

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.params = [one for one in self.params if not (isinstance(one, EverywhereOption) and one.name == "wait_s")]

    def invoke(self, ctx: click.Context) -> Any:
        """As other commands with a request do; `--resources` is in a language of its own.

        Errors: UsageError if another one was given.
        """
        if ctx.params["resources"] is not None and ctx.params["language"] is not None and not ctx.params["words"]:
            language, ctx.params["language"] = ctx.params["language"], None
            if language != _OF_RESOURCES:
                message = f"--resources is in the words of HyperQueue, and --request-format says {language}"
                raise UsageError(message, hint=f"give the request as one word: --request-format {language} REQUEST")
        return super().invoke(ctx)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As other commands with a request do, with the program set apart, and `--wait` with or without a time."""
        end = args.index("--") if "--" in args else len(args)
        ctx.meta["program"] = tuple(args[end + 1 :])
        given: list[str] = []
        for word in args[:end]:
            if given and given[-1] == _FOR_ANY_TIME and _A_DURATION.fullmatch(word):
                given[-1] = f"--wait={word}"
            else:
                given.append(_FOR_ANY_TIME if word == "--wait" else word)
        return super().parse_args(ctx, given)


class _Wait(Duration):
    """How long to wait in the queue."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        return math.inf if value == _FOREVER else super().convert(value, param, ctx)


class _Lease(Duration):
    """Life of a lease."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        lease_s = super().convert(value, param, ctx)
        if lease_s < limits.RUN_LEASE_SECONDS_MIN:
            message = f"--lease: expected {limits.RUN_LEASE_SECONDS_MIN:g} s or more, got {value}"
            raise UsageError(
                message, hint="it is renewed after a third of it; leave it out for no lease on a store of this machine"
            )
        return lease_s


def _options(function: Callable[..., None]) -> Callable[..., None]:
    """The options of both commands."""
    options = [
        click.argument("words", nargs=-1, metavar="[PATH[=N]...|REQUEST]", shell_complete=completing.pool),
        click.option("--resources", metavar="WORDS", help="The request in the words of HyperQueue, such as 'gpus=1 cpus=8'."),
        click.option(
            "--wait",
            "patience",
            type=_Wait(),
            metavar="[TIME]",
            help="Wait for the resources, at most TIME. Default: not at all.",
        ),
        click.option(
            "--duration", type=Duration(is_positive=True), metavar="D", help="Limit of its run time; the same as --time."
        ),
        click.option(
            "--priority",
            type=click.IntRange(-limits.PRIORITY_MAX, limits.PRIORITY_MAX),
            default=0,
            metavar="N",
            help="In the queue, the higher goes first. Default: 0.",
        ),
        click.option("--job", metavar="J", shell_complete=completing.job, help="Id of the job. Default: a new one."),
        click.option("--name", metavar="NAME", help="Name of the job, for lists."),
        click.option("--dry-run", is_flag=True, help="Show what it would get and its environment, without running it."),
        click.option("--ctest", is_flag=True, help="Make a resource specification file of what it gets, for ctest."),
        click.option("--canary", is_flag=True, help="Make a resource pool file of what it gets, for canary."),
        click.option("--no-bind", is_flag=True, help="Do not bind the program to its cores."),
        click.option(
            "--grace",
            type=Duration(),
            default=limits.RUN_GRACE_SECONDS_DEFAULT,
            metavar="D",
            help=f"Time from SIGTERM to SIGKILL. Default: {limits.RUN_GRACE_SECONDS_DEFAULT:g}.",
        ),
        click.option(
            "--lease",
            type=_Lease(),
            metavar="D",
            help="Free what it holds if the lease is not renewed for this time; for stores used from several machines. "
            f"Default on a server: {limits.RUN_LEASE_SECONDS_DEFAULT:g}.",
        ),
    ]
    for option in reversed(options):
        function = option(function)
    return function


@click.command("run", cls=_RunCommand, outputs=PLAIN_OUTPUTS)
@_options
@click.pass_context
def run_command(ctx: click.Context, /, **given: Any) -> None:
    """Run a program inside an allocation: allocate what a REQUEST asks for, run it there, and free everything afterwards.

    The program and its arguments follow `--`. Without a request, it gets one core. It sees its devices in CUDA_VISIBLE_DEVICES
    and the like, is bound to its cores, and fluxres ends with its exit status. Whatever happens to it, or to fluxres, what it
    holds is given back, and nothing that it has started goes on running. Without --wait, a request that does not fit now ends
    with status 1.
    """
    argv = ctx.meta["program"]
    if not argv and not given["dry_run"]:
        raise UsageError("no program was given", hint="write it after --, such as fluxres run -n1 -- hostname")
    _run(ctx, argv, **given)


@click.command("shell", cls=_RunCommand, outputs=PLAIN_OUTPUTS)
@_options
@click.pass_context
def shell_command(ctx: click.Context, /, **given: Any) -> None:
    """Start a shell inside an allocation, as run does: $SHELL, with what a REQUEST asks for until it ends."""
    words = ctx.meta["program"]
    _run(ctx, (os.environ.get("SHELL") or "/bin/sh", *words), **given)


def _run(ctx: click.Context, argv: tuple[str, ...], *, asked: Asked, resources: str | None, **given: Any) -> None:
    settings = ctx.ensure_object(Settings)
    if resources is not None:
        if asked.is_given:
            raise UsageError("both --resources and a request were given", hint="give one of them")
        asked = asked.instead([_BEFORE_ASK.sub("; ", resources)], language=_OF_RESOURCES)
    elif not asked.is_given:
        asked = asked.instead(sizes={"n": "1"})
    patience = given["patience"]
    broker, gate = _broker(settings, given["lease"])
    from fluxres.launch.runs import Order, Run, plan

    order = Order(
        argv,
        _asking(asked),
        given["duration"],
        0.0 if patience is None else patience,
        given["priority"],
        given["job"],
        os_user(),
        given["name"],
        given["grace"],
        not given["no_bind"],
        _reader_of(given),
    )
    if given["dry_run"]:
        _show(settings, plan(broker.load(), broker.url, order))
        return
    ctx.exit(Run(broker, order, _Terminal(), gate).run())


def _broker(settings: Settings, lease_s: float | None) -> tuple[Broker, Gate]:
    """Where the resources are, and the place among those that start."""
    from fluxres.launch.gate import Gate

    if (remote := server(settings)) is not None:
        from fluxres.service.client.broker import ServerBroker

        lease_s = limits.RUN_LEASE_SECONDS_DEFAULT if lease_s is None else lease_s
        if math.isinf(lease_s):
            raise UsageError("--lease: expected an end, got none", hint="a server frees a job whose lease is not renewed")
        return ServerBroker(remote, remote.name_of(settings.graph), lease_s, settings.command), Gate(None)
    from fluxres.store import url

    opened = store(settings, is_quiet=True)
    gate = Gate((url.default() if settings.store is None else url.parse(settings.store)).path)
    from fluxres.launch.broker import StoreBroker

    graph = settings.graph or opened.address.graph or opened.default or _load_this_machine(settings, opened)
    return StoreBroker(opened, graph, lease_s, settings.command), gate


def _reader_of(given: Mapping[str, Any]) -> str | None:
    """The system that reads a file of what was allocated."""
    readers = [name for name in ("ctest", "canary") if given[name]]
    if len(readers) > 1:
        raise UsageError("both --ctest and --canary were given", hint="give one of them")
    return readers[0] if readers else None


def _asking(asked: Asked) -> Callable[[ResourceGraph], tuple[Request | None, tuple[tuple[str, int | None], ...], str]]:
    def on(graph: ResourceGraph) -> tuple[Request | None, tuple[tuple[str, int | None], ...], str]:
        wanted = asked.on(graph)
        if wanted.request is not None:
            return wanted.request, (), wanted.policy
        where = graph.structure.where
        return None, tuple((where(v), amount) for v, amount in targets(graph, wanted.pools)), wanted.policy

    return on


def _load_this_machine(settings: Settings, opened: Store) -> str:
    """Load the machine that this is into a store without graphs, and return its name.

    Errors: UnknownGraph if the store has several graphs, and none is in use.
    """
    from fluxres.formats.machine import this_machine
    from fluxres.model import ResourceGraph

    if opened.names():
        opened.load()  # this explains what is missing
    loaded = this_machine()
    graph = ResourceGraph(loaded.structure, name=loaded.name, clock=clock.system)
    try:
        opened.put(graph.name, graph, command=settings.command)
    except UsageError:
        if opened.default is None:  # another process has just done the same
            raise
    else:
        note(f"loaded this machine as graph '{graph.name}'; `fluxres show` shows it")
        for left_out in loaded.notes:
            note(printable(left_out))
    return graph.name


def _show(settings: Settings, found: Plan) -> None:
    """Show what a run would get."""

    def lines(_style: Style) -> list[str]:
        held = [f"{path}{'' if amount == 1 else f'={amount}'}" for path, amount in found.pools]
        return [*held, *(f"{key}={value}" for key, value in found.variables.items()), *map(str, found.notes)]

    document = {
        "pools": [{"path": path, "amount": amount} for path, amount in found.pools],
        "start": found.start_s,
        "end": seconds_or_none(found.end_s),
        "environment": found.variables,
        "cpus": None if found.cpus is None else list(found.cpus),
        "memory_bytes": found.memory_bytes,
        "notes": found.notes,
    }
    answer(settings, document=lambda: document, lines=lines)


class _Terminal:
    """Tells the user on standard error; on a terminal, in one line that changes."""

    def __init__(self) -> None:
        self._is_terminal = sys.stderr.isatty()
        self._has_line = False

    @property
    def shows_place(self) -> bool:
        return self._is_terminal

    def note(self, message: str) -> None:
        self._clear()
        note(printable(message))

    def waits(self, job: str, place: int, waiting: int, start_s: Callable[[], float | None]) -> None:
        if not self._is_terminal and self._has_line:
            return
        start = start_s()
        expected = "its start is not known" if start is None or math.isinf(start) else f"start expected {_when(start)}"
        line = f"fluxres: job {job} waits for resources: place {place} of {waiting}, {expected}"
        if self._is_terminal:
            columns = shutil.get_terminal_size().columns
            if len(line) >= columns:
                line = f"fluxres: {job} waits: place {place} of {waiting}, {expected}"[: columns - 1]  # in one row, it can change
            tell(f"\r{line}\x1b[K")
        else:
            tell(f"{line}\n")
        self._has_line = True

    def begins(self) -> None:
        self._clear()

    def _clear(self) -> None:
        if self._is_terminal and self._has_line:
            tell("\r\x1b[K")
            self._has_line = False


def _when(start_s: float) -> str:
    """A moment that is near, by the clock, with how long it takes until then."""
    left_s = start_s - clock.system()
    return "now" if left_s <= 0 else f"{when(start_s)}, in {duration.readable(left_s)}"
