"""Commands, and the stream of each answer."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fluxres.fluxion.session import COMMANDS, PROMPT
from tests.choices import integers
from tests.fluxion.conftest import Start, Typed, ask, jobspec
from tests.fluxion.test_changes import started

NODE = ask("slot", 1, ask("node", 1))


def test_abbreviations_are_those_of_fluxion() -> None:
    short = {command.name: command.short for command in COMMANDS}
    assert short == {
        "match": "m", "multi-match": "M", "update": "u", "attach": "j", "remove": "-", "find": "f", "cancel": "c",
        "partial-cancel": "pc", "set-property": "p", "get-property": "g", "set-status": "t", "get-status": "e", "list": "l",
        "info": "i", "stat": "s", "cat": "a", "help": "h", "quit": "q",
    }  # fmt: skip


def test_quit_and_the_end_of_the_input_end_it(start: Start) -> None:
    session = start()
    assert session("# a comment", "", "   ", "q", "find status=up") == ""
    assert session("quit", "find status=up") == ""
    assert "EXPRESSION" in session("find status=up")
    assert session.errors.getvalue() == ""


def test_prompts_are_written_unless_turned_off(start: Start) -> None:
    session = start()
    session.session._options.prompt = True
    session("help", "quit")
    assert session.console.getvalue().startswith(PROMPT + "match ")
    assert session.console.getvalue().endswith("end the session\n" + PROMPT)


@pytest.mark.parametrize(
    "line",
    [
        "nonsense", "match", "match allocate", "match borrow /x", "match allocate /x y", "multi-match allocate /x",
        "update",
        "attach", "remove /x", "find", "cancel", "cancel x", "cancel 1 twice", "partial-cancel 1 jgf",
        "set-property /m0", "get-property",
        "set-status /m0", "set-status /m0 sideways", "get-status", "info", "info 1", "list all", "cat", "cat /does/not/exist",
        "cancel 99999999999999999999", "attach /does/not/exist", "find status=", "match allocate /dev/null", "match allocate /",
    ],
)  # fmt: skip
def test_an_unknown_command_is_reported_and_the_session_continues(start: Start, line: str) -> None:
    session = start()
    assert session(line) == ""
    assert session.told().startswith("ERROR: ")
    assert "JOBID=1\n" in session.match(NODE)
    assert session.session.unknown_commands == (line == "nonsense")


def test_properties(start: Start) -> None:
    session = start()
    assert session("get-property /m0/rack1") == "No properties were found for /m0/rack1 (vtx's uniq_id=2).\n"
    assert session("set-property /m0 b=2", "p /m0 a=x=y", "g /m0") == "a=x=y\nb=2\n"
    assert session("set-property /m0 b=3", "get-property /m0") == "a=x=y\nb=3\n"
    for wrong in ("a", "=a", "a="):
        assert session(f"set-property /m0 {wrong}").startswith("Incorrect input format.")
    assert session("set-property /x a=1") == "Couldn't find path /x in resource graph.\n"
    assert session("get-property /x") == "Could not find path /x in resource graph.\n"


def test_status(start: Start) -> None:
    session = start()
    assert session("get-status /m0/rack0", "t /m0/rack0 down", "e /m0/rack0") == "/m0/rack0 is up\n/m0/rack0 is down\n"
    # A vertex below one that is down is not marked itself.
    assert session("get-status /m0/rack0/node0") == "/m0/rack0/node0 is up\n"
    assert session("set-status /x up", "get-status /x", "t /x ?") == "Could not find path /x in resource graph.\n" * 3


def test_jobs_are_listed_on_the_console(start: Start) -> None:
    session = start()
    session.match(ask("slot", 4, ask("node", 1)))
    session.match(NODE, op="allocate_orelse_reserve")
    session("list", "info 2", "cancel 1", "l")
    first, second = (
        f"INFO: {job}, {session.folder / f'f{job}'}, {state}\n" for job, state in ((1, "ALLOCATED"), (2, "RESERVED"))
    )
    assert session.console.getvalue() == first + second + second + second


def test_stat_counts_the_graph(start: Start) -> None:
    session = start()
    session.match(NODE)
    session("stat")
    assert session.console.getvalue().splitlines()[:3] == [
        "Num. of Vertices: 63",
        "Num. of Edges: 62",
        "Num. of Jobs Matched: 1",
    ]


def test_cat_prints_a_file(start: Start) -> None:
    session = start()
    file = session.file("a: 1\n")
    session(f"cat {file}")
    assert session.console.getvalue() == "a: 1\n"


def test_visit_counts_are_printed_on_request(start: Start) -> None:
    session = start("-e", "-P", "low", "--prune-filters=ALL:core")
    out = session.match(ask("rack", 1, ask("node", 1, ask("slot", 1, ask("socket", 1)))))
    # Root and racks, four nodes, their eight sockets; of the six pools in each socket none can match.
    assert "ELAPSE" not in out
    assert session.console.getvalue() == (
        "INFO: ELAPSE=0.000000\nINFO: PREORDER VISIT COUNT=63\nINFO: POSTORDER VISIT COUNT=15\n"
    )
    session.console.truncate(0)
    failed = session.match(ask("slot", 9, ask("rack", 1)))
    assert failed.endswith("INFO: JOBID=2\nINFO: ELAPSE=0.000000\nINFO: =============================\n")
    assert session.console.getvalue().lstrip("\0").startswith("INFO: PREORDER VISIT COUNT=")
    session.console.truncate(0)
    assert "ELAPSE" not in session.match(ask("slot", 1, ask("rack", 1)), op="satisfiability")
    assert session.console.getvalue().count("INFO: ") == 3


WORDS = [word for command in COMMANDS for word in (command.name, command.short)] + [
    "allocate", "satisfiability", "jgf", "rv1exec", "/c0", "/c0/n0", "/c0/n1/core0", "true", "false", "[0]", "1", "2", "-1",
    "up", "down", "status=up", "sched-now=free", "a=b", "stats", "#", "(", "\0", "é" * 50, "9" * 30,
]  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(st.lists(st.lists(st.sampled_from(WORDS) | st.text(max_size=5), max_size=7).map(" ".join), max_size=12), st.data())
def test_any_line_succeeds_or_is_refused(tmp_path_factory: pytest.TempPathFactory, lines: list[str], data: st.DataObject) -> None:
    session = _one(tmp_path_factory)
    file = session.file(jobspec(ask("slot", 1, ask("core", data.draw(integers(1, 3))))))
    for line in [*lines, f"match allocate {file}"]:
        session.session.do(line.replace("jgf", f"jgf {file}"))


def _one(factory: pytest.TempPathFactory) -> Typed:
    return started(factory, "first")
