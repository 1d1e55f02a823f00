"""Messages to the service manager (sd_notify(3)) of a unit with ``Type=notify``, whose dependents wait until it listens."""

from __future__ import annotations

import logging
import os
import socket
from typing import Final

_VARIABLE: Final = "NOTIFY_SOCKET"

_log = logging.getLogger("fluxres.service")


def notify(*assignments: str) -> None:
    """Send assignments such as ``READY=1``; without a service manager, nothing is sent."""
    address = os.environ.get(_VARIABLE)
    if not address:
        return
    if address.startswith("@"):  # an abstract socket
        address = "\0" + address[1:]
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as opened:
            opened.sendto("\n".join(assignments).encode(), address)
    except OSError as error:
        _log.warning("the service manager cannot be told %s: %s", " ".join(assignments), error)
