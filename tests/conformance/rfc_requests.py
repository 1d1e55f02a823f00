"""Vectors of requests: counts, jobspecs, their form for simple schedulers, short options, and constraints."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from fluxres.syntax import constraint, count, jobspec, options
from fluxres.syntax.flat_request import FlatRequest, flatten
from fluxres.syntax.jobspec import Request
from fluxres.syntax.resource_set import ResourceSet
from tests.conformance.rfc_text import EXPANDED_MAX
from tests.conformance.runner import Case, Deviation
from tests.conformance.vectors import given, has, not_covered, suite


def of_count(case: Case) -> Any:
    asked = case["input"]
    if "op" in asked:
        if asked["op"] != "valid_counts":
            raise not_covered(case)
        value = asked["values"] or {key: asked[key] for key in ("min", "max") if asked[key] is not None}
        return list(count.parse(value).descending(asked["available"]))
    # These are flux-core's ResourceCount, which has no open counts with steps.
    found = count.parse(given(case, "count")["count"], open_steps=False)
    if case["kind"] == "parse":
        # Theirs keeps the members of a list even if they are a run.
        plain = found.contiguous and not (isinstance(asked["count"], str) and "," in asked["count"])
        return {"min": found.min, "max": found.max, "values": None if plain else list(found.values(EXPANDED_MAX))}
    return list(found.values(EXPANDED_MAX))


# -- jobspecs (RFC 14, RFC 25) -------------------------------------------------------------------------------------------


def document_of(asked: Any) -> Any:
    """A jobspec; a bare count is that of a slot in one."""
    if not (isinstance(asked, dict) and asked.keys() == {"count"}):
        return asked
    slot = {"type": "slot", "label": "task", "with": [{"type": "node", "count": 1}], **asked}
    task = {"command": ["app"], "slot": "task", "count": {"per_slot": 1}}
    return {"version": 999, "resources": [slot], "tasks": [task], "attributes": {"system": {"duration": 1.0}}}


def of_jobspec(case: Case) -> Any:
    document = document_of(case["input"])
    dialect: Any = "v1" if case["rfc"] == 25 else "rfc14"
    request = jobspec.parse(document, dialect=dialect)
    written = jobspec.to_plain(request)
    if jobspec.parse(written, dialect=dialect) != request:
        return f"read differently when written: {written}"
    return "valid" if _meant(written) == _meant(document) else written


def _meant(document: Any) -> Any:
    """A jobspec with each count in one form, to compare what was read with what was written."""

    def vertex(values: dict[str, Any]) -> dict[str, Any]:
        made = {key: value for key, value in values.items() if key != "with"}
        made["count"] = values["count"] and str(count.parse(values["count"]))
        if "with" in values:
            made["with"] = [vertex(below) for below in values["with"]]
        return made

    return {**document, "resources": [vertex(each) for each in document["resources"]]}


def of_yaml(case: Case) -> Any:
    Request.parse(given(case, "yaml")["yaml"])
    return "valid"


def flat_of(values: dict[str, Any], *, containers: bool = False) -> FlatRequest:
    """The form of a jobspec for simple schedulers; the jobspec may leave out labels and tasks."""

    def labelled(vertices: list[Any], number: int = 0) -> list[Any]:
        made = []
        for vertex in vertices:
            number += 1
            named = {"label": f"slot{number}"} if vertex.get("type") == "slot" and "label" not in vertex else {}
            below = {"with": labelled(vertex["with"], number * 100)} if "with" in vertex else {}
            made.append({"count": 1, **named, **vertex, **below})
        return made

    task = {"command": ["app"], "slot": "task", "count": {"per_slot": 1}}
    resources = labelled(values["resources"])
    request = jobspec.parse(
        {"version": 1, "attributes": {}, **values, "resources": resources, "tasks": values.get("tasks") or [task]}
    )
    return flatten(request, containers=containers)


def of_counts(case: Case) -> Any:
    """As `flux-core` prints what its reader found."""
    flat = flat_of(case["input"]["jobspec_to_counts"])
    return {
        "nodefactor": flat.node_factor,
        "nnodes": str(flat.node_count or 0),
        "nslots": str(flat.slot_count),
        "slot_size": str(flat.core_count),
        "slot_gpus": str(flat.gpu_count or 0),
        "exclusive": flat.exclusive,
        "duration": flat.duration_s,
    }


def of_request(case: Case) -> Any:
    return described(flat_of(given(case, "jobspec_to_request")["jobspec_to_request"]))


def described(flat: FlatRequest) -> dict[str, Any]:
    """A flat request with flux-core's names of its parts."""
    return {
        "nnodes": flat.nnodes,
        "nnodes_max": flat.nnodes_max,
        "nslots": flat.nslots,
        "nslots_max": flat.nslots_max,
        "slot_size": flat.slot_size,
        "gpu_per_slot": flat.gpu_per_slot,
        "exclusive": flat.exclusive,
        "duration": flat.duration_s,
        "constraint": None if flat.constraint is None else constraint.to_plain(flat.constraint),
    }


def of_options(case: Case) -> Any:
    """The command-line options of a case against the resources in its jobspec, and the counts of these."""
    asked = given(case, "cli", "jobspec_to_counts")
    pairs = [(word[1], word[2:]) for word in asked["cli"] if word[:2] in ("-N", "-n", "-c", "-g")]
    made = jobspec.resources_to_plain(options.parse_options(**{letter: int(value) for letter, value in pairs}))
    return of_counts(case) if made == asked["jobspec_to_counts"]["resources"] else made


# -- constraints (RFC 31) ------------------------------------------------------------------------------------------------


def of_constraint(case: Case) -> Any:
    asked = case["input"]
    if case["kind"] == "query":
        asked = given(case, "R", "constraint")
        return str(ResourceSet.parse(asked["R"]).copy_constraint(asked["constraint"]))
    found = constraint.parse(asked["constraint"])
    if case["kind"] in ("validate", "reject"):
        return "valid" if constraint.parse(constraint.to_plain(found)) == found else constraint.to_plain(found)
    if case["kind"] != "evaluate":
        raise not_covered(case)
    nodes = asked.get("nodes") or {"": asked["node"]}
    held = [name for name, node in nodes.items() if constraint.matches(found, _target(node))]
    return held if "nodes" in asked else bool(held)


def _target(node: dict[str, Any]) -> Any:
    return SimpleNamespace(properties=node["properties"], hostname=node["host"], rank=node["rank"], state="up")


SUITES = [
    suite("count", 14, of_count, lambda case: "verdicts" not in case and (has(case, "count") or has(case, "op"))),
    suite("jobspec", 14, of_jobspec, lambda case: "verdicts" in case),
    suite("jobspec-yaml", 14, of_yaml, lambda case: has(case, "yaml")),
    suite("jobspec-counts", 14, of_counts, lambda case: has(case, "jobspec_to_counts")),
    suite("flat-request", 14, of_request, lambda case: has(case, "jobspec_to_request")),
    suite("jobspec-v1", 25, of_jobspec, lambda case: "verdicts" in case),
    suite("options", 25, of_options, lambda case: has(case, "jobspec_to_counts", "cli")),
    suite("jobspec-v1-counts", 25, of_counts, lambda case: has(case, "jobspec_to_counts")),
    suite(
        "constraint",
        31,
        of_constraint,
        deviations=[
            Deviation(
                "flux-formats.md",
                "flux-core's Python matcher is not that of the RFC",
                lambda case: case["kind"] == "query" and case["provenance"] == "observed",
            )
        ],
    ),
]
