"""Which groups of a worker's pools lie close together: `cpus[0]:gpus[0]=256,…` ↔ values; and the kernel's lists of cpus.

A weight between two groups makes HyperQueue prefer them together.  It speaks of groups by number, so it is read against
the pools it is about.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Final

from fluxres import limits
from fluxres.documents.document import excerpt
from fluxres.documents.suggestion import choose_from
from fluxres.errors import InputError, LimitExceeded
from fluxres.formats.peers.hyperqueue.definitions import Groups, Pool
from fluxres.formats.peers.hyperqueue.tokens import U32_MAX, Cursor
from fluxres.graph.groups import WEIGHT_DEFAULT

_WEIGHT_MAX: Final = 65_535
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9/]*")
_SPAN = re.compile(r"[ \t\n]*([0-9]+)(?:-([0-9]+))?[ \t\n]*")


@dataclass(frozen=True, slots=True, order=True)
class Coupling:
    """A weight between two groups, pools by their number among those of the worker; the first is not after the second."""

    resource1: int
    group1: int
    resource2: int
    group2: int
    weight: int = WEIGHT_DEFAULT


def parse(text: str, pools: Sequence[Pool]) -> list[Coupling]:
    """Couplings as given to ``hq worker start --coupling``, sorted.

    Args:
        text: ``NAME[GROUP]:NAME[GROUP][=WEIGHT]``, several with commas; the weight is 256 unless given.

    Errors: InputError with the column, for what is not written so, a pool or group that does not exist, a pool of one group, and
    a pair that is listed twice.

    >>> from fluxres.formats.peers.hyperqueue import definitions as hyperqueue
    >>> parse("gpus[1]:cpus[0]=8", [hyperqueue.parse("cpus=2x4"), hyperqueue.parse("gpus=2x1")])
    [Coupling(resource1=0, group1=0, resource2=1, group2=1, weight=8)]
    """
    cursor = Cursor(text, "coupling", limits.DOCUMENT_BYTES_MAX)
    numbers = {pool.name: number for number, pool in enumerate(pools)}
    found: list[Coupling] = []
    while True:
        cursor.skip()
        start = cursor.offset
        one = _group(cursor, pools, numbers)
        cursor.require(":", "a coupling is NAME[GROUP]:NAME[GROUP]=WEIGHT")
        other = _group(cursor, pools, numbers)
        weight = cursor.integer("a weight", _WEIGHT_MAX) if cursor.take("=") else WEIGHT_DEFAULT
        if one == other:
            raise cursor.error("two different groups", offset=start)
        found.append(Coupling(*min(one, other), *max(one, other), weight))
        if not cursor.take(","):
            break
    cursor.end("a comma or the end")
    return checked(found, pools)


def checked(couplings: Iterable[Coupling], pools: Sequence[Pool]) -> list[Coupling]:
    """Couplings in order, each of groups that exist. Errors: InputError naming the pool."""
    found = sorted(couplings)
    pairs = set()
    for each in found:
        for resource, group in ((each.resource1, each.group1), (each.resource2, each.group2)):
            if not 0 <= resource < len(pools):
                raise InputError(f"Resource not found: number {resource} of {len(pools)}", where="coupling")
            _require_group(pools[resource], group, "coupling")
        pair = (each.resource1, each.group1, each.resource2, each.group2)
        if pair in pairs:
            names = f"{pools[each.resource1].name}[{each.group1}]:{pools[each.resource2].name}[{each.group2}]"
            raise InputError(f"{names} is listed twice", where="coupling", hint="remove one")
        pairs.add(pair)
    return found


def _group(cursor: Cursor, pools: Sequence[Pool], numbers: dict[str, int]) -> tuple[int, int]:
    cursor.skip()
    start = cursor.offset
    name = cursor.match(_NAME, "the name of a resource")
    cursor.require("[", "a group is NAME[NUMBER]")
    group = cursor.integer("the number of a group")
    cursor.require("]")
    if name not in numbers:
        raise InputError(f"Resource not found: {name}", where=cursor.where(start), hint=choose_from(numbers))
    _require_group(pools[numbers[name]], group, cursor.where(start))
    return numbers[name], group


def _require_group(pool: Pool, group: int, where: str) -> None:
    if not isinstance(pool.kind, Groups):
        hint = "coupling is between groups, such as those of NxM"
        raise InputError(f"Resource '{pool.name}' has only a single group", where=where, hint=hint)
    if not 0 <= group < len(pool.kind.groups):
        hint = f"groups are 0 to {len(pool.kind.groups) - 1}"
        raise InputError(f"Invalid group id {group} for resource '{pool.name}'", where=where, hint=hint)


def format(couplings: Iterable[Coupling], pools: Sequence[Pool]) -> str:  # noqa: A001 - read as hyperqueue_coupling.format
    """Couplings as text; :func:`parse` reads equal ones back."""
    return ",".join(
        f"{pools[each.resource1].name}[{each.group1}]:{pools[each.resource2].name}[{each.group2}]"
        + (f"={each.weight}" if each.weight != WEIGHT_DEFAULT else "")
        for each in couplings
    )


def to_plain(couplings: Iterable[Coupling]) -> list[dict[str, int]]:
    """Couplings as HyperQueue's JSON output has them.

    >>> to_plain([Coupling(0, 1, 1, 1)])
    [{'resource1_idx': 0, 'group1_idx': 1, 'resource2_idx': 1, 'group2_idx': 1, 'weight': 256}]
    """
    keys = ("resource1_idx", "group1_idx", "resource2_idx", "group2_idx", "weight")
    values = attrgetter("resource1", "group1", "resource2", "group2", "weight")
    return [dict(zip(keys, values(each), strict=True)) for each in couplings]


def parse_cpulist(text: str) -> list[str]:
    """The labels in a list of cpus as Linux writes it, in the order written.

    Errors: InputError with the column; LimitExceeded beyond `limits.HOSTLIST_RANGE_MAX` cpus.

    >>> parse_cpulist("2,7, 10-12\\n")
    ['2', '7', '10', '11', '12']
    """
    if len(text) > limits.REQUEST_TEXT_MAX:
        raise LimitExceeded(f"expected at most {limits.REQUEST_TEXT_MAX} characters, got {len(text)}", where="cpulist:1")
    found: list[str] = []
    column = 1
    for field in text.split(","):
        span = _SPAN.fullmatch(field)
        if span is None:
            raise InputError(f"expected a number or a range, got {excerpt(field.strip())}", where=f"cpulist:{column}")
        first, last = (int(end) if len(end) < 11 else U32_MAX + 1 for end in (span[1], span[2] or span[1]))
        if last < first:
            raise InputError(f"expected an ascending range, got {excerpt(field.strip())}", where=f"cpulist:{column}")
        if last > U32_MAX or len(found) + last - first >= limits.HOSTLIST_RANGE_MAX:
            message = f"expected at most {limits.HOSTLIST_RANGE_MAX} cpus numbered up to {U32_MAX}"
            raise LimitExceeded(message, where=f"cpulist:{column}")
        found.extend(map(str, range(first, last + 1)))
        column += len(field) + 1
    return found
