"""Changes: cancel, partial cancel, imported allocations, parts of the graph."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fluxres import limits
from fluxres.fluxion.graph import Vertex
from tests.fluxion.conftest import Start, Typed, ask

CORES = ("/c0/n0/core0", "/c0/n0/core1", "/c0/n1/core0", "/c0/n1/core1")


def jgf(*paths: str, exclusive: tuple[str, ...] = (), first: int = 0, **more: Any) -> str:
    """Vertices of these paths, with edges from each to those below it."""
    nodes, edges = [], []
    ids = {path: str(first + number) for number, path in enumerate(paths)}
    for path in paths:
        name = path.rpartition("/")[2]
        kind = {"c": "cluster", "n": "node"}.get(name.rstrip("0123456789"), "core")
        rank = int(path.split("/")[2][1:]) if path.count("/") > 1 else -1
        metadata = {"type": kind, "name": name, "id": int(name[-1]), "rank": rank, "paths": {"containment": path}}
        nodes.append({"id": ids[path], "metadata": metadata | {"exclusive": path in exclusive}})
        above = path.rpartition("/")[0]
        if above in ids:
            edges.append({"source": ids[above], "target": ids[path]})
    return json.dumps({"graph": {"nodes": nodes, "edges": edges}, **more})


TWO = jgf("/c0", "/c0/n0", "/c0/n1", *CORES)
NODE = ask("slot", 1, ask("node", 1, ask("core", 2)))
CORE = ask("slot", 1, ask("core", 1))


@pytest.fixture
def two(start: Start) -> Typed:
    """Two nodes of two cores."""
    return start("-f", "jgf", "-P", "low", graph=TWO)


def allocated(session: Typed) -> str:
    lines = session("find sched-now=allocated").partition("INFO")[0].splitlines()
    return " ".join(line.strip(" -").partition("[")[0] for line in lines)


def test_cancel_frees_everything(two: Typed) -> None:
    before = picture(two)
    two.match(NODE)
    two.match(CORE)
    assert two("cancel 1") == ""
    assert allocated(two) == "core0 n1 c0"
    assert two.taken(NODE) == ["core0", "core1", "n0"]
    two("cancel 2", "cancel 3")
    assert picture(two) == before
    assert two("cancel 1") == ""
    assert "no job 1" in two.told()


def test_cancel_prints_its_visit_counts(two: Typed) -> None:
    two.match(NODE)
    # Root, both nodes, and the cores of the one that the job has; it is known to all but the other node.
    assert two("cancel 1 stats") == (
        'INFO: =============================\nINFO: CANCEL PREORDER COUNT="5"\n'
        'INFO: CANCEL POSTORDER COUNT="4"\nINFO: =============================\n'
    )


def test_part_of_a_job_is_freed_by_vertices(two: Typed) -> None:
    two.match(ask("slot", 2, ask("node", 1, ask("core", 2))))
    part = two.file(jgf("/c0", "/c0/n1", "/c0/n1/core0", "/c0/n1/core1"))
    assert two(f"partial-cancel 1 jgf {part}") == ""
    assert allocated(two) == "core0 core1 n0 c0"
    two(f"partial-cancel 1 jgf {part}")
    assert "names nothing that job 1 has" in two.told()
    assert two.taken(NODE) == ["core0", "core1", "n1"]
    two(f"partial-cancel 1 jgf {two.file(jgf('/c0/n0', *CORES[:2]))}", "info 1")
    assert "no job 1" in two.told()
    assert two.console.getvalue() == ""


def test_part_of_a_job_is_freed_by_ranks(two: Typed) -> None:
    two.match(ask("slot", 4, ask("core", 1)))
    lite = [{"rank": "0", "children": {"core": "0-1"}}]
    part = two.file(json.dumps({"version": 1, "execution": {"R_lite": lite, "nodelist": ["n0"]}}))
    counts = (
        'INFO: =============================\nINFO: PARTIAL CANCEL PREORDER COUNT="0"\n'
        'INFO: PARTIAL CANCEL POSTORDER COUNT="0"\nINFO: =============================\n'
    )
    assert two(f"partial-cancel 1 rv1exec {part} stats") == counts
    assert allocated(two) == "core0 core1 n1 c0"
    assert two.taken(NODE) == ["core0", "core1", "n0"]
    assert two(f"partial-cancel 1 rv1exec {part} stats") == counts
    assert "names nothing that job 1 has" in two.told()
    assert two(f"partial-cancel 7 rv1exec {part} stats") == ""
    assert two("partial-cancel 1 rv1exec /does/not/exist stats") == ""


def test_partly_held_pool_is_not_allocated_to_another_job(two: Typed) -> None:
    two.match(NODE)
    two(f"partial-cancel 1 jgf {two.file(jgf('/c0/n0', '/c0/n0/core0'))}")
    assert allocated(two) == "core1 n0 c0"
    assert two.taken(ask("slot", 2, ask("node", 1))) == ["busy"]
    assert two.taken(ask("slot", 1, ask("node", 1))) == ["n1"]
    assert two.taken(ask("slot", 1, ask("core", 1))) == ["core0"]
    assert two.taken(ask("slot", 1, ask("core", 1))) == ["busy"]
    two("cancel 1", "cancel 3", "cancel 4")
    assert two.taken(ask("slot", 2, ask("node", 1))) == ["n0", "n1"]


def test_reservations_are_not_freed_in_part(two: Typed) -> None:
    two.match(NODE, NODE)
    two.match(ask("slot", 2, ask("node", 1)), op="allocate_orelse_reserve")
    two.match(ask("slot", 2, ask("node", 1)), op="allocate_orelse_reserve")
    two(f"partial-cancel 3 jgf {two.file(TWO)}")
    assert "reservation" in two.told()


def test_an_allocation_is_imported(two: Typed) -> None:
    file = two.file(jgf("/c0", "/c0/n1", *CORES[2:], exclusive=("/c0/n1", *CORES[2:])))
    assert two(f"update allocate jgf {file} 7 0 50") == (
        "      ---------core0[1:x]\n      ---------core1[1:x]\n      ------n1[1:x]\n      ---c0[1:s]\n"
        "INFO: =============================\nINFO: JOBID=7\nINFO: RESOURCES=ALLOCATED\n"
        "INFO: SCHEDULED AT=Now\nINFO: =============================\n"
    )
    assert "No matching resources found\nINFO: JOBID=8\n" in two(f"update allocate jgf {file} 8 0 50")
    assert "RESOURCES=RESERVED\nINFO: SCHEDULED AT=50\n" in two(f"update reserve jgf {file} 8 50 50")
    assert two(f"update allocate jgf {file} 7 100 50") == ""
    assert "job 7 already exists" in two.told()
    assert two.taken(NODE) == ["core0", "core1", "n0"]


def test_ids_are_counted_on_from_an_update(two: Typed) -> None:
    file = two.file(jgf("/c0", "/c0/n1", exclusive=("/c0/n1",)))
    two(f"update allocate jgf {file} 7 0 50")
    assert "JOBID=8\n" in two.match(CORE)
    # An update of pools that are not free fails, but uses its id; an id in use is skipped.
    assert "No matching" in two(f"update allocate jgf {file} 6 0 50")
    assert "JOBID=9\n" in two.match(CORE)
    two("update allocate jgf /does/not/exist 20 0 50")
    assert "JOBID=10\n" in two.match(CORE)


def test_a_partly_imported_node_is_written_as_exclusive_and_stays_shared(two: Typed) -> None:
    lite = [{"rank": "0", "children": {"core": "1"}}]
    file = two.file(json.dumps({"version": 1, "execution": {"R_lite": lite, "nodelist": ["n0"]}}))
    assert two(f"update allocate rv1exec {file} 1 0 50").startswith(
        "      ---------core1[1:x]\n      ------n0[1:x]\n      ---c0[1:s]\n"
    )
    assert allocated(two) == "core1 n0 c0"
    assert two("find jobid-alloc=1").count("n0") == 1
    assert two.taken(CORE) == ["core0"]
    assert two.taken(ask("slot", 2, ask("node", 1))) == ["busy"]


def test_an_allocation_of_another_subsystem_is_imported_without_output(start: Start) -> None:
    graph = json.loads(TWO)
    panel = {"type": "panel", "paths": {"power": "/p0"}}
    graph["graph"]["nodes"].append({"id": "50", "metadata": panel | {"id": 0}})
    for node in graph["graph"]["nodes"]:
        if node["metadata"]["type"] == "node":
            node["metadata"]["paths"]["power"] = f"/p0/{node['metadata']['name']}"
            graph["graph"]["edges"].append({"source": "50", "target": node["id"], "metadata": {"subsystem": "power"}})
    session = start("-f", "jgf", "-P", "low", "-S", "PA", graph=json.dumps(graph))
    paths = {"containment": "/c0/n1", "power": "/p0/n1"}
    held = {"type": "node", "name": "n1", "id": 1, "rank": 1, "exclusive": True, "paths": paths}
    nodes = [{"id": "0", "metadata": {"type": "cluster", "paths": {"containment": "/c0"}}}, {"id": "2", "metadata": held}]
    document = {"graph": {"nodes": nodes, "edges": [{"source": "0", "target": "2"}]}}
    answer = "INFO: =============================\nINFO: JOBID=4\nINFO: RESOURCES=ALLOCATED\nINFO: SCHEDULED AT=Now\n"
    assert session(f"update allocate jgf {session.file(json.dumps(document))} 4 0 50").startswith(answer)
    assert "n1" in session("find sched-now=allocated")
    assert session.taken(ask("slot", 1, ask("node", 1))) == ["n0"]
    assert session.taken(ask("slot", 1, ask("node", 1))) == ["busy"]
    session("cancel 4")
    assert session.taken(ask("slot", 1, ask("node", 1))) == ["n1"]


def test_the_output_of_a_match_can_be_imported(two: Typed) -> None:
    source = two.session
    texts = {}
    for form in ("jgf", "jgf_shorthand", "rv1_nosched"):
        source.scheduling.match_format = form
        texts[form] = two.match(NODE, op="without_allocating").splitlines()[0]
    source.scheduling.match_format = "simple"
    for job, (form, reader) in enumerate((("jgf", "jgf"), ("jgf_shorthand", "jgf_shorthand"), ("rv1_nosched", "rv1exec")), 5):
        assert "------n0[1:x]" in two(f"update allocate {reader} {two.file(texts[form])} {job} 0 10")
        assert allocated(two) == "core0 core1 n0 c0"
        two(f"cancel {job}")


@pytest.mark.parametrize(
    "words",
    [
        "allocate jgf {} 1 -1 10", "allocate jgf {} 1 0 0", "allocate xml {} 1 0 10", "borrow jgf {} 1 0 10",
        "allocate jgf {} x 0 10",
        "allocate jgf {} 1 0 99999999999999999999", "allocate jgf {} 1 3153600000 10",
    ],
)  # fmt: skip
def test_invalid_updates_are_refused(two: Typed, words: str) -> None:
    assert two(f"update {words.format(two.file(TWO))}") == ""
    assert two.told().startswith("ERROR: ")


@pytest.mark.parametrize("path", ["/c0/n2", "/c0/n0/core7"])
def test_updates_of_missing_vertices_find_nothing(two: Typed, path: str) -> None:
    assert "No matching" in two(f"update allocate jgf {two.file(jgf(path, exclusive=(path,)))} 1 0 10")
    assert f"no {path}" in two.told()


@pytest.mark.parametrize(("ranks", "hosts", "cores"), [("0", "n1", "0"), ("0", "n0", "9"), ("5", "n5", "0")])
def test_updates_of_other_nodes_find_nothing(two: Typed, ranks: str, hosts: str, cores: str) -> None:
    lite = [{"rank": ranks, "children": {"core": cores}}]
    file = two.file(json.dumps({"version": 1, "execution": {"R_lite": lite, "nodelist": [hosts]}}))
    assert "No matching" in two(f"update allocate rv1exec {file} 1 0 10")


def test_a_part_is_attached(two: Typed) -> None:
    two.match(ask("slot", 2, ask("node", 1)))
    assert two(f"attach {two.file(jgf('/c0', '/c0/n2', '/c0/n2/core0', first=50))}") == ""
    assert two.taken(ask("slot", 1, ask("node", 1, ask("core", 1)))) == ["core0", "n2"]
    two(f"attach {two.file(TWO)}")
    assert len(two.session.scheduling.graph.vertices) == 9
    two("cancel 1", "cancel 2")
    assert len(two.taken(ask("slot", 3, ask("node", 1)))) == 3


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (jgf("/d0", "/d0/n7"), "second root"),
        (jgf("/c0/n7", "/c0/n7/core0"), "nothing leads"),
        ('{"graph": 3}', "graph"),
        (jgf("/c0", "/c0/n2", "/c0/n2" + "".join(f"/core{number % 10}" for number in range(limits.DEPTH_MAX))), "nothing leads"),
    ],
)
def test_refused_attach_changes_nothing(two: Typed, document: str, message: str) -> None:
    before = picture(two)
    two(f"attach {two.file(document)}")
    assert message in two.told()
    assert picture(two) == before


def test_a_chain_that_is_too_deep_is_removed_again(two: Typed) -> None:
    nodes = [{"id": "0", "metadata": {"type": "cluster", "rank": -1, "paths": {"containment": "/c0"}}}]
    nodes += [
        {"id": str(number), "metadata": {"type": "core", "paths": {"containment": f"/c0/x{number}"}}}
        for number in range(100, 101 + limits.DEPTH_MAX)
    ]
    keys = [node["id"] for node in nodes]
    edges = [{"source": one, "target": other} for one, other in pairwise(keys)]
    before = picture(two)
    two(f"attach {two.file(json.dumps({'graph': {'nodes': nodes, 'edges': edges}}))}")
    assert f"more than {limits.DEPTH_MAX} levels" in two.told()
    assert picture(two) == before


def test_path_is_removed_with_its_allocations(two: Typed) -> None:
    two.match(ask("slot", 3, ask("core", 1)))
    assert two("remove /c0/n0 true") == ""
    assert allocated(two) == "core0 n1 c0"
    assert two.taken(CORE) == ["core1"]
    assert two.taken(CORE) == ["busy"]
    two("cancel 1", "cancel 2")
    assert two.taken(NODE) == ["core0", "core1", "n1"]


def test_ranks_are_removed(two: Typed) -> None:
    two.match(NODE)
    two("remove [0,5] false", "list")
    assert two.console.getvalue() == f"INFO: 1, {two.folder / 'f1'}, ALLOCATED\n"
    assert [vertex.path for vertex in two.session.scheduling.graph.vertices] == ["/c0", "/c0/n1", *CORES[2:]]
    two("cancel 1")
    assert two.taken(ask("slot", 1, ask("core", 2))) == ["core0", "core1"]


@pytest.mark.parametrize("words", ["/c0 true", "/c0/n9 true", "[7] false", "0- false", "/c0/n0 maybe"])
def test_refused_remove_changes_nothing(two: Typed, words: str) -> None:
    before = picture(two)
    two(f"remove {words}")
    assert two.told().startswith("ERROR: ")
    assert picture(two) == before


def picture(session: Typed) -> list[Any]:
    """The content of the graph, and what is free of it."""

    def left(vertex: Vertex) -> list[Any]:
        schedule, aggregate = vertex.schedule, vertex.aggregate
        plans = [] if schedule is None else [schedule.plan, schedule.sharers]
        lines = [(plan.total, *zip(plan.times, plan.left, strict=True)) for plan in plans if len(plan.times) > 1]
        counts = (
            []
            if aggregate is None
            else [(type_, plan.left) for type_, plan in zip(aggregate.types, aggregate.plans, strict=True)]
        )
        return [vertex.paths, lines, counts, [edge.target.path for edge in vertex.edges], sorted(vertex.tags)]

    return [left(vertex) for vertex in session.session.scheduling.graph.vertices]


requests = st.sampled_from(
    [NODE, CORE, ask("node", 1, CORE), ask("slot", 3, ask("core", 1)), ask("cluster", 1, NODE, exclusive=True)]
)
operations = st.sampled_from(["allocate", "allocate_orelse_reserve"])


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(requests, operations, st.integers(1, 3)), min_size=1, max_size=6),
    st.randoms(use_true_random=False),
    st.sampled_from(["first", "high", "lonodex"]),
)
def test_any_order_of_cancels_leaves_nothing(
    tmp_path_factory: pytest.TempPathFactory, asked: list[tuple[dict[str, Any], str, int]], random: Any, policy: str
) -> None:
    session = started(tmp_path_factory, policy)
    before = picture(session)
    for request, op, duration in asked:
        session.match(request, op=op, duration=duration)
    jobs = sorted(session.session.scheduling.holdings)
    random.shuffle(jobs)
    for job in jobs:
        named = [vertex.path for vertex in session.session.scheduling.holdings[job].vertices if random.random() < 0.5]
        part = session.file(jgf(*dict.fromkeys(named))) if named else ""
        session(f"partial-cancel {job} jgf {part}" if part else "", f"cancel {job}")
    assert not session.session.scheduling.holdings
    assert picture(session) == before


def started(factory: pytest.TempPathFactory, policy: str) -> Typed:
    import io

    from fluxres.fluxion import options
    from fluxres.fluxion.session import Session

    folder = factory.mktemp("query")
    (folder / "graph").write_text(TWO, encoding="utf-8")
    out, console, errors = io.StringIO(), io.StringIO(), io.StringIO()
    chosen = options.parse(["-d", "-f", "jgf", "-P", policy, "-L", str(folder / "graph")])
    return Typed(Session(chosen, out, console, errors), folder, out, console, errors)
