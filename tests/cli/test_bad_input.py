"""`fluxres load` of invalid input: place, value, hint, exit status 2, and an unchanged store."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from fluxres import limits
from tests.cli.conftest import Invoke

ALIASES = "\n".join(["a0: &a0 [x, x, x, x]", *(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 9))])
EDGES = "graphs:\n  power:\n    hierarchy: true\n    edges:\n"
TWO = "resources: [{type: node, count: 2}]\n"


def nested(levels: int) -> str:
    return "resources: " + "[{type: a, with: " * levels + "[]" + "}]" * levels


#: name: the text after the first line, ``line:column: path``, part of the message, part of the hint
TEXTS: dict[str, tuple[str, str, str, str]] = {
    "unknown key": ("resources:\n  - type: node\n    cuont: 2\n", "4:5: resources[0].cuont", "'cuont'", "did you mean 'count'?"),
    "unknown key at the top": ("resorces: []\n", "2:1: resorces", "unknown key", "did you mean 'resources'?"),
    "text for a number": (
        "resources:\n  - type: node\n    count: four\n",
        "4:12: resources[0].count",
        "got 'four'",
        "a whole number of at least 1",
    ),
    "a list for a mapping": ("resources:\n  - [node]\n", "3:5: resources[0]", "got a list of 1", "expected a mapping"),
    "a mapping for a list": ("resources: {type: node}\n", "2:12: resources", "got a mapping", "expected a list"),
    "null for text": ("resources: [{type: null}]\n", "2:20: resources[0].type", "got null", "expected text"),
    "zero count": (
        "resources: [{type: node, count: 0}]\n",
        "2:33: resources[0].count",
        "got 0",
        "expected a whole number of at least 1",
    ),
    "negative count": (
        "resources: [{type: node, count: -3}]\n",
        "2:33: resources[0].count",
        "got -3",
        "expected a whole number of at least 1",
    ),
    "zero size": (
        "resources: [{type: node, size: 0}]\n",
        "2:32: resources[0].size",
        "got 0",
        "expected a whole number of at least 1",
    ),
    "too many units": ("resources: [{type: m, size: 9223372036854775808}]\n", "2:29: resources[0].size", "5808", "to 46116860"),
    "duplicate id": ("resources:\n- {type: n, id: 3}\n- {type: n, id: 3}\n", "4:17: resources[1].id", "id 3", "distinct ids"),
    "duplicate id in a list": ("resources: [{type: n, id: [3, 3]}]\n", "2:27: resources[0].id", "id 3", "distinct ids"),
    "duplicate name": (
        "resources:\n- {type: n, name: a}\n- {type: c, name: a}\n",
        "4:3: resources[1]",
        "named 'a'",
        "another name",
    ),
    "duplicate key": ("name: a\nname: b\nresources: []\n", "3:1: name", "duplicate key", "remove one"),
    "dangling edge": (
        f"name: m\n{TWO}graphs:\n  power:\n    edges:\n    - {{from: /m/node0, to: /m/nodde}}\n",
        "7:28: graphs.power.edges[0].to",
        "'nodde'",
        "choose from node[0-1]",
    ),
    "dangling edge from elsewhere": (
        f"name: m\n{TWO}graphs:\n  power:\n    edges:\n    - {{from: power:/pdu, to: /m/node0}}\n",
        "7:14: graphs.power.edges[0].from",
        "no graph 'power'",
        "choose from m",
    ),
    "cycle of edges": (
        f"name: m\n{TWO}{EDGES}    - {{from: /m, to: /m/node0}}\n    - {{from: /m/node0, to: /m}}\n",
        "8:7: graphs.power.edges[0]",
        "/m/node0 would be below itself",
        "remove one edge",
    ),
    "two parents": (
        f"name: m\n{TWO}{EDGES}    - {{from: /m, to: /m/node1}}\n    - {{from: /m/node0, to: /m/node1}}\n",
        "9:7: graphs.power.edges[1]",
        "two parents",
        "hierarchy: false",
    ),
    "cycle of parts": (
        "parts:\n  a: {type: n, with: [{use: a}]}\nresources: [{use: a}]\n",
        "3:29: parts.a.with[0].use",
        "contains itself",
        "contains itself",
    ),
    "cycle of aliases": ("resources: &r\n- {type: n, with: *r}\n", "3:19: resources[0].with", "'*r'", "cannot contain itself"),
    "cycle of includes": ("include: [bad.yaml]\nresources: []\n", "2:11: include[0]", "includes itself", "remove one"),
    "two roots": ("resources:\n- {type: cluster}\n- {type: cluster}\n", "4:3: resources[1]", "two roots", "one entry"),
    "two roots of two sorts": ("root: {type: node}\nresources: []\n", "3:1: resources", "both", "'with'"),
    "too deep": (nested(70), "2:", "levels", "leave out levels"),
    "too deep for a document": ("resources: " + "[" * 300 + "]" * 300, "2:211: resources[0]", "levels", "at most 64"),
    "too large": (
        "resources: [{type: n, count: 100000, with: [{type: c, count: 100000}]}]\n",
        "2:13: resources[0]",
        "at most 64000000",
        "size",
    ),
    "alias bomb": (f"{ALIASES}\nresources: []\n", "8:", "aliases expand to more than", "'count' or 'use'"),
    "tab": ("resources:\n\t- type: node\n", "3:1: resources", "a tab in the indentation", "not with tabs"),
    "NUL": ("name: a\0b\n", "2:8", "NUL", "remove the byte"),
    "not UTF-8": ("name: caf\udce9\n", "2:10", "0xe9", "UTF-8"),
    "nothing but a comment": ("# nothing\n", "1:1", "resources", "list what the machine has"),
    "a window that ends before it begins": (
        f"name: m\n{TWO}allocations: [{{job: j, start: 5, end: 5, pools: {{/m/node0: 1}}}}]\n",
        "4:39: allocations[0].end",
        "before it begins",
        "the end must be after the start",
    ),
    "a pool held twice": (
        f"name: m\n{TWO}allocations: [{{job: j, pools: {{/m/node0: 1, '/m/node[0]': 1}}}}]\n",
        "4:45: allocations[0].pools./m/node[0]",
        "twice",
        "add the units up",
    ),
    "more held than there is": (
        f"name: m\n{TWO}allocations: [{{job: j, pools: {{/m/node0: 2}}}}]\n",
        "4:42: allocations[0].pools./m/node0",
        "2 units of /m/node0, which has 1",
        "at most the size",
    ),
}


def told(fluxres: Invoke, source: str) -> str:
    """The message of a load that fails and leaves the store unchanged."""
    before = [(path, path.read_bytes()) for path in sorted(Path(os.environ["XDG_DATA_HOME"]).rglob("*.db"))]
    assert len(before) == 1
    told = fluxres("load", source, "--replace", status=2).stderr
    assert [(path, path.read_bytes()) for path, _ in before] == before
    assert len(told) < 1000
    return told


@pytest.mark.parametrize("what", TEXTS)
def test_invalid_document_is_refused_with_place_and_hint(what: str, tiny: Invoke, place: Path) -> None:
    text, where, message, way_out = TEXTS[what]
    (place / "bad.yaml").write_bytes(f"fluxres: 1\n{text}".encode("utf-8", "surrogateescape"))
    line = told(tiny, "bad.yaml")
    assert line.startswith(f"fluxres: ERROR bad.yaml:{where}")
    assert message in line
    assert way_out in line


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("missing.yaml", r"missing\.yaml: no such file \(relative paths.*\)"),
        ("folder", r"folder: is a directory, expected a file \(name a file in it\)"),
        ("empty.yaml", r"empty\.yaml:1:1: is empty \(a document must have at least one key\)"),
        ("", r"'': the name of the file is empty \(name a file.*\)"),
        ("x" * 300, r"x+: cannot be read: File name too long \(name a file\)"),
        ("/dev/zero", r"/dev/zero: is a device, not a document \(.*\)"),
        ("text.txt", r"text\.txt: unrecognized format \(a cluster file begins with 'fluxres: 1'.*\)"),
    ],
)
def test_source_that_is_not_a_document_is_refused_by_name(source: str, expected: str, tiny: Invoke, place: Path) -> None:
    (place / "folder").mkdir()
    (place / "empty.yaml").touch()
    (place / "text.txt").write_text("hello\n")
    assert re.fullmatch(f"fluxres: ERROR {expected}\n", told(tiny, source))


def test_unreadable_file_is_refused_by_name(tiny: Invoke, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (place / "bad.yaml").write_text("fluxres: 1\n")
    system = os.open

    def refusing(path: str | Path, *args: int, **more: int) -> int:
        if str(path) == "bad.yaml":
            raise PermissionError(13, "Permission denied")
        return system(path, *args, **more)

    # Root may read any file, so the system's answer is simulated.
    monkeypatch.setattr(os, "open", refusing)
    assert "bad.yaml: cannot be read: Permission denied (check the permissions" in told(tiny, "bad.yaml")


def test_a_document_that_is_too_long_is_refused(tiny: Invoke, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (place / "bad.yaml").write_text("fluxres: 1\nresources: []\n")
    monkeypatch.setattr(limits, "YAML_BYTES_MAX", 20)
    assert "bad.yaml: 25 bytes of YAML, at most 20 are allowed (use JSON" in told(tiny, "bad.yaml")
    monkeypatch.setattr(limits, "DOCUMENT_BYTES_MAX", 20)
    assert "bad.yaml: more than 20 bytes (write repeated" in told(tiny, "bad.yaml")


def test_invalid_document_creates_no_store(fluxres: Invoke, place: Path) -> None:
    (place / "bad.yaml").write_text("fluxres: 2\n")
    fluxres("load", "bad.yaml", status=2)
    assert not list(place.parent.rglob("*.db"))


def test_save_reports_losses(tiny: Invoke, place: Path) -> None:
    tiny("stage", "/tiny/rack0", "--job", "j1")
    told = "left out: stage s0 of job j1: files do not store temporary locks\n"
    for dest in ("m.yaml", "-"):
        shown = tiny("save", dest)
        assert told in shown.stderr, dest
        assert told not in shown.stdout


def test_pools_count_as_written_only_if_nothing_was_left_out(fluxres: Invoke, place: Path) -> None:
    nodes = "{type: node, count: 2, with: [{type: core, count: 2}]}"
    site = f"fluxres: 1\nname: cluster0\nresources: [{{type: rack, with: [{nodes}]}}]\n"
    (place / "m.yaml").write_text(site, encoding="utf-8")
    whole, part = fluxres("convert", "m.yaml", "m.jgf"), fluxres("convert", "m.yaml", "m.R")
    assert (whole.stdout, whole.stderr) == ("m.jgf: 8 pools, jgf\n", "")
    assert part.stdout == "m.R: R, from 8 pools\n"
    assert "left out: pools: 1 pool, /cluster0/rack" in part.stderr


def test_check_notes_nodes_that_type_and_id_name_alike(fluxres: Invoke, place: Path) -> None:
    site = "fluxres: 1\nname: m\nresources: [{type: rack, count: 3, with: [{type: node, count: 2, id: {within: WITHIN}}]}]\n"
    (place / "m.yaml").write_text(site.replace("WITHIN", "rack"), encoding="utf-8")
    told = fluxres("check", "m.yaml")
    assert told.stdout == "m: 10 pools, no problems\n"
    assert told.stderr == (
        "fluxres: nodes that share a host name with another: 4 nodes named by type and id, such as /m/rack1/node0; "
        "R and constraints name hosts (give names, or ids that run on)\n"
    )
    (place / "m.yaml").write_text(site.replace("WITHIN", "cluster"), encoding="utf-8")
    assert fluxres("check", "m.yaml").stderr == ""


def test_load_reports_pools_whose_draw_cannot_be_supplied(fluxres: Invoke, place: Path) -> None:
    site = """
fluxres: 1
name: m
resources: [{type: node, count: 9, draw: {power: 1000}}]
graphs:
  power:
    hierarchy: true
    pools: [{type: pdu, size: 9000, unit: W}]
    edges: [{from: "power:/pdu", to: "/m/node*", capacity: 900}]
"""
    (place / "m.yaml").write_text(site, encoding="utf-8")
    told = fluxres("load", "m.yaml").stderr.splitlines()
    warned = json.loads(fluxres("check", "--json").stdout)["problems"]
    assert told == [f"fluxres: {p['where']}: {p['message']}" if p["where"] else f"fluxres: {p['message']}" for p in warned]
    assert told[0].startswith("fluxres: /m/node0: draws 1 kW of power: power:/pdu -> /m/node0, which has 900 W")
    assert told[-1] == "fluxres: 9 pools in all draw more power than their suppliers have"
    assert len(told) == limits.WHY_NAMES_MAX + 1
    (place / "m.yaml").write_text(site.replace("900}", "1000}"), encoding="utf-8")
    assert fluxres("load", "m.yaml", "--replace").stderr == ""


@pytest.mark.parametrize(
    ("word", "said"),
    [
        (
            "/tiny/rack0/node0/memory=10.5GiB",
            "memory: expected a whole number of GiB, got '10.5GiB' (the nearest are 10 and 11 GiB)",
        ),
        ("/tiny/rack0/node0/memory=10kW", "memory: expected units of one dimension, got kW (power) and GiB (bytes)"),
        ("/tiny/rack0/node0=1GiB", "node0: expected a number without a unit, got '1GiB' (the pool has no unit)"),
        ("/tiny/rack9/memory=1GiB", "no pool 'rack9'"),
    ],
)
def test_amount_that_is_no_whole_number_of_the_unit_of_the_pool_is_refused(tiny: Invoke, word: str, said: str) -> None:
    assert said in tiny("allocate", word, "--job", "j", status=2).stderr


def test_amount_in_another_unit_is_converted(tiny: Invoke) -> None:
    for number, word in enumerate(("memory=2GiB", "memory=2048MiB", "memory=2")):
        told = tiny("allocate", f"/tiny/rack0/node0/{word}", "--job", f"j{number}", "--json").stdout
        assert json.loads(told)["pools"] == [{"path": "/tiny/rack0/node0/memory", "amount": 2}]


LISTS = "`fluxres help instance` lists the commands of instance"
TIMES = "now, +30m, 08:00, 8:30pm, tomorrow 08:00, monday, 2026-12-01T08:00"


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("allocate", "missing option: --job (fluxres allocate --help)"),
        ("allocate --bogus", "no such option: --bogus (fluxres allocate --help)"),
        ("load --nme x", "no such option: --nme (did you mean --name?)"),
        ("load x --name", "option '--name' requires an argument (fluxres load --help)"),
        ("merge", "missing argument: SOURCE (fluxres merge --help)"),
        ("merge a b c", "unexpected argument: b c (fluxres merge --help)"),
        ("run --priority high -- true", "--priority: expected a whole number, got 'high' (fluxres run --help)"),
        ("timeline --width 3", "--width: expected a whole number from 40 to 20000, got 3 (fluxres timeline --help)"),
        ("workload a b --to x", "--to: expected one of 'swf', 'batsim', 'jobs', got 'x' (fluxres workload --help)"),
        (
            "allocate -n 99999999999999999999 --job q",
            f"-n: expected a whole number of at most {limits.COUNT_MAX}, got '99999999999999999999'",
        ),
        ("allocate -n 0 --job q", "-n: expected a whole number of at least 1, got 0"),
        ("allocate -N0 --job q", "-N: expected at least 1 node, got 0 (such as 4, 2-4 or 2+)"),
        ("allocate -N-1 --job q", "-N: expected at least 1 node, got '-1' (such as 4, 2-4 or 2+)"),
        (
            "help instance extend",
            f"no command or topic 'instance extend' (perhaps `fluxres help extend`; {LISTS})",
        ),
        ("when slot/node --start soon", f"--start: expected a time, got 'soon' ({TIMES}, or seconds such as 3600)"),
        (
            "allocate slot/node --job q --end soon",
            f"--end: expected a time, got 'soon' ({TIMES}, seconds such as 3600, or - for no end)",
        ),
        (
            "instance submit slot/node --dependency begin-time:soon",
            f"--dependency: expected a time, got 'soon' ({TIMES}, or seconds such as 3600)",
        ),
        ("state node1 dwon", "no state 'dwon' (did you mean down?)"),
        ("free jobbi", "no job 'jobbi' holds anything (did you mean jobby?)"),
        ("free other", "no job 'other' holds anything (`jobs` lists those that do)"),
    ],
)
def test_a_wrong_word_is_refused_in_one_style_with_what_was_meant(tiny: Invoke, command: str, said: str) -> None:
    tiny("allocate", "slot/core", "--job", "jobby")
    assert tiny(*command.split(), status=2).stderr == f"fluxres: ERROR {said}\n"


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        (r'{type: node, name: "a\tb", count: 1}', r"name 'a\tb' has a character not allowed in a path (leave out U+0009)"),
        (r'{type: node, name: "a\u202eb"}', r"name 'a\u202eb' has a character not allowed in a path (leave out U+202E)"),
        ("{type: node, name: a/b}", "name 'a/b' has a character not allowed in a path (leave out '/')"),
        (
            "{type: node, size: 9999999999999999999}",
            "expected a whole number from 1 to 4611686018427387903 or text such as '192GiB', got 9999999999999999999",
        ),
    ],
)
def test_a_wrong_value_of_a_file_is_named_with_the_way_out(fluxres: Invoke, place: Path, entry: str, said: str) -> None:
    (place / "m.yaml").write_text(f"fluxres: 1\nname: c\nresources:\n  - {entry}\n", encoding="utf-8")
    assert said in fluxres("check", "m.yaml", status=2).stderr


@pytest.mark.parametrize(("command", "what"), [("tag", "the tag 'node0'"), ("state", "the state 'node0'")])
def test_a_sole_pool_was_taken_for_the_last_argument(tiny: Invoke, command: str, what: str) -> None:
    assert f"no pools named before {what}" in tiny(command, "node0", status=2).stderr


def test_a_property_without_a_value_differs_from_one_that_is_true(fluxres: Invoke, place: Path) -> None:
    for name, given in (("bare", "[ssd]"), ("true", "{ssd: true}")):
        (place / f"{name}.yaml").write_text(f"fluxres: 1\nname: m\nresources: [{{type: node, properties: {given}}}]\n")
    fluxres("load", "bare.yaml")
    assert "property ssd no value -> true" in fluxres("diff", "true.yaml", status=1).stdout
    fluxres("load", "true.yaml", "--replace")
    assert "property ssd true -> no value" in fluxres("diff", "bare.yaml", status=1).stdout
