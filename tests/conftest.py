"""Shared by the complete suite: plugins, settings of Hypothesis, and options of the conformance tests.

The options are here and not in `tests/conformance`, because pytest reads options before it looks into subdirectories.
"""

from __future__ import annotations

import gc
import linecache
import os
import signal
import sys
from collections.abc import Generator, Iterable
from enum import Enum
from functools import cache
from pathlib import Path
from types import LambdaType
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

T = TypeVar("T")
TESTS = Path(__file__).parent

pytest_plugins = ["pytester", "tests.deeper", "tests.doctests", "tests.traceability"]

# The time of an example depends on the load of the machine, and no Hypothesis test measures time.
settings.register_profile("untimed", settings.default, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

# Tests start hundreds of processes; without bytecode on disk, each would compile the package again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# A suite in the background of a shell, or under nohup, ignores these, and so would the processes to which tests send them.
for number, default in (
    (signal.SIGINT, signal.default_int_handler),
    (signal.SIGQUIT, signal.SIG_DFL),
    (signal.SIGHUP, signal.SIG_DFL),
):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, default)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--cases", metavar="DIR", default=None, help="folder with recorded facts of other systems, for tests/conformance"
    )
    parser.addoption(
        "--service-store",
        choices=("sqlite", "postgresql", "etcd"),
        default="sqlite",
        help="kind of the stores below the servers of tests/service that have a file otherwise",
    )
    parser.addoption(
        "--minima", metavar="FILE", default=None, help="TOML file of how many of these cases must agree at least, suite by suite"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """The number of processes for `--numprocesses=auto`: two more than cores for a complete run, else only this one.

    Tests of programs and servers wait for these for more than half of their time.  Runs of a few files end before other
    processes have started, and tests that measure or print must run here.
    """
    whole = config.args_source is pytest.Config.ArgsSource.TESTPATHS and "not bench" in config.option.markexpr
    return len(os.sched_getaffinity(0)) + 2 if whole else 0


@pytest.hookimpl(wrapper=True)
def pytest_sessionstart(session: pytest.Session) -> Generator[None, object, object]:
    """While its workers collect, the first process makes Hypothesis keep its tables of characters on disk, once for all."""
    started = yield
    if session.config.pluginmanager.has_plugin("dsession"):
        st.text().validate()
    return started


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Nothing of what a collection makes is garbage."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_configure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput"):
        config.pluginmanager.register(_Apart())


class _Apart:
    """Each process of a run starts with another part of the tests, so that in a fresh clone each compiles others."""

    def pytest_collect_directory(self, path: Path, parent: pytest.Collector) -> pytest.Dir | None:
        return _Tests.from_parent(parent, path=path) if path == TESTS else None


class _Tests(pytest.Dir):
    def collect(self) -> Iterable[pytest.Item | pytest.Collector]:
        return _turned(list(super().collect()), self.config)


def _turned(things: list[T], config: pytest.Config) -> list[T]:
    """From the place of this process on, then those before it."""
    workerinput = getattr(config, "workerinput", None)
    if workerinput is None:
        return things
    place = len(things) * int(workerinput["workerid"].removeprefix("gw")) // workerinput["workercount"]
    return things[place:] + things[:place]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Long tests first: one that begins last would leave the other processes idle."""
    items.sort(key=lambda item: (item.get_closest_marker("long") is None, *_place(item.path)))
    # Hypothesis reads the constants of these modules in this order, and keeps them on disk.
    for name in _turned([name for name in sys.modules if name.startswith("fluxres.")], config):
        sys.modules[name] = sys.modules.pop(name)


@cache  # of hundreds of files with thousands of tests
def _place(path: Path) -> tuple[bool, str]:
    """Where the order of a single process has a file: the tests by name, then the package."""
    return (False, path.relative_to(TESTS).parts[0]) if path.is_relative_to(TESTS) else (True, "")


def pytest_collection_finish() -> None:
    """The items of a complete run are a million objects, through which each full collection would go again."""
    gc.collect()
    gc.freeze()


LONGEST_ID = 72


def pytest_make_parametrize_id(val: object) -> str | None:
    """Ids show the values. By default, pytest numbers containers, calls every lambda `<lambda>` and shortens nothing."""
    try:
        text = _shown(val)
    except RecursionError:
        return None
    if text is None:
        return None
    shown = text[:LONGEST_ID].encode("unicode_escape").decode()
    return shown if len(text) <= LONGEST_ID and len(shown) <= LONGEST_ID else shown[: LONGEST_ID - 3] + "..."


def _shown(value: object) -> str | None:
    """A value in the form of the test's source, the same in every process; None if it has no such form."""
    match value:
        case str():
            return value or "''"
        case bytes():
            return value[:LONGEST_ID].decode("latin-1")
        case None | Enum() | bool() | float():
            return str(value)
        case int():
            return str(value) if abs(value) < 10**LONGEST_ID else hex(value)
        case Path():
            return value.name
        case dict():
            return "{" + ", ".join(f"{_part(key)}: {_part(item)}" for key, item in value.items()) + "}"
        case list():
            return "[" + ", ".join(map(_part, value)) + "]"
        case tuple():
            return "(" + ", ".join(map(_part, value)) + ")"
        case set() | frozenset():
            return "{" + ", ".join(sorted(map(_part, value))) + "}"
        case LambdaType(__name__="<lambda>"):
            return _body(value)
    return getattr(value, "__name__", None)


def _part(value: object) -> str:
    shown = _shown(value)
    return type(value).__name__ if shown is None else shown


def _body(function: LambdaType) -> str | None:
    """The expression of a lambda, from its source."""
    places = [
        ((line, column), (end_line, end_column))
        for line, end_line, column, end_column in function.__code__.co_positions()
        if line is not None and end_line is not None and column is not None and end_column
    ]
    if not places:
        return None
    (line, column), (end_line, end_column) = min(start for start, _ in places), max(end for _, end in places)
    lines = [text.encode() for text in linecache.getlines(function.__code__.co_filename)[line - 1 : end_line]]
    lines[-1] = lines[-1][:end_column]
    lines[0] = lines[0][column:]
    return " ".join(b"".join(lines).decode().split())
