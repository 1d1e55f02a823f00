"""Saved files are loaded as an equal machine, and saving again yields the same bytes."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fluxres import limits
from fluxres.formats import selector
from fluxres.formats.cluster.edges import outside_homes
from fluxres.formats.cluster.write import Runs, per_parent
from fluxres.formats.format import Hold
from fluxres.formats.selector import Selectors
from fluxres.graph.auxiliary import Subsystem
from fluxres.graph.compare import equal
from fluxres.graph.recipe import Recipe, expand
from fluxres.graph.structure import Structure
from fluxres.graph.uuids import new_origin
from tests.formats.structures import read_cluster, structures, write_cluster

CLUSTERS = sorted((Path(__file__).parents[2] / "data" / "clusters").glob("*.yaml"))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(structures())
def test_any_structure_is_read_back_equal_and_written_back_the_same(structure: Structure) -> None:
    text = write_cluster(structure)
    again = read_cluster(text.encode()).structure
    assert equal(structure, again) == []
    assert write_cluster(again) == text


def lines(text: str) -> int:
    return text.count("\n")


def written(structure: Structure) -> str:
    text = write_cluster(structure)
    again = read_cluster(text.encode()).structure
    assert equal(structure, again) == []
    assert write_cluster(again) == text
    return text


def machine(nodes: int = 8) -> Structure:
    socket = Recipe("socket", 2, children=(Recipe("core", 4, ids=np.arange(8)), Recipe("memory", size=64, unit="GiB", ids=None)))
    node = Recipe("node", nodes, ids=np.arange(1, 2 * nodes + 1), name="n${id:03}", children=(socket,))
    return expand(Recipe("cluster", name="m", children=(Recipe("rack", 2, children=(node,)),)), origin=new_origin(bytes(16)))


def test_a_draw_without_a_name_is_written_as_a_property() -> None:
    node = Recipe("node", properties={"draw.power": 3, "draw.": 400})
    text = written(expand(Recipe("cluster", children=(node,)), origin=new_origin(bytes(16))))
    assert "draw.: 400" in text
    assert "draw: {power: 3}" in text


@pytest.mark.parametrize("path", CLUSTERS, ids=lambda path: path.stem)
def test_shipped_machines_are_written_in_a_page(path: Path) -> None:
    text = written(read_cluster(path).structure)
    assert lines(text) < 60
    assert len(text) < 2500


def test_regular_machine_is_written_as_short_as_its_recipe() -> None:
    assert written(machine()) == (
        "fluxres: 1\n"
        "name: m\n"
        "resources:\n"
        "  - type: rack\n"
        "    count: 2\n"
        "    with:\n"
        "      - type: node\n"
        "        count: 8\n"
        '        name: "n${id:03}"\n'
        "        id: 1-16\n"
        "        with:\n"
        "          - type: socket\n"
        "            count: 2\n"
        "            with:\n"
        "              - {type: core, count: 4, id: 0-7}\n"
        "              - {type: memory, size: 64, unit: GiB}\n"
        "uuids: 00000000-0000-8000-8000-000000000000\n"
    )


def test_irregular_node_takes_one_entry_without_a_copy_of_its_contents() -> None:
    structure = machine(100)
    structure.set_state([structure.vertex("/m/rack0/n050")], "drain")
    text = written(structure)
    assert lines(text) < lines(write_cluster(machine(100))) + 12
    assert text.count("type: core") == 1
    assert "state: drain" in text


def test_irregular_pools_are_written_correctly() -> None:
    structure = machine(50)
    rng = np.random.default_rng(7)
    for v in rng.choice(structure.of_type("core"), 60, replace=False).tolist():
        structure.set_tag([v], "t", str(v % 3))
    structure.size[structure.of_type("memory")[::7]] = 32
    text = written(structure)
    assert "rank" not in text


def test_equal_hashes_of_different_subtrees_only_cost_space(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Runs, "_subtree_hashes", lambda self: np.zeros(len(self.rows["kind"]), np.uint64))
    structure = machine(6)
    structure.size[structure.of_type("memory")[3]] = 1
    written(structure)


def test_a_copy_keeps_its_ranks_uuids_flags_and_full_sizes() -> None:
    structure = machine(4)
    keep = np.zeros(structure.n, np.bool_)
    keep[[0, 1]] = True
    for node in structure.of_type("node")[[1, 2]].tolist():
        keep[node : structure.end[node]] = True
    columns = {name: column[keep] for name, column in structure.columns().items()}
    number = np.cumsum(keep) - 1
    columns["parent"] = np.where(columns["parent"] >= 0, number[columns["parent"]], -1)
    columns["end"] = np.concatenate([[0], np.cumsum(keep)])[columns["end"]]
    part = Structure(columns, structure.kinds, origins=structure.origins, capacity={5: 9})
    part.flags[:2] = 2
    text = written(part)
    assert "rank: 1" in text
    assert "way: true" in text
    assert "capacity: 9" in text


def test_pools_of_several_graphs_and_of_none_keep_their_order() -> None:
    text = """fluxres: 1
name: m
resources: [{type: node, count: 2}]
pools: [{type: spare}]
graphs:
  a: {pools: [{type: x, count: 2}], edges: [{from: 'a:/x*', to: '/m/node*'}]}
  b: {pools: [{type: x, count: 2}], edges: [{from: 'b:/x*', to: 'a:/x0'}]}
"""
    again = written(read_cluster(text).structure)
    assert "pools:\n  - {type: spare}\n" in again
    bare = read_cluster(text.replace("pools: [{type: spare}]\n", "")).structure
    assert '"a:/x[0-1]"' in written(bare)


def test_edges_are_folded() -> None:
    text = """fluxres: 1
name: m
resources: [{type: rack, count: 40, with: [{type: node, count: 50}]}]
graphs:
  net:
    pools: [{type: switch, count: 40}, {type: spine, count: 4}]
    edges:
      - {from: 'net:/spine*', to: 'net:/switch*', pairing: cross, capacity: 400, direction: both}
      - {from: 'net:/switch*', to: '/m/rack*/node*', pairing: share, capacity: 100, direction: both}
      - {from: '/m/rack*/node0', to: '/m/rack*/node1', relation: twin}
"""
    structure = read_cluster(text).structure
    assert len(structure.subsystems["net"]) == 2 * 160 + 2 * 2000 + 40
    again = written(structure)
    assert lines(again) < 35
    for word in ("pairing: cross", "pairing: share", "direction: both", "/m/rack[0-39]/node[0-49]"):
        assert word in again


@pytest.mark.parametrize("counts", [(2, 3), (2, 2), (2, 2, 3), (3, 2), (1, 1, 4)])
def test_edges_in_runs_of_unequal_length(counts: tuple[int, ...]) -> None:
    ends = np.cumsum([0, *counts])
    groups = "\n".join(
        f"      - {{from: 'g:/group{i}', to: '/m/node[{a}-{b - 1}]'}}" for i, (a, b) in enumerate(pairwise(ends.tolist()))
    )
    for direction in ("", ", direction: in"):
        text = f"""fluxres: 1
name: m
resources: [{{type: node, count: {ends[-1]}}}]
graphs:
  g:
    pools: [{{type: group, count: {len(counts)}}}]
    edges:
{groups.replace("'}", f"'{direction}}}")}
"""
        structure = read_cluster(text).structure
        assert len(structure.subsystems["g"]) == sum(counts)
        written(structure)  # reads it again, and compares


@settings(deadline=None, max_examples=150)
@given(st.data())
def test_selectors_select_the_pools_they_were_made_from(data: st.DataObject) -> None:
    structure = expand(
        Recipe(
            "m",
            children=(Recipe("r", 3, children=(Recipe("n", 2, ids=np.arange(6), children=(Recipe("c", 2),)), Recipe("g", 2))),),
        ),
        origin=new_origin(bytes(16)),
    )
    whole = st.sampled_from([structure.of_type(kind).tolist() for kind in "mrncg"])
    some = st.lists(st.integers(0, structure.n - 1), max_size=8)
    vertices = data.draw(st.lists(st.one_of(whole, some), max_size=3).map(lambda lists: [v for part in lists for v in part]))
    selectors = Selectors(structure)
    texts = selectors.texts(vertices)
    assert [v for text in texts for v in Selectors(structure).vertices(text).tolist()] == vertices
    assert [v for text in texts for v in selectors.vertices(text).tolist()] == vertices
    if vertices in ([*structure.of_type("n")], [*structure.of_type("c")]):
        assert len(texts) == 1


def test_allocations_are_folded_by_amount() -> None:
    structure = machine()
    nodes, memory = structure.of_type("node").tolist(), structure.of_type("memory").tolist()
    holds = [Hold("a", 0.0, 3600.0, dict.fromkeys(nodes[:4], 1) | {memory[9]: 10}), Hold("b", 1.25, None, {memory[0]: 64})]
    text = write_cluster(structure, holds)
    assert '"/m/rack0/n[001-004]": 1' in text
    assert read_cluster(text).allocations == holds


def test_ambiguous_names_are_found_again() -> None:
    odd = ["a[0-1]", "a*", "b,c", "x y", "é", "$d", "[e", "f]"]
    tree = Recipe("cluster", name="m", children=(Recipe("node", len(odd), names=odd), Recipe("core", 2)))
    structure = expand(tree, origin=new_origin())
    holds = [Hold("j", 0.0, None, dict.fromkeys(range(1, 11), 1))]
    assert read_cluster(write_cluster(structure, holds)).allocations == holds


def test_name_that_is_a_star_or_the_fold_of_its_siblings_is_found() -> None:
    odd = ["*", "core[0-1]", "core0", "core1", "a"]
    structure = expand(Recipe("cluster", name="m", children=(Recipe("node", len(odd), names=odd),)), origin=new_origin())
    for vertices in ([1], [2], [3, 4], [1, 2], [5]):
        selectors = Selectors(structure)
        assert [v for text in selectors.texts(vertices) for v in selectors.vertices(text).tolist()] == vertices
    assert Selectors(expand(Recipe("cluster", children=(Recipe("core", 3),)), origin=new_origin())).vertices("/*/*").tolist() == [
        1,
        2,
        3,
    ]


def test_names_over_parents_with_different_texts_are_not_folded() -> None:
    sockets = (
        Recipe("socket", names=["s-2"], children=(Recipe("core", 2, ids=np.array([4, 3])),)),
        Recipe("socket", ids=3, children=(Recipe("core", ids=2),)),
    )
    structure = expand(Recipe("c", children=(Recipe("node", children=sockets),)), origin=new_origin())
    vertices = structure.of_type("core").tolist()
    selectors = Selectors(structure)
    assert [v for text in selectors.texts(vertices) for v in selectors.vertices(text).tolist()] == vertices


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(structures(), st.data())
def test_any_pools_in_any_order_are_found_by_their_selectors(structure: Structure, data: st.DataObject) -> None:
    ascending, vertices = data.draw(st.booleans()), data.draw(st.lists(st.integers(0, structure.n - 1), max_size=30))
    vertices = sorted(set(vertices)) if ascending else vertices
    homes = outside_homes(structure)
    texts = Selectors(structure, homes).texts(vertices)
    assert [v for text in texts for v in Selectors(structure, homes).vertices(text).tolist()] == vertices


def test_more_pools_than_a_selector_may_name_take_several(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "HOSTLIST_RANGE_MAX", 4)
    monkeypatch.setattr(selector, "_RUN_MAX", 4)
    structure = expand(Recipe("cluster", children=(Recipe("core", 10),)), origin=new_origin())
    holds = [Hold("j", 0.0, None, dict.fromkeys(range(1, 11), 1))]
    assert read_cluster(write_cluster(structure, holds)).allocations == holds


def test_graph_may_have_another_name_than_its_root() -> None:
    text = write_cluster(machine(), name="other")
    loaded = read_cluster(text)
    assert (loaded.name, loaded.structure.name(0)) == ("other", "m")
    assert write_cluster(loaded.structure, name=loaded.name) == text


@given(st.lists(st.lists(st.integers(0, 3), min_size=6, max_size=6), min_size=1, max_size=3))
def test_shortest_period(blocks: list[list[int]]) -> None:
    values = np.array(blocks).ravel()
    length = per_parent(values, [2, 3, len(blocks)])
    assert (values == np.resize(values[:length], len(values))).all()
    shorter = [n for n in (2, 6) if n < length]
    assert not any((values == np.resize(values[:n], len(values))).all() for n in shorter)


def test_edges_in_runs_of_different_lengths_are_written() -> None:
    structure = machine()
    nodes = structure.of_type("node")
    src = np.repeat(structure.of_type("rack")[:2], [2, 3]).astype(np.int32)
    dst = nodes[: len(src)].astype(np.int32)
    for a, b in ((src, dst), (dst, src)):
        structure.subsystems["odd"] = Subsystem("odd", False, a, b)
        again = read_cluster(write_cluster(structure)).structure.subsystems["odd"]
        assert (again.src.tolist(), again.dst.tolist()) == (a.tolist(), b.tolist())
