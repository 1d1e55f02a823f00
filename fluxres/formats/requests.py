"""Requests from any source: a shape, short options, or a jobspec as values, JSON, YAML or a file.

The languages themselves are in ``syntax``; this layer adds files and YAML (places, bounds, one reader for all documents).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from fluxres.clock import Length, length_ticks, seconds
from fluxres.errors import UsageError
from fluxres.formats import source_text, yaml_document
from fluxres.model import parsing
from fluxres.model.parsing import as_request
from fluxres.syntax import jobspec

Source = str | bytes | Path | Mapping[str, Any] | jobspec.Request


class Request(jobspec.Request):
    """What a job asks for (RFC 14); made by :meth:`parse`."""

    __slots__ = ()

    @classmethod
    def parse(
        cls,
        source: str | bytes | Path | Mapping[str, Any] | jobspec.Request,
        *,
        duration_s: Length | None = None,
        format: str | None = None,
    ) -> Request:
        """Read a request of any form.

        Args:
            source: a shape (RFC 46) such as ``slot=4/[core=2;gpu=1]``; short options such as ``-N4 -c8``; a jobspec
                (RFC 14, RFC 25) as values, JSON or YAML text; a Path to a file with one; ``-`` for standard input.
            duration_s: seconds; overrides the duration of the jobspec.
            format: `hyperqueue`, `canary` or `ctest` for text in the language of that system; what only its own rules could
                honour goes into ``attributes["user"]["asked"]["left_out"]`` (:mod:`fluxres.formats.peer_requests`).

        Errors: InputError with file, line, column and place in the document; UsageError for several alternatives.

        >>> Request.parse("slot=4/[core=2;gpu=1]", duration_s=3600).duration_s
        3600.0
        >>> [vertex.type for vertex in Request.parse("gpus=2", format="hyperqueue").vertices()]
        ['slot', 'gpu', 'core']
        """
        found = _read(source) if format is None else _of_peer(source, format)
        if duration_s is None:
            return found
        length = length_ticks(duration_s)
        if length < 1:
            raise UsageError(f"duration_s: expected a positive number of seconds, got {duration_s!r:.80}")
        return replace(found, duration_s=seconds(length))


def _read(source: object) -> Request:
    if isinstance(source, Request):
        return source
    if isinstance(source, Path | bytes) or source == "-":
        return _document(source)
    if isinstance(source, str) and ("\n" in source or source.lstrip().startswith("{")):
        return _document(source.encode())
    return _of(as_request(source))  # type: ignore[arg-type]  # it raises for any other type


def _of(found: jobspec.Request) -> Request:
    return Request(**{field.name: getattr(found, field.name) for field in fields(jobspec.Request)})


def _of_peer(source: object, format: str) -> Request:
    from fluxres.formats import peer_requests

    if not isinstance(source, str | bytes | Path):
        raise UsageError(f"expected text in the language of {format}, got {source!r:.60}", hint="leave the format out")
    if isinstance(source, str) and source != "-":
        text = source
    else:
        data, file, _ = source_text.opened(source)
        text = source_text.decode(data, file)
    found = peer_requests.parse(text, format)
    if len(found) > 1:
        hint = "fluxres.formats.peer_requests.parse returns all of them"
        raise UsageError(f"{len(found)} alternatives, but a request is a single one", where="request", hint=hint)
    return _of(found[0].request)


_known: dict[bytes, Request] = {}
"""Requests of small documents by content: the same few jobspecs recur, and reading one takes a millisecond."""


def _document(source: str | bytes | Path) -> Request:
    data, file, path = source_text.opened(source)
    found = _known.get(data)
    if found is None:
        document = yaml_document.parse(data, file=file, path=path)
        found = _of(jobspec.parse(document.values, dialect="any", position=lambda path: _spot(document, path)))
        if len(data) <= parsing.LENGTH_MAX:
            if len(_known) >= parsing.KEPT:
                del _known[next(iter(_known))]
            _known[data] = found
    return found


def _spot(document: yaml_document.Document, path: tuple[str | int, ...]) -> str:
    line, column = document.position(path)
    return f"{document.file}:{line}:{column}"
