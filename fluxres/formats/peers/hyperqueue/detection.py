"""The resources that a worker of HyperQueue finds on this machine: the source ``hyperqueue:detect=all``.

The files and masks are those of :mod:`fluxres.formats.machine`, and the rules are HyperQueue's, which differ: a CPU is a thread
and not a core, groups are NUMA domains, quotas count only where the kernel has no NUMA, and variables of vendors are taken as
they are, whether these devices exist or not. ``specs/this-machine.md`` lists the differences.

Source: HyperQueue, resources of workers (``--detect-resources``).
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from fluxres.documents.document import excerpt
from fluxres.documents.suggestion import nearest
from fluxres.errors import UsageError
from fluxres.formats.machine.cgroups import Cgroups
from fluxres.formats.machine.cpus import usable
from fluxres.formats.machine.files import Files
from fluxres.formats.machine.gpus import ADDRESS
from fluxres.formats.machine.memory import memory
from fluxres.formats.machine.nvidia import DRIVER
from fluxres.formats.peers.hyperqueue.environment import detected

PARTS: Final = ("cpus", "mem", "gpus/nvidia", "gpus/amd")
_PLAIN: Final = re.compile(r"[0-9A-Za-z_.:/-]+")


class Found(NamedTuple):
    """The definitions of the pools of a worker, as on its command line; what was ignored, and what was found and where."""

    text: str
    notes: tuple[str, ...] = ()
    seen: tuple[str, ...] = ()


def definitions(
    detect: str = "all",
    root: Path = Path("/"),
    environ: Mapping[str, str] = os.environ,
    affinity: Collection[int] | None = None,
) -> Found:
    """The pools that ``hq worker start --detect-resources`` gives a worker.

    Args:
        detect: ``all``, or some of `PARTS`, separated by commas.
        root, environ, affinity: as for :func:`fluxres.formats.machine.detect.this_machine`.

    Errors: UsageError for an unknown part.
    """
    chosen = [word.strip() for word in detect.split(",")]
    for word in chosen:
        if word not in (*PARTS, "all"):
            raise UsageError(f"unknown part {excerpt(word)}", where="hyperqueue:detect", hint=nearest(word, [*PARTS, "all"]))
    parts = PARTS if "all" in chosen else tuple(part for part in PARTS if part in chosen)
    files = Files(root)
    cgroups = Cgroups(files)
    listed, ignored = detected(environ)
    found: list[str] = []
    if "cpus" in parts:
        found.append(_cpus(files, affinity, cgroups))
    for name in ("gpus/nvidia", "gpus/amd"):
        labels = listed.get(name, ())
        if name in parts and labels:
            found.append(f"{name}=[{','.join(map(_label, labels))}]")
        elif name in parts and name == "gpus/nvidia" and (count := len(files.names(f"{DRIVER}/gpus", ADDRESS))):
            found.append(f"{name}=range(0-{count - 1})")
    if "mem" in parts and (text := _memory(files)):
        found.append(text)
    return Found(" ".join(found), (*files.notes.lines(), *ignored), tuple(f"hyperqueue:detect: {each}" for each in found))


def _cpus(files: Files, affinity: Collection[int] | None, cgroups: Cgroups) -> str:
    """The CPUs of each NUMA domain; numbers from 0 where the kernel has no NUMA."""
    cpus = usable(files, affinity, cgroups).cpus
    groups = [sorted(domain.cpus & cpus) for domain in memory(files, cgroups).domains]
    groups = [group for group in groups if group]
    if not groups:
        quota = cgroups.quota()
        count = max(1, len(cpus) if quota is None else min(len(cpus), int(quota.value)))
        return f"cpus=range(0-{count - 1})"
    each = [f"[{','.join(map(str, group))}]" for group in groups]
    return f"cpus={each[0]}" if len(each) == 1 else f"cpus=[{','.join(each)}]"


def _memory(files: Files) -> str:
    match = re.search(r"MemTotal:\s+([0-9]{1,12}) kB", files.text("/proc/meminfo") or "")
    if match is None or not int(match[1]):
        return ""
    # In MiB, to four decimals.
    units, rest = divmod(int(match[1]) * 10_000 // 1024, 10_000)
    return f"mem=sum({units}{f'.{rest:04}'.rstrip('0') if rest else ''})"


def _label(label: str) -> str:
    return label if _PLAIN.fullmatch(label) else f'"{label}"'
