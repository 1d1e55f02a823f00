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


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running(f"sqlite://{tmp_path_factory.mktemp('schema')}/site.db") as found:
        yield found


@pytest.mark.long
def test_answers_to_any_request_are_as_documented(shared: Server) -> None:
    report = Report()
    campaign(shared.url, REQUESTS, report, seed=1)
    assert report.failures == []
    assert set(report.requests) == {one.label for one in operations()}  # some have fewer different requests than others
    assert len(report.statuses) >= 3, report.statuses
