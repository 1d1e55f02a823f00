"""All inventories give equal answers: counted, named and graph inventories get the same random calls."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fluxres import FluxresError, InsufficientResources, ResourceGraph
from fluxres.clock import FOREVER
from fluxres.graph import uuids
from fluxres.graph.recipe import Recipe, expand
from fluxres.instance import Instance, State
from fluxres.instance.counted import CountedInventory
from fluxres.instance.graph_inventory import GraphInventory
from fluxres.instance.inventory import Inventory, NotUniform
from fluxres.instance.named import NamedInventory
from fluxres.syntax import fluid, idset
from fluxres.syntax.jobspec import as_request
from tests.instance.machines import ManualClock, of_number, of_shape

SIZE = 6
S = 1_000_000

steps = st.lists(
    st.tuples(
        st.sampled_from(
            [
                "start",
                "start",
                "reserve",
                "reserve",
                "remake",
                "remake",
                "finish",
                "unreserve",
                "clear",
                "wait",
                "resize",
                "state",
            ]
        ),
        st.integers(1, SIZE),
        st.integers(1, 9),
    ),
    max_size=30,
)

lapses = st.lists(
    st.tuples(
        st.sampled_from(["start", "start", "start", "wait", "wait", "extend", "extend", "resize", "finish", "reserve"]),
        st.integers(1, SIZE),
        st.integers(1, 3),
    ),
    min_size=10,
    max_size=40,
)
"""Claims are not freed at their end, and others get their units."""


class Pair:
    """Two inventories that must give equal answers; `named`: units have names in both."""

    def __init__(self, fast: Inventory, slow: GraphInventory, request: str, *, named: bool) -> None:
        self.both: tuple[Inventory, Inventory] = (fast, slow)
        self.request = request
        self.named = named
        self.claims: dict[int, tuple[Any, Any]] = {}
        self.ends: dict[int, int] = {}
        self.reserved: dict[int, tuple[int, int, int]] = {}
        self.late: set[int] = set()
        self.now = 0
        self.key = 0

    def asks(self, n: int) -> list[Any]:
        request = as_request(self.request.format(n))
        return [inventory.ask(request) for inventory in self.both]

    def same(self, answers: list[Any]) -> Any:
        first, second = answers
        assert first == second
        return first

    def hold(self, claims: list[Any], key: int, end: int) -> None:
        assert (claims[0] is None) == (claims[1] is None)
        if claims[0] is None:
            return
        self.claims[key], self.ends[key] = (claims[0], claims[1]), end
        if self.named:
            ids = [idset.parse(inventory.ids(claim)) for inventory, claim in zip(self.both, claims, strict=True)]
            assert ids[0] == ids[1]

    def start(self, n: int, length: int) -> None:
        self.key += 1
        end = self.now + length * S
        asks = self.asks(n)
        self.hold([i.start(self.key, ask, self.now, end) for i, ask in zip(self.both, asks, strict=True)], self.key, end)

    def reserve(self, n: int, length: int) -> None:
        self.key += 1
        starts = [i.reserve(self.key, ask, length * S, self.now) for i, ask in zip(self.both, self.asks(n), strict=True)]
        start = self.same(starts)
        if start is not None:
            self.reserved[self.key] = (start, n, length)

    def refit(self) -> None:
        for key, (before, n, length) in list(self.reserved.items()):
            start = self.same([i.reserve(key, ask, length * S, self.now) for i, ask in zip(self.both, self.asks(n), strict=True)])
            assert start is not None
            assert start <= before
            self.reserved[key] = (start, n, length)

    def begin(self) -> None:
        for key, (start, n, length) in list(self.reserved.items()):
            if start <= self.now:
                end = self.now + length * S
                claims = [i.begin(key, ask, self.now, end) for i, ask in zip(self.both, self.asks(n), strict=True)]
                del self.reserved[key]
                self.hold(claims, key, end)

    def finish(self, which: int) -> None:
        if self.claims:
            key = list(self.claims)[which % len(self.claims)]
            for inventory, claim in zip(self.both, self.claims.pop(key), strict=True):
                inventory.finish(key, claim, self.now)
            del self.ends[key]

    def resize(self, which: int, length: int) -> None:
        self.clear()
        if self.claims:
            key = list(self.claims)[which % len(self.claims)]
            end = max(self.now, self.ends[key]) + length * S if which % 2 else max(self.now + 1, self.ends[key] - length * S)
            if key in self.late:
                return  # as in an instance: a late job gets no other limit
            if self.same([self.refusal(at, key, end) for at in range(2)]) is None:
                self.ends[key] = end

    def refusal(self, at: int, key: int, end: int) -> str | None:
        try:
            self.both[at].resize(key, self.claims[key][at], self.now, end)
        except InsufficientResources as error:
            return f"{error.where} {error.message}"
        return None

    def extend(self, which: int, length: int) -> None:
        self.clear()
        if self.claims:
            key = list(self.claims)[which % len(self.claims)]
            end = max(self.now, self.ends[key]) + length * S
            self.late.add(key)
            claims = self.claims[key]
            said = [(i.pools(claim), i.count(claim)) for i, claim in zip(self.both, claims, strict=True)]
            self.same([i.extend(key, claim, self.now, end) for i, claim in zip(self.both, claims, strict=True)])
            assert [(i.pools(claim), i.count(claim)) for i, claim in zip(self.both, claims, strict=True)] == said
            self.ends[key] = end

    def unreserve(self, which: int) -> None:
        if self.reserved:
            key = list(self.reserved)[which % len(self.reserved)]
            del self.reserved[key]
            for inventory in self.both:
                inventory.unreserve(key)

    def clear(self) -> None:
        self.reserved.clear()
        for inventory in self.both:
            inventory.clear()

    def remake(self, depth: int, skipped: int) -> None:
        """As a pass of EASY: drop the reservations, start what can start, and reserve for the first of the others again."""
        before, left = list(self.reserved.items()), depth
        self.reserved.clear()
        for inventory in self.both:
            inventory.suspend(self.now)
        for at, (key, (_, n, length)) in enumerate(before):
            if at == skipped % 4:
                self.start(n % SIZE + 1, length)
            end = self.now + length * S
            claims = [i.start(key, ask, self.now, end) for i, ask in zip(self.both, self.asks(n), strict=True)]
            self.hold(claims, key, end)
            if claims[0] is None and left:
                asks = self.asks(n)
                start = self.same([i.reserve(key, ask, length * S, self.now) for i, ask in zip(self.both, asks, strict=True)])
                if start is not None:
                    self.reserved[key] = start, n, length
                    left -= 1
        for inventory in self.both:
            inventory.drop_suspended()
        self.same([inventory.reserved_starts() for inventory in self.both])

    def wait(self, length: int) -> None:
        # As an instance does: nothing that is reserved is passed by.
        self.now = min([self.now + length * S, *(start for start, _, _ in self.reserved.values())])
        self.same([inventory.advance(self.now) for inventory in self.both])
        self.begin()

    def state(self, which: int, state: int, paths: list[str]) -> None:
        for inventory in self.both:
            inventory.graph.set_state(paths[which % len(paths)], ("up", "drain", "down")[state % 3])
        self.reserved.clear()
        for inventory in self.both:
            inventory.refresh()

    def step(self, name: str, a: int, b: int, paths: list[str]) -> None:
        if name in ("start", "reserve", "resize", "extend", "remake"):
            getattr(self, name)(a, b)
        elif name in ("finish", "unreserve"):
            getattr(self, name)(a)
        elif name == "clear":
            self.clear()
        elif name == "wait":
            self.wait(b)
        elif paths:
            self.state(a, b, paths)


@settings(max_examples=150, deadline=None)
@given(steps, st.sampled_from(["first", "high"]))
def test_named_inventory_equals_graph_inventory(done: list[tuple[str, int, int]], policy: str) -> None:
    fast, slow = of_shape(f"node={SIZE}/core=2"), of_shape(f"node={SIZE}/core=2")
    pair = Pair(NamedInventory(fast, "node", policy), GraphInventory(slow, policy, "node"), "slot={}/node", named=True)
    paths = [f"/cluster/node{n}" for n in range(SIZE)] + ["/cluster"]
    for name, a, b in done:
        pair.step(name, a, b, paths)
        assert_recorded(pair)
    pair.refit()
    assert slow.check() == []


def assert_recorded(pair: Pair) -> None:
    """The graph has what runs and what is reserved, on the pools that the other inventory has, and nothing else."""
    named, graph = pair.both
    assert isinstance(named, NamedInventory)
    shown = {fluid.encode(key): [int(v) for v in place.vertices] for key, place in graph.places().items()}
    assert shown == {fluid.encode(key): named.vertices(hold) for key, hold in named.places().items()}
    assert set(graph.graph.records.jobs()) >= set(shown)
    live = {fluid.encode(key) for key in pair.claims}
    assert set(graph.graph.records.jobs()) - live == set(shown)


@settings(max_examples=150, deadline=None)
@given(steps)
def test_counted_inventory_equals_graph_inventory(done: list[tuple[str, int, int]]) -> None:
    fast, slow = of_number(SIZE), of_number(SIZE)
    pair = Pair(CountedInventory(fast, 1), GraphInventory(slow), "slot=1/core={}", named=False)
    for name, a, b in done:
        pair.step(name, a, b, ["/processors/core"])
    pair.refit()


@settings(max_examples=200, deadline=None)
@given(lapses, st.booleans())
def test_claims_extended_past_their_end_leave_others_their_units(done: list[tuple[str, int, int]], is_counted: bool) -> None:
    if is_counted:
        pair = Pair(CountedInventory(of_number(SIZE), 1), GraphInventory(of_number(SIZE)), "slot=1/core={}", named=False)
    else:
        fast, slow = of_shape(f"node={SIZE}"), of_shape(f"node={SIZE}")
        pair = Pair(NamedInventory(fast, "node"), GraphInventory(slow, "first", "node"), "slot={}/node", named=True)
    for name, a, b in done:
        pair.step(name, a, b, [])


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(1, SIZE), st.integers(1, 9)), max_size=8), st.integers(1, SIZE))
def test_a_number_reserved_is_free_at_its_start(running: list[tuple[int, int]], n: int) -> None:
    inventory = NamedInventory(of_shape(f"node={SIZE}"), "node")
    for key, (size, length) in enumerate(running):
        inventory.start(key, size, 0, length * S)
    start = inventory.reserve_count(99, n, 0)
    assert start is not None
    assert (start == 0) == (n <= inventory.free_count)
    for key, (size, length) in enumerate(running, 100):
        inventory.start(key, size, 0, length * S)
    inventory.advance(start)
    assert inventory.free_count >= n


def test_units_held_without_end_are_never_reserved() -> None:
    for inventory in (
        CountedInventory(of_number(2), 1),
        NamedInventory(of_shape("node=2"), "node"),
        GraphInventory(of_shape("node=2")),
    ):
        request = as_request("slot=1/core=2" if inventory.kind == "counted" else "slot=2/node")
        ask = inventory.ask(request)
        assert inventory.start(1, ask, 0, FOREVER) is not None
        assert inventory.reserve(2, ask, S, 0) is None


@pytest.mark.parametrize("text", ["node", "slot=2/core", "slot=1/[node;core]", "slot=1-3/node", "node=2/slot=1/core"])
def test_other_requests_need_the_graph(text: str) -> None:
    with pytest.raises(NotUniform):
        NamedInventory(of_shape("node=4/core=2"), "node").ask(as_request(text))


def test_pools_in_a_node_are_interchangeable_if_requested_one_per_slot() -> None:
    graph = of_shape("node=4/core=2")
    assert NamedInventory(graph, "core").ask(as_request("slot=3/core")) == 3
    with pytest.raises(NotUniform):
        NamedInventory(graph, "core").ask(as_request("slot=1/core=2"))
    assert NamedInventory(of_shape("rack=2/core=2"), "core").ask(as_request("slot=2/core=2")) == 4


def one_rack(exclusive: bool) -> ResourceGraph:
    """A rack with two nodes of two cores each, and a pool of memory."""
    node = Recipe("node", 2, children=(Recipe("core", 2),))
    rack = Recipe("rack", children=(node, Recipe("memory", size=8)), exclusive=exclusive)
    return of_recipe(rack)


def test_rule_a8_units_in_an_exclusive_pool_are_not_counted() -> None:
    for text, fast in (("slot=1/memory=2", "counted"), ("slot=1/core", "named"), ("slot=1/node", "named")):
        for exclusive in (False, True):
            top = Instance(one_rack(exclusive), inventory="auto")
            states = [top.submit(text).state for _ in range(2)]
            assert (top.inventory.kind, states) == (
                ("graph", [State.RUN, State.SCHED]) if exclusive else (fast, [State.RUN, State.RUN])
            )
            assert top.check() == []


def test_rule_a8_units_of_an_exclusive_pool_are_not_counted() -> None:
    top = Instance(of_recipe(Recipe("memory", size=8, exclusive=True)), inventory="auto")
    assert [top.submit("slot=1/memory=2").state for _ in range(2)] == [State.RUN, State.SCHED]
    assert top.inventory.kind == "graph"
    assert top.check() == []


def test_exclusive_pools_are_themselves_interchangeable() -> None:
    graph = of_recipe(Recipe("node", 2, children=(Recipe("core", 2),), exclusive=True))
    assert NamedInventory(graph, "node").ask(as_request("slot=2/node")) == 2
    with pytest.raises(NotUniform):
        NamedInventory(graph, "core")


def of_recipe(*children: Recipe) -> ResourceGraph:
    return ResourceGraph(expand(Recipe("cluster", children=children), origin=uuids.new_origin()))


@pytest.mark.parametrize("inventory", ["auto", "counted:memory"])
@pytest.mark.parametrize("change", ["move", "move and back", "unlink"])
def test_a_counted_pool_is_found_after_a_move(change: str, inventory: str) -> None:
    graph = of_recipe(Recipe("rack", children=(Recipe("node", children=(Recipe("core", 4), Recipe("memory", size=8))),)))
    top = Instance(graph, inventory=inventory)
    first = top.submit("slot/memory=6")
    assert top.inventory.kind == "counted"
    node = graph.find("type=node").paths()[0]
    rack = node.rpartition("/")[0]
    if change == "unlink":
        top.finish(first)
        graph.unlink(node)
        assert top.check() == []
        with pytest.raises(FluxresError):
            top.submit("slot/memory=2")
        return
    top.finish(first)
    graph.move(node, rack.rpartition("/")[0])
    if change != "move":
        graph.move(graph.find("type=node").paths()[0], rack)
    first, second = top.submit("slot/memory=6"), top.submit("slot/memory=6")
    assert (first.state, second.state, top.check()) == (State.RUN, State.SCHED, [])
    assert first.pools == [(graph.find("type=memory").paths()[0], 6)]
    assert top.graph.find("type=memory")[0].allocated() == 6


@pytest.mark.parametrize(("shape", "request_text"), [("core=1", "slot=1/core"), ("node=1/core=1", "slot=1/core")])
def test_a_machine_of_one_unit_can_be_counted(shape: str, request_text: str) -> None:
    top = Instance(of_shape(shape), inventory="counted")
    first, second = top.submit(request_text), top.submit(request_text)
    assert (top.inventory.kind, first.state, second.state, top.check()) == ("counted", State.RUN, State.SCHED, [])


@pytest.mark.parametrize("inventory", ["counted", "named", "graph"])
@pytest.mark.parametrize("policy", ["easy", "conservative"])
def test_a_reservation_that_is_due_is_free_until_its_job_starts(inventory: str, policy: str) -> None:
    clock = ManualClock()
    machine = of_number(2) if inventory == "counted" else of_shape("node=2")
    top = Instance(machine, queue_policy=policy, clock=clock, inventory=inventory, passes="manual")
    unit = "core" if inventory == "counted" else "node"
    first, _ = (top.submit(f"slot=1/{unit}={number}", duration_s=10) for number in (1, 2))
    top.schedule()
    clock.now_s = 10
    top.finish(first)
    assert top.queue.free == 2
    top.schedule()
    assert top.queue.free == 0
