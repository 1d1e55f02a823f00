"""Write ``cluster.yaml``, then read it back to verify it.

This is the one format that can express everything, in the shortest form, by rules that interact in many ways. So this writer
alone is not trusted: it reports whatever its own reader does not give back, and refuses to write a file that could not be read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from fluxres import limits
from fluxres.documents import json_places, yaml_document
from fluxres.documents.document import Document
from fluxres.errors import LimitExceeded
from fluxres.formats.cluster import read as cluster
from fluxres.formats.cluster import write as cluster_write
from fluxres.formats.loaded import Hold, Loaded, Output
from fluxres.graph.compare import equal
from fluxres.graph.structure import Structure

#: a text of up to this many characters is parsed again; for a longer one the values that went into it are checked
_PARSED_AGAIN_MAX: Final = 65_536


def write(structure: Structure, allocations: Sequence[Hold] = (), *, name: str | None = None) -> Output:
    """The bytes of a cluster file, and a list of what it does not give back.

    Errors: InputError and LimitExceeded for a machine that could not be read again. Cost: writing and reading, a few tenths of a
    second for the largest regular machines.
    """
    document = cluster_write.document(structure, allocations, name=name)
    data = document.text.encode()
    _require_readable(document, len(data))
    again = yaml_document.parse(data, file=document.file) if len(document.text) <= _PARSED_AGAIN_MAX else document
    return Output(data, _differences(cluster.build(again), structure, allocations, name))


def _require_readable(document: Document, size: int) -> None:
    most = limits.DOCUMENT_BYTES_MAX if document.is_json else limits.YAML_BYTES_MAX
    if size > most:
        raise LimitExceeded(f"{size} bytes, but a reader accepts at most {most}")
    if size > limits.DOCUMENT_VALUES_MAX and json_places.count(document.values, document.file) > limits.DOCUMENT_VALUES_MAX:
        raise LimitExceeded(f"more values than a reader accepts ({limits.DOCUMENT_VALUES_MAX})")


def _differences(loaded: Loaded, structure: Structure, allocations: Sequence[Hold], name: str | None) -> list[str]:
    found = equal(structure, loaded.structure)
    if name is not None and loaded.name != name:
        found.append(f"name {name!r}, not {loaded.name!r}")
    if list(allocations) != loaded.allocations:
        missing = [hold for hold in allocations if hold not in loaded.allocations]
        jobs = ", ".join(dict.fromkeys(hold.job for hold in missing[:5]))
        found.append(f"allocations in {len(missing)} windows, of {jobs or 'jobs in another order'}")
    return found
