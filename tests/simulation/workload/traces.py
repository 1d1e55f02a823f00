"""Random traces as text, with all features of recorded ones, and the jobs that a reader must make from them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from random import Random

from tests.simulation.oracle import Asked


@dataclass(frozen=True)
class Trace:
    """The text of a trace, the size of its machine, and its jobs in order of submission."""

    text: bytes
    size: int
    jobs: list[Asked]
    refused: list[int | str]


COMMENTS = (
    "; UnixStartTime: 0",
    ";",
    ";; Note: MaxProcs: 7",
    "; Queue: 1 caf\u00e9, sp\xe4t\x0cund \u2028 mehr",
    "",
    "   ",
)


def swf(random: Random, *, size: int | None = None, jobs: int | None = None) -> Trace:
    """A trace of the Standard Workload Format."""
    size = size or random.choice((1, 2, 5, 8, 16))
    number = jobs or random.choice((4, 10, 20, 40))
    between, longest = random.choice((0, 1, 4, 20)), random.choice((2, 10, 40))
    blank, newline = random.choice((" ", "\t", "  ")), random.choice(("\n", "\r\n"))
    found: list[Asked] = []
    refused: list[tuple[int, int]] = []
    lines = ["; Version: 2.2", f"; MaxProcs: {size}"]
    moment = random.choice((0, 0, 17, 1_000_000_000))
    for job in range(1, number + 1):
        moment += random.choice((0, 0, random.randint(0, between)))
        # Some loggers write jobs when they end.
        submit = max(0, moment - random.choice((0, 0, 0, 5)))
        limit = random.choice((random.randint(1, longest), random.randint(1, longest), -1, 0))
        run = random.choice((random.randint(0, longest), max(limit, 0), limit * 2 if limit > 0 else 3, -1 if not job % 9 else 1))
        wanted = random.choice((random.randint(1, size), random.randint(1, max(1, size // 3)), -1, 0))
        given = random.choice((random.randint(1, size), -1)) if wanted > 0 else random.randint(1, size)
        if random.random() < 0.02:
            wanted = size + random.randint(1, 9)
        status = random.choice((1, 1, 0, 5, -1))
        values = [job, submit, -1, run, given, -1, -1, wanted, limit, -1, status, random.randint(-1, 3), 1, -1, 1, 1, -1, -1]
        words = [str(value) for value in values] + ["0.5", "x"] * random.choice((0, 0, 1))
        lines.append(random.choice(("", " ")) + blank.join(words))
        if random.random() < 0.1:
            lines.append(random.choice(COMMENTS))
        if run < 0:
            continue
        count = wanted if wanted > 0 else given
        if count > size:
            refused.append((submit, job))
            continue
        found.append(Asked(job, submit, max(run, 1), limit if limit > 0 else max(run, 1), count))
    text = newline.join(lines).encode(random.choice(("utf-8", "utf-8-sig"))) + random.choice((b"", newline.encode()))
    return Trace(text, size, sorted(found, key=lambda job: job.submit), [job for _, job in sorted(refused)])


def batsim(random: Random, *, size: int | None = None, jobs: int | None = None) -> Trace:
    """A workload of Batsim with times in integer seconds, so that many events are simultaneous."""
    size = size or random.choice((1, 2, 5, 8, 16))
    number = jobs or random.choice((4, 10, 20, 40))
    between, longest = random.choice((0, 1, 4, 20)), random.choice((2, 10, 40))
    found: list[Asked] = []
    refused: list[int | str] = []
    profiles = {str(run): {"type": "delay", "delay": random.choice((run, float(run)))} for run in range(1, longest + 1)}
    written = []
    moment = random.choice((0, 0, 17))
    for at in range(number):
        moment += random.choice((0, 0, random.randint(0, between)))
        job: int | str = random.choice((at, f"w!{at}"))
        run, limit = random.randint(1, longest), random.randint(1, longest)
        count = random.randint(1, size if random.random() < 0.97 else size + 3)
        written.append(
            {"id": job, "profile": str(run), "res": count, "subtime": random.choice((moment, float(moment))), "walltime": limit}
        )
        if count > size:
            refused.append(job)
        else:
            found.append(Asked(job, moment, run, limit, count))
    if random.random() < 0.3:
        random.shuffle(written)
        order = {job["id"]: place for place, job in enumerate(written)}
        found.sort(key=lambda job: (job.submit, order[job.id]))
        refused.sort(key=lambda job: (next(each["subtime"] for each in written if each["id"] == job), order[job]))
    text = json.dumps({"nb_res": size, "jobs": written, "profiles": profiles}, indent=random.choice((None, 1)))
    return Trace(text.encode(), size, found, refused)
