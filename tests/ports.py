"""Ports of servers that tests end and begin again: no other server gets one meanwhile."""

from __future__ import annotations

import random
import socket
from contextlib import suppress
from pathlib import Path

_GIVEN_FROM = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text(encoding="ascii").split()[0])
"""From here on, the system gives ports to servers that ask for any."""


def free_port() -> int:
    """A port of this host that is free, and that the system gives to nobody."""
    source = random.SystemRandom()
    for _ in range(1000):
        port = source.randrange(10_000, _GIVEN_FROM)
        with suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            return port
    raise AssertionError("no free port")
