"""Any page gives runs or an error of fluxres with its position."""

from __future__ import annotations

import contextlib
import copy
from pathlib import Path
from typing import Any

import orjson
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fluxres.documents import yaml_document
from fluxres.errors import FluxresError
from fluxres.experiments import checks, study

PAGE: dict[str, Any] = {
    "fluxres-experiment": 1,
    "name": "x",
    "machine": {"fluxres": 1, "name": "m", "resources": [{"type": "node", "count": 2, "with": [{"type": "core", "count": 2}]}]},
    "unit": "core",
    "inventory": "auto",
    "workload": [
        {"ensemble": {"jobs": 3, "run_s": 1.0, "size": 1}, "request": "slot={size}/core"},
        {"lublin": {"jobs": 2}, "load": 2},
        {"bursts": {"jobs": 2}},
    ],
    "hierarchy": {
        "topology": "2",
        "queue_policy": ["easy", "fcfs"],
        "match_policy": "first",
        "boot_s": 0,
        "ahead": 1,
        "jobs": "batch",
    },
    "cost": {"fitted": {"start_s": 1.0}},
    "repeats": 1,
    "seed": 3,
    "vary": {"hierarchy.topology": [1, "2x2"], "cost.fitted.start_s": [0, 1.5]},
    "labels": {"hierarchy.topology": "levels"},
    "baseline": {"hierarchy.topology": 1},
    "metrics": ["mean_wait_s"],
    "expect": [{"metric": "jobs", "of": {"hierarchy.topology": 1}, "against": "baseline", "ratio": [0, 1]}],
}
WORDS = st.sampled_from(
    ["", "1", "2x2", "0x1", "core", "node=2", "easy", "x" * 300, "slot={size/0}/core", "a/b.yaml", "é\n", "{size}"]
)
NUMBERS = st.one_of(st.integers(-2, 5), st.sampled_from([2**31, 2**63, 1e300, -0.5, 0.25]))
SCALARS = st.one_of(st.none(), st.booleans(), NUMBERS, WORDS)
VALUES = st.recursive(
    SCALARS, lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(WORDS, inner, max_size=2)), max_leaves=4
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, each in inner for place in places(each, (*path, key)))]


PLACES = [place for place in places(PAGE) if place]


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(st.sampled_from(PLACES), st.one_of(VALUES, st.just("(gone)"))), min_size=1, max_size=2))
def test_pages_with_anything_anywhere(changes: list[tuple[tuple[Any, ...], Any]]) -> None:
    page = copy.deepcopy(PAGE)
    for path, value in changes:
        with contextlib.suppress(KeyError, IndexError, TypeError):  # an earlier change removed this position
            *above, last = path
            inner: Any = page
            for step in above:
                inner = inner[step]
            if isinstance(inner, dict) != isinstance(last, str):
                continue
            if value == "(gone)":
                del inner[last]
            else:
                inner[last] = value
    try:
        found = study.of_document(yaml_document.load(orjson.dumps(page), file="page"), Path())
        checks.check(found)
    except FluxresError:
        return
    assert len({run.key for run in found.runs}) == len(found.runs)
