"""The checker of histories: right ones and wrong ones, all small ones by trying every order, and those of a real server."""

from __future__ import annotations

import math
import threading
import time
from itertools import permutations
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.service import histories
from tests.service.conftest import Server
from tests.service.histories import FREE, Client, wrong
from tests.service.linearizability import Operation, problem

N, A, B = "/demo/rack0/node0", "a", "b"
CORE = (f"{N}/core0",)


def took(called: float, answered: float, job: str = A, answer: Any = CORE) -> Operation:
    return Operation(called, answered, "allocate", (N, job, CORE), answer)


def gave(called: float, answered: float, job: str = A, answer: Any = ()) -> Operation:
    return Operation(called, answered, "free", (N, job, None), answer)


def extended(called: float, answered: float, end: float, answer: Any) -> Operation:
    return Operation(called, answered, "extend", (N, A, end), answer)


def state(called: float, answered: float, to: str) -> Operation:
    return Operation(called, answered, "set_state", (N, to), 1)


RIGHT: dict[str, list[Operation]] = {
    "one after the other": [took(0, 1), gave(2, 3), took(4, 5, B)],
    "the answer that came first was to the later one": [took(0, 10, B), took(1, 3), gave(2, 11)],
    "a refusal beside the end of what it met": [took(0, 1), gave(2, 6), took(3, 4, B, "insufficient"), took(5, 7, B)],
    "no answer, and done": [took(0, math.inf), took(1, 2, B, "insufficient")],
    "no answer, and not done": [took(0, math.inf), took(1, 2, B)],
    "no answer, and done long after": [took(0, math.inf), took(1, 2, B), gave(3, 4, B), gave(5, 6, A)],
    "an end that was set before": [took(0, 1), extended(2, 3, 9.0, ((*CORE, 9.0),))],
    "a node that is down": [state(0, 1, "down"), took(2, 3, A, "insufficient"), state(4, 5, "up"), took(6, 7)],
}

WRONG: dict[str, list[Operation]] = {
    "given twice": [took(0, 1), took(2, 3, B)],
    "given twice at once": [took(0, 2), took(1, 3, B)],
    "acknowledged and lost": [took(0, 1), gave(2, 3, A, "unknown-job")],
    "freed twice": [took(0, 1), gave(2, 4), gave(3, 5)],
    "refused for what nobody held": [took(0, 1, A, "insufficient")],
    "refused for what was freed before": [took(0, 1), gave(2, 3), took(4, 5, B, "insufficient")],
    "done before it was asked for": [took(0, 1, B, "insufficient"), took(2, math.inf)],
    "an end that was lost": [took(0, 1), extended(2, 3, 9.0, ((*CORE, math.inf),))],
    "done twice": [took(0, 1), gave(2, 3), took(4, 5, B, "insufficient"), took(6, math.inf)],
    "allocated while down": [state(0, 1, "down"), took(2, 3)],
    "two clients that saw two orders": [took(0, 9), took(0, 9, B), gave(10, 11, A), gave(10, 11, B)],
}


@pytest.mark.parametrize("history", RIGHT.values(), ids=RIGHT)
def test_a_history_that_a_sequence_explains(history: list[Operation]) -> None:
    assert problem(history, FREE, histories.step) is None


@pytest.mark.parametrize("history", WRONG.values(), ids=WRONG)
def test_a_history_that_no_sequence_explains(history: list[Operation]) -> None:
    found = problem(history, FREE, histories.step)
    assert found is not None
    assert "stuck:" in found


# -- a register, by trying every order -----------------------------------------------------------------------------------


def register(value: int, operation: Operation) -> int | None:
    """It answers a write with the value before it, and a read with the value."""
    after = operation.given[0] if operation.name == "swap" else value
    return after if not operation.is_answered or operation.answer == value else None


def is_explained(history: list[Operation]) -> bool:
    """By any order of any choice of what had no answer, in which nothing comes before what was answered before its call."""
    answered = [one for one in history if one.is_answered]
    open_ = [one for one in history if not one.is_answered]
    for chosen in range(1 << len(open_)):
        for order in permutations(answered + [one for number, one in enumerate(open_) if chosen >> number & 1]):
            later = enumerate(order, 1)
            if any(other.answered < one.called for place, one in later for other in order[place:]):
                continue
            value: int | None = 0
            for one in order:
                value = register(value, one) if value is not None else None
            if value is not None:
                return True
    return False


OPERATIONS = st.builds(
    lambda called, length, name, given, answer: Operation(called, called + length, name, (given,), answer),
    st.integers(0, 8),
    st.sampled_from([1, 2, 4, 8, math.inf]),
    st.sampled_from(["swap", "read"]),
    st.integers(0, 2),
    st.integers(0, 2),
)


@given(st.lists(OPERATIONS, max_size=5))
def test_the_search_finds_what_trying_every_order_finds(history: list[Operation]) -> None:
    assert (problem(history, 0, register) is None) == is_explained(history)


# -- a server ------------------------------------------------------------------------------------------------------------


def test_clients_of_a_server_see_a_linearizable_history(server: Server) -> None:
    clients, end = [Client(f"c{number}", Random(number)) for number in range(4)], threading.Event()
    threads = histories.at_work(clients, server.url, end)
    until_s = time.monotonic() + 60.0
    while not all(len(client.history) > 100 for client in clients) and time.monotonic() < until_s:
        time.sleep(0.05)
    end.set()
    for thread in threads:
        thread.join()
    assert wrong(clients) == []
    seen = [one for client in clients for one in client.history]
    assert {one.name for one in seen if not isinstance(one.answer, str)} == {"allocate", "free", "extend", "set_state"}
    assert all(one.is_answered for one in seen)
    clients[0].history.append(gave(time.monotonic(), time.monotonic() + 1.0, "a job that never held anything"))
    (found,) = wrong(clients)
    assert "never held anything" in found
