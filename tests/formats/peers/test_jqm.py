"""JQM's three results, and what is free after them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fluxres.errors import InputError
from fluxres.formats.peers.jqm.allocator import DiscreteBookings, HighlanderBookings, QuantityBookings
from fluxres.formats.peers.jqm.managers import Discrete, Highlander, Quantity

NEED = "com.enioka.jqm.rm.thread.consumption"


def test_empty_begins_below_the_default_consumption() -> None:
    bookings = QuantityBookings(Quantity("thread", 6, 4))
    assert bookings.book("a", {NEED: 4}) == "go"
    assert bookings.book("b", {NEED: 5}) == "empty"
    assert bookings.book("b", {NEED: 2}) == "go"
    assert QuantityBookings(Quantity("thread", 3)).book("a", {}, {NEED: 9}) == "not-enough"
    with pytest.raises(InputError):
        bookings.book("c", {NEED: "many"})


def test_reduced_quantity_in_use_may_leave_a_negative_amount() -> None:
    bookings = QuantityBookings(Quantity("thread", 7, 3))
    bookings.book("a", {NEED: 7})
    bookings.reconfigure(Quantity("thread", 3, 3))
    assert bookings.slots_available() == -1
    bookings.release("a")
    bookings.release("a")
    assert bookings.slots_available() == 1
    assert QuantityBookings(Quantity("thread", 7, 0)).slots_available() == 7


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 4)), max_size=20))
def test_items_are_never_held_by_two_jobs(steps: list[tuple[str, int]]) -> None:
    bookings = DiscreteBookings(Discrete("thread", ("p", "q", "r"), 1))
    for job, need in steps:
        free = bookings.slots_available()
        if bookings.items(job):
            bookings.release(job)
            continue
        answer = bookings.book(job, {NEED: need})
        assert answer == ("go" if need <= free else "not-enough" if free else "empty")
        held = [item for each in "abc" for item in bookings.items(each)]
        assert len(held) == len(set(held)) == 3 - bookings.slots_available()
        assert bookings.environment(job) == (
            {"JQM_RM_DISCRETE_THREAD_ITEMS": ",".join(bookings.items(job))} if bookings.items(job) else {}
        )


def test_item_list_changed_while_in_use() -> None:
    bookings = DiscreteBookings(Discrete("thread", ("p", "q"), 2))
    assert bookings.book("a", {}) == "go"
    bookings.reconfigure(Discrete("thread", ("q", "r"), 1))
    assert bookings.slots_available() == 1
    bookings.release("a")
    assert bookings.slots_available() == 2


def test_highlander_runs_once() -> None:
    bookings = HighlanderBookings(Highlander("only"))
    assert bookings.book("a", "d", is_highlander=True) == "go"
    assert bookings.book("b", "d", is_highlander=True) == "not-enough"
    assert bookings.book("c", "e", is_highlander=True) == "go"
    assert bookings.book("d", "d", is_highlander=False) == "go"
    for job in "ad":
        bookings.release(job)
    assert bookings.book("b", "d", is_highlander=True) == "go"
