"""Repeat recorded choices of HyperQueue, canary, CTest and JQM: requests, allocations, returns, and what is left."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

from fluxres.errors import FluxresError
from fluxres.formats.peers.canary import language as canary
from fluxres.formats.peers.canary import resource_pool as canary_pools
from fluxres.formats.peers.canary.allocator import InstanceSlots, Shelf, Test, cost, start
from fluxres.formats.peers.ctest import groups as ctest_groups
from fluxres.formats.peers.ctest import resource_spec as ctest_files
from fluxres.formats.peers.ctest.allocator import Slots, pack, place
from fluxres.formats.peers.jqm import managers as jqm
from fluxres.formats.peers.jqm.allocator import DiscreteBookings, HighlanderBookings, QuantityBookings, QueuedJob, Queues
from tests.conformance import hyperqueue_workers as hyperqueue
from tests.conformance.runner import Case, NotCovered
from tests.conformance.seed_cases import KINDS, Family, Operation, environment, managers_of, same, source, unknown


def in_order(play: Callable[[Case], Iterator[str | None]], *operations: str) -> Family:
    """Cases whose operations follow each other."""
    return Family(operations, lambda case: (wrong for wrong in play(case) if wrong is not None))


# -- canary ----------------------------------------------------------------------------------------------------------


def requests_of(given: list[dict[str, Any]]) -> list[canary.NodeRequest]:
    return [
        canary.NodeRequest(tuple(canary.Item(item["type"], item["slots"]) for item in each["items"]), each["exclusive"])
        for each in given
    ]


def plain(checkout: dict[str, list[InstanceSlots]], *, flat: bool) -> dict[str, list[dict[str, Any]]]:
    return {
        word: [{**({} if flat else {"node": each.node}), "id": each.id, "slots": each.slots} for each in taken]
        for word, taken in checkout.items()
    }


def canary_allocate(case: Case) -> Iterator[str | None]:
    pool = canary_pools.parse(source(case["pool"]["pool"]).document)
    shelf = Shelf(pool.machine(), allow_multinode=pool.allow_multinode is not False)
    flat = "flat" in case["pool"]["syntax"]
    before = shelf.free()
    out: dict[str, dict[str, list[InstanceSlots]]] = {}
    for operation in case["operations"]:
        try:
            yield canary_step(operation, shelf, pool, out, before, flat=flat)
        except FluxresError as error:
            expect = operation.get("expect")
            expected = expect == "error" or (isinstance(expect, dict) and expect.get("error"))
            yield None if expected else f"refused: {error}"


def canary_step(  # an operation of a case: as many answers as there are operations
    operation: Operation,
    shelf: Shelf,
    pool: canary_pools.ResourcePool,
    out: dict[str, dict[str, list[InstanceSlots]]],
    before: dict[str, Any],
    *,
    flat: bool,
) -> str | None:
    expect = operation.get("expect")
    match operation["op"]:
        case "request":
            found = shelf.checkout(requests_of(operation["request"]))
            out.update({} if found is None else {operation["id"]: found})
            wrong = same(expect.get("granted"), found is not None)
            return wrong or (None if "resources" not in expect else same(expect["resources"], plain(found or {}, flat=flat)))
        case "feasible":
            return same(expect, shelf.is_feasible(requests_of(operation["request"])))
        case "unchanged":
            return same(before, shelf.free())
        case "release":
            shelf.checkin(out[operation["id"]])
            return same(None, expect)
        case "release_with_extra":
            extra = operation.get("extra", {})
            shelf.checkin({**out[operation["id"]], **extra})
            return same(expect, None)
        case "release_raw":
            shelf.checkin(operation["allocation"]["resources"])
            return None if expect is None else f"expected {expect}"
        case "state" | "state_flat":
            free = shelf.free()
            return same(expect, next(iter(free.values())) if operation["op"] == "state_flat" else free)
        case "count_per_node":
            return same(expect, pool.per_node(operation["type"]))
        case "counts":
            return same(expect, {key: counted(pool, key) for key in expect})
        case _:
            raise unknown(operation)


def counted(pool: canary_pools.ResourcePool, key: str) -> Any:
    nodes = pool.named()
    if key == "nodes":
        return len(nodes)
    if key.endswith("_slots_by_node"):
        word = canary.plural(key.removesuffix("_slots_by_node"))
        return {name: node.slots()[word] for name, node in nodes.items()}
    if key.endswith("_by_node"):
        return {name: node.counts()[key.removesuffix("_by_node")] for name, node in nodes.items()}
    if key.endswith("_per_node"):
        return pool.per_node(key.removesuffix("_per_node"))
    return sum(node.counts()[key] for node in nodes.values())


# -- CTest -----------------------------------------------------------------------------------------------------------


def ctest_allocate(case: Case) -> Iterator[str | None]:
    instances = case["pool"]["instances"]
    word = case["pool"].get("type", "widgets")
    slots = Slots({word: instances})
    for operation in case["operations"]:
        expect = operation["expect"]
        match operation["op"]:
            case "pack":
                for strategy in ("round_robin", "block"):
                    found = pack(operation["slots_needed"], instances, "block" if strategy == "block" else "round-robin")
                    yield same(expect["granted"], found is not None)
                    yield same(expect.get(strategy, found), found)
            case "take":
                yield same(expect, slots.take(operation["type"], operation["id"], operation["slots"]))
            case "give_back":
                yield same(expect, slots.give_back(operation["type"], operation["id"], operation["slots"]))
            case "locked":
                yield same(expect, slots.locked(word))
            case _:
                raise unknown(operation)


def ctest_environment(case: Case) -> Iterator[str | None]:
    machine = {
        word: {each.id: each.slots for each in instances}
        for word, instances in ctest_files.parse(source(case["pool"]).document).items()
    }
    for operation in case["operations"]:
        expect = operation["expect"]
        found = place(ctest_groups.parse(operation["groups"] or ""), machine)
        yield same(expect["granted"], found is not None)
        if found is not None:
            yield same(expect["env"], ctest_groups.environment(found))
            yield same(found, ctest_groups.given(ctest_groups.environment(found)))


# -- JQM -------------------------------------------------------------------------------------------------------------


def jqm_allocate(case: Case) -> Iterator[str | None]:
    (rules,) = managers_of(case)
    bookings = QuantityBookings(rules) if isinstance(rules, jqm.Quantity) else DiscreteBookings(rules)  # type: ignore[arg-type]  # no highlander here
    for operation in case["operations"]:
        expect = operation.get("expect")
        match operation["op"]:
            case "slots_available":
                yield same(expect, bookings.slots_available())
            case "release":
                bookings.release(operation["job"])
            case "book":
                yield same(expect["answer"], bookings.book(operation["job"], operation["parameters"]))
                yield booked(expect, bookings, operation["job"])
            case "reconfigure":
                given = {key: operation[key] for key in ("quantity", "list", "consumption") if key in operation}
                bookings.reconfigure(jqm.configured(jqm.type_of(rules), rules.key, given))  # type: ignore[arg-type]  # of the same type
            case _:
                raise unknown(operation)


def booked(expect: dict[str, Any], bookings: QuantityBookings | DiscreteBookings, job: str) -> str | None:
    if isinstance(bookings, QuantityBookings):
        return None
    wanted = {"expect_env_absent": expect.get("env_absent", []), "expect_env_set": expect.get("env_set", {})}
    wrong = environment(wanted, bookings.environment(job))
    return wrong or same(sorted(expect.get("items_set", bookings.items(job))), sorted(bookings.items(job)))


# -- queues of canary and JQM ----------------------------------------------------------------------------------------


def canary_queue(case: Case) -> Iterator[str | None]:
    """Tests that wait for cpus of one node: which start now, in which order."""
    shelf = Shelf({"node": {word: {str(at): 1 for at in range(number)} for word, number in case["pool"].items()}})
    for operation in case["operations"]:
        tests = []
        for job in operation["jobs"]:
            if job.keys() != {"id", "cpus", "runtime"}:
                raise NotCovered(f"tests with {', '.join(sorted(job))}")
            wanted = canary.NodeRequest((canary.Item("cpus", 1),) * job["cpus"])
            tests.append(Test(job["id"], (wanted,), cost(job["cpus"], job["runtime"])))
        yield same(operation["expect_start_order_now"], list(start(shelf, tests)))


JOB_KEYS = {"id", "priority", "position", "enqueued_at", "definition", "highlander", "frozen", "parameters", "needs"}
MANAGER_KEYS = {"type", "key", "shared", "quantity", "consumption", "list"}


def jqm_queues(case: Case) -> Queues:
    """The queues of a case; managers that are shared are one for all queues, and so are highlanders, which use the database."""
    pool = case["pool"]
    if pool.keys() != {"syntax", "policy", "queues"} or pool["policy"] not in ("poller", "tours"):
        raise NotCovered(f"pool of {', '.join(sorted(pool))}, policy {pool.get('policy')}")
    shared: dict[str, Any] = {}

    def bookings(each: dict[str, Any]) -> Any:
        if not each.keys() <= MANAGER_KEYS:
            raise NotCovered(f"manager with {', '.join(sorted(each))}")
        (rules,) = managers_of({"pool": {"managers": [each]}})
        if not each.get("shared"):
            return _bookings(rules)
        return shared.setdefault(each["key"], _bookings(rules))

    return Queues({queue["name"]: [bookings(each) for each in queue["managers"]] for queue in pool["queues"]}, pool["policy"])


def _bookings(rules: jqm.Rules) -> QuantityBookings | DiscreteBookings | HighlanderBookings:
    match rules:
        case jqm.Quantity():
            return QuantityBookings(rules)
        case jqm.Discrete():
            return DiscreteBookings(rules)
        case _:
            return HighlanderBookings(rules)


def _job(given: dict[str, Any], arrival: int) -> QueuedJob:
    if not given.keys() <= JOB_KEYS:
        raise NotCovered(f"job with {', '.join(sorted(given))}")
    needs = {f"{jqm.PREFIX}{key}.consumption": number for key, number in given.get("needs", {}).items()}
    return QueuedJob(
        given["id"],
        given.get("definition"),
        given.get("priority") or 0,
        given.get("enqueued_at", arrival),
        given.get("position"),
        {**given.get("parameters", {}), **needs},
        given.get("highlander", False),
        given.get("frozen", False),
    )


def jqm_schedule(case: Case) -> Iterator[str | None]:
    queues = jqm_queues(case)
    arrivals = itertools.count()
    for operation in case["operations"]:
        match operation:
            case {"op": "submit", "queue": queue, "jobs": jobs, **rest} if rest.keys() <= {"expect_distinct_ids"}:
                ids = {queues.submit(queue, _job(job, next(arrivals))) for job in jobs}
                yield same(rest.get("expect_distinct_ids", len(ids)), len(ids))
            case {"op": "end", "jobs": jobs, **rest} if rest.keys() <= {"expect_poll_triggered"} and all(rest.values()):
                for job in jobs:
                    queues.end(job)
            case {"op": "unfreeze", "jobs": jobs, **rest} if not rest:
                for job in jobs:
                    queues.freeze(job, False)
            case {"op": "poll", **expect}:
                yield _polled(queues, expect)
            case {"op": "check", **expect}:
                yield _state(queues, expect)
            case _:
                raise unknown(operation)


def _polled(queues: Queues, expect: dict[str, Any]) -> str | None:
    started = [job.id for job in queues.poll()]
    facts = {
        "now": expect.get("now"),  # ages only matter relative to each other
        "expect_started": started if len(queues.managers) == 1 else sorted(started),
        "expect_started_in_order": started,
        "expect_started_count": len(started),
        "free": {name: _free(queues, name) for name in expect.get("free", {})},
    }
    if not expect.keys() <= facts.keys():
        raise NotCovered(f"poll with {', '.join(sorted(expect))}")
    wanted = dict(expect)
    if "expect_started" in wanted and len(queues.managers) > 1:
        wanted["expect_started"] = sorted(wanted["expect_started"])
    return same(wanted, {key: facts[key] for key in wanted})


def _state(queues: Queues, expect: dict[str, Any]) -> str | None:
    facts = {
        "running": sorted(queues.running()),
        "waiting": sorted(queues.waiting()),
        "running_of_definition": {name: queues.running_of(name) for name in expect.get("running_of_definition", {})},
    }
    if not expect.keys() <= facts.keys():
        raise NotCovered(f"check with {', '.join(sorted(expect))}")
    wanted = {key: sorted(value) if isinstance(value, list) else value for key, value in expect.items()}
    return same(wanted, {key: facts[key] for key in wanted})


def _free(queues: Queues, name: str) -> int:
    (free,) = {
        manager.slots_available()
        for managers in queues.managers.values()
        for manager in managers
        if not isinstance(manager, HighlanderBookings) and manager.rules.key == name
    }
    return free


CANARY_STEPS = (
    "request", "feasible", "unchanged", "release", "release_with_extra", "release_raw", "state", "state_flat", "count_per_node",
    "counts",
)  # fmt: skip
HYPERQUEUE = ("request", "release", "free", "force_take", "check", "reconfigure", "modify", "modify-pool")

ALLOCATIONS: dict[tuple[str, str], Family] = {
    ("hyperqueue", "allocate"): in_order(hyperqueue.allocate, *HYPERQUEUE),
    ("hyperqueue", "modify-pool"): in_order(hyperqueue.allocate, *HYPERQUEUE),
    ("hyperqueue", "env"): in_order(hyperqueue.launch, "launch"),
    ("hyperqueue", "schedule"): in_order(hyperqueue.schedule, "schedule"),
    ("canary", "allocate"): in_order(canary_allocate, *CANARY_STEPS),
    ("ctest", "allocate"): in_order(ctest_allocate, "pack", "take", "give_back", "locked"),
    ("ctest", "env"): in_order(ctest_environment, "launch-groups"),
    ("jqm", "allocate"): in_order(jqm_allocate, "slots_available", "release", "book", "reconfigure"),
    ("canary", "schedule"): in_order(canary_queue, "queue"),
    ("jqm", "schedule"): in_order(jqm_schedule, "submit", "poll", "end", "unfreeze", "check"),
}
EVERY = {**KINDS, **ALLOCATIONS}
"""By system and kind of a case."""
