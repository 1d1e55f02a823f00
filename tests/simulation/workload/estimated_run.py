"""Models of estimates on random workloads: ``python -m tests.simulation.workload.estimated_run --cases 1000``.

How many jobs use popular values, and the largest, is computed again from the definitions.  The limits of jobs must have the
distribution of the values and be long enough; a workload is refused only if there is no way to deal them.
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from random import Random

from fluxres.clock import TICKS_PER_S
from fluxres.errors import UsageError
from fluxres.simulation.workload.estimates import Modal, distribution, estimate
from fluxres.simulation.workload.workload import Submission, Workload
from tests.simulation.campaigns import campaign

S = TICKS_PER_S
JOINT = [
    "0:05",
    "0:10",
    "0:15",
    "0:20",
    "0:30",
    "1:00",
    "2:00",
    "3:00",
    "4:00",
    "5:00",
    "6:00",
    "8:00",
    "10:00",
    "12:00",
    "18:00",
]


def popular(largest: int) -> set[int]:
    """The 20 values: the largest, those of all four traces, and round ones from the largest down."""
    found = {largest}
    for text in JOINT:
        hours, minutes = map(int, text.split(":"))
        if hours * 3600 + minutes * 60 < largest:
            found.add(hours * 3600 + minutes * 60)
    for minutes in (12_000, 6000, 3000, 600, 300, 120, 60, 20, 10, 5):
        value = largest - largest % (minutes * 60)
        while value > 0:
            if len(found) < 20:
                found.add(value)
            value -= minutes * 60
    return found


def differences(seed: int) -> list[str]:
    """What is wrong with the limits of a random workload."""
    random = Random(seed)
    count, largest = random.randrange(1, 3000), random.randrange(120, 6000) * 60
    share = random.choice((0, 0, round(random.uniform(0.01, 0.8), 3)))
    long = random.choice((0.1, 0.5, 1.0, 1.2))
    jobs = [Submission(n, n * S, random.randrange(1, int(largest * long)) * S, 10**15, 1) for n in range(count)]
    values = distribution(count, largest, share, Random(seed))
    found = []
    if values.total() != count or max(values) > largest:
        found.append(f"{values.total()} values for {count} jobs, up to {max(values)} of {largest}")
    head = sum(number for value, number in values.items() if value in popular(largest))
    if count > 1000 and abs(head / count - 0.89) > 0.03:
        found.append(f"{head} of {count} jobs use popular values")
    others = sum(14.0491 * math.exp(-0.177531 * rank) + 0.462513 for rank in range(2, 21))
    first = share * 100 or 89 - others
    if count > 1000 and abs(values[largest] / count * 100 - first) > 0.5 + 3000 / count:
        found.append(f"{values[largest]} of {count} jobs use the largest value, expected {first:.1f} %")
    made = Workload("jobs", jobs)
    ordered = zip(
        sorted((min(job.run // S, largest) for job in jobs), reverse=True), sorted(values.elements(), reverse=True), strict=True
    )
    possible = all(run <= value for run, value in ordered)
    try:
        estimate(made, Modal(largest, share), seed)
    except UsageError:
        return [*found, *(["refused although it is possible"] if possible else [])]
    if not possible:
        found.append("not refused")
    given = list(made.submissions)
    if Counter(job.limit // S for job in given) != values:
        found.append("the limits are not distributed like the values")
    found += [f"job {job.id} runs longer than its limit" for job in given if min(job.run, largest * S) > job.limit][:3]
    return found


if __name__ == "__main__":
    sys.exit(campaign(__doc__, differences))
