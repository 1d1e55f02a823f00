"""Rule S1 for every format that is read and written: the only differences are those that the writer reports."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

from fluxres.formats import losses, registry
from fluxres.formats.format import ALL, FACTS, Fact, Hold
from fluxres.graph.compare import equal
from fluxres.graph.recipe import Recipe, expand
from fluxres.graph.structure import Structure
from tests.choices import among, integers
from tests.formats.round_trip import differences, errors, facts_of, forget, round_trip
from tests.formats.structures import structures
from tests.strategies import Machine, machines

#: a machine of twenty pools is large enough, and shrinking it takes minutes
PHASES = [phase for phase in Phase if phase is not Phase.shrink]
SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
#: formats whose round trip has other rules, and is tested with them
OWN: set[str] = set()
BOTH_WAYS = [f.name for f in registry.formats() if f.reader and f.writer and "pools" in f.carries and f.name not in OWN]


@pytest.mark.parametrize("name", BOTH_WAYS)
@settings(max_examples=40, deadline=None, phases=PHASES, suppress_health_check=SLOW)
@given(machine=machines())
def test_rule_s1_plain_machines(name: str, machine: Machine) -> None:
    structure = machine.structure()
    round_trip(structure, name, [Hold("j", 1.5, None, {structure.n - 1: 1})])


@pytest.mark.parametrize("name", BOTH_WAYS)
@settings(max_examples=30, deadline=None, phases=PHASES, suppress_health_check=SLOW)
@given(structure=structures())
def test_rule_s1_odd_machines(name: str, structure: Structure) -> None:
    # The cluster file keeps even records that violate a rule; other readers refuse or correct them.
    assume(name == "cluster" or not errors(structure))
    round_trip(structure, name)


@st.composite
def holds(draw: st.DrawFn, structure: Structure) -> list[Hold]:
    """What several jobs hold, and what they draw from suppliers for it."""
    accounts = structure.accounts
    found = []
    for _ in range(draw(integers(1, 4))):
        held = draw(st.lists(st.integers(0, accounts.n - 1), min_size=1, max_size=8, unique=True))
        pools = {v: draw(integers(1, accounts.size.item(v))) for v in sorted(held) if accounts.size.item(v)}
        consumers = draw(st.sets(st.integers(0, structure.n - 1), max_size=3))
        drawn = [(v, draw(integers(0, accounts.n - 1)), draw(integers(1, 9))) for v in consumers]
        start, end = draw(st.sampled_from([(0.0, None), (1.5, 3600.0), (1.8e9, 1.8e9 + 60)]))
        job, slots = draw(among("j1", "j 2", "é")), draw(integers(0, 3))
        found.append(Hold(job, start, end, pools, slots, tuple(sorted(drawn))))
    return found


@settings(max_examples=60, deadline=None, phases=PHASES, suppress_health_check=SLOW)
@given(data=st.data(), structure=structures())
def test_rule_s1_a_cluster_file_keeps_all_allocations(data: st.DataObject, structure: Structure) -> None:
    assume(not errors(structure))
    allocations = data.draw(holds(structure))
    loaded = round_trip(structure, "cluster", allocations)
    assert loaded.allocations == allocations
    assert equal(structure, loaded.structure) == []


# -- the list of what is left out ----------------------------------------------------------------------------------------


def usual() -> Structure:
    """A machine that every format can express completely."""
    return expand(Recipe("cluster", children=(Recipe("node", 2, children=(Recipe("core", 3),)),)), origin=8 << 76 | 2 << 62)


def test_only_uuids_are_left_out_of_a_plain_machine() -> None:
    assert losses.lines(usual(), [], frozenset()) == ["uuids: 9 pools; reading the file generates new ones"]


@settings(max_examples=60, deadline=None, phases=PHASES, suppress_health_check=SLOW)
@given(structure=structures())
def test_fact_is_reported_if_and_only_if_the_machine_has_it(structure: Structure) -> None:
    told = facts_of(losses.lines(structure, [], frozenset()))
    lost = {*FACTS} - {"allocations", "uuids", "pools"}
    if "graphs" in told:
        structure = forget(structure, {"graphs"})
        told = facts_of(losses.lines(structure, [], frozenset())) | {"graphs"}
    columns: dict[Fact, bool] = {
        "sizes": bool((structure.size != 1).any()),
        "states": bool(structure.state.any()),
        "tags": any(structure.tags.values()),
        "exclusive": bool((structure.flags & 1).any()),
        "capacities": bool(structure.capacity) or bool((structure.flags & 2).any()),
        "units": any(structure.kinds[k].unit for k in structure.kind),
        "properties": any(structure.kinds[k].properties for k in structure.kind),
        "basenames": any(structure.kinds[k].basename != structure.kinds[k].type for k in structure.kind),
        "names": [structure.name(v) for v in range(structure.n)] != [default(structure, v) for v in range(structure.n)],
        "ids": structure.id.tolist() != plain_ids(structure),
        "ranks": structure.rank.tolist() != plain_ranks(structure),
    }
    assert {fact for fact, has in columns.items() if has} == told & lost - {"graphs"}


def default(s: Structure, v: int) -> str:
    return s.kind_of(v).basename + (str(s.id[v]) if s.id[v] >= 0 else "")


def plain_ids(s: Structure) -> list[int]:
    """The numbers that siblings of one basename would have."""
    met: dict[tuple[int, str], int] = {}
    found = [-1]
    for v in range(1, s.n):
        key = (int(s.parent[v]), s.kind_of(v).basename)
        met[key] = met.get(key, -1) + 1
        found.append(met[key])
    return found


def plain_ranks(s: Structure) -> list[int]:
    """Nodes numbered in pre-order, with the same ranks below them."""
    found: list[int] = []
    nodes = 0
    for v in range(s.n):
        if s.kind_of(v).type == "node":
            found.append(nodes)
            nodes += 1
        else:
            found.append(found[s.parent[v]] if s.parent[v] >= 0 else -1)
    return found


def test_loss_line_has_fact_number_and_place() -> None:
    structure = usual()
    structure.set_state(np.array([4, 5]), "down")
    structure.set_tag([3], "k", "v")
    lines = losses.lines(structure, [Hold("j", 0, None, {1: 1})], ALL - {"tags", "states", "allocations"})
    assert lines == [
        "tags: 1 pool, /cluster/node0/core1",
        "states: 2 pools, such as /cluster/node0/core2",
        "allocations: 1 job, j",
    ]
    assert losses.lines(structure, [], ALL - {"tags"}, within=np.arange(structure.n) > 3) == []


def test_comparison_finds_unreported_differences() -> None:
    a, b = usual(), usual()
    b.size[1] = 5
    b.set_tag([1], "k", None)
    assert differences(a, b, {"tags"}) == ["/cluster/node0: size 1, not 5"]
    assert differences(a, b, {"tags", "sizes"}) == []


@pytest.mark.parametrize(("root", "name"), [("cluster", "cluster"), ("cluster", "site"), ("c$", "site"), ("cluster", "c$")])
def test_machine_may_have_another_name_than_its_root(root: str, name: str) -> None:
    loaded = round_trip(expand(Recipe("cluster", basename=root, children=(Recipe("node", 2),)), origin=0), "cluster", name=name)
    assert (loaded.name, loaded.structure.name(0)) == (name, root)
