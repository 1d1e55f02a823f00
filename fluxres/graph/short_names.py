"""Names as people type them: a host (`cpu001`), a pool in a node (`core0@node3`), or any name that only one pool has.

No table of all names is made.  A name is turned into what its pool must have in the columns, and they are scanned; the names of
all nodes are made only where many names are looked up, for part of a host name, for the nearest names of an unknown one, and for
completion.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Final

import numpy as np

from fluxres import limits
from fluxres.arrays import Int64
from fluxres.documents.suggestion import did_you_mean, near
from fluxres.errors import UnknownPool

if TYPE_CHECKING:
    from fluxres.graph.accounts import Pools

AT: Final = "@"
NODE: Final = "node"
_NOWHERE: Final = "a path starts with '/', a URI reads 'name:/path'"
_SHOWN_MAX: Final = 3
_SCANS_MAX: Final = 16
"""Names looked up by scans; further ones are looked up in a table of all nodes."""
_SPLITS_MAX: Final = 8
_ZEROS: Final = re.compile(r"0+(?=[0-9])")
_DIGITS: Final = "0123456789"


class ShortNames:
    """Finds pools of one structure by name alone.

    A name of nodes means the node; otherwise it means the only pool of the machine that has it, or else the node whose host name
    continues after it with a dot (``cpu001`` for ``cpu001.site.org``) or an ``@``.

    Args:
        structure: its shape and names must not change.
        is_placed: whether a text is a path, a URI or a uuid, rather than a name.
    """

    def __init__(self, structure: Pools, is_placed: Callable[[str], bool]) -> None:
        self._s = structure
        self._is_placed = is_placed
        self._lookups = 0

    def meant(self, name: str) -> list[int]:
        """The pools that a name may mean, ascending: none if nothing has it, several if it is ambiguous.

        Cost: a vector scan of the machine for each way in which its names are made.
        """
        return self._meant(name, {})

    def _meant(self, name: str, known: dict[str, list[int]]) -> list[int]:
        """What `meant` finds; `known` has what the ends of a name such as ``core0@socket1@node3`` mean."""
        found = self._named(name)
        for pool, host in _splits(name) if not found else ():
            if host not in known and self._is_placed(host):
                known[host] = [self._s.vertex(host)]
            elif host not in known:
                known[host] = self._meant(host, known) if host.count(AT) <= _SPLITS_MAX else self._named(host)
            found = self._below([pool], known[host])[0]
            if found:
                break
        return found

    def _below(self, names: Sequence[str], tops: Iterable[int]) -> list[list[int]]:
        """The pools with each of these names below any of the tops, ascending."""
        found: list[set[int]] = [set() for _ in names]
        for top in tops:
            of_name = self._by_name(names, top)
            for pools, name in zip(found, names, strict=True):
                pools.update(of_name.get(name, ()))
        return [sorted(pools) for pools in found]

    def _named(self, name: str) -> list[int]:
        self._lookups += 1
        if self._lookups > _SCANS_MAX and (nodes := self._of_host.get(name)):
            return nodes
        found = self._s.named([name])
        return [v for v in found if self._s.kind_of(v).type == NODE] or found or self._continued(name)

    def _continued(self, name: str) -> list[int]:
        found: list[int] = []
        for start in (f"{name}{AT}", f"{name}."):
            at = bisect_left(self._hosts, (start, 0))
            while at < len(self._hosts) and self._hosts[at][0].startswith(start):
                found.append(self._hosts[at][1])
                at += 1
        return sorted(found)

    def _tops(self, host: str) -> list[int]:
        return [self._s.vertex(host)] if self._is_placed(host) else self.meant(host)

    def _by_name(self, names: Iterable[str], top: int = -1, type_name: str | None = None) -> dict[str, list[int]]:
        """The pools with these names, of a type or of any, below `top` or everywhere."""
        block = slice(0, self._s.n) if top < 0 else slice(top + 1, self._s.end.item(top))
        found: dict[str, list[int]] = {}
        for v in self._s.named(names, block, type_name):
            found.setdefault(self._s.name(v), []).append(v)
        return found

    def vertex(self, name: str) -> int:
        """The pool that a name means.

        Errors: UnknownPool with the nearest names, or with the pools that an ambiguous name may mean.
        """
        found = self.meant(name)
        if len(found) == 1:
            return found[0]
        if found:
            raise self._ambiguous(name, found)
        pool, at, host = name.partition(AT)
        if not (at and pool and host):
            raise self._unknown(name)
        raise self._not_below(pool, host, self._tops(host))

    def all(self, names: Sequence[str]) -> list[int]:
        """The pools that several names mean, in their order.

        Errors: as :meth:`vertex`.
        Cost: two scans for all of them.
        """
        if len(names) == 1:
            return [self.vertex(names[0])]
        known = self._by_name(names, type_name=NODE)
        others = [name for name in dict.fromkeys(names) if name not in known]
        if others:
            self.vertex(others[0])  # refuses an ambiguous list before every pool of these names is collected
            known |= self._by_name(others)
        return [found[0] if len(found := known.get(name, [])) == 1 else self.vertex(name) for name in names]

    def all_below(self, names: Sequence[str], hosts: Sequence[str]) -> list[int]:
        """The pools with these names below each of these hosts, in the order of the hosts.

        Errors: as :meth:`vertex`.
        """
        found: list[int] = []
        for host, tops in zip(hosts, self._tops_of(hosts), strict=True):
            for name, of_name in zip(names, self._below(names, tops), strict=True):
                if len(of_name) > 1:
                    raise self._ambiguous(f"{name}{AT}{host}", of_name)
                found += of_name or [self.vertex(f"{name}{AT}{host}")]  # a name with an '@' of its own, or nothing
        return found

    def _tops_of(self, hosts: Sequence[str]) -> list[list[int]]:
        """What each of these hosts may mean: several pools if one of them alone contains what is looked for."""
        named = [host for host in hosts if not self._is_placed(host)]
        try:
            known = dict(zip(named, ([v] for v in self.all(named)), strict=True)) if named else {}
        except UnknownPool:
            known = {}
        return [known[host] if host in known else self._tops(host) for host in hosts]

    def _not_below(self, name: str, host: str, tops: Sequence[int]) -> UnknownPool:
        """The error for a name below a host, or for the host."""
        if not tops:
            inner, at, outer = host.partition(AT)
            is_chain = at and inner and outer and host.count(AT) <= _SPLITS_MAX
            return self._not_below(inner, outer, self._tops(outer)) if is_chain else self._unknown(host)
        if len(tops) > 1:
            return self._ambiguous(host, tops)
        (top,) = tops
        below = range(top + 1, min(self._s.end.item(top), top + 1 + limits.NEAREST_MAX))
        hint = _closest(name, dict.fromkeys(self._s.name(v) for v in below))
        return UnknownPool(f"no pool '{_short(name)}' below {self._s.where(top)}", where=_short(f"{name}{AT}{host}"), hint=hint)

    def _unknown(self, name: str) -> UnknownPool:
        is_type = any(kind.type == name for kind in self._s.kinds)
        hint = f"it is a type: `find type={name}`" if is_type else self.nearest(name)
        return UnknownPool("no pool has this name", where=_short(name), hint=hint)

    def _ambiguous(self, name: str, found: Sequence[int]) -> UnknownPool:
        shown = ", ".join(self._s.where(v) for v in found[:_SHOWN_MAX])
        message = f"{len(found)} pools have this name"
        return UnknownPool(message, where=_short(name), hint=f"name one of them: {shown}{', …' * (len(found) > _SHOWN_MAX)}")

    # -- names to choose from ----------------------------------------------------------------------------------------

    @cached_property
    def _hosts(self) -> list[tuple[str, int]]:
        """The names of all nodes, ascending, and the nodes.  Cost: a name for each node, on the first call."""
        return sorted((self._s.name(v), v) for v in self.nodes.tolist())

    @cached_property
    def _of_host(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for v, name in sorted((v, name) for name, v in self._hosts):
            found.setdefault(name, []).append(v)
        return found

    @property
    def nodes(self) -> Int64:
        is_node = np.array([kind.type == NODE for kind in self._s.kinds], np.bool_)
        return np.flatnonzero(is_node[self._s.kind])

    def offered(self) -> Iterator[str]:
        """The names of nodes, and of the pools that contain nodes and those outside the tree, as far as they are few."""
        yield from self._of_host
        above = self.nodes
        while len(above := np.unique(self._s.parent[above])) and above[-1] >= 0:
            above = above[above >= 0]
            yield from (self._s.name(v) for v in above[: limits.NEAREST_MAX].tolist())
        outside = range(self._s.tree_end, min(self._s.n, self._s.tree_end + limits.NEAREST_MAX))
        yield from (self._s.name(v) for v in outside)

    def nearest(self, name: str, otherwise: str = _NOWHERE) -> str:
        """A hint with the names most like this one, or another hint if there are none."""
        names = dict.fromkeys(islice(self.offered(), limits.NEAREST_MAX)) if "/" not in name else ()
        return _closest(name, names) or otherwise


def _closest(name: str, known: Iterable[str]) -> str:
    """The names with the same number, or the similar ones, and the range of those that only differ by it.

    >>> _closest("cpu0001", ["cpu001", "cpu002"])
    'did you mean cpu001? there are 2, from cpu001 to cpu002'
    >>> _closest("spone", ["spine", "leaf"])
    'did you mean spine?'
    """
    names, stem = list(known), _stem(name)
    alike = [one for one in names if _plain(one) == _plain(name)]
    family = [one for one in names if _stem(one) == stem and one != stem]
    if not (alike or family):
        alike = near(name, names, most=_SHOWN_MAX, cutoff=0.7)
    said = [did_you_mean(alike[:_SHOWN_MAX])] if alike else []
    if len(family) > 1:
        said.append(f"there are {len(family)}, from {family[0]} to {family[-1]}")
    return " ".join(said)


def _splits(name: str) -> Iterator[tuple[str, str]]:
    """The ways to read a name as that of a pool and that of its host.

    >>> list(_splits("core0@lab@1"))
    [('core0', 'lab@1'), ('core0@lab', '1')]
    """
    places = islice((at for at, character in enumerate(name) if character == AT), _SPLITS_MAX)
    yield from ((name[:at], name[at + 1 :]) for at in places if 0 < at < len(name) - 1)


def _short(name: str) -> str:
    return name[: limits.NAME_LENGTH_MAX]


def _plain(name: str) -> str:
    return _ZEROS.sub("", name.lower())


def _stem(name: str) -> str:
    return name.rstrip(_DIGITS).lower()
