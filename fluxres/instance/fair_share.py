"""Fair-share factors: what users and accounts have used, beside their shares, by the two algorithms of Slurm.

The usage of a user is units times seconds, decays exponentially, and includes jobs that run (`Usage`).  Users and accounts form a
tree with shares.  Those that the accounting does not list are added with one share when they first run a job.

Classic: F = 2 ** (-U / S / d) with the normalised shares S and the effective usage U, which includes a part of what others in the
same account have used.  Fair Tree: all users are ranked, an account with less usage for its shares before others at each level,
and F is the rank divided by the number of users.  (Slurm's pages "Classic Fairshare Algorithm" and "Fair Tree Fairshare
Algorithm".)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import inf, log
from typing import Final

from fluxres.instance.accounting import ROOT, Accounting

_NO_RULES: Final = Accounting()
Account = tuple[str, str | None]
"""An account and a user of it."""
Used = tuple[float, int, float]
"""What a user had used at a moment, the units that its jobs held then, and that moment in seconds."""


class Usage:
    """What a user has used, in units times seconds, decaying exponentially, and what the running jobs of the user add to it.

    >>> usage = Usage()
    >>> usage.charge(4, 0.0, 1e9); usage.charge(-4, 10.0, 1e9)
    >>> round(usage.at(10.0, 1e9), 3), round(usage.at(20.0, 10.0), 3)
    (40.0, 20.0)
    """

    __slots__ = ("amount", "rate", "since_s")

    def __init__(self) -> None:
        self.amount = 0.0
        """At `since_s`."""
        self.rate = 0
        """Units held since then."""
        self.since_s = 0.0

    def at(self, now_s: float, half_life_s: float) -> float:
        """The usage now."""
        kept: float = 0.5 ** ((now_s - self.since_s) / half_life_s)
        return self.amount * kept + self.rate * half_life_s / log(2.0) * (1.0 - kept)

    def charge(self, change: int, now_s: float, half_life_s: float) -> None:
        """Count more units from now on, or fewer."""
        self.amount, self.since_s = self.at(now_s, half_life_s), now_s
        self.rate += change


class Node:
    """A user in an account, or an account.

    Args:
        above: its account; None for the root.
        shares: among those of the same account.
    """

    __slots__ = ("above", "below", "is_user", "shares", "usage")

    def __init__(self, above: Node | None, shares: int, *, is_user: bool) -> None:
        self.above = above
        self.below: list[Node] = []
        self.shares = shares
        self.is_user = is_user
        self.usage = Usage()
        if above is not None:
            above.below.append(self)


class FairShares:
    """The tree of accounts and users.

    Args:
        half_life_s: of usage.
    """

    def __init__(self, rules: Accounting | None, half_life_s: float) -> None:
        self.rules = _NO_RULES if rules is None else rules
        self.half_life_s = half_life_s
        self.root = Node(None, 1, is_user=False)
        self._accounts: dict[str, Node] = {ROOT: self.root}
        self._users: dict[Account, Node] = {}
        self._ranks: tuple[float, dict[Node, float]] | None = None
        for name in self.rules.accounts:
            self._account(name)
        for name in self.rules.users:
            self._user(name, None)

    def _account(self, name: str) -> Node:
        found = self._accounts.get(name)
        if found is None:
            rule = self.rules.accounts.get(name)
            above = self._account(ROOT if rule is None else rule.parent)
            found = self._accounts[name] = Node(above, 1 if rule is None else rule.fairshare, is_user=False)
        return found

    def _user(self, user: str | None, account: str | None) -> Node:
        account = self.rules.account_of(user, account)
        found = self._users.get((account, user))
        if found is None:
            rule = self.rules.users.get(user or "")
            found = self._users[account, user] = Node(self._account(account), 1 if rule is None else rule.fairshare, is_user=True)
        return found

    def charge(self, user: str | None, account: str | None, change: int, now_s: float) -> None:
        """Charge a user for more units from now on, or fewer."""
        at: Node | None = self._user(user, account)
        while at is not None:
            at.usage.charge(change, now_s, self.half_life_s)
            at = at.above
        self._ranks = None

    def used_by(self, user: str | None, account: str | None) -> tuple[Account, Used] | None:
        """To whom the jobs of a user in an account are charged, and what has been used there; None before the first starts."""
        found = self._known(user, account)
        if found is None:
            return None
        return (self.rules.account_of(user, account), user), (found.usage.amount, found.usage.rate, found.usage.since_s)

    def used(self) -> dict[Account, Used]:
        """What each user has used."""
        return {key: (one.usage.amount, one.usage.rate, one.usage.since_s) for key, one in self._users.items()}

    def resume(self, known: Mapping[Account, Used]) -> None:
        """Go on with what users have used by an earlier instance; that of accounts is the sum."""
        for (account, user), (amount, rate, since_s) in known.items():
            at: Node | None = self._user(user, account)
            while at is not None:
                usage, other = at.usage, Usage()
                other.amount, other.rate, other.since_s = amount, rate, since_s
                now_s = max(usage.since_s, since_s)
                usage.amount = usage.at(now_s, self.half_life_s) + other.at(now_s, self.half_life_s)
                usage.rate, usage.since_s = usage.rate + rate, now_s
                at = at.above
        self._ranks = None

    def _known(self, user: str | None, account: str | None) -> Node | None:
        return self._users.get((self.rules.account_of(user, account), user))

    def _used(self, node: Node, now_s: float) -> float:
        return max(0.0, node.usage.at(now_s, self.half_life_s))

    # -- classic -----------------------------------------------------------------------------------------------------

    def classic(self, user: str | None, account: str | None, now_s: float, dampening: float = 1.0) -> float:
        """The factor from 0 to 1: 0.5 for a user who has used what the shares say, 1 for one who has used nothing."""
        total, at = self._used(self.root, now_s), self._known(user, account)
        if total <= 0.0 or at is None:
            return 1.0
        share, used = self._effective(at, now_s, total)
        if share <= 0.0:
            return 0.0
        return float(2.0 ** max(-1000.0, -used / share / dampening))

    def _effective(self, node: Node, now_s: float, total: float) -> tuple[float, float]:
        """The normalised shares and the effective usage."""
        own, above = self._used(node, now_s) / total, node.above
        if above is None:
            return 1.0, own
        of_level = sum(each.shares for each in above.below)
        part = node.shares / of_level if of_level else 0.0
        share, used = self._effective(above, now_s, total)
        if above.above is None:  # the first tier
            return part, own
        return share * part, own + (used - own) * part

    # -- fair tree ---------------------------------------------------------------------------------------------------

    def ranked(self, user: str | None, account: str | None, now_s: float) -> float:
        """The rank of a user, divided by their number: 1 for the first."""
        if self._ranks is None or self._ranks[0] != now_s:
            self._ranks = now_s, self._rank(now_s)
        found = self._known(user, account)
        return 1.0 if found is None else self._ranks[1][found]

    def _rank(self, now_s: float) -> dict[Node, float]:
        number = len(self._users)
        found: dict[Node, float] = {}
        rank = number
        for tied, user in self._in_order([self.root], now_s):
            if not tied:
                rank = number - len(found)
            found[user] = rank / number
        return found

    def _in_order(self, accounts: list[Node], now_s: float) -> Iterator[tuple[bool, Node]]:
        """The users of tied accounts, those who come first first, each with whether it has the rank of the one before."""
        levels: dict[float, list[Node]] = {}
        for account in accounts:
            for node in account.below:
                levels.setdefault(self._level(node, now_s), []).append(node)
        for level in sorted(levels, reverse=True):
            tied = False
            for node in levels[level]:
                if node.is_user:
                    yield tied, node
                    tied = True
            for at, (is_tied, user) in enumerate(self._in_order([n for n in levels[level] if not n.is_user], now_s)):
                yield (tied if at == 0 else is_tied), user

    def _level(self, node: Node, now_s: float) -> float:
        """The level fair share: shares divided by usage, both relative to those of the same account; infinity for no usage."""
        above = node.above
        assert above is not None  # not asked for the root
        shares, used = sum(each.shares for each in above.below), self._used(above, now_s)
        own = self._used(node, now_s)
        if own <= 0.0 or used <= 0.0:
            return inf
        level = (node.shares / shares if shares else 0.0) / (own / used)
        return float(f"{level:.10g}")  # equal usage is equal, whatever the order of its additions
