"""Random sites with random workloads, run by the simulator and by `site_oracle`, start by start."""

from __future__ import annotations

import argparse
import sys
import time
from random import Random
from typing import Any

import msgspec

from fluxres.clock import FOREVER
from fluxres.instance.accounting import Accounting
from fluxres.simulation import Submission, simulate
from tests.simulation.site_oracle import Asked, Rules, Site

S = 1_000_000
POLICIES = ("fcfs", "easy", "priority", "fairshare")
PER_USER = ("max_jobs", "max_submit_jobs", "max_size", "grp_jobs", "grp_submit_jobs", "grp_size", "max_size_per_job")
PER_ACCOUNT = ("max_jobs_per_account", "max_submit_jobs_per_account", "max_size_per_account")


def limits(random: Random, keys: tuple[str, ...], units: int, chance: float) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key in keys:
        if random.random() < chance:
            found[key] = random.randint(1, units) if "size" in key else random.randint(1, 6)
    if random.random() < chance / 2:
        found["max_wall"] = random.randint(5, 60)
    return found


def rules(random: Random, units: int) -> Rules:
    """A random site; each kind of entry is often missing."""
    chance = random.choice((0.0, 0.1, 0.2, 0.4))
    made: Rules = {}
    if random.random() < 0.6:
        made["partitions"] = {}
        for name in "12"[: random.randint(1, 2)]:
            part = limits(random, (*PER_USER, *PER_ACCOUNT), units, chance) | {"priority": random.randint(0, 5)}
            if random.random() < 0.4:
                part["max_time"] = random.randint(20, 60)
            if random.random() < 0.4:
                part["default_time"] = random.randint(1, 20)
            if random.random() < 0.2:
                part["max_size_of_job"] = random.randint(1, units)
            if random.random() < 0.1:
                part["min_size"] = min(2, part.get("max_size_of_job", 2))
            made["partitions"][name] = part
        if random.random() < 0.8:
            made["partitions"]["1"]["default"] = True
    if random.random() < 0.6:
        made["qos"] = {
            name: limits(random, (*PER_USER, *PER_ACCOUNT), units, chance)
            | {"priority": random.randint(0, 9), "deny_on_limit": random.random() < 0.3}
            for name in random.choice((("normal",), ("normal", "high"), ("low", "high")))
        }
    if random.random() < 0.7:
        made["accounts"] = {}
        for name, parent in (("a", "root"), ("b", "root"), ("c", "b"), ("d", "c"))[: random.randint(1, 4)]:
            account = limits(random, PER_USER, units, chance) | {"parent": parent, "fairshare": random.randint(1, 4)}
            if random.random() < 0.2:
                account["priority"] = random.randint(1, 9)
            if made.get("qos") and random.random() < 0.2:
                account["qos"] = random.choice(list(made["qos"]))
            made["accounts"][name] = account
        if random.random() < 0.3:
            made["accounts"]["root"] = limits(random, PER_USER, units, chance)
    if random.random() < 0.7:
        made["users"] = {}
        for name in ("u", "v", "w")[: random.randint(1, 3)]:
            user = limits(random, PER_USER, units, chance) | {"fairshare": random.randint(1, 3)}
            if made.get("accounts"):
                user["account"] = random.choice(list(made["accounts"]))
            if made.get("qos") and random.random() < 0.3:
                user["qos"] = random.choice(list(made["qos"]))
            if random.random() < 0.3:
                user["priority"] = random.randint(1, 9)
            made["users"][name] = user
    return made


def course(seed: int) -> str:
    """What differs between the simulator and the oracle; empty if nothing does."""
    random = Random(seed)
    units = random.randint(4, 12)
    site = rules(random, units)
    policy = random.choice(POLICIES)
    parts, qualities = site.get("partitions", {}), site.get("qos", {})
    moment, jobs = 0, []
    for number in range(random.randint(5, 40)):
        moment += random.choice((0, 0, 1, random.randint(0, 15)))
        limit = None if random.random() < 0.1 else random.randint(1, 50)
        queue = random.choice([None, *parts, *parts, *(["9"] * (random.random() < 0.05))])
        quality = random.choice([None, *qualities, *(["gone"] * (random.random() < 0.02))])
        account = random.choice([None, None, *site.get("accounts", {}), "x"])
        run, size = random.randint(1, limit or 30), random.randint(1, max(1, round(units / random.choice((1, 1, 2, 4)))))
        jobs.append(Asked(number, moment, run, limit, size, random.choice("uvwx"), account, quality, queue))
    weights = None
    given = policy
    if policy in ("priority", "fairshare"):
        weights = {
            "age": random.choice((0, 1000, 100_000)),
            "size": random.choice((0, 5000)),
            "share": random.choice((0, 20_000)) if policy == "priority" else 100_000,
            "age_max_s": random.choice((20, 100, 1000)),
            "half_life_s": random.choice((10, 50, 1000)),
            "recalculate_s": random.choice((1, 7, 30)),
            "qos": random.choice((0, 3000)),
            "partition": random.choice((0, 2500)),
            "association": random.choice((0, 1500)),
            "favor_small": random.choice((0, 1)),
            "fair_tree": random.choice((0, 1)),
        }
        given = f"{policy}:urgency=0," + ",".join(f"{key}={value}" for key, value in weights.items())
    work = [
        Submission(
            job.id,
            job.submit * S,
            job.run * S,
            FOREVER if job.limit is None else job.limit * S,
            job.size,
            job.user,
            account=job.account,
            qos=job.qos,
            queue=job.queue,
        )
        for job in jobs
    ]
    accounting = msgspec.convert(site, Accounting)
    inventory = random.choice(("auto", "graph"))
    result = simulate(work, units, queue_policy=given, event_order="batched", accounting=accounting, inventory=inventory)
    oracle = Site(site, units, jobs)
    oracle.run("fcfs" if policy == "fcfs" else "easy", weights)
    assert result.schedule is not None
    found = {number: start // S for number, start in result.schedule.starts().items()}
    wanted = {job.id: job.start for job in jobs if job.start is not None}
    if found != wanted:
        first = min(job for job in {*found, *wanted} if found.get(job) != wanted.get(job))
        return f"seed {seed}, {given}: job {first} starts at {found.get(first)}, by the rules at {wanted.get(first)}"
    refused = [job.id for job in jobs if job.refused]
    if sorted(result.refusals.ids, key=int) != refused:
        return f"seed {seed}: refused {result.refusals.ids}, by the rules {[(j.id, j.refused) for j in jobs if j.refused]}"
    left = sum(job.start is None and not job.refused for job in jobs)
    return "" if result.left == left else f"seed {seed}: {result.left} jobs left, by the rules {left}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--courses", type=int, default=10_000)
    given = parser.parse_args()
    begun, wrong = time.monotonic(), 0
    for seed in range(given.seed, given.seed + given.courses):
        differs = course(seed)
        if differs:
            wrong += 1
            print(differs)
    print(f"{given.courses} courses, {wrong} differ, {time.monotonic() - begun:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
