"""Folded auxiliary graphs represent exactly their edges."""

from __future__ import annotations

from collections import Counter

from hypothesis import assume, given, settings

from fluxres.model import ResourceGraph
from fluxres.render import tree
from tests.strategies import Machine, machines


@given(machines(pools_max=30))
@settings(max_examples=40, deadline=None)
def test_edge_groups_are_the_edges(machine: Machine) -> None:
    structure = machine.structure()
    assume(structure.subsystems)
    for shown in structure.subsystems.values():
        found: Counter[tuple[int, int, str]] = Counter()
        for sources, arrow, targets, row in tree.edge_groups(shown):
            text = tree.edge_text(structure, shown, row)
            for a in sources.tolist():
                for b in targets.tolist():
                    found[a, b, text] += 1
                    if arrow == "↔":
                        found[b, a, text] += 1
        edges = Counter(
            (int(shown.src[row]), int(shown.dst[row]), tree.edge_text(structure, shown, row)) for row in range(len(shown))
        )
        assert set(found) == set(edges)
        for v in shown.members.tolist():
            near = set()
            for sources, arrow, targets, row in tree.edge_groups(shown, v):
                pairs = {(a, b) for a in sources.tolist() for b in targets.tolist()}
                pairs |= {(b, a) for a, b in pairs} if arrow == "↔" else set()
                near |= {(a, b, tree.edge_text(structure, shown, row)) for a, b in pairs}
            assert near == {edge for edge in edges if v in edge[:2]}


@given(machines(pools_max=30))
@settings(max_examples=40, deadline=None)
def test_counts_of_a_forest_multiply_to_all_its_pools(machine: Machine) -> None:
    graph = ResourceGraph(machine.structure())
    structure = graph.structure
    assume("power" in structure.subsystems)
    shown = structure.subsystems["power"]
    by_type: Counter[str] = Counter()
    above = [1]
    for line in tree.forest(graph, shown):
        del above[line.level + 1 :]
        above.append(above[line.level] * line.count)
        by_type[structure.kind_of(line.vertex).type] += above[-1]
    assert by_type == Counter(structure.kind_of(v).type for v in shown.members.tolist())
    for v in shown.members.tolist():
        below, above = Counter[str](), [1]
        for line in tree.forest(graph, shown, None, v):
            del above[line.level + 1 :]
            above.append(above[line.level] * line.count)
            below[structure.kind_of(line.vertex).type] += above[-1]
        assert below == Counter(p.type for p in graph.walk(v, hierarchy="power"))
