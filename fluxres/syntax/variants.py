"""What a task needs of one node, as HyperQueue says it: amounts of named resources, a policy for each, and alternatives.

A jobspec asks for pools.  A task of HyperQueue asks for amounts, whatever kind of pool holds them: indices, parts of an index, or
units of a sum.  It also says which groups of a node it prefers, and several variants in order of preference.  They are the rule
of its `Request` (:class:`fluxres.match.workers.Amounts`).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import msgspec

from fluxres.syntax import count as counts
from fluxres.syntax.count import Count
from fluxres.syntax.range import Range
from fluxres.syntax.vertex import SLOT, Vertex, settled

PER_UNIT: Final = 10_000
"""Amounts are integers of ten-thousandths."""
FRACTION_UNIT: Final = "0.0001"
"""The unit of a pool that is counted in ten-thousandths."""
SHARE: Final = "share"
"""The type of the pool below an index that holds its ten-thousandths."""
ALL: Final = -1
"""The amount of a request for everything a node has of a resource."""
CPUS: Final = "cpus"

TYPES: Final = {CPUS: "core", "gpus": "gpu"}
"""The words of other systems for types that have another name here."""
RESERVED: Final = frozenset({"cluster", "node", "socket", "group", SHARE, SLOT})
"""Words of other systems that have a meaning here; their type gets a `_` at the end."""

POLICIES: Final = ("compact", "compact!", "tight", "tight!", "scatter")
"""Which indices of a grouped pool: as few groups as can be, evenly or as full as can be; ``!`` waits for the fewest."""


class Ask(msgspec.Struct, frozen=True):
    """One resource of a request.

    Args:
        name: as HyperQueue has it; :func:`type_of` gives the type.
        amount: ten-thousandths, or ALL.
        policy: one of POLICIES; None for ALL and in the grammar of versions up to 0.12, which has none.
    """

    name: str
    amount: int
    policy: str | None = "compact"

    @property
    def is_forced(self) -> bool:
        """Whether it rather waits than take more groups than it needs."""
        return self.policy is not None and self.policy.endswith("!")

    @property
    def units(self) -> int:
        """Complete units; 0 for ALL."""
        return max(self.amount, 0) // PER_UNIT

    @property
    def fraction(self) -> int:
        """Ten-thousandths of one more unit; 0 for ALL."""
        return max(self.amount, 0) % PER_UNIT


class Variant(msgspec.Struct, frozen=True):
    """One way in which a task can run: in one node with these resources, or on `nodes` whole nodes.

    Args:
        asks: each name once.
        nodes: whole nodes of one group of workers; 0 for part of one node.
        min_time_s: seconds that a node must still be there.
        weight: preference of a scheduler, above 0.
    """

    asks: tuple[Ask, ...] = ()
    nodes: int = 0
    min_time_s: float = 0.0
    weight: float = 1.0


def format_amount(amount: int) -> str:
    """Ten-thousandths as the shortest text.

    >>> format_amount(15_000), format_amount(5_000_123), format_amount(20_000)
    ('1.5', '500.0123', '2')
    """
    units, fraction = divmod(amount, PER_UNIT)
    return f"{units}.{fraction:04}".rstrip("0") if fraction else str(units)


def type_of(word: str, types: Collection[str] = ()) -> str:
    """The graph type for a word of another system.

    Args:
        types: of the graph; a word that is one of them is kept.

    >>> type_of("gpus"), type_of("gpus/amd"), type_of("cpus", ["cpus"])
    ('gpu', 'gpus_amd', 'cpus')
    """
    plain = word.replace("/", "_")
    if plain in types or word not in TYPES:
        return f"{plain}_" if plain in RESERVED else plain
    return TYPES[word]


def resources(variant: Variant, *, types: Collection[str] = (), sums: Collection[str] = ()) -> tuple[Vertex, ...]:
    """The nearest that a jobspec says to a variant: one slot within one node, or exclusive nodes.

    A fraction asks for ten-thousandths of one index, or, for a type in `sums`, of the amount.  Policies, the meaning of `all` and
    times are lost.

    >>> gpus = Variant((Ask("gpus", 15_000, "scatter"), Ask("cpus", 10_000)))
    >>> [(vertex.type, vertex.count.min) for vertex in resources(gpus)[0].children]
    [('gpu', 1), ('gpu', 1), ('core', 1)]
    """
    if variant.nodes:
        return settled([_slot([Vertex("node", counts.exactly(variant.nodes), exclusive=True)])])
    inside: list[Vertex] = []
    for ask in variant.asks:
        name = type_of(ask.name, types)
        if ask.amount == ALL:
            inside.append(Vertex(name, Count(Range(1, None))))
        elif name in sums:
            inside.append(Vertex(name, counts.exactly(ask.amount), FRACTION_UNIT))
        else:
            inside += [Vertex(name, counts.exactly(ask.units))] if ask.units else []
            if ask.fraction:
                share = Vertex(SHARE, counts.exactly(ask.fraction), FRACTION_UNIT)
                inside.append(Vertex(name, counts.exactly(1), exclusive=False, children=(share,)))
    return settled([_slot(inside)])


def _slot(inside: list[Vertex]) -> Vertex:
    return Vertex(SLOT, counts.exactly(1), label="task", children=tuple(inside))
