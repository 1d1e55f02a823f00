"""The loaded graph as a file for drawing programs: dot, or GraphML."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple
from xml.sax.saxutils import escape, quoteattr

from fluxres.errors import InputError
from fluxres.fluxion.graph import Graph


def _dot(graph: Graph) -> Iterator[str]:
    yield "digraph G {\n"
    for vertex in graph.vertices:
        yield f"{vertex.uniq_id} [label={json.dumps(vertex.name, ensure_ascii=False)}];\n"
    for vertex in graph.vertices:
        for edge in vertex.edges:
            yield f"{vertex.uniq_id}->{edge.target.uniq_id} [label={json.dumps(edge.subsystem, ensure_ascii=False)}];\n"
    yield "}\n"


def _graphml(graph: Graph) -> Iterator[str]:
    yield '<?xml version="1.0" encoding="UTF-8"?>\n<graphml xmlns="http://graphml.graphdrawing.org/xmlns">\n'
    yield '  <key id="name" for="node" attr.name="name" attr.type="string"/>\n'
    yield '  <key id="subsystem" for="edge" attr.name="subsystem" attr.type="string"/>\n'
    yield '  <graph id="G" edgedefault="directed">\n'
    for vertex in graph.vertices:
        yield f'    <node id="n{vertex.uniq_id}"><data key="name">{escape(vertex.name)}</data></node>\n'
    for vertex in graph.vertices:
        for edge in vertex.edges:
            ends = f"source={quoteattr(f'n{vertex.uniq_id}')} target={quoteattr(f'n{edge.target.uniq_id}')}"
            yield f'    <edge {ends}><data key="subsystem">{escape(edge.subsystem)}</data></edge>\n'
    yield "  </graph>\n</graphml>\n"


FORMS: Final[dict[str, Callable[[Graph], Iterator[str]]]] = {"dot": _dot, "graphml": _graphml}
"""Writers by name, which is also the extension of the file."""


class Drawing(NamedTuple):
    """The graph as it was loaded, to be written to a file before anything changes it."""

    path: Path
    parts: Iterator[str]

    def write(self, stream: BinaryIO) -> None:
        """Write its parts. Errors: InputError for a name that is no Unicode text."""
        try:
            stream.writelines(part.encode() for part in self.parts)
        except UnicodeEncodeError as error:
            raise InputError(f"cannot be written: {error}", where=str(self.path)) from None


def drawing(graph: Graph, form: str, basename: str) -> Drawing:
    """The file BASENAME.FORM."""
    return Drawing(Path(f"{basename}.{form}"), FORMS[form](graph))
