"""Events of a journal, one line each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from fluxres.clock import FOREVER, seconds
from fluxres.documents.document import plural
from fluxres.render.text import when
from fluxres.syntax import folded

_PATHS_MAX: Final = 4
"""Maximal number of folded paths in one line; more are counted."""


def word(event: Mapping[str, Any]) -> str:
    """What an event is called in a table: as the command.

    >>> word({"event": "set_end"}), word({"event": "free"})
    ('extend', 'free')
    """
    kind = str(event["event"])
    return _WORDS.get(kind, kind)


def details(event: Mapping[str, Any]) -> str:
    """The details of an event, in one line.

    >>> details({"event": "allocate", "job": "j1", "pools": [["/demo/node0", 2]], "start": 0, "end": 60000000})
    'j1: /demo/node0=2 from 0 until 60'
    """
    tell = _TELL.get(str(event.get("event", "")))
    return tell(event) if tell is not None else _fields(event)


def folded_paths(paths: Sequence[str]) -> str:
    """Paths folded parent by parent, or their number if there are many.

    >>> folded_paths(["/demo/node0", "/demo/node1"]), folded_paths([])
    ('/demo/node[0-1]', 'no pools')
    """
    if not paths:
        return "no pools"
    by_parent: dict[str, list[str]] = {}
    for path in paths:
        parent, slash, name = path.rpartition("/")
        by_parent.setdefault(parent + slash, []).append(name)
    if len(by_parent) > _PATHS_MAX:
        return f"{plural(len(paths), 'pool')}, the first {paths[0]}"
    return ",".join(parent + folded.fold(names) for parent, names in by_parent.items())


def held(pools: Sequence[Sequence[Any]] | None) -> str:
    """Paths with their amounts, folded.

    >>> held([("/demo/node0", 1), ("/demo/node1", 1), ("/demo/node1/memory", 8)])
    '/demo/node[0-1]=1, /demo/node1/memory=8'
    """
    if pools is None:
        return "everything"
    by_amount: dict[Any, list[str]] = {}
    for path, amount in pools:
        by_amount.setdefault(amount, []).append(path)
    return ", ".join(folded_paths(paths) + ("" if amount is None else f"={amount}") for amount, paths in by_amount.items())


def _window(event: Mapping[str, Any]) -> str:
    start, end = event.get("start"), event.get("end")
    return ("" if start is None else f" from {when(seconds(start))}") + ("" if end is None else f" until {when(seconds(end))}")


def _allocate(event: Mapping[str, Any]) -> str:
    return f"{event['job']}: {held(event['pools'])}{_window(event)}"


def _free(event: Mapping[str, Any]) -> str:
    why = event.get("reason") or ("" if event.get("status") is None else f"exit status {event['status']}")
    return _allocate(event) + (f" ({why})" if why else "")


def _allocate_all(event: Mapping[str, Any]) -> str:
    return "; ".join(_allocate(part) for part in event["parts"])


def _stage(event: Mapping[str, Any]) -> str:
    expires = seconds(FOREVER if event["expires"] is None else event["expires"])
    return f"{event['stage']} for {_allocate(event)}, expires {when(expires)}"


def _state(event: Mapping[str, Any]) -> str:
    reason = f" ({event['reason']})" if event.get("reason") else ""
    return f"{folded_paths(event['pools'])} {event['state']}{reason}"


def _reserve(event: Mapping[str, Any]) -> str:
    (start, end), *more = event["windows"]
    window = f"from {when(seconds(start))} until {when(seconds(FOREVER if end is None else end))}"
    again = f", and {plural(len(more), 'more window')}" if more else ""
    return f"{event['job']}: {folded_paths(event['pools'])} {window}{again}"


def _tag(event: Mapping[str, Any]) -> str:
    value = event.get("value")
    return f"{folded_paths(event['pools'])} {event['key']}" + ("" if value is None else f"={value}")


def _merge(event: Mapping[str, Any]) -> str:
    at = "" if event.get("at") is None else f" at {event['at']}"
    return f"{event.get('root', '')}{at}: {plural(event.get('added', 0), 'pool')} added"


def _unlink(event: Mapping[str, Any]) -> str:
    out_of = "" if event.get("hierarchy") is None else f" out of {event['hierarchy']}"
    return f"{event['pool']}{out_of}: {plural(event.get('removed', 0), 'pool')} removed"


def _edge(event: Mapping[str, Any]) -> str:
    values = event.get("attributes") or {}
    said = ", ".join(f"{key}={'none' if value is None else value}" for key, value in values.items())
    return f"{event['subsystem']}: {event['source']} -> {event['target']} ({event['relation']}){': ' * bool(said)}{said}"


def _load(event: Mapping[str, Any]) -> str:
    replaced = f", replaced {event['replaced']}" if event.get("replaced") else ""
    return f"{plural(event.get('count', 0), 'pool')}, {plural(event.get('jobs', 0), 'job')}{replaced}"


def _apply(event: Mapping[str, Any]) -> str:
    drained = event.get("drained")
    return f"{event.get('summary', '')}{f'; drained {folded_paths(drained)}' if drained else ''}"


def _undo(event: Mapping[str, Any]) -> str:
    first, last = event["first"], event["last"]
    events = f"event {first}" if first == last else f"events {first} to {last}"
    return f"{events}{': ' * bool(event.get('undone'))}{event.get('undone', '')}"


def _instance(event: Mapping[str, Any]) -> str:
    jobs: dict[str, list[str]] = {}
    for part in event["parts"]:
        jobs.setdefault(part["job"], []).append(part["name"])
    said = "; ".join(f"{job}: {' '.join(names)}" for job, names in jobs.items())
    return f"{event['instance']}: {event['what']}{': ' * bool(said)}{said}"


def _fields(event: Mapping[str, Any]) -> str:
    return " ".join(f"{key}={value}" for key, value in event.items() if key != "event" and value is not None)


_WORDS: Final = {"allocate_all": "allocate", "set_end": "extend", "expire": "free", "unreserve": "reserve"}
_TELL: Final[dict[str, Callable[[Mapping[str, Any]], str]]] = {
    "allocate": _allocate,
    "allocate_all": _allocate_all,
    "free": _free,
    "stage": _stage,
    "commit": lambda event: str(event["stage"]),
    "release": lambda event: str(event["stage"]),
    "set_end": lambda event: f"{event['job']}: until {when(seconds(FOREVER if event['end'] is None else event['end']))}",
    "renew": lambda event: f"{event['job']}: lease until {when(seconds(event['lease']))}",
    "expire": lambda event: f"records that ended before {when(seconds(event['before']))}",
    "state": _state,
    "reserve": _reserve,
    "unreserve": lambda event: f"{event['job']} removed",
    "tag": _tag,
    "untag": _tag,
    "merge": _merge,
    "unlink": _unlink,
    "move": lambda event: f"{event['pool']} to {event['to']}",
    "add_edge": _edge,
    "set_edge": _edge,
    "remove_edge": _edge,
    "load": _load,
    "apply": _apply,
    "undo": _undo,
    "redo": _undo,
    "instance": _instance,
}
