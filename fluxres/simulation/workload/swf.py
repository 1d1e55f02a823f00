"""The Standard Workload Format: 18 numbers per line, the format of the recorded workloads in the Parallel Workloads Archive.

The choice of numbers decides whether results agree with those of others: processors are those requested, else those allocated,
unless the caller chooses otherwise; the limit is the requested time, else the run time; a run time of 0 counts as one second,
because a job that ran at all took some time.  A job that lacks one of these, or was never submitted, is left out and counted by
reason.  Traces of machines that swapped jobs out have a line for the complete job and then one for each part it ran in (status 2
to 4); the parts are left out because they would duplicate the work.
"""

from __future__ import annotations

import codecs
import math
import re
from collections import Counter
from typing import Final

from fluxres.clock import TICKS_PER_S
from fluxres.documents.document import excerpt, plural
from fluxres.documents.source import Source
from fluxres.errors import InputError
from fluxres.simulation.workload.workload import Submission, Workload, name_of

FIELDS: Final = 18
_JOB, _SUBMIT, _WAIT, _RUN, _GIVEN, _WANTED, _LIMIT, _STATUS, _USER = 0, 1, 2, 3, 4, 7, 8, 10, 11
_USED_MEMORY, _WANTED_MEMORY, _GROUP, _APPLICATION, _QUEUE, _PARTITION, _PREVIOUS, _THINK = 6, 9, 12, 13, 14, 15, 16, 17
_READ: Final = (
    *(_JOB, _SUBMIT, _RUN, _GIVEN, _WANTED, _LIMIT, _STATUS, _USER),
    *(_USED_MEMORY, _WANTED_MEMORY, _GROUP, _APPLICATION, _QUEUE, _PARTITION, _PREVIOUS, _THINK, _WAIT),
)
_PARTS: Final = ("2", "3", "4")
"""Status of a line that describes a part of a job."""
_HEADER: Final = re.compile(r";\s*([A-Za-z][\w ]*?)\s*:\s*(.*)")
_NEWLINE: Final = re.compile(r"\r\n?|\n")
_MAX_S: Final = 10**12


def read(source: Source, processors: str = "requested") -> Workload:
    """A workload from SWF text.

    Args:
        processors: which number of a job counts: requested (else allocated), allocated (else requested), or the larger one.

    Errors: InputError with line and column for a value that is not a number or too large, or a line that is not SWF. Columns past
    the 18th are ignored.
    """
    header: dict[str, str] = {}
    left_out: Counter[str] = Counter()
    notes: Counter[str] = Counter()
    found: list[Submission] = []
    ordered, last = True, 0
    whole: set[int | str] = set()
    # Data is ASCII, but comments of old traces have arbitrary encodings, which `splitlines` could break at.
    for number, line in enumerate(_NEWLINE.split(source.data.removeprefix(codecs.BOM_UTF8).decode(errors="replace")), 1):
        words = line.split()
        if not words:
            continue
        if words[0].startswith(";"):
            said = _HEADER.match(line.strip())
            if said is not None:
                header.setdefault(said[1], said[2].strip())
            continue
        made = _submission(words, line, number, source, left_out, notes, processors)
        if made is not None:
            if words[_STATUS] in _PARTS:
                if made.id in whole:
                    left_out["part of a job that is also listed as a whole"] += 1
                    continue
            else:
                whole.add(made.id)
            ordered, last = ordered and made.submit >= last, made.submit
            found.append(made)
    if not ordered:
        found.sort(key=lambda job: job.submit)
        notes["submissions were not sorted"] += 1
    return Workload(name_of(source.file), found, _processors(header), header, left_out=left_out, notes=notes)


def _submission(
    words: list[str], line: str, number: int, source: Source, left_out: Counter[str], notes: Counter[str], which: str
) -> Submission | None:
    if len(words) < FIELDS:
        raise InputError(
            f"expected the {FIELDS} numbers of a job in the Standard Workload Format (SWF), got {plural(len(words), 'value')}",
            where=source.where(number, len(line.rstrip()) + 1),
            hint="-1 stands for a number that is not known",
        )
    values: tuple[float, ...]
    try:
        values = tuple(int(words[at]) for at in _READ)
    except ValueError:
        # Some traces have seconds with fractions.
        values = tuple(_number(words, at, line, number, source) for at in _READ)
    job, submit, run, given, wanted, limit, status, user = values[:8]
    given, wanted = int(given), int(wanted)
    if which == "allocated" and given > 0:
        processors = given
    else:
        processors = max(wanted, given) if which == "larger" else wanted if wanted > 0 else given
    if submit < 0 or run < 0 or processors <= 0:
        missing = "submission time" if submit < 0 else "run time" if run < 0 else "number of processors"
        left_out[f"no {missing}"] += 1
        return None
    if submit > _MAX_S or run > _MAX_S or limit > _MAX_S:
        at = _SUBMIT if submit > _MAX_S else _RUN if run > _MAX_S else _LIMIT
        raise InputError(f"expected seconds below 10^12, got {excerpt(words[at])}", where=source.where(number, _column(line, at)))
    if wanted <= 0 and which != "allocated":
        notes["allocated processors used as those requested"] += 1
    elif given <= 0 and which == "allocated":
        notes["requested processors used as those allocated"] += 1
    if limit <= 0:
        notes["run time used as the requested time"] += 1
        limit = max(run, 1)
    if not run:
        notes["run time 0 counted as 1 s"] += 1
        run = 1
    return Submission(
        int(job),
        round(submit * TICKS_PER_S),
        round(run * TICKS_PER_S),
        round(limit * TICKS_PER_S),
        processors,
        str(int(user)) if user >= 0 else None,
        None,
        16,
        (),
        1 if status == 0 else 0,
        *_fields(*values[8:16]),
        waited=round(values[16] * TICKS_PER_S) if 0 <= values[16] <= _MAX_S else None,
    )


def _fields(
    used: float, wanted: float, group: float, application: float, queue: float, partition: float, previous: float, think: float
) -> tuple[str | None, None, str | None, str | None, int | None, str | None, int | None, int]:
    """The last fields of a submission; a negative number is missing, and so is a number of a job of 0."""
    memory = wanted if wanted > 0 else used
    return (
        _name(group),
        None,
        _name(queue),
        _name(partition),
        int(memory) if memory > 0 else None,
        _name(application),
        int(previous) if previous > 0 else None,
        round(think * TICKS_PER_S) if think > 0 and previous > 0 else 0,
    )


def _name(number: float) -> str | None:
    return str(int(number)) if number >= 0 else None


def _number(words: list[str], at: int, line: str, number: int, source: Source) -> float:
    try:
        value = float(words[at])
        if math.isfinite(value):
            return value
    except ValueError:
        pass
    raise InputError(f"expected a number, got {excerpt(words[at])}", where=source.where(number, _column(line, at)))


def _column(line: str, at: int) -> int:
    return [match.start() for match in re.finditer(r"\S+", line)][at] + 1


def _processors(header: dict[str, str]) -> int | None:
    for key in ("MaxProcs", "MaxNodes"):
        found = re.match(r"\d{1,9}", header.get(key, ""))
        if found and int(found[0]) > 0:
            return int(found[0])
    return None
