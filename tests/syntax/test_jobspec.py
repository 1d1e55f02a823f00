"""Jobspecs: valid ones by RFC 14 and RFC 25 are read, written and read again; invalid ones are refused with their position."""

from __future__ import annotations

import math
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fluxres import limits
from fluxres.documents import yaml_document
from fluxres.errors import FluxresError, InputError, LimitExceeded
from fluxres.syntax import constraint, count, jobspec
from fluxres.syntax.jobspec import Request
from fluxres.syntax.vertex import Vertex, settled
from tests.syntax.requests import damaged, jobspecs, resources, wild_values


def document(*below: Any, version: int = 1, **system: Any) -> dict[str, Any]:
    """A jobspec of one slot with these resources in it."""
    slot = {"type": "slot", "count": 2, "label": "task", "with": list(below) or [{"type": "core", "count": 1}]}
    return {
        "version": version,
        "resources": [slot],
        "tasks": [{"command": ["app"], "slot": "task", "count": {"per_slot": 1}}],
        "attributes": {"system": {"duration": 60.0} | system},
    }


def changed(path: str, value: Any) -> dict[str, Any]:
    """A valid jobspec (with a node) in which the value at a dotted path is replaced, or removed for `...`."""
    made: Any = {"top": document({"type": "node", "count": 1, "with": [{"type": "core", "count": 1}]}, version=999)}
    place, keys = made, [int(key) if key.isdigit() else key for key in f"top.{path}".split(".")]
    for key in keys[:-1]:
        place = place.setdefault(key, {}) if isinstance(place, dict) else place[key]
    if value is ...:
        del place[keys[-1]]
    else:
        place[keys[-1]] = value
    return made["top"]  # type: ignore[no-any-return]  # a document is whatever the test made of it


VERTEX = "resources.0.with.0"


@pytest.mark.parametrize(
    ("path", "value", "where", "message"),
    [
        ("version", ..., "request", "'version'"),
        ("version", 0, "version", "of at least 1"),
        ("version", True, "version", "true"),
        ("version", 4.2, "version", "4.2"),
        ("extra", 1, "extra", "unknown key 'extra'"),
        ("resources", [], "resources", "at least one"),
        ("resources", {}, "resources", "a mapping"),
        ("resources.0", [], "resources[0]", "an empty list"),
        ("resources.0.label", ..., "resources[0]", "label"),
        ("resources.0.with", ..., "resources[0]", "`with`"),
        ("resources.0.with", [], "resources[0].with", "at least one"),
        ("resources.0.with", 2, "resources[0].with", "2"),
        (f"{VERTEX}.type", ..., "resources[0].with[0]", "'type'"),
        (f"{VERTEX}.type", "", "resources[0].with[0].type", "empty"),
        (f"{VERTEX}.count", ..., "resources[0].with[0]", "'count'"),
        (f"{VERTEX}.with.0.count", 0, "resources[0].with[0].with[0].count", "got 0"),
        (f"{VERTEX}.with.0.count", "", "resources[0].with[0].with[0].count", "at least 1"),
        (f"{VERTEX}.with.0.count", {"min": 2, "max": 5, "operand": 2}, "resources[0].with[0].with[0].count", "together"),
        (f"{VERTEX}.with.0.count", math.nan, "resources[0].with[0].with[0].count", "nan"),
        (f"{VERTEX}.exclusive", "yes", "resources[0].with[0].exclusive", "true or false"),
        (f"{VERTEX}.unit", 3, "resources[0].with[0].unit", "text"),
        (f"{VERTEX}.id", 3, "resources[0].with[0].id", "text"),
        (f"{VERTEX}.size", 3, "resources[0].with[0].size", "unknown key 'size'"),
        ("tasks", [], "tasks", "at least one"),
        ("tasks.0.command", "app", "tasks[0].command", "list"),
        ("tasks.0.command", [], "tasks[0].command", "at least one"),
        ("tasks.0.command", [1], "tasks[0].command[0]", "text"),
        ("tasks.0.slot", ..., "tasks[0]", "'slot'"),
        ("tasks.0.count", {}, "tasks[0].count", "exactly one"),
        ("tasks.0.count", {"per_slot": 1, "total": 1}, "tasks[0].count", "exactly one"),
        ("tasks.0.count", {"total": 0}, "tasks[0].count.total", "of at least 1"),
        ("tasks.0.count", {"per_resource": {"type": "core"}}, "tasks[0].count.per_resource", "'count'"),
        ("tasks.0.count", {"each": 1}, "tasks[0].count.each", "unknown key 'each'"),
        ("attributes", None, "attributes", "null"),
        ("attributes.site", {}, "attributes.site", "unknown key 'site'"),
        ("attributes.user", [], "attributes.user", "mapping"),
        ("attributes.system.duration", "1h", "attributes.system.duration", "'1h'"),
        ("attributes.system.duration", -1, "attributes.system.duration", "-1"),
        ("attributes.system.duration", True, "attributes.system.duration", "true"),
        ("attributes.system.cwd", "tmp", "attributes.system.cwd", "absolute"),
        ("attributes.system.queue", 1, "attributes.system.queue", "text"),
        ("attributes.system.environment", {"A": 1}, "attributes.system.environment.A", "text"),
        ("attributes.system.dependencies", [{"scheme": "after"}], "attributes.system.dependencies[0]", "'value'"),
        ("attributes.system.constraints", ["a"], "attributes.system.constraints", "a list of 1"),
        (
            "attributes.system.constraints",
            {"and": [{"ranks": ["2-1"]}]},
            "attributes.system.constraints.and[0].ranks[0]",
            "from a lower id to a higher one",
        ),
        ("attributes.system.shell", {"options": 1}, "attributes.system.shell.options", "mapping"),
        ("attributes.system.other", {"a": [b"x"]}, "attributes.system.other.a[0]", "bytes"),
        ("attributes.system.other", {1: 2}, "attributes.system.other", "expected string keys"),
    ],
)
def test_invalid_documents_are_refused_with_their_position(path: str, value: Any, where: str, message: str) -> None:
    with pytest.raises(InputError) as refused:
        jobspec.parse(changed(path, value))
    assert refused.value.where == where
    assert message in str(refused.value)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_durations_must_be_numbers(value: float) -> None:
    for key in ("duration", "preemptible-after"):
        with pytest.raises(InputError):
            jobspec.parse(document(**{key: value}))


@pytest.mark.parametrize("value", [2**63, str(2**63), {"min": 2**63}, f"1-{2**64}:2:*", 10**1000])
def test_counts_beyond_the_bound(value: Any) -> None:
    with pytest.raises(LimitExceeded) as refused:
        jobspec.parse(document({"type": "core", "count": value}))
    assert refused.value.where == "resources[0].with[0].count"


def test_durations_beyond_the_bound() -> None:
    assert jobspec.parse(document(duration=limits.TIME_MAX_S)).duration_s == limits.TIME_MAX_S
    with pytest.raises(LimitExceeded):
        jobspec.parse(document(duration=10**300))


def nested(levels: int) -> dict[str, Any]:
    made: dict[str, Any] = {"type": "core", "count": 1}
    for _ in range(levels - 1):
        made = {"type": "group", "count": 1, "with": [made]}
    return made


def test_depth_is_bounded_independently_of_the_stack() -> None:
    assert jobspec.parse_resources([nested(limits.REQUEST_DEPTH_MAX)])
    for levels in (limits.REQUEST_DEPTH_MAX + 1, 10_000):
        with pytest.raises(LimitExceeded, match=str(limits.REQUEST_DEPTH_MAX)):
            jobspec.parse_resources([nested(levels)])
    deep: Any = []
    for _ in range(10_000):
        deep = [deep]
    with pytest.raises(LimitExceeded, match=str(limits.DOCUMENT_DEPTH_MAX)):
        jobspec.parse(document(other=deep))
    with pytest.raises(InputError):
        read(b"[" * 10_000 + b"]" * 10_000)


def test_depth_of_vertices_constructed_by_code_is_bounded() -> None:
    made = Vertex("core", count.exactly(1))
    for _ in range(limits.REQUEST_DEPTH_MAX):
        made = Vertex("group", count.exactly(1), children=(made,))
    assert settled(made.children) == made.children
    with pytest.raises(LimitExceeded, match=str(limits.REQUEST_DEPTH_MAX)):
        settled([made])


def test_the_number_of_resources_is_bounded() -> None:
    # With aliases, one object occurs in many places.
    level: list[Any] = [{"type": "core", "count": 1}]
    for _ in range(5):
        level = [{"type": "group", "count": 1, "with": level}] * 10
    assert len(list(Request(jobspec.parse_resources(level[:1])).vertices())) == 1 + 10 + 100 + 1_000 + 10_000 + 10_000
    with pytest.raises(LimitExceeded, match=str(limits.REQUEST_VERTICES_MAX)):
        jobspec.parse_resources([{"type": "group", "count": 1, "with": level}])


def test_values_that_contain_themselves_end() -> None:
    endless: list[Any] = []
    endless.append({"type": "group", "count": 1, "with": endless})
    with pytest.raises(LimitExceeded):
        jobspec.parse_resources(endless)
    with pytest.raises(LimitExceeded):
        jobspec.parse(document(other=endless))


def test_labels_are_unique() -> None:
    slot = {"type": "slot", "count": 1, "label": "a", "with": [{"type": "core", "count": 1}]}
    with pytest.raises(InputError, match=r"resources\[1\].label: .*'a', which resources\[0\] has"):
        jobspec.parse_resources([slot, slot])
    # Labels of other vertices do not refer to slots.
    assert jobspec.parse_resources([slot, {"type": "node", "count": 1, "label": "a"}])


def test_exclusivity() -> None:
    found = jobspec.parse_resources(
        [
            {
                "type": "rack",
                "count": 1,
                "with": [
                    {"type": "node", "count": 1, "exclusive": True, "with": [{"type": "nic", "count": 1}]},
                    {
                        "type": "slot",
                        "count": 1,
                        "label": "a",
                        "with": [
                            {"type": "board", "count": 1, "exclusive": False, "with": [{"type": "core", "count": 1}]},
                            {"type": "gpu", "count": 1},
                        ],
                    },
                ],
            }
        ]
    )
    # Outside a slot nothing is exclusive unless stated; inside a slot everything is, even below a shared vertex.
    assert {vertex.type: vertex.is_exclusive for vertex in Request(found).vertices()} == {
        "rack": False,
        "node": True,
        "nic": False,
        "slot": True,
        "board": False,
        "core": True,
        "gpu": True,
    }


def unsettled(vertex: Vertex) -> Vertex:
    return Vertex(
        vertex.type,
        vertex.count,
        vertex.unit,
        vertex.exclusive,
        vertex.label,
        vertex.ids,
        tuple(map(unsettled, vertex.children)),
    )


@given(resources())
def test_exclusivity_of_vertices_constructed_by_code(values: Any) -> None:
    found = jobspec.parse_resources(values)
    assert settled(map(unsettled, found)) == found


def test_attributes_of_a_request() -> None:
    made = jobspec.parse(document(queue="batch", constraints={"properties": ["ssd"]}, duration=90))
    assert (made.duration_s, made.queue, made.version) == (90.0, "batch", 1)
    assert made.constraint == constraint.Properties(("ssd",))
    assert jobspec.parse(document(duration=0)).duration_s is None
    assert jobspec.parse(document() | {"attributes": {}}).duration_s is None
    (vertex,) = jobspec.parse_resources([{"type": "node", "count": 1, "id": "0-3,9"}])
    assert vertex.id_ranges == [(0, 3), (9, 9)]
    assert jobspec.parse_resources([{"type": "node", "count": 1, "id": "node[0-3]"}])[0].id_ranges is None


def test_a_request_shares_nothing_with_its_document() -> None:
    given_document = document(other={"a": [1]})
    made = jobspec.parse(given_document)
    given_document["attributes"]["system"]["other"]["a"].append(2)
    assert made.system["other"] == {"a": [1]}
    assert hash(made) == hash(jobspec.parse(document(other={"a": [1]})))


def test_a_request_constructed_by_code_can_be_written() -> None:
    core = Vertex("core", count.parse("2-4"))
    made = Request((core,), duration_s=60.0, constraint=constraint.Ranks(("0-1",)))
    written = jobspec.to_plain(made)
    assert written["attributes"] == {"system": {"duration": 60.0, "constraints": {"ranks": ["0-1"]}}}
    assert jobspec.to_plain(Request((core,), duration_s=math.inf))["attributes"] == {}
    assert written["resources"] == [{"type": "core", "count": {"min": 2, "max": 4, "operator": "+", "operand": 1}}]


def read(text: bytes) -> Request:
    return jobspec.parse(yaml_document.parse(text, file="job.json"))


def test_the_line_in_a_document_is_named() -> None:
    lines = orjson.dumps(document({"count": 1}), option=orjson.OPT_INDENT_2)
    with pytest.raises(InputError, match=r"job.json:9:9: resources\[0\]\.with\[0\]: the key 'type' is missing"):
        read(lines)


def test_json() -> None:
    assert read(orjson.dumps(document())) == jobspec.parse(document())
    with pytest.raises(InputError) as refused:
        read(b'{\n  "version": 1,,')
    assert refused.value.where.startswith("job.json:2:")


V1_CORE: Any = {"type": "core", "count": 1}


@pytest.mark.parametrize(
    ("below", "where"),
    [
        ([V1_CORE], ""),
        ([V1_CORE, {"type": "gpu", "count": 1}], ""),
        ([V1_CORE, {"type": "gpu", "count": 0}], ""),
        ([{"type": "gpu", "count": 1}], "resources[0].with"),
        ([V1_CORE, V1_CORE], "resources[0].with[1].type"),
        ([V1_CORE, {"type": "ssd", "count": 1}], "resources[0].with[1].type"),
        ([{"type": "core", "count": 0}], "resources[0].with[0].count"),
        ([{"type": "core", "count": "1-2"}], "resources[0].with[0].count"),
        ([V1_CORE | {"exclusive": True}], "resources[0].with[0]"),
        ([V1_CORE | {"with": [V1_CORE]}], "resources[0].with[0].with"),
        ([{"type": "node", "count": 1}], "resources[0].with[0].type"),
    ],
)
def test_version_1_slots(below: list[Any], where: str) -> None:
    given_document = document(*below)
    if not where:
        made = jobspec.parse(given_document, dialect="v1")
        assert jobspec.to_plain(made) == given_document
        return
    with pytest.raises(InputError) as refused:
        jobspec.parse(given_document, dialect="v1")
    assert refused.value.where == where


def test_version_1_documents() -> None:
    def taken(made: Any) -> bool:
        try:
            return bool(jobspec.parse(made, dialect="v1"))
        except InputError:
            return False

    base = document()
    nodes = base | {"resources": [{"type": "node", "count": 4, "exclusive": True, "with": base["resources"]}]}
    total = [base["tasks"][0] | {"count": {"total": 5}}]
    assert taken(nodes)
    assert taken(nodes | {"tasks": total})
    assert not taken(base | {"version": 2})
    assert not taken(base | {"attributes": {}})
    assert not taken(base | {"attributes": {"system": {}}})
    assert not taken(base | {"resources": base["resources"] * 2})
    assert not taken(base | {"resources": [{"type": "node", "count": 4}]})
    assert not taken(base | {"tasks": base["tasks"] * 2})
    assert not taken(base | {"tasks": [base["tasks"][0] | {"count": {"per_slot": 2}}]})
    assert not taken(base | {"tasks": [base["tasks"][0] | {"count": {"per_resource": {"type": "core", "count": 1}}}]})
    assert not taken(base | {"tasks": [base["tasks"][0] | {"distribution": "x"}]})


@pytest.mark.parametrize(
    ("below", "where"),
    [
        ({"type": "core", "count": {"min": 1, "max": 4, "operator": "+", "operand": 1}}, ""),
        ({"type": "core", "count": {"min": 1}}, ""),
        ({"type": "core", "count": {"min": 1, "max": 4}}, "resources[0].with[0].count"),
        ({"type": "core", "count": "2-4"}, "resources[0].with[0].count"),
        ({"type": "node", "count": 1, "exclusive": False}, "resources[0].with[0].exclusive"),
    ],
)
def test_requests_that_fluxion_accepts(below: dict[str, Any], where: str) -> None:
    assert jobspec.parse(document(below))
    if not where:
        assert jobspec.parse(document(below), dialect="fluxion")
        return
    with pytest.raises(InputError) as refused:
        jobspec.parse(document(below), dialect="fluxion")
    assert refused.value.where == where


def test_fluxion_shares_outside_slots() -> None:
    made = document()
    made["resources"] = [{"type": "node", "count": 1, "exclusive": False, "with": made["resources"]}]
    assert not jobspec.parse(made, dialect="fluxion").resources[0].is_exclusive


def test_fluxion_refuses_siblings_of_one_type_and_large_versions() -> None:
    with pytest.raises(InputError, match="siblings"):
        jobspec.parse(document(V1_CORE, V1_CORE), dialect="fluxion")
    with pytest.raises(InputError, match="9999"):
        jobspec.parse(document(version=10_000), dialect="fluxion")


def test_a_task_may_name_a_slot_that_no_resource_has() -> None:
    values = document()
    assert jobspec.parse(values).stray_slots == []
    values["tasks"] *= 2
    values["tasks"][1] = values["tasks"][0] | {"slot": "other"}
    for dialect in ("rfc14", "fluxion", "any"):
        assert jobspec.parse(values, dialect=dialect).stray_slots == ["other"]


def test_null_attributes_are_empty_to_fluxion_and_an_error_to_flux_core() -> None:
    values = document() | {"attributes": None}
    for dialect in ("fluxion", "any"):
        made = jobspec.parse(values, dialect=dialect)
        assert made.attributes == {}
        assert made == jobspec.parse(document() | {"attributes": {}})
    for dialect in ("rfc14", "v1"):
        with pytest.raises(InputError, match="attributes: expected a mapping, got null"):
            jobspec.parse(values, dialect=dialect)


def test_any_accepts_every_dialect() -> None:
    made = document({"type": "core", "count": "2-4"}, {"type": "node", "count": 1, "exclusive": False})
    assert jobspec.parse(made, dialect="any") == jobspec.parse(made)


@given(jobspecs())
def test_written_jobspecs_are_read_back(values: Any) -> None:
    made = jobspec.parse(values)
    written = jobspec.to_plain(made)
    assert jobspec.parse(written) == made
    assert read(orjson.dumps(written)) == made
    assert written["attributes"] == values["attributes"]


@given(jobspecs(), st.data(), st.sampled_from(["rfc14", "v1", "fluxion", "any"]))
def test_damaged_documents_are_read_or_refused(values: Any, data: st.DataObject, dialect: Any) -> None:
    values = damaged(data.draw, values)
    try:
        made = jobspec.parse(values, dialect=dialect)
    except FluxresError:
        return
    assert jobspec.parse(jobspec.to_plain(made), dialect=dialect) == made


@given(wild_values() | st.lists(wild_values()))
def test_garbage_is_refused(values: Any) -> None:
    for read in (jobspec.parse, jobspec.parse_resources):
        with pytest.raises(InputError):
            read(values)


@given(st.binary() | st.text().map(str.encode))
def test_any_text_is_refused(text: bytes) -> None:
    with pytest.raises(InputError):
        read(text)
