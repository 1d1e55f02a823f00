"""Programs in allocations of a store in PostgreSQL: launchers are killed, and the server restarts."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import fluxres
from fluxres import limits
from fluxres.store import Ticket, open_store
from tests.launch import runs
from tests.launch.runs import Workstation, wait_until
from tests.store.servers import Postgresql, postgresql


@dataclass
class Site(Workstation):
    """A machine whose store is in a database server.

    Args:
        url: of the store.
    """

    url: str = ""

    @property
    def environment(self) -> dict[str, str]:
        return {**super().environment, "FLUXRES_STORE": self.url, "XDG_DATA_HOME": str(self.folder)}

    def graph(self) -> fluxres.ResourceGraph:
        return open_store(self.url).load()

    def tickets(self) -> list[Ticket]:
        return open_store(self.url).tickets()

    def of_another_user(self) -> Site:
        """The same store as another user sees it, who has a directory for data of their own."""
        folder = self.folder / "another"
        folder.mkdir()
        return Site(folder, self.store, self.started, self.url)


@pytest.fixture(scope="module")
def server() -> Iterator[Postgresql]:
    with postgresql() as started:
        yield started


@pytest.fixture
def site(server: Postgresql, tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path, tmp_path / "unused.db", url=server.url)
    open_store(made.url).put("ws", fluxres.loads(runs.MACHINE), replace=True)
    try:
        yield made
    finally:
        made.end()


def waiting(place: Workstation, number: int = 1) -> None:
    wait_until(lambda: len(place.tickets()) == number)


def test_a_waiting_run_starts_when_launcher_and_guardian_are_killed(site: Site) -> None:
    first, _ = site.program("-g2")
    second = site.popen("run", "-g1", "--no-bind", "--wait", "--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES")
    waiting(site)
    launcher, guardian, program = site.processes(site.job_of(first))
    os.kill(guardian, signal.SIGKILL)
    os.kill(launcher, signal.SIGKILL)
    assert second.communicate(timeout=limits.QUEUE_LOOK_SECONDS / 2)[0] == "0\n"
    wait_until(lambda: not runs.is_running(program))
    assert site.graph().jobs() == []


def test_what_runs_and_what_waits_is_shown_and_canceled(site: Site) -> None:
    first, _ = site.program("-g2")
    second = site.popen("run", "-g1", "--wait", "--", "true")
    waiting(site)
    shown = json.loads(site.command("ps", "--json"))["programs"]
    assert [(one["state"], one["place"]) for one in shown] == [("running", None), ("waiting", 1)]
    site.command("cancel", *(one["job"] for one in reversed(shown)))
    assert (second.wait(), first.wait()) == (5, 143)
    assert (site.graph().jobs(), site.tickets()) == ([], [])


def test_programs_and_those_who_wait_outlive_a_restart_of_the_server(site: Site, server: Postgresql) -> None:
    go = site.folder / "go"
    first, _ = site.program("-g2", script=f"while ! test -e {go}; do sleep 0.02; done; exit 7")
    second = site.popen("run", "-g1", "--no-bind", "--wait", "--", "true")
    assert second.stderr is not None
    assert "waits for resources" in second.stderr.readline()
    server.control("stop", "-m", "immediate")
    assert "cannot be reached" in site.command("ps", status=4)
    assert "cannot be reached" in site.command("run", "--", "true", status=4)
    server.control("start")
    go.touch()
    assert (first.wait(), second.wait(limits.QUEUE_LOOK_SECONDS / 2)) == (7, 0)
    assert (site.graph().jobs(), site.tickets()) == ([], [])


def test_a_program_that_ends_while_there_is_no_server_is_freed_later(site: Site, server: Postgresql) -> None:
    go = site.folder / "go"
    first, _ = site.program("-g2", script=f"while ! test -e {go}; do sleep 0.02; done")
    server.control("stop", "-m", "immediate")
    go.touch()
    assert "is freed by the next command" in first.communicate(timeout=runs.PATIENCE_S)[1]
    assert first.returncode == 0
    server.control("start")
    assert site.command("run", "-g2", "--no-bind", "--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES") == "0,1\n"


def test_a_run_of_another_user_starts_soon_although_nobody_can_wake_it(site: Site) -> None:
    assert limits.QUEUE_ASK_SECONDS < limits.QUEUE_LOOK_SECONDS / 4
    first, _ = site.program("-g2")
    second = site.of_another_user().popen("run", "-g1", "--no-bind", "--wait", "--", "true")
    waiting(site)
    first.terminate()
    assert second.wait(limits.QUEUE_LOOK_SECONDS / 2) == 0
