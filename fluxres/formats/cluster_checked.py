"""``cluster.yaml`` written and read again before it is believed.

This is the one format that says everything, and in the shortest way, by rules that meet in many ways.  So it alone is
not taken at its word: what its own reader does not give back is told, and what could not be read at all is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from fluxres import limits
from fluxres.documents import json_places, yaml_document
from fluxres.documents.document import Document
from fluxres.errors import LimitExceeded
from fluxres.formats import cluster, cluster_write
from fluxres.formats.loaded import Hold, Loaded, Output
from fluxres.graph.compare import equal
from fluxres.graph.structure import Structure

#: characters of a text that is parsed again to see what it says; of a longer one the values are taken that went into it
_PARSED_AGAIN_MAX: Final = 65_536


def write(structure: Structure, allocations: Sequence[Hold] = (), *, name: str | None = None) -> Output:
    """The bytes of a cluster file, and what it does not give back.

    Errors: InputError and LimitExceeded for a machine that could not be read again.
    Cost: writing and reading, some tenths of a second for the largest regular machines.
    """
    document = cluster_write.document(structure, allocations, name=name)
    data = document.text.encode()
    _require_readable(document, len(data))
    again = yaml_document.parse(data, file=document.file) if len(document.text) <= _PARSED_AGAIN_MAX else document
    return Output(data, _differences(cluster.build(again), structure, allocations, name))


def _require_readable(document: Document, size: int) -> None:
    most = limits.DOCUMENT_BYTES_MAX if document.is_json else limits.YAML_BYTES_MAX
    if size > most:
        raise LimitExceeded(f"{size} bytes, and at most {most} are read")
    if size > limits.DOCUMENT_VALUES_MAX and json_places.measure(document.values, document.file)[0] > limits.DOCUMENT_VALUES_MAX:
        raise LimitExceeded(f"more values than the {limits.DOCUMENT_VALUES_MAX} that are read")


def _differences(loaded: Loaded, structure: Structure, allocations: Sequence[Hold], name: str | None) -> list[str]:
    found = equal(structure, loaded.structure)
    if name is not None and loaded.name != name:
        found.append(f"name {name!r}, not {loaded.name!r}")
    if list(allocations) != loaded.allocations:
        missing = [hold for hold in allocations if hold not in loaded.allocations]
        jobs = ", ".join(dict.fromkeys(hold.job for hold in missing[:5]))
        found.append(f"what is held in {len(missing)} windows, of {jobs or 'jobs in another order'}")
    return found
