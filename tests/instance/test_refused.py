"""What was refused is not searched again, and reservations that a pass makes again stay in the records."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fluxres import Instance
from fluxres.allocation.records import Records
from fluxres.instance.refused import Refused, Wanted, Wants
from fluxres.match.matcher import Matcher
from fluxres.syntax.jobspec import as_request
from tests.instance.machines import of_shape

numbers = st.integers(1, 6)


@given(st.lists(st.tuples(numbers, numbers)), numbers, numbers)
def test_more_for_longer_is_refused_too(known: list[tuple[int, int]], number: int, duration: int) -> None:
    refused = Refused()
    for n, length in known:
        refused.add(Wanted(0, n), length)
    assert refused.includes(Wanted(0, number), duration) == any(n <= number and d <= duration for n, d in known)
    assert not refused.includes(Wanted(1, number), duration)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("slot=2/core=2", "slot=2/core=3"),
        ("node=2", "core=2"),
        ("slot=2-3/node", "slot=2/node"),
        ("node=2/core", "node=2/core=2"),
    ],
)
def test_other_requests_are_of_another_kind(one: str, other: str) -> None:
    wants = Wants()
    assert wants.of(as_request(one)).kind != wants.of(as_request(other)).kind


def test_only_the_number_of_the_whole_request_is_divided() -> None:
    wants, undivided = Wants(), Wants(is_divided=False)
    small, large = as_request("slot=2/[core=2;gpu=1]"), as_request("slot=5/[core=2;gpu=1]")
    assert [wants.of(small), wants.of(large)] == [Wanted(0, 2), Wanted(0, 5)]
    assert [undivided.of(small), undivided.of(large)] == [Wanted(0, 1), Wanted(1, 1)]
    both = as_request("[core=2;gpu=1]")
    assert wants.of(both) == Wanted(1, 1)


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(["slot={}/node", "slot={}/core=2", "core={}", "slot={}/node=2", "slot={}/[core=3]", "slot={}/node/core"]),
    st.lists(
        st.tuples(st.sampled_from(["slot=1/node", "slot=3/core", "slot=2/core=2", "slot=1/core"]), numbers, numbers), max_size=5
    ),
    numbers,
    st.tuples(st.integers(0, 3), numbers),
)
def test_nothing_fits_above_the_bound_of_the_matcher(
    shape: str, held: list[tuple[str, int, int]], asked: int, window: tuple[int, int]
) -> None:
    graph = of_shape("node=5/core=4")
    for number, (what, start, length) in enumerate(held):
        graph.allocate_orelse_reserve(what, job=f"j{number}", after=start, duration_s=length)
    start, end = window[0] * 1_000_000, sum(window) * 1_000_000
    most = graph.matcher.at_most(as_request(shape.format(asked)), start, end)
    assert most < 30  # it is known
    for number in range(most + 1, most + 3):
        assert graph.matcher.match(as_request(shape.format(number)), start, end) is None


def test_reservations_that_do_not_move_are_written_once(monkeypatch: pytest.MonkeyPatch) -> None:
    written, searched = [], []
    allocate, earliest = Records.allocate, Matcher.earliest
    monkeypatch.setattr(Records, "allocate", lambda *args, **named: (written.append(args[2]), allocate(*args, **named))[1])
    monkeypatch.setattr(Matcher, "earliest", lambda *args, **named: (searched.append(args[1]), earliest(*args, **named))[1])
    now = [0.0]
    graph = of_shape("node=3/core=2")
    instance = Instance(graph, queue_policy="easy", clock=lambda: now[0])
    instance.submit("slot=1/node", duration_s=100)
    head = instance.submit("slot=3/node", duration_s=10)
    small = [instance.submit("slot=1/node", duration_s=10) for _ in range(6)]
    for at in (9.0, 18.0, 27.0):
        now[0] = at
        for job in [job for job in small if job.state.name == "RUN"]:
            instance.finish(job)
    assert [job.started_at for job in small] == [0, 0, 9, 9, 18, 18]
    assert head.reserved_at == 100
    assert len(written) == 8
    assert len(searched) == 1


def test_a_reserved_job_that_starts_before_its_reservation_holds_its_pools_once() -> None:
    now = [0.0]
    graph = of_shape("node=2")
    instance = Instance(graph, queue_policy="easy", clock=lambda: now[0])
    first = instance.submit("slot=1/node", duration_s=100)
    head = instance.submit("slot=2/node", duration_s=10)
    now[0] = 50.0
    instance.finish(first)
    assert (head.started_at, head.ends_at) == (50, 60)
    assert [span.start for span in graph.pool("/cluster/node0").allocations()] == [50]
    now[0] = 60.0
    instance.finish(head)
    assert graph.records.jobs() == []
