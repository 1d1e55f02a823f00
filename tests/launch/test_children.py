"""Messages between parents and children, and children that send invalid messages."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fluxres import limits
from fluxres.errors import InputError, LimitExceeded
from fluxres.launch import children, protocol, work
from fluxres.launch.hierarchy import EqualJobs, Patience, begin, run
from fluxres.launch.loop import Loop
from fluxres.launch.protocol import Go, Lines, Row, Working
from fluxres.simulation.nesting.hierarchy import Hierarchy
from tests.launch.machines import of_shape

NUMBERS = st.integers(0, 2**40)
TIMES = st.floats(0, 1e10)
ROWS = st.builds(
    Row,
    tree_id=st.text(max_size=20),
    begin_s=TIMES,
    end_s=TIMES,
    boot_s=TIMES,
    match_s=TIMES,
    started=NUMBERS,
    jobs=NUMBERS,
    completed=NUMBERS,
    failed=NUMBERS,
    nodes=NUMBERS,
    cores=NUMBERS,
    gpus=NUMBERS,
    status=st.integers(0, 255),
    note=st.text(max_size=50),
    is_leaf=st.booleans(),
)


@given(ROWS | st.builds(Working, completed=NUMBERS, failed=NUMBERS))
def test_messages_of_a_child_arrive(message: Any) -> None:
    text = protocol.line(message)
    assert text.count(b"\n") == 1
    assert protocol.to_parent(text) == message


def test_messages_of_a_parent_arrive() -> None:
    said = begin(Hierarchy((2, 4), ("easy", "fcfs")), EqualJobs(10, "sleep:1", duration_s=3.0), Patience())
    assert protocol.to_child(protocol.line(said)) == said
    assert isinstance(protocol.to_child(protocol.line(Go())), Go)
    assert (said.grace_s, said.silence_s) == (limits.GRACE_SECONDS_DEFAULT, limits.SILENCE_SECONDS_DEFAULT)
    assert limits.SIGN_OF_LIFE_S * 10 < limits.SILENCE_SECONDS_DEFAULT


@given(st.binary(max_size=60))
def test_invalid_messages_are_errors_with_their_position(text: bytes) -> None:
    for read, where in ((protocol.to_parent, "child"), (protocol.to_child, "parent")):
        with pytest.raises(InputError) as caught:
            read(text)
        assert caught.value.where == where


@given(st.lists(st.binary(max_size=20).filter(lambda line: b"\n" not in line)), st.lists(st.integers(1, 7)))
def test_lines_are_reassembled_however_they_are_split(said: list[bytes], cuts: list[int]) -> None:
    text = b"".join(line + b"\n" for line in said)
    lines, found = Lines(), []
    for size in cuts:
        found += lines.take(text[:size])
        text = text[size:]
    assert found + list(lines.take(text)) == said


def test_line_without_end_is_refused() -> None:
    with pytest.raises(LimitExceeded, match=str(limits.MESSAGE_BYTES_MAX)):
        list(Lines().take(b"x" * (limits.MESSAGE_BYTES_MAX + 1)))


@pytest.mark.parametrize(
    ("program", "note"),
    [
        ("print('hello', flush=True); import time; time.sleep(600)", "child: JSON is malformed"),
        ("print('[1]', flush=True); import time; time.sleep(600)", "child: Expected"),
        ("print('x' * 10**6, flush=True); import time; time.sleep(600)", "a line of more than"),
        ("pass", "ended with status 0"),
        ("import sys; sys.exit(3)", "ended with status 3"),
        ("import os; os.abort()", "killed by signal 6 (SIGABRT)"),
        pytest.param("import os, time; os.close(1); time.sleep(600)", "no message for 4 s", marks=pytest.mark.slow),
        ("import time; time.sleep(600)", "no message for 4 s"),
    ],
)
def test_process_that_is_not_a_child_is_lost(program: str, note: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(children, "_ARGV", (sys.executable, "-S", "-c", program))
    patience = Patience(grace_s=0.5, silence_s=2.0)
    outcome = run(of_shape("node=2"), Hierarchy((1,)), EqualJobs(5, request="slot=1/node"), patience)
    assert (outcome.completed, outcome.lost) == (0, 5)
    assert note in outcome.notes["tree.1"]
    assert outcome.rows[1].status


def test_work_is_read_from_text() -> None:
    assert work.parse("sleep:1.5m") == work.Sleep(90.0)
    assert work.parse("instant -x") == work.Command(("instant", "-x"))
    assert work.parse("a 'b c' \"d\"") == work.Command(("a", "b c", "d"))


def test_timers_are_in_order_and_can_be_canceled() -> None:
    done: list[int] = []
    with Loop() as loop:
        loop.after(0.02, lambda: done.append(2))
        loop.after(0.01, lambda: done.append(1))
        loop.after(0.0, lambda: done.append(0)).cancel()
        while len(done) < 2:
            loop.turn()
        loop.turn()  # nothing is left: it does not wait
    assert done == [1, 2]
