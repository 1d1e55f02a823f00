"""`fluxres child`: a part of a graph grows, shrinks, is extended and ends, together with the job of its parent."""

from __future__ import annotations

import json

import pytest

from fluxres import clock, open_child
from fluxres.errors import HoldLapsed
from tests.cli.conftest import Invoke


def nodes(tiny: Invoke, graph: str) -> list[str]:
    return tiny("find", "type=node", "--graph", graph, "-o", "paths").stdout.split()


def held(tiny: Invoke) -> list[str]:
    return [span["path"] for span in json.loads(tiny("jobs", "big", "--graph", "tiny", "--json").stdout)["allocated"]]


@pytest.fixture
def part(tiny: Invoke) -> Invoke:
    tiny("allocate", "/tiny/rack0/node[0-1]", "--job", "big", "--duration", "2h")
    tiny("copy", "--job", "big", "--as", "part")
    return tiny


def test_both_graphs_change_together(part: Invoke) -> None:
    assert part("child", "grow", "part", "/tiny/rack0/node2").stdout == "/tiny/rack0/node2\n"
    assert json.loads(part("child", "grow", "part", "-N1", "-x", "--json").stdout)["child"] == "part"
    assert nodes(part, "part") == held(part)
    assert len(held(part)) == 4
    assert part("child", "shrink", "part", "/tiny/rack0/node0").stdout == "/tiny/rack0/node0\n"
    assert nodes(part, "part") == held(part)
    assert "/tiny/rack0/node0" not in held(part)
    before = json.loads(part("child", "extend", "part", "--duration", "2h", "--json").stdout)["end"]
    assert json.loads(part("child", "extend", "part", "--duration", "4h", "--json").stdout)["end"] == before + 7200
    for change, moved_s in (("+1h", 3600), ("-30m", -1800)):
        before = json.loads(part("jobs", "big", "--graph", "tiny", "--json").stdout)["allocated"][0]["end"]
        assert json.loads(part("child", "extend", "part", change, "--json").stdout)["end"] == before + moved_s
    assert part("child", "extend", "part", "-").stdout == part("child", "extend", "part", "max").stdout == "part has no end\n"
    assert "but job 'big' has none" in part("child", "extend", "part", "+1h", status=2).output
    assert part("child", "extend", "part", "--end", "-").stdout == "part has no end\n"
    assert part("child", "end", "part").stdout == "part has ended\n"
    assert "big" not in part("jobs", "--graph", "tiny").stdout
    assert "part" not in part("graphs").stdout


def test_what_jobs_of_the_child_hold_stays(part: Invoke) -> None:
    part("allocate", "/tiny/rack0/node1", "--job", "inner", "--graph", "part", "--duration", "1h")
    assert "inner" in part("child", "shrink", "part", "/tiny/rack0/node1", status=1).output
    assert nodes(part, "part") == held(part) == ["/tiny/rack0/node0", "/tiny/rack0/node1"]


def test_a_running_child_goes_on_with_what_it_has_then_and_is_refused_after_its_end(part: Invoke) -> None:
    with open_child(graph="tiny", job="big", name="part", clock=clock.system) as child:
        part("child", "grow", "part", "/tiny/rack0/node2")
        child.graph.allocate("/tiny/rack0/node2", job="inner", duration_s="1h")
        part("child", "end", "part")
        with pytest.raises(HoldLapsed):
            child.grow("slot/node")


def test_lists_without_entries_say_so_in_place_of_a_heading(tiny: Invoke) -> None:
    for command, said in (("stage", "no stages"), ("log --job nobody", "no events")):
        found = tiny(*command.split())
        assert (found.stdout, found.stderr.splitlines()[-1:]) == ("", [f"fluxres: {said}"])


def test_wrong_use_is_refused(part: Invoke) -> None:
    assert "is no part of another graph" in part("child", "grow", "tiny", "-N1", status=2).output
    assert "give one new end" in part("child", "extend", "part", status=2).output
    assert "that returns everything ends" in part("child", "shrink", "part", "/tiny/rack0/node[0-1]", status=2).output
    assert "no graph 'other'" in part("child", "end", "other", status=2).output
