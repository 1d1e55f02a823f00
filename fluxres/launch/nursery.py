"""The process that forks the children of the outermost instance: ``python -m fluxres.launch.nursery``.

It has the package loaded and nothing else, whatever the program of the outermost instance has: threads, connections, locks. For
the kernel it is the parent of the children. If it dies, they get SIGTERM. If the program dies, it gets SIGTERM, and they see the
end of their pipes.

Each request on its standard input, a socket, has one answer: a mark with two descriptors starts a child (its process id), the
process id of a child that has ended reaps it (its code).
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Final

from fluxres.launch import lifeline
from fluxres.launch.fork import Here

if TYPE_CHECKING:
    import subprocess

_ARGV: Final = (sys.executable, "-m", "fluxres.launch.nursery")
_MESSAGE_BYTES: Final = 4096
_WARM: Final = ("fluxres.launch.child", "fluxres.store.disk", "fluxres.store.sqlite", "fluxres.syntax.jobspec_schema")
"""What children use."""


class Nursery:
    """The nursery from the point of view of the outermost instance; started with the first child.

    Args:
        mark: of the outermost instance.
        silence_s: for an answer.
    """

    def __init__(self, mark: str, silence_s: float) -> None:
        self._mark, self._silence_s = mark, silence_s
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None

    def start(self, mark: str, streams: tuple[int, int]) -> int:
        if self._process is None:
            self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with theirs:
                self._socket.settimeout(self._silence_s)
                self._process = lifeline.start(_ARGV, mark=self._mark, last_words=signal.SIGTERM, stdin=theirs.fileno())
        return self._ask(mark, streams)

    def wait(self, pid: int) -> int:
        try:
            return self._ask(str(pid))
        except OSError:
            return -signal.SIGTERM  # it ended with the nursery

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _ask(self, message: str, fds: tuple[int, ...] = ()) -> int:
        if self._socket is None:
            raise BrokenPipeError("the nursery has ended")
        try:
            socket.send_fds(self._socket, [message.encode()], fds)
            said = self._socket.recv(_MESSAGE_BYTES)
        except OSError:
            self.close()
            raise
        if not said:
            self.close()
            raise BrokenPipeError("the nursery has ended")
        return int(said)


def main() -> int:
    """The entry point; returns at the end of the socket."""
    os.dup2(2, 1)
    for name in _WARM:
        import_module(name)
    here = Here()
    with socket.socket(fileno=os.dup(0)) as requests, suppress(BrokenPipeError):
        while True:
            said, fds, _, _ = socket.recv_fds(requests, _MESSAGE_BYTES, 2)
            if not said:
                break
            text = said.decode()
            answer = here.start(text, (fds[0], fds[1])) if fds else here.wait(int(text))
            for fd in fds:
                os.close(fd)
            requests.send(str(answer).encode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
