"""All mistakes of a cluster file in one run, without those that follow from others; host names that occur twice."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fluxres
from fluxres import limits
from fluxres.errors import InputError
from fluxres.formats import registry


def mistakes(text: str, *, file: str = "f") -> list[str]:
    """``line:column message`` of each."""
    try:
        registry.read(f"fluxres: 1\nname: m\n{text}".encode(), file=file)
    except InputError as error:
        return [f"{found.where.removeprefix('f:').partition(': ')[0]} {found.message}" for found in error.mistakes]
    return []


def test_mistakes_of_entries_are_listed_with_those_of_types() -> None:
    text = """parts: {cpu: {type: socket, with: [{count: 2}]}}
resources:
- {type: rack, coutn: 4, with: [{type: node, hosts: "a[1", with: [{use: cpus}, {use: nothing}]}]}
- {type: a, name: b, hosts: c, with: [{use: cpu}, {type: d, size: 0}]}
"""
    assert mistakes(text) == [
        "3:36 the key 'type' is missing",
        "5:16 unknown key 'coutn'",
        "5:53 expected matching brackets, got 'a[1' (hostlist:1)",
        "5:73 no part 'cpus'",
        "5:86 no part 'nothing'",
        "6:29 both 'name' and 'hosts'",
        "6:67 expected a whole number of at least 1, got 0",
    ]


def test_what_follows_from_another_mistake_is_not_listed() -> None:
    assert mistakes("resources: [{typ: node}]\n") == ["3:14 unknown key 'typ'"]
    assert mistakes("resource: [{type: node}]\n") == ["3:1 unknown key 'resource'"]
    assert mistakes("resources: 5\n") == ["3:12 expected a list, got 5"]
    assert mistakes("include: [no.yaml]\nresources: [{use: a}]\n") == [
        "3:11 only a document loaded from a file can include files"
    ]
    two = "resources: [{type: node, count: 2}]\ngraphs:\n  g: {hierarchy: true, edges: [{from: /m, two: /m/node0}]}\n"
    assert mistakes(f"{two}  h: {{edges: [{{from: 'g:/m/node1', to: /m}}]}}\n") == ["5:43 unknown key 'two'"]
    wrong = two.replace("two: /m/node0", "to: /m/node7")
    assert mistakes(f"{wrong}allocations: [{{job: a, pools: {{'g:/m/node0': 1, /m/node1: 1}}}}]\n") == [
        "5:47 no pool 'node7' for '/m/node7'"
    ]


def test_mistakes_of_several_entries_edges_and_allocations() -> None:
    text = """resources: [{type: rack, count: 2, with: [{type: node, count: 2}]}]
graphs:
  m: {}
  power:
    hierarchy: true
    pools: [{type: pdu}]
    edges:
    - {from: "power:/pdu", to: /m/rack7}
    - {from: "power:/pdu", to: /m/rack0, capacity: -1}
    - {from: "power:/pdu", to: "/m/rack[0-1]"}
    - {from: "/m/rack1", to: "/m/rack1/node[0-7]"}
allocations:
- {job: a, pools: {/m/rack5: 1}}
- {jobs: a, pools: {/m/rack1: 1}}
- {job: a, start: 2, end: 1, pools: {/m/rack1: 1}}
"""
    assert mistakes(text) == [
        "5:3 'm:/' denotes the machine itself",
        "10:32 no pool 'rack7' for '/m/rack7'",
        "11:52 expected a number of at least 0, got -1",
        "13:30 no pool 'node2' for '/m/rack1/node[0-7]'",
        "15:20 no pool 'rack5' for '/m/rack5'",
        "16:4 unknown key 'jobs'",
        "17:27 the window ends at 1, before it begins at 2",
    ]


def test_mistakes_of_names_and_lists_are_listed_together() -> None:
    text = """resources:
- {type: a, count: 2, names: [x, y, z]}
- {type: b, name: "x/y", with: [{type: c, name: "${nothing}"}, {type: d, count: 2, name: e}]}
- {type: f, id: [3, 3]}
"""
    assert mistakes(text) == [
        "4:30 expected 2 entries, got 3",
        "5:19 name 'x/y' has a character not allowed in a path",
        "5:49 name '${nothing}' uses 'nothing', which neither the pool nor one above it has",
        "5:64 2 pools with the same name 'e'",
        "6:17 two f pools with id 3 in one parent, both named 'f3'",
    ]


WRONG = [
    "tpye: node, count: 2",
    "type: ''",
    "type: node, count: -3",
    "type: node, hosts: 'n[1-'",
    "type: node, hosts: [a, b]",
    "type: node, names: [a/b]",
    "type: memory, size: 10 bananas",
    "type: memory, size: 10 W, unit: GiB",
    "type: node, properties: {a: {b: c}}",
    "type: node, state: drained",
    "type: node, count: 2, rank: a",
    "type: node, count: 3, rank: [0, 1]",
    "type: node, with: {type: core}",
    "use: nothing",
    "type: node, count: 2, name: x",
    "type: node, count: 2, name: '${nothing}'",
    "type: node, count: 2, name: '${id'",
    "type: node, count: 3, id: 0-1",
    "type: node, count: 2, id: {within: rack}",
    "type: node, type: core",
    "type: node, count: 2, uuid: 5f2c81aa-9d3e-8b1f-a7c4-000000000000",
    "type: node, draw: {power: lots}",
]


@given(
    st.lists(st.sampled_from([*WRONG, "type: good, count: 2, id: {start: 0}"]), min_size=1, max_size=9),
    st.sampled_from(
        ["", "partitions: {a: {nodes: all, max_time: soon}}", "partitions: {a: {nodes: all, min_nodes: 3, max_nodes: 2}}"]
    ),
)
def test_any_mistakes_of_entries_are_listed_together(entries: list[str], partitions: str) -> None:
    """One for each wrong entry, whichever others there are."""
    entries = [entry for i, entry in enumerate(entries) if entry in WRONG or entry not in entries[:i]]
    lines = [*(f"- {{{entry}}}" for entry in entries), partitions]
    wrong = [i for i, entry in enumerate(entries) if entry in WRONG] + [len(entries)] * bool(partitions)
    found = [int(mistake.partition(":")[0]) - 4 for mistake in mistakes("resources:\n" + "\n".join(lines) + "\n")]
    assert found == wrong


def test_what_is_in_a_wrong_entry_is_not_compared_with_it() -> None:
    inside = "with: [{type: node, count: 4, hosts: 'n[0-15]', with: [{type: core, name: 'c${rack}'}]}]"
    assert mistakes(f"resources: [{{type: rack, count: four, {inside}}}]\n") == [
        "3:33 expected a whole number of at least 1, got 'four'"
    ]
    part = f"parts: {{a: {{type: rack, count: 4.5, {inside}}}}}\nresources: [{{use: a}}, {{type: node, hosts: 'm[0-3]'}}]\n"
    assert mistakes(part) == ["3:32 expected a whole number of at least 1, got 4.5"]


def test_names_that_are_compared_after_expansion_have_the_place_of_their_entry() -> None:
    assert mistakes("resources:\n- {type: node, hosts: 'a,b'}\n- {type: node, hosts: 'b,c'}\n") == [
        "5:23 two pools named 'b' in /m"
    ]
    text = "resources:\n- {type: a, name: 'x${rank}'}\n- {type: b, count: 2, names: [x, x-1]}\n"  # no rank is -1
    assert mistakes(text) == ["5:30 two pools named 'x-1' in /m"]


def test_mistakes_of_partitions_are_listed_together() -> None:
    text = """resources: [{type: node, count: 2}]
partitions:
  a: {nodes: all, default: true, max_time: soon}
  b: {nodes: all, default: true}
  c: {nodes: all, default: true, min_nodes: 3, max_nodes: 2}
  "x,y": {nodes: all}
"""
    assert mistakes(text) == [
        "5:44 expected a duration, got 'soon'",
        "6:28 a second default partition: 'a' is one already",
        "7:28 a second default partition: 'a' is one already",
        "7:45 at least 3 nodes, but at most 2",
        "8:3 'x,y' is not a valid name of a partition",
    ]
    members = "resources: [{type: node, count: 2}]\npartitions:\n  a: {nodes: 'node[0-2]'}\n  b: {}\n  c: {requires: fast}\n"
    assert mistakes(members) == [
        "5:14 there is no node 'node2'",
        "6:6 neither 'nodes' nor 'requires'",
        "7:17 no node meets 'fast'",
    ]


def test_included_files_are_listed_with_their_names(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text("fluxres: 1\nparts:\n  a: {typ: x}\n  b: {type: x, size: [1]}\n")
    (tmp_path / "q.yaml").write_text("fluxres: 1\nparts: {a: [}\n")
    (tmp_path / "f.yaml").write_text(
        "fluxres: 1\ninclude: [p.yaml, q.yaml]\nresources: [{use: a}, {use: c}, {use: b, coutn: 1}]\n"
    )
    with pytest.raises(InputError) as caught:
        fluxres.load(tmp_path / "f.yaml")
    places = [mistake.where.partition(": ")[0].removeprefix(f"{tmp_path}/") for mistake in caught.value.mistakes]
    assert sorted(places) == ["f.yaml:3:42", "p.yaml:3:7", "p.yaml:4:22", "q.yaml:2:13"]


# -- host names --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        (
            "{type: rack, count: 4, with: [{type: node, hosts: 'n[1-8]'}]}",
            ["32 pools", "'count: 2' beside 'hosts'", "4 pools of type rack"],
        ),
        ("{type: rack, count: 3, with: [{type: node, hosts: 'n[1-8]'}]}", ["name all 24 hosts beside 'count: 8'"]),
        ("{type: rack, count: 3, with: [{type: node, hosts: login}]}", ["1 host name for 3 pools"]),
        ("{type: rack, count: 2, with: [{type: node, count: 1, hosts: 'n1,n1'}]}", ["'n1' occurs twice"]),
        (
            "{type: node, hosts: 'n[1-4]'}, {type: rack, with: [{type: node, hosts: 'n[4-5]'}]}",
            ["'n4' occurs twice, also in f:3:"],
        ),
        ("{type: node, hosts: 'n[10-12]'}, {type: rack, with: [{type: node, hosts: 'n1[2-3]'}]}", ["'n12' occurs twice"]),
        ("{type: node, hosts: 'n[1-4]'}, {type: rack, with: [{type: node, hosts: 'x,n3'}]}", ["'n3' occurs twice"]),
        ("{type: node, hosts: 'n[1-4]'}, {type: rack, with: [{type: node, hosts: 'n[01-04]'}]}", []),
        ("{type: node, hosts: 'n[1-4]'}, {type: rack, with: [{type: node, hosts: 'm[1-4]'}]}", []),
        ("{type: rack, count: 2, with: [{type: node, count: 4, hosts: 'n[1-8]'}]}", []),
        ("{type: rack, count: 2, with: [{type: node, names: 'n[1-8]'}]}", []),
    ],
)
def test_a_host_name_occurs_once_in_a_machine(entries: str, expected: list[str]) -> None:
    text = f"fluxres: 1\nname: m\nresources: [{entries}]\n"
    if not expected:
        assert registry.read(text.encode()).name == "m"
        return
    with pytest.raises(InputError) as caught:
        registry.read(text.encode(), file="f")
    (found,) = caught.value.mistakes
    assert found.where.endswith(".hosts")
    assert all(word in str(found) for word in expected)


def test_hosts_of_a_part_that_several_entries_use() -> None:
    text = "parts: {r: {type: rack, with: [{type: node, hosts: 'n[1-2]'}]}}\nresources: [{use: r, name: a}, {use: r, name: b}]\n"
    (found,) = mistakes(text)
    assert found == "3:52 2 host names for 4 pools: each name would occur 2 times"
    several = text.replace("name: b", "type: row")
    (found,) = mistakes(several)
    assert found == "3:52 the host name 'n1' would occur several times"


HOSTS = st.builds(
    lambda stem, first, more: f"{stem}[{first}-{first + more}]",
    st.sampled_from(["n", "n1", "m"]),
    st.integers(0, 15),
    st.integers(0, 4),
)


@given(st.lists(st.tuples(st.integers(1, 2), HOSTS), min_size=1, max_size=4))
def test_hosts_are_refused_exactly_if_two_pools_would_have_one(entries: list[tuple[int, str]]) -> None:
    """Against the names of the same machine with other names instead of hosts."""
    inner = [
        f"{{type: rack, name: r{i}, with: [{{type: row, count: {count}, with: [{{type: node, KEY: '{hosts}'}}]}}]}}"
        for i, (count, hosts) in enumerate(entries)
    ]
    text = f"fluxres: 1\nname: m\nresources: [{', '.join(inner)}]\n"
    structure = registry.read(text.replace("KEY", "names").encode()).structure
    names = [structure.name(v) for v in structure.of_type("node").tolist()]
    if len(set(names)) == len(names):
        assert registry.read(text.replace("KEY", "hosts").encode()).structure.n == structure.n
        return
    with pytest.raises(InputError) as caught:
        registry.read(text.replace("KEY", "hosts").encode())
    assert all(mistake.where.endswith(".hosts") for mistake in caught.value.mistakes)


def test_reading_ends_when_as_many_mistakes_as_are_listed_were_found() -> None:
    inner = ",".join('{"use": "a"}' for _ in range(5000))
    with pytest.raises(InputError) as caught:
        registry.read(f'{{"fluxres": 1, "resources": [{inner}]}}'.encode())
    assert len(caught.value.mistakes) == limits.MISTAKES_MAX
    assert str(caught.value).endswith("and at least 1 more mistake")
