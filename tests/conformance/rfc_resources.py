"""Vectors of resource sets: read as machines and as values, their set operations, allocations of pools, graphs in them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from fluxres.errors import InfeasibleRequest, InsufficientResources
from fluxres.formats import registry
from fluxres.formats.flux.ranks import HOST
from fluxres.formats.peers.flux_pool import FluxPool
from fluxres.graph.compare import equal
from fluxres.graph.structure import Structure
from fluxres.syntax import constraint, count, hostlist, idset, shape
from fluxres.syntax.flat_request import FlatRequest, flatten
from fluxres.syntax.jobspec import Request, parse_shape
from fluxres.syntax.resource_set import ResourceSet
from tests.conformance.rfc_requests import described, flat_of
from tests.conformance.runner import Case, Deviation, NotCovered, Suite, form_of
from tests.conformance.vectors import agrees, given, has, not_covered, suite

ORIGIN = 8 << 76 | 2 << 62
DURATION_S = 60.0
"""Of requests that are given as shapes."""


def read(values: Any) -> Structure:
    return registry.read(json.dumps(values).encode(), origin=ORIGIN).structure


def nodes(made: Structure) -> list[int]:
    """Execution targets in the order of their ranks."""
    return [int(v) for v in made.execution_targets[1]]


def ids(made: Structure, v: int, type_: str) -> str:
    pools = made.of_type(type_)
    return idset.format([made.id.item(u) for u in pools if v < u < made.end[v]])


# -- R as a machine ------------------------------------------------------------------------------------------------------


def expanded(case: Case) -> Any:
    made, value = read(case["input"]), ResourceSet.parse(case["input"])
    as_machine = {
        str(made.rank[v]): {"host": made.name(v), "core": ids(made, v, "core"), "gpu": ids(made, v, "gpu")} for v in nodes(made)
    }
    as_value = {
        str(rank): {"host": value[rank].host, **{type_: str(value[rank].children.get(type_, "")) for type_ in ("core", "gpu")}}
        for rank in value
    }
    return as_machine if as_machine == as_value else {"machine": as_machine, "value": as_value}


def parsed(case: Case) -> Any:
    made, value = read(case["input"]), ResourceSet.parse(case["input"])
    tags = made.tags[0]
    start, end = (float(tags[key] or 0) for key in ("R.starttime", "R.expiration"))
    counts = {f"n{type_}s": len(made.of_type(type_)) for type_ in ("node", "core", "gpu")}
    found = {"nslots": int(tags["R.nslots"] or 0), "starttime": start, "expiration": end, "duration": end - start, **counts}
    same = {"nslots": value.nslots, "starttime": value.starttime, "expiration": value.expiration, "nnodes": value.nnodes}
    return found if all(found[key] == fact for key, fact in same.items()) else {"machine": found, "value": same}


def decoded(case: Case) -> Any:
    """The output of `flux R decode` with these options, from the value and from the machine."""
    value, machine, answer = ResourceSet.parse(case["input"]["R"]), read(case["input"]["R"]), ""
    words = list(case["input"]["args"])
    while words:
        word = words.pop(0)
        if word in ("-c", "--count"):
            answer = words.pop(0)
        elif word in ("--ranks", "--nodelist", "--short"):
            answer = word
        elif word in ("--include", "--exclude"):
            ranks = words.pop(0)
            value = value.copy_ranks(ranks) if word == "--include" else value.remove_ranks(ranks)
        elif word == "--properties":
            value = value.copy_constraint({"properties": words.pop(0).split(",")})
        else:
            raise NotCovered(f"RFC 20 flux R decode {word}")
    chosen = [v for v in nodes(machine) if machine.rank.item(v) in value.ranks]
    match answer:
        case "--ranks":
            found, same = str(value.ranks), idset.format([machine.rank.item(v) for v in chosen])
        case "--nodelist":
            hosts = [machine.tags.get(v, {}).get(HOST) or machine.name(v) for v in chosen]
            found, same = str(value.nodelist), hostlist.format(hosts)
        case "--short":
            found = same = str(value)
        case _:
            pools = machine.of_type(answer).tolist()
            found = str(value.nnodes if answer == "node" else value.count(answer))
            same = str(len([u for u in pools if any(v <= u < machine.end[v] for v in chosen)]))
    return found if found == same else {"value": found, "machine": same}


def refused_or_valid(case: Case) -> Any:
    """A valid R is equivalent as a value, as a machine, and as the R that is written from the machine."""
    asked = case["input"]
    if "R_text" in asked:
        return registry.read(asked["R_text"].encode(), format="R")
    made, value = read(asked["R"]), ResourceSet.parse(asked["R"])
    again = ResourceSet.parse(registry.write(made, format="R").data)
    return "valid" if (again.properties, str(again)) == (value.properties, str(value)) else again.to_dict()


def opaque(case: Case) -> Any:
    kept = json.loads(read(case["input"]["R"]).tags[0]["R.scheduling"] or "")
    return kept if kept == ResourceSet.parse(case["input"]["R"]).scheduling else "kept differently"


def short_form(case: Case) -> Any:
    return str(ResourceSet.parse(given(case, "R")["R"]))


def of_resource_set(case: Case) -> Any:
    asked = case["input"]
    match case["kind"]:
        case "expand":
            return expanded(case)
        case "parse":
            return parsed(case)
        case "format":
            return short_form(case)
        case "validate" | "reject" if "op" not in asked:
            return refused_or_valid(case)
        case "op" if asked["op"] == "decode":
            return decoded(case)
        case "op" if asked["op"] == "decode-scheduling":
            return opaque(case)
        case "op" | "reject":
            return _operation(case)
    raise not_covered(case)


def _operation(case: Case) -> Any:
    asked = dict(case["input"])
    value = ResourceSet.parse(asked["a"])
    match asked:
        case {"op": "append" | "add" | "union" | "diff" | "intersect" as op, "b": other}:
            other = ResourceSet.parse(other)
            made = value.union(other) if op == "add" else getattr(value, op)(other)
        case {"op": "remap"}:
            made = value.remap()
        case {"op": "rerank", "hosts": hosts}:
            made = value.rerank(hosts)
        case {"op": "copy_ranks" | "remove_ranks" as op, "ranks": ranks}:
            made = getattr(value, op)(ranks)
        case {"op": "hosts_to_ranks", "hosts": hosts}:
            return str(value.host_ranks(hosts))
        case _:
            raise not_covered(case)
    if isinstance(case["expected"], dict):
        return {"cores": made.count("core"), "gpus": made.count("gpu"), "nnodes": made.nnodes, "nodelist": str(made.nodelist)}
    return str(made)


# -- what pools give (RFC 20, RFC 49) ------------------------------------------------------------------------------------


def allocated(case: Case) -> list[Any]:
    """The steps of a case on one pool of Flux."""
    asked = given(case, "R", "pool", "steps")
    values = dict(asked["R"])
    if asked["pool"].startswith("Rv1Pool"):
        values.pop("scheduling", None)
    elif not asked["pool"].startswith("TreePool"):
        raise not_covered(case)
    pool = FluxPool(ResourceSet.parse(values))
    return [_step(pool, step, case) for step in asked["steps"]]


def _step(pool: FluxPool, step: dict[str, Any], case: Case) -> Any:
    match step:
        case {"op": "mark_down" | "mark_up" | "remove_ranks" as op, "ids": ranks, **rest} if not rest:
            return getattr(pool, op)(ranks)
        case {"op": "free", "jobid": job, **rest} if not rest:
            return pool.free(job)
        case {"op": "alloc", "jobid": job, **what}:
            return granted(pool, job, _asked(pool, what, case))
        case {"op": "feasible", **what}:
            try:
                pool.check_feasibility(_asked(pool, what, case))
            except InfeasibleRequest as error:
                return type(error).__name__
            return "feasible"
    raise NotCovered(f"{form_of(case)}: step {step.get('op')}")


def granted(pool: FluxPool, job: int, request: FlatRequest) -> Any:
    """The allocation of a job as R, or the name of the refusal."""
    try:
        made = pool.alloc(job, request).to_dict()["execution"]
    except (InfeasibleRequest, InsufficientResources) as error:
        return type(error).__name__
    return {key: made[key] for key in ("R_lite", "nslots", "nodelist", "properties") if key in made}


def _asked(pool: FluxPool, what: dict[str, Any], case: Case) -> FlatRequest:
    containers = pool.resources.scheduling is not None
    match what:
        case {"jobspec": dict(values), **rest} if not rest:
            return flat_of(values, containers=containers)
        case {"request": dict(numbers), **rest} if not rest and numbers.keys() <= _NUMBERS:
            return _of_numbers(numbers)
    raise not_covered(case)


_NUMBERS = {"nnodes", "nnodes_max", "nslots", "nslots_max", "slot_size", "gpu_per_slot", "exclusive", "constraint"}


def _of_numbers(numbers: dict[str, Any]) -> FlatRequest:
    """A request from its parts: slots are in all, and a maximum that is null is none."""
    number = numbers.get("nnodes", 0)
    nslots = numbers.get("nslots", 1)
    wanted = numbers.get("constraint")
    return FlatRequest(
        1 if number else 0,
        _bounded(number, numbers.get("nnodes_max", number)) if number else None,
        _bounded(nslots // number, nslots // number) if number else _bounded(nslots, numbers.get("nslots_max", nslots)),
        count.exactly(numbers.get("slot_size", 1)),
        count.exactly(numbers["gpu_per_slot"]) if numbers.get("gpu_per_slot") else None,
        exclusive=numbers.get("exclusive", False),
        constraint=None if wanted is None else constraint.parse(wanted),
    )


def _bounded(least: int, most: int | None) -> count.Count:
    return count.parse({"min": least} if most is None else {"min": least, "max": most})


def cumulative(cases: Sequence[Case]) -> Suite:
    """Allocations that follow each other on the cluster of their group."""
    groups: dict[str, dict[int, Case]] = {}
    for case in cases:
        if isinstance(case, dict) and isinstance(case.get("group"), str) and isinstance(case.get("order"), int):
            groups.setdefault(case["group"], {})[case["order"]] = case

    def outcome(case: Case) -> Any:
        asked = given(case, "cluster", "shape", "jobspec_resources")
        group = groups[case["group"]]
        if any(order not in group for order in range(case["order"])):
            raise NotCovered(f"{form_of(case)}: an earlier step of its group is not there")
        if shape.parse(asked["shape"], default_label="task") != asked["jobspec_resources"]:
            return "another jobspec"
        pool = FluxPool(ResourceSet.parse(group[0]["expected"]))
        for order in range(1, case["order"]):
            granted(pool, order, _of_shape(group[order]["input"]["shape"]))
        before = pool.resources
        found = granted(pool, case["order"], _of_shape(asked["shape"]))
        more = case.get("allocated", {})
        if isinstance(found, dict) and more:
            facts = {"nslots": found["nslots"], "nodelist": found["nodelist"]}
            return found if agrees({key: more[key] for key in facts if key in more}, facts) else facts
        assert pool.resources == before
        return found

    return suite("treepool-vectors", 49, outcome, lambda case: case["kind"] == "alloc" and has(case, "cluster"))


def _of_shape(text: str) -> FlatRequest:
    return flatten(Request(parse_shape(text), duration_s=DURATION_S), containers=True)


# -- TreePool (RFC 49) and graphs (RFC 40) in R --------------------------------------------------------------------------


def of_treepool(case: Case) -> Any:
    match case["kind"]:
        case "config":
            # The R of a cluster is unchanged.
            return json.loads(registry.write(read(case["expected"]), format="treepool").data)
        case "op" if case["input"]["op"] == "normalize_ranks":
            return _renumbered(case)
        case "reject":
            return refused_or_valid(case)
        case "parse" if has(case, "R"):
            # Node types of a pool are its different topologies.
            made = read(given(case, "R")["R"])
            pools = json.loads(registry.write(made, format="treepool").data)["scheduling"]["children"]
            return {"ranks": [entry["ranks"] for entry in pools], "node_types": len(pools)}
        case "parse" if has(case, "shape"):
            flat = _of_shape(given(case, "shape")["shape"])
            return {**described(flat), "container_level": flat.container}
    raise not_covered(case)


def _renumbered(case: Case) -> Any:
    """Ranks of topologies are positions among those that were allocated."""
    asked = case["input"]
    topologies = [{"ranks": ranks, "topo": {f"t{i}": [{"cores": "0"}]}} for i, ranks in enumerate(asked["children_ranks"])]
    number = len(idset.parse(asked["allocated_ranks"]))
    lite = [{"rank": f"0-{number - 1}", "children": {"core": "0"}}]
    made = read({
        "version": 1, "execution": {"R_lite": lite, "nodelist": [f"n[0-{number - 1}]"]},
        "scheduling": {"writer": "TreePool", "children": topologies},
    })  # fmt: skip
    return [idset.format(sorted({made.rank.item(v) for v in made.of_type(f"t{i}").tolist()})) for i in range(len(topologies))]


def of_graph(case: Case) -> Any:
    """Ours and theirs, read again: the graph in R is the same machine."""
    if case["kind"] != "format":
        raise not_covered(case)
    ours = registry.write(read(given(case, "R")["R"]), format="R", scheduling="jgf").data
    return case["expected"] if equal(read(json.loads(ours)), read(case["expected"]), uuids=False) == [] else json.loads(ours)


def _has_gpus_above_cores(topo: Any) -> bool:
    """Whether a domain has its own GPUs and other domains in it."""
    if not isinstance(topo, dict):
        return False
    below = [each for value in topo.values() if isinstance(value, list) for each in value if isinstance(each, dict)]
    return ("gpus" in topo and bool(below)) or any(map(_has_gpus_above_cores, below))


def _ranks_of_their_own(case: Case) -> bool:
    """Whether the ranks of R do not begin at 0."""
    first = [idset.ranges(str(entry["rank"]))[0][0] for entry in case["input"]["R"]["execution"]["R_lite"]]
    return case["kind"] == "reject" and min(first) > 0


def suites(cases: Sequence[Case]) -> list[Suite]:
    """The suites of resource sets; some cases follow others, so all are given."""
    own_ranks = Deviation("flux-formats.md", "a machine of ranks that do not begin at 0 is read", _ranks_of_their_own)
    own_gpus = Deviation(
        "flux-formats.md",
        "GPUs above the domains of cores belong to that level",
        lambda case: any(_has_gpus_above_cores(each["topo"]) for each in case["input"]["R"]["scheduling"]["children"]),
    )
    return [
        suite("allocation", 20, allocated, lambda case: case["kind"] == "alloc"),
        suite("resource-set", 20, of_resource_set),
        suite("treepool-allocation", 49, allocated, lambda case: case["kind"] == "alloc" and has(case, "steps"), [own_gpus]),
        cumulative(cases),
        suite("treepool", 49, of_treepool, deviations=[own_ranks]),
        suite("jgf", 40, of_graph),
    ]
