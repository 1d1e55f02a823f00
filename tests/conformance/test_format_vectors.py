"""Resource sets, topologies and graphs of other systems, read as machines and asked what they are.

As with the other vectors, a case without a counterpart here is not counted (sets of resource sets, the short form that
flux prints), and the number that agrees may only grow.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fluxres.errors import FluxresError
from fluxres.formats import registry
from fluxres.graph.compare import equal
from fluxres.graph.structure import Structure
from fluxres.query import loading
from fluxres.syntax import hostlist, idset

pytestmark = pytest.mark.conformance

Case = dict[str, Any]
ORIGIN = 8 << 76 | 2 << 62


def read(values: Any) -> Structure:
    return registry.read(json.dumps(values).encode(), origin=ORIGIN).structure


def nodes(made: Structure) -> list[int]:
    """Execution targets in the order of their ranks."""
    return [int(v) for v in made.execution_targets[1]]


def ids(made: Structure, v: int, type_: str) -> str:
    pools = made.of_type(type_)
    return idset.format([made.id.item(u) for u in pools if v < u < made.end[v]])


def expanded(case: Case) -> Any:
    made = read(case["input"])
    return {
        str(made.rank[v]): {"host": made.name(v), "core": ids(made, v, "core"), "gpu": ids(made, v, "gpu")} for v in nodes(made)
    }


def parsed(case: Case) -> Any:
    made = read(case["input"])
    tags = made.tags[0]
    start, end = (float(tags[key] or 0) for key in ("R.starttime", "R.expiration"))
    counts = {f"n{type_}s": len(made.of_type(type_)) for type_ in ("node", "core", "gpu")}
    return {"nslots": int(tags["R.nslots"] or 0), "starttime": start, "expiration": end, "duration": end - start, **counts}


def decoded(case: Case) -> Any:
    """What `flux R decode` with these options says."""
    made, words = read(case["input"]["R"]), list(case["input"]["args"])
    chosen, answer = nodes(made), ""
    while words:
        word = words.pop(0)
        if word in ("-c", "--count"):
            answer = words.pop(0)
        elif word in ("--ranks", "--nodelist", "--short"):
            answer = word
        elif word in ("--include", "--exclude"):
            ranks = set(idset.parse(words.pop(0)))
            chosen = [v for v in chosen if (made.rank.item(v) in ranks) == (word == "--include")]
        elif word == "--properties":
            for name in words.pop(0).split(","):
                wanted = name.removeprefix("^")
                chosen = [v for v in chosen if (wanted in dict(made.kind_of(v).properties)) == (wanted == name)]
    if answer == "--ranks":
        return idset.format([made.rank.item(v) for v in chosen])
    if answer == "--nodelist":
        return hostlist.format([made.name(v) for v in chosen])
    pools = [u for u in made.of_type(answer).tolist() if any(v <= u < made.end[v] for v in chosen)]
    return str(len(pools))


def refused_or_valid(case: Case) -> Any:
    given = case["input"]
    if "R_text" in given:
        return registry.read(given["R_text"].encode(), format="R")
    read(given["R"])
    return "valid"


def opaque(case: Case) -> Any:
    return json.loads(read(case["input"]["R"]).tags[0]["R.scheduling"] or "")


def with_graph(case: Case) -> Any:
    """Ours and theirs, read again: the graph beside R is the same machine."""
    ours = registry.write(read(case["input"]["R"]), format="R", scheduling="jgf").data
    return case["expected"] if equal(read(json.loads(ours)), read(case["expected"]), uuids=False) == [] else json.loads(ours)


def whole_cluster(case: Case) -> Any:
    """The R of a cluster comes out as it went in."""
    return json.loads(registry.write(read(case["expected"]), format="treepool").data)


def renumbered(case: Case) -> Any:
    """Ranks of topologies are positions among those that were allocated."""
    given = case["input"]["allocated_ranks"]
    children = case["input"]["children_ranks"]
    topologies = [{"ranks": ranks, "topo": {f"t{i}": [{"cores": "0"}]}} for i, ranks in enumerate(children)]
    count = len(idset.parse(given))
    lite = [{"rank": f"0-{count - 1}", "children": {"core": "0"}}]
    made = read({
        "version": 1, "execution": {"R_lite": lite, "nodelist": [f"n[0-{count - 1}]"]},
        "scheduling": {"writer": "TreePool", "children": topologies},
    })  # fmt: skip
    return [idset.format(sorted({made.rank.item(v) for v in made.of_type(f"t{i}").tolist()})) for i in range(len(children))]


def read_pool(case: Case) -> Any:
    """Node types of a pool are its different topologies."""
    made = read(case["input"]["R"])
    pools = json.loads(registry.write(made, format="treepool").data)["scheduling"]["children"]
    return {"ranks": [entry["ranks"] for entry in pools], "node_types": len(pools)}


def kind_of(case: Case) -> str:
    given = case["input"]
    return str(given["op"]) if isinstance(given, dict) and "op" in given else str(case["kind"])


SHORT = {"--short"}
OPERATIONS: dict[str, tuple[int, dict[str, Callable[[Case], Any]]]] = {
    "resource-set": (
        20,
        {
            "expand": expanded, "parse": parsed, "decode": decoded, "decode-scheduling": opaque, "reject": refused_or_valid,
            "validate": refused_or_valid,
        },
    ),
    "treepool": (49, {"config": whole_cluster, "normalize_ranks": renumbered, "reject": refused_or_valid, "parse": read_pool}),
    "jgf": (40, {"format": with_graph}),
}  # fmt: skip


def covered(case: Case, rfc: int, operations: dict[str, Any]) -> bool:
    if case["rfc"] != rfc or kind_of(case) not in operations or (case["kind"] == "parse" and "shape" in case["input"]):
        return False
    return not SHORT & set(case["input"].get("args", ()))


def agrees(expected: Any, got: Any) -> bool:
    if isinstance(expected, dict) and "error" in expected:
        return isinstance(got, dict) and "error" in got
    return bool(expected == got)


@pytest.mark.parametrize("suite", OPERATIONS)
def test_format_vectors(suite: str, cases: Path, agreeing_min: dict[str, Any]) -> None:
    rfc, operations = OPERATIONS[suite]
    vectors: list[Case] = json.loads((cases / "rfc" / "vectors.json").read_text(encoding="utf-8"))
    tried: list[tuple[Case, Any]] = []
    for case in vectors:
        if covered(case, rfc, operations):
            try:
                tried.append((case, operations[kind_of(case)](case)))
            except FluxresError as error:
                tried.append((case, {"error": str(error)}))
    differing = [
        f"{case['id']}: {str(case['input'])[:300]}: expected {str(case['expected'])[:300]}, got {str(got)[:300]}"
        for case, got in tried
        if not agrees(case["expected"], got)
    ]
    agreeing = len(tried) - len(differing)
    print(f"{suite}: {agreeing} of {len(tried)} agree", *differing, sep="\n")
    assert agreeing >= agreeing_min["rfc"][suite], "\n".join(differing)


def test_graph_files(cases: Path, agreeing_min: dict[str, Any]) -> None:
    """Every graph file is loaded by its content and has the pools that `fluxres query` makes of it."""
    folder = cases / "fluxion" / "resource"
    files = [(path, "grug") for path in sorted(folder.rglob("*.graphml"))]
    files += [(path, "jgf") for path in sorted((folder / "jgfs").rglob("*.json"))]
    files += [(path, "rv1exec") for path in sorted((folder / "rv1exec").glob("*.json"))]
    agreeing, differing = 0, []
    for path, form in files:
        try:
            expected = Counter(vertex.type for vertex in loading.load(str(path), form).vertices)
        except FluxresError:
            continue  # a part of a graph, for commands that change another one
        made = registry.read(path).structure
        counts = np.bincount(made.type, minlength=len(made.types)).tolist()
        if {type_: count for type_, count in zip(made.types, counts, strict=True) if count} == expected:
            agreeing += 1
        else:
            differing.append(path.name)
    print(f"graph files: {agreeing} of {len(files)} agree", *differing, sep="\n")
    assert agreeing >= agreeing_min["fluxion"]["graph-files"], differing
