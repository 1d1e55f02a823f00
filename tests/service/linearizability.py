"""Whether one sequence explains a history of concurrent operations, each of them between its call and its answer.

The search is that of Wing and Gong with the memory of Lowe, as in porcupine: it tries the operations that may come next in the
order of their calls, goes back when an answer cannot come before what is left, and visits no pair of operations done and state
twice. Operations on parts that have nothing in common are searched apart, since a history is linearizable if each part is
(Herlihy and Wing, 1990).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Operation:
    """One call of a client.

    Args:
        called, answered: by one clock; infinity if there was no answer, so it may have been done or not.
        name, given: what was asked.
        answer: what came back; nothing is known of it if there was no answer.
        client: for messages.
    """

    called: float
    answered: float
    name: str
    given: tuple[Any, ...] = ()
    answer: Any = None
    client: str = ""

    @property
    def is_answered(self) -> bool:
        return self.answered < math.inf

    def __str__(self) -> str:
        said = repr(self.answer) if self.is_answered else "no answer"
        return f"[{self.called:.6f}, {self.answered:.6f}] {self.client} {self.name}{self.given} → {said}"


Step = Callable[[Any, Operation], Any]
"""The state after an operation; None if its answer is not that of this state. States are hashable."""


def problem(history: Iterable[Operation], initial: Hashable, step: Step) -> str | None:
    """What no sequence explains; None if the history is linearizable."""
    search = _Search(sorted(history, key=lambda one: one.called), step)
    return None if search.succeeds(initial) else search.account()


def problems(
    history: Iterable[Operation], part: Callable[[Operation], Hashable], initial: Callable[[Any], Hashable], step: Step
) -> list[str]:
    """What no sequence explains, for each part of the state that operations have in common."""
    parts: defaultdict[Hashable, list[Operation]] = defaultdict(list)
    for one in history:
        parts[part(one)].append(one)
    found = ((key, problem(ones, initial(key), step)) for key, ones in parts.items())
    return [f"{key}: {text}" for key, text in found if text is not None]


class _Search:
    """A depth-first search over the calls and answers that are left, a list linked both ways.

    Args:
        operations: in the order of their calls.
    """

    def __init__(self, operations: Sequence[Operation], step: Step) -> None:
        self.operations, self.step = operations, step
        moments = [(one.called, 0, number) for number, one in enumerate(operations)]
        moments += [(one.answered, 1, number) for number, one in enumerate(operations) if one.is_answered]
        moments.sort()
        # Place 0 is the head of the list; a place behind the last one is its end.
        self.is_answer = [False] + [bool(kind) for _, kind, _ in moments]
        self.number = [-1] + [number for *_, number in moments]
        self.answer_of = {number: place for place, (_, kind, number) in enumerate(moments, 1) if kind}
        self.end = len(moments) + 1
        self.next = list(range(1, self.end + 1))
        self.back = list(range(-1, self.end))
        self.deepest: list[int] = []
        self.stuck: list[int] = []

    def succeeds(self, state: Hashable) -> bool:
        done, seen = 0, set[tuple[int, Hashable]]()
        path: list[tuple[int, Hashable]] = []
        place = self.next[0]
        while place != self.end:
            if not self.is_answer[place]:
                number = self.number[place]
                after = self.step(state, self.operations[number])
                known = (done | 1 << number, after)
                if after is not None and known not in seen:
                    seen.add(known)
                    path.append((place, state))
                    done, state = known
                    self._take(place)
                    place = self.next[0]
                else:
                    place = self.next[place]
                continue
            if len(path) >= len(self.deepest):  # this answer comes before anything else can be done
                self.deepest, self.stuck = [self.number[one] for one, _ in path], self._left()
            if not path:
                return False
            place, state = path.pop()
            done &= ~(1 << self.number[place])
            self._put_back(place)
            place = self.next[place]
        return True

    def _take(self, place: int) -> None:
        """Take a call and its answer out of the list."""
        for one in (place, self.answer_of.get(self.number[place])):
            if one is not None:
                self.next[self.back[one]], self.back[self.next[one]] = self.next[one], self.back[one]

    def _put_back(self, place: int) -> None:
        for one in (self.answer_of.get(self.number[place]), place):
            if one is not None:
                self.next[self.back[one]] = self.back[self.next[one]] = one

    def _left(self) -> list[int]:
        """The operations that were called before the first answer that is left."""
        found, place = [], self.next[0]
        while not self.is_answer[place]:
            found.append(self.number[place])
            place = self.next[place]
        return found

    def account(self) -> str:
        """Where the search came farthest."""
        lines = [f"no sequence explains these, after {len(self.deepest)} operations"]
        lines += [f"  before: {self.operations[number]}" for number in self.deepest[-8:]]
        lines += [f"  stuck:  {self.operations[number]}" for number in self.stuck]
        return "\n".join(lines)
