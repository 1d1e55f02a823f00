"""Requests from texts and plain values, each content read once.

A workload asks for the same few things again and again: ten thousand jobs, a dozen jobspecs.  Reading one takes as long as
finding its pools, so what was read is kept by its content.  Values are told apart by their bytes as `marshal` writes them, which
tells 1 from 1.0 and true; what it cannot write, or reads back as something else (a number of NumPy), is read anew each time.
"""

from __future__ import annotations

import marshal
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from fluxres.errors import UsageError
from fluxres.syntax import jobspec, options, shape
from fluxres.syntax.jobspec import Request

Wanted = Request | str | Mapping[str, Any]
"""A request; a shape, short options or JSON as text; a jobspec as plain values."""

KEPT: Final = 1024
"""Contents that are remembered, of each sort."""
LENGTH_MAX: Final = 16 * 1024
"""Longer contents are not remembered: together they would be large, and they take long anyway."""
_WRITTEN_AS: Final = 2
"""The format of marshal in which equal values are equal bytes, however they are shared between each other."""


def as_request(wanted: Wanted) -> Request:
    """The request that a text, plain values or a request mean.

    Cost: that of a look-up for contents that were read before.
    Errors: InputError with the place.

    >>> as_request("slot=2/core") is as_request("slot=2/" + "core")
    True
    """
    if isinstance(wanted, Request):
        return wanted
    if isinstance(wanted, str):
        return _of_known_text(wanted) if len(wanted) <= LENGTH_MAX else _of_text(wanted)
    if isinstance(wanted, Mapping):
        return _of_values(wanted)
    raise UsageError(f"a request is a shape, a jobspec or a Request, not {wanted!r:.80}")


def _of_text(text: str) -> Request:
    stripped = text.strip()
    if stripped.startswith("{"):
        from fluxres.documents import yaml_document

        return jobspec.parse(yaml_document.parse(stripped.encode("utf-8", "surrogatepass"), file="jobspec"), dialect="any")
    if stripped.startswith("-"):
        return Request(jobspec.parse_resources(options.of_words(stripped)))
    return Request(shape.vertices(stripped))


_of_known_text = lru_cache(maxsize=KEPT)(_of_text)


def _of_values(values: Mapping[str, Any]) -> Request:
    plain: Any = values
    try:
        written = marshal.dumps(plain, _WRITTEN_AS)
    except ValueError:  # another mapping than a dict, a value of a class, or too deep
        return jobspec.parse(values, dialect="any")
    found = _known_values.get(written)
    if found is None:
        found = jobspec.parse(values, dialect="any")
        if len(written) <= LENGTH_MAX and marshal.loads(written) == values:
            if len(_known_values) >= KEPT:
                del _known_values[next(iter(_known_values))]
            _known_values[written] = found
    return found


_known_values: dict[bytes, Request] = {}
