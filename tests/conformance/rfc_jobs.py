"""Vectors of the life of jobs: states and transitions, urgency, dependencies, and names of jobs in a key-value store."""

from __future__ import annotations

from typing import Any

from fluxres.instance import dependencies, job, states
from fluxres.instance.states import State
from fluxres.syntax import fluid, jobspec
from tests.conformance.rfc_requests import document_of
from tests.conformance.runner import Case
from tests.conformance.vectors import given, has, not_covered, suite, text

_SETS = {"PENDING": states.PENDING, "RUNNING": states.RUNNING, "ACTIVE": states.ACTIVE}
_EVENTS = {event for _, event in states.LEADS_TO}


def of_state(case: Case) -> Any:
    match case["kind"]:
        case "format" if given(case, "state")["state"] in State.__members__:
            state = State[case["input"]["state"]]
            return {"S": state.value, "L": state.name, "s": state.value.lower(), "l": state.name.lower()}
        case "expand" if text(case) in _SETS:
            return [state.name for state in State if state in _SETS[text(case)]]
        case "transition":
            asked = given(case, "state", "event")
            event = asked["event"].replace("exception(severity=0)", "exception")
            if event in _EVENTS:
                return states.after(State[asked["state"]], event).name
    raise not_covered(case)


def of_urgency(case: Case) -> Any:
    """An instance here has one owner, and no guests."""
    if not has(case, "instance_owner") or not case["input"]["instance_owner"]:
        raise not_covered(case)
    job.require_urgency(case["input"]["urgency"])
    return "valid"


def of_dependency(case: Case) -> Any:
    expected = case["expected"]
    if case["kind"] == "validate" and isinstance(case["input"], list):
        given_as = {"system": {"dependencies": case["input"]}}
        return (
            "valid"
            if jobspec.parse(document_of({"count": 1}) | {"attributes": given_as}).system == given_as["system"]
            else "lost"
        )
    if case["kind"] != "parse" or expected.get("scheme") not in dependencies.SCHEMES or expected.keys() != {"scheme", "value"}:
        raise not_covered(case)
    if not expected["value"]:
        raise not_covered(case)
    found = dependencies.parse(text(case))
    same = found == dependencies.parse(expected)
    return expected if same and fluid.decode(expected["value"]) == found.value else str(found)


def of_key(case: Case) -> Any:
    asked = given(case, "id", "key", "guest", "in_guest_namespace")
    if case["kind"] != "format" or asked["key"] is not None:
        raise not_covered(case)
    return fluid.encode(int(asked["id"]), "kvs")


SUITES = [
    suite("job-states", 21, of_state, lambda case: case["kind"] in ("format", "expand", "transition")),
    suite("urgency", 30, of_urgency, lambda case: case["kind"] in ("validate", "reject")),
    suite("dependencies", 26, of_dependency),
    suite("job-keys", 16, of_key),
]
