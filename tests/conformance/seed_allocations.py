"""Repeat recorded choices of HyperQueue, canary, CTest and JQM: requests, allocations, returns, and what is left."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

from fluxres.errors import FluxresError, InfeasibleRequest, InputError, InsufficientResources, NotHeld, UnknownJob
from fluxres.formats.peers import instances
from fluxres.formats.peers.canary import language as canary
from fluxres.formats.peers.canary import resource_pool as canary_pools
from fluxres.formats.peers.canary.allocator import checkin, free_slots, is_feasible
from fluxres.formats.peers.canary.environment import checked_out
from fluxres.formats.peers.ctest import groups as ctest_groups
from fluxres.formats.peers.ctest import resource_spec as ctest_files
from fluxres.formats.peers.ctest.allocator import pack
from fluxres.formats.peers.ctest.environment import environment as ctest_variables
from fluxres.formats.peers.jqm import jobs as jqm_jobs
from fluxres.formats.peers.jqm import managers as jqm
from fluxres.formats.peers.jqm import resource_managers
from fluxres.formats.peers.jqm.pollers import pollers
from fluxres.formats.peers.jqm.reconfiguring import reconfigure
from fluxres.instance import Instance
from fluxres.instance.job import URGENCY_DEFAULT, URGENCY_HELD, Job, JobEvent
from fluxres.instance.jqm import JqmPoller, JqmTours
from fluxres.instance.states import State
from fluxres.model import ResourceGraph
from fluxres.syntax.jobspec import Request
from fluxres.syntax.variants import type_of
from tests.conformance import hyperqueue_workers as hyperqueue
from tests.conformance.runner import Case, NotCovered
from tests.conformance.seed_cases import KINDS, Family, Operation, environment, same, source, unknown


def in_order(play: Callable[[Case], Iterator[str | None]], *operations: str) -> Family:
    """Cases whose operations follow each other."""
    return Family(operations, lambda case: (wrong for wrong in play(case) if wrong is not None))


def unsound(audited: ResourceGraph | Instance) -> str | None:
    """A rule that does not hold."""
    found = audited.check()
    return f"a rule is broken: {found[0]}" if found else None


# -- canary ----------------------------------------------------------------------------------------------------------


def canary_request(given: list[dict[str, Any]]) -> Request:
    known = {"items", "exclusive"}
    strange = {key for each in given for key in each} - known | {
        key for each in given for item in each["items"] for key in item
    } - {
        "type",
        "slots",
    }
    if strange:
        raise NotCovered(f"canary request with {', '.join(sorted(strange))}")
    return Request.parse(json.dumps(given), format="canary")


class Canary:
    """A pool of a case as a graph, on which requests are allocated as on any other."""

    def __init__(self, case: Case) -> None:
        self.pool = canary_pools.parse(source(case["pool"]["pool"]).document)
        self.flat = "flat" in case["pool"]["syntax"]
        self._pool = case["pool"]["pool"]
        self.out: dict[str, dict[str, list[Any]]] = {}

    @cached_property
    def graph(self) -> ResourceGraph:
        """Errors: InputError for a pool without nodes."""
        return ResourceGraph(canary_pools.read(source(self._pool)).structure)

    @cached_property
    def before(self) -> dict[str, Any]:
        return free_slots(self.graph)

    def request(self, name: str, wanted: list[dict[str, Any]]) -> dict[str, list[Any]] | None:
        self.before  # noqa: B018 - as it was before the first request
        request = canary_request(wanted)
        free = free_slots(self.graph)
        try:
            made = self.graph.allocate(request, job=name)
        except (InsufficientResources, InfeasibleRequest):
            if free_slots(self.graph) != free:
                raise InputError("a refusal changed something") from None
            return None
        self.out[name] = checked_out(request, made)
        return self.out[name]

    def listed(self, found: dict[str, list[Any]] | None) -> dict[str, list[Any]]:
        """As a case has it: without the node where the form has none."""
        keys = ("id", "slots") if self.flat else ("node", "id", "slots")
        return {word: [{key: each[key] for key in keys} for each in some] for word, some in (found or {}).items()}

    def returned(self, resources: dict[str, list[Any]]) -> dict[str, list[Any]]:
        """As the graph has it: with the node."""
        node = next(iter(self.before))
        return {
            word: [{"node": node, **each} if isinstance(each, dict) else each for each in some]
            for word, some in resources.items()
        }


def canary_allocate(case: Case) -> Iterator[str | None]:
    machine = Canary(case)
    for operation in case["operations"]:
        try:
            yield canary_step(operation, machine)
            yield unsound(machine.graph)
        except FluxresError as error:
            expect = operation.get("expect")
            expected = expect == "error" or (isinstance(expect, dict) and bool(expect.get("error")))
            yield None if expected else f"refused: {error}"


def canary_step(operation: Operation, machine: Canary) -> str | None:
    expect = operation.get("expect")
    match operation["op"]:
        case "request":
            if not set(expect) <= {"granted", "resources", "error"}:
                raise NotCovered(f"a request that expects {', '.join(sorted(expect))}")
            found = machine.request(operation["id"], operation["request"])
            if expect.get("error"):
                return "expected an error"
            wrong = same(expect.get("granted", found is not None), found is not None)
            return wrong or (None if "resources" not in expect else same(expect["resources"], machine.listed(found)))
        case "feasible":
            request = canary_request(operation["request"])
            return same(expect, is_feasible(machine.graph, request))
        case "unchanged":
            return same(machine.before, free_slots(machine.graph))
        case "release":
            checkin(machine.graph, machine.out[operation["id"]])
            return same(None, expect)
        case "release_with_extra":
            extra = operation.get("extra", operation.get("resources", {}))
            if not extra:
                raise unknown(operation)
            both = {word: [*machine.out[operation["id"]].get(word, []), *machine.returned(extra).get(word, [])] for word in
                    {**machine.out[operation["id"]], **extra}}  # fmt: skip
            checkin(machine.graph, both)
            return same(expect, None)
        case "release_raw":
            given = operation["allocation"]
            checkin(machine.graph, machine.returned(given.get("resources", given)))
            return None if expect is None else f"expected {expect}"
        case "state" | "state_flat":
            free = free_slots(machine.graph)
            wanted = expect if operation["op"] == "state" and not machine.flat else {next(iter(free)): expect}
            return same(wanted if operation["op"] != "state" or set(wanted) == set(free) else expect, free)
        case "count_per_node":
            return same(expect, machine.pool.per_node(operation["type"]))
        case "counts":
            return same(expect, {key: counted(machine.pool, key) for key in expect})
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
    if key.endswith("_slots"):
        return sum(node.slots().get(canary.plural(key.removesuffix("_slots")), 0) for node in nodes.values())
    return sum(node.counts()[key] for node in nodes.values())


# -- CTest -----------------------------------------------------------------------------------------------------------


def ctest_graph(word: str, slots: dict[str, int]) -> ResourceGraph:
    document = {"version": {"major": 1, "minor": 0}, "local": [{word: [{"id": key, "slots": n} for key, n in slots.items()]}]}
    return ResourceGraph(ctest_files.read(source(document)).structure)


class CTestMachine:
    """Instances of one type as a graph; each taking of slots is a job."""

    def __init__(self, word: str, slots: dict[str, int]) -> None:
        self.word, self.graph = word, ctest_graph(word, slots)
        self.total = slots
        self.pools = self._pools()

    def _pools(self) -> dict[str, int]:
        structure = self.graph.structure
        some = instances.inside(structure, instances.nodes(structure)[0], type_of(self.word, structure.types))
        return dict(zip(instances.labels(structure, some), some.tolist(), strict=True))

    def locked(self) -> dict[str, int]:
        (node,) = free_slots(self.graph).values()
        return {name: self.total[name] - left for name, left in node[self.word].items()}

    def take(self, word: str, name: str, slots: int) -> bool:
        v = self.pools.get(name) if word == self.word else None
        if v is None or (not slots and not instances.has_slots(self.graph.structure, v)):
            return False
        try:
            self.graph.allocate([(v, slots)], job="tests")
        except (InsufficientResources, InfeasibleRequest):
            return False
        return True

    def give_back(self, word: str, name: str, slots: int) -> bool:
        v = self.pools.get(name) if word == self.word else None
        if v is None:
            return False
        try:
            self.graph.free("tests", [(v, slots)])
        except (NotHeld, UnknownJob):
            return False
        return True


def ctest_allocate(case: Case) -> Iterator[str | None]:
    slots = case["pool"]["instances"]
    machine = CTestMachine(case["pool"].get("type", "widgets"), slots)
    for operation in case["operations"]:
        expect = operation["expect"]
        match operation["op"]:
            case "pack":
                if not set(expect) <= {"granted", "round_robin", "block"}:
                    raise NotCovered(f"a packing that expects {', '.join(sorted(expect))}")
                found = ctest_packed(ctest_graph("widgets", slots), operation["slots_needed"])
                yield same(expect["granted"], found is not None)
                yield same(expect.get("round_robin", found), found)
                block = pack(operation["slots_needed"], slots, "block")  # CTest's other order, which its scheduler does not use
                yield same(expect["granted"], block is not None)
                yield same(expect.get("block", block), block)
            case "take":
                yield same(expect, machine.take(operation["type"], operation["id"], operation["slots"]))
            case "give_back":
                yield same(expect, machine.give_back(operation["type"], operation["id"], operation["slots"]))
            case "locked":
                yield same(expect, machine.locked())
            case _:
                raise unknown(operation)


def ctest_packed(graph: ResourceGraph, needed: list[int]) -> list[str] | None:
    """The instance of each requirement of one process."""
    if not needed:
        return []
    request = Request.parse(",".join(f"widgets:{slots}" for slots in needed), format="ctest")
    try:
        made = graph.match(request)
    except (InsufficientResources, InfeasibleRequest):
        return None
    (given,) = ctest_groups.given(ctest_variables(request, made))
    return [name for name, _ in given["widgets"]]


def ctest_environment(case: Case) -> Iterator[str | None]:
    for operation in case["operations"]:
        graph = ResourceGraph(ctest_files.read(source(case["pool"])).structure)
        expect, text = operation["expect"], operation["groups"] or ""
        if not set(expect) <= {"granted", "env", "not_run"}:
            raise NotCovered(f"a launch that expects {', '.join(sorted(expect))}")
        found = ctest_launched(graph, text)
        yield same(expect["granted"], found is not None)
        yield same(expect.get("not_run", not expect["granted"]), found is None)
        if found is not None:
            yield same(expect.get("env", found), found)
            yield same(found, ctest_groups.environment(ctest_groups.given(found)))
        yield unsound(graph)


def ctest_launched(graph: ResourceGraph, text: str) -> dict[str, str] | None:
    """The variables of a test; None if it cannot run."""
    parsed = ctest_groups.parse(text)
    if not any(group.count and group.needs for group in parsed):  # there is nothing to allocate
        return ctest_groups.environment([{} for _ in range(ctest_groups.processes(parsed))])
    request = Request.parse(text, format="ctest")
    try:
        made: Any = graph.match(request)
        if len(made):
            made = graph.allocate(request, job="test")
    except (InsufficientResources, InfeasibleRequest):
        return None
    return ctest_variables(request, made)


# -- JQM -------------------------------------------------------------------------------------------------------------


def jqm_graph(managers: list[dict[str, Any]], queues: list[dict[str, Any]] | None = None) -> ResourceGraph:
    """The managers of a case as a machine."""
    for each in [*managers, *(manager for queue in queues or [] for manager in queue["managers"])]:
        if not each.keys() <= MANAGER_KEYS:
            raise NotCovered(f"manager with {', '.join(sorted(each))}")
    site = {"queues": queues} if queues is not None else {"managers": managers}
    return ResourceGraph(resource_managers.read(source(site)).structure)


def jqm_allocate(case: Case) -> Iterator[str | None]:
    (manager,) = case["pool"]["managers"]
    if manager["type"] == "highlander":
        yield from jqm_highlander(case)
        return
    graph, key = jqm_graph(case["pool"]["managers"]), manager["key"]
    for operation in case["operations"]:
        expect = operation.get("expect")
        match operation["op"]:
            case "slots_available":
                yield same(expect, jqm_jobs.slots_available(graph, key))
            case "release":
                if operation["job"] in graph.jobs():
                    graph.free(operation["job"])
            case "book":
                yield from jqm_booked(graph, key, operation)
            case "reconfigure":
                given = {word: operation[word] for word in ("quantity", "consumption") if word in operation}
                if not operation.keys() <= {"op", "list", *given}:
                    raise unknown(operation)
                reconfigure(graph, key, items=operation.get("list"), **given)
            case _:
                raise unknown(operation)
        yield unsound(graph)


def jqm_highlander(case: Case) -> Iterator[str | None]:
    """A highlander manager knows jobs, so an instance asks it: a job that may go runs, another one waits."""
    instance = Instance(jqm_graph(case["pool"]["managers"]), queue_policy="jqm-poller")
    running: dict[str, Job] = {}
    for operation in case["operations"]:
        match operation:
            case {"op": "book", "job": job, "expect": {"answer": answer}, **rest} if rest.keys() <= {
                "op", "definition", "highlander", "parameters", "queue", "node"
            }:  # fmt: skip
                definition, is_only = rest.get("definition", job), rest.get("highlander", True)
                made = instance.submit(jqm_jobs.request(definition=definition, highlander=is_only), name=job)
                yield same(answer, "go" if made.state is State.RUN else "not-enough")
                if made.state is State.RUN:
                    running[job] = made
                else:
                    instance.cancel(made)
            case {"op": "release", "job": job}:
                if job in running:
                    instance.finish(running.pop(job))
            case _:
                raise unknown(operation)
    yield unsound(instance)


def jqm_booked(graph: ResourceGraph, key: str, operation: Operation) -> Iterator[str | None]:
    """Ask the manager, and allocate if it answers go."""
    expect = operation["expect"]
    if not expect.keys() <= {"answer", "items_set", "env_absent", "env_set", "items_count"}:
        raise NotCovered(f"a booking that expects {', '.join(sorted(expect))}")
    request = jqm_jobs.request(parameters=operation["parameters"], definition_parameters=operation.get("job_definition"))
    answer = jqm_jobs.answer(graph, request, key)
    yield same(expect["answer"], answer)
    made: dict[str, str] = {}
    try:
        found = graph.match(request)
        yield None if answer == "go" else f"{answer}, but there is a match"
        if len(found):
            made = jqm_jobs.environment(request, graph.allocate(request, job=operation["job"]))
    except (InsufficientResources, InfeasibleRequest):
        yield None if answer != "go" else "go, but there is no match"
    wanted = {"expect_env_absent": expect.get("env_absent", []), "expect_env_set": expect.get("env_set", {})}
    yield environment(wanted, made)
    items = [item for text in made.values() for item in text.split(",")]
    yield same(sorted(expect.get("items_set", items)), sorted(items))
    yield same(expect.get("items_count", len(items)), len(items))


# -- queues of canary and JQM ----------------------------------------------------------------------------------------


def canary_queue(case: Case) -> Iterator[str | None]:
    """Tests that wait for cpus of one node: which start now, in which order."""
    words = " ".join(f"{word}={number}" for word, number in case["pool"].items())
    for operation in case["operations"]:
        started: list[str | None] = []
        instance = Instance(
            ResourceGraph(canary_pools.read_words(words).structure),
            queue_policy="canary",
            passes="manual",
            events=lambda job, event, names=started: names.append(job.name) if event.name == "start" else None,
        )
        for job in operation["jobs"]:
            if not {"id", "cpus", "runtime"} <= job.keys() <= {"id", "cpus", "runtime", *case["pool"]}:
                raise NotCovered(f"tests with {', '.join(sorted(job))}")
            wanted = " ".join(f"{word}={number}" for word, number in job.items() if word not in ("id", "runtime"))
            instance.submit(Request.parse(wanted, format="canary"), name=job["id"], duration_s=job["runtime"])
        instance.schedule()
        yield same(operation["expect_start_order_now"], started)


JOB_KEYS = {"id", "priority", "position", "enqueued_at", "definition", "highlander", "frozen", "parameters", "needs"}
MANAGER_KEYS = {"type", "key", "shared", "quantity", "consumption", "list"}


class JqmNode:
    """The queues of a case, polled by an instance."""

    def __init__(self, case: Case) -> None:
        pool = case["pool"]
        if pool.keys() != {"syntax", "policy", "queues"} or pool["policy"] not in ("poller", "tours"):
            raise NotCovered(f"pool of {', '.join(sorted(pool))}, policy {pool.get('policy')}")
        self.graph = jqm_graph([], pool["queues"])
        self.now = 0.0
        self.started: list[str] = []
        self.stolen: set[str] = set()
        self.ids: dict[str, Job] = {}
        self.is_single = len(pool["queues"]) == 1
        kind = JqmTours if pool["policy"] == "tours" else JqmPoller
        self.instance = Instance(
            self.graph,
            queue_policy=kind(claim=lambda job: job.name not in self.stolen),
            clock=lambda: self.now,
            events=self._note,
            passes="manual",
        )
        self._arrivals = itertools.count()

    def _note(self, job: Job, event: JobEvent) -> None:
        if event.name == "start":
            self.started.append(str(job.name))

    def submit(self, queue: str, given: dict[str, Any]) -> Job:
        if not given.keys() <= JOB_KEYS:
            raise NotCovered(f"job with {', '.join(sorted(given))}")
        needs = {f"{jqm.PREFIX}{key}.consumption": number for key, number in given.get("needs", {}).items()}
        arrival = next(self._arrivals)
        request = jqm_jobs.request(
            queue=queue,
            definition=given.get("definition", given["id"] if given.get("highlander") else None),
            parameters={**given.get("parameters", {}), **needs},
            priority=given.get("priority") or None,
            position=given.get("position"),
            since_s=given.get("enqueued_at", arrival),
            highlander=given.get("highlander", False),
        )
        urgency = URGENCY_HELD if given.get("frozen") else URGENCY_DEFAULT
        job = self.instance.submit(request, name=given["id"], urgency=urgency)
        self.ids[given["id"]] = job
        return job

    def poll(self) -> list[str]:
        self.started.clear()
        self.instance.schedule()
        return list(self.started)

    def named(self, *wanted: State) -> list[str]:
        return sorted(str(job.name) for job in self.instance.jobs(*wanted))

    def running_of(self, definition: str) -> int:
        return sum(jqm_jobs.facts(job.request).get("definition") == definition for job in self.instance.jobs(State.RUN))

    def free(self, key: str) -> int:
        queues = pollers(self.graph.structure).by_queue
        (found,) = {jqm_jobs.slots_available(self.graph, key, name) for name in queues if queues[name][0].manager(key)}
        return found


def jqm_schedule(case: Case) -> Iterator[str | None]:
    node = JqmNode(case)
    for operation in case["operations"]:
        match operation:
            case {"op": "submit", "queue": queue, "jobs": jobs, **rest} if rest.keys() <= {"expect_distinct_ids", "now"}:
                ids = {node.submit(queue, job).id for job in jobs}
                yield same(rest.get("expect_distinct_ids", len(ids)), len(ids))
            case {"op": "end", "jobs": jobs, **rest} if rest.keys() <= {"expect_poll_triggered", "strictPollingPeriod", "now"}:
                for job in jobs:
                    node.instance.finish(node.ids[job])
                if "expect_poll_triggered" in rest:  # by the end, and not only when the period is over
                    yield same(rest["expect_poll_triggered"], polled_at_end(rest))
            case {"op": "unfreeze" | "freeze" as verb, "jobs": jobs, **rest} if not rest:
                for job in jobs:
                    node.instance.set_urgency(node.ids[job], URGENCY_DEFAULT if verb == "unfreeze" else URGENCY_HELD)
            case {"op": "stolen", **rest} if rest.keys() <= {"jobs", "job"}:
                node.stolen.update(rest.get("jobs", [rest["job"]] if "job" in rest else []))
            case {"op": "poll", **expect}:
                yield _polled(node, expect)
            case {"op": "check", **expect}:
                yield _state(node, expect)
            case _:
                raise unknown(operation)
        yield unsound(node.graph) or unsound(node.instance)


def polled_at_end(rest: dict[str, Any]) -> bool:
    """Whether the end of a job makes a poll before the period is over, which a strict period forbids."""
    now = [0.0]
    graph = jqm_graph([{"type": "quantity", "key": "thread", "quantity": 1}])
    strict = rest.get("strictPollingPeriod", False)
    if not rest["expect_poll_triggered"] and not strict:
        raise NotCovered("an end that makes no poll, with no word of a strict period")
    instance = Instance(graph, queue_policy=f"jqm-poller:period=1,strict={int(strict)}", clock=lambda: now[0])
    first, second = (instance.submit(jqm_jobs.request()) for _ in range(2))
    now[0] = 0.5
    instance.finish(first)
    return second.state is State.RUN


POLL_KEYS = {"now", "expect_started", "expect_started_in_order", "expect_started_count", "free", "stolen"}


def _polled(node: JqmNode, expect: dict[str, Any]) -> str | None:
    if not expect.keys() <= POLL_KEYS:
        raise NotCovered(f"poll with {', '.join(sorted(expect))}")
    node.now = max(node.now, expect.get("now", node.now))
    node.stolen.update(expect.get("stolen", []))
    started = node.poll()
    facts = {
        "expect_started": started if node.is_single else sorted(started),
        "expect_started_in_order": started,
        "expect_started_count": len(started),
        "free": {name: node.free(name) for name in expect.get("free", {})},
    }
    wanted = {key: value for key, value in expect.items() if key in facts}
    if "expect_started" in wanted and not node.is_single:
        wanted["expect_started"] = sorted(wanted["expect_started"])
    return same(wanted, {key: facts[key] for key in wanted})


def _state(node: JqmNode, expect: dict[str, Any]) -> str | None:
    facts: dict[str, Any] = {
        "running": node.named(State.RUN),
        "waiting": node.named(State.SCHED),
        "running_of_definition": {name: node.running_of(name) for name in expect.get("running_of_definition", {})},
        "running_count": len(node.named(State.RUN)),
        "waiting_count": len(node.named(State.SCHED)),
        "free": {name: node.free(name) for name in expect.get("free", {})},
    }
    if not expect.keys() <= facts.keys():
        raise NotCovered(f"check with {', '.join(sorted(expect))}")
    wanted = {key: sorted(value) if isinstance(value, list) else value for key, value in expect.items()}
    return same(wanted, {key: facts[key] for key in wanted})


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
    ("jqm", "schedule"): in_order(jqm_schedule, "submit", "poll", "end", "unfreeze", "freeze", "stolen", "check"),
}
EVERY = {**KINDS, **ALLOCATIONS}
"""By system and kind of a case."""
