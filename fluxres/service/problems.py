"""Errors as problem details (RFC 9457), with the codes and the status of the one table in :mod:`fluxres.errors`."""

from __future__ import annotations

import logging
from copy import copy
from http import HTTPStatus
from typing import Any, Final

import msgspec

from fluxres.errors import (
    STATUS,
    FluxresError,
    InfeasibleRequest,
    InsufficientResources,
    LimitExceeded,
    ServiceFault,
    StoreBusy,
    Unauthorized,
    Unavailable,
)

MEDIA_TYPE: Final = "application/problem+json"
TYPE: Final = "urn:fluxres:error:"
"""What the type of a problem begins with; the code of the error follows."""

_BUSY_S: Final = 1
"""When it makes sense to ask again for what another one has."""
_STORES: Final = tuple(f"{scheme}:" for scheme in ("sqlite", "postgresql", "etcd", "etcds"))

_log = logging.getLogger("fluxres.service")


class Problem(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Why a request failed: RFC 9457's members, and those that the commands print with `--json`."""

    type: str
    title: str
    status: int
    detail: str
    error: str
    message: str
    where: str = ""
    hint: str = ""
    earliest: float | None = None
    reasons: dict[str, str] | list[str] | None = None
    jobs: list[str] | None = None
    graph: str | None = None
    leader: str | None = None
    mistakes: list[dict[str, Any]] | None = None
    unlisted: int | None = None


def status_of(error: FluxresError) -> int:
    return STATUS[type(error)][1]


def body(error: FluxresError, status: int | None = None) -> bytes:
    """The problem of an error, as JSON.

    Args:
        status: of HTTP; that of the table by default.
    """
    status = status_of(error) if status is None else status
    error = _without_address(error)
    facts = {key: value for key, value in _worded(error).to_dict().items() if value is not None}
    phrase = HTTPStatus(status).phrase
    document = {"type": TYPE + error.code, "title": phrase, "status": status, "detail": str(error), **facts}
    return msgspec.json.encode(document, enc_hook=str)  # a place in a text is a text with more to it


def headers(error: FluxresError) -> dict[str, str]:
    """The headers that go with an error."""
    if isinstance(error, Unavailable):
        return {"retry-after": str(error.retry_after_s)}
    if isinstance(error, StoreBusy):
        return {"retry-after": str(_BUSY_S)}
    if isinstance(error, Unauthorized):
        return {"www-authenticate": 'Bearer realm="fluxres"'}
    return {}


def _without_address(error: FluxresError) -> FluxresError:
    """An error that does not tell a client where on its host, or at which database, the server has its store."""
    if not str(error.where).startswith(_STORES):
        return error
    found = copy(error)
    found.where = "the store of the server"
    return found


def _worded(error: FluxresError) -> FluxresError:
    """Refusals as the commands print them."""
    if isinstance(error, InsufficientResources | InfeasibleRequest) and error.explanation is not None:
        from fluxres.render import refusals

        return refusals.worded(error)
    return error


def of_unexpected(error: BaseException, method: str, path: str) -> FluxresError:
    """What a caller learns of an error that is a mistake of the service or of its machine: nothing of its inside.

    The log has the details.
    """
    if isinstance(error, RecursionError):
        return LimitExceeded("the document is nested too deeply")
    _log.error("%s %s failed", method, path, exc_info=error)
    if isinstance(error, MemoryError):
        return Unavailable("not enough memory", hint="ask for less at once")
    return ServiceFault("internal error of the service", hint="its log has the details")
