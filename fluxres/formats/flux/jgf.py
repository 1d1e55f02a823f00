"""JGF: resource graphs as JSON documents of nodes and edges (Flux RFC 40), as Fluxion and fluxres write them.

The edges of containment make the containment tree; every other subsystem becomes an auxiliary graph. Fluxion's shorthand, which
leaves out everything below exclusively held pools, is read like any other graph: without what it leaves out.
"""

from __future__ import annotations

from typing import Final

from msgspec import UNSET

from fluxres.documents import json_typed
from fluxres.documents.document import Key
from fluxres.documents.excerpt import shown
from fluxres.documents.source import Source
from fluxres.errors import InputError
from fluxres.formats.flux.jgf_schema import Jgf, RawJgf
from fluxres.formats.flux.jgf_structure import build
from fluxres.formats.loaded import Loaded
from fluxres.formats.notes import keys_passed_over
from fluxres.syntax import idset

WRITERS: Final = ("", "fluxion", "fluxion:", "fluxion:jgf", "fluxion:jgf_shorthand")
"""The values of `writer` for a graph of this form (RFC 40)."""
FREE_RANKS: Final = "free_ranks"
"""Tag of the root: ranks that were released since the graph was written."""


def read(source: Source, *, origin: int | None = None) -> Loaded:
    """The machine of a JGF file.

    Errors: InputError ``FILE:line:column: path``; LimitExceeded.
    Cost: about 2 µs per node; memory about four times the file.
    Source: RFC 40, and the files that Fluxion reads and writes.

    >>> text = b'{"graph": {"nodes": [{"id": "0", "metadata": {"type": "node", "paths": {"containment": "/node0"}}}]}}'
    >>> read(Source(text)).structure.path(0)
    '/node0'
    """
    document, has_unknown_keys = json_typed.decode_leniently(source, RawJgf, whole=Jgf)
    if document.writer is not UNSET:
        require_known_writer(source, document.writer, ["writer"])
    made = build(source, document.graph, Jgf, ("graph",), origin)
    unknown = json_typed.unknown_keys(source, Jgf) if has_unknown_keys or made.has_unknown_keys else []
    passed_over = [*unknown, *(f"graph.{what}" for what in made.passed_over)]
    if document.free_ranks is not UNSET:
        try:
            idset.ranges(document.free_ranks)
        except InputError as error:
            raise InputError(error.message, where=json_typed.where(source, ["free_ranks"]), hint=error.hint) from None
        made.structure.set_tag([0], FREE_RANKS, document.free_ranks)
    return Loaded(made.structure, [], made.label or made.structure.name(0), keys_passed_over(source, passed_over))


def require_known_writer(source: Source, writer: str, path: list[Key]) -> None:
    """Refuse a graph whose `writer` is not Fluxion.

    Errors: InputError at the path.
    """
    if writer not in WRITERS:
        hint = "fluxres reads fluxion:jgf and fluxion:jgf_shorthand"
        raise InputError(f"unknown writer {shown(writer)}", where=json_typed.where(source, path), hint=hint)
