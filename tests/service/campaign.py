"""A campaign of requests made from the OpenAPI document of a running server.

    python -m tests.service.campaign --requests 20000 [--url http://127.0.0.1:7390] [--seed N] [--store etcd] [--only REGEX]

Ctrl-C ends it with a report. Without a URL it starts a server on a store of its own. Each operation gets an equal share of the
requests, those that have fewer different ones leave theirs to the others. Half of the values that name something are replaced by
names that the graph has.
"""

from __future__ import annotations

import argparse
import json
import re
import signal
import sys
from collections import Counter
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection
from random import Random
from typing import Any, Final
from urllib.parse import urlsplit

from hypothesis import HealthCheck, Phase, given, seed, settings

from tests.crash.campaign import address as new_store
from tests.service.conftest import DEMO, running
from tests.service.openapi import FILE

_SKIPPED: Final = ("events", "news", "drop")
"""The streams do not end, and without the graph nothing is left to ask for."""
_PATHS: Final = ["/demo/rack0/node0", "/demo/rack1/node3", "/demo/rack1", "/demo/rack0/node1/core0", "node2", "/demo"]
_KNOWN: Final[dict[str, list[Any]]] = {
    "criteria": ["type=node", "available>=1", "job=j1"],
    "dependencies": [["afterok:1"], "afterany:1"],
    "dependency": ["afterok:1", "begin-time:4000000000"],
    "duration_s": [60, 3600, None],
    "format": ["cluster", "jgf", "rv1", "node-link"],
    "mark": ["0" * 24, "1" * 24],
    "on": ["network"],
    "path": _PATHS,
    "queue_policy": ["easy", "fcfs", "conservative"],
    "source": [*_PATHS, "demo"],
    "stage": ["s0"],
    "state": ["up", "down", "drain"],
    "subsystem": ["network", "network", "power"],
    "target": _PATHS,
    "to": ["/demo/rack1/node9", "/demo/rack0/node3"],
    "wanted": ["slot=1/core", "-N1", "slot=1/node", "/demo/rack0/node3", ["/demo/rack0/node0"], "slot=9/node"],
}
"""Names and values that a graph has, by the field that takes them."""


@dataclass
class Report:
    """What a campaign saw.

    Attributes:
        requests: by operation.
        made: requests with an answer 2xx, by operation.
        different: hashes of the requests.
    """

    requests: Counter[str] = field(default_factory=Counter)
    made: Counter[str] = field(default_factory=Counter)
    statuses: Counter[int] = field(default_factory=Counter)
    different: set[int] = field(default_factory=set)
    failures: list[str] = field(default_factory=list)


def campaign(url: str, requests: int, report: Report, *, seed: int, only: str = "", part: int = 0, parts: int = 1) -> None:
    """Send about this many different requests, and at least two for each operation; those for a graph go to `demo`.

    Args:
        only: a regular expression for the labels of operations.
        part, parts: of the operations, for campaigns that share them.
    """
    # Those that only read come first: the graph is made anew after each of the others.
    known = sorted((one for one in operations()[part::parts] if re.search(only, one.label)), key=lambda one: not _reads(one))
    names, open_ones = prepare(url), known
    while open_ones and len(report.different) < requests:
        share = max(2, -(-(requests - len(report.different)) // len(open_ones)))
        more = []
        for number, operation in enumerate(open_ones):
            before = len(report.different)
            _ask(operation, url, names, share, seed + number, report)
            if not _reads(operation):
                names = prepare(url)
            if len(report.different) - before > share // 2:
                more.append(operation)
        open_ones, seed = more, seed + len(known)


def _reads(operation: Any) -> bool:
    return str(operation.method).upper() == "GET"


def operations() -> list[Any]:
    """Those of the document that a campaign asks for."""
    import schemathesis  # a second, which those who need only `prepare` do not spend

    schema = schemathesis.openapi.from_dict(json.loads(FILE.read_text(encoding="utf-8")))
    known = [found.ok() for found in schema.get_all_operations()]
    return [one for one in known if one.definition.raw.get("operationId") not in _SKIPPED]


def prepare(url: str) -> dict[str, list[Any]]:
    """Make the graph anew, with jobs, a stage, an edge, and an instance with a job that runs, a child and a job that waits.

    Returns: names and values that the graph has, by the field that takes them.
    """
    opened = HTTPConnection(urlsplit(url).netloc, timeout=60)

    def send(method: str, path: str, body: object) -> dict[str, Any]:
        opened.request(method, path, json.dumps(body), {"content-type": "application/json"})
        answer = opened.getresponse()
        document: dict[str, Any] = json.loads(answer.read() or b"{}")
        assert method == "DELETE" or answer.status < 300, document
        return document

    def do(operation: str, **body: object) -> dict[str, Any]:
        return send("POST", f"/v1/graphs/demo/{operation}", body)

    send("DELETE", "/v1/graphs/demo?force=true", None)
    send("POST", "/v1/graphs?name=demo&use=true", DEMO)
    do("allocate", wanted="/demo/rack0/node0", job="j1")
    do("allocate", wanted="/demo/rack0/node1", job="j2", duration_s=3600)
    do("stage", wanted="/demo/rack1/node3", job="j3")
    do("add_edge", source="/demo/rack0", target="/demo/rack1", subsystem="network", hierarchy=False)
    do("instances", name="main")
    jobs = [do("instance/submit", instance="main", wanted=f"slot={nodes}/node", duration_s=3600)["id"] for nodes in (1, 2, 8)]
    child = do("instance/spawn", instance="main", job=jobs[1])["address"]
    jobs.append(do("instance/submit", instance=child, wanted="slot=2/core")["id"])
    opened.close()
    return _KNOWN | {"instance": ["main", "main", child], "job": ["j1", "j2", "new", *jobs]}


def _with_known(values: Any, known: dict[str, list[Any]], random: Random) -> Any:
    """Parameters or a body, with half of those values replaced that name something."""
    if not isinstance(values, dict):
        return values
    return {key: random.choice(known[key]) if key in known and random.random() < 0.5 else value for key, value in values.items()}


def _ask(operation: Any, url: str, known: dict[str, list[Any]], times: int, number: int, report: Report) -> None:
    """Half of the requests are as the document says, the others are not, if any part of them can be wrong."""
    from schemathesis import GenerationMode

    random = Random(number)
    has_parts = bool(operation.body) or any(one.name != "graph" for one in operation.iter_parameters())
    for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)[: 1 + has_parts]:

        @seed(number)
        @settings(
            max_examples=-(-times // 2),
            database=None,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy(generation_mode=mode))
        def ask(case: Any) -> None:
            if "graph" in (case.path_parameters or {}):
                case.path_parameters["graph"] = "demo"
            case.query, case.body = (_with_known(values, known, random) for values in (case.query, case.body))
            answer = case.call(base_url=url, headers={"connection": "close"}, timeout=60)
            report.requests[operation.label] += 1
            report.statuses[answer.status_code] += 1
            report.made[operation.label] += answer.status_code < 300
            report.different.add(hash((case.method, case.formatted_path, repr(case.query), repr(case.body), repr(case.headers))))
            _judge(operation, case, answer, report)

        try:
            ask()
        except Exception as error:  # noqa: BLE001 - whatever it is, it is reported
            report.failures.append(f"{operation.label}: {type(error).__name__}: {error!s:.300}")


def _judge(operation: Any, case: Any, answer: Any, report: Report) -> None:
    """Whether an answer is as the document says."""
    said = f"{case.method} {case.formatted_path} {answer.status_code}"
    if answer.status_code >= 500 and (answer.status_code != 503 or "retry-after" not in answer.headers):
        report.failures.append(f"{said}: {answer.text[:300]}; {case.body!r:.300} {case.query!r:.200}")
        return
    try:
        operation.validate_response(answer)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is reported
        report.failures.append(f"{said}: {error!s:.600}; {case.body!r:.300} {case.query!r:.200}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--url")
    parser.add_argument("--store", default="sqlite", help="sqlite, postgresql or etcd, or the address of an empty store")
    parser.add_argument("--only", default="", metavar="REGEX", help="only these operations, such as 'POST .*/instance'")
    asked, report = parser.parse_args(), Report()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell ignores it for what runs in the background
    with ExitStack() as stack:
        url = asked.url or stack.enter_context(running(stack.enter_context(new_store(asked.store)))).url
        with suppress(KeyboardInterrupt):
            campaign(url, asked.requests, report, seed=asked.seed, only=asked.only)
    total, different = report.requests.total(), len(report.different)
    print(f"{total} requests, {different} different, {dict(sorted(report.statuses.items()))}, {len(report.failures)} failures")
    print(f"never done: {', '.join(sorted(label for label in report.requests if not report.made[label])) or 'nothing'}")
    for failure in report.failures[:50]:
        print(f"- {failure}")
    return 1 if report.failures else 0


if __name__ == "__main__":
    sys.exit(main())
