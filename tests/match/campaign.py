"""Random cases against the oracle: `python -m tests.match.campaign --cases 100000 [--seed 0] [--graphs]`.

Each case asks for feasibility, the pools of the policy, vector path against traverser, whether the writer takes the match, the
earliest start against every start, and whether a satisfiable request is.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter

import numpy as np

from fluxres.allocation import plans
from fluxres.errors import FluxresError, LimitExceeded
from fluxres.match import Matcher, Placement
from tests.match import cases
from tests.match.oracle import Case, TooLarge, picked


def compare(seed: int, tally: Counter[str]) -> list[str]:
    """The differences in one case; empty if there are none."""
    source = cases.random_source(seed)
    graphs = cases.graphs_source(seed)
    scene = cases.scene(source, graphs)
    request = cases.request(source, scene.structure, graphs)
    start, end = cases.window(source)
    policy = source.choice([*cases.SIMPLE, *cases.SIMPLE, *cases.NODEX, "locality"])
    matcher = Matcher(scene.structure, scene.planner)
    fast = matcher.match(request, start, end, policy)
    slow = fast if fast is not None and fast.fallback else matcher.match(request, start, end, policy, reference=True)
    wrong = []
    tally["matched"] += fast is not None
    tally["charged"] += fast is not None and any(v >= scene.structure.tree_end for v, _ in fast.targets)
    tally["edges"] += fast is not None and any(v >= scene.structure.n for v, _ in fast.targets)
    tally["routed"] += fast is not None and any(vertex.to is not None for vertex in request.vertices())
    between = fast is not None and any(vertex.between is not None for vertex in request.vertices())
    tally["alone or together"] += between
    tally["together"] += between and fast is not None and any(v >= scene.structure.tree_end for v, _ in fast.targets)
    tally["vector"] += fast is not None and not fast.fallback
    if (fast is None) != (slow is None) or (fast is not None and slow is not None and not fast.is_equal(slow)):
        wrong.append(f"vector path {_shown(fast)}, traverser {_shown(slow)}")
    if fast is not None and len(fast):
        try:
            plans.allocate(scene.records, fast.targets, "new", start, end, implies=True)
        except FluxresError as error:
            wrong.append(f"the writer refuses {_shown(fast)}: {error}")
    case = Case(scene.structure, scene.holds, request, start, end, policy)
    try:
        wrong += _against_oracle(case, slow)
        tally["oracle"] += 1
    except TooLarge:
        tally["too large"] += 1
    duration = end - start
    wrong += _earliest(matcher, request, duration, policy, tally)
    if fast is not None and not matcher.satisfiable(request):
        wrong.append("matched, but said never to be satisfiable")
    if matcher.satisfiable(request) != matcher.satisfiable(request, reference=True):
        wrong.append("satisfiable differs between vector path and traverser")
    wrong += scene.planner.check()
    return wrong


def _against_oracle(case: Case, found: Placement | None) -> list[str]:
    settled = case.settle()
    if (settled is None) != (found is None):
        return [f"oracle {'has no match' if settled is None else 'has one'}, traverser {_shown(found)}"]
    if settled is None or found is None:
        return []
    counts, assignment = settled
    if tuple(counts.values()) != found.counts:
        return [f"oracle settles to {tuple(counts.values())}, traverser to {found.counts}"]
    if case.policy == "locality":
        return []
    units, shared, slots = picked(case, assignment)
    wrong = []
    if units != _recorded(found) or shared != set(found.shared.tolist()):
        wrong.append(f"oracle takes {units} and shares {shared}, traverser {_shown(found)}")
    groups = [
        {int(found.vertices[p]) for p in group.picks[group.starts[k] : group.starts[k + 1]]}
        for group in found.slots
        for k in range(len(group))
    ]
    order = {group.label: at for at, group in enumerate(found.slots)}
    expected = [slots[key] for key in sorted(slots, key=lambda key: (order[key[0]], key[1]))]
    if groups != expected:
        wrong.append(f"oracle's slots {expected}, traverser's {groups}")
    return wrong


def _recorded(found: Placement) -> dict[int, int]:
    return dict(zip(found.vertices.tolist(), found.amounts.tolist(), strict=True))


def _earliest(matcher: Matcher, request, duration: int, policy: str, tally: Counter[str]) -> list[str]:
    starts = (t for t in range(cases.HORIZON + 3) if matcher.match(request, t, t + duration, policy, reference=True) is not None)
    first = next(starts, None)
    wrong = []
    for reference in (False, True):
        found = matcher.earliest(request, duration, 0, policy, reference=reference)
        if (None if found is None else found.start) != first:
            wrong.append(f"earliest is {first}, found {_shown(found)} ({'traverser' if reference else 'vector path'})")
    tally["later"] += bool(first)
    return wrong


def _shown(found: Placement | None) -> str:
    if found is None:
        return "nothing"
    slots = [(g.label, g.starts.tolist(), g.picks.tolist()) for g in found.slots]
    return f"{found.targets} sharing {found.shared.tolist()} for {found.counts} slots {slots} at {found.start}"


REPORTED = 5_000
"""Cases between two lines of progress."""


def run(first: int, number: int, *, step: int = 1, stop_at: int = 5, aloud: bool = False) -> tuple[list[str], Counter[str]]:
    """Compare a number of cases from a seed on; `aloud` prints what it finds at once, and how far it is."""
    tally: Counter[str] = Counter()
    failures: list[str] = []
    for seed in range(first, first + number * step, step):
        try:
            wrong = compare(seed, tally)
        except LimitExceeded:
            # Neither result is wrong, so the case is counted but is not a difference.
            wrong = []
            tally["undecided"] += 1
            if aloud:
                print(f"case {seed}: undecided", flush=True)
        except FluxresError as error:
            wrong = [f"{type(error).__name__}: {error}"]
        except Exception as error:
            raise RuntimeError(f"case {seed}") from error
        tally["cases"] += 1
        failures += [f"case {seed}: {text}" for text in wrong]
        if aloud and wrong:
            print("\n".join(failures[-len(wrong) :]), flush=True)
        if aloud and tally["cases"] % REPORTED == 0:
            print(dict(tally), flush=True)
        if len(failures) >= stop_at:
            break
    return failures, tally


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--graphs", action="store_true", help="Only cases with auxiliary graphs, every third seed.")
    options = parser.parse_args()
    began = time.perf_counter()
    first, step = (options.seed - options.seed % 3, 3) if options.graphs else (options.seed, 1)
    failures, tally = run(first, options.cases, step=step, aloud=True)
    print(dict(tally), f"{time.perf_counter() - began:.0f} s", f"NumPy {np.__version__}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
