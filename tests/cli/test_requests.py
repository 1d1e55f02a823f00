"""Requests on the command line: what counts as a request, where it comes from, and refusals in wall-clock time."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fluxres import clock
from fluxres.cli.arguments import names_pool
from fluxres.errors import InfeasibleRequest, InsufficientResources
from fluxres.match.refusal import Cause, PartReport, Refusal
from fluxres.render import refusals
from fluxres.store import open_store
from fluxres.syntax import moment
from tests.cli.conftest import MACHINE, Invoke
from tests.cli.test_processes import finish, process

DAY_S = 1.8e9
JOBSPEC = MACHINE.with_name("job.yaml").read_text(encoding="utf-8")


def taken(fluxres: Invoke, *words: str, stdin: str | None = None) -> list[tuple[str, int]]:
    """What a request would get."""
    told = json.loads(fluxres("when", *words, "--json", stdin=stdin).stdout)
    return [(pool["path"], pool["amount"]) for pool in told["pools"]]


def test_a_reservation_has_a_resource_set(tiny: Invoke) -> None:
    tiny("reserve", "/tiny/rack0/node0", "--name", "m", "--start", "2040-01-01", "--duration", "1h")
    of_reservation = json.loads(tiny("jobs", "m", "-o", "R").stdout)["execution"]
    assert of_reservation["nodelist"] == ["node0"]
    assert of_reservation["expiration"] - of_reservation["starttime"] == 3600
    assert "`jobs NAME -o R` has that of a reservation" in tiny("reserve", "-o", "R", status=2).stderr


@pytest.mark.parametrize(
    ("word", "is_pool"),
    [
        ("/tiny/rack0", True),
        ("/tiny/rack[0-1]/node3=2", True),
        ("power:/pdu0=100", True),
        ("00000000-0000-8000-8000-000000000005", True),
        ("00000000-0000-8000-8000-000000000005=1", True),
        ("node", None),
        ("slot=4/[core=2;memory=8]", False),
        ("-N4 -c8", False),
        ("-", False),
        ("", False),
        ('{"resources": [{"type": "a:/b"}]}', False),
        ("some.yaml", None),
        ("node[0-1]=1", None),
        ("core0@node3", None),
        ("network:leaf0", None),
    ],
)
def test_a_word_is_a_pool_or_a_request_or_the_graph_decides(word: str, is_pool: bool | None) -> None:
    assert names_pool(word) is is_pool


def test_a_request_in_the_language_of_another_system(tiny: Invoke) -> None:
    cores = taken(tiny, "slot=1/core=3")
    last = [("/tiny/rack0/node0/core3", 1), ("/tiny/rack0/node0/core2", 1), ("/tiny/rack0/node0/core1", 1)]
    assert taken(tiny, "--request-format", "hyperqueue", "cpus=3") == last
    assert taken(tiny, "--request-format", "hyperqueue", "cpus=99 | cpus=3 scatter") == last
    assert taken(tiny, "--request-format", "hyperqueue", "-", stdin="cpus=3\n") == last
    alike = tiny("when", "--json", "--request-format", "hyperqueue", "--", "--cpus 3")
    assert [(pool["path"], pool["amount"]) for pool in json.loads(alike.stdout)["pools"]] == last
    assert taken(tiny, "--request-format", "canary", "cpus=3") == cores
    assert taken(tiny, "--request-format", "ctest", "3,cpus:1") == cores
    assert tiny("when", "--request-format", "hyperqueue", "cpus=2 scatter").stderr == ""
    refused = tiny("why", "--request-format", "hyperqueue", "cpus=99 | fpgas=1", status=3).stdout
    assert "variant 1: this machine has no fpgas" in refused.lower()
    both = tiny("allocate", "--request-format", "hyperqueue", "cpus=2", "cpus=1", "--job", "a", "--job", "b", "--json")
    assert [len(each["pools"]) for each in json.loads(both.stdout)["allocations"]] == [2, 1]


def test_requires_query_restricts_a_request_to_matching_nodes(tiny: Invoke) -> None:
    (first, _), *_ = taken(tiny, "slot=1/node")
    (other, _), *_ = taken(tiny, "slot=1/node", "--requires", "-rank:0")
    assert (first, other) == ("/tiny/rack0/node0", "/tiny/rack0/node1")
    assert taken(tiny, "-N1", "--requires", "rank:0|rank:3") == taken(tiny, "-N1")
    constrained = JOBSPEC.replace("{duration: 600}", "{constraints: {ranks: ['1-2']}}")
    assert {path.split("/")[3] for path, _ in taken(tiny, constrained, "--requires", "-rank:1")} == {"node2"}
    both = tiny("allocate", "slot=1/node", "slot=1/node", "--job", "a", "--job", "b", "--requires", "rank:2-3", "--json")
    assert [each["pools"][0]["path"] for each in json.loads(both.stdout)["allocations"]] == [
        "/tiny/rack0/node2",
        "/tiny/rack1/node3",
    ]
    refused = json.loads(tiny("why", "slot=1/node", "--requires", "rank:2", "--json", status=1).stdout)
    assert not refused["matches"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["/tiny/rack0", "--requires", "ssd", "--job", "j"], "--requires needs a request"),
        (["-N1", "--requires", "(ssd", "--job", "j"], "query:"),
    ],
)
def test_requires_query_needs_a_request_and_is_checked(tiny: Invoke, words: list[str], said: str) -> None:
    assert said in tiny("allocate", *words, status=2).stderr


@pytest.mark.parametrize("words", [["cpus=1", "gpus=1"], [], ["cpus=1", "-N1"]])
def test_a_request_in_another_language_is_a_single_word(tiny: Invoke, words: list[str]) -> None:
    told = tiny("when", "--request-format", "hyperqueue", *words, status=2)
    number = "1 word and 1 option" if "-N1" in words else f"{len(words)} words"
    assert f"--request-format needs a single word, got {number}" in told.stderr


def test_a_request_is_the_same_in_any_form(tiny: Invoke, place: Path) -> None:
    (place / "job.yaml").write_text(JOBSPEC, encoding="utf-8")
    tasks = taken(tiny, "slot=4/[core=3]")
    assert len(tasks) == 12
    for words in (["-n4", "-c3"], ["-n", "4", "-c", "3"], ["-n4 -c3"], ["-c3 -n 4"], ["-n=4 -c=3"]):
        assert taken(tiny, *words) == tasks, words
    nodes = taken(tiny, "node=2{x}/slot/core=4")
    assert nodes == [("/tiny/rack0/node0", 1), ("/tiny/rack0/node1", 1)]
    assert taken(tiny, "-x -N2 -c4") == taken(tiny, "-N2", "-xc4") == nodes
    file = taken(tiny, "job.yaml")
    assert file == [*((f"/tiny/rack0/node0/core{i}", 1) for i in range(4)), ("/tiny/rack0/node0/memory", 16)]
    assert taken(tiny, str(place / "job.yaml")) == taken(tiny, "-", stdin=JOBSPEC) == taken(tiny, JOBSPEC) == file


def test_options_have_the_names_of_flux_and_slurm(tiny: Invoke) -> None:
    tasks = taken(tiny, "-n4", "-c3")
    for words in (["--ntasks", "4", "--cpus-per-task=3"], ["--ntasks=4 --cores-per-task 3"], ["--ntasks", "4", "-c=3"]):
        assert taken(tiny, *words) == tasks, words
    nodes = taken(tiny, "-N2", "-x")
    assert taken(tiny, "--nodes=2", "--exclusive") == taken(tiny, "--exclusive --nodes 2") == nodes
    assert taken(tiny, "-w", "node[0-1]", "-x") == taken(tiny, "--nodelist=node[0-1] -x") == nodes
    (other, _) = taken(tiny, "slot/node", "-w", "node2")[0]
    assert other == "/tiny/rack0/node2"
    both = tiny("allocate", "--job", "a", "--job", "b", "--json", "--", "--nodes=1 --time 1:00:00", "--ntasks 2")
    assert [part["end"] for part in json.loads(both.stdout)["allocations"]] == [4600.0, None]


@pytest.mark.parametrize("time", ["90", "90m", "1:30:00", "5400s", "0-1:30"])
def test_a_time_limit_is_the_duration(tiny: Invoke, time: str) -> None:
    for words in (
        ["-t", time, "-n1"],
        ["--time", time, "slot/core"],
        [f"-n1 --time-limit={time}"],
        ["/tiny/rack1/node3", "-t", time],
    ):
        told = json.loads(tiny("allocate", *words, "--job", "j", "--dry-run", "--json").stdout)
        assert told["end"] - told["start"] == 5400.0, words
    staged = json.loads(tiny("stage", "-n1", "-t", time, "--job", "j", "--json").stdout)["stages"][0]
    assert staged["end"] - staged["start"] == 5400.0
    tiny("allocate", "-n1", "-t", time, "--duration", "1.5h", "--job", "j", "--dry-run")
    told = tiny("allocate", "-n1", "-t", time, "--duration", "90", "--job", "j", status=2).stderr
    assert "both --duration and --time were given, and differ" in told


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["when", "-N2", "--mem", "8G"], "no such option: --mem (request memory in a shape"),
        (["when", "--node", "2"], "no such option: --node (did you mean --nodes?)"),
        (["instance", "submit", "-A", "physics", "-n1"], "no such option: -A (use --account)"),
        (["instance", "submit", "-J", "solve", "-n1"], "no such option: -J (use --name)"),
        (["instance", "submit", "-d", "afterok:1", "-n1"], "no such option: -d (use --dependency)"),
        (["allocate", "-J", "solve", "-n1"], "no such option: -J (use --job for the id of the job, --name for a name in lists)"),
        (["when", "-A", "physics", "-n1"], "no such option: -A (fluxres when --help)"),
        (["when", "--cores", "5", "-N2"], "--cores: expected cores that 2 nodes share evenly, got 5 (such as 4 or 6)"),
        (["when", "-n1", "-t", "soon"], "-t: expected a duration, got 'soon'"),
        (["when", "-t", "5"], "no request was given"),
        (["stage", "/tiny/rack0", "-t", "5", "--job", "j"], "-t needs a request"),
        (["grow", "j", "-n1", "-t", "5"], "no such option: -t"),
    ],
)
def test_options_that_cannot_be_meant_are_refused(tiny: Invoke, words: list[str], said: str) -> None:
    assert said in tiny(*words, status=2).stderr


@pytest.mark.parametrize("command", [["when"], ["why"], ["allocate", "--job", "j"], ["stage", "--job", "j"]])
def test_an_unknown_type_is_wrong_use(tiny: Invoke, command: list[str]) -> None:
    told = tiny(*command, "slot=1/nod", status=2)
    assert told.stderr.endswith("no pool of type 'nod' in this graph (did you mean node?)\n")
    error = json.loads(tiny(*command, "slot=1/nod", "--json", status=2).stderr)
    assert (error["error"], error["status"], error["hint"]) == ("unknown-type", 2, "did you mean node?")


def test_a_search_for_an_unknown_type_is_wrong_use(tiny: Invoke) -> None:
    error = json.loads(tiny("find", "type=nod and state=up", "--json", status=2).stderr)
    assert (error["error"], error["hint"]) == ("unknown-type", "did you mean node?")
    assert tiny("find", "type=nod or type=node", "-o", "folded").stdout
    assert tiny("find", "type=node and state=down").stderr == "fluxres: no pools\n"
    assert tiny("find", "not type=nod and type!=nod and state=down").stderr == "fluxres: no pools\n"


def test_a_start_in_the_past_is_noted(tiny: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    now = moment.parse("2027-01-15T09:00", 0.0)
    monkeypatch.setattr(clock, "system", lambda: now)
    for words in (
        ["when", "-n1", "--start"],
        ["why", "-n1", "--start"],
        ["allocate", "-n1", "--job", "j", "--dry-run", "--end", "2028-01-01", "--start"],
    ):
        told = tiny(*words, "2020-01-01")
        assert told.stderr == "fluxres: the start, 2020-01-01T00:00:00, is in the past\n", words
        assert tiny(*words, "10:00").stderr == ""
    assert tiny("find", "type=node", "--start", "2020-01-01").stderr == ""


def test_the_end_of_a_window_is_the_first_such_time_after_its_start(tiny: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    now = moment.parse("2027-01-15T09:00", 0.0)
    monkeypatch.setattr(clock, "system", lambda: now)
    for words in (["--start", "monday 08:00", "--end", "17:00"], ["--end", "17:00", "--start", "monday 08:00"]):
        told = json.loads(tiny("allocate", "-n1", "--job", "j", "--dry-run", "--json", *words).stdout)
        assert [moment.format(told[key]) for key in ("start", "end")] == ["2027-01-18T08:00:00", "2027-01-18T17:00:00"]


def test_a_slot_that_only_a_task_names_is_noted(tiny: Invoke, place: Path) -> None:
    assert tiny("when", JOBSPEC).stderr == ""
    (place / "stray.yaml").write_text(JOBSPEC.replace("slot: task", "slot: other"), encoding="utf-8")
    told = tiny("when", "stray.yaml")
    assert told.stderr == "fluxres: a task refers to the slot 'other', which is not among the resources\n"
    assert told.stdout == tiny("when", JOBSPEC).stdout


def test_allocation_by_request_equals_the_dry_run(tiny: Invoke) -> None:
    announced = taken(tiny, "slot=3/[core=2;memory=16]", "--match-policy", "high", "--duration", "1h")
    given = json.loads(tiny("allocate", "slot=3/[core=2;memory=16]", "--job", "j1", "--match-policy", "high", "--json").stdout)
    assert [(pool["path"], pool["amount"]) for pool in given["pools"]] == announced
    assert [(span.pool, span.amount) for span in open_store().load("tiny").allocation("j1").spans] == announced


def test_dry_run_does_not_change_the_store(tiny: Invoke) -> None:
    before = tiny("log").stdout
    for words in (["slot=2/node"], ["slot=2/node", "--or-reserve", "--duration", "1h"], ["/tiny/rack0"]):
        shown = tiny("allocate", *words, "--job", "j1", "--dry-run").stdout
        assert "j1" in shown
    tiny("allocate", "slot=9/node", "--job", "j1", "--dry-run", status=3)
    assert tiny("log").stdout == before
    assert tiny("jobs").stdout.splitlines()[1:] == []


def test_why_exits_with_the_status_of_allocate(tiny: Invoke) -> None:
    tiny("allocate", "/tiny/rack0", "--job", "j1", "--duration", "1h")
    for shape, status in (("slot=5/node", 0), ("slot=6/node", 1), ("slot=9/node", 3)):
        told = json.loads(tiny("why", shape, "--duration", "1h", "--json", status=status).stdout)
        assert (told["matches"], told["never"]) == (status == 0, status == 3)
        assert told["earliest"] == (4600.0 if status == 1 else None)
        assert tiny("when", shape, "--duration", "1h", status=3 if status == 3 else 0).stdout.startswith(
            {0: "now\n", 1: "4600\n", 3: ""}[status]
        )
        refused = tiny("allocate", shape, "--job", "j2", "--duration", "1h", "--dry-run", status=status).stderr
        assert ("free from 4600 on" in refused) is (status == 1)


def test_when_prints_a_start_that_works(tiny: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "system", clock.fixed(DAY_S + 0.25))
    tiny("allocate", "/tiny/rack0", "--job", "j1", "--duration", "1h")
    first = tiny("when", "slot=8/node", "--duration", "1h").stdout.splitlines()[0]
    assert first.startswith("2027-01-1")
    refused = tiny("allocate", "slot=8/node", "--job", "j2", "--duration", "1h", status=1).stderr
    assert f"(free from {first} on)" in refused
    assert f"by j1 until {first[:11]}" in refused
    tiny("allocate", "slot=8/node", "--job", "j2", "--start", first, "--duration", "1h")


def test_a_stage_by_request_locks_what_it_found(tiny: Invoke) -> None:
    staged = json.loads(tiny("stage", "slot=2/node", "--job", "j1", "--end", "5000", "--json").stdout)["stages"][0]
    assert [pool["path"] for pool in staged["pools"]] == ["/tiny/rack0/node0", "/tiny/rack0/node1"]
    assert (staged["start"], staged["end"]) == (1000.0, 5000.0)
    assert taken(tiny, "slot/node", "--duration", "1m") == [("/tiny/rack0/node2", 1)]
    tiny("stage", "--commit", "s0")
    assert "slot" not in tiny("stage").stdout
    grown = json.loads(tiny("grow", "j1", "slot/node", "--match-policy", "high", "--json").stdout)
    assert ([pool["path"] for pool in grown["pools"]], grown["end"]) == (["/tiny/login2"], 5000.0)


def test_a_stage_is_listed_without_adding_units_that_differ(tiny: Invoke) -> None:
    staged = tiny("stage", "slot=2/[node{x};pdu=300]", "--job", "j1").stdout.splitlines()
    columns = slice(staged[0].index("PATH"), staged[0].index("START"))
    assert [" ".join(line[columns].split()) for line in staged] == [
        "PATH POOLS EACH",
        "/tiny/rack0/node[0-1] 2 1",
        "power:/pdu0 1 600 W",
        "power: /tiny/rack0 -> /tiny/rack0/node[0-1] 2 300 W",
        "power: power:/pdu0 -> /tiny/rack0 1 600 W",
    ]
    assert tiny("stage").stdout.splitlines() == staged


@pytest.mark.parametrize("command", [["allocate"], ["stage"]], ids=" ".join)
@pytest.mark.parametrize(("given", "end"), [([], 1600.0), (["--end", "4000"], 4000.0), (["--end", "-"], None)])
def test_end_on_the_command_line_overrides_the_jobspec(
    tiny: Invoke, command: list[str], given: list[str], end: float | None
) -> None:
    told = json.loads(tiny(*command, "-", "--job", "j1", *given, "--json", stdin=JOBSPEC).stdout)
    assert (told["stages"][0] if "stages" in told else told)["end"] == end


def test_a_shape_needs_no_yaml(tiny: Invoke) -> None:
    code = """
import sys
from fluxres.cli.main import main
status = main()
print([name for name in ("networkx", "rich", "yaml", "hypothesis") if name in sys.modules], status)
"""
    for command in (["allocate", "slot/core", "--job", "j1"], ["when", "-n2"], ["why", "node{x}"]):
        shown = subprocess.run([sys.executable, "-c", code, *command], capture_output=True, text=True, check=True)
        assert shown.stdout.splitlines()[-1] == "[] 0", command


def test_completion_offers_policies(tiny: Invoke) -> None:
    env = {**os.environ, "_FLUXRES_COMPLETE": "fish_complete", "COMP_WORDS": "fluxres when --match-policy l", "COMP_CWORD": "l"}
    status, out, err = finish(process(env=env))
    assert (status, err) == (0, "")
    assert {"low", "lonode", "locality"} <= {line.partition(",")[2].partition("\t")[0] for line in out.splitlines()}


HELD = Cause("held", 3, ("/m/a", "/m/b"), (("j1", DAY_S), ("j2", math.inf)))
PART = PartReport("resources[0]", "node", 4, 5, 2, 2, (HELD,))
REFUSAL = Refusal((PART,), {"resources[0]": 2}, earliest=DAY_S + 0.5)


def test_refusal_contains_dates() -> None:
    date, later = (clock_text(seconds) for seconds in (DAY_S, DAY_S + 1))
    assert refusals.lines(REFUSAL, "now") == [
        f"Not now. The earliest start is {later}.",
        "requested 4 nodes, only 2 of 5 are available",
        f"  3 are held by j1 until {date} and j2 without end",
        "It would match with 2 nodes.",
    ]
    error = refusals.error(REFUSAL)
    assert isinstance(error, InsufficientResources)
    assert (error.earliest, error.where) == (DAY_S + 0.5, "resources[0]")
    assert f"until {date}" in str(error)


def clock_text(seconds: float) -> str:
    from datetime import datetime

    return datetime.fromtimestamp(seconds).isoformat()


def test_permanent_and_undecided_refusals() -> None:
    for_good = replace(REFUSAL, never=True, earliest=None)
    assert refusals.lines(for_good, "now")[-1] == "With nothing held and everything up, it would match with 2 nodes."
    never = refusals.error(for_good)
    assert isinstance(never, InfeasibleRequest)
    assert list(never.reasons) == ["resources[0]"]
    unknown = replace(REFUSAL, earliest=None, undecided=True)
    assert "reached its limit" in refusals.lines(unknown, "now")[0]
    together = replace(REFUSAL, parts=(replace(PART, room=9),))
    assert "together" in refusals.lines(together, "now")[-2]
    assert "together" in refusals.error(together).message


def test_refusal_names_some_holders_and_counts_the_rest() -> None:
    many = replace(HELD, code="held-above", holders=tuple((f"j{i}", float(i)) for i in range(9)))
    line = refusals.lines(replace(REFUSAL, parts=(replace(PART, causes=(many,)),)), "now")[2]
    assert line == "  3 are held through a pool above, by j0 until 0, j1 until 1, j2 until 2, j3 until 3 and 5 more"


# -- resource sets -------------------------------------------------------------------------------------------------------


def sets(text: str) -> list[dict[str, Any]]:
    """The resource sets of an output, one per line."""
    return [json.loads(line) for line in text.splitlines()]


def test_allocation_is_printed_as_a_resource_set(tiny: Invoke) -> None:
    (given,) = sets(tiny("allocate", "slot=2/core=2", "--job", "j1", "--duration", "1h", "-o", "R").stdout)
    assert given == {
        "version": 1,
        "execution": {
            "R_lite": [{"rank": "0", "children": {"core": "0-3"}}],
            "starttime": 1000.0,
            "expiration": 4600.0,
            "nodelist": ["node0"],
            "properties": {"class=3": "0", "ssd": "0"},
            "nslots": 2,
        },
    }
    (more,) = sets(tiny("grow", "j1", "/tiny/rack1/node3", "-o", "R").stdout)
    assert more["execution"]["R_lite"] == [{"rank": "3", "children": {"core": "0-3"}}]
    (tried,) = sets(tiny("allocate", "slot/node", "--job", "j2", "--dry-run", "-o", "R").stdout)
    assert tried["execution"]["nodelist"] == ["node1"]
    (held,) = sets(tiny("jobs", "-o", "R").stdout)
    assert held["execution"]["R_lite"] == [{"rank": "0,3", "children": {"core": "0-3"}}]


def test_a_resource_set_of_each_job_is_a_line(tiny: Invoke) -> None:
    tiny("allocate", "/tiny/rack0/node0", "--job", "a", "--end", "2000")
    tiny("allocate", "/tiny/rack0/node1", "--job", "b", "--start", "3000", "--end", "4000")
    assert [r["execution"]["nodelist"] for r in sets(tiny("jobs", "-o", "R").stdout)] == [["node0"], ["node1"]]
    assert [r["execution"]["nodelist"] for r in sets(tiny("jobs", "--start", "3500", "-o", "R").stdout)] == [["node1"]]
    assert [r["execution"]["nodelist"] for r in sets(tiny("jobs", "a", "-o", "R").stdout)] == [["node0"]]
    assert tiny("jobs", "--start", "9000", "-o", "R").stdout == ""


def test_a_resource_set_carries_its_graph(tiny: Invoke) -> None:
    tiny("allocate", "/tiny/rack0/node1", "power:/pdu0=400", "--job", "j1")
    (whole,), (short,) = (sets(tiny("jobs", "j1", "-o", form).stdout) for form in ("rv1", "rv1_shorthand"))
    assert (whole["scheduling"]["writer"], short["scheduling"]["writer"]) == ("fluxion:jgf", "fluxion:jgf_shorthand")
    names = [node["metadata"]["paths"].get("containment", "pdu") for node in short["scheduling"]["graph"]["nodes"]]
    assert names == ["/tiny", "/tiny/rack0", "/tiny/rack0/node1", "pdu"]
    assert len(whole["scheduling"]["graph"]["nodes"]) == len(names) + 5


def test_commands_without_allocations_have_no_resource_sets(tiny: Invoke) -> None:
    assert "find has no output 'R'" in tiny("find", "type=node", "-o", "R", status=2).stderr


POWERED = """
fluxres: 1
name: m
resources: [{type: node, count: 3}]
graphs:
  power:
    pools: [{type: pdu, size: 3000, unit: W}]
    edges: [{from: "power:/pdu", to: "/m/node*", capacity: 1000}]
"""
EDGE = "power: power:pdu -> /m/node0"


def test_draws_through_limited_edges_are_named_in_every_output(fluxres: Invoke, place: Path) -> None:
    (place / "m.yaml").write_text(POWERED)
    fluxres("load", "m.yaml")
    wanted = "slot=1/[node{x};pdu=500]"
    found = json.loads(fluxres("when", wanted, "--json").stdout)
    assert {"path": EDGE, "amount": 500} in found["pools"]
    assert fluxres("when", wanted, "-o", "paths").stdout.splitlines() == ["/m/node0", "power:pdu"]
    assert fluxres("when", wanted, "-o", "folded").stdout.splitlines() == ["/m/node0", "power:pdu"]
    assert "power: power:pdu -> /m/node0" in fluxres("stage", wanted, "--job", "s").stdout
    staged = json.loads(fluxres("stage", "--json").stdout)["stages"][0]
    assert {"path": EDGE, "amount": 500} in staged["pools"]
    assert "power: power:pdu -> /m/node0" in fluxres("stage").stdout
    fluxres("stage", "--commit", "s0")
    assert "power: power:pdu -> /m/node0" in fluxres("allocated", "s").stdout
    # An edge is named on the command line as in the output.
    assert "100 W" in fluxres("grow", "s", f"{EDGE}=100").stdout
    assert "500 W" in fluxres("free", "s", f"{EDGE}=100").stdout
    fluxres("stage", EDGE, "--job", "t", status=1)
    assert "power: power:pdu -> /m/node1" in fluxres("stage", "power: power:/pdu -> /m/node1=10", "--job", "t").stdout


def test_an_expired_stage_does_not_affect_queries(tiny: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny("stage", "/tiny/rack0", "--job", "j1", "--ttl", "2s")
    assert "j1" in tiny("when", "slot=6/node", status=1).stderr
    before = tiny("log", "--json").stdout
    monkeypatch.setattr(clock, "system", clock.fixed(1002.0))
    assert tiny("when", "slot=6/node").stdout.startswith("now")
    assert tiny("why", "slot=6/node").stdout == "It matches now.\n"
    assert json.loads(tiny("find", "available>0 and under=/tiny/rack0", "--json").stdout)["count"] > 1
    assert json.loads(tiny("find", "available=0", "--json").stdout)["count"] == 0
    assert json.loads(tiny("info", "--json").stdout)["stages"] == []
    assert "j1" not in tiny("show").stdout
    # Queries are not recorded; the stage expires with the next change.
    assert tiny("log", "--json").stdout == before
    tiny("allocate", "/tiny/rack0", "--job", "j2")
    assert [event["event"] for event in json.loads(tiny("log", "--json").stdout)["log"]][-2:] == ["release", "allocate"]
    assert "no problems" in tiny("check").stdout


@pytest.mark.parametrize("by", ["+1h", "-1h"])
def test_a_relative_duration_cannot_move_a_missing_end(tiny: Invoke, by: str) -> None:
    tiny("allocate", "slot=1/node", "--job", "endless")
    refused = tiny("extend", "endless", "--duration", by, status=2)
    assert f"ERROR {by} moves the current end, but job 'endless' has none" in refused.output
    tiny("extend", "endless", "--duration", "2h")
    tiny("extend", "endless", "--duration", by)
