"""R version 1, read and written: ranks, hosts, cores and gpus, with a graph or topologies, and other data of a job's R."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fluxres
from fluxres import limits
from fluxres.errors import InputError, LimitExceeded, UsageError
from fluxres.formats import registry
from fluxres.formats.flux import resource_set_schema
from fluxres.graph.audit import check_structure
from fluxres.graph.compare import equal
from fluxres.graph.recipe import Recipe, expand
from fluxres.graph.structure import Structure
from fluxres.syntax import hostlist, idset
from tests.formats.round_trip import ORIGIN, differences, facts_of
from tests.formats.structures import structures
from tests.graph.builders import demo
from tests.traceability import ROOT

Entry = tuple[str, dict[str, str]]


def document(entries: list[Entry], hosts: list[str], *, scheduling: Any = None, **execution: Any) -> dict[str, Any]:
    lite = [{"rank": ranks, "children": children} for ranks, children in entries]
    more = {} if scheduling is None else {"scheduling": scheduling}
    return {"version": 1, "execution": {"R_lite": lite, "nodelist": hosts, **execution}, **more}


def read(values: dict[str, Any]) -> Structure:
    structure = registry.read(json.dumps(values).encode(), file="R.json", origin=ORIGIN).structure
    assert [problem for problem in check_structure(structure) if problem.severity == "error"] == []
    return structure


def written(structure: Structure, format: str = "R", **options: Any) -> dict[str, Any]:
    return json.loads(registry.write(structure, format=format, **options).data)


def paths(structure: Structure) -> list[str]:
    return [structure.path(v) for v in range(structure.n)]


# -- nodes -----------------------------------------------------------------------------------------------------------------


def test_hosts_go_to_ranks_in_ascending_order() -> None:
    made = read(document([("5", {"core": "0"}), ("1-2", {"core": "3,7", "gpu": "1"})], ["a[8-9]", "b01"]))
    assert paths(made) == [
        "/cluster0", "/cluster0/a8", "/cluster0/a8/core3", "/cluster0/a8/core7", "/cluster0/a8/gpu1", "/cluster0/a9",
        "/cluster0/a9/core3", "/cluster0/a9/core7", "/cluster0/a9/gpu1", "/cluster0/b01", "/cluster0/b01/core0",
    ]  # fmt: skip
    assert made.rank.tolist() == [-1, 1, 1, 1, 1, 2, 2, 2, 2, 5, 5]
    assert made.id[[1, 5, 9]].tolist() == [8, 9, 1]


def test_children_of_any_type() -> None:
    made = read(document([("0", {"core": "0", "nic": "0-1"})], ["n0"]))
    assert paths(made)[3:] == ["/cluster0/n0/nic0", "/cluster0/n0/nic1"]


@pytest.mark.parametrize(
    ("hosts", "template"),
    [
        (["n[0-3]"], "n${id}"),
        (["n[00-03]"], "n${id:02}"),
        (["n08,n09,n10,n11"], "n${id:02}"),
        (["n8,n9,n10,n11"], "n${id}"),
        (["a$[1-4]"], "a$$${id}"),
        (["node[0-3]"], None),
        (["n[8-9]", "n[010-011]"], None),
        (["a0,b0,c0,d0"], None),
        (["n1-ib,n2-ib,n3-ib,n4-ib"], None),
    ],
)
def test_names_become_a_template_if_one_rule_gives_all(hosts: list[str], template: str | None) -> None:
    made = read(document([("0-3", {"core": "0"})], hosts))
    assert [made.name(v) for v in (1, 3, 5, 7)] == hostlist.parse(",".join(hosts))
    assert {made.kinds[k].name for k in made.kind[[1, 3, 5, 7]]} == {template}
    assert written(made)["execution"]["nodelist"] == [hostlist.format(hostlist.parse(",".join(hosts)))]


def test_several_nodes_of_one_host_get_separate_names() -> None:
    made = read(document([("0,4,9", {"core": "0"})], ["vm,vm,vm"]))
    assert [made.name(v) for v in (1, 3, 5)] == ["vm", "vm@4", "vm@9"]
    assert written(made)["execution"]["nodelist"] == ["vm,vm,vm"]


def test_properties() -> None:
    given_ = {"nvme": "0,2", "gen=4": "2", "+batch": "0-2", "a@gpu": "1", "gen=5": "2"}
    made = read(document([("0-2", {"core": "0"})], ["n[0-2]"], properties=given_))
    assert [made.kind_of(v).properties for v in (1, 3, 5)] == [
        (("+batch", None), ("nvme", None)),
        (("+batch", None), ("a@gpu", None)),
        (("+batch", None), ("gen", "4"), ("gen=5", None), ("nvme", None)),
    ]
    assert written(made)["execution"]["properties"] == given_


WORDS = st.text(st.sampled_from("ab=|4"), min_size=1, max_size=4)


@given(st.dictionaries(WORDS, st.none() | WORDS | st.integers(0, 9) | st.just(""), max_size=3))
def test_properties_are_written_only_if_they_are_read_back(properties: dict[str, Any]) -> None:
    node = Recipe("node", ids=np.array([0]), properties=properties, children=(Recipe("core"),))
    machine = expand(Recipe("cluster", ids=np.array([0]), children=(node,)), origin=ORIGIN)
    r = registry.write(machine, format="R")
    came_back = registry.read(r.data).structure.kind_of(1).properties == machine.kind_of(1).properties
    assert came_back == ("properties" not in facts_of(r.left_out))


def test_numeric_properties_are_text_as_in_a_jobs_r() -> None:
    node = Recipe("node", ids=np.array([0]), properties={"class": 3, "ssd": None}, children=(Recipe("core"),))
    machine = expand(Recipe("cluster", ids=np.array([0]), children=(node,)), origin=ORIGIN)
    r = registry.write(machine, format="R")
    graph = fluxres.ResourceGraph(machine)
    of_job = graph.allocate("/cluster0/node0", job="j", start=0, end=1).R()
    assert json.loads(r.data)["execution"]["properties"] == of_job["execution"]["properties"] == {"class=3": "0", "ssd": "0"}
    told = "properties: the types of their values, which all become text; 1 pool, /cluster0/node0"
    assert [line for line in r.left_out if line.startswith("properties")] == [told]
    assert registry.read(r.data).structure.kind_of(1).properties == (("class", "3"), ("ssd", None))


@pytest.mark.parametrize("name", ["R", "resource-config", "jgf"])
def test_draw_of_a_node_is_read_back_as_a_number(name: str) -> None:
    node = Recipe("node", ids=np.array([0]), properties={"draw.power": 400}, children=(Recipe("core"),))
    machine = expand(Recipe("cluster", ids=np.array([0]), children=(node,)), origin=ORIGIN)
    written = registry.write(machine, format=name)
    assert "properties" not in facts_of(written.left_out)
    assert registry.read(written.data).structure.kind_of(1).properties == (("draw.power", 400),)


@pytest.mark.parametrize("name", ["R", "resource-config"])
def test_ambiguous_draw_is_left_out(name: str) -> None:
    node = Recipe("node", ids=np.array([0]), properties={"draw.a=b": 400, "draw.a": 3}, children=(Recipe("core"),))
    machine = expand(Recipe("cluster", ids=np.array([0]), children=(node,)), origin=ORIGIN)
    written = registry.write(machine, format=name)
    assert "properties" in facts_of(written.left_out)
    assert registry.read(written.data).structure.kind_of(1).properties == (("draw.a", 3),)


# -- what a job's R says ---------------------------------------------------------------------------------------------------


def test_times_slots_and_attributes_are_kept_as_tags_and_written_again() -> None:
    values = document([("3", {"core": "0"})], ["n0"], nslots=2, starttime=5.5, expiration=9, scheduling=[{"k": 1}])
    values["attributes"] = {"system": {"queue": "q"}}
    made = read(values)
    assert made.tags[0] == {
        "R.starttime": "5.5", "R.expiration": "9.0", "R.nslots": "2", "R.scheduling": '[{"k":1}]',
        "R.attributes": '{"system":{"queue":"q"}}',
    }  # fmt: skip
    assert written(made) == values


FOREIGN = [("R.nslots", "x"), ("R.starttime", "-1"), ("R.attributes", "{"), ("R.scheduling", "nan")]


@pytest.mark.parametrize(("key", "value"), FOREIGN)
def test_foreign_tags(key: str, value: str) -> None:
    made = read(document([("0", {"core": "0"})], ["n0"]))
    made.set_tag([0], key, value)
    with pytest.raises(UsageError, match=key):
        registry.write(made, format="R")


# -- scheduling: a graph ---------------------------------------------------------------------------------------------------


def test_graph_defines_the_machine() -> None:
    machine = demo()
    r = registry.write(machine, format="R", scheduling="jgf")
    assert r.left_out == []
    assert registry.detect(r.data).name == "R"  # type: ignore[union-attr]  # it is one
    assert equal(machine, registry.read(r.data).structure) == []


def test_ranks_are_those_of_r_and_nodes_are_found_by_name() -> None:
    values = written(demo(1, 3, 2), scheduling="jgf")
    lite = values["execution"]["R_lite"]
    assert (lite, values["execution"]["nodelist"]) == ([{"rank": "0-2", "children": {"core": "0-1"}}], ["node-0-[0-2]"])
    lite[0]["rank"], values["execution"]["nodelist"] = "7-9", ["node-0-[2,0,1]"]
    made = read(values)
    ranks = {made.name(v): made.rank.item(v) for v in made.of_type("node").tolist()}
    assert ranks == {"node-0-0": 8, "node-0-1": 9, "node-0-2": 7}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"nodelist": ["node-0-[0-1]", "other"]}, "0 nodes are named 'other'"),
        ({"R_lite": [{"rank": "0-2", "children": {"core": "0-2"}}]}, r"/demo/rack0/node-0-0 has 2 core pools, but 3 in R_lite"),
    ],
)
def test_graph_that_contradicts_r_is_refused(change: dict[str, Any], words: str) -> None:
    values = written(demo(1, 3, 2), scheduling="jgf")
    values["execution"].update(change)
    with pytest.raises(InputError, match=rf"R.json:1:\d+: scheduling.graph: {words}"):
        read(values)


def test_fault_in_the_graph_has_its_place_in_the_document() -> None:
    values = written(demo(1, 1, 1), scheduling="jgf")
    values["scheduling"]["graph"]["nodes"][1]["metadata"]["size"] = "four"
    words = r"R.json:1:\d+: scheduling.graph.nodes\[1\].metadata.size: expected a whole number of at least 0, got 'four'"
    with pytest.raises(InputError, match=words):
        read(values)


# -- scheduling: topologies ------------------------------------------------------------------------------------------------

TOPO = {
    "storage": [{"path": "/nvme", "capacity": 2, "unit": "TiB"}],
    "socket": [{"numa": [{"cores": "0-1", "gpus": "0"}, {"cores": "2-3"}], "memory": 96}, {"cores": "4-7", "gpus": "1"}],
}


def pool(*children: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    return {"writer": "TreePool", "children": [{"ranks": ranks, "topo": topo} for ranks, topo in children]}


def test_topology_places_the_cores() -> None:
    values = document([("0-1", {"core": "0-7", "gpu": "0-1"})], ["n[0-1]"], scheduling=pool(("0-1", TOPO)))
    made = read(values)
    assert [path[len("/cluster0/n1/") :] for path in paths(made) if path.startswith("/cluster0/n1/")] == [
        "storage0", "socket0", "socket0/numa0", "socket0/numa0/core0", "socket0/numa0/core1", "socket0/numa0/gpu0",
        "socket0/numa1", "socket0/numa1/core2", "socket0/numa1/core3", "socket0/memory", "socket1", "socket1/core4",
        "socket1/core5", "socket1/core6", "socket1/core7", "socket1/gpu1",
    ]  # fmt: skip
    storage, memory = made.vertex("/cluster0/n0/storage0"), made.vertex("/cluster0/n0/socket0/memory")
    assert (made.size[storage], made.kind_of(storage).unit, made.kind_of(storage).properties) == (2, "TiB", (("path", "/nvme"),))
    assert (made.size[memory], made.kind_of(memory).unit) == (96, "GiB")
    again = registry.write(made, format="treepool")
    assert facts_of(again.left_out) == {"uuids"}
    assert json.loads(again.data)["scheduling"] == values["scheduling"]


def test_cores_outside_r_lite_are_left_out_and_cores_outside_domains_are_in_the_node() -> None:
    made = read(document([("0", {"core": "4,9"})], ["n0"], scheduling=pool(("0", {**TOPO, "storage": []}))))
    assert paths(made)[1:] == ["/cluster0/n0", "/cluster0/n0/socket1", "/cluster0/n0/socket1/core4", "/cluster0/n0/core9"]


def test_ranks_of_the_parent_instance_are_in_the_same_order() -> None:
    topologies = pool(("17", {"cores": "0"}), ("12", {"a": [{"cores": "0"}]}))
    made = read(document([("0-1", {"core": "0"})], ["n[0-1]"], scheduling=topologies))
    assert [path[len("/cluster0/") :] for path in paths(made)[1:]] == ["n0", "n0/a0", "n0/a0/core0", "n1", "n1/core0"]


@pytest.mark.parametrize(
    ("children", "words"),
    [
        (pool(("0-1", {"cores": "0"}), ("2", {})), "topologies of more ranks than R_lite has"),
        (pool(("0", {"cores": "0"})), "topologies of 1 ranks, but R_lite has 2"),
        (pool(("0-1", {"a": [{"cores": "0"}, {"cores": "0-1"}]})), r"topo.a\[1\].cores: core 0 is in two domains"),
        (pool(("0-1", {"memory": "96"})), "memory: expected GiB, a whole number of at least 1, got '96'"),
        (pool(("0-1", {"a": [{"cores": "0", "storage": []}]})), "storage belongs to a node"),
        (pool(("0-1", {"a": [{"": [{"cores": "0"}]}]})), "'' is not a valid pool type"),
        (pool(("0-1", {"core": [{"cores": "1"}], "cores": "0"})), "two siblings are named 'core0'"),
        (pool(("0-1", {"a": 3})), "expected a list of domains named 'a', got 3"),
        (pool(("0-1", {"cores": "x"})), "cores: expected an id"),
        (pool(("0-1", {"storage": [{"path": "/x"}]})), "storage has a path, a capacity"),
        ({"writer": "TreePool"}, "the key 'children' is missing"),
    ],
)
def test_topologies_that_do_not_fit_are_refused(children: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        read(document([("0-1", {"core": "0-1"})], ["n[0-1]"], scheduling=children))


def test_cores_that_restart_in_each_socket_are_renumbered() -> None:
    sockets = Recipe("socket", 2, children=(Recipe("core", 2), Recipe("memory", size=8, unit="GB")))
    machine = expand(Recipe("cluster", ids=np.array([0]), children=(Recipe("node", 2, children=(sockets,)),)), origin=ORIGIN)
    r = registry.write(machine, format="treepool")
    values = json.loads(r.data)
    assert values["execution"]["R_lite"] == [{"rank": "0-1", "children": {"core": "0-3"}}]
    assert values["scheduling"]["children"] == [{"ranks": "0-1", "topo": {"socket": [{"cores": "0-1"}, {"cores": "2-3"}]}}]
    assert [line.partition(",")[0] for line in r.left_out] == [
        "pools: 4 pools", "uuids: 19 pools; reading the file generates new ones", "ids: 4 pools",
    ]  # fmt: skip


# -- what is wrong ---------------------------------------------------------------------------------------------------------

GOOD = document([("0-3", {"core": "0-1"})], ["n[0-3]"])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"R_lite": [{"rank": "3,2", "children": {}}]}, r"R_lite\[0\].rank: expected ids in ascending order"),
        ({"R_lite": [{"rank": "", "children": {}}]}, "nodelist: 4 hosts for 0 ranks"),
        ({"R_lite": [{"rank": "0-3", "children": {"a/b": "0"}}]}, "'a/b' is not a valid pool type"),
        ({"R_lite": []}, "nodelist: 4 hosts for 0 ranks"),
        ({"R_lite": 3}, "R_lite: expected a list, got 3"),
        ({"nodelist": ["n[0-4]"]}, "nodelist: 5 hosts for 4 ranks"),
        ({"nodelist": ["n[0-3"]}, r"nodelist\[0\]: expected matching brackets"),
        ({"properties": {"a|b": "0"}}, r"1:\d+: execution.properties.a\|b: '\|' in the name of a property"),
        ({"properties": {"a": "0-4"}}, "rank 4 is in no entry"),
        ({"properties": {"a": 1}}, "properties.a: expected text, got 1"),
        ({"starttime": 5, "expiration": 4}, "expiration 4.0 is not after the starttime 5.0"),
        ({"starttime": -1}, "starttime: expected a number of at least 0, got -1"),
        ({"nslots": 0}, "nslots: expected a whole number of at least 1"),
    ],
)
def test_contradictory_sets_are_refused(change: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        read({**GOOD, "execution": {**GOOD["execution"], **change}})


@pytest.mark.parametrize(
    ("entry", "hosts"),
    [
        (("0-999999999", {"core": "0"}), ["n[0-9]"]),
        (("0", {"core": "0-999999999"}), ["n0"]),
        (("0", {"core": "0"}), ["n[0-999999999]"]),
        (("0-99999", {"core": "0-999"}), ["n[0-99999]"]),
        ((str(2**40), {"core": "0"}), ["n0"]),
        ((f"0-{limits.RANKS_MAX}", {"core": "0"}), [f"n[0-{limits.RANKS_MAX}]"]),
    ],
)
def test_too_large_sets_are_refused(entry: Entry, hosts: list[str]) -> None:
    with pytest.raises(LimitExceeded):
        read(document([entry], hosts))


def test_machines_without_nodes() -> None:
    cores = expand(Recipe("cluster", children=(Recipe("core", 3),)), origin=ORIGIN)
    with pytest.raises(UsageError, match="no pool has a rank"):
        registry.write(cores, format="R")
    twice = expand(Recipe("cluster", children=(Recipe("node", 2, rank=np.array([3, 3])),)), origin=ORIGIN)
    with pytest.raises(UsageError, match="/cluster/node0 and /cluster/node1 both have rank 3"):
        registry.write(twice, format="R")
    with pytest.raises(UsageError, match="no scheduling 'x'"):
        registry.write(demo(), format="R", scheduling="x")


# -- round trips -----------------------------------------------------------------------------------------------------------


@st.composite
def sets(draw: st.DrawFn) -> dict[str, Any]:
    """Resource sets with everything that R can express."""
    ranks = draw(st.lists(st.integers(0, 40), min_size=1, max_size=6, unique=True))
    cuts = sorted(draw(st.sets(st.integers(1, len(ranks)), max_size=2)) | {len(ranks)})
    ids = st.sets(st.integers(0, 9), max_size=5).map(idset.format)
    entries = []
    for first, last in zip([0, *cuts], cuts, strict=False):
        if ranks[first:last]:
            types = draw(st.permutations(["core", "gpu"]))
            entries.append((idset.format(ranks[first:last]), {type_: draw(ids) for type_ in types}))
    names = st.sampled_from(["n1", "n2", "n03", "login", "a-b9", "n1"])
    hosts = draw(st.lists(names, min_size=len(ranks), max_size=len(ranks)))
    words, some = st.sampled_from(["a", "+b", "c=1", "c=2", "d@x"]), st.sets(st.sampled_from(ranks), min_size=1)
    properties = draw(st.dictionaries(words, some))
    return document(entries, hosts, properties={key: idset.format(which) for key, which in properties.items()})


@settings(max_examples=150, deadline=None)
@given(sets())
def test_rule_s1_sets(values: dict[str, Any]) -> None:
    made = read(values)
    first = registry.write(made, format="R")
    again = registry.read(first.data, origin=ORIGIN).structure
    assert differences(made, again, facts_of(first.left_out)) == []
    assert registry.write(again, format="R").data == first.data


@pytest.mark.parametrize("form", ["R", "treepool", "resource-config"])
@settings(max_examples=60, deadline=None)
@given(structure=structures())
def test_rule_s1_odd_machines_are_written_identically_again(form: str, structure: Structure) -> None:
    try:
        first = registry.write(structure, format=form)
    except UsageError:
        return
    loaded = registry.read(first.data, format=form, origin=ORIGIN)
    second = registry.write(loaded.structure, format=form)
    assert second.data == first.data
    assert facts_of(second.left_out) <= {"uuids"}
    if "pools" not in facts_of(first.left_out):
        assert differences(structure, loaded.structure, facts_of(first.left_out)) == [], first.left_out


def test_schema_matches_the_types() -> None:
    stands = json.loads((ROOT / "specs" / "schemas" / "resource-set.schema.json").read_text())
    assert stands == resource_set_schema.json_schema()
