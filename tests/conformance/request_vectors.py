"""How the recorded facts about requests are put to our code: counts, jobspecs, shapes, constraints and job ids.

Each suite says which cases it covers, since several kinds of input stand under the number of one RFC.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from fluxres.syntax import constraint, constraint_query, count, fluid, jobspec, options, shape
from fluxres.syntax import range as ranges
from fluxres.syntax.constraint_query import REQUIRES, Options

Case = dict[str, Any]


@dataclass(frozen=True)
class Suite:
    """The cases of an RFC that `covers` takes, and what we make of the input of one."""

    rfc: int
    covers: Callable[[Case], bool]
    outcome: Callable[[Case], Any]


def has(*keys: str) -> Callable[[Case], bool]:
    return lambda case: isinstance(case["input"], dict) and any(key in case["input"] for key in keys)


def range_of(case: Case) -> Any:
    given = case["input"]
    if case["kind"] == "format":
        short, brackets = given.get("short", given.get("form") == "short"), given.get("brackets", False)
        if "range" in given:
            return ranges.format(ranges.parse(given["range"]), short=short, brackets=brackets)
        return count.format(count.parse(given["count"]), short=short, brackets=brackets)
    if case["kind"] == "expand":
        return list(ranges.parse(given).values(1 << 40))
    if case["kind"] == "parse":
        found = ranges.parse(given)
        return {"min": found.min, "max": found.max, "operand": found.operand, "operator": found.operator}
    return count.parse(given)


def count_of(case: Case) -> Any:
    given = case["input"]
    if "op" in given:
        value = given["values"] or {key: given[key] for key in ("min", "max") if given[key] is not None}
        return list(count.parse(value).descending(given["available"]))
    # These are flux-core's ResourceCount, which has no open counts with steps.
    found = count.parse(given["count"], open_steps=False)
    if case["kind"] == "parse":
        # Theirs keeps the members of a list even where they are a run.
        plain = found.contiguous and not (isinstance(given["count"], str) and "," in given["count"])
        return {"min": found.min, "max": found.max, "values": None if plain else list(found.values(1 << 40))}
    return list(found.values(1 << 40))


def document_of(given: Any) -> Any:
    """A jobspec; a bare count stands for one that has it."""
    if not (isinstance(given, dict) and given.keys() == {"count"}):
        return given
    slot = {"type": "slot", "label": "task", "with": [{"type": "node", "count": 1}], **given}
    task = {"command": ["app"], "slot": "task", "count": {"per_slot": 1}}
    return {"version": 999, "resources": [slot], "tasks": [task], "attributes": {"system": {"duration": 1.0}}}


def jobspec_of(case: Case) -> Any:
    document = document_of(case["input"])
    dialect: Any = "v1" if case["rfc"] == 25 else "rfc14"
    request = jobspec.parse(document, dialect=dialect)
    assert jobspec.parse(jobspec.to_plain(request), dialect=dialect) == request
    return "valid"


def short_of(case: Case) -> Any:
    """The command-line options of a case against the resources in its jobspec."""
    words = case["input"]["cli"]
    pairs = [(word[1], word[2:]) for word in words if word[:2] in ("-N", "-n", "-c", "-g")]
    made = options.parse_options(**{letter: int(value) for letter, value in pairs})
    return case["expected"] if made == case["input"]["jobspec_to_counts"]["resources"] else made


def shape_of(case: Case) -> Any:
    given = case["input"]
    if case["kind"] == "reject":
        return shape.parse(given["shape"])
    return shape.parse(given["shape"], default_label=given["default_label"], range_as_mapping=given["range_as_dict"])


def constraint_of(case: Case) -> Any:
    given = case["input"]
    found = constraint.parse(given["constraint"])
    if case["kind"] == "evaluate":
        nodes = given.get("nodes") or {"": given["node"]}
        held = [
            name
            for name, node in nodes.items()
            if constraint.matches(
                found,
                SimpleNamespace(properties=node["properties"], hostname=node["host"], rank=node["rank"], state="up"),
            )
        ]
        return held if "nodes" in given else bool(held)
    return "valid"


def query_of(case: Case) -> Any:
    given = case["input"]
    if given.get("parser") == "requires":
        return constraint_query.parse(given["query"], REQUIRES)
    chosen = Options(
        given.get("default_operator"),
        {None if name in ("None", "null") else name: value for name, value in given.get("operator_map", {}).items()},
        given.get("split_values", {}),
        given.get("combined_terms", ()),
    )
    return constraint_query.parse(given["query"], chosen)


def readable_id(case: Case) -> bool:
    """Not the form that needs a table of symbols."""
    given = case["input"]
    if isinstance(given, str):
        return case["kind"] == "reject" or given < "\U0001f000"
    return "emoji" not in {*given, given.get("form")}


def id_of(case: Case) -> Any:
    given = case["input"]
    if isinstance(given, str):
        return str(fluid.decode(given))
    if "timestamp_ms" in given:
        return str(fluid.join(fluid.Parts(given["timestamp_ms"], given["generator"], given["sequence"])))
    if "form" in given:
        return fluid.encode(int(given["id"]), given["form"])
    ((form, text),) = given.items()
    return str(fluid.decode(text, form))


SUITES: dict[str, Suite] = {
    "range": Suite(45, lambda case: True, range_of),
    "count": Suite(14, lambda case: "verdicts" not in case and has("count", "op")(case), count_of),
    "jobspec": Suite(14, lambda case: "verdicts" in case, jobspec_of),
    "jobspec-v1": Suite(25, lambda case: "verdicts" in case, jobspec_of),
    "options": Suite(25, lambda case: has("jobspec_to_counts")(case) and "cli" in case["input"], short_of),
    "shape": Suite(46, has("shape"), shape_of),
    "constraint": Suite(31, lambda case: case["kind"] != "query", constraint_of),
    "query": Suite(35, has("query"), query_of),
    "fluid": Suite(19, readable_id, id_of),
}


def normal(expected: Any) -> Any:
    """What is expected, without the one thing that no JSON says: a max of `Infinity` is no max."""
    return json.loads(json.dumps(expected).replace('"max": "Infinity", ', ""))
