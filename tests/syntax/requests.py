"""Random requests: counts, resources, jobspecs and constraints as plain values, and similar garbage."""

from __future__ import annotations

import copy
from functools import cache
from typing import Any

from hypothesis import strategies as st

from fluxres import limits
from tests.choices import among, integers

SMALL = st.integers(1, 40)
NUMBERS = SMALL | st.integers(1, limits.COUNT_MAX)
TYPES = st.sampled_from(["node", "core", "gpu", "memory", "cluster", "my type", "Slot", "true", "-x", "a{b", "it's"])
MORE_KEYS = {"unit": st.sampled_from(["GB", "MiB", "a:b", "'"]), "exclusive": st.booleans(), "id": st.just("0-3")}
NAMES = st.text("abcxyz019-+_", min_size=1, max_size=6)


@st.composite
def steps(draw: st.DrawFn, numbers: st.SearchStrategy[int] = SMALL) -> tuple[int, int | None, str, int]:
    """Combinations of (min, max, operator, operand) that RFC 14 allows."""
    operator = draw(among(*"+*^"))
    least = draw(numbers) + (operator == "^")
    operand = draw(integers(1, 9)) + (operator != "+")
    most = draw(st.none() | st.integers(least, least + 60) | st.integers(least, max(least, limits.COUNT_MAX)))
    return min(least, limits.COUNT_MAX), None if most is None else min(most, limits.COUNT_MAX), operator, operand


@st.composite
def count_values(draw: st.DrawFn) -> Any:
    """A count in any of its plain forms."""
    form = draw(among("integer", "idset", "range", "mapping"))
    if form == "integer":
        return draw(NUMBERS)
    if form == "idset":
        return ",".join(map(str, sorted(draw(st.sets(SMALL, min_size=1, max_size=6)))))
    least, most, operator, operand = draw(steps())
    if form == "range":
        return f"{least}+:{operand}:{operator}" if most is None else f"{least}-{most}:{operand}:{operator}"
    made: dict[str, Any] = {"min": least} | ({} if most is None else {"max": most})
    return made | draw(st.sampled_from([{}, {"operator": operator, "operand": operand}]))


@st.composite
def vertices(draw: st.DrawFn, labels: list[int], depth: int = 2) -> dict[str, Any]:
    """A resource vertex; `labels` counts the slots, so that each gets a different label."""
    slot = depth > 0 and draw(st.booleans())
    made: dict[str, Any] = {"type": "slot" if slot else draw(TYPES), "count": draw(count_values())}
    if slot:
        labels.append(len(labels))
        made["label"] = draw(among("task", "a b", "+x", "4GB-node")) + f"{labels[-1] or ''}"
    for key, values in MORE_KEYS.items():
        if draw(integers(0, 3)) == 0:
            made[key] = draw(values)
    if slot or (depth > 0 and draw(st.booleans())):
        made["with"] = [draw(vertices(labels, depth - 1)) for _ in range(draw(integers(1, 3)))]
    return made


@st.composite
def resources(draw: st.DrawFn) -> list[dict[str, Any]]:
    """A resources section of canonical jobspec."""
    labels: list[int] = []
    return [draw(vertices(labels)) for _ in range(draw(integers(1, 3)))]


@st.composite
def jobspecs(draw: st.DrawFn) -> dict[str, Any]:
    """A canonical jobspec."""
    slot = {"type": "slot", "count": draw(count_values()), "label": "run", "with": draw(resources())}
    per = draw(st.sampled_from([{"per_slot": 2}, {"total": 7}, {"per_resource": {"type": "core", "count": 1}}]))
    task: dict[str, Any] = {"command": ["app", ""], "slot": "run", "count": per}
    if draw(st.booleans()):
        task |= {"attributes": {"environment": {"A": None, "B": "1"}}, "distribution": "cyclic", "site-key": [1, {"a": None}]}
    system = draw(system_values())
    return {"version": 999, "resources": [slot], "tasks": [task], "attributes": {"system": system, "user": draw(st.just({}))}}


@cache
def system_values() -> st.SearchStrategy[dict[str, Any]]:
    """What a jobspec may have in `attributes.system`."""
    return st.fixed_dictionaries(
        {},
        optional={
            "duration": st.floats(0, 1e9) | st.integers(0, 10**9),
            "queue": st.just("batch"),
            "cwd": st.just("/home"),
            "constraints": constraint_values(),
            "other": plain_values(),
        },
    )


def constraint_values() -> st.SearchStrategy[Any]:
    """A constraint of RFC 31."""
    texts = {
        "properties": st.sampled_from(["ssd", "^slow", "gpu", "n1"]),
        "hostlist": st.sampled_from(["n[0-2]", "n1,login", "n[001-003]-ib", ""]),
        "ranks": st.sampled_from(["0-2", "1,3", ""]),
        "states": st.sampled_from(["up", "down"]),
    }
    leaf = st.one_of(*(st.fixed_dictionaries({name: st.lists(of, max_size=3)}) for name, of in texts.items())) | st.just({})
    # Empty texts are refused, because they cannot be intended.
    leaf = leaf.map(lambda made: {name: [text for text in below if text] for name, below in made.items()})
    return st.recursive(
        leaf,
        lambda below: st.one_of(
            st.fixed_dictionaries({"and": st.lists(below, max_size=3)}),
            st.fixed_dictionaries({"or": st.lists(below, max_size=3)}),
            st.fixed_dictionaries({"not": st.lists(below, max_size=2)}),
            st.fixed_dictionaries({"or": st.lists(below, max_size=2), "properties": st.just(["ssd"])}),
        ),
        max_leaves=8,
    )


WORDS = st.sampled_from(
    [
        "version",
        "resources",
        "tasks",
        "attributes",
        "type",
        "count",
        "with",
        "slot",
        "label",
        "min",
        "max",
        "operator",
        "operand",
        "and",
        "or",
        "not",
        "properties",
        "hostlist",
        "ranks",
        "system",
        "duration",
        "constraints",
        "exclusive",
        "id",
        "unit",
        "core",
        "command",
        "per_slot",
        "total",
        "2-4",
        "+",
        "",
        "^x",
        "node",
    ]
)


def plain_values() -> st.SearchStrategy[Any]:
    """What JSON or YAML may hold where something else was expected."""
    scalar = st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats() | st.text(max_size=5) | WORDS
    return st.recursive(
        scalar,
        lambda below: st.lists(below, max_size=4) | st.dictionaries(WORDS | st.text(max_size=3), below, max_size=4),
        max_leaves=12,
    ).filter(_finite)


@cache
def wild_values() -> st.SearchStrategy[Any]:
    """These, and values that JSON does not have."""
    scalar = st.none() | st.booleans() | st.integers() | st.floats() | WORDS | st.binary(max_size=3) | st.just(10**1000)
    keys = WORDS | st.integers() | st.none()
    return st.recursive(
        scalar, lambda below: st.lists(below, max_size=4) | st.dictionaries(keys, below, max_size=5), max_leaves=20
    )


def _finite(value: Any) -> bool:
    if isinstance(value, float):
        return abs(value) < float("inf")
    if isinstance(value, list):
        return all(map(_finite, value))
    return all(map(_finite, value.values())) if isinstance(value, dict) else True


def damaged(draw: st.DrawFn, value: Any) -> Any:
    """A copy of the value with one part of it replaced, renamed or removed."""
    value = copy.deepcopy(value)
    place = value
    while isinstance(place, list | dict) and place:
        key = draw(st.sampled_from(list(place) if isinstance(place, dict) else list(range(len(place)))))
        if isinstance(place[key], list | dict) and place[key] and draw(integers(0, 4)):
            place = place[key]
            continue
        if draw(st.booleans()):
            place[key] = draw(wild_values())
        elif isinstance(place, dict) and draw(st.booleans()):
            place[draw(WORDS)] = place.pop(key)
        else:
            del place[key]
        break
    return value
