"""Test our code with the recorded facts about HyperQueue, canary, CTest and JQM.

Each kind of case has one function here, which returns a sentence if we differ and None if we agree, and raises
`NotCovered` for a form of an operation that it does not know.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fluxres.documents.source import Source
from fluxres.errors import FluxresError
from fluxres.formats.peers.canary import language as canary
from fluxres.formats.peers.canary import resource_pool as canary_pools
from fluxres.formats.peers.ctest import groups as ctest_groups
from fluxres.formats.peers.ctest import resource_spec as ctest_files
from fluxres.formats.peers.ctest import resource_spec as ctest_written
from fluxres.formats.peers.ctest.groups import TYPE as CTEST_TYPE
from fluxres.formats.peers.hyperqueue import coupling as hyperqueue_coupling
from fluxres.formats.peers.hyperqueue import definitions as hyperqueue
from fluxres.formats.peers.hyperqueue import detection as hyperqueue_detection
from fluxres.formats.peers.hyperqueue import read as hyperqueue_workers
from fluxres.formats.peers.hyperqueue import request as hyperqueue_request
from fluxres.formats.peers.hyperqueue import tokens as hyperqueue_tokens
from fluxres.formats.peers.hyperqueue.definitions import Groups, Kind, Pool, Sum
from fluxres.formats.peers.jqm import managers as jqm
from fluxres.syntax.variants import ALL, PER_UNIT, Ask, format_amount
from tests.conformance.runner import Case, NotCovered

Operation = dict[str, Any]


def refusal(expect: Mapping[str, Any], do: Callable[[], Any], agrees: Callable[[Any], str | None]) -> str | None:
    """Whether something is refused if and only if it should be, with the words expected."""
    try:
        found = do()
    except FluxresError as error:
        if expect["ok"]:
            return f"refused: {error}"
        wanted = expect.get("error_contains", "")
        return None if wanted in str(error) else f"refused with {error}, expected {wanted!r}"
    return agrees(found) if expect["ok"] else f"expected a refusal, got {found!r:.200}"


def same(expected: Any, got: Any) -> str | None:
    return None if expected == got else f"expected {expected!r}, got {got!r}"


def unknown(operation: Operation) -> NotCovered:
    """An operation that is not known here."""
    return NotCovered(f"operation {operation['op']} {{{', '.join(sorted(operation))}}}")


def source(values: Any) -> Source:
    return Source(json.dumps(values).encode(), "pool.json")


# -- HyperQueue ------------------------------------------------------------------------------------------------------


def normal(kind: Kind) -> dict[str, Any]:
    """A pool in the form of the cases."""
    if isinstance(kind, Sum):
        return {"kind": "sum", "size": format_amount(kind.amount)}
    plain = hyperqueue.to_plain(Pool("x", kind))
    del plain["name"]
    return plain


def dialect(operation: Operation) -> Any:
    grammar = operation.get("grammar", "current")
    if not grammar.startswith(("seed", "current")):
        raise NotCovered(f"grammar {grammar}")
    return "seed" if grammar.startswith("seed") else "current"


def pools_of(case: Case) -> list[Pool]:
    return [hyperqueue.parse(f"{each['name']}={each['definition']}") for each in case["pool"]["resources"]]


def parse_pool(case: Case, operation: Operation) -> str | None:
    expect = operation["expect"]

    def agrees(pool: Pool) -> str | None:
        again = hyperqueue.parse(hyperqueue.format(pool)) if not isinstance(pool.kind, Groups) else pool
        wrong = same(expect.get("name", pool.name), pool.name) or same(expect["normal"], normal(pool.kind))
        return wrong or same(pool, again)

    if operation["op"] == "parse-cpus":
        return refusal(expect, lambda: hyperqueue.parse_cpus(operation["text"], dialect=dialect(operation)), agrees)
    return refusal(expect, lambda: hyperqueue.parse(operation["text"], dialect=dialect(operation)), agrees)


def parse_request(case: Case, operation: Operation) -> str | None:
    expect = operation["expect"]

    def agrees(ask: Ask) -> str | None:
        is_all = ask.amount == ALL
        got = {
            "ok": True,
            "name": ask.name,
            "amount": "all" if is_all else format_amount(ask.amount),
            "policy": "all" if is_all else ask.policy,
        }
        return same(expect, got)

    return refusal(expect, lambda: hyperqueue_request.parse(operation["text"], dialect=dialect(operation)), agrees)


def parse_amount(case: Case, operation: Operation) -> str | None:
    expect = operation["expect"]
    if operation["op"] == "amount-from-float32":
        units, fractions = divmod(hyperqueue_tokens.amount_of_float(operation["value"]), PER_UNIT)
        return same(expect, {"units": units, "fractions": fractions})
    return refusal(
        expect, lambda: hyperqueue_tokens.parse_amount(operation["text"]), lambda got: same(expect["amount"], format_amount(got))
    )


def format_an_amount(case: Case, operation: Operation) -> str | None:
    return same(operation["expect"], format_amount(operation["units"] * PER_UNIT + operation["fractions"]))


def parse_coupling(case: Case, operation: Operation) -> str | None:
    def agrees(found: list[hyperqueue_coupling.Coupling]) -> str | None:
        wanted = operation["expect"].get("weights", operation["expect"].get("couplings"))
        return None if wanted is None else same(wanted, hyperqueue_coupling.to_plain(found))

    return refusal(operation["expect"], lambda: hyperqueue_coupling.parse(operation["text"], pools_of(case)), agrees)


def parse_cpulist(case: Case, operation: Operation) -> str | None:
    expect = operation["expect"]
    return refusal(expect, lambda: hyperqueue_coupling.parse_cpulist(operation["text"]), lambda got: same(expect["values"], got))


def detect(case: Case, operation: Operation) -> str | None:
    # On a machine without devices, as that of the test.
    found = hyperqueue_detection.definitions("gpus/nvidia,gpus/amd", Path("/nowhere"), operation["env"])
    pools = [hyperqueue.parse(word) for word in found.text.split()]
    return same(operation["expect_lists"], {pool.name: list(pool.kind) for pool in pools})


def export(case: Case, operation: Operation) -> str | None:
    if operation["op"] == "export-request":
        asks = [hyperqueue_request.of_value(name, value) for name, value in operation["request"].items()]
        return same(operation["expect"], hyperqueue_request.to_plain(hyperqueue_request.variant(asks)))
    pools = pools_of(case)
    if operation["op"] == "summary":
        wrong = same(operation["expect_line"], hyperqueue.summary(pools))
        return wrong or same(operation["expect_multiline"], hyperqueue.summary(pools, multiline=True))
    exported = {"resources": [hyperqueue.to_plain(pool) for pool in pools], "coupling": {"weights": []}}
    read = hyperqueue_workers.read(source(exported), origin=0).structure  # our reader accepts what theirs writes
    return same(operation["expect"], exported) or (None if read.n > 1 else "nothing was read")


# -- canary ----------------------------------------------------------------------------------------------------------


def canary_parse(case: Case, operation: Operation) -> str | None:
    expect, given = operation["expect"], source(case["pool"])
    grammar = dialect(operation)

    def agrees(pool: canary_pools.ResourcePool) -> str | None:
        (node,) = pool.nodes
        listed = {
            word: list(each.instances() if isinstance(each, canary_pools.Alike) else each)
            for word, each in node.resources.items()
        }
        plain = {word: [{"id": each.id, "slots": each.slots} for each in found] for word, found in listed.items()}
        wrong = same(expect.get("resources", plain), plain) or same(expect.get("total_slots", node.slots()), node.slots())
        counts = {word: len(found) for word, found in listed.items()}
        return wrong or same(expect.get("count", counts), counts)

    return refusal(expect, lambda: canary_pools.parse(given.document, grammar=grammar), agrees)


MODIFICATIONS = ("mods", "modifications", "changes", "set", "counts", "options", "args", "oversubscribe", "words", "text", "cli")
MODIFYING = ("modify", "modify-pool", "apply", "set", "update", "oversubscribe", "set-count", "multiply-slots", "options")


def canary_modify(case: Case, operation: Operation) -> str | None:
    """A pool after options such as ``-r gpus=4`` and ``--oversubscribe cpus=2``, by counts, slots and instances."""
    counts, times = modifications(operation)
    pool = case["pool"].get("pool", case["pool"]) if isinstance(case["pool"], Mapping) else case["pool"]
    before = canary_pools.parse(source(pool).document)
    expect = operation["expect"]
    wanted = {"ok": False} if expect == "error" else {"ok": not expect.get("error", not expect.get("ok", True)), **expect}

    def agrees(made: canary_pools.ResourcePool) -> str | None:
        read = canary_pools.machine(made, "pool", 0, None).structure  # a machine can be made of it
        known = {"ok", "error", "resources", "total_slots", "count", "nodes", "allow_multinode", "resources_by_node"}
        if not expect.keys() <= known or read.n < 2:
            raise NotCovered(f"a modified pool that expects {', '.join(sorted(expect))}")
        nodes = {name: instances_of(node) for name, node in made.named().items()}
        first = next(iter(nodes.values()))
        facts = {
            "resources": first,
            "resources_by_node": nodes,
            "count": {word: len(some) for word, some in first.items()},
            "total_slots": {word: sum(each["slots"] for each in some) for word, some in first.items()},
            "nodes": len(nodes) if isinstance(expect.get("nodes"), int) else list(nodes),
            "allow_multinode": made.allow_multinode,
        }
        return next((wrong for key in facts if key in expect and (wrong := same(expect[key], facts[key]))), None)

    return refusal(wanted, lambda: canary_pools.modified(before, counts, times), agrees)


def modifications(operation: Operation) -> tuple[dict[str, int], dict[str, int]]:
    """The counts of ``-r`` and the factors of ``--oversubscribe`` in an operation, as a mapping, or as words."""
    given = {key: operation[key] for key in MODIFICATIONS if key in operation}
    if "type" in operation and {"count", "factor"} & operation.keys():  # one of a kind
        name = operation["type"]
        factor = operation.get("factor")
        return ({name: operation["count"]}, {}) if factor is None else ({}, {name: factor})
    counts: dict[str, int] = {}
    times: dict[str, int] = {}
    for key, value in given.items():
        if isinstance(value, list):
            value = " ".join(map(str, value))
        if isinstance(value, str):
            words = value.replace("--oversubscribe=", "--oversubscribe ").split()
            option = "--oversubscribe" if key == "oversubscribe" else ""
            for word in words:
                if word.startswith("-"):
                    option = word
                    continue
                name, _, number = word.replace("resource_pool:", "").replace(":", "=").partition("=")
                (times if option == "--oversubscribe" else counts)[name] = int(number)
        elif isinstance(value, Mapping) and all(isinstance(each, int) for each in value.values()):
            (times if key == "oversubscribe" or operation["op"] == "oversubscribe" else counts).update(value)
        else:
            raise unknown(operation)
    if not counts and not times:
        raise unknown(operation)
    return counts, times


def instances_of(node: canary_pools.PoolNode) -> dict[str, list[dict[str, Any]]]:
    return {
        word: [
            {"id": str(each.id), "slots": each.slots}
            for each in (listed.instances() if isinstance(listed, canary_pools.Alike) else listed)
        ]
        for word, listed in node.resources.items()
    }


def canary_infer(case: Case, operation: Operation) -> str | None:
    expect = dict(operation["expect"])
    feasible = expect.pop("feasible_with_fpga_count_0", None)
    found = canary.infer(operation["parameters"], case["pool"]["types"])
    if feasible is not None:
        try:
            canary.requests(found, {"cpus": 8, "gpus": 1, "fpgas": 0})
        except FluxresError:
            feasible = not feasible
        if not feasible:
            return "expected that it can never run"
    return same(expect, found)


def canary_environment(case: Case, operation: Operation) -> str | None:
    if operation["op"] == "gpu-env":
        devices = [canary.Device(each["node"], each["id"], each.get("vendor")) for each in operation["allocated_gpus"]]
        got = canary.device_environment(devices, operation["task_variables"])
    else:
        got = canary.environment(operation["allocated_ids"], operation["task_variables"])
    return environment(operation, got)


# -- CTest -----------------------------------------------------------------------------------------------------------


def ctest_parse(case: Case, operation: Operation) -> str | None:
    """The instances of a valid file, all of them, as they are read and as pools of the machine."""
    document = case["pool"]
    if operation.get("grammar", "ctest 1.0") != "ctest 1.0":
        raise NotCovered(f"grammar {operation['grammar']}")

    def agrees(found: ctest_files.Machine) -> str | None:
        expected = {
            word: [(each["id"], each.get("slots", 1)) for each in listed]
            for socket in document["local"]
            for word, listed in socket.items()
            if CTEST_TYPE.fullmatch(word)
        }
        plain = {word: [(each.id, each.slots) for each in listed] for word, listed in found.items()}
        # A machine has no pool of a type without instances.
        return same(expected, plain) or same({word: listed for word, listed in expected.items() if listed}, _of_machine(document))

    return refusal(operation["expect"], lambda: ctest_files.parse(source(document).document), agrees)


def _of_machine(document: Any) -> dict[str, list[tuple[str, int]]]:
    """The instances that are written from the machine."""
    made = ctest_files.read(source(document), origin=0).structure
    (socket,) = json.loads(ctest_written.write(made).data)["local"]
    return {word: [(each["id"], each["slots"]) for each in listed] for word, listed in socket.items()}


def ctest_parse_groups(case: Case, operation: Operation) -> str | None:
    def agrees(found: list[ctest_groups.Group]) -> str | None:
        plain = [[[need.type, need.slots] for need in needs] for needs in ctest_groups.expand(found)]
        again = ctest_groups.parse(ctest_groups.format(found))
        return same(operation["expect"]["groups"], plain) or same(found, again)

    return refusal(operation["expect"], lambda: ctest_groups.parse(operation["text"]), agrees)


# -- JQM -------------------------------------------------------------------------------------------------------------


def managers_of(case: Case) -> list[jqm.Rules]:
    made = []
    for each in case["pool"]["managers"]:
        known = {key: value for key, value in each.items() if key in ("quantity", "consumption", "list")}
        made.append(jqm.configured(each["type"], each["key"], known))
    return made


def jqm_consumption(case: Case, operation: Operation) -> str | None:
    (manager,) = managers_of(case)
    got = jqm.consumption(manager, operation["job_definition"], operation["job_instance"])
    return None if operation["expect"] is None else same(operation["expect"], got)


def jqm_priority(case: Case, operation: Operation) -> str | None:
    expect = operation["expect"]
    return refusal(expect, lambda: jqm.priority(operation["value"]), lambda got: same(expect.get("stored", got), got))


# -- all -------------------------------------------------------------------------------------------------------------


EXPECTED_OF_VARIABLES = (
    "expect_env",
    "expect_env_absent",
    "expect_env_set",
    "expect_env_set_in_braces",
    "expect_env_equal",
)


def environment(operation: Operation, got: Mapping[str, str]) -> str | None:
    """Whether variables are as expected, in each way in which a case may expect them."""
    strange = [key for key in dict.keys(operation) if key.startswith("expect_env") and key not in EXPECTED_OF_VARIABLES]
    if strange:
        raise NotCovered(f"variables: {', '.join(strange)}")
    for key, value in operation.get("expect_env", {}).items():
        if got.get(key) != value:
            return f"{key}: expected {value!r}, got {got.get(key)!r}"
    for key in operation.get("expect_env_absent", []):
        if key in got:
            return f"{key}: expected none, got {got[key]!r}"
    for key, members in operation.get("expect_env_set", {}).items():
        if sorted(got.get(key, "").split(",")) != sorted(members):
            return f"{key}: expected {members}, got {got.get(key)!r}"
    for key, members in operation.get("expect_env_set_in_braces", {}).items():
        text = got.get(key, "")
        if sorted(text.strip("{}").split(",")) != sorted(members) or (text[:1], text[-1:]) != ("{", "}"):
            return f"{key}: expected {members} in braces, got {text!r}"
    for one, other in operation.get("expect_env_equal", []):
        if one not in got or got.get(one) != got.get(other):
            return f"expected {one} and {other} to be equal"
    return None


LABELS = ("op", "job", "id", "syntax", "note", "comment", "description")
"""Keys that are known or say nothing to compare."""


class Watched(dict[str, Any]):  # noqa: PLW1641 - as any dict, it has no hash
    """A part of a case that knows which of its keys were read: nobody has compared what the others say."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        super().__init__(values)
        self.unread = set(values) - set(LABELS)

    def __getitem__(self, key: str) -> Any:
        self.unread.discard(key)
        return super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        self.unread.discard(key)
        return super().get(key, default)

    def __iter__(self) -> Iterator[str]:  # all keys, as for a comparison, a copy, and what a pattern leaves over
        self.unread.clear()
        return super().__iter__()

    def keys(self) -> Any:
        self.unread.clear()
        return super().keys()

    def values(self) -> Any:
        self.unread.clear()
        return super().values()

    def items(self) -> Any:
        self.unread.clear()
        return super().items()

    def __eq__(self, other: object) -> bool:
        self.unread.clear()
        return super().__eq__(other)


def watched(operation: Operation) -> Watched:
    """An operation that knows what was read of it, and of what it expects."""
    expect = operation.get("expect")
    return Watched({**operation, "expect": Watched(expect)} if isinstance(expect, dict) else operation)


def unread_keys(operation: Watched) -> set[str]:
    expect = dict.get(operation, "expect")
    return operation.unread | expect.unread if isinstance(expect, Watched) else operation.unread


@dataclass(frozen=True)
class Family:
    """Cases of one kind: the operations that are known of it, and where we differ, in sentences."""

    operations: tuple[str, ...]
    differences: Callable[[Case], Iterable[str]]

    def differs(self, case: Case) -> list[str]:
        """Where we differ from a case of this kind, all of whose operations are known, and everything in them was looked at."""
        for operation in case["operations"]:
            if operation["op"] not in self.operations:
                raise unknown(operation)
        pool = case.get("pool")
        pool = Watched(pool) if isinstance(pool, dict) else pool
        operations = [watched(operation) for operation in case["operations"]]
        found = list(self.differences({**case, "pool": pool, "operations": operations}))
        unread = set().union(*map(unread_keys, operations), pool.unread if isinstance(pool, Watched) else ())
        if unread and not found:
            raise NotCovered(f"a pool or operations with {', '.join(sorted(unread))}")
        return found


def each_alone(check: Callable[[Case, Operation], str | None], *operations: str) -> Family:
    """Cases of operations that do not depend on each other."""
    return Family(
        operations,
        lambda case: (wrong for operation in case["operations"] if (wrong := check(case, operation)) is not None),
    )


KINDS: dict[tuple[str, str], Family] = {
    ("hyperqueue", "parse-pool"): each_alone(parse_pool, "parse", "parse-cpus"),
    ("hyperqueue", "parse-request"): each_alone(parse_request, "parse-request"),
    ("hyperqueue", "parse-amount"): each_alone(parse_amount, "parse-amount", "amount-from-float32"),
    ("hyperqueue", "format-amount"): each_alone(format_an_amount, "format-amount"),
    ("hyperqueue", "parse-coupling"): each_alone(parse_coupling, "parse-coupling"),
    ("hyperqueue", "parse-cpulist"): each_alone(parse_cpulist, "parse-cpulist"),
    ("hyperqueue", "detect"): each_alone(detect, "detect"),
    ("hyperqueue", "export"): each_alone(export, "export-json", "export-request", "summary"),
    ("canary", "parse-pool"): each_alone(canary_parse, "parse"),
    ("canary", "request-from-parameters"): each_alone(canary_infer, "infer"),
    ("canary", "env"): each_alone(canary_environment, "env", "gpu-env"),
    ("canary", "modify-pool"): each_alone(canary_modify, *MODIFYING),
    ("ctest", "parse-pool"): each_alone(ctest_parse, "parse"),
    ("ctest", "parse-request"): each_alone(ctest_parse_groups, "parse-groups"),
    ("jqm", "parameters"): each_alone(jqm_consumption, "effective-consumption"),
    ("jqm", "validate"): each_alone(jqm_priority, "set-priority"),
}
"""By system and kind of a case."""
