"""A campaign of requests made from the OpenAPI document of a running server.

    python -m tests.service.campaign --requests 20000 [--url http://127.0.0.1:7390] [--seed N]

Without a URL it starts a server on a store of its own. Each operation gets an equal share of the requests.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from schemathesis import GenerationMode

from tests.service.conftest import demo_store, running
from tests.service.openapi import FILE

_SKIPPED = ("events", "drop")
"""A stream does not end, and without the graph nothing is left to ask for."""


@dataclass
class Report:
    """What a campaign saw; its requests by operation."""

    requests: Counter[str] = field(default_factory=Counter)
    statuses: Counter[int] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)


def campaign(url: str, requests: int, *, seed: int) -> Report:
    """Send about this many requests; those for a graph go to `demo`."""
    known, report = operations(), Report()
    for number, operation in enumerate(known):
        _ask(operation, url, max(2, requests // len(known)), seed + number, report)
    return report


def operations() -> list[Any]:
    """Those of the document that a campaign asks for."""
    schema = schemathesis.openapi.from_dict(json.loads(FILE.read_text(encoding="utf-8")))
    known = [found.ok() for found in schema.get_all_operations()]
    return [one for one in known if one.definition.raw.get("operationId") not in _SKIPPED]


def _ask(operation: Any, url: str, times: int, number: int, report: Report) -> None:
    """Half of the requests are as the document says, the others are not."""
    for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):

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
            answer = case.call(base_url=url, headers={"connection": "close"}, timeout=60)
            report.requests[operation.label] += 1
            report.statuses[answer.status_code] += 1
            said = f"{case.method} {case.formatted_path} {answer.status_code}"
            if answer.status_code >= 500 and answer.status_code != 503:
                report.failures.append(f"{said}: {answer.text[:300]}; {case.body!r:.300} {case.query!r:.200}")
                return
            try:
                operation.validate_response(answer)
            except Exception as error:  # noqa: BLE001 - whatever it is, it is reported
                report.failures.append(f"{said}: {error!s:.600}")

        try:
            ask()
        except Exception as error:  # noqa: BLE001 - an operation without parameters has no wrong requests
            if "Unsatisfiable" not in type(error).__name__ and "unsatisfiable" not in str(error).lower():
                report.failures.append(f"{operation.label}: {type(error).__name__}: {error!s:.300}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--url")
    asked = parser.parse_args()
    if asked.url is not None:
        report = campaign(asked.url, asked.requests, seed=asked.seed)
    else:
        with tempfile.TemporaryDirectory() as folder, running(demo_store(Path(folder))) as server:
            report = campaign(server.url, asked.requests, seed=asked.seed)
    print(f"{report.requests.total()} requests, {dict(sorted(report.statuses.items()))}, {len(report.failures)} failures")
    for failure in report.failures[:50]:
        print(f"- {failure}")
    return 1 if report.failures else 0


if __name__ == "__main__":
    sys.exit(main())
