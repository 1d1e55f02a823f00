"""Every form of the same match."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.fluxion.conftest import Start, ask, grug

TINY = grug((("cluster", "node", 3, 0), ("node", "core", 2, 0), ("node", "gpu", 1, 0)))
ONE = ask("slot", 1, ask("node", 1, ask("core", 2)))


def first_line(start: Start, form: str, *resources: dict[str, Any], **more: Any) -> str:
    session = start("-P", "low", "-F", form, graph=TINY)
    session("set-property /m0/node0 ssd=1", "set-property /m0/node1 ssd=1")
    return session.match(*(resources or (ONE,)), **more).partition("INFO")[0]


def test_pretty_simple_begins_at_the_root(start: Start) -> None:
    assert first_line(start, "pretty_simple") == (
        "      ---m0[1:shared]\n"
        "      ------node0[1:exclusive]\n"
        "      ---------core1[1:exclusive]\n"
        "      ---------core0[1:exclusive]\n"
    )


def test_jgf_leaves_out_defaults(start: Start) -> None:
    text = first_line(start, "jgf")
    assert (
        text
        == json.dumps(
            {
                "graph": {
                    "nodes": [
                        node(4, "core", 0, "/m0/node0/core0"),
                        node(5, "core", 1, "/m0/node0/core1"),
                        {
                            "id": "1",
                            "metadata": {
                                "type": "node",
                                "id": 0,
                                "rank": 0,
                                "properties": {"ssd": "1"},
                                "exclusive": True,
                                "paths": {"containment": "/m0/node0"},
                            },
                        },
                        {
                            "id": "0",
                            "metadata": {
                                "type": "cluster",
                                "basename": "m",
                                "id": 0,
                                "rank": -1,
                                "paths": {"containment": "/m0"},
                            },
                        },
                    ],
                    "edges": [
                        {"source": "1", "target": "4"},
                        {"source": "1", "target": "5"},
                        {"source": "0", "target": "1"},
                    ],
                }
            }
        )
        + "\n"
    )


def node(number: int, type_: str, id_: int, path: str) -> dict[str, Any]:
    metadata = {"type": type_, "id": id_, "rank": -1, "exclusive": True, "paths": {"containment": path}}
    return {"id": str(number), "metadata": metadata}


def test_shorthand_ends_at_exclusive_pools(start: Start) -> None:
    found = json.loads(first_line(start, "jgf_shorthand"))
    assert [item["id"] for item in found["graph"]["nodes"]] == ["1", "0"]
    assert found["graph"]["edges"] == [{"source": "0", "target": "1"}]
    assert found["writer"] == "fluxion:jgf_shorthand"
    partly = json.loads(first_line(start, "jgf_shorthand", ask("node", 1, ask("slot", 1, ask("core", 1)))))
    assert "writer" not in partly
    assert len(partly["graph"]["nodes"]) == 3


def test_rlite_and_rv1_group_ranks_with_equal_children(start: Start) -> None:
    wide = ask("slot", 3, ask("node", 1, ask("core", 2), ask("gpu", 1)))
    lite = [{"rank": "0-2", "children": {"core": "0-1", "gpu": "0"}}]
    assert json.loads(first_line(start, "rlite", wide)) == lite
    text = first_line(start, "rv1_nosched", wide, duration=60)
    assert (
        text
        == json.dumps(
            {
                "version": 1,
                "execution": {
                    "R_lite": lite,
                    "nodelist": ["node[0-2]"],
                    "properties": {"ssd=1": "0-1"},
                    "starttime": 0,
                    "expiration": 60,
                },
            }
        )
        + "\n"
    )


def test_rv1_has_the_graph_and_the_queue(start: Start) -> None:
    found = json.loads(first_line(start, "rv1", queue="batch"))
    assert list(found) == ["version", "execution", "scheduling", "attributes"]
    assert found["attributes"] == {"system": {"scheduler": {"queue": "batch"}}}
    assert [item["id"] for item in found["scheduling"]["graph"]["nodes"]] == ["4", "5", "1", "0"]
    assert "attributes" not in json.loads(first_line(start, "rv1"))
    short = json.loads(first_line(start, "rv1_shorthand"))
    assert short["scheduling"]["writer"] == "fluxion:jgf_shorthand"


@pytest.mark.parametrize("form", ["rv1", "rv1_nosched"])
def test_a_graph_without_nodes_has_no_resource_set(start: Start, form: str) -> None:
    session = start("-F", form, graph=grug((("cluster", "ssd", 2, 0),)))
    assert session.match(ask("slot", 1, ask("ssd", 1))).startswith("INFO")


def test_sizes_units_and_other_subsystems_are_written(start: Start) -> None:
    graph = grug((("cluster", "memory", 1, 0),)).replace(
        "</graph>",
        '<node id="net"><data key="root">1</data><data key="type">switch</data><data key="subsystem">net</data></node>'
        '<node id="fed"><data key="type">memory</data></node><edge source="net" target="fed">'
        '<data key="e_subsystem">net</data><data key="gen_method">ASSOCIATE_IN</data></edge></graph>',
    )
    session = start("-F", "jgf", graph=graph)
    found = json.loads(session.match(ask("slot", 1, ask("memory", 1))).splitlines()[0])
    metadata = found["graph"]["nodes"][0]["metadata"]
    assert metadata == {
        "type": "memory",
        "id": 0,
        "rank": -1,
        "unit": "GB",
        "exclusive": True,
        "size": 4,
        "paths": {"containment": "/m0/memory0", "net": "/switch0/memory0"},
    }
    assert list(metadata) == ["type", "id", "rank", "unit", "exclusive", "size", "paths"]


def test_the_graph_has_the_labels_of_the_request(start: Start) -> None:
    session = start("-P", "low", "-F", "jgf", graph=TINY)
    labelled = ask("node", 1, ask("slot", 1, ask("core", 1, label="c")), label="n")

    def labels(*resources: dict[str, Any]) -> list[dict[str, str] | None]:
        text = session.match(*resources).partition("INFO")[0]
        return [item["metadata"].get("ephemeral") for item in json.loads(text)["graph"]["nodes"]]

    assert labels(labelled) == [{"label": "c"}, {"label": "n"}, None]
    # Labels of earlier requests are dropped.
    assert labels(ask("slot", 1, ask("node", 1))) == [None, None]
    assert labels(ask("node", 1, ask("slot", 1, ask("core", 1)))) == [None, None, None]
    assert "ephemeral" not in session("find status=up")


@pytest.mark.parametrize("form", ["rv1", "rv1_nosched", "rv1_shorthand"])
def test_a_resource_set_without_cores_and_gpus_is_not_written(start: Start, form: str) -> None:
    session = start("-F", form, graph=grug((("cluster", "node", 2, 0), ("node", "ssd", 1, 0), ("node", "core", 1, 0))))
    ssd = ask("node", 1, ask("slot", 1, ask("ssd", 1)))
    assert session.match(ssd).startswith("INFO: =============================\nINFO: JOBID=1\nINFO: RESOURCES=ALLOCATED\n")
    both = json.loads(session.match(ask("slot", 1, ask("node", 1, ask("core", 1)))).partition("INFO")[0])
    assert [entry["children"] for entry in both["execution"]["R_lite"]] == [{"core": "0"}]


def test_rlite_refuses_what_it_cannot_express_and_takes_nothing(start: Start) -> None:
    session = start("-F", "rlite", graph=grug((("cluster", "node", 1, 0), ("node", "ssd", 1, 0), ("node", "core", 1, 0))))
    ssd = ask("node", 1, ask("slot", 1, ask("ssd", 1)))
    for op in ("allocate", "without_allocating"):
        assert "INFO: No matching resources found\nINFO: JOBID=1\n" in session.match(ssd, op=op)
        assert "without cores and gpus" in session.told()
    assert session("find sched-now=allocated") == ""
    assert "JOBID=1\nINFO: RESOURCES=ALLOCATED" in session.match(ask("slot", 1, ask("node", 1, ask("core", 1))))
