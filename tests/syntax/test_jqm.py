"""JQM's resource managers and every spelling of their parameters."""

from __future__ import annotations

from typing import Any

import pytest

from fluxres.errors import InputError, LimitExceeded
from fluxres.formats.peers.jqm.managers import (
    ITEMS_DEFAULT,
    Discrete,
    Highlander,
    Quantity,
    configured,
    consumption,
    environment,
    priority,
    seen_by_job,
    spellings,
)


def test_defaults() -> None:
    assert configured("quantity", "thread", {}) == Quantity("thread", 10, 1)
    assert configured("discrete", "ports", {}) == Discrete("ports", ITEMS_DEFAULT, 0)
    assert (ITEMS_DEFAULT[0], ITEMS_DEFAULT[-1], len(ITEMS_DEFAULT)) == ("item01", "item10", 10)
    assert configured("highlander", "Only", {}) == Highlander("only")


@pytest.mark.parametrize("number", range(3))
def test_all_spellings_of_a_manager(number: int) -> None:
    key = spellings("quantity", "thread", "quantity")[number]
    assert configured("quantity", "thread", {key: " 7 "}) == Quantity("thread", 7)


def test_the_spelling_with_the_manager_takes_precedence() -> None:
    full, seed, general = spellings("quantity", "thread", "consumption")
    manager = Quantity("thread", 10, 9)
    assert consumption(manager, {general: 5}, {}) == 5
    assert consumption(manager, {seed: 4}, {general: 5}) == 4
    assert consumption(manager, {full: 3, general: 5}, {seed: 4}) == 3
    assert consumption(manager, {}, {}) == 9
    assert consumption(manager, {full: 3}, {full: "2"}) == 2
    assert consumption(Quantity("memory"), {full: 3, seed: 4}, {}) == 1
    assert consumption(Highlander("x"), {general: 3}, {}) == 0


def test_a_job_does_not_see_parameters_of_managers() -> None:
    managers = [Quantity("thread"), Discrete("ports")]
    of_managers = {
        f"com.enioka.jqm.rm.{manager}.consumption": 1 for manager in ("quantity.thread", "thread", "discrete.ports", "ports")
    }
    other = {"com.enioka.jqm.rm.memory.consumption": 1, "day": "monday"}
    assert seen_by_job(managers, of_managers | other) == other


@pytest.mark.parametrize(
    ("type_name", "key", "parameters", "message"),
    [
        ("quantites", "a", {}, "no resource manager of type"),
        ("quantity", "", {}, "expected a key"),
        ("quantity", "a/b", {}, "expected a key"),
        ("quantity", "a", {"quantity": "ten"}, "a.quantity: expected a whole number of at least 0, got 'ten'"),
        ("quantity", "a", {"quantity": -1}, "expected a whole number of at least 0"),
        ("quantity", "a", {"quantity": 1.5}, "expected a whole number"),
        ("quantity", "a", {"quantity": True}, "expected a whole number"),
        ("quantity", "a", {"list": "x"}, "unknown parameter"),
        ("highlander", "a", {"quantity": 1}, "unknown parameter"),
        ("quantity", "a", {"com.enioka.jqm.rm.b.quantity": 1}, "unknown parameter"),
        ("discrete", "a", {"list": "x,x"}, "is listed twice"),
        ("discrete", "a", {"list": 3}, "expected items"),
    ],
)
def test_invalid_managers_are_refused(type_name: str, key: str, parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as found:
        configured(type_name, key, parameters)
    assert message in str(found.value)


def test_bounds() -> None:
    for parameters in ({"quantity": 2**64}, {"quantity": "9" * 30}):
        with pytest.raises(LimitExceeded):
            configured("quantity", "a", parameters)
    with pytest.raises(InputError):
        configured("quantity", "a", {"quantity": "9" * 5000})
    with pytest.raises(LimitExceeded):
        configured("discrete", "a", {"list": "x" * 300})


def test_items_are_trimmed_and_empty_ones_ignored() -> None:
    assert configured("discrete", "a", {"list": " x, ,y,"}) == Discrete("a", ("x", "y"))


def test_variables_and_priorities() -> None:
    assert environment({"ports": []}) == {}
    assert environment({"my.ports": ["a", "b"]}) == {"JQM_RM_DISCRETE_MY.PORTS_ITEMS": "a,b"}
    assert [priority(value) for value in (None, 1, 10)] == [0, 1, 10]
    for wrong in (0, 11, -1, "5", 5.0, True):
        with pytest.raises(InputError, match="from 1 to 10"):
            priority(wrong)
