"""Commands for a graph that is a part of another one: what it gets of its parent, gives back, and its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from fluxres.cli import completing
from fluxres.cli.arguments import Asked, RequestCommand, named, targets
from fluxres.cli.new_end import EndCommand, NewEnd, new_end
from fluxres.cli.output import answer
from fluxres.cli.program import Group
from fluxres.cli.settings import PLAIN_OUTPUTS, Settings
from fluxres.cli.stores import server, store
from fluxres.errors import UnknownGraph

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from fluxres.store.child import Both

_child = click.argument("name", metavar="CHILD", shell_complete=completing.graph)


@click.group("child", cls=Group, outputs=PLAIN_OUTPUTS)
def child_command() -> None:
    """Grow, shrink, extend or end a child: a graph of the store with what a job of another graph holds.

    CHILD is the name of its graph, such as demo.big (fluxres graphs lists them). The graph of the child and the job in its parent
    change together, or not at all. A process that works on the child continues with what it has after the change.
    """


@child_command.command("grow", cls=RequestCommand, has_time=False)
@_child
@click.argument("words", nargs=-1, metavar="[PATH[=N]...|REQUEST]", shell_complete=completing.pool)
@click.pass_obj
def grow(settings: Settings, name: str, asked: Asked) -> None:
    """Get more from the parent: pools by name, or what a REQUEST asks for there, until the job ends."""
    if (remote := server(settings)) is not None:
        above = remote.parent(name)
        try:
            graph = remote.load(above)
        except UnknownGraph:  # a server for what the job holds has no other graph: it passes requests on
            graph = remote.load(name)
            if asked.on(graph).request is None:
                raise
        paths = remote.run(remote.child(name, settings.command).grow(asked.document(graph), policy=asked.policy))
    else:
        from fluxres.store import child

        with _both(settings, name) as pair:
            paths = child.grow(pair, asked.on(pair.parent).request or targets(pair.parent, asked.pools), asked.policy)
    _answer_paths(settings, name, paths)


@child_command.command("shrink")
@_child
@click.argument("pools", nargs=-1, required=True, metavar="PATH...", shell_complete=completing.pool)
@click.pass_obj
def shrink(settings: Settings, name: str, pools: tuple[str, ...]) -> None:
    """Return pools to the parent, with everything in them. Jobs of the child must hold nothing there."""
    if (remote := server(settings)) is not None:
        part = remote.load(name)
        paths = remote.run(remote.child(name, settings.command).shrink(named(part, targets(part, pools))))
    else:
        from fluxres.store import child

        with _both(settings, name) as pair:
            paths = child.shrink(pair, targets(pair.part, pools))
    _answer_paths(settings, name, paths)


@child_command.command("extend", cls=EndCommand)
@_child
@new_end
@click.pass_obj
def extend(settings: Settings, name: str, change: str | None, end: float | None, duration: str | None) -> None:
    """Move the end of the job in the parent, later or earlier: +2h, -30m, a time, - for none, or max, as fluxres extend."""
    from fluxres.clock import FOREVER, seconds
    from fluxres.render.text import when
    from fluxres.store import child

    wanted = NewEnd(change, end, duration)
    end, duration_s = wanted.given
    if (remote := server(settings)) is not None:
        if wanted.is_relative:
            end, duration_s = wanted.of(remote.load(remote.parent(name)), remote.standings(name)[name].job)
        found = remote.run(remote.child(name, settings.command).extend(end, duration_s=duration_s))
    else:
        with _both(settings, name) as pair:
            if wanted.is_relative:
                end, duration_s = wanted.of(pair.parent, pair.job)
            found = child.extend(pair, end, duration_s)
    new = None if found >= seconds(FOREVER) else found
    said = f"{name} ends at {when(new)}" if new is not None else f"{name} has no end"
    answer(settings, document=lambda: {"child": name, "end": new}, lines=lambda _style: [said])


@child_command.command("end")
@_child
@click.pass_obj
def end(settings: Settings, name: str) -> None:
    """End a child: its job in the parent is freed, and its graph is removed, with its jobs and all children below it."""
    if (remote := server(settings)) is not None:
        remote.run(remote.child(name, settings.command).end())
    else:
        from fluxres.store import child

        child.end(store(settings), name, settings.command)
    answer(settings, document=lambda: {"ended": name}, lines=lambda _style: [f"{name} has ended"])


def _both(settings: Settings, name: str) -> AbstractContextManager[Both]:
    from fluxres.store import child

    return child.both(store(settings), name, settings.command)


def _answer_paths(settings: Settings, name: str, paths: list[str]) -> None:
    answer(settings, document=lambda: {"child": name, "paths": paths}, lines=lambda _style: paths)
