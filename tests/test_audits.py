"""Audits detect errors: states broken by hand in one place, and the rule and place that `check()` names.

Each mutation is applied to random valid states. It returns the expected finding of `check()`: rule and path of the pool.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from random import Random

import numpy as np
import pytest

from fluxres import FluxresError, ResourceGraph
from fluxres.allocation import plans
from fluxres.allocation.drawn import DrawLedger
from fluxres.allocation.records import ELSEWHERE, STAGE_OWNER
from fluxres.clock import FOREVER, TICKS_PER_S
from fluxres.graph import uuids
from fluxres.graph.recipe import Recipe, expand
from fluxres.graph.structure import Problem
from fluxres.instance import Instance, State, recording
from fluxres.instance.job import Job
from fluxres.syntax import fluid
from tests import sites
from tests.instance.machines import ManualClock

STATES = 16
Named = tuple[str, str]
"""A rule, and the place it is broken at."""
RULE = re.compile(r"^(?:rule )?([A-Z]\d(?:, [A-Z]\d)*): |\(([A-Z]\d)\)$")


def named(problems: list[Problem]) -> set[Named]:
    """Rules and places that an audit names; each problem has both."""
    found = set()
    for problem in problems:
        match = RULE.search(problem.message)
        assert match is not None, problem
        assert problem.where, problem
        found |= {(rule, problem.where) for rule in (match[1] or match[2]).split(", ")}
    return found


# -- one graph -----------------------------------------------------------------------------------------------------------

Break = Callable[[ResourceGraph, Random], Named]
GRAPHS: dict[str, Break] = {}


def of_graph(breaks: Break) -> Break:
    GRAPHS[breaks.__name__] = breaks
    return breaks


def machine() -> ResourceGraph:
    """Racks of nodes with cores and memory, volumes of several units with disks in them, and blades for one job at a time."""
    node = Recipe("node", count=3, ids=np.arange(6), children=(Recipe("core", count=4), Recipe("memory", size=8, ids=None)))
    volume = Recipe("volume", count=3, ids=np.arange(6), size=4, children=(Recipe("disk", count=2),))
    blade = Recipe("blade", count=2, ids=np.arange(4), size=2, exclusive=True, children=(Recipe("gpu", count=3),))
    rack = Recipe("rack", count=2, children=(node, volume, blade))
    return ResourceGraph(expand(Recipe("cluster", children=(rack,)), origin=uuids.new_origin()))


def state(source: Random) -> ResourceGraph:
    """A valid state: something for each mutation, at random places and times, and random other allocations."""
    g = machine()
    nodes, volumes, blades = (g.find(f"type={kind}").paths() for kind in ("node", "volume", "blade"))
    for paths in (nodes, volumes, blades):
        source.shuffle(paths)
    start = source.randrange(5)
    window = {"start": start, "end": start + source.randint(2, 9)}
    g.allocate([(f"{nodes[0]}/core{source.randrange(4)}", 1)], job="whole", **window)
    g.grow("whole", [nodes[0]], **window)
    g.allocate([(f"{nodes[1]}/memory", source.randint(1, 7))], job="part", **window)
    g.allocate([(f"{nodes[2]}/core{source.randrange(4)}", 1)], job="core", **window)
    g.allocate([(volumes[0], 4)], job="volume", **window)
    g.allocate([(volumes[1], source.randint(1, 3))], job="share", **window)
    g.allocate([(f"{blades[0]}/gpu{source.randrange(3)}", 1)], job="inside", **window)
    g.allocate([(blades[1], 2)], job="blade", **window)
    g.stage([(f"{nodes[3]}/memory", source.randint(1, 8)), (f"{nodes[4]}/core0", 1)], job="staged", **window)
    for n in range(source.randint(0, 12)):
        core = f"/core{source.randrange(4)}"
        some = [
            *nodes[:5],
            f"{nodes[1]}{core}",
            f"{nodes[4]}{core}",
            f"{nodes[3]}/memory",
            f"{volumes[2]}/disk0",
            f"{blades[0]}/gpu0",
        ]
        pool = source.choice([*some, volumes[1]])
        at = source.randrange(12)
        with contextlib.suppress(FluxresError):
            g.allocate([(pool, source.randint(1, g.pool(pool).size))], job=f"j{n % 4}", start=at, end=at + source.randint(1, 9))
    return g


def hold(g: ResourceGraph, path: str, job: str, amount: int, start: int, end: int) -> None:
    """A record with its derived data, without checking any rule."""
    v = g.vertex(path)
    with contextlib.suppress(FluxresError):
        g.planner.hold(v, amount, start, end)
    g.records._note(v, job, amount, start, end)


def record(g: ResourceGraph, source: Random, *jobs: str) -> tuple[int, str, int, int, int]:
    """A record to break: vertex, job, start, end, amount."""
    held = g.records.held
    v, job = source.choice([(v, job) for v in sorted(held) for job in held[v] if job in jobs or (not jobs and job.isalnum())])
    return v, job, *source.choice(held[v][job])


def idle(g: ResourceGraph, source: Random) -> str:
    """A pool of one unit, or a leaf of several, that is unheld, like everything above and below it."""
    held = {u for v in g.records.held for u in (v, *g.structure.ancestors(v))}
    taken = {u for v in g.records.held for u in range(v, g.structure.end.item(v))}
    free = [v for v in range(1, len(g)) if v not in held | taken and not g.structure.exclusive_around(v)]
    return g.structure.path(source.choice(free))


@of_graph
def a_record_of_more_than_there_is(g: ResourceGraph, source: Random) -> Named:
    v, job, start, end, _ = record(g, source)
    g.records.held[v][job] = ((start, end, g.structure.size.item(v) + source.randint(1, 9)),)
    return "A1", g.structure.path(v)


@of_graph
def a_holder_written_straight_into_the_records(g: ResourceGraph, source: Random) -> Named:
    path = idle(g, source)
    g.records.held[g.vertex(path)] = {"x": ((3, 9, 1),)}
    return "A1", path


@of_graph
def a_record_that_is_gone(g: ResourceGraph, source: Random) -> Named:
    v, job, *_ = record(g, source)
    del g.records.held[v][job]
    return "A1", g.structure.path(v)


@of_graph
def a_record_of_a_pool_that_is_not_there(g: ResourceGraph, source: Random) -> Named:
    v = source.choice([-1, len(g), len(g) + 7])
    g.records.held[v] = {"x": ((3, 9, 1),)}
    return "A1", f"vertex {v}"


@of_graph
def a_planner_that_uses_what_nobody_holds(g: ResourceGraph, source: Random) -> Named:
    path = idle(g, source)
    g.planner.hold(g.vertex(path), 1, 3, source.choice([4, FOREVER]))
    return "A1", path


@of_graph
def a_planner_that_has_forgotten_units(g: ResourceGraph, source: Random) -> Named:
    v, _, start, end, amount = record(g, source, "part", "core", "share", "inside")
    g.planner.release(v, source.randint(1, amount), start, source.randint(start + 1, end))
    return "A1", g.structure.path(v)


@of_graph
def a_row_of_the_planner_that_says_more_than_there_is(g: ResourceGraph, source: Random) -> Named:
    v = record(g, source, "part")[0]
    line = g.planner._used[g.planner._type[v]]
    assert line is not None
    block = line.blocks[0]
    block.matrix[block.rows[1], g.planner._ordinal[v]] = 9
    return "A1", g.structure.path(v)


@of_graph
def a_planner_that_miscounts_its_moments(g: ResourceGraph, source: Random) -> Named:
    source.choice([line for line in g.planner._used if line is not None]).breakpoints += 1
    return "A1", "planner"


@of_graph
def a_unit_of_two_jobs(g: ResourceGraph, source: Random) -> Named:
    v, _, start, end, _ = record(g, source)
    hold(g, g.structure.path(v), "x", g.structure.size.item(v), start, source.randint(start + 1, end))
    return "A2", g.structure.path(v)


@of_graph
def a_job_below_what_another_holds_exclusively(g: ResourceGraph, source: Random) -> Named:
    v, _, start, end, _ = record(g, source, "whole", "volume", "blade")
    below = g.structure.path(source.randrange(v + 1, g.structure.end.item(v)))
    hold(g, below, "x", 1, source.randrange(start, end), end + 5)
    return source.choice(["A2", "A3"]), below


@of_graph
def a_pool_allocated_above_what_another_holds(g: ResourceGraph, source: Random) -> Named:
    v, _, start, end, _ = record(g, source, "core")
    hold(g, g.structure.path(g.structure.parent.item(v)), "x", 1, start, end)
    return source.choice(["A2", "A3"]), g.structure.path(v)


@of_graph
def a_shared_list_without_a_job(g: ResourceGraph, source: Random) -> Named:
    v, job, *_ = record(g, source)
    above = source.choice(list(g.structure.ancestors(v)))
    del g.records.shared[above][job]
    return "A4", g.structure.path(above)


@of_graph
def a_shared_list_that_is_gone(g: ResourceGraph, source: Random) -> Named:
    above = source.choice(sorted(g.records.shared))
    del g.records.shared[above]
    return "A4", g.structure.path(above)


@of_graph
def a_shared_list_with_a_job_that_has_left(g: ResourceGraph, source: Random) -> Named:
    v = source.randrange(len(g))
    g.records.shared.setdefault(v, {})["x"] = 1
    return "A4", g.structure.path(v)


@of_graph
def a_shared_list_that_miscounts(g: ResourceGraph, source: Random) -> Named:
    above = source.choice(sorted(g.records.shared))
    job = source.choice(list(g.records.shared[above]))
    g.records.shared[above][job] += source.choice([1, -g.records.shared[above][job]])
    return "A4", g.structure.path(above)


@of_graph
def an_own_record_below_what_is_held_exclusively(g: ResourceGraph, source: Random) -> Named:
    v, job, start, end, _ = record(g, source, "whole", "volume", "blade")
    below = g.structure.path(source.randrange(v + 1, g.structure.end.item(v)))
    hold(g, below, job, 1, source.randrange(start, end), end + 5)
    return "A5", below


@of_graph
def a_planner_that_does_not_cover_what_is_held_exclusively(g: ResourceGraph, source: Random) -> Named:
    v, _, start, end, _ = record(g, source, "volume", "blade")
    g.planner.cover(v, start, end, False)
    return "A5", g.structure.path(v)


@of_graph
def a_planner_that_covers_for_too_short(g: ResourceGraph, source: Random) -> Named:
    v, _, start, end, _ = record(g, source, "volume", "blade")
    g.planner.cover(v, source.randrange(start + 1, end), end, False)
    return "A5", g.structure.path(v)


@of_graph
def a_planner_that_covers_what_is_held_in_part(g: ResourceGraph, source: Random) -> Named:
    v, _, start, end, _ = record(g, source, "share", "part")
    g.planner.cover(v, start, end, True)
    return "A5", g.structure.path(v)


@of_graph
def a_planner_that_covers_what_nobody_holds(g: ResourceGraph, source: Random) -> Named:
    free = [v for v in g.structure.of_type("volume").tolist() if v not in g.records.held]
    v = source.choice(free)
    g.planner.cover(v, 3, source.choice([4, FOREVER]), True)
    return "A3", g.structure.path(v)


@of_graph
def an_implied_record_without_its_cover(g: ResourceGraph, source: Random) -> Named:
    path = idle(g, source)
    g.records.implied.setdefault(source.choice(["x", "part"]), {})[g.vertex(path)] = ((3, 9, 1),)
    return "A6", path


@of_graph
def an_implied_record_that_outlives_its_cover(g: ResourceGraph, source: Random) -> Named:
    ((v, ((start, end, amount),)),) = g.records.implied["whole"].items()
    g.records.implied["whole"][v] = ((start, end + source.randint(1, 9), amount),)
    return "A6", g.structure.path(v)


@of_graph
def an_implied_record_of_more_than_there_is(g: ResourceGraph, source: Random) -> Named:
    ((v, ((start, end, amount),)),) = g.records.implied["whole"].items()
    g.records.implied["whole"][v] = ((start, end, amount + source.randint(1, 9)),)
    return "A6", g.structure.path(v)


@of_graph
def an_implied_record_of_nothing(g: ResourceGraph, source: Random) -> Named:
    g.records.implied[source.choice(["x", "part"])] = {}
    return "A6", "jobs"


def stage(g: ResourceGraph) -> tuple[str, list[int]]:
    """The owner of the stage's records, and what it locks."""
    (staged,) = g.records.stages.values()
    return STAGE_OWNER + staged.stage, [v for v, _ in staged.targets]


@of_graph
def a_stage_whose_records_are_gone(g: ResourceGraph, source: Random) -> Named:
    owner, pools = stage(g)
    g.records.free(plans.free(g.records, owner, None, None, None), owner)
    return "A6", g.structure.path(source.choice(pools))


@of_graph
def a_stage_that_holds_a_part_of_what_it_locks(g: ResourceGraph, source: Random) -> Named:
    owner, pools = stage(g)
    v = source.choice(pools)
    ((start, end, _),) = g.records.held[v][owner]
    g.records.free(plans.free(g.records, owner, [(v, None)], start, source.randrange(start + 1, end)), owner)
    return "A6", g.structure.path(v)


@of_graph
def a_stage_that_holds_what_it_does_not_name(g: ResourceGraph, source: Random) -> Named:
    path = idle(g, source)
    hold(g, path, stage(g)[0], 1, 3, 9)
    return "A6", path


@of_graph
def records_of_a_stage_that_is_gone(g: ResourceGraph, source: Random) -> Named:
    _, pools = stage(g)
    g.records.stages.clear()
    return "A6", g.structure.path(source.choice(pools))


@of_graph
def an_index_without_a_pool_of_a_job(g: ResourceGraph, source: Random) -> Named:
    v, job, *_ = record(g, source)
    g.records.pools_of[job].discard(v)
    return "A6", g.structure.path(v)


@of_graph
def an_index_without_a_job(g: ResourceGraph, source: Random) -> Named:
    v, job, *_ = record(g, source)
    del g.records.pools_of[job]
    return "A6", g.structure.path(v)


@of_graph
def an_index_with_a_pool_that_the_job_gave_back(g: ResourceGraph, source: Random) -> Named:
    path = idle(g, source)
    g.records.pools_of[source.choice(["part", "core"])].add(g.vertex(path))
    return "A6", path


@of_graph
def an_index_with_a_job_that_holds_nothing(g: ResourceGraph, source: Random) -> Named:
    if source.random() < 0.5:
        g.records.pools_of["x"] = set()
    else:
        g.records.slots_of["x"] = 2
    return "A6", "jobs"


@of_graph
def spans_that_overlap(g: ResourceGraph, source: Random) -> Named:
    v, job, start, end, amount = record(g, source)
    g.records.held[v][job] = ((start, end, amount), (source.randrange(start, end), end + 1, amount))
    return "A6", g.structure.path(v)


@of_graph
def a_span_of_no_units(g: ResourceGraph, source: Random) -> Named:
    v, job, start, end, amount = record(g, source)
    g.records.held[v][job] = ((start, end, amount), source.choice([(end, end, 1), (end + 1, end + 2, 0), (end, end + 2, -1)]))
    return "A6", g.structure.path(v)


@of_graph
def a_second_job_inside_an_exclusive_pool(g: ResourceGraph, source: Random) -> Named:
    v, _, start, end, _ = record(g, source, "inside")
    blade = g.structure.parent.item(v)
    other = source.choice([u for u in g.structure.children(blade).tolist() if u != v])
    hold(g, g.structure.path(other), "x", 1, source.randrange(start, end), end + 5)
    return "A8", g.structure.path(blade)


@of_graph
def a_part_of_an_exclusive_pool(g: ResourceGraph, source: Random) -> Named:
    v = source.choice([v for v in g.structure.of_type("blade").tolist() if v not in g.records.held])
    hold(g, g.structure.path(v), "x", 1, 3, 9)
    return "A8", g.structure.path(v)


@of_graph
def a_pool_larger_than_its_full_size(g: ResourceGraph, source: Random) -> Named:
    v = source.choice([v for v in range(len(g)) if g.structure.size.item(v) > 1])
    g.structure.capacity[v] = g.structure.size.item(v) - 1
    return "C1", g.structure.path(v)


@of_graph
def a_level_that_miscounts_what_is_used_below(g: ResourceGraph, source: Random) -> Named:
    level = g.planner.levels.of(g.structure.types.index("node"))
    assert level is not None
    assert g.check() == []
    block = source.choice([block for line in level._counts.values() for block in line.blocks.values()])
    pool = source.randrange(level.length)
    block.matrix[:, pool] += 1
    return "A1", g.structure.path(int(level.vertices[pool]))


@pytest.mark.parametrize("name", GRAPHS)
def test_check_names_the_rule_and_the_pool(name: str, deeper: float) -> None:
    for seed in range(round(STATES * deeper)):
        source = Random(seed)
        graph = state(source)
        assert graph.check() == []
        expected = GRAPHS[name](graph, source)
        assert expected in named(graph.check()), f"state {seed}"


# -- what is drawn for pools ---------------------------------------------------------------------------------------------


DRAWN: dict[str, Break] = {}


def of_draws(breaks: Break) -> Break:
    DRAWN[breaks.__name__] = breaks
    return breaks


def supplied(source: Random) -> ResourceGraph:
    """Jobs that draw power for a node or a core."""
    g = site()
    for n in range(source.randint(1, 3)):
        pools = source.choice(["node", "core=2"])
        g.allocate(f"slot/[{pools};power={source.randint(50, 200)}]", job=f"j{n}", start=n, end=n + source.randint(2, 9))
    return g


def ledger(g: ResourceGraph, source: Random) -> tuple[DrawLedger, int, tuple[int, ...]]:
    """What a job drew, an account and the pools for which it drew that."""
    _ = g.records.held
    found = source.choice(list(g.records.drawn.ledgers.values()))
    account = source.choice(sorted(found.held))
    return found, account, source.choice(sorted(found.held[account]))


@of_draws
def a_draw_for_a_node_of_which_the_job_holds_nothing(g: ResourceGraph, source: Random) -> Named:
    found, account, consumers = ledger(g, source)
    other = (g.vertex("/site/node5"),)
    found.held[account][other] = found.held[account].pop(consumers)
    found.accounts.setdefault(other, set()).add(account)
    found.accounts[consumers].discard(account)
    return "F2", g.structure.where(account)


@of_draws
def a_draw_that_outlives_the_pool(g: ResourceGraph, source: Random) -> Named:
    found, account, consumers = ledger(g, source)
    ((start, end, units),) = found.held[account][consumers]
    found.held[account][consumers] = ((start, end + source.randint(1, 9), units),)
    return "F2", g.structure.where(account)


@of_draws
def a_draw_that_its_pool_does_not_find(g: ResourceGraph, source: Random) -> Named:
    found, account, consumers = ledger(g, source)
    source.choice([lambda: found.accounts[consumers].discard(account), lambda: found.accounts.pop(consumers)])()
    return "F2", g.structure.where(account)


@of_draws
def a_draw_for_a_pool_that_is_not_there(g: ResourceGraph, source: Random) -> Named:
    found, account, consumers = ledger(g, source)
    v = g.structure.accounts.n + source.randrange(5)
    found.held[account][(v,)] = found.held[account].pop(consumers)
    return "A1", f"vertex {v}"


@pytest.mark.parametrize("name", DRAWN)
def test_rule_f2_check_names_the_supplier_of_a_draw_without_consumer(name: str, deeper: float) -> None:
    for seed in range(round(STATES * deeper)):
        source = Random(seed)
        graph = supplied(source)
        assert graph.check() == []
        expected = DRAWN[name](graph, source)
        assert expected in named(graph.check()), f"state {seed}"


# -- pass-through pools ----------------------------------------------------------------------------------------------------


def site() -> ResourceGraph:
    return sites.graph(sites.TWO_PDUS)


@pytest.mark.parametrize("rule", ["A1", "C1"])
@pytest.mark.parametrize("where", ["/site", "/site/node2", "power:/feed", "power:/feed/pdu0"])
def test_check_names_a_held_pass_through_pool_of_a_copy(where: str, rule: str) -> None:
    copied = site().copy("/site/node2/core1")
    assert copied.check() == []
    hold(copied, where, "x", 1, 3, 9)
    assert (rule, where) in named(copied.check())


def test_check_names_a_held_unlinked_pool() -> None:
    graph = site()
    graph.unlink("/site/node2")
    assert graph.check() == []
    (v,) = (v for v in range(graph.structure.tree_end, len(graph)) if graph.structure.is_way(v))
    graph.records._note(v, "x", 1, 3, 9)
    assert ("C1", graph.structure.where(v)) in named(graph.check())


# -- trees of instances --------------------------------------------------------------------------------------------------


class Tree:
    """A tree of instances in a random valid state: two children and a grandchild, all of which draw from one PDU."""

    def __init__(self, source: Random) -> None:
        self.clock = ManualClock()
        self.top = Instance(site(), queue_policy=source.choice(["easy", "conservative", "fcfs"]), clock=self.clock, name="top")
        self.job = self.top.submit("slot=2/node", duration_s=source.randint(500, 1000))
        self.child = self.top.spawn(self.job)
        self.sibling = self.top.spawn(self.top.submit("slot=1/node", duration_s=1000))
        self.grandchild = self.child.spawn(self.child.submit("slot=1/node", duration_s=source.randint(200, 400)))
        for instance in (self.sibling, self.grandchild, self.child):
            instance.submit(f"slot=1/[core;power={source.randint(50, 200)}]", duration_s=source.randint(50, 150))
        self.leaf = self.top.submit("slot=1/core", duration_s=source.choice([None, 40]))
        for _ in range(source.randrange(8)):
            watts = source.choice(["", f";power={source.randint(1, 300)}"])
            request = f"slot=1/[core={source.randint(1, 2)}{watts}]" if watts else "slot=1/core"
            with contextlib.suppress(FluxresError):
                source.choice(list(self.top.walk())).submit(request, duration_s=source.randint(10, 150))
        self.clock.now_s = float(source.randrange(30))
        self.top.advance()

    @property
    def holder(self) -> str:
        return fluid.encode(self.job.number)


TREES: dict[str, Callable[[Tree, Random], Named]] = {}


def of_tree(breaks: Callable[[Tree, Random], Named]) -> Callable[[Tree, Random], Named]:
    TREES[breaks.__name__] = breaks
    return breaks


def supplier(source: Random) -> str:
    return source.choice(["power:/feed", "power:/feed/pdu0"])


def holder_of(child: Instance) -> tuple[Instance, str]:
    assert child.parent is not None
    assert child.job_in_parent is not None
    return child.parent, fluid.encode(child.job_in_parent.number)


def some_child(tree: Tree, source: Random) -> Instance:
    return source.choice([tree.child, tree.sibling, tree.grandchild])


def own_node(child: Instance) -> str:
    """A node that the child can allocate."""
    structure = child.graph.structure
    return next(structure.path(v) for v in structure.of_type("node").tolist() if not structure.is_way(v))


def charge(instance: Instance, where: str, job: str, by: int) -> None:
    """Change what a job holds of a supplier, in the records and the planner alike."""
    records, v, now = instance.graph.records, instance.graph.vertex(where), instance.now
    if by > 0:
        records.planner.hold(v, by, now, now + TICKS_PER_S)
        records._note(v, job, by, now, now + TICKS_PER_S)
    else:
        records.planner.release(v, -by, now, now + TICKS_PER_S)
        records._erase(v, job, -by, now, now + TICKS_PER_S)


@of_tree
def a_node_that_the_parent_gave_to_another_job(tree: Tree, source: Random) -> Named:
    child = some_child(tree, source)
    parent, holder = holder_of(child)
    path, graph = own_node(child), parent.graph  # asked for once: between the two changes, the parent would start jobs there
    graph.free(holder, path)
    graph.allocate(path, job="x", start=tree.clock.now_s)
    return "N1", f"{child.address} {path}"


@of_tree
def a_core_that_a_sibling_has(tree: Tree, source: Random) -> Named:
    path = own_node(tree.sibling)
    held = tree.top.graph.records.held[tree.top.graph.vertex(path)]
    held[tree.holder] = held.pop(holder_of(tree.sibling)[1])
    return "N1", f"{tree.sibling.address} {path}/core{source.randrange(4)}"


@of_tree
def a_record_in_the_parent_that_is_gone(tree: Tree, source: Random) -> Named:
    child = some_child(tree, source)
    parent, holder = holder_of(child)
    path = own_node(child)
    del parent.graph.records.held[parent.graph.vertex(path)][holder]
    return "N1", f"{child.address} {path}"


@of_tree
def a_node_that_the_parent_takes_back_before_the_job_ends(tree: Tree, source: Random) -> Named:
    child = tree.child  # its job holds another node: one of which others free everything ends then, and its child with it
    parent, holder = holder_of(child)
    path = own_node(child)
    parent.graph.free(holder, path, start=tree.clock.now_s + source.randint(1, 100))
    return "N1", f"{child.address} {path}"


@of_tree
def memory_of_a_child_that_is_more_than_its_parent_has(tree: Tree, source: Random) -> Named:
    child = some_child(tree, source)
    path = f"{own_node(child)}/memory"
    child.graph.structure.size[child.graph.vertex(path)] += source.randint(1, 9)
    return "N1", f"{child.address} {path}"


@of_tree
def a_supplier_that_is_not_charged(tree: Tree, source: Random) -> Named:
    child, where = some_child(tree, source), supplier(source)
    parent, holder = holder_of(child)
    parent.graph.records.held[parent.graph.vertex(where)].pop(holder)
    return "N1", f"{child.address} {where}"


@of_tree
def a_supplier_that_is_charged_too_little(tree: Tree, source: Random) -> Named:
    child, where = some_child(tree, source), supplier(source)
    parent, holder = holder_of(child)
    charge(parent, where, holder, -source.randint(1, 40))
    return "N1", f"{child.address} {where}"


@of_tree
def a_supplier_that_is_charged_too_much(tree: Tree, source: Random) -> Named:
    child, where = some_child(tree, source), supplier(source)
    parent, holder = holder_of(child)
    charge(parent, where, holder, source.randint(1, 10))
    return "N1", f"{child.address} {where}"


@of_tree
def a_draw_of_a_grandchild_that_does_not_reach_the_outermost_instance(tree: Tree, source: Random) -> Named:
    where = supplier(source)
    between, holder = holder_of(tree.grandchild)
    drawn = between.graph.records.steps_of(between.graph.vertex(where), holder)
    records, v = tree.top.graph.records, tree.top.graph.vertex(where)
    for start, end, amount in drawn:
        records.planner.release(v, amount, start, end)
        records._erase(v, tree.holder, amount, start, end)
    assert drawn
    return "N1", f"{tree.child.address} {where}"


@of_tree
def a_draw_elsewhere_that_does_not_show(tree: Tree, source: Random) -> Named:
    child, where = some_child(tree, source), supplier(source)
    child.graph.records.set_elsewhere(child.graph.vertex(where), ())
    return "N1", f"{child.address} {where}"


@of_tree
def a_draw_elsewhere_that_is_stale(tree: Tree, source: Random) -> Named:
    child, where = some_child(tree, source), supplier(source)
    child.graph.records.set_elsewhere(child.graph.vertex(where), ((0, source.randint(1, 10), 1),))
    return "N1", f"{child.address} {where}"


@of_tree
def a_supplier_of_which_more_is_drawn_than_there_is(tree: Tree, source: Random) -> Named:
    where = supplier(source)
    v = tree.top.graph.vertex(where)
    tree.top.graph.records.held[v]["x"] = ((0, FOREVER, tree.top.graph.structure.size.item(v)),)
    child = source.choice([tree.child, tree.sibling])
    return source.choice([("A1", f"top {where}"), ("N1", f"{child.address} {where}")])


@of_tree
def others_on_a_pool_that_is_not_shared_with_them(tree: Tree, source: Random) -> Named:
    instance = source.choice(list(tree.top.walk()))
    where = f"{own_node(instance)}/memory"
    instance.graph.records._note(instance.graph.vertex(where), ELSEWHERE, 1, 3, 9)
    return "N1", f"{instance.address} {where}"


@of_tree
def a_child_of_a_job_that_has_ended(tree: Tree, source: Random) -> Named:
    child = some_child(tree, source)
    assert child.job_in_parent is not None
    child.job_in_parent.state = State.INACTIVE
    return "N1", child.address


@of_tree
def a_child_that_its_job_does_not_know(tree: Tree, source: Random) -> Named:
    child = some_child(tree, source)
    assert child.job_in_parent is not None
    child.job_in_parent.child = source.choice([None, tree.top])
    return "N1", child.address


@of_tree
def a_job_that_runs_and_holds_nothing_for_a_time(tree: Tree, source: Random) -> Named:
    (path,) = (path for path, _ in tree.leaf.pools)
    now_s = tree.clock.now_s
    with recording.own_changes(tree.top.inventory):  # it would end, if the instance noticed a change by others
        tree.top.graph.free(fluid.encode(tree.leaf.number), [path], start=now_s, end=now_s + 1)
    return "T1", f"top {path}"


@of_tree
def records_of_a_job_that_has_ended(tree: Tree, source: Random) -> Named:
    (path,) = (path for path, _ in tree.leaf.pools)
    tree.top.finish(tree.leaf)
    now_s = tree.clock.now_s
    tree.top.graph.allocate([path], job=fluid.encode(tree.leaf.number), start=now_s, end=now_s + source.randint(1, 100))
    return "A6", f"top {path}"


@of_tree
def a_job_that_has_not_ended_and_has_lost_a_pool(tree: Tree, source: Random) -> Named:
    instance = source.choice([tree.top, tree.sibling, tree.grandchild])
    pool, *more = (path for job in instance.jobs(State.RUN) if job.child is None for path, _ in job.pools if "core" in path)
    assert pool, more
    records, v = instance.graph.records, instance.graph.vertex(pool)
    del records.held[v]
    return "T1", f"{instance.address} {pool}"


@of_tree
def a_way_in_a_child_that_is_held(tree: Tree, source: Random) -> Named:
    child = some_child(tree, source)
    hold(child.graph, "/site", "x", 1, 3, 9)
    return source.choice(["A1", "C1"]), f"{child.address} /site"


@of_tree
def a_rule_that_the_graph_of_a_child_breaks(tree: Tree, source: Random) -> Named:
    child = some_child(tree, source)
    path = f"{own_node(child)}/memory"
    child.graph.records.held[child.graph.vertex(path)] = {"x": ((3, 9, 9),)}
    return source.choice(["A1", "A6"]), f"{child.address} {path}"


@pytest.mark.parametrize("name", TREES)
def test_check_names_the_rule_the_instance_and_the_pool(name: str, deeper: float) -> None:
    for seed in range(round(STATES * deeper)):
        source = Random(seed)
        tree = Tree(source)
        assert tree.top.check() == []
        expected = TREES[name](tree, source)
        assert expected in named(tree.top.check()), f"state {seed}"


@of_tree
def an_index_of_an_instance_with_a_job_that_holds_nothing(tree: Tree, source: Random) -> Named:
    instance = source.choice(list(tree.top.walk()))
    instance.graph.records.pools_of["x"] = set()
    return "A6", f"{instance.address} jobs"


@of_tree
def a_child_that_is_not_among_the_children(tree: Tree, source: Random) -> Named:
    child = some_child(tree, source)
    address, (parent, _) = child.address, holder_of(child)
    assert child.job_in_parent is not None
    del parent._children[child.job_in_parent.number]
    return "N1", address


@of_tree
def a_child_that_expires_after_its_job(tree: Tree, source: Random) -> Named:
    child = some_child(tree, source)
    child.lifetime.expires += source.randint(1, 10**9)
    return "N1", child.address


# -- jobs of one instance ------------------------------------------------------------------------------------------------

CABLES = """
fluxres: 1
name: lab
resources:
  - {type: node, count: 4, with: [{type: core, count: 2}, {type: memory, size: 8, id: null}]}
graphs:
  power:
    hierarchy: true
    pools: [{type: pdu, count: 1, size: 2000, unit: W}]
    edges: [{from: "power:/pdu0", to: "/lab/node[0-3]", capacity: 500}]
"""


class Busy:
    """An instance, outermost or a child, with a job that draws power through a cable, and one that waits and is reserved."""

    def __init__(self, source: Random) -> None:
        self.clock = ManualClock()
        self.top = self.instance = Instance(sites.graph(CABLES), queue_policy="easy", clock=self.clock, name="top")
        if source.random() < 0.5:
            self.instance = self.top.spawn(self.top.submit("slot=4/[node;power=400]", duration_s=1000))
        self.watts, self.memory = source.randint(50, 300), source.randint(2, 7)
        self.run = self.instance.submit(
            f"slot/[core=1;memory={self.memory};power={self.watts}]", duration_s=source.randint(60, 90)
        )
        self.other = self.instance.submit("slot=2/node", duration_s=source.choice([None, 100]))
        self.wait = self.instance.submit("slot=2/node", duration_s=60)
        self.held = self.instance.submit("slot=1/node", duration_s=60, urgency=0)
        self.clock.now_s = float(source.randrange(20))
        self.top.advance()
        assert (self.run.state, self.other.state, self.wait.state) == (State.RUN, State.RUN, State.SCHED)
        assert self.wait.reserved_at is not None

    @property
    def where(self) -> str:
        """The instance and its job that runs."""
        return f"{self.instance.address} {self.run.id}"

    def free(self, job: Job, path: str | None = None, units: int | None = None, start: float | None = None) -> None:
        """Free something that a job holds, which is not allowed."""
        with recording.own_changes(self.instance.inventory):
            wanted = None if path is None else [path] if units is None else [(path, units)]
            self.instance._graph.free(fluid.encode(job.number), wanted, start=start)


BUSY: dict[str, Callable[[Busy, Random], Named]] = {}


def of_busy(breaks: Callable[[Busy, Random], Named]) -> Callable[[Busy, Random], Named]:
    BUSY[breaks.__name__] = breaks
    return breaks


@of_busy
def the_charge_of_a_cable_that_is_gone(busy: Busy, source: Random) -> Named:
    cable = "power: power:/pdu0 -> /lab/node0"
    busy.free(busy.run, cable, source.choice([None, 1, busy.watts]))
    return "T1", f"{busy.instance.address} {cable}"


@of_busy
def a_charge_of_a_supplier_that_is_too_small(busy: Busy, source: Random) -> Named:
    busy.free(busy.run, "power:/pdu0", source.randint(1, busy.watts))
    return "T1", f"{busy.instance.address} power:/pdu0"


@of_busy
def a_pool_of_a_running_job_that_is_free_before_its_limit(busy: Busy, source: Random) -> Named:
    busy.free(busy.run, "/lab/node0/core0", start=busy.clock.now_s + source.randint(0, 30))
    return "T1", f"{busy.instance.address} /lab/node0/core0"


@of_busy
def some_units_of_a_running_job_that_are_gone(busy: Busy, source: Random) -> Named:
    busy.free(busy.run, "/lab/node0/memory", source.randint(1, busy.memory - 1))
    return "T1", f"{busy.instance.address} /lab/node0/memory"


@of_busy
def a_node_of_a_job_whose_child_is_over(busy: Busy, source: Random) -> Named:
    child = busy.instance.spawn(busy.other)
    node = source.choice([path for path, _ in busy.other.pools])
    child.shut("no more")
    assert child.is_closed
    assert busy.top.check() == []
    busy.free(busy.other, node)
    return "T1", f"{busy.instance.address} {node}"


@of_busy
def the_charge_of_a_cable_of_a_job_whose_child_is_over(busy: Busy, source: Random) -> Named:
    busy.instance.spawn(busy.run).shut("no more")
    assert busy.top.check() == []
    cable = "power: power:/pdu0 -> /lab/node0"
    busy.free(busy.run, cable, source.choice([None, 1]))
    return "T1", f"{busy.instance.address} {cable}"


@of_busy
def a_running_job_in_a_state_in_which_jobs_wait(busy: Busy, source: Random) -> Named:
    busy.run.state = source.choice([State.SCHED, State.DEPEND])
    return "J1", busy.where


@of_busy
def a_waiting_job_that_runs_on_nothing(busy: Busy, source: Random) -> Named:
    busy.wait.state = State.RUN
    return "J1", f"{busy.instance.address} {busy.wait.id}"


@of_busy
def a_running_job_without_resources(busy: Busy, source: Random) -> Named:
    busy.run.claim = None
    return "J1", busy.where


@of_busy
def a_limit_that_is_not_the_end_of_what_the_job_has(busy: Busy, source: Random) -> Named:
    busy.run.limit += source.choice([-1, 1]) * source.randint(1, 10 * TICKS_PER_S)
    return "T1", busy.where


@of_busy
def resources_that_do_not_run_in_the_inventory(busy: Busy, source: Random) -> Named:
    busy.instance.inventory.running.remove(busy.run.claim)
    return "J1", busy.where


@of_busy
def resources_that_run_in_the_inventory_until_another_end(busy: Busy, source: Random) -> Named:
    running = busy.instance.inventory.running
    running.ends[running.holds.index(busy.run.claim)] += source.choice([-1, 1]) * source.randint(1, TICKS_PER_S)
    return "J1", busy.where


@of_busy
def resources_that_run_in_the_inventory_for_no_job(busy: Busy, source: Random) -> Named:
    del busy.instance.lifecycle.jobs[busy.run.number]
    return "J1", busy.where


@of_busy
def a_waiting_job_that_is_not_in_the_queue_once(busy: Busy, source: Random) -> Named:
    jobs = busy.instance.queue._jobs
    source.choice([lambda: jobs.remove(busy.wait), lambda: jobs.append(busy.wait)])()
    return "J1", f"{busy.instance.address} {busy.wait.id}"


@of_busy
def a_held_job_in_the_queue(busy: Busy, source: Random) -> Named:
    busy.instance.queue.add(busy.held)
    return "J1", f"{busy.instance.address} {busy.held.id}"


@of_busy
def a_queue_that_miscounts(busy: Busy, source: Random) -> Named:
    busy.instance.queue._count += source.choice([-1, 1])
    return "J1", f"{busy.instance.address} queue"


@of_busy
def a_reservation_without_its_records(busy: Busy, source: Random) -> Named:
    node = source.choice(sorted(path for path in ("/lab/node1", "/lab/node3") if _is_held(busy, path)))
    busy.free(busy.wait, source.choice([None, node]))
    return "J1", f"{busy.instance.address} {node}"


def _is_held(busy: Busy, path: str) -> bool:
    records = busy.instance._graph.records
    return bool(records.steps_of(busy.instance._graph.vertex(path), fluid.encode(busy.wait.number)))


@of_busy
def a_reservation_that_not_all_know_of(busy: Busy, source: Random) -> Named:
    instance, wait = busy.instance, busy.wait
    known: list[Callable[[], object]] = [
        lambda: instance.queue._reserved.pop(wait.number),
        lambda: instance.inventory._reserved.pop(wait.number),  # type: ignore[attr-defined]  # of the graph's inventory
        lambda: setattr(wait, "reserved", source.choice([-1, wait.reserved + 1])),
    ]
    source.choice(known)()
    return "J1", f"{instance.address} {wait.id}"


@of_busy
def a_waiting_job_that_holds_what_is_not_reserved(busy: Busy, source: Random) -> Named:
    path = "/lab/node0/core1"
    busy.instance.inventory.unreserve(busy.wait.number)
    busy.instance.queue.drop(busy.wait)
    with recording.own_changes(busy.instance.inventory):
        busy.instance._graph.allocate([path], job=fluid.encode(busy.wait.number), start=busy.clock.now_s, end=200)
    return "A6", f"{busy.instance.address} {path}"


@pytest.mark.parametrize("name", BUSY)
def test_rule_j1_and_t1_check_names_the_instance_and_the_job_or_the_pool(name: str, deeper: float) -> None:
    for seed in range(round(STATES * deeper)):
        source = Random(seed)
        busy = Busy(source)
        assert busy.top.check() == []
        expected = BUSY[name](busy, source)
        assert expected in named(busy.top.check()), f"state {seed}"


# -- inventories that count ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("change", [-1, 1])
@pytest.mark.parametrize(
    ("inventory", "request_", "counter", "place"),
    [
        ("named", "slot=2/node", "free_count", "node"),
        ("named", "slot=2/node", "free", "/lab/node0"),
        ("counted:memory", "slot/memory=3", "free", "/lab/memory"),
    ],
)
def test_rule_j1_check_names_units_wrongly_counted_as_free(
    inventory: str, request_: str, counter: str, place: str, change: int
) -> None:
    machine = Recipe("lab", children=(Recipe("node", count=4), Recipe("memory", size=8, ids=None)))
    kind, _, counted = inventory.partition(":")
    top = Instance(ResourceGraph(expand(machine, origin=uuids.new_origin())), inventory=kind, clock=ManualClock(), name="top")
    top.submit(request_, duration_s=9)
    assert (top.inventory.kind, top.check()) == (kind, []), counted
    before = getattr(top.inventory, counter)
    setattr(top.inventory, counter, before ^ 1 if place.startswith("/lab/node") else before + change)
    assert ("J1", f"top {place}") in named(top.check())


def test_rule_j1_holds_after_a_change_of_urgency() -> None:
    found: list[Problem] = []
    top = Instance(
        site(),
        clock=ManualClock(),
        events=lambda job, event: found.extend(job.instance.check() if event.name == "urgency" else ()),
    )
    top.submit("slot=6/node")
    job = top.submit("slot=1/node", urgency=0)
    top.set_urgency(job, 16)
    top.set_urgency(job, 0)
    assert (job.state, found) == (State.SCHED, [])
