"""One file per node makes a cluster: similar files are not parsed again, with the same result as if they were."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fluxres import load
from fluxres.documents import safe_xml
from fluxres.documents.source import Source, Sources
from fluxres.errors import FluxresError, InputError
from fluxres.formats.format import Loaded
from fluxres.formats.hwloc import cluster as hwloc_cluster
from fluxres.formats.hwloc.cluster import read_many
from fluxres.graph.compare import equal
from fluxres.graph.structure import Structure
from tests.fuzz.mutation import mutated
from tests.traceability import ROOT

NODE = (ROOT / "data" / "fuzz" / "hwloc" / "gpu-node.xml").read_bytes()
OLD = (ROOT / "data" / "fuzz" / "hwloc" / "version1.xml").read_bytes()


def named(data: bytes, host: str) -> bytes:
    return re.sub(rb'(name="HostName" value=")[^"]*', rb"\g<1>" + host.encode(), data)


def varied(data: bytes, random: Random) -> bytes:
    """The same file for another node of the same order."""

    def memory(match: re.Match[bytes]) -> bytes:
        return b'local_memory="%d"' % (int(match[1]) - 4096 * random.randrange(1000))

    def address(match: re.Match[bytes]) -> bytes:
        return match[1] + b"%012x" % random.randrange(1 << 48)

    data = re.sub(rb'local_memory="([0-9]+)"', memory, data)
    return re.sub(rb'(name="(?:Address|SerialNumber|AMDUUID)" value=")[^"]*', address, data)


def one_by_one(sources: list[Source], **options: str) -> Loaded:
    """The same, with every file parsed."""
    before = hwloc_cluster._REMEMBERED_MAX
    hwloc_cluster._REMEMBERED_MAX = -1
    try:
        return read_many(sources, **options)
    finally:
        hwloc_cluster._REMEMBERED_MAX = before


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that were parsed."""
    names: list[str] = []
    real = safe_xml.load

    def noted(data: bytes, *, file: str) -> safe_xml.Element:
        names.append(file)
        return real(data, file=file)

    monkeypatch.setattr(safe_xml, "load", noted)
    return names


@pytest.mark.parametrize("data", [NODE, OLD], ids=["version2", "version1"])
def test_similar_nodes_are_parsed_once(data: bytes, parsed: list[str]) -> None:
    random = Random(7)
    sources = [Source(varied(named(data, f"n{number}"), random), f"{number}.xml") for number in range(20)]
    loaded = read_many(sources, cluster="tioga", origin=0)
    assert parsed == ["0.xml"]
    assert equal(loaded.structure, one_by_one(sources, cluster="tioga", origin=0).structure) == []
    s = loaded.structure
    assert [s.path(v) for v in s.children(0)] == [f"/tioga/n{number}" for number in range(20)]
    assert [s.rank.item(v) for v in s.children(0)] == [*range(20)]
    memory = [s.size.item(v) for v in range(s.n) if s.kind_of(v).type == "memory"]
    assert len({*memory}) > 20


@pytest.mark.parametrize(
    "change",
    [
        (b"MI250X", b"MI300A"),
        (b'name="nvme0n1"', b'name="nvme1n1"'),
        (b'osdev_type="2"', b'osdev_type="3"'),
        (b'pci_type="0380 [1002:7408]', b'pci_type="0300 [1002:7408]'),
        (b'<object type="PU" os_index="3"', b'<object type="Core" os_index="3"'),
        (b'cache_size="33554432"', b'cache_size="16777216"'),
        (b'local_memory="274877906944"', b'local_memory="0"'),
        (b'subtype="GPUMemory"', b'subtype="HBM"'),
        (b'allowed_cpuset="0x0000000f"', b'allowed_cpuset="0x00000003"'),
        (b'allowed_nodeset="0x0000000d"', b'allowed_nodeset="0x00000001"'),
        (b'name="rsmi0" subtype="RSMI"', b'name="card7"'),
        (b'"1562813784"', b'"15628137"'),
        (b"AuthenticAMD", b"Genuine&amp;Co"),
        (b"<info name", b'<!-- "a" --><info name'),
        (b'value="Cray Inc"', b"value='Cray Inc'"),
    ],
)
def test_pool_data_is_never_taken_from_another_file(change: tuple[bytes, bytes]) -> None:
    assert change[0] in NODE
    files = [named(NODE, "n0"), named(NODE, "n1").replace(*change), named(NODE, "n2"), named(NODE.replace(*change), "n3")]
    sources = [Source(data, f"{number}.xml") for number, data in enumerate(files)]
    assert equal(read_many(sources, origin=0).structure, one_by_one(sources, origin=0).structure) == []


@pytest.mark.parametrize("wrong", [b'"NaN"', b'"-5"', b'"99999999999999999999999"', b'"<"', b'"&x;"', b'"\xff"'])
def test_invalid_content_is_refused_in_every_file(wrong: bytes) -> None:
    bad = named(NODE, "n1").replace(b'"274877906944"', wrong)
    with pytest.raises(InputError, match=r"^1\.xml:"):
        read_many([Source(named(NODE, "n0"), "0.xml"), Source(bad, "1.xml")])
    bad = named(NODE, "n1").replace(b'"02:00:00:00:0c:01"', wrong)
    if wrong in (b'"<"', b'"&x;"', b'"\xff"'):
        with pytest.raises(InputError, match=r"^1\.xml:"):
            read_many([Source(named(NODE, "n0"), "0.xml"), Source(bad, "1.xml")])


def test_memory_of_machines_without_numa_nodes_may_differ(parsed: list[str]) -> None:
    machine = '<object type="Machine" cpuset="0x1" local_memory="%d">\n<info name="HostName" value="n%d"/>\n</object>'
    text = f"<topology>\n{machine}\n</topology>"
    sources = [Source((text % (4096 * (i + 1), i)).encode(), f"{i}.xml") for i in range(3)]
    loaded = read_many(sources, origin=0)
    assert parsed == ["0.xml"]
    assert equal(loaded.structure, one_by_one(sources, origin=0).structure) == []
    s = loaded.structure
    assert [s.size.item(v) for v in s.of_type("memory")] == [4096, 8192, 12288]


def test_files_of_several_machines_combine_with_others(parsed: list[str]) -> None:
    two = b"".join(b'<object type="Machine"><info name="HostName" value="s%d"/></object>' % i for i in range(2))
    both = b'<topology><object type="System">' + two + b"</object></topology>"
    sources = [Source(data, f"{i}.xml") for i, data in enumerate([named(NODE, "n0"), both, named(NODE, "n1")])]
    loaded = read_many(sources, keep="core")
    s = loaded.structure
    assert [(s.name(v), len(s.children(v))) for v in s.children(0)] == [("n0", 4), ("s0", 0), ("s1", 0), ("n1", 4)]
    assert parsed == ["0.xml", "1.xml"]
    with pytest.raises(InputError, match=r"2\.xml: host 's0' is also in 1\.xml"):
        read_many([*sources[:2], Source(both, "2.xml")])


def outcome(read: Callable[..., Loaded], sources: list[Source]) -> Structure | str:
    try:
        return read(sources, cluster="c", origin=0).structure
    except FluxresError as error:
        return str(error)


@settings(max_examples=300, deadline=None)
@given(random=st.randoms(use_true_random=False), data=st.sampled_from([NODE, OLD]))
def test_damaged_file_has_the_same_result_as_when_parsed(random: Random, data: bytes) -> None:
    wrong = mutated(named(data, "n1"), random)
    sources = [Source(named(data, "n0"), "0.xml"), Source(wrong, "1.xml"), Source(named(data, "n2"), "2.xml")]
    shortcut, whole = outcome(read_many, sources), outcome(one_by_one, sources)
    if isinstance(shortcut, str) or isinstance(whole, str):
        assert shortcut == whole
    else:
        assert equal(shortcut, whole) == []


def test_different_nodes_keep_their_order() -> None:
    files = [named(NODE, "a0"), named(OLD, "b0"), named(NODE, "a1"), named(OLD, "b1")]
    loaded = read_many([Source(data, f"{number}.xml") for number, data in enumerate(files)], keep="core")
    s = loaded.structure
    assert loaded.name == "cluster"
    assert [s.name(v) for v in s.children(0)] == ["a0", "b0", "a1", "b1"]
    assert [len(s.children(v)) for v in s.children(0)] == [4, 6, 4, 6]


def test_nodes_without_a_host_name_are_named_after_their_files(tmp_path: Path) -> None:
    silent = re.sub(rb'<info name="HostName"[^>]*>', b"", NODE)
    for name, data in (("same", NODE), ("silent", silent)):
        (tmp_path / name).mkdir()
        for number in (1, 2, 10):
            (tmp_path / name / f"tioga{number}.xml").write_bytes(data)
        g = load(sorted((tmp_path / name).iterdir()), cluster="tioga", keep="core")
        assert [pool.path for pool in g.find("type=node")] == ["/tioga/tioga1", "/tioga/tioga10", "/tioga/tioga2"]


def test_host_in_two_files_is_refused() -> None:
    files = [named(NODE, host) for host in ("n0", "n1", "n0")]
    with pytest.raises(InputError, match=r"2\.xml: host 'n0' is also in 0\.xml"):
        read_many([Source(data, f"{number}.xml") for number, data in enumerate(files)])


def test_files_are_read_one_at_a_time(tmp_path: Path) -> None:
    names = []
    for number in range(3):
        names.append(str(tmp_path / f"{number}.xml"))
        Path(names[-1]).write_bytes(named(NODE, f"n{number}"))
    told: list[str] = []
    loaded = read_many(Sources(names, told.append), keep="gpu")
    assert told[-3:] == names
    assert loaded.structure.n == 1 + 3 * 3


def test_more_different_files_than_are_cached() -> None:
    count = hwloc_cluster._REMEMBERED_MAX + 20
    files = [named(NODE, f"n{i}").replace(b"Cray Inc", b"Cray %d" % (i % (count - 5))) for i in range(count)]
    sources = [Source(data, f"{number}.xml") for number, data in enumerate(files)]
    assert equal(read_many(sources, origin=0).structure, one_by_one(sources, origin=0).structure) == []
