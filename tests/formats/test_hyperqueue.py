"""HyperQueue's workers: each kind of pool, from words and from JSON, and refusals with their places."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from fluxres.errors import InputError, LimitExceeded
from fluxres.formats import registry
from fluxres.formats.peers.hyperqueue.command_lines import words_of
from fluxres.formats.peers.hyperqueue.read import read_words
from fluxres.graph.recipe import Recipe, expand
from fluxres.graph.structure import Structure

ORIGIN = 8 << 76 | 2 << 62


def read(text: str, **options: Any) -> Structure:
    return registry.read(text.encode(), format="hyperqueue", file="w", origin=ORIGIN, **options).structure


def pools(s: Structure) -> list[str]:
    return [f"{s.path(v)[8:]} {s.size[v]}{s.kind_of(v).unit or ''}".strip() for v in range(1, s.n)]


def test_every_kind_of_pool() -> None:
    text = 'cpus=2x2\nx=[7, a, "b c"]\nr=range(3-4)\nl=list(9,8)\nmem=sum(64)\nfrac=sum(0.5)\ngpus/amd=[0]\n'
    assert pools(read(text)) == [
        "/node0 1",
        "/node0/socket0 1",
        "/node0/socket0/core0 1",
        "/node0/socket0/core1 1",
        "/node0/socket1 1",
        "/node0/socket1/core2 1",
        "/node0/socket1/core3 1",
        "/node0/x7 1",
        "/node0/a 1",
        "/node0/b c 1",
        "/node0/r3 1",
        "/node0/r4 1",
        "/node0/l8 1",
        "/node0/l9 1",
        "/node0/mem 64",
        "/node0/frac 50000.0001",
        "/node0/gpus_amd0 1",
    ]


def test_several_workers_in_lines_and_paragraphs() -> None:
    s = read("a=sum(1)\n# note\nb=sum(1)\n\n\nc=sum(1)\n--cpus 2\nhq worker start --hostname n7 --group g\nd=sum(1)\r\n")
    assert [s.path(v) for v in s.of_type("node").tolist()] == [
        f"/cluster/{name}" for name in ("node0", "node1", "node2", "n7", "node4")
    ]
    assert s.rank[s.of_type("node")].tolist() == [0, 1, 2, 3, 4]
    assert dict(s.kind_of(int(s.of_type("node")[3])).properties) == {"worker_group": "g"}


def test_groups_coupled_one_to_one_with_cpu_groups_are_in_sockets() -> None:
    words = "--cpus 2x1 --resource gpus=2x1 --resource nics=2x1 --coupling cpus[0]:gpus[0],cpus[1]:gpus[1]"
    s = read(f"{words},cpus[0]:nics[1]=7")
    assert pools(s) == [
        "/node0 1",
        "/node0/socket0 1",
        "/node0/socket0/core0 1",
        "/node0/socket0/gpu0 1",
        "/node0/socket1 1",
        "/node0/socket1/core1 1",
        "/node0/socket1/gpu1 1",
        "/node0/nics-group0 1",
        "/node0/nics-group0/nics0 1",
        "/node0/nics-group1 1",
        "/node0/nics-group1/nics1 1",
    ]
    graph = s.subsystems["coupling"]
    edges = [(s.name(src), s.name(dst), data["weight"]) for src, dst, data in graph.rows()]
    assert edges == [("socket0", "nics-group1", 7.0)]
    made = registry.write(s, format="hyperqueue")
    assert "nics[1]=7" in made.text
    assert [line.partition(":")[0] for line in made.left_out] == ["uuids"]


@pytest.mark.parametrize("cpus", ["2x2", "[[5],[7,9]]", "[[x],[y]]"])
@pytest.mark.parametrize("gpus", ["2x1", "[[a],[b]]"])
def test_sockets_hold_groups_of_any_form(cpus: str, gpus: str) -> None:
    words = f"--cpus '{cpus}' --resource 'gpus={gpus}' --resource o=3x2 --coupling cpus[0]:gpus[0],cpus[1]:gpus[1]"
    s = read(words)
    above = {s.name(int(s.parent[v])) for kind in ("core", "gpu") for v in s.of_type(kind).tolist()}
    assert above == {"socket0", "socket1"}
    assert len(s.of_type("o")) == 6
    assert registry.write(s, format="hyperqueue").text.count("coupling") == 1


def test_weights_that_hyperqueue_cannot_express_are_reported() -> None:
    s = read("--cpus 2x1 --resource nics=2x1 --coupling cpus[0]:nics[1]=7")
    s.subsystems["coupling"].attributes["weight"] = np.array([0.5])
    assert any(line.startswith("graphs: coupling") for line in registry.write(s, format="hyperqueue").left_out)


def test_labels_that_are_not_names_are_kept_as_properties() -> None:
    s = read("a=[mem,a1,x/y,core0]\nmem=sum(2)\ncpus=1x1\nb=[mem]\n")
    assert [s.name(v) for v in s.of_type("a").tolist()] == ["mem", "a~1", "a~2", "a~3"]
    assert [s.name(v) for v in s.of_type("b").tolist()] == ["b~0"]
    assert s.name(int(s.of_type("mem")[0])) == "mem~0"
    made = registry.write(s, format="hyperqueue").text
    assert "a=[mem,a1,x/y,core0]" in made
    assert "b=[mem]" in made


def test_ambiguous_resource_names() -> None:
    text = "--cpus 2 --resource 'gpu=range(0-10)' --resource 'gpu1=range(0-3)'"
    s = read(text)
    assert [s.name(v) for v in s.of_type("gpu").tolist()] == [f"gpu{i}" for i in range(11)]
    assert [s.name(v) for v in s.of_type("gpu1").tolist()] == ["gpu1~0", "gpu11", "gpu12", "gpu13"]
    again = registry.read(registry.write(s, format="hyperqueue").data, format="hyperqueue").structure
    assert pools(again) == pools(s)


def test_two_workers_on_one_host() -> None:
    s = read("--hostname a --cpus 1\n--hostname a --cpus 1")
    assert [s.name(v) for v in s.of_type("node").tolist()] == ["a", "node~1"]
    assert registry.write(s, format="hyperqueue").text.count("--hostname a ") == 2


def test_cpus_come_first_wherever_they_are_defined() -> None:
    s = read("mem=sum(64)\ngpus=2x1\ncpus=2x1\n")
    again = read(registry.write(s, format="hyperqueue").text)
    assert [again.path(v) for v in range(s.n)] == [s.path(v) for v in range(s.n)]
    assert s.path(2) == "/cluster/node0/socket0"
    coupled = read("--resource gpus=2x1 --resource cpus=2x1 --coupling gpus[0]:cpus[1]=8")
    (edge,) = coupled.subsystems.values()
    assert sorted(coupled.path(v) for v in (edge.src.item(0), edge.dst.item(0))) == [
        "/cluster/node0/gpu-group0",
        "/cluster/node0/socket1",
    ]


def test_fractions_are_pools_below_each_index_on_request() -> None:
    s = read("cpus=1x1\ngpus=[x]\nmem=sum(2)", fractions=True)
    assert [s.path(v) for v in s.of_type("share").tolist()] == ["/cluster/node0/core0/share", "/cluster/node0/x/share"]
    assert registry.write(s, format="hyperqueue").left_out[0] == "pools: 2 pools, such as /cluster/node0/core0/share"


def test_words_of_the_command_line() -> None:
    assert pools(read_words("--cpus 2 --resource 'x=[a, b]'", origin=ORIGIN).structure) == [
        "/node0 1",
        "/node0/core0 1",
        "/node0/core1 1",
        "/node0/a 1",
        "/node0/b 1",
    ]
    blanks = read_words("cpus=2 gpus=[0, 1] s=range( 1 - 2 ) mem=sum( 4 )", origin=ORIGIN).structure
    assert [blanks.name(v) for v in range(4, blanks.n)] == ["gpu0", "gpu1", "s1", "s2", "mem"]
    with pytest.raises(InputError, match="expected"):
        read_words("gpus=[0, 1")
    assert list(words_of(r"""a"b c"d 'e\f' g\ h "i\"j" #k""")) == ["ab cd", r"e\f", "g h", 'i"j']
    with pytest.raises(InputError, match="hyperqueue: pool:3"):
        read_words("a=")


def test_equal_workers_share_an_entry_and_keep_names_ranks_and_places() -> None:
    lines = ["--cpus 2", "--cpus 2", "--cpus 2 --hostname z9", "--cpus 2 --group g", "--cpus 2 --group g", "--cpus 1"]
    s = read("\n".join(lines))
    nodes = s.of_type("node")
    assert [s.name(int(v)) for v in nodes] == ["node0", "node1", "z9", "node3", "node4", "node5"]
    assert s.rank[nodes].tolist() == s.id[nodes].tolist() == list(range(6))
    assert [dict(s.kind_of(int(v)).properties) for v in nodes] == [{}, {}, {}, {"worker_group": "g"}, {"worker_group": "g"}, {}]
    assert [len(s.children(int(v))) for v in nodes] == [2, 2, 2, 2, 2, 1]


WORKER: dict[str, Any] = {
    "id": 3,
    "configuration": {
        "hostname": "n",
        "anything": [1],
        "resources": {"resources": [{"name": "g", "kind": "groups", "groups": [[0, "1"], ["b"]]}], "coupling": None},
    },
    "runtime_info": {"x": 1},
}


def test_json_of_one_worker_of_several_and_of_resources_alone() -> None:
    one = pools(read(json.dumps(WORKER)))
    assert one == ["/n 1", "/n/g-group0 1", "/n/g-group0/g0 1", "/n/g-group0/g1 1", "/n/g-group1 1", "/n/g-group1/b 1"]
    assert len(pools(read(json.dumps([WORKER, WORKER])))) == 2 * len(one)
    assert len(pools(read(json.dumps(WORKER["configuration"]["resources"])))) == len(one)


@pytest.mark.parametrize(
    ("text", "where", "message"),
    [
        ("", "w", "no worker"),
        ("a=sum(1)\nb=range(3-1)", "w:2: pool:9", "greater or equal"),
        ("--cpus 0", "w:1: cpus:1", "at least one"),
        ("--cpus", "w:1: --cpus", "expected a value"),
        ("--frob 1", "w:1: options", "unknown option --frob"),
        ("--resource 'a", "w:1: column 12", "unclosed quotes"),
        ("--cpus 2x2 --coupling cpus[0]:cpus[5]", "w:1: coupling:9", "Invalid group id"),
        ("\n\na=[x]\na=[y]", "w:3: pool a", "more than once"),
        ("cpus=sum(3)", "w:1: pool cpus", "cannot be used"),
        ('{"resources": [{"name": "a", "kind": "list", "values": [1, 1]}]}', "w:1:1: pool a", "is listed twice"),
        ('{"resources": [{"name": "a", "kind": "list"}]}', "w:1:16: resources[0]", "'values' is missing"),
        (
            '{"resources": [{"name": "a", "kind": "sum", "size": 5, "start": 1}]}',
            "w:1:56: resources[0].start",
            "cannot have start",
        ),
        (
            '{"resources": [{"name": "a", "kind": "sum", "size": 0}]}',
            "w:1:53: resources[0].size",
            "expected a whole number of at least 1",
        ),
        (
            '{"resources": [{"name": "a", "kind": "sum", "size": NaN}]}',
            "w:1:53: resources[0].size",
            "expected a whole number of at least 1",
        ),
        ('[{"configuration": {"hostname": "x"}}]', "w:1:20: [0].configuration", "'resources' is missing"),
        ('{"configuration": 3}', "w:1:19: configuration", "expected a mapping"),
        ("[3]", "w:1:2: [0]", "expected a worker"),
        ("[]", "w", "no worker"),
    ],
)
def test_refusals_have_a_place(text: str, where: str, message: str) -> None:
    with pytest.raises(InputError) as found:
        read(text)
    assert found.value.where == where
    assert message in str(found.value)


@pytest.mark.parametrize(
    "text",
    [
        "cpus=range(0-999999999)",
        "cpus=1000000x1000000",
        "cpus=1000000000x4",
        "".join(f"a{number}=1000000000x4\n" for number in range(20_000)),
        "mem=sum(18446744073709551615)",
        '{"resources": [{"name": "a", "kind": "sum", "size": 18446744073709551616}]}',
        '{"resources": [{"name": "a", "kind": "range", "start": 0, "end": 4294967295}]}',
        "[" * 100_000,
        "a=[" + "[" * 100_000,
    ],
)
def test_input_that_is_too_large_is_refused_early(text: str) -> None:
    with pytest.raises(InputError) as found:
        read(text)
    assert len(str(found.value)) < 400


def worker(resources: Any) -> str:
    configuration = {"hostname": "n3", "heartbeat_interval": 8.0, "resources": resources, "time_limit": None}
    return json.dumps([{"configuration": configuration, "ended": None, "id": 1}])


def test_json_of_version_0_7() -> None:
    generic = [
        {"kind": "sum", "name": "mem", "params": {"size": 1000}},
        {"kind": "indices", "name": "gpus", "params": {"start": 1, "end": 2}},
        {"kind": "list", "name": "tape", "params": {"values": [7, 9]}},
    ]
    text = worker({"cpus": [[0, 1], [2, 3]], "generic": generic})
    found = registry.read(text.encode())
    assert found.name == "hyperqueue"
    assert pools(found.structure) == [
        "/n3 1",
        "/n3/socket0 1", "/n3/socket0/core0 1", "/n3/socket0/core1 1",
        "/n3/socket1 1", "/n3/socket1/core2 1", "/n3/socket1/core3 1",
        "/n3/mem 1000", "/n3/gpu1 1", "/n3/gpu2 1", "/n3/tape7 1", "/n3/tape9 1",
    ]  # fmt: skip
    assert pools(read(worker({"cpus": [[0, 1]], "generic": []}))) == ["/n3 1", "/n3/core0 1", "/n3/core1 1"]


@pytest.mark.parametrize(
    ("resources", "message"),
    [
        ({"cpus": []}, r"w:1:\d+: \[0\].configuration.resources.cpus: expected at least one entry"),
        ({"cpus": [[0]], "generic": [{"kind": "sum", "name": "m", "params": {}}]}, r"generic\[0\].params: a sum needs size"),
        ({"cpus": [[0]], "generic": [{"kind": "range", "name": "m", "params": {"start": 1}}]}, "a range needs start and end"),
        ({"cpus": [[0]], "generic": [{"kind": "range", "name": "m", "params": {"start": 2, "end": 1}}]}, "Start must be greater"),
        (
            {"cpus": [[0]], "generic": [{"kind": "sum", "name": "m", "params": {"size": 1 << 62}}]},
            r"params.size: expected a whole number",
        ),
        ({"cpus": [[0]], "genric": []}, "unknown key 'genric'"),
        ({"cpus": [[0]], "generic": [{"kind": "sum", "name": "cpus", "params": {"size": 1}}]}, "cpus"),
    ],
)
def test_errors_in_json_of_version_0_7_have_a_place(resources: Any, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        read(worker(resources))
    assert caught.value.where.startswith("w:1:")


def written(*levels: Recipe) -> registry.Written:
    root = Recipe("cluster", children=(Recipe("node", children=levels),))
    return registry.write(expand(root, origin=ORIGIN), format="hyperqueue")


def caches(count: int, cores: int) -> Recipe:
    return Recipe("l3cache", count, size=32, unit="MiB", children=(Recipe("core", cores),))


def test_groups_are_sockets_and_not_the_caches_in_them() -> None:
    made = written(Recipe("socket", 2, children=(caches(4, 2), Recipe("gpu", 2))))
    assert "--cpus 2x8 --resource gpus=2x2 --coupling 'cpus[0]:gpus[0],cpus[1]:gpus[1]'" in made.text
    assert "pools: cpus are in groups by socket, and not by l3cache" in made.left_out
    assert pools(read(made.text))[:4] == ["/node0 1", "/node0/socket0 1", "/node0/socket0/core0 1", "/node0/socket0/core1 1"]


def test_groups_are_numa_domains_if_there_are_any() -> None:
    numa = Recipe("numa", 2, children=(caches(2, 2), Recipe("memory", size=64, unit="GiB")))
    made = written(Recipe("socket", 2, children=(numa, Recipe("gpu", 2))))
    assert "--cpus 4x4 --resource" in made.text
    assert "gpus=2x2" in made.text
    assert "--coupling" not in made.text
    assert "pools: cpus are in groups by numa, and not by l3cache" in made.left_out
    # A group with its own memory is a NUMA domain, whatever its name.
    quarter = Recipe("quarter", 4, children=(caches(2, 1), Recipe("memory", size=64, unit="GiB")))
    made = written(Recipe("socket", 1, children=(quarter,)))
    assert "--cpus 4x2" in made.text
    assert "pools: cpus are in groups by quarter, and not by l3cache" in made.left_out


def test_without_sockets_and_memory_groups_are_the_innermost_level() -> None:
    made = written(Recipe("board", 2, children=(caches(2, 3),)), Recipe("memory", size=64, unit="GiB"))
    assert "--cpus 4x3" in made.text
    assert "pools: cpus are in groups by l3cache" in made.left_out
    # A single group is no group.
    made = written(Recipe("socket", 1, children=(caches(4, 2),)))
    assert "--cpus 'range(0-7)'" in made.text


def test_definitions_extend_to_the_end_of_their_brackets() -> None:
    found = read("hq worker start --cpus 2 gpus=[0, 1 , 2] mem=sum( 8 ) --hostname n nics=[[0, 1], [2]]")
    assert pools(found) == pools(read("--cpus=2 gpus=[0,1,2] mem=sum(8) --hostname=n nics=[[0,1],[2]]"))
    with pytest.raises(InputError, match=r"expected .,., got .nics="):
        read("gpus=[0, 1 nics=[2]")


def test_bounds_are_named() -> None:
    with pytest.raises(LimitExceeded, match="use a larger unit"):
        read("mem=sum(18446744073709551615)")
