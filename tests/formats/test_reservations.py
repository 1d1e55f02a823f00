"""Maintenance reservations in files (rule S1): kept as they are, or reported; never read as a job."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import jsonschema
import pytest

import fluxres
from fluxres import InputError, InsufficientResources, LimitExceeded, Resource, ResourceGraph, UsageError, limits
from fluxres.formats import registry
from fluxres.formats.cluster import schema
from fluxres.formats.format import Format, Reserved
from fluxres.formats.graphs import node_link
from tests.formats.round_trip import round_trip

KEPT = ("cluster", "node-link")
OTHERS = [known for known in registry.formats() if known.writer is not None and known.name not in KEPT]
MACHINE = "fluxres: 1\nname: m\nresources: [{type: node, count: 3, size: 4, with: [{type: core, count: 2}]}]\n"


def machine(*, exclusive: bool = False) -> ResourceGraph:
    node = Resource("node", 3, children=[Resource("core", 2), Resource("memory", size=4)], exclusive=exclusive)
    return fluxres.build(Resource("rack", 2, children=[node]), name="lab")


def require_same(graph: ResourceGraph, again: ResourceGraph) -> None:
    assert again.reservations() == graph.reservations()
    assert again.jobs() == graph.jobs()
    for records in ("held", "implied"):
        assert getattr(again.records, records) == getattr(graph.records, records)
    assert [again.facts(name) for name in graph.reservations()] == [graph.facts(name) for name in graph.reservations()]
    assert again.check() == []


@pytest.mark.parametrize("name", KEPT)
def test_rule_s1_a_reservation_is_kept_and_is_no_job(name: str) -> None:
    graph = machine()
    graph.reserve("/lab/rack0/node0", name="mnt", start=10, end=20, every_s=100.5, until=400, user="ada")
    written = fluxres.dumps(graph, format=name)
    again = fluxres.loads(written)
    require_same(graph, again)
    assert fluxres.dumps(again, format=name) == written
    assert b"held" not in written
    with pytest.raises(UsageError, match="is a maintenance reservation, not a job"):
        again.free("mnt")
    again.unreserve("mnt")
    assert again.records.held == {}


@pytest.mark.parametrize("name", KEPT)
def test_rule_s1_what_a_reserved_supplier_affects_is_kept(name: str) -> None:
    edges = [fluxres.Edge("power:/pdu0", "/lab/node[0-1]")]
    power = fluxres.AuxiliaryGraph(pools=[Resource("pdu", 2, size=9, unit="W")], edges=edges)
    graph = fluxres.build(Resource("node", 3), name="lab", graphs={"power": power})
    graph.reserve("power:/pdu0", name="m", start=10, end=20)
    written = fluxres.dumps(graph, format=name)
    assert b"affected" not in written  # it is what only the PDU supplies
    require_same(graph, fluxres.loads(written))
    graph.add_edge("power:/pdu1", "/lab/node1", "power")
    graph.add_edge("power:/pdu0", "/lab/node2", "power")
    written = fluxres.dumps(graph, format=name)
    assert b"affected" in written
    again = fluxres.loads(written)
    require_same(graph, again)
    assert fluxres.dumps(again, format=name) == written


@pytest.mark.parametrize("exclusive", [False, True], ids=["shared nodes", "exclusive nodes"])
@pytest.mark.parametrize("name", KEPT)
@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(20))
def test_rule_s1_what_it_holds_beside_jobs_is_kept(seed: int, name: str, exclusive: bool) -> None:
    random, graph = Random(seed), machine(exclusive=exclusive)
    jobs = []
    for number in range(6):
        start = random.randrange(0, 40)
        try:
            graph.allocate(random.choice(["slot/core", "slot/node", "slot/memory"]), job=f"j{number}", at=start, duration_s=20)
            jobs.append(f"j{number}")
        except InsufficientResources:
            pass
    where = random.sample(["/lab/rack0", "/lab/rack1/node0", "/lab/rack1/node1/core1", "/lab/rack1/node2/memory"], 2)
    graph.reserve(where, name="m", start=5, end=15, every_s=25, until=60, ignore_jobs=True)
    for job in random.sample(jobs, 2):
        graph.free(job)
    again = fluxres.loads(fluxres.dumps(graph, format=name))
    require_same(graph, again)
    for job in again.jobs():
        again.free(job)
        graph.free(job)
    require_same(graph, again)


@pytest.mark.parametrize("name", KEPT)
def test_reservations_of_any_kind_come_back(name: str) -> None:
    structure = machine().structure
    kinds = [
        Reserved("a b", (2, 6), ((1.5, 3.0), (3.0, 4.0)), user="é", submitted_s=0.25),
        Reserved("é", (1,), ((1.8e9, 1.8e9 + 60),), ignores_jobs=True, held=()),
        Reserved("x", (11, 16), ((0.0, 9.0),), held=((0.0, 2.5, {11: 1, 13: 1}), (2.5, 9.0, {16: 1}))),
    ]
    round_trip(structure, name, reservations=kinds)


@pytest.mark.parametrize("known", OTHERS, ids=lambda known: known.name)
def test_rule_s1_other_formats_report_it(known: Format) -> None:
    node = Resource("node", 2, children=[Resource("core", 2)])
    graph = fluxres.build(node, name="lab")
    graph.reserve("/lab/node0", name="mnt", start=10, end=20)
    written = fluxres.store.files.bytes_of(graph, known.name)
    assert [line for line in written.left_out if "mnt" in line] == ["reservations: 1 maintenance reservation, mnt"]
    assert not [line for line in written.left_out if line.startswith("allocations")]
    assert b"mnt" not in written.data
    with pytest.raises(UsageError, match="would leave out"):
        fluxres.dumps(graph, format=known.name)


@pytest.mark.parametrize("name", KEPT)
def test_times_that_seconds_cannot_express_are_reported(name: str) -> None:
    graph = machine()
    far = 3e12
    graph.reserve("/lab/rack0", name="mnt", start=far + 0.001953125, end=far + 1)
    assert fluxres.loads(fluxres.dumps(graph, format=name)).reservations() == graph.reservations()
    graph.allocate("/lab/rack1", job="j", start=0, end=1)
    ((start, end),) = graph.reservations()["mnt"].windows
    graph.records.reservations["mnt"] = fluxres.allocation.facts.Reservation((1,), ((start + 1, end),))
    with pytest.raises(UsageError, match="microseconds of times too far away"):
        fluxres.dumps(graph, format=name)


def test_a_part_of_what_is_reserved_has_the_reservation() -> None:
    graph = machine()
    graph.reserve("/lab/rack0", name="mnt", start=10, end=20, user="ada")
    for part in (graph.duplicate("/lab/rack0/node0"), fluxres.loads(fluxres.dumps(graph, where="/lab/rack0/node0"))):
        assert part.jobs() == []
        assert part.reservations()["mnt"].pools == (0,)
        assert part.facts("mnt").user == "ada"
        assert part.pool("/node0/core1").available(at=15) == 0
        part.unreserve("mnt")
        assert part.records.held == {}
    assert graph.duplicate("/lab/rack1").reservations() == {}


def test_a_reservation_written_by_hand_holds_what_jobs_leave() -> None:
    held = "allocations: [{job: j, end: 15, pools: {/m/node0/core0: 1}}]\n"
    entry = "name: w, pools: ['/m/node[0-1]'], windows: [{start: 10, end: 20}]"
    graph = fluxres.loads(f"{MACHINE}{held}reservations: [{{{entry}, ignores_jobs: true}}]\n")
    assert [graph.pool(f"/m/node0/core{i}").available(at=12) for i in (0, 1)] == [0, 0]
    assert graph.jobs() == ["j"]
    graph.free("j")
    assert graph.pool("/m/node0/core0").available(at=12) == 0
    with pytest.raises(InputError, match="the reservations break a rule: /m/node0 and 1 more: j holds something there"):
        fluxres.loads(f"{MACHINE}{held}reservations: [{{{entry}}}]\n")


@pytest.mark.parametrize(
    ("entry", "path", "message"),
    [
        ("{name: a, pools: [/m/node9], windows: [{start: 1, end: 2}]}", "pools[0]", "no pool 'node9'"),
        ("{name: a, pools: [], windows: [{start: 1, end: 2}]}", "pools", "at least one"),
        ("{name: a, pools: [/m], windows: []}", "windows", "at least one"),
        ("{name: a, pools: [/m], windows: [{start: 2, end: 2}]}", "windows[0].end", "before it begins at 2"),
        ("{name: a, pools: [/m], windows: [{start: 5, end: 7}, {start: 6, end: 8}]}", "windows[1].start", "before it ends at 7"),
        ("{name: a, pools: [/m], windows: [{start: 5}]}", "windows[0]", "'end' is missing"),
        (
            "{name: a, pools: [/m], windows: [{start: 5, end: .inf}]}",
            "windows[0].end",
            "expected a number from 0 to 4000000000000, got inf",
        ),
        ('{name: "a\\tb", pools: [/m], windows: [{start: 1, end: 2}]}', "name", "control characters"),
        ('{name: a, user: "\\t", pools: [/m], windows: [{start: 1, end: 2}]}', "user", "control characters"),
        ("{name: a, pools: [5], windows: [{start: 1, end: 2}]}", "pools[0]", "expected text, got 5"),
        (
            "{name: a, pools: [/m], windows: [{start: 1, end: 2}], held: [{start: 2, end: 1, pools: {}}]}",
            "held[0].end",
            "before it begins",
        ),
        (
            "{name: a, pools: [/m], windows: [{start: 1, end: 2}], held: [{start: 1, end: 2, pools: {/m/node0: 5}}]}",
            "held[0].pools./m/node0",
            "5 units of /m/node0, which has 4",
        ),
    ],
)
def test_mistakes_in_a_cluster_file_have_their_place(entry: str, path: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        fluxres.loads(f"{MACHINE}reservations: [{entry}]\n")
    assert caught.value.where.split(": ", 1)[1] == f"reservations[0].{path}"
    assert message in caught.value.message


@pytest.mark.parametrize(
    ("change", "path", "message"),
    [
        ({"pools": [99]}, "pools[0]", "no node has the id 99"),
        ({"windows": [{"start": 3, "end": 2}]}, "windows[0].end", "before it begins at 3"),
        ({"name": "a\tb"}, "name", "control characters"),
        ({"held": [{"start": 1, "end": 1, "pools": []}]}, "held[0].end", "before it begins"),
        ({"held": [{"start": 1, "end": 2, "pools": [[99, 1]]}]}, "held[0].pools[0]", "no node has the id 99"),
    ],
)
def test_mistakes_in_node_link_have_their_place(change: dict[str, object], path: str, message: str) -> None:
    one = {"name": "a", "pools": [0], "windows": [{"start": 1, "end": 2}]} | change
    document = {"nodes": [{"id": 0, "type": "node"}], "edges": [], "graph": {"reservations": [one]}}
    with pytest.raises(InputError, match=message) as caught:
        registry.read(json.dumps(document).encode(), format="node-link")
    assert f"graph.reservations[0].{path}" in caught.value.where


def test_rules_are_those_of_reserve(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = "{name: a, pools: [/m], windows: [{start: 1, end: 2}]}"
    with pytest.raises(InputError, match="'a' is a reservation already"):
        fluxres.loads(f"{MACHINE}reservations: [{entry}, {entry}]\n")
    with pytest.raises(InputError, match="'a' is a job already"):
        fluxres.loads(f"{MACHINE}allocations: [{{job: a, start: 5, pools: {{/m: 1}}}}]\nreservations: [{entry}]\n")
    monkeypatch.setattr(limits, "RESERVATIONS_MAX", 0)
    with pytest.raises(InputError, match="more than 0 reservations") as caught:
        fluxres.loads(f"{MACHINE}reservations: [{entry}]\n")
    assert isinstance(caught.value.__cause__, LimitExceeded)


def test_the_schemas_have_them() -> None:
    graph = machine()
    graph.allocate("/lab/rack0/node0/core0", job="j", start=0, end=15)
    graph.reserve("/lab/rack0", name="m", start=10, end=20, ignore_jobs=True, user="ada")
    values = json.loads(fluxres.dumps(graph, format="node-link"))
    jsonschema.validate(values, node_link.json_schema())
    assert values["graph"]["reservations"][0]["name"] == "m"
    data = fluxres.formats.cluster.write.document(graph.structure, registry.holds(graph), reservations=registry.reserved(graph))
    jsonschema.validate(data.values, schema.json_schema())


def test_a_save_and_a_conversion_of_a_stored_graph_keep_it(tmp_path: Path) -> None:
    graph = machine()
    graph.reserve("/lab/rack0", name="mnt", start=10, end=20)
    assert fluxres.save(graph, tmp_path / "a.yaml", strict=True).left_out == []
    fluxres.save(graph, f"{tmp_path}/x.db")
    again = fluxres.load(f"{tmp_path}/x.db", clock=lambda: 0.0)
    report = fluxres.save(again, tmp_path / "a.jgf")
    assert "reservations: 1 maintenance reservation, mnt" in report.left_out
    require_same(graph, fluxres.load(tmp_path / "a.yaml"))
