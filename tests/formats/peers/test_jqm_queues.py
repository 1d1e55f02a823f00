"""Queues of a node of JQM: what its poller and its tours start, and that nothing is booked for jobs that do not run."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fluxres.errors import InputError, UnknownJob, UsageError
from fluxres.formats.peers.jqm.allocator import DiscreteBookings, HighlanderBookings, QuantityBookings, QueuedJob, Queues
from fluxres.formats.peers.jqm.managers import Discrete, Highlander, Quantity

NEED = "com.enioka.jqm.rm.{}.consumption"


def threads(number: int, each: int = 1) -> QuantityBookings:
    return QuantityBookings(Quantity("thread", number, each))


def job(name: str, enqueued: float = 0.0, *, thread: int | None = None, ports: int | None = None, **more: Any) -> QueuedJob:
    needs = {NEED.format(key): number for key, number in (("thread", thread), ("ports", ports)) if number is not None}
    return QueuedJob(name, enqueued=enqueued, parameters=needs, **more)


def filled(queues: Queues, **jobs: list[QueuedJob]) -> Queues:
    for queue, listed in jobs.items():
        for each in listed:
            assert queues.submit(queue, each) == each.id
    return queues


def started(queues: Queues, **more: Any) -> list[str]:
    return [each.id for each in queues.poll(**more)]


def test_a_poller_skips_large_jobs_and_stops_when_nothing_is_left() -> None:
    queues = filled(Queues({"q": [threads(4)]}), q=[job("a", thread=2), job("big", thread=3), job("b"), job("c"), job("d")])
    assert started(queues) == ["a", "b", "c"]
    assert queues.waiting() == ["big", "d"]
    assert started(queues) == []  # no room by the defaults: the queue is not looked at
    queues.end("a")
    assert started(queues) == ["d"]
    for name in "bcd":
        queues.end(name)
    assert started(queues) == ["big"]


def test_a_poller_looks_at_three_jobs_per_free_place() -> None:
    queues = filled(Queues({"q": [threads(1)]}), q=[*(job(f"big{number}", thread=2) for number in range(3)), job("small")])
    assert started(queues) == []
    queues.managers["q"][0] = threads(2)
    assert started(queues) == ["big0"]


def test_exhausted_item_list_stops_the_complete_queue() -> None:
    ports = DiscreteBookings(Discrete("ports", ("p",)))
    queues = filled(Queues({"q": [threads(9), ports]}), q=[job("a", ports=1), job("b", ports=1), job("c")])
    assert started(queues) == ["a"]
    assert started(queues) == []
    queues.end("a")
    assert started(queues) == ["b", "c"]
    assert ports.items("b") == ("p",)


def test_priority_then_place_then_arrival() -> None:
    jobs = [job("old", 1), job("moved", 9, position=0), job("high", 5, priority=3), job("twin", 1)]
    queues = filled(Queues({"q": [threads(2)]}), q=jobs)
    assert queues.waiting("q") == ["high", "moved", "old", "twin"]
    assert started(queues) == ["high", "moved"]


def test_tours_take_one_job_of_each_queue_the_longest_waiting_first() -> None:
    shared = threads(5)
    queues = filled(
        Queues({"a": [shared], "b": [shared], "c": [shared]}, "tours"),
        a=[job("a1", 5), job("a2", 6), job("a3", 7)],
        b=[job("b1", 1)],
        c=[job("c1", 2), job("c2", 3)],
    )
    assert started(queues) == ["b1", "c1", "a1", "c2", "a2"]


def test_rest_is_kept_for_a_refused_job() -> None:
    shared = threads(5)
    queues = filled(
        Queues({"a": [shared], "b": [shared]}, "tours"),
        a=[job("a1", 1, thread=2), job("a2", 3, thread=3)],
        b=[job("b1", 2), job("b2", 4), job("b3", 5)],
    )
    assert started(queues) == ["a1", "b1"]
    assert shared.slots_available() == 2
    queues.end("b1")
    assert started(queues) == ["a2"]


def test_refusal_by_one_manager_undoes_the_bookings_of_others() -> None:
    first, second = threads(5), DiscreteBookings(Discrete("ports", ("p",)))
    queues = filled(Queues({"q": [first, second]}, "tours"), q=[job("a", thread=2, ports=2), job("b")])
    assert started(queues) == []
    assert (first.slots_available(), second.slots_available()) == (5, 1)


def test_queues_with_separate_managers_do_not_stop_each_other() -> None:
    queues = filled(
        Queues({"a": [threads(1)], "b": [threads(3)]}, "tours"),
        a=[job("a1", 1), job("a2", 2)],
        b=[job("b1", 3), job("b2", 4), job("b3", 5)],
    )
    assert started(queues) == ["a1", "b1", "b2", "b3"]
    assert queues.waiting() == ["a2"]


def test_frozen_jobs_age_and_do_not_start() -> None:
    shared = threads(1)
    queues = filled(
        Queues({"a": [shared], "b": [shared]}, "tours"), a=[job("f", 1, is_frozen=True)], b=[job("b1", 50), job("b2", 60)]
    )
    assert started(queues) == ["b1"]
    queues.freeze("f", False)
    queues.freeze("b2")
    assert queues.waiting() == ["f", "b2"]
    queues.end("b1")
    assert started(queues) == ["f"]
    queues.end("f")
    assert started(queues) == []
    with pytest.raises(UnknownJob):
        queues.freeze("f")


@pytest.mark.parametrize("policy", ["poller", "tours"])
def test_one_highlander_of_a_definition_runs_and_one_waits(policy: Any) -> None:
    def only() -> HighlanderBookings:
        return HighlanderBookings(Highlander("only"))

    queues = Queues({"a": [threads(9), only()], "b": [threads(9), only()]}, policy)
    first = job("h0", definition="H", is_highlander=True)
    assert queues.submit("a", first) == "h0"
    assert [queues.submit("b", job(f"h{n}", definition="H", is_highlander=True)) for n in (1, 2)] == ["h0", "h0"]
    assert started(queues) == ["h0"]
    assert queues.submit("b", job("h3", definition="H", is_highlander=True)) == "h3"
    queues.submit("b", job("plain", 1, definition="P"))
    assert started(queues) == (["plain"] if policy == "poller" else [])
    assert queues.running_of("H") == 1
    queues.end("h0")
    assert "h3" in started(queues)


def test_a_waiting_highlander_may_let_the_others_of_its_queue_pass() -> None:
    only = HighlanderBookings(Highlander("only"))
    jobs = [job("h", definition="H", is_highlander=True), job("a", 1), job("b", 2)]
    for skips, expected in ((False, []), (True, ["a", "b"])):
        queues = filled(
            Queues({"q": [threads(9), only], "r": [threads(1)]}, "tours", skips_highlanders=skips), r=[job("r", definition="H")]
        )
        assert started(queues) == ["r"]
        filled(queues, q=jobs)
        assert started(queues) == expected
        for name in expected:
            queues.end(name)


@pytest.mark.parametrize("policy", ["poller", "tours"])
def test_job_claimed_by_another_node_is_removed_and_not_booked(policy: Any) -> None:
    shared = threads(2)
    queues = filled(Queues({"q": [shared]}, policy), q=[job("a"), job("b", 1), job("c", 2)])
    assert started(queues, claim=lambda each: each.id != "a") == ["b", "c"]
    assert (queues.waiting(), queues.running(), shared.slots_available()) == ([], ["b", "c"], 0)


def test_invalid_submissions_and_ends_are_refused() -> None:
    queues = filled(Queues({"q": [threads(1)]}), q=[job("a")])
    for queue, each, error in (
        ("x", job("b"), UsageError),
        ("q", job("a"), UsageError),
        ("q", job("b", priority=11), InputError),
    ):
        with pytest.raises(error):
            queues.submit(queue, each)
    with pytest.raises(UnknownJob):
        queues.end("a")


JOBS = st.lists(
    st.tuples(st.sampled_from("ab"), st.integers(0, 3), st.integers(0, 2), st.integers(0, 3), st.booleans()), max_size=9
)


@given(st.sampled_from(["poller", "tours"]), JOBS, st.lists(st.booleans(), max_size=4))
def test_booked_resources_are_those_of_running_jobs(
    policy: Any, jobs: list[tuple[str, int, int, int, bool]], ends: list[bool]
) -> None:
    shared, ports = threads(4), DiscreteBookings(Discrete("ports", ("p", "q")))
    queues = Queues({"a": [shared, ports], "b": [shared]}, policy)
    needs: dict[str, tuple[int, int]] = {}
    for number, (queue, thread, items, rank, is_frozen) in enumerate(jobs):
        queues.submit(queue, job(str(number), number, thread=thread, ports=items, priority=rank, is_frozen=is_frozen))
        needs[str(number)] = thread, items if queue == "a" else 0
    waited = set(queues.waiting())
    for end in [False, *ends]:
        if end and queues.running():
            queues.end(queues.running()[0])
        now = started(queues)
        assert set(now) <= waited
        waited -= set(now)
        assert set(queues.waiting()) == waited
        assert not [name for name in now if jobs[int(name)][4]]
        running = queues.running()
        assert shared.slots_available() == 4 - sum(needs[name][0] for name in running)
        assert ports.slots_available() == 2 - sum(needs[name][1] for name in running)
