"""A graph on a server, with the methods of a local one that schedulers use; and a server as the store of the commands.

It needs the standard library only (for asyncio also h11), and imports nothing of the server.
"""

from __future__ import annotations

from fluxres.service.client.graph import RemoteGraph, connect

__all__ = ["RemoteGraph", "connect"]
