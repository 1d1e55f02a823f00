"""The error tree: every error has a code, an exit status and an HTTP status, and shows place, value and hint."""

from __future__ import annotations

import json
import re

import pytest

from fluxres import errors
from fluxres.errors import STATUS, FluxresError, InfeasibleRequest, InsufficientResources, exit_status
from tests.traceability import ROOT


def tree(root: type[FluxresError] = FluxresError) -> list[type[FluxresError]]:
    return [root, *(error for child in root.__subclasses__() for error in tree(child))]


def test_every_error_is_in_the_table() -> None:
    in_package = [error for error in tree() if error.__module__.startswith("fluxres.")]
    assert set(in_package) == set(STATUS)


def test_documented_table_equals_the_table() -> None:
    text = (ROOT / "specs" / "errors.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| `([a-z-]+)` \| (\d) \| (\d{3}) \|", text, re.MULTILINE)
    assert rows == [(error.__name__, error.code, str(status), str(http)) for error, (status, http) in STATUS.items()]


def test_every_error_has_its_own_code() -> None:
    codes = [error.code for error in STATUS]
    assert len(set(codes)) == len(codes)


@pytest.mark.parametrize("error", STATUS)
def test_exit_status_follows_the_meaning(error: type[FluxresError]) -> None:
    if issubclass(error, errors.InsufficientResources | errors.StillHeld):
        expected = 1  # not now
    elif issubclass(error, errors.InfeasibleRequest) and not issubclass(error, errors.UsageError):
        expected = 3  # never
    elif issubclass(error, errors.StoreError):
        expected = 4  # store trouble
    elif issubclass(error, errors.RunFailed):
        expected = 5  # what was run failed
    else:
        expected = 2  # wrong use or input
    assert exit_status(error("no")) == expected


@pytest.mark.parametrize("error", STATUS)
def test_http_status_class_names_the_side_that_has_to_act(error: type[FluxresError]) -> None:
    status = STATUS[error][1]
    server_side = error in (
        errors.StoreError,
        errors.StoreBusy,
        errors.RunFailed,
        errors.InDoubt,
        errors.Unavailable,
        errors.StoreUnreachable,
        errors.NotLeader,
        errors.ServiceFault,
    )
    assert status in range(500, 600) if server_side else status in range(400, 500)


@pytest.mark.parametrize("error", STATUS)
def test_error_shows_place_value_and_hint(error: type[FluxresError]) -> None:
    raised = error("got 0", where="c.yaml:3:7: racks.count", hint="use at least 1")
    assert str(raised) == "c.yaml:3:7: racks.count: got 0 (use at least 1)"
    assert str(error("got 0")) == "got 0"
    plain = raised.to_dict()
    assert json.loads(json.dumps(plain)) == plain
    assert plain["error"] == error.code
    assert (plain["message"], plain["where"], plain["hint"]) == ("got 0", "c.yaml:3:7: racks.count", "use at least 1")


def test_insufficient_resources_has_time_and_reasons() -> None:
    plain = InsufficientResources("none free", earliest=3600.0, reasons={"/demo/node0": "held by j1"}).to_dict()
    assert plain["earliest"] == 3600.0
    assert plain["reasons"] == {"/demo/node0": "held by j1"}


def test_insufficient_resources_may_lack_a_time() -> None:
    assert InsufficientResources("none free").to_dict()["earliest"] is None


@pytest.mark.parametrize("reasons", [{"/demo": "has no gpu"}, ["no pool of type gpu", "no ssd"]])
def test_infeasible_request_has_reasons(reasons: dict[str, str] | list[str]) -> None:
    assert InfeasibleRequest("never", reasons=reasons).to_dict()["reasons"] == reasons
