"""Read a trace; its content decides about the format."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from fluxres.documents.source import Source
from fluxres.documents.suggestion import choose_from
from fluxres.errors import InputError, UsageError
from fluxres.simulation.workload import batsim, jobspecs, swf
from fluxres.simulation.workload.workload import Workload

FORMATS: Final[dict[str, Callable[[Source], Workload]]] = {"swf": swf.read, "batsim": batsim.read, "jobs": jobspecs.read}

_HEAD: Final = 1 << 16


def read(name: str, format: str | None = None, processors: str = "requested") -> Workload:
    """A workload from a file (``-`` is standard input), compressed or not; arguments as for `reading.read`.

    Errors: InputError with line and column; UsageError for an unknown format.
    """
    source = Source.named(name)
    if not source.data.strip():
        raise InputError("is empty", where=source.file, hint="a workload is an SWF trace, Batsim JSON, or a list of jobs")
    found = FORMATS.get(format or detect(source.data[:_HEAD]))
    if found is None:
        raise UsageError(f"no workload format {format!r:.80}", hint=choose_from(FORMATS))
    return swf.read(source, processors) if found is swf.read else found(source)


def detect(head: bytes) -> str:
    """The format of a workload by its beginning.

    >>> detect(b"; Version: 2.2"), detect(b'{"jobs": [], "profiles": {}}'), detect(b"- request: node")
    ('swf', 'batsim', 'jobs')
    """
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if start[:1] == b";" or start[:1].isdigit() or (start[:1] == b"-" and start[1:2].isdigit()):
        return "swf"
    return "batsim" if start[:1] == b"{" and (b'"profiles"' in head or b'"profile"' in head) else "jobs"
