"""A HyperQueue worker as it is described: stacks in memory, and every choice of groups tried.

It knows nothing of graphs, so a graph that is asked the same can be compared with it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

UNIT = 10_000
Index = tuple[str, int, int]
"""Label, group and ten-thousandths (0 for all of it)."""


@dataclass
class Pool:
    """Indices by group, the next one last; or an amount, if there are no groups."""

    groups: list[list[str]]
    amount: int = 0
    open: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.idle = [len(group) for group in self.groups]
        self.size = sum(self.idle) * UNIT or self.amount
        self.place = {label: (number, at) for number, group in enumerate(self.groups) for at, label in enumerate(group)}

    def most_open(self, group: int) -> int:
        return max((left for label, left in self.open.items() if self.place[label][0] == group), default=0)

    @property
    def most(self) -> int:
        return self.amount + sum(map(len, self.groups)) * UNIT + max(self.open.values(), default=0)

    @property
    def free(self) -> int:
        return self.amount + sum(map(len, self.groups)) * UNIT + sum(self.open.values())

    def is_enough(self, groups: Iterable[int], units: int, fraction: int) -> bool:
        groups = list(groups)
        is_open = any(self.most_open(group) >= fraction for group in groups)
        return sum(len(self.groups[group]) for group in groups) >= units + (fraction > 0 and not is_open)

    def score(self, group: int, fraction: int, *, idle: bool) -> float:
        if fraction and not idle and self.most_open(group) >= fraction:
            return -1024 + 16 * self.most_open(group) / UNIT
        return -1024 - (self.idle[group] if idle else len(self.groups[group])) / 32


class Worker:
    """Pools by name, and weights between (pool, group) and (pool, group)."""

    def __init__(self, pools: Mapping[str, Pool], weights: Mapping[tuple[tuple[str, int], tuple[str, int]], float]) -> None:
        self.pools, self.weights = dict(pools), weights

    def best(self, asks: Mapping[str, tuple[int, str | None]], *, idle: bool) -> float | None:
        """The value of the best choice of groups for the resources that select some."""
        return max((self.worth(way, asks, idle=idle) for way in self._ways(asks, idle=idle)), default=None)

    def best_ways(self, asks: Mapping[str, tuple[int, str | None]]) -> list[dict[str, tuple[int, ...]]]:
        """The choices that are worth most.  A task need not get something of each chosen group: one may only be near another."""
        best = self.best(asks, idle=False)
        return [way for way in self._ways(asks) if best is not None and abs(self.worth(way, asks) - best) < 1e-6]

    def _ways(self, asks: Mapping[str, tuple[int, str | None]], *, idle: bool = False) -> Iterator[dict[str, tuple[int, ...]]]:
        ways = []
        for name, (amount, _) in asks.items():
            pool, (units, fraction) = self.pools[name], divmod(amount, UNIT)
            every = range(len(pool.groups))
            subsets = itertools.chain.from_iterable(itertools.combinations(every, size) for size in range(1, len(every) + 1))
            if idle:
                ways.append([way for way in subsets if sum(pool.idle[group] for group in way) >= units + bool(fraction)])
            else:
                ways.append([way for way in subsets if pool.is_enough(way, units, fraction)])
        return (dict(zip(asks, way, strict=True)) for way in itertools.product(*ways))

    def worth(
        self, groups: Mapping[str, Sequence[int]], asks: Mapping[str, tuple[int, str | None]], *, idle: bool = False
    ) -> float:
        alone = sum(
            self.pools[name].score(group, asks[name][0] % UNIT, idle=idle) for name, chosen in groups.items() for group in chosen
        )
        return alone + sum(
            weight for ((a, i), (b, j)), weight in self.weights.items() if i in groups.get(a, ()) and j in groups.get(b, ())
        )

    def choosing(self, asks: Mapping[str, tuple[int, str | None]]) -> dict[str, tuple[int, str | None]]:
        """The resources that select groups."""
        return {
            name: ask for name, ask in asks.items() if len(self.pools[name].groups) > 1 and ask[0] >= 0 and ask[1] != "scatter"
        }

    def can_give(self, asks: Mapping[str, tuple[int, str | None]]) -> bool:
        for name, (amount, _) in asks.items():
            pool = self.pools.get(name)
            if pool is None or (pool.most < pool.size if amount < 0 else amount > pool.most):
                return False
        choosing = self.choosing(asks)
        now, idle = self.best(choosing, idle=False), self.best(choosing, idle=True)
        if now is None or not any(policy is not None and policy.endswith("!") for _, policy in choosing.values()):
            return now is not None
        return idle is None or now >= idle - 0.1

    # -- taking and returning -----------------------------------------------------------------------------------------------

    def take(self, name: str, amount: int, policy: str | None, chosen: Sequence[int]) -> list[Index]:
        """What a task gets from these groups, in the order in which it sees it."""
        pool = self.pools[name]
        if not pool.groups:
            pool.amount -= pool.size if amount < 0 else amount
            return []
        units, fraction = divmod(pool.size if amount < 0 else amount, UNIT)
        found: list[Index] = []
        every = list(range(len(pool.groups)))
        if len(every) == 1:
            found = [(pool.groups[0].pop(), 0, 0) for _ in range(units)]
            chosen = every
        elif amount >= 0 and policy in ("tight", "tight!"):
            left = set(chosen)
            while units:
                holds = [(len(pool.groups[group]), group) for group in left]
                fitting = [each for each in holds if each[0] >= units]
                size, group = min(fitting) if fitting else min(holds, key=lambda each: (-each[0], each[1]))
                left.discard(group)
                found += [(pool.groups[group].pop(), group, 0) for _ in range(min(units, size))]
                units -= min(units, size)
        else:
            chosen = every if amount < 0 or policy == "scatter" else chosen
            while units:
                for group in chosen:
                    if units and pool.groups[group]:
                        found.append((pool.groups[group].pop(), group, 0))
                        units -= 1
            found.sort(key=lambda index: pool.place[index[0]])
        return found + self._share(pool, chosen, fraction)

    @staticmethod
    def _share(pool: Pool, chosen: Sequence[int], fraction: int) -> list[Index]:
        for group in chosen if fraction else ():
            fitting = [(left, pool.place[label], label) for label, left in pool.open.items()]
            fitting = [each for each in fitting if each[0] >= fraction and each[1][0] == group]
            if fitting or pool.groups[group]:
                label = min(fitting)[2] if fitting else pool.groups[group].pop()
                pool.open[label] = pool.open.get(label, UNIT) - fraction
                return [(label, group, fraction)]
        assert not fraction
        return []

    def release(self, name: str, indices: Sequence[Index], amount: int) -> None:
        pool = self.pools[name]
        if not pool.groups:
            pool.amount += amount
        for label, group, share in reversed(indices):
            if share:
                pool.open[label] += share
                if pool.open[label] < UNIT:
                    continue
                del pool.open[label]
            pool.groups[group].append(label)
