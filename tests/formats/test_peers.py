"""Any machine as workers, resource pools, resource specifications and managers: what is read back, and the reported losses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fluxres.errors import UsageError
from fluxres.formats import registry
from fluxres.formats.format import FACTS, Hold
from fluxres.formats.peers.jqm.pollers import rules_of
from fluxres.graph.audit import check_structure
from fluxres.graph.compare import equal
from fluxres.graph.recipe import Recipe, expand
from fluxres.graph.structure import Structure
from tests.choices import integers
from tests.formats.structures import structures
from tests.formats.tables import Table, Thing, table
from tests.strategies import Machine, machines

PEERS = ["hyperqueue", "canary", "ctest", "jqm"]
ORIGIN = 8 << 76 | 2 << 62
SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]


def written(structure: Structure, name: str, **options: Any) -> tuple[bytes, list[str], Structure] | None:
    """A machine written and read again; None if the format cannot express it."""
    try:
        made = registry.write(structure, format=name, **options)
    except UsageError:
        return None
    found = registry.detect(made.data)
    assert found is not None
    assert found.name == name
    back = registry.read(made.data, origin=ORIGIN)
    assert [problem for problem in check_structure(back.structure) if problem.severity == "error"] == []
    again = registry.write(back.structure, name=back.name, format=name, **options)
    assert again.data == made.data, (made.left_out, table(structure), table(back.structure))
    assert {line.partition(":")[0] for line in made.left_out} <= set(FACTS)
    return made.data, made.left_out, back.structure


def facts(lines: list[str]) -> set[str]:
    return {line.partition(":")[0] for line in lines}


def forgetting(found: Table, lost: set[str]) -> list[Any]:
    """A table without what was lost; cores and GPUs are still counted if their places are."""
    if "pools" in lost:
        return [sum(len(things.get(type_name, ())) for _, things in found) for type_name in ("core", "gpu")]
    made: list[Any] = []
    for host, things in found:
        kept = {
            type_name: sorted(
                (
                    Thing(
                        "" if {"ids", "names", "basenames"} & lost else thing.label,
                        0 if "sizes" in lost else thing.size,
                        None if "units" in lost else thing.unit,
                        thing.group,
                    )
                    for thing in listed
                ),
                key=repr,
            )
            for type_name, listed in things.items()
        }
        made.append((None if "names" in lost else host, kept))
    return made


@pytest.mark.parametrize("name", PEERS)
@settings(max_examples=80, deadline=None, suppress_health_check=SLOW)
@given(machine=machines())
def test_rule_s1_plain_machines(name: str, machine: Machine) -> None:
    structure = machine.structure()
    found = written(structure, name)
    if found is not None:
        _, lost, back = found
        assert forgetting(table(structure), facts(lost)) == forgetting(table(back), facts(lost)), lost


@pytest.mark.parametrize("name", PEERS)
@settings(max_examples=40, deadline=None, suppress_health_check=SLOW)
@given(structure=structures())
def test_rule_s1_odd_machines(name: str, structure: Structure) -> None:
    found = written(structure, name)
    if found is not None:
        _, lost, back = found
        assert forgetting(table(structure), facts(lost)) == forgetting(table(back), facts(lost)), lost


# -- machines that these formats can express: only uuids are lost, and nothing is reported -------------------------------

WORDS = st.text("abcdefgh-_.", min_size=1, max_size=5).filter(lambda word: word not in ("core", "gpu", "mem", "lic"))


@st.composite
def hosts(draw: Any, number: int, *, sizes: bool, plain: bool, of_jqm: bool) -> Recipe:
    """A node of cores, GPUs with labels of all sorts, and amounts."""
    parts = [Recipe("core", draw(integers(1, 4)))]
    if draw(st.booleans()):
        size = draw(integers(1, 5)) if sizes else 1
        parts.append(Recipe("gpu", draw(integers(1, 3)), ids=draw(integers(0, 5)), size=size))
    if draw(st.booleans()):
        names = draw(st.lists(st.sampled_from(["x", "y-1", "a_b", "q"]), min_size=1, max_size=3, unique=True))
        names = [name.replace("-", "_") for name in names] if plain else names
        parts.append(Recipe("fpga", len(names), ids=None, names=names, word_for_word=True))
    if draw(st.booleans()):
        parts.append(Recipe("mem", ids=None, size=draw(integers(1, 1000))))
    # Reading a file of JQM marks each node as one of JQM.
    return Recipe("node", ids=number, children=tuple(parts), properties={"json:file:managers": "{}"} if of_jqm else {})


@st.composite
def sites(draw: Any, *, sizes: bool = False, count: int = 3, plain: bool = False, of_jqm: bool = False) -> Structure:
    nodes = tuple(draw(hosts(number, sizes=sizes, plain=plain, of_jqm=of_jqm)) for number in range(draw(integers(1, count))))
    return expand(Recipe("cluster", children=nodes), origin=ORIGIN)


def comes_back(structure: Structure, name: str, **options: Any) -> None:
    found = written(structure, name, **options)
    assert found is not None
    _, lost, back = found
    assert facts(lost) == {"uuids"}, lost
    assert equal(structure, back, uuids=False) == []


@pytest.mark.parametrize("options", [{}, {"json": True}])
@settings(max_examples=60, deadline=None, suppress_health_check=SLOW)
@given(structure=sites())
def test_rule_s1_hyperqueue_expresses_such_machines(options: dict[str, Any], structure: Structure) -> None:
    comes_back(structure, "hyperqueue", **options)


@settings(max_examples=60, deadline=None, suppress_health_check=SLOW)
@given(structure=sites(sizes=True))
def test_rule_s1_canary_expresses_such_machines(structure: Structure) -> None:
    comes_back(structure, "canary")


@settings(max_examples=60, deadline=None, suppress_health_check=SLOW)
@given(structure=sites(sizes=True, count=1, plain=True))
def test_rule_s1_ctest_expresses_such_machines(structure: Structure) -> None:
    comes_back(structure, "ctest")
    comes_back(structure, "canary", form="resources")


@settings(max_examples=60, deadline=None, suppress_health_check=SLOW)
@given(structure=sites(of_jqm=True))
def test_rule_s1_jqm_expresses_such_machines(structure: Structure) -> None:
    comes_back(structure, "jqm")


@settings(max_examples=60, deadline=None, suppress_health_check=SLOW)
@given(structure=sites())
def test_rule_s1_a_machine_of_another_system_becomes_one_of_jqm_and_that_is_reported(structure: Structure) -> None:
    found = written(structure, "jqm")
    assert found is not None
    _, lost, back = found
    assert facts(lost) == {"uuids", "properties"}, lost
    assert forgetting(table(structure), {"properties"}) == forgetting(table(back), {"properties"})
    nodes = back.of_type("node").tolist()
    assert [rules_of(back, v) for v in nodes] == [[]] * len(nodes)
    assert facts(written(back, "jqm")[1]) == {"uuids"}


# -- reported losses ---------------------------------------------------------------------------------------------------


def site() -> Structure:
    inside = (Recipe("core", 2), Recipe("gpu", size=4, unit="slices"))
    return expand(Recipe("cluster", children=(Recipe("node", 2, children=inside),)), origin=ORIGIN)


def drained(s: Structure) -> None:
    s.set_state(np.array([1]), "drain")


def tagged(s: Structure) -> None:
    s.set_tag([2], "k", "v")


def renamed(s: Structure) -> None:
    s.names[3] = "Big Core"


@pytest.mark.parametrize("name", PEERS)
@pytest.mark.parametrize(("change", "fact"), [(drained, "states"), (tagged, "tags")])
def test_changes_that_no_peer_expresses_are_reported(name: str, change: Callable[[Structure], None], fact: str) -> None:
    before = registry.write(site(), format=name)
    structure = site()
    change(structure)
    after = registry.write(structure, format=name)
    assert after.data == before.data
    assert facts(after.left_out) - facts(before.left_out) == {fact}


def test_allocations_are_reported() -> None:
    for name in PEERS:
        made = registry.write(site(), [Hold("j", 0, None, {2: 1})], format=name)
        assert "allocations: 1 job, j" in made.left_out


@pytest.mark.parametrize(
    ("name", "lost"),
    [
        ("hyperqueue", {"sizes", "units", "uuids"}),
        ("canary", {"uuids"}),
        ("ctest", {"pools", "names", "units", "uuids"}),
        ("jqm", {"sizes", "units", "properties", "uuids"}),
    ],
)
def test_losses_of_each_format(name: str, lost: set[str]) -> None:
    assert facts(registry.write(site(), format=name).left_out) == lost


def test_ids_that_restart_in_each_socket_are_renumbered() -> None:
    sockets = Recipe("socket", 2, children=(Recipe("core", 2),))
    structure = expand(Recipe("cluster", children=(Recipe("node", children=(sockets,)),)), origin=ORIGIN)
    made = registry.write(structure, format="hyperqueue")
    assert made.text == "hq worker start --hostname node0 --cpus 2x2\n"
    assert facts(made.left_out) == {"ids", "uuids"}


def test_machine_without_nodes_is_one_host() -> None:
    structure = expand(Recipe("rack", children=(Recipe("core", 2),)), origin=ORIGIN)
    for name in PEERS:
        made = registry.write(structure, format=name)
        assert "pools: /rack will be in a cluster when it is read" in made.left_out


def test_foreign_properties_about_files_do_no_harm() -> None:
    odd = {
        "json:file:managers": "{",
        "json:file:empty_types": "[1, 2]",
        "json:x": "[" * 100_000,
        "file:slots": "many",
        "file:label": 3,
        "worker_group": 7,
        "allow_multinode": "perhaps",
        "far": float("inf"),
        "big": 10**40,
    }
    odd = {key: value for key, value in odd.items() if not isinstance(value, str) or len(value) <= 4096}
    cores = Recipe("core", 2, properties=odd)
    node = Recipe("node", properties=odd, children=(cores,))
    structure = expand(Recipe("cluster", properties=odd, children=(node,)), origin=ORIGIN)
    for name in PEERS:
        found = written(structure, name)
        assert found is not None
