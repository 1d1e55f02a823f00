"""Pools that draw differently from common suppliers: a search that gives up is decided by what the suppliers can supply.

In the random cases the search gives up at once, and every choice of nodes is enumerated for comparison.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations

import pytest

import fluxres
from fluxres.errors import InfeasibleRequest, LimitExceeded
from fluxres.match import Matcher, traverser
from fluxres.match.bounds import most
from fluxres.model import ResourceGraph
from tests import sites

RACKS = """
fluxres: 1
name: m
resources:
  - type: rack
    count: 3
    with:
      - {type: node, count: 12, draw: {power: 600}, with: [{type: core, count: 2}]}
      - {type: node, count: 4, id: 12-15, draw: {power: 1500}, with: [{type: core, count: 2}, {type: gpu}]}
  - {type: storage, name: files}
graphs:
  power:
    hierarchy: true
    pools:
      - type: power
        name: feed
        size: 30000
        unit: W
        with: [{type: power, basename: pdu, count: 3, size: 12000, unit: W}]
    edges:
      - {from: "power:/feed/pdu[0-2]", to: "/m/rack[0-2]", relation: supplies}
      - {from: "/m/rack*", to: "/m/rack*/node*", pairing: share, relation: supplies, capacity: 1600, unit: W}
  network:
    pools: [{type: switch, basename: leaf, count: 3}, {type: switch, name: spine}]
    edges:
      - {from: "network:/leaf*", to: "/m/rack*/node*", pairing: share, direction: both, capacity: 25}
      - {from: "network:/spine", to: "network:/leaf*", direction: both, capacity: 200}
      - {from: "network:/spine", to: "/m/files", direction: both, capacity: 400}
"""
AT_MOST = 41
"""Nodes that 30 kW are enough for: 36 of 600 W and 5 of 1500 W."""
REQUESTS = [
    "slot={}/node",
    "node={}{{x}}",
    "slot={}/[node;network=2{{to:/m/files}}]",
    "slot={}/[node;network=2{{between:node}}]",
]


@pytest.fixture(scope="module")
def racks() -> ResourceGraph:
    return sites.graph(RACKS)


@pytest.mark.parametrize("form", REQUESTS)
def test_nodes_of_two_draws_are_counted(racks: ResourceGraph, form: str) -> None:
    assert len(racks.match(form.format(AT_MOST)).vertices)
    for number in (AT_MOST + 1, 45, 48):
        assert not racks.satisfiable(form.format(number))
    with pytest.raises(InfeasibleRequest):
        racks.match(form.format(48))


@pytest.mark.parametrize("form", REQUESTS)
def test_largest_smaller_count_is_exact(racks: ResourceGraph, form: str) -> None:
    refusal = racks.why_not(form.format(48))
    assert refusal is not None
    assert refusal.enough["resources[0]"] == AT_MOST
    assert refusal.never
    assert not refusal.undecided


def test_range_is_settled_to_the_most_that_can_be_supplied(racks: ResourceGraph) -> None:
    assert racks.match("slot=1-48/node").counts[0] == AT_MOST


def test_only_nodes_with_the_requested_contents_count(racks: ResourceGraph) -> None:
    """All nodes with a GPU draw the same: no light one takes their place."""
    assert not racks.satisfiable("slot=13/node/[core;gpu]")
    assert racks.satisfiable("slot=12/node/[core;gpu]")


def test_parts_that_request_the_same_pools_are_counted_together(racks: ResourceGraph) -> None:
    assert racks.satisfiable("[slot=20{a}/node;slot=21{b}/node]")
    assert not racks.satisfiable("[slot=20{a}/node;slot=22{b}/node]")


def test_undecided_search_of_one_part_gives_a_usable_hint() -> None:
    """Each node draws from two PDUs of three."""
    with pytest.MonkeyPatch.context() as patch:
        leave_nothing_to_the_search(patch)
        graph = Site([600, 500, 700], [(0, 1), (1, 2), (0, 2)], [1000] * 3, 9000, [0] * 3).graph()
        with pytest.raises(LimitExceeded) as refused:
            graph.match("slot=2/node")
    assert "one by one" not in str(refused.value)
    assert "by a constraint" in str(refused.value)


def test_refusal_of_an_undecided_window_has_a_later_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """node0 and node1 fit together after the job has ended; no two fit now, and each PDU alone has enough for two."""
    leave_nothing_to_the_search(monkeypatch)
    graph = Site([600, 500, 700], [(0, 1), (1, 2), (0, 2)], [1200, 1200, 1100], 9000, [0] * 3).graph()
    graph.allocate({"power:/pdu1": 200}, job="other", duration_s=50)
    with pytest.raises(LimitExceeded):
        graph.match("slot=2/node", duration_s=10)
    refusal = graph.why_not("slot=2/node", duration_s=10)
    assert refusal is not None
    assert refusal.earliest == graph.earliest("slot=2/node", duration_s=10) == 50.0
    assert refusal.enough == {"resources[0]": 1}


# -- against every choice ----------------------------------------------------------------------------------------------


def leave_nothing_to_the_search(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(traverser, "STEPS_BEFORE_DOUBT", 0)
    patch.setattr(Matcher, "_budget", lambda self, plan: traverser.Budget(0, of_one_part=plan.is_of_one_type))


@dataclass
class Site:
    """Nodes, what each draws, from which PDUs, and over which link it reaches the files.

    Args:
        links: capacity of the link of each node; 0 for none.
        uplinks: of each leaf switch; node by node every other one is on the second.
    """

    draws: list[int]
    pdus_of: list[tuple[int, ...]]
    pdus: list[int]
    feed: int
    cables: list[int]
    links: list[int] | None = None
    uplinks: tuple[int, int] = (0, 0)

    def graph(self) -> ResourceGraph:
        number = len(self.draws)
        nodes = ", ".join(
            f"{{type: node, id: {n}, draw: {{power: {watts}}}, with: [{{type: core, count: 2}}]}}"
            for n, watts in enumerate(self.draws)
        )
        pdus = ", ".join(f"{{type: power, name: pdu{p}, size: {size}, unit: W}}" for p, size in enumerate(self.pdus))
        edges = [f'{{from: "power:/feed", to: "power:/pdu{p}"}}' for p in range(len(self.pdus))]
        for n, of in enumerate(self.pdus_of):
            capacity = f", capacity: {self.cables[n]}" if self.cables[n] else ""
            edges += [f'{{from: "power:/pdu{p}", to: "/m/node{n}"{capacity}}}' for p in of]
        text = f"""
fluxres: 1
name: m
resources: [{nodes}, {{type: storage, name: files}}]
graphs:
  power:
    pools: [{{type: power, name: feed, size: {self.feed}, unit: W}}, {pdus}]
    edges: [{", ".join(edges)}]
"""
        if self.links is not None:
            both = "direction: both, capacity:"
            links = [f'{{from: "network:/leaf{n % 2}", to: "/m/node{n}", {both} {self.links[n]}}}' for n in range(number)]
            links += [f'{{from: "network:/spine", to: "network:/leaf{s}", {both} {self.uplinks[s]}}}' for s in (0, 1)]
            links.append('{from: "network:/spine", to: "/m/files", direction: both}')
            text += f"""
  network:
    pools: [{{type: switch, basename: leaf, count: 2}}, {{type: switch, name: spine}}]
    edges: [{", ".join(links)}]
"""
        return sites.graph(text)

    def fits(self, nodes: tuple[int, ...], traffic: int) -> bool:
        """Whether nodes, others that hold watts among them, can be supplied; `traffic` for each of them."""
        of_pdu = [sum(self.draws[n] for n in nodes if p in self.pdus_of[n]) for p in range(len(self.pdus))]
        if sum(self.draws[n] for n in nodes) > self.feed or any(a > b for a, b in zip(of_pdu, self.pdus, strict=True)):
            return False
        if any(0 < self.cables[n] < self.draws[n] for n in nodes):
            return False
        if not traffic or self.links is None:
            return True
        of_leaf = [sum(traffic for n in nodes if n % 2 == s) for s in (0, 1)]
        return all(self.links[n] >= traffic for n in nodes) and all(a <= b for a, b in zip(of_leaf, self.uplinks, strict=True))


def random_site(source: random.Random, *, overlap: bool) -> Site:
    number, pdus = source.randint(4, 7), source.randint(1, 3)
    draws = [source.choice([1, 2, 3, 5, 7]) for _ in range(number)]
    one = [(source.randrange(pdus),) for _ in range(number)]
    pair = [tuple(sorted(source.sample(range(pdus), 2))) if pdus > 1 and source.random() < 0.5 else of for of in one]
    total = sum(draws)
    linked = source.random() < 0.5
    return Site(
        draws,
        pair if overlap else one,
        [source.randint(3, max(4, total)) for _ in range(pdus)],
        source.randint(total // 3 + 1, total + 2),
        [source.choice([0, 0, 0, 4, 6]) for _ in range(number)],
        [source.choice([2, 4, 4]) for _ in range(number)] if linked else None,
        (source.randint(2, 12), source.randint(2, 12)),
    )


def choices(site: Site, free: list[int], held: tuple[int, ...], traffic: int) -> Iterator[int]:
    """Every number of nodes for which there is a choice."""
    for number in range(1, len(free) + 1):
        if any(site.fits((*nodes, *held), 0) and site.fits(nodes, traffic) for nodes in combinations(free, number)):
            yield number


def compare(seed: int, *, overlap: bool) -> tuple[int, int]:
    """Compare one site for every count; (number of queries, undecided ones)."""
    source = random.Random(seed)
    site = random_site(source, overlap=overlap)
    graph = site.graph()
    held: tuple[int, ...] = ()
    for n in source.sample(range(len(site.draws)), source.choice([0, 0, 1, 2])):
        if site.fits((*held, n), 0):
            graph.allocate([f"/m/node{n}"], job=f"other{n}")
            held = (*held, n)
    traffic = source.randint(1, 4) if site.links else 0
    more = f";network={traffic}{{to:/m/files}}" if traffic else ""
    nodes = list(range(len(site.draws)))
    now = set(choices(site, [n for n in nodes if n not in held], held, traffic))
    ever = set(choices(site, nodes, (), traffic))
    matcher, undecided, policy = graph.matcher, 0, source.choice(["first", "high", "locality", "lonodex"])
    for number in range(1, len(nodes) + 1):
        request = fluxres.Request.parse(f"slot={number}/[node{more}]")
        try:
            found = matcher.match(request, 0, 10, policy)
        except LimitExceeded:
            undecided += 1
        else:
            assert (found is not None) == (number in now), (seed, number, policy)
            if found is not None:
                pools = [graph.pool(v) for v in found.vertices.tolist() if v < graph.structure.n]
                chosen = tuple(int(pool.id) for pool in pools if pool.type == "node")
                assert len(chosen) == number
                assert site.fits((*chosen, *held), 0)
        try:
            assert matcher.satisfiable(request) == (number in ever), (seed, number)
        except LimitExceeded:
            undecided += 1
        refusal = matcher.why_not(request, 0, 10, policy)
        if refusal is None:
            assert number in now
            continue
        enough = refusal.enough.get("resources[0]", 0)
        smaller = max((count for count in (ever if refusal.never else now) if count < number), default=0)
        assert enough == smaller if not refusal.undecided else enough <= smaller, (seed, number)
        assert not (refusal.never and number in ever), (seed, number)
    return len(nodes), undecided


def test_every_choice_of_nodes_in_one_graph_is_decided(monkeypatch: pytest.MonkeyPatch, deeper: float) -> None:
    leave_nothing_to_the_search(monkeypatch)
    for seed in range(round(80 * deeper)):
        site = random_site(random.Random(seed), overlap=False)
        _, undecided = compare(seed, overlap=False)
        assert not undecided or site.links is not None


def test_overlapping_suppliers_give_no_wrong_result(monkeypatch: pytest.MonkeyPatch, deeper: float) -> None:
    leave_nothing_to_the_search(monkeypatch)
    for seed in range(round(40 * deeper)):
        compare(seed, overlap=True)


def test_pools_that_draw_more_from_one_supplier_and_less_from_another() -> None:
    one, other = (0,), (1,)
    needs = [{one: 1, other: 5}, {one: 5, other: 1}, {one: 5, other: 5}]
    assert most(needs, {one: Fraction(6), other: Fraction(6)}) == 2
    assert most(needs, {one: Fraction(5), other: Fraction(20)}) == 1
