"""A full disk for one store, while everything else can be written."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from fluxres.store import sqlite


def fill(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let SQLite find no room for the index of the log beside this file."""
    connect = sqlite._connect

    def without_room(opened: Path, *, shared: bool = False, alone: bool = False) -> sqlite3.Connection:
        if opened == path and not alone:
            full = sqlite3.OperationalError("disk I/O error")
            full.sqlite_errorcode = min(sqlite._NO_SHARED_MEMORY)
            raise full
        return connect(opened, shared=shared, alone=alone)

    monkeypatch.setattr(sqlite, "_connect", without_room)
