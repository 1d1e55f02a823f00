"""Nodes in flux-core's configuration: tables add up, ranks follow the order of hosts, everything else is kept."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fluxres import limits
from fluxres.errors import InputError, LimitExceeded, UsageError
from fluxres.formats import registry
from fluxres.formats.flux import resource_config
from fluxres.graph.audit import check_structure
from fluxres.graph.compare import equal
from fluxres.graph.recipe import Recipe, expand
from fluxres.graph.structure import Structure
from tests.formats.round_trip import ORIGIN, differences, facts_of
from tests.graph.builders import demo
from tests.traceability import ROOT


def read(text: str) -> Structure:
    structure = registry.read(text.encode(), file="r.toml", origin=ORIGIN).structure
    assert [problem for problem in check_structure(structure) if problem.severity == "error"] == []
    return structure


def table(hosts: str, **more: object) -> str:
    return "\n".join(["[[resource.config]]", *(f"{k} = {json.dumps(v)}" for k, v in {"hosts": hosts, **more}.items()), ""])


def test_tables_of_one_host_add_up_and_hosts_have_ranks_in_their_order() -> None:
    made = read(table("b[1-3]", cores="0-1", properties=["x"]) + table("b[2-3],a", cores="1-2", gpus="5", properties=["gen=4"]))
    ranks = {made.name(v): made.rank.item(v) for v in made.of_type("node").tolist()}
    assert ranks == {"b1": 0, "b2": 1, "b3": 2, "a": 3}
    assert [made.path(v) for v in made.children(4).tolist()] == [
        "/cluster0/b2/core0", "/cluster0/b2/core1", "/cluster0/b2/core2", "/cluster0/b2/gpu5",
    ]  # fmt: skip
    assert [made.kind_of(v).properties for v in made.of_type("node").tolist()] == [
        (("x", None),), (("gen", "4"), ("x", None)), (("gen", "4"), ("x", None)), (("gen", "4"),),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        'resource.config = [{hosts = "b[1-2]", cores = "0-1"}]',
        '# nodes\n  resource . config=[\n  {hosts = "b[1-2]", cores = "0-1"},\n]\nresource.norestrict = true',
        'resource = {config = [{hosts = "b[1-2]", cores = "0-1"}]}',
        '[resource]\nconfig = [{hosts = "b[1-2]", cores = "0-1"}]',
        '[queues.q]\n[[ resource.config ]]\nhosts = "b[1-2]"\ncores = "0-1"',
    ],
)
def test_tables_may_use_all_forms_of_toml(text: str) -> None:
    assert [read(text).path(v) for v in (1, 3, 6)] == ["/cluster0/b1", "/cluster0/b1/core1", "/cluster0/b2/core1"]


@pytest.mark.parametrize("text", ["1-2", "b[2-3]", "b3,b2"])
def test_excluded_hosts_are_drained(text: str) -> None:
    made = read(f'[resource]\nexclude = "{text}"\n' + table("b[1-3]", cores="0"))
    assert [made.state_name(v) for v in made.of_type("node").tolist()] == ["up", "drain", "drain"]
    assert tomllib.loads(registry.write(made, format="resource-config").text)["resource"]["exclude"] == "b[2-3]"


def test_other_settings_and_tables_are_kept() -> None:
    settings_ = '[resource]\nrediscover = true\n"a b" = [1.5, {x = "\\u007f"}]\n[queues.q]\nrequires = ["x"]\n'
    text = settings_ + table("n0", cores="0")
    made = read(text)
    assert made.tags[0] == {
        "resource.rediscover": "true",
        "resource.a b": '[1.5,{"x":"\x7f"}]',
        "config.queues": '{"q":{"requires":["x"]}}',
    }
    again = tomllib.loads(registry.write(made, format="resource-config").text)
    assert again == tomllib.loads(text)


def test_files_that_a_configuration_names(tmp_path: Path) -> None:
    machine = demo(1, 2, 2)
    (tmp_path / "R.json").write_bytes(registry.write(machine, format="R").data)
    whole = json.loads(registry.write(machine, format="R", scheduling="jgf").data)
    (tmp_path / "graph.json").write_text(json.dumps(whole["scheduling"]))
    config = tmp_path / "c.toml"
    config.write_text('[resource]\npath = "R.json"\n')
    assert registry.read(config).structure.n == 7
    config.write_text('[resource]\npath = "R.json"\nscheduling = "graph.json"\n')
    assert equal(machine, registry.read(config).structure) == []
    config.write_text('[resource]\nscheduling = "graph.json"\n' + table("node-0-[0-1]", cores="0-1"))
    assert equal(machine, registry.read(config).structure) == []
    config.write_text('[resource]\npath = "none.json"\n')
    with pytest.raises(InputError, match=r"none.json: no such file"):
        registry.read(config)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[resource]\nx = true\n", "resource: nothing that names nodes"),
        ('[resource]\npath = "R"\n' + table("n0", cores="0"), "both 'config' and 'path'"),
        ('[resource]\npath = "R"\n', "names the file 'R', but this text is not in a directory"),
        (table("n0"), r"r.toml:1:1: resource.config\[0\]: n0 has no cores and no gpus"),
        (table("n0", cores="0") + table("n1", core="0"), r"r.toml:6:1: resource.config\[1\].core: unknown key 'core'"),
        (table("n0", cores="0-"), r"config\[0\].cores: expected an id"),
        (table("n[0-", cores="0"), r"config\[0\].hosts: expected matching brackets"),
        (table("", cores="0"), r"config\[0\].hosts: expected text"),
        (table(",", cores="0"), r"config\[0\].hosts: expected at least one host"),
        (table("n0", cores=3), r"config\[0\].cores: expected text, got 3"),
        (table("n0", cores="0", properties=["a|b"]), r"properties\[0\]: '\|' in the name"),
        ('[resource]\nexclude = "x"\n' + table("n0", cores="0"), "exclude: unknown host 'x'"),
        ('[resource]\nexclude = "0-1"\n' + table("n0", cores="0"), "exclude: ranks beyond those of the 1 hosts"),
        ("[resource]\nx = 18446744073709551616\n" + table("n0", cores="0"), "number that cannot be kept"),
        ("[[resource.config]]\nhosts = ", "r.toml:2:1: is not TOML: Invalid value"),
        ('[[resource.config]]\nhosts = "a"\nhosts = "b"\n', r"r.toml:3:\d+: is not TOML"),
        ("[resource]\nx = " + "[" * 10_000, "is nested too deeply"),
        ("[resource]\nx = inf\n" + table("n0", cores="0"), "expected finite numbers, got inf"),
        ("[resource]\nx = 1979-05-27\n" + table("n0", cores="0"), "x: has a date, a time or a number that cannot be kept"),
    ],
)
def test_configurations_without_a_machine_are_refused(text: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        read(text)


@pytest.mark.parametrize(
    "text",
    [
        table("n[0-999999999]", cores="0"),
        table("n0", cores="0-999999999"),
        table(f"n[0-{limits.RANKS_MAX}]", cores="0"),
        table("n[0-99999]", cores="0-999"),
        "[resource]\nx" + ".a" * 1000 + " = 1\n",
        "[resource]\nx = '" + "a" * 5000 + "'\n" + table("n0", cores="0"),
        "[resource]\n#" + "a" * limits.TOML_BYTES_MAX,
    ],
)
def test_too_large_configurations_are_refused(text: str) -> None:
    with pytest.raises(LimitExceeded):
        read(text)


def test_losses_in_a_configuration() -> None:
    bare = expand(Recipe("cluster", children=(Recipe("node", 2),)), origin=ORIGIN)
    with pytest.raises(UsageError, match="node0 has no cores and no gpus"):
        registry.write(bare, format="resource-config")
    lite = [{"rank": "0-1", "children": {"core": "0"}}]
    r = {"version": 1, "execution": {"R_lite": lite, "nodelist": ["a,a"]}}
    shared = registry.read(json.dumps(r).encode()).structure
    with pytest.raises(UsageError, match="shares its host 'a' with another node"):
        registry.write(shared, format="resource-config")


IDS = st.sampled_from(["0", "0-3", "1,5"])


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.fixed_dictionaries(
            {"hosts": st.sampled_from(["a[0-3]", "a[2-5]", "b", "n07,n08", "a1"]), "cores": IDS},
            optional={"gpus": IDS, "properties": st.lists(st.sampled_from(["x", "y=1", "y=2"]), max_size=2)},
        ),
        min_size=1,
        max_size=4,
    )
)  # fmt: skip
def test_rule_s1_tables(tables: list[dict[str, object]]) -> None:
    made = read("".join(table(**each) for each in tables))  # type: ignore[arg-type]  # hosts is text
    first = registry.write(made, format="resource-config")
    again = registry.read(first.data, origin=ORIGIN).structure
    assert facts_of(first.left_out) == {"uuids"}
    assert differences(made, again, {"uuids"}) == []
    assert registry.write(again, format="resource-config").data == first.data


def test_schema_matches_the_types() -> None:
    stands = json.loads((ROOT / "specs" / "schemas" / "resource-config.schema.json").read_text())
    assert stands == resource_config.json_schema()
