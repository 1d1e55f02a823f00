"""Which nodes satisfy a constraint (Flux RFC 31), for all nodes at once.

`syntax.constraint.matches` defines the meaning, one target at a time.  Here the same is done with masks, because a job's
constraint applies to ten thousand nodes of three kinds.  A constraint applies to the execution target, which is a node: pools in
a node are as eligible as the node, and pools above nodes are not tested.  On a machine without nodes, it applies to each pool.
"""

from __future__ import annotations

from copy import copy

import numpy as np
from numpy.typing import NDArray

from fluxres.graph.auxiliary import Int32
from fluxres.graph.kinds import STATES, PropertyValue
from fluxres.match.typology import Typology
from fluxres.syntax import hostlist
from fluxres.syntax.constraint import And, Constraint, Hostlist, Not, Or, Properties, Ranks, States

Mask = NDArray[np.bool_]


class Eligible:
    """The targets of one machine that satisfy one constraint.

    Cost: one vector operation over the nodes for each part of the constraint.
    Errors: LimitExceeded for a hostlist of more hosts than `limits.IDSET_COUNT_MAX`.
    """

    def __init__(self, typology: Typology, constraint: Constraint | None) -> None:
        self._typology = typology
        structure = typology.structure
        self.everywhere = constraint is None or constraint == And()
        self._by_pool = typology.node < 0
        self.targets = np.arange(structure.n, dtype=np.int32) if self._by_pool else typology.vertices(typology.node)
        #: Whether each target satisfies the constraint.
        self.mask: Mask = np.ones(len(self.targets), np.bool_)
        if not self.everywhere and constraint is not None:
            self.mask = self._evaluate(constraint)
            self.everywhere = bool(self.mask.all())
        self._barred: Int32 = self.targets[~self.mask]

    def of(self, v: int) -> bool:
        """Whether a pool may be used: its execution target satisfies the constraint, or it has none."""
        if self.everywhere:
            return True
        target = v if self._by_pool else self._typology.node_at[v]
        return target < 0 or not self._is_barred(target)

    def only(self, targets: NDArray[np.int64]) -> Eligible:
        """The same, restricted to these targets (by index)."""
        made = copy(self)
        made.mask = np.zeros(len(self.targets), np.bool_)
        made.mask[targets] = self.mask[targets]
        made.everywhere = bool(made.mask.all())
        made._barred = made.targets[~made.mask]
        return made

    def all_below(self, v: int) -> bool:
        """Whether every target strictly below a pool satisfies the constraint, which is required to take the pool exclusively."""
        return self.everywhere or self._by_pool or not len(self._barred_between(v + 1, v))

    def barred_in(self, v: int) -> Int32:
        """The targets that do not satisfy the constraint among a pool and those in it, as offsets from the pool."""
        return self._barred_between(v, v) - np.int32(v)

    def _barred_between(self, first: int, v: int) -> Int32:
        """The targets from `first` on within a pool that do not satisfy the constraint."""
        lo, hi = self._barred.searchsorted(np.array([first, self._typology.accounts.end.item(v)], np.int32)).tolist()
        return self._barred[lo:hi]

    def _is_barred(self, target: int) -> bool:
        at = int(self._barred.searchsorted(np.int32(target)))
        return at < len(self._barred) and int(self._barred[at]) == target

    def _evaluate(self, constraint: Constraint) -> Mask:
        structure = self._typology.structure
        match constraint:
            case Properties(required, excluded):
                found = np.ones(len(self.targets), np.bool_)
                for name in required:
                    found &= self._has(name)
                for name in excluded:
                    found &= ~self._has(name)
                return found
            case Hostlist(texts):
                hosts: set[str] = set()
                for text in texts:
                    hosts.update(hostlist.parse(text))
                return self._named(sorted(hosts))
            case Ranks():
                ranks = structure.rank[self.targets]
                found = np.zeros(len(ranks), np.bool_)
                for first, last in constraint.ranges():
                    found |= (first <= ranks) & (ranks <= last)
                return found
            case States(states):
                return np.isin(structure.state[self.targets], [STATES.index(state) for state in states])
            case Not(item):
                return ~self._evaluate(item)
            case And(items):
                found = np.ones(len(self.targets), np.bool_)
                for item in items:
                    found &= self._evaluate(item)
                return found
            case Or(items):
                found = np.full(len(self.targets), not items)
                for item in items:
                    found |= self._evaluate(item)
                return found

    def _has(self, name: str) -> Mask:
        """Targets with this property, bare or as `key=value`, or with this host name."""
        structure = self._typology.structure
        kinds = structure.kind[self.targets]
        having = [number for number in np.unique(kinds).tolist() if name in _names(structure.kinds[number].properties)]
        return np.isin(kinds, having) | self._named([name])

    def _named(self, names: list[str]) -> Mask:
        found = np.zeros(len(self.targets), np.bool_)
        vertices = np.array(self._typology.structure.named(names), np.int32)
        if vertices.size:
            at = np.minimum(self.targets.searchsorted(vertices), len(self.targets) - 1)
            found[at[self.targets[at] == vertices]] = True
        return found


def _names(properties: tuple[tuple[str, PropertyValue], ...]) -> set[str]:
    """The names that a constraint may use for the properties of a pool.

    >>> sorted(_names((("class", 7), ("ssd", None))))
    ['class', 'class=7', 'ssd']
    """
    return {key for key, _ in properties} | {f"{key}={value}" for key, value in properties if value is not None}
