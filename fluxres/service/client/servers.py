"""Which of several servers a request goes to, and when it is sent again."""

from __future__ import annotations

import math
from collections.abc import Sequence
from http.client import HTTPException, RemoteDisconnected
from socket import gaierror
from ssl import SSLCertVerificationError
from typing import Final

from fluxres import limits
from fluxres.clock import stopwatch
from fluxres.errors import FluxresError, InDoubt, NotLeader, RateExceeded, StoreError, Unavailable
from fluxres.service.client.addresses import Address, followed
from fluxres.service.client.requests import Request

_TRIES: Final = 3
_SOON_S: Final = 1
"""The client sends a request again if `Retry-After` is at most this; otherwise the caller gets the error."""
_BEFORE_SENDING: Final = (ConnectionRefusedError, gaierror, SSLCertVerificationError)
"""Nothing was sent: there is no connection."""
_OTHER_NAMES: Final = (62, 64)
"""X509_V_ERR_HOSTNAME_MISMATCH and X509_V_ERR_IP_ADDRESS_MISMATCH of OpenSSL, which `ssl` does not name."""
PAUSE_S: Final = 0.2

Failure = FluxresError | OSError | HTTPException


class Servers:
    """One server, or several on one store, of which the leader is found.

    Args:
        known: their addresses.
        follows: whether requests go to the server that leads, and wait for one.
    """

    def __init__(self, known: Sequence[Address], *, follows: bool = True) -> None:
        self.known = list(known)
        self.at = self.known[0]
        self.follows = follows

    @property
    def is_one_of_several(self) -> bool:
        """Whether there may be another server that takes over."""
        return len(self.known) > 1

    def turns(self, at: Address, error: Unavailable) -> bool:
        """Whether another server, or the same one later, may do what this one does not."""
        if isinstance(error, RateExceeded):
            return False
        if not isinstance(error, NotLeader):
            self.turn(at)
            return self.is_one_of_several
        if not error.leader:
            self.turn(at)
            return True
        leader = followed(at, error.leader)
        if leader is None:
            self.turn(at)
            return self.is_one_of_several
        if leader not in self.known:
            self.known.append(leader)
        self.at = leader
        return True

    def turn(self, at: Address) -> None:
        """Ask the next server, unless another thread has turned already."""
        if self.at == at and at in self.known:
            self.at = self.known[(self.known.index(at) + 1) % len(self.known)]


class Attempts:
    """How often one request may be sent.

    Args:
        request: may be sent again, or not, if it is not known whether it was done.
        timeout_s: of one attempt, and of all that a rate delays.
    """

    def __init__(self, servers: Servers, request: Request, timeout_s: float) -> None:
        self._servers, self._request, self._timeout_s = servers, request, timeout_s
        self._was_sent = False
        self._left, self._until_s = _TRIES, math.inf
        self._begun_s = stopwatch()

    def failed(self, at: Address, error: Failure) -> float:
        """One attempt failed: where the next one goes; returns the seconds to wait before it.

        Errors: when the request is not sent again: that of the server, StoreError if it cannot be reached, or InDoubt if the
        change may have been made.
        """
        servers = self._servers
        # From the first failure on: a server that was stopped may answer after a long time that another one leads.
        self._until_s = min(self._until_s, stopwatch() + limits.SERVICE_FOLLOW_SECONDS)
        if isinstance(error, Unavailable):  # nothing was changed
            if servers.follows and (pause_s := self._pause_s(error)) is not None:
                return pause_s
            if not servers.follows or stopwatch() > self._until_s or not servers.turns(at, error):
                raise error
        elif isinstance(error, FluxresError):
            self._left -= 1
            if not (isinstance(error, InDoubt) and self._left and self._request.may_repeat):
                raise error
            self._was_sent = True
        else:
            self._left -= 1
            self._was_sent = self._was_sent or not isinstance(error, _BEFORE_SENDING)
            is_over = stopwatch() > self._until_s if servers.is_one_of_several else not self._left
            if is_over or not self._request.may_repeat:
                raise self._lost(at, error) from None
            servers.turn(at)
        return PAUSE_S

    def refused(self, at: Address, error: Unavailable) -> float:
        """A stream was refused: returns the seconds after which the same server will do it.

        Errors: that of the server if it will not soon; the next request goes to another one then.
        """
        pause_s = self._pause_s(error)
        if pause_s is None:
            self._servers.turns(at, error)
            raise error
        return pause_s

    def _pause_s(self, error: Unavailable) -> float | None:
        """Seconds after which the same server will do it; None if it will not soon.

        A token may send a request again, or a graph was replaced just now.
        """
        if isinstance(error, RateExceeded):
            is_soon = stopwatch() - self._begun_s + error.retry_after_s <= self._timeout_s
        elif type(error) is not Unavailable or error.retry_after_s > _SOON_S or self._servers.is_one_of_several:
            is_soon = False
        else:
            self._left -= 1
            is_soon = self._left > 0
        return error.retry_after_s if is_soon else None

    def _lost(self, at: Address, error: Failure) -> StoreError:
        """The error for a request without an answer."""
        found = unreachable(at, error, self._timeout_s)
        if self._request.is_question or not self._was_sent:
            return found
        hint = "check the current state; a change with an `idempotency_key` can be sent again"
        return InDoubt(f"{found.message}: the change may have been made", where=found.where, hint=hint)


def unreachable(at: Address, error: Exception, timeout_s: float) -> StoreError:
    """The error for a server that does not answer.

    Args:
        timeout_s: how long it was waited for.
    """
    if isinstance(error, TimeoutError):
        return StoreError(f"the server did not answer within {timeout_s:g} s", where=str(at), hint="wait longer with `timeout_s`")
    said = getattr(error, "strerror", None) or str(error) or type(error).__name__
    if isinstance(error, SSLCertVerificationError):
        hint = "if you trust its certificate: export SSL_CERT_FILE=FILE (PEM)"
        if error.verify_code in _OTHER_NAMES:
            hint = "name it as its certificate does"
        said = error.verify_message.rstrip(".")
        return StoreError(f"the certificate of the server is refused: {said}", where=str(at), hint=hint)
    hint = "is `fluxres serve` running?"
    if isinstance(error, RemoteDisconnected) and not at.secure:
        hint = "does it speak HTTPS?"
    return StoreError(f"the server cannot be reached: {said}", where=str(at), hint=hint)
