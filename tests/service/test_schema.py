"""Requests made from the OpenAPI document: no answer is a fault of the service, and each is as the document says.

    python -m tests.service.campaign --requests 20000

makes many more.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.service.campaign import Report, campaign, operations
from tests.service.conftest import Server, running

REQUESTS = 76
PARTS = 2


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running(f"sqlite://{tmp_path_factory.mktemp('schema')}/site.db") as found:
        yield found


@pytest.mark.long
@pytest.mark.parametrize("part", range(PARTS))
def test_answers_to_any_request_are_as_documented(shared: Server, part: int) -> None:
    report = Report()
    campaign(shared.url, REQUESTS // PARTS, report, seed=1, part=part, parts=PARTS)
    assert report.failures == []
    assert set(report.requests) == {one.label for one in operations()[part::PARTS]}  # some have fewer different ones than others
    assert len(report.statuses) >= 3, report.statuses
