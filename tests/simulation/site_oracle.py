"""The rules of a site (partitions, QOS, accounts, users), implemented from their description as simply as possible.

Every question is answered by looking at all jobs again: nothing is counted in advance, and no class of the package is used.  The
rules are plain dicts.  Times are seconds as integers; ends of a moment come first, then submissions, then one pass.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

Rules = dict[str, dict[str, dict[str, Any]]]


@dataclass
class Asked:
    """A job, to whom it is charged, and what became of it."""

    id: int
    submit: int
    run: int
    limit: int | None
    size: int
    user: str
    account: str | None
    qos: str | None
    queue: str | None
    start: int | None = None
    end: int | None = None
    refused: str = ""
    priority: int = 0
    partition: str | None = None

    @property
    def lasts(self) -> int:
        return self.run if self.limit is None else min(self.run, self.limit)

    @property
    def until(self) -> float:
        assert self.start is not None
        return math.inf if self.limit is None else self.start + self.limit


class Site:
    """A machine of `units` units, its rules, and all its jobs."""

    def __init__(self, rules: Rules, units: int, jobs: list[Asked]) -> None:
        self.rules, self.units, self.jobs = rules, units, jobs
        self.here: list[Asked] = []
        """Jobs that were accepted and have not ended."""
        self.started: list[Asked] = []
        self.seen: list[tuple[str, str]] = []

    # -- whose a job is

    def complete(self, job: Asked) -> str:
        """Fill in defaults; returns why it is refused."""
        rules = self.rules
        parts = rules.get("partitions", {})
        if parts:
            job.partition = job.queue
            if job.partition is None:
                job.partition = next((name for name, part in parts.items() if part.get("default")), None)
            if job.partition not in parts:
                return "partition"
        else:
            job.partition = job.queue
        if job.account is None:
            job.account = rules.get("users", {}).get(job.user, {}).get("account", "root")
        if job.qos is None:
            owners = [rules.get("users", {}).get(job.user, {}), *(account for _, account in self.accounts(job.account))]
            job.qos = next((owner["qos"] for owner in owners if "qos" in owner), None)
            if job.qos is None and "normal" in rules.get("qos", {}):
                job.qos = "normal"
        if job.qos is not None and rules.get("qos") and job.qos not in rules["qos"]:
            return "QOS"
        return ""

    def accounts(self, name: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """An account and all above it."""
        known = self.rules.get("accounts", {})
        yield name, known.get(name, {})
        if name != "root":
            yield from self.accounts(known.get(name, {}).get("parent", "root"))

    def owners(self, job: Asked) -> list[tuple[str, str | None, dict[str, Any]]]:
        assert job.account is not None
        return [
            ("partition", job.partition, self.rules.get("partitions", {}).get(job.partition or "", {})),
            ("qos", job.qos, self.rules.get("qos", {}).get(job.qos or "", {})),
            ("user", job.user, self.rules.get("users", {}).get(job.user, {})),
            *(("account", name, account) for name, account in self.accounts(job.account)),
        ]

    # -- limits

    def bounds(self, job: Asked, what: str, group: str) -> Iterator[tuple[int, list[Asked]]]:
        """Each limit, and the jobs here that count for it."""
        owners = self.owners(job)
        for kind, _, limits in owners:
            if f"max_{what}" in limits:
                same = "account" if kind in ("user", "account") else kind
                yield (
                    limits[f"max_{what}"],
                    [j for j in self.here if j.user == job.user and getattr(j, same) == getattr(job, same)],
                )
                break
        for kind, _, limits in owners[:2]:
            if f"max_{what}_per_account" in limits:
                mine = [j for j in self.here if j.account == job.account and getattr(j, kind) == getattr(job, kind)]
                yield limits[f"max_{what}_per_account"], mine
                break
        for kind, name, limits in owners:
            if f"grp_{group}" not in limits:
                continue
            if kind == "user":
                mine = [j for j in self.here if j.user == job.user and j.account == job.account]
            elif kind == "account":
                mine = [j for j in self.here if name in [each for each, _ in self.accounts(j.account or "root")]]
            else:
                mine = [j for j in self.here if getattr(j, kind) == name]
            yield limits[f"grp_{group}"], mine
            if kind in ("partition", "qos"):
                break

    def first(self, job: Asked, key: str) -> Any:
        return next((limits[key] for _, _, limits in self.owners(job) if key in limits), None)

    def admit(self, job: Asked) -> str:
        """Why it is refused; else its limit is filled in."""
        why = self.complete(job)
        if why:
            return why
        part = self.rules.get("partitions", {}).get(job.partition or "", {})
        wall, longest = self.first(job, "max_wall"), part.get("max_time")
        if job.limit is None:
            stated = [time for time in (part.get("default_time", longest), wall) if time is not None]
            job.limit = min(stated) if stated else None
        asked = math.inf if job.limit is None else job.limit
        if wall is not None and asked > wall:
            return "max_wall"
        if longest is not None and asked > longest:
            return "max_time"
        if not part.get("min_size", 0) <= job.size <= part.get("max_size_of_job", math.inf):
            return "size of partition"
        if self.rules.get("qos", {}).get(job.qos or "", {}).get("deny_on_limit"):
            most = [limit for limit, _ in self.bounds(job, "size", "size")]
            if any(job.size > limit for limit in most) or job.size > (self.first(job, "max_size_per_job") or math.inf):
                return "denied"
        if any(len(mine) >= limit for limit, mine in self.bounds(job, "submit_jobs", "submit_jobs")):
            return "submitted"
        return "machine" if job.size > self.units else ""

    def may_start(self, job: Asked) -> bool:
        one = self.first(job, "max_size_per_job")
        if one is not None and job.size > one:
            return False
        for limit, mine in self.bounds(job, "jobs", "jobs"):
            if sum(j.start is not None for j in mine) >= limit:
                return False
        return all(
            sum(j.size for j in mine if j.start is not None) + job.size <= limit
            for limit, mine in self.bounds(job, "size", "size")
        )

    # -- priority

    def used(self, chosen: Callable[[Asked], bool], now: int, half_life: float) -> float:
        """The decayed usage of jobs, from their whole history."""
        total = 0.0
        for job in self.started:
            if chosen(job):
                assert job.start is not None
                end = now if job.end is None else job.end
                decayed = 2.0 ** (-(now - end) / half_life) - 2.0 ** (-(now - job.start) / half_life)
                total += job.size * half_life / math.log(2) * decayed
        return total

    def tree(self) -> tuple[dict[str, str], dict[tuple[str, str], int], dict[str, int]]:
        """Accounts by the one above, and shares of users and of accounts."""
        accounts = self.rules.get("accounts", {})
        users = {
            (user, each.get("account", "root")): each.get("fairshare", 1) for user, each in self.rules.get("users", {}).items()
        }
        for job in self.started:
            assert job.account is not None
            users.setdefault((job.user, job.account), self.rules.get("users", {}).get(job.user, {}).get("fairshare", 1))
        names = {name for name in (*accounts, *(account for _, account in users)) if name != "root"}
        above = {name: accounts.get(name, {}).get("parent", "root") for name in names}
        return above, users, {name: accounts.get(name, {}).get("fairshare", 1) for name in names}

    def inside(self, account: str | None, name: str) -> bool:
        return name in [each for each, _ in self.accounts(account or "root")]

    def classic(self, job: Asked, now: int, half_life: float) -> float:
        above, users, shares = self.tree()
        total = self.used(lambda _: True, now, half_life)
        if total <= 0 or (job.user, job.account) not in users:
            return 1.0

        def siblings(account: str) -> int:
            return sum(shares[name] for name in shares if above[name] == account) + sum(
                share for (_, owner), share in users.items() if owner == account
            )

        path = [name for name, _ in self.accounts(job.account or "root")][::-1]  # from the root down
        share, effective = 1.0, 1.0
        for depth, name in enumerate([*path[1:], ""]):
            at = path[depth]
            if name:
                part = shares[name] / siblings(at)
                own = self.used(lambda j, name=name: self.inside(j.account, name), now, half_life) / total
            else:
                part = users[job.user, job.account or "root"] / siblings(at) if siblings(at) else 0.0
                own = self.used(lambda j: (j.user, j.account) == (job.user, job.account), now, half_life) / total
            effective = own if depth == 0 else own + (effective - own) * part
            share *= part
        return 2.0 ** (-effective / share)

    def ranked(self, job: Asked, now: int, half_life: float) -> float:
        above, users, shares = self.tree()
        if (job.user, job.account) not in users:
            return 1.0
        ranks: dict[tuple[str, str], int] = {}
        left = len(users)
        rank = left

        def visit(accounts: list[str], tied_with_before: bool) -> None:
            nonlocal left, rank
            rows: list[tuple[float, str, Any]] = []
            for account in accounts:
                of_all = self.used(lambda j, account=account: self.inside(j.account, account), now, half_life)
                named = [("user", key, share) for key, share in users.items() if key[1] == account]
                named += [("zaccount", name, shares[name]) for name in shares if above[name] == account]
                for kind, key, share in named:
                    if kind == "user":
                        own = self.used(lambda j, key=key: (j.user, j.account) == key, now, half_life)
                    else:
                        own = self.used(lambda j, key=key: self.inside(j.account, str(key)), now, half_life)
                    ratio = math.inf if own <= 0 or of_all <= 0 else share / sum(s for *_, s in named) / (own / of_all)
                    rows.append((float(f"{ratio:.10g}"), kind, key))
            tied = tied_with_before
            for value in sorted({row[0] for row in rows}, reverse=True):
                together = [row for row in rows if row[0] == value]
                for _, kind, key in together:
                    if kind == "user":
                        if not tied:
                            rank = left
                        ranks[key] = rank
                        left -= 1
                        tied = True
                below = [key for _, kind, key in together if kind == "zaccount"]
                if below:
                    visit(below, tied)
                tied = False

        visit(["root"], False)
        return ranks[job.user, job.account or "root"] / len(users)

    def relative(self, kind: str, name: str | None) -> float:
        values = {key: each.get("priority", 0) for key, each in self.rules.get(kind, {}).items()}
        most = max(values.values(), default=0)
        return values.get(name or "", 0) / most if most else 0.0

    def association(self, job: Asked) -> float:
        owners = [owner for kind, _, owner in self.owners(job) if kind in ("user", "account")]
        own = next((owner["priority"] for owner in owners if "priority" in owner), 0)
        both = [*self.rules.get("users", {}).values(), *self.rules.get("accounts", {}).values()]
        most = max((owner.get("priority", 0) for owner in both), default=0)
        return own / most if most else 0.0

    def weigh(self, job: Asked, now: int, weights: dict[str, float]) -> int:
        total = weights["age"] * min(1.0, (now - job.submit) / weights["age_max_s"])
        of_size = (self.units - job.size + 1) if weights["favor_small"] else job.size
        total += weights["size"] * of_size / self.units
        factor = self.ranked if weights["fair_tree"] else self.classic
        total += weights["share"] * factor(job, now, weights["half_life_s"])
        total += weights["qos"] * self.relative("qos", job.qos)
        total += weights["partition"] * self.relative("partitions", job.partition)
        total += weights["association"] * self.association(job)
        return int(round(total, 6))

    # -- time

    def run(self, policy: str, weights: dict[str, float] | None) -> None:
        """All jobs to their end; those that never start stay without a start."""
        calculated = 0
        while True:
            moments = [job.submit for job in self.jobs if not job.refused and job not in self.here and job.start is None]
            moments += [job.start + job.lasts for job in self.here if job.start is not None]
            if not moments:
                return
            now = min(moments)
            for job in [job for job in self.here if job.start is not None and job.start + job.lasts == now]:
                job.end = now
                self.here.remove(job)
            for job in self.jobs:
                if job.submit == now and not job.refused and job.start is None and job not in self.here:
                    job.refused = self.admit(job)
                    if not job.refused:
                        self.here.append(job)
                        if weights:
                            job.priority = self.weigh(job, now, weights)
            waiting = [job for job in self.here if job.start is None]
            if weights and now - calculated >= weights["recalculate_s"]:
                calculated = now
                for job in waiting:
                    job.priority = self.weigh(job, now, weights)
            self.look(sorted(waiting, key=lambda job: (-job.priority, job.id)), now, policy)

    def look(self, waiting: list[Asked], now: int, policy: str) -> None:
        reserved: tuple[float, Asked] | None = None
        for job in waiting:
            if not self.may_start(job):
                continue
            if self.fits(job, now, reserved):
                job.start = now
                self.started.append(job)
            elif policy == "fcfs":
                return
            elif reserved is None:
                moments = sorted({j.until for j in self.here if j.start is not None and j.until < math.inf})
                start = next((moment for moment in moments if self.fits(job, moment, None)), None)
                reserved = None if start is None else (start, job)

    def fits(self, job: Asked, start: float, reserved: tuple[float, Asked] | None) -> bool:
        end = math.inf if job.limit is None else start + job.limit
        spans = [(j.start, j.until, j.size) for j in self.here if j.start is not None]
        if reserved is not None:
            head = reserved[1]
            spans.append((reserved[0], math.inf if head.limit is None else reserved[0] + head.limit, head.size))
        moments = [start, *(begin for begin, _, _ in spans if start < begin < end)]
        return all(sum(size for begin, until, size in spans if begin <= t < until) + job.size <= self.units for t in moments)
