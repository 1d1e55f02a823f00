"""Random operations, most of which are possible in the state of an oracle."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.oracle import Oracle
from tests.strategies import JOBS, Integer, chance, pick

Operation = list[Any]
POOLS_MAX = 40
"""Above this number of pools no more are merged in."""

WEIGHTS = {
    "allocate": 36,
    "free": 18,
    "grow": 4,
    "stage": 6,
    "commit": 4,
    "release": 3,
    "pass_time": 4,
    "expire": 1,
    "set_end": 6,
    "state": 6,
    "tag": 2,
    "untag": 1,
    "copy": 2,
    "copy_job": 1,
    "duplicate": 1,
    "unlink": 1,
    "relink": 1,
    "merge_jobs": 1,
    "merge": 1,
    "save": 1,
}
"""How often each operation is chosen; those that make another machine cost as much as a hundred others."""


def some_key(integer: Integer, oracle: Oracle) -> str:
    keys = list(oracle.pools)
    return "/nowhere" if chance(integer, 100) else pick(integer, keys)


def some_window(integer: Integer, oracle: Oracle) -> tuple[int | None, int | None]:
    start = None if chance(integer, 4) else integer(0, oracle.horizon)
    low = max(oracle.now, oracle.now if start is None else start)
    is_later = start is not None and start > oracle.now
    if chance(integer, 40 if is_later else 3) or low >= oracle.horizon:
        return start, None
    return start, integer(low + 1, oracle.horizon) if not chance(integer, 60) else integer(0, low)


def some_targets(integer: Integer, oracle: Oracle) -> list[Any]:
    found: list[Any] = []
    for _ in range(1 if chance(integer, 2) else integer(1, 4)):
        edges = [key for key, edge in oracle.edges.items() if edge["size"]]
        key = pick(integer, edges) if edges and chance(integer, 4) else some_key(integer, oracle)
        size = oracle.accounts[key]["size"] if key in oracle.accounts else 1
        amount = None if chance(integer, 3) else integer(1, size) if not chance(integer, 40) else integer(0, size + 1)
        found.append([key, amount])
    if chance(integer, 8):
        found.append([pick(integer, found)[0], 1])  # a pool named twice
    return found


def held_targets(integer: Integer, oracle: Oracle, job: str) -> list[Any]:
    """Mostly pools that the job has."""
    keys = list(oracle.allocated(job))
    if not keys or chance(integer, 12):
        return some_targets(integer, oracle)
    found: list[Any] = []
    for _ in range(1 if chance(integer, 2) else integer(1, 3)):
        key = pick(integer, keys)
        amount = None if chance(integer, 2) else integer(1, oracle.accounts[key]["size"])
        found.append([key, amount])
    return found


def operation(integer: Integer, oracle: Oracle, jobs: tuple[str, ...], weights: dict[str, int] = WEIGHTS) -> Operation:
    """A random operation that is mostly possible in the state of the oracle."""
    name = pick(integer, [name for name, weight in weights.items() for _ in range(weight)])
    return CHOICES[name](integer, oracle, pick(integer, jobs))


def allocate(integer: Integer, oracle: Oracle, job: str) -> Operation:
    return ["allocate", job, some_targets(integer, oracle), *some_window(integer, oracle)]


def _free(integer: Integer, oracle: Oracle, job: str) -> Operation:
    targets = None if chance(integer, 5) else held_targets(integer, oracle, job)
    window = some_window(integer, oracle) if chance(integer, 3) else (None, None)
    return ["free", job, targets, *window]


def _stage(integer: Integer, oracle: Oracle, job: str) -> Operation:
    return ["stage", job, some_targets(integer, oracle), *some_window(integer, oracle), integer(1, 6)]


def _on_stage(name: str) -> Callable[[Integer, Oracle, str], Operation]:
    def choose(integer: Integer, oracle: Oracle, job: str) -> Operation:
        return [name, pick(integer, list(oracle.stages)) if oracle.stages and not chance(integer, 8) else integer(0, 3)]

    return choose


def _state(integer: Integer, oracle: Oracle, job: str) -> Operation:
    keys = [some_key(integer, oracle) for _ in range(integer(1, 2))]
    # Mostly back to up, or soon nothing could be allocated any more.
    states = ("up", "up", "up", "up", "down", "drain", "degraded", "failing", "unknown", "null", "sideways")
    return ["state", keys, pick(integer, states)]


def _merge(integer: Integer, oracle: Oracle, job: str) -> Operation:
    if len(oracle.pools) > POOLS_MAX:
        return ["unlink", some_key(integer, oracle)]
    at = None if chance(integer, 2) else pick(integer, [key for key in oracle.pools if key.startswith("/")])
    if at is not None and chance(integer, 2):
        at += f"/{pick(integer, ('rack7', 'rack8', 'extra', 'node0'))}"
    return ["merge", integer(0, 999), at]


def _unlink(integer: Integer, oracle: Oracle, job: str) -> Operation:
    key = some_key(integer, oracle)
    pdus = [k for k in oracle.pools if k.startswith("power:/")]
    if pdus and key.startswith("/") and chance(integer, 3):
        # Some pools of the tree are in this hierarchy, too.
        key = f"{pick(integer, pdus)}/{key.rpartition('/')[2]}"
    return ["unlink", key]


def _copy(integer: Integer, oracle: Oracle, job: str) -> Operation:
    key = next(iter(oracle.pools)) if oracle.edges and chance(integer, 2) else some_key(integer, oracle)
    return ["copy", key, integer(0, oracle.horizon), chance(integer, 5)]


def _copy_job(integer: Integer, oracle: Oracle, job: str) -> Operation:
    """Where jobs hold edges, mostly one that does, at a moment when it does."""
    on_edges = [(holder, t) for edge in oracle.edges for t, row in enumerate(oracle.held[edge]) for holder in row]
    held = [
        (holder, t)
        for holder, t in on_edges
        if isinstance(holder, str) and any(holder in oracle.held[k][t] for k in oracle.pools)
    ]
    job, tick = pick(integer, held) if held and not chance(integer, 4) else (job, integer(0, oracle.horizon))
    return ["copy_job", job, tick, chance(integer, 8)]


CHOICES: dict[str, Callable[[Integer, Oracle, str], Operation]] = {
    "allocate": allocate,
    "free": _free,
    "grow": lambda integer, oracle, job: ["grow", job, some_targets(integer, oracle)],
    "stage": _stage,
    "commit": _on_stage("commit"),
    "release": _on_stage("release"),
    "pass_time": lambda integer, oracle, job: ["pass_time", integer(0, 3)],
    "set_end": lambda integer, oracle, job: ["set_end", job, None if chance(integer, 5) else integer(0, oracle.horizon)],
    "expire": lambda integer, oracle, job: ["expire"],
    "state": _state,
    "tag": lambda integer, oracle, job: ["tag", some_key(integer, oracle), pick(integer, "ab"), pick(integer, (None, "x", "ü"))],
    "copy": _copy,
    "copy_job": _copy_job,
    "duplicate": lambda integer, oracle, job: ["duplicate", chance(integer, 2)],
    "unlink": _unlink,
    "relink": lambda integer, oracle, job: ["relink", some_key(integer, oracle), integer(0, oracle.horizon)],
    "merge_jobs": lambda integer, oracle, job: ["merge_jobs", job, pick(integer, JOBS), integer(0, oracle.horizon)],
    "merge": _merge,
    "save": lambda integer, oracle, job: ["save", pick(integer, ("file", "store", "changes")), chance(integer, 3)],
    "untag": lambda integer, oracle, job: ["untag", some_key(integer, oracle), pick(integer, ("a", "b"))],
}
