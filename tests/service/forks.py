"""Servers as forks of a process that has imported what they need: each is a process of its own, without a second of imports.

    python -m tests.service.forks FD

is that process, with the requests on a socket. Each fork has the descriptors, the environment, the working directory and the
signals that it would have after an exec.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
REQUEST = 1 << 17
"""Bytes of the words and the environment of a command."""
IMPORTED = (
    "fluxres.cli.program",
    "fluxres.cli.commands.serve",
    "fluxres.service.run",
    "uvicorn.lifespan.on",
    "httptools",
    "uvloop",
)


class Fork:
    """`fluxres` in a fork, with what the tests use of a `subprocess.Popen` with pipes for text.

    Args:
        words: after the name of the command.
        bounds: of `fluxres.limits`, where the fork has others.
    """

    def __init__(self, *words: str, bounds: Mapping[str, float]) -> None:
        self.returncode: int | None = None
        self._lock = threading.Lock()
        pipes = [os.pipe() for _ in range(3)]
        from_out, from_errors, from_end = (os.fdopen(read, encoding="utf-8") for read, _ in pipes)
        self.stdout, self.stderr, self._end = from_out, from_errors, from_end
        asked = {"words": words, "environment": dict(os.environ), "folder": os.getcwd(), "bounds": dict(bounds)}
        socket.send_fds(_forking(), [json.dumps(asked).encode()], [write for _, write in pipes])
        for _, write in pipes:
            os.close(write)
        self.pid = int(self._end.readline())

    def wait(self, timeout: float | None = None) -> int:
        """Its code, as `subprocess` has it."""
        with self._lock:
            if self.returncode is None:
                with selectors.DefaultSelector() as selector:
                    selector.register(self._end, selectors.EVENT_READ)
                    if not selector.select(timeout):
                        raise subprocess.TimeoutExpired("fluxres", timeout or 0)
                self.returncode = int(self._end.readline())
                self._end.close()
            return self.returncode

    def poll(self) -> int | None:
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """What else it writes until it ends; it is killed if it does not end in time."""
        if self.stdout.closed:
            return "", ""
        with ThreadPoolExecutor(2) as pool, self.stdout, self.stderr:
            written, errors = pool.submit(self.stdout.read), pool.submit(self.stderr.read)
            try:
                self.wait(timeout)
            except subprocess.TimeoutExpired:
                self.kill()
                raise
            return written.result(), errors.result()


@cache
def _forking() -> socket.socket:
    """The requests of the process that forks, which ends with this one."""
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    command = [sys.executable, "-m", "tests.service.forks", str(there.fileno())]
    with there:  # NumPy's threads would not be in a fork, only the locks that they hold
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            pass_fds=[there.fileno()],
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        )
    atexit.register(_end, here, process)
    return here


def _end(requests: socket.socket, process: subprocess.Popen[bytes]) -> None:
    requests.close()
    process.wait()


def _fork(requests: socket.socket) -> dict[str, Any] | None:
    """Start what is asked for, until nobody asks any more; in a fork, returns what it is to do."""
    with selectors.DefaultSelector() as selector:
        selector.register(requests, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj is not requests:
                    pid, end = key.data
                    os.write(end, b"%d\n" % os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
                    selector.unregister(key.fileobj)
                    os.close(end)
                    os.close(key.fd)
                    continue
                text, fds, *_ = socket.recv_fds(requests, REQUEST, 3)
                if not text:
                    return None
                out, errors, end = fds
                pid = os.fork()
                if pid == 0:
                    os.dup2(out, 1)
                    os.dup2(errors, 2)
                    for other in selector.get_map().values():
                        if other.fileobj is not requests:
                            os.close(other.fd)
                            os.close(other.data[1])
                    for fd in (out, errors, end):
                        os.close(fd)
                    requests.close()
                    return dict(json.loads(text))
                os.close(out)
                os.close(errors)
                os.write(end, b"%d\n" % pid)
                selector.register(os.pidfd_open(pid), selectors.EVENT_READ, (pid, end))


def _main(fd: int) -> int:
    for name in IMPORTED:
        import_module(name)
    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the tests, and they end this process
    asked = _fork(socket.socket(fileno=fd))
    if asked is None:
        return 0
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(asked["environment"])
    os.chdir(asked["folder"])
    sys.argv = ["fluxres", *asked["words"]]
    from fluxres import limits
    from fluxres.cli.main import main

    for name, value in asked["bounds"].items():
        setattr(limits, name, value)
    return main()


if __name__ == "__main__":
    sys.exit(_main(int(sys.argv[1])))
