"""Vector path and traverser on machines of more than one word of nodes, and more than one block of pools."""

from __future__ import annotations

import random

import pytest

from fluxres.errors import UsageError
from fluxres.graph.recipe import Recipe
from fluxres.match import Matcher
from tests.match import cases
from tests.match.machines import matcher, request

TEXTS = (
    "slot=1/core=1",
    "slot=7/[core=2;gpu=1]",
    "slot=70/core=3",
    "slot=1/node",
    "slot=90/node",
    "node=80{x}/slot=2/core=1",
    "node=5/slot=2/[core=1;memory=3]",
    "node=70/slot=1/core=2",
    "slot=3/memory=9",
    "core=200{x}",
    "memory=700",
    "node=66/core=2",
    "slot=1-400/core=2",
    "node=2+{x}",
)
POLICIES = ("first", "high", "hinodex", "variation", "pack", "spread", "locality")


def busy(seed: int, racks: int, nodes: int) -> Matcher:
    source = cases.random_source(seed)
    inside = (Recipe("core", 4), Recipe("gpu", 1), Recipe("memory", 1, size=8))
    sorts = [
        Recipe("node", nodes, children=inside),
        Recipe("node", 2, ids=nodes, properties={"perf_class": 1}, children=inside[:1]),
    ]
    made = matcher(Recipe("rack", racks, children=tuple(sorts)))
    planner, structure = made.planner, made.structure
    for _ in range(racks * nodes):
        kind = source.choice(["rack", "node", "node", "core", "core", "core", "gpu", "memory"])
        if kind == "rack" and source.random() < 0.9:
            continue
        v = int(source.choice(structure.of_type(kind)))
        start = source.randrange(20)
        end = start + source.randint(1, 6)
        whole = kind in ("rack", "node")
        # As the writer requires: nothing held below an exclusively taken pool, and no pool below such a one.
        if planner.covered_by(v, start, end) >= 0 or (whole and planner.busy_below(v, start, end)):
            continue
        try:
            planner.hold(v, source.randint(1, 8) if kind == "memory" else 1, start, end)
        except UsageError:
            continue
    for v in source.sample(structure.of_type("node").tolist() + structure.of_type("core").tolist(), 5):
        structure.set_state([v], "down")
    return made


def window(source: random.Random) -> tuple[int, int]:
    start = source.randrange(22)
    return start, start + source.randint(1, 5)


@pytest.mark.parametrize("half", [slice(0, 8), slice(8, None)])
@pytest.mark.parametrize(("seed", "racks", "nodes"), [(1, 9, 12), (2, 1, 140), (3, 26, 40)])
def test_both_paths_choose_the_same_pools(seed: int, racks: int, nodes: int, half: slice, deeper: float) -> None:
    made = busy(seed, racks, nodes)
    source = cases.random_source(seed)
    policies = 3 if deeper >= 1 else 2
    drawn = [(text, [(policy, *window(source)) for policy in source.sample(POLICIES, policies)]) for text in TEXTS]
    matched = 0
    for text, searches in drawn[half]:
        asked = request(text)
        for policy, start, end in searches:
            fast, slow = (made.match(asked, start, end, policy, reference=way) for way in (False, True))
            assert (fast is None) == (slow is None), (text, policy, start, end)
            assert fast is None or slow is None or fast.is_equal(slow), (text, policy, start, end)
            assert fast is None or not fast.fallback
            matched += fast is not None
        first, expected = (made.earliest(asked, 3, 0, reference=way) for way in (False, True))
        assert (first is None) == (expected is None)
        assert first is None or expected is None or first.is_equal(expected)
    assert matched > len(drawn[half])
    assert made.planner.check() == []
