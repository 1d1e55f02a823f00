"""HTTPS with a certificate that nobody else has signed; `localhost.pem` is valid until 2120."""

from __future__ import annotations

from pathlib import Path

import pytest

import fluxres
from fluxres.errors import StoreError
from tests.service.conftest import demo_store, running

HERE = Path(__file__).parent
CERTIFICATE, KEY = str(HERE / "localhost.pem"), str(HERE / "localhost.key")


def test_a_certificate_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    with running(demo_store(tmp_path), "--tls-cert", CERTIFICATE, "--tls-key", KEY) as server:
        assert server.url.startswith("https://")
        with pytest.raises(StoreError, match=r"certificate of the server is refused: self.signed.*export SSL_CERT_FILE=FILE"):
            fluxres.connect(server.url)
        with pytest.raises(StoreError, match="does it speak HTTPS"):
            fluxres.connect(server.url.replace("https:", "http:"))
        monkeypatch.setenv("SSL_CERT_FILE", CERTIFICATE)
        with fluxres.connect(server.url) as graph:
            assert graph.jobs() == []


def test_a_file_that_is_no_certificate(tmp_path: Path) -> None:
    with (
        pytest.raises(AssertionError, match=rf"{KEY}: is no certificate \(PEM\) of this key \(give one that belongs to"),
        running(demo_store(tmp_path), "--tls-cert", KEY, "--tls-key", CERTIFICATE),
    ):
        pass
