"""Servers that tests start themselves, each in a directory of its own."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from glob import glob
from pathlib import Path

import pytest


def _program(name: str) -> str:
    """A program of PostgreSQL; the test is skipped without it."""
    found = shutil.which(name) or next(iter(sorted(glob(f"/usr/lib/postgresql/*/bin/{name}"), reverse=True)), None)
    if found is None:
        pytest.skip(f"there is no {name} here: install the package postgresql")
    return found


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Postgresql:
    """A running PostgreSQL.

    Args:
        folder: its files.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, free_port()
        self.url = f"postgresql://fluxres@127.0.0.1:{self.port}/postgres"

    def control(self, *arguments: str) -> None:
        options = (
            f"-c listen_addresses=127.0.0.1 -c port={self.port} -c unix_socket_directories={self.folder} -c max_connections=60"
        )
        command = [_program("pg_ctl"), "-D", str(self.folder / "data"), "-w", "-l", str(self.folder / "log"), "-o", options]
        _run([*command, *arguments], self.folder)

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
        server.control("start")
        try:
            yield server
        finally:
            server.control("stop", "-m", "immediate")
