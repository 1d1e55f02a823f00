"""Repeat recorded choices of HyperQueue on graphs: what a worker allocates, with which variables, and which tasks start where."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, Final

import orjson

from fluxres.errors import InfeasibleRequest, InsufficientResources
from fluxres.formats import registry
from fluxres.formats.peers import requests as peer_requests
from fluxres.formats.peers.hyperqueue import definitions
from fluxres.formats.peers.hyperqueue import environment as variables
from fluxres.formats.peers.hyperqueue import request as hyperqueue_request
from fluxres.formats.peers.hyperqueue.tokens import parse_amount
from fluxres.graph import groups
from fluxres.instance.instance import Instance
from fluxres.instance.job import Job
from fluxres.instance.states import State
from fluxres.model import Allocation, ResourceGraph
from fluxres.syntax.constraint import Hostlist
from fluxres.syntax.jobspec import Request
from fluxres.syntax.variants import CPUS, PER_UNIT, SHARE, Variant, format_amount, type_of
from tests.conformance.runner import Case, NotCovered
from tests.conformance.seed_cases import Operation, environment, same, unknown

SUM_OF_CPUS: Final = "cpusAsSum"
"""Some cases have cpus as a sum, which a worker refuses: they are about sums."""
FORMS: Final = ("hq", "hq-workers", None)


@dataclass(frozen=True)
class Given:
    """What a task got of one resource: labels, groups and ten-thousandths of each index, and the amount."""

    labels: list[str]
    groups: list[int]
    shares: list[int]
    amount: int


def is_of_seed(case: Case) -> bool:
    return any("v0.11" in case[key] or "seed-era" in case[key] for key in ("source_file", "provenance", "description"))


def graph_of(lines: str) -> ResourceGraph:
    return ResourceGraph(registry.read(lines.encode(), fractions=True).structure)


class Worker:
    """A worker of a case as a graph."""

    def __init__(self, pool: Mapping[str, Any]) -> None:
        if pool.get("syntax") not in FORMS:
            raise NotCovered(f"pool of syntax {pool.get('syntax')}")
        self.names: dict[str, str] = {}
        self.graph = graph_of(self.line(pool))

    def line(self, pool: Mapping[str, Any], name: str | None = None) -> str:
        """The command that starts such a worker."""
        words = ["hq", "worker", "start", *(["--hostname", name] if name else [])]
        for each in pool["resources"]:
            if each["name"] == CPUS and each["definition"].startswith("sum"):
                self.names[CPUS] = SUM_OF_CPUS
            words += ["--resource", f"{self.names.get(each['name'], each['name'])}={each['definition']}"]
        if pool.get("coupling"):
            words += ["--coupling", pool["coupling"]]
        return f"{shlex.join(words)}\n"

    def request(self, asked: Any) -> Request:
        """A request of a case; cpus are not implied."""
        variants = []
        for each in asked if isinstance(asked, list) else [asked]:
            asks = (hyperqueue_request.of_value(self.names.get(name, name), value) for name, value in each.items())
            variants.append(Variant(tuple(asks)))
        return peer_requests.hyperqueue(variants)

    def allocate(self, job: str, asked: Any) -> Allocation | None:
        try:
            return self.graph.allocate(self.request(asked), job=job)
        except (InsufficientResources, InfeasibleRequest) as error:
            if not (error.reasons or error.message):
                raise AssertionError("a refusal without a reason") from error
            return None

    def given(self, asked: Mapping[str, Any], got: Allocation, *, ascending: bool = False) -> dict[str, Given]:
        """What a task got, by resource."""
        structure = self.graph.structure
        made: dict[str, Given] = {}
        for name, grant in zip(asked, self.grants(asked, got, ascending=ascending), strict=True):
            numbers = self._groups(self.names.get(name, name))
            labels = list(grant.labels or ())
            fraction = grant.amount % PER_UNIT
            shares = [0] * len(labels)
            if fraction and labels:
                shares[-1] = fraction
            made[name] = Given(labels, [numbers[label] for label in labels], shares, grant.amount)
        assert structure is got.structure
        return made

    def grants(self, asked: Mapping[str, Any], got: Allocation, *, ascending: bool = False) -> list[variables.Grant]:
        return variables.grants(self.request(asked).chooser.variants[0], got, ascending=ascending)

    def _pools(self, name: str) -> Any:
        structure = self.graph.structure
        return structure.of_type(type_of(name, structure.types))

    def _groups(self, name: str) -> dict[str, int]:
        """The number of the group of each label."""
        structure, pools = self.graph.structure, self._pools(name)
        if not len(pools):
            return {}
        parts = groups.in_host(structure, pools.astype(int), int(structure.of_type("node")[0]))
        return {variables.label(structure, v): number for number, part in enumerate(parts) for v in part.tolist()}

    def free(self, name: str) -> str:
        """Everything free of a resource, with fractions."""
        structure = self.graph.structure
        total = 0
        for v in self._pools(self.names.get(name, name)).tolist():
            inside = [u for u in range(v + 1, structure.end.item(v)) if structure.kind_of(u).type == SHARE]
            total += self.graph.pool(inside[0] if inside else v).available()
        return format_amount(total)

    def force_take(self, job: str, name: str, of: list[int], amount: int) -> None:
        """Allocate an amount in exactly these groups, one index from each in turn."""
        structure = self.graph.structure
        parts = groups.in_host(structure, self._pools(name).astype(int), int(structure.of_type("node")[0]))
        left = [[v for v in parts[number].tolist() if self.graph.pool(v).available()] for number in of]
        units, fraction = divmod(amount, PER_UNIT)
        taken: list[tuple[int, int]] = []
        while units + bool(fraction):
            for pools in left:
                if pools and units:
                    taken.append((pools.pop(), 1))
                    units -= 1
                elif pools and fraction:
                    taken.append((pools.pop() + 1, fraction))
                    fraction = 0
        self.graph.allocate(taken, job=job)


def given_differs(expect: dict[str, Any], given: Given) -> str | None:
    labels, of = given.labels, Counter(given.groups)
    facts = {
        "count": len(labels),
        "values": labels,
        "value_set": sorted(labels),
        "n_groups": len(of),
        "groups": sorted(of),
        "per_group_counts": sorted(of.values()),
        "grouped_order": [len(list(run)) for _, run in groupby(given.groups)],
        "fractions": [format_amount(share) for share in given.shares],
        "amount": format_amount(given.amount),
        "ascending": labels == sorted(labels, key=lambda label: (len(label), label)),
        "distinct": len(set(labels)) == len(labels),
    }
    for key, wanted in expect.items():
        if key == "subset_of":
            if not set(labels) <= set(wanted):
                return f"{labels} are not all of {wanted}"
        elif key not in facts:
            raise NotCovered(f"facts of what is given: {key}")
        elif facts[key] != (sorted(wanted) if key == "value_set" else wanted):
            return f"{key}: expected {wanted}, got {facts[key]}"
    return None


def relation_differs(relation: dict[str, Any], granted: dict[str, dict[str, Given]]) -> str | None:
    def last(task: str, of: str) -> Any:
        return getattr(granted[task][relation["resource"]], of)[-1]

    def of_task(name: str) -> frozenset[int]:
        return frozenset(granted[relation["of"]][name].groups)

    match relation["rel"]:
        case "last_index_equal":
            holds = len({last(task, "labels") for task in relation["of"]}) == 1
        case "last_index_differ":
            holds = len({last(task, "labels") for task in relation["of"]}) == len(relation["of"])
        case "last_group_equal":
            holds = len({last(task, "groups") for task in relation["of"]}) == 1
        case "last_group_differ":
            holds = len({last(task, "groups") for task in relation["of"]}) == len(relation["of"])
        case "same_group_numbers":
            holds = len({of_task(name) for name in relation["resources"]}) == 1
        case "group_numbers_subset":
            holds = of_task(relation["sub"]) <= of_task(relation["super"])
        case "group_numbers_disjoint":
            holds = not of_task(relation["resources"][0]) & of_task(relation["resources"][1])
        case other:
            raise NotCovered(f"relation {other}")
    return None if holds else f"{relation} does not hold"


def allocate(case: Case) -> Iterator[str | None]:
    """Requests and returns, and after each operation the audit of the graph."""
    worker, ascending = Worker(case["pool"]), is_of_seed(case)
    granted: dict[str, dict[str, Given]] = {}
    for operation in case["operations"]:
        match operation["op"]:
            case "request":
                yield from _requested(worker, operation, granted, ascending=ascending)
            case "release":
                worker.graph.free(operation["id"])
            case "free":
                yield same(operation["expect"], {name: worker.free(name) for name in operation["expect"]})
            case "force_take":
                worker.force_take(operation["id"], operation["resource"], operation["groups"], parse_amount(operation["amount"]))
            case "check":
                yield checked(operation["expect"], granted)
            case "reconfigure" | "modify" | "modify-pool":
                worker.graph.apply(graph_of(worker.line(operation.get("pool", operation))), drain=True)
            case _:
                raise unknown(operation)
        yield same([], worker.graph.check())


def _requested(
    worker: Worker, operation: Operation, granted: dict[str, dict[str, Given]], *, ascending: bool
) -> Iterator[str | None]:
    expect = operation["expect"]
    before = worker.graph.revision
    got = worker.allocate(operation["id"], operation["request"])
    yield same(expect["granted"], got is not None)
    if got is None:
        yield same(before, worker.graph.revision)
        return
    granted[operation["id"]] = found = worker.given(operation["request"], got, ascending=ascending)
    again = worker.given(operation["request"], worker.graph.allocation(operation["id"]), ascending=ascending)
    yield same(found, again)
    for name, wanted in expect.get("resources", {}).items():
        yield given_differs(wanted, found[name])
    for relation in expect.get("relations", []):
        yield relation_differs(relation, granted)
    unknown_facts = expect.keys() - {"granted", "resources", "relations"}
    if unknown_facts:
        raise NotCovered(f"facts of a request: {', '.join(sorted(unknown_facts))}")


def checked(expect: dict[str, Any], granted: dict[str, dict[str, Given]]) -> str | None:
    """Invariants of everything that was granted."""
    of = expect.get("resource")
    all_given = [given for each in granted.values() for name, given in each.items() if of in (None, name)]
    pairs = [pair for given in all_given for pair in zip(given.labels, given.shares, strict=True)]
    whole, shared = (Counter(label for label, share in pairs if bool(share) is has) for has in (False, True))
    facts = {
        "whole_labels_used": len(whole),
        "each_whole_label_times": max(whole.values(), default=0),
        "shared_labels_used": len(shared),
        "each_shared_label_times": max(shared.values(), default=0),
        "all_distinct": len({label for label, _ in pairs}) == len(pairs),
        "union": sorted(label for label, _ in pairs),
        "resource": of,
    }
    if strange := expect.keys() - facts.keys():
        raise NotCovered(f"invariants: {', '.join(sorted(strange))}")
    return same(expect, {key: facts[key] for key in expect})


# -- variables -----------------------------------------------------------------------------------------------------------


def launch(case: Case) -> Iterator[str | None]:
    """The variables of tasks that are started on idle workers."""
    for operation in case["operations"]:
        graph = graph_of(_workers(case["pool"]))
        listed = operation["request"] if isinstance(operation["request"], list) else [operation["request"]]
        variants = [
            hyperqueue_request.variant(hyperqueue_request.of_value(name, value) for name, value in each.items())
            for each in listed
        ]
        request = peer_requests.hyperqueue(hyperqueue_request.variants(variants))
        got = graph.allocate(request, job="task")
        made = variables.environment(
            request,
            got,
            policy=not is_of_seed(case),
            pin=operation.get("pin"),
            user=operation.get("user_env", operation.get("task_env")),
        )
        if "expect_worker" in operation:
            names = [graph.structure.name(v) for v in graph.structure.of_type("node").tolist()]
            node = next(pool for pool in got.pools[0].ancestors if pool.type == "node")
            yield same(operation["expect_worker"], names.index(node.name) + 1)
        yield environment(operation, made)


def _workers(pool: Mapping[str, Any]) -> str:
    if "workers" not in pool:
        # A worker always has cpus, even if a case does not list them.
        has_cpus = any(each["name"] == CPUS for each in pool["resources"])
        words = ["hq", "worker", "start", *([] if has_cpus else ["--cpus", "1"])]
        words += [word for each in pool["resources"] for word in ("--resource", f"{each['name']}={each['definition']}")]
        return shlex.join(words)
    lines = []
    for each in pool["workers"]:
        words = ["hq", "worker", "start"]
        for name, text in each.items():
            if name != "n":
                words += ["--cpus", text] if name == CPUS else ["--resource", f"{name}={text}"]
        lines += [shlex.join(words)] * each.get("n", 1)
    return "\n".join(lines)


# -- assignment to workers -----------------------------------------------------------------------------------------------


def schedule(case: Case) -> Iterator[str | None]:
    """Tasks that start in one pass over several workers, as jobs of an instance."""
    workers = case["pool"]["workers"]
    graph = ResourceGraph(registry.read(orjson.dumps([_described(each) for each in workers]), fractions=True).structure)
    top = Instance(graph, queue_policy="hyperqueue", passes="manual")
    names = [each["name"] for each in workers]
    running = [(each["name"], asked) for each in workers for asked in each.get("running", [])]
    pinned = []
    for worker, asked in running:
        request = Request.parse(_text({"request": asked}), format="hyperqueue")
        pinned.append(replace(request, constraint=Hostlist((worker,))))
    jobs = [top.submit(request) for request in pinned]
    top.schedule()
    for number, (job, request) in enumerate(zip(jobs, pinned, strict=True)):
        if job.state is not State.RUN:  # its worker would have too little in use: it was started before
            top.cancel(job.id)
            graph.allocate(request, job=f"before{number}")
    for operation in case["operations"]:
        tasks = {task["id"]: _submitted(top, task) for task in operation["tasks"]}
        top.schedule()
        started = {name: job for name, job in tasks.items() if job is not None and job.state is State.RUN}
        yield from _scheduled_differs(operation, names, started, graph)
        yield same([], [*graph.check(), *top.check()])


def _described(worker: Mapping[str, Any]) -> dict[str, Any]:
    """A worker as HyperQueue's JSON has it; time begins with it."""
    known = {"name", "resources", "running", "remaining_s", "min_utilization", "group"}
    if strange := worker.keys() - known:
        raise NotCovered(f"worker: {', '.join(sorted(strange))}")
    resources = [definitions.to_plain(definitions.parse(f"{name}={text}")) for name, text in worker["resources"].items()]
    about: dict[str, Any] = {"hostname": worker["name"], "resources": {"resources": resources}}
    if "group" in worker:
        about["group"] = worker["group"]
    if "remaining_s" in worker:
        about["time_limit"] = worker["remaining_s"]
    if "min_utilization" in worker:
        about["min_utilization"] = worker["min_utilization"]
    return {"started": "1970-01-01T00:00:00Z", "configuration": about}


def _text(task: Mapping[str, Any]) -> str:
    """A task in JSON."""
    known = {"id", "priority", "request", "n_nodes", "time_request_s", "weight"}
    if strange := task.keys() - known:
        raise NotCovered(f"task: {', '.join(sorted(strange))}")
    variants = []
    for each in task["request"] if isinstance(task["request"], list) else [task["request"]]:
        more = {"n_nodes": task["n_nodes"]} if task.get("n_nodes") else {}
        variants.append({"resources": each, "min_time": task.get("time_request_s", 0), "weight": task.get("weight", 1.0), **more})
    return orjson.dumps({"variants": variants, "priority": task.get("priority", 0)}).decode()


def _submitted(top: Instance, task: Mapping[str, Any]) -> Job | None:
    """The job of a task; None if no worker could ever run it, which HyperQueue lets wait."""
    try:
        return top.submit(Request.parse(_text(task), format="hyperqueue"))
    except InfeasibleRequest:
        return None


def _scheduled_differs(
    operation: Operation, names: list[str], started: Mapping[str, Job], graph: ResourceGraph
) -> Iterator[str | None]:
    expect = operation["expect"]
    if strange := expect.keys() - {"assigned", "counts", "interchangeable_workers"}:
        raise NotCovered(f"facts of an assignment: {', '.join(sorted(strange))}")
    on = {name: [task for task, job in started.items() if _workers_of(job)[:1] == [name]] for name in names}
    alike = expect.get("interchangeable_workers", [])
    if "assigned" in expect:
        wanted = {name: sorted(tasks) for name, tasks in expect["assigned"].items()}
        found = {name: sorted(on[name]) for name in wanted}
        yield same(_up_to(wanted, alike), _up_to(found, alike))
    asked = {task["id"]: task for task in operation["tasks"]}
    counts: dict[str, Any] = expect.get("counts", {})
    for name, wanted in counts.items():
        if name == "started":
            yield same(sorted(wanted), sorted(started))
            continue
        if name not in on:
            raise NotCovered(f"counts of {name}")
        for key, number in wanted.items():
            yield same((name, key, number), (name, key, sum(_is_counted(key, asked[t], started[t], graph) for t in on[name])))


def _workers_of(job: Job) -> list[str]:
    return list(dict.fromkeys(path.split("/")[2] for path, _ in job.pools))


def _up_to(tasks: dict[str, list[str]], alike: list[list[str]]) -> dict[str, list[str]]:
    """Tasks by worker, those of interchangeable workers in one order."""
    found = dict(tasks)
    for group in alike:
        found |= dict(zip(group, sorted(tasks[name] for name in group), strict=True))
    return found


def _is_counted(key: str, task: Mapping[str, Any], job: Job, graph: ResourceGraph) -> bool:
    """Whether a task that started is one of those that a count is about."""
    if key in ("total", "total_new"):
        return True
    if key.startswith("variant "):
        chosen = graph.allocation(str(job.id)).chosen
        return chosen is not None and chosen.variant == int(key.removeprefix("variant "))
    if "=" in key:
        return not isinstance(task["request"], list) and key == ",".join(f"{n}={v}" for n, v in task["request"].items())
    raise NotCovered(f"counts of {key}")
