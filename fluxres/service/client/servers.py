"""Which of several servers a request goes to, and when it is sent again."""

from __future__ import annotations

from collections.abc import Sequence
from http.client import HTTPException, RemoteDisconnected
from ssl import SSLCertVerificationError
from typing import Final

from fluxres import limits
from fluxres.clock import stopwatch
from fluxres.errors import FluxresError, NotLeader, RateExceeded, StoreError, Unavailable
from fluxres.service.client.addresses import Address, followed

_TRIES: Final = 3
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
        may_repeat: whether it may be sent again if it is not known whether it was done.
    """

    def __init__(self, servers: Servers, *, may_repeat: bool) -> None:
        self._servers, self._may_repeat = servers, may_repeat
        self._left, self._until_s = _TRIES, stopwatch() + limits.SERVICE_FOLLOW_SECONDS

    def failed(self, at: Address, error: Failure) -> None:
        """One attempt failed: where the next one goes, after a pause.

        Errors: that of the server, or StoreError if it cannot be reached, when the request is not sent again.
        """
        servers = self._servers
        if isinstance(error, Unavailable):  # nothing was changed
            if not servers.follows or stopwatch() > self._until_s or not servers.turns(at, error):
                raise error
        elif isinstance(error, FluxresError):
            raise error
        else:
            self._left -= 1
            is_over = stopwatch() > self._until_s if servers.is_one_of_several else not self._left
            if is_over or not self._may_repeat:
                raise unreachable(at, error) from None
            servers.turn(at)


def unreachable(at: Address, error: Exception) -> StoreError:
    said = getattr(error, "strerror", None) or str(error) or type(error).__name__
    if isinstance(error, SSLCertVerificationError):
        hint = "if you trust its certificate: export SSL_CERT_FILE=FILE (PEM)"
        return StoreError(f"the certificate of the server is refused: {error.verify_message}", where=str(at), hint=hint)
    hint = "is `fluxres serve` running?"
    if isinstance(error, RemoteDisconnected) and not at.secure:
        hint = "does it speak HTTPS?"
    return StoreError(f"the server cannot be reached: {said}", where=str(at), hint=hint)
