"""`fluxres run` through a server: real servers, launchers and programs, any of which may be killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from queue import Queue
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

import fluxres
from fluxres import limits
from fluxres.allocation.facts import Launch
from fluxres.clock import TICKS_PER_S, seconds
from fluxres.errors import FluxresError, Forbidden, StoreError, UsageError
from fluxres.launch import desk, identity
from fluxres.service.caretaker import Caretaker
from fluxres.service.client.broker import ServerBroker
from fluxres.service.client.requests import of_graph
from fluxres.service.client.store import RemoteStore
from fluxres.store import open_store
from fluxres.store.mailbox import News
from fluxres.syntax import jobspec
from tests.launch import runs
from tests.launch.runs import Started, Workstation, is_running, wait_until
from tests.ports import free_port
from tests.service.conftest import Server, running

MARK = "0123456789abcdef01234567"
HASTY = {"RUN_RELEASE_SECONDS": 1.0}
"""For runs that try to reach a server that does not come back."""


class Shared:
    """A workstation whose store is served."""

    def __init__(self, place: Workstation, stack: ExitStack) -> None:
        self.place, self._stack = place, stack
        self.port = free_port()
        self.server = self.start()

    def start(self, *options: str) -> Server:
        """Start a server on the port that all of them have in turn."""
        url = f"sqlite://{self.place.store}"
        self.server = self._stack.enter_context(running(url, "--port", str(self.port), *options))
        return self.server

    def kill(self) -> None:
        self.server.process.kill()
        self.server.process.wait()

    def popen(self, *words: str, **settings: Any) -> Started:
        return self.place.popen(words[0], "--store", self.server.url, *words[1:], **settings)

    def command(self, *words: str, status: int = 0) -> str:
        return self.place.command(words[0], "--store", self.server.url, *words[1:], status=status)

    def program(self, *request: str, script: str = "", **settings: Any) -> tuple[Started, int]:
        return self.place.program("--store", self.server.url, "--no-bind", *request, script=script, **settings)

    def waiting(self, number: int = 1) -> None:
        wait_until(lambda: len(self.place.tickets()) == number)

    def answered(self, operation: str) -> int:
        """How many requests of an operation this server has answered."""
        text = self.server.connection().get("/metrics").body.decode()
        found = [
            line for line in text.splitlines() if line.startswith("fluxres_requests_total") and f'operation="{operation}"' in line
        ]
        return sum(round(float(line.rpartition(" ")[2])) for line in found)

    def apply(self, *, host: str | None = None, boot: str | None = None, **more: Any) -> dict[str, Any]:
        """The body of a run whose process is this one, or one of another host."""
        request = jobspec.as_request("slot/gpu=2")
        plain = {**jobspec.to_plain(request), "tasks": [{"command": ["a"], "slot": "task", "count": {"per_slot": 1}}]}
        return {
            "mark": MARK,
            "host": host or identity.host(),
            "boot": boot or identity.boot(),
            "processes": [identity.of(os.getpid())],
            "request": plain,
            **more,
        }

    def post(self, operation: str, body: dict[str, Any]) -> Any:
        return self.server.connection().post(of_graph("ws", operation), body, key=os.urandom(8).hex()).document()


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[Shared]:
    place = runs.workstation(tmp_path)
    with ExitStack() as stack:
        found = Shared(place, stack)
        stack.callback(place.end)  # before the server ends, to which the programs would turn for a while
        yield found


def test_a_program_runs_through_a_server_and_gives_everything_back(shared: Shared) -> None:
    script = "echo $FLUXRES_JOB $CUDA_VISIBLE_DEVICES $FLUXRES_STORE $FLUXRES_GRAPH; exit 7"
    said = shared.command("run", "-g1", "--no-bind", "--", "sh", "-c", script, status=7)
    assert said == f"r1 0 {shared.server.url} ws\n"
    assert [entry.event["event"] for entry in open_store(str(shared.place.store)).log()] == ["load", "allocate", "free"]
    assert shared.place.graph().jobs() == []


def test_a_run_without_wait_is_refused_with_the_reason(shared: Shared) -> None:
    shared.program("-g2", "--duration", "1h")
    said = json.loads(shared.command("run", "-g1", "--json", "--", "true", status=1))
    assert said["error"] == "insufficient"
    assert said["earliest"] > time.time() + 3000
    assert "never" in shared.command("run", "-g3", "--wait", "--", "true", status=3)


def test_a_run_that_waits_is_woken_when_another_one_ends(shared: Shared) -> None:
    """The server pushes the grant: the next look by itself comes after a third of the lease, 20 s."""
    first, _ = shared.program("-g2", "--lease", "1h")
    second = shared.popen("run", "-g1", "--wait", "--lease", "1h", "--no-bind", "--", "true")
    shared.waiting()
    first.terminate()
    assert second.wait(runs.PATIENCE_S) == 0
    assert "place 1 of 1" in second.communicate()[1]


def test_runs_on_the_store_and_through_the_server_have_one_queue(shared: Shared) -> None:
    place = shared.place
    first, _ = place.program("-g2", "--no-bind")
    order = place.folder / "order"
    served = shared.popen("run", "-g2", "--wait", "--no-bind", "--", "sh", "-c", f"echo served >> {order}")
    shared.waiting(1)
    direct = place.popen("run", "-g2", "--wait", "--no-bind", "--", "sh", "-c", f"echo direct >> {order}")
    shared.waiting(2)
    last = shared.popen("run", "-g2", "--wait", "--no-bind", "--", "sh", "-c", f"echo last >> {order}")
    shared.waiting(3)
    states = [(one["job"], one["state"], one["place"]) for one in json.loads(shared.command("ps", "--json"))["programs"]]
    assert states == [("r1", "running", None), ("r2", "waiting", 1), ("r3", "waiting", 2), ("r4", "waiting", 3)]
    first.terminate()
    assert [one.wait(runs.PATIENCE_S) for one in (served, direct, last)] == [0, 0, 0]
    assert order.read_text().split() == ["served", "direct", "last"]


@pytest.mark.parametrize("killed", [["launcher"], ["guardian"], ["program"], ["launcher", "guardian"]])
def test_rule_h1_what_the_dead_held_is_given_back_by_the_server(shared: Shared, killed: list[str]) -> None:
    process, program = shared.program("-g2", script="setsid sleep 1000 & sleep 1000")
    second = shared.popen("run", "-g1", "--wait", "--no-bind", "--", "true")
    shared.waiting()
    ids = dict(zip(("launcher", "guardian", "program"), shared.place.processes("r1"), strict=True))
    for name in reversed(killed):
        os.kill(ids[name], signal.SIGKILL)
    assert second.wait(runs.PATIENCE_S) == 0
    process.wait()
    wait_until(lambda: not is_running(program))
    assert shared.place.graph().jobs() == []


def test_a_waiter_that_was_killed_blocks_nobody(shared: Shared) -> None:
    first, _ = shared.program("-g2")
    second = shared.popen("run", "-g2", "--wait", "--no-bind", "--", "true")
    shared.waiting()
    second.kill()
    wait_until(lambda: not shared.place.tickets())
    first.terminate()
    shared.command("run", "-g2", "--no-bind", "--wait", "--", "true")


def test_ctrl_c_takes_a_waiting_run_out_of_the_queue(shared: Shared) -> None:
    shared.program("-g2")
    second = shared.popen("run", "-g2", "--wait", "--no-bind", "--", "true")
    shared.waiting()
    second.send_signal(signal.SIGINT)
    assert second.wait(runs.PATIENCE_S) == 130
    assert shared.place.tickets() == []


def test_one_waits_no_longer_than_it_may(shared: Shared) -> None:
    shared.program("-g2")
    assert "within 0.5 s" in shared.command("run", "-g1", "--wait=0.5", "--no-bind", "--", "true", status=1)
    assert shared.place.tickets() == []


# -- a server that ends ----------------------------------------------------------------------------------------------------


def lease(place: Workstation, job: str) -> float:
    launch = place.graph().facts(job).launch
    assert launch is not None
    assert launch.lease is not None
    return seconds(launch.lease)


def test_a_program_outlives_a_restart_of_the_server(shared: Shared) -> None:
    process, program = shared.program("-g2", "--lease", "3")
    waiter = shared.popen("run", "-g1", "--wait", "--lease", "60", "--no-bind", "--", "true")
    shared.waiting()
    wait_until(lambda: shared.answered("run") == 2)  # the waiter knows that it waits
    shared.kill()
    before = lease(shared.place, "r1")
    time.sleep(1.0)
    assert is_running(program)
    shared.start()
    wait_until(lambda: lease(shared.place, "r1") > before)
    assert is_running(program)
    os.kill(program, signal.SIGTERM)
    assert process.wait(runs.PATIENCE_S) == 143
    said = waiter.communicate(timeout=runs.PATIENCE_S)
    assert waiter.returncode == 0, said
    assert shared.place.graph().jobs() == []


def test_free_is_tried_again_until_the_server_is_back(shared: Shared) -> None:
    process, program = shared.program("-g2")
    shared.kill()
    os.kill(program, signal.SIGTERM)
    wait_until(lambda: not is_running(program))
    time.sleep(0.7)
    assert process.poll() is None
    shared.start()
    assert process.wait(runs.PATIENCE_S) == 143
    assert "cannot be reached" not in process.communicate()[1]
    assert shared.place.graph().jobs() == []


def test_a_server_that_is_gone_at_the_end_keeps_the_status_of_the_program(shared: Shared) -> None:
    go = shared.place.folder / "go"
    process, _ = shared.program("-g2", script=f"while ! test -e {go}; do sleep 0.05; done; exit 7", bounds=HASTY)
    shared.kill()
    go.touch()
    assert process.wait(runs.PATIENCE_S) == 7
    said = process.communicate()[1]
    assert "what job r1 holds is freed when its lease is over" in said
    assert "the server cannot be reached" in said
    assert json.loads(shared.place.command("ps", "--json")) == {"programs": []}  # who looks at the store sees the processes


def test_one_who_waits_gives_up_when_the_server_is_gone_for_a_lease(shared: Shared) -> None:
    shared.program("-g2", bounds=HASTY)
    second = shared.popen("run", "-g1", "--wait", "--lease", "1", "--no-bind", "--", "true", bounds=HASTY)
    assert second.stderr is not None
    assert "waits for resources" in second.stderr.readline()  # now, the server has answered it
    shared.kill()
    assert second.wait(runs.PATIENCE_S) == 4
    assert "the server has not answered for 1 s" in second.communicate()[1]


def test_a_run_tries_for_a_bounded_time_to_free(shared: Shared, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "RUN_RELEASE_SECONDS", 0.05)
    broker = ServerBroker(RemoteStore(shared.server.url), "ws", limits.RUN_LEASE_SECONDS_DEFAULT, "")
    assert broker.look() == desk.GONE
    shared.kill()
    tries = list[float]()
    monkeypatch.setattr(broker._server.connection, "post", partial(_refused, tries))
    with pytest.raises(StoreError, match="not there"):
        broker.release()
    assert len(tries) == 2


def _refused(tries: list[float], *_: object, **__: object) -> None:
    tries.append(time.monotonic())
    raise StoreError("not there")


def test_the_lease_through_a_server_is_a_minute_by_default(shared: Shared) -> None:
    begun = time.time()
    shared.program("-g1")
    assert limits.RUN_LEASE_SECONDS_DEFAULT <= lease(shared.place, "r1") - begun < limits.RUN_LEASE_SECONDS_DEFAULT + 30


def test_a_lease_through_a_server_has_an_end(shared_once: Shared) -> None:
    assert "--lease: expected an end" in shared_once.command("run", "--lease", "inf", "--", "true", status=2)


def test_a_server_that_was_never_there(tmp_path: Path) -> None:
    place = runs.workstation(tmp_path)
    assert "fluxres serve" in place.command("run", "--store", "http://127.0.0.1:9", "--", "true", status=4)


# -- processes on another machine ------------------------------------------------------------------------------------------


def test_what_another_machine_holds_ends_with_its_lease(shared: Shared) -> None:
    found = shared.post("run", shared.apply(host="elsewhere", lease_s=1.0))
    assert (found["job"], found["state"]) == ("r1", "running")
    assert shared.post("renew", {"mark": MARK, "lease_s": 1.5})["state"] == "running"
    shared.command("run", "-g2", "--wait", "--no-bind", "--", "true")
    log = open_store(str(shared.place.store)).log(job="r1")
    assert [(one.event["event"], one.event.get("reason")) for one in log][-1] == ("free", "its lease is over")
    assert shared.post("renew", {"mark": MARK})["state"] == "gone"


def test_leases_are_spared_once_for_each_lead(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    spared, rounds = list[int](), Queue[None]()
    monkeypatch.setattr(desk, "spare", lambda *_given: spared.append(lead.epoch))
    lead = SimpleNamespace(is_leading=True, epoch=3)
    graph = fluxres.load({"fluxres": 1, "name": "ws", "resources": [{"type": "node"}]}, clock=time.time)
    served = SimpleNamespace(
        name="ws", graph=graph, spared_in=None, catch_up=lambda: None, refresh=lambda: rounds.put(None), instances=None
    )
    store = SimpleNamespace(path=tmp_path / "site.db", settle=lambda: None, tickets=lambda _name: [])
    caretaker = Caretaker(store, lead, lambda: [served], lambda _served: None)
    caretaker.spare(served)
    caretaker.start()
    rounds.get(timeout=20)
    assert spared == [3]  # a lease that a run got since then stays
    lead.epoch = 4
    caretaker.look("ws")
    rounds.get(timeout=20)
    rounds.get(timeout=20)
    caretaker.close()
    assert spared == [3, 4]


def test_a_machine_with_the_name_of_this_one_is_another_one(shared: Shared) -> None:
    shared.post("run", shared.apply(boot="other-boot/1"))
    launch = shared.place.graph().facts("r1").launch
    assert launch is not None
    assert launch.host == f"{identity.host()}#other-bo"
    shared.command("run", "-g1", "--no-bind", "--", "true", status=1)  # it is not taken for one of a boot before


def test_a_request_of_another_machine_waits_and_is_granted(shared: Shared) -> None:
    process, _ = shared.program("-g2")
    body = shared.apply(host="elsewhere", waits=True)
    assert shared.post("run", body)["state"] == "waiting"
    assert shared.post("run", body)["state"] == "waiting"  # a request that is repeated
    assert len(shared.place.tickets()) == 1
    stream = shared.server.connection().stream(f"{of_graph('ws', 'news')}?mark={MARK}")
    assert next(stream) == b": following"
    process.terminate()
    news = [msgspec.json.decode(line[6:], type=News) for line in until_data(stream)]
    assert news[-1].is_granted
    assert shared.post("renew", {"mark": MARK})["state"] == "running"
    assert shared.post("end", {"mark": MARK})["state"] == "gone"
    assert shared.place.graph().jobs() == []


def until_data(stream: Iterator[bytes]) -> Iterator[bytes]:
    for line in stream:
        if line.startswith(b"data: "):
            yield line
            if b"is_granted" in line:
                return


def test_cancel_reaches_a_launcher_on_another_machine(shared: Shared) -> None:
    shared.post("run", shared.apply(host="elsewhere"))
    stream = shared.server.connection().stream(f"{of_graph('ws', 'news')}?mark={MARK}")
    assert next(stream) == b": following"
    cancel = shared.popen("cancel", "r1", "--grace", "2")
    line = next(line for line in stream if line.startswith(b"data: "))
    assert msgspec.json.decode(line[6:], type=News).grace_s == 2.0
    assert cancel.poll() is None  # it waits until the job holds nothing
    shared.post("end", {"mark": MARK})
    assert cancel.communicate(timeout=runs.PATIENCE_S)[0] == "r1 is canceled\n"


def test_a_launcher_is_told_to_end_its_program(shared: Shared) -> None:
    process, program = shared.program("-g2")
    server = RemoteStore(shared.server.url)
    assert server.cancel("ws", "r1", 1.0, command="") == "running"
    assert process.wait(runs.PATIENCE_S) == 143
    assert not is_running(program)
    wait_until(lambda: not shared.place.graph().jobs())
    assert server.cancel("ws", "r1", 1.0, command="") == "ended"


def test_leases_are_spared_after_a_time_without_a_server(shared: Shared) -> None:
    shared.post("run", shared.apply(host="elsewhere", lease_s=1.0))
    shared.kill()
    time.sleep(1.2)
    shared.start()
    assert shared.post("renew", {"mark": MARK, "lease_s": 60.0})["state"] == "running"


# -- ps, wait, cancel, shell -----------------------------------------------------------------------------------------------


def watched(pid: int) -> int:
    """How many processes another one watches."""
    names = []
    for file in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):
            names.append(os.readlink(file))
    return names.count("anon_inode:[pidfd]")


def test_wait_and_cancel_work_through_a_server(shared: Shared) -> None:
    first, program = shared.program("-g2")
    second = shared.popen("run", "-g1", "--wait", "--no-bind", "--", "true")
    shared.waiting()
    waits = shared.popen("wait", "r1", "r2")
    wait_until(lambda: watched(waits.pid))
    assert shared.command("cancel", "r2", "r1") == "r2 is canceled\nr1 is canceled\n"
    assert (first.wait(), second.wait(), waits.wait(runs.PATIENCE_S)) == (143, 5, 143)
    assert not is_running(program)
    assert shared.command("cancel", "r1") == "r1 has ended already\n"
    assert "no job 'r9'" in shared.command("cancel", "r9", status=2)
    assert (shared.place.graph().jobs(), shared.place.tickets()) == ([], [])


def test_a_shell_runs_through_a_server(shared: Shared) -> None:
    shell = shared.popen("shell", "-g1", "--no-bind", stdin=subprocess.PIPE)
    out, _ = shell.communicate("echo got $CUDA_VISIBLE_DEVICES\n", timeout=runs.PATIENCE_S)
    assert "got 0" in out


def test_a_dry_run_and_pools_by_name(shared: Shared) -> None:
    shown = json.loads(shared.command("run", "gpu1@ws", "--dry-run", "--json"))
    assert [one["path"] for one in shown["pools"]] == ["/ws/ws/gpu1"]
    assert shared.command("run", "gpu1@ws", "--no-bind", "--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES") == "1\n"


def test_an_end_that_is_moved_earlier_on_the_server_ends_the_program(shared: Shared) -> None:
    begun = time.monotonic()
    process, _ = shared.program("-g1", "--duration", "1h", "--grace", "0.5")
    shared.command("extend", "r1", "+1s")  # one hour and a second
    shared.command("extend", "r1", "--duration", f"{time.monotonic() - begun + 4:.1f}")
    assert process.wait(runs.PATIENCE_S) == 143
    assert "the time of job r1 is over" in process.communicate()[1]


# -- who may ask what ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong",
    [
        {"mark": "../../etc/passwd"},
        {"mark": MARK.upper() + "G"},
        {"lease_s": 0.0},
        {"lease_s": limits.RUN_LEASE_SECONDS_MIN / 2},
        {"processes": []},
        {"processes": [[0, 0]]},
        {"processes": [[1, 1]] * 9},
        {"request": None},
        {"pools": [["/ws/ws/gpu0", None]]},
        {"request": None, "pools": [["/ws/ws/gpu9", None]]},
        {"request": {"version": 1}},
        {"priority": 2**31},
        {"duration_s": -1.0},
        {"job": ""},
        {"name": "a\nb"},
    ],
)
def test_wrong_requests_are_refused_and_change_nothing(shared_once: Shared, wrong: dict[str, Any]) -> None:
    before = len(open_store(str(shared_once.place.store)).log())
    with pytest.raises(FluxresError) as found:
        shared_once.post("run", shared_once.apply() | wrong)
    assert not isinstance(found.value, Forbidden)
    assert len(open_store(str(shared_once.place.store)).log()) == before


@pytest.fixture(scope="module")
def shared_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    place = runs.workstation(tmp_path_factory.mktemp("once"))
    with ExitStack() as stack:
        yield Shared(place, stack)


def test_only_the_user_of_a_job_may_cancel_it(shared: Shared, tmp_path: Path) -> None:
    tokens = tmp_path / "tokens.toml"
    roles = {"ada": "scheduler", "bob": "scheduler", "boss": "admin", "eve": "read-only"}
    tokens.write_text("".join(f'[tokens.{name}]\nrole = "{role}"\ntoken = "{name * 8}"\n' for name, role in roles.items()))
    shared.kill()
    server = shared.start("--tokens", str(tokens))

    def post(name: str, operation: str, body: dict[str, Any]) -> Any:
        connection = server.connection(name * 8)
        return connection.post(of_graph("ws", operation), body, key=os.urandom(8).hex()).document()

    with pytest.raises(Forbidden):
        post("eve", "run", shared.apply())
    assert post("ada", "run", shared.apply(user="root"))["job"] == "r1"
    assert shared.place.graph().facts("r1").user == "ada"
    with pytest.raises(Forbidden, match="another user"):
        post("bob", "cancel", {"job": "r1"})
    assert post("ada", "cancel", {"job": "r1"})["was"] == "running"
    assert post("boss", "cancel", {"job": "r1"})["was"] == "running"
    assert open_store(str(shared.place.store)).log()[-1].user == "ada"


def test_cancel_leaves_other_allocations_alone(shared: Shared) -> None:
    shared.command("allocate", "gpu0@ws", "--job", "j1")
    with pytest.raises(UsageError, match="is not a job of run or shell"):
        shared.post("cancel", {"job": "j1"})


# -- at the desk -----------------------------------------------------------------------------------------------------------


def test_a_lease_of_one_who_waits_is_renewed(tmp_path: Path) -> None:
    place = runs.workstation(tmp_path)
    store = open_store(str(place.store))
    launch = Launch("elsewhere", "boot", ((1, 1),), MARK)
    request = jobspec.as_request("slot/gpu=2")
    store_job(place, "j1")

    def asking(_graph: object) -> desk.Application:
        plain = {**jobspec.to_plain(request), "tasks": [{"command": ["a"], "slot": "task", "count": {"per_slot": 1}}]}
        return desk.Application(launch, "ada", None, True, None, 0, request, plain, (), None, "first", False, 1.0, True)

    standing, graph = desk.enter(store, "ws", MARK, asking, desk.Author())
    assert (standing.state, graph) == ("waiting", None)
    first = store.tickets()[0].launch.lease
    assert desk.renew(store, "ws", MARK, 100.0, desk.Author()).state == "waiting"
    renewed = store.tickets()[0].launch.lease
    assert first is not None
    assert renewed is not None
    assert renewed > first + 90 * TICKS_PER_S
    desk.release(store, "ws", MARK, desk.Author())
    assert desk.renew(store, "ws", MARK, 100.0, desk.Author()) == desk.GONE


def store_job(place: Workstation, job: str) -> None:
    with open_store(str(place.store)).writing() as transaction:
        transaction.graph.allocate("slot/gpu=2", job=job)


def test_a_small_campaign_of_kills_through_a_server_leaves_nothing(tmp_path: Path) -> None:
    command = [*runs.FLUXRES[:1], "-m", "tests.launch.run_campaign", "--server", "--runs", "10", "--at-once", "4", "--seed", "7"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=400)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "nothing was held twice, and nothing is left" in done.stdout
