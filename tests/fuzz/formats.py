"""Rule E1 for every format: any file gives a machine or a FluxresError that names the place.

    python -m tests.fuzz.formats --minutes 5 --format jgf
    python -m tests.fuzz.formats --minutes 30 --atheris --format jgf

The samples in ``data/fuzz/FORMAT`` are damaged at random (:mod:`tests.fuzz.mutation`), mixed with each other, now and
then blown up to a megabyte or packed and damaged, and read as a user reads them: within a second of processor time and bounded
memory.  A file that is read nevertheless must pass the audit, and be written again without a loss that the writer does not report
(rule S1).  A seed and a number repeat a case.  With ``--atheris`` the code that a text reaches decides what is tried next.
"""

from __future__ import annotations

import argparse
import gzip
import resource
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from fluxres import FluxresError
from fluxres.errors import InputError
from fluxres.formats import registry
from fluxres.formats.format import Format, Loaded
from tests.formats.round_trip import ORIGIN, differences, errors, facts_of
from tests.fuzz.documents import MEMORY_BYTES, ROOT, Finding, Tally, require_message, small, watched
from tests.fuzz.mutation import damaged, mutated

CORPUS = ROOT / "data" / "fuzz"
LARGE = 1 << 20
#: pools of machines that are written again: with more, the comparison takes longer than the reader
WRITTEN_MAX = 5_000


def readable() -> list[Format]:
    """The formats that are read and have samples."""
    return [known for known in registry.formats() if known.reader is not None and (CORPUS / known.name).is_dir()]


def samples(name: str) -> list[bytes]:
    """The samples from which fuzzing of a format starts."""
    return [path.read_bytes() for path in sorted((CORPUS / name).iterdir()) if path.is_file()]


def made_wrong(texts: list[bytes], random: Random) -> bytes:
    """A text of a corpus, damaged in one of the ways of this run."""
    text = random.choice(texts)
    how = random.randrange(20)
    if how == 0:
        other, at = random.choice(texts), random.randrange(len(text) + 1)
        text = text[:at] + other[random.randrange(len(other) + 1) :]
    elif how == 1:
        at = random.randrange(len(text) + 1)
        part = text[at : at + random.choice((1, 2, 10, 100, 1000))] or b" "
        return (text[:at] + part * (LARGE // len(part)) + text[at:])[:LARGE]
    elif how == 2:
        return damaged(gzip.compress(text, mtime=0), random)
    return mutated(text, random)


def examine(known: Format, data: bytes, *, by_content: bool) -> str:
    """Read, audit, write, compare: the outcome in a word.

    Errors: Finding for what rules E1 and S1 forbid.
    """
    try:
        with watched("read"):
            loaded: Loaded = registry.read(data, format=None if by_content else known.name, file="f", origin=ORIGIN)
    except FluxresError as error:
        require_message(error)
        if error.message.startswith("cannot be read in format"):
            raise Finding(error.message) from error
        for mistake in error.mistakes if isinstance(error, InputError) else ():
            if not mistake.where.startswith("f"):
                raise Finding(f"no place: {mistake}") from None
        return error.code
    if loaded.structure.n > WRITTEN_MAX:
        return "read, large"
    with watched("check"):
        found = errors(loaded.structure)
    if found:
        raise Finding(f"check: {found[:3]}")
    if by_content:  # what is left of a damaged file may be a file of another format
        known = registry.detect(data) or known
    if known.writer is None:
        return "read"
    _require_same(known, loaded)
    return "read and written"


def _require_same(known: Format, loaded: Loaded) -> None:
    """The machine can be written, and is read back equal except for what was left out."""
    try:
        with watched("write"):
            written = registry.write(
                loaded.structure,
                loaded.allocations,
                reservations=loaded.reservations,
                name=loaded.name,
                format=known.name,
            )
        again = registry.read(written.data, format=known.name, origin=ORIGIN)
    except FluxresError as error:
        raise Finding(f"read and not written again: {error}") from error
    facts = facts_of(written.left_out)
    different = [] if "pools" in facts else differences(loaded.structure, again.structure, facts)
    if different:
        raise Finding(f"not the same after writing: {different[:3]}, left out {written.left_out[:5]}")


def case(formats: dict[str, list[bytes]], seed: str, tally: Tally) -> None:
    """One case, whose format and content the seed decides."""
    random = Random(seed)
    name = random.choice(sorted(formats))
    data = made_wrong(formats[name], random)
    try:
        with small():
            outcome = examine(registry.named(name), data, by_content=random.random() < 0.3)
    except Finding as finding:
        tally.findings.append(f"{name} {seed}: {finding}")
        outcome = "finding"
    tally.cases[f"{name} {outcome}"] += 1


def guided(name: str, minutes: float, folder: Path) -> None:  # pragma: no cover - ends the process
    """Let atheris choose what to try; it ends the process at the first finding, and keeps that file in `folder`."""
    import atheris  # type: ignore[import-not-found]  # an extra tool that need not be there

    with atheris.instrument_imports(include=["fluxres.formats", "fluxres.syntax"]):
        known = registry.named(name)
        for text in samples(name):
            examine(known, text, by_content=False)

    def one(data: bytes) -> None:
        with small():
            examine(known, data, by_content=False)

    seconds = f"-max_total_time={int(minutes * 60)}"
    atheris.Setup([sys.argv[0], seconds, "-max_len=65536", f"-artifact_prefix={folder}/", str(folder), str(CORPUS / name)], one)
    atheris.Fuzz()


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.formats", description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--format", action="append", help="only this one; may be given several times")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="number of the first case, to repeat it")
    parser.add_argument("--cases", type=int, default=sys.maxsize, help="end after this number")
    parser.add_argument("--keep", type=Path, help="write the input of each finding into this folder")
    parser.add_argument("--atheris", action="store_true", help="guided by coverage; of one --format, in the folder --keep")
    given = parser.parse_args(arguments)
    warnings.simplefilter("error", RuntimeWarning)  # of NumPy, which a user would see
    names = given.format or [known.name for known in readable()]
    if given.atheris:
        if len(names) != 1 or given.keep is None:
            parser.error("--atheris needs one --format, and a folder to --keep what it finds")
        given.keep.mkdir(parents=True, exist_ok=True)
        guided(names[0], given.minutes, given.keep)
    formats = {name: samples(name) for name in names}
    tally = Tally()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, before[1]))
    began, number = time.monotonic(), given.first
    while time.monotonic() - began < given.minutes * 60 and number - given.first < given.cases and len(tally.findings) < 20:
        known_before = len(tally.findings)
        case(formats, f"{given.seed}/{number}", tally)
        if given.keep is not None and len(tally.findings) > known_before:
            _keep(given.keep, formats, f"{given.seed}/{number}")
        number += 1
    resource.setrlimit(resource.RLIMIT_AS, before)
    _report(tally, print)
    return 1 if tally.findings else 0


def _keep(folder: Path, formats: dict[str, list[bytes]], seed: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    random = Random(seed)
    name = random.choice(sorted(formats))
    (folder / f"{name}-{seed.replace('/', '-')}").write_bytes(made_wrong(formats[name], random))


def _report(tally: Tally, tell: Callable[[Any], None]) -> None:
    for finding in tally.findings:
        tell(finding)
    tell(tally)


if __name__ == "__main__":
    sys.exit(main())
