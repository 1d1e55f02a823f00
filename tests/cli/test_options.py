"""Common options, and words that name pools."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from fluxres import limits
from fluxres.cli import arguments
from fluxres.cli.program import COMMANDS, Group, program
from fluxres.cli.settings import JOB_OUTPUTS, RECORD_OUTPUTS
from fluxres.errors import FluxresError, LimitExceeded
from fluxres.model import ResourceGraph
from fluxres.store import open_store
from fluxres.syntax import folded
from tests.cli.conftest import MACHINE, Invoke
from tests.traceability import ROOT


def commands() -> dict[str, object]:
    import click

    context = click.Context(program)
    return {name: program.get_command(context, name) for name in COMMANDS}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("graphs dorp x", "no command 'graphs dorp', perhaps drop (fluxres graphs --help)"),
        ("instance xyzzy", "no command 'instance xyzzy' (fluxres instance --help)"),
        ("redo", "no command 'redo' (fluxres undo --redo)"),
        ("simulate lubin", "neither a file nor a workload model: 'lubin' (did you mean lublin?)"),
        ("hierarchy -N 0", "-N: expected at least 1 node, got 0"),
    ],
)
def test_a_wrong_word_is_told_the_right_one(fluxres: Invoke, words: str, said: str) -> None:
    assert fluxres(*words.split(), status=2).stderr == f"fluxres: ERROR {said}\n"


def test_every_command_has_a_help_text(fluxres: Invoke) -> None:
    for name, title in COMMANDS.items():
        shown = fluxres(name, "--help").stdout
        assert shown.startswith(f"Usage: fluxres {name}")
        assert "Common options:" in shown
        assert "Examples:" in shown
        assert not re.search(r"INTEGER|FLOAT|TEXT\b|RANGE|\[default|x[<>]=|<=x", shown), shown
        assert max(map(len, shown.splitlines())) <= 80
        assert title.endswith(".")


def test_options_may_precede_or_follow_the_command(tiny: Invoke) -> None:
    after = tiny("info", "--json").stdout
    assert tiny("--json", "info").stdout == after == tiny("-o", "json", "info").stdout
    assert json.loads(after)["graph"] == "tiny"
    assert tiny("--no-header", "find", "type=rack").stdout == tiny("find", "type=rack", "--no-header").stdout
    assert tiny("--json", "graphs", "use", "tiny").stdout == tiny("graphs", "use", "tiny", "--json").stdout
    assert tiny("-o", "paths", "find", "type=rack", "-o", "folded").stdout == "/tiny/rack[0-1]\n"


def test_store_is_an_option_a_variable_or_the_data_directory(
    fluxres: Invoke, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fluxres("load", str(MACHINE))
    assert (place.parent / "data" / "fluxres" / "fluxres.db").exists()
    fluxres("load", str(MACHINE), "--store", "own.db")
    fluxres("--store", f"sqlite://{place}/own.db?graph=tiny", "tag", "/tiny", "own")
    monkeypatch.setenv("FLUXRES_STORE", str(place / "own.db"))
    assert "own" in fluxres("find", "tag=own").stdout
    monkeypatch.delenv("FLUXRES_STORE")
    assert fluxres("find", "tag=own").stdout == ""


def test_a_graph_is_named_or_the_one_in_use(tiny: Invoke) -> None:
    tiny("load", str(MACHINE), "--name", "other", "--use")
    tiny("tag", "/tiny", "seen")
    assert "seen" in tiny("find", "tag=seen", "--graph", "other").stdout
    assert tiny("find", "tag=seen", "--graph", "tiny").stdout == ""
    tiny("graphs", "use", "tiny")
    assert tiny("find", "tag=seen").stdout == ""


def test_a_command_without_a_store_leaves_none_behind(fluxres: Invoke, place: Path) -> None:
    fluxres("info", status=2)
    fluxres("allocate", "/x", "--job", "j", status=2)
    assert not (place.parent / "data").exists()


def test_errors_are_json_if_the_output_would_be(tiny: Invoke) -> None:
    for args in (["show", "/tiny/x", "--json"], ["--json", "shwo"], ["info", "--nope", "-o", "json"]):
        told = json.loads(tiny(*args, status=2).stderr)
        assert set(told) >= {"error", "message", "where", "hint", "status"}
        assert told["status"] == 2


@pytest.mark.parametrize("name", [name for name in COMMANDS if name not in ("completion", "help")])
def test_every_command_answers_in_json(name: str) -> None:
    command = commands()[name]
    assert "json" in command.outputs  # type: ignore[attr-defined]  # commands are Command or Group
    assert set(command.outputs) <= {*RECORD_OUTPUTS, *JOB_OUTPUTS}  # type: ignore[attr-defined]  # as above


def test_subcommands_have_the_common_options() -> None:
    group = commands()["graphs"]
    assert isinstance(group, Group)
    assert all("--json" in str([p.opts for p in sub.params]) for sub in group.commands.values())


# -- pools by words ------------------------------------------------------------------------------------------------------


@pytest.fixture
def graph(tiny: Invoke) -> ResourceGraph:
    return open_store().load("tiny")


def paths(graph: ResourceGraph, *words: str) -> list[tuple[str, int | None]]:
    return [(graph.structure.where(v), amount) for v, amount in arguments.targets(graph, words)]


def test_brackets_fold_any_part_of_a_path(graph: ResourceGraph) -> None:
    assert paths(graph, "/tiny/rack0/node[0-1]/core[2,3]=1") == [
        ("/tiny/rack0/node0/core2", 1),
        ("/tiny/rack0/node0/core3", 1),
        ("/tiny/rack0/node1/core2", 1),
        ("/tiny/rack0/node1/core3", 1),
    ]
    assert paths(graph, "power:/pdu[0-1]=5", "tiny:/login1") == [("power:/pdu0", 5), ("power:/pdu1", 5), ("/tiny/login1", None)]


def test_folded_output_is_accepted_as_input(graph: ResourceGraph, tiny: Invoke) -> None:
    for criteria in ("type=core", "type=node", "all", "rank=2", "type=switch"):
        if criteria == "all":
            criteria = "size>=0"
        words = tiny("find", criteria, "-o", "folded").stdout.split()
        assert sorted(v for v, _ in arguments.targets(graph, words)) == graph.find(criteria).vertices.tolist()


def test_real_name_with_brackets_takes_precedence(tiny: Invoke, place: Path) -> None:
    (place / "odd.yaml").write_text("fluxres: 1\nname: odd\nresources: [{type: node, names: ['a[0-1]']}]\n", encoding="utf-8")
    loaded = tiny("load", "odd.yaml", status=0)
    assert loaded.exit_code == 0
    graph = open_store().load("odd")
    name = graph.structure.name(1)
    assert paths(graph, f"/odd/{name}") == [(f"/odd/{name}", None)]


def test_more_pools_than_the_bound_are_refused_before_expansion() -> None:
    with pytest.raises(LimitExceeded, match=str(limits.IDSET_COUNT_MAX)):
        folded.expand("/a[0-9999]/b[0-9999]/c[0-9999]")


@pytest.mark.parametrize("word", ["/tiny/rack[0-1", "/tiny/rack]0[", "/tiny//rack0=x", "", "=3", "/tiny/rack0=" + "9" * 400])
def test_unknown_pools_are_refused(graph: ResourceGraph, word: str) -> None:
    with pytest.raises(FluxresError):
        arguments.targets(graph, [word])


def test_machines_go_through_pipes(tiny: Invoke) -> None:
    tiny("allocate", "/tiny/rack0/node0", "--job", "j1")
    text = tiny("save", "-").stdout
    assert text.startswith("fluxres: 1\nname: tiny\n")
    tiny("load", "-", "--name", "again", stdin=text)
    store = open_store()
    first, again = store.load("tiny"), store.load("again")
    assert [p.uuid for p in again.allocated("j1")] == [p.uuid for p in first.allocated("j1")]
    assert len(again) == len(first)
    tiny("convert", "-", "-", stdin=text)
    tiny("save", "-", "--changed-only", status=2)


def test_pools_hidden_from_fluxion_and_ignored_keys_are_reported(fluxres: Invoke, tmp_path: Path) -> None:
    machine, graph = str(ROOT / "data" / "clusters" / "demo.yaml"), str(tmp_path / "demo.jgf")
    note = "fluxres: Fluxion does not see power: 2 roots; network: 3 pools outside containment\n"
    assert fluxres("convert", machine, graph).stderr.endswith(note)
    assert fluxres("convert", machine, "-", "--to", "jgf").stderr.endswith(note)
    assert json.loads(fluxres("convert", machine, graph, "--json").stdout)["note"] == note[len("fluxres: ") : -1]
    fluxres("load", machine)
    for held in (["/demo/rack0"], ["/demo/rack1/node[4-5]"], ["slot=2/core"]):
        for form in ("rv1", "rv1_shorthand"):
            r = fluxres("allocate", *held, "--job", "j", "-o", form).stdout
            fluxres("free", "j")
            assert fluxres("convert", "-", "-", stdin=r).stderr == ""
    passed_over = fluxres("convert", str(ROOT / "data" / "fuzz" / "jgf" / "standard.json"), "-").stderr
    assert "ignored, since a machine has no place for it: version, graph.nodes.metadata.vendor" in passed_over


def test_loading_the_same_machine_again_keeps_what_jobs_and_operators_did(tiny: Invoke) -> None:
    tiny("allocate", "/tiny/rack0/node0", "--job", "j1")
    tiny("state", "/tiny/rack1", "drain")
    before = tiny("log").stdout
    again = tiny("load", str(MACHINE))
    assert again.stderr == "fluxres: graph 'tiny' is loaded already; nothing was changed\n"
    assert "jobs              j1" in again.stdout
    assert tiny("log").stdout == before


def test_a_changed_machine_is_not_loaded_over_the_present_one(tiny: Invoke, tmp_path: Path) -> None:
    other = tmp_path / "other.yaml"
    other.write_text(MACHINE.read_text(encoding="utf-8").replace("size: 64", "size: 96"), encoding="utf-8")
    refused = tiny("load", str(other), status=2).stderr
    assert "a graph 'tiny' exists already, and this one differs from it: 6 pools changed" in refused
    assert "`fluxres apply` changes the graph and keeps its jobs, --replace discards it (it has no jobs)" in refused
    tiny("allocate", "/tiny/rack0/node0", "--job", "j1")
    assert "--replace discards its 1 job)" in tiny("load", str(other), status=2).stderr
    tiny("diff", str(other), status=1)
    tiny("apply", str(other), status=1)
    tiny("free", "j1")
    tiny("apply", str(other))
    assert tiny("diff", str(other)).stdout == "no difference\n"


def test_a_difference_of_type_can_be_seen(fluxres: Invoke, tmp_path: Path) -> None:
    def machine(properties: str, weight: str) -> Path:
        path = tmp_path / "lab.yaml"
        path.write_text(
            f"fluxres: 1\nname: lab\nresources: [{{type: node, count: 2, properties: {properties}}}]\n"
            "graphs:\n  net:\n    edges:\n"
            f"    - {{from: /lab/node0, to: /lab/node1, relation: link, attributes: {{weight: {weight}}}}}\n",
            encoding="utf-8",
        )
        return path

    fluxres("load", str(machine("{class: 3, load: 1.5, wide: 2}", "2.0000001")))
    found = fluxres("diff", str(machine("{class: '3', load: 2.5, wide: 2.0}", "2.0000002")), status=1).stdout.splitlines()
    assert found[:4] == [
        "~ /lab/node[0-1]: property class 3 -> '3'",
        "~ /lab/node[0-1]: property load 1.5 -> 2.5",
        "~ /lab/node[0-1]: property wide 2 -> 2.0",
        "~ net: /lab/node0 -> /lab/node1 (link): weight 2.0000001 -> 2.0000002",
    ]
