"""A machine that a request describes: a document in its body."""

from __future__ import annotations

import warnings
from typing import Annotated

from litestar.params import QueryParameter

from fluxres import clock
from fluxres.errors import InputWarning, UsageError
from fluxres.model import ResourceGraph
from fluxres.store.files import loads

DocumentFormat = Annotated[str | None, QueryParameter(name="format", description="Of the document; detected by default.")]


def described(content: bytes, document_format: str | None, name: str | None = None) -> ResourceGraph:
    """The graph that a document describes, which cannot name files of the server.

    Args:
        name: of the graph; that in the document by default.

    Errors: UsageError, InputError.
    """
    if not content.strip():
        raise UsageError("the request has no body", hint="send the content of a file that describes a machine")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InputWarning)
        return loads(content, name=name, format=document_format, clock=clock.system)
