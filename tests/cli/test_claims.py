"""A graph that was copied for a job, after the end of the job: every command says so."""

from __future__ import annotations

import json

from tests.cli.conftest import Invoke

PART = ("--graph", "part")


def test_commands_on_a_copy_whose_job_has_ended(tiny: Invoke) -> None:
    tiny("allocate", "/tiny/rack0/node0", "--job", "j1")
    tiny("copy", "--job", "j1", "--as", "part")
    tiny(*PART, "allocate", "slot/core", "--job", "inner")
    assert "no problems" in tiny(*PART, "check").output
    assert "j1 in tiny" in tiny("graphs").output
    said = tiny("free", "j1").stderr
    assert said == "fluxres: graph part was copied for job j1; jobs there still hold some of it: inner\n"
    assert "j1 in tiny, no more" in tiny("graphs").output
    for command in (("allocate", "--job", "late"), ("why",), ("when",)):
        assert "allocates nothing any more" in tiny(*PART, *command, "slot/core", status=2).output
    (problem,) = json.loads(tiny(*PART, "check", "--json", status=4).output)["problems"]
    assert (problem["severity"], problem["where"]) == ("error", "graph part")
    assert problem["message"].endswith("but 1 job in it still holds something: inner")
    tiny(*PART, "free", "inner")
    (problem,) = json.loads(tiny(*PART, "check", "--json").output)["problems"]
    assert problem["severity"] == "warning"
