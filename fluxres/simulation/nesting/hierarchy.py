"""Levels of instances over one machine: how many children each has, what they get, which jobs go where.

`36x32` means 36 children of the outermost instance, each with 32 of its own.  An instance divides its resources evenly, in the
coarsest pools of which there are enough: 36 nodes among 36 children, then the 32 cores of each node among 32.  Jobs are dealt to
the innermost instances in turns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

import numpy as np

from fluxres.arrays import Int32
from fluxres.documents.document import plural
from fluxres.errors import InfeasibleRequest, UsageError
from fluxres.graph.kinds import WAY
from fluxres.instance.policy import policy
from fluxres.instance.queue import QueuePolicy
from fluxres.match.policy import policy as match_policy
from fluxres.model import ResourceGraph
from fluxres.simulation.nesting import balance, elastic

LARGER = ("refuse", "up")

_MANY = 10
"""With this many pools per child, one more or less does not justify dividing a finer type."""


@dataclass(frozen=True)
class Hierarchy:
    """Levels below the outermost instance.

    Args:
        fan_outs: children of each instance, by level; empty for one flat instance.
        queue_policies, match_policies: by level from the outermost on; the last one applies to all further levels.
        boot_s: how long an instance takes to start.
        ahead: how many jobs may wait in an innermost instance before it takes more of its share; 0 for any number. By default
            four times its units for ensembles, whose jobs wait only for room, and any number otherwise.
        divide: types of the pools that instances divide among their children, by level; by default `shares` chooses.
        sizes: by level, the units of each child, if they are not equal; empty for a level of equal ones. What they leave is the
            parent's own.
        larger: what happens to a job that is too large for its instance: "refuse", or "up": it goes to the next sibling that can
            hold it, else to the parent.
        balance: which waiting jobs go to another innermost instance of the same parent: none, steal, redeal:SECONDS.
        elastic: how innermost instances grow and shrink: none, demand, share:SECONDS. Since one that has shrunk may be too small
            for a job, this needs larger="up".
        starts_per_node: how many jobs and instances a node can start at the same time; 0 for any number. A job has its slots
            while it is launched, an instance until it has begun.
    """

    fan_outs: tuple[int, ...] = ()
    queue_policies: tuple[str, ...] = ("easy",)
    match_policies: tuple[str, ...] = ("first",)
    boot_s: float = 0.0
    ahead: int | None = None
    divide: tuple[str, ...] = ()
    sizes: tuple[tuple[int, ...], ...] = ()
    larger: str = "refuse"
    balance: str = "none"
    elastic: str = "none"
    starts_per_node: int = 0

    def __post_init__(self) -> None:
        if self.larger not in LARGER:
            raise UsageError(f"larger: expected {' or '.join(LARGER)}, got {self.larger!r:.80}", where="hierarchy")
        balance.parse(self.balance)
        if elastic.parse(self.elastic).is_needed and self.larger != "up":
            raise UsageError(
                "elastic instances may be too small for a job", where="hierarchy", hint="set larger: up as well (--larger up)"
            )
        for number, own in zip(self.fan_outs, self.sizes, strict=False):
            if own and (len(own) != number or min(own) < 1):
                raise UsageError(f"expected the sizes of {number} children, got {own!r:.80}", where="hierarchy")
        if any(number < 1 for number in self.fan_outs) or not self.queue_policies or not self.match_policies:
            raise UsageError(f"expected fan-outs of at least 1 and a policy, got {self.fan_outs!r:.80}", where="hierarchy")
        if self.boot_s < 0 or (self.ahead or 0) < 0 or self.starts_per_node < 0:
            raise UsageError("expected a boot time and numbers of jobs and starts of at least 0", where="hierarchy")
        given: tuple[object, ...] = self.queue_policies
        for each in given:
            if isinstance(each, QueuePolicy) and self.fan_outs:
                message = f"a policy object ({each.name}) would be shared by all instances of a level"
                raise UsageError(message, where="hierarchy", hint="give its name, of which each instance gets its own")
        for name in self.queue_policies:
            policy(name)
        for name in self.match_policies:
            match_policy(name)

    @property
    def leaves(self) -> int:
        """The number of innermost instances."""
        return prod(self.fan_outs)

    @property
    def levels(self) -> int:
        """The number of levels of instances, including the outermost."""
        return len(self.fan_outs) + 1

    def queue_policy(self, level: int) -> str:
        return self.queue_policies[min(level, len(self.queue_policies) - 1)]

    def match_policy(self, level: int) -> str:
        return self.match_policies[min(level, len(self.match_policies) - 1)]

    def sizes_of(self, level: int) -> tuple[int, ...]:
        """The sizes of the children of an instance of a level; empty if they are equal."""
        return self.sizes[level] if level < len(self.sizes) else ()

    def divides(self, level: int) -> str:
        """What an instance of a level divides; empty to choose automatically."""
        return self.divide[min(level, len(self.divide) - 1)] if self.divide else ""


def topology(text: str) -> tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]:
    """Fan-outs, and the sizes of unequal children, by level, from a text.

    Errors: UsageError.

    >>> topology("2x4"), topology("16+8+8x2")
    (((2, 4), ()), ((3, 2), ((16, 8, 8), ())))
    """
    words = text.lower().split("x")
    sizes = [word.split("+") for word in words]
    if all(len(own) == 1 for own in sizes):
        return fan_outs(text), ()
    for word in (word for own in sizes if len(own) > 1 for word in own):
        if not (word.isdecimal() and len(word) < 10 and int(word)):
            raise UsageError(f"expected sizes such as 16+8+8, got {text!r:.80}", where="hierarchy")
    made = fan_outs("x".join(own[0] if len(own) == 1 else str(len(own)) for own in sizes))
    return made, tuple(tuple(map(int, own)) if len(own) > 1 else () for own in sizes)


def fan_outs(text: str) -> tuple[int, ...]:
    """Fan-outs from a text; `1` is flat.

    Errors: UsageError.

    >>> fan_outs("2x4"), fan_outs("1")
    ((2, 4), ())
    """
    words = text.lower().split("x")
    if not all(word.isdecimal() and 0 < int(word[:9]) < 10**6 and len(word) < 7 for word in words):
        raise UsageError(f"expected fan-outs such as 2x4, got {text!r:.80}", where="hierarchy")
    return tuple(int(word) for word in words) if words != ["1"] else ()


def require_policies(names: Sequence[str], levels: int, what: str) -> None:
    """Errors: UsageError for policies of levels that no instance has.

    >>> require_policies(("easy", "fcfs"), 1, "queue policy")
    Traceback (most recent call last):
        ...
    fluxres.errors.UsageError: queue policy: expected at most one for each of 1 level of instances, got easy:fcfs (use ...)
    """
    if len(names) > levels:
        raise UsageError(
            f"expected at most one for each of {plural(levels, 'level')} of instances, got {':'.join(names):.80}",
            where=what,
            hint="use a topology with more levels, or fewer policies",
        )


def by_level(text: str) -> tuple[str, ...]:
    """Names by level from a text; a name may have parameters.

    >>> by_level("easy:fcfs"), by_level("hybrid:depth=8:fcfs")
    (('easy', 'fcfs'), ('hybrid:depth=8', 'fcfs'))
    >>> by_level('wfp.py:Wfp3:{"power": 2, "depth": 1}:fcfs')
    ('wfp.py:Wfp3:{"power": 2, "depth": 1}', 'fcfs')
    """
    found: list[str] = []
    for word in text.split(":"):
        last = found[-1] if found else ""
        is_open = last.endswith(".py") or last.count("{") > last.count("}")
        if found and (is_open or "=" in word or word.startswith("{")):
            found[-1] += f":{word}"
        else:
            found.append(word)
    return tuple(found)


def shares(graph: ResourceGraph, number: int, where: str, *, by: str = "", finest: str = "") -> tuple[str, list[int]]:
    """How an instance divides its resources among children: a type, and how many pools of it each child gets.

    Chooses the coarsest type of which each child gets equally many, or enough that one more or less hardly matters; failing that,
    the coarsest of which each gets at least one.  3,018 nodes among four are divided as nodes, although their cores would divide
    evenly.  Types that would leave something behind (cores, if nodes also have GPUs) come last.  Pools are counted, not weighed:
    if nodes differ, so do the parts.

    Args:
        by: the type to divide; empty to choose.
        finest: the type that jobs request, below which nothing is divided; empty for any.

    Errors: InfeasibleRequest if there is not enough of anything.
    """
    structure = graph.structure
    counted = []
    for name in structure.types:
        vertices = structure.of_type(name)
        own = vertices[(structure.flags[vertices] & WAY) == 0]
        if len(own) and own[0] > 0 and own[-1] < structure.tree_end:
            counted.append(
                _Divisible(structure.depth.item(int(own[0])), name, int(structure.size[own].sum()), _leaves(graph, own))
            )
    lowest = next((found.depth for found in counted if found.type == finest), structure.tree_end)
    divisible = sorted(found for found in counted if (found.type == by if by else found.depth <= lowest))
    every = max((found.leaves for found in divisible), default=0)
    for is_whole, is_even in ((True, True), (True, False), (False, True), (False, False)):
        for _, name, units, leaves in divisible:
            fits = not is_even or units % number == 0 or units >= _MANY * number
            if units >= number and fits and (leaves == every or not is_whole):
                return name, [units // number + (child < units % number) for child in range(number)]
    most = max(divisible, key=lambda found: found.units, default=_Divisible(0, by or "any", 0, 0))
    hint = "use a smaller fan-out"
    if not by and len(divisible) < len(counted):
        hint += f", or jobs that request less than a {finest}"
    raise InfeasibleRequest(
        f"{number} children requested, but there are at most {most.units} of type {most.type} to divide", where=where, hint=hint
    )


def require_units(graph: ResourceGraph, unit: str, sizes: Sequence[int], where: str) -> None:
    """Refuse children of given sizes for which a machine has not enough.

    Errors: InfeasibleRequest.
    """
    structure = graph.structure
    vertices = structure.of_type(unit) if unit in structure.types else np.zeros(0, np.int32)
    own = vertices[(structure.flags[vertices] & WAY) == 0]
    units = int(structure.size[own].sum())
    if sum(sizes) > units:
        message = f"children of {'+'.join(map(str, sizes))} requested, but there are {units} of type {unit} to divide"
        raise InfeasibleRequest(message, where=where, hint="use smaller sizes")


class _Divisible(NamedTuple):
    depth: int
    type: str
    units: int
    leaves: int


def _leaves(graph: ResourceGraph, own: Int32) -> int:
    """Pools among these without children."""
    structure = graph.structure
    end = structure.end[: structure.tree_end]
    before = np.concatenate([[0], np.cumsum(end == np.arange(1, len(end) + 1))])
    return int((before[end[own]] - before[own]).sum())
