"""Stores of each kind, as for the tests of the store."""

from __future__ import annotations

from tests.store.conftest import empty, etcd_server, postgresql_server

__all__ = ["empty", "etcd_server", "postgresql_server"]
