"""Snapshots: any machine with any records is restored; any damage is detected."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fluxres import limits
from fluxres.errors import InsufficientResources, StoreError, UsageError
from fluxres.graph.auxiliary import Subsystem
from fluxres.graph.kinds import Kind
from fluxres.graph.structure import Structure
from fluxres.model import ResourceGraph
from fluxres.store import encoding, records
from tests import sites
from tests.choices import integers
from tests.store.graphs import change, facts, machine, structure
from tests.strategies import machines


def encoded(graph: ResourceGraph) -> tuple[bytes, bytes]:
    shape = encoding.encode_shape(graph.structure)
    return shape, encoding.encode_marks(graph.structure, records.capture(graph.records), shape)


def decoded(shape: bytes, marks: bytes) -> ResourceGraph:
    return records.restore(*encoding.decode(shape, marks), name="demo", clock=None)


@settings(max_examples=60, deadline=None)
@given(machines(), st.integers(0, 2**32), st.integers(0, 30))
def test_rule_s1_any_machine_is_restored_with_its_records(made: object, seed: int, steps: int) -> None:
    graph = ResourceGraph(made.structure())  # type: ignore[attr-defined]  # tests.strategies.Machine
    random = Random(seed)
    for _ in range(steps if len(graph) > 1 else 0):
        change(graph, random)
    back = decoded(*encoded(graph))
    assert facts(back) == facts(graph)
    assert back.jobs() == graph.jobs()
    assert [problem for problem in back.check() if problem.severity == "error"] == []


def test_equal_graphs_have_equal_bytes() -> None:
    graph = machine()
    graph.allocate("/demo/rack0", job="j1", start=0, end=10)
    assert encoded(decoded(*encoded(graph))) == encoded(graph)


def test_all_sparse_data_is_restored() -> None:
    s = structure()
    s.names[3], s.uuid_texts[4], s.capacity[5] = "näme", "4f0c1f5e-0000-4000-8000-000000000001", 2**62 - 1
    s.set_tag([1, 2], "k", None)
    s.set_tag([2], "owner", "x")
    huge = Kind("node", "node", properties=(("big", 2**80), ("f", float("inf")), ("one", True), ("t", "x")))
    s.kind[2] = s.kinds.intern(huge)
    edges = np.array([0, 1, 2], np.int32)
    s.subsystems["power"] = Subsystem(
        "power",
        False,
        edges,
        edges[::-1].copy(),
        np.array([0, 1, 0], np.uint16),
        ["supplies", "has"],
        {"capacity": np.array([1.5, np.nan, -0.0]), "label": np.array(["a", None, 3], object)},
    )
    back = decoded(*encoded(ResourceGraph(s))).structure
    assert facts(ResourceGraph(back)) == facts(ResourceGraph(s))
    assert back.kind_of(2) == huge
    assert np.signbit(back.subsystems["power"].attributes["capacity"][2])


def test_every_damaged_byte_is_detected() -> None:
    graph = machine(1, 1)
    graph.allocate("/demo/rack0/node0/core1", job="j1")
    shape, marks = encoded(graph)
    for i in range(len(shape)):
        with pytest.raises(StoreError):
            encoding.decode(shape[:i] + bytes([shape[i] ^ 0x40]) + shape[i + 1 :], marks)
    for i in range(len(marks)):
        with pytest.raises(StoreError):
            encoding.decode(shape, marks[:i] + bytes([marks[i] ^ 1]) + marks[i + 1 :])
    for length in range(0, len(shape), 7):
        with pytest.raises(StoreError):
            encoding.decode(shape[:length], marks)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_wrong_content_with_a_valid_checksum_is_an_error_or_a_graph(data: st.DataObject) -> None:
    shape, marks = encoded(machine(1, 2))
    body = bytearray(shape[: -encoding.CHECKSUM_BYTES])
    for _ in range(data.draw(integers(1, 4))):
        body[data.draw(integers(0, len(body) - 1))] = data.draw(integers(0, 255))
    forged = bytes(body) + encoding.checksum(body)
    marks = encoding.encode_marks(*encoding.decode(shape, marks), forged)
    try:
        back, _ = encoding.decode(forged, marks)
    except StoreError:
        return
    assert isinstance(back, Structure)


@pytest.mark.parametrize(
    ("version", "way_out"),
    [(encoding.VERSION + 1, "use a newer fluxres"), (encoding.VERSION - 1, "read it with the fluxres that wrote it")],
)
def test_another_version_of_the_encoding_gives_a_hint(version: int, way_out: str) -> None:
    shape, marks = encoded(machine(1, 1))
    body = shape[:4] + version.to_bytes(2, "little") + shape[6 : -encoding.CHECKSUM_BYTES]
    other = body + encoding.checksum(body)
    marks = encoding.encode_marks(*encoding.decode(shape, marks), other)
    with pytest.raises(StoreError, match=way_out):
        encoding.decode(other, marks)


def test_marks_of_another_shape_are_refused() -> None:
    one, other = machine(1, 1), machine(1, 1, origin=2)
    with pytest.raises(StoreError, match="a different shape"):
        encoding.decode(encoded(one)[0], encoded(other)[1])


def test_records_that_break_a_rule_are_refused() -> None:
    s = machine(1, 1).structure
    twice = encoding.RecordColumns.of(["j1", "j2"], [(0, 3, 0, 10, 1), (1, 3, 5, 15, 1)], [])
    with pytest.raises(UsageError):
        records.restore(s, twice, name="demo", clock=None)
    with pytest.raises(InsufficientResources, match="held by j1"):
        records.allocate(s, twice, name="demo", clock=None)


@given(st.lists(st.integers(0, 4), max_size=30))
def test_parents_and_ends_follow_from_depths(steps: list[int]) -> None:
    depth = [0]
    for step in steps:
        depth.append(min(step, depth[-1] + 1))
    parent, end = encoding.tree(np.array(depth, np.int16))
    for v, level in enumerate(depth):
        above = [u for u in range(v) if depth[u] < level]
        stop = next((u for u in range(v + 1, len(depth)) if depth[u] <= level), len(depth))
        assert (parent[v], end[v]) == (max(above, default=-1), stop)


@pytest.mark.parametrize("depth", [[1], [0, 2], [0, -1], [0, 1, 3]])
def test_depths_that_form_no_tree_are_refused(depth: list[int]) -> None:
    with pytest.raises(StoreError, match="not those of a tree"):
        encoding.tree(np.array(depth, np.int16))


def test_pools_that_went_down_keep_their_records() -> None:
    graph = machine()
    graph.allocate("/demo/rack0/node0", job="j1", start=0, end=5)
    graph.set_state("/demo/rack0", "down")
    graph.set_state("/demo/rack1/node3/core0", "drain")
    back = decoded(*encoded(graph))
    assert facts(back) == facts(graph)
    assert back.pool("/demo/rack0/node0/core1").available(at=1) == 0


def test_count_beyond_pools_max_is_refused() -> None:
    with pytest.raises(StoreError, match="values"):
        encoding.decode_column(encoding.Column(limits.POOLS_MAX + 1), np.int64, lambda length: b"")


def test_a_snapshot_reads_what_jobs_hold_in_one_window_as_it_is_and_has_the_same_as_of_their_records() -> None:
    """With draws of suppliers, and beside records: of a job that grew, and of a stage."""
    graph = sites.graph(
        """
        fluxres: 1
        name: m
        resources:
          - {type: node, count: 4, draw: {power: 100}, with: [{type: core, count: 2}, {type: memory, size: 8}]}
        graphs:
          power:
            pools: [{type: pdu, count: 1, size: 2000, unit: W}]
            edges: [{from: "power:/pdu0", to: "/m/node*"}]
        """
    )
    graph.allocate("slot/memory=3", job="grown", duration_s=30)
    graph.grow("grown", "slot/memory=2")
    graph.stage("slot/core", job="staged", duration_s=10, ttl_s=60)
    graph.allocate("-N1 -x", job="whole", duration_s=10)
    graph.allocate("slot=2/core", job="cores", duration_s=20)
    graph.allocate("slot/memory=3", job="last", duration_s=40)
    kept = [job for job in graph.jobs() if graph.records.batch_of(job) is not None]
    number, before = graph.records.pools_held, records.capture(graph.records)
    assert kept == ["whole", "cores", "last"] == [job for job in graph.jobs() if graph.records.batch_of(job) is not None]
    assert any(owner == before.owners.index("whole") for owner, *_ in before.drawn)
    held = graph.records.held  # which turns everything into records
    after = records.capture(graph.records)
    assert graph.records.batch_of("whole") is None
    assert spans_of(before) == spans_of(after)
    assert (before.owners, sorted(before.drawn)) == (after.owners, sorted(after.drawn))
    assert number >= len(held) == graph.records.pools_held


def spans_of(captured: encoding.RecordColumns) -> list[tuple[int, ...]]:
    columns = (captured.owner, captured.vertex, captured.start, captured.end, captured.amount)
    return sorted(zip(*(column.tolist() for column in columns), strict=True))
