"""Commands on a server print what they print on a store, and change the same."""

from __future__ import annotations

import json
import shlex
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

import fluxres
from fluxres import clock
from fluxres.cli.program import program, run
from fluxres.errors import RevisionConflict
from fluxres.service.client.requests import Request
from fluxres.service.client.store import RemoteStore
from fluxres.store import journal
from tests.forks import Fork
from tests.service.conftest import DEMO, Server, demo_store, running


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running(demo_store(tmp_path_factory.mktemp("shared"))) as found:
        found.connection().make(Request("POST", "/v1/graphs?name=spare", json.dumps(DEMO).encode()))
        yield found


@pytest.fixture
def alone(tmp_path: Path) -> str:
    return demo_store(tmp_path)


SCRIPT = """\
info
show
allocate slot=2/node --job j1 --start 2100-01-01T08:00 --duration 1h --user ada
allocate -N1 -c4 --job j2 --start 2100-01-01T08:00 --duration 2h --user ada --json
allocate /demo/rack1/node3 --job j3 --start 2100-01-01T08:00 --end 2100-01-01T10:00 --user ada -o paths
allocate slot=8/node --job j4 --start 2100-01-01T08:00 --duration 1h --user ada
allocate slot=8/node --job j4 --start 2100-01-01T08:00 --duration 1h --user ada --or-reserve
jobs --start 2100-01-01T08:30
jobs j1 --start 2100-01-01T08:30 -o R
grow j1 slot=1/node
shrink j1 slot=1/node
extend j1 2100-01-01T09:30
when slot=8/node --start 2100-01-01T08:00 --duration 1h
why slot=8/node --start 2100-01-01T08:00 --duration 1h
why slot=9/node
find type=node and available>0 --start 2100-01-01T08:30
state /demo/rack0/node0 drain --reason fan
nodes
tag /demo/rack0 window=may
reserve /demo/rack1 --name service --start 2100-02-01 --duration 8h
free j1
free j9
check
timeline --start 2100-01-01T08:00 --for 4h
allocate slot=1/node --job dry --dry-run --user ada --start 2100-03-01 --duration 1h
state /demo/rack0/node0 up
"""


def words_of(line: str) -> list[str]:
    """A line of the script; what `find` looks for needs no quotes there."""
    words = shlex.split(line)
    return ["find", " ".join(words[1:-2]), *words[-2:]] if words[0] == "find" else words


def test_commands_print_the_same_on_a_server(shared: Server, alone: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "system", clock.fixed(clock.system()))
    monkeypatch.delenv("FLUXRES_STORE", raising=False)
    for line in SCRIPT.splitlines():
        words = words_of(line)
        local = CliRunner().invoke(program, ["--store", alone, *words])
        remote = CliRunner().invoke(program, ["--store", shared.url, *words])
        assert (remote.exit_code, remote.output) == (local.exit_code, local.output), line
    assert fluxres.load(shared.store).jobs() == fluxres.load(alone).jobs() == ["j2", "j3", "j4"]


def test_the_journal_has_the_command_and_who_gave_it(shared: Server) -> None:
    words = ["--store", shared.url, "tag", "/demo/rack0", "traced"]
    assert run(words) == 0
    last = RemoteStore(shared.url).log(limit=1)[0]
    assert (last.event["event"], last.command) == ("tag", f"fluxres {' '.join(words)}")
    assert last.user


def test_undo_is_in_the_journal_as_the_command_that_it_was(shared: Server) -> None:
    for line in (["unlink", "/demo/rack1"], ["undo"]):
        words = ["--store", shared.url, "--graph", "spare", *line]
        assert CliRunner().invoke(program, words).exit_code == 0
        assert RemoteStore(shared.url).log("spare", limit=1)[0].command == f"fluxres {' '.join(words)}"


def test_a_graph_of_a_server_is_saved_as_a_file(shared: Server, tmp_path: Path) -> None:
    for name in ("spare.yaml", "spare.json.gz"):
        done = CliRunner().invoke(program, ["--store", shared.url, "--graph", "spare", "save", str(tmp_path / name)])
        assert done.exit_code == 0, done.output
        assert fluxres.load(tmp_path / name).find("type=node").paths() == fluxres.load(DEMO).find("type=node").paths()


@pytest.mark.parametrize(
    "line", ["store check", "save copy.db", "save spare.yaml --changed-only", "store compact", "merge x.yaml"]
)
def test_what_a_server_does_not_do_is_refused(shared: Server, line: str) -> None:
    before = len(RemoteStore(shared.url).log())
    result = CliRunner().invoke(program, ["--store", shared.url, *line.split()])
    assert result.exit_code == 2
    assert "server" in result.output or "x.yaml" in result.output
    assert len(RemoteStore(shared.url).log()) == before


def test_a_command_decides_again_when_others_were_faster(
    shared: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    send, tries = RemoteStore._send, list[int]()

    def interrupted(self: RemoteStore, name: str, events: list[dict[str, object]], command: str, revision: str | None) -> None:
        tries.append(len(tries))
        if len(tries) == 1:  # somebody takes the same node just before
            with fluxres.connect(shared.url) as graph:
                graph.allocate([str(events[0]["pools"][0][0])], job="faster", start=5e9, duration_s=60)
        send(self, name, events, command, revision)

    monkeypatch.setattr(RemoteStore, "_send", interrupted)
    words = ["--store", shared.url, "allocate", "slot=1/node", "--job", "slower", "--start", "5000000000", "--duration", "60"]
    assert run([*words, "-o", "paths"]) == 0
    assert len(tries) == 2
    with fluxres.connect(shared.url) as graph:
        taken = graph.allocation("faster", at=5e9).pools[0].path
        got = graph.allocation("slower", at=5e9).pools[0].path
    assert taken != got
    assert capsys.readouterr().out == f"{got}\n"
    assert issubclass(RevisionConflict, fluxres.StoreConflict)


def test_a_server_that_is_not_there_is_a_trouble_of_the_store() -> None:
    result = CliRunner().invoke(program, ["--store", "http://127.0.0.1:9", "jobs"])
    assert result.exit_code == 4
    assert "fluxres serve" in result.output


@pytest.mark.parametrize("url", ["http://", "http://127.0.0.1:99999", "http://u:secret@127.0.0.1", "http://127.0.0.1/graphs"])
def test_wrong_addresses_are_refused(url: str) -> None:
    result = CliRunner().invoke(program, ["--store", url, "jobs"])
    assert result.exit_code == 4
    assert "secret" not in result.output


@pytest.mark.parametrize("where", ["store", "server"])
def test_instances_are_kept_for_commands(where: str, tmp_path: Path) -> None:
    store = demo_store(tmp_path)
    if where == "server":
        with running(store) as server:
            _use_instances(server.url, tmp_path)
    else:
        _use_instances(store, tmp_path)
    with fluxres.open(store) as graph:
        assert graph.jobs() == []


@pytest.fixture(params=["store", "server"])
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A store with the demo machine: itself, or a server on it."""
    store = demo_store(tmp_path)
    if request.param == "store":
        yield store
        return
    with running(store) as server:
        yield server.url


Do = Callable[..., str]


@pytest.fixture
def do(kept: str) -> Do:
    """Runs `fluxres instance …`, and returns what it printed, on both streams."""

    def run(*words: str, status: int = 0) -> str:
        result = CliRunner().invoke(program, ["--store", kept, "instance", *words])
        assert result.exit_code == status, result.output
        return result.output.rstrip("\n")

    return run


def test_dependencies_of_an_instance_are_refused_as_a_whole(do: Do) -> None:
    do("create", "main")
    job = do("submit", "slot=1/node")
    do("finish", job, "--status", "256")
    for words, told in {
        f"afterok:{job}?afterany:{job}": "there is no `?`",
        f"afterok:{job},afterany:{job}": "repeat --dependency for each",
        f"afterok:{job}:{job}": "repeat --dependency for each",
        "begin-time:+1h,afterok:f2": "repeat --dependency for each",
        f"afterok:{job}?type=out": "no keys",
    }.items():
        assert told in do("submit", "slot=1/node", "--dependency", words, status=2)
    told = do("submit", "slot=1/node", "--dependency", f"afterok:{job}", status=2)
    assert f"afterok:{job} can never be satisfied: job {job} did not complete (leave it out" in told
    assert len(do("queue", "-a").splitlines()) == 2
    both = do("submit", "slot=1/node", "--dependency", f"afternotok:{job}", "--dependency", f"afterany:{job}")
    assert f"{both}: canceled" in do("cancel", both)


@pytest.mark.parametrize("wrong", ["", "a\nb", "x" * 5000])
def test_names_in_an_instance_are_printable_and_short(do: Do, wrong: str) -> None:
    do("create", "main")
    for option in ("name", "user", "account", "qos"):
        told = do("submit", "slot=1/node", f"--{option}", wrong, status=2)
        assert f"{option}: expected 1 to 255 printable characters" in told
    reserve = ("reserve", "slot=1/node", "--start", "+1h", "--duration", "1h")
    for option in ("name", "user"):
        assert f"{option}: expected 1 to 255 printable characters" in do(*reserve, f"--{option}", wrong, status=2)
    assert do("queue", "-a") == "fluxres: no jobs"
    job = do("submit", "slot=1/node")
    for words in (("create", wrong), ("spawn", job, "--name", wrong)):
        assert "use up to 64 letters, digits and any of . _ -" in do(*words, status=2)


def test_sizes_have_a_unit_and_jobs_beyond_a_limit_are_told_so(do: Do, tmp_path: Path) -> None:
    rules = tmp_path / "site.yaml"
    rules.write_text(
        "accounts: {physics: {grp_size: 2}, optics: {parent: physics}}\n"
        "qos: {normal: {}, strict: {deny_on_limit: true}}\n"
        "partitions: {batch: {default: true, max_size_of_job: 4}}\n"
    )
    assert "no pool of type 'nod' (choose from cluster, rack, node" in do("create", "main", "--unit", "nod", status=2)
    do("create", "main", "--unit", "node", "--accounting", str(rules))
    assert "requests more than max_size_of_job allows: 4 nodes (requested: 5 nodes)" in do("submit", "-N5", "-x", status=3)
    denied = do("submit", "-N3", "-x", "--account", "optics", "--qos", "strict", status=3)
    assert "account physics: requests more than grp_size allows: 2 nodes (requested: 3 nodes)" in denied
    said, first = do("submit", "-N3", "-x", "--account", "optics").splitlines()
    never = "can never start: account physics: requests more than grp_size allows: 2 nodes"
    assert said == f"fluxres: {first} {never}"
    runs, waits = (do("submit", "-N2", "-x", "--account", "optics") for _ in range(2))
    lines = do("queue").splitlines()
    assert [" ".join(line.split()) for line in lines[1:]] == [
        " ".join(line.split()) for line in lines[1:] if "3 nodes" in line or "2 nodes" in line
    ]
    assert lines[1].endswith(never)
    assert f"{runs} " in lines[2]
    assert lines[3].endswith("account physics: grp_size is 2 nodes")
    shown = [line.split() for line in do("show", waits).splitlines()]
    assert ["size", "2", "nodes"] in shown
    assert "no account 'optcs' (did you mean optics?)" in do("submit", "-N1", "--account", "optcs", status=2)
    assert do("list", "--json").count('"unit": "node"') == 1


def test_an_account_is_a_name_without_accounting(do: Do) -> None:
    do("create", "main")
    said, job = do("submit", "slot=1/node", "--account", "any of mine").splitlines()
    assert said.startswith(f"fluxres: main has no accounting: --account of {job} is only recorded")
    assert ["account", "any", "of", "mine"] in [line.split() for line in do("show", job).splitlines()]


def test_a_child_says_when_it_ends_before_a_job(do: Do) -> None:
    do("create", "main")
    job = do("submit", "slot=2/node", "--duration", "1h")
    assert do("spawn", job, "--name", "part") == "main/part"
    assert do("submit", "slot=1/core", "--duration", "10m", "-i", "main/part").count("\n") == 0
    said, inner = do("submit", "slot=1/core", "--duration", "2h", "-i", "main/part").splitlines()
    assert said.startswith(f"fluxres: {inner} ends with its instance at ")
    assert said.endswith(", before its own limit")
    assert [line.split()[0] for line in do("show", inner, "-i", f"main/{job}").splitlines()].count("expires") == 1


def test_jobs_reserved_ahead_have_a_user_and_a_name(do: Do, kept: str) -> None:
    do("create", "main")
    words = ("--duration", "1h", "--user", "ada", "--name")
    asked = do("reserve", "slot=1/node", "--start", "+1h", *words, "asked")
    named = do("reserve", "/demo/rack1/node2", "--start", "+2h", *words, "named")
    lines = CliRunner().invoke(program, ["--store", kept, "jobs"]).output.splitlines()
    found = {line.split()[0]: line.split()[1:4] for line in lines[1:]}
    assert found == {asked: ["ada", "asked", "planned"], named: ["ada", "named", "planned"]}


def _use_instances(store: str, folder: Path) -> None:
    rules = folder / "site.yaml"
    rules.write_text("users: {ada: {max_jobs: 1}}\npartitions: {debug: {max_time: 2h}, batch: {default: true}}\n")

    def do(line: str, status: int = 0) -> str:
        result = CliRunner().invoke(program, ["--store", store, "instance", *shlex.split(line)])
        assert result.exit_code == status, result.output
        return result.output.rstrip("\n")

    assert "the graph has no instance" in do("submit slot=1/node", 2)
    assert do(f"create main -Q fcfs --accounting {rules}") == "main schedules by fcfs"
    assert "there is already an instance 'main'" in do("create main", 2)
    first = do("submit slot=6/node --duration 1h --user ada --name first")
    second = do("submit -N1 -x -p debug --user ada")
    assert "no partition 'dbug' (did you mean debug?)" in do("submit -N1 -p dbug", 2)
    assert "no partition 'x' (choose from debug, batch)" in do("submit -N1 -p x", 2)
    third = do(f"submit -N1 --dependency afterany:{first} --user bob")
    assert "there are only 8" in do("submit slot=9/node", 3)
    assert "no such option" in do("submit slot=1/node -M low", 2).lower()
    jobs = {one["id"]: one for one in json.loads(do("queue --json"))["jobs"]}
    assert [jobs[one]["state"] for one in (first, second, third)] == ["RUN", "SCHED", "DEPEND"]
    lines = do("queue main").splitlines()
    assert lines[0].split()[:4] == ["JOB", "USER", "NAME", "STATE"]
    assert lines[1].endswith("/demo/rack0/node[0-3],/demo/rack1/node[0-1]")
    assert lines[2].endswith("user ada: max_jobs is 1")
    assert lines[3].endswith(f"afterany:{first}")
    assert do("list").splitlines()[1].split() == ["main", "fcfs", "first", "1", "2"]
    assert f"id {first}".split() == do(f"show {first}").splitlines()[0].split()
    assert do(f"finish {first}") == f"{first}: completed"
    assert do(f"wait {first}") == f"{first}: completed"
    assert do(f"cancel {second} {third} --note late") == f"{second}: canceled\n{third}: canceled"
    assert f"{first}: completed\n{second}: canceled" in do(f"wait {first} {second}", 5)
    assert do("queue -a").count("late") == 2
    assert ["partition", "debug"] in [line.split() for line in do(f"show {second}").splitlines()]
    assert "cancel (0): late" in do(f"show {second}")
    unexplained = do("submit slot=8/node")
    do(f"cancel {unexplained}")
    assert ["exceptions", "cancel", "(0)"] in [line.split() for line in do(f"show {unexplained}").splitlines()]
    assert do("queue") == "fluxres: no jobs"
    limited = do("submit slot=8/node --duration 0.3s")
    assert f"{limited}: timeout" in do(f"wait {limited}", 5).splitlines()
    do("create other")
    do("submit slot=1/node -i other")
    assert "name one with --instance: main, other" in do("submit slot=1/node", 2)
    assert do("drop main") == "main has ended"
    assert do("drop other --force") == "other has ended"
    assert do("list") == "fluxres: no instances"
    assert "no instance 'main'" in do("drop main", 2)


def test_a_job_has_the_command_that_allocated_to_it_first(alone: str) -> None:
    def do(*words: str) -> str:
        result = CliRunner().invoke(program, ["--store", alone, *words])
        assert result.exit_code == 0, result.output
        return result.output

    do("allocate", "slot=1/node", "--job", "j1", "--user", "old")
    do("free", "j1")
    do("allocate", "slot=2/node", "--job", "j1", "--user", "new")
    do("grow", "j1", "slot=1/node")
    do("shrink", "j1", "slot=1/node")
    command = json.loads(do("jobs", "j1", "--json"))["command"]
    assert command.endswith("allocate slot=2/node --job j1 --user new")


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "https://host/x"])
def test_a_server_is_no_file(url: str, tmp_path: Path) -> None:
    with pytest.raises(fluxres.UsageError, match=r"is a server, and not a file or a store \(`fluxres.connect` is for servers"):
        fluxres.load(url)
    with pytest.raises(fluxres.UsageError, match="is a server"):
        fluxres.save(fluxres.load(DEMO), url)


def test_the_journal_has_the_user_of_the_process_whatever_the_environment_says(
    shared: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("USER", "someone")
    monkeypatch.setenv("LOGNAME", "someone")
    with fluxres.connect(f"{shared.url}?graph=spare") as graph:
        graph.tag("/demo/rack0", "mine")
        assert graph.log()[-1]["by"] == journal.os_user()


def test_a_command_that_watches_outlasts_a_server_that_starts_again(tmp_path: Path) -> None:
    place = demo_store(tmp_path)
    with running(place) as first:
        watching = Fork("nodes", "--watch", "0.5", "-o", "csv", "--store", first.url)
        assert any(line.startswith("name,path,") for line in watching.stdout)
    assert watching.stderr.readline().startswith("fluxres: ")
    port = first.url.rpartition(":")[2]
    with running(place, "--port", port):
        assert any(line.startswith("name,path,") for line in watching.stdout)
        watching.send_signal(signal.SIGINT)
        assert watching.wait(60) == 0
        watching.communicate()
