"""What is between a program and a server: a proxy that can be cut, or swallow answers."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress


class Link:
    """A connection to a server that can be cut, or lose the answers of the server."""

    def __init__(self, port: int) -> None:
        self._port, self.is_cut, self.is_deaf, self.refused = port, False, False, 0
        self._sockets: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def cut(self) -> None:
        self.is_cut = True
        self._close()

    def heal(self) -> None:
        self.is_cut = self.is_deaf = False

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._threads[0].join()
        self._listener.close()
        self._close()
        for thread in self._threads:
            thread.join()

    def _close(self) -> None:
        for one in self._sockets:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                if self.is_cut:
                    client.close()
                    self.refused += 1
                    continue
                try:
                    server = socket.create_connection(("127.0.0.1", self._port))
                except OSError:  # the server is down
                    client.close()
                    continue
                self._sockets += [client, server]
                for pair in ((client, server), (server, client)):
                    self._threads.append(threading.Thread(target=self._pump, args=(*pair, pair[0] is server)))
                    self._threads[-1].start()

    def _pump(self, source: socket.socket, target: socket.socket, is_answer: bool) -> None:
        with suppress(OSError), source:
            while data := source.recv(1 << 16):
                if not (is_answer and self.is_deaf):
                    target.sendall(data)
        with suppress(OSError):
            target.shutdown(socket.SHUT_RDWR)
