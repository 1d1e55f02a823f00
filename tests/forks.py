"""`fluxres` as forks of a process that has imported what it needs: each is a process of its own, without the time of imports.

    python -m tests.forks LISTENER LIFELINE

is that process, with two descriptors: requests arrive on connections to the socket, and it ends when the pipe is closed.
Each fork has the descriptors, the environment, the working directory and the signals that it would have after an exec.
Those whose connection is closed before they have ended are killed.
"""

from __future__ import annotations

import atexit
import gc
import marshal
import os
import pkgutil
import selectors
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
REQUEST = 1 << 17
"""Bytes of the words and the environment of a command."""
IMPORTED = (
    "fluxres.cli.program",
    "fluxres.service.run",
    "uvicorn.lifespan.on",
    "httptools",
    "uvloop",
)
"""With all modules of `fluxres.cli.commands`."""

PROGRAM = """
import _socket, marshal, os, sys
if len(sys.argv) > 2 and sys.argv[2] in {alone}:
    os.execv({python}, [{python}, "-c", "import sys; from fluxres.cli.main import main; sys.exit(main())", *sys.argv[2:]])
forking = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
forking.connect("\\0" + sys.argv[1])
asked = marshal.dumps({{"words": sys.argv[2:], "environment": dict(os.environ), "folder": os.getcwd(), "bounds": {{}}}})
pipes = b"".join(fd.to_bytes(4, sys.byteorder) for fd in range(3))
forking.sendmsg([asked], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, pipes)])
forking.recv(32)
sys.exit(int(forking.recv(32)) % 256)
"""
"""`fluxres` for shells: it hands its descriptors to a fork and waits, except for commands that are processes of their own."""


def write_program(path: Path, alone: Sequence[str]) -> None:
    """A program that runs `fluxres` in forks; some commands it executes itself, in a new interpreter."""
    code = PROGRAM.format(alone=set(alone), python=repr(sys.executable))
    words = shlex.join([sys.executable, "-ISE", "-c", code, _forking()])
    path.write_text(f'#!/bin/sh\nexec {words} "$@"\n', encoding="utf-8")
    path.chmod(0o755)


def output(*words: str, timeout: float | None = None) -> subprocess.CompletedProcess[str]:
    """`subprocess.run` of `fluxres`, with both its outputs."""
    fork = Fork(*words)
    written, errors = fork.communicate(timeout)
    return subprocess.CompletedProcess(["fluxres", *words], fork.wait(), written, errors)


class Fork:
    """`fluxres` in a fork, with what the tests use of a `subprocess.Popen` with pipes for text.

    Args:
        words: after the name of the command.
        bounds: of `fluxres.limits`, where the fork has others.
        environment: in place of that of this process.
        folder: in place of its working directory.
        terminal: a descriptor for both its outputs, in place of pipes.
    """

    def __init__(
        self,
        *words: str,
        bounds: Mapping[str, float] = {},
        environment: Mapping[str, str] | None = None,
        folder: Path | None = None,
        terminal: int | None = None,
    ) -> None:
        self.returncode: int | None = None
        self._lock = threading.Lock()
        asked = {
            "words": words,
            "environment": dict(os.environ if environment is None else environment),
            "folder": str(folder or Path.cwd()),
            "bounds": dict(bounds),
        }
        self._end = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._end.connect(f"\0{_forking()}")
        pipes = [os.pipe() for _ in range(2)]
        self.stdout, self.stderr = (os.fdopen(read, encoding="utf-8") for read, _ in pipes)
        written = [write if terminal is None else os.dup2(terminal, write) for _, write in pipes]
        with open(os.devnull, "rb") as nothing:
            socket.send_fds(self._end, [marshal.dumps(asked)], [nothing.fileno(), *written])
        for write in written:
            os.close(write)
        self.pid = int(self._end.recv(32))

    def wait(self, timeout: float | None = None) -> int:
        """Its code, as `subprocess` has it."""
        with self._lock:
            if self.returncode is None:
                with selectors.DefaultSelector() as selector:
                    selector.register(self._end, selectors.EVENT_READ)
                    if not selector.select(timeout):
                        raise subprocess.TimeoutExpired("fluxres", timeout or 0)
                self.returncode = int(self._end.recv(32))
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

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

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
def _forking() -> str:
    """The name of the socket of the process that forks, which ends with this one."""
    name = f"fluxres-forks-{os.getpid()}"
    lifeline, ours = os.pipe()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(f"\0{name}")
        listener.listen(64)
        fds = [listener.fileno(), lifeline]
        process = subprocess.Popen(  # NumPy's threads would not be in a fork, only the locks that they hold
            [sys.executable, "-m", "tests.forks", *map(str, fds)],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=fds,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        )
    os.close(lifeline)
    atexit.register(_end, ours, process)
    return name


def _end(ours: int, process: subprocess.Popen[bytes]) -> None:
    os.close(ours)
    process.wait()


def _fork(listener: socket.socket, lifeline: int) -> dict[str, Any] | None:
    """Start what is asked for, until nobody can ask any more; in a fork, returns what it is to do."""
    running: dict[int, tuple[int, socket.socket]] = {}
    with selectors.DefaultSelector() as selector:
        selector.register(listener, selectors.EVENT_READ)
        selector.register(lifeline, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj == lifeline:
                    return None
                if key.fileobj is listener:
                    asking = listener.accept()[0]
                    text, fds, *_ = socket.recv_fds(asking, REQUEST, 3)
                    if not text:
                        asking.close()
                        continue
                    pid = os.fork()
                    if pid == 0:
                        for number, fd in enumerate(fds):
                            os.dup2(fd, number)
                        for fd, (_, other) in running.items():
                            os.close(fd)
                            other.close()
                        for fd in (*fds, lifeline):
                            os.close(fd)
                        with suppress(OSError):  # not before: a test may count what the command has open
                            asking.send(b"%d" % os.getpid())
                        asking.close()
                        listener.close()
                        return dict(marshal.loads(text))
                    for fd in fds:
                        os.close(fd)
                    end = os.pidfd_open(pid)
                    running[end] = pid, asking
                    selector.register(end, selectors.EVENT_READ, end)
                    selector.register(asking, selectors.EVENT_READ, end)
                elif key.data in running:
                    pid, asking = running[key.data]
                    if key.fileobj is asking:  # it was closed
                        selector.unregister(asking)
                        signal.pidfd_send_signal(key.data, signal.SIGKILL)
                        continue
                    del running[key.data]
                    with suppress(OSError):
                        asking.send(b"%d" % os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
                    selector.unregister(key.data)
                    with suppress(KeyError):
                        selector.unregister(asking)
                    os.close(key.data)
                    asking.close()


def _main(listener: int, lifeline: int) -> int:
    from fluxres.cli import commands

    for name in (*IMPORTED, *(f"{commands.__name__}.{module.name}" for module in pkgutil.iter_modules(commands.__path__))):
        import_module(name)
    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the tests, and they end this process
    asked = _fork(socket.socket(fileno=listener), lifeline)
    if asked is None:
        return 0
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(asked["environment"])
    os.chdir(asked["folder"])
    time.tzset()
    sys.stdout.reconfigure(line_buffering=os.isatty(1))
    sys.argv = ["fluxres", *asked["words"]]
    from fluxres import limits
    from fluxres.cli.main import main

    for name, value in asked["bounds"].items():
        setattr(limits, name, value)
    return main()


def _exit(status: int) -> None:
    """As the interpreter ends, but without freeing everything, which would copy the memory of the process that forks."""
    threading._shutdown()  # type: ignore[attr-defined]  # typeshed has only what is documented
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            status = 120
    os._exit(status)


if __name__ == "__main__":
    _exit(_main(*map(int, sys.argv[1:])))
